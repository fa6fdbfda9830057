//! The stop/continue table as a host sees it: for every row a script, and the results of the session. The
//! table itself, as a pure function, is tested in `decide.rs`.

mod common;

use common::{Setup, Talk, kinds, line, of_type, prompt, run};
use serde_json::{Value, json};
use tempfile::tempdir;

/// One row: what the model says, how the session is set up, and what the results are.
struct Row {
    name: &'static str,
    script: Value,
    set: fn(&mut Setup),
    /// A prompt for each result.
    results: Vec<Value>,
}

fn row(name: &'static str, script: Value, set: fn(&mut Setup), results: Vec<Value>) -> Row {
    Row { name, script, set, results }
}

fn plain(_: &mut Setup) {}

fn bash(command: &str) -> Value {
    json!({"name": "Bash", "input": {"command": command}})
}

fn structured(input: Value) -> Value {
    json!({"tools": [{"name": "StructuredOutput", "input": input}]})
}

/// A hook that prints this.
fn hook(event: &str, output: Value) -> Value {
    let command = format!("printf '%s' '{output}'");
    json!({event: [{"hooks": [{"type": "command", "command": command}]}]})
}

fn success(result: &str, num_turns: u64) -> Value {
    json!({"subtype": "success", "is_error": false, "result": result, "num_turns": num_turns,
        "terminal_reason": "completed", "stop_reason": "end_turn", "errors": null, "api_error_status": null})
}

fn with(mut base: Value, changes: Value) -> Value {
    for (key, value) in changes.as_object().into_iter().flatten() {
        base[key] = value.clone();
    }
    base
}

fn error(subtype: &str, reason: &str, text: &str, num_turns: u64) -> Value {
    json!({"subtype": subtype, "is_error": true, "errors": [text], "num_turns": num_turns,
        "terminal_reason": reason, "result": null, "structured_output": null})
}

fn api_error(changes: Value) -> Value {
    with(
        json!({"subtype": "success", "is_error": true, "terminal_reason": "api_error",
            "stop_reason": "stop_sequence", "num_turns": 1, "errors": null}),
        changes,
    )
}

fn max_turns(setup: &mut Setup, limit: u32) {
    setup.limits.max_rounds = Some(limit);
}

fn budget(setup: &mut Setup) {
    setup.max_budget_usd = Some(0.001);
}

fn schema(setup: &mut Setup) {
    setup.schema = Some(json!({
        "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
    }));
}

fn fallbacks(setup: &mut Setup) {
    setup.fallbacks = vec!["claude-sonnet-4-5".to_owned(), "claude-haiku-4-5".to_owned()];
    setup.max_retries = 5;
}

const FAULT: &str = "Output does not match required schema: /name: must be string";

fn limits() -> Vec<Row> {
    let tool = json!({"tools": [bash("echo one")]});
    let dear = json!({"tools": [bash("touch ran")], "in": 50_000, "out": 2_000});
    let turns = |limit: u32, num: u64| {
        let text = format!("Reached maximum number of turns ({limit})");
        with(error("error_max_turns", "max_turns", &text, num), json!({"stop_reason": "tool_use"}))
    };
    let spent = |stop: Value| {
        let text = "Reached maximum budget ($0.001)";
        with(error("error_max_budget_usd", "budget_exhausted", text, 1), json!({"stop_reason": stop}))
    };
    vec![
        row("a final answer", json!([{"text": "hi"}]), plain, vec![success("hi", 1)]),
        row("tools, then an answer", json!([tool, {"text": "done"}]), plain, vec![success("done", 2)]),
        row(
            "parallel tools count each",
            json!([{"tools": [bash("echo 1"), bash("echo 2")]}, {"text": "x"}]),
            plain,
            vec![success("x", 3)],
        ),
        row(
            "max turns, and the next prompt starts anew",
            json!([tool, {"text": "fine"}]),
            |s| max_turns(s, 1),
            vec![turns(1, 2), success("fine", 1)],
        ),
        row("max turns of two", json!([tool]), |s| max_turns(s, 2), vec![turns(2, 3)]),
        row(
            "an answer in the last round is an answer",
            json!([{"text": "x"}]),
            |s| max_turns(s, 1),
            vec![success("x", 1)],
        ),
        row(
            "budget crossed by tools",
            json!([dear, {"text": "never"}]),
            budget,
            vec![spent(json!("tool_use")), spent(Value::Null)],
        ),
        row(
            "budget crossed by the answer",
            json!([{"text": "x", "in": 50_000}]),
            budget,
            vec![spent(json!("end_turn")), spent(Value::Null)],
        ),
        row(
            "budget crossed by an answer that was cut",
            json!([{"text": "part", "stop": "max_tokens", "in": 50_000}, {"text": "never"}]),
            budget,
            vec![spent(json!("max_tokens"))],
        ),
        row(
            "budget crossed while going on",
            json!([{"text": "part", "stop": "max_tokens", "in": 1, "out": 1}, {"text": "rest", "in": 50_000}]),
            budget,
            vec![with(spent(json!("end_turn")), json!({"num_turns": 2}))],
        ),
        row(
            "budget crossed by an answer that broke",
            json!({"turns": [
                {"text": "gone", "usage": {"input_tokens": 50_000}, "cut": {"after_events": 3}}, {"text": "never"},
            ]}),
            budget,
            vec![spent(Value::Null)],
        ),
        row("a budget that holds", json!([{"text": "x", "in": 1, "out": 1}]), budget, vec![success("x", 1)]),
    ]
}

