//! The list of the session's tasks, and the notices of those that have ended. `background/` watches the commands and
//! tells of them; the session's loop waits for what can still wake it.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lathe_exec::{CommandJob, Place};
use lathe_protocol::system::BackgroundTask;
use lathe_tools::{BackgroundPolicy, TaskGround, TaskKind, TaskReport, TaskStatus};
use lathe_transcript::RecordedTasks;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// Characters of a description or command that hooks and results are told.
const TOLD_CHARS: usize = 1000;

/// The most ended tasks that are remembered.
const MAX_ENDED: usize = 256;

/// How a session treats background tasks.
#[derive(Debug, Clone)]
pub struct BackgroundConfig {
    /// The folder of output files; created with the first task.
    pub folder: PathBuf,
    /// Whether there may be any, and how long they run.
    pub policy: BackgroundPolicy,
    /// How long the session waits for them after its last turn; `None` waits as long as they take.
    pub ceiling: Option<Duration>,
}

/// The tasks of a session.
pub struct BackgroundTasks {
    pub config: BackgroundConfig,
    /// Written by calls that start commands, by the watchers of commands and by host requests; read by the loop of the
    /// session, results and hooks.
    list: Mutex<TaskList>,
    /// One permit, held while the frames of one start or end are sent, so that those of two tasks do not mix.
    telling: Semaphore,
    /// Wakes the loop of the session, its only waiter, which then looks at the list again.
    pub changed: Notify,
}

/// The tasks, and the notices that wait.
#[derive(Default)]
pub struct TaskList {
    tasks: Vec<SessionTask>,
    /// Notices in the order of the ends; taken by the next request.
    notices: VecDeque<TaskNotice>,
    /// Notices that were taken for a request and are not recorded yet.
    in_delivery: Vec<TaskNotice>,
    /// Tasks that have ended and whose frames are being sent.
    being_told: usize,
    /// What an earlier run of the session left behind, until its first turn.
    earlier: Option<RecordedTasks>,
    /// The places of tasks that run or are about to.
    places: Vec<Weak<Place>>,
}

/// One task.
#[derive(Clone)]
pub struct SessionTask {
    pub id: String,
    pub kind: TaskKind,
    /// Tells this run of the task from others with the same id.
    pub run_id: String,
    pub tool_use_id: String,
    pub description: String,
    pub command: String,
    pub output_file: PathBuf,
    pub job: CommandJob,
    pub ground: TaskGround,
    pub status: TaskStatus,
    pub exit_code: Option<i32>,
    /// Up to where the model has read its output with BashOutput.
    pub read_offset: u64,
    /// Whether the model knows of the end without a notice.
    pub end_is_seen: bool,
    /// Its place among the commands that the process may run in the background, until it ends.
    pub place: Option<Arc<Place>>,
}

/// The end of a task or an event of a monitor, for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskNotice {
    pub task_id: String,
    /// The run that has ended; `None` for an event.
    pub run_id: Option<String>,
    /// The `<task-notification>` element.
    pub text: String,
    pub urgency: NoticeUrgency,
}

/// Whether a notice starts a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeUrgency {
    /// It does, if no turn runs.
    WakesSession,
    /// It waits for the next request.
    RidesAlong,
}

impl BackgroundTasks {
    /// Begins with an empty list.
    pub fn new(config: BackgroundConfig) -> Self {
        Self { config, list: Mutex::default(), telling: Semaphore::new(1), changed: Notify::new() }
    }

    /// Locks the list; the lock must not be held across an await.
    pub fn list(&self) -> MutexGuard<'_, TaskList> {
        // Nothing that is done under the lock could leave it half changed.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other start or end of a task is being told. The caller sends its frames while it holds the
    /// permit, so that those of two tasks do not mix. Never `None`, because the semaphore is never closed.
    pub async fn tell(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed, so there is always a permit.
        self.telling.acquire().await.ok()
    }

    /// Wakes the event loop of the session, so that it looks at the list again. To be called after every change
    /// that may start or allow the end of a run.
    pub fn tell_loop(&self) {
        // Kept if the loop does not wait at this moment, so that no change is missed.
        self.changed.notify_one();
    }
}

