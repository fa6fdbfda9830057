//! What tools do to the schedule, and how what is due becomes the prompt of a turn.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Unit;
use lathe_protocol::{InboundUser, MessageContent};
use lathe_settings::{JudgedTask, ScheduledTask, ScheduledTasks, SettingsError, TaskChange};
use lathe_tools::{
    CronJob, CronRecurrence, CronStanding, CronStorage, NewCronJob, ScheduleActions, ScheduleFailure,
    ScheduledWakeUp, WakeUpRequest,
};
use tokio::time::Instant;

use crate::state::agent::AgentHandle;
use crate::state::schedule::{DueEntry, MAX_JOBS, PendingWakeUp, ScheduledJob, as_ms};
use crate::state::services::SessionServices;

/// How long another writer of the folder's file is waited for.
const FILE_WAIT: Duration = Duration::from_secs(5);
/// The pause between two attempts.
const FILE_PAUSE: Duration = Duration::from_millis(10);

/// How long a job waits whose turn could not be taken.
const RETRY_MS: u64 = 5 * 60 * 1000;

/// A job that comes later than this is told when it should have come.
const MISSED_MS: u64 = 10 * 60 * 1000;

/// A turn that the clock starts.
pub(crate) struct ScheduledTurn {
    pub prompt: InboundUser,
    pub source: ClockSource,
    /// The wake-up that it is announced as.
    pub wake_up: Option<PendingWakeUp>,
}

/// What made the clock start a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClockSource {
    WakeUp,
    CronJob,
}

impl ClockSource {
    /// Returns the name of the source in hook inputs and frames. Hosts and hooks compare it, so it must not change.
    pub fn wire_name(self) -> &'static str {
        match self {
            Self::WakeUp => "loop_wakeup",
            Self::CronJob => "schedule_wakeup",
        }
    }
}

impl ScheduleActions for AgentHandle {
    fn create_job(self: Arc<Self>, job: NewCronJob) -> BoxFuture<'static, Result<CronJob, ScheduleFailure>> {
        Box::pin(async move { self.session.create_job(job).await })
    }

    fn jobs(&self) -> Result<Vec<CronJob>, ScheduleFailure> {
        self.session.refresh_schedule().map_err(ScheduleFailure::Failed)?;
        Ok(self.session.queue().scheduled.all().map(ScheduledJob::report).collect())
    }

    fn delete_job(self: Arc<Self>, id: String) -> BoxFuture<'static, Result<(), ScheduleFailure>> {
        Box::pin(async move { self.session.delete_job(&id).await })
    }

    fn schedule_wake_up(&self, request: WakeUpRequest) -> ScheduledWakeUp {
        let schedule = &self.session.schedule;
        let now_ms = self.session.process.host.now_ms();
        // At a full minute, as people expect it of a clock.
        let at_ms = (now_ms + request.delay_seconds * 1000).div_ceil(60_000) * 60_000;
        let uuid = self.session.process.host.uuid();
        let wake_up = PendingWakeUp { uuid, at_ms, prompt: request.prompt };
        self.session.queue().scheduled.set_wake_up(Some(wake_up));
        self.session.tasks.tell_loop();
        let in_seconds = (at_ms - now_ms + 500) / 1000;
        ScheduledWakeUp { at: schedule.zoned(at_ms), in_seconds }
    }

    fn cancel_wake_up(&self) -> usize {
        let cancelled = self.session.queue().scheduled.set_wake_up(None);
        self.session.tasks.tell_loop();
        usize::from(cancelled.is_some())
    }
}

impl SessionServices {
    /// Reads the jobs of the folder again if their file has changed since the last reading. An error says why they
    /// cannot be read: then no job of the folder is scheduled, and later calls return `Ok` until the file changes
    /// again.
    fn refresh_schedule(&self) -> Result<(), String> {
        let Some(folder) = &self.schedule.config.folder else { return Ok(()) };
        let stamp = folder.stamp();
        if self.queue().scheduled.is_read(stamp) {
            return Ok(());
        }
        let read = folder.read();
        let tasks = read.as_ref().map(Vec::as_slice).unwrap_or_default().iter();
        let mut queue = self.queue();
        let jobs = tasks.filter_map(|JudgedTask { task, counts }| {
            let counts = *counts || queue.scheduled.is_own(task);
            let standing = if counts { CronStanding::Active } else { CronStanding::Untrusted };
            self.schedule.job_of(task.clone(), standing)
        });
        let jobs = jobs.collect();
        queue.scheduled.set_folder_jobs(stamp, jobs);
        read.map(drop).map_err(|error| format!("failed to read scheduled tasks: {error}"))
    }