fn answers() -> Vec<Row> {
    let cut = json!({"text": "part", "stop": "max_tokens"});
    let window = json!({"text": "part", "stop": "model_context_window_exceeded"});
    let refusal = json!({"text": "", "stop": "refusal"});
    let out_of_tokens =
        api_error(json!({"num_turns": 4, "api_error": "max_output_tokens", "api_error_status": null}));
    let refused = api_error(json!({"num_turns": 2, "stop_reason": "refusal", "api_error_status": null}));
    let broken =
        json!({"text": "partial text here", "error_event": {"type": "api_error", "after_events": 4}});
    let overloaded =
        json!({"text": "partial text here", "error_event": {"type": "overloaded_error", "after_events": 4}});
    vec![
        row("out of tokens once", json!([cut, {"text": " rest."}]), plain, vec![success(" rest.", 2)]),
        row(
            "out of tokens three times",
            json!([cut, cut, cut, {"text": "end"}]),
            plain,
            vec![success("end", 4)],
        ),
        row("out of tokens for ever", json!([cut]), plain, vec![out_of_tokens.clone()]),
        row("out of the context window", json!([window]), plain, vec![out_of_tokens]),
        row(
            "out of tokens at the last round",
            json!([cut]),
            |s| max_turns(s, 1),
            vec![error("error_max_turns", "max_turns", "Reached maximum number of turns (1)", 1)],
        ),
        row("refused once", json!([refusal, {"text": "well"}]), plain, vec![success("well", 2)]),
        row("refused twice", json!([refusal]), plain, vec![refused.clone()]),
        row(
            "refused, then answered by the fallback",
            json!([refusal, refusal, {"text": "ok"}]),
            fallbacks,
            vec![success("ok", 2)],
        ),
        row("refused by everybody", json!([refusal]), fallbacks, vec![refused]),
        row(
            "pause_turn ends the turn",
            json!([{"text": "so far", "stop": "pause_turn"}]),
            plain,
            vec![with(success("so far", 1), json!({"stop_reason": "pause_turn"}))],
        ),
        row(
            "a reason nobody knows ends the turn",
            json!([{"text": "x", "stop": "brand_new"}]),
            plain,
            vec![with(success("x", 1), json!({"stop_reason": "brand_new"}))],
        ),
        row("empty once", json!([{}, {"text": "b"}]), plain, vec![success("b", 2)]),
        row("empty twice", json!([{}]), plain, vec![success("", 2)]),
        row(
            "an error in mid-stream keeps what arrived",
            json!({"turns": [broken, {"text": "rest"}]}),
            plain,
            vec![success("rest", 2)],
        ),
        row(
            "so does an overload in mid-stream",
            json!({"turns": [overloaded, {"text": "rest"}]}),
            plain,
            vec![success("rest", 2)],
        ),
        row(
            "a cut stream is asked for again",
            json!({"turns": [{"text": "gone", "cut": {"after_events": 3}}, {"text": "whole"}]}),
            plain,
            vec![success("whole", 1)],
        ),
    ]
}

