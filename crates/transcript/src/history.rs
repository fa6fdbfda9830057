//! Turns the records of a conversation into messages that a model accepts: roles alternate, blocks of one
//! answer are one message, every tool call is followed by exactly one result, in the order of the calls.
//! What a crash or damage left behind is made up for: a call without a result gets one that says so, a
//! result without a call is dropped, because the API would refuse the conversation for ever.
//!
//! Ids of calls are unique, or so the API demands; other servers count from one in every process. So an id that
//! comes again in another answer is another call, unless everything about it says that it was recorded twice.

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

/// A block of the conversation: its message, and which block of it.
type Place = (usize, usize);

/// The results of all calls, by the number of the call.
#[derive(Default)]
struct Results {
    by_call: HashMap<usize, FoundResult>,
    /// Those that answer no call.
    orphans: usize,
}

/// Takes all tool results out of the records, so that each can be put behind its call wherever it stood: the last
/// call before it with its id, or else the first one behind it. Of two results for one call the first counts.
fn take_results(pieces: &mut [Piece]) -> Results {
    let mut by_call = HashMap::new();
    let mut newest: HashMap<String, usize> = HashMap::new();
    let mut early: HashMap<String, FoundResult> = HashMap::new();
    let mut answer = AnswerCalls::default();
    for piece in pieces {
        let uuid = &piece.uuid;
        match piece.role {
            Role::Assistant => {
                for id in piece.blocks.iter().filter_map(|block| block.kind.call_id()) {
                    let Some(number) = answer.number(id) else { continue };
                    newest.insert(id.to_owned(), number);
                    by_call.extend(early.remove(id).map(|result| (number, result)));
                }
            }
            Role::User => {
                answer.end();
                piece.blocks.retain_mut(|block| {
                    let BlockKind::ToolResult { call } = &block.kind else { return true };
                    let found = || (block.raw.clone(), uuid.clone());
                    match newest.get(call) {
                        Some(number) => drop(by_call.entry(*number).or_insert_with(found)),
                        None => drop(early.entry(call.clone()).or_insert_with(found)),
                    }
                    false
                });
            }
        }
    }
    Results { by_call, orphans: early.len() }
}

/// Numbers the calls of a conversation. Within one answer an id counts once.
#[derive(Default)]
struct AnswerCalls {
    next: usize,
    ids: HashSet<String>,
}

impl AnswerCalls {
    /// The number of a call; none if its answer has it already.
    fn number(&mut self, id: &str) -> Option<usize> {
        self.ids.insert(id.to_owned()).then(|| {
            self.next += 1;
            self.next
        })
    }

    fn end(&mut self) {
        self.ids.clear();
    }
}

#[derive(Default)]
struct Builder {
    results: Results,
    messages: Vec<HistoryMessage>,
    /// The answer whose blocks are being collected, each with its record.
    answer: Vec<(Block, String)>,
    calls: AnswerCalls,
    /// Where the last call with an id stands, and its result.
    seen: HashMap<String, [Option<Place>; 2]>,
    dangling: Vec<DanglingCall>,
    open: Option<String>,
    left_open: Option<DanglingCall>,
}

impl Builder {
    fn add(&mut self, piece: Piece) {
        match piece.role {
            Role::Assistant => {
                self.answer.extend(piece.blocks.into_iter().map(|block| (block, piece.uuid.clone())))
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
        let (mut kept, mut calls) = (Vec::new(), Vec::new());
        for (block, uuid) in std::mem::take(&mut self.answer) {
            if let BlockKind::ToolUse { id, name } = &block.kind {
                let Some(number) = self.calls.number(id) else { continue };
                let result = self.results.by_call.remove(&number);
                if self.is_recorded_twice(id, &block, result.as_ref()) {
                    continue;
                }
                let call = DanglingCall {
                    tool_use_id: id.clone(),
                    name: name.clone(),
                    assistant_uuid: uuid.clone(),
                };
                calls.push((call, result));
            }
            kept.push((block, uuid));
        }
        self.calls.end();
        // An answer that was cut off after its thinking ends in what may not stand last.
        while kept.pop_if(|(block, _)| matches!(block.kind, BlockKind::Thinking | BlockKind::Blank)).is_some()
        {
        }
        for (block, uuid) in kept {
            let call = block.kind.call_id().map(str::to_owned);
            let place = self.push(Role::Assistant, block, &uuid);
            self.seen.extend(call.map(|call| (call, [place, None])));
        }
        for (call, result) in calls {
            match result {
                Some((raw, uuid)) => {
                    let place = self.push(Role::User, Block { raw, kind: BlockKind::Other }, &uuid);
                    self.seen.entry(call.tool_use_id).or_default()[1] = place;
                }
                None => self.push_made_up_result(call),
            }
        }
    }

    /// Whether a call with this id was there before and this one adds nothing to it: no result, or the same.
    fn is_recorded_twice(&self, id: &str, block: &Block, result: Option<&FoundResult>) -> bool {
        let Some([call, earlier]) = self.seen.get(id) else { return false };
        let is_same = |place: &Option<Place>, raw: &RawValue| {
            let found = place.and_then(|(message, block)| self.messages.get(message)?.blocks.get(block));
            found.is_some_and(|found| found.get() == raw.get())
        };
        result.is_none_or(|(raw, _)| is_same(call, &block.raw) && is_same(earlier, raw))
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

    /// Adds a block to the last message, or starts the next one, and says where it is now. An empty `uuid`
    /// stands for no record.
    fn push(&mut self, role: Role, block: Block, uuid: &str) -> Option<Place> {
        if block.kind == BlockKind::Blank {
            return None;
        }
        if self.messages.last().is_none_or(|last| last.role != role) {
            self.messages.push(HistoryMessage { role, blocks: Vec::new(), uuids: Vec::new() });
        }
        let at = self.messages.len() - 1;
        let message = &mut self.messages[at];
        message.blocks.push(block.raw);
        if !uuid.is_empty() && !message.uuids.iter().any(|known| known == uuid) {
            message.uuids.push(uuid.to_owned());
        }
        Some((at, message.blocks.len() - 1))
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
            orphan_results: self.results.orphans,
            left_open: self.left_open,
        }
    }
}

#[cfg(test)]
mod tests;
