//! What is restored behind a summary, within bounds: the files that were read or changed last, as they are now, and the
//! to-do list. A file that may no longer be read is left out.

use lathe_models::WireMessage;
use lathe_protocol::ContentBlock;
use lathe_protocol::reminder::system_reminder;
use lathe_tools::{Shown, TODO_LIST_TOOL};

use super::summary::TodoList;
use crate::record::estimate::{BYTES_PER_TOKEN, text_tokens};
use crate::record::history::blocks_of;
use crate::state::agent::AgentHandle;

/// The largest number of restored files.
const MAX_FILES: usize = 5;

/// The largest number of tokens of one file.
const FILE_TOKENS: u64 = 5_000;

/// The restored context: a text for the model, and the files whose content it holds.
#[derive(Default)]
pub(super) struct RestoredContext {
    pub text: Option<String>,
    files: Vec<(std::path::PathBuf, Shown)>,
}

impl RestoredContext {
    /// Reads the files that the model read last, within `max_tokens`, and puts them behind `todos` into one
    /// reminder. Files that the rules deny by now are left out.
    pub fn collect(agent: &AgentHandle, todos: Option<String>, max_tokens: u64) -> Self {
        let mut restored = Self::default();
        let mut parts: Vec<String> = todos.into_iter().collect();
        let mut left = max_tokens;
        for path in agent.workspace.place().files_read.recent(MAX_FILES) {
            let bytes = left.min(FILE_TOKENS) * BYTES_PER_TOKEN;
            // The rules may have changed since the file was read.
            if bytes == 0 || agent.session.permissions().read_denied(&path) {
                continue;
            }
            let Some(excerpt) = lathe_tools::current_text(&path, bytes as usize) else { continue };
            left = left.saturating_sub(text_tokens(excerpt.text.len()));
            let cut = match excerpt.shown {
                Shown::Whole => "",
                Shown::Part => "\n[cut here: read the file for the rest]",
            };
            parts.push(format!("{} as it is now:\n{}{cut}", path.display(), excerpt.text.trim_end()));
            restored.files.push((path, excerpt.shown));
        }
        if !parts.is_empty() {
            restored.text = Some(system_reminder(&parts.join("\n\n")));
        }
        restored
    }

    /// Replaces the list of files that the model has read by the restored ones, because the others are no longer in
    /// the conversation.
    pub fn note_seen(&self, agent: &AgentHandle) {
        agent.workspace.forget_files();
        // The newest file last, so that it stays the newest.
        for (path, shown) in self.files.iter().rev() {
            agent.workspace.note_read(path, *shown);
        }
    }
}

/// Returns the to-do list that was written last, if there is one.
pub(super) fn last_todos(messages: &[WireMessage]) -> Option<TodoList> {
    // Found by its bytes first, because parsing every message of a long conversation would be slow.
    let mark = format!("\"{TODO_LIST_TOOL}\"").into_bytes();
    let holds = |message: &&WireMessage| message.bytes().windows(mark.len()).any(|window| window == mark);
    let message = messages.iter().rev().find(holds)?;
    let blocks = blocks_of(message);
    let mut calls = blocks.iter().rev().filter_map(ContentBlock::as_tool_use);
    let call = calls.find(|call| call.name == TODO_LIST_TOOL)?;
    Some(TodoList::of_call(call.input))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_protocol::Role;
    use serde_json::json;

    #[test]
    fn the_last_list_counts() {
        let list = |what: &str| {
            let call = json!({"type": "tool_use", "id": "t", "name": "TodoWrite", "input": {"todos": [{"content": what}]}});
            WireMessage::new(Role::Assistant, &[call]).unwrap()
        };
        let talk = WireMessage::new(Role::User, &[json!({"type": "text", "text": "TodoWrite?"})]).unwrap();
        let messages = [list("old"), talk.clone(), list("new"), talk.clone()];
        let text = last_todos(&messages).unwrap().for_model().unwrap();
        assert!(text.ends_with("- [pending] new"), "{text}");
        assert!(last_todos(&[talk]).is_none());
    }
}
