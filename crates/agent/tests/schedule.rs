//! Turns that start by the clock, under a clock that moves with the paused time of the tests.
#![allow(clippy::disallowed_methods, reason = "tests work on real files")]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::*;
use lathe_agent::{ProcessHost, ScheduleConfig};
use lathe_settings::{ManagedFiles, ScheduledTask, ScheduledTasks, SettingsStack, StackRequest, TrustChoice};
use serde_json::{Value, json};
use tokio::time::Instant;

/// 2026-11-16T00:04:13Z.
const START: u64 = 1_794_787_453_000;
const MINUTE: u64 = 60_000;

/// Its clock shows the time that the runtime has let pass.
struct Moving {
    began: Instant,
    ids: AtomicU64,
    log: Log,
}

impl ProcessHost for Moving {
    fn uuid(&self) -> String {
        format!("00000000-0000-4000-8000-{:012x}", self.ids.fetch_add(1, Ordering::Relaxed))
    }

    fn now_ms(&self) -> u64 {
        START + self.began.elapsed().as_millis() as u64
    }

    fn random(&self) -> f64 {
        self.ids.fetch_add(1, Ordering::Relaxed) as f64 / 1000.0
    }

    fn process_id(&self) -> Option<u32> {
        None
    }

    fn log(&self, line: &str) {
        self.log.lock().unwrap().push(line.to_owned());
    }
}

fn call(name: &str, input: Value) -> Value {
    json!({"tools": [{"name": name, "input": input}]})
}

/// A session on this script in which the clock moves as the test lets it.
fn moving(turns: Value, folder: &Path) -> (Setup, Arc<Moving>) {
    let mut setup = Setup::new(json!({"turns": turns, "at_end": "error"}), folder);
    let host = Arc::new(Moving { began: Instant::now(), ids: AtomicU64::new(0), log: setup.log.clone() });
    setup.host = Some(host.clone());
    (setup, host)
}

fn stored(folder: &Path, trust: TrustChoice) -> ScheduledTasks {
    let mut request = StackRequest::new(folder, ManagedFiles::of_platform("none"));
    request.trust = trust;
    SettingsStack::load(request).unwrap().scheduled_tasks().unwrap()
}

fn is_result(frame: &Value) -> bool {
    frame["type"] == "result"
}

/// The next frame that fits, whatever the clock says.
async fn next(talk: &mut Talk, fits: impl Fn(&Value) -> bool) -> Value {
    loop {
        let frame = to_json(&talk.frames.recv().await.expect("the session is open"));
        if fits(&frame) {
            return frame;
        }
    }
}