    /// Adds a job to the session or to the file of the folder, and wakes the session's loop. Fails if no date fits the
    /// job, if there are too many jobs already, or if the file of the folder is needed and cannot be used.
    async fn create_job(&self, job: NewCronJob) -> Result<CronJob, ScheduleFailure> {
        let failed = |why: String| Err(ScheduleFailure::Failed(why));
        // A file that cannot be read holds no job that counts; a job of the session needs none.
        if let (Err(why), CronStorage::Folder) = (self.refresh_schedule(), job.storage) {
            return failed(why);
        }
        let now_ms = self.process.host.now_ms();
        if job.cron.next_after(&self.schedule.zoned(now_ms)).is_none() {
            return failed(format!("Not scheduled: no date fits '{}'.", job.cron));
        }
        if self.queue().scheduled.all().count() >= MAX_JOBS {
            return failed(format!("Not scheduled: there are {MAX_JOBS} jobs already. Delete one first."));
        }
        let id = self.free_job_id();
        let created = match job.storage {
            CronStorage::Session => {
                let job = self.schedule.new_job(id, job, now_ms);
                self.queue().scheduled.add(job.clone());
                job.report()
            }
            CronStorage::Folder => self.store_job(id, job, now_ms).await?,
        };
        self.tasks.tell_loop();
        Ok(created)
    }

    /// Writes a job into the file of the folder and remembers it as the session's own, so that it starts turns here
    /// even in a folder that is not trusted; the standing that is returned is that in later sessions. Fails if the
    /// session has no such file or it cannot be written. The job is scheduled when the file is read again.
    async fn store_job(&self, id: String, job: NewCronJob, now_ms: u64) -> Result<CronJob, ScheduleFailure> {
        let Some(folder) = self.schedule.config.folder.clone() else {
            let why = "Not scheduled: this session uses no files of its folder.";
            return Err(ScheduleFailure::Failed(why.to_owned()));
        };
        let task = ScheduledTask {
            id,
            cron: job.cron.to_string(),
            prompt: job.prompt,
            recurring: job.recurrence == CronRecurrence::Recurring,
            created_ms: now_ms,
            last_fired_ms: None,
        };
        let added = task.clone();
        change_file(folder.clone(), move |folder| folder.add(&added).map(|()| TaskChange::Made)).await?;
        let standing = if folder.counts(&task) { CronStanding::Active } else { CronStanding::Untrusted };
        self.queue().scheduled.remember_own(task.clone());
        let stored = self.schedule.job_of(task, standing);
        stored.map(|job| job.report()).ok_or_else(|| ScheduleFailure::Failed("Not scheduled.".to_owned()))
    }

    /// Deletes a job of the session, or else of the file of the folder. A job that is in neither is unknown; one that
    /// another process has removed meanwhile counts as unknown too.
    async fn delete_job(&self, id: &str) -> Result<(), ScheduleFailure> {
        if self.queue().scheduled.remove(id) {
            return Ok(());
        }
        let Some(folder) = self.schedule.config.folder.clone() else {
            return Err(ScheduleFailure::UnknownJob);
        };
        let wanted = id.to_owned();
        let change = change_file(folder, move |folder| match folder.stamp() {
            Some(_) => folder.remove(&wanted),
            None => Ok(TaskChange::NoSuchTask),
        });
        match change.await? {
            TaskChange::Made => Ok(()),
            TaskChange::NoSuchTask => Err(ScheduleFailure::UnknownJob),
        }
    }

    /// Returns an id that no job has: the last eight hexadecimal digits of a fresh UUID. The id is empty if a hundred
    /// attempts give only ids that are taken. Locks the queue, so the caller must not hold it.
    fn free_job_id(&self) -> String {
        let id = || {
            let uuid = self.process.host.uuid().replace('-', "");
            uuid.get(uuid.len().saturating_sub(8)..).unwrap_or_default().to_owned()
        };
        let queue = self.queue();
        std::iter::repeat_with(id)
            .take(100)
            .find(|id| queue.scheduled.all().all(|job| job.id != *id))
            .unwrap_or_default()
    }

