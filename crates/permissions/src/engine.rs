//! The engine: the rules of one session, and the order in which they decide.
//!
//! The order for every call: an invalid input, deny rules, ask rules, checks that no rule can lift, the mode, allow
//! rules, and finally the default for the subject of the call. What rules mean for each subject is in the other modules
//! of this crate; updates are in [`crate::update`]. Mode, directories and the current folder are not kept here: they
//! come with each question.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lathe_protocol::permission::{PermissionBehavior, PermissionMode};
use lathe_protocol::tool_names::current_name;
use lathe_protocol::{CallSubject, SettingsSource};

use crate::bash;
use crate::decision::{Decision, Denied, Reason, ShownAs};
use crate::files::{self, FileCall};
use crate::message;
use crate::path_rules::{Bases, PathRules};
use crate::paths::{Located, WorkingDir};
use crate::question::PermissionQuestion;
use crate::rule::{BadRule, MatchedRule, Parsed, RuleSource, RuleWarning, SourcedRule, rule_names};
use crate::ruleset::RuleSet;
use crate::scope::PermissionScope;
use crate::shell::value::Known;
use crate::tools;

/// The configuration that a session starts with.
#[derive(Debug, Clone, Default)]
pub struct EngineConfig {
    /// The project root, which the file patterns of most rules are relative to.
    pub root: Option<PathBuf>,
    /// The home directory, for `~` and `$HOME`.
    pub home: Option<PathBuf>,
    /// The configuration folder of the user, usually `~/.claude`.
    pub config_dir: Option<PathBuf>,
    /// Whether only managed settings may allow something: allow rules from other sources are then ignored.
    pub managed_allow_only: bool,
    /// Folders that the session may read although they are not working directories: its own outputs, skills.
    pub readable_dirs: Vec<PathBuf>,
    /// The folder of plan files, the only place that may be written in plan mode.
    pub plan_dir: Option<PathBuf>,
    /// Environment variables whose value is known to be the one that commands will see, such as `env` of the user's
    /// settings. A command that uses any other variable is never allowed without asking.
    pub variables: BTreeMap<String, String>,
}

/// A decision about a call, and the place on disk it is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Whether the call may run.
    pub decision: Decision,
    /// For a tool that works on one path: the real path, with all links resolved.
    pub place: Option<PathBuf>,
}

/// Decides about tool calls.
#[derive(Debug, Clone)]
pub struct PermissionEngine {
    config: EngineConfig,
    pub(crate) home: Option<String>,
    /// The project root, then the roots of worktrees that agents work in.
    roots: Vec<WorkingDir>,
    /// No agent may use `bypassPermissions` any more, whatever its scope says.
    bypass_forbidden: bool,
    readable: Vec<WorkingDir>,
    pub(crate) deny: RuleSet,
    pub(crate) ask: RuleSet,
    pub(crate) allow: RuleSet,
}

impl PermissionEngine {
    /// Returns an engine without rules. Links in the project root and the readable folders are resolved once, now.
    pub fn new(config: EngineConfig) -> Self {
        Self {
            home: config.home.as_ref().and_then(|home| home.to_str()).map(str::to_owned),
            roots: config.root.as_deref().map(WorkingDir::new).into_iter().collect(),
            bypass_forbidden: false,
            readable: config.readable_dirs.iter().map(|dir| WorkingDir::new(dir)).collect(),
            deny: RuleSet::new(PermissionBehavior::Deny),
            ask: RuleSet::new(PermissionBehavior::Ask),
            allow: RuleSet::new(PermissionBehavior::Allow),
            config,
        }
    }

    /// Adds rules and returns warnings about those that are invalid. An invalid deny or ask rule makes its whole tool a
    /// question, if its name can be read, so that the mistake lets nothing pass; other invalid rules are ignored.
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

