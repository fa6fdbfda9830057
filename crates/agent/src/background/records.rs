//! The ends of tasks on disk, and what an earlier run of the session left behind. `lathe_transcript::tasks` says how
//! the records are read.

use lathe_protocol::Outbound;
use lathe_protocol::system::TaskNotification;
use lathe_transcript::SideRecord;

use super::{files, notice};
use crate::state::background_tasks::{NoticeUrgency, SessionTask, TaskNotice};
use crate::state::services::SessionServices;

/// What is recorded about a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoticeRecord {
    /// It waits for a request, of this run or a later one.
    Queued,
    /// It was recorded with the conversation.
    Delivered,
    /// The model will not get it.
    Withdrawn,
}

impl SessionServices {
    /// Records in the session's file what became of the notice of an end, so that a later run knows whether to tell it.
    /// Events of monitors are not recorded, because a later run cannot go on with the monitor.
    pub(crate) fn record_notice(&self, what: NoticeRecord, notice: &TaskNotice) {
        let Some(run_id) = &notice.run_id else { return };
        let (operation, text) = match what {
            NoticeRecord::Queued => ("enqueue", Some(notice.text.as_str())),
            NoticeRecord::Delivered => ("dequeue", None),
            NoticeRecord::Withdrawn => ("remove", Some(notice.text.as_str())),
        };
        let (session, now) = (self.frames.session_id(), self.frames.now());
        self.files.side(&SideRecord::task_notice(operation, &session, &now, run_id, text));
    }

    /// Records as delivered the taken notices that `text` contains. Must directly follow the record of that text, with
    /// no other record in between.
    pub(crate) fn notices_delivered(&self, text: &str) {
        let delivered = self.tasks.list().delivered_with(text);
        delivered.iter().for_each(|notice| self.record_notice(NoticeRecord::Delivered, notice));
    }

    /// Tells the host of the tasks that an earlier run started and whose end is not in the file, and keeps a notice of
    /// each for the next request, together with those that the earlier run did not deliver. Each such end is recorded
    /// before the host is told, so that no later run tells of it again. Must come before the first init frame; later
    /// calls do nothing.
    pub(crate) async fn tell_of_earlier_tasks(&self) {
        let earlier = self.tasks.list().take_earlier();
        let Some(earlier) = earlier else { return };
        for untold in &earlier.untold {
            self.tasks.list().add_notice(TaskNotice {
                task_id: untold.task_id.clone(),
                run_id: Some(untold.run_id.clone()),
                text: untold.text.clone(),
                urgency: NoticeUrgency::RidesAlong,
            });
        }
        for task in earlier.open() {
            let run_id = files::run_id(self.process.host.now_ms(), &self.frames.uuid());
            let notice = notice::lost_notice(task, run_id);
            // From here on the file has its end, and no other run tells of it.
            self.record_notice(NoticeRecord::Queued, &notice);
            self.emit(Outbound::system(TaskNotification {
                task_id: task.id.clone(),
                tool_use_id: Some(task.tool_use_id.clone()).filter(|id| !id.is_empty()),
                status: "stopped".to_owned(),
                summary: notice::lost_summary(task),
                session_id: self.frames.session_id(),
                uuid: self.frames.uuid(),
                ..TaskNotification::default()
            }))
            .await;
            self.tasks.list().add_notice(notice);
        }
    }

    /// Records in the file of a conversation that is about to be cleared that its running tasks continue without it, so
    /// that a later run does not count them as lost. Must come before the session changes its id and file. The tasks
    /// themselves are not touched.
    pub(crate) fn leave_tasks_behind(&self) {
        let running: Vec<SessionTask> = self.tasks.list().in_background().cloned().collect();
        for task in &running {
            let summary = format!(
                "Background command \"{}\" went on after this conversation was cleared; its end is not told here",
                task.description
            );
            self.record_notice(
                NoticeRecord::Queued,
                &notice::notice(task, &summary, NoticeUrgency::RidesAlong),
            );
        }
    }
}
