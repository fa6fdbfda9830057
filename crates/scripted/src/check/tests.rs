//! The rules row by row: for each a request that is refused, with its text, and one that is accepted. The rows are
//! data; this file has the generated values, and the tests that need more than one request.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lathe_models::betas::BetaPolicy;
use lathe_models::{CacheTtl, ModelRequest, Thinking, WireMessage};
use lathe_protocol::Role;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::facts::Delivery;
use crate::render::Step;
use crate::signature::sign;
use crate::{Script, ScriptEngine, Served};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    row: String,
    refused: Option<Map<String, Value>>,
    text: Option<String>,
    accepted: Map<String, Value>,
}

/// Each section and the number of its rows, so that none is lost.
const SECTIONS: [(&str, &str, usize); 9] = [
    ("2", include_str!("tests/2-top.yaml"), 17),
    ("3", include_str!("tests/3-messages.yaml"), 16),
    ("4", include_str!("tests/4-tool-history.yaml"), 14),
    ("5", include_str!("tests/5-tools.yaml"), 20),
    ("6", include_str!("tests/6-cache.yaml"), 6),
    ("7", include_str!("tests/7-thinking.yaml"), 20),
    ("8", include_str!("tests/8-media-and-output.yaml"), 16),
    ("9", include_str!("tests/9-tokens.yaml"), 3),
    ("11", include_str!("tests/11-accepted.yaml"), 10),
];

