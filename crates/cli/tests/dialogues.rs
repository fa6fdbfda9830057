//! The built program in conversation, against the reference's recordings of hosts that talk while a session
//! runs: the same lines go in at the same points, and what comes out must be the same.
//!
//! The point at which a line goes in is "once everything has come out that the recording shows before it":
//! no clock is involved. Answers to control requests and the other frames are compared as two streams of
//! their own, because the reference writes some frames (a changed mode, a cancelled prompt) only when the
//! next line wakes it, and clients do not rely on that.
#![allow(clippy::disallowed_methods, reason = "tests look at the environment they run in")]

mod compare;

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use lathe_scripted::Script;
use lathe_testkit::{BackgroundServer, Normaliser, Running, TestContext, recordings};
use rustix::process::Signal;
use serde_json::{Value, json};

use compare::tools::compare_tools;
use compare::{Texts, compare_frames, compare_value, kind};

/// The conversations that show what this CLI does today.
const TALKS: &[&str] = &[
    "wire/ask_user",
    "wire/bash_bg_open",
    "wire/bash_bg_stop",
    "wire/fg_to_bg",
    "wire/fg_to_bg2",
    "wire/bi_can_use_allow",
    "wire/bi_can_use_allow_noinput",
    "wire/bi_can_use_deny",
    "wire/bi_can_use_deny_interrupt",
    "wire/bi_can_use_parallel",
    "wire/bi_controls",
    "wire/bi_eof_after_init",
    "wire/bi_eof_mid_turn",
    "wire/bi_eof_no_input",
    "wire/bi_garbage",
    "wire/bi_init_full",
    "wire/bi_interrupt_perm",
    "wire/bi_interrupt_stream",
    "wire/bi_no_init",
    "wire/bi_notjson",
    "wire/bi_sigint",
    "wire/bi_sigterm",
    "wire/bi_two_msgs_at_once",
    "wire/bi_unknown_type",
    "wire/bypass_not_allowed",
    "wire/dup_uuid",
    "wire/entry_sdk_env",
    "wire/fallback_again",
    "wire/hook_async",
    "wire/hook_error",
    "wire/hook_post",
    "wire/hook_prompt",
    "wire/hook_session_start",
    "wire/compact",
    "wire/hook_stop_block",
    "wire/hooks_all_events",
    "wire/matchers",
    "wire/model_switch_hooks",
    "wire/parallel_perm_mixed",
    "wire/perm_bad_update",
    "wire/perm_setmode_update",
    "wire/set_mode_midturn",
    "wire/sigterm_idle",
    "wire/stream_budget",
    "wire/stream_err_last",
    "wire/stream_max_turns",
    "wire/user_images",
    "seed-era/ask_host@0.2.34",
    "seed-era/ask_host@0.2.50",
    "seed-era/bash_bg_open@0.2.50",
];

/// Conversations of which only one side was recorded, and what the host answered to each question.
const HALF_TALKS: &[(&str, &str)] = &[
    (
        "runtime/19_cut_askq",
        r#"{"behavior":"allow","updatedInput":{"questions":[{"question":"Which?","header":"H",
        "options":[{"label":"A","description":"x"},{"label":"B","description":"y"}],"multiSelect":false}],
        "answers":{"Which?":"B"}}}"#,
    ),
    ("runtime/19_cut_askq_noans", ALLOW),
    ("runtime/19_cut_bash_allow_noinput", ALLOW),
    ("runtime/19_cut_planmode", ALLOW),
    ("runtime/19_cut_planmode_exit_plan", ALLOW),
    ("runtime/19_cut_webfetch", r#"{"behavior":"deny","message":"no"}"#),
    ("runtime/19_cut_write", ALLOW),
];

const ALLOW: &str = r#"{"behavior":"allow"}"#;

