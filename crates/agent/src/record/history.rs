//! The conversation as it is sent to the model. Messages are serialised when they are sealed and never again; what is
//! still being collected (tool results, notes) waits in an open user message, because the API wants all results of one
//! response in one message.
//!
//! It also knows its size: what the API counted for the last response, and an estimate of what was added since.
//! Compaction decides by that.

#[cfg(test)]
mod golden_tests;

use lathe_models::WireMessage;
use lathe_models::references::referenced_tools;
use lathe_protocol::reminder::system_reminder;
use lathe_protocol::text::first_chars;
use lathe_protocol::{BlockView, ContentBlock, Role, Usage};
use lathe_transcript::HistoryMessage;
use serde::{Deserialize, Serialize};

use crate::record::estimate::{block_tokens, raw_block_tokens};

/// The conversation so far.
#[derive(Default)]
pub struct ConversationHistory {
    sealed: Vec<WireMessage>,
    /// Facts about each sealed message, in the same order.
    facts: Vec<MessageFacts>,
    /// Blocks of the user message that goes out with the next request.
    open: Vec<ContentBlock>,
    /// The record of the first prompt among them.
    open_record: Option<String>,
    /// The tools that results in sealed messages refer to, each once, in the order of the references.
    references: Vec<String>,
    /// Estimate of everything, open blocks included.
    tokens: u64,
    measured: Option<Measured>,
}

/// Facts about a sealed message.
#[derive(Debug, Clone, Default)]
struct MessageFacts {
    /// Estimate of its size.
    tokens: u64,
    /// The record it begins with: set for a response, and for prompts without the result of a call in front of them.
    record: Option<String>,
}

/// The size as the API counted it.
#[derive(Debug, Clone, Copy)]
struct Measured {
    /// Everything, system prompt and tools included.
    tokens: u64,
    /// The estimate at that moment.
    estimate: u64,
}

/// The size of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConversationSize {
    /// The messages alone, estimated.
    pub messages: u64,
    /// What the API counted with its last response, system prompt and tools included.
    pub measured: Option<u64>,
    /// Estimate of what was added since then.
    pub added: u64,
}

/// The end of a conversation, which stays when the rest is summarised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationTail {
    /// Index of its first message; the number of messages if nothing stays.
    pub start: usize,
    /// The record it begins with.
    pub record: Option<String>,
    /// Whether it ends with a prompt that has no response yet.
    pub ends_with_prompt: bool,
}

/// How much of a conversation may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TailBounds {
    /// Tokens of the newest messages.
    pub tokens: u64,
    /// Tokens of a prompt that has no response yet: it is worth more room than one that has.
    pub prompt: u64,
}

impl ConversationHistory {
    /// Builds the history of a resumed session. A user message at the end stays open, so that the next prompt joins it:
    /// the API wants the roles to alternate. Blocks of that message that cannot be parsed are left out.
    pub fn restore(mut messages: Vec<HistoryMessage>) -> Self {
        let mut history = Self::default();
        if let Some(last) = messages.pop_if(|last| last.role == Role::User) {
            history.open = last.blocks.iter().filter_map(|b| serde_json::from_str(b.get()).ok()).collect();
            history.tokens = history.open.iter().map(block_tokens).sum();
            history.open_record = last.uuids.first().cloned();
        }
        // Each message is dropped when it is done, so that a long conversation is never in memory twice.
        for message in messages {
            let role = message.role;
            let tokens = message.blocks.iter().map(|block| raw_block_tokens(block)).sum();
            let record = (role == Role::Assistant).then(|| message.uuids.first().cloned()).flatten();
            history.tokens += tokens;
            history.push(role, &message.blocks, MessageFacts { tokens, record });
        }
        history
    }

    /// Adds blocks to the user message that is sent next. Blocks that the API would refuse are left out.
    pub fn add_user(&mut self, blocks: impl IntoIterator<Item = ContentBlock>) {
        for block in blocks.into_iter().filter(is_sendable) {
            self.tokens += block_tokens(&block);
            self.open.push(block);
        }
    }

    /// Notes the id of the record of the prompt that was just added, so that a compaction can say which records it
    /// keeps. If a prompt of the same message was noted before, the earlier one stays, because a tail begins with the
    /// first.
    pub fn note_prompt(&mut self, record: String) {
        // Kept if there is one, because a tail begins with the first prompt of the message.
        self.open_record.get_or_insert(record);
    }

    /// Adds the result of a call that an earlier response made. It comes first in the open user message, in front of
    /// results that were added before it, because the API wants results before everything else.
    pub fn add_result(&mut self, block: ContentBlock) {
        self.tokens += block_tokens(&block);
        self.open.insert(0, block);
    }

    /// Adds a text block to the user message that goes out next. A blank text is left out, because the API would refuse
    /// it.
    pub fn add_user_text(&mut self, text: &str) {
        self.add_user([ContentBlock::text(text)]);
    }

