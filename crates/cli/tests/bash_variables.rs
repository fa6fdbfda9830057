//! The variables that set up Bash, each with the built program: what it changes, and what a value that makes no sense
//! does.
#![allow(clippy::disallowed_methods, reason = "tests work on real files")]

use std::os::unix::fs::PermissionsExt;

use lathe_testkit::{Finished, TestContext};
use serde_json::{Value, json};

fn context(inputs: &[Value]) -> TestContext {
    let calls = inputs.iter().map(|input| json!({"tools": [{"name": "Bash", "input": input}]}));
    let script: Value = calls.chain([json!({"text": "done"}), json!({"text": "done"})]).collect();
    TestContext::new(&script.to_string()).binary(env!("CARGO_BIN_EXE_lathe"))
}

fn run(context: &TestContext) -> Finished {
    let words = ["-p", "--output-format", "stream-json", "--verbose", "--allowedTools", "Bash", "--", "go"];
    context.run(&words).success()
}

/// The texts that came back from the calls.
fn answers(context: &TestContext) -> Vec<String> {
    let lines = run(context).lines();
    let contents = lines.iter().filter_map(|line| line["message"]["content"].as_array());
    let results = contents.flatten().filter(|block| block["type"] == "tool_result");
    results.map(|block| block["content"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_default_timeout_and_the_longest_one() {
    let waits = json!({"command": "sleep 1000"});
    let context = context(std::slice::from_ref(&waits)).env("BASH_DEFAULT_TIMEOUT_MS", "150");
    assert_eq!(answers(&context), ["Exit code 143\nCommand timed out after 0.15s"]);
    // What a call asks for is cut to the longest; the longest is never below the default.
    let asks = json!({"command": "sleep 1000", "timeout": 500_000});
    let context = self::context(std::slice::from_ref(&asks))
        .env("BASH_DEFAULT_TIMEOUT_MS", "100")
        .env("BASH_MAX_TIMEOUT_MS", "200");
    assert_eq!(answers(&context), ["Exit code 143\nCommand timed out after 0.2s"]);
    let context =
        self::context(&[waits]).env("BASH_DEFAULT_TIMEOUT_MS", "250").env("BASH_MAX_TIMEOUT_MS", "100");
    assert_eq!(answers(&context), ["Exit code 143\nCommand timed out after 0.25s"]);
    for nonsense in ["0", "soon", "-5", ""] {
        let context = self::context(&[json!({"command": "echo x"})])
            .env("BASH_DEFAULT_TIMEOUT_MS", nonsense)
            .env("BASH_MAX_TIMEOUT_MS", nonsense);
        assert_eq!(answers(&context), ["x"], "{nonsense:?}");
    }
}

#[test]
fn a_command_that_outlasts_its_timeout_is_moved_and_says_so() {
    let context =
        context(&[json!({"command": "echo begun; cat gate"})]).env("BASH_DEFAULT_TIMEOUT_MS", "150");
    context.make_pipe("gate");
    let words = ["-p", "--output-format", "stream-json", "--verbose", "--allowedTools", "Bash", "--", "go"];
    let mut running = context.start(&words);
    let told = running.wait_for("the result of the call", |line| line["tool_use_result"].is_object());
    let result = &told["tool_use_result"];
    assert_eq!((&result["timedOutAfterMs"], &result["stdout"]), (&json!(150), &json!("begun")));
    let content = told["message"]["content"][0]["content"].as_str().unwrap();
    assert!(content.starts_with("begun\nCommand did not complete within its 0.15s timeout"), "{content}");
    assert!(content.contains(result["backgroundTaskId"].as_str().unwrap()), "{content}");
    context.feed_pipe("gate", "");
    running.finish().success();
}

#[test]
fn the_length_of_output_that_is_shown() {
    let long = json!({"command": "seq 1 30"});
    let context = context(std::slice::from_ref(&long)).env("BASH_MAX_OUTPUT_LENGTH", "50");
    assert!(answers(&context)[0].starts_with("<persisted-output>\n"));
    // No more than 150,000 characters.
    let longer = json!({"command": "head -c 200000 /dev/zero | tr '\\0' x"});
    let context = self::context(&[longer]).env("BASH_MAX_OUTPUT_LENGTH", "999999");
    assert!(answers(&context)[0].starts_with("<persisted-output>\n"));
    let context = self::context(&[long]).env("BASH_MAX_OUTPUT_LENGTH", "0");
    assert!(answers(&context)[0].starts_with("1\n2\n"));
}

#[test]
fn the_shell() {
    let context = context(&[json!({"command": "echo x"})]);
    let shell = context.write_home("my-shell", "#!/bin/sh\necho \"mine: $1\"\n");
    std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).unwrap();
    let context = context.env("CLAUDE_CODE_SHELL", shell.display().to_string());
    assert_eq!(answers(&context), ["mine: -c"]);
}

#[test]
fn the_folder_that_is_kept() {
    let inputs = [json!({"command": "mkdir sub && cd sub"}), json!({"command": "pwd"})];
    for (value, kept) in [("1", true), ("0", false)] {
        let context = context(&inputs).env("CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR", value);
        let answers = answers(&context);
        let root = context.cwd().canonicalize().unwrap().display().to_string();
        if kept {
            assert_eq!(answers, [format!("Shell cwd was reset to {root}"), root]);
        } else {
            assert_eq!(answers, ["(Bash completed with no output)".to_owned(), format!("{root}/sub")]);
        }
    }
}

#[test]
fn the_place_of_output_files() {
    let input = json!({"command": "cd / && echo x", "run_in_background": true});
    for (variable, folder) in [("TMPDIR", "tmp"), ("CLAUDE_CODE_TMPDIR", "own tmp")] {
        let context = context(std::slice::from_ref(&input));
        let place = context.write_home(&format!("{folder}/keep"), "");
        let place = place.parent().unwrap().display().to_string();
        let context = context.env(variable, place.clone());
        let finished = run(&context);
        let results = finished.of_type("user");
        let hint = results[0]["tool_use_result"]["backgroundCwdHint"].as_str().unwrap();
        assert!(results[0]["message"]["content"][0]["content"].as_str().unwrap().ends_with(hint));
        let notices = finished.of_type("system");
        let notice = notices.iter().find(|frame| frame["subtype"] == "task_notification").unwrap();
        let file = notice["output_file"].as_str().unwrap();
        assert!(file.starts_with(&place), "{variable}: {file}");
        assert_eq!(std::fs::read_to_string(file).unwrap(), "x\n\n[exited with code 0]\n");
    }
}
