//! Commands that run beside the turn: how they become tasks, and how hosts and the model get to know of their ends.
//!
//! A task ends once. The first to find the end (the watcher of its command, or a request to stop it) claims it in the
//! list, sends the frames, and then leaves the notice for the model, in this order: a host knows of the end before the
//! turn that the notice starts.

pub mod files;
mod monitor;
pub(crate) mod notice;
pub(crate) mod records;
mod requests;
pub(crate) mod schedule;

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};
use lathe_exec::{DetachOutcome, Ended, Finished, OutputStream, SpillFile, WhenFull};
use lathe_tools::{
    BackgroundPolicy, CommandTask, NotStopped, TASK_FILE_BYTES, TaskActions, TaskGround, TaskKind, TaskPlace,
    TaskReport, TaskStatus, exit_code, exit_line,
};

use crate::background::records::NoticeRecord;
use crate::state::agent::AgentHandle;
use crate::state::background_tasks::{NoticeUrgency, SessionTask};
use crate::state::services::SessionServices;

/// The most ids that are tried for a task. A host whose numbers are not random names the same one every time.
const MAX_TRIES: usize = 100;

/// The most commands of one session that run in the background at the same time.
const MAX_RUNNING: usize = 64;

impl TaskActions for AgentHandle {
    fn background_policy(&self) -> BackgroundPolicy {
        self.session.tasks.config.policy
    }

    fn new_task(&self) -> Result<TaskPlace, String> {
        let tasks = &self.session.tasks;
        if tasks.list().live_places() >= MAX_RUNNING {
            return Err(format!(
                "{MAX_RUNNING} commands run in the background already; wait for one to end, or stop one"
            ));
        }
        // Reserved before the command is started: calls of one response do this at the same time.
        let reserved = self.session.process.limits.tasks.free_place().map(Arc::new).ok_or_else(|| {
            "this process runs as many commands in the background as it may; wait for one to end".to_owned()
        })?;
        tasks.list().add_place(&reserved);
        files::ensure_folder(&tasks.config.folder)?;
        let host = &self.session.process.host;
        let place = || {
            let id = files::task_id(|| host.random());
            let output_file = tasks.config.folder.join(format!("{id}.output"));
            TaskPlace { id, output_file, reserved: reserved.clone() }
        };
        // An id whose file exists belongs to an earlier run of the session.
        let free = |place: &TaskPlace| tasks.list().get(&place.id).is_none() && !place.output_file.exists();
        std::iter::repeat_with(place)
            .take(MAX_TRIES)
            .find(free)
            .ok_or_else(|| "no free id was found for the task".to_owned())
    }

    fn add_task(self: Arc<Self>, task: CommandTask) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let task = SessionTask {
                place: Some(task.place.reserved),
                run_id: files::run_id(self.session.process.host.now_ms(), &self.frames.uuid()),
                id: task.place.id,
                kind: task.kind,
                output_file: task.place.output_file,
                tool_use_id: task.tool_use_id,
                description: task.description,
                command: task.command,
                job: task.job,
                ground: task.ground,
                status: TaskStatus::Running,
                exit_code: None,
                read_offset: 0,
                end_is_seen: false,
            };
            let telling = self.session.tasks.tell().await;
            self.session.tasks.list().add(task.clone());
            if task.ground == TaskGround::Background {
                self.session.tell_background_set().await;
            }
            self.session.emit(self.frames.task_started(&task)).await;
            drop(telling);
            if task.ground == TaskGround::Background {
                self.session.watch(task);
            }
        })
    }

    fn close_foreground_task<'a>(&'a self, id: &'a str, status: TaskStatus) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let _telling = self.session.tasks.tell().await;
            let Some(task) = self.session.tasks.list().end(id, status, None) else { return };
            self.session.emit(self.frames.task_notification(&task, &task.description)).await;
            self.session.tasks.list().end_is_told(None);
        })
    }

    fn move_to_background<'a>(self: Arc<Self>, id: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move { self.session.move_to_background(id).await })
    }

    fn stop_task<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<TaskReport, NotStopped>> {
        Box::pin(async move { self.session.stop_task(id).await })
    }

    fn task_output_file(&self, id: &str) -> Option<PathBuf> {
        self.session.tasks.list().get(id).map(|task| task.output_file.clone())
    }

    fn task_report(&self, id: &str) -> Option<TaskReport> {
        self.session.tasks.list().get(id).map(SessionTask::report)
    }

    fn take_read_offset(&self, id: &str, end: u64) -> u64 {
        let mut list = self.session.tasks.list();
        list.get_mut(id).map_or(0, |task| std::mem::replace(&mut task.read_offset, end))
    }

    fn note_end_seen(&self, id: &str) {
        let withdrawn = {
            let mut list = self.session.tasks.list();
            if let Some(task) = list.get_mut(id) {
                task.end_is_seen = true;
            }
            list.withdraw_notice(id)
        };
        withdrawn.iter().for_each(|notice| self.session.record_notice(NoticeRecord::Withdrawn, notice));
    }
}

