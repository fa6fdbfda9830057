//! The engine: mode, working directories and rules of one session, and the order in which they decide.
//!
//! For every call: what is wrong with the input, then deny rules, then ask rules, then checks that nothing
//! lifts, then the mode, then allow rules, then the tool's own default. What a tool's rules mean is in the
//! modules beside this one; updates are in [`crate::update`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lathe_protocol::permission::{PermissionBehavior, PermissionMode};
use serde_json::Value;

use crate::bash::{self, ShownFile};
use crate::decision::{Decision, Denied, Reason, ShownAs};
use crate::files::{self, FileCall};
use crate::message;
use crate::path_rules::{Bases, PathRules};
use crate::paths::{Located, WorkingDir};
use crate::rule::{BadRule, MatchedRule, Parsed, RuleSource, RuleWarning, SourcedRule, current_name};
use crate::ruleset::RuleSet;
use crate::shell::value::Known;
use crate::tools;

/// What a session starts with.
#[derive(Debug, Clone, Default)]
pub struct EngineConfig {
    /// The mode to start in. `auto` is taken for `default`; see [`mode_warning`].
    pub mode: PermissionMode,
    /// Where the session may work; the first is the project root.
    pub working_dirs: Vec<PathBuf>,
    /// The home directory, for `~` and `$HOME`.
    pub home: Option<PathBuf>,
    /// The configuration folder of the user, usually `~/.claude`.
    pub config_dir: Option<PathBuf>,
    /// Whether `bypassPermissions` may be entered at all.
    pub bypass_available: bool,
    /// Whether only managed settings may allow something: allow rules from anywhere else then do not count.
    pub managed_allow_only: bool,
    /// Folders the session may read although they are no working directories: its own outputs, skills.
    pub readable_dirs: Vec<PathBuf>,
    /// The folder of plan files, the one place that may be written in plan mode.
    pub plan_dir: Option<PathBuf>,
    /// Environment variables whose value is known to be the one commands will see, such as `env` of the user's
    /// settings. A command that uses another variable is not known well enough to run unasked.
    pub variables: BTreeMap<String, String>,
}

/// One tool call to decide about.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// Its input.
    pub input: &'a Value,
    /// Where relative paths of the input start: the directory the shell stands in.
    pub cwd: &'a Path,
    /// The server an MCP tool belongs to, where known.
    pub mcp_server: Option<&'a str>,
    /// Whether an MCP server says that the tool only reads. A hint, never a permission.
    pub mcp_read_only: bool,
}

impl Default for Call<'_> {
    fn default() -> Self {
        static NOTHING: Value = Value::Null;
        Self { tool: "", input: &NOTHING, cwd: Path::new(""), mcp_server: None, mcp_read_only: false }
    }
}

/// A decision about a call, and what it is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Whether it may run.
    pub decision: Decision,
    /// For a tool that works on one path: the real place it leads to, through no link.
    pub place: Option<PathBuf>,
}

/// Decides about tool calls.
#[derive(Debug, Clone)]
pub struct Engine {
    config: EngineConfig,
    pub(crate) home: Option<String>,
    /// Working directories; the first is the project root and stays.
    pub(crate) dirs: Vec<WorkingDir>,
    readable: Vec<WorkingDir>,
    pub(crate) deny: RuleSet,
    pub(crate) ask: RuleSet,
    pub(crate) allow: RuleSet,
}

/// A mode that this session cannot enter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "bypassPermissions is not available: the session was not started with permission to skip permissions"
)]
pub struct ModeRefused;

/// What a caller should tell the user about a mode that does not do what its name says.
pub fn mode_warning(mode: PermissionMode) -> Option<&'static str> {
    (mode == PermissionMode::Auto).then_some(
        "permission mode auto needs a classifier that this runtime does not have: default is used instead",
    )
}

/// `auto` has no classifier here.
fn effective(mode: PermissionMode) -> PermissionMode {
    match mode {
        PermissionMode::Auto => PermissionMode::Default,
        other @ (PermissionMode::Default
        | PermissionMode::AcceptEdits
        | PermissionMode::Plan
        | PermissionMode::BypassPermissions
        | PermissionMode::DontAsk) => other,
    }
}

