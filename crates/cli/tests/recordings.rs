//! The built program against the reference's own recordings: the same scenario, the same arguments, and
//! then line by line the same types, order and fields. Values are compared where clients rely on them;
//! texts that are ours are compared by shape only.
//!
//! The recordings are read where they lie, beside the repository, and nothing of them is kept here.
#![allow(clippy::disallowed_methods, reason = "tests look at the environment they run in")]

mod compare;

use std::path::Path;

use lathe_scripted::Script;
use lathe_testkit::{BackgroundServer, Finished, TestContext};
use serde_json::Value;

use compare::{Texts, compare_frames, recordings};

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
    ("wire/refusal", Texts::Ours),
    ("wire/json_schema_ok", Texts::Same),
    ("wire/schema_json_fmt", Texts::Same),
    ("wire/max_turns_1_text", Texts::Same),
    ("wire/autocompact", Texts::Ours),
    ("runtime/16_slash_clear", Texts::Same),
    ("runtime/16_slash_help", Texts::Same),
    ("runtime/16_slash_unknown", Texts::Same),
    ("runtime/16_slash_usage", Texts::Ours),
    ("runtime/20_jsonschema", Texts::Same),
    ("runtime/20_jsonschema_bad", Texts::Ours),
    ("runtime/00_hello", Texts::Same),
    ("runtime/17_conc_edits", Texts::Ours),
];

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
