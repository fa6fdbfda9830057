//! Whether a tool call may run: rules, modes, working directories and shell analysis, in one decision with its
//! reason.
//!
//! [`PermissionEngine::decide`] is the whole crate: a described call goes in, allow, ask or deny comes out, with the
//! rule that decided, the texts for people and for the model, and the updates that would settle the question for good.
//! What a call is about is said by its tool ([`lathe_protocol::CallSubject`]); the only tool names known here are those
//! that people write into rules. Nothing is asked here and nothing is written; the disk is looked at only to follow
//! paths and to see whether a repository can make git run programs.
//!
//! The surprising thing: the shell is parsed by hand. An error-tolerant grammar guesses what a broken or odd
//! command means; this one refuses, and what is refused is never allowed.

mod bash;
mod command_rules;
mod decision;
mod domain;
mod engine;
mod explain;
mod files;
mod glob;
mod message;
mod path_rules;
mod paths;
mod protected;
mod question;
mod repository;
mod rule;
mod ruleset;
mod scope;
mod shell;
mod suggest;
mod tools;
mod update;

pub use bash::ShownFile;
pub use decision::{
    AllowBasis, Allowed, AskedDecision, Decision, Denied, HookVerdict, Reason, ShownAs, resolve_without_host,
    resolve_without_surface,
};
pub use engine::{EngineConfig, Judged, PermissionEngine};
pub use explain::{ExplainedPart, Explanation};
pub use question::{DescribedCall, PermissionQuestion};
pub use rule::{MatchedRule, RuleSource, RuleWarning, SourcedRule, parse_rule_list, rule_text};
pub use scope::{ModeRefused, PermissionScope, PermissionScopeConfig, mode_warning};
pub use update::UpdateError;
