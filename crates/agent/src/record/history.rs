//! The conversation as it is sent to the model. Messages are serialised when they are sealed and never again; what is
//! still being collected (tool results, notes) waits in an open user message, because the API wants all results of one
//! response in one message.
//!
//! It also knows its size: what the API counted for the last response, and an estimate of what was added since.
//! Compaction decides by that.

#[cfg(test)]
mod golden_tests;

use lathe_models::WireMessage;
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
    /// The conversation of a resumed session. Its last message stays open if it is the user's, so that the next prompt
    /// joins it.
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

    /// Adds blocks to the user message that goes out next.
    pub fn add_user(&mut self, blocks: impl IntoIterator<Item = ContentBlock>) {
        for block in blocks.into_iter().filter(is_sendable) {
            self.tokens += block_tokens(&block);
            self.open.push(block);
        }
    }

    /// Notes the record of a prompt that was just added.
    pub fn note_prompt(&mut self, record: String) {
        // Kept if there is one, because a tail begins with the first prompt of the message.
        self.open_record.get_or_insert(record);
    }

    /// Adds the result of an earlier response's call, which has to come before everything else in the message.
    pub fn add_result(&mut self, block: ContentBlock) {
        self.tokens += block_tokens(&block);
        self.open.insert(0, block);
    }

    /// Adds a text block to the user message that goes out next.
    pub fn add_user_text(&mut self, text: &str) {
        self.add_user([ContentBlock::text(text)]);
    }

    /// Adds notes of the runtime, each marked as such, so that the model does not take them for the user's words.
    pub fn add_notes(&mut self, notes: &[String]) {
        for note in notes {
            self.add_user_text(&system_reminder(note));
        }
    }

    /// Adds a whole response. One with nothing that can be sent back is left out, and what follows joins the user
    /// message before it.
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

    /// Notes what the API counted for the response just added, and the record of its first block.
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

    /// Returns the current size.
    pub fn size(&self) -> ConversationSize {
        ConversationSize {
            messages: self.tokens,
            measured: self.measured.map(|measured| measured.tokens),
            added: self.measured.map_or(0, |measured| self.tokens.saturating_sub(measured.estimate)),
        }
    }

    /// Whether the model has responded yet: a conversation without a response is not worth a summary.
    pub fn has_answers(&self) -> bool {
        self.sealed.iter().any(|message| message.role() == Role::Assistant)
    }

    /// Returns the longest end of the conversation that fits into the bounds and can follow a summary: it begins with a
    /// response, so every call in it keeps its result and every result its call, or it is the prompt that has no
    /// response yet. A call that waits for its result always stays.
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

    /// Estimates the size of a tail.
    pub fn tokens_from(&self, tail: &ConversationTail) -> u64 {
        self.facts.iter().skip(tail.start).map(|facts| facts.tokens).sum()
    }

    /// Replaces everything before the tail by `head`. What stays keeps its bytes, except for a prompt right behind the
    /// head, which becomes one message with it.
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
            self.sealed.extend(kept);
            self.facts.extend(kept_facts);
        }
    }

    /// Cuts texts of more than `most` tokens that have no response yet, because with them no request would ever fit
    /// again.
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

    /// Returns the messages to send, oldest first. Cloning them shares their bytes.
    pub fn messages(&mut self) -> Vec<WireMessage> {
        self.seal();
        self.sealed.clone()
    }

    /// Returns the messages so far, with the open blocks as the last one.
    pub fn so_far(&self) -> Vec<WireMessage> {
        let open = (!self.open.is_empty()).then(|| WireMessage::new(Role::User, &self.open).ok()).flatten();
        self.sealed.iter().cloned().chain(open).collect()
    }

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

    fn push<B: Serialize>(&mut self, role: Role, blocks: &[B], facts: MessageFacts) {
        // Blocks that are not objects were left out before; a message without any is left out here.
        if let Ok(message) = WireMessage::new(role, blocks) {
            self.sealed.push(message);
            self.facts.push(facts);
        }
    }
}

/// Whether a response calls a tool.
fn holds_call(message: &WireMessage) -> bool {
    // Inside of a text the quotes would be escaped.
    const MARK: &[u8] = b"\"tool_use\"";
    message.bytes().windows(MARK.len()).any(|window| window == MARK)
}

