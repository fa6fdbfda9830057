//! Replays the tool calls of the recordings and compares what comes back, modulo paths.
//!
//! The files a call needs are made from what the recording says was in them. Where our words differ from
//! the recorded ones on purpose, only the sentence that programs know is compared: see [`OWN_WORDS`].

#![allow(clippy::disallowed_methods, reason = "tests work on real files")]

mod support;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use base64::Engine as _;
use lathe_testkit::recordings;
use regex::Regex;
use serde_json::{Value, json};
use support::{Folder, Seen};

const TOOLS: [&str; 6] = ["Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep"];

/// What marks a call that never reached its tool.
const NOT_RUN: [&str; 8] = [
    "ermission",
    "hook",
    "plan mode",
    "sensitive file",
    "Auto mode",
    "could not be parsed",
    "Read deny rule",
    "rejected",
];

/// Beginnings after which the advice is ours.
const OWN_WORDS: [&str; 8] = [
    "This tool cannot read binary files. The file appears to be a binary .dat file.",
    "File content (644.5KB) exceeds maximum allowed size (256KB).",
    "Invalid pages parameter: \"x\".",
    "is a directory, not a file.",
    "but replace_all is false.",
    "(note: the file had been modified on disk since you last read it",
    "File must be a Jupyter notebook (.ipynb file).",
    "pdftoppm is not installed.",
];

static IDS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("(\\\\\"id\\\\\": \\\\\"|Inserted cell |\"cell_id\":\")[0-9a-f]{8}").unwrap()
});
static DURATIONS: LazyLock<Regex> = LazyLock::new(|| Regex::new("\"durationMs\":\\d+").unwrap());
static CUT: LazyLock<Regex> = LazyLock::new(|| Regex::new("…\\[(\\d+) characters\\]$").unwrap());

/// One call and its outcome.
struct Call {
    name: String,
    input: Value,
    expected: Seen,
}

fn calls(recording: &Path) -> Vec<Call> {
    let text = std::fs::read_to_string(recording.join("stdout.jsonl")).unwrap_or_default();
    let mut inputs = HashMap::new();
    let mut calls = Vec::new();
    for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let blocks = line["message"]["content"].as_array().cloned().unwrap_or_default();
        for block in blocks {
            if block["type"] == "tool_use" {
                inputs.insert(block["id"].clone().to_string(), block.clone());
            }
            if block["type"] != "tool_result" || line["tool_use_result"].is_null() {
                continue;
            }
            let Some(used) = inputs.get(&block["tool_use_id"].to_string()) else { continue };
            let name = used["name"].as_str().unwrap_or_default().to_owned();
            let expected = Seen {
                content: block["content"].clone(),
                is_error: block["is_error"] == true,
                result: line["tool_use_result"].clone(),
            };
            calls.push(Call { name, input: used["input"].clone(), expected });
        }
    }
    calls
}

/// The working directory of a recording.
fn cwd(recording: &Path) -> String {
    let argv = std::fs::read_to_string(recording.join("argv.json")).unwrap_or_default();
    let argv: Value = serde_json::from_str(&argv).unwrap_or_default();
    argv["cwd"].as_str().unwrap_or("/rec").to_owned()
}

/// Gives every file its first content, as far as the calls tell it.
fn prepare(folder: &Folder, cwd: &str, calls: &[Call]) {
    let mut known: HashMap<String, bool> = HashMap::new();
    for call in calls {
        let input = &call.input;
        let path = input["file_path"].as_str().or(input["notebook_path"].as_str());
        let Some(path) = path else { continue };
        let absolute = Path::new(cwd).join(path).to_string_lossy().into_owned();
        if known.contains_key(&absolute) || !absolute.starts_with("/rec/") {
            continue;
        }
        if let Some(content) = first_content(&absolute, &call.expected.result) {
            folder.write(absolute.trim_start_matches('/'), content);
            known.insert(absolute, true);
        } else if call.name == "Write" && call.expected.result["type"] == "create" {
            known.insert(absolute, false);
        }
    }
    folder.write("rec/runtime/w/bin.dat", [0, 1, 2]);
    folder.write("rec/runtime/w/sub/x", "");
    std::fs::create_dir_all(folder.path(cwd.trim_start_matches('/'))).unwrap();
}

/// Content that the recording shortens or shows otherwise than it is.
fn first_content(path: &str, result: &Value) -> Option<Vec<u8>> {
    let lines = |count: usize| {
        let line = |n| format!("line {n} zzzzzzzzzzzzzzzzzzzz");
        (0..count).map(line).collect::<Vec<_>>().join("\n")
    };
    let known = match path.rsplit('/').next().unwrap_or_default() {
        "long.txt" => lines(5000),
        "wide.txt" => format!("{}\nshort\n", "q".repeat(5000)),
        "huge.txt" => "abcdefghij ".repeat(60_000),
        "crlf.txt" | "c.txt" => "a\r\nb\r\n".to_owned(),
        name if name.starts_with('f') && path.contains("/w_comp/") => {
            format!("{}\n", format!("word{} ", &name[1..2]).repeat(6000))
        }
        "nb.ipynb" if path.contains("/w/") => json!({
            "cells": [
                {"cell_type": "markdown", "id": "m1", "metadata": {}, "source": ["# T\n", "x"]},
                {"cell_type": "code", "id": "c1", "metadata": {}, "execution_count": 3, "source": ["print(1)"],
                 "outputs": [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}]},
            ],
            "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5,
        })
        .to_string(),
        "nb.ipynb" => "{\"cells\": [{\"cell_type\": \"markdown\", \"id\": \"m1\", \"metadata\": {}, \"source\": [\"# T\\n\", \"x\"]}, {\"cell_type\": \"code\", \"id\": \"c1\", \"metadata\": {}, \"execution_count\": 3, \"source\": [\"print(1)\"], \"outputs\": []}], \"metadata\": {\"language_info\": {\"name\": \"python\"}}, \"nbformat\": 4, \"nbformat_minor\": 5}".to_owned(),
        _ => String::new(),
    };
    if !known.is_empty() {
        return Some(known.into_bytes());
    }
    if let Some(base64) = result["file"]["base64"].as_str() {
        return base64::engine::general_purpose::STANDARD.decode(base64).ok();
    }
    let original = result["originalFile"].as_str().filter(|_| result["type"] != "create");
    let whole = result["file"]["startLine"].as_u64().is_some_and(|start| start <= 1);
    let read = result["file"]["content"].as_str().filter(|_| whole);
    match (original, read) {
        // An Edit that made the file says that it was empty.
        (Some(""), _) => None,
        (Some(text), _) | (None, Some(text)) => Some(text.as_bytes().to_owned()),
        (None, None) => None,
    }
}