impl Engine {
    /// An engine without rules. A mode that is not available becomes `default`.
    pub fn new(config: EngineConfig) -> Self {
        let mut engine = Self {
            home: config.home.as_ref().and_then(|home| home.to_str()).map(str::to_owned),
            dirs: config.working_dirs.iter().map(|dir| WorkingDir::new(dir)).collect(),
            readable: config.readable_dirs.iter().map(|dir| WorkingDir::new(dir)).collect(),
            deny: RuleSet::new(PermissionBehavior::Deny),
            ask: RuleSet::new(PermissionBehavior::Ask),
            allow: RuleSet::new(PermissionBehavior::Allow),
            config,
        };
        let mode = engine.config.mode;
        if engine.set_mode(mode).is_err() {
            engine.config.mode = PermissionMode::Default;
        }
        engine
    }

    /// Adds rules; returns what is wrong with them. A broken rule that was meant to forbid becomes a question
    /// about its whole tool, so that it is noticed and nothing slips through.
    pub fn add_rules<R: Into<SourcedRule>>(
        &mut self,
        behavior: PermissionBehavior,
        source: RuleSource,
        rules: impl IntoIterator<Item = R>,
    ) -> Vec<RuleWarning> {
        let mut warnings = Vec::new();
        for rule in rules {
            let rule: SourcedRule = rule.into();
            if let Err(problem) = self.add_rule(behavior, source, &rule) {
                warnings.push(RuleWarning { rule, source, problem });
            }
        }
        warnings
    }

    fn add_rule(
        &mut self,
        behavior: PermissionBehavior,
        source: RuleSource,
        rule: &SourcedRule,
    ) -> Result<(), String> {
        let forbids = behavior != PermissionBehavior::Allow;
        if !forbids && self.config.managed_allow_only && source != RuleSource::PolicySettings {
            return Err("only managed settings may allow something on this machine: ignored".to_owned());
        }
        let parsed = match Parsed::read(&rule.text) {
            Ok(parsed) => parsed,
            Err(BadRule::Unclosed { tool } | BadRule::NoContent { tool }) if forbids && !tool.is_empty() => {
                self.ask.add_whole_tool(source, rule.clone(), &tool);
                return Err(format!("it is not closed or empty: every use of {tool} is asked about instead"));
            }
            Err(bad) => return Err(format!("{bad}: ignored")),
        };
        let bases = self.bases(source, rule);
        let set = self.rules_mut(behavior);
        match set.add(source, rule.clone(), &parsed, &bases) {
            Err(problem) if forbids => {
                self.ask.add_whole_tool(source, rule.clone(), &parsed.tool);
                let problem = problem.strip_suffix(": ignored").unwrap_or(&problem);
                Err(format!("{problem}: every use of {} is asked about instead", parsed.tool))
            }
            other => other,
        }
    }

    pub(crate) fn rules_mut(&mut self, behavior: PermissionBehavior) -> &mut RuleSet {
        match behavior {
            PermissionBehavior::Deny => &mut self.deny,
            PermissionBehavior::Ask => &mut self.ask,
            PermissionBehavior::Allow => &mut self.allow,
        }
    }

    /// What the file patterns of a rule are relative to.
    pub(crate) fn bases(&self, source: RuleSource, rule: &SourcedRule) -> Bases {
        let roots: Vec<PathBuf> =
            self.dirs.first().map(|dir| vec![dir.written.clone(), dir.real.clone()]).unwrap_or_default();
        let home = self.config.home.clone();
        let anchors = match source {
            RuleSource::UserSettings => self.config.config_dir.clone().into_iter().collect(),
            RuleSource::FlagSettings => match rule.file.as_deref().and_then(Path::parent) {
                Some(parent) => vec![parent.to_owned()],
                None => roots.clone(),
            },
            RuleSource::ProjectSettings
            | RuleSource::LocalSettings
            | RuleSource::PolicySettings
            | RuleSource::CliArg
            | RuleSource::Command
            | RuleSource::Session => roots.clone(),
        };
        Bases { roots, home, anchors }
    }