    /// Takes the earliest wake-up or job that is due by now as a turn; `None` if nothing is due. A job of the folder is
    /// taken by writing that into its file: if another process was faster, the result is `None` too, and also if the
    /// file cannot be written, after which the job waits for [`RETRY_MS`]. Old jobs are removed first, and problems
    /// with the file are told to the host.
    pub(crate) async fn take_scheduled_turn(&self) -> Option<ScheduledTurn> {
        if let Err(why) = self.refresh_schedule() {
            self.trouble("scheduled_tasks", &why).await;
        }
        let now_ms = self.process.host.now_ms();
        self.drop_old_jobs(now_ms).await;
        let due = self.queue().scheduled.take_due(now_ms)?;
        let job = match due {
            DueEntry::WakeUp(wake_up) => {
                let prompt = prompt_of(&wake_up.prompt);
                return Some(ScheduledTurn { prompt, source: ClockSource::WakeUp, wake_up: Some(wake_up) });
            }
            DueEntry::Job(job) => *job,
        };
        match (&job.stored, self.schedule.config.folder.clone()) {
            (Some(stored), Some(folder)) => {
                let stored = stored.clone();
                let taken = change_file(folder, move |folder| folder.fire(&stored, now_ms)).await;
                if let Err(ScheduleFailure::Failed(why)) = &taken {
                    let until = self.schedule.zoned(now_ms.saturating_add(RETRY_MS));
                    self.queue().scheduled.hold_back(&job.id, &until);
                    self.trouble("scheduled_tasks", &format!("job {} does not start: {why}", job.id)).await;
                    return None;
                }
                self.queue().scheduled.forget_folder();
                if taken != Ok(TaskChange::Made) {
                    return None;
                }
            }
            (_, _) => {
                let passed = self.schedule.passed(&job, now_ms);
                self.queue().scheduled.pass(&job.id, passed);
            }
        }
        let prompt = prompt_of(&self.text_of(&job, now_ms));
        Some(ScheduledTurn { prompt, source: ClockSource::CronJob, wake_up: None })
    }

    /// Removes recurring jobs whose time is over, from the schedule and from the file of the folder. If the file cannot
    /// be written, the job stays in it, starts no turn, and the host is told.
    async fn drop_old_jobs(&self, now_ms: u64) {
        let old = self.queue().scheduled.take_old(now_ms);
        let Some(folder) = self.schedule.config.folder.clone() else { return };
        for job in old {
            let id = job.id.clone();
            if let Err(ScheduleFailure::Failed(why)) =
                change_file(folder.clone(), move |folder| folder.remove(&id)).await
            {
                self.trouble("scheduled_tasks", &format!("job {} is too old and stays: {why}", job.id)).await;
            }
        }
    }

    /// Returns the prompt of a job, with a note behind it if the job comes more than [`MISSED_MS`] late. A prompt that
    /// begins with `/` gets no note, because that would become an argument of the command.
    fn text_of(&self, job: &ScheduledJob, now_ms: u64) -> String {
        let prompt = &job.job.prompt;
        match &job.next_fire {
            // What follows the name of a command would be its argument.
            Some(due) if now_ms.saturating_sub(as_ms(due)) > MISSED_MS && !prompt.starts_with('/') => {
                let due = due.round(Unit::Minute).unwrap_or_else(|_| due.clone());
                format!("{prompt}\n\n(This was due at {}.)", due.strftime("%Y-%m-%d %H:%M"))
            }
            Some(_) | None => prompt.clone(),
        }
    }

    /// Waits until something may be due, or until the clock and the folder's file have to be looked at again; for ever
    /// if nothing is scheduled. Takes nothing, so the future can be dropped at any time.
    pub(crate) async fn until_scheduled(&self) {
        let wait = self.queue().scheduled.next_look(self.process.host.now_ms());
        match wait {
            Some(wait) => tokio::time::sleep(wait).await,
            None => std::future::pending().await,
        }
    }
}

/// Returns `text` as a prompt in the form in which the user would send it.
fn prompt_of(text: &str) -> InboundUser {
    let mut prompt = InboundUser::default();
    prompt.message.role = "user".to_owned();
    prompt.message.content = MessageContent::Text(text.to_owned());
    prompt
}

/// Changes the file of the folder on the blocking pool, because that waits for the disk, and returns what became of the
/// change. While another writer holds the file, `change` is called again for up to [`FILE_WAIT`], so it must be
/// repeatable; then, or if the file cannot be written, the result is an error.
async fn change_file(
    folder: Arc<ScheduledTasks>,
    change: impl Fn(&ScheduledTasks) -> Result<TaskChange, SettingsError> + Send + Sync + 'static,
) -> Result<TaskChange, ScheduleFailure> {
    let failed = |why: String| ScheduleFailure::Failed(format!("failed to {why}"));
    let (deadline, change) = (Instant::now() + FILE_WAIT, Arc::new(change));
    loop {
        let (folder, change) = (folder.clone(), change.clone());
        let made = lathe_exec::spawn_blocking(move || change(&folder)).await;
        match made.map_err(|error| failed(format!("change the file: {error}")))? {
            Err(SettingsError::Busy { .. }) if Instant::now() < deadline => {
                tokio::time::sleep(FILE_PAUSE).await
            }
            Err(error) => return Err(failed(error.to_string())),
            Ok(made) => return Ok(made),
        }
    }
}
