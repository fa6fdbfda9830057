//! The end of a task in words: one line for hosts, and the element that the model reads.

use lathe_exec::Ended;
use lathe_protocol::reminder::system_reminder;
use lathe_protocol::{InboundUser, MessageContent};
use lathe_tools::TaskStatus;
use serde_json::json;

use crate::state::background_tasks::{SessionTask, TaskNotice};
use crate::state::services::SessionServices;

/// Stands in front of notices, so that the model does not take them for a person's words.
const BANNER: &str =
    "Nobody wrote this: the runtime reports on work that was started earlier in this conversation.";

/// Returns one sentence about how the command ended, for the notification that hosts get. The notice for the model
/// contains it too.
pub fn summary(task: &SessionTask, ended: Ended) -> String {
    let what = &task.description;
    let code = task.exit_code.unwrap_or(1);
    match (task.status, ended) {
        (TaskStatus::Completed, _) => format!("Background command \"{what}\" completed (exit code {code})"),
        (_, Ended::TimedOut) => format!("Background command \"{what}\" was stopped: its time was up"),
        (_, Ended::OutputLimit) => format!("Background command \"{what}\" was stopped: it printed too much"),
        (TaskStatus::Killed, _) => format!("Background command \"{what}\" was stopped"),
        (TaskStatus::Failed | TaskStatus::Running, _) => {
            format!("Background command \"{what}\" failed with exit code {code}")
        }
    }
}

/// Returns the notice about the end of a task that the model gets: its ids, output file, status and `summary` as
/// elements.
pub fn notice(task: &SessionTask, summary: &str) -> TaskNotice {
    let text = format!(
        "<task-notification>\n<task-id>{}</task-id>\n<tool-use-id>{}</tool-use-id>\n<output-file>{}</output-file>\n\
         <status>{}</status>\n<summary>{}</summary>\n</task-notification>",
        task.id,
        escaped(&task.tool_use_id),
        escaped(&task.output_file.display().to_string()),
        task.status.wire_name(),
        escaped(summary),
    );
    TaskNotice { task_id: task.id.clone(), run_id: task.run_id.clone(), text }
}

/// Returns a text that cannot end the element it stands in.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

impl SessionServices {
    /// Takes the notices that wait, each as a note for the request of the running turn. A notice that was taken is
    /// not offered again.
    pub(crate) fn take_task_notes(&self) -> Vec<String> {
        let notices = self.tasks.list().take_notices();
        notices.into_iter().map(|notice| format!("{BANNER}\n{}", notice.text)).collect()
    }

    /// Takes the notices that wait, as the synthetic prompt of a turn of their own, for a session in which no turn
    /// runs. `None` if no notice waits.
    pub(crate) fn task_prompt(&self) -> Option<InboundUser> {
        let notices = self.tasks.list().take_notices();
        let first = notices.first()?;
        let origin = json!({
            "kind": "task-notification",
            "producer": "session-task",
            "runId": first.run_id,
        });
        let texts: Vec<&str> = notices.iter().map(|notice| notice.text.as_str()).collect();
        let text = system_reminder(&format!("{BANNER}\n{}", texts.join("\n")));
        let mut prompt =
            InboundUser { is_synthetic: Some(true), origin: Some(origin), ..InboundUser::default() };
        prompt.message.role = "user".to_owned();
        prompt.message.content = MessageContent::Text(text);
        Some(prompt)
    }
}
