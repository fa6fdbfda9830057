//! How a run begins and is refused: exit codes and the texts that programs match, against the
//! recordings where there is one.

use lathe_testkit::TestContext;

fn context() -> TestContext {
    TestContext::new(r#"[{"text": "Hello there."}]"#).binary(env!("CARGO_BIN_EXE_lathe"))
}

/// Arguments, and what stderr must begin with.
const REFUSED: &[(&[&str], &str)] = &[
    (
        &["-p", "--output-format", "stream-json", "x"],
        "Error: When using --print, --output-format=stream-json requires --verbose",
    ),
    (
        &["-p", "--input-format", "stream-json"],
        "Error: --input-format=stream-json requires output-format=stream-json.",
    ),
    (
        &["-p", "--include-partial-messages", "x"],
        "Error: --include-partial-messages requires --print and --output-format=stream-json.",
    ),
    (
        &["-p", "--replay-user-messages", "x"],
        "Error: --replay-user-messages requires both --input-format=stream-json and --output-format=stream-json.",
    ),
    (
        &["-p"],
        "Error: Input must be provided either through stdin or as a prompt argument when using --print",
    ),
    (
        &["-p", "--output-format", "xml", "x"],
        "error: option '--output-format <format>' argument 'xml' is invalid. Allowed choices are text, json, stream-json.",
    ),
    (&["-p", "--nope", "x"], "error: unknown option '--nope'"),
    (
        &["-p", "--settings", r#"{"sandbox": {"enabled": true, "failIfUnavailable": true}}"#, "x"],
        "Error: settings ask for a sandbox, and lathe has none yet",
    ),
    (
        &["-p", "--max-turns", "abc", "x"],
        "error: option '--max-turns <turns>' argument 'abc' is invalid. must be a number",
    ),
    (
        &["-p", "--max-budget-usd", "-1", "x"],
        "error: option '--max-budget-usd <amount>' argument '-1' is invalid. --max-budget-usd must be a positive number greater than 0",
    ),
    (
        &["-p", "--setting-sources", "bogus", "x"],
        "Error processing --setting-sources: Invalid setting source: bogus. Valid options are: user, project, local",
    ),
    (
        &["-p", "--system-prompt-file", "/no/such/file", "x"],
        "Error: System prompt file not found: /no/such/file",
    ),
    (&["-p", "--session-id", "nope", "x"], "Error: Invalid session ID. Must be a valid UUID."),
    (&["-p", "--settings", "/no/such/file", "x"], "Error: Settings file not found: /no/such/file"),
];

#[test]
fn refusals_say_why_on_stderr_and_nothing_on_stdout() {
    let context = context();
    for (words, complaint) in REFUSED {
        let finished = context.run(words);
        assert_eq!(finished.code, Some(1), "{words:?}");
        assert_eq!(finished.stdout, "", "{words:?}");
        assert!(finished.stderr.starts_with(complaint), "{words:?}: {}", finished.stderr);
    }
    assert_eq!(context.server().request_count(), 0, "a run that is refused asks nobody");
}

#[test]
fn the_version_names_the_protocol() {
    let finished = context().run(&["--version"]);
    let expected = format!("lathe {} (protocol 2.1.325)\n", env!("CARGO_PKG_VERSION"));
    assert_eq!((finished.stdout, finished.code), (expected, Some(0)));
}

#[test]
fn root_may_not_skip_permissions_and_hosts_can_get_that_as_a_result() {
    let context = context().without_env("IS_SANDBOX");
    // Whoever runs the tests: only root is refused.
    let is_root =
        std::fs::metadata("/proc/self").map(|me| std::os::unix::fs::MetadataExt::uid(&me)).ok() == Some(0);
    let words = ["-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions", "x"];
    let finished = context.run(&words);
    assert_eq!(finished.code, Some(i32::from(is_root)));
    if is_root {
        let text =
            "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons\n";
        assert_eq!(finished.stderr, text);
        assert_eq!(finished.stdout, "");
        let asked = context.env("CLAUDE_CODE_STARTUP_FAILURE_RESULTS", "1").run(&words);
        let result = asked.result();
        assert_eq!(result["subtype"], "error_during_execution");
        assert_eq!(result["startup_failure_reason"], "bypass_root");
    }
}

#[test]
fn the_demo_mends_its_program() {
    let finished = context().run(&["demo"]);
    assert_eq!(finished.code, Some(0), "{}\n{}", finished.stdout, finished.stderr);
    assert!(finished.stdout.contains("tokens in"), "{}", finished.stdout);
    assert!(finished.stderr.contains("> Edit"), "{}", finished.stderr);
}

#[test]
fn without_a_key_nothing_is_sent() {
    let context = context().without_env("ANTHROPIC_API_KEY");
    let finished = context.run(&["-p", "x"]);
    assert_eq!(finished.code, Some(1));
    assert!(finished.stdout.starts_with("Not logged in"), "{}", finished.stdout);
    assert_eq!(context.server().request_count(), 0);
}

#[test]
fn the_request_is_ours_and_small() {
    let context = context();
    context.run(&["-p", "hello"]).success();
    let requests = context.server().requests();
    let request = &requests[0];
    assert_eq!(request.header("user-agent"), Some(concat!("lathe/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(request.target, "/v1/messages?beta=true");
    for foreign in ["x-app", "x-claude-code-session-id"] {
        assert_eq!(request.header(foreign), None, "{foreign}");
    }
    let body = request.json();
    assert!(request.body.len() < 16 * 1024, "{} bytes", request.body.len());
    assert!(body["metadata"]["user_id"].is_string());
    let breakpoints = body.to_string().matches("cache_control").count();
    assert_eq!(breakpoints, 3, "two system parts and the last block");
    let names: Vec<&str> =
        body["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str()).collect();
    let described = ["Bash", "Edit", "Read", "ReportFindings", "ScheduleWakeup", "ToolSearch", "Write"];
    assert_eq!(names, [&described[..], &["DeferredToolPlaceholder"]].concat());
}

#[test]
fn a_sandbox_that_is_not_there_is_said() {
    let finished = context().run(&["-p", "--settings", r#"{"sandbox": {"enabled": true}}"#, "hello"]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(finished.stderr.contains("settings ask for a sandbox"), "{}", finished.stderr);
}

#[test]
fn what_the_parent_program_forbids_stays_forbidden() {
    let calls = r#"[{"tools": [{"name": "Bash", "input": {"command": "echo hi"}}]}, {"text": "Done."}]"#;
    let context = TestContext::new(calls).binary(env!("CARGO_BIN_EXE_lathe"));
    let deny = r#"{"permissions": {"deny": ["Bash(echo *)"]}}"#;
    let allow = r#"{"permissions": {"allow": ["Bash(echo *)"]}}"#;
    let flags = ["--managed-settings", deny, "--settings", allow, "--allowedTools", "Bash"];
    let words: Vec<&str> =
        ["-p", "--output-format", "json"].iter().chain(&flags).chain(&["--", "go"]).copied().collect();
    let result: serde_json::Value = serde_json::from_str(&context.run(&words).success().stdout).unwrap();
    assert_eq!(result["permission_denials"][0]["tool_name"], "Bash", "{result}");
    let refused = context.run(&["-p", "--managed-settings", "{not json", "x"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("--managed-settings"), "{}", refused.stderr);
}

#[test]
fn explanations_describe_calls_as_their_tools_do() {
    let context = context();
    let explain = |words: &[&str]| {
        let words: Vec<&str> = ["permissions", "explain"].iter().chain(words).copied().collect();
        context.run(&words).success().stdout
    };
    let rules = ["--allow", "Bash(npm test)", "--deny", "Read(./secret)"];
    let with_rules = |words: &[&str]| explain(&[&rules[..], words].concat());
    for (words, decision) in [
        (["Bash", "npm test"], "decision: allow"),
        (["Bash", "npm publish"], "decision: ask"),
        (["Read", "secret"], "decision: deny"),
        (["Grep", "secret"], "decision: deny"),
        (["Write", "secret"], "decision: deny"),
        (["Glob", "../*"], "decision: ask"),
        (["EnterPlanMode", "{}"], "decision: allow"),
        (["AskUserQuestion", "{}"], "decision: ask"),
        (["TodoWrite", "{}"], "decision: allow"),
        // The name of a tool that there is not, however well known, is no reason to let it run.
        (["SlashCommand", "{}"], "decision: ask"),
        (["mcp__git__log", "{}"], "decision: ask"),
    ] {
        let shown = with_rules(&words);
        assert!(shown.contains(decision), "{words:?}: {shown}");
        let known = !matches!(words[0], "SlashCommand" | "mcp__git__log");
        assert_eq!(shown.contains("there is no such tool"), !known, "{shown}");
    }
    assert!(explain(&["--allow", "mcp__git", "mcp__git__log", "{}"]).contains("decision: allow"));
    let planned = explain(&["--mode", "plan", "Write", "x"]);
    assert!(planned.contains("decision: ask") && planned.contains("mode:     plan"), "{planned}");
}
