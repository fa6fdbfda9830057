//! The built program against the reference's own recordings: the same scenario, the same arguments, and
//! then line by line the same types, order and fields. Values are compared where clients rely on them;
//! texts that are ours are compared by shape only.
//!
//! The recordings are read where they lie, beside the repository, and nothing of them is kept here.
#![allow(clippy::disallowed_methods, reason = "tests look at the environment they run in")]

mod compare;
mod fixtures;

use std::path::{Path, PathBuf};

use lathe_scripted::Script;
use lathe_testkit::{BackgroundServer, Finished, TestContext, recordings};
use serde_json::{Value, json};

use compare::tools::{compare_tools, is_elsewhere};
use compare::{Texts, compare_frames};

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
    ("runtime/16_slash_init", Texts::Same),
    ("runtime/16_slash_unknown", Texts::Same),
    ("runtime/16_slash_usage", Texts::Ours),
    ("runtime/20_jsonschema", Texts::Same),
    ("runtime/20_jsonschema_bad", Texts::Ours),
    ("wire/json_schema_exhausted", Texts::Same),
    ("wire/hook_defer", Texts::Same),
    ("wire/hook_defer__resume", Texts::Same),
    ("wire/sse_reset_always", Texts::Ours),
    ("wire/continue_none", Texts::Ours),
    ("wire/default_readonly", Texts::Ours),
    ("wire/glob_allowed", Texts::Ours),
    ("wire/hook_progress", Texts::Ours),
    ("wire/prompts_none", Texts::Ours),
    ("wire/settings_hooks", Texts::Ours),
    ("wire/startup_fail_result", Texts::Ours),
    ("runtime/07_hook_post_exit2", Texts::Ours),
    ("runtime/07_hook_pre_allow_bash", Texts::Ours),
    ("runtime/07_hook_pre_defer", Texts::Ours),
    ("runtime/07_hook_pre_exit1", Texts::Ours),
    ("runtime/07_hook_pre_exit2", Texts::Ours),
    ("runtime/07_hook_pre_legacy_block", Texts::Ours),
    ("runtime/07_hook_stop_exit2_always", Texts::Ours),
    ("runtime/07_hook_ups_block", Texts::Ours),
    ("runtime/13_budget", Texts::Ours),
    ("runtime/13_empty", Texts::Ours),
    ("runtime/13_err403", Texts::Ours),
    ("runtime/13_err413", Texts::Ours),
    ("runtime/13_err500", Texts::Ours),
    ("runtime/13_err529", Texts::Ours),
    ("runtime/13_maxtok", Texts::Ours),
    ("runtime/13_maxtok_always", Texts::Ours),
    ("runtime/00_hello", Texts::Same),
    ("runtime/17_conc_edits", Texts::Ours),
    ("wire/bash_bg_oneshot", Texts::Ours),
    ("runtime/01_read", Texts::Ours),
    ("runtime/02_bash", Texts::Ours),
    ("runtime/03_edit", Texts::Ours),
    ("runtime/16_slash_context", Texts::Ours),
    ("runtime/17_conc_3sleep_ro", Texts::Ours),
    ("runtime/17_conc_3sleep_write", Texts::Ours),
    ("runtime/17_conc_err_sibling", Texts::Ours),
    ("runtime/20_bg_grace", Texts::Ours),
    ("seed-era/ask_none@0.2.34", Texts::Ours),
    ("seed-era/ask_none@0.2.50", Texts::Ours),
    ("seed-era/bash_bg_oneshot@0.2.50", Texts::Ours),
    ("seed-era/bash_tools@0.2.50", Texts::Ours),
    ("seed-era/d_progress@0.2.50", Texts::Ours),
    // Of 35 s: the older clients get no sign of life meanwhile.
    ("seed-era/d_progress35@0.2.34", Texts::Ours),
    ("seed-era/d_progress35@0.2.50", Texts::Ours),
    ("seed-era/basic@0.2.34", Texts::Ours),
    ("seed-era/basic@0.2.50", Texts::Ours),
    ("seed-era/basic_tasks@0.2.34", Texts::Ours),
    ("seed-era/basic_tasks@0.2.50", Texts::Ours),
    ("wire/todo", Texts::Ours),
    ("runtime/04_tools_auto", Texts::Ours),
    ("runtime/04_tools_bare", Texts::Ours),
    ("runtime/04_tools_default_tools", Texts::Ours),
    ("runtime/04_tools_dontask", Texts::Ours),
    ("runtime/04_tools_haiku", Texts::Ours),
    ("runtime/04_tools_ppt", Texts::Ours),
    ("runtime/04_tools_sonnet45", Texts::Ours),
    ("runtime/04_tools_tasks0", Texts::Ours),
    ("runtime/04_tools_toolslist", Texts::Ours),
    ("runtime/09_misc_tools", Texts::Ours),
];

