//! Turns the records of a conversation into messages that a model accepts: roles alternate, blocks of one
//! answer are one message, every tool call is followed by exactly one result, in the order of the calls.
//! What a crash or damage left behind is made up for: a call without a result gets one that says so, a
//! result without a call is dropped, because the API would refuse the conversation for ever.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::message::{Block, BlockKind, made_up_text};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person, and the results of tools.
    User,
    /// The model.
    Assistant,
}

/// One message of the conversation.
#[derive(Debug, Clone)]
pub struct HistoryMessage {
    /// Who speaks.
    pub role: Role,
    /// The content blocks, each as the JSON it was.
    pub blocks: Vec<Box<RawValue>>,
    /// The records it was made of, oldest first. Empty for a message that only fills a gap.
    pub uuids: Vec<String>,
}

/// A call that has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DanglingCall {
    /// Id of the `tool_use` block.
    pub tool_use_id: String,
    /// The tool.
    pub name: String,
    /// The record with the call: parent of a result, should one be written.
    pub assistant_uuid: String,
}

/// A call that a hook put off to a later run: it has no result, and none is made up.
#[derive(Debug, Clone, PartialEq)]
pub struct DeferredCall {
    /// Id of the `tool_use` block.
    pub tool_use_id: String,
    /// The tool.
    pub name: String,
    /// Its input.
    pub input: serde_json::Value,
    /// The record with the call.
    pub assistant_uuid: String,
}

/// What the model reads as the result of a call that was cut off.
pub const DANGLING_RESULT_TEXT: &str = "No result was recorded: the session ended while this call was \
    running. It may or may not have taken effect. Check before running it again.";

/// What the model reads where the beginning of a damaged transcript is missing.
const MISSING_START_TEXT: &str =
    "[The beginning of this conversation could not be read from its transcript.]";

/// One record's contribution.
pub(crate) struct Piece {
    pub role: Role,
    pub uuid: String,
    pub blocks: Vec<Block>,
}

/// The conversation, and what had to be made up for it.
pub(crate) struct History {
    pub messages: Vec<HistoryMessage>,
    pub dangling: Vec<DanglingCall>,
    pub orphan_results: usize,
    /// The call that was to be left open.
    pub left_open: Option<DanglingCall>,
}

/// Builds the conversation from its records, oldest first. The call with the id `open` gets no made-up result.
pub(crate) fn build(mut pieces: Vec<Piece>, open: Option<String>) -> History {
    let mut builder = Builder { results: take_results(&mut pieces), open, ..Builder::default() };
    for piece in pieces {
        builder.add(piece);
    }
    builder.finish()
}

/// A result, and the record it stood in.
type FoundResult = (Box<RawValue>, String);

/// Takes all tool results out of the records, so that each can be put behind its call wherever it stood.
/// Of two results for one call the first counts.
fn take_results(pieces: &mut [Piece]) -> HashMap<String, FoundResult> {
    let mut results = HashMap::new();
    for piece in pieces.iter_mut().filter(|piece| piece.role == Role::User) {
        let uuid = &piece.uuid;
        piece.blocks.retain_mut(|block| {
            let BlockKind::ToolResult { call } = &block.kind else { return true };
            results.entry(call.clone()).or_insert_with(|| (block.raw.clone(), uuid.clone()));
            false
        });
    }
    results
}

#[derive(Default)]
struct Builder {
    results: HashMap<String, FoundResult>,
    messages: Vec<HistoryMessage>,
    /// The answer whose blocks are being collected, each with its record.
    answer: Vec<(Block, String)>,
    seen_calls: HashSet<String>,
    dangling: Vec<DanglingCall>,
    open: Option<String>,
    left_open: Option<DanglingCall>,
}

impl Builder {
    fn add(&mut self, piece: Piece) {
        match piece.role {
            Role::Assistant => {
                for block in piece.blocks {
                    // Ids of calls are unique; one that comes twice was recorded twice.
                    let is_new = match &block.kind {
                        BlockKind::ToolUse { id, .. } => self.seen_calls.insert(id.clone()),
                        BlockKind::ToolResult { .. }
                        | BlockKind::Thinking
                        | BlockKind::Blank
                        | BlockKind::Other => true,
                    };
                    if is_new {
                        self.answer.push((block, piece.uuid.clone()));
                    }
                }
            }
            Role::User => {
                self.close_answer();
                for block in piece.blocks {
                    self.push(Role::User, block, &piece.uuid);
                }
            }
        }
    }

    /// Emits the collected answer and, behind it, the results of its calls.
    fn close_answer(&mut self) {
        // An answer that was cut off after its thinking ends in what may not stand last.
        while self
            .answer
            .pop_if(|(block, _)| matches!(block.kind, BlockKind::Thinking | BlockKind::Blank))
            .is_some()
        {}
        let mut calls = Vec::new();
        for (block, uuid) in std::mem::take(&mut self.answer) {
            if let BlockKind::ToolUse { id, name } = &block.kind {
                calls.push(DanglingCall {
                    tool_use_id: id.clone(),
                    name: name.clone(),
                    assistant_uuid: uuid.clone(),
                });
            }
            self.push(Role::Assistant, block, &uuid);
        }
        for call in calls {
            match self.results.remove(&call.tool_use_id) {
                Some((raw, uuid)) => self.push(Role::User, Block { raw, kind: BlockKind::Other }, &uuid),
                None => self.push_made_up_result(call),
            }
        }
    }

    fn push_made_up_result(&mut self, call: DanglingCall) {
        if self.open.as_ref() == Some(&call.tool_use_id) {
            self.left_open = Some(call);
            return;
        }
        let result = json!({
            "type": "tool_result",
            "tool_use_id": call.tool_use_id,
            "content": DANGLING_RESULT_TEXT,
            "is_error": true,
        });
        if let Ok(raw) = serde_json::value::to_raw_value(&result) {
            self.push(Role::User, Block { raw, kind: BlockKind::Other }, "");
        }
        self.dangling.push(call);
    }

    /// Adds a block to the last message, or starts the next one. An empty `uuid` stands for no record.
    fn push(&mut self, role: Role, block: Block, uuid: &str) {
        if block.kind == BlockKind::Blank {
            return;
        }
        if self.messages.last().is_none_or(|last| last.role != role) {
            self.messages.push(HistoryMessage { role, blocks: Vec::new(), uuids: Vec::new() });
        }
        let Some(message) = self.messages.last_mut() else { return };
        message.blocks.push(block.raw);
        if !uuid.is_empty() && !message.uuids.iter().any(|known| known == uuid) {
            message.uuids.push(uuid.to_owned());
        }
    }

    fn finish(mut self) -> History {
        self.close_answer();
        let mut messages = self.messages;
        if messages.first().is_some_and(|first| first.role == Role::Assistant)
            && let Some(block) = made_up_text(MISSING_START_TEXT)
        {
            messages
                .insert(0, HistoryMessage { role: Role::User, blocks: vec![block.raw], uuids: Vec::new() });
        }
        History {
            messages,
            dangling: self.dangling,
            orphan_results: self.results.len(),
            left_open: self.left_open,
        }
    }
}

#[cfg(test)]
mod tests;
