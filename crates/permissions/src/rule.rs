//! A rule as people write it: `Tool` or `Tool(specifier)`, its source, and what is wrong with it.
//!
//! Only the outer syntax is here; what a specifier means for its tool is compiled in [`crate::ruleset`]. A rule never
//! prevents a start: an invalid rule becomes a warning, and if it was meant to deny or ask, its whole tool is asked
//! about.

use std::fmt;
use std::path::PathBuf;

use lathe_protocol::permission::{PermissionBehavior, PermissionRule, PermissionUpdateDestination};
use lathe_protocol::tool_names::current_name;
use lathe_protocol::{CallSubject, SettingsSource};

/// Where a rule was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleSource {
    /// A settings file, or `--settings`.
    Settings(SettingsSource),
    /// `--allowedTools` and similar flags.
    CliArg,
    /// The frontmatter of a slash command or skill.
    Command,
    /// Granted while the session ran.
    Session,
}

impl RuleSource {
    /// Returns the name of the source on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Settings(source) => source.as_str(),
            Self::CliArg => "cliArg",
            Self::Command => "command",
            Self::Session => "session",
        }
    }
}

impl From<PermissionUpdateDestination> for RuleSource {
    fn from(destination: PermissionUpdateDestination) -> Self {
        match destination {
            PermissionUpdateDestination::UserSettings => Self::Settings(SettingsSource::User),
            PermissionUpdateDestination::ProjectSettings => Self::Settings(SettingsSource::Project),
            PermissionUpdateDestination::LocalSettings => Self::Settings(SettingsSource::Local),
            PermissionUpdateDestination::Session => Self::Session,
            PermissionUpdateDestination::CliArg => Self::CliArg,
        }
    }
}

/// A rule and the place where it is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourcedRule {
    /// `Tool` or `Tool(specifier)`.
    pub text: String,
    /// The file that contains it.
    pub file: Option<PathBuf>,
    /// The line in that file, from 1.
    pub line: Option<u32>,
}

impl From<&str> for SourcedRule {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }
}

impl From<String> for SourcedRule {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

/// The rule that decided, with the place where it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchedRule {
    /// The effect of the rule.
    pub behavior: PermissionBehavior,
    /// The source of the rule.
    pub source: RuleSource,
    /// The rule as written, with file and line where known.
    pub rule: SourcedRule,
}

impl MatchedRule {
    /// Returns the rule in its wire form, with the tool under its current name; a text that cannot be parsed becomes
    /// the tool name as a whole.
    pub fn to_wire(&self) -> PermissionRule {
        match Parsed::read(&self.rule.text) {
            Ok(parsed) => parsed.to_wire(),
            Err(_) => PermissionRule { tool_name: self.rule.text.clone(), ..PermissionRule::default() },
        }
    }
}

impl fmt::Display for MatchedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rule {} from {}", self.behavior.as_str(), self.rule.text, self.source.as_str())?;
        if let Some(file) = &self.rule.file {
            write!(f, " ({}", file.display())?;
            if let Some(line) = self.rule.line {
                write!(f, ":{line}")?;
            }
            write!(f, ")")?;
        }
        Ok(())
    }
}

/// A warning about a rule. The text also says what became of the rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleWarning {
    /// The rule as written, with file and line where known.
    pub rule: SourcedRule,
    /// The source of the rule.
    pub source: RuleSource,
    /// What is wrong, and what was done about it.
    pub problem: String,
}

impl fmt::Display for RuleWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.rule.file, self.rule.line) {
            (Some(file), Some(line)) => write!(f, "{}:{line}: ", file.display())?,
            (Some(file), None) => write!(f, "{}: ", file.display())?,
            (None, _) => write!(f, "{}: ", self.source.as_str())?,
        }
        write!(f, "permission rule `{}`: {}", self.rule.text, self.problem)
    }
}

/// A parsed rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// The tool, by its current name.
    pub tool: String,
    /// The text in the parentheses; `None` covers the whole tool.
    pub content: Option<String>,
}

/// Why a rule cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadRule {
    #[error("it is empty")]
    Empty,
    #[error("the parentheses are not closed")]
    Unclosed { tool: String },
    #[error("`{tool}` is not a tool name")]
    NotAName { tool: String },
    #[error("the parentheses are empty")]
    NoContent { tool: String },
}

