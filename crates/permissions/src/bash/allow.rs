//! Whether every part of a script may run: because it is harmless, because the mode accepts edits, or because
//! a rule allows it. Every part needs its own grant.

use std::path::PathBuf;

use lathe_protocol::permission::PermissionUpdate;

use crate::bash::standing::Standing;
use crate::bash::{MAX_CHARS, Shell, asked};
use crate::decision::{AllowBasis, Allowed, AskedDecision, Decision, Reason};
use crate::engine::PermissionEngine;
use crate::message;
use crate::repository;
use crate::rule::MatchedRule;
use crate::shell::commands::{Effect, Touch, TouchAccess, effect, git, harmless_name};
use crate::shell::texts::{permitting_texts, suggested_rule};
use crate::shell::unwrap::program_name;
use crate::shell::value::{Arg, Known};
use crate::shell::walk::{AssignedValue, Assigns, Found, Invocation, Step};
use crate::suggest;

/// What may grant a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grants {
    /// Only that it is harmless.
    ReadOnly,
    /// Also the mode and the rules.
    All,
}

/// Why a part may run.
pub(super) enum Granted {
    Harmless,
    Mode,
    Rule(usize),
}

/// Why a part may not run unasked.
#[derive(Debug)]
pub(super) struct Obstacle {
    pub reason: Reason,
    pub message: String,
    pub path: Option<PathBuf>,
    pub updates: Vec<PermissionUpdate>,
}

impl Obstacle {
    /// Returns the obstacle of a command that is on no list.
    pub(super) fn command() -> Box<Self> {
        Self::because(message::COMMAND.to_owned())
    }

    /// Returns the obstacle of a construct; `what` completes "it contains …".
    pub(super) fn contains(what: &str) -> Box<Self> {
        Self::because(format!("{}: it contains {what}", message::COMMAND))
    }

    /// Returns an obstacle whose text is both the reason and the message, without a path or suggestions.
    pub(super) fn because(text: String) -> Box<Self> {
        Box::new(Self { reason: Reason::Other(text.clone()), message: text, path: None, updates: Vec::new() })
    }
}

