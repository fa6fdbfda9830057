//! What becomes of calls that cannot run, one case with a name for each reason, and which of them hooks hear of: look-up,
//! schema and input check come before the hooks, rules after them.

mod common;

use common::hooked::{command, hooked, on};
use common::{of_type, run, run_config};
use lathe_protocol::PermissionBehavior;
use serde_json::{Value, json};
use tempfile::tempdir;

/// Whether the hook before the call is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hook {
    Asked,
    NotAsked,
}

struct Case<'a> {
    name: &'a str,
    call: Value,
    content: &'a str,
    value: &'a str,
    hook: Hook,
}

/// The error of a call, and the value for programs.
async fn error_of(call: &Value) -> (String, String, Hook) {
    let folder = tempdir().unwrap();
    let hooks = on("PreToolUse", command("touch \"$CLAUDE_PROJECT_DIR/asked\""));
    let turns = json!([{"tools": [call]}, {"text": "ok"}]);
    let mut setup = hooked(turns, folder.path(), hooks);
    setup.rules = vec![(PermissionBehavior::Deny, "Bash(touch *)".to_owned())];
    let (frames, _) = run(setup, &["go"]).await;
    let frame = of_type(&frames, "user")[0];
    let block = &frame["message"]["content"][0];
    assert_eq!(block["is_error"], true, "{block}");
    let hook = if folder.path().join("asked").exists() { Hook::Asked } else { Hook::NotAsked };
    let content = block["content"].as_str().unwrap().to_owned();
    (content, frame["tool_use_result"].as_str().unwrap_or_default().to_owned(), hook)
}

#[tokio::test]
async fn calls_that_cannot_run() {
    let missing = "<tool_use_error>InputValidationError: Bash failed due to the following issue:\n\
                   The required parameter `command` is missing</tool_use_error>";
    let unexpected = "<tool_use_error>InputValidationError: Bash failed due to the following issue:\n\
                      An unexpected parameter `x` was provided</tool_use_error>";
    let cases = [
        Case {
            name: "a tool that does not exist",
            call: json!({"name": "Nope", "input": {}}),
            content: "<tool_use_error>Error: No such tool available: Nope</tool_use_error>",
            value: "Error: No such tool available: Nope",
            hook: Hook::NotAsked,
        },
        Case {
            name: "a parameter is missing",
            call: json!({"name": "Bash", "input": {}}),
            content: missing,
            value: "InputValidationError: [\n",
            hook: Hook::NotAsked,
        },
        Case {
            name: "a parameter is unknown",
            call: json!({"name": "Bash", "input": {"command": "true", "x": 1}}),
            content: unexpected,
            value: "InputValidationError: [\n",
            hook: Hook::NotAsked,
        },
        Case {
            name: "a parameter has another type",
            call: json!({"name": "Bash", "input": {"command": ["true"]}}),
            content: "<tool_use_error>InputValidationError: [\n  {\n",
            value: "InputValidationError: [\n  {\n",
            hook: Hook::NotAsked,
        },
        Case {
            name: "the input is no JSON",
            call: json!({"name": "Read", "raw": "{\"file"}),
            content: "<tool_use_error>InputValidationError: ",
            value: "InputValidationError: ",
            hook: Hook::NotAsked,
        },
        Case {
            name: "the tool itself refuses the input",
            call: json!({"name": "Read", "input": {"file_path": "a.dat"}}),
            content: "<tool_use_error>This tool cannot read binary files.",
            value: "Error: This tool cannot read binary files.",
            hook: Hook::NotAsked,
        },
        Case {
            name: "a rule denies it",
            call: json!({"name": "Bash", "input": {"command": "touch x"}}),
            content: "Permission to use Bash with command touch x has been denied",
            value: "Error: Permission to use Bash with command touch x has been denied",
            hook: Hook::Asked,
        },
        Case {
            name: "it was tried and failed",
            call: json!({"name": "Read", "input": {"file_path": "missing"}}),
            content: "File does not exist.",
            value: "Error: File does not exist.",
            hook: Hook::Asked,
        },
    ];
    for case in cases {
        let (content, value, hook) = error_of(&case.call).await;
        assert!(content.starts_with(case.content), "{}: {content}", case.name);
        assert!(value.starts_with(case.value), "{}: {value}", case.name);
        assert_eq!(hook, case.hook, "{}", case.name);
    }
}

#[tokio::test]
async fn a_tool_that_this_session_does_not_have_is_named_as_such() {
    let folder = tempdir().unwrap();
    let turns = json!([{"tools": [{"name": "Monitor", "input": {}}]}, {"text": "ok"}]);
    let mut config = hooked(turns, folder.path(), json!({})).config();
    config.known_tools.push("Monitor".to_owned());
    let gone = ["Monitor".to_owned()];
    config.main.tools = config.main.tools.select(lathe_tools::Selection::Except(&gone));
    let (frames, _) = run_config(config, &["go"]).await;
    let content = &of_type(&frames, "user")[0]["message"]["content"][0]["content"];
    let expected = "<tool_use_error>Error: No such tool available: Monitor. Monitor exists but is disabled in this \
                    session.</tool_use_error>";
    assert_eq!(content, expected);
}
