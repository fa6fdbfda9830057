use serde_json::{Value, json};

use super::*;

fn engine(text: &str) -> ScriptEngine {
    ScriptEngine::new(Script::parse("test.yaml", text).unwrap()).unwrap()
}

fn ask_as(engine: &ScriptEngine, session: &str, messages: Value) -> Value {
    let body =
        json!({"model": "m", "max_tokens": 50, "metadata": {"user_id": session}, "messages": messages});
    let served = engine.respond(Facts::for_test(body));
    let body: Vec<u8> = served
        .reply
        .steps
        .iter()
        .flat_map(|step| if let render::Step::Send(bytes) = step { bytes.to_vec() } else { Vec::new() })
        .collect();
    serde_json::from_slice(&body).unwrap()
}

fn ask(engine: &ScriptEngine, messages: Value) -> Value {
    ask_as(engine, "s", messages)
}

fn user(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

fn after_tool(prompt: &str, tool: &str, result: &str) -> Value {
    json!([
        {"role": "user", "content": prompt},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": tool, "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": result}]},
    ])
}

fn text(answer: &Value) -> &str {
    answer["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {answer}"))
}

fn texts(engine: &ScriptEngine, count: usize) -> Vec<String> {
    (0..count).map(|_| text(&ask(engine, user("x"))).to_owned()).collect()
}

#[test]
fn turns_go_in_order_and_the_last_repeats() {
    let engine = engine("turns: [{text: a}, {text: b, times: 2}, {text: c}]");
    assert_eq!(texts(&engine, 6), ["a", "b", "b", "c", "c", "c"]);
}

#[test]
fn the_end_can_be_an_error_or_a_text() {
    let ends = engine("turns: [{text: a}]\nat_end: error");
    assert_eq!(texts(&ends, 1), ["a"]);
    let answer = ask(&ends, user("more please"));
    assert_eq!(answer["error"]["type"], "api_error");
    let message = answer["error"]["message"].as_str().unwrap();
    assert_eq!(message, "the script has no turn left for request 2 (user text \"more please\")");

    let says = engine("turns: [{text: a}]\nat_end: {text: 'done with {{last_user_text}}'}");
    assert_eq!(texts(&says, 3), ["a", "done with x", "done with x"]);
}

#[test]
fn a_turn_with_when_answers_outside_the_sequence() {
    let engine = engine(
        "turns:\n  - text: first\n  - {when: {user: weather}, tools: [{name: Weather}]}\n  \
         - {when: {tool: Weather}, text: 'it is {{last_tool_result}}'}\n  - text: second\n",
    );
    assert_eq!(text(&ask(&engine, user("hello"))), "first");
    assert_eq!(ask(&engine, user("the weather?"))["content"][0]["name"], "Weather");
    // The prompt is still the last user text, but it was not sent with this request.
    assert_eq!(text(&ask(&engine, after_tool("the weather?", "Weather", "sunny"))), "it is sunny");
    assert_eq!(text(&ask(&engine, user("bye"))), "second");
}

#[test]
fn times_limits_a_turn_with_when() {
    let engine = engine("turns: [{when: {user: x}, times: 1, text: once}, {text: otherwise}]");
    assert_eq!(texts(&engine, 3), ["once", "otherwise", "otherwise"]);
}

#[test]
fn only_matching_turns_and_no_match_is_an_error_not_a_guess() {
    let engine = engine("turns: [{when: {user: hello}, text: hi}]");
    assert_eq!(text(&ask(&engine, user("hello"))), "hi");
    let answer = ask(&engine, user("what?"));
    assert!(answer["error"]["message"].as_str().unwrap().contains("\"what?\""), "{answer}");
}

#[test]
fn routes_have_their_own_position() {
    let engine = engine(
        "turns: [{text: main 1}, {text: main 2}]\nroutes:\n  - name: sub\n    when: SUBPROMPT\n    turns: [{text: sub 1}, {text: sub 2}]\n",
    );
    assert_eq!(text(&ask(&engine, user("go"))), "main 1");
    assert_eq!(text(&ask(&engine, user("SUBPROMPT do"))), "sub 1");
    assert_eq!(text(&ask(&engine, user("go"))), "main 2");
    assert_eq!(text(&ask(&engine, after_tool("SUBPROMPT do", "Bash", "ok"))), "sub 2");
}

