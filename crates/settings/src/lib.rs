//! What people write for Lathe: settings files, memory files, output styles.
//!
//! A caller says where things are; nothing here reads the environment, asks or prints. Whatever is wrong in a
//! file comes back as a [`SettingsProblem`] that names the file, the line and what was probably meant.
//!
//! Two rules shape the crate. What a person wrote is checked: a slip is named, and a slip that could drop a
//! limit stops everything ([`SettingsStack::permission_failure`]). And the repository is an attacker: what lies
//! in it may limit a session at once, and may widen it only after a person trusts it, or as far as a person or host
//! granted it through Lathe itself.

mod change;
mod check;
mod child_env;
pub mod doctor;
mod error;
mod file;
pub mod frontmatter;
mod grants;
mod known;
mod layer;
mod load;
mod locate;
pub mod memory;
mod merge;
mod nearest;
mod problem;
mod rules;
mod source;
mod stack;
pub mod styles;
pub mod trust;
mod withhold;
mod write;

pub use change::{Changed, Kept, SettingsWrite};
pub use child_env::Writer;
pub use doctor::{Check, CheckStatus, checks};
pub use error::SettingsError;
pub use file::Stamp;
pub use layer::{Layer, SourcedDirectory};
pub use load::MAX_SETTINGS_BYTES;
pub use problem::{Origin, Position, SettingsProblem, Severity};
pub use source::{ManagedFiles, Sources, StackRequest, TrustChoice};
pub use stack::{PermissionFailure, SettingsStack, SourcedHooks};
pub use trust::scheduled::{JudgedTask, ScheduledTask, ScheduledTasks, TaskChange};
pub use trust::{ContentItem, ContentKind, FolderReview, FolderTrust, TrustStore, WithheldContent};
