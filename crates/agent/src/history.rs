//! The conversation as the model will be sent it. Messages are serialised when they are sealed and
//! never again; what is still being collected (tool results, notes) waits in an open user message,
//! because the API wants all results of one answer in one message.
//!
//! It also knows how large it is: what the API counted for the last answer, and an estimate of what was
//! added since. That is what compaction goes by.

use lathe_models::{Role, WireMessage};
use lathe_protocol::Usage;
use lathe_transcript::HistoryMessage;
use serde::Serialize;
use serde_json::{Value, json};

use crate::estimate::{block_tokens, raw_block_tokens};

/// Everything said so far.
#[derive(Default)]
pub struct History {
    sealed: Vec<WireMessage>,
    /// What is known of each sealed message, in the same order.
    facts: Vec<MessageFacts>,
    /// Blocks of the user message that goes out with the next request.
    open: Vec<Value>,
    /// Estimate of all of it, what is open included.
    tokens: u64,
    measured: Option<Measured>,
}

/// What is known of a sealed message.
#[derive(Debug, Clone, Default)]
struct MessageFacts {
    /// Estimate of its size.
    tokens: u64,
    /// The record of its first block, for an answer.
    record: Option<String>,
}

/// The size as the API counted it.
#[derive(Debug, Clone, Copy)]
struct Measured {
    /// Everything, system prompt and tools included.
    tokens: u64,
    /// Our own estimate at that moment.
    estimate: u64,
}

/// How large a conversation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// The messages alone, estimated.
    pub messages: u64,
    /// What the API counted when it last answered, system prompt and tools included.
    pub measured: Option<u64>,
    /// Estimate of what was added since then.
    pub added: u64,
}

/// What stays of a conversation whose beginning was summarised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// Index of its first message, an answer; the number of messages if nothing stays.
    pub start: usize,
    /// The record it begins with.
    pub record: Option<String>,
}

impl History {
    /// The conversation of a session that goes on. Its last message stays open if the user's side spoke
    /// last, so that the next prompt joins it.
    pub fn restore(mut messages: Vec<HistoryMessage>) -> Self {
        let mut history = Self::default();
        if let Some(last) = messages.pop_if(|last| last.role == lathe_transcript::Role::User) {
            history.open = last.blocks.iter().filter_map(|b| serde_json::from_str(b.get()).ok()).collect();
        }
        // One after the other is let go: a long conversation is never in memory twice.
        for message in messages {
            let role = match message.role {
                lathe_transcript::Role::User => Role::User,
                lathe_transcript::Role::Assistant => Role::Assistant,
            };
            let tokens = message.blocks.iter().map(|block| raw_block_tokens(block)).sum();
            let record = (role == Role::Assistant).then(|| message.uuids.first().cloned()).flatten();
            history.tokens += tokens;
            history.push(role, &message.blocks, MessageFacts { tokens, record });
        }
        history
    }

    /// Adds blocks to the user message that goes out next.
    pub fn add_user(&mut self, blocks: impl IntoIterator<Item = Value>) {
        for block in blocks.into_iter().filter(is_sendable) {
            self.tokens += block_tokens(&block);
            self.open.push(block);
        }
    }

    /// Adds the result of an earlier answer's call, which has to come before anything else that is said.
    pub fn add_result(&mut self, block: Value) {
        self.tokens += block_tokens(&block);
        self.open.insert(0, block);
    }

    /// Adds a text block to the user message that goes out next.
    pub fn add_user_text(&mut self, text: &str) {
        self.add_user([json!({"type": "text", "text": text})]);
    }

    /// Adds notes of the runtime, each marked as such, so that nobody takes them for the user's words.
    pub fn add_notes(&mut self, notes: &[String]) {
        for note in notes {
            self.add_user_text(&as_reminder(note));
        }
    }

    /// Adds a whole answer. One with nothing that can be sent back is left out, and what follows joins
    /// the user message before it.
    pub fn add_assistant(&mut self, blocks: Vec<Value>) {
        let blocks: Vec<Value> = blocks.into_iter().filter(is_sendable).collect();
        if blocks.is_empty() {
            return;
        }
        self.seal();
        let tokens = blocks.iter().map(block_tokens).sum();
        self.tokens += tokens;
        self.push(Role::Assistant, &blocks, MessageFacts { tokens, record: None });
    }

