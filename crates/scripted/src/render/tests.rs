use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::script::Script;

fn facts(stream: bool) -> Facts {
    Facts::for_test(
        json!({"model": "claude-x", "max_tokens": 9, "stream": stream, "messages": [{"role": "user", "content": "hi"}]}),
    )
}

fn streamed(turn: &str) -> Reply {
    let script = Script::parse("t.yaml", &format!("turns:\n  - {turn}\n")).unwrap();
    render(&script.turns[0], &script.defaults, &facts(true)).unwrap()
}

fn body(reply: &Reply) -> Vec<u8> {
    let bytes = |step: &Step| if let Step::Send(bytes) = step { bytes.to_vec() } else { Vec::new() };
    reply.steps.iter().flat_map(bytes).collect()
}

fn events(reply: &Reply) -> Vec<Value> {
    let text = String::from_utf8(body(reply)).unwrap();
    text.split_terminator("\n\n")
        .map(|event| {
            let (name, data) = event.split_once('\n').unwrap();
            let value: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(name.strip_prefix("event: "), value["type"].as_str());
            value
        })
        .collect()
}

#[test]
fn a_turn_streams_as_the_api_does() {
    let reply = streamed(
        "{thinking: hmm, text: 'I will look.', tools: [{name: Bash, input: {command: echo hi, n: [1, 2]}}]}",
    );
    let usage = |output: u32| {
        json!({"input_tokens": 100, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
               "output_tokens": output, "service_tier": "standard"})
    };
    let signature = crate::signature::sign("hmm", 1, 0, 0);
    let expected = json!([
        {"type": "message_start", "message": {"id": "msg_0001", "type": "message", "role": "assistant",
            "model": "claude-x", "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage(1)}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hmm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": signature}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "I will l"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "ook."}},
        {"type": "content_block_stop", "index": 1},
        {"type": "content_block_start", "index": 2,
            "content_block": {"type": "tool_use", "id": "toolu_001_0", "name": "Bash", "input": {}}},
        {"type": "content_block_delta", "index": 2,
            "delta": {"type": "input_json_delta", "partial_json": "{\"command\": \"echo hi\", \"n\": [1, 2]}"}},
        {"type": "content_block_stop", "index": 2},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": usage(20)},
        {"type": "message_stop"},
    ]);
    assert_eq!(Value::Array(events(&reply)), expected);
    assert_eq!(reply.header("request-id"), Some("req_1"));
    assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
}

#[test]
fn without_stream_the_same_turn_is_one_message() {
    let script = Script::parse("t.yaml", "turns: [{blocks: [{text: a}, {tool: {name: B, id: mine}}, {block: {type: odd, x: 1}}], stop: refusal, usage: {output_tokens: 7, extra: {speed: fast}}}]").unwrap();
    let reply = render(&script.turns[0], &script.defaults, &facts(false)).unwrap();
    let message: Value = serde_json::from_slice(&body(&reply)).unwrap();
    assert_eq!(reply.framing, Framing::Length);
    assert_eq!(
        message["content"],
        json!([{"type": "text", "text": "a"}, {"type": "tool_use", "id": "mine", "name": "B", "input": {}}, {"type": "odd", "x": 1}])
    );
    assert_eq!((&message["stop_reason"], &message["usage"]["output_tokens"]), (&json!("refusal"), &json!(7)));
    assert_eq!(message["usage"]["speed"], "fast");
}

#[test]
fn faults_inside_the_body_spare_whole_messages() {
    let script = Script::parse("t.yaml", "turns: [{text: a, cut: {}, stall: {}}]").unwrap();
    let reply = render(&script.turns[0], &script.defaults, &facts(false)).unwrap();
    assert!(matches!(reply.steps.as_slice(), [Step::Head, Step::Send(_)]));
}

#[test]
fn errors_have_the_usual_type_and_their_headers() {
    let reply =
        streamed("{error: {status: 429, message: 'slow, {{last_user_text}}', headers: {Retry-After: '7'}}}");
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("7")));
    let body: Value = serde_json::from_slice(&body(&reply)).unwrap();
    assert_eq!(body, json!({"type": "error", "error": {"type": "rate_limit_error", "message": "slow, hi"}}));

    let plain =
        streamed("{error: {status: 502, body: '<html>bad gateway', headers: {content-type: text/html}}}");
    assert_eq!(String::from_utf8(super::tests::body(&plain)).unwrap(), "<html>bad gateway");
    assert_eq!(plain.header("content-type"), Some("text/html"));
}

