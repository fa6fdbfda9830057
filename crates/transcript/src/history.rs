//! Turns the records of a conversation into messages that the API accepts: roles alternate, the blocks of one response
//! are one message, and every tool call is followed by exactly one result, in the order of the calls and before any
//! other content of the user message. Gaps left by a crash or by damage are repaired: a call without a result gets one
//! that says so, and a result without a call is dropped. Otherwise the API would reject every further request.
//!
//! Calls start while their response streams in, so the result of the first may be written before the second call.
//! `join_answers` puts the blocks of a response together again by its id, so that the model gets the same messages as
//! while the session ran, with thinking in front of all calls that follow from it.
//!
//! The API demands unique call ids, but some servers count from one in every process. So an id that occurs again in
//! another response is another call and gets a new id (`SentIds`), unless its content shows that the same call was
//! recorded twice.

use std::collections::{HashMap, HashSet};

use lathe_protocol::Role;
use serde_json::json;
use serde_json::value::RawValue;

use crate::index::{At, Id};
use crate::mend::{plain_name, with_text_member};
use crate::message::{Block, BlockKind, made_up_text};

/// One message of the conversation.
#[derive(Debug, Clone)]
pub struct HistoryMessage {
    /// The role of the message.
    pub role: Role,
    /// The content blocks as JSON.
    pub blocks: Vec<Box<RawValue>>,
    /// The uuids of the records it was built from, oldest first. Empty for a message that only fills a gap.
    pub uuids: Vec<String>,
}

/// A call without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DanglingCall {
    /// Id of the `tool_use` block, as it is sent.
    pub tool_use_id: String,
    /// The tool.
    pub name: String,
    /// The record with the call: parent of a result, should one be written.
    pub assistant_uuid: String,
}

/// A call that a hook deferred to a later run: it has no result, and none is added.
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

/// The result that is added to a call whose own result is missing.
pub const DANGLING_RESULT_TEXT: &str = "No result was recorded: the session ended while this call was \
    running. It may or may not have taken effect. Check before running it again.";

/// The text that is added if the beginning of a damaged transcript is missing.
const MISSING_START_TEXT: &str =
    "[The beginning of this conversation could not be read from its transcript.]";

/// The part of the conversation that comes from one record.
pub(crate) struct Piece {
    /// The position of the record in the file.
    pub at: At,
    pub role: Role,
    pub uuid: String,
    pub blocks: Vec<Block>,
    /// The response that an assistant record is a block of, if the record says which block it is.
    pub answer: Option<Id>,
    /// Whether it is a prompt, which ends the response before it.
    pub is_prompt: bool,
}

impl Piece {
    /// Returns whether the piece continues this response if it follows directly: true also if either of them names no
    /// response.
    fn is_of_answer(&self, answer: Option<Id>) -> bool {
        self.answer.is_none() || answer.is_none() || self.answer == answer
    }
}

/// The conversation, and the gaps that were repaired.
pub(crate) struct History {
    pub messages: Vec<HistoryMessage>,
    pub dangling: Vec<DanglingCall>,
    pub orphan_results: usize,
    /// The deferred call, which was left without a result.
    pub left_open: Option<DanglingCall>,
}

/// Builds the conversation from its records, which must be in the order of the conversation, and repairs its gaps. No
/// result is added to the call with the id `open`, which a hook deferred.
pub(crate) fn build(mut pieces: Vec<Piece>, open: Option<String>) -> History {
    drop_misplaced(&mut pieces);
    join_answers(&mut pieces);
    let sent_ids = SentIds::of(&pieces);
    let results = take_results(&mut pieces, &sent_ids, open.as_deref());
    let mut builder = Builder { results, sent_ids, ..Builder::default() };
    for piece in pieces {
        builder.add(piece);
    }
    builder.finish()
}

