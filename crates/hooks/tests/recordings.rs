//! Replays what real hosts and hooks said and compares what the engine asks and concludes. Runs where the
//! recordings are; passes without them.

mod support;

use std::path::Path;

use lathe_hooks::{HookSource, RunContext};
use lathe_protocol::hooks::{HookEventInput, HookPermissionDecision};
use lathe_protocol::{HookInput, SettingsSource};
use lathe_testkit::recordings;
use serde_json::{Value, json};
use support::{Bench, Reply, in_time};

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// A callback as it was recorded, with the host's answer.
struct Asked {
    request: Value,
    answer: Option<Reply>,
}

struct Recording {
    hooks: Value,
    asked: Vec<Asked>,
    lines: Vec<Value>,
}

fn read(folder: &Path) -> Option<Recording> {
    let lines = lines(&folder.join("io.jsonl"));
    let messages =
        |dir: &'static str| lines.iter().filter(move |line| line["dir"] == dir).map(|line| line["m"].clone());
    let hooks = messages("in").find(|m| m["request"]["subtype"] == "initialize")?["request"]["hooks"].clone();
    let asked = messages("out").filter(|m| m["request"]["subtype"] == "hook_callback").map(|m| {
        let answer = messages("in").find(|a| a["response"]["request_id"] == m["request_id"]);
        let answer = answer.map(|answer| match answer["response"]["subtype"].as_str() {
            Some("success") => Reply::Answer(answer["response"]["response"].clone()),
            _ => Reply::Error(answer["response"]["error"].as_str().unwrap_or("").to_owned()),
        });
        Asked { request: m["request"].clone(), answer }
    });
    let asked: Vec<Asked> = asked.collect();
    let out = messages("out").collect();
    (!asked.is_empty() && hooks.is_object()).then_some(Recording { hooks, asked, lines: out })
}

/// All callbacks that were asked about the same thing, asked again: the same ones, with the same words.
#[tokio::test]
async fn hosts_are_asked_what_they_were_asked() {
    let Some(root) = recordings() else { return };
    let mut events = std::collections::BTreeSet::new();
    let mut compared = 0;
    for kind in ["wire", "seed-era"] {
        for folder in std::fs::read_dir(root.join(kind)).unwrap() {
            let folder = folder.unwrap().path();
            if !folder.join("io.jsonl").exists() {
                continue;
            }
            let Some(recording) = read(&folder) else { continue };
            let bench = Bench::new();
            let _warnings = bench.callbacks(recording.hooks.clone());
            let mut left: Vec<&Asked> = recording.asked.iter().collect();
            while let Some(first) = left.first().copied() {
                let same = |asked: &&Asked| {
                    asked.request["input"] == first.request["input"]
                        && (asked.request["tool_use_id"] == first.request["tool_use_id"]
                            || asked.request["input"].get("tool_use_id").is_none())
                };
                // The same input twice is two events if it went to the same callback.
                let mut ids = Vec::new();
                let mut group = Vec::new();
                left.retain(|asked| {
                    let id = asked.request["callback_id"].as_str().unwrap().to_owned();
                    if !same(asked) || ids.contains(&id) {
                        return true;
                    }
                    ids.push(id);
                    group.push(*asked);
                    false
                });
                let input: HookInput = serde_json::from_value(first.request["input"].clone()).unwrap();
                assert!(!matches!(input.event, HookEventInput::Unknown(_)), "{}", folder.display());
                events.insert(input.event_name().to_string());
                bench.host.calls.lock().unwrap().clear();
                bench.run(&input).await;
                let mut calls = bench.host.calls.lock().unwrap().clone();
                let named = calls[0]["input"].get("tool_use_id").is_some();
                let mut expected: Vec<Value> = group
                    .iter()
                    .map(|asked| {
                        let mut request = asked.request.clone();
                        request.as_object_mut().unwrap().remove("subtype");
                        request
                    })
                    .collect();
                for call in calls.iter_mut().chain(&mut expected).filter(|_| !named) {
                    call["tool_use_id"] = json!("some id");
                }
                assert_eq!(json!(calls), json!(expected), "{}", folder.display());
                compared += calls.len();
            }
        }
    }
    assert!(compared > 50 && events.len() > 12, "{compared} callbacks, {events:?}");
}

/// Asks again with the recorded answer and gives the outcomes in order.
async fn outcomes(name: &str) -> Option<Vec<(lathe_hooks::Outcome, Value)>> {
    let recording = read(&recordings()?.join("wire").join(name))?;
    let mut outcomes = Vec::new();
    let bench = Bench::new();
    assert_eq!(bench.callbacks(recording.hooks.clone()), []);
    for asked in &recording.asked {
        let id = asked.request["callback_id"].as_str().unwrap();
        bench.host.reply(id, asked.answer.clone().unwrap());
        let input: HookInput = serde_json::from_value(asked.request["input"].clone()).unwrap();
        let tool_use_id = asked.request["tool_use_id"].as_str();
        let context = RunContext { tool_use_id, ..bench.context() };
        let outcome = in_time(bench.engine.run(&input, context)).await;
        outcomes.push((outcome, json!(recording.lines)));
    }
    Some(outcomes)
}

fn contents(lines: &Value, subtype: &str) -> Vec<Value> {
    let lines = lines.as_array().unwrap().iter();
    lines.filter(|line| line["subtype"] == subtype).cloned().collect()
}