    /// Notes what the API counted for the answer just added, and the record of its first block.
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
        if tokens > 0 {
            self.measured = Some(Measured { tokens, estimate: self.tokens });
        }
    }

    /// How large it is now.
    pub fn size(&self) -> Size {
        Size {
            messages: self.tokens,
            measured: self.measured.map(|measured| measured.tokens),
            added: self.measured.map_or(0, |measured| self.tokens.saturating_sub(measured.estimate)),
        }
    }

    /// Whether the model has said anything yet: a conversation without an answer is not worth a summary.
    pub fn has_answers(&self) -> bool {
        self.sealed.iter().any(|message| message.role() == Role::Assistant)
    }

    /// The longest end of the conversation that fits into `max_tokens` and can stand behind a summary: it
    /// begins with an answer, so every call in it keeps its result and every result its call.
    pub fn tail(&mut self, max_tokens: u64) -> Tail {
        self.seal();
        let mut tail = Tail { start: self.sealed.len(), record: None };
        let mut tokens = 0;
        for at in (0..self.sealed.len()).rev() {
            let facts = &self.facts[at];
            tokens += facts.tokens;
            if tokens > max_tokens {
                break;
            }
            if self.sealed[at].role() == Role::Assistant && facts.record.is_some() {
                tail = Tail { start: at, record: facts.record.clone() };
            }
        }
        tail
    }

    /// Estimate of a tail.
    pub fn tokens_from(&self, tail: &Tail) -> u64 {
        self.facts.iter().skip(tail.start).map(|facts| facts.tokens).sum()
    }

    /// Puts `head` in the place of everything before the tail. What stays keeps its bytes.
    pub fn compact(&mut self, head: Vec<Value>, tail: &Tail) {
        let kept = self.sealed.split_off(tail.start.min(self.sealed.len()));
        let kept_facts = self.facts.split_off(tail.start.min(self.facts.len()));
        *self = Self::default();
        self.add_user(head);
        if !kept.is_empty() {
            self.seal();
            self.tokens += kept_facts.iter().map(|facts| facts.tokens).sum::<u64>();
            self.sealed.extend(kept);
            self.facts.extend(kept_facts);
        }
    }

    /// The messages to send, oldest first. Cloning them shares their bytes.
    pub fn messages(&mut self) -> Vec<WireMessage> {
        self.seal();
        self.sealed.clone()
    }

    /// The messages so far, with what is still open as the last one.
    pub fn so_far(&self) -> Vec<WireMessage> {
        let open = (!self.open.is_empty()).then(|| WireMessage::new(Role::User, &self.open).ok()).flatten();
        self.sealed.iter().cloned().chain(open).collect()
    }

    /// Whether nothing was said yet.
    pub fn is_empty(&self) -> bool {
        self.sealed.is_empty() && self.open.is_empty()
    }

    fn seal(&mut self) {
        if !self.open.is_empty() {
            let open = std::mem::take(&mut self.open);
            let tokens = open.iter().map(block_tokens).sum();
            self.push(Role::User, &open, MessageFacts { tokens, record: None });
        }
    }

    fn push<B: Serialize>(&mut self, role: Role, blocks: &[B], facts: MessageFacts) {
        // Blocks that are no objects were left out before; a message without any is left out here.
        if let Ok(message) = WireMessage::new(role, blocks) {
            self.sealed.push(message);
            self.facts.push(facts);
        }
    }
}

/// A text of the runtime or of a project, as a note that nobody takes for the user's words. What looks like
/// the end of the note is made harmless, so that a file cannot speak as somebody else.
pub fn as_reminder(text: &str) -> String {
    let text = text.replace("</system-reminder", "<\u{200b}/system-reminder");
    format!("<system-reminder>\n{text}\n</system-reminder>")
}

