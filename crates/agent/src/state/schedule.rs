//! The schedule of a session: cron jobs, and the one wake-up that the model asked for. Says what is due; `session/`
//! starts the turns, and `background/schedule.rs` is what tools do here.
//!
//! Jobs of the folder are in a file that other processes share. It is looked at whenever the session is idle, and read
//! again when it has changed; a job of it is taken by writing that into the file, which only one process can do.

pub mod firing;

use std::sync::Arc;
use std::time::Duration;

use jiff::{Timestamp, Zoned};
use lathe_settings::{ScheduledTask, ScheduledTasks, Stamp};
use lathe_tools::{
    ClockTurns, CronExpression, CronJob, CronRecurrence, CronStanding, CronStorage, NewCronJob,
};
use serde_json::{Value, json};

use crate::state::host::ProcessHost;
use firing::{LIFETIME_MS, next_fire};

/// The most jobs of a session and its folder together.
pub const MAX_JOBS: usize = 50;

/// The longest wait before the clock is looked at again: it may be set, and the machine may sleep.
const LONGEST_LOOK: Duration = Duration::from_secs(30);

/// Characters of a prompt that hooks are told.
const TOLD_CHARS: usize = 1000;

/// What a session may start by the clock.
#[derive(Clone, Default)]
pub struct ScheduleConfig {
    /// Whether it may at all.
    pub clock: ClockTurns,
    /// The jobs of its folder, if those count for it.
    pub folder: Option<Arc<ScheduledTasks>>,
}

/// How a session schedules. What it has scheduled is part of its queue of prompts.
pub struct TurnSchedule {
    pub config: ScheduleConfig,
    /// Knows the zone that expressions are meant in.
    host: Arc<dyn ProcessHost>,
}

/// What is scheduled.
#[derive(Default)]
pub struct ScheduleEntries {
    /// Jobs of the session, in the order of their creation.
    jobs: Vec<ScheduledJob>,
    /// Jobs of the folder, as they were read last.
    folder_jobs: Vec<ScheduledJob>,
    /// The file of the folder as it was read last, if there was one; `None` to read it again.
    stamp: Option<Option<Stamp>>,
    /// What this session put into the file, which it may start whatever the trust: the user has asked for it here.
    own: Vec<ScheduledTask>,
    wake_up: Option<PendingWakeUp>,
}

/// One job.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduledJob {
    pub id: String,
    pub job: NewCronJob,
    pub standing: CronStanding,
    pub created_ms: u64,
    /// When it starts its next turn.
    pub next_fire: Option<Zoned>,
    /// As it stands in the file of the folder.
    pub stored: Option<ScheduledTask>,
}

/// The wake-up that the model asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingWakeUp {
    /// Its id in lifecycle frames.
    pub uuid: String,
    pub at_ms: u64,
    pub prompt: String,
}

/// What is due.
#[derive(Debug, Clone, PartialEq)]
pub enum DueEntry {
    WakeUp(PendingWakeUp),
    Job(Box<ScheduledJob>),
}

impl TurnSchedule {
    /// Begins with an empty schedule. The clock of `host` decides what is due.
    pub fn new(config: ScheduleConfig, host: Arc<dyn ProcessHost>) -> Self {
        Self { config, host }
    }

    /// Returns a moment, given in milliseconds since the epoch, in the zone of the session. One that is out of range
    /// becomes the last moment that can be expressed.
    pub fn zoned(&self, ms: u64) -> Zoned {
        let moment = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        moment.unwrap_or(Timestamp::MAX).to_zoned(self.host.time_zone())
    }

    /// Returns a task of the folder's file as a job; `None` if its expression cannot be parsed. Its next turn counts
    /// from when it last fired, or else from when it was created.
    pub fn job_of(&self, task: ScheduledTask, standing: CronStanding) -> Option<ScheduledJob> {
        let recurrence = if task.recurring { CronRecurrence::Recurring } else { CronRecurrence::Once };
        let job = NewCronJob {
            cron: CronExpression::parse(&task.cron).ok()?,
            prompt: task.prompt.clone(),
            recurrence,
            storage: CronStorage::Folder,
        };
        let after = self.zoned(task.last_fired_ms.unwrap_or(task.created_ms));
        Some(ScheduledJob {
            next_fire: next_fire(&job.cron, recurrence, &task.id, &after),
            id: task.id.clone(),
            job,
            standing,
            created_ms: task.created_ms,
            stored: Some(task),
        })
    }

