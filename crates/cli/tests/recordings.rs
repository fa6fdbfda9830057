//! The built program against the reference's own recordings: the same scenario, the same arguments, and
//! then line by line the same types, order and fields. Values are compared where clients rely on them;
//! texts that are ours are compared by shape only.
//!
//! The recordings are read where they lie, beside the repository, and nothing of them is kept here.
#![allow(clippy::disallowed_methods, reason = "tests look at the environment they run in")]

use std::path::{Path, PathBuf};

use lathe_scripted::Script;
use lathe_testkit::{BackgroundServer, Finished, TestContext};
use serde_json::Value;

/// One-shot runs that show what this CLI does today. `Texts::Ours` marks those whose wording differs.
const RUNS: &[(&str, Texts)] = &[
    ("wire/basic_text", Texts::Same),
    ("wire/basic_tool", Texts::Same),
    ("wire/basic_textfmt", Texts::Same),
    ("wire/basic_json", Texts::Same),
    ("wire/basic_json_noverbose", Texts::Same),
    ("wire/partial", Texts::Same),
    ("wire/denied", Texts::Ours),
    ("wire/tool_fail", Texts::Same),
    ("wire/max_tokens", Texts::Ours),
    ("wire/max_tokens_once", Texts::Ours),
    ("wire/text_maxturns", Texts::Same),
    ("wire/json_maxturns", Texts::Same),
    ("wire/api_400", Texts::Same),
    ("wire/api_403", Texts::Same),
    ("wire/api_404", Texts::Ours),
    ("wire/api_413", Texts::Ours),
    ("wire/api_429_final", Texts::Ours),
    ("wire/api_500_always", Texts::Ours),
    ("wire/api_529_always", Texts::Ours),
    ("wire/malformed_json_input", Texts::Ours),
    ("wire/empty_answer", Texts::Ours),
    ("wire/sse_reset_tool", Texts::Same),
    ("wire/write_edit_tools", Texts::Ours),
    ("wire/parallel_writes", Texts::Ours),
    ("wire/allowed_forms", Texts::Ours),
    ("wire/tools_empty", Texts::Ours),
    ("wire/disallowed_whole", Texts::Ours),
    ("wire/stdin_text", Texts::Same),
    ("wire/stdin_text_and_arg", Texts::Same),
    ("wire/mode_dontask", Texts::Ours),
    ("wire/fallback_529", Texts::Ours),
    ("wire/append_sys", Texts::Same),
    ("runtime/00_hello", Texts::Same),
    ("runtime/17_conc_edits", Texts::Ours),
];

/// Whether the run's texts are the reference's, so that values can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Texts {
    Same,
    Ours,
}

/// Fields of the reference that Lathe has no use for: hosted features, and facts about itself.
const NOT_OURS: &[&str] = &[
    "messaging_socket_path",
    "memory_paths",
    "per_turn_effort_active",
    "ultrathink_available",
    "ultrathink_typed_raises",
    "thinking_display",
    "thinking_duration_ms",
    "request_sent_wall_ms",
    "first_request_input_tokens",
    "first_request_cache_read_input_tokens",
    "diagnostics",
    "gitDiff",
    "staleReadFileStateHint",
    "noOutputExpected",
    "contentNotInModelContext",
    "api_error_params",
    // Which of several sufficient reasons is named for an allowed read differs.
    "reason_type",
];

/// Lists whose entries are each runtime's own.
const OWN_LISTS: &[&str] =
    &["tools", "slash_commands", "terminal_slash_commands", "agents", "skills", "plugins", "capabilities"];

/// Fields that are compared by value in every run.
const COMPARED: &[&str] = &[
    "type",
    "subtype",
    "is_error",
    "num_turns",
    "stop_reason",
    "terminal_reason",
    "permissionMode",
    "model",
    "apiKeySource",
    "name",
    "tool_name",
    "tool_use_id",
    "role",
    "input",
    "index",
    "isSynthetic",
    "isReplay",
    "decision",
    "error",
    "error_status",
    "api_error_status",
    "api_error_type",
    "api_error",
    "attempt",
    "max_retries",
    "result_index",
    "queued_turn_count",
    "non_execution_kind",
    "input_tokens",
    "output_tokens",
    "total_cost_usd",
    "trigger",
    "original_model",
    "fallback_model",
];

fn recordings() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings");
    if root.is_dir() {
        return Some(root);
    }
    assert!(std::env::var_os("CI").is_none(), "the recordings must be beside the repository in CI");
    None
}

#[test]
fn runs_look_like_the_recordings() {
    let Some(root) = recordings() else { return };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> = RUNS
            .iter()
            .map(|(name, texts)| {
                let dir = root.join(name);
                scope.spawn(move || compare_run(&dir, *texts).err().map(|why| format!("{name}: {why}")))
            })
            .collect();
        runs.into_iter().filter_map(|run| run.join().expect("a comparison does not panic")).collect()
    });
    assert!(failures.is_empty(), "{} runs differ:\n{}", failures.len(), failures.join("\n\n"));
}

