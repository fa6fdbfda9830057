//! What one hook said, before it is weighed against the others: its output as JSON or plain text, a "no" by
//! exit code, and what went wrong.
//!
//! The rules for commands: output that starts with `{` is an answer whatever the exit code; exit code 2 is a
//! "no" whose reason is stderr unless the answer gives one; any other failure is no verdict. The exceptions
//! are events that any failure blocks.

use lathe_exec::Exit;
use lathe_protocol::{HookEvent, HookOutput};
use serde_json::Value;

use crate::ProblemKind;
use crate::event::{Blocking, Facts};
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
            Exit::Signal(signal) => answer.problems.push(ProblemKind::Killed(format!("signal {signal}"))),
            Exit::Lost => answer.problems.push(ProblemKind::Killed("nobody knows by what".to_owned())),
        }
        if !exit.is_success() {
            answer.plain = None;
        }
        answer.refuse_if_failed(at.facts);
        answer
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