#[test]
fn every_row_refuses_and_accepts() {
    let mut failures = Vec::new();
    for (section, text, count) in SECTIONS {
        let rows: Vec<Row> =
            serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{section}: {error}"));
        assert_eq!(rows.len(), count, "rows of section {section}");
        for row in rows {
            let name = format!("{section}, {}", row.row);
            if let Some(refused) = row.refused {
                let told = refusal(&ask(refused));
                if told.as_deref() != row.text.as_deref() {
                    failures.push(format!("{name}:\n  wanted {:?}\n  told   {told:?}", row.text));
                }
            }
            if let Some(told) = refusal(&ask(row.accepted)) {
                failures.push(format!("{name}: refused what is accepted: {told}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} rows:\n{}", failures.len(), failures.join("\n"));
}

/// The body of a response.
fn body(served: &Served) -> Value {
    let bytes: Vec<u8> = served
        .reply
        .steps
        .iter()
        .flat_map(|step| match step {
            Step::Send(bytes) => bytes.to_vec(),
            Step::Head | Step::Pause(_) | Step::Hang | Step::Fin | Step::Reset => Vec::new(),
        })
        .collect();
    serde_json::from_slice(&bytes).unwrap_or(Value::Null)
}

/// Returns the text of a refusal, and checks its envelope.
fn refusal(served: &Served) -> Option<String> {
    if served.reply.status == 200 {
        return None;
    }
    let body = body(served);
    assert_eq!(
        (served.reply.status, &body["error"]["type"]),
        (400, &json!("invalid_request_error")),
        "{body}"
    );
    assert_eq!(body["type"], "error");
    assert_eq!(body["request_id"], served.reply.header("request-id").unwrap(), "{body}");
    assert!(body["request_id"].as_str().unwrap().starts_with("req_"));
    assert_eq!(served.reply.header("x-should-retry"), Some("false"));
    assert_eq!(served.reply.header("content-type"), Some("application/json"));
    body["error"]["message"].as_str().map(str::to_owned)
}

fn engine(settings: &str) -> ScriptEngine {
    ScriptEngine::new(Script::parse("test.yaml", &format!("{settings}\nturns: [{{text: ok}}]\n")).unwrap())
        .unwrap()
}

/// Sends the request of a row to a new engine.
fn ask(mut row: Map<String, Value>) -> Served {
    let settings = row.remove("@script").map_or(String::new(), |text| text.as_str().unwrap().to_owned());
    let endpoint = row.remove("@endpoint");
    let headers: BTreeMap<String, String> = match row.remove("@headers") {
        Some(headers) => serde_json::from_value(headers).unwrap(),
        None => BTreeMap::from([("anthropic-version".to_owned(), "2023-06-01".to_owned())]),
    };
    let headers: Vec<(String, String)> = headers.into_iter().collect();
    let body = match row.remove("@body") {
        Some(text) => text.as_str().unwrap().to_owned(),
        None => {
            let mut body = json!({
                "model": "claude-opus-5-5", "max_tokens": 1000, "messages": [{"role": "user", "content": "hello"}],
            });
            let fields = body.as_object_mut().unwrap();
            for (key, value) in row {
                match value {
                    Value::Null => fields.remove(&key),
                    value => fields.insert(key, made(value)),
                };
            }
            body.to_string()
        }
    };
    let engine = engine(&settings);
    match endpoint {
        None => engine.respond_http(Bytes::from(body), headers),
        Some(_) => match engine.check_count(body.as_bytes(), &headers) {
            Ok(()) => Served {
                number: 0,
                turn: String::new(),
                reply: crate::render::Reply::json(0, 200, &json!({})),
            },
            Err(refusal) => engine.refusal(&refusal),
        },
    }
}

/// Generates the value that `@` stands for.
fn made(value: Value) -> Value {
    match value {
        Value::Array(items) => items
            .into_iter()
            .flat_map(|mut item| {
                let times = item.as_object_mut().and_then(|fields| fields.remove("@times"));
                let item = made(item);
                std::iter::repeat_n(item, times.map_or(1, |times| times.as_u64().unwrap() as usize))
            })
            .collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, made(value))).collect(),
        Value::String(text) => Value::String(made_text(&text).unwrap_or(text)),
        other => other,
    }
}

fn made_text(text: &str) -> Option<String> {
    let mut words = text.strip_prefix('@')?.split(':');
    let kind = words.next()?;
    let rest: Vec<&str> = words.collect();
    let number = |at: usize| rest[at].parse::<usize>().unwrap();
    Some(match kind {
        "sign" => sign(rest[0], number(1) as u64, number(2) as u32, 0),
        "text" => "word ".repeat(number(0) / 5 + 1)[..number(0)].to_owned(),
        "blob" => "A".repeat(number(0)),
        "pdf" => STANDARD.encode(format!("%PDF-1.4 {}", "<< /Type /Page >> ".repeat(number(0)))),
        kind => {
            let (width, height) = rest[0].split_once('x').unwrap();
            let mut bytes = image(kind, width.parse().unwrap(), height.parse().unwrap());
            if rest.len() > 1 {
                bytes.resize(number(1), 0);
            }
            STANDARD.encode(bytes)
        }
    })
}

fn image(kind: &str, width: u16, height: u16) -> Vec<u8> {
    let big = |number: u16| [0, 0, number.to_be_bytes()[0], number.to_be_bytes()[1]];
    match kind {
        "png" => {
            [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec(), big(width).to_vec(), big(height).to_vec()].concat()
        }
        "gif" => [b"GIF89a".to_vec(), width.to_le_bytes().to_vec(), height.to_le_bytes().to_vec()].concat(),
        "jpeg" => {
            let head = b"\xff\xd8\xff\xc0\x00\x11\x08".to_vec();
            [head, height.to_be_bytes().to_vec(), width.to_be_bytes().to_vec()].concat()
        }
        "webp" => {
            let head = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a".to_vec();
            [head, width.to_le_bytes().to_vec(), height.to_le_bytes().to_vec()].concat()
        }
        other => panic!("{other} is not an image"),
    }
}

fn user(text: &str) -> WireMessage {
    WireMessage::new(Role::User, &[json!({"type": "text", "text": text})]).unwrap()
}

fn assistant(text: &str) -> WireMessage {
    WireMessage::new(Role::Assistant, &[json!({"type": "text", "text": text})]).unwrap()
}

fn request(messages: Vec<WireMessage>) -> Arc<ModelRequest> {
    Arc::new(ModelRequest {
        model: "claude-opus-5-5".into(),
        max_tokens: 1000,
        system: Vec::new(),
        tools: r#"[{"name":"T","input_schema":{"type":"object"}}]"#.into(),
        defers_tools: false,
        messages,
        thinking: Thinking::Adaptive,
        task_budget: None,
        effort: Some("medium".to_owned()),
        user_id: None,
        betas: Vec::new(),
        cache: CacheTtl::FiveMinutes,
        extra_body: Map::new(),
        agent: "main".into(),
    })
}

/// A conversation that grows by a question and a response per turn, over HTTP and in-process: the mark of the last
/// message moves, and still each message is checked once.
#[test]
fn a_thousand_turns_check_each_message_once() {
    let (over_http, in_process) = (engine(""), engine(""));
    let mut messages = vec![user("question 0")];
    for turn in 1..=1000 {
        let asked = request(messages.clone());
        let served = in_process.respond_in_process(&asked, Delivery::Whole, BetaPolicy::WhenNeeded);
        assert_eq!(refusal(&served), None);
        if turn % 50 == 0 {
            let sent = lathe_models::OutgoingRequest::new(
                &asked,
                lathe_models::Purpose::Complete,
                BetaPolicy::WhenNeeded,
            );
            let served = over_http.respond_http(sent.body_bytes().into(), sent.headers().to_vec());
            assert_eq!(refusal(&served), None);
        }
        assert_eq!(in_process.messages_checked(), messages.len() as u64, "after turn {turn}");
        messages.extend([assistant(&format!("answer {turn}")), user(&format!("question {turn}"))]);
    }
    assert_eq!(over_http.messages_checked(), 1999);
}

/// A checked message is remembered by its content, not by its position.
#[test]
fn a_remembered_message_is_still_held_against_its_neighbours() {
    let engine = engine("");
    let answer = |messages: Vec<WireMessage>| {
        let unmarked = ModelRequest { cache: CacheTtl::Off, ..ModelRequest::clone(&request(messages)) };
        let served = engine.respond_in_process(&Arc::new(unmarked), Delivery::Whole, BetaPolicy::WhenNeeded);
        refusal(&served)
    };
    let call = json!({"type": "tool_use", "id": "t1", "name": "T", "input": {}});
    let call = WireMessage::new(Role::Assistant, &[call]).unwrap();
    let result = json!({"type": "tool_result", "tool_use_id": "t1", "content": "x"});
    let result = WireMessage::new(Role::User, &[result]).unwrap();
    assert_eq!(answer(vec![user("a"), call.clone(), result.clone()]), None);
    assert!(answer(vec![user("a"), result.clone()]).unwrap().starts_with("messages.1.content.0: unexpected"));
    let before = engine.messages_checked();
    assert!(
        answer(vec![user("a"), user("b"), call, user("a")]).unwrap().starts_with("messages.2: `tool_use`")
    );
    assert_eq!(engine.messages_checked(), before + 1, "only `b` was new");
    assert!(answer(vec![user("a"), user("a"), result]).unwrap().starts_with("messages.2.content.0"));
}

/// In-process, a refusal has the same path and text as for a client of the server.
#[test]
fn the_client_s_own_bytes_are_checked_in_process() {
    let engine = engine("");
    let mut asked = ModelRequest::clone(&request(vec![user("a")]));
    asked.extra_body.insert("made_up".to_owned(), json!(1));
    let served =
        engine.respond_in_process(&Arc::new(asked.clone()), Delivery::Streamed, BetaPolicy::WhenNeeded);
    assert_eq!(refusal(&served).as_deref(), Some("made_up: Extra inputs are not permitted"));
    asked.extra_body.clear();
    asked.betas = vec!["mine-1".to_owned()];
    let served =
        engine.respond_in_process(&Arc::new(asked.clone()), Delivery::Streamed, BetaPolicy::WhenNeeded);
    assert!(refusal(&served).unwrap().contains("`mine-1` for the `anthropic-beta` header"));
    let knowing = self::engine("betas: [mine-1]");
    let served = knowing.respond_in_process(&Arc::new(asked), Delivery::Whole, BetaPolicy::WhenNeeded);
    assert_eq!(refusal(&served), None);
    let large = request(vec![user(&"x".repeat(33 * 1024 * 1024))]);
    let served = engine.respond_in_process(&large, Delivery::Streamed, BetaPolicy::WhenNeeded);
    assert_eq!(served.reply.status, 413);
}

#[test]
fn a_lax_script_answers_what_it_can_read() {
    let lax = engine("lax: true");
    let odd = json!({"model": "m", "max_tokens": 1, "x": 1, "messages": [{"role": "ai", "content": [3]}]});
    assert_eq!(lax.respond_http(odd.to_string().into(), Vec::new()).reply.status, 200);
    assert_eq!(lax.respond_http(Bytes::from_static(b"{"), Vec::new()).reply.status, 400);
    let mut asked = ModelRequest::clone(&request(vec![user("a")]));
    asked.extra_body.insert("made_up".to_owned(), json!(1));
    let served = lax.respond_in_process(&Arc::new(asked), Delivery::Whole, BetaPolicy::WhenNeeded);
    assert_eq!(served.reply.status, 200);
    assert_eq!(lax.messages_checked(), 0);
}

/// Talks to an engine as a client does: each response is sent back in the next request.
struct Conversation {
    engine: ScriptEngine,
    model: &'static str,
    messages: Vec<Value>,
}

impl Conversation {
    fn new(script: &str, model: &'static str) -> Self {
        let engine = ScriptEngine::new(Script::parse("test.yaml", script).unwrap()).unwrap();
        Self { engine, model, messages: vec![json!({"role": "user", "content": "go"})] }
    }

    fn send(&self) -> Served {
        let mut body = json!({"model": self.model, "max_tokens": 4000, "messages": self.messages});
        if self.model == "claude-sonnet-4-5" {
            body["thinking"] = json!({"type": "enabled", "budget_tokens": 2000});
        }
        let headers = vec![("anthropic-version".to_owned(), "2023-06-01".to_owned())];
        self.engine.respond_http(body.to_string().into(), headers)
    }

    /// One turn; its calls get results.
    fn turn(&mut self) {
        let served = self.send();
        assert_eq!(refusal(&served), None);
        let content = body(&served)["content"].clone();
        let calls = content.as_array().unwrap().iter().filter(|block| block["type"] == "tool_use");
        let mut next: Vec<Value> =
            calls.map(|call| json!({"type": "tool_result", "tool_use_id": call["id"]})).collect();
        next.push(json!({"type": "text", "text": "go on"}));
        self.messages.push(json!({"role": "assistant", "content": content}));
        self.messages.push(json!({"role": "user", "content": next}));
    }
}

const THINKING: &str = "turns: [{thinking: hm, tools: [{name: T}]}, {text: b}]";

#[test]
fn the_models_own_answers_are_accepted_until_they_are_changed() {
    for model in ["claude-opus-5-5", "claude-sonnet-4-5", "claude-fable-5-1"] {
        let mut talk = Conversation::new(THINKING, model);
        talk.turn();
        talk.turn();
        talk.turn();
        talk.messages[1]["content"][0]["thinking"] = json!("changed");
        let told = refusal(&talk.send()).unwrap();
        assert_eq!(told, "messages.1.content.0: Invalid `signature` in `thinking` block", "{model}");
    }
}

#[test]
fn blocks_of_fable_5_1_are_bound_to_their_conversation() {
    let mut talk = Conversation::new(THINKING, "claude-fable-5-1");
    talk.turn();
    talk.messages[0]["content"] =
        json!([{"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}}]);
    assert_eq!(refusal(&talk.send()), None, "the same text in another form");
    talk.messages[0]["content"] = json!("another prompt");
    let told = refusal(&talk.send()).unwrap();
    let expected = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a \
                    different conversation. Remove the block, or set …";
    assert_eq!(told, expected);
    talk.model = "claude-opus-5-5";
    assert_eq!(refusal(&talk.send()), None, "other models do not mind");
}

/// Up to 4.5 a response to a request with a budget begins with thinking. A script need not know that.
#[test]
fn a_script_without_thinking_may_call_tools_with_a_budget() {
    let mut talk = Conversation::new(
        "turns: [{tools: [{name: T}]}, {tools: [{name: T}]}, {text: b}]",
        "claude-sonnet-4-5",
    );
    talk.turn();
    talk.turn();
    talk.turn();
    let mut talk = Conversation::new(THINKING, "claude-sonnet-4-5");
    talk.turn();
    talk.messages[1]["content"].as_array_mut().unwrap().remove(0);
    assert!(refusal(&talk.send()).unwrap().contains("Expected `thinking`"), "it was there and is gone");
}

/// A session may continue with another run of the same script, which counts its responses from one again.
#[test]
fn ids_of_calls_stay_unique_across_runs() {
    let script = "turns: [{tools: [{name: T}, {name: T}]}]";
    let mut talk = Conversation::new(script, "claude-opus-5-5");
    talk.turn();
    talk.engine = Conversation::new(script, "claude-opus-5-5").engine;
    talk.turn();
    talk.turn();
    let ids: Vec<String> = talk.messages[3]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids, ["toolu_001_0_2", "toolu_001_1_2"]);
}
