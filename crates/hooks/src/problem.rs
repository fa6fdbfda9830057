//! What went wrong with a hook. Nothing here stops anything by itself: what blocks is in the outcome beside
//! it. Every failed hook leaves a [`HookProblem`], and each that a client should hear of becomes an
//! informational line.

use std::time::Duration;

use lathe_protocol::system::Informational;
use lathe_protocol::text::shorten;
use lathe_protocol::{Extra, HookEvent};
use serde_json::json;

/// A hook that did not do what it was there for.
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
    /// It took longer than this; a command was killed with everything it started.
    TimedOut(Duration),
    /// Its answer makes no sense.
    InvalidOutput(String),
    /// It did not start: missing, not executable, no such folder.
    NotStarted(String),
    /// A signal ended it, or its end is not known.
    Killed(String),
    /// It ended with a code that is neither 0 nor a "no" that the event understands.
    Exited {
        /// The exit code.
        code: i32,
        /// What it said about it.
        stderr: String,
    },
    /// The host gave no usable answer.
    CallbackFailed {
        /// As the host registered it.
        callback_id: String,
        /// What went wrong.
        why: String,
        /// What follows from it.
        consequence: Consequence,
    },
    /// The endpoint was not reached, or refused.
    HttpFailed(String),
    /// The model gave no answer.
    PromptFailed(String),
    /// This kind of hook cannot run here.
    NotSupported(String),
    /// So many hooks run in the background that this one was ended.
    TooManyInBackground,
}

/// What follows from a failed callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consequence {
    /// The action goes on as if the hook had said nothing.
    GoesOn,
    /// The failure counts as a "no".
    Blocks,
}

impl HookProblem {
    /// One sentence for a person.
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

    /// The line for clients, without `uuid` and `session_id`; none for a plain non-zero exit, which clients
    /// do not expect to hear of.
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
