//! Decisions about shell commands.
//!
//! One parse of the bytes that will run serves every question: what is forbidden anywhere inside, what may
//! never go unasked, what is known to be harmless, what rules allow. The questions are asked in that order;
//! [`rules`] has the first, [`allow`] the last; [`touch`] judges the files a script touches, and [`standing`]
//! knows in which directories its commands may find themselves.

mod allow;
mod critical;
mod rules;
mod standing;
mod touch;

use std::path::{Path, PathBuf};

use lathe_protocol::permission::PermissionMode;

use crate::decision::{AllowBasis, Allowed, AskedDecision, Decision, Denied, Reason, ShownAs};
use crate::engine::PermissionEngine;
use crate::message;
use crate::paths::{Kind, Located};
use crate::question::{ParsedShell, PermissionQuestion};
use crate::rule::{MatchedRule, rule_names};
use crate::shell::commands::{Effect, Touch, TouchAccess, Touched};
use crate::shell::parse::ParseError;
use crate::shell::unwrap::program_name;
use crate::shell::value::{Arg, Known};
use crate::shell::walk::{Analysis, Found, Invocation, Opens, Step};
use standing::Standings;

/// Commands longer than this are asked about, whatever they are.
const MAX_CHARS: usize = 10_000;

/// A command under examination.
pub(crate) struct Shell<'a> {
    pub engine: &'a PermissionEngine,
    pub question: &'a PermissionQuestion<'a>,
    pub tool: &'a str,
    pub command: &'a str,
    pub analysis: &'a Analysis,
    pub standings: Standings,
    /// Paths that the script itself moves or copies into place, with the step that does.
    pub arrivals: Vec<(usize, PathBuf)>,
}

/// Decides about a shell command. Deny rules for the whole tool and its inputs must have been checked before.
pub(crate) fn decide(
    engine: &PermissionEngine,
    question: &PermissionQuestion<'_>,
    tool: &str,
    parsed: &ParsedShell,
) -> Decision {
    let analysis = match &parsed.analysis {
        Ok(analysis) => analysis,
        Err(error) => return unreadable(engine, question, tool, error),
    };
    let standings = Standings::new(analysis, question.cwd);
    let mut shell =
        Shell { engine, question, tool, command: &parsed.command, analysis, standings, arrivals: Vec::new() };
    shell.arrivals = shell.find_arrivals();
    shell.decide()
}

/// Decides about a command that cannot be parsed. It may hide anything, so it is asked about, or denied in plan mode;
/// only `bypassPermissions` allows it, if no deny or ask rule exists about any command and no ask rule for the tool.
/// Rules about files are not looked at.
fn unreadable(
    engine: &PermissionEngine,
    question: &PermissionQuestion<'_>,
    tool: &str,
    error: &ParseError,
) -> Decision {
    let names = &mut rule_names(tool, question.call.subject());
    let bound = !engine.deny.commands.is_empty()
        || !engine.ask.commands.is_empty()
        || names.any(|name| engine.ask.tool(name, question.mcp_server()).is_some());
    match question.mode() {
        PermissionMode::BypassPermissions if !bound => {
            Decision::Allow(Allowed::granted(Reason::Mode(PermissionMode::BypassPermissions)))
        }
        PermissionMode::Plan => planned(),
        _ => {
            let text = format!("{}: it cannot be analysed ({error})", message::COMMAND);
            Decision::Ask(asked(tool, Reason::SafetyCheck(text.clone()), text))
        }
    }
}

/// Returns the denial of a command in plan mode. It is final: no question is asked.
fn planned() -> Decision {
    Decision::Deny(Denied {
        reason: Reason::Mode(PermissionMode::Plan),
        message: message::plan_command(),
        shown_as: ShownAs::Denial,
        was_question: false,
    })
}

/// Returns a question without suggestions that a hook may answer; callers override the fields that differ.
fn asked(tool: &str, reason: Reason, message: String) -> AskedDecision {
    AskedDecision {
        tool: tool.to_owned(),
        reason,
        message,
        suggestions: Vec::new(),
        blocked_path: None,
        requires_user_interaction: false,
        hook_may_allow: true,
    }
}

