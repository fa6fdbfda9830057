//! A decision together with everything that led to it, for people who ask why.

use std::fmt;
use std::path::PathBuf;

use lathe_protocol::permission::{PermissionMode, PermissionUpdate, PermissionUpdateDestination};

use crate::bash::rule_of_part;
use crate::decision::Decision;
use crate::engine::{Judged, PermissionEngine};
use crate::question::PermissionQuestion;
use crate::rule::{MatchedRule, RuleSource, rule_text};
use crate::shell::commands::{Effect, effect};
use crate::shell::value::Arg;
use crate::shell::walk::{AssignedValue, Found, Opens, Step};

/// A decision and the reasons for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The decision itself.
    pub decision: Decision,
    /// The mode it was made in.
    pub mode: PermissionMode,
    /// For a tool that works on one path: the real path.
    pub place: Option<PathBuf>,
    /// For a shell command: its parts.
    pub parts: Vec<ExplainedPart>,
    /// For a shell command: what could not be parsed, or why it does not count as harmless as a whole.
    pub notes: Vec<String>,
}

/// One part of a shell command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedPart {
    /// The text of the part, without quotes.
    pub text: String,
    /// What kind of command it counts as.
    pub taken_for: &'static str,
    /// The rule that matches it; the strictest, if several do.
    pub rule: Option<MatchedRule>,
}

impl PermissionEngine {
    /// Decides a call as [`Self::judge`] does, and adds the parts of a shell command, each with the strictest rule
    /// about it, and what counts against the command as a whole. A call of another kind has no parts and no notes.
    pub fn explain(&self, question: &PermissionQuestion<'_>) -> Explanation {
        let Judged { decision, place } = self.judge(question);
        let mut explanation =
            Explanation { decision, mode: question.mode(), place, parts: Vec::new(), notes: Vec::new() };
        let Some(shell) = question.call.shell() else { return explanation };
        match &shell.analysis {
            Err(error) => explanation.notes.push(format!("cannot be analysed: {error}")),
            Ok(analysis) => {
                explanation.parts = analysis.steps.iter().map(|step| explain_part(self, step)).collect();
                let contains = |what: &str| format!("contains {what}");
                explanation.notes.extend(analysis.shape.map(contains));
                explanation.notes.extend(analysis.hidden.map(contains));
                if analysis.opaque_script {
                    explanation.notes.push("runs a script that is only known at run time".to_owned());
                }
            }
        }
        explanation
    }
}