impl Parsed {
    /// Splits `Tool(content)` into its parts, with the tool under its current name; `Tool(*)` is read as `Tool`. The
    /// errors name the tool where it is known, so that a broken forbidding rule can become a question.
    pub(crate) fn read(text: &str) -> Result<Self, BadRule> {
        let text = text.trim();
        if text.is_empty() {
            return Err(BadRule::Empty);
        }
        let (tool, content) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => match rest.strip_suffix(')') {
                Some(content) => (tool.trim_end(), Some(content)),
                None => return Err(BadRule::Unclosed { tool: current_name(tool.trim_end()).to_owned() }),
            },
        };
        let tool = current_name(tool).to_owned();
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.*:".contains(c);
        if tool.is_empty() || !tool.chars().all(allowed) {
            return Err(BadRule::NotAName { tool });
        }
        match content {
            None => Ok(Self { tool, content: None }),
            Some(content) if content.trim().is_empty() => Err(BadRule::NoContent { tool }),
            // `Tool(*)` is another way to write `Tool`.
            Some(content) if content.trim() == "*" => Ok(Self { tool, content: None }),
            Some(content) => Ok(Self { tool, content: Some(content.to_owned()) }),
        }
    }

    /// Returns the rule in the form of the protocol.
    pub(crate) fn to_wire(&self) -> PermissionRule {
        PermissionRule {
            tool_name: self.tool.clone(),
            rule_content: self.content.clone(),
            ..PermissionRule::default()
        }
    }
}

/// Returns the text form of a rule from the wire: `Tool` or `Tool(content)`. Nothing is checked or escaped.
pub fn rule_text(rule: &PermissionRule) -> String {
    match &rule.rule_content {
        Some(content) => format!("{}({content})", rule.tool_name),
        None => rule.tool_name.clone(),
    }
}

/// The name that rules about shell commands are written for, whatever tool runs the command.
const SHELL_RULES: &str = "Bash";

/// Returns the names under which rules may cover a call: the tool's own and, for a shell command, `Bash`.
pub(crate) fn rule_names<'t>(
    tool: &'t str,
    subject: &CallSubject,
) -> impl Iterator<Item = &'t str> + use<'t> {
    let is_shell = matches!(subject, CallSubject::Shell { .. }) && tool != SHELL_RULES;
    std::iter::once(tool).chain(is_shell.then_some(SHELL_RULES))
}

/// Splits the value of `--allowedTools` into the texts of rules: they are separated by commas or blanks outside
/// parentheses. The texts are not checked; after a parenthesis that is not closed, the rest of the list is one rule.
pub fn parse_rule_list(list: &str) -> Vec<String> {
    let mut rules = Vec::new();
    let mut current = String::new();
    let mut depth = 0_usize;
    for c in list.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (c == ',' || c.is_whitespace()) {
            if !current.is_empty() {
                rules.push(std::mem::take(&mut current));
            }
        } else {
            current.push(c);
        }
    }
    if !current.is_empty() {
        rules.push(current);
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_split_outside_parentheses_only() {
        assert_eq!(parse_rule_list("Bash(git *),Read mcp__x"), ["Bash(git *)", "Read", "mcp__x"]);
        assert_eq!(parse_rule_list("Bash(touch a,b *)"), ["Bash(touch a,b *)"]);
        assert_eq!(parse_rule_list(" , ,Edit,\tWrite ,"), ["Edit", "Write"]);
        assert_eq!(parse_rule_list("Bash(a (b) c),X"), ["Bash(a (b) c)", "X"]);
        assert!(parse_rule_list("").is_empty());
    }

    #[test]
    fn rules_come_apart() {
        let parsed = |text: &str| Parsed::read(text).map(|rule| (rule.tool, rule.content));
        assert_eq!(parsed("Bash"), Ok(("Bash".into(), None)));
        assert_eq!(parsed("Bash(*)"), Ok(("Bash".into(), None)));
        assert_eq!(parsed("Task(Explore)"), Ok(("Agent".into(), Some("Explore".into()))));
        assert_eq!(parsed("Bash(echo (a))"), Ok(("Bash".into(), Some("echo (a)".into()))));
        assert_eq!(parsed("Bash(rm *"), Err(BadRule::Unclosed { tool: "Bash".into() }));
        assert_eq!(parsed("Bash()"), Err(BadRule::NoContent { tool: "Bash".into() }));
        assert_eq!(parsed("  "), Err(BadRule::Empty));
        assert!(matches!(parsed("rm -rf /"), Err(BadRule::NotAName { .. })));
        assert_eq!(parsed("mcp__*"), Ok(("mcp__*".into(), None)));
        assert_eq!(parsed("__proto__"), Ok(("__proto__".into(), None)));
    }
}
