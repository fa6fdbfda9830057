use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

/// Returns the converted block as a value; null if it is left out or blank.
fn mended(value: Value) -> Value {
    let block = block(&raw(&value.to_string())).filter(|block| block.kind != BlockKind::Blank);
    block.map_or(Value::Null, |block| serde_json::from_str(block.raw.get()).unwrap())
}

#[test]
fn blocks_that_are_fine_keep_their_bytes() {
    for json in [
        r#"{"text":"a\n","type":"text","citations":null}"#,
        r#"{"type":"thinking","thinking":"","signature":"s"}"#,
        r#"{"type":"redacted_thinking","data":"x"}"#,
        r#"{"type":"tool_use","id":"t","name":"Bash","input":{"n":1.50}, "caller":{"type":"direct"}}"#,
        r#"{"type":"tool_result","tool_use_id":"t","content":"","is_error":true}"#,
        r#"{"type":"tool_result","tool_use_id":"t"}"#,
        r#"{"type":"tool_result","tool_use_id":"t","content":[]}"#,
        r#"{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"x"}, {"type":"image","source":{}}]}"#,
        r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{}}"#,
        r#"{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result"}]}"#,
        r#"{"type":"of a later version","x":[1]}"#,
    ] {
        assert_eq!(block(&raw(json)).unwrap().raw.get(), json);
    }
}

