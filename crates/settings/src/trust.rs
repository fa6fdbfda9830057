//! The one question that everything asks which takes something from a working folder: what of it counts?
//!
//! [`FolderTrust`] is the answer. A folder is trusted as a whole if the caller vouches for it or the user's global
//! state file says so ([`marks`]); otherwise item by item, as far as a person has seen the items and agreed with
//! `lathe trust` ([`store`]). [`kinds`] says what each kind of content gives without trust, [`items`] and [`listing`]
//! say what a folder brings, [`folder`] cuts its settings files, and [`review`] puts it into words.
//!
//! Surprising: the key is the real path, and nothing inside the folder is believed, not a `commondir`, not a
//! configuration of git. The author of the folder also wrote those.

mod folder;
mod items;
mod kinds;
pub(crate) mod listing;
pub(crate) mod marks;
pub(crate) mod remembered;
mod review;
pub(crate) mod scheduled;
mod store;

use std::path::{Path, PathBuf};

use crate::problem::SettingsProblem;
use crate::source::TrustChoice;

pub use items::{ContentItem, printable};
pub(crate) use items::{SettingsPart, parts};
pub use kinds::{ContentKind, KindCount, WithoutTrust};
pub(crate) use marks::{look_up, tree_root};
pub use review::WithheldContent;
pub use review::{FolderReview, ItemState, ReviewedItem};
pub(crate) use review::{WithheldReport, reason};
pub use store::{TrustStore, TrustedFolder, TrustedItem};

/// What the question is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrustQuestion<'a> {
    pub folder: &'a Path,
    /// The user's configuration folder.
    pub config_dir: Option<&'a Path>,
    /// The user's global state file.
    pub global_config: Option<&'a Path>,
    pub choice: TrustChoice,
}

/// What counts of a folder.
#[derive(Debug, Clone, Default)]
pub struct FolderTrust {
    basis: TrustBasis,
    problems: Vec<SettingsProblem>,
}

/// Why something counts.
#[derive(Debug, Clone, Default)]
pub enum TrustBasis {
    /// The folder is untrusted.
    #[default]
    Untrusted,
    /// A person trusted these items with `lathe trust`.
    Items(TrustedFolder),
    /// The caller vouches for the folder.
    Caller,
    /// The global state file says that the folder is trusted.
    StateFile(PathBuf),
}

/// How much of an item counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// All of it.
    Fully,
    /// What its kind gives without trust.
    Only(WithoutTrust),
}

/// Determines on what basis a folder is trusted. Reads only files of the user, nothing from the folder. Where one of
/// them is damaged, nothing is trusted because of it, and the problem is kept.
pub(crate) fn trust(question: TrustQuestion<'_>) -> FolderTrust {
    if question.choice == TrustChoice::Given {
        return FolderTrust { basis: TrustBasis::Caller, problems: Vec::new() };
    }
    let mut problems = Vec::new();
    if let Some(state) = question.global_config {
        let (marks, problem) = look_up(state, question.folder);
        problems.extend(problem);
        // Trust in the whole folder includes every item, so the store need not be read.
        if marks.is_trusted {
            return FolderTrust { basis: TrustBasis::StateFile(state.to_owned()), problems };
        }
    }
    let remembered = question.config_dir.map(|dir| TrustStore::in_config_dir(dir).of(question.folder));
    let basis = match remembered {
        Some(Ok(Some(folder))) => TrustBasis::Items(folder),
        Some(Err(problem)) => {
            // Fails closed: with a damaged store it is not known which items a person has seen.
            problems.push(*problem);
            TrustBasis::Untrusted
        }
        Some(Ok(None)) | None => TrustBasis::Untrusted,
    };
    FolderTrust { basis, problems }
}

impl FolderTrust {
    /// Returns why the folder is trusted, or that it is not.
    pub fn basis(&self) -> &TrustBasis {
        &self.basis
    }

    /// Returns whether everything in the folder counts, including what no person has seen.
    pub fn is_whole(&self) -> bool {
        match self.basis {
            TrustBasis::Caller | TrustBasis::StateFile(_) => true,
            TrustBasis::Untrusted | TrustBasis::Items(_) => false,
        }
    }

    /// Returns how much of an item counts. All code that uses something from a folder must ask this first.
    pub fn counts(&self, item: &ContentItem) -> Counts {
        let is_trusted = match &self.basis {
            TrustBasis::Caller | TrustBasis::StateFile(_) => true,
            TrustBasis::Items(folder) => folder.holds(item),
            TrustBasis::Untrusted => false,
        };
        match (is_trusted, item.kind.without_trust()) {
            (true, _) | (false, WithoutTrust::Text | WithoutTrust::Limit) => Counts::Fully,
            (false, less @ (WithoutTrust::Nothing | WithoutTrust::TextOnly)) => Counts::Only(less),
        }
    }

    /// Returns whether a person trusted items of the folder one by one. If so, an item without trust is new or has
    /// changed.
    pub(crate) fn is_by_items(&self) -> bool {
        matches!(self.basis, TrustBasis::Items(_))
    }

    /// Returns what is wrong with the files that store trust; empty if they could be used or were not needed.
    pub(crate) fn problems(&self) -> &[SettingsProblem] {
        &self.problems
    }
}