/// Answers that end in a way that does not go with what they hold.
fn odd_answers() -> Vec<Row> {
    let cut = json!({"text": "part", "stop": "max_tokens"});
    let half = json!({"tools": [{"name": "Bash", "raw": "{\"command\": \"touch ran"}], "stop": "max_tokens"});
    let call = |stop: &str| json!({"tools": [bash("touch one"), bash("touch two")], "stop": stop});
    let thought = json!({"thinking": "hm"});
    let twins = json!({"tools": [
        {"name": "Bash", "id": "same", "input": {"command": "echo 1"}},
        {"name": "Bash", "id": "same", "input": {"command": "echo 2"}},
    ]});
    vec![
        row(
            "the output limit cuts a call",
            json!([half, {"text": "in pieces"}]),
            plain,
            vec![success("in pieces", 3)],
        ),
        row(
            "the output limit cuts every call",
            json!([half]),
            plain,
            vec![api_error(json!({"num_turns": 8, "api_error": "max_output_tokens"}))],
        ),
        row(
            "calls that are whole run, limit or not",
            json!([call("max_tokens"), {"text": "x"}]),
            plain,
            vec![success("x", 3)],
        ),
        row(
            "work in between makes up for limits before",
            json!([cut, cut, cut, {"tools": [bash("echo one")]}, cut, cut, {"text": "x"}]),
            plain,
            vec![success("x", 7)],
        ),
        row(
            "refused behind calls",
            json!([call("refusal"), {"text": "well"}]),
            plain,
            vec![success("well", 4)],
        ),
        row(
            "refused behind calls for ever",
            json!([call("refusal")]),
            plain,
            vec![api_error(json!({"num_turns": 6, "stop_reason": "refusal"}))],
        ),
        row(
            "refused with half a text",
            json!([{"text": "I will", "stop": "refusal"}, {"text": "well"}]),
            plain,
            vec![success("well", 2)],
        ),
        row("thought and said nothing", json!([thought, {"text": "b"}]), plain, vec![success("b", 2)]),
        row("thought and said nothing twice", json!([thought]), plain, vec![success("", 2)]),
        row(
            "a stop sequence",
            json!([{"text": "x", "stop": "stop_sequence"}]),
            plain,
            vec![with(success("x", 1), json!({"stop_reason": "stop_sequence"}))],
        ),
        row(
            "a call announced and not made",
            json!([{"text": "x", "stop": "tool_use"}]),
            plain,
            vec![with(success("x", 1), json!({"stop_reason": "tool_use"}))],
        ),
        row(
            "a call made and not announced",
            json!([{"tools": [bash("echo 1")], "stop": "end_turn"}, {"text": "x"}]),
            plain,
            vec![success("x", 2)],
        ),
        // lax: no request may have one id twice, so the API never answers like this; the turn must end all the same.
        row(
            "two calls of one name",
            json!({"lax": true, "turns": [twins, {"text": "x"}]}),
            plain,
            vec![success("x", 3)],
        ),
        row(
            "a pause of a tool that runs elsewhere",
            json!({"turns": [{"stop": "pause_turn", "blocks": [{"block":
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}}]}]}),
            plain,
            vec![with(success("", 1), json!({"stop_reason": "pause_turn"}))],
        ),
    ]
}

/// Streams that break at one point or another.
fn broken_answers() -> Vec<Row> {
    let error = |after: u32| {
        let at = json!({"type": "api_error", "message": "inside", "after_events": after});
        json!({"blocks": [{"text": "one"}, {"text": "two"}], "error_event": at})
    };
    // message_start, then start, delta and stop of each block, then message_delta and message_stop.
    let cut = |after: u32| json!({"text": "whole", "cut": {"after_events": after}});
    let then = |first: Value| json!({"turns": [first, {"text": "rest"}]});
    vec![
        row("an error before anything", then(error(0)), plain, vec![success("rest", 1)]),
        row("an error before any block", then(error(1)), plain, vec![success("rest", 1)]),
        row("an error between two blocks", then(error(4)), plain, vec![success("rest", 2)]),
        row("an error behind the blocks", then(error(7)), plain, vec![success("rest", 2)]),
        row("an error behind the end of the answer", then(error(8)), plain, vec![success("two", 1)]),
        row("a cut behind the end of the answer", then(cut(5)), plain, vec![success("whole", 1)]),
        row("a cut behind the last block", then(cut(4)), plain, vec![success("rest", 2)]),
        row(
            "an error in every stream",
            json!({"turns": [error(3)]}),
            plain,
            vec![api_error(
                json!({"num_turns": 4, "result": "API Error: inside", "api_error_type": "api_error"}),
            )],
        ),
    ]
}