    /// Adds notes of the runtime, each marked as such, so that the model does not take them for the user's words.
    pub fn add_notes(&mut self, notes: &[String]) {
        for note in notes {
            self.add_user_text(&system_reminder(note));
        }
    }

    /// Adds a whole response, without the thinking at its end, because the API refuses a message that ends with
    /// thinking. A response with nothing that can be sent back is left out, and what follows joins the user message
    /// before it.
    pub fn add_assistant(&mut self, blocks: Vec<ContentBlock>) {
        let mut blocks: Vec<ContentBlock> = blocks.into_iter().filter(is_sendable).collect();
        // A response that got no further than its thinking: the API refuses a message that ends with thinking.
        while blocks.pop_if(|block| block.is_thinking()).is_some() {}
        if blocks.is_empty() {
            return;
        }
        self.seal();
        let tokens = blocks.iter().map(block_tokens).sum();
        self.tokens += tokens;
        self.push(Role::Assistant, &blocks, MessageFacts { tokens, record: None });
    }

    /// Notes the API's token count for the response just added, and the id of the record of its first block. A count of
    /// zero, from a response that broke before it began, leaves the last count in force.
    pub fn note_answer(&mut self, usage: &Usage, record: Option<String>) {
        if self.sealed.last().is_some_and(|last| last.role() == Role::Assistant)
            && let Some(facts) = self.facts.last_mut()
        {
            facts.record = record;
        }
        let tokens = usage.input_tokens
            + usage.cache_creation_input_tokens
            + usage.cache_read_input_tokens
            + usage.output_tokens;
        // A response that broke before its first event counts nothing; the last real count stays.
        if tokens > 0 {
            self.measured = Some(Measured { tokens, estimate: self.tokens });
        }
    }

    /// Returns the current size: what the messages take, what the API counted last, and what was added since.
    pub fn size(&self) -> ConversationSize {
        ConversationSize {
            messages: self.tokens,
            measured: self.measured.map(|measured| measured.tokens),
            added: self.measured.map_or(0, |measured| self.tokens.saturating_sub(measured.estimate)),
        }
    }

    /// Returns whether the conversation has any response; one without is not worth a summary.
    pub fn has_answers(&self) -> bool {
        self.sealed.iter().any(|message| message.role() == Role::Assistant)
    }

    /// Closes the open user message, and returns the longest end of the conversation that fits into the bounds and can
    /// follow a summary: it begins with a response, so every call in it keeps its result and every result its call, or
    /// it is the prompt that has no response yet. A last response with a call that waits for its result may exceed the
    /// bounds. A message whose record is not known cannot begin the tail; if nothing can stay, the tail is empty.
    pub fn tail(&mut self, bounds: TailBounds) -> ConversationTail {
        self.seal();
        let count = self.sealed.len();
        let mut tail = ConversationTail { start: count, record: None, ends_with_prompt: false };
        let mut tokens = 0;
        for at in (0..count).rev() {
            let facts = &self.facts[at];
            tokens += facts.tokens;
            let is_last = at + 1 == count;
            let can_begin = match self.sealed[at].role() {
                Role::Assistant => tokens <= bounds.tokens || (is_last && holds_call(&self.sealed[at])),
                Role::User => is_last && tokens <= bounds.prompt,
            };
            // Without a record the transcript could not say where the tail begins.
            if can_begin && facts.record.is_some() {
                let ends_with_prompt = tail.ends_with_prompt || self.sealed[at].role() == Role::User;
                tail = ConversationTail { start: at, record: facts.record.clone(), ends_with_prompt };
            }
            if tokens > bounds.tokens {
                break;
            }
        }
        tail
    }

    /// Estimates the tokens of the messages in a tail.
    pub fn tokens_from(&self, tail: &ConversationTail) -> u64 {
        self.facts.iter().skip(tail.start).map(|facts| facts.tokens).sum()
    }

    /// Replaces everything before the tail by `head`. What stays keeps its bytes, except for a prompt right behind the
    /// head, which becomes one message with it. `tail` must come from [`Self::tail`], with nothing added since. The
    /// API's last count is forgotten, so the size is an estimate until the next response.
    pub fn compact(&mut self, head: Vec<ContentBlock>, tail: &ConversationTail) {
        let mut kept = self.sealed.split_off(tail.start.min(self.sealed.len()));
        let mut kept_facts = self.facts.split_off(tail.start.min(self.facts.len()));
        *self = Self::default();
        self.add_user(head);
        // User and model alternate in a request, so two user messages in a row become one.
        if kept.first().is_some_and(|first| first.role() == Role::User) {
            kept_facts.remove(0);
            self.add_user(blocks_of(&kept.remove(0)));
        }
        if !kept.is_empty() {
            self.seal();
            self.tokens += kept_facts.iter().map(|facts| facts.tokens).sum::<u64>();
            self.note_references(&kept);
            self.sealed.extend(kept);
            self.facts.extend(kept_facts);
        }
    }