impl SessionServices {
    /// Sends the host the whole list of tasks that run in the background now. Has to be called after every change of
    /// that list, because hosts replace their list with it.
    pub(crate) async fn tell_background_set(&self) {
        let set = self.tasks.list().frame();
        self.emit(self.frames.background_tasks(set)).await;
    }

    /// Spawns a task of the event loop that waits for the command to end and then reports the end to the host and the
    /// model; for a monitor it also tells the events. Returns at once. To be called once for each task, when it is in
    /// the background.
    fn watch(self: &Arc<Self>, task: SessionTask) {
        let session = self.clone();
        match task.kind {
            TaskKind::Shell => {
                tokio::spawn(async move {
                    let finished = task.job.wait().await;
                    session.command_ended(&task.id, &finished, None).await;
                });
            }
            TaskKind::Monitor => {
                tokio::spawn(async move { session.follow_monitor(&task).await });
            }
        }
    }

    /// Marks a task as ended, sends its frames to the host, and then queues the notice for the model. The notice is
    /// recorded before the frames, so that a later run does not take an end that the host knows for missing; if the
    /// model has seen the end meanwhile, it is recorded as withdrawn and not queued. Does nothing if a request to stop
    /// the task has claimed the end before; `event` is the last text of a monitor.
    async fn command_ended(&self, id: &str, finished: &Finished, event: Option<&str>) {
        let code = exit_code(finished.exit);
        let status = match (finished.ended, code) {
            (Ended::Stopped | Ended::Cancelled | Ended::TimedOut | Ended::OutputLimit, _) => {
                TaskStatus::Killed
            }
            (Ended::ByItself, 0) => TaskStatus::Completed,
            (Ended::ByItself, _) => TaskStatus::Failed,
        };
        let _telling = self.tasks.tell().await;
        let ended = self.tasks.list().end(id, status, Some(code));
        let Some(task) = ended else { return };
        let summary = notice::summary(&task, finished.ended);
        let notice = notice::end_with_event(&task, &summary, event);
        // Recorded before the host is told, so that it never knows of an end that a later run takes for missing.
        self.record_notice(NoticeRecord::Queued, &notice);
        self.tell_end(&task, &summary).await;
        // Asked after the frames were sent, because the model may have read the end while a slow host took them.
        let is_seen = self.tasks.list().get(id).is_some_and(|task| task.end_is_seen);
        if is_seen {
            self.record_notice(NoticeRecord::Withdrawn, &notice);
        }
        self.tasks.list().end_is_told((!is_seen).then_some(notice));
        self.tasks.tell_loop();
    }

    /// Sends the frames about the end of a task: the update of its status, the notification, and the set of tasks that
    /// are left. The caller has ended the task in the list before and holds the permit of `tell`, so that the frames of
    /// two tasks do not mix.
    async fn tell_end(&self, task: &SessionTask, summary: &str) {
        self.emit(self.frames.task_ended(task, self.process.host.now_ms())).await;
        self.emit(self.frames.task_notification(task, summary)).await;
        self.tell_background_set().await;
    }

