//! The same script in-process and through the HTTP client: the events and the error must be the same,
//! otherwise a test that passes with `--model script:FILE` says nothing about the real wire.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::script;
use futures_util::StreamExt;
use lathe_models::anthropic::{ClientConfig, Timeouts};
use lathe_models::{
    AnthropicClient, CacheTtl, Credential, ErrorKind, Model, ModelError, ModelRequest, Secret, Thinking,
    WireMessage,
};
use lathe_protocol::Role;
use lathe_scripted::{ScriptedModel, ServeOptions, serve};
use serde_json::{Value, json};

fn request() -> Arc<ModelRequest> {
    let message = WireMessage::new(Role::User, &[json!({"type": "text", "text": "hello"})]).unwrap();
    Arc::new(ModelRequest {
        model: "claude-x".into(),
        max_tokens: 1000,
        system: Vec::new(),
        tools: "[]".into(),
        defers_tools: false,
        messages: vec![message],
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

fn timeouts() -> Timeouts {
    let short = Duration::from_millis(250);
    Timeouts { first_byte: short, idle: short, request: short, ..Timeouts::default() }
}

/// What of an error callers act on.
type Failure = (ErrorKind, Option<u16>, Option<String>, Option<Duration>, Option<String>);

fn failure(error: ModelError) -> Failure {
    (error.kind, error.status, error.api_type, error.retry_after, error.request_id)
}

#[derive(Debug, PartialEq)]
struct Seen {
    request_id: Option<String>,
    events: Vec<Value>,
    failure: Option<Failure>,
}

async fn streamed(model: &dyn Model) -> Seen {
    let mut stream = match model.stream(request()).await {
        Ok(stream) => stream,
        Err(error) => return Seen { request_id: None, events: Vec::new(), failure: Some(failure(error)) },
    };
    let mut seen = Seen { request_id: stream.request_id, events: Vec::new(), failure: None };
    while let Some(event) = stream.events.next().await {
        match event {
            Ok(event) => seen.events.push(event.raw),
            Err(error) => seen.failure = Some(failure(error)),
        }
    }
    seen
}

async fn whole(model: &dyn Model) -> Result<Value, Failure> {
    model.complete(request()).await.map(|answer| json!([answer.request_id, answer.message])).map_err(failure)
}

const TURNS: [&str; 25] = [
    "{text: hello}",
    "{thinking: hm, text: a, tools: [{name: Bash, input: {command: ls}}], stop: max_tokens, pace_ms: 5}",
    "{}",
    "{tools: [{name: Read, raw: '{\"a\": \"b'}]}",
    "{blocks: [{block: {type: unheard_of, x: 1}}, {text: after}]}",
    "{error: 400}",
    "{error: {status: 400, message: prompt is too long}}",
    "{error: 401}",
    "{error: {status: 429, headers: {retry-after: '7'}}}",
    "{error: {status: 502, body: '<html>', headers: {content-type: text/html}}}",
    "{error: 529}",
    "{text: hello, cut: {}}",
    "{text: hello, cut: {how: rst}}",
    "{text: hello, cut: {after_bytes: 100}}",
    "{text: hello, cut: {after_bytes: 0}}",
    "{text: hello, cut: {before_headers: true}}",
    "{text: hello, stall: {}}",
    "{text: hello, stall: {ms: 50}}",
    "{text: hello, delay_ms: 400}",
    "{text: hello, garbage: {}}",
    "{text: hello, error_event: {}}",
    "{text: hello, error_event: {type: api_error, after_events: 0}}",
    "{raw: {headers: {content-type: application/json}, chunks: ['{\"type\": \"message\"}']}}",
    "{raw: {headers: {content-type: text/event-stream}, chunks: [\"data: {\\\"type\\\": \\\"mes\", \"sage_stop\\\"}\\n\\n\"]}}",
    "{text: hello, drip: {bytes: 3}}",
];

#[tokio::test]
async fn in_process_and_over_http_agree() {
    let mut pairs = Vec::new();
    for turn in TURNS {
        let text = format!("turns:\n  - {turn}\n");
        let server = serve(script(&text), ServeOptions::default()).await.unwrap();
        let mut config = ClientConfig::new(server.url(), Credential::ApiKey(Secret::new("key-123456")));
        config.timeouts = timeouts();
        let client = AnthropicClient::new(config).unwrap();
        let local = ScriptedModel::new(script(&text)).unwrap().with_timeouts(timeouts());
        pairs.push((turn, server, client, local));
    }
    let both = pairs.iter().map(|(turn, _, client, local)| async move {
        assert_eq!(streamed(local).await, streamed(client).await, "streamed: {turn}");
        assert_eq!(whole(local).await, whole(client).await, "whole: {turn}");
    });
    futures_util::future::join_all(both).await;
}

/// One check for both ways: what it refuses arrives as the same error.
#[tokio::test]
async fn a_refusal_is_the_same_in_process_and_over_http() {
    let server = serve(script("turns: [{text: a}]"), ServeOptions::default()).await.unwrap();
    let config = ClientConfig::new(server.url(), Credential::ApiKey(Secret::new("key-123456")));
    let client = AnthropicClient::new(config).unwrap();
    let local = ScriptedModel::new(script("turns: [{text: a}]")).unwrap();
    let mut asked = ModelRequest::clone(&request());
    asked.extra_body.insert("made_up".to_owned(), json!(1));
    let asked = Arc::new(asked);
    let over_http = client.complete(Arc::clone(&asked)).await.unwrap_err();
    let in_process = local.complete(asked).await.unwrap_err();
    assert_eq!(in_process.message, over_http.message);
    assert!(in_process.message.contains("made_up: Extra inputs are not permitted"), "{in_process:?}");
    assert_eq!(in_process.request_id.as_deref(), Some("req_refused_1"));
    assert_eq!(failure(in_process), failure(over_http));
}

#[tokio::test]
async fn the_faults_have_the_kinds_callers_retry_by() {
    let kind = |turn: &'static str| async move {
        let model =
            ScriptedModel::new(script(&format!("turns:\n  - {turn}\n"))).unwrap().with_timeouts(timeouts());
        streamed(&model).await.failure.expect(turn).0
    };
    assert_eq!(kind("{text: a, cut: {}}").await, ErrorKind::StreamCut);
    assert_eq!(kind("{text: a, cut: {before_headers: true}}").await, ErrorKind::Connection);
    assert_eq!(kind("{text: a, stall: {}}").await, ErrorKind::Stalled);
    assert_eq!(kind("{text: a, delay_ms: 60000}").await, ErrorKind::Stalled);
    assert_eq!(kind("{text: a, garbage: {}}").await, ErrorKind::Protocol);
    assert_eq!(kind("{text: a, error_event: {}}").await, ErrorKind::Overloaded);
    assert_eq!(kind("{text: a, error_event: {type: api_error}}").await, ErrorKind::StreamError);
    assert_eq!(kind("{error: 429}").await, ErrorKind::RateLimit);
}

#[tokio::test]
async fn names_are_built_in_or_files() {
    let echo = ScriptedModel::load("echo").unwrap();
    let answer = whole(&echo).await.unwrap();
    assert_eq!(answer[1]["content"][0]["text"], "hello");
    let error = ScriptedModel::load("no-such-script").unwrap_err().to_string();
    assert!(error.contains("`no-such-script`") && error.contains("demo, echo"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    std::fs::write(&file, "turns: [{when: {agent: main}, text: 'for {{agent}}'}]").unwrap();
    let model = ScriptedModel::load(file.to_str().unwrap()).unwrap();
    assert_eq!(whole(&model).await.unwrap()[1]["content"][0]["text"], "for main");
}