/// Both sides in a form that can be compared: paths of the recording, no durations, no new ids.
fn comparable(seen: &Seen, root: &str) -> Seen {
    let text = |value: &Value| {
        let text = value.to_string().replace(&format!("{root}/rec/"), "/rec/");
        let text = IDS.replace_all(&text, "${1}idididid").into_owned();
        let text = DURATIONS.replace_all(&text, "\"durationMs\":0").into_owned();
        serde_json::from_str(&text).unwrap()
    };
    Seen { content: text(&seen.content), is_error: seen.is_error, result: text(&seen.result) }
}

/// Equality of two values, where the recording may be shortened and texts may end in our own words.
fn assert_same(expected: &Value, actual: &Value, what: &str) {
    match (expected, actual) {
        (Value::String(expected), Value::String(actual)) => {
            assert_same_text(expected, actual, what);
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).for_each(|(a, b)| assert_same(a, b, what));
        }
        (Value::Object(a), Value::Object(b)) => {
            let keys = |map: &serde_json::Map<String, Value>| {
                let mut keys: Vec<String> = map.keys().cloned().collect();
                keys.sort();
                keys
            };
            assert_eq!(keys(a), keys(b), "{what}");
            for (key, value) in a {
                // The reference reports a deleted markdown cell as code.
                if key != "cell_type" {
                    assert_same(value, &b[key], what);
                }
            }
        }
        (expected, actual) => assert_eq!(expected, actual, "{what}"),
    }
}

fn assert_same_text(expected: &str, actual: &str, what: &str) {
    if let Some(lead) = OWN_WORDS.iter().find(|lead| expected.contains(**lead)) {
        let end = expected.find(lead).unwrap() + lead.len();
        return assert_eq!(&expected[..end], &actual[..end.min(actual.len())], "{what}");
    }
    let Some(found) = CUT.captures(expected) else {
        return assert_eq!(expected, actual, "{what}");
    };
    let head = &expected[..found.get(0).unwrap().start()];
    assert!(actual.starts_with(head), "{what}: {actual}");
    if !head.contains("/rec/") {
        assert_eq!(actual.chars().count().to_string(), &found[1], "{what}");
    }
}

async fn replay(recording: &Path) -> usize {
    let calls = calls(recording);
    let cwd = cwd(recording);
    // The recordings were made without pdftoppm.
    let folder = Folder::with(|workspace| {
        workspace.env = std::sync::Arc::new(lathe_tools::ChildEnvironment::new(
            lathe_tools::ChildVariables::unrestricted(vec![("PATH".to_owned(), "/nonexistent".to_owned())]),
        ));
    });
    prepare(&folder, &cwd, &calls);
    let root = folder.context.workspace.root.to_string_lossy().into_owned();
    folder.context.workspace.set_cwd(PathBuf::from(format!("{root}{cwd}")));
    let mut compared = 0;
    for call in calls {
        let input = call.input.to_string();
        if call.name == "Bash" && input.contains("echo two >> s.txt") {
            let path = format!("{}/s.txt", cwd.trim_start_matches('/'));
            folder.write(&path, "one\ntwo\n");
        }
        let words = call.expected.result.as_str().unwrap_or_default();
        if !TOOLS.contains(&call.name.as_str())
            || NOT_RUN.iter().any(|mark| words.contains(mark))
            || input.contains("/etc/")
        {
            continue;
        }
        let input = input.replace("\"/rec/", &format!("\"{root}/rec/"));
        let actual = folder.call(&call.name, serde_json::from_str(&input).unwrap()).await;
        let what = format!("{}: {} {}", recording.display(), call.name, call.input);
        let actual = comparable(&actual, &root);
        let expected = comparable(&call.expected, &root);
        assert_eq!(expected.is_error, actual.is_error, "{what}: {actual:?}");
        assert_same(&expected.content, &actual.content, &what);
        assert_same(&expected.result, &actual.result, &what);
        compared += 1;
    }
    compared
}

#[tokio::test]
async fn tool_calls_come_out_as_recorded() {
    let Some(recordings) = recordings() else { return };
    let mut compared = 0;
    for part in ["runtime", "wire"] {
        let mut folders: Vec<PathBuf> =
            std::fs::read_dir(recordings.join(part)).unwrap().map(|entry| entry.unwrap().path()).collect();
        folders.sort();
        for folder in folders {
            compared += replay(&folder).await;
        }
    }
    assert!(compared > 110, "only {compared} calls were compared");
}