    /// Builds an active job of the session that is created now; it is not put into the schedule.
    pub fn new_job(&self, id: String, job: NewCronJob, now_ms: u64) -> ScheduledJob {
        let next_fire = next_fire(&job.cron, job.recurrence, &id, &self.zoned(now_ms));
        let standing = CronStanding::Active;
        ScheduledJob { id, job, standing, created_ms: now_ms, next_fire, stored: None }
    }

    /// Returns a job as it is after a turn that it starts now: with the time of its next turn, or `None` if it fires
    /// only once. Changes nothing; see [`ScheduleEntries::pass`].
    pub fn passed(&self, fired: &ScheduledJob, now_ms: u64) -> Option<ScheduledJob> {
        match fired.job.recurrence {
            CronRecurrence::Once => None,
            CronRecurrence::Recurring => {
                let (cron, after) = (&fired.job.cron, self.zoned(now_ms));
                let next_fire = next_fire(cron, fired.job.recurrence, &fired.id, &after);
                Some(ScheduledJob { next_fire, ..fired.clone() })
            }
        }
    }
}

impl ScheduleEntries {
    /// Returns every job: those of the folder, then those of the session.
    pub fn all(&self) -> impl Iterator<Item = &ScheduledJob> {
        self.folder_jobs.iter().chain(&self.jobs)
    }

    /// Returns the jobs that end with the session.
    pub fn of_session(&self) -> impl Iterator<Item = &ScheduledJob> {
        self.jobs.iter()
    }

    /// Adds a job of the session.
    pub fn add(&mut self, job: ScheduledJob) {
        self.jobs.push(job);
    }

    /// Puts `passed` in the place of the session's job with this id, or removes the job if that is `None`. A job that
    /// is not there any more stays gone.
    pub fn pass(&mut self, id: &str, passed: Option<ScheduledJob>) {
        let Some(at) = self.jobs.iter().position(|job| job.id == id) else { return };
        match passed {
            Some(passed) => self.jobs[at] = passed,
            None => drop(self.jobs.remove(at)),
        }
    }

    /// Returns whether the jobs of the folder are those of the file in this state; false if they have to be read again.
    pub fn is_read(&self, stamp: Option<Stamp>) -> bool {
        self.stamp == Some(stamp)
    }

    /// Replaces the jobs of the folder by those that were read from the file when it had this stamp.
    pub fn set_folder_jobs(&mut self, stamp: Option<Stamp>, jobs: Vec<ScheduledJob>) {
        self.stamp = Some(stamp);
        self.folder_jobs = jobs;
    }

    /// Returns whether this session put a task into the file; when the task last fired does not matter.
    pub fn is_own(&self, task: &ScheduledTask) -> bool {
        self.own.iter().any(|own| is_same(own, task))
    }

    /// Returns how long to wait before the schedule is looked at again, at most [`LONGEST_LOOK`]; zero if something is
    /// due. `None` if nothing is scheduled and there is no file that other processes could change.
    pub fn next_look(&self, now_ms: u64) -> Option<Duration> {
        let times = self.all().filter_map(|job| job.fires_at(now_ms));
        let earliest = times.chain(self.wake_up.as_ref().map(|wake_up| wake_up.at_ms)).min();
        // Other processes may change a file that is there.
        let latest = self.stamp.flatten().map(|_| now_ms.saturating_add(LONGEST_LOOK.as_millis() as u64));
        let next = earliest.into_iter().chain(latest).min()?;
        Some(Duration::from_millis(next.saturating_sub(now_ms)).min(LONGEST_LOOK))
    }

    /// Removes a job of the session. Returns whether it was there; jobs of the folder are not touched.
    pub fn remove(&mut self, id: &str) -> bool {
        let before = self.jobs.len();
        self.jobs.retain(|job| job.id != id);
        self.jobs.len() < before
    }

    /// Notes a task that this session is about to put into the file of the folder, so that it counts as its own. The
    /// file is read again after that.
    pub fn remember_own(&mut self, task: ScheduledTask) {
        self.own.push(task);
        // The file is read again with it.
        self.stamp = None;
    }

    /// Has the file of the folder read again at the next look. Until then its jobs stay as they were read last.
    pub fn forget_folder(&mut self) {
        self.stamp = None;
    }

    /// Returns the wake-up that waits, or `None`.
    pub fn wake_up(&self) -> Option<&PendingWakeUp> {
        self.wake_up.as_ref()
    }

    /// Replaces the wake-up; `None` removes it. Returns the one that was there before.
    pub fn set_wake_up(&mut self, wake_up: Option<PendingWakeUp>) -> Option<PendingWakeUp> {
        std::mem::replace(&mut self.wake_up, wake_up)
    }