#[test]
fn the_last_marker_chooses_the_line() {
    let script = Script::parse("s.json", r#"{"m": [{"text": "for m"}], "n": [{"text": "for n"}]}"#).unwrap();
    let engine = ScriptEngine::new(script).unwrap();
    assert_eq!(text(&ask(&engine, user("RUN<m>"))), "for m");
    assert_eq!(text(&ask(&engine, user("RUN<m> then RUN<n>"))), "for n");
    assert_eq!(text(&ask(&engine, user("nothing"))), "no script");
}

#[test]
fn a_marker_written_again_starts_its_line_again() {
    let script = Script::parse("s.json", r#"{"m": [{"text": "a"}, {"text": "b"}]}"#).unwrap();
    let engine = ScriptEngine::new(script).unwrap();
    assert_eq!(text(&ask(&engine, user("RUN<m>"))), "a");
    assert_eq!(text(&ask(&engine, after_tool("RUN<m>", "Bash", "r"))), "b");
    assert_eq!(text(&ask(&engine, user("RUN<m> and later RUN<m>"))), "a");
}

#[test]
fn conversations_can_have_their_own_position() {
    let engine = engine("scope: conversation\nturns: [{text: a}, {text: b}]");
    assert_eq!(text(&ask_as(&engine, "one", user("x"))), "a");
    assert_eq!(text(&ask_as(&engine, "two", user("x"))), "a");
    assert_eq!(text(&ask_as(&engine, "two", user("other first words"))), "a");
    assert_eq!(text(&ask_as(&engine, "one", after_tool("x", "Bash", "r"))), "b");
}

#[test]
fn a_failed_expectation_names_turn_key_and_both_sides() {
    let engine = engine(
        "turns:\n  - {id: greet, text: a, expect: {user: {regex: '^hello'}, has_tools: false}}\n  - {text: b, expect: {tool: Bash}}\n  \
         - {text: c, expect: {body: {/max_tokens: 51}}}\n",
    );
    let message = |answer: Value| {
        assert_eq!(answer["error"]["type"], "script_assertion", "{answer}");
        answer["error"]["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        message(ask(&engine, user("good day"))),
        "script assertion failed at turn 1 (`greet`): user: wanted a match of /^hello/, got \"good day\""
    );
    // The turn is used up, and the script continues.
    assert_eq!(
        message(ask(&engine, after_tool("x", "Read", "r"))),
        "script assertion failed at turn 2: tool: wanted a result of \"Bash\", got results of [Read]"
    );
    assert!(message(ask(&engine, user("x"))).contains("turn 3: body /max_tokens: wanted 51, got \"50\""));
}

#[test]
fn a_placeholder_without_an_answer_is_an_assertion_too() {
    let engine = engine("turns: [{text: 'got {{tool.Bash.result}}'}]");
    let answer = ask(&engine, user("x"));
    assert_eq!(answer["error"]["type"], "script_assertion");
    assert!(answer["error"]["message"].as_str().unwrap().contains("{{tool.Bash.result}}"));
}

#[test]
fn many_at_once_get_each_turn_exactly_once() {
    let turns: Vec<Turn> = (0..400).map(|n| Turn::text(n.to_string())).collect();
    let engine = ScriptEngine::new(Script { at_end: AtEnd::Error, ..Script::new(turns) }).unwrap();
    let mut seen: Vec<u32> = std::thread::scope(|scope| {
        let ask_hundred =
            || (0..100).map(|_| text(&ask(&engine, user("x"))).parse().unwrap()).collect::<Vec<u32>>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask_hundred)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    seen.sort_unstable();
    assert_eq!(seen, (0..400).collect::<Vec<u32>>());
}

#[test]
fn forgotten_conversations_start_again() {
    let mut state = State::default();
    for conversation in 0..MAX_CONVERSATIONS as u64 + 10 {
        state.progress(conversation).lines.insert((0, 0), LineProgress::default());
    }
    assert_eq!(state.conversations.len(), MAX_CONVERSATIONS);
    assert!(!state.conversations.contains_key(&5) && state.conversations.contains_key(&10));
}
