//! Failures of hooks. A problem never blocks on its own; blocks are separate fields of the outcome. Every failed hook
//! leaves a [`HookProblem`], and those that clients should know of become informational messages.

use std::time::Duration;

use lathe_protocol::system::Informational;
use lathe_protocol::text::shorten;
use lathe_protocol::{Extra, HookEvent};
use serde_json::json;

/// The failure of one hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookProblem {
    /// `Event` or `Event:subject`.
    pub hook_name: String,
    /// The event.
    pub event: HookEvent,
    /// The command, address, question or `callback`.
    pub handler: String,
    /// The call it was about.
    pub tool_use_id: Option<String>,
    /// What happened.
    pub kind: ProblemKind,
}

/// What happened to a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemKind {
    /// It exceeded this timeout; a command was killed with everything it started.
    TimedOut(Duration),
    /// Its output is not valid.
    InvalidOutput(String),
    /// It did not start: for example, the program or the folder is missing.
    NotStarted(String),
    /// A signal ended it, or its end is not known.
    Killed(String),
    /// It ended with an exit code that is neither 0 nor a "no" on this event.
    Exited {
        /// The exit code.
        code: i32,
        /// Its error output.
        stderr: String,
    },
    /// The host gave no usable reply.
    CallbackFailed {
        /// The id under which the host registered it.
        callback_id: String,
        /// What went wrong.
        why: String,
        /// What follows from it.
        consequence: Consequence,
    },
    /// The endpoint was not reached, or rejected the request.
    HttpFailed(String),
    /// The model gave no response.
    PromptFailed(String),
    /// This kind of hook cannot run here.
    NotSupported(String),
    /// It was killed because too many hooks already run in the background.
    TooManyInBackground,
}

/// The consequence of a failed callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consequence {
    /// The action goes on as if the hook had no opinion.
    GoesOn,
    /// The failure counts as a "no".
    Blocks,
}

impl HookProblem {
    /// Returns a sentence for people that says which hook failed, and how; long commands and error outputs are
    /// shortened.
    pub fn message(&self) -> String {
        let hook = format!("{} hook `{}`", self.hook_name, shorten(&self.handler, 120));
        match &self.kind {
            ProblemKind::TimedOut(after) => {
                let seconds = (after.as_secs_f64() * 10.0).round() / 10.0;
                format!("{hook} was ended after {seconds} s without an answer.")
            }
            ProblemKind::InvalidOutput(why) => format!("{hook} gave an answer that makes no sense: {why}."),
            ProblemKind::NotStarted(why) => format!("{hook} did not start: {why}."),
            ProblemKind::Killed(how) => format!("{hook} was killed: {how}."),
            ProblemKind::Exited { code, stderr } => {
                let said = shorten(stderr.trim(), 500);
                format!("{hook} failed with exit code {code}: {said}")
            }
            ProblemKind::CallbackFailed { callback_id, why, consequence } => {
                let then = match consequence {
                    Consequence::GoesOn => "it counts as no opinion",
                    Consequence::Blocks => "it counts as a block",
                };
                format!("{} callback {callback_id} gave no usable answer ({why}); {then}.", self.hook_name)
            }
            ProblemKind::HttpFailed(why) => format!("{hook} was not reached: {why}."),
            ProblemKind::PromptFailed(why) => format!("{hook} got no answer from the model: {why}."),
            ProblemKind::NotSupported(why) => format!("{hook} cannot run: {why}."),
            ProblemKind::TooManyInBackground => {
                format!("{hook} was ended: too many hooks run in the background already.")
            }
        }
    }

    /// Returns the message for clients, with an empty `uuid` and `session_id`; `None` for a plain non-zero exit, for
    /// which clients expect no message.
    pub fn informational(&self) -> Option<Informational> {
        let tag = match &self.kind {
            ProblemKind::Exited { .. } => return None,
            ProblemKind::CallbackFailed { .. } => "hook_callback_failed",
            ProblemKind::TimedOut(_)
            | ProblemKind::InvalidOutput(_)
            | ProblemKind::NotStarted(_)
            | ProblemKind::Killed(_)
            | ProblemKind::HttpFailed(_)
            | ProblemKind::PromptFailed(_)
            | ProblemKind::NotSupported(_)
            | ProblemKind::TooManyInBackground => "hook_no_verdict",
        };
        let mut extra = Extra::new();
        if tag == "hook_no_verdict" {
            let mut verdict = json!({ "hook_event": self.event.as_str() });
            if let Some(id) = &self.tool_use_id {
                verdict["tool_use_id"] = json!(id);
            }
            verdict["timed_out"] = json!(matches!(self.kind, ProblemKind::TimedOut(_)));
            extra.insert(tag.to_owned(), verdict);
        }
        Some(Informational {
            content: self.message(),
            level: "warning".to_owned(),
            tag: Some(tag.to_owned()),
            extra,
            ..Informational::default()
        })
    }
}
