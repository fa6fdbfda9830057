//! The corpus of recorded sessions beside the repository, where it exists: every scenario loads, and the
//! events a scenario streams are those that a client was seen to receive.

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use lathe_models::{CacheTtl, Model, ModelRequest, Thinking, WireMessage};
use lathe_protocol::Role;
use lathe_scripted::{Facts, Script, ScriptEngine, ScriptedModel};
use lathe_testkit::recordings;
use serde_json::{Value, json};

fn scenarios(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            scenarios(&path, found);
        } else if path.file_name().is_some_and(|name| name == "scenario.json") {
            found.push(path);
        }
    }
}

#[test]
fn every_scenario_loads() {
    let Some(corpus) = recordings() else { return };
    let mut found = Vec::new();
    scenarios(&corpus, &mut found);
    assert!(found.len() > 300, "only {} scenarios", found.len());
    for path in found {
        let script = Script::load(&path).unwrap_or_else(|error| panic!("{error}"));
        ScriptEngine::new(script).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

fn request() -> Arc<ModelRequest> {
    Arc::new(ModelRequest {
        model: "claude-opus-5-5".into(),
        max_tokens: 1000,
        system: Vec::new(),
        tools: "[]".into(),
        defers_tools: false,
        messages: vec![WireMessage::new(Role::User, &[json!({"type": "text", "text": "go"})]).unwrap()],
        thinking: Thinking::Disabled,
        effort: None,
        task_budget: None,
        user_id: None,
        betas: Vec::new(),
        cache: CacheTtl::Off,
        extra_body: serde_json::Map::new(),
        agent: "main".into(),
    })
}

#[tokio::test]
async fn streamed_events_are_those_a_client_received() {
    let Some(corpus) = recordings() else { return };
    let folder = corpus.join("wire/partial");
    let lines = std::fs::read_to_string(folder.join("stdout.jsonl")).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let received: Vec<Value> =
        lines.filter(|line| line["type"] == "stream_event").map(|line| line["event"].clone()).collect();
    assert!(received.len() > 15);

    let mut script = Script::load(&folder.join("scenario.json")).unwrap();
    // As the recorded model signed.
    script.defaults.signature = Some("sig".to_owned());
    let model = ScriptedModel::new(script).unwrap();
    let mut sent = Vec::new();
    for number in 1..=2 {
        let mut stream = model.stream(request()).await.unwrap();
        assert_eq!(stream.request_id, Some(format!("req_{number}")));
        while let Some(event) = stream.events.next().await {
            sent.push(event.unwrap().raw);
        }
    }
    assert_eq!(sent, received);
}

/// The sessions of the seed era note for every request which line and turn answered it.
#[test]
fn requests_of_many_agents_find_the_line_and_turn_that_answered_them() {
    let Some(corpus) = recordings() else { return };
    let mut compared = 0;
    for entry in std::fs::read_dir(corpus.join("seed-era")).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(requests) = std::fs::read_to_string(folder.join("requests.jsonl")) else { continue };
        let engine = ScriptEngine::new(Script::load(&folder.join("scenario.json")).unwrap()).unwrap();
        let requests = requests.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        for request in requests.filter(|request| request["messages"].is_array()) {
            let body = json!({"model": "m", "max_tokens": 100, "messages": request["messages"]});
            let served = engine.respond(Facts::from_http(Bytes::from(body.to_string()), Vec::new()).unwrap());
            let expected = match (request["script"].as_str(), request["turn"].as_u64()) {
                (Some(line), Some(turn)) => format!("route {line}, turn {}", turn + 1),
                // Behind the probe, which is the first turn of the main line.
                _ => "turn 2".to_owned(),
            };
            assert_eq!(served.turn, expected, "request {} of {}", request["n"], folder.display());
            compared += 1;
        }
    }
    assert!(compared > 300, "only {compared} requests");
}

/// What the reference sends is taken by the API, so it must be taken here: a check that is too strict shows.
#[test]
fn requests_of_the_reference_are_not_refused() {
    let Some(corpus) = recordings() else { return };
    let mut refused = Vec::new();
    let engine = ScriptEngine::new(Script::parse("ok", "turns: [{text: ok}]").unwrap()).unwrap();
    let mut compared = 0;
    // Requests of the seed era were not noted word for word.
    for entry in std::fs::read_dir(corpus.join("wire")).unwrap() {
        let path = entry.unwrap().path().join("requests.jsonl");
        let Ok(requests) = std::fs::read_to_string(&path) else { continue };
        for line in requests.lines() {
            let Ok(recorded) = serde_json::from_str::<Value>(line) else { continue };
            if !recorded["messages"].is_array() || !recorded["max_tokens"].is_u64() {
                continue;
            }
            compared += 1;
            let served = engine.respond_http(body_of(&recorded).into(), headers_of(&recorded));
            if served.reply.status != 200 {
                refused.push(format!("{}: {}", path.display(), served.turn));
            }
        }
    }
    assert!(compared > 250, "only {compared} requests");
    assert!(refused.is_empty(), "{} of {compared}:\n{}", refused.len(), refused.join("\n"));
}

/// The recorded parts of a request. Tools and system prompt were noted by name and length only.
fn body_of(recorded: &Value) -> String {
    let mut body = json!({"metadata": {"user_id": "u"}});
    for key in ["model", "max_tokens", "messages", "thinking", "output_config", "stream"] {
        if let Some(value) = recorded.get(key).filter(|value| !value.is_null()) {
            body[key] = value.clone();
        }
    }
    body.to_string()
}

fn headers_of(recorded: &Value) -> Vec<(String, String)> {
    let betas = recorded["headers"]["anthropic-beta"].as_str().unwrap_or_default();
    // Long values were shortened when they were recorded; the last name is then half a name.
    let whole: Vec<&str> = betas.split(',').filter(|name| !name.contains('\u{2026}')).collect();
    let mut headers = vec![("anthropic-version".to_owned(), "2023-06-01".to_owned())];
    if !whole.is_empty() {
        headers.push(("anthropic-beta".to_owned(), whole.join(",")));
    }
    headers
}