#[test]
fn a_cut_strikes_where_it_is_told_or_in_the_middle_of_the_last_block() {
    let last = |turn: &str| streamed(turn).steps.last().cloned().unwrap();
    assert_eq!(last("{text: abc, cut: {}}"), Step::Fin);
    assert_eq!(last("{text: abc, cut: {how: rst}}"), Step::Reset);
    assert_eq!(last("{text: abc, stall: {}}"), Step::Hang);

    let kinds = |turn: &str| {
        events(&streamed(turn))
            .iter()
            .map(|event| event["type"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        kinds("{text: abc, cut: {}}"),
        ["message_start", "content_block_start", "content_block_delta"]
    );
    assert_eq!(kinds("{text: abc, cut: {after_events: 1}}"), ["message_start"]);
    assert_eq!(kinds("{text: abc, cut: {after_events: 0}}"), [""; 0]);
    assert_eq!(kinds("{text: abc, cut: {after_events: 99}}").len(), 6);
    assert_eq!(body(&streamed("{text: abc, cut: {after_bytes: 11}}")), b"event: mess");
    assert_eq!(streamed("{text: abc, cut: {before_headers: true, how: rst}}").steps, [Step::Reset]);
}

#[test]
fn an_error_event_ends_the_stream_in_good_order() {
    let reply = streamed("{text: abc, error_event: {type: api_error, message: boom, after_events: 2}}");
    let events = events(&reply);
    assert_eq!(events.len(), 3);
    assert_eq!(events[2], json!({"type": "error", "error": {"type": "api_error", "message": "boom"}}));
    assert!(matches!(reply.steps.last(), Some(Step::Send(_))));
}

#[test]
fn garbage_and_a_bounded_stall_leave_the_rest_alone() {
    let reply =
        streamed("{text: abc, garbage: {bytes: '!?', after_events: 1}, stall: {ms: 5, after_events: 2}}");
    let text = String::from_utf8(body(&reply)).unwrap();
    assert_eq!(text.replacen("!?", "", 1).into_bytes(), body(&streamed("{text: abc}")));
    assert_eq!(reply.steps.iter().filter(|step| matches!(step, Step::Pause(_))).count(), 1);
    let binary = streamed("{text: abc, garbage: {bytes: {base64: /w==}, after_bytes: 0}}");
    assert_eq!(body(&binary)[0], 0xff);
}

#[test]
fn pace_pauses_after_deltas_and_delay_before_the_head() {
    let reply = streamed("{text: abcdefghij, pace_ms: 30, delay_ms: 200}");
    assert_eq!(reply.steps[..2], [Step::Pause(Duration::from_millis(200)), Step::Head]);
    let pauses = reply.steps.iter().filter(|step| **step == Step::Pause(Duration::from_millis(30))).count();
    assert_eq!(pauses, 2);
    assert_eq!(body(&reply), body(&streamed("{text: abcdefghij}")));
}

#[test]
fn raw_turns_are_sent_as_they_are() {
    let reply = streamed(
        "{raw: {status: 418, headers: {Content-Type: text/x}, chunks: [\"a\\n\\n\", {base64: gA==}, b]}}",
    );
    assert_eq!(body(&reply), b"a\n\n\x80b");
    assert_eq!((reply.status, reply.framing), (418, Framing::Chunked));
    assert_eq!(reply.steps.len(), 4, "chunk by chunk: {:?}", reply.steps);
    assert_eq!(body(&streamed("{raw: {chunks: [\"a\\n\\nb\\n\\n\"]}, cut: {after_events: 1}}")), b"a\n\n");
}

proptest! {
    /// A cut after any number of bytes sends exactly that many bytes of the uncut body.
    #[test]
    fn a_cut_after_n_bytes_is_a_prefix(n in 0usize..900, drip in 1usize..40) {
        let whole = body(&streamed("{text: 'I will look.'}"));
        let cut = streamed(&format!("{{text: 'I will look.', cut: {{after_bytes: {n}}}, drip: {{bytes: {drip}}}}}"));
        prop_assert_eq!(body(&cut), whole[..n.min(whole.len())].to_vec());
        prop_assert_eq!(cut.steps.last(), Some(&Step::Fin));
        prop_assert!(cut.steps.iter().all(|step| !matches!(step, Step::Send(bytes) if bytes.len() > drip)));
    }

    #[test]
    fn deltas_join_to_the_text(text in "\\PC{0,60}", chunk in 0usize..12) {
        let defaults = Defaults { text_chunk: chunk, ..Defaults::default() };
        let reply = render(&Turn::text(text.clone()), &defaults, &facts(true)).unwrap();
        let joined: String = events(&reply).iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
        prop_assert_eq!(joined, text);
    }
}
