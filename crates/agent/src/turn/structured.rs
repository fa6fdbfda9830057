//! The structured output that a turn owes when a JSON schema was given: whether it came, and how often it was wrong.
//! The tool checks it; `decide.rs` decides what follows.

use lathe_protocol::CallSubject;
use lathe_tools::STRUCTURED_OUTPUT;
use serde_json::Value;

use crate::record::tool_call::ToolCallResult;

/// What a turn knows about its structured output.
#[derive(Debug, Default)]
pub struct StructuredProgress {
    /// The output; the last one counts.
    pub answer: Option<Value>,
    /// Whether it came in the current round, which is then the last.
    pub fresh: bool,
    /// Calls that did not fit the schema.
    pub failures: u32,
    /// What was wrong with the last of them.
    pub last_fault: String,
}

impl StructuredProgress {
    /// Counts the result of a call of the structured output tool: the value it accepted, or a failed attempt. Other
    /// calls and interrupted ones are ignored.
    pub fn note(&mut self, answered: &ToolCallResult) {
        // An interrupted call says nothing about the shape of the output.
        if *answered.call.description.subject() != CallSubject::StructuredOutput || answered.interrupted {
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

    /// Returns the text of a result whose structured output was wrong too often, with the number of attempts and the
    /// last fault.
    pub fn exhausted(&self) -> String {
        format!(
            "Failed to provide valid structured output after {} attempts — last {STRUCTURED_OUTPUT} error: {}",
            self.failures, self.last_fault
        )
    }
}
