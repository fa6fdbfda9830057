//! Every recorded line of the reference CLI and of the official SDKs reads as its own type and is written
//! back as the same JSON value. The recordings lie beside the repository, not in it.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::{check_answer, unknown_in_inbound, unknown_in_outbound};
use lathe_protocol::hooks::HookEventInput;
use lathe_protocol::{HookInput, HookOutput, Outbound, Usage};
use lathe_testkit::recordings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Lines that nobody describes: probes sent on purpose, and frames outside the reference.
const UNKNOWN_ON_PURPOSE: &[&str] = &[
    "type some_unknown_type",
    "type whatever",
    "request nosuch_subtype",
    "request totally_unknown",
    "request mcp_authenticate",
    "request remote_control",
    "request set_proactive",
    "system ui_invalidate",
    "block tool_reference",
];

/// Every file of this name below a folder.
fn files(folder: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|file| file == name) {
                found.push(path);
            }
        }
    }
    assert!(!found.is_empty(), "no {name} below {}", folder.display());
    found
}

/// The JSON lines of a file; other text (plain output formats, logs of SDK runs) is not ours.
fn json_lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[derive(Default)]
struct Findings {
    lines: usize,
    problems: Vec<String>,
}

impl Findings {
    fn check<T: Serialize + DeserializeOwned>(
        &mut self,
        file: &Path,
        value: &Value,
        unknown: fn(&T) -> Option<String>,
    ) {
        self.lines += 1;
        let line: T = serde_json::from_str(&value.to_string()).unwrap();
        let written = serde_json::to_value(&line).unwrap();
        if &written != value {
            self.problems.push(format!("{}: {value}\n  became {written}", file.display()));
        }
        if let Some(what) = unknown(&line).filter(|what| !UNKNOWN_ON_PURPOSE.contains(&what.as_str())) {
            self.problems.push(format!("{}: {what} is unknown: {value}", file.display()));
        }
    }

    fn finish(self, at_least: usize) {
        let shown: Vec<_> = self.problems.iter().take(20).map(String::as_str).collect();
        assert!(shown.is_empty(), "{} problems:\n{}", self.problems.len(), shown.join("\n"));
        assert!(self.lines >= at_least, "only {} lines were seen", self.lines);
    }
}

#[test]
fn stdout_lines_round_trip() {
    let Some(folder) = recordings() else { return };
    let mut findings = Findings::default();
    for file in files(&folder, "stdout.jsonl") {
        for value in json_lines(&file) {
            match value {
                Value::Object(_) => findings.check(&file, &value, unknown_in_outbound),
                // `--output-format json --verbose`: the whole run as one list.
                Value::Array(run) => {
                    run.iter().for_each(|value| findings.check(&file, value, unknown_in_outbound));
                }
                other => panic!("{}: {other}", file.display()),
            }
        }
    }
    findings.finish(3000);
}

#[test]
fn both_directions_round_trip() {
    let Some(folder) = recordings() else { return };
    let mut findings = Findings::default();
    for file in files(&folder, "io.jsonl") {
        for record in json_lines(&file) {
            let message = &record["m"];
            // How the recorder wrapped output that is not JSON.
            if message["type"] == "__nonjson__" || message.get("raw").is_some() {
                continue;
            }
            match record["dir"].as_str() {
                Some("in") if message.is_object() => findings.check(&file, message, unknown_in_inbound),
                Some("out") if message.is_object() => findings.check(&file, message, unknown_in_outbound),
                _ => {}
            }
        }
    }
    for file in files(&folder.join("wire/_sdk_side"), "seen_by_cli.jsonl") {
        for record in json_lines(&file).iter().filter(|record| record["k"] == "in") {
            findings.check(&file, &record["v"], unknown_in_inbound);
        }
    }
    findings.finish(3000);
}

#[test]
fn payloads_of_requests_and_answers_read_as_their_types() {
    let Some(folder) = recordings() else { return };
    let mut problems = Vec::new();
    let (mut answers, mut hooks) = (0, 0);
    for file in files(&folder, "io.jsonl") {
        let mut asked: BTreeMap<String, Value> = BTreeMap::new();
        for record in json_lines(&file) {
            let message = &record["m"];
            let request = &message["request"];
            if let (Some(id), true) = (message["request_id"].as_str(), request.is_object()) {
                asked.insert(id.to_owned(), request.clone());
                if request["subtype"] == "hook_callback" {
                    hooks += 1;
                    problems.extend(check_hook_input(&request["input"]));
                }
            }
            let response = &message["response"];
            let question = response["request_id"].as_str().and_then(|id| asked.get(id));
            let (Some(question), "success") = (question, response["subtype"].as_str().unwrap_or("")) else {
                continue;
            };
            if let Some(payload) = response.get("response").filter(|payload| payload.is_object()) {
                answers += 1;
                let subtype = question["subtype"].as_str().unwrap();
                if let Some(Err(problem)) = check_answer(subtype, payload) {
                    problems.push(format!("{}: {subtype} {payload}: {problem}", file.display()));
                }
                if subtype == "hook_callback" {
                    problems.extend(check_hook_output(&question["input"], payload));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    assert!(answers > 100 && hooks > 50, "only {answers} answers and {hooks} hooks were seen");
}

fn check_hook_input(value: &Value) -> Option<String> {
    let input: HookInput = serde_json::from_value(value.clone()).unwrap();
    let written = serde_json::to_value(&input).unwrap();
    let known = !matches!(input.event, HookEventInput::Unknown(_));
    (&written != value || !known).then(|| format!("hook input {value} became {written}"))
}

fn check_hook_output(input: &Value, value: &Value) -> Option<String> {
    let event = input["hook_event_name"].as_str().unwrap().into();
    // One recorded answer is wrong on purpose.
    let wrong = value["decision"] == "wat";
    match HookOutput::parse(value, &event) {
        Ok(output) if !wrong && &serde_json::to_value(&output).unwrap() == value => None,
        Err(_) if wrong => None,
        outcome => Some(format!("hook output {value} read as {outcome:?}")),
    }
}

#[test]
fn text_and_values_read_alike_and_the_type_is_written_first() {
    let Some(folder) = recordings() else { return };
    for value in json_lines(&folder.join("wire/basic_tool/stdout.jsonl")) {
        let from_text: Outbound = serde_json::from_str(&value.to_string()).unwrap();
        let from_value: Outbound = serde_json::from_value(value).unwrap();
        assert_eq!(from_text, from_value);
        assert!(serde_json::to_string(&from_text).unwrap().starts_with(r#"{"type":""#));
    }
}

#[test]
fn the_usage_of_a_result_has_the_recorded_fields_in_their_order() {
    let Some(folder) = recordings() else { return };
    let lines = json_lines(&folder.join("wire/basic_tool/stdout.jsonl"));
    let result = lines.iter().find(|line| line["type"] == "result").unwrap();
    let usage: Usage = serde_json::from_value(result["usage"].clone()).unwrap();
    assert_eq!(usage.result_shape(), usage);

    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let shaped = serde_json::to_value(Usage::default().result_shape()).unwrap();
    assert_eq!(keys(&shaped), keys(&result["usage"]));
}
