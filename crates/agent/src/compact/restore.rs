//! What is restored behind a summary, within bounds: the files that were read or changed last, as they are now, and the
//! to-do list. A file that may no longer be read is left out.

use lathe_protocol::reminder::system_reminder;
use lathe_tools::{Shown, TodoItem};

use crate::record::estimate::{BYTES_PER_TOKEN, text_tokens};
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
    /// Reads the files that the model read last, at most [`MAX_FILES`] within `max_tokens`, and puts them behind the
    /// to-dos, which are not limited, into one reminder. Files that the rules deny now or that cannot be read as text
    /// are left out. The text is `None` if there is nothing to restore.
    pub fn collect(agent: &AgentHandle, max_tokens: u64) -> Self {
        let mut restored = Self::default();
        let mut parts: Vec<String> = told(&agent.view().todos).into_iter().collect();
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

    /// Replaces the list of files that the model has read by the restored ones, because the others are no longer in the
    /// conversation. To be called once the conversation has been replaced.
    pub fn note_seen(&self, agent: &AgentHandle) {
        agent.workspace.forget_files();
        // The newest file last, so that it stays the newest.
        for (path, shown) in self.files.iter().rev() {
            agent.workspace.note_read(path, *shown);
        }
    }
}

/// Returns the to-do list as text for the model, one item a line under a heading; `None` if it is empty. The model is
/// given it after a compaction, because the call that wrote it is gone then.
fn told(todos: &[TodoItem]) -> Option<String> {
    let lines: Vec<String> =
        todos.iter().map(|todo| format!("- [{}] {}", todo.status, todo.content)).collect();
    (!lines.is_empty()).then(|| format!("The to-do list as it stands:\n{}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn todos_are_listed() {
        let todos = json!([{"content": "wash", "status": "completed"}, {"content": "dry"}, {"odd": 1}]);
        let text = told(&TodoItem::list(&todos)).unwrap();
        assert!(text.ends_with("- [completed] wash\n- [pending] dry"), "{text}");
        assert_eq!(told(&TodoItem::list(&json!([]))), None);
        assert_eq!(told(&TodoItem::list(&json!("no list"))), None);
    }
}
