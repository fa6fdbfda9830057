//! The structured answer a turn owes when a JSON schema was given: whether it came, and how often it was
//! wrong. The check itself is the tool's; what follows from it is decided in `decide.rs`.

use lathe_protocol::CallSubject;
use lathe_tools::STRUCTURED_OUTPUT;
use serde_json::Value;

use crate::record::tool_call::ToolCallResult;

/// What a turn knows about its structured answer.
#[derive(Debug, Default)]
pub struct StructuredProgress {
    /// The answer; the last one counts.
    pub answer: Option<Value>,
    /// Whether it came in the round under way, which is the last then.
    pub fresh: bool,
    /// Calls that did not fit the schema.
    pub failures: u32,
    /// What was wrong with the last of them.
    pub last_fault: String,
}

impl StructuredProgress {
    /// Takes note of an answered call, if it is one of these.
    pub fn note(&mut self, answered: &ToolCallResult) {
        if *answered.call.description.subject() != CallSubject::FinalAnswer || answered.interrupted {
            return;
        }
        if answered.block.is_error() {
            self.failures += 1;
            self.last_fault = answered.block.plain_text().to_owned();
        } else {
            self.answer = Some(answered.call.input.clone());
            self.fresh = true;
        }
    }

    /// What the result says when the answer was wrong too often.
    pub fn exhausted(&self) -> String {
        format!(
            "Failed to provide valid structured output after {} attempts — last {STRUCTURED_OUTPUT} error: {}",
            self.failures, self.last_fault
        )
    }
}
