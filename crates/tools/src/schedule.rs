//! Turns that start later: what the tools for cron jobs and wake-ups ask of the session, which holds the schedule and
//! starts the turns; see [`ScheduleActions`].

use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::Zoned;

use crate::CronExpression;

/// A cron job that is to be scheduled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCronJob {
    /// When it is due.
    pub cron: CronExpression,
    /// The prompt of the turn that it starts.
    pub prompt: String,
    /// How often it is due.
    pub recurrence: CronRecurrence,
    /// Where it is kept.
    pub storage: CronStorage,
}

/// How often a job starts a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CronRecurrence {
    /// At every time of its expression, until it is too old.
    Recurring,
    /// At the next time of its expression; then it is gone.
    Once,
}

/// Where a job is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CronStorage {
    /// In the session, with which it ends.
    Session,
    /// In a file of the folder, for every later session there.
    Folder,
}

/// Whether a job of the folder starts turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CronStanding {
    /// It does.
    Active,
    /// It is not trusted yet, so it is listed only.
    Untrusted,
}

/// A scheduled job.
#[derive(Debug, Clone, PartialEq)]
pub struct CronJob {
    /// Eight hexadecimal digits.
    pub id: String,
    /// What was asked for.
    pub job: NewCronJob,
    /// When it next starts a turn; `None` if it never will.
    pub next_fire: Option<Zoned>,
    /// Whether it starts turns.
    pub standing: CronStanding,
}

/// A wake-up that is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct WakeUpRequest {
    /// Seconds from now, within what is allowed.
    pub delay_seconds: u64,
    /// The prompt of its turn.
    pub prompt: String,
}

/// Why the schedule could not be read or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleFailure {
    /// No job has this id.
    UnknownJob,
    /// Something else, in words for the model.
    Failed(String),
}

/// The schedule of the session, as tools use it.
pub trait ScheduleActions: Send + Sync {
    /// Schedules a job, and returns it with its id and its next time. A job for the folder is kept in a file there, so
    /// that it outlives the session. Fails if no date fits, there are too many jobs, or the file cannot be written.
    fn create_job(self: Arc<Self>, job: NewCronJob) -> BoxFuture<'static, Result<CronJob, ScheduleFailure>>;

    /// Returns the jobs of the folder, then those of the session. Fails if the jobs of the folder cannot be read.
    fn jobs(&self) -> Result<Vec<CronJob>, ScheduleFailure>;

    /// Removes a job of the session or of the folder. Fails with [`ScheduleFailure::UnknownJob`] if no job has this id.
    fn delete_job(self: Arc<Self>, id: String) -> BoxFuture<'static, Result<(), ScheduleFailure>>;

    /// Schedules the wake-up of the session, in place of an earlier one. Returns when it comes, which is at a full
    /// minute and so may be later than asked for, and in how many seconds.
    fn schedule_wake_up(&self, request: WakeUpRequest) -> ScheduledWakeUp;

    /// Cancels the wake-up of the session; returns how many there were, so 0 if there was nothing to cancel.
    fn cancel_wake_up(&self) -> usize;
}

/// A wake-up that is scheduled.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduledWakeUp {
    /// When it comes.
    pub at: Zoned,
    /// Seconds until then.
    pub in_seconds: u64,
}

/// The schedule of a tool that is called alone, as in tests: nothing can be scheduled.
impl ScheduleActions for crate::DetachedSession {
    fn create_job(self: Arc<Self>, _: NewCronJob) -> BoxFuture<'static, Result<CronJob, ScheduleFailure>> {
        let none = ScheduleFailure::Failed("there is no session".to_owned());
        Box::pin(std::future::ready(Err(none)))
    }

    fn jobs(&self) -> Result<Vec<CronJob>, ScheduleFailure> {
        Ok(Vec::new())
    }

    fn delete_job(self: Arc<Self>, _: String) -> BoxFuture<'static, Result<(), ScheduleFailure>> {
        Box::pin(std::future::ready(Err(ScheduleFailure::UnknownJob)))
    }

    fn schedule_wake_up(&self, request: WakeUpRequest) -> ScheduledWakeUp {
        ScheduledWakeUp { at: Zoned::default(), in_seconds: request.delay_seconds }
    }

    fn cancel_wake_up(&self) -> usize {
        0
    }
}
