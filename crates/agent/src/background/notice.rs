//! The end of a task and the event of a monitor in words: one line for hosts, and the element that the model reads.

use lathe_exec::{Ended, OutputStream};
use lathe_protocol::reminder::system_reminder;
use lathe_protocol::{InboundUser, MessageContent};
use lathe_tools::{TASK_FILE_BYTES, TaskKind, TaskStatus};
use lathe_transcript::RecordedTask;
use serde_json::json;

use crate::state::background_tasks::{NoticeUrgency, SessionTask, TaskNotice};
use crate::state::services::SessionServices;

/// Stands in front of notices, so that the model does not take them for a person's words.
const BANNER: &str =
    "Nobody wrote this: the runtime reports on work that was started earlier in this conversation.";

/// Returns one sentence about how the command ended, for the notification that hosts get and for the notice to the
/// model. For a monitor that was killed it is only the description, because the event of its notice tells the reason.
pub fn summary(task: &SessionTask, ended: Ended) -> String {
    let what = &task.description;
    let code = task.exit_code.unwrap_or(1);
    match (task.kind, task.status, ended) {
        (TaskKind::Monitor, TaskStatus::Completed, _) => format!("Monitor \"{what}\" stream ended"),
        (TaskKind::Monitor, TaskStatus::Failed | TaskStatus::Running, _) => {
            format!("Monitor \"{what}\" stream ended with exit code {code}")
        }
        // As the reference says it; the event of the notice tells the reason.
        (TaskKind::Monitor, TaskStatus::Killed, _) => what.clone(),
        (TaskKind::Shell, TaskStatus::Completed, _) => {
            format!("Background command \"{what}\" completed (exit code {code})")
        }
        (TaskKind::Shell, _, Ended::TimedOut) => {
            format!("Background command \"{what}\" was stopped: its time was up")
        }
        (TaskKind::Shell, _, Ended::OutputLimit) => {
            format!("Background command \"{what}\" was stopped: it printed too much")
        }
        (TaskKind::Shell, TaskStatus::Killed, _) => format!("Background command \"{what}\" was stopped"),
        (TaskKind::Shell, TaskStatus::Failed | TaskStatus::Running, _) => {
            format!("Background command \"{what}\" failed with exit code {code}")
        }
    }
}

/// Returns the notice about the end of a task that the model gets: its ids, output file, status and `summary` as
/// elements, without an event. `urgency` says whether it starts a turn.
pub fn notice(task: &SessionTask, summary: &str, urgency: NoticeUrgency) -> TaskNotice {
    TaskNotice { urgency, ..end_with_event(task, summary, None) }
}

/// Returns the notice about the end of a task as [`notice`] does, with the last text of a monitor as `event`. It starts
/// a turn if none runs. A note is added if the output file holds only the end of the output.
pub fn end_with_event(task: &SessionTask, summary: &str, event: Option<&str>) -> TaskNotice {
    let total = task.job.total_bytes(OutputStream::Stdout);
    let note = if total > TASK_FILE_BYTES {
        format!("<note>It printed {total} bytes; the file holds only the end of them.</note>\n")
    } else {
        String::new()
    };
    let text = format!(
        "<task-notification>\n<task-id>{}</task-id>\n<tool-use-id>{}</tool-use-id>\n<output-file>{}</output-file>\n\
         <status>{}</status>\n<summary>{}</summary>\n{note}{}</task-notification>",
        task.id,
        escaped(&task.tool_use_id),
        escaped(&task.output_file.display().to_string()),
        task.status.wire_name(),
        escaped(summary),
        event.map(event_element).unwrap_or_default(),
    );
    TaskNotice {
        task_id: task.id.clone(),
        run_id: Some(task.run_id.clone()),
        text,
        urgency: NoticeUrgency::WakesSession,
    }
}

