//! Every way a turn can end, through a real session on a scripted model: the table of `decide.rs` as the
//! host sees it.

mod common;

use common::{Setup, kinds, of_type, run};
use lathe_agent::TurnLimits;
use serde_json::{Value, json};
use tempfile::tempdir;

/// The one result of a run.
fn result(frames: &[Value]) -> &Value {
    let results = of_type(frames, "result");
    assert_eq!(results.len(), 1, "exactly one result: {:?}", kinds(frames));
    results[0]
}

#[tokio::test]
async fn an_answer_ends_the_turn() {
    let folder = tempdir().unwrap();
    let (frames, end) = run(Setup::new(json!([{"text": "hi"}]), folder.path()), &["hello"]).await;
    assert_eq!(kinds(&frames), ["system init", "assistant text", "result success"]);
    assert_eq!(result(&frames)["result"], "hi");
    assert_eq!(result(&frames)["terminal_reason"], "completed");
    assert!(!end.last_was_error);
}

#[tokio::test]
async fn tools_run_and_their_results_go_back() {
    let folder = tempdir().unwrap();
    let script = json!([
        {"tools": [{"name": "Bash", "input": {"command": "echo one"}}, {"name": "Bash", "input": {"command": "echo two"}}]},
        {"text": "done"},
    ]);
    let (frames, _) = run(Setup::new(script, folder.path()), &["go"]).await;
    let result = result(&frames);
    assert_eq!(result["num_turns"], 3);
    let answers: Vec<&Value> = of_type(&frames, "user");
    let mut texts: Vec<&str> =
        answers.iter().filter_map(|frame| frame["message"]["content"][0]["content"].as_str()).collect();
    texts.sort_unstable();
    assert_eq!(texts, ["one", "two"]);
}

#[tokio::test]
async fn the_last_round_still_runs_its_tools() {
    let folder = tempdir().unwrap();
    let script = json!([{"tools": [{"name": "Bash", "input": {"command": "touch ran"}}]}, {"text": "never"}]);
    let mut setup = Setup::new(script, folder.path());
    setup.limits = TurnLimits { max_rounds: Some(1), ..TurnLimits::default() };
    let (frames, end) = run(setup, &["go"]).await;
    let result = result(&frames);
    assert_eq!(result["subtype"], "error_max_turns");
    assert_eq!(result["errors"], json!(["Reached maximum number of turns (1)"]));
    assert_eq!(result["num_turns"], 2);
    assert!(result.get("result").is_none());
    assert!(folder.path().join("ran").exists());
    assert!(end.last_was_error);
}

#[tokio::test]
async fn the_answer_that_crosses_the_budget_is_the_last_and_its_tools_do_not_run() {
    let folder = tempdir().unwrap();
    let script = json!([
        {"tools": [{"name": "Bash", "input": {"command": "touch ran"}}], "in": 50000, "out": 2000},
        {"text": "never"},
    ]);
    let mut setup = Setup::new(script, folder.path());
    setup.max_budget_usd = Some(0.001);
    let (frames, _) = run(setup, &["go", "again"]).await;
    let results = of_type(&frames, "result");
    assert_eq!(results.len(), 2, "every later prompt fails at once");
    for result in &results {
        assert_eq!(result["subtype"], "error_max_budget_usd");
        assert_eq!(result["errors"], json!(["Reached maximum budget ($0.001)"]));
    }
    assert_eq!(of_type(&frames, "assistant").len(), 1);
    assert!(!folder.path().join("ran").exists());
}

#[tokio::test]
async fn an_answer_that_is_cut_by_the_output_limit_goes_on_three_times() {
    let folder = tempdir().unwrap();
    let once = json!([{"text": "part", "stop": "max_tokens"}, {"text": " rest."}]);
    let (frames, _) = run(Setup::new(once, folder.path()), &["go"]).await;
    assert_eq!(result(&frames)["result"], " rest.");
    assert_eq!(result(&frames)["num_turns"], 2);
    let for_ever = json!([{"text": "part", "stop": "max_tokens"}]);
    let (frames, end) = run(Setup::new(for_ever, folder.path()), &["go"]).await;
    let result = result(&frames);
    assert_eq!(of_type(&frames, "user").len(), 3);
    assert_eq!(result["api_error"], "max_output_tokens");
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(true)));
    assert!(end.last_was_error);
}

