use lathe_tools::CronStorage;

use super::*;

/// A clock that stands still, in a zone of its own.
struct Still;

impl ProcessHost for Still {
    fn uuid(&self) -> String {
        String::new()
    }

    fn now_ms(&self) -> u64 {
        0
    }

    fn random(&self) -> f64 {
        0.5
    }

    fn process_id(&self) -> Option<u32> {
        None
    }

    fn log(&self, _: &str) {}
}

/// 2026-11-16T00:04:13Z.
const NOW: u64 = 1_794_787_453_000;
const MINUTE: u64 = 60_000;

/// A schedule with what is on it.
struct Scheduled {
    schedule: TurnSchedule,
    entries: ScheduleEntries,
}

impl Scheduled {
    fn add(&mut self, id: &str, cron: &str, recurrence: CronRecurrence, prompt: &str) {
        let job = self.schedule.new_job(id.to_owned(), job(cron, recurrence, prompt), NOW);
        self.entries.add(job);
    }

    fn due(&mut self, now_ms: u64) -> Option<String> {
        self.entries.take_old(now_ms);
        Some(match self.entries.take_due(now_ms)? {
            DueEntry::WakeUp(wake_up) => wake_up.prompt,
            DueEntry::Job(job) => {
                let passed = self.schedule.passed(&job, now_ms);
                self.entries.pass(&job.id, passed);
                job.job.prompt
            }
        })
    }
}

fn schedule() -> Scheduled {
    let schedule = TurnSchedule::new(ScheduleConfig::default(), Arc::new(Still));
    Scheduled { schedule, entries: ScheduleEntries::default() }
}

fn job(cron: &str, recurrence: CronRecurrence, prompt: &str) -> NewCronJob {
    NewCronJob {
        cron: CronExpression::parse(cron).unwrap(),
        prompt: prompt.to_owned(),
        recurrence,
        storage: CronStorage::Session,
    }
}

fn wake_up(at_ms: u64) -> PendingWakeUp {
    PendingWakeUp { uuid: "0123456789".to_owned(), at_ms, prompt: "wake".to_owned() }
}

#[test]
fn the_earliest_is_due_first_and_nothing_twice() {
    let mut schedule = schedule();
    schedule.add("00000000", "*/5 * * * *", CronRecurrence::Recurring, "five");
    schedule.add("00000001", "6 * * * *", CronRecurrence::Once, "six");
    schedule.entries.set_wake_up(Some(wake_up(NOW + MINUTE)));
    assert_eq!(
        schedule.entries.next_look(NOW),
        Some(LONGEST_LOOK),
        "the clock is looked at again in between"
    );
    assert_eq!(schedule.entries.next_look(NOW + 45_000), Some(Duration::from_secs(2)));
    assert_eq!(schedule.due(NOW), None);
    let later = NOW + 3 * MINUTE;
    assert_eq!(schedule.entries.next_look(later), Some(Duration::ZERO));
    let all: Vec<_> = std::iter::from_fn(|| schedule.due(later)).collect();
    assert_eq!(all, ["five", "wake", "six"]);
    // A recurring job that was due several times comes once.
    assert_eq!(schedule.due(NOW + 33 * MINUTE).as_deref(), Some("five"));
    assert_eq!(schedule.due(NOW + 33 * MINUTE), None);
}

#[test]
fn a_recurring_job_ends_after_a_week() {
    let mut schedule = schedule();
    schedule.add("00000000", "* * * * *", CronRecurrence::Recurring, "often");
    schedule.add("00000001", "0 0 1 1 *", CronRecurrence::Once, "once");
    assert_eq!(schedule.due(NOW + LIFETIME_MS - 1).as_deref(), Some("often"));
    assert_eq!(schedule.due(NOW + LIFETIME_MS), None);
    let ids: Vec<_> = schedule.entries.all().map(|job| job.id.clone()).collect();
    assert_eq!(ids, ["00000001"], "what comes once may wait longer");
}

#[test]
fn hooks_are_told_what_will_start_turns() {
    let mut schedule = schedule();
    let long = "x".repeat(TOLD_CHARS + 5);
    schedule.add("00000000", "*/5 * * * *", CronRecurrence::Recurring, &long);
    schedule.entries.set_wake_up(Some(wake_up(NOW + 47_000)));
    let cut = format!("{}… [+5 chars]", "x".repeat(TOLD_CHARS));
    assert_eq!(
        Value::Array(schedule.schedule.told(&schedule.entries)),
        json!([
            {"id": "00000000", "schedule": "*/5 * * * *", "recurring": true, "prompt": cut},
            {"id": "01234567", "schedule": "5 0 16 11 *", "recurring": false, "prompt": "wake"},
        ])
    );
}
