//! Replays the Bash calls of the recordings and compares what comes back, modulo paths.

#![allow(clippy::disallowed_methods, reason = "tests work on real files")]

mod support;

use std::collections::HashMap;
use std::path::Path;

use lathe_testkit::recordings;
use serde_json::Value;
use support::{Folder, Seen};

/// Recordings whose Bash calls stand for themselves.
const RECORDINGS: [&str; 3] = ["runtime/02_bash", "runtime/17_conc_err_sibling", "wire/tool_fail"];

/// Input and outcome of every Bash call.
fn calls(recording: &Path) -> Vec<(Value, Seen)> {
    let text = std::fs::read_to_string(recording.join("stdout.jsonl")).unwrap();
    let mut inputs = HashMap::new();
    let mut calls = Vec::new();
    for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        for block in line["message"]["content"].as_array().into_iter().flatten() {
            if block["type"] == "tool_use" && block["name"] == "Bash" {
                inputs.insert(block["id"].to_string(), block["input"].clone());
            }
            if block["type"] == "tool_result"
                && let Some(input) = inputs.get(&block["tool_use_id"].to_string())
            {
                let seen = Seen {
                    content: block["content"].clone(),
                    is_error: block["is_error"] == true,
                    result: line["tool_use_result"].clone(),
                };
                calls.push((input.clone(), seen));
            }
        }
    }
    calls
}

fn cwd(recording: &Path) -> String {
    let argv = std::fs::read_to_string(recording.join("argv.json")).unwrap();
    let argv: Value = serde_json::from_str(&argv).unwrap();
    argv["cwd"].as_str().unwrap().to_owned()
}

fn with_paths_of(recording_cwd: &str, value: &Value, root: &Path) -> Value {
    let text = value.to_string().replace(root.to_str().unwrap(), recording_cwd);
    serde_json::from_str(&text).unwrap()
}

async fn replay(recording: &Path) -> usize {
    let folder = Folder::with(|workspace| {
        workspace.env = std::sync::Arc::new(lathe_tools::ChildEnvironment::new(
            lathe_tools::ChildVariables::unrestricted(vec![(
                "PATH".into(),
                "/usr/local/bin:/usr/bin:/bin".into(),
            )]),
        ));
    });
    folder.write("a.txt", "line one\nline two\nline three\n");
    folder.write("noeol.txt", "x\ny");
    folder.write("sub/x", "");
    let root = folder.context.workspace.root.clone();
    let cwd = cwd(recording);
    let mut compared = 0;
    for (input, expected) in calls(recording) {
        let command = input["command"].as_str().unwrap_or_default();
        // Background work comes later; the environment is that of the recorded session.
        if input["run_in_background"] == true || command.starts_with("env |") {
            continue;
        }
        let actual = folder.call("Bash", input.clone()).await;
        assert_eq!(actual.is_error, expected.is_error, "{command}: {actual:?}");
        let content = with_paths_of(&cwd, &actual.content, &root);
        let result = with_paths_of(&cwd, &actual.result, &root);
        match command {
            "seq 1 20000" => assert_same_large_output(&expected, &content, &result),
            // The words about hidden characters are ours; their form is not.
            command if command.contains('\u{1b}') => {
                let lead =
                    |text: &Value| text.as_str().unwrap().split("\"message\"").next().unwrap().to_owned();
                assert_eq!(lead(&content), lead(&expected.content));
            }
            command => {
                assert_eq!(content, expected.content, "{command}");
                assert_eq!(
                    result.to_string(),
                    expected.result.to_string(),
                    "{command}: fields and their order"
                );
            }
        }
        compared += 1;
    }
    compared
}

/// The same facts in other words: the block, the size, the file, the beginning.
fn assert_same_large_output(expected: &Seen, content: &Value, result: &Value) {
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(result), keys(&expected.result));
    assert_eq!(result["persistedOutputSize"], expected.result["persistedOutputSize"]);
    let expected_stdout = expected.result["stdout"].as_str().unwrap();
    let (head, length) = expected_stdout.split_once("…[").unwrap();
    assert!(result["stdout"].as_str().unwrap().starts_with(head));
    assert_eq!(length, format!("{} characters]", result["stdout"].as_str().unwrap().chars().count()));
    let content = content.as_str().unwrap();
    for fact in
        ["<persisted-output>\n", "106.3KB", result["persistedOutputPath"].as_str().unwrap(), "\n1\n2\n3\n"]
    {
        assert!(content.contains(fact), "{fact} in {content}");
    }
}

#[tokio::test]
async fn bash_calls_come_out_as_recorded() {
    let Some(recordings) = recordings() else { return };
    let [a, b, c] = RECORDINGS.map(|recording| recordings.join(recording));
    let (a, b, c) = tokio::join!(replay(&a), replay(&b), replay(&c));
    let compared = a + b + c;
    assert!(compared >= 24, "only {compared} calls were compared");
}