#[tokio::test]
async fn refusals_and_empty_answers_get_one_more_try() {
    let folder = tempdir().unwrap();
    let refusal = json!([{"text": "", "stop": "refusal"}]);
    let (frames, _) = run(Setup::new(refusal, folder.path()), &["go"]).await;
    assert_eq!(result(&frames)["stop_reason"], "refusal");
    assert_eq!(result(&frames)["is_error"], true);
    assert!(kinds(&frames).contains(&"system model_refusal_no_fallback".to_owned()));
    let (frames, end) = run(Setup::new(json!([{}]), folder.path()), &["go"]).await;
    assert_eq!(result(&frames)["result"], "");
    assert_eq!(of_type(&frames, "user").len(), 1, "one nudge");
    assert!(!end.last_was_error);
}

#[tokio::test]
async fn an_overload_passes_and_a_refused_key_fails_at_once() {
    let folder = tempdir().unwrap();
    let overload = json!([{"error": 529, "etype": "overloaded_error"}, {"text": "there"}]);
    let (frames, _) = run(Setup::new(overload, folder.path()), &["go"]).await;
    assert_eq!(kinds(&frames), ["system init", "system api_retry", "assistant text", "result success"]);
    let refused = json!([{"error": 401, "etype": "authentication_error"}]);
    let (frames, end) = run(Setup::new(refused, folder.path()), &["go"]).await;
    assert_eq!(kinds(&frames), ["system init", "assistant text", "result success"]);
    let result = result(&frames);
    assert_eq!(result["api_error_status"], 401);
    assert!(result["result"].as_str().unwrap().starts_with("Failed to authenticate. API Error: 401"));
    assert!(end.last_was_error);
}

#[tokio::test]
async fn a_model_that_stays_overloaded_gives_way_to_the_fallback() {
    let folder = tempdir().unwrap();
    let busy = json!({"error": 529, "etype": "overloaded_error"});
    let script = json!([busy, busy, busy, {"text": "from the fallback"}]);
    let mut setup = Setup::new(script, folder.path());
    setup.fallbacks = vec!["claude-sonnet-4-5".to_owned()];
    setup.max_retries = 5;
    let (frames, _) = run(setup, &["go"]).await;
    let fallback = frames.iter().find(|frame| frame["subtype"] == "model_fallback").unwrap();
    assert_eq!(fallback["original_model"], "claude-opus-5-5");
    assert_eq!(fallback["fallback_model"], "claude-sonnet-4-5");
    assert_eq!(fallback["trigger"], "overloaded");
    assert_eq!(result(&frames)["result"], "from the fallback");
}

#[tokio::test]
async fn unknown_tools_and_bad_inputs_are_answered() {
    let folder = tempdir().unwrap();
    let script = json!([
        {"tools": [{"name": "Nope", "input": {}}, {"name": "Read", "input": {}}, {"name": "Read", "raw": "{\"file"}]},
        {"text": "ok"},
    ]);
    let (frames, _) = run(Setup::new(script, folder.path()), &["go"]).await;
    let contents: Vec<String> = of_type(&frames, "user")
        .iter()
        .map(|frame| frame["message"]["content"][0]["content"].as_str().unwrap_or("").to_owned())
        .collect();
    assert_eq!(contents.len(), 3);
    assert!(contents.iter().any(|text| text.contains("No such tool available: Nope")));
    let invalid = contents.iter().filter(|text| text.contains("InputValidationError")).count();
    assert_eq!(invalid, 2);
    assert_eq!(result(&frames)["permission_denials"], json!([]));
}
