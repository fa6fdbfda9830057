//! Deny and ask rules for shell commands: they are compared with every command of the script, however it is disguised,
//! and with every file it touches.

use crate::bash::standing::locate_any;
use crate::bash::{Shell, asked};
use crate::decision::{AskedDecision, Denied, Reason, ShownAs};
use crate::message;
use crate::rule::rule_names;
use crate::ruleset::RuleSet;
use crate::shell::commands::{Touch, TouchAccess, possible_touches};
use crate::shell::texts::forbidding_texts;
use crate::shell::unwrap::program_name;
use crate::shell::value::Arg;
use crate::shell::walk::{Invocation, Opens, Step};

/// The rule that matched, and where.
struct Caught {
    rule: usize,
    command: String,
    /// The command stands on the first level of the script.
    plain: bool,
}

impl Shell<'_> {
    /// Returns the denial by the first command or file rule that matches, or `None`. Deny rules for the whole tool were
    /// checked before, in [`PermissionEngine::judge`](crate::PermissionEngine::judge).
    pub(super) fn denied(&self) -> Option<Denied> {
        let caught = self.caught(&self.engine.deny)?;
        let reason = self.reason(&self.engine.deny, &caught);
        Some(Denied {
            reason,
            message: message::denied_command(self.command),
            shown_as: ShownAs::Denial,
            was_question: false,
        })
    }

    /// Returns the question of an ask rule, or `None`: one for the whole tool or a parameter first, then one for a
    /// command or file of the script. It carries no suggestions, because an allow rule would not remove it.
    pub(super) fn asked_by_rule(&self) -> Option<AskedDecision> {
        let ask = &self.engine.ask;
        let whole = rule_names(self.tool, self.question.call.subject()).find_map(|name| {
            let parameter = || ask.parameter(name, self.question.input).map(|(_, rule)| rule);
            ask.tool(name, None).or_else(parameter)
        });
        let reason = match whole {
            Some(rule) => Reason::Rule(ask.matched(rule)),
            None => {
                let caught = self.caught(ask)?;
                Reason::Rule(ask.matched(caught.rule))
            }
        };
        Some(asked(self.tool, reason, message::tool_not_granted(self.tool)))
    }

    /// Returns the reason for a match: the single command and the rule if the command is on the first level, otherwise
    /// only the rule.
    fn reason(&self, rules: &RuleSet, caught: &Caught) -> Reason {
        let rule = rules.matched(caught.rule);
        if caught.plain {
            Reason::Subcommand { command: caught.command.clone(), rule }
        } else {
            Reason::Rule(rule)
        }
    }

    /// Returns the first step that a command rule or a file rule of this set matches, or `None`. Commands behind
    /// wrappers and in nested scripts are steps too, so they are compared like written ones.
    fn caught(&self, rules: &RuleSet) -> Option<Caught> {
        let by_path = !rules.reads.is_empty() || !rules.edits.is_empty();
        if rules.commands.is_empty() && !by_path {
            return None;
        }
        self.analysis.steps.iter().enumerate().find_map(|(index, step)| match step {
            Step::Run(run) => {
                let rule = command_rule(rules, run).or_else(|| {
                    if by_path { self.path_rule(rules, index, &possible_touches(&run.args)) } else { None }
                })?;
                let command = run.args.iter().map(Arg::text).collect::<Vec<_>>().join(" ");
                Some(Caught { rule, command, plain: !run.place.nested })
            }
            Step::Redirect(redirect) if by_path => {
                let accesses: &[TouchAccess] = match redirect.kind {
                    Opens::ForReading => &[TouchAccess::Read],
                    Opens::ForWriting => &[TouchAccess::Write],
                    Opens::Unusual => &[TouchAccess::Read, TouchAccess::Write],
                    Opens::Nothing => &[],
                };
                let touches: Vec<Touch> =
                    accesses.iter().map(|access| Touch::new(&redirect.target, *access)).collect();
                let rule = self.path_rule(rules, index, &touches)?;
                Some(Caught { rule, command: self.command.to_owned(), plain: true })
            }
            Step::Redirect(_) | Step::Assign(_) => None,
        })
    }

    /// Returns the number of a rule that matches a file the command touches, or `None`. Rules about reading count for
    /// every access, rules about editing only for changes. A path that cannot be located matches none, and the
    /// repository that git reads is not compared.
    fn path_rule(&self, rules: &RuleSet, step: usize, touches: &[Touch]) -> Option<usize> {
        let standing = self.standings.at(step);
        touches.iter().find_map(|touch| {
            let changes = touch.access.changes();
            if touch.access == TouchAccess::Repository {
                return None;
            }
            let located = locate_any(touch, standing);
            located.iter().find_map(|located| {
                let read = self.engine.forbidden_path(&rules.reads, located);
                let edited = if changes { self.engine.forbidden_path(&rules.edits, located) } else { None };
                read.or(edited)
            })
        })
    }
}

/// Returns the number of the forbidding rule that matches a command in any of its spellings, or by its options in any
/// grouping; `None` if none does.
pub(super) fn command_rule(rules: &RuleSet, run: &Invocation) -> Option<usize> {
    if rules.commands.is_empty() {
        return None;
    }
    let by_text =
        forbidding_texts(&run.args).iter().find_map(|text| rules.commands.find(text)).map(|found| found.rule);
    by_text.or_else(|| {
        let program = run.args.first()?.fixed().map(program_name)?;
        let words: Vec<&str> = run.args[1..].iter().map(Arg::text).collect();
        rules.commands.find_flags(program, &words)
    })
}
