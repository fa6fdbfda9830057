use super::*;

fn build(pieces: Vec<Piece>) -> History {
    super::build(pieces, None)
}
use crate::message::blocks_of;
use proptest::prelude::*;
use serde_json::Value;

fn piece(role: Role, uuid: &str, content: Value) -> Piece {
    let raw = serde_json::value::to_raw_value(&content).unwrap();
    Piece { role, uuid: uuid.to_owned(), blocks: blocks_of(&raw) }
}

fn user(uuid: &str, content: Value) -> Piece {
    piece(Role::User, uuid, content)
}

fn assistant(uuid: &str, content: Value) -> Piece {
    piece(Role::Assistant, uuid, content)
}

fn call(id: &str) -> Value {
    json!([{ "type": "tool_use", "id": id, "name": "Bash", "input": {} }])
}

fn result(id: &str) -> Value {
    json!([{ "type": "tool_result", "tool_use_id": id, "content": id }])
}

/// A conversation in one line: `U[a result:1] A[…]`.
fn sketch(history: &History) -> String {
    let block = |raw: &RawValue| {
        let value: Value = serde_json::from_str(raw.get()).unwrap();
        match value["type"].as_str().unwrap() {
            "text" => value["text"].as_str().unwrap().to_owned(),
            "tool_use" => format!("call:{}", value["id"].as_str().unwrap()),
            "tool_result" if value["is_error"] == true => {
                format!("lost:{}", value["tool_use_id"].as_str().unwrap())
            }
            "tool_result" => format!("result:{}", value["tool_use_id"].as_str().unwrap()),
            other => other.to_owned(),
        }
    };
    let message = |message: &HistoryMessage| {
        let role = if message.role == Role::User { "U" } else { "A" };
        format!("{role}[{}]", message.blocks.iter().map(|raw| block(raw)).collect::<Vec<_>>().join(" "))
    };
    history.messages.iter().map(message).collect::<Vec<_>>().join(" ")
}

#[test]
fn blocks_of_one_answer_are_one_message_and_results_follow_in_the_order_of_the_calls() {
    let history = build(vec![
        user("u", json!("go")),
        assistant("a0", json!([{ "type": "text", "text": "par" }])),
        assistant("a1", call("1")),
        assistant("a2", call("2")),
        assistant("a3", call("3")),
        user("r2", result("2")),
        user("r3", result("3")),
        user("r1", result("1")),
        assistant("b", json!("done")),
    ]);
    assert_eq!(sketch(&history), "U[go] A[par call:1 call:2 call:3] U[result:1 result:2 result:3] A[done]");
    assert_eq!(history.messages[1].uuids, ["a0", "a1", "a2", "a3"]);
    assert_eq!(history.messages[2].uuids, ["r1", "r2", "r3"]);
    assert!(history.dangling.is_empty() && history.orphan_results == 0);
}

#[test]
fn a_call_without_a_result_gets_one_that_says_so() {
    let history = build(vec![
        user("u", json!("go")),
        assistant("a1", call("1")),
        assistant("a2", call("2")),
        user("r1", result("1")),
    ]);
    assert_eq!(sketch(&history), "U[go] A[call:1 call:2] U[result:1 lost:2]");
    assert_eq!(
        history.dangling,
        [DanglingCall { tool_use_id: "2".into(), name: "Bash".into(), assistant_uuid: "a2".into() }]
    );
    let lost = history.messages[2].blocks[1].get();
    assert!(lost.contains(DANGLING_RESULT_TEXT), "{lost}");
}

#[test]
fn a_call_before_the_next_prompt_is_closed_in_front_of_it() {
    let history = build(vec![user("u", json!("go")), assistant("a", call("1")), user("v", json!("next"))]);
    assert_eq!(sketch(&history), "U[go] A[call:1] U[lost:1 next]");
}

#[test]
fn a_result_that_came_late_goes_to_its_call() {
    let history = build(vec![
        user("u", json!("go")),
        assistant("a", call("1")),
        user("v", json!("wait")),
        assistant("b", json!("ok")),
        user("r", result("1")),
    ]);
    assert_eq!(sketch(&history), "U[go] A[call:1] U[result:1 wait] A[ok]");
}