/// Runs one scenario and compares what came out.
fn compare_run(dir: &Path, texts: Texts) -> Result<(), String> {
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
    let recorded: Value = serde_json::from_str(&read("argv.json")).map_err(|error| error.to_string())?;
    let context = TestContext::new(r#"[{"text": "unused"}]"#).binary(env!("CARGO_BIN_EXE_lathe"));
    let theirs = recorded["cwd"].as_str().unwrap_or_default();
    let ours = context.cwd().display().to_string();
    let script = Script::parse("scenario.json", &read("scenario.json").replace(theirs, &ours))
        .map_err(|error| error.to_string())?;
    let server = BackgroundServer::start(script);
    let mut context = context.env("ANTHROPIC_BASE_URL", server.url()).env("IS_SANDBOX", "1");
    for (name, value) in recorded["env"].as_object().into_iter().flatten() {
        context = context.env(name, value.as_str().unwrap_or_default());
    }
    prepare(&context, dir);
    let words: Vec<String> = recorded["argv"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|word| word.as_str().unwrap_or_default().replace(theirs, &ours))
        .collect();
    let finished = context.run_with_stdin(&words, &stdin_of(dir));
    let exit: Value = serde_json::from_str(&read("exit.json")).unwrap_or_default();
    if let Some(code) = exit["exit"].as_i64()
        && finished.code != Some(code as i32)
    {
        return Err(format!("exit code {:?}, recorded {code}; stderr: {}", finished.code, finished.stderr));
    }
    let mine = context.normaliser();
    let reference = lathe_testkit::Normaliser::default().replace(theirs, "<cwd>");
    let expected = frames(&read("stdout.jsonl"), &finished, false)?;
    let actual = frames(&finished.stdout, &finished, true)?;
    compare_frames(&reference.lines(&expected), &mine.lines(&actual), texts)
}

/// Files that a scenario takes for granted.
fn prepare(context: &TestContext, dir: &Path) {
    if dir.ends_with("runtime/17_conc_edits") {
        context.write("a.txt", "x\n");
    }
}

fn stdin_of(dir: &Path) -> String {
    let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name {
        "stdin_text" | "stdin_text_and_arg" => "from stdin".to_owned(),
        _ => String::new(),
    }
}

/// The frames of a run: lines, one list, or the one text of a text run.
fn frames(stdout: &str, finished: &Finished, ours: bool) -> Result<Vec<Value>, String> {
    let text = stdout.trim_end_matches('\n');
    let mut frames = Vec::new();
    for line in text.lines() {
        match serde_json::from_str::<Value>(line) {
            Ok(Value::Array(list)) => frames.extend(list),
            Ok(value) => frames.push(value),
            Err(_) => return Ok(vec![Value::String(text.to_owned())]),
        }
    }
    if frames.is_empty() && ours {
        return Err(format!("no output; stderr: {}", finished.stderr));
    }
    Ok(frames)
}

fn compare_frames(expected: &[Value], actual: &[Value], texts: Texts) -> Result<(), String> {
    let kinds = |frames: &[Value]| -> Vec<String> { frames.iter().map(kind).collect() };
    if kinds(expected) != kinds(actual) {
        return Err(format!(
            "frames differ\n  recorded: {}\n  ours:     {}",
            kinds(expected).join(", "),
            kinds(actual).join(", ")
        ));
    }
    for (at, (expected, actual)) in expected.iter().zip(actual).enumerate() {
        compare_value(expected, actual, &format!("frame {at} ({})", kind(expected)), "", texts)?;
    }
    Ok(())
}

/// What a frame is, in a word.
fn kind(frame: &Value) -> String {
    let text = |key: &str| frame[key].as_str().unwrap_or("").to_owned();
    let detail = match frame["type"].as_str() {
        Some("stream_event") => frame["event"]["type"].as_str().unwrap_or("").to_owned(),
        Some("assistant" | "user") => {
            frame["message"]["content"][0]["type"].as_str().unwrap_or("").to_owned()
        }
        _ => text("subtype"),
    };
    if frame.is_string() { "text".to_owned() } else { format!("{} {detail}", text("type")) }
}

fn compare_value(
    expected: &Value,
    actual: &Value,
    path: &str,
    key: &str,
    texts: Texts,
) -> Result<(), String> {
    let differs = || Err(format!("{path}: recorded {expected}, ours {actual}"));
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            for (key, expected) in expected {
                if NOT_OURS.contains(&key.as_str()) || OWN_LISTS.contains(&key.as_str()) {
                    continue;
                }
                let path = format!("{path}.{key}");
                match actual.get(key) {
                    Some(actual) => compare_value(expected, actual, &path, key, texts)?,
                    None => return Err(format!("{path} is missing; recorded {expected}")),
                }
            }
            Ok(())
        }
        (Value::Array(expected), Value::Array(actual)) => {
            if expected.len() != actual.len() {
                return Err(format!("{path}: {} entries recorded, ours {}", expected.len(), actual.len()));
            }
            for (at, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                compare_value(expected, actual, &format!("{path}[{at}]"), key, texts)?;
            }
            Ok(())
        }
        (Value::String(text), Value::String(ours)) => {
            let cut = text.contains("…[");
            let compared = COMPARED.contains(&key) || texts == Texts::Same;
            if text == ours || cut || !compared { Ok(()) } else { differs() }
        }
        (Value::Number(_), Value::Number(_)) => {
            let compared = COMPARED.contains(&key) || texts == Texts::Same;
            let close =
                |a: &Value, b: &Value| (a.as_f64().unwrap_or(0.0) - b.as_f64().unwrap_or(1.0)).abs() < 1e-9;
            if close(expected, actual) || !compared { Ok(()) } else { differs() }
        }
        (Value::Null, Value::Null) | (Value::Bool(true), Value::Bool(true)) => Ok(()),
        (Value::Bool(false), Value::Bool(false)) => Ok(()),
        // A result that was shortened to nothing, or that depends on the clock of the run.
        (Value::String(text), _) if text.starts_with('<') => Ok(()),
        (expected, actual) if kind_of(expected) == kind_of(actual) && !COMPARED.contains(&key) => {
            if texts == Texts::Ours { Ok(()) } else { differs() }
        }
        _ => differs(),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