/// The results of calls, and the values for programs.
fn outcomes(frames: &[Value]) -> Vec<(String, Value)> {
    let users =
        frames.iter().filter(|frame| frame["type"] == "user" && frame["tool_use_result"] != json!(null));
    users
        .map(|frame| {
            let text = frame["message"]["content"][0]["content"].as_str().unwrap_or_default().to_owned();
            (text, frame["tool_use_result"].clone())
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn jobs_are_made_listed_removed_and_refused() {
    let folder = tempfile::tempdir().unwrap();
    let turns = json!([
        call("CronCreate", json!({"cron": "*/5 * * * *", "prompt": "ping"})),
        call("CronCreate", json!({"cron": "7 0 1 1 *", "prompt": "new year", "recurring": false, "durable": true})),
        call("CronList", json!({})),
        call("CronDelete", json!({"id": "zzz"})),
        call("CronCreate", json!({"cron": "bad", "prompt": "x"})),
        call("CronCreate", json!({"cron": "0 0 30 2 *", "prompt": "x"})),
        call("CronCreate", json!({"cron": "* * * * *", "prompt": ""})),
        {"text": "done"},
    ]);
    let (mut setup, _) = moving(turns, folder.path());
    let tasks = Arc::new(stored(folder.path(), TrustChoice::Given));
    setup.schedule = ScheduleConfig { folder: Some(tasks.clone()), ..ScheduleConfig::default() };
    let log = setup.log.clone();
    let (frames, _) = run(setup, &["go"]).await;
    let outcomes = outcomes(&frames);
    let id = outcomes[0].1["id"].as_str().unwrap().to_owned();
    assert!(
        outcomes[0].0.starts_with(&format!(
            "Scheduled recurring job {id} (Every 5 minutes). Next run: Nov 16 12:05am."
        ))
    );
    assert_eq!((&outcomes[0].1["recurring"], &outcomes[0].1["durable"]), (&json!(true), &json!(false)));
    let durable = outcomes[1].1["id"].as_str().unwrap().to_owned();
    assert!(
        outcomes[1]
            .0
            .starts_with(&format!("Scheduled one-shot task {durable} (7 0 1 1 *). Next run: Jan 1 12:07am."))
    );
    let lines = format!(
        "{durable} — 7 0 1 1 * (one-shot), next run Jan 1 12:07am: new year\n\
         {id} — Every 5 minutes (recurring) [session-only], next run Nov 16 12:05am: ping"
    );
    assert_eq!(outcomes[2].0, lines);
    let keys = |job: &Value| job.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let jobs = &outcomes[2].1["jobs"];
    assert_eq!(keys(&jobs[0]), ["id", "cron", "humanSchedule", "prompt", "nextFireAt"]);
    let all = ["id", "cron", "humanSchedule", "prompt", "recurring", "durable", "nextFireAt"];
    assert_eq!(keys(&jobs[1]), all);
    assert_eq!(outcomes[3].0, "<tool_use_error>No scheduled job with id 'zzz'</tool_use_error>");
    let refused =
        "<tool_use_error>Invalid cron expression 'bad'. Expected 5 fields: M H DoM Mon DoW.</tool_use_error>";
    assert_eq!(outcomes[4].0, refused);
    assert_eq!(outcomes[5].0, "Not scheduled: no date fits '0 0 30 2 *'.");
    assert_eq!(outcomes[6].0, "<tool_use_error>The prompt is empty.</tool_use_error>");
    // The run is over at once, and says what ends with it.
    assert_eq!(frames.iter().filter(|frame| is_result(frame)).count(), 1);
    let told = log.lock().unwrap().join("\n");
    assert_eq!(told, format!("Scheduled jobs end with the session: {id} (Every 5 minutes)."));
    assert_eq!(tasks.read().unwrap()[0].task.id, durable, "what is kept in the folder stays");
}

#[tokio::test(start_paused = true)]
async fn a_job_starts_turns_while_the_session_is_open_and_idle() {
    let folder = tempfile::tempdir().unwrap();
    let turns = json!([
        call("CronCreate", json!({"cron": "*/5 * * * *", "prompt": "ping"})),
        call("CronCreate", json!({"cron": "6 0 * * *", "prompt": "once", "recurring": false})),
        {"text": "scheduled"},
        {"text": "first"},
        {"text": "single"},
        {"text": "second"},
    ]);
    let (setup, host) = moving(turns, folder.path());
    let heard = setup.heard.clone();
    let mut talk = Talk::start(setup);
    talk.send(prompt("go")).await;
    let first = next(&mut talk, is_result).await;
    assert_eq!(first["result"], "scheduled");
    for (words, minute) in [("first", 5), ("single", 6), ("second", 10)] {
        let result = next(&mut talk, is_result).await;
        assert_eq!((&result["result"], &result["origin"]), (&json!(words), &json!(null)));
        let due = 1_794_787_200_000 + minute * MINUTE;
        assert!((due..due + 5_000).contains(&host.now_ms()), "{words} at {}", host.now_ms());
    }
    let (rest, _) = talk.finish().await;
    assert!(!rest.iter().any(is_result), "a job does not hold a session whose input is closed");
    assert!(heard.lock().unwrap()[3].contains("ping"));
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_holds_the_run_and_is_announced() {
    let folder = tempfile::tempdir().unwrap();
    let turns = json!([
        call("ScheduleWakeup", json!({"delaySeconds": 5, "reason": "r", "prompt": "too early"})),
        call("ScheduleWakeup", json!({"delaySeconds": 90.5, "reason": "r", "prompt": "look again"})),
        {"text": "waiting"},
        call("ScheduleWakeup", json!({"stop": true})),
        call("ScheduleWakeup", json!({"stop": true})),
        call("ScheduleWakeup", json!({})),
        {"text": "woken"},
    ]);
    let (setup, host) = moving(turns, folder.path());
    let (heard, log) = (setup.heard.clone(), setup.log.clone());
    let (frames, _) = run(setup, &["go"]).await;
    let outcomes = outcomes(&frames);
    // 00:04:13 and 60 s, at the next full minute.
    let minute = START - 13_000;
    let clamped = json!({"scheduledFor": minute + 2 * MINUTE, "clampedDelaySeconds": 60, "wasClamped": true});
    assert_eq!(outcomes[0].1, clamped);
    assert!(outcomes[0].0.starts_with("Next wakeup scheduled for 00:06:00 (in 107s)"), "{}", outcomes[0].0);
    let exact = json!({"scheduledFor": minute + 2 * MINUTE, "clampedDelaySeconds": 91, "wasClamped": false});
    assert_eq!(outcomes[1].1, exact);
    assert_eq!(host.now_ms() / MINUTE, minute / MINUTE + 2);
    let results: Vec<_> = frames.iter().filter(|frame| is_result(frame)).collect();
    assert_eq!(results.len(), 2, "the earlier wake-up was replaced");
    assert!(heard.lock().unwrap()[3].contains("look again"));
    let lives: Vec<_> = frames.iter().filter(|frame| frame["type"] == "command_lifecycle").collect();
    assert_eq!((&lives[0]["state"], &lives[1]["state"]), (&json!("started"), &json!("completed")));
    assert_eq!(lives[0]["wakeup_source"], "loop_wakeup");
    assert_eq!(lives[0]["scheduled_for"], minute + 2 * MINUTE);
    assert_eq!(lives[0]["command_uuid"], lives[1]["command_uuid"]);
    assert_eq!(lives[1]["wakeup_source"], json!(null));
    let stopped = |cancelled: u64| {
        json!({"scheduledFor": 0, "clampedDelaySeconds": 0, "wasClamped": false, "stopped": true,
            "cancelledWakeups": cancelled})
    };
    assert_eq!((&outcomes[2].1, &outcomes[3].1), (&stopped(0), &stopped(0)));
    assert!(outcomes[4].0.contains("delaySeconds is missing"), "{}", outcomes[4].0);
    assert_eq!(log.lock().unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_after_the_ceiling_is_named_and_dropped_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let turns =
        json!([call("ScheduleWakeup", json!({"delaySeconds": 3600, "prompt": "x"})), {"text": "waiting"}]);
    let (setup, host) = moving(turns, folder.path());
    let log = setup.log.clone();
    let (frames, _) = run(setup, &["go"]).await;
    assert_eq!(frames.iter().filter(|frame| is_result(frame)).count(), 1);
    assert!(host.now_ms() < START + MINUTE, "no one waits for what cannot come");
    let told = log.lock().unwrap().join("\n");
    assert!(told.contains("wake-up at 01:05:00") && told.contains("longest wait"), "{told}");
}

fn overdue(id: &str) -> ScheduledTask {
    ScheduledTask {
        id: id.to_owned(),
        cron: "30 23 * * *".to_owned(),
        prompt: format!("do {id}"),
        recurring: false,
        created_ms: START - 24 * 60 * MINUTE,
        last_fired_ms: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_of_the_folder_that_was_missed_starts_one_turn_of_one_session() {
    let folder = tempfile::tempdir().unwrap();
    stored(folder.path(), TrustChoice::Given).add(&overdue("00000001")).unwrap();
    let mut talks = Vec::new();
    let mut heard = Vec::new();
    for _ in 0..2 {
        let (mut setup, _) = moving(json!([{"text": "hello"}, {"text": "done"}]), folder.path());
        let tasks = Arc::new(stored(folder.path(), TrustChoice::Given));
        setup.schedule = ScheduleConfig { folder: Some(tasks), ..ScheduleConfig::default() };
        heard.push(setup.heard.clone());
        talks.push(Talk::start(setup));
    }
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(heard.iter().all(|heard| heard.lock().unwrap().is_empty()), "not before the host's first prompt");
    for talk in &talks {
        talk.send(prompt("hi")).await;
    }
    for talk in &mut talks {
        assert_eq!(next(talk, is_result).await["result"], "hello");
    }
    tokio::time::sleep(std::time::Duration::from_secs(120)).await;
    let mut turns = 0;
    for talk in talks {
        turns += talk.finish().await.0.iter().filter(|frame| is_result(frame)).count();
    }
    assert_eq!(turns, 1);
    let said = heard
        .iter()
        .flat_map(|heard| heard.lock().unwrap().clone())
        .find(|text| text.contains("do 00000001"));
    assert!(said.unwrap().contains("(This was due at 2026-11-15 23:30.)"));
    assert_eq!(stored(folder.path(), TrustChoice::Given).read().unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_job_of_an_untrusted_folder_is_listed_and_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    stored(folder.path(), TrustChoice::Given).add(&overdue("00000001")).unwrap();
    let turns = json!([
        call("CronList", json!({})),
        call("CronCreate", json!({"cron": "6 * * * *", "prompt": "mine", "recurring": false, "durable": true})),
        {"text": "listed"},
        {"text": "my own"},
    ]);
    let (mut setup, _) = moving(turns, folder.path());
    let tasks = Arc::new(stored(folder.path(), TrustChoice::default()));
    setup.schedule = ScheduleConfig { folder: Some(tasks), ..ScheduleConfig::default() };
    let mut talk = Talk::start(setup);
    talk.send(prompt("hi")).await;
    let listed = next(&mut talk, |frame| frame["type"] == "user").await;
    let text = listed["message"]["content"][0]["content"].as_str().unwrap();
    assert!(text.contains("00000001") && text.contains("[not trusted: does not run]"), "{text}");
    assert_eq!(next(&mut talk, is_result).await["result"], "listed");
    assert_eq!(
        next(&mut talk, is_result).await["result"],
        "my own",
        "what the user asked for here does count here"
    );
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    assert!(!talk.finish().await.0.iter().any(is_result));
    let left = stored(folder.path(), TrustChoice::Given).read().unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn a_loop_is_a_prompt_with_instructions() {
    let folder = tempfile::tempdir().unwrap();
    let (setup, _) = moving(json!([{"text": "done"}]), folder.path());
    let heard = setup.heard.clone();
    run(setup, &["/loop look at the build"]).await;
    let said = heard.lock().unwrap()[0].clone();
    assert!(said.contains("<command-args>look at the build</command-args>"), "{said}");
    assert!(said.contains("goes on with the loop: /loop look at the build"), "{said}");
    assert!(said.contains("The task, as the user wrote it:\\nlook at the build"), "{said}");
}