impl TaskList {
    /// Adds a task that has just started, behind the others.
    pub fn add(&mut self, task: SessionTask) {
        self.tasks.push(task);
    }

    /// Notes a place that a task has reserved, for [`Self::live_places`]. The list does not keep it reserved.
    pub fn add_place(&mut self, place: &Arc<Place>) {
        self.places.push(Arc::downgrade(place));
    }

    /// Returns how many tasks run or are about to, by the places that are still held. Released places are removed from
    /// the list.
    pub fn live_places(&mut self) -> usize {
        self.places.retain(|place| place.strong_count() > 0);
        self.places.len()
    }

    /// Keeps what an earlier run of the session left behind until [`Self::take_earlier`] takes it.
    pub fn resume(&mut self, earlier: RecordedTasks) {
        self.earlier = Some(earlier);
    }

    /// Takes what an earlier run of the session left behind; `None` if there is nothing, or if it was taken before.
    pub fn take_earlier(&mut self) -> Option<RecordedTasks> {
        self.earlier.take()
    }

    /// Returns the task with this id, running or ended; `None` if it is not known or was forgotten.
    pub fn get(&self, id: &str) -> Option<&SessionTask> {
        self.tasks.iter().find(|task| task.id == id)
    }

    /// Returns the task with this id for a change; `None` if it is not known. The end of a task must be noted with
    /// [`Self::end`] instead.
    pub fn get_mut(&mut self, id: &str) -> Option<&mut SessionTask> {
        self.tasks.iter_mut().find(|task| task.id == id)
    }

    /// Returns the tasks that run, in the foreground or the background, in the order of their starts.
    pub fn running(&self) -> impl Iterator<Item = &SessionTask> {
        self.tasks.iter().filter(|task| task.status == TaskStatus::Running)
    }

    /// Returns the tasks that run in the background, in the order of their starts.
    pub fn in_background(&self) -> impl Iterator<Item = &SessionTask> {
        self.running().filter(|task| task.ground == TaskGround::Background)
    }

    /// Returns whether something is left that can start a turn: a task that runs in the background, an end whose frames
    /// are being sent, or a notice that starts one.
    pub fn can_wake(&self) -> bool {
        self.notice_wakes() || self.being_told > 0 || self.in_background().next().is_some()
    }

    /// Returns whether a notice waits that starts a turn of its own.
    fn notice_wakes(&self) -> bool {
        self.notices.iter().any(|notice| notice.urgency == NoticeUrgency::WakesSession)
    }

    /// Returns the ids of the tasks whose end waits to start a turn. Events of monitors are not among them.
    pub fn untold(&self) -> impl Iterator<Item = &str> {
        let waking =
            |notice: &&TaskNotice| notice.urgency == NoticeUrgency::WakesSession && notice.run_id.is_some();
        self.notices.iter().filter(waking).map(|notice| notice.task_id.as_str())
    }

    /// Takes all notices, in the order in which they came, for a request that is sent anyway. They count as being
    /// delivered until [`Self::delivered_with`] or [`Self::put_back`] finds their text.
    pub fn take_notices(&mut self) -> Vec<TaskNotice> {
        let taken: Vec<TaskNotice> = std::mem::take(&mut self.notices).into();
        self.in_delivery.extend(taken.iter().cloned());
        taken
    }

    /// Takes all notices for a turn of their own. Empty, with nothing taken, unless one of them starts a turn.
    pub fn take_wake_up(&mut self) -> Vec<TaskNotice> {
        if self.notice_wakes() { self.take_notices() } else { Vec::new() }
    }

    /// Takes the notices being delivered whose text `text` contains, because it is recorded now: the model was told.
    pub fn delivered_with(&mut self, text: &str) -> Vec<TaskNotice> {
        self.in_delivery.extract_if(.., |notice| text.contains(&notice.text)).collect()
    }