/// Differences that are meant to be: the run, a piece of the difference, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("json_schema_exhausted", ".usage.", "what was used is told, also when it was in vain"),
    ("json_schema_exhausted", "modelUsage", "the same by model"),
    ("json_schema_exhausted", "model_usage", "the same by model"),
    ("json_schema_exhausted", "total_cost_usd", "so is what it cost"),
    ("sse_reset_always", ".usage.", "every attempt that was answered in part counts"),
    ("sse_reset_always", "total_cost_usd", "so does what it cost"),
    ("13_budget", ".usage.", "what was used is told, also when it was too much"),
    ("13_budget", "total_cost_usd", "so is what it cost"),
    ("01_read", "input.limit", "a number that came as a string is shown as the number that is used"),
    ("16_slash_context", "memory_files", "those of the machine that recorded"),
    ("bash_tools@0.2.50", ".tool_use_id", "the recorded numbers count questions to a small model"),
    ("bash_tools@0.2.50", "frame 18 (user tool_result)", "`sleep 4` is killed when its time is up"),
    ("09_misc_tools", "num_turns", "the text of a skill counts as a message"),
    ("04_tools_auto", "permissionMode", "the mode needs a classifier that is not ours"),
];

/// The settings of runs whose settings files were not recorded: what must have been in them.
fn settings_of(name: &str) -> Option<Value> {
    let (event, command) = match name {
        "07_hook_post_exit2" => ("PostToolUse", "echo no >&2; exit 2"),
        "07_hook_pre_defer" => (
            "PreToolUse",
            r#"echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"defer"}}'"#,
        ),
        "07_hook_pre_allow_bash" => (
            "PreToolUse",
            r#"echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow",
            "updatedInput":{"command":"echo replaced"},"additionalContext":"seen"}}'"#,
        ),
        "07_hook_pre_exit1" => ("PreToolUse", "exit 1"),
        "07_hook_pre_exit2" => ("PreToolUse", "echo no >&2; exit 2"),
        "07_hook_pre_legacy_block" => ("PreToolUse", r#"echo '{"decision":"block","reason":"legacy"}'"#),
        "07_hook_stop_exit2_always" => ("Stop", "echo always >&2; exit 2"),
        "07_hook_ups_block" => ("UserPromptSubmit", r#"echo '{"decision":"block","reason":"BLOCKED"}'"#),
        _ => return None,
    };
    Some(json!({"hooks": {event: [{"hooks": [{"type": "command", "command": command}]}]}}))
}

#[test]
fn runs_look_like_the_recordings() {
    let Some(root) = recordings() else { return };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> = RUNS
            .iter()
            .map(|(name, texts)| {
                let dir = root.join(name);
                scope.spawn(move || {
                    let why = compare_run(&dir, *texts).err().and_then(|why| unexpected(name, &why));
                    why.map(|why| format!("{name}: {why}"))
                })
            })
            .collect();
        runs.into_iter().filter_map(|run| run.join().expect("a comparison does not panic")).collect()
    });
    assert!(failures.is_empty(), "{} runs differ:\n{}", failures.len(), failures.join("\n\n"));
}

/// What is left of the differences without those that are meant to be.
fn unexpected(run: &str, why: &str) -> Option<String> {
    let excused =
        |line: &&str| EXCEPTIONS.iter().any(|(name, piece, _)| run.ends_with(name) && line.contains(piece));
    let left: Vec<&str> = why.lines().filter(|line| !excused(line)).collect();
    (!left.is_empty()).then(|| left.join("\n"))
}