#[test]
fn results_without_calls_and_second_results_are_dropped() {
    let history = build(vec![
        user("u", json!("go")),
        user("x", result("nobody")),
        assistant("a", call("1")),
        user("r", result("1")),
        user("s", result("1")),
    ]);
    assert_eq!(sketch(&history), "U[go] A[call:1] U[result:1]");
    assert_eq!(history.orphan_results, 1);
}

#[test]
fn an_id_that_comes_again_is_another_call_unless_it_was_recorded_twice() {
    let other = |id: &str| json!([{ "type": "tool_result", "tool_use_id": id, "content": "other" }]);
    // A server that counts from one in every process; the first run was killed before its result.
    let history = build(vec![
        user("u", json!("go")),
        assistant("a", call("1")),
        user("v", json!("again")),
        assistant("b", call("1")),
        user("r", result("1")),
        user("w", json!("and again")),
        assistant("c", call("1")),
        user("s", other("1")),
    ]);
    let expected = "U[go] A[call:1] U[lost:1 again] A[call:1] U[result:1 and again] A[call:1] U[result:1]";
    assert_eq!(sketch(&history), expected);
    // The API would refuse the same id for ever.
    let twice = build(vec![
        user("u", json!("go")),
        assistant("a", call("1")),
        assistant("b", call("1")),
        user("r", result("1")),
        assistant("c", json!("done")),
        assistant("d", call("1")),
        user("s", result("1")),
        assistant("e", call("1")),
    ]);
    assert_eq!(sketch(&twice), "U[go] A[call:1] U[result:1] A[done]");
}

#[test]
fn what_the_api_refuses_is_left_out() {
    let thinking = json!([{ "type": "thinking", "thinking": "hm", "signature": "s" }]);
    let history = build(vec![
        user("u", json!("go")),
        assistant("t", thinking.clone()),
        user("v", json!("  ")),
        user("w", json!("again")),
        assistant("t2", thinking),
        assistant("a", json!([{ "type": "text", "text": "" }, { "type": "text", "text": "yes" }])),
    ]);
    assert_eq!(sketch(&history), "U[go again] A[thinking yes]");
}

#[test]
fn a_lost_beginning_is_said() {
    let history = build(vec![assistant("a", json!("hello")), user("u", json!("go"))]);
    assert!(sketch(&history).starts_with("U[[The beginning"), "{}", sketch(&history));
    assert!(build(Vec::new()).messages.is_empty());
}

/// What the API demands, checked on any mixture of records.
fn assert_valid(history: &History) {
    let mut expected = Role::User;
    let mut open_calls: Vec<String> = Vec::new();
    for message in &history.messages {
        assert_eq!(message.role, expected, "roles alternate: {}", sketch(history));
        assert!(!message.blocks.is_empty());
        let values: Vec<Value> =
            message.blocks.iter().map(|raw| serde_json::from_str(raw.get()).unwrap()).collect();
        let results: Vec<String> = values
            .iter()
            .filter(|block| block["type"] == "tool_result")
            .map(|block| block["tool_use_id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(results, open_calls, "results answer the calls before them: {}", sketch(history));
        open_calls = values
            .iter()
            .filter(|block| block["type"] == "tool_use")
            .map(|block| block["id"].as_str().unwrap().to_owned())
            .collect();
        if message.role == Role::Assistant {
            assert_ne!(values.last().unwrap()["type"], "thinking", "{}", sketch(history));
        }
        expected = if message.role == Role::User { Role::Assistant } else { Role::User };
    }
    assert!(open_calls.is_empty(), "the last call is answered: {}", sketch(history));
}

proptest! {
    #[test]
    fn any_mixture_of_records_becomes_a_valid_conversation(
        steps in proptest::collection::vec((0_u8..6, 0_u32..5), 0..30)
    ) {
        let pieces = steps.iter().enumerate().map(|(nth, (what, id))| {
            let uuid = nth.to_string();
            match what {
                0 => user(&uuid, json!("prompt")),
                1 => assistant(&uuid, json!("text")),
                2 => assistant(&uuid, call(&id.to_string())),
                3 => user(&uuid, result(&id.to_string())),
                4 => assistant(&uuid, json!([{ "type": "thinking", "thinking": "" }])),
                _ => user(&uuid, json!([{ "type": "text", "text": " " }])),
            }
        });
        assert_valid(&build(pieces.collect()));
    }
}
