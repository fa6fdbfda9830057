use super::*;
use crate::request::SystemPart;
use crate::testing::{message, request};
use lathe_protocol::Role;

fn chunks(request: &ModelRequest, purpose: Purpose, policy: BetaPolicy) -> Vec<Bytes> {
    assemble(request, purpose, policy).chunks
}

fn joined(chunks: &[Bytes]) -> Value {
    let body = chunks.concat();
    serde_json::from_slice(&body)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&body)))
}

fn body(request: &ModelRequest, purpose: Purpose) -> Value {
    joined(&chunks(request, purpose, BetaPolicy::WhenNeeded))
}

#[test]
fn a_plain_request_has_only_what_it_needs() {
    assert_eq!(
        body(&request(), Purpose::Stream),
        json!({
            "model": "claude-opus-5-5",
            "max_tokens": 1000,
            "stream": true,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        })
    );
}

#[test]
fn every_feature_lands_in_its_field() {
    let mut asked = request();
    asked.model = "claude-sonnet-4-5[1m]".into();
    asked.system = vec![
        SystemPart { text: "one \"quoted\"".into(), cached: true },
        SystemPart { text: String::new(), cached: true },
        SystemPart { text: "two".into(), cached: false },
    ];
    asked.tools = r#"[{"name":"Bash"}]"#.into();
    asked.thinking = Thinking::Budget(40_000);
    asked.max_tokens = 32_000;
    asked.effort = Some("high".into());
    asked.task_budget = Some(50_000);
    asked.user_id = Some("u".into());
    asked.cache = CacheTtl::FiveMinutes;
    asked.extra_body.insert("zzz".into(), json!(1));
    let marker = json!({"type": "ephemeral"});
    assert_eq!(
        body(&asked, Purpose::Stream),
        json!({
            "model": "claude-sonnet-4-5",
            "max_tokens": 32_000,
            "system": [
                {"type": "text", "text": "one \"quoted\"", "cache_control": marker},
                {"type": "text", "text": "two"},
            ],
            "thinking": {"type": "enabled", "budget_tokens": 31_999},
            "output_config": {"effort": "high", "task_budget": {"type": "tokens", "total": 50_000}},
            "metadata": {"user_id": "u"},
            "zzz": 1,
            "stream": true,
            "tools": [{"name": "Bash"}],
            "messages": [{"role": "user", "content": [
                {"type": "text", "text": "hi", "cache_control": marker},
            ]}],
        })
    );
}

#[test]
fn only_the_last_message_that_can_carries_the_breakpoint() {
    let mut asked = request();
    asked.cache = CacheTtl::OneHour;
    asked.messages = vec![
        message(Role::User, "one"),
        message(Role::Assistant, "two"),
        message(Role::User, "instruction").without_breakpoint(),
    ];
    let sent = body(&asked, Purpose::Stream);
    let marked: Vec<_> = (0..3).map(|n| &sent["messages"][n]["content"][0]["cache_control"]).collect();
    assert_eq!(marked, [&Value::Null, &json!({"type": "ephemeral", "ttl": "1h"}), &Value::Null]);
    asked.cache = CacheTtl::Off;
    assert!(!body(&asked, Purpose::Stream).to_string().contains("cache_control"));
}

#[test]
fn betas_that_are_not_allowed_take_their_fields_along() {
    let mut asked = request();
    asked.effort = Some("low".into());
    asked.task_budget = Some(50_000);
    asked.cache = CacheTtl::OneHour;
    let sent = joined(&chunks(&asked, Purpose::Stream, BetaPolicy::OnlyGiven));
    assert_eq!(sent["output_config"], Value::Null);
    assert_eq!(sent["messages"][0]["content"][0]["cache_control"], json!({"type": "ephemeral"}));
}