    /// Puts back the notices that `text` contains, the prompt that was cancelled before the model could read it. They
    /// wait for the next request and no longer start a turn.
    pub fn put_back(&mut self, text: &str) {
        for mut notice in self.delivered_with(text) {
            notice.urgency = NoticeUrgency::RidesAlong;
            self.notices.push_back(notice);
        }
    }

    /// Adds an event of a monitor, or a notice from an earlier run of the session, behind those that wait.
    pub fn add_notice(&mut self, notice: TaskNotice) {
        self.notices.push_back(notice);
    }

    /// Notes the end of a running task, once: `None` for a task that has ended before or is not known. The caller sends
    /// the frames of the end and then calls [`TaskList::end_is_told`]. Also releases the task's place and forgets the
    /// oldest ended tasks beyond [`MAX_ENDED`].
    pub fn end(&mut self, id: &str, status: TaskStatus, exit_code: Option<i32>) -> Option<SessionTask> {
        let task = self.tasks.iter_mut().find(|task| task.id == id)?;
        if task.status != TaskStatus::Running {
            return None;
        }
        task.status = status;
        task.exit_code = exit_code;
        task.place = None;
        let ended = task.clone();
        self.being_told += 1;
        self.forget_old();
        Some(ended)
    }

    /// Notes that the host knows of an end, and keeps the notice for the next request, if the model is to know. Must
    /// follow every [`TaskList::end`] that returned a task, or the session goes on waiting for it.
    pub fn end_is_told(&mut self, notice: Option<TaskNotice>) {
        self.being_told = self.being_told.saturating_sub(1);
        self.notices.extend(notice);
    }

    /// Returns whether an event of the monitor with this id waits for a request.
    pub fn has_event_of(&self, id: &str) -> bool {
        self.notices.iter().any(|notice| notice.task_id == id && notice.run_id.is_none())
    }

    /// Takes the notice of a task's end, because the model has seen the end otherwise; `None` if none waits. Events of
    /// monitors stay.
    pub fn withdraw_notice(&mut self, id: &str) -> Option<TaskNotice> {
        let at = self.notices.iter().position(|notice| notice.task_id == id && notice.run_id.is_some())?;
        self.notices.remove(at)
    }

    /// Forgets the oldest tasks that have ended, so that at most [`MAX_ENDED`] of those are kept. Running tasks stay.
    fn forget_old(&mut self) {
        let ended = self.tasks.iter().filter(|task| task.status != TaskStatus::Running).count();
        let mut too_many = ended.saturating_sub(MAX_ENDED);
        self.tasks.retain(|task| {
            let drops = too_many > 0 && task.status != TaskStatus::Running;
            too_many -= usize::from(drops);
            !drops
        });
    }

    /// Returns the tasks that run in the background, in the form that `background_tasks_changed` lists them.
    pub fn frame(&self) -> Vec<BackgroundTask> {
        let task = |task: &SessionTask| BackgroundTask {
            task_id: task.id.clone(),
            run_id: Some(task.run_id.clone()),
            task_type: SessionTask::TYPE.to_owned(),
            description: task.description.clone(),
            ..BackgroundTask::default()
        };
        self.in_background().map(task).collect()
    }

    /// Returns the tasks that run in the background, in the form that Stop hooks and results carry. Descriptions and
    /// commands are cut to [`TOLD_CHARS`].
    pub fn told(&self) -> Vec<Value> {
        let cut = |text: &str| text.chars().take(TOLD_CHARS).collect::<String>();
        let task = |task: &SessionTask| {
            json!({
                "id": task.id,
                "type": task.kind.wire_name(),
                "status": task.status.wire_name(),
                "description": cut(&task.description),
                "command": cut(&task.command),
            })
        };
        self.in_background().map(task).collect()
    }
}

impl SessionTask {
    /// The type of a command in frames.
    pub const TYPE: &str = "local_bash";

    /// Returns a copy of what tools get to know of the task, with its job.
    pub fn report(&self) -> TaskReport {
        TaskReport {
            id: self.id.clone(),
            description: self.description.clone(),
            command: self.command.clone(),
            status: self.status,
            exit_code: self.exit_code,
            job: self.job.clone(),
        }
    }
}