/// Describes one step of a script: its text, the kind it is taken for and, for a command, the strictest rule about it.
/// Redirections and assignments have no rule.
fn explain_part(engine: &PermissionEngine, step: &Step) -> ExplainedPart {
    match step {
        Step::Run(run) => {
            let taken_for = match (run.found, effect(run)) {
                (Found::Behind, _) => "run by another command",
                (Found::Written, Effect::ReadOnly(_)) => "read-only",
                (Found::Written, Effect::Changes(_)) => "changes files",
                (Found::Written, Effect::Unknown) => "not known",
            };
            let words: Vec<&str> = run.args.iter().map(Arg::text).collect();
            ExplainedPart { text: words.join(" "), taken_for, rule: rule_of_part(engine, run) }
        }
        Step::Redirect(redirect) => ExplainedPart {
            text: redirect.target.text().to_owned(),
            taken_for: match redirect.kind {
                Opens::ForReading => "opened for reading",
                Opens::ForWriting => "opened for writing",
                Opens::Nothing => "no file",
                Opens::Unusual => "an unusual redirection",
            },
            rule: None,
        },
        Step::Assign(assigns) => ExplainedPart {
            text: assigns.iter().map(|assigns| assigns.source.as_str()).collect::<Vec<_>>().join(" "),
            taken_for: if assigns.iter().all(|assigns| assigns.value != AssignedValue::Other) {
                "an assignment"
            } else {
                "an assignment of an unknown value"
            },
            rule: None,
        },
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, message) = match &self.decision {
            Decision::Allow(_) => ("allow", None),
            Decision::Ask(asked) => ("ask", Some(asked.message.as_str())),
            Decision::Deny(denied) => ("deny", Some(denied.message.as_str())),
        };
        writeln!(f, "decision: {word}")?;
        writeln!(f, "mode:     {}", self.mode)?;
        let reason = self.decision.reason();
        match reason.rule() {
            Some(rule) => writeln!(f, "rule:     {rule}")?,
            None => writeln!(f, "rule:     none")?,
        }
        match (reason.wire_type(), reason.text()) {
            (Some(kind), Some(text)) => writeln!(f, "reason:   {kind}: {}", visible(&text))?,
            (Some(kind), None) => writeln!(f, "reason:   {kind}")?,
            (None, _) => writeln!(f, "reason:   the tool's own default")?,
        }
        if let Some(message) = message {
            // Further lines are indented, so that no text of a call can pass for a line of this report.
            let lines: Vec<String> = message.lines().map(visible).collect();
            writeln!(f, "message:  {}", lines.join("\n          "))?;
        }
        if let Some(place) = &self.place {
            writeln!(f, "place:    {}", visible(&place.display().to_string()))?;
        }
        if !self.parts.is_empty() {
            writeln!(f, "parse:")?;
        }
        for (index, part) in self.parts.iter().enumerate() {
            writeln!(f, "  {}. {}  [{}]", index + 1, visible(&part.text), part.taken_for)?;
            if let Some(rule) = &part.rule {
                writeln!(f, "     {rule}")?;
            }
        }
        for note in &self.notes {
            writeln!(f, "note:     {}", visible(note))?;
        }
        self.fmt_ways_out(f)
    }
}

impl Explanation {
    /// Writes what a question would end in, and which updates would make it unnecessary. Writes nothing if the decision
    /// is not a question.
    fn fmt_ways_out(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Decision::Ask(asked) = &self.decision else { return Ok(()) };
        let who = match (asked.requires_user_interaction, self.mode) {
            (_, PermissionMode::DontAsk) => "nobody: in this mode it is denied",
            (true, _) => "a person; no hook can answer, and without a host it is denied",
            (false, _) if !asked.hook_may_allow => {
                "the host; no hook can answer, and without a host it is denied"
            }
            (false, _) => "hooks, then the host; without either it is denied",
        };
        writeln!(f, "asks:     {who}")?;
        for suggestion in &asked.suggestions {
            writeln!(f, "settled by: {}", visible(&in_words(suggestion)))?;
        }
        Ok(())
    }
}

/// Returns the name of the rule source that an update with this destination would be stored under.
fn source_name(destination: PermissionUpdateDestination) -> &'static str {
    RuleSource::from(destination).as_str()
}

/// Describes an update in words; one of an unknown kind by its tag alone.
fn in_words(update: &PermissionUpdate) -> String {
    match update {
        PermissionUpdate::AddRules(rules)
        | PermissionUpdate::ReplaceRules(rules)
        | PermissionUpdate::RemoveRules(rules) => {
            let texts: Vec<String> = rules.rules.iter().map(rule_text).collect();
            format!("{} {} in {}", rules.behavior.as_str(), texts.join(", "), source_name(rules.destination))
        }
        PermissionUpdate::SetMode(mode) => {
            format!("mode {} for the {}", mode.mode, source_name(mode.destination))
        }
        PermissionUpdate::AddDirectories(dirs) | PermissionUpdate::RemoveDirectories(dirs) => {
            format!(
                "working directory {} for the {}",
                dirs.directories.join(", "),
                source_name(dirs.destination)
            )
        }
        PermissionUpdate::Unknown(_) => update.tag().to_owned(),
    }
}

/// Returns a text in which control characters, line ends included, and other invisible characters are escaped, so that
/// a text of a call cannot pass for a line of the report.
fn visible(text: &str) -> String {
    let shown = |c: char| {
        !c.is_control()
            && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if shown(c) { c.to_string() } else { c.escape_unicode().to_string() }).collect()
}