/// Conversations that need what is not there yet, and what that is.
const NOT_YET: &[(&str, &str)] = &[
    (
        "seed-era/bash_bg_eof@0.2.34",
        "the end of input kills the command there; here it is waited for, and told",
    ),
    (
        "seed-era/bash_bg_eof@0.2.50",
        "the end of input kills the command there; here it is waited for, and told",
    ),
    ("wire/interrupt_bg", "background agents"),
    ("wire/subagent_fg", "subagents"),
    ("wire/subagent_perm", "subagents"),
    ("wire/manifests", "MCP"),
    ("wire/mcp_elicit", "MCP"),
    ("wire/mcp_elicit_none", "MCP"),
    ("wire/mcp_error", "MCP"),
    ("wire/mcp_init_fail", "MCP"),
    ("wire/mcp_interrupt", "MCP"),
    ("wire/mcp_progress", "MCP"),
    ("wire/mcp_sdk_flag", "MCP"),
    ("wire/mcp_sdk_init", "MCP"),
    ("wire/slash_skill", "skills"),
    ("wire/user_skill", "skills"),
    ("wire/mode_plan", "its first call is refused by the reference's classifier, which is not ours"),
    ("wire/stdout_closed", "covered by bad_days.rs: the reader goes away half-way"),
    ("wire/resume_chain__stream_resume", "goes on after another recording; covered by resume tests"),
    ("wire/resume_chain__stream_resume_replay", "goes on after another recording; covered by resume tests"),
    ("wire/resume_chain__stream_unknown", "goes on after another recording; covered by resume tests"),
    ("wire/api_hang", "the model is silent for most of a minute; a test does not wait for that"),
    (
        "wire/tool_progress",
        "the reference refuses `sleep 34; …`, which is not copied; heartbeats are in agent/tests/tool_progress.rs",
    ),
    ("runtime/19_cut_readout", "reads a file that lay at a fixed place of the recording machine"),
    ("runtime/19_cut_update_perm", "which of the suggestions the host took was not recorded"),
    ("wire/err_input_json", "no conversation: a flag error"),
    ("wire/err_input_text", "no conversation: a flag error"),
    ("wire/err_prompt_and_streamin", "no conversation: nothing is written"),
];

/// Differences that are meant to be: the talk, a piece of the difference, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("bi_two_msgs_at_once", "queued_turn_count", "the second prompt has been read by then, and is counted"),
    ("bi_controls", "autocompactSource", "no such thing here"),
    ("bi_controls", "mcpInstructions", "MCP"),
    ("bi_controls", "slashCommands", "there are no skills that tokens go into"),
    ("bi_controls", "autoCompactThreshold", "optional"),
    ("bi_controls", "messageBreakdown", "optional: Lathe does not count tokens by kind"),
    ("bi_controls", "req_35.response.error", "own words"),
    ("bi_controls", "req_37.response.response.applied", "switches of the reference's own features"),
    ("bi_controls", "req_43.response.error", "own words"),
    ("bi_controls", "req_52.response.response.title", "here a title is made from any answer"),
    ("bi_controls", "total_cost_usd", "that title is paid for"),
    ("bi_interrupt_stream", "owed_rows", "no such thing here"),
    ("bi_interrupt_stream", "abandoned_blocks", "no such thing here"),
    ("bi_interrupt_stream", "total_cost_usd", "what was answered in part was paid for, and counts"),
    ("bi_sigterm", "permission_decision", "a call that was broken off says so, whoever broke it off"),
    ("perm_setmode_update", ".description is missing", "a sentence for people about a rule"),
    ("set_mode_midturn", "tool_use_id", "the recorded numbers count a request that Lathe does not make"),
    ("stream_budget", ".usage.", "what was used is told, also when it was too much"),
    ("hooks_all_events", "request.tool_use_id", "an id that is made up where no call is meant"),
    ("hook_prompt", "prompt_id", "the id of a prompt is drawn once its hooks have agreed"),
    ("ask_host@0.2.34", "input.plan", "the plan is in its file and in the question, and nowhere else"),
    ("ask_host@0.2.50", "input.plan", "the plan is in its file and in the question, and nowhere else"),
];

/// Notes that the reference does not write: what it swallows is said here.
const OUR_NOTES: &[&str] = &["invalid_permission_result", "permission_update_failed"];

/// What is different from the recording, if anything that should not be.
fn difference(root: &Path, name: &str) -> Option<String> {
    match std::panic::catch_unwind(|| talk(&root.join(name))) {
        Ok(Ok(())) => None,
        Ok(Err(why)) => unexpected(name, &why).map(|why| format!("{name}: {why}")),
        Err(panic) => Some(format!("{name}: {}", panic_text(panic.as_ref()))),
    }
}