fn failures() -> Vec<Row> {
    let status = |status: u16| json!({"error": status});
    let failed =
        |status: u16, kind: &str| api_error(json!({"api_error_status": status, "api_error_type": kind}));
    vec![
        row("400", json!([status(400)]), plain, vec![failed(400, "invalid_request_error")]),
        row(
            "401 is not retried",
            json!([status(401), {"text": "never"}]),
            plain,
            vec![failed(401, "authentication_error")],
        ),
        row(
            "413",
            json!([status(413)]),
            plain,
            vec![with(failed(413, "request_too_large"), json!({"terminal_reason": "image_error"}))],
        ),
        row("500 for ever", json!([status(500)]), plain, vec![failed(500, "api_error")]),
        row("529, then there", json!([status(529), {"text": "there"}]), plain, vec![success("there", 1)]),
        row(
            "529 three times, then the fallback",
            json!([status(529), status(529), status(529), {"text": "fb"}]),
            fallbacks,
            vec![success("fb", 1)],
        ),
        row(
            "500, then the fallback at once",
            json!([status(500), {"text": "fb"}]),
            fallbacks,
            vec![success("fb", 1)],
        ),
        row(
            "a fallback that is the model itself is passed over",
            json!([status(500), {"text": "fb"}]),
            |s| {
                s.fallbacks = vec!["claude-opus-5-5".to_owned(), "claude-sonnet-4-5".to_owned()];
                s.max_retries = 0;
            },
            vec![success("fb", 1)],
        ),
        row(
            "500 from everybody",
            json!([status(500)]),
            |s| {
                fallbacks(s);
                s.max_retries = 1;
            },
            vec![failed(500, "api_error")],
        ),
        row(
            "a failed prompt does not spoil the next",
            json!([status(400), {"text": "fine"}]),
            plain,
            vec![failed(400, "invalid_request_error"), success("fine", 1)],
        ),
    ]
}

fn structures() -> Vec<Row> {
    let given = |num: u64| {
        let changes = json!({"structured_output": {"name": "Bob"}, "stop_reason": "tool_use"});
        with(success("{\"name\":\"Bob\"}", num), changes)
    };
    let bob = structured(json!({"name": "Bob"}));
    let wrong = structured(json!({"name": 7}));
    let exhausted = |count: u32, num: u64| {
        let text = format!(
            "Failed to provide valid structured output after {count} attempts — last StructuredOutput error: {FAULT}"
        );
        let base =
            error("error_max_structured_output_retries", "structured_output_retry_exhausted", &text, num);
        with(base, json!({"stop_reason": "tool_use"}))
    };
    let both = json!({"tools": [bash("echo one"), {"name": "StructuredOutput", "input": {"name": "Bob"}}]});
    vec![
        row("a structured answer ends the turn", json!([bob, {"text": "never"}]), schema, vec![given(2)]),
        row("one for each prompt", json!([bob, wrong, bob]), schema, vec![given(2), given(3)]),
        row("tools before it", json!([{"tools": [bash("echo one")]}, bob]), schema, vec![given(3)]),
        row("tools beside it", json!([both]), schema, vec![given(3)]),
        row("wrong once", json!([wrong, bob]), schema, vec![given(3)]),
        row("wrong for ever", json!([wrong]), schema, vec![exhausted(5, 6), exhausted(5, 6)]),
        row(
            "wrong as often as was allowed",
            json!([wrong]),
            |s| {
                schema(s);
                s.limits.max_structured_attempts = 2;
            },
            vec![exhausted(2, 3)],
        ),
        row(
            "input that is no JSON counts as wrong",
            json!([{"tools": [{"name": "StructuredOutput", "raw": "{\"na"}]}]),
            |s| {
                schema(s);
                s.limits.max_structured_attempts = 1;
            },
            vec![json!({"subtype": "error_max_structured_output_retries"})],
        ),
        row("text is asked for once more", json!([{"text": "no"}, bob]), schema, vec![given(3)]),
        row(
            "text twice is text",
            json!([{"text": "no tool"}]),
            schema,
            vec![with(success("no tool", 2), json!({"structured_output": null}))],
        ),
        row(
            "text in the last round",
            json!([{"text": "no"}]),
            |s| {
                schema(s);
                max_turns(s, 1);
            },
            vec![json!({"subtype": "error_max_turns"})],
        ),
        row(
            "given in the last round",
            json!([bob]),
            |s| {
                schema(s);
                max_turns(s, 1);
            },
            vec![given(2)],
        ),
        row(
            "given by the fallback",
            json!([{"error": 500}, bob]),
            |s| {
                fallbacks(s);
                schema(s);
            },
            vec![given(2)],
        ),
        row(
            "cut by the output limit",
            json!([{"tools": [{"name": "StructuredOutput", "raw": "{\"name\": \"Bo"}], "stop": "max_tokens"}, bob]),
            schema,
            vec![given(4)],
        ),
        row(
            "given beyond the budget",
            json!([{"tools": bob["tools"], "in": 50_000}]),
            |s| {
                budget(s);
                schema(s);
            },
            vec![json!({"subtype": "error_max_budget_usd", "structured_output": null})],
        ),
    ]
}