impl Shell<'_> {
    /// Decides a parsed command. The order is the policy: deny rules, ask rules and critical removals come before the
    /// mode, protected writes before allow rules.
    fn decide(&self) -> Decision {
        if let Some(denied) = self.denied() {
            return Decision::Deny(denied);
        }
        if let Some(question) = self.asked_by_rule() {
            return Decision::Ask(question);
        }
        if let Some(question) = self.critical_removal() {
            return Decision::Ask(question);
        }
        match self.question.mode() {
            PermissionMode::BypassPermissions => {
                let mode = Reason::Mode(PermissionMode::BypassPermissions);
                let question = self.hides_from_rules().map(Decision::Ask);
                return question.unwrap_or(Decision::Allow(Allowed::granted(mode)));
            }
            PermissionMode::Plan => return self.in_plan_mode(),
            PermissionMode::Default
            | PermissionMode::AcceptEdits
            | PermissionMode::DontAsk
            | PermissionMode::Auto => {}
        }
        if let Some(question) = self.protected_write() {
            return Decision::Ask(question);
        }
        // Only a rule that names the tool itself: who allows Bash does not mean what runs on after its call.
        if let Some(rule) = self.engine.allow.tool(self.tool, None) {
            if let Some(question) = self.hides_from_rules() {
                return Decision::Ask(question);
            }
            return Decision::Allow(Allowed::granted(Reason::Rule(self.engine.allow.matched(rule))));
        }
        self.decide_by_parts()
    }

    /// Returns a question about a command whose text is known only at run time, where rules forbid or ask about
    /// commands: it may be one of them. `None` if no such rule exists, rules about files aside, or nothing is hidden.
    /// Asked even in modes that allow everything else.
    fn hides_from_rules(&self) -> Option<AskedDecision> {
        let bound = !self.engine.deny.commands.is_empty() || !self.engine.ask.commands.is_empty();
        let hides = self.analysis.opaque_script
            || self.invocations().any(|run| run.args[0].fixed().is_none())
            || (self.analysis.hidden.is_some() && plants_code(self.command));
        let text = format!("{}: what it runs is only known at run time", message::COMMAND);
        (bound && hides).then(|| asked(self.tool, Reason::SafetyCheck(text.clone()), text))
    }

    /// Allows a command in plan mode only if it reads and nothing else, otherwise denies it; allow rules do not count
    /// here.
    fn in_plan_mode(&self) -> Decision {
        match self.first_obstacle(allow::Grants::ReadOnly) {
            None => Decision::Allow(Allowed { reason: Reason::Parts(None), basis: AllowBasis::OnlyItsText }),
            Some(_) => planned(),
        }
    }

    /// Returns every command of the script, including those that other commands run.
    fn invocations(&self) -> impl Iterator<Item = &Invocation> {
        self.analysis.steps.iter().filter_map(|step| match step {
            Step::Run(invocation) => Some(invocation),
            Step::Redirect(_) | Step::Assign(_) => None,
        })
    }
}

/// Returns the strictest rule about one command, for `permissions explain`; `None` if no rule matches. Not for
/// decisions, which depend on all parts.
pub(crate) fn rule_of_part(engine: &PermissionEngine, run: &Invocation) -> Option<MatchedRule> {
    let forbidding = [&engine.deny, &engine.ask];
    let forbidden = forbidding
        .into_iter()
        .find_map(|rules| rules::command_rule(rules, run).map(|rule| rules.matched(rule)));
    forbidden.or_else(|| allow::permitted(engine, run).map(|rule| engine.allow.matched(rule)))
}

/// A file that a command shows whole or in part, and does nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownFile {
    /// Where it is.
    pub path: PathBuf,
    /// Whether all of it is shown.
    pub whole: bool,
}

/// Returns the existing file that a command prints, if that is all it does: `cat`, `head` and the like, without a pipe.
/// `None` otherwise.
pub(crate) fn shown_file(analysis: &Analysis, cwd: &Path) -> Option<ShownFile> {
    const SHOWING: [&str; 9] = ["cat", "nl", "bat", "head", "tail", "sed", "grep", "rg", "tac"];
    let [Step::Run(run)] = analysis.steps.as_slice() else { return None };
    let program = run.args.first().and_then(Arg::fixed).map(program_name)?;
    if !SHOWING.contains(&program) || analysis.shape.is_some() || analysis.hidden.is_some() {
        return None;
    }
    let Effect::ReadOnly(touches) = crate::shell::commands::effect(run) else { return None };
    let [Touch { path: Touched::Path(path), access }] = touches.as_slice() else { return None };
    let located = Located::new(path, cwd);
    let reads = matches!(access, TouchAccess::Read | TouchAccess::ReadFile | TouchAccess::ReadTree);
    let is_file = matches!(located.kind(), Kind::File { .. });
    (reads && is_file)
        .then(|| ShownFile { path: located.place().to_owned(), whole: matches!(program, "cat" | "nl") })
}

/// Returns whether a script contains text that becomes a command when a shell evaluates a variable. Asked only
/// where everything else is allowed, because arithmetic as such is too common to be asked about there.
fn plants_code(command: &str) -> bool {
    ["[$(", "[`", "@P}", "@E}", "[\\$("].iter().any(|sign| command.contains(sign))
}

/// Returns whether the text of a command proves that it changes nothing: no file, and not the directory in which
/// later commands start. Says nothing about where it reads.
pub(crate) fn reads_only(command: &str, analysis: &Analysis, known: &Known<'_>) -> bool {
    let shaped = analysis.shape.is_none() && analysis.hidden.is_none() && command.len() <= MAX_CHARS;
    let alone = analysis.steps.len() == 1;
    shaped
        && analysis.steps.iter().all(|step| match step {
            Step::Run(run) if run.found == Found::Behind => true,
            Step::Run(run) => match crate::shell::commands::effect(run) {
                Effect::ReadOnly(touches) => {
                    run.place.nested || touches.iter().all(|touch| touch.access != TouchAccess::Enter)
                }
                Effect::Changes(_) | Effect::Unknown => false,
            },
            Step::Redirect(redirect) => match redirect.kind {
                Opens::Nothing | Opens::ForReading => true,
                Opens::ForWriting => redirect.target.fixed() == Some("/dev/null"),
                Opens::Unusual => false,
            },
            Step::Assign(assigns) => allow::assigns_are_harmless(assigns, known, alone),
        })
}