/// The blocks of a message.
pub fn blocks_of(message: &WireMessage) -> Vec<ContentBlock> {
    #[derive(Deserialize)]
    struct Sent {
        content: Vec<ContentBlock>,
    }
    serde_json::from_slice::<Sent>(message.bytes()).map(|sent| sent.content).unwrap_or_default()
}

/// Keeps only the beginning of a text that is too long.
fn shorten(block: &mut ContentBlock, most: u64, keep_chars: usize) {
    let Some(text) = block.as_text() else { return };
    if block_tokens(block) > most {
        let text = first_chars(text, keep_chars);
        block.set_text(format!(
            "{text}\n[The rest of this message is left out: with it the conversation was too long to be sent.]"
        ));
    }
}

/// Whether a block can be sent. The API refuses empty text blocks, and a block that is not an object would break the
/// wire form.
fn is_sendable(block: &ContentBlock) -> bool {
    match block.as_text() {
        Some(text) => !text.trim().is_empty(),
        None => !block.tag().is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(history: &mut ConversationHistory) -> Vec<String> {
        history.messages().iter().map(|m| String::from_utf8_lossy(m.bytes()).into_owned()).collect()
    }

    #[test]
    fn user_blocks_collect_until_an_answer_seals_them() {
        let mut history = ConversationHistory::default();
        history.add_user_text("one");
        history.add_user_text("two");
        history.add_assistant(vec![ContentBlock::text("three")]);
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
        let mut history = ConversationHistory::default();
        history.add_user_text("one");
        history.add_assistant(vec![ContentBlock::text(" ")]);
        history.add_user([json!("no object").into(), ContentBlock::text("two")]);
        assert_eq!(texts(&mut history).len(), 1);
    }

    #[test]
    fn no_answer_ends_in_thinking() {
        let thinking: ContentBlock = json!({"type": "thinking", "thinking": "hm", "signature": "s"}).into();
        let hidden: ContentBlock = json!({"type": "redacted_thinking", "data": "x"}).into();
        let blank = ContentBlock::text("");
        let mut history = ConversationHistory::default();
        history.add_user_text("one");
        history.add_assistant(vec![thinking.clone(), hidden.clone(), blank]);
        history.add_user_text("two");
        assert_eq!(texts(&mut history).len(), 1, "what was only thought is left out");
        history.add_assistant(vec![thinking, ContentBlock::text("said"), hidden]);
        let answer = texts(&mut history).pop().unwrap();
        assert!(answer.contains("hm") && answer.contains("said") && !answer.contains("redacted"), "{answer}");
    }

    fn call(id: &str) -> ContentBlock {
        json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "x".repeat(400)}}).into()
    }

    fn outcome(id: &str) -> ContentBlock {
        json!({"type": "tool_result", "tool_use_id": id, "content": "y".repeat(400)}).into()
    }

    /// A conversation of a prompt and three calls.
    fn worked() -> ConversationHistory {
        let mut history = ConversationHistory::default();
        history.add_user_text("do it");
        for id in ["t1", "t2", "t3"] {
            history.add_assistant(vec![call(id)]);
            history.note_answer(&Usage { input_tokens: 1000, ..Usage::default() }, Some(format!("r-{id}")));
            history.add_user([outcome(id)]);
        }
        history
    }

    fn within(tokens: u64) -> TailBounds {
        TailBounds { tokens, prompt: 10 * tokens }
    }

    #[test]
    fn a_tail_never_tears_a_call_from_its_result() {
        // Whatever the bound, the tail begins with a response or is empty.
        for bound in 0..2000 {
            let mut history = worked();
            let tail = history.tail(within(bound));
            history.compact(vec![ContentBlock::text("summary")], &tail);
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
        let tail = history.tail(within(300));
        assert_eq!((tail.start, tail.record.as_deref()), (5, Some("r-t3")));
        history.compact(vec![ContentBlock::text("summary")], &tail);
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
        let tail = history.tail(within(0));
        history.compact(vec![ContentBlock::text("summary")], &tail);
        history.add_user_text("go on");
        assert_eq!(texts(&mut history).len(), 1);
    }

    #[test]
    fn a_prompt_that_waits_stays_word_for_word_with_its_pictures() {
        let image: ContentBlock =
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}})
                .into();
        let text = "z".repeat(4000);
        let ask = |history: &mut ConversationHistory| {
            history.add_user([image.clone(), ContentBlock::text(text.as_str())]);
            history.note_prompt("r-p".to_owned());
        };
        // Room for the prompt, but for nothing else; then for neither.
        for (bounds, stays) in [
            (TailBounds { tokens: 100, prompt: 10_000 }, true),
            (TailBounds { tokens: 100, prompt: 100 }, false),
        ] {
            let mut history = worked();
            history.add_assistant(vec![ContentBlock::text("done")]);
            ask(&mut history);
            let tail = history.tail(bounds);
            assert_eq!((tail.record.as_deref(), tail.ends_with_prompt), (stays.then_some("r-p"), stays));
            history.compact(vec![ContentBlock::text("summary")], &tail);
            let texts = texts(&mut history);
            assert_eq!(texts.len(), 1, "{texts:?}");
            assert_eq!(texts[0].contains(&text) && texts[0].contains("image/png"), stays);
        }
        // With room for the response before it, both stay.
        let mut history = worked();
        history.add_assistant(vec![ContentBlock::text("done")]);
        history.note_answer(&Usage::default(), Some("r-a".to_owned()));
        ask(&mut history);
        let tail = history.tail(TailBounds { tokens: 3000, prompt: 10_000 });
        assert_eq!((tail.record.as_deref(), tail.ends_with_prompt), (Some("r-t3"), true));
    }

    #[test]
    fn a_prompt_behind_results_does_not_tear_them_from_their_call() {
        let mut history = worked();
        history.add_user_text("and this");
        history.note_prompt("r-p".to_owned());
        let tail = history.tail(within(1));
        assert_eq!((tail.start, tail.ends_with_prompt), (history.messages().len(), false));
    }

    #[test]
    fn a_call_that_waits_for_its_result_stays_whatever_its_size() {
        let mut history = worked();
        history.add_assistant(vec![call("t4")]);
        history.note_answer(&Usage::default(), Some("r-t4".to_owned()));
        let tail = history.tail(within(0));
        assert_eq!(tail.record.as_deref(), Some("r-t4"));
        history.compact(vec![ContentBlock::text("summary")], &tail);
        assert_eq!(texts(&mut history).len(), 2);
    }

    #[test]
    fn a_text_that_can_never_be_sent_is_cut() {
        let mut history = worked();
        let before = history.size().messages;
        history.add_user_text(&"z".repeat(40_000));
        history.add_user_text("short");
        history.shorten_unanswered(5000, 10);
        let last = texts(&mut history).pop().unwrap();
        assert!(last.contains(&"z".repeat(10)) && !last.contains(&"z".repeat(11)), "{last}");
        assert!(last.contains("left out") && last.contains("short") && last.contains("tool_result"));
        assert!(history.size().messages < before + 200, "{:?}", history.size());
        let sum: u64 = history.facts.iter().map(|facts| facts.tokens).sum();
        assert_eq!(history.size().messages, sum);
    }

    #[test]
    fn what_is_still_open_after_a_resume_is_counted_and_can_be_cut() {
        let block = ContentBlock::text("z".repeat(40_000));
        let role = Role::User;
        let blocks = vec![serde_json::value::to_raw_value(&block).unwrap()];
        let mut history =
            ConversationHistory::restore(vec![HistoryMessage { role, blocks, uuids: Vec::new() }]);
        assert!(history.size().messages > 5000, "{:?}", history.size());
        history.shorten_unanswered(5000, 10);
        assert!(history.size().messages < 100, "{:?}", history.size());
    }

    #[test]
    fn sealed_messages_keep_their_bytes() {
        let mut history = ConversationHistory::default();
        history.add_user_text("one");
        let before = history.messages()[0].bytes().as_ptr();
        history.add_assistant(vec![ContentBlock::text("a")]);
        assert_eq!(history.messages()[0].bytes().as_ptr(), before);
    }
}