impl Shell<'_> {
    /// Decides by the parts of the script: it is allowed only if every part is. Otherwise the question is about the
    /// first obstacle, with rules for all commands that need approval as suggestions.
    pub(super) fn decide_by_parts(&self) -> Decision {
        let mut rule: Option<MatchedRule> = None;
        let mut obstacles = Vec::new();
        let mut suggestions = Vec::new();
        for (index, step) in self.analysis.steps.iter().enumerate() {
            match self.step(index, step, Grants::All) {
                Ok(Granted::Harmless | Granted::Mode) => {}
                Ok(Granted::Rule(found)) => {
                    rule.get_or_insert_with(|| self.engine.allow.matched(found));
                }
                Err(obstacle) => {
                    if let Step::Run(run) = step {
                        suggestions.extend(suggested_rule(run));
                    }
                    obstacles.push(obstacle);
                }
            }
        }
        if obstacles.is_empty() {
            obstacles.extend(self.whole(Grants::All));
        }
        match obstacles.into_iter().next() {
            Some(obstacle) => Decision::Ask(self.question(*obstacle, suggestions)),
            None => {
                let by_rule = rule.is_some() || self.rules_allow_all();
                let basis = if by_rule { AllowBasis::Granted } else { AllowBasis::OnlyItsText };
                Decision::Allow(Allowed { reason: self.grounds(rule), basis })
            }
        }
    }

    /// Returns whether allow rules alone cover every written command of the script; `false` if it has none.
    fn rules_allow_all(&self) -> bool {
        let mut written = self.invocations().filter(|run| run.found == Found::Written).peekable();
        written.peek().is_some() && written.all(|run| permitted(self.engine, run).is_some())
    }

    /// Returns the reason for an allowed script: the rule, if it covers the only step of the script without a wildcard,
    /// otherwise its parts.
    fn grounds(&self, rule: Option<MatchedRule>) -> Reason {
        match rule {
            Some(rule) if self.analysis.steps.len() == 1 && !rule.rule.text.contains('*') => {
                Reason::Rule(rule)
            }
            rule => Reason::Parts(rule),
        }
    }

    /// Returns the question about an obstacle. Rules for the commands are suggested first, then the updates that the
    /// obstacle itself suggests.
    fn question(&self, obstacle: Obstacle, suggestions: Vec<String>) -> AskedDecision {
        let mut updates: Vec<PermissionUpdate> = suggest::commands(suggestions).into_iter().collect();
        updates.extend(obstacle.updates);
        AskedDecision {
            suggestions: updates,
            blocked_path: obstacle.path,
            ..asked(self.tool, obstacle.reason, obstacle.message)
        }
    }

    /// Returns what keeps the script from being granted, as a whole or in its first such part; `None` if the whole
    /// script is granted.
    pub(super) fn first_obstacle(&self, grants: Grants) -> Option<Box<Obstacle>> {
        self.whole(grants).or_else(|| self.parts(grants))
    }

    /// Returns the obstacle that the script is as a whole, whatever its parts are: too much text, hidden code, or a
    /// construct that needs a grant and has none. `None` if there is none.
    fn whole(&self, grants: Grants) -> Option<Box<Obstacle>> {
        if self.command.chars().count() > MAX_CHARS {
            return Some(Obstacle::contains("more text than can be checked"));
        }
        if let Some(hidden) = self.analysis.hidden {
            return Some(Obstacle::contains(hidden));
        }
        // Rules allow commands; a construct without any has nothing that a rule could allow.
        let runs = self.invocations().any(|run| run.found == Found::Written);
        self.analysis.shape.filter(|_| grants == Grants::ReadOnly || !runs).map(Obstacle::contains)
    }

    /// Returns the obstacle of the first step that is not granted; `None` if all are.
    fn parts(&self, grants: Grants) -> Option<Box<Obstacle>> {
        self.analysis.steps.iter().enumerate().find_map(|(index, step)| self.step(index, step, grants).err())
    }

    /// Checks one step; `index` is its index in the analysis. A command behind another one is harmless here, because
    /// the command that runs it is checked.
    fn step(&self, index: usize, step: &Step, grants: Grants) -> Result<Granted, Box<Obstacle>> {
        match step {
            Step::Run(run) if run.found == Found::Behind => Ok(Granted::Harmless),
            Step::Run(run) => self.run(index, run, grants),
            Step::Redirect(redirect) => self.redirect(index, redirect, grants),
            Step::Assign(assigns) => {
                let alone = self.analysis.steps.len() == 1;
                if assigns_are_harmless(assigns, &self.engine.known(), alone) {
                    Ok(Granted::Harmless)
                } else {
                    Err(Obstacle::contains("an assignment that may change what later commands do"))
                }
            }
        }
    }

    /// Checks one written command: by what it does first, then by an allow rule, if `grants` includes rules. A rule
    /// cannot allow git after a change of directory, where its configuration is not known.
    fn run(&self, index: usize, run: &Invocation, grants: Grants) -> Result<Granted, Box<Obstacle>> {
        let standing = self.standings.at(index);
        let program = run.args.first().and_then(Arg::fixed).map_or("", program_name);
        if program == "git" && !standing.is_still() {
            return Err(Obstacle::contains("git after a change of directory"));
        }
        let obstacle = match (effect(run), self.analysis.shape) {
            (Effect::Unknown, _) => Obstacle::command(),
            (_, Some(shape)) => Obstacle::contains(shape),
            (Effect::ReadOnly(touches), None) => match self.reads(program, &touches, index) {
                Ok(()) => return Ok(Granted::Harmless),
                Err(obstacle) => obstacle,
            },
            (Effect::Changes(touches), None) => {
                let what = format!("{program} in");
                match self.changes(&what, &touches, index, grants) {
                    Ok(granted) => return Ok(granted),
                    Err(obstacle) => obstacle,
                }
            }
        };
        match permitted(self.engine, run).filter(|_| grants == Grants::All) {
            Some(rule) => Ok(Granted::Rule(rule)),
            None => Err(obstacle),
        }
    }
}

/// Returns the number of an allow rule for the command as it is written, or `None`. A rule does not cover an option
/// that makes git run something else unless it names the option, and a pattern without a fixed beginning covers no
/// command with assignments in front.
pub(super) fn permitted(engine: &PermissionEngine, run: &Invocation) -> Option<usize> {
    let commands = &engine.allow.commands;
    if commands.is_empty() {
        return None;
    }
    let has_unsafe_assigns = !run.assigns.is_empty();
    permitting_texts(run).iter().find_map(|text| {
        let found = commands.find(text)?;
        if has_unsafe_assigns && found.beginning.is_empty() {
            return None;
        }
        // However the rule reads, it did not mean an option that makes git run something else.
        let executes = match run.args.first().and_then(Arg::fixed).map(program_name) {
            Some("git") => git::executing_option(&run.args),
            _ => None,
        };
        let meant = |option: &str| engine.allow.matched(found.rule).rule.text.contains(option);
        executes.is_none_or(meant).then_some(found.rule)
    })
}

/// Returns whether git can run here without running programs that its configuration names: no touch reads a repository,
/// or the repository is inert in every directory the command may run in.
pub(super) fn git_is_inert(touches: &[Touch], standing: &Standing) -> bool {
    let reads_repository = touches.iter().any(|touch| touch.access == TouchAccess::Repository);
    !reads_repository || standing.directories.iter().all(|directory| repository::is_inert(directory))
}

/// Returns whether assignments change nothing for the commands after them. With `alone`, no command follows on the
/// line, and no name matters; a value that is not known is never harmless.
pub(super) fn assigns_are_harmless(assigns: &[Assigns], known: &Known<'_>, alone: bool) -> bool {
    assigns.iter().all(|assigns| {
        let name = alone || (harmless_name(&assigns.name) && !known.variables.contains_key(&assigns.name));
        name && assigns.value != AssignedValue::Other
    })
}
