//! Rules, modes, shell analysis: one decision with its reason.

mod decision;
mod engine;
mod message;
mod rule;

pub use decision::{Allowed, Asked, Decision, Denied, HookVerdict, Reason, ShownAs, resolve_without_host};
pub use engine::{Call, Engine, EngineConfig, ModeRefused, mode_warning};
pub use rule::{MatchedRule, RuleSource, RuleWarning, SourcedRule, parse_rule_list, rule_text};
