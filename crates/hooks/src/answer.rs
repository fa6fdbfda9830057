//! The result of one hook, before it is merged with the others: its output as JSON or plain text, a "no" by exit code,
//! and what went wrong.
//!
//! The rules for commands: output that starts with `{` is read as JSON whatever the exit code; exit code 2 is a "no"
//! whose reason is stderr unless the JSON gives one; any other failure gives no verdict. The exceptions are events that
//! any failure blocks, and guards that could not be asked: see [`UnaskedHook`].

use lathe_exec::Exit;
use lathe_protocol::hooks::{HookDecision, HookPermissionDecision, PermissionRequestDecision};
use lathe_protocol::{HookEvent, HookOutput};
use serde_json::Value;

use crate::ProblemKind;
use crate::event::{Blocking, Facts, UnaskedHook};
use crate::process::Printed;

/// The result of one hook.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The JSON output; the default, which says nothing, if there was none.
    pub output: HookOutput,
    /// The plain output of a hook that succeeded.
    pub plain: Option<String>,
    /// The reason of a "no" that did not come as JSON.
    pub refusal: Option<String>,
    pub problems: Vec<ProblemKind>,
    /// The run was cancelled before the hook gave a result.
    pub cancelled: bool,
}

impl Answer {
    /// Creates the result of a hook that was cancelled. It has no verdict and no problem, because the action does not
    /// happen.
    pub fn cancelled() -> Self {
        Self { cancelled: true, ..Self::default() }
    }

    /// Creates a result without a verdict, for this reason. It refuses if the event is blocked by any failure.
    pub fn failed(kind: ProblemKind, facts: &Facts) -> Self {
        let mut answer = Self { problems: vec![kind], ..Self::default() };
        answer.refuse_if_failed(facts);
        answer
    }

    /// Creates a result without a verdict for a hook that could not be started for lack of resources. It refuses on
    /// events where a hook that could not be asked counts as a "no", and on those that any failure blocks.
    pub fn not_asked(why: String, label: &str, facts: &Facts) -> Self {
        let refusal = unasked_refusal(label, &why, facts);
        let mut answer = Self::failed(ProblemKind::NotStarted(why), facts);
        answer.refusal = refusal.or(answer.refusal);
        answer
    }

    /// Reads the output of a hook as text: JSON if it starts with `{`, otherwise plain text. JSON that is not valid
    /// gives a problem and no verdict. It does not refuse, so for events that any failure blocks the caller has to do
    /// that.
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

    /// Reads the output of a hook that is JSON. An output that says `async` is empty, because its verdict would come
    /// too late. The error says what does not fit.
    pub fn of_json(value: &Value, event: &HookEvent) -> Result<Self, String> {
        let output = HookOutput::parse(value, event).map_err(|error| error.to_string())?;
        // The work goes on in the background and its result comes too late for a verdict.
        if output.async_ == Some(true) {
            return Ok(Self::default());
        }
        Ok(Self { output, ..Self::default() })
    }

    /// Reads the output and the exit of a command. `stdout` is the part of the output that is read, because the first
    /// line may be the marker of a background hook; JSON that was cut off is a problem and is not read. Plain text of a
    /// hook that failed is dropped.
    pub fn of_command(printed: &Printed, stdout: &str, exit: Exit, label: &str, at: At<'_>) -> Self {
        let mut answer = Self::said(stdout, at.event);
        // The cut is the reason why it does not parse; a syntax error would mislead.
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
            Exit::Signal(signal) => answer.mark_killed(format!("signal {signal}"), label, at.facts),
            Exit::Lost => answer.mark_killed("the cause is not known".to_owned(), label, at.facts),
        }
        // Plain text of a failed hook describes the failure and is not context for the model.
        if !exit.is_success() {
            answer.plain = None;
        }
        answer.refuse_if_failed(at.facts);
        answer
    }

    /// Records that the hook was killed before it was done, so its output may be incomplete. On events where a hook can
    /// consent, consent in that output is dropped, while a "no" is kept. On events that a guard must answer
    /// ([`UnaskedHook::Refuses`]) the kill itself counts as a "no", so that killing a guard never lets a call through.
    fn mark_killed(&mut self, how: String, label: &str, facts: &Facts) {
        match facts.unasked {
            UnaskedHook::GoesOn => {}
            UnaskedHook::NoOpinion | UnaskedHook::Refuses => drop_consent(&mut self.output),
        }
        self.refusal = unasked_refusal(label, &format!("it was killed: {how}"), facts);
        self.problems.push(ProblemKind::Killed(how));
    }

    /// Turns a problem into a "no" on events that any failure blocks; does nothing on others. Must be called after all
    /// problems are recorded; a reason that is already there stays.
    fn refuse_if_failed(&mut self, facts: &Facts) {
        if facts.blocking == Blocking::AnyFailure && !self.problems.is_empty() && self.refusal.is_none() {
            self.refusal = Some("a hook failed that this depends on".to_owned());
        }
    }
}

/// The event that a result belongs to.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub event: &'a HookEvent,
    pub facts: &'a Facts,
}

/// Returns the reason of a "no" by exit code: `[command]: stderr`, or a standing text if stderr is blank.
pub(crate) fn refusal(label: &str, stderr: &str) -> String {
    if stderr.trim().is_empty() {
        return format!("[{label}]: exit code 2 without a word on stderr");
    }
    format!("[{label}]: {stderr}")
}

/// Returns the reason of the "no" that a hook which could not be asked counts as; `None` on events where it does not
/// count as one.
fn unasked_refusal(label: &str, why: &str, facts: &Facts) -> Option<String> {
    match facts.unasked {
        UnaskedHook::Refuses => {
            Some(format!("[{label}]: this hook could not be asked, which counts as a no: {why}"))
        }
        UnaskedHook::NoOpinion | UnaskedHook::GoesOn => None,
    }
}

/// Removes consent from the output of a hook that was killed. An output that says "no" stays whole; of any other, only
/// what ends the turn or is for the user stays.
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
