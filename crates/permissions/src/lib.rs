//! Rules, modes, shell analysis: one decision with its reason.

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
mod repository;
mod rule;
mod ruleset;
mod shell;
mod suggest;
mod tools;
mod update;

pub use decision::{Allowed, Asked, Decision, Denied, HookVerdict, Reason, ShownAs, resolve_without_host};
pub use engine::{Call, Engine, EngineConfig, ModeRefused, mode_warning};
pub use explain::{ExplainedPart, Explanation};
pub use rule::{MatchedRule, RuleSource, RuleWarning, SourcedRule, parse_rule_list, rule_text};
pub use update::{Applied, SettingsChange, SettingsWrite, UpdateError, settings_file};