#[test]
fn extra_keys_replace_ours_but_not_the_conversation() {
    let mut asked = request();
    asked.tools = r#"[{"name":"Bash"}]"#.into();
    for (key, value) in [
        ("model", json!("other")),
        ("tools", json!([])),
        ("messages", json!("gone")),
        ("stream", json!("gone")),
    ] {
        asked.extra_body.insert(key.into(), value);
    }
    let sent = body(&asked, Purpose::Stream);
    assert_eq!(
        (&sent["model"], &sent["tools"], &sent["stream"]),
        (&json!("other"), &json!([]), &json!(true))
    );
    assert_eq!(sent["messages"][0]["content"][0]["text"], "hi");
    let text = String::from_utf8(chunks(&asked, Purpose::Stream, BetaPolicy::WhenNeeded).concat()).unwrap();
    assert_eq!(text.matches("\"model\"").count(), 1);
    assert_eq!(text.matches("\"tools\"").count(), 1);
}

#[test]
fn unstreamed_answers_are_kept_short() {
    let mut asked = request();
    asked.max_tokens = 128_000;
    asked.thinking = Thinking::Budget(127_999);
    let sent = body(&asked, Purpose::Complete);
    assert_eq!(sent["max_tokens"], 64_000);
    assert_eq!(sent["thinking"]["budget_tokens"], 63_999);
    assert_eq!(sent["stream"], false);
    asked.thinking = Thinking::Budget(10);
    assert_eq!(body(&asked, Purpose::Complete)["thinking"], Value::Null);
}

#[test]
fn counting_sends_only_what_is_counted() {
    let mut asked = request();
    asked.user_id = Some("u".into());
    asked.effort = Some("low".into());
    asked.thinking = Thinking::Adaptive;
    asked.extra_body.insert("zzz".into(), json!(1));
    let sent = body(&asked, Purpose::CountTokens);
    let keys: Vec<_> = sent.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["model", "thinking", "messages"]);
}

#[test]
fn messages_and_tools_are_sent_from_where_they_live() {
    let mut asked = request();
    asked.tools = r#"[{"name":"Bash"}]"#.into();
    asked.cache = CacheTtl::FiveMinutes;
    let long = |n: usize| message(Role::User, &format!("message {n}").repeat(SHORT));
    asked.messages = (0..5).map(long).collect();
    let chunks = chunks(&asked, Purpose::Stream, BetaPolicy::WhenNeeded);
    let lies_in = |chunk: &Bytes, whole: &[u8]| {
        whole.as_ptr_range().contains(&chunk.last_chunk::<1>().unwrap().as_ptr())
    };
    assert!(chunks.iter().any(|chunk| chunk.as_ptr() == asked.tools.as_ptr()), "the tools were copied");
    for message in &asked.messages {
        assert!(chunks.iter().any(|chunk| lies_in(chunk, message.bytes())), "a message was copied");
    }
    // Head, tools, `messages`, five messages, the breakpoint and the end.
    assert_eq!(chunks.len(), 3 + 5 + 1);
}

#[test]
fn short_messages_are_sent_together() {
    let mut asked = request();
    asked.cache = CacheTtl::FiveMinutes;
    asked.messages = (0..2000).map(|n| message(Role::User, &format!("message {n}"))).collect();
    let chunks = chunks(&asked, Purpose::Stream, BetaPolicy::WhenNeeded);
    let sent = joined(&chunks);
    assert_eq!(sent["messages"].as_array().unwrap().len(), 2000);
    assert_eq!(sent["messages"][1234]["content"][0]["text"], "message 1234");
    assert_eq!(sent["messages"][1999]["content"][0]["cache_control"]["type"], "ephemeral");
    assert!(chunks.len() < 10, "{} pieces", chunks.len());
}

#[test]
fn the_body_knows_its_length_to_the_end() {
    use http_body::Body as _;
    let mut body = ChunkedBody::new(vec![Bytes::from_static(b"abc"), Bytes::from_static(b"de")]);
    let mut context = Context::from_waker(std::task::Waker::noop());
    assert_eq!(body.size_hint().exact(), Some(5));
    let frame = Pin::new(&mut body).poll_frame(&mut context);
    assert!(matches!(frame, Poll::Ready(Some(Ok(frame))) if frame.data_ref().unwrap() == "abc"));
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(2), false));
    assert!(Pin::new(&mut body).poll_frame(&mut context).is_ready());
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(0), true));
}