    /// Every rule in force with who made it.
    pub fn rules(&self) -> impl Iterator<Item = (PermissionBehavior, RuleSource, &SourcedRule)> {
        let sets = [
            (PermissionBehavior::Allow, &self.allow),
            (PermissionBehavior::Deny, &self.deny),
            (PermissionBehavior::Ask, &self.ask),
        ];
        sets.into_iter().flat_map(|(behavior, set)| {
            set.entries().iter().map(move |(source, rule)| (behavior, *source, rule))
        })
    }

    /// The mode in force.
    pub fn mode(&self) -> PermissionMode {
        self.config.mode
    }

    /// Somebody forbids `bypassPermissions` from now on; a session that is in it goes back to asking.
    pub fn forbid_bypass(&mut self) {
        self.config.bypass_available = false;
        if self.config.mode == PermissionMode::BypassPermissions {
            self.config.mode = PermissionMode::Default;
        }
    }

    /// Changes the mode.
    pub fn set_mode(&mut self, mode: PermissionMode) -> Result<(), ModeRefused> {
        if mode == PermissionMode::BypassPermissions && !self.config.bypass_available {
            return Err(ModeRefused);
        }
        self.config.mode = effective(mode);
        Ok(())
    }

    /// The working directories, the project root first.
    pub fn working_dirs(&self) -> impl Iterator<Item = &Path> {
        self.dirs.iter().map(|dir| dir.written.as_path())
    }

    /// Lets the session read a folder that is no working directory: its own outputs and the like.
    pub fn add_readable(&mut self, dir: &Path) {
        self.readable.push(WorkingDir::new(dir));
    }

    /// The rule that takes a tool out of the model's list, if one does: a deny rule for all of it.
    pub fn removes_tool(&self, tool: &str, mcp_server: Option<&str>) -> Option<MatchedRule> {
        let rule = self.deny.tool(&current_name(tool), mcp_server)?;
        Some(self.deny.matched(rule))
    }

    /// Decides about one call.
    pub fn decide(&self, call: &Call<'_>) -> Decision {
        self.judge(call).decision
    }

    /// Decides about one call, and says which place on disk the decision is about. Whoever carries the call out
    /// must use that place: the path of the input may lead elsewhere by then.
    pub fn judge(&self, call: &Call<'_>) -> Judged {
        let tool = current_name(call.tool);
        let file = FileCall::read(self, call, &tool);
        let place = file.as_ref().map(|file| file.located.place().to_owned());
        let decision = match (self.denied_by_rule(call, &tool), &file, tool.as_str()) {
            (Some(denied), _, _) => Decision::Deny(denied),
            (None, Some(file), _) => match files::input_denied(self, file) {
                Some(denied) => Decision::Deny(denied),
                None => files::decide(self, call, &tool, file),
            },
            (None, None, "Bash" | "Monitor") => bash::decide(self, call, &tool),
            (None, None, _) => tools::decide(self, call, &tool),
        };
        Judged { decision, place }
    }

    /// What is wrong with the input of a file tool before anything else is asked: the reference refuses such a
    /// call before hooks run. [`Self::decide`] says the same; calling this is optional.
    pub fn input_denied(&self, call: &Call<'_>) -> Option<Denied> {
        let file = FileCall::read(self, call, &current_name(call.tool))?;
        files::input_denied(self, &file)
    }

    /// Deny rules for the whole tool or for one of its inputs.
    fn denied_by_rule(&self, call: &Call<'_>, tool: &str) -> Option<Denied> {
        let denied = |rule: usize, message: String| Denied {
            reason: Reason::Rule(self.deny.matched(rule)),
            message,
            shown_as: ShownAs::Denial,
            was_question: false,
        };
        // A monitor runs commands like Bash does.
        let names: &[&str] = if tool == "Monitor" { &["Monitor", "Bash"] } else { &[tool] };
        for name in names {
            if let Some(rule) = self.deny.tool(name, call.mcp_server) {
                return Some(denied(rule, message::denied_tool(tool)));
            }
            if let Some((parameter, rule)) = self.deny.parameter(name, call.input) {
                return Some(denied(rule, message::denied_parameter(tool, &parameter)));
            }
        }
        None
    }