    /// Detaches the command of a foreground task from its call, so that it goes on in the background, tells the host,
    /// and starts to watch for its end. Returns false and tells nothing if background tasks are switched off, no task
    /// has this id, or it has ended or is in the background already.
    pub(crate) async fn move_to_background(self: &Arc<Self>, id: &str) -> bool {
        let BackgroundPolicy::For(lifetime) = self.tasks.config.policy else { return false };
        let _telling = self.tasks.tell().await;
        let moved = {
            let mut list = self.tasks.list();
            let Some(task) = list.get_mut(id) else { return false };
            if task.status != TaskStatus::Running || task.ground == TaskGround::Background {
                return false;
            }
            let file = SpillFile {
                path: task.output_file.clone(),
                cap_bytes: TASK_FILE_BYTES,
                when_full: WhenFull::KeepTail,
                exit_line: Some(exit_line),
            };
            // A command whose output was already too large for memory keeps the file that it has.
            if let Ok(kept) = task.job.keep_in_file(OutputStream::Stdout, Some(file)) {
                task.output_file = kept.path;
            }
            if task.job.detach(lifetime) == DetachOutcome::AlreadyEnded {
                return false;
            }
            task.ground = TaskGround::Background;
            task.clone()
        };
        self.tell_background_set().await;
        self.emit(self.frames.task_moved(&moved)).await;
        self.watch(moved);
        true
    }

    /// Kills a task with all its processes, tells the host, and returns when they have ended, within a bound. The model
    /// gets no notice, because it has asked for the stop or a person has. Fails if no task has this id or it has ended;
    /// like `stop`, it must not be dropped before it returns.
    pub(crate) async fn stop_task(&self, id: &str) -> Result<TaskReport, NotStopped> {
        self.stop(id, NoticeRecord::Withdrawn).await
    }

    /// Claims the end of a task, kills it with all its processes, and tells the host; fails if no task has this id or
    /// it has ended. `model` says what is recorded about the notice of a background task: `Withdrawn`, or `Queued` for
    /// a later run to tell the model, and then the host is told no output file. The notice is recorded before the host is
    /// told, so that a killed process leaves the end either untold or told. Waits until the processes have ended, within a
    /// bound; must not be dropped before it returns, because the session would keep waiting for the claimed end.
    async fn stop(&self, id: &str, model: NoticeRecord) -> Result<TaskReport, NotStopped> {
        let mut claimed = {
            let mut list = self.tasks.list();
            let status = list.get(id).ok_or(NotStopped::Unknown)?.status;
            list.end(id, TaskStatus::Killed, None).ok_or(NotStopped::Ended(status))?
        };
        claimed.job.kill().await;
        let _telling = self.tasks.tell().await;
        match claimed.ground {
            TaskGround::Background => {
                let summary = notice::summary(&claimed, Ended::Stopped);
                self.record_notice(model, &notice::notice(&claimed, &summary, NoticeUrgency::RidesAlong));
                // Hosts expect no file of a task that was stopped because the session ends.
                if model == NoticeRecord::Queued {
                    claimed.output_file = PathBuf::new();
                }
                self.tell_end(&claimed, &claimed.description).await;
            }
            TaskGround::Foreground => {
                self.emit(self.frames.task_notification(&claimed, &claimed.description)).await;
            }
        }
        self.tasks.list().end_is_told(None);
        self.tasks.tell_loop();
        Ok(claimed.report())
    }

    /// Stops every task in the background, all at the same time, because the session ends, and waits until they have
    /// ended, within a bound; tasks in the foreground are not touched. Each end is recorded as queued, so that a later
    /// run of the session tells the model. A task that ends on its own meanwhile is skipped.
    pub(crate) async fn stop_all_tasks(&self) {
        let ids: Vec<String> = self.tasks.list().in_background().map(|task| task.id.clone()).collect();
        join_all(ids.iter().map(|id| self.stop(id, NoticeRecord::Queued))).await;
    }
}