fn hooks() -> Vec<Row> {
    let tool = json!({"tools": [bash("touch ran")]});
    vec![
        row(
            "a stop hook blocks until the cap",
            json!([{"text": "one"}]),
            |s| s.hooks = hook("Stop", json!({"decision": "block", "reason": "more"})),
            vec![success("", 10)],
        ),
        row(
            "the cap can be set",
            json!([{"text": "one"}]),
            |s| {
                s.limits.max_stop_blocks = 2;
                s.hooks = hook("Stop", json!({"decision": "block", "reason": "more"}));
            },
            vec![success("", 4)],
        ),
        row(
            "a stop hook ends it for good",
            json!([{"text": "one"}]),
            |s| s.hooks = hook("Stop", json!({"continue": false})),
            vec![with(success("one", 1), json!({"terminal_reason": "stop_hook_prevented"}))],
        ),
        row(
            "blocks count as rounds",
            json!([{"text": "one"}]),
            |s| {
                max_turns(s, 2);
                s.hooks = hook("Stop", json!({"decision": "block", "reason": "more"}));
            },
            vec![json!({"subtype": "error_max_turns"})],
        ),
        row(
            "a hook before the tool ends the turn after it",
            json!([tool, {"text": "never"}]),
            |s| s.hooks = hook("PreToolUse", json!({"continue": false})),
            vec![with(success("", 2), json!({"terminal_reason": "hook_stopped", "stop_reason": "tool_use"}))],
        ),
        row(
            "a hook behind the tool ends the turn",
            json!([tool, {"text": "never"}]),
            |s| s.hooks = hook("PostToolUse", json!({"continue": false})),
            vec![with(success("", 2), json!({"terminal_reason": "hook_stopped", "stop_reason": "tool_use"}))],
        ),
        row(
            "a hook refuses the prompt",
            json!([{"text": "never"}]),
            |s| s.hooks = hook("UserPromptSubmit", json!({"decision": "block", "reason": "no"})),
            vec![
                json!({"subtype": "success", "is_error": false, "num_turns": 0, "terminal_reason": null, "stop_reason": null}),
            ],
        ),
        row(
            "stop hooks are asked about structured answers too",
            json!([structured(json!({"name": "Bob"}))]),
            |s| {
                schema(s);
                s.hooks = hook("Stop", json!({"continue": false}));
            },
            vec![json!({"terminal_reason": "stop_hook_prevented", "structured_output": {"name": "Bob"}})],
        ),
    ]
}

/// Every field of `expected` as it is in the result; null also fits a field that is not there.
fn differences(expected: &Value, result: &Value) -> Vec<String> {
    let fields = expected.as_object().into_iter().flatten();
    fields
        .filter(|(key, value)| *value != result.get(*key).unwrap_or(&Value::Null))
        .map(|(key, value)| format!("{key}: wanted {value}, is {}", result[key]))
        .collect()
}