    /// Adds one rule, or returns what is wrong with it and what became of it. A deny or ask rule that cannot be read
    /// becomes an ask rule for its whole tool, so that a mistake in it does not open the tool; every other bad rule is
    /// ignored, and so are allow rules of sources that may not allow anything on this machine.
    fn add_rule(
        &mut self,
        behavior: PermissionBehavior,
        source: RuleSource,
        rule: &SourcedRule,
    ) -> Result<(), String> {
        let forbids = behavior != PermissionBehavior::Allow;
        if !forbids
            && self.config.managed_allow_only
            && source != RuleSource::Settings(SettingsSource::Policy)
        {
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

    /// Returns the set that holds the rules of a behaviour, for changes. The numbers of rules in it are only valid
    /// until it is rebuilt.
    pub(crate) fn rules_mut(&mut self, behavior: PermissionBehavior) -> &mut RuleSet {
        match behavior {
            PermissionBehavior::Deny => &mut self.deny,
            PermissionBehavior::Ask => &mut self.ask,
            PermissionBehavior::Allow => &mut self.allow,
        }
    }

    /// Returns the folders that file patterns of a rule start from. Those of `/x` depend on the source: the user's
    /// configuration folder, the folder of a `--settings` file, or the roots of the project.
    pub(crate) fn bases(&self, source: RuleSource, rule: &SourcedRule) -> Bases {
        let roots: Vec<PathBuf> =
            self.roots.iter().flat_map(|dir| [dir.written.clone(), dir.real.clone()]).collect();
        let home = self.config.home.clone();
        let anchors = match source {
            RuleSource::Settings(SettingsSource::User) => {
                self.config.config_dir.clone().into_iter().collect()
            }
            RuleSource::Settings(SettingsSource::Flag) => match rule.file.as_deref().and_then(Path::parent) {
                Some(parent) => vec![parent.to_owned()],
                None => roots.clone(),
            },
            RuleSource::Settings(SettingsSource::Project)
            | RuleSource::Settings(SettingsSource::Local)
            | RuleSource::Settings(SettingsSource::Policy)
            | RuleSource::CliArg
            | RuleSource::Command
            | RuleSource::Session => roots.clone(),
        };
        Bases { roots, home, anchors }
    }

    /// Returns every rule in force with its behavior and source. Among the ask rules are those that stand in for
    /// invalid deny rules.
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

    /// Turns off `bypassPermissions` for good: an agent in that mode is treated as in `default`.
    pub fn forbid_bypass(&mut self) {
        self.bypass_forbidden = true;
    }

    /// Lets all agents of the session read a folder that is not a working directory, such as the one for the session's
    /// own outputs. Its links are resolved now.
    pub fn add_readable(&mut self, dir: &Path) {
        self.readable.push(WorkingDir::new(dir));
    }

    /// Adds a root in which the patterns of all rules count as in the project, and compiles all rules again. Meant for
    /// a worktree, whose files are those of the project at another place: a rule that forbids must not end at its
    /// border.
    pub fn add_root(&mut self, dir: &Path) {
        self.roots.push(WorkingDir::new(dir));
        self.read_rules_again();
    }

    /// Removes a root that [`Self::add_root`] added, once if it was added several times, and compiles all rules again.
    /// Does nothing for the first root, which is taken for that of the project, and for a folder that is not a root;
    /// `dir` must be without `.` and `..`, because roots are kept like that.
    pub fn remove_root(&mut self, dir: &Path) {
        let last = self.roots.iter().rposition(|root| root.written == dir).filter(|place| *place > 0);
        if let Some(place) = last {
            self.roots.remove(place);
            self.read_rules_again();
        }
    }

    /// Returns the deny rule for the whole tool, which removes it from the model's list; `None` if there is none. Rules
    /// about single inputs do not remove it.
    pub fn removes_tool(&self, tool: &str, mcp_server: Option<&str>) -> Option<MatchedRule> {
        let rule = self.deny.tool(current_name(tool), mcp_server)?;
        Some(self.deny.matched(rule))
    }

    /// Returns whether an allow rule of the user, of the machine's administrator or of `--settings` names a host in
    /// full. Rules of a folder do not count, whether it is trusted or not, and neither do grants of the session: only
    /// such a rule opens internal hosts to tools that fetch pages. The host must be in lower case.
    pub fn names_host(&self, host: &str) -> bool {
        let counts = |rule: &usize| match self.allow.source(*rule) {
            RuleSource::Settings(source) => match source {
                SettingsSource::User | SettingsSource::Policy | SettingsSource::Flag => true,
                SettingsSource::Project | SettingsSource::Local => false,
            },
            RuleSource::CliArg | RuleSource::Command | RuleSource::Session => false,
        };
        self.allow.domains.exact_rules(host).iter().any(counts)
    }

    /// Decides one call. Callers that run it use [`Self::judge`], which also returns the place.
    pub fn decide(&self, question: &PermissionQuestion<'_>) -> Decision {
        self.judge(question).decision
    }

    /// Decides one call, and returns the place on disk the decision is about. The caller must run the call on that
    /// place: by then the path in the input may lead elsewhere.
    pub fn judge(&self, question: &PermissionQuestion<'_>) -> Judged {
        if self.bypass_forbidden && question.mode() == PermissionMode::BypassPermissions {
            let mut scope = question.scope.clone();
            scope.forbid_bypass();
            return self.judge(&PermissionQuestion { scope: &scope, ..*question });
        }
        let tool = current_name(question.tool);
        let file = match question.call.subject() {
            CallSubject::File { path, access } => Some(FileCall::locate(self, path, access, question.cwd)),
            CallSubject::Shell { .. }
            | CallSubject::Host { .. }
            | CallSubject::WebSearch { .. }
            | CallSubject::McpTool { .. }
            | CallSubject::Agent { .. }
            | CallSubject::Skill { .. }
            | CallSubject::Question(_)
            | CallSubject::StructuredOutput
            | CallSubject::Session(_)
            | CallSubject::Unknown => None,
        };
        let decision = match (self.denied_by_rule(question, tool), &file, question.call.shell()) {
            (Some(denied), _, _) => Decision::Deny(denied),
            (None, Some(file), _) => match files::input_denied(self, file) {
                Some(denied) => Decision::Deny(denied),
                None => files::decide(self, question, tool, file),
            },
            (None, None, Some(shell)) => bash::decide(self, question, tool, shell),
            (None, None, None) => tools::decide(self, question, tool),
        };
        Judged { decision, place: file.map(|file| file.located.place().to_owned()) }
    }

    /// Returns the denial by a rule for the whole tool or for one input of the call; `None` if no such rule matches.
    /// For a shell command, rules for `Bash` count besides those for the tool that runs it.
    fn denied_by_rule(&self, question: &PermissionQuestion<'_>, tool: &str) -> Option<Denied> {
        let denied = |rule: usize, message: String| Denied {
            reason: Reason::Rule(self.deny.matched(rule)),
            message,
            shown_as: ShownAs::Denial,
            was_question: false,
        };
        for name in rule_names(tool, question.call.subject()) {
            if let Some(rule) = self.deny.tool(name, question.mcp_server()) {
                return Some(denied(rule, message::denied_tool(tool)));
            }
            if let Some((parameter, rule)) = self.deny.parameter(name, question.input) {
                return Some(denied(rule, message::denied_parameter(tool, &parameter)));
            }
        }
        None
    }

    /// Returns a check that says whether a rule denies reading an absolute path, as written or with links resolved; for
    /// tools that walk through directories. `None` if no rule denies any path. The check keeps the rules of this
    /// moment.
    pub fn read_filter(&self) -> Option<impl Fn(&Path) -> bool + Send + Sync + 'static> {
        let rules = Arc::clone(&self.deny.reads);
        (!rules.is_empty()).then_some(move |path: &Path| {
            Located::of(path, Path::new("/")).forms().any(|form| rules.find(form).is_some())
        })
    }

    /// Returns whether a rule denies reading the file at an absolute path, as written or with links resolved.
    pub fn read_denied(&self, path: &Path) -> bool {
        !self.deny.reads.is_empty()
            && self.forbidden_path(&self.deny.reads, &Located::of(path, Path::new("/"))).is_some()
    }

    /// Returns the home directory and the variables whose values a command is guaranteed to see, to expand its words.
    pub(crate) fn known(&self) -> Known<'_> {
        Known { home: self.home.as_deref(), variables: &self.config.variables }
    }

