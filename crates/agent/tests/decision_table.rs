//! The stop/continue table as a host sees it: for every row a script, and the results of the session. The
//! table itself, as a pure function, is tested in `decide.rs`.
//!
//! What a group of rows must end with is the snapshot below it: a line for each result (see [`ending`]).

mod common;

use common::{Setup, Talk, kinds, line, of_type, prompt, run};
use insta::assert_snapshot;
use serde_json::{Value, json};
use tempfile::tempdir;

/// One row: what the model says, how the session is set up, and how many prompts are sent.
struct Row {
    name: &'static str,
    script: Value,
    set: fn(&mut Setup),
    prompts: usize,
}

/// One prompt to a session without limits, hooks or fallbacks.
fn row(name: &'static str, script: Value) -> Row {
    Row { name, script, set: |_| {}, prompts: 1 }
}

impl Row {
    fn with(self, set: fn(&mut Setup)) -> Self {
        Self { set, ..self }
    }

    fn twice(self) -> Self {
        Self { prompts: 2, ..self }
    }
}

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

/// The fields of a result that tell how its turn ended: `subtype`, `is_error` if it is one, `terminal_reason`,
/// `stop_reason` (`-` for none), `num_turns`, `result` or `errors`, and of the rarer fields those that are there.
fn ending(result: &Value) -> String {
    let word = |key: &str| result[key].as_str().unwrap_or("-").to_owned();
    let error = if result["is_error"] == true { " is_error" } else { "" };
    let text = if result["errors"].is_null() { &result["result"] } else { &result["errors"] };
    let mut fields = vec![
        format!("{}{error}", word("subtype")),
        word("terminal_reason"),
        word("stop_reason"),
        result["num_turns"].to_string(),
        text.to_string(),
    ];
    let rare = ["api_error", "api_error_status", "api_error_type", "structured_output"];
    let present = rare.into_iter().filter(|key| !result[*key].is_null());
    fields.extend(present.map(|key| format!("{key} {}", result[key])));
    fields.join(", ")
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
    if !result["is_error"].is_boolean() {
        faults.push("is_error");
    }
    if result["subtype"] == "success" && (!result["result"].is_string() || result.get("errors").is_some()) {
        faults.push("a success has a result and no errors");
    }
    if result["subtype"] != "success" && (result.get("result").is_some() || !result["errors"].is_array()) {
        faults.push("an error has errors and no result");
    }
    faults
}

/// Runs the rows; the endings, a line for each, behind the name of their row.
async fn endings(rows: Vec<Row>) -> String {
    let mut lines = Vec::new();
    for row in rows {
        let folder = tempdir().unwrap();
        let mut setup = Setup::new(row.script, folder.path());
        (row.set)(&mut setup);
        // One after the other: a prompt that comes in the middle of a turn would join it.
        let mut talk = Talk::start(setup);
        let mut last_was_error = false;
        for nth in 0..row.prompts {
            talk.send(prompt("go")).await;
            let result = talk.until(|frame| frame["type"] == "result").await;
            assert_eq!(faults(&result), [""; 0], "{}: {result}", row.name);
            let name = if nth == 0 { row.name } else { "- and again" };
            lines.push(format!("{name:<52}{}", ending(&result)));
            last_was_error = result["is_error"] == true;
        }
        let (rest, end) = talk.finish().await;
        assert!(of_type(&rest, "result").is_empty(), "{}: more results than prompts: {rest:?}", row.name);
        assert_eq!(end.last_was_error, last_was_error, "{}: the exit code follows the last result", row.name);
    }
    lines.join("\n")
}