/// What is true of every result, whatever ended the turn.
fn faults(result: &Value) -> Vec<&'static str> {
    let mut faults = Vec::new();
    for key in ["duration_ms", "duration_api_ms", "num_turns", "total_cost_usd", "result_index"] {
        if !result[key].is_number() {
            faults.push(key);
        }
    }
    for key in ["usage", "modelUsage", "model_usage_since_last_result", "subagent_stats"] {
        if !result[key].is_object() {
            faults.push(key);
        }
    }
    if !result["permission_denials"].is_array() {
        faults.push("permission_denials");
    }
    if result["subtype"] == "success" && (!result["result"].is_string() || result.get("errors").is_some()) {
        faults.push("a success has a result and no errors");
    }
    if result["subtype"] != "success" && (result.get("result").is_some() || !result["errors"].is_array()) {
        faults.push("an error has errors and no result");
    }
    faults
}

async fn check(rows: Vec<Row>) {
    let mut wrong = Vec::new();
    for row in rows {
        let folder = tempdir().unwrap();
        let mut setup = Setup::new(row.script, folder.path());
        (row.set)(&mut setup);
        // One after the other: a prompt that comes in the middle of a turn would join it.
        let mut talk = Talk::start(setup);
        let mut results = Vec::new();
        for _ in &row.results {
            talk.send(prompt("go")).await;
            results.push(talk.until(|frame| frame["type"] == "result").await);
        }
        let (rest, end) = talk.finish().await;
        if !of_type(&rest, "result").is_empty() {
            wrong.push(format!("{}: more results than prompts, frames {:?}", row.name, kinds(&rest)));
        }
        for (at, (result, expected)) in results.iter().zip(&row.results).enumerate() {
            let found = differences(expected, result).into_iter();
            let found = found.chain(faults(result).into_iter().map(str::to_owned));
            wrong.extend(found.map(|text| format!("{}, result {at}: {text}", row.name)));
        }
        let last = results.last().is_some_and(|result| result["is_error"] == true);
        if end.last_was_error != last {
            wrong.push(format!("{}: the exit code does not follow the last result", row.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn limits_end_turns() {
    check(limits()).await;
}

#[tokio::test]
async fn answers_end_turns_or_are_mended() {
    check(answers()).await;
}

#[tokio::test]
async fn odd_answers_end_turns_or_are_mended() {
    check(odd_answers()).await;
}

#[tokio::test]
async fn broken_answers_end_turns_or_are_mended() {
    check(broken_answers()).await;
}

#[tokio::test]
async fn failures_end_turns_or_pass() {
    check(failures()).await;
}

#[tokio::test]
async fn structured_answers_end_turns() {
    check(structures()).await;
}

#[tokio::test]
async fn hooks_end_turns() {
    check(hooks()).await;
}

/// A hook that adds context makes the turn go on once; the marker file lets it end then.
#[tokio::test]
async fn context_of_a_stop_hook_makes_the_turn_go_on() {
    let folder = tempdir().unwrap();
    let output = json!({"hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "look again"}});
    let command = format!("test -e seen || printf '%s' '{output}'; touch seen");
    let mut setup = Setup::new(json!([{"text": "one"}, {"text": "two"}]), folder.path());
    setup.hooks = json!({"Stop": [{"hooks": [{"type": "command", "command": command}]}]});
    let (frames, _) = run(setup, &["go"]).await;
    let result = of_type(&frames, "result")[0];
    assert_eq!((&result["result"], &result["num_turns"]), (&json!("two"), &json!(1)));
    // A note is no error, and nobody is alarmed.
    assert_eq!(kinds(&frames), ["system init", "assistant text", "assistant text", "result success"]);
}

/// What a refused answer asked for and had not begun is not done; each call still has its answer.
#[tokio::test]
async fn a_refusal_holds_up_what_has_not_begun() {
    let folder = tempdir().unwrap();
    let calls = json!({"tools": [bash("touch one"), bash("touch two")], "stop": "refusal"});
    let (frames, _) = run(Setup::new(json!([calls, {"text": "well"}]), folder.path()), &["go"]).await;
    let answers: Vec<&Value> =
        of_type(&frames, "user").iter().map(|frame| &frame["message"]["content"][0]["tool_use_id"]).collect();
    assert_eq!(answers.iter().filter(|id| id.is_string()).count(), 2);
    assert!(folder.path().join("one").exists(), "it was under way");
    assert!(!folder.path().join("two").exists());
}

/// Overloads count in a row and for each model; whoever is next gets as many.
#[tokio::test]
async fn every_fallback_may_be_overloaded_as_often() {
    let folder = tempdir().unwrap();
    let busy = json!({"error": 529});
    let script = json!([busy, busy, busy, busy, busy, busy, {"text": "ok"}, {"text": "again"}]);
    let mut setup = Setup::new(script, folder.path());
    fallbacks(&mut setup);
    let (frames, _) = run(setup, &["go", "on"]).await;
    let told: Vec<String> = frames
        .iter()
        .filter(|frame| frame["type"] == "system" && frame["subtype"] != "init")
        .map(|frame| format!("{}{}", frame["subtype"].as_str().unwrap_or(""), frame["fallback_model"]))
        .collect();
    let retry = "api_retrynull";
    assert_eq!(
        told,
        [
            retry,
            retry,
            "model_fallback\"claude-sonnet-4-5\"",
            retry,
            retry,
            "model_fallback\"claude-haiku-4-5\"",
        ]
    );
    let models: Vec<&Value> = of_type(&frames, "assistant").iter().map(|f| &f["message"]["model"]).collect();
    assert_eq!(
        models,
        ["claude-haiku-4-5", "claude-opus-5-5"],
        "the next prompt asks the chosen model again"
    );
}

/// What people see of stop hooks that will not let go: the first block, and the end of patience.
#[tokio::test]
async fn blocked_ends_are_told_to_people() {
    let folder = tempdir().unwrap();
    let mut setup = Setup::new(json!([{"text": "one"}]), folder.path());
    setup.limits.max_stop_blocks = 1;
    setup.hooks = hook("Stop", json!({"decision": "block", "reason": "more"}));
    let (frames, _) = run(setup, &["go"]).await;
    assert_eq!(
        kinds(&frames),
        [
            "system init",
            "assistant text",
            "user text",
            "system notification",
            "assistant text",
            "user text",
            "system informational",
            "system notification",
            "result success",
        ]
    );
    let keys: Vec<&Value> = frames.iter().filter_map(|frame| frame.get("key")).collect();
    assert_eq!(keys, ["stop-hook-error", "stop-hook-block-cap"]);
}

#[tokio::test]
async fn fallbacks_are_told_in_the_order_they_are_used() {
    let folder = tempdir().unwrap();
    let refusal = json!({"text": "", "stop": "refusal"});
    let script = json!([refusal, refusal, refusal, {"text": "ok"}, {"text": "later"}]);
    let mut setup = Setup::new(script, folder.path());
    fallbacks(&mut setup);
    let (frames, _) = run(setup, &["go", "again"]).await;
    let switches: Vec<(&Value, &Value)> = frames
        .iter()
        .filter(|frame| frame["subtype"] == "model_refusal_fallback")
        .map(|frame| (&frame["original_model"], &frame["fallback_model"]))
        .collect();
    assert_eq!(
        switches,
        [
            (&json!("claude-opus-5-5"), &json!("claude-sonnet-4-5")),
            (&json!("claude-sonnet-4-5"), &json!("claude-haiku-4-5")),
        ]
    );
    let models: Vec<&Value> = of_type(&frames, "assistant").iter().map(|f| &f["message"]["model"]).collect();
    assert_eq!(
        models,
        ["claude-haiku-4-5", "claude-haiku-4-5"],
        "the session stays with the model that answers"
    );
}

/// A schema that the host brings with its handshake works like one of the command line.
#[tokio::test]
async fn a_host_may_bring_the_schema() {
    let folder = tempdir().unwrap();
    let mut talk = Talk::start(Setup::new(json!([structured(json!({"name": "Bob"}))]), folder.path()));
    let initialize = |schema: Value| {
        line(json!({"type": "control_request", "request_id": "i", "request": {
            "subtype": "initialize", "jsonSchema": schema,
        }}))
    };
    talk.send(initialize(json!({"type": "nonsense"}))).await;
    let refused = talk.until(|frame| frame["type"] == "control_response").await;
    assert_eq!(refused["response"]["subtype"], "error");
    talk.send(initialize(json!({"type": "object", "required": ["name"]}))).await;
    let taken = talk.until(|frame| frame["type"] == "control_response").await;
    assert_eq!(taken["response"]["subtype"], "success");
    talk.send(prompt("go")).await;
    let init = talk.until(|frame| frame["subtype"] == "init").await;
    assert!(init["tools"].as_array().unwrap().contains(&json!("StructuredOutput")));
    let result = talk.until(|frame| frame["type"] == "result").await;
    assert_eq!(result["structured_output"], json!({"name": "Bob"}));
    talk.finish().await;
}