/// Returns the notice of an event of a monitor, which starts a turn if none runs. It has no run id, because it is not
/// an end; this tells events from ends everywhere else.
pub fn event_notice(task: &SessionTask, event: &str) -> TaskNotice {
    let text = format!(
        "<task-notification>\n<task-id>{}</task-id>\n<summary>{}</summary>\n{}</task-notification>",
        task.id,
        escaped(&format!("Monitor event: \"{}\"", task.description)),
        event_element(event),
    );
    TaskNotice { task_id: task.id.clone(), run_id: None, text, urgency: NoticeUrgency::WakesSession }
}

/// Returns the text of an event of a monitor as an `<event>` element. Escaped, so that output of the command cannot end
/// the element.
fn event_element(event: &str) -> String {
    format!("<event>{}</event>\n", escaped(event))
}

/// Returns the sentence that hosts and the model are told about a task of an earlier run that has a start and no end in
/// the session's file.
pub fn lost_summary(task: &RecordedTask) -> String {
    format!("Background command \"{}\" did not end before the last run of the session did", task.description)
}

/// Returns the notice about a task of an earlier run that has a start and no end in the session's file; it waits for
/// the next request. It names no output file, because that may be gone.
pub fn lost_notice(task: &RecordedTask, run_id: String) -> TaskNotice {
    let text = format!(
        "<task-notification>\n<task-id>{}</task-id>\n<tool-use-id>{}</tool-use-id>\n<status>stopped</status>\n\
         <summary>{}</summary>\n<note>The process that ran it is gone, and the command with it. Start it again if \
         its result is still needed.</note>\n</task-notification>",
        escaped(&task.id),
        escaped(&task.tool_use_id),
        escaped(&lost_summary(task)),
    );
    TaskNotice { task_id: task.id.clone(), run_id: Some(run_id), text, urgency: NoticeUrgency::RidesAlong }
}

/// Returns a text with `&` and `<` escaped, so that it cannot end the element that it stands in.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

impl SessionServices {
    /// Takes the notices that wait, each as a note for the next request of the running turn. They are not offered
    /// again, and count as delivered when the record of their text has been written
    /// ([`SessionServices::notices_delivered`]).
    pub(crate) fn take_task_notes(&self) -> Vec<String> {
        let notices = self.tasks.list().take_notices();
        notices.into_iter().map(|notice| format!("{BANNER}\n{}", notice.text)).collect()
    }

    /// Takes all notices that wait, as the prompt of a turn; they count as delivered when the record of the prompt has
    /// been written ([`SessionServices::notices_delivered`]). Returns `None` and takes nothing if none of them starts a
    /// turn.
    pub(crate) fn task_prompt(&self) -> Option<InboundUser> {
        let notices = self.tasks.list().take_wake_up();
        notices.first()?;
        let runs: Vec<&str> = notices.iter().filter_map(|notice| notice.run_id.as_deref()).collect();
        let mut origin = json!({ "kind": "task-notification", "producer": "session-task" });
        // The event of a monitor does not end a run.
        if let Some(run) = runs.first() {
            origin["runId"] = json!(run);
        }
        if runs.len() > 1 {
            origin["runIds"] = json!(runs);
        }
        let texts: Vec<&str> = notices.iter().map(|notice| notice.text.as_str()).collect();
        let text = system_reminder(&format!("{BANNER}\n{}", texts.join("\n")));
        let mut prompt =
            InboundUser { is_synthetic: Some(true), origin: Some(origin), ..InboundUser::default() };
        prompt.message.role = "user".to_owned();
        prompt.message.content = MessageContent::Text(text);
        Some(prompt)
    }
}

/// Returns the elements of a wake-up prompt without the words around them, which is what hooks are asked about: from
/// the first start tag to the last end tag. `None` if the prompt holds no such element.
pub(crate) fn notices_in(prompt: &str) -> Option<&str> {
    let from = prompt.find("<task-notification>")?;
    const END: &str = "</task-notification>";
    let to = prompt.rfind(END)? + END.len();
    prompt.get(from..to)
}
