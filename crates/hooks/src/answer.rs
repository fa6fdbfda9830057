//! What one hook said, before it is weighed against the others: its output as JSON or plain text, a "no" by
//! exit code, and what went wrong.
//!
//! The rules for commands: output that starts with `{` is an answer whatever the exit code; exit code 2 is a
//! "no" whose reason is stderr unless the answer gives one; any other failure is no verdict. The exceptions
//! are events that any failure blocks, and guards that could not be asked: see [`UnaskedHook`].

use lathe_exec::Exit;
use lathe_protocol::hooks::{HookDecision, HookPermissionDecision, PermissionRequestDecision};
use lathe_protocol::{HookEvent, HookOutput};
use serde_json::Value;

use crate::ProblemKind;
use crate::event::{Blocking, Facts, UnaskedHook};
use crate::process::Printed;

/// What one hook said.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Its JSON; neutral if there was none.
    pub output: HookOutput,
    /// Plain output of a hook that succeeded.
    pub plain: Option<String>,
    /// A "no" that did not come as JSON, with its reason.
    pub refusal: Option<String>,
    pub problems: Vec<ProblemKind>,
    /// The run was broken off before it said anything.
    pub cancelled: bool,
}

impl Answer {
    pub fn cancelled() -> Self {
        Self { cancelled: true, ..Self::default() }
    }

    /// No verdict, for this reason. Refuses where any failure does.
    pub fn failed(kind: ProblemKind, facts: &Facts) -> Self {
        let mut answer = Self { problems: vec![kind], ..Self::default() };
        answer.refuse_if_failed(facts);
        answer
    }

    /// No verdict, because the hook could not be started. Refuses where a guard stands that must be asked.
    pub fn not_asked(why: String, label: &str, facts: &Facts) -> Self {
        let refusal = unasked_refusal(label, &why, facts);
        let mut answer = Self::failed(ProblemKind::NotStarted(why), facts);
        answer.refusal = refusal.or(answer.refusal);
        answer
    }

    /// Reads what a hook said in words.
    pub fn said(text: &str, event: &HookEvent) -> Self {
        let text = text.trim();
        if !text.starts_with('{') {
            let plain = (!text.is_empty()).then(|| text.to_owned());
            return Self { plain, ..Self::default() };
        }
        let value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"));
        match value.and_then(|value| Self::of_json(&value, event)) {
            Ok(answer) => answer,
            Err(why) => Self { problems: vec![ProblemKind::InvalidOutput(why)], ..Self::default() },
        }
    }

    /// Reads what a hook said as JSON.
    pub fn of_json(value: &Value, event: &HookEvent) -> Result<Self, String> {
        let output = HookOutput::parse(value, event).map_err(|error| error.to_string())?;
        // Something that goes on elsewhere has no say.
        if output.async_ == Some(true) {
            return Ok(Self::default());
        }
        Ok(Self { output, ..Self::default() })
    }

    /// Reads what a command printed and how it ended.
    pub fn of_command(printed: &Printed, stdout: &str, exit: Exit, label: &str, at: At<'_>) -> Self {
        let mut answer = Self::said(stdout, at.event);
        if !printed.stdout.is_complete() && stdout.trim_start().starts_with('{') {
            let why = "its output is larger than 2 MiB".to_owned();
            answer = Self { problems: vec![ProblemKind::InvalidOutput(why)], ..Self::default() };
        }
        let stderr = printed.stderr.text();
        match exit {
            Exit::Code(0) => {}
            Exit::Code(2) if at.facts.blocking != Blocking::Never => {
                answer.refusal = Some(refusal(label, &stderr));
            }
            Exit::Code(code) => answer.problems.push(ProblemKind::Exited { code, stderr }),
            Exit::Signal(signal) => answer.end_early(format!("signal {signal}"), label, at.facts),
            Exit::Lost => answer.end_early("nobody knows by what".to_owned(), label, at.facts),
        }
        if !exit.is_success() {
            answer.plain = None;
        }
        answer.refuse_if_failed(at.facts);
        answer
    }

    /// Something ended the hook before it was done, so what it printed may be half of an answer. Where that
    /// matters, nothing of it counts as consent, while a "no" stays one.
    fn end_early(&mut self, how: String, label: &str, facts: &Facts) {
        match facts.unasked {
            UnaskedHook::GoesOn => {}
            UnaskedHook::NoOpinion | UnaskedHook::Refuses => drop_consent(&mut self.output),
        }
        self.refusal = unasked_refusal(label, &format!("it was killed: {how}"), facts);
        self.problems.push(ProblemKind::Killed(how));
    }

    fn refuse_if_failed(&mut self, facts: &Facts) {
        if facts.blocking == Blocking::AnyFailure && !self.problems.is_empty() && self.refusal.is_none() {
            self.refusal = Some("a hook failed that this depends on".to_owned());
        }
    }
}

/// What is being answered.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub event: &'a HookEvent,
    pub facts: &'a Facts,
}

/// `[command]: stderr`.
pub(crate) fn refusal(label: &str, stderr: &str) -> String {
    if stderr.trim().is_empty() {
        return format!("[{label}]: exit code 2 without a word on stderr");
    }
    format!("[{label}]: {stderr}")
}

/// The reason of the "no" that a guard which could not be asked counts as.
fn unasked_refusal(label: &str, why: &str, facts: &Facts) -> Option<String> {
    match facts.unasked {
        UnaskedHook::Refuses => {
            Some(format!("[{label}]: this hook could not be asked, which counts as a no: {why}"))
        }
        UnaskedHook::NoOpinion | UnaskedHook::GoesOn => None,
    }
}

/// Keeps an output that says "no"; of any other only what ends the turn or is for the user.
fn drop_consent(output: &mut HookOutput) {
    let specific = output.hook_specific_output.as_ref();
    let denies_call =
        specific.is_some_and(|said| said.permission_decision == Some(HookPermissionDecision::Deny));
    let denies_request =
        specific.is_some_and(|said| matches!(said.decision, Some(PermissionRequestDecision::Deny { .. })));
    if denies_call || denies_request || output.decision == Some(HookDecision::Block) {
        return;
    }
    *output = HookOutput {
        continue_: output.continue_,
        stop_reason: output.stop_reason.take(),
        system_message: output.system_message.take(),
        ..HookOutput::default()
    };
}