#[tokio::test]
async fn failed_callbacks_end_as_recorded() {
    let Some(outcomes) = outcomes("hook_error").await else { return };
    let notices = contents(&outcomes[0].1, "informational");
    assert_eq!(outcomes.len(), notices.len());
    for ((outcome, _), notice) in outcomes.iter().zip(&notices) {
        let ours = outcome.problems[0].informational().unwrap();
        assert_eq!((json!(ours.level), json!(ours.tag)), (notice["level"].clone(), notice["tag"].clone()));
    }
    let denied: Vec<bool> = outcomes.iter().map(|(outcome, _)| outcome.permission.is_some()).collect();
    assert_eq!(denied, [false, true, false]);
    let text = outcomes[1].0.permission.as_ref().unwrap().tool_error();
    assert!(text.starts_with("PreToolUse:Read hook error: [callback]: "), "{text}");
}

#[tokio::test]
async fn post_tool_answers_end_as_recorded() {
    let Some(outcomes) = outcomes("hook_post").await else { return };
    let [context, rewritten, blocked, noted] = &outcomes[..] else { panic!("{}", outcomes.len()) };
    assert_eq!(context.0.contexts[0].line(), "PostToolUse:Bash hook additional context: ctx after");
    assert_eq!(rewritten.0.tool_output.as_ref().unwrap().value["stdout"], "REWRITTEN");
    assert_eq!(
        blocked.0.block().unwrap().blocking_error(),
        "PostToolUse:Bash hook blocking error from command: \"callback\": bad output"
    );
    let notice = &contents(&noted.1, "informational")[0];
    let ours = &noted.0.notices()[0];
    assert_eq!(
        (json!(ours.content), json!(ours.level)),
        (notice["content"].clone(), notice["level"].clone())
    );
}

#[tokio::test]
async fn prompts_and_stops_end_as_recorded() {
    let Some(outcomes) = outcomes("hook_prompt").await else { return };
    let kinds: Vec<_> = outcomes
        .iter()
        .map(|(o, _)| {
            (o.contexts.len(), o.block().map(|b| b.reason.clone()), o.stop.clone().and_then(|s| s.reason))
        })
        .collect();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        kinds,
        [(1, None, None), (0, text("blocked prompt"), None), (0, None, text("stop prompt")), (0, None, None)]
    );
    let Some(stops) = self::outcomes("hook_stop_block").await else { return };
    let feedback: Vec<_> = stops
        .iter()
        .filter_map(|(outcome, _)| outcome.block())
        .map(|block| json!(block.feedback()))
        .collect();
    let users = stops[0].1.as_array().unwrap().iter().filter(|line| line["isSynthetic"] == json!(true));
    let recorded: Vec<Value> = users.map(|line| line["message"]["content"][0]["text"].clone()).collect();
    assert_eq!(feedback, recorded);
}

#[tokio::test]
async fn a_switch_of_models_is_denied_as_recorded() {
    let Some(outcomes) = outcomes("model_switch_hooks").await else { return };
    let verdicts: Vec<_> = outcomes.iter().filter_map(|(outcome, _)| outcome.permission.as_ref()).collect();
    let [verdict] = verdicts[..] else { panic!("{verdicts:?}") };
    assert_eq!((verdict.behavior, verdict.reason.as_deref()), (HookPermissionDecision::Deny, Some("nope")));
}

/// Command hooks from a recorded command line leave the recorded frames.
#[tokio::test]
async fn command_hooks_leave_the_frames_they_left() {
    let Some(root) = recordings() else { return };
    let folder = root.join("wire/settings_hooks");
    let argv: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("argv.json")).unwrap()).unwrap();
    let argv = argv["argv"].as_array().unwrap();
    let at = argv.iter().position(|arg| arg == "--settings").unwrap();
    let mut settings: Value = serde_json::from_str(argv[at + 1].as_str().unwrap()).unwrap();
    // Two seconds of sleep say nothing here.
    let stop = &mut settings["hooks"]["Stop"][0]["hooks"][0]["command"];
    *stop = json!(stop.as_str().unwrap().replace("sleep 2; ", ""));
    let bench = Bench::new();
    assert_eq!(bench.register(HookSource::Settings(SettingsSource::Flag), settings["hooks"].clone()), []);
    let tool = |name: &str| json!({ "tool_name": name });
    for (event, fields) in [
        ("SessionStart", json!({})),
        ("PreToolUse", tool("Bash")),
        ("PreToolUse", tool("Read")),
        ("PostToolUse", tool("Read")),
        ("Stop", json!({})),
        ("SessionEnd", json!({})),
    ] {
        let outcome = bench.run(&support::input(event, fields)).await;
        assert_eq!(outcome.problems, [], "{event}");
    }
    let recorded: Vec<Value> = lines(&folder.join("stdout.jsonl"))
        .into_iter()
        .filter(|line| line["subtype"].as_str().is_some_and(|subtype| subtype.starts_with("hook_")))
        .map(|mut line| {
            for key in ["type", "uuid", "session_id", "hook_id"] {
                line.as_object_mut().unwrap().remove(key);
            }
            line
        })
        .collect();
    assert_eq!(bench.frames.lines(), recorded);
}