/// Drops blocks that are not allowed in the role of their record. Of server tools it also drops calls without a result,
/// results without a call before them, and second calls or results with the same id.
fn drop_misplaced(pieces: &mut [Piece]) {
    let mut answered = HashSet::new();
    for block in pieces.iter().flat_map(|piece| &piece.blocks) {
        if let BlockKind::ServerResult { call } = &block.kind {
            answered.insert(call.clone());
        }
    }
    let mut asked = HashSet::new();
    for piece in pieces {
        let role = piece.role;
        piece.blocks.retain(|block| match (&block.kind, role) {
            (BlockKind::ServerCall { id }, Role::Assistant) => {
                answered.contains(id) && asked.insert(id.clone())
            }
            // Removed from the set, so that a second result for the call is dropped.
            (BlockKind::ServerResult { call }, Role::Assistant) => asked.remove(call),
            (BlockKind::ToolUse { .. } | BlockKind::Thinking, Role::Assistant) => true,
            (BlockKind::ToolResult { .. }, Role::User) => true,
            (BlockKind::Blank | BlockKind::Other, Role::User | Role::Assistant) => true,
            (BlockKind::ToolResult { .. }, Role::Assistant) => false,
            (
                BlockKind::ToolUse { .. }
                | BlockKind::Thinking
                | BlockKind::ServerCall { .. }
                | BlockKind::ServerResult { .. },
                Role::User,
            ) => false,
        });
    }
}

/// Moves the blocks of each response next to each other, in the order of the file: the walk over the records visits
/// some of them late. Results and notes that were written between them come after the last block.
fn join_answers(pieces: &mut [Piece]) {
    let mut answer = None;
    // The position after the last block of `answer` so far.
    let mut end = 0;
    for at in 0..pieces.len() {
        let piece = &pieces[at];
        match piece.role {
            Role::Assistant if answer.is_some() && piece.answer == answer => {
                let is_later = |other: &&Piece| other.answer == answer && other.at > piece.at;
                let later = pieces[..end].iter().rev().take_while(is_later).count();
                pieces[end - later..=at].rotate_right(1);
                end += 1;
            }
            Role::Assistant => {
                answer = piece.answer;
                end = at + 1;
            }
            Role::User if piece.is_prompt => answer = None,
            Role::User => {}
        }
    }
}

/// The ids of calls that are sent with another id than the recorded one, by the number of the call. The API wants every
/// id to be unique and accepts few characters in it.
#[derive(Default)]
struct SentIds(HashMap<usize, String>);

impl SentIds {
    /// Assigns the ids in the order of the records: unaccepted characters are replaced, and a repeated id gets a
    /// number. The order must not change, because results of an earlier resume refer to the ids that were assigned
    /// then.
    fn of(pieces: &[Piece]) -> Self {
        let mut changed = HashMap::new();
        let mut used = HashSet::new();
        let mut answer = AnswerCalls::default();
        for piece in pieces {
            answer.next_piece(piece);
            for id in piece.blocks.iter().filter_map(|block| block.kind.call_id()) {
                let Some(number) = answer.number(id) else { continue };
                let plain = plain_name(id);
                let mut sent = plain.clone();
                for again in 2.. {
                    if used.insert(Id::of(&sent)) {
                        break;
                    }
                    sent = format!("{plain}-{again}");
                }
                if sent != id {
                    changed.insert(number, sent);
                }
            }
        }
        Self(changed)
    }

    /// Returns the id to send for a call, given by its number; `None` means the recorded one.
    fn changed(&self, call: usize) -> Option<&str> {
        self.0.get(&call).map(String::as_str)
    }
}

/// A result, and the uuid of its record.
type FoundResult = (Box<RawValue>, String);

/// The position of a block: the index of its message, and its index in the message.
type Place = (usize, usize);

/// The results of all calls, by the number of the call.
#[derive(Default)]
struct Results {
    by_call: HashMap<usize, FoundResult>,
    /// The number of results without a call.
    orphans: usize,
    /// The deferred call.
    open: Option<usize>,
}