    /// Whether a shell command is known to change nothing, so that it may run beside others.
    pub fn shell_is_read_only(&self, command: &str, cwd: &Path) -> bool {
        bash::is_read_only(self, command, cwd)
    }

    /// The file that a shell command shows, if showing it is all it does: the model has read it then.
    pub fn shell_shows(&self, command: &str, cwd: &Path) -> Option<ShownFile> {
        bash::shown_file(self, command, cwd)
    }

    /// Says of paths whether a rule denies reading them: for tools that walk through directories. `None` when no
    /// rule denies any.
    pub fn read_filter(&self) -> Option<impl Fn(&Path) -> bool + Send + Sync + 'static> {
        let rules = Arc::clone(&self.deny.reads);
        (!rules.is_empty()).then_some(move |path: &Path| {
            Located::of(path, Path::new("/")).forms().any(|form| rules.find(form).is_some())
        })
    }

    /// Whether a rule denies reading a file.
    pub fn read_denied(&self, path: &Path) -> bool {
        !self.deny.reads.is_empty()
            && self.forbidden_path(&self.deny.reads, &Located::of(path, Path::new("/"))).is_some()
    }

    pub(crate) fn known(&self) -> Known<'_> {
        Known { home: self.home.as_deref(), variables: &self.config.variables }
    }

    pub(crate) fn config_dir(&self) -> Option<&Path> {
        self.config.config_dir.as_deref()
    }

    pub(crate) fn home_dir(&self) -> Option<&Path> {
        self.config.home.as_deref()
    }

    pub(crate) fn root(&self) -> &Path {
        self.dirs.first().map_or(Path::new("/"), |dir| &dir.written)
    }

    /// A path of a tool input, where `~` is the home directory.
    pub(crate) fn locate(&self, path: &str, cwd: &Path) -> Located {
        let home = self.home.as_deref();
        match (path.strip_prefix('~'), home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                Located::new(&format!("{home}{rest}"), cwd)
            }
            _ => Located::new(path, cwd),
        }
    }

    /// A forbidding rule that matches a path in any of its forms.
    pub(crate) fn forbidden_path(&self, rules: &PathRules, located: &Located) -> Option<usize> {
        located.forms().filter_map(|form| rules.find(form)).min()
    }

    /// A rule that permits reading a path: all of its forms must be covered.
    pub(crate) fn permitted_read(&self, located: &Located) -> Option<usize> {
        permitted(&self.allow.reads, located)
    }

    /// A rule that permits reading everything below a directory: any name in any folder of it.
    pub(crate) fn permitted_tree(&self, located: &Located) -> Option<usize> {
        let any = Path::new("\u{1}/\u{1}");
        let mut found = None;
        for form in located.forms() {
            found = Some(self.allow.reads.find(&form.join(any))?);
        }
        found.filter(|_| located.real.is_ok())
    }

    /// A rule that permits editing a path: all of its forms must be covered.
    pub(crate) fn permitted_edit(&self, located: &Located) -> Option<usize> {
        permitted(&self.allow.edits, located)
    }

    /// Whether a path may be read without asking.
    pub(crate) fn may_read(&self, located: &Located) -> bool {
        located.inside(&self.dirs).is_some() || located.inside(&self.readable).is_some()
    }

    pub(crate) fn is_plan_file(&self, located: &Located) -> bool {
        let plans: Vec<WorkingDir> = self.config.plan_dir.iter().map(|dir| WorkingDir::new(dir)).collect();
        located.inside(&plans).is_some()
    }
}

fn permitted(rules: &PathRules, located: &Located) -> Option<usize> {
    if located.real.is_err() {
        return None;
    }
    let mut found = None;
    for form in located.forms() {
        found = Some(rules.find(form)?);
    }
    found
}