    /// Returns the folder of the user's configuration; `None` if it is not known.
    pub(crate) fn config_dir(&self) -> Option<&Path> {
        self.config.config_dir.as_deref()
    }

    /// Returns the user's home directory; `None` if it is not known.
    pub(crate) fn home_dir(&self) -> Option<&Path> {
        self.config.home.as_deref()
    }

    /// Locates a path of a tool input as it leads now: `~` is the home directory, and a relative path starts at `cwd`.
    /// Without a known home, `~` is an ordinary name.
    pub(crate) fn locate(&self, path: &str, cwd: &Path) -> Located {
        let home = self.home.as_deref();
        match (path.strip_prefix('~'), home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                Located::new(&format!("{home}{rest}"), cwd)
            }
            _ => Located::new(path, cwd),
        }
    }

    /// Returns the number of the first deny or ask rule that matches a path, as written or with links resolved; `None`
    /// if none does.
    pub(crate) fn forbidden_path(&self, rules: &PathRules, located: &Located) -> Option<usize> {
        located.forms().filter_map(|form| rules.find(form)).min()
    }

    /// Returns the number of a rule that permits reading a path; `None` if the path, as written and with links
    /// resolved, is not covered or cannot be resolved.
    pub(crate) fn permitted_read(&self, located: &Located) -> Option<usize> {
        permitted(&self.allow.reads, located)
    }

    /// Returns the number of a rule that permits reading everything below a directory: any name, at any depth. `None`
    /// if the directory, as written and with links resolved, is not covered or cannot be resolved.
    pub(crate) fn permitted_tree(&self, located: &Located) -> Option<usize> {
        let any = Path::new("\u{1}/\u{1}");
        let mut found = None;
        for form in located.forms() {
            found = Some(self.allow.reads.find(&form.join(any))?);
        }
        found.filter(|_| located.real.is_ok())
    }

    /// Returns the number of a rule that permits editing a path; `None` if the path, as written and with links
    /// resolved, is not covered or cannot be resolved.
    pub(crate) fn permitted_edit(&self, located: &Located) -> Option<usize> {
        permitted(&self.allow.edits, located)
    }

    /// Returns whether a path leads into a working directory or another folder that the session may read. Rules are not
    /// considered.
    pub(crate) fn may_read(&self, located: &Located, scope: &PermissionScope) -> bool {
        located.inside(scope.dirs()).is_some() || located.inside(&self.readable).is_some()
    }

    /// Returns whether a path leads into the folder for plans, the only place that plan mode may write to. `false` if
    /// no such folder is configured.
    pub(crate) fn is_plan_file(&self, located: &Located) -> bool {
        let plans: Vec<WorkingDir> = self.config.plan_dir.iter().map(|dir| WorkingDir::new(dir)).collect();
        located.inside(&plans).is_some()
    }
}

/// Returns the number of an allow rule if every form of the path is covered, as written and with links resolved,
/// otherwise `None`. A path that cannot be resolved is never permitted.
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
