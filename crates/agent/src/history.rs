//! The conversation as the model will be sent it. Messages are serialised when they are sealed and
//! never again; what is still being collected (tool results, notes) waits in an open user message,
//! because the API wants all results of one answer in one message.

use lathe_models::{Role, WireMessage};
use lathe_transcript::HistoryMessage;
use serde::Serialize;
use serde_json::{Value, json};

/// Everything said so far.
#[derive(Default)]
pub struct History {
    sealed: Vec<WireMessage>,
    /// Blocks of the user message that goes out with the next request.
    open: Vec<Value>,
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
            history.push(role, &message.blocks);
        }
        history
    }

    /// Adds blocks to the user message that goes out next.
    pub fn add_user(&mut self, blocks: impl IntoIterator<Item = Value>) {
        self.open.extend(blocks.into_iter().filter(is_sendable));
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
        self.push(Role::Assistant, &blocks);
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
            self.push(Role::User, &open);
        }
    }

    fn push<B: Serialize>(&mut self, role: Role, blocks: &[B]) {
        // Blocks that are no objects were left out before; a message without any is left out here.
        self.sealed.extend(WireMessage::new(role, blocks).ok());
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

    #[test]
    fn sealed_messages_keep_their_bytes() {
        let mut history = History::default();
        history.add_user_text("one");
        let before = history.messages()[0].bytes().as_ptr();
        history.add_assistant(vec![json!({"type": "text", "text": "a"})]);
        assert_eq!(history.messages()[0].bytes().as_ptr(), before);
    }
}