#[tokio::test]
async fn limits_end_turns() {
    let tool = json!({"tools": [bash("echo one")]});
    let dear = json!({"tools": [bash("touch ran")], "in": 50_000, "out": 2_000});
    let cut = json!({"text": "part", "stop": "max_tokens", "in": 50_000});
    let cheap_cut = json!({"text": "part", "stop": "max_tokens", "in": 1, "out": 1});
    let broken = json!({"text": "gone", "usage": {"input_tokens": 50_000}, "cut": {"after_events": 3}});
    let rows = vec![
        row("a final answer", json!([{"text": "hi"}])),
        row("tools, then an answer", json!([tool, {"text": "done"}])),
        row("parallel tools count each", json!([{"tools": [bash("echo 1"), bash("echo 2")]}, {"text": "x"}])),
        row("max turns, and the next prompt starts anew", json!([tool, {"text": "fine"}]))
            .with(|s| max_turns(s, 1))
            .twice(),
        row("max turns of two", json!([tool])).with(|s| max_turns(s, 2)),
        row("an answer in the last round is an answer", json!([{"text": "x"}])).with(|s| max_turns(s, 1)),
        row("budget crossed by tools", json!([dear, {"text": "never"}])).with(budget).twice(),
        row("budget crossed by the answer", json!([{"text": "x", "in": 50_000}])).with(budget).twice(),
        row("budget crossed by an answer that was cut", json!([cut, {"text": "never"}])).with(budget),
        row("budget crossed while going on", json!([cheap_cut, {"text": "rest", "in": 50_000}])).with(budget),
        row("budget crossed by an answer that broke", json!({"turns": [broken, {"text": "never"}]}))
            .with(budget),
        row("a budget that holds", json!([{"text": "x", "in": 1, "out": 1}])).with(budget),
    ];
    assert_snapshot!(endings(rows).await, @r#"
    a final answer                                      success, completed, end_turn, 1, "hi"
    tools, then an answer                               success, completed, end_turn, 2, "done"
    parallel tools count each                           success, completed, end_turn, 3, "x"
    max turns, and the next prompt starts anew          error_max_turns is_error, max_turns, tool_use, 2, ["Reached maximum number of turns (1)"]
    - and again                                         success, completed, end_turn, 1, "fine"
    max turns of two                                    error_max_turns is_error, max_turns, tool_use, 3, ["Reached maximum number of turns (2)"]
    an answer in the last round is an answer            success, completed, end_turn, 1, "x"
    budget crossed by tools                             error_max_budget_usd is_error, budget_exhausted, tool_use, 1, ["Reached maximum budget ($0.001)"]
    - and again                                         error_max_budget_usd is_error, budget_exhausted, -, 1, ["Reached maximum budget ($0.001)"]
    budget crossed by the answer                        error_max_budget_usd is_error, budget_exhausted, end_turn, 1, ["Reached maximum budget ($0.001)"]
    - and again                                         error_max_budget_usd is_error, budget_exhausted, -, 1, ["Reached maximum budget ($0.001)"]
    budget crossed by an answer that was cut            error_max_budget_usd is_error, budget_exhausted, max_tokens, 1, ["Reached maximum budget ($0.001)"]
    budget crossed while going on                       error_max_budget_usd is_error, budget_exhausted, end_turn, 2, ["Reached maximum budget ($0.001)"]
    budget crossed by an answer that broke              error_max_budget_usd is_error, budget_exhausted, -, 1, ["Reached maximum budget ($0.001)"]
    a budget that holds                                 success, completed, end_turn, 1, "x"
    "#);
}

#[tokio::test]
async fn answers_end_turns_or_are_mended() {
    let cut = json!({"text": "part", "stop": "max_tokens"});
    let window = json!({"text": "part", "stop": "model_context_window_exceeded"});
    let refusal = json!({"text": "", "stop": "refusal"});
    let broken = |kind: &str| {
        let error = json!({"type": kind, "after_events": 4});
        json!({"turns": [{"text": "partial text here", "error_event": error}, {"text": "rest"}]})
    };
    let lost = json!({"text": "gone", "cut": {"after_events": 3}});
    let rows = vec![
        row("out of tokens once", json!([cut, {"text": " rest."}])),
        row("out of tokens three times", json!([cut, cut, cut, {"text": "end"}])),
        row("out of tokens for ever", json!([cut])),
        row("out of the context window", json!([window])),
        row("out of tokens at the last round", json!([cut])).with(|s| max_turns(s, 1)),
        row("refused once", json!([refusal, {"text": "well"}])),
        row("refused twice", json!([refusal])),
        row("refused, then answered by the fallback", json!([refusal, refusal, {"text": "ok"}]))
            .with(fallbacks),
        row("refused by everybody", json!([refusal])).with(fallbacks),
        row("pause_turn ends the turn", json!([{"text": "so far", "stop": "pause_turn"}])),
        row("a reason nobody knows ends the turn", json!([{"text": "x", "stop": "brand_new"}])),
        row("empty once", json!([{}, {"text": "b"}])),
        row("empty twice", json!([{}])),
        row("an error in mid-stream keeps what arrived", broken("api_error")),
        row("so does an overload in mid-stream", broken("overloaded_error")),
        row("a cut stream is asked for again", json!({"turns": [lost, {"text": "whole"}]})),
    ];
    assert_snapshot!(endings(rows).await, @r#"
    out of tokens once                                  success, completed, end_turn, 2, " rest."
    out of tokens three times                           success, completed, end_turn, 4, "end"
    out of tokens for ever                              success is_error, api_error, stop_sequence, 4, "API Error: the answer was longer than the 128000 output tokens a response may have, several times in a row. CLAUDE_CODE_MAX_OUTPUT_TOKENS sets the limit.", api_error "max_output_tokens"
    out of the context window                           success is_error, api_error, stop_sequence, 4, "API Error: the answer was longer than the 128000 output tokens a response may have, several times in a row. CLAUDE_CODE_MAX_OUTPUT_TOKENS sets the limit.", api_error "max_output_tokens"
    out of tokens at the last round                     error_max_turns is_error, max_turns, max_tokens, 1, ["Reached maximum number of turns (1)"]
    refused once                                        success, completed, end_turn, 2, "well"
    refused twice                                       success is_error, api_error, refusal, 2, "API Error: claude-opus-5-5 refused to answer this. Rephrase the request in a new session, or choose another model."
    refused, then answered by the fallback              success, completed, end_turn, 2, "ok"
    refused by everybody                                success is_error, api_error, refusal, 2, "API Error: claude-haiku-4-5 refused to answer this. Rephrase the request in a new session, or choose another model."
    pause_turn ends the turn                            success, completed, pause_turn, 1, "so far"
    a reason nobody knows ends the turn                 success, completed, brand_new, 1, "x"
    empty once                                          success, completed, end_turn, 2, "b"
    empty twice                                         success, completed, end_turn, 2, ""
    an error in mid-stream keeps what arrived           success, completed, end_turn, 2, "rest"
    so does an overload in mid-stream                   success, completed, end_turn, 2, "rest"
    a cut stream is asked for again                     success, completed, end_turn, 1, "whole"
    "#);
}

/// Answers that end in a way that does not go with what they hold.
#[tokio::test]
async fn odd_answers_end_turns_or_are_mended() {
    let cut = json!({"text": "part", "stop": "max_tokens"});
    let half = json!({"tools": [{"name": "Bash", "raw": "{\"command\": \"touch ran"}], "stop": "max_tokens"});
    let call = |stop: &str| json!({"tools": [bash("touch one"), bash("touch two")], "stop": stop});
    let thought = json!({"thinking": "hm"});
    let work = json!({"tools": [bash("echo one")]});
    let twins = json!({"tools": [
        {"name": "Bash", "id": "same", "input": {"command": "echo 1"}},
        {"name": "Bash", "id": "same", "input": {"command": "echo 2"}},
    ]});
    let elsewhere =
        json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}});
    let rows = vec![
        row("the output limit cuts a call", json!([half, {"text": "in pieces"}])),
        row("the output limit cuts every call", json!([half])),
        row("calls that are whole run, limit or not", json!([call("max_tokens"), {"text": "x"}])),
        row(
            "work in between makes up for limits before",
            json!([cut, cut, cut, work, cut, cut, {"text": "x"}]),
        ),
        row("refused behind calls", json!([call("refusal"), {"text": "well"}])),
        row("refused behind calls for ever", json!([call("refusal")])),
        row("refused with half a text", json!([{"text": "I will", "stop": "refusal"}, {"text": "well"}])),
        row("thought and said nothing", json!([thought, {"text": "b"}])),
        row("thought and said nothing twice", json!([thought])),
        row("a stop sequence", json!([{"text": "x", "stop": "stop_sequence"}])),
        row("a call announced and not made", json!([{"text": "x", "stop": "tool_use"}])),
        row(
            "a call made and not announced",
            json!([{"tools": [bash("echo 1")], "stop": "end_turn"}, {"text": "x"}]),
        ),
        // lax: no request may have one id twice, so the API never answers like this; the turn must end all the same.
        row("two calls of one name", json!({"lax": true, "turns": [twins, {"text": "x"}]})),
        row(
            "a pause of a tool that runs elsewhere",
            json!({"turns": [{"stop": "pause_turn", "blocks": [{"block": elsewhere}]}]}),
        ),
    ];
    assert_snapshot!(endings(rows).await, @r#"
    the output limit cuts a call                        success, completed, end_turn, 3, "in pieces"
    the output limit cuts every call                    success is_error, api_error, stop_sequence, 8, "API Error: the answer was longer than the 128000 output tokens a response may have, several times in a row. CLAUDE_CODE_MAX_OUTPUT_TOKENS sets the limit.", api_error "max_output_tokens"
    calls that are whole run, limit or not              success, completed, end_turn, 3, "x"
    work in between makes up for limits before          success, completed, end_turn, 7, "x"
    refused behind calls                                success, completed, end_turn, 4, "well"
    refused behind calls for ever                       success is_error, api_error, refusal, 6, "API Error: claude-opus-5-5 refused to answer this. Rephrase the request in a new session, or choose another model."
    refused with half a text                            success, completed, end_turn, 2, "well"
    thought and said nothing                            success, completed, end_turn, 2, "b"
    thought and said nothing twice                      success, completed, end_turn, 2, ""
    a stop sequence                                     success, completed, stop_sequence, 1, "x"
    a call announced and not made                       success, completed, tool_use, 1, "x"
    a call made and not announced                       success, completed, end_turn, 2, "x"
    two calls of one name                               success, completed, end_turn, 3, "x"
    a pause of a tool that runs elsewhere               success, completed, pause_turn, 1, ""
    "#);
}

