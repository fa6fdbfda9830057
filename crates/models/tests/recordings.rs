//! Prices, windows and failures against real runs of the reference CLI, where their recordings are at hand.

use std::fs;
use std::path::PathBuf;

use lathe_models::failure::ApiFailure;
use lathe_models::prices::{CostBasis, price};
use lathe_models::{ModelError, catalog};
use lathe_protocol::Usage;
use serde_json::{Value, json};

/// The frames of every recorded run, with its name; none where there are no recordings.
fn frames() -> Option<Vec<(String, Value)>> {
    let root = lathe_testkit::recordings()?;
    let kinds = ["wire", "runtime"].map(|kind| fs::read_dir(root.join(kind)).expect("it was recorded"));
    let runs = kinds.into_iter().flatten().flatten();
    let mut found = Vec::new();
    for run in runs {
        let file: PathBuf = run.path().join("stdout.jsonl");
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        found.extend(lines.map(|line| (run.file_name().to_string_lossy().into_owned(), line)));
    }
    Some(found)
}

#[test]
fn costs_and_windows_agree() {
    let mut compared = 0;
    let Some(all) = frames() else { return };
    for (run, result) in all.iter().filter(|(_, frame)| frame["type"] == "result") {
        let Some(models) = result["modelUsage"].as_object() else { continue };
        for (model, told) in models {
            let usage: Usage = serde_json::from_value(json!({
                "input_tokens": told["inputTokens"],
                "output_tokens": told["outputTokens"],
                "cache_read_input_tokens": told["cacheReadInputTokens"],
                "cache_creation_input_tokens": told["cacheCreationInputTokens"],
                "cache_creation": {"ephemeral_1h_input_tokens": told["cacheCreationEphemeral1hInputTokens"]},
                "server_tool_use": {"web_search_requests": told["webSearchRequests"]},
            }))
            .unwrap();
            let priced = price(&usage, model);
            let expected = told["costUSD"].as_f64().unwrap();
            assert!((priced.cost.usd() - expected).abs() < 1e-9, "{run}: {} {told}", priced.cost.usd());
            if told["costBasis"] == "list" {
                assert_eq!(priced.basis, CostBasis::List, "{run}: {model}");
                let capabilities = catalog::capabilities(model);
                assert_eq!(told["contextWindow"], capabilities.context_window, "{run}: {model}");
                assert_eq!(told["maxOutputTokens"], capabilities.max_output_tokens, "{run}: {model}");
            }
            compared += 1;
        }
    }
    assert!(compared > 100, "only {compared} costs were compared");
}

#[test]
fn failures_have_the_same_codes() {
    let mut compared = 0;
    let Some(all) = frames() else { return };
    let failed =
        all.iter().filter(|(_, frame)| frame["api_error_status"].is_u64() && frame["type"] == "assistant");
    for (run, frame) in failed {
        let status = frame["api_error_status"].as_u64().unwrap() as u16;
        let error = ModelError::from_api(Some(status), frame["api_error_type"].as_str(), "scripted");
        let failure = ApiFailure::new(&error, "claude-opus-5-5");
        assert_eq!(frame["error"], failure.error, "{run}");
        let text = frame["message"]["content"][0]["text"].as_str().unwrap();
        if [400, 401, 403, 429].contains(&status) {
            assert_eq!(text, failure.text, "{run}");
        }
        compared += 1;
    }
    let results = all.iter().filter(|(_, frame)| frame["type"] == "result");
    for (run, result) in results.filter(|(_, frame)| frame["api_error_status"].is_u64()) {
        let status = result["api_error_status"].as_u64().unwrap() as u16;
        let error = ModelError::from_api(Some(status), result["api_error_type"].as_str(), "scripted");
        let failure = ApiFailure::new(&error, "claude-opus-5-5");
        assert_eq!(result["terminal_reason"], failure.terminal_reason, "{run}");
    }
    assert!(compared >= 8, "only {compared} failures were compared");
}

#[test]
fn retries_have_the_same_names() {
    let Some(all) = frames() else { return };
    for (run, frame) in all.iter().filter(|(_, frame)| frame["subtype"] == "api_retry") {
        let error = match frame["error_status"].as_u64() {
            Some(status) => ModelError::from_api(Some(status as u16), None, "scripted"),
            None => ModelError::new(lathe_models::ErrorKind::StreamCut, "cut"),
        };
        assert_eq!(frame["error"], error.kind.wire_name(), "{run}");
    }
}