/// Runs one scenario and compares what came out. A run that goes on after another is led up to by that one.
fn compare_run(dir: &Path, texts: Texts) -> Result<(), String> {
    let earlier = earlier(dir);
    let recorded = arguments(dir)?;
    let context = TestContext::new(r#"[{"text": "unused"}]"#).binary(env!("CARGO_BIN_EXE_lathe"));
    let theirs = recorded["cwd"].as_str().unwrap_or_default();
    let ours = context.cwd().display().to_string();
    let scenario = read(earlier.as_deref().unwrap_or(dir), "scenario.json").replace(theirs, &ours);
    let scenario = changed(name_of(dir), scenario);
    let mut script = Script::parse("scenario.json", &scenario).map_err(|error| error.to_string())?;
    // As the recorded model signed.
    script.defaults.signature = Some("sig".to_owned());
    let server = BackgroundServer::start(script);
    let mut context = context.env("ANTHROPIC_BASE_URL", server.url()).env("IS_SANDBOX", "1");
    for (name, value) in compare::environment(dir, &recorded) {
        context = context.env(&name, &value);
    }
    fixtures::prepare(&context, dir);
    if let Some(settings) = settings_of(name_of(dir)) {
        context.write_home(".claude/settings.json", &settings.to_string());
    }
    let words = |recorded: &Value| -> Vec<String> {
        let words = recorded["argv"].as_array().into_iter().flatten();
        words.map(|word| word.as_str().unwrap_or_default().replace(theirs, &ours)).collect()
    };
    let mut own = words(&recorded);
    if name_of(dir) == "09_misc_tools" {
        // Its tools leave work behind that goes on for minutes; the comparison ends with the first result.
        own.splice(1..1, ["--background".to_owned(), "stop".to_owned()]);
    }
    if let Some(earlier) = earlier {
        let first = context.run(&words(&arguments(&earlier)?));
        let id = |frames: &[Value]| frames.first().map(|frame| frame["session_id"].to_string());
        let ids = id(&frames(&read(&earlier, "stdout.jsonl"), &first, false)?).zip(id(&first.lines()));
        let (their_id, our_id) = ids.ok_or("the run before it has no frames")?;
        own.iter_mut()
            .for_each(|word| *word = word.replace(their_id.trim_matches('"'), our_id.trim_matches('"')));
    }
    let finished = context.run_with_stdin(&own, &stdin_of(dir));
    let exit: Value = serde_json::from_str(&read(dir, "exit.json")).unwrap_or_default();
    if let Some(code) = exit["exit"].as_i64()
        && finished.code != Some(code as i32)
    {
        return Err(format!("exit code {:?}, recorded {code}; stderr: {}", finished.code, finished.stderr));
    }
    let mine = context.normaliser();
    let reference = lathe_testkit::Normaliser::default().replace(theirs, "<cwd>");
    let expected = frames(&changed(name_of(dir), read(dir, "stdout.jsonl")), &finished, false)?;
    let actual = frames(&finished.stdout, &finished, true)?;
    let expected = progress_once(reference.lines(&expected));
    let mut actual = progress_once(mine.lines(&actual));
    // A hook that a busy machine slows down is told of, where the reference's was quick enough.
    if !expected.iter().any(is_hook_progress) {
        actual.retain(|frame| !is_hook_progress(frame));
    }
    // So is a command, which becomes a task after three seconds.
    if !expected.iter().any(is_task) {
        actual.retain(|frame| !is_task(frame));
    }
    let name = name_of(dir);
    let (expected, actual) = (without_chance(name, expected), without_chance(name, actual));
    let seen = |frames: Vec<Value>| compare::as_older_clients_see(&recorded, first_turn(name, frames));
    let (expected, actual) = (seen(expected), seen(actual));
    let compared = [compare_tools(&expected, &actual), compare_frames(&expected, &actual, texts)];
    let differences: Vec<String> = compared.into_iter().filter_map(Result::err).collect();
    if differences.is_empty() { Ok(()) } else { Err(differences.join("\n  ")) }
}

/// The frames up to the first result, of runs whose further turns differ on purpose: the older client is told the end of a
/// command again that TaskOutput has told already, and continues a command in the background that does nothing but sleep.
/// It is told of ends behind the result only.
fn first_turn(run: &str, mut frames: Vec<Value>) -> Vec<Value> {
    if run == "bash_tools@0.2.50" {
        let result = frames.iter().position(|frame| frame["type"] == "result");
        frames.truncate(result.map_or(frames.len(), |at| at + 1));
        frames.retain(|frame| frame["subtype"] != "task_notification");
    }
    frames
}

/// Frames whose place depends on how fast the machine is, moved to a fixed one: the results of calls that run side by
/// side in the order of the calls, and the end of a background task before the turn that tells it. Those that only a
/// screen needs are left out.
fn without_chance(run: &str, mut frames: Vec<Value>) -> Vec<Value> {
    let number = |frame: &Value| {
        let id = frame["message"]["content"][0]["tool_use_id"].as_str()?;
        id.rsplit('_').next()?.parse::<u32>().ok()
    };
    if SIDE_BY_SIDE.contains(&run) {
        let is_call = |frame: &Value| frame["message"]["content"][0]["type"] == "tool_use";
        let last_result = frames.iter().rposition(|frame| number(frame).is_some()).unwrap_or(0);
        frames[..=last_result]
            .sort_by_key(|frame| (number(frame).is_some() && !is_call(frame), number(frame)));
    }
    frames.retain(|frame| frame["subtype"] != "ui_invalidate");
    if run == "09_misc_tools" {
        frames = calls_of_our_tools(frames);
    }
    if run == "02_bash" {
        let is_end = |frame: &Value| {
            ["task_updated", "task_notification"].iter().any(|subtype| frame["subtype"] == *subtype)
                || frame["tasks"].as_array().is_some_and(Vec::is_empty)
        };
        let (ends, mut others): (Vec<_>, Vec<_>) = frames.into_iter().partition(is_end);
        let turn = others.iter().rposition(|frame| frame["subtype"] == "init").unwrap_or(others.len());
        others.splice(turn..turn, ends);
        frames = others;
    }
    frames
}

/// The same text, for a run that would otherwise take half a minute, without the wait.
fn changed(run: &str, text: String) -> String {
    if run == "09_misc_tools" { text.replace("sleep 30", "true") } else { text }
}

/// The frames of the first turn without those of background tasks, and without calls of tools that are elsewhere or that
/// depend on one of these.
fn calls_of_our_tools(frames: Vec<Value>) -> Vec<Value> {
    const DEPENDS: [(&str, &str); 3] =
        [("toolu_013_0", "CronCreate"), ("toolu_013_0", "Monitor"), ("toolu_032_0", "EnterWorktree")];
    let depends = DEPENDS.iter().filter(|(_, tool)| is_elsewhere(tool)).map(|(id, _)| json!(id));
    let mut left_out: Vec<Value> = depends.collect();
    let end = frames.iter().position(|frame| frame["type"] == "result").map_or(frames.len(), |at| at + 1);
    let mut kept = Vec::new();
    for frame in frames.into_iter().take(end) {
        let block = &frame["message"]["content"][0];
        if block["name"].as_str().is_some_and(is_elsewhere) {
            left_out.push(block["id"].clone());
        }
        let is_left_out = left_out.contains(&block["id"]) || left_out.contains(&block["tool_use_id"]);
        let is_text_of_user = frame["type"] == "user" && block["type"] == "text";
        let is_of_task = frame["type"] == "system" && frame["subtype"] != "init";
        if !is_left_out && !is_text_of_user && !is_of_task {
            kept.push(frame);
        }
    }
    kept
}

/// Runs whose calls run side by side.
const SIDE_BY_SIDE: &[&str] = &["01_read", "17_conc_3sleep_ro"];

fn is_task(frame: &Value) -> bool {
    frame["subtype"].as_str().is_some_and(|subtype| subtype.starts_with("task_"))
}

fn is_hook_progress(frame: &Value) -> bool {
    frame["subtype"] == "hook_progress"
}

/// How often a hook's progress is told depends on when it is looked at, and that on the clock.
fn progress_once(mut frames: Vec<Value>) -> Vec<Value> {
    frames.dedup_by(|next, before| is_hook_progress(next) && is_hook_progress(before));
    frames
}

fn read(dir: &Path, name: &str) -> String {
    std::fs::read_to_string(dir.join(name)).unwrap_or_default()
}

fn arguments(dir: &Path) -> Result<Value, String> {
    serde_json::from_str(&read(dir, "argv.json")).map_err(|error| error.to_string())
}

/// The run that a run goes on after: `NAME__x` after `NAME`.
fn earlier(dir: &Path) -> Option<PathBuf> {
    let (before, _) = dir.file_name()?.to_str()?.split_once("__")?;
    Some(dir.with_file_name(before))
}

fn name_of(dir: &Path) -> &str {
    dir.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn stdin_of(dir: &Path) -> String {
    match name_of(dir) {
        "stdin_text" | "stdin_text_and_arg" => "from stdin".to_owned(),
        // Not recorded; the prompt of the other runs of its kind.
        "04_tools_ppt" => json!({"type": "user", "message": {"role": "user", "content": "go"}}).to_string(),
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