/// Streams that break at one point or another.
#[tokio::test]
async fn broken_answers_end_turns_or_are_mended() {
    let error = |after: u32| {
        let at = json!({"type": "api_error", "message": "inside", "after_events": after});
        json!({"blocks": [{"text": "one"}, {"text": "two"}], "error_event": at})
    };
    // message_start, then start, delta and stop of each block, then message_delta and message_stop.
    let cut = |after: u32| json!({"text": "whole", "cut": {"after_events": after}});
    let then = |first: Value| json!({"turns": [first, {"text": "rest"}]});
    let rows = vec![
        row("an error before anything", then(error(0))),
        row("an error before any block", then(error(1))),
        row("an error between two blocks", then(error(4))),
        row("an error behind the blocks", then(error(7))),
        row("an error behind the end of the answer", then(error(8))),
        row("a cut behind the end of the answer", then(cut(5))),
        row("a cut behind the last block", then(cut(4))),
        row("an error in every stream", json!({"turns": [error(3)]})),
    ];
    assert_snapshot!(endings(rows).await, @r#"
    an error before anything                            success, completed, end_turn, 1, "rest"
    an error before any block                           success, completed, end_turn, 1, "rest"
    an error between two blocks                         success, completed, end_turn, 2, "rest"
    an error behind the blocks                          success, completed, end_turn, 2, "rest"
    an error behind the end of the answer               success, completed, end_turn, 1, "two"
    a cut behind the end of the answer                  success, completed, end_turn, 1, "whole"
    a cut behind the last block                         success, completed, end_turn, 2, "rest"
    an error in every stream                            success is_error, api_error, stop_sequence, 4, "API Error: inside", api_error_type "api_error"
    "#);
}

#[tokio::test]
async fn failures_end_turns_or_pass() {
    let status = |status: u16| json!({"error": status});
    let own_model_first = |setup: &mut Setup| {
        setup.fallbacks = vec!["claude-opus-5-5".to_owned(), "claude-sonnet-4-5".to_owned()];
        setup.max_retries = 0;
    };
    let one_retry = |setup: &mut Setup| {
        fallbacks(setup);
        setup.max_retries = 1;
    };
    let rows = vec![
        row("400", json!([status(400)])),
        row("401 is not retried", json!([status(401), {"text": "never"}])),
        row("413", json!([status(413)])),
        row("500 for ever", json!([status(500)])),
        row("529, then there", json!([status(529), {"text": "there"}])),
        row(
            "529 three times, then the fallback",
            json!([status(529), status(529), status(529), {"text": "fb"}]),
        )
        .with(fallbacks),
        row("500, then the fallback at once", json!([status(500), {"text": "fb"}])).with(fallbacks),
        row("a fallback that is the model itself is passed over", json!([status(500), {"text": "fb"}]))
            .with(own_model_first),
        row("500 from everybody", json!([status(500)])).with(one_retry),
        row("a failed prompt does not spoil the next", json!([status(400), {"text": "fine"}])).twice(),
    ];
    assert_snapshot!(endings(rows).await, @r#"
    400                                                 success is_error, api_error, stop_sequence, 1, "API Error: 400 scripted", api_error_status 400, api_error_type "invalid_request_error"
    401 is not retried                                  success is_error, api_error, stop_sequence, 1, "Failed to authenticate. API Error: 401 scripted", api_error_status 401, api_error_type "authentication_error"
    413                                                 success is_error, image_error, stop_sequence, 1, "API Error: 413 scripted · the conversation with its images and attachments is larger than the API accepts: leave some out, or compact it", api_error_status 413, api_error_type "request_too_large"
    500 for ever                                        success is_error, api_error, stop_sequence, 1, "API Error: 500 scripted · the fault is on the server's side and usually passes", api_error_status 500, api_error_type "api_error"
    529, then there                                     success, completed, end_turn, 1, "there"
    529 three times, then the fallback                  success, completed, end_turn, 1, "fb"
    500, then the fallback at once                      success, completed, end_turn, 1, "fb"
    a fallback that is the model itself is passed over  success, completed, end_turn, 1, "fb"
    500 from everybody                                  success is_error, api_error, stop_sequence, 1, "API Error: 500 scripted · the fault is on the server's side and usually passes", api_error_status 500, api_error_type "api_error"
    a failed prompt does not spoil the next             success is_error, api_error, stop_sequence, 1, "API Error: 400 scripted", api_error_status 400, api_error_type "invalid_request_error"
    - and again                                         success, completed, end_turn, 1, "fine"
    "#);
}

#[tokio::test]
async fn structured_answers_end_turns() {
    fn attempts(setup: &mut Setup, limit: u32) {
        schema(setup);
        setup.limits.max_structured_attempts = limit;
    }
    let last_round = |setup: &mut Setup| {
        schema(setup);
        max_turns(setup, 1);
    };
    let with_fallbacks = |setup: &mut Setup| {
        schema(setup);
        fallbacks(setup);
    };
    let with_budget = |setup: &mut Setup| {
        schema(setup);
        budget(setup);
    };
    let bob = structured(json!({"name": "Bob"}));
    let wrong = structured(json!({"name": 7}));
    let both = json!({"tools": [bash("echo one"), {"name": "StructuredOutput", "input": {"name": "Bob"}}]});
    let no_json = json!({"tools": [{"name": "StructuredOutput", "raw": "{\"na"}]});
    let cut =
        json!({"tools": [{"name": "StructuredOutput", "raw": "{\"name\": \"Bo"}], "stop": "max_tokens"});
    let rows = vec![
        row("a structured answer ends the turn", json!([bob, {"text": "never"}])).with(schema),
        row("one for each prompt", json!([bob, wrong, bob])).with(schema).twice(),
        row("tools before it", json!([{"tools": [bash("echo one")]}, bob])).with(schema),
        row("tools beside it", json!([both])).with(schema),
        row("wrong once", json!([wrong, bob])).with(schema),
        row("wrong for ever", json!([wrong])).with(schema).twice(),
        row("wrong as often as was allowed", json!([wrong])).with(|s| attempts(s, 2)),
        row("input that is no JSON counts as wrong", json!([no_json])).with(|s| attempts(s, 1)),
        row("text is asked for once more", json!([{"text": "no"}, bob])).with(schema),
        row("text twice is text", json!([{"text": "no tool"}])).with(schema),
        row("text in the last round", json!([{"text": "no"}])).with(last_round),
        row("given in the last round", json!([bob])).with(last_round),
        row("given by the fallback", json!([{"error": 500}, bob])).with(with_fallbacks),
        row("cut by the output limit", json!([cut, bob])).with(schema),
        row("given beyond the budget", json!([{"tools": bob["tools"], "in": 50_000}])).with(with_budget),
    ];
    assert_snapshot!(endings(rows).await, @r#"
    a structured answer ends the turn                   success, completed, tool_use, 2, "{\"name\":\"Bob\"}", structured_output {"name":"Bob"}
    one for each prompt                                 success, completed, tool_use, 2, "{\"name\":\"Bob\"}", structured_output {"name":"Bob"}
    - and again                                         success, completed, tool_use, 3, "{\"name\":\"Bob\"}", structured_output {"name":"Bob"}
    tools before it                                     success, completed, tool_use, 3, "{\"name\":\"Bob\"}", structured_output {"name":"Bob"}
    tools beside it                                     success, completed, tool_use, 3, "{\"name\":\"Bob\"}", structured_output {"name":"Bob"}
    wrong once                                          success, completed, tool_use, 3, "{\"name\":\"Bob\"}", structured_output {"name":"Bob"}
    wrong for ever                                      error_max_structured_output_retries is_error, structured_output_retry_exhausted, tool_use, 6, ["Failed to provide valid structured output after 5 attempts — last StructuredOutput error: Output does not match required schema: /name: must be string"]
    - and again                                         error_max_structured_output_retries is_error, structured_output_retry_exhausted, tool_use, 6, ["Failed to provide valid structured output after 5 attempts — last StructuredOutput error: Output does not match required schema: /name: must be string"]
    wrong as often as was allowed                       error_max_structured_output_retries is_error, structured_output_retry_exhausted, tool_use, 3, ["Failed to provide valid structured output after 2 attempts — last StructuredOutput error: Output does not match required schema: /name: must be string"]
    input that is no JSON counts as wrong               error_max_structured_output_retries is_error, structured_output_retry_exhausted, tool_use, 2, ["Failed to provide valid structured output after 1 attempts — last StructuredOutput error: <tool_use_error>InputValidationError: StructuredOutput was called with input that could not be parsed as JSON.\nYou sent (first 4 of 4 bytes): {\"na\nSend the call again as one valid JSON object; check backslashes, control characters and the end of the input.</tool_use_error>"]
    text is asked for once more                         success, completed, tool_use, 3, "{\"name\":\"Bob\"}", structured_output {"name":"Bob"}
    text twice is text                                  success, completed, end_turn, 2, "no tool"
    text in the last round                              error_max_turns is_error, max_turns, end_turn, 1, ["Reached maximum number of turns (1)"]
    given in the last round                             success, completed, tool_use, 2, "{\"name\":\"Bob\"}", structured_output {"name":"Bob"}
    given by the fallback                               success, completed, tool_use, 2, "{\"name\":\"Bob\"}", structured_output {"name":"Bob"}
    cut by the output limit                             success, completed, tool_use, 4, "{\"name\":\"Bob\"}", structured_output {"name":"Bob"}
    given beyond the budget                             error_max_budget_usd is_error, budget_exhausted, tool_use, 1, ["Reached maximum budget ($0.001)"]
    "#);
}

#[tokio::test]
async fn hooks_end_turns() {
    fn stop_blocks(setup: &mut Setup) {
        setup.hooks = hook("Stop", json!({"decision": "block", "reason": "more"}));
    }
    fn stop_ends(setup: &mut Setup) {
        setup.hooks = hook("Stop", json!({"continue": false}));
    }
    let one = json!([{"text": "one"}]);
    let tool = json!([{"tools": [bash("touch ran")]}, {"text": "never"}]);
    let rows = vec![
        row("a stop hook blocks until the cap", one.clone()).with(stop_blocks),
        row("the cap can be set", one.clone()).with(|s| {
            stop_blocks(s);
            s.limits.max_stop_blocks = 2;
        }),
        row("a stop hook ends it for good", one.clone()).with(stop_ends),
        row("blocks count as rounds", one).with(|s| {
            stop_blocks(s);
            max_turns(s, 2);
        }),
        row("a hook before the tool ends the turn after it", tool.clone())
            .with(|s| s.hooks = hook("PreToolUse", json!({"continue": false}))),
        row("a hook behind the tool ends the turn", tool)
            .with(|s| s.hooks = hook("PostToolUse", json!({"continue": false}))),
        row("a hook refuses the prompt", json!([{"text": "never"}]))
            .with(|s| s.hooks = hook("UserPromptSubmit", json!({"decision": "block", "reason": "no"}))),
        row("stop hooks are asked about structured answers too", json!([structured(json!({"name": "Bob"}))]))
            .with(|s| {
                schema(s);
                stop_ends(s);
            }),
    ];
    assert_snapshot!(endings(rows).await, @r#"
    a stop hook blocks until the cap                    success, completed, end_turn, 10, ""
    the cap can be set                                  success, completed, end_turn, 4, ""
    a stop hook ends it for good                        success, stop_hook_prevented, end_turn, 1, "one"
    blocks count as rounds                              error_max_turns is_error, max_turns, end_turn, 3, ["Reached maximum number of turns (2)"]
    a hook before the tool ends the turn after it       success, hook_stopped, tool_use, 2, ""
    a hook behind the tool ends the turn                success, hook_stopped, tool_use, 2, ""
    a hook refuses the prompt                           success, -, -, 0, "A hook refused this prompt: no"
    stop hooks are asked about structured answers too   success, stop_hook_prevented, tool_use, 2, "{\"name\":\"Bob\"}", structured_output {"name":"Bob"}
    "#);
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
    let told = frames.iter().filter(|frame| frame["type"] == "system" && frame["subtype"] != "init");
    let told: Vec<String> =
        told.map(|frame| format!("{} {}", frame["subtype"], frame["fallback_model"])).collect();
    assert_snapshot!(told.join("\n"), @r#"
    "api_retry" null
    "api_retry" null
    "model_fallback" "claude-sonnet-4-5"
    "api_retry" null
    "api_retry" null
    "model_fallback" "claude-haiku-4-5"
    "#);
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
    assert_snapshot!(kinds(&frames).join("\n"), @r"
    system init
    assistant text
    user text
    system notification
    assistant text
    user text
    system informational
    system notification
    result success
    ");
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
    let switches: Vec<String> = frames
        .iter()
        .filter(|frame| frame["subtype"] == "model_refusal_fallback")
        .map(|frame| format!("{} {}", frame["original_model"], frame["fallback_model"]))
        .collect();
    assert_snapshot!(switches.join("\n"), @r#"
    "claude-opus-5-5" "claude-sonnet-4-5"
    "claude-sonnet-4-5" "claude-haiku-4-5"
    "#);
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
