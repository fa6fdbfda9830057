use super::*;
use crate::message::blocks_of;
use lathe_protocol::Role;
use proptest::prelude::*;
use serde_json::Value;

#[path = "../../tests/common/api_rules.rs"]
mod api_rules;

fn build(pieces: Vec<Piece>) -> History {
    super::build(pieces, None)
}

fn piece(role: Role, uuid: &str, content: Value) -> Piece {
    let raw = serde_json::value::to_raw_value(&content).unwrap();
    let blocks = blocks_of(&raw);
    let has_results = blocks.iter().any(|block| matches!(block.kind, BlockKind::ToolResult { .. }));
    let is_prompt = role == Role::User && !has_results;
    Piece { at: 0, role, uuid: uuid.to_owned(), blocks, answer: None, is_prompt }
}

/// A block of the response with this id.
fn block_of(answer: &str, uuid: &str, content: Value) -> Piece {
    Piece { answer: Some(Id::of(answer)), ..assistant(uuid, content) }
}

/// A note of the runtime for the model.
fn note(uuid: &str, text: &str) -> Piece {
    Piece { is_prompt: false, ..user(uuid, json!(text)) }
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
    let expected =
        "U[go] A[call:1] U[lost:1 again] A[call:1-2] U[result:1-2 and again] A[call:1-3] U[result:1-3]";
    assert_eq!(sketch(&history), expected);
    // The API would reject every request with the same id twice.
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

/// Calls start while their response streams in: the first result may be written before the second call.
#[test]
fn an_answer_is_one_message_whatever_was_written_between_its_blocks() {
    let thinking = json!([{ "type": "thinking", "thinking": "hm", "signature": "s" }]);
    let history = build(vec![
        user("u", json!("go")),
        block_of("m1", "a0", thinking),
        block_of("m1", "a1", call("1")),
        user("r1", result("1")),
        note("n1", "noted"),
        block_of("m1", "a2", call("2")),
        block_of("m1", "a3", call("3")),
        user("r3", result("3")),
        user("r2", result("2")),
        block_of("m2", "b1", call("4")),
        user("r4", result("4")),
        block_of("m3", "c", json!("done")),
    ]);
    assert_eq!(
        sketch(&history),
        "U[go] A[thinking call:1 call:2 call:3] U[result:1 result:2 result:3 noted] A[call:4] U[result:4] A[done]"
    );
    assert_eq!(history.messages[1].uuids, ["a0", "a1", "a2", "a3"]);
    assert_valid(&history);
}

#[test]
fn blocks_of_an_answer_stand_in_the_order_of_the_file() {
    let at = |at: At, piece: Piece| Piece { at, ..piece };
    let history = build(vec![
        at(0, user("u", json!("go"))),
        at(1, block_of("m", "a1", call("1"))),
        at(3, user("r1", result("1"))),
        at(4, block_of("m", "a3", call("3"))),
        at(2, block_of("m", "a2", call("2"))),
        at(6, user("r2", result("2"))),
        at(5, user("r3", result("3"))),
        at(7, block_of("n", "b", json!("done"))),
    ]);
    assert_eq!(sketch(&history), "U[go] A[call:1 call:2 call:3] U[result:1 result:2 result:3] A[done]");
}

#[test]
fn an_answer_does_not_go_on_behind_a_prompt_or_another_answer() {
    let prompted = build(vec![
        user("u", json!("go")),
        block_of("m", "a", call("1")),
        user("r", result("1")),
        user("v", json!("next")),
        block_of("m", "b", call("2")),
        user("s", result("2")),
    ]);
    assert_eq!(sketch(&prompted), "U[go] A[call:1] U[result:1 next] A[call:2] U[result:2]");
    // The results of a response come before the next response, although no prompt lies in between.
    let cut = build(vec![
        user("u", json!("go")),
        block_of("m1", "a", call("1")),
        block_of("m2", "b", json!("done")),
    ]);
    assert_eq!(sketch(&cut), "U[go] A[call:1] U[lost:1] A[done]");
}

#[test]
fn a_call_that_got_a_new_id_is_known_by_it_later() {
    let pieces = || {
        vec![
            user("u", json!("go")),
            assistant("a", call("1")),
            user("r", result("1")),
            user("v", json!("again")),
            assistant("b", call("1")),
        ]
    };
    for open in ["1", "1-2"] {
        let history = super::build(pieces(), Some(open.to_owned()));
        assert_eq!(history.left_open.as_ref().unwrap().tool_use_id, "1-2");
        assert_eq!(sketch(&history), "U[go] A[call:1] U[result:1 again] A[call:1-2]");
    }
    let mut answered = pieces();
    answered.push(user("s", result("1-2")));
    let history = build(answered);
    assert_eq!(sketch(&history), "U[go] A[call:1] U[result:1 again] A[call:1-2] U[result:1-2]");
    assert_eq!((history.orphan_results, history.dangling.len()), (0, 0));
}

#[test]
fn ids_of_other_servers_are_made_of_few_characters() {
    let history = build(vec![
        user("u", json!("go")),
        assistant("a", call("functions.Bash:0")),
        user("r", result("functions.Bash:0")),
    ]);
    assert_eq!(sketch(&history), "U[go] A[call:functions_Bash_0] U[result:functions_Bash_0]");
}

#[test]
fn blocks_of_the_wrong_side_and_halves_of_server_calls_are_left_out() {
    let server_call =
        |id: &str| json!([{ "type": "server_tool_use", "id": id, "name": "web_search", "input": {} }]);
    let server_result =
        |id: &str| json!([{ "type": "web_search_tool_result", "tool_use_id": id, "content": [] }]);
    let history = build(vec![
        user("u", json!("go")),
        user("x", call("9")),
        assistant("a", server_call("s1")),
        assistant("b", server_result("s1")),
        assistant("c", server_call("s2")),
        assistant("d", server_result("s3")),
        assistant("e", result("9")),
        assistant("f", json!("done")),
    ]);
    assert_eq!(sketch(&history), "U[go] A[server_tool_use web_search_tool_result done]");
    assert_valid(&history);
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

/// Checks the demands of the API on random mixtures of records.
fn assert_valid(history: &History) {
    let message = |message: &HistoryMessage| {
        let blocks: Vec<Value> =
            message.blocks.iter().map(|raw| serde_json::from_str(raw.get()).unwrap()).collect();
        json!({ "role": message.role, "content": blocks })
    };
    api_rules::assert_accepted(&history.messages.iter().map(message).collect::<Vec<_>>());
}

fn any_piece(nth: usize, what: u8, id: u32) -> Piece {
    let (uuid, id, answer) = (nth.to_string(), id.to_string(), format!("msg_{}", id % 2));
    let signed = json!([{ "type": "thinking", "thinking": "", "signature": "s" }]);
    match what {
        0 => user(&uuid, json!("prompt")),
        1 => assistant(&uuid, json!("text")),
        2 => assistant(&uuid, call(&id)),
        3 => user(&uuid, result(&id)),
        4 => assistant(&uuid, signed),
        5 => user(&uuid, json!([{ "type": "text", "text": " " }])),
        6 => block_of(&answer, &uuid, call(&id)),
        7 => block_of(&answer, &uuid, json!("text")),
        8 => note(&uuid, "note"),
        9 => block_of(&answer, &uuid, signed),
        10 => assistant(
            &uuid,
            json!([{ "type": "server_tool_use", "id": id, "name": "web_search", "input": null }]),
        ),
        11 => {
            assistant(&uuid, json!([{ "type": "web_search_tool_result", "tool_use_id": id, "content": [] }]))
        }
        12 => user(&uuid, call(&id)),
        13 => assistant(&uuid, result(&id)),
        14 => assistant(
            &uuid,
            json!([{ "type": "tool_use", "id": format!("{id}.-2"), "name": "a.b", "input": "x" }]),
        ),
        _ => user(&uuid, result(&format!("{id}-2"))),
    }
}

proptest! {
    #[test]
    fn any_mixture_of_records_becomes_a_valid_conversation(
        steps in proptest::collection::vec((0_u8..16, 0_u32..5), 0..40)
    ) {
        let pieces = steps.iter().enumerate().map(|(nth, (what, id))| any_piece(nth, *what, *id));
        assert_valid(&build(pieces.collect()));
    }
}
