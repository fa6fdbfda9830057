//! Made-up lines, at least one for every kind of message and with every field the reference names. Each
//! reads as its own type, is written back as the same JSON value, and leaves nothing in `extra`: a field
//! whose name we got wrong would end up there unnoticed.

mod common;

use std::collections::BTreeSet;
use std::fmt::Debug;

use common::{check_answer, unknown_in_inbound, unknown_in_outbound};
use lathe_protocol::control::{ControlRequestBody, ControlResponseBody};
use lathe_protocol::hooks::HookEventInput;
use lathe_protocol::settings::HookHandler;
use lathe_protocol::{
    BlockView, ContentBlock, HookEvent, HookInput, HookOutput, Inbound, McpServerConfig, Outbound,
    PermissionResult, PermissionUpdate, Settings, SystemMessage,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads every line of a corpus as `T` and checks that nothing is lost, moved or unnamed.
fn read<T: Serialize + DeserializeOwned + Debug>(corpus: &str) -> Vec<T> {
    corpus
        .lines()
        .map(|line| {
            let value: Value = serde_json::from_str(line).unwrap();
            let typed: T = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(serde_json::to_value(&typed).unwrap(), value, "{line}");
            let debug = format!("{typed:?}");
            assert!(!debug.contains("extra: {\""), "a field has no name: {debug}");
            typed
        })
        .collect()
}

/// Wants every tag of an enum in the corpus, and no line in `Unknown`.
fn assert_covers<'a>(tags: &[&str], seen: impl Iterator<Item = &'a str>) {
    let seen: BTreeSet<_> = seen.collect();
    let all: BTreeSet<_> = tags.iter().copied().collect();
    assert_eq!(seen, all);
}

#[test]
fn outbound() {
    let lines: Vec<Outbound> = read(include_str!("corpus/outbound.jsonl"));
    assert_covers(Outbound::TAGS, lines.iter().map(Outbound::tag));
    for line in &lines {
        assert_eq!(unknown_in_outbound(line), None);
    }
}

#[test]
fn system() {
    let lines: Vec<Outbound> = read(include_str!("corpus/system.jsonl"));
    let messages: Vec<_> = lines
        .iter()
        .map(|line| match line {
            Outbound::System(message) => message,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_covers(SystemMessage::TAGS, messages.iter().map(|message| message.tag()));
    for line in &lines {
        assert_eq!(unknown_in_outbound(line), None);
    }
}

#[test]
fn inbound() {
    let lines: Vec<Inbound> = read(include_str!("corpus/inbound.jsonl"));
    assert_covers(Inbound::TAGS, lines.iter().map(Inbound::tag));
    for line in &lines {
        assert_eq!(unknown_in_inbound(line), None);
    }
}

#[test]
fn control_requests() {
    let bodies: Vec<ControlRequestBody> = read(include_str!("corpus/control_requests.jsonl"));
    assert_covers(ControlRequestBody::TAGS, bodies.iter().map(ControlRequestBody::tag));
    assert!(!bodies.iter().any(|body| matches!(body, ControlRequestBody::Unknown(_))));
}

#[test]
fn control_responses() {
    let bodies: Vec<ControlResponseBody> = read(include_str!("corpus/control_responses.jsonl"));
    assert_covers(ControlResponseBody::TAGS, bodies.iter().map(ControlResponseBody::tag));
    assert!(!bodies.iter().any(|body| matches!(body, ControlResponseBody::Unknown(_))));
}

#[test]
fn answers() {
    for line in include_str!("corpus/answers.jsonl").lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let request = value["to"].as_str().unwrap();
        assert!(ControlRequestBody::TAGS.contains(&request), "{request}");
        let debug = check_answer(request, &value["response"]).expect("an answer with a type").unwrap();
        assert!(!debug.contains("extra: {\""), "a field has no name: {debug}");
    }
}

#[test]
fn content_blocks() {
    let blocks: Vec<ContentBlock> = read(include_str!("corpus/content_blocks.jsonl"));
    assert_covers(ContentBlock::TAGS, blocks.iter().map(ContentBlock::tag));
    assert!(!blocks.iter().any(|block| block.view() == BlockView::Unknown));
}

#[test]
fn permission_updates_and_results() {
    let updates: Vec<PermissionUpdate> = read(include_str!("corpus/permission_updates.jsonl"));
    assert_covers(PermissionUpdate::TAGS, updates.iter().map(PermissionUpdate::tag));
    assert!(!updates.iter().any(|update| matches!(update, PermissionUpdate::Unknown(_))));

    let corpus = include_str!("corpus/permission_results.jsonl");
    let results: Vec<PermissionResult> = read(corpus);
    assert_covers(PermissionResult::TAGS, results.iter().map(PermissionResult::tag));
    for (line, result) in corpus.lines().zip(results) {
        let value = serde_json::from_str(line).unwrap();
        assert_eq!(PermissionResult::parse(&value), Ok(result));
    }
}

#[test]
fn hooks() {
    let inputs: Vec<HookInput> = read(include_str!("corpus/hook_inputs.jsonl"));
    assert_covers(HookEventInput::TAGS, inputs.iter().map(|input| input.event.tag()));
    assert!(!inputs.iter().any(|input| matches!(input.event, HookEventInput::Unknown(_))));
    assert!(!inputs.iter().any(|input| matches!(input.event_name(), HookEvent::Unknown(_))));
    assert_eq!(HookEventInput::TAGS, HookEvent::NAMES);
    assert_eq!(HookEvent::NAMES.len(), 33);

    let corpus = include_str!("corpus/hook_outputs.jsonl");
    let outputs: Vec<HookOutput> = read(corpus);
    for (line, output) in corpus.lines().zip(outputs) {
        let value: Value = serde_json::from_str(line).unwrap();
        let event = value["hookSpecificOutput"]["hookEventName"].as_str().unwrap_or("Stop").into();
        assert_eq!(HookOutput::parse(&value, &event), Ok(output));
    }
}

#[test]
fn settings() {
    let settings: Vec<Settings> = read(include_str!("corpus/settings.jsonl"));
    let written = serde_json::to_value(&settings[0]).unwrap();
    let keys = written.as_object().unwrap().keys().map(String::as_str);
    assert_covers(Settings::KEYS, keys);

    let handlers: Vec<HookHandler> = read(include_str!("corpus/hook_handlers.jsonl"));
    assert_covers(HookHandler::TAGS, handlers.iter().map(HookHandler::tag));
    assert!(!handlers.iter().any(|handler| matches!(handler, HookHandler::Unknown(_))));
}

#[test]
fn mcp_servers() {
    let servers: Vec<McpServerConfig> = read(include_str!("corpus/mcp_servers.jsonl"));
    let kinds = servers.iter().map(|server| match server {
        McpServerConfig::Stdio(_) => "stdio",
        McpServerConfig::Sse(_) => "sse",
        McpServerConfig::Http(_) => "http",
        McpServerConfig::Ws(_) => "ws",
        McpServerConfig::Sdk(_) => "sdk",
        McpServerConfig::Unknown(value) => panic!("{value}"),
    });
    assert_covers(&["stdio", "sse", "http", "ws", "sdk"], kinds);
}