/// Removes all tool results from the pieces and returns them by their calls: the last call with its id before it, or
/// else the first one after it. Of two results for one call the first counts. A result of an earlier resume names its
/// call by the id that was sent then, which is the same now, because ids are assigned in the order of the file.
fn take_results(pieces: &mut [Piece], sent_ids: &SentIds, open: Option<&str>) -> Results {
    let mut by_call = HashMap::new();
    let mut newest: HashMap<String, usize> = HashMap::new();
    let mut early: HashMap<String, FoundResult> = HashMap::new();
    let mut answer = AnswerCalls::default();
    for piece in pieces {
        answer.next_piece(piece);
        let uuid = &piece.uuid;
        match piece.role {
            Role::Assistant => {
                for id in piece.blocks.iter().filter_map(|block| block.kind.call_id()) {
                    let Some(number) = answer.number(id) else { continue };
                    newest.insert(id.to_owned(), number);
                    newest.extend(sent_ids.changed(number).map(|sent| (sent.to_owned(), number)));
                    by_call.extend(early.remove(id).map(|result| (number, result)));
                }
            }
            Role::User => {
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
    let open = open.and_then(|id| newest.get(id).copied());
    Results { by_call, orphans: early.len(), open }
}

/// Numbers the calls of a conversation. Within one response an id counts once.
#[derive(Default)]
struct AnswerCalls {
    next: usize,
    ids: HashSet<String>,
    answer: Option<Id>,
}

impl AnswerCalls {
    /// Moves on to the next record, and returns whether a response ends before it. Must be called for every record in
    /// order, before the calls of the record are numbered.
    fn next_piece(&mut self, piece: &Piece) -> bool {
        let ends = match piece.role {
            Role::User => true,
            Role::Assistant => !piece.is_of_answer(self.answer),
        };
        if ends {
            self.ids.clear();
            self.answer = None;
        }
        self.answer = piece.answer.or(self.answer);
        ends
    }

    /// Returns the number of a call, counted from 1; `None` if its response already has a call with this id.
    fn number(&mut self, id: &str) -> Option<usize> {
        self.ids.insert(id.to_owned()).then(|| {
            self.next += 1;
            self.next
        })
    }
}

/// A block of the current response, its record, and its number if it is a call.
struct AnswerBlock {
    block: Block,
    uuid: String,
    call: Option<usize>,
}

/// A block that is sent with another id than the recorded one.
struct ChangedId {
    place: Place,
    key: &'static str,
    id: String,
}

#[derive(Default)]
struct Builder {
    results: Results,
    sent_ids: SentIds,
    messages: Vec<HistoryMessage>,
    answer: Vec<AnswerBlock>,
    calls: AnswerCalls,
    /// The positions of the last call with an id, and of its result.
    seen: HashMap<String, [Option<Place>; 2]>,
    /// Applied at the end: until then blocks are compared as they were recorded.
    changed_ids: Vec<ChangedId>,
    dangling: Vec<DanglingCall>,
    left_open: Option<DanglingCall>,
}

impl Builder {
    /// Adds one record; they must come in the order of the conversation. Blocks of a response are collected until it is
    /// complete, so that the results of all its calls follow it together; user blocks are added at once.
    fn add(&mut self, piece: Piece) {
        if self.calls.next_piece(&piece) {
            self.close_answer();
        }
        for block in piece.blocks {
            match (piece.role, block.kind.call_id()) {
                (Role::User, _) => {
                    self.push(Role::User, block, &piece.uuid);
                }
                (Role::Assistant, None) => {
                    self.answer.push(AnswerBlock { block, uuid: piece.uuid.clone(), call: None });
                }
                (Role::Assistant, Some(id)) => {
                    // A second call with the same id in one response was recorded twice.
                    if let Some(number) = self.calls.number(id) {
                        self.answer.push(AnswerBlock { block, uuid: piece.uuid.clone(), call: Some(number) });
                    }
                }
            }
        }
    }

    /// Adds the collected response to the messages, followed by the results of its calls. Calls that were recorded
    /// twice and thinking at its end are left out.
    fn close_answer(&mut self) {
        let (mut kept, mut results) = (Vec::new(), HashMap::new());
        for block in std::mem::take(&mut self.answer) {
            if let (Some(number), Some(id)) = (block.call, block.block.kind.call_id()) {
                let result = self.results.by_call.remove(&number);
                // A deferred call has no result yet, so the missing result does not make it a repetition.
                let is_open = self.results.open == Some(number);
                if !is_open && self.is_recorded_twice(id, &block.block, result.as_ref()) {
                    continue;
                }
                results.extend(result.map(|result| (number, result)));
            }
            kept.push(block);
        }
        // The API rejects thinking as the last block, which is how a response that was cut off can end.
        while kept.pop_if(|last| matches!(last.block.kind, BlockKind::Thinking | BlockKind::Blank)).is_some()
        {
        }
        let mut calls = Vec::new();
        for AnswerBlock { block, uuid, call } in kept {
            let kind = block.kind.clone();
            let place = self.push(Role::Assistant, block, &uuid);
            let (Some(number), BlockKind::ToolUse { id, name }) = (call, kind) else { continue };
            self.change_id(number, place, "id");
            self.seen.insert(id.clone(), [place, None]);
            calls.push((number, DanglingCall { tool_use_id: id, name, assistant_uuid: uuid }));
        }
        for (number, call) in calls {
            match results.remove(&number) {
                Some((raw, uuid)) => {
                    let place = self.push(Role::User, Block { raw, kind: BlockKind::Other }, &uuid);
                    self.change_id(number, place, "tool_use_id");
                    self.seen.entry(call.tool_use_id).or_default()[1] = place;
                }
                None => self.push_made_up_result(number, call),
            }
        }
    }

    /// Notes that the call, or the result, at this position is sent with another id than the recorded one, if it is.
    /// The change is made at the end.
    fn change_id(&mut self, call: usize, place: Option<Place>, key: &'static str) {
        if let (Some(id), Some(place)) = (self.sent_ids.changed(call), place) {
            self.changed_ids.push(ChangedId { place, key, id: id.to_owned() });
        }
    }

    /// Returns whether an earlier call has this id and this one adds nothing: it has no result, or call and result are
    /// the same.
    fn is_recorded_twice(&self, id: &str, block: &Block, result: Option<&FoundResult>) -> bool {
        let Some([call, earlier]) = self.seen.get(id) else { return false };
        let is_same = |place: &Option<Place>, raw: &RawValue| {
            let found = place.and_then(|(message, block)| self.messages.get(message)?.blocks.get(block));
            found.is_some_and(|found| found.get() == raw.get())
        };
        result.is_none_or(|(raw, _)| is_same(call, &block.raw) && is_same(earlier, raw))
    }

    /// Adds an error as the result of a call that has none, because the API rejects a call without a result, and notes
    /// the call as dangling. The deferred call gets none: its result follows after the resume.
    fn push_made_up_result(&mut self, number: usize, mut call: DanglingCall) {
        if let Some(sent) = self.sent_ids.changed(number) {
            call.tool_use_id = sent.to_owned();
        }
        if self.results.open == Some(number) {
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

    /// Adds a block to the last message, or to a new one if the role changes, and returns its position; a blank block
    /// is not added and gives `None`. An empty `uuid` means that the block comes from no record.
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

    /// Closes the last response and applies the changed ids. If the conversation would begin with a response, a made-up
    /// prompt is put before it, because the API wants a user message first.
    fn finish(mut self) -> History {
        self.close_answer();
        let mut messages = self.messages;
        for ChangedId { place: (message, block), key, id } in self.changed_ids {
            let recorded = messages.get_mut(message).and_then(|message| message.blocks.get_mut(block));
            if let Some(recorded) = recorded
                && let Some(raw) = with_text_member(recorded, key, &id)
            {
                *recorded = raw;
            }
        }
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