#[test]
fn talks_look_like_the_recordings() {
    let Some(root) = recordings() else { return };
    let only = std::env::var("LATHE_TALK").ok();
    let half = HALF_TALKS.iter().map(|(name, _)| name);
    let talks = TALKS
        .iter()
        .chain(half)
        .filter(|name| only.as_ref().is_none_or(|only| name.ends_with(only.as_str())));
    let failures: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> = talks.map(|name| scope.spawn(|| difference(&root, name))).collect();
        runs.into_iter().filter_map(|run| run.join().expect("panics are caught")).collect()
    });
    assert!(failures.is_empty(), "{} talks differ:\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn every_conversation_is_compared_or_named_with_its_reason() {
    let Some(root) = recordings() else { return };
    let mut unnamed = Vec::new();
    for entry in std::fs::read_dir(root.join("wire")).unwrap().flatten() {
        let name = format!("wire/{}", entry.file_name().to_string_lossy());
        let argv = std::fs::read_to_string(entry.path().join("argv.json")).unwrap_or_default();
        let talks = argv.contains("--input-format") && entry.path().join("io.jsonl").exists();
        let named = TALKS.contains(&name.as_str()) || NOT_YET.iter().any(|(known, _)| *known == name);
        if talks && !named {
            unnamed.push(name);
        }
    }
    assert!(unnamed.is_empty(), "{unnamed:?}");
}

/// What is left of the differences without those that are meant to be.
fn unexpected(talk: &str, why: &str) -> Option<String> {
    let excused = |line: &&str| {
        EXCEPTIONS.iter().any(|(name, piece, _)| talk.ends_with(name) && line.contains(piece))
            || line.trim() == "stderr:"
    };
    let left: Vec<&str> = why.lines().filter(|line| !excused(line)).collect();
    (!left.is_empty()).then(|| left.join("\n"))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text =
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default();
    let lines = text.lines().map(|line| line.chars().take(160).collect::<String>());
    lines.collect::<Vec<_>>().join("\n    ")
}

/// One event of a recording.
struct Event {
    direction: String,
    message: Value,
}

fn events(dir: &Path, theirs: &str, ours: &str) -> Vec<Event> {
    let Ok(text) = std::fs::read_to_string(dir.join("io.jsonl")) else {
        return made_up_events(dir, theirs, ours);
    };
    let lines = text.lines().map(|line| line.replace(theirs, ours));
    lines
        .map(|line| {
            let event: Value = serde_json::from_str(&line).expect("an event is JSON");
            Event {
                direction: event["dir"].as_str().unwrap_or_default().to_owned(),
                message: event["m"].clone(),
            }
        })
        .collect()
}

/// What must have gone in to get what came out: an introduction, a prompt, and the answers.
fn made_up_events(dir: &Path, theirs: &str, ours: &str) -> Vec<Event> {
    let (_, answer) = HALF_TALKS.iter().find(|(name, _)| dir.ends_with(name)).expect("it is listed");
    let answer: Value = serde_json::from_str(answer).expect("an answer is JSON");
    let said = |message: Value| Event { direction: "in".to_owned(), message };
    let text = std::fs::read_to_string(dir.join("stdout.jsonl")).expect("its output is recorded");
    let mut events = vec![said(json!({
        "type": "control_request", "request_id": "i1", "request": {"subtype": "initialize", "hooks": null},
    }))];
    for line in text.lines() {
        let message: Value = serde_json::from_str(&line.replace(theirs, ours)).expect("a frame is JSON");
        let (kind, id) = (message["type"].clone(), message["request_id"].clone());
        events.push(Event { direction: "out".to_owned(), message });
        if kind == "control_response" {
            events.push(said(json!({"type": "user", "message": {"role": "user", "content": "go"}})));
        } else if kind == "control_request" {
            let response = json!({"subtype": "success", "request_id": id, "response": answer});
            events.push(said(json!({"type": "control_response", "response": response})));
        }
    }
    events.push(said(json!("<EOF>")));
    events
}

/// Whether a frame is left out on both sides: whether the session is idle while a command can still wake it is decided
/// differently here on purpose (`ending.rs`, `a_host_is_told_idle_only_when_nothing_can_wake_the_session`).
fn is_left_out(dir: &Path, frame: &Value) -> bool {
    dir.ends_with("wire/bash_bg_open") && frame["subtype"] == "session_state_changed"
}

