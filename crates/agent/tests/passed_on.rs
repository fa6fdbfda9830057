//! Blocks that are only passed on: unknown kinds and fields, and the order of fields, are the same in
//! the next request and in the frames.

mod common;

use common::{Setup, Talk, line};
use lathe_agent::FrameOptions;
use serde_json::{Value, json};
use tempfile::tempdir;

/// A prompt of a host that writes its fields in its own order, with some that are new.
const PROMPT: [&str; 3] = [
    r#"{"text":"look","citations":null,"type":"text","mood":{"b":1,"a":2}}"#,
    r#"{"source":{"data":"aGk=","type":"base64","media_type":"image/png"},"type":"image","alt":"a shed"}"#,
    r#"{"weight":3,"type":"parcel","holds":[{"z":1,"a":2}]}"#,
];

/// An answer of a model that does the same.
const ANSWER: [&str; 2] = [
    r#"{"seen":true,"type":"oracle","words":{"y":1,"b":2}}"#,
    r#"{"caller":{"type":"direct"},"name":"Bash","type":"tool_use","id":"t1","input":{"command":"true","description":"d"},"extra":[1]}"#,
];

fn parsed(texts: &[&str]) -> Vec<Value> {
    texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

#[tokio::test]
async fn blocks_are_passed_on_as_they_came() {
    let folder = tempdir().unwrap();
    let blocks: Vec<Value> = parsed(&ANSWER).into_iter().map(|block| json!({ "block": block })).collect();
    // Lax, because the API would refuse kinds and fields that it does not know either.
    let script = json!({"lax": true, "turns": [{"blocks": blocks, "stop": "tool_use"}, {"text": "done"}]});
    let mut setup = Setup::new(script, folder.path());
    setup.frames = FrameOptions { replay_prompts: true, ..FrameOptions::default() };
    let heard = setup.heard.clone();
    let talk = Talk::start(setup);
    let content = parsed(&PROMPT);
    talk.send(line(json!({"type": "user", "message": {"role": "user", "content": content}}))).await;
    let (frames, end) = talk.finish().await;
    assert!(!end.last_was_error, "{frames:?}");

    let heard = heard.lock().unwrap();
    assert!(heard[0].contains(&PROMPT.join(",")), "{}", heard[0]);
    assert!(heard[1].contains(&PROMPT.join(",")), "{}", heard[1]);
    assert!(heard[1].contains(&ANSWER.join(",")), "{}", heard[1]);
    let shown: Vec<String> = frames.iter().map(|frame| frame["message"]["content"].to_string()).collect();
    assert!(shown.contains(&format!("[{}]", PROMPT.join(","))), "{shown:?}");
    for block in ANSWER {
        assert!(shown.contains(&format!("[{block}]")), "{shown:?}");
    }
}