#[test]
fn what_cannot_be_sent_is_left_out() {
    for value in [
        json!({"content": "no type"}),
        json!({"type": 7, "text": "x"}),
        json!({"type": "text"}),
        json!({"type": "text", "text": 7}),
        json!({"type": "text", "text": " \n\t\r\u{a0}\u{3000}\u{1f}".repeat(100)}),
        json!({"type": "thinking", "thinking": "hm"}),
        json!({"type": "thinking", "thinking": "hm", "signature": ""}),
        json!({"type": "thinking", "signature": "s"}),
        json!({"type": "redacted_thinking"}),
        json!({"type": "tool_use", "id": "t", "input": {}}),
        json!({"type": "tool_use", "name": "Bash", "input": {}}),
        json!({"type": "tool_result", "content": "x"}),
        json!({"type": "server_tool_use", "input": {}}),
        json!({"type": "web_search_tool_result", "content": []}),
    ] {
        assert_eq!(mended(value.clone()), Value::Null, "{value}");
    }
    assert!(block(&raw("7")).is_none() && block(&raw("[]")).is_none() && block(&raw("\"a\"")).is_none());
    // White space may be written as escapes, too.
    assert_eq!(block(&raw(r#"{"type":"text","text":"\u0020\n\u00a0"}"#)).unwrap().kind, BlockKind::Blank);
    assert_eq!(block(&raw(r#"{"type":"text","text":"\u0020\u0041"}"#)).unwrap().kind, BlockKind::Other);
    assert_eq!(block(&raw(r#"{"type":"text","text":" \\"}"#)).unwrap().kind, BlockKind::Other);
}

#[test]
fn the_input_of_a_call_becomes_an_object() {
    let input = |input: Value| {
        mended(json!({"type": "tool_use", "id": "t", "name": "B", "input": input}))["input"].take()
    };
    assert_eq!(input(json!({"a": 1})), json!({"a": 1}));
    assert_eq!(input(json!(r#" {"a": 1}"#)), json!({"a": 1}), "written down as text");
    assert_eq!(input(Value::Null), json!({}));
    assert_eq!(input(json!("")), json!({}));
    assert_eq!(input(json!("{\"a\": ")), json!({"input": "{\"a\": "}));
    assert_eq!(input(json!([1])), json!({"input": [1]}));
    assert_eq!(input(json!(7)), json!({"input": 7}));
    assert_eq!(mended(json!({"type": "tool_use", "id": "t", "name": "B"}))["input"], json!({}));
    assert_eq!(mended(json!({"type": "server_tool_use", "id": "t", "name": "B"}))["input"], json!({}));
}

#[test]
fn members_that_damage_made_up_are_left_out() {
    let call = json!({"type": "tool_use", "id": "t", "name": "B", "iput": {"a": 1}});
    assert_eq!(mended(call), json!({"type": "tool_use", "id": "t", "name": "B", "input": {}}));
    let result = json!({"type": "tool_result", "tool_use_id": "t", "cntent": "x", "is_error": true});
    assert_eq!(mended(result), json!({"type": "tool_result", "tool_use_id": "t", "is_error": true}));
}

#[test]
fn names_of_tools_are_made_of_few_characters() {
    let name =
        |name: &str| mended(json!({"type": "tool_use", "id": "t", "name": name, "input": {}}))["name"].take();
    assert_eq!(name("mcp__a-b__c"), "mcp__a-b__c");
    assert_eq!(name("mcp.a/ö b"), "mcp_a___b");
    assert_eq!(name(&"n".repeat(200)), "n".repeat(128));
}

#[test]
fn results_hold_what_may_stand_in_them() {
    let content = |content: Value| {
        mended(json!({"type": "tool_result", "tool_use_id": "t", "content": content})).get("content").cloned()
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(content(json!("x")), Some(json!("x")));
    assert_eq!(content(json!(" \n")), None);
    assert_eq!(content(Value::Null), None);
    assert_eq!(content(json!(7)), Some(json!("7")));
    assert_eq!(content(json!({"a": 1})), Some(json!("{\"a\":1}")));
    assert_eq!(
        content(json!([text("a"), text(""), text(" "), null, "b", " "])),
        Some(json!([text("a"), text("b")]))
    );
    assert_eq!(content(json!([text(" ")])), None);
    let other = json!({"type": "resource", "uri": "u"});
    assert_eq!(content(json!([other])), Some(json!([text(&other.to_string())])));
    let marked = json!({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}});
    assert_eq!(content(json!([marked])), Some(json!([text("a")])));
    assert_eq!(mended(marked), text("a"));
}

#[test]
fn attachments_are_read_in_every_shape() {
    let texts = |rendered: Value| -> Vec<String> {
        let blocks = rendered_blocks(&raw(&rendered.to_string()));
        blocks
            .iter()
            .map(|block| serde_json::from_str::<Value>(block.raw.get()).unwrap()["text"].to_string())
            .collect()
    };
    for rendered in [
        json!("a"),
        json!(["a"]),
        json!([{"content": "a"}]),
        json!({"content": "a"}),
        json!([{"role": "user", "content": [{"type": "text", "text": "a"}]}]),
        json!([{"type": "user", "message": {"role": "user", "content": "a"}}]),
        json!([{"type": "text", "text": "a"}]),
        json!({"text": "a"}),
    ] {
        assert_eq!(texts(rendered.clone()), ["\"a\""], "{rendered}");
    }
    assert_eq!(texts(json!([{"content": "a"}, {"content": ["b", {"type": "text", "text": "c"}]}])).len(), 3);
    for rendered in [json!(null), json!(7), json!([]), json!({}), json!([{}]), json!([[[[["deep"]]]]])] {
        assert!(texts(rendered.clone()).is_empty(), "{rendered}");
    }
}

#[test]
fn halves_of_surrogate_pairs_are_replaced() {
    let fixed = |json: &str| without_lone_surrogates(json.to_owned());
    assert_eq!(fixed(r#""a\ud83d""#), r#""a\ufffd""#);
    assert_eq!(fixed(r#""\uDE00b\n\uD83Dx""#), r#""\ufffdb\n\ufffdx""#);
    assert_eq!(fixed(r#""\ud83d\ud83d\ude00""#), r#""\ufffd\ud83d\ude00""#);
    for kept in [r#""\ud83d\ude00""#, r#""\\ud83d""#, r#""\\\\ud83d \u00e4""#, r#""\ud7ff\ue000""#, "\"😀\""]
    {
        assert_eq!(fixed(kept), kept);
    }
}

proptest! {
    #[test]
    fn any_string_can_be_read_after_that(text in r#"(\\ud83d|\\ude00|\\uD83D|\\\\|\\n|u|d83d|ä|x){0,12}"#) {
        let json = format!("\"{text}\"");
        prop_assert!(serde_json::from_str::<String>(&without_lone_surrogates(json.clone())).is_ok(), "{json}");
    }
}