/// The API refuses empty text blocks, and a block that is no object would break the wire form.
fn is_sendable(block: &Value) -> bool {
    match block["type"].as_str() {
        Some("text") => block["text"].as_str().is_some_and(|text| !text.trim().is_empty()),
        Some(_) => block.is_object(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(history: &mut History) -> Vec<String> {
        history.messages().iter().map(|m| String::from_utf8_lossy(m.bytes()).into_owned()).collect()
    }

    #[test]
    fn user_blocks_collect_until_an_answer_seals_them() {
        let mut history = History::default();
        history.add_user_text("one");
        history.add_user_text("two");
        history.add_assistant(vec![json!({"type": "text", "text": "three"})]);
        assert_eq!(
            texts(&mut history),
            [
                r#"{"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}"#,
                r#"{"role":"assistant","content":[{"type":"text","text":"three"}]}"#,
            ]
        );
    }

    #[test]
    fn what_the_api_would_refuse_is_left_out() {
        let mut history = History::default();
        history.add_user_text("one");
        history.add_assistant(vec![json!({"type": "text", "text": " "})]);
        history.add_user([json!("no object"), json!({"type": "text", "text": "two"})]);
        assert_eq!(texts(&mut history).len(), 1);
    }

    fn call(id: &str) -> Value {
        json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "x".repeat(400)}})
    }

    fn outcome(id: &str) -> Value {
        json!({"type": "tool_result", "tool_use_id": id, "content": "y".repeat(400)})
    }

    /// A conversation of a prompt and three calls.
    fn worked() -> History {
        let mut history = History::default();
        history.add_user_text("do it");
        for id in ["t1", "t2", "t3"] {
            history.add_assistant(vec![call(id)]);
            history.note_answer(&Usage { input_tokens: 1000, ..Usage::default() }, Some(format!("r-{id}")));
            history.add_user([outcome(id)]);
        }
        history
    }

    #[test]
    fn a_tail_never_tears_a_call_from_its_result() {
        // Whatever the bound, the tail begins with an answer or is empty.
        for bound in 0..2000 {
            let mut history = worked();
            let tail = history.tail(bound);
            history.compact(vec![json!({"type": "text", "text": "summary"})], &tail);
            let texts = texts(&mut history);
            assert!(texts[0].contains("summary"), "{texts:?}");
            for id in ["t1", "t2", "t3"] {
                let calls = texts.iter().filter(|text| text.contains(&format!("\"id\":\"{id}\""))).count();
                let results =
                    texts.iter().filter(|text| text.contains(&format!("\"tool_use_id\":\"{id}\""))).count();
                assert_eq!(calls, results, "bound {bound}: {texts:?}");
            }
            let roles: Vec<Role> = history.messages().iter().map(WireMessage::role).collect();
            assert!(roles.windows(2).all(|pair| pair[0] != pair[1]), "bound {bound}");
        }
    }

    #[test]
    fn what_stays_keeps_its_bytes_and_the_size_follows() {
        let mut history = worked();
        let before = history.size();
        assert_eq!(before.measured, Some(1000));
        assert!(before.added >= 100, "{before:?}");
        let last = history.messages()[5].bytes().as_ptr();
        let tail = history.tail(300);
        assert_eq!((tail.start, tail.record.as_deref()), (5, Some("r-t3")));
        history.compact(vec![json!({"type": "text", "text": "summary"})], &tail);
        assert_eq!(history.messages()[1].bytes().as_ptr(), last);
        let after = history.size();
        assert_eq!(after.measured, None, "nothing is known before the next answer");
        assert!(after.messages < before.messages);
        let sum: u64 = history.facts.iter().map(|facts| facts.tokens).sum();
        assert_eq!(after.messages, sum);
    }

    #[test]
    fn without_a_tail_the_next_words_join_the_summary() {
        let mut history = worked();
        let tail = history.tail(0);
        history.compact(vec![json!({"type": "text", "text": "summary"})], &tail);
        history.add_user_text("go on");
        assert_eq!(texts(&mut history).len(), 1);
    }

    #[test]
    fn sealed_messages_keep_their_bytes() {
        let mut history = History::default();
        history.add_user_text("one");
        let before = history.messages()[0].bytes().as_ptr();
        history.add_assistant(vec![json!({"type": "text", "text": "a"})]);
        assert_eq!(history.messages()[0].bytes().as_ptr(), before);
    }
}