    /// Has the job of the folder with this id wait until then, because its turn cannot be noted in the file. Reading
    /// the file again ends that.
    pub fn hold_back(&mut self, id: &str, until: &Zoned) {
        for job in self.folder_jobs.iter_mut().filter(|job| job.id == id) {
            job.next_fire = Some(until.clone());
        }
    }

    /// Takes the recurring jobs whose lifetime is over off the schedule. Returns those of the folder, which are still
    /// in its file; jobs of the folder that this session does not start are left alone.
    pub fn take_old(&mut self, now_ms: u64) -> Vec<ScheduledJob> {
        self.jobs.retain(|job| !job.is_old(now_ms));
        let is_ours = |job: &mut ScheduledJob| job.standing == CronStanding::Active && job.is_old(now_ms);
        self.folder_jobs.extract_if(.., is_ours).collect()
    }

    /// Returns what is due now, the earliest first, or `None`. A wake-up is taken off the schedule; a job stays due
    /// until the caller passes it ([`Self::pass`], or the file of the folder).
    pub fn take_due(&mut self, now_ms: u64) -> Option<DueEntry> {
        let due = |job: &ScheduledJob| job.fires_at(now_ms).filter(|at_ms| *at_ms <= now_ms);
        let job = self.all().filter_map(|job| Some((due(job)?, job))).min_by_key(|(at_ms, _)| *at_ms);
        let wakes = self.wake_up.as_ref().is_some_and(|wake_up| {
            wake_up.at_ms <= now_ms && job.is_none_or(|(at_ms, _)| wake_up.at_ms <= at_ms)
        });
        match job {
            _ if wakes => self.wake_up.take().map(DueEntry::WakeUp),
            job => job.map(|(_, job)| DueEntry::Job(Box::new(job.clone()))),
        }
    }
}

impl TurnSchedule {
    /// Returns what Stop hooks are told: the jobs that this session starts, and its wake-up. Prompts are cut to
    /// [`TOLD_CHARS`].
    pub fn told(&self, entries: &ScheduleEntries) -> Vec<Value> {
        let jobs = entries.all().filter(|job| job.standing == CronStanding::Active).map(|job| {
            json!({
                "id": job.id,
                "schedule": job.job.cron.as_str(),
                "recurring": job.job.recurrence == CronRecurrence::Recurring,
                "prompt": cut(&job.job.prompt),
            })
        });
        let wake_up = entries.wake_up().map(|wake_up| {
            json!({
                "id": wake_up.uuid.get(..8),
                "schedule": self.zoned(wake_up.at_ms).strftime("%-M %-H %-d %-m *").to_string(),
                "recurring": false,
                "prompt": cut(&wake_up.prompt),
            })
        });
        jobs.chain(wake_up).collect()
    }
}

impl ScheduledJob {
    /// Returns when the job starts its next turn, in milliseconds since the epoch; `None` if it starts none: it has no
    /// next time, this session does not start it, or its lifetime is over.
    fn fires_at(&self, now_ms: u64) -> Option<u64> {
        let counts = self.standing == CronStanding::Active && !self.is_old(now_ms);
        self.next_fire.as_ref().filter(|_| counts).map(as_ms)
    }

    /// Returns whether the lifetime of a recurring job is over ([`LIFETIME_MS`]); always false for a job that fires
    /// once.
    fn is_old(&self, now_ms: u64) -> bool {
        let is_recurring = self.job.recurrence == CronRecurrence::Recurring;
        is_recurring && now_ms >= self.created_ms.saturating_add(LIFETIME_MS)
    }

    /// Returns the job as tools show it.
    pub fn report(&self) -> CronJob {
        CronJob {
            id: self.id.clone(),
            job: self.job.clone(),
            next_fire: self.next_fire.clone(),
            standing: self.standing,
        }
    }
}

/// Returns a moment in milliseconds since the epoch; 0 if it is before that.
pub fn as_ms(time: &Zoned) -> u64 {
    u64::try_from(time.timestamp().as_millisecond()).unwrap_or(0)
}

/// Returns whether two tasks of the file are the same apart from when they last fired.
fn is_same(own: &ScheduledTask, task: &ScheduledTask) -> bool {
    ScheduledTask { last_fired_ms: None, ..own.clone() }
        == ScheduledTask { last_fired_ms: None, ..task.clone() }
}

/// Returns the prompt, cut to [`TOLD_CHARS`] characters; a cut one says how many were left out.
fn cut(prompt: &str) -> String {
    let count = prompt.chars().count();
    let shown: String = prompt.chars().take(TOLD_CHARS).collect();
    match count.saturating_sub(TOLD_CHARS) {
        0 => shown,
        more => format!("{shown}… [+{more} chars]"),
    }
}
#[cfg(test)]
mod tests;