    /// Closes the open user message, and cuts the texts of more than `most` tokens that have no response yet to their
    /// first `keep_chars` characters, because with them no request would ever fit again. Other blocks, such as results
    /// of calls, stay.
    pub fn shorten_unanswered(&mut self, most: u64, keep_chars: usize) {
        self.seal();
        let unanswered = self.sealed.iter().rev().take_while(|message| message.role() == Role::User).count();
        for at in self.sealed.len() - unanswered..self.sealed.len() {
            if self.facts[at].tokens <= most {
                continue;
            }
            let mut blocks = blocks_of(&self.sealed[at]);
            blocks.iter_mut().for_each(|block| shorten(block, most, keep_chars));
            let tokens = blocks.iter().map(block_tokens).sum();
            if let Ok(message) = WireMessage::new(Role::User, &blocks) {
                self.tokens = self.tokens - self.facts[at].tokens + tokens;
                self.facts[at].tokens = tokens;
                self.sealed[at] = message;
            }
        }
    }

    /// Closes the open user message and returns the messages to send, oldest first. Cloning them shares their bytes.
    pub fn messages(&mut self) -> Vec<WireMessage> {
        self.seal();
        self.sealed.clone()
    }

    /// Returns the tools that results refer to, as of the last call of [`Self::messages`].
    pub fn referenced_tools(&self) -> &[String] {
        &self.references
    }

    /// Returns the tools that a tail refers to.
    pub fn tools_referenced_from(&self, tail: &ConversationTail) -> Vec<String> {
        referenced_tools(&self.sealed[tail.start.min(self.sealed.len())..])
    }

    /// Returns the messages so far, with the open blocks as the last one. Unlike [`Self::messages`] it does not close
    /// the open message.
    pub fn so_far(&self) -> Vec<WireMessage> {
        let open = (!self.open.is_empty()).then(|| WireMessage::new(Role::User, &self.open).ok()).flatten();
        self.sealed.iter().cloned().chain(open).collect()
    }

    /// Closes the open user message, if there is one. Its bytes never change afterwards, which keeps the API's cache
    /// valid. If it has results, the noted record is dropped: a tail must not begin with results, because their calls
    /// would be missing.
    fn seal(&mut self) {
        if !self.open.is_empty() {
            let open = std::mem::take(&mut self.open);
            let tokens = open.iter().map(block_tokens).sum();
            // A tail must not begin with results, because their calls would be missing.
            let has_results = open.iter().any(|block| matches!(block.view(), BlockView::ToolResult(_)));
            let record = self.open_record.take().filter(|_| !has_results);
            self.push(Role::User, &open, MessageFacts { tokens, record });
        }
    }

    /// Appends a finished message and its facts to the two lists, which must stay of the same length. A message without
    /// any block is left out.
    fn push<B: Serialize>(&mut self, role: Role, blocks: &[B], facts: MessageFacts) {
        // Blocks that are not objects were left out before; a message without any is left out here.
        if let Ok(message) = WireMessage::new(role, blocks) {
            self.note_references(std::slice::from_ref(&message));
            self.sealed.push(message);
            self.facts.push(facts);
        }
    }

    /// Notes the tools that results in these messages refer to, for [`Self::referenced_tools`].
    fn note_references(&mut self, messages: &[WireMessage]) {
        let new = referenced_tools(messages).into_iter().filter(|name| !self.references.contains(name));
        let new: Vec<String> = new.collect();
        self.references.extend(new);
    }
}

/// Returns whether a message contains a tool call.
fn holds_call(message: &WireMessage) -> bool {
    // Inside of a text the quotes would be escaped.
    const MARK: &[u8] = b"\"tool_use\"";
    message.bytes().windows(MARK.len()).any(|window| window == MARK)
}

/// Parses the blocks of a finished message; none if they cannot be parsed.
pub fn blocks_of(message: &WireMessage) -> Vec<ContentBlock> {
    #[derive(Deserialize)]
    struct Sent {
        content: Vec<ContentBlock>,
    }
    serde_json::from_slice::<Sent>(message.bytes()).map(|sent| sent.content).unwrap_or_default()
}

/// Cuts a text that is longer than `most` tokens to its first `keep_chars` characters and says so at its end. A block
/// that is not text stays as it is.
fn shorten(block: &mut ContentBlock, most: u64, keep_chars: usize) {
    let Some(text) = block.as_text() else { return };
    if block_tokens(block) > most {
        let text = first_chars(text, keep_chars);
        block.set_text(format!(
            "{text}\n[The rest of this message is left out: with it the conversation was too long to be sent.]"
        ));
    }
}

/// Returns whether a block can be sent. The API refuses blank text blocks, and a block that is not an object would
/// break the wire form.
fn is_sendable(block: &ContentBlock) -> bool {
    match block.as_text() {
        Some(text) => !text.trim().is_empty(),
        None => !block.tag().is_empty(),
    }
}

#[cfg(test)]
mod tests;