/// Leads one conversation and compares what came out.
fn talk(dir: &Path) -> Result<(), String> {
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
    let recorded: Value = serde_json::from_str(&read("argv.json")).map_err(|error| error.to_string())?;
    let context = TestContext::new(r#"[{"text": "unused"}]"#).binary(env!("CARGO_BIN_EXE_lathe"));
    let theirs = recorded["cwd"].as_str().unwrap_or_default().to_owned();
    let ours = context.cwd().display().to_string();
    let scenario = standing_still(dir, &read("scenario.json").replace(&theirs, &ours));
    let script = Script::parse("scenario.json", &scenario).map_err(|error| error.to_string())?;
    let server = BackgroundServer::start(script);
    let mut context =
        context.env("ANTHROPIC_BASE_URL", server.url()).env("IS_SANDBOX", "1").limit(Duration::from_secs(60));
    for (name, value) in compare::environment(dir, &recorded) {
        context = context.env(&name, &value);
    }
    prepare(&context, dir);
    let words: Vec<String> = recorded["argv"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|word| word.as_str().unwrap_or_default().replace(&theirs, &ours))
        .collect();
    let mut events = events(dir, &theirs, &ours);
    events.retain(|event| !is_left_out(dir, &event.message));
    let (finished, expected) = Conversation::new(context.start(&words)).lead(&events);
    let code = events.iter().find(|event| event.direction == "exit").and_then(|event| event.message.as_i64());
    if code.is_some() && finished.code.map(i64::from) != code {
        return Err(format!("exit code {:?}, recorded {code:?}; stderr: {}", finished.code, finished.stderr));
    }
    let reference = Normaliser::default().replace(&ours, "<cwd>");
    let mine = context.normaliser();
    let actual = finished.lines();
    let is_reply = |frame: &&Value| frame["type"] == "control_response";
    let is_ours = |frame: &&Value| frame["tag"].as_str().is_some_and(|tag| OUR_NOTES.contains(&tag));
    let others = |frames: &[Value]| -> Vec<Value> {
        let others = frames.iter().filter(|frame| !is_reply(frame) && !is_ours(frame));
        let others = others.filter(|frame| !is_left_out(dir, frame));
        answers_whole(others.cloned().collect())
    };
    let replies: HashMap<&str, &Value> =
        actual.iter().filter(is_reply).map(|frame| (reply_id(frame), frame)).collect();
    let mut differences = Vec::new();
    for reply in expected.iter().filter(is_reply) {
        let id = reply_id(reply);
        let compared = match replies.get(id) {
            Some(ours) => {
                let (reply, ours) = (reference.value(reply), mine.value(ours));
                compare_value(&reply, &ours, &format!("answer to {id}"), Texts::Ours)
            }
            None => Err(format!("no answer to {id}; recorded {reply}")),
        };
        differences.extend(compared.err());
    }
    let seen = |frames: Vec<Value>| compare::as_older_clients_see(&recorded, frames);
    let (expected, actual) = (reference.lines(&others(&expected)), mine.lines(&others(&actual)));
    differences.extend(compare_tools(&expected, &actual).err());
    let (expected, actual) = (seen(expected), seen(actual));
    differences.extend(compare_frames(&expected, &actual, Texts::Ours).err());
    if differences.is_empty() {
        return Ok(());
    }
    Err(format!("{}\n  stderr: {}", differences.join("\n  "), finished.stderr))
}

/// Where the recorded host interrupted an answer in the middle the model paused for a moment after every event, and
/// which event was the last was a matter of speed. Here it stands still behind the one that the recording shows.
fn standing_still(dir: &Path, scenario: &str) -> String {
    if !dir.ends_with("wire/bi_interrupt_stream") {
        return scenario.to_owned();
    }
    let mut turns: Value = serde_json::from_str(scenario).expect("a scenario is JSON");
    let slow = turns[0].as_object_mut().expect("its turns are objects");
    slow.remove("delay");
    slow.insert("stall".to_owned(), json!({"after_events": 4}));
    json!({"turns": turns}).to_string()
}

/// Blocks of one answer together, with the questions about its first calls behind them: whether a question
/// is written before the next block depends on how fast the blocks arrive.
fn answers_whole(mut frames: Vec<Value>) -> Vec<Value> {
    let is_question = |frame: &Value| frame["type"] == "control_request";
    for at in 1..frames.len() {
        let id = frames[at]["message"]["id"].clone();
        let mut to = at;
        while to > 0 && is_question(&frames[to - 1]) {
            to -= 1;
        }
        let continues = to > 0 && to < at && id.is_string() && frames[to - 1]["message"]["id"] == id;
        if continues {
            frames[to..=at].rotate_right(1);
        }
    }
    frames
}

fn reply_id(frame: &Value) -> &str {
    frame["response"]["request_id"].as_str().unwrap_or_default()
}

/// Files that a conversation takes for granted.
fn prepare(context: &TestContext, dir: &Path) {
    if dir.ends_with("runtime/19_cut_bash_allow_noinput") {
        context.write("a.txt", "x\n");
    }
    if dir.ends_with("wire/matchers") || dir.ends_with("wire/hook_error") {
        context.write("f.txt", "x\n");
    }
}

/// Our end of a conversation.
struct Conversation {
    running: Running,
    /// Frames of ours, in order.
    came: Vec<Value>,
    /// Ids of the requests that we were asked, in order.
    asked: Vec<String>,
    ended: bool,
}

impl Conversation {
    fn new(running: Running) -> Self {
        Self { running, came: Vec::new(), asked: Vec::new(), ended: false }
    }

    /// Says what the recorded host said; returns the end, and what the recording shows.
    fn lead(mut self, events: &[Event]) -> (lathe_testkit::Finished, Vec<Value>) {
        let mut expected: Vec<Value> = Vec::new();
        let mut their_ids: Vec<String> = Vec::new();
        for event in events {
            match event.direction.as_str() {
                "out" => {
                    if event.message["type"] == "control_request" {
                        their_ids.push(event.message["request_id"].as_str().unwrap_or_default().to_owned());
                    }
                    expected.push(event.message.clone());
                }
                "in" if event.message == "<EOF>" => {
                    self.catch_up(&expected);
                    self.running.close_stdin();
                }
                "in" => {
                    self.catch_up(&expected);
                    let mut line = event.message.clone();
                    if line["type"] == "control_response" {
                        let theirs = line["response"]["request_id"].as_str().unwrap_or_default();
                        let at = their_ids.iter().position(|id| id == theirs);
                        if let Some(id) = at.and_then(|at| self.wait_for_question(at)) {
                            line["response"]["request_id"] = Value::String(id);
                        }
                    }
                    if let Some(id) = self.own_task(&line["request"]["task_id"], &expected) {
                        line["request"]["task_id"] = id;
                    }
                    self.running.send(&line);
                }
                "in-raw" => {
                    self.catch_up(&expected);
                    self.running.write(event.message.as_str().unwrap_or_default());
                }
                "note" => self.note(event.message.as_str().unwrap_or_default(), &expected),
                _ => {}
            }
        }
        (self.running.finish(), expected)
    }

    fn note(&mut self, note: &str, expected: &[Value]) {
        let signal = match note {
            "SIGINT" => Signal::INT,
            "SIGTERM" => Signal::TERM,
            _ => return,
        };
        self.catch_up(expected);
        self.running.signal(signal);
    }

    /// Waits until everything has come that the recording shows up to here. The last frame decides,
    /// because a frame that never comes is better found by the comparison than by a deadline.
    fn catch_up(&mut self, expected: &[Value]) {
        let late = |frame: &&Value| {
            // Frames that the reference writes late, or that depend on how a stream is cut.
            let kind = kind(frame);
            !(kind == "system status"
                || kind.starts_with("command_lifecycle")
                || kind == "system background_tasks_changed")
        };
        let Some(last) = expected.iter().rfind(late) else { return };
        let wanted = kind(last);
        let count = expected.iter().filter(|frame| kind(frame) == wanted).count();
        while self.came.iter().filter(|frame| kind(frame) == wanted).count() < count && !self.ended {
            self.read();
        }
    }

    /// Returns our id of a task that the recorded host names: the one that was started in the same place.
    fn own_task(&self, theirs: &Value, expected: &[Value]) -> Option<Value> {
        let starts = |frames: &[Value]| -> Vec<Value> {
            let starts = frames.iter().filter(|frame| frame["subtype"] == "task_started");
            starts.map(|frame| frame["task_id"].clone()).collect()
        };
        let at = starts(expected).iter().position(|id| id == theirs)?;
        starts(&self.came).get(at).cloned()
    }

    fn wait_for_question(&mut self, at: usize) -> Option<String> {
        while self.asked.len() <= at && !self.ended {
            self.read();
        }
        self.asked.get(at).cloned()
    }

    fn read(&mut self) {
        match self.running.next_line() {
            Some(frame) => {
                if frame["type"] == "control_request" {
                    self.asked.push(frame["request_id"].as_str().unwrap_or_default().to_owned());
                }
                self.came.push(frame);
            }
            None => self.ended = true,
        }
    }
}
