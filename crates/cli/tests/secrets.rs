//! What children find in their environment, with the built program: no credential of the model in what works for the
//! model or a project, unless the user passes it on; and next to nothing in the shell of a command that nobody vouches
//! for. Every kind of child there is has a test here. The values of credentials are canaries.
#![allow(clippy::disallowed_methods, reason = "tests work on real files")]

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use lathe_testkit::{Finished, TestContext};
use serde_json::{Value, json};

/// Every variable that may hold a credential for the model.
const CREDENTIALS: [&str; 5] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "CLAUDE_API_KEY",
    "CLAUDE_CODE_OAUTH_TOKEN",
];
const STREAM: [&str; 4] = ["-p", "--output-format", "stream-json", "--verbose"];
const TALK: [&str; 6] =
    ["-p", "--output-format", "stream-json", "--verbose", "--input-format", "stream-json"];
const USER_SETTINGS: &str = ".claude/settings.json";
const PROJECT_SETTINGS: &str = ".claude/settings.json";
const LOCAL_SETTINGS: &str = ".claude/settings.local.json";

fn canary(name: &str) -> String {
    // A header has a name in front; the others are fine with that.
    format!("X-Canary: CANARY-{name}")
}

/// A model that follows a script, and a process environment with a canary in every credential.
fn context(script: &Value) -> TestContext {
    let context = TestContext::new(&script.to_string()).binary(env!("CARGO_BIN_EXE_lathe"));
    let context = context.env("ORDINARY", "ordinary-value").env("AWS_SECRET_ACCESS_KEY", "not-ours");
    CREDENTIALS.into_iter().fold(context, |context, name| context.env(name, canary(name)))
}

/// A model that calls Bash with each of the commands, one after the other, and then answers.
fn running(commands: &[&str]) -> TestContext {
    let calls =
        commands.iter().map(|command| json!({"tools": [{"name": "Bash", "input": {"command": command}}]}));
    context(&calls.chain([json!({"text": "done"}), json!({"text": "done"})]).collect())
}

fn stream<'a>(more: &[&'a str]) -> Vec<&'a str> {
    STREAM.into_iter().chain(more.iter().copied()).collect()
}

/// A session in which Bash is allowed.
fn allowed(context: &TestContext, more: &[&str]) -> Finished {
    let words = [&stream(&["--allowedTools", "Bash"])[..], more, &["--", "go"]].concat();
    context.run(&words).success()
}

fn tool_results(finished: &Finished) -> Vec<String> {
    let lines = finished.lines();
    let contents = lines.iter().filter_map(|line| line["message"]["content"].as_array());
    let results = contents.flatten().filter(|block| block["type"] == "tool_result");
    results.map(|block| block["content"].to_string()).collect()
}

fn trust(context: &TestContext) {
    let key = context.cwd().to_str().unwrap();
    let state = json!({"projects": {key: {"hasTrustDialogAccepted": true}}});
    context.write_home(".claude.json", &state.to_string());
}

/// A program that is first on the search path and writes its environment to a file of the home folder.
fn with_spy(context: TestContext, name: &str) -> TestContext {
    let seen = context.home().join(format!("{name}.env"));
    let text = format!("#!/bin/sh\ncat /proc/self/environ | tr '\\0' '\\n' > '{}'\n", seen.display());
    let program = context.write_home(&format!("bin/{name}"), &text);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", context.home().join("bin").display(), std::env::var("PATH").unwrap());
    context.env("PATH", path)
}

/// What a file of the home folder says that a child wrote its environment to.
fn seen(context: &TestContext, name: &str) -> String {
    let path = context.home().join(format!("{name}.env"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A command for hooks and helpers that writes its environment to a file of the home folder.
fn dump(name: &str) -> String {
    format!("cat /proc/self/environ | tr '\\0' '\\n' > \"$HOME/{name}.env\"")
}

fn hooks(event: &str, command: &str) -> Value {
    json!({"hooks": {event: [{"hooks": [{"type": "command", "command": command}]}]}})
}

fn has_no_canary(text: &str, what: &str) {
    assert!(!text.contains("CANARY"), "{what}: {text}");
    // Otherwise nothing was seen at all.
    assert!(text.contains("CLAUDECODE"), "{what}: {text}");
}

fn names(environment: &str) -> Vec<&str> {
    let lines = environment.lines().filter_map(|line| line.split_once('='));
    lines.map(|(name, _)| name).collect()
}

#[test]
fn no_command_of_a_tool_finds_a_credential() {
    let probes = [
        "env",
        "printenv",
        "cat /proc/self/environ | tr '\\0' '\\n'",
        "cat /proc/$$/environ | tr '\\0' '\\n'",
        "bash -c 'export -p'",
        "jq -n env",
        "jq -n '$ENV'",
        "(setsid env)",
    ];
    let context = running(&probes);
    let finished = allowed(&context, &[]);
    let results = tool_results(&finished);
    assert_eq!(results.len(), probes.len());
    for (probe, result) in probes.iter().zip(results) {
        has_no_canary(&result, probe);
        assert!(result.contains("ordinary-value"), "{probe}: {result}");
        assert!(result.contains("not-ours"), "only credentials of the model are kept: {probe}");
    }
    assert!(!finished.stdout.contains("CANARY") && !finished.stderr.contains("CANARY"));
}

#[test]
fn a_command_of_the_model_that_nobody_vouches_for_finds_no_credential() {
    // The real program, unasked, and one that shows all that it finds.
    let context = running(&["jq -n env", "jq -n '$ENV.ANTHROPIC_API_KEY'"]);
    let finished = context.run(&stream(&["go"])).success();
    let results = tool_results(&finished);
    has_no_canary(&results[0], "jq -n env");
    assert!(results[1].contains("null"), "{}", results[1]);
    let spied = with_spy(running(&["rg x", "git log"]), "rg");
    spied.run(&stream(&["go"])).success();
    has_no_canary(&seen(&spied, "rg"), "rg");
}

#[test]
fn a_program_that_read_starts_finds_no_credential() {
    let call = json!({"tools": [{"name": "Read", "input": {"file_path": "a.pdf", "pages": "1"}}]});
    let context = with_spy(context(&json!([call, {"text": "done"}])), "pdftoppm");
    context.write("a.pdf", "%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\n");
    context.run(&stream(&["go"])).success();
    has_no_canary(&seen(&context, "pdftoppm"), "pdftoppm");
}

#[test]
fn hooks_of_a_project_find_none_and_those_of_the_user_find_all() {
    let context = running(&[]);
    trust(&context);
    context.write_home(USER_SETTINGS, &hooks("SessionStart", &dump("user")).to_string());
    context.write(PROJECT_SETTINGS, &hooks("SessionStart", &dump("project")).to_string());
    context.write(LOCAL_SETTINGS, &hooks("SessionStart", &dump("local")).to_string());
    let flag = hooks("SessionStart", &dump("flag")).to_string();
    let managed = hooks("SessionStart", &dump("managed")).to_string();
    context.run(&stream(&["--settings", &flag, "--managed-settings", &managed, "go"])).success();
    for name in ["project", "local"] {
        has_no_canary(&seen(&context, name), name);
        assert!(seen(&context, name).contains("ORDINARY=ordinary-value"), "{name}");
    }
    for name in ["user", "flag", "managed"] {
        for credential in CREDENTIALS {
            assert!(seen(&context, name).contains(&canary(credential)), "{name}: {credential}");
        }
    }
}

#[test]
fn variables_that_hooks_or_a_host_set_bring_no_credential_back() {
    // A hook of the user has the key, and copies all it has to the commands, as some tools for environments do.
    let context = running(&["env"]);
    let copy =
        format!("{}; {{ echo '{}'; export -p; }} >> \"$CLAUDE_ENV_FILE\"", dump("hook"), dump("reader"));
    context.write_home(USER_SETTINGS, &hooks("SessionStart", &copy).to_string());
    let finished = allowed(&context, &[]);
    assert!(seen(&context, "hook").contains("CANARY"));
    has_no_canary(&seen(&context, "reader"), "the shell that reads CLAUDE_ENV_FILE");
    has_no_canary(&tool_results(&finished)[0], "env");

    let context = running(&["env"]);
    let words = [&TALK[..], &["--allowedTools", "Bash"]].concat();
    let mut running = context.start(&words);
    running.send(&json!({"type": "update_environment_variables", "variables": {
        "ANTHROPIC_API_KEY": "CANARY-of-the-host", "FROM_HOST": "from-host"}}));
    running.send(&json!({"type": "user", "message": {"role": "user", "content": "go"}}));
    running.wait_for_type("result");
    running.close_stdin();
    let results = tool_results(&running.finish());
    has_no_canary(&results[0], "env");
    assert!(results[0].contains("from-host"), "{}", results[0]);
}

#[test]
fn settings_that_set_a_credential_do_not_give_it_to_commands() {
    let context = running(&["env"]);
    let settings = json!({"env": {"ANTHROPIC_API_KEY": "CANARY-of-settings", "MINE": "mine-value"}});
    context.write_home(USER_SETTINGS, &settings.to_string());
    let results = tool_results(&allowed(&context, &[]));
    has_no_canary(&results[0], "env");
    assert!(results[0].contains("mine-value"), "{}", results[0]);
}

/// A world without a key but the one that the helper prints.
fn helped() -> TestContext {
    let keys = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_API_KEY"];
    keys.into_iter().fold(running(&["env"]), TestContext::without_env)
}

#[test]
fn a_key_helper_of_the_project_finds_none_and_its_key_goes_nowhere() {
    let helper = format!("{}; echo CANARY-of-the-helper", dump("helper"));
    let settings = json!({"apiKeyHelper": helper}).to_string();
    for (of_project, path) in [(true, PROJECT_SETTINGS), (false, USER_SETTINGS)] {
        let context = helped();
        trust(&context);
        if of_project {
            context.write(path, &settings)
        } else {
            context.write_home(path, &settings)
        };
        let finished = allowed(&context, &[]);
        let found = seen(&context, "helper");
        assert_eq!(found.contains("CANARY"), !of_project, "{found}");
        assert!(found.contains("ORDINARY="), "{found}");
        has_no_canary(&tool_results(&finished)[0], "env");
        assert_eq!(context.server().request_count(), 2, "the key was used");
    }
}

#[test]
fn the_user_passes_credentials_on_by_name() {
    let settings = json!({"toolEnv": ["ANTHROPIC_API_KEY"]}).to_string();
    let ways: [(&str, &[&str]); 4] = [
        (&settings, &[]),
        ("{}", &["--tool-env", "ANTHROPIC_API_KEY"]),
        ("{}", &["--settings", &settings]),
        ("{}", &["--managed-settings", &settings]),
    ];
    for (user, flags) in ways {
        let context = running(&["env", "jq -n env"]);
        trust(&context);
        context.write_home(USER_SETTINGS, user);
        context.write(PROJECT_SETTINGS, &hooks("SessionStart", &dump("project")).to_string());
        // Nobody vouches for the second command.
        let words = [&stream(&["--allowedTools", "Bash(env)"])[..], flags, &["--", "go"]].concat();
        let results = tool_results(&context.run(&words).success());
        let found = [results[0].as_str(), results[1].as_str(), &seen(&context, "project")].map(str::to_owned);
        for text in found {
            assert!(text.contains(&canary("ANTHROPIC_API_KEY")), "{user} {flags:?}: {text}");
            assert_eq!(text.matches("CANARY").count(), 1, "the others stay away: {text}");
        }
    }
    let context = running(&["env"]);
    let both = ["--tool-env", "ANTHROPIC_API_KEY", "--tool-env=CLAUDE_API_KEY"];
    let results = tool_results(&allowed(&context, &both));
    assert_eq!(results[0].matches("CANARY").count(), 2, "{}", results[0]);
}

#[test]
fn a_project_passes_no_credential_on() {
    let context = running(&["env"]);
    trust(&context);
    let settings = json!({"toolEnv": CREDENTIALS}).to_string();
    context.write(PROJECT_SETTINGS, &settings);
    context.write(LOCAL_SETTINGS, &settings);
    let finished = allowed(&context, &[]);
    has_no_canary(&tool_results(&finished)[0], "env");
    assert_eq!(finished.stderr.matches("`toolEnv` is ignored").count(), 2, "{}", finished.stderr);
}

#[test]
fn a_value_on_the_command_line_is_refused() {
    let finished = running(&[]).run(&stream(&["--tool-env", "ANTHROPIC_API_KEY=x", "go"]));
    assert_eq!(finished.code, Some(1));
    assert!(finished.stderr.contains("--tool-env <name>") && finished.stderr.contains("name of a variable"));
}

#[test]
fn a_lathe_inside_a_command_says_why_it_has_no_key() {
    let inner = format!("'{}' -p hi --output-format json", env!("CARGO_BIN_EXE_lathe"));
    let outer = |flags: &[&str]| {
        let context = running(&[&inner]);
        let results = tool_results(&allowed(&context, flags));
        (context, results[0].clone())
    };
    let (context, told) = outer(&[]);
    for part in ["Not logged in", "another lathe", "--tool-env ANTHROPIC_API_KEY", "toolEnv"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(context.server().request_count(), 2, "the inner one asked nobody");
    let (context, told) = outer(&["--tool-env", "ANTHROPIC_API_KEY"]);
    assert!(told.contains("done") && !told.contains("Not logged in"), "{told}");
    assert_eq!(context.server().request_count(), 3);

    let status = format!("'{}' auth status; true", env!("CARGO_BIN_EXE_lathe"));
    let told = tool_results(&allowed(&running(&[&status]), &[]));
    assert!(told[0].contains("command of another lathe") && told[0].contains("toolEnv"), "{}", told[0]);
}

// The shell of a command that nobody vouches for.

/// Variables that give harmless words another meaning, and one that nobody has heard of.
const MEANINGFUL: [&str; 12] = [
    "CDPATH",
    "BASHOPTS",
    "GLOBIGNORE",
    "POSIXLY_CORRECT",
    "GCONV_PATH",
    "RIPGREP_CONFIG_PATH",
    "MANOPT",
    "MANPATH",
    "BASH_ENV",
    "GREP_OPTIONS",
    "LD_LIBRARY_PATH",
    "NEVER_HEARD_OF",
];

#[test]
fn it_starts_from_a_short_list_of_variables() {
    let context = with_spy(running(&["rg x"]), "rg");
    let context = MEANINGFUL
        .into_iter()
        .filter(|name| *name != "BASHOPTS" && *name != "LD_LIBRARY_PATH")
        .fold(context, |context, name| context.env(name, "from-the-process"));
    let kept = ["LANG", "LC_TIME", "TERM", "TZ", "USER", "LOGNAME", "SHELL", "TMPDIR", "HOME", "PATH"];
    let context = context.env("LC_TIME", "C").env("TERM", "dumb").env("TZ", "UTC").env("SHELL", "/bin/bash");
    let context = context.env("USER", "u").env("LOGNAME", "u");
    trust(&context);
    let project = json!({"env": {"BASHOPTS": "dotglob", "LD_LIBRARY_PATH": "/nowhere", "FOO": "x", "MINE": "project's"}});
    context.write(PROJECT_SETTINGS, &project.to_string());
    context.write_home(USER_SETTINGS, &json!({"env": {"MINE": "user's"}}).to_string());
    context.run(&stream(&["go"])).success();
    let found = seen(&context, "rg");
    let names = names(&found);
    for name in MEANINGFUL.into_iter().chain(["FOO", "ORDINARY", "AWS_SECRET_ACCESS_KEY"]) {
        // Bash tells its children of no options unless it was told of some.
        assert!(!names.contains(&name), "{name}: {found}");
    }
    for name in kept.into_iter().chain(["CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "AI_AGENT", "GIT_EDITOR"]) {
        assert!(names.contains(&name), "{name}: {found}");
    }
    assert!(found.contains("MINE=user's"), "{found}");
}

#[test]
fn a_rule_a_mode_or_an_answer_gives_it_the_whole_environment() {
    let ways: [&[&str]; 2] = [&["--allowedTools", "Bash(rg:*)"], &["--permission-mode", "bypassPermissions"]];
    for way in ways {
        let context = with_spy(running(&["rg x"]), "rg").env("IS_SANDBOX", "1");
        context.run(&[&stream(way)[..], &["--", "go"]].concat()).success();
        assert!(seen(&context, "rg").contains("ORDINARY=ordinary-value"), "{way:?}");
    }
    let context = with_spy(running(&["rg x > out"]), "rg");
    let mut running = context.start(&[&TALK[..], &["--permission-prompt-tool", "stdio"]].concat());
    running.send(&json!({"type": "user", "message": {"role": "user", "content": "go"}}));
    let question = running.wait_for("a question", |line| line["request"]["subtype"] == "can_use_tool");
    running.send(&json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": question["request_id"], "response": {"behavior": "allow"}}}));
    running.wait_for_type("result");
    running.close_stdin();
    running.finish();
    assert!(seen(&context, "rg").contains("ORDINARY=ordinary-value"));

    let context = with_spy(self::running(&["rg x"]), "rg");
    let hook = r#"echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}'"#;
    context.run(&stream(&["--settings", &hooks("PreToolUse", hook).to_string(), "go"])).success();
    assert!(seen(&context, "rg").contains("ORDINARY=ordinary-value"));
}

/// AT-120 to AT-123: the variable comes from a folder, untrusted and trusted, and from the shell that started lathe.
/// The call may be asked about or run; what it must not do is show the file.
#[test]
fn variables_make_no_command_read_what_it_does_not_name() {
    let cases: [(&str, &[(&str, &str)]); 4] = [
        ("cd .ssh && cat id_rsa", &[("CDPATH", "<home>")]),
        ("cd foo && cat id_rsa", &[("BASHOPTS", "cdable_vars"), ("foo", "<home>/.ssh")]),
        ("head README.md -n <home>/.ssh/id_rsa", &[("POSIXLY_CORRECT", "1")]),
        ("cat *", &[("BASHOPTS", "dotglob")]),
    ];
    for (command, variables) in cases {
        for from in ["untrusted", "trusted", "process"] {
            let mut context = TestContext::with_script_for(|places| {
                let command = command.replace("<home>", places.home.to_str().unwrap());
                let calls =
                    json!([{"tools": [{"name": "Bash", "input": {"command": command}}]}, {"text": "done"}]);
                lathe_scripted::Script::parse("script", &calls.to_string()).unwrap()
            })
            .binary(env!("CARGO_BIN_EXE_lathe"));
            let home = context.home().to_str().unwrap().to_owned();
            let settings: serde_json::Map<String, Value> = variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), json!(value.replace("<home>", &home))))
                .collect();
            context.write_home(".ssh/id_rsa", "CANARY\n");
            context.write(".env", "CANARY\n");
            context.write("README.md", "readme\n");
            match from {
                "process" => {
                    for (name, value) in &settings {
                        context = context.env(name, value.as_str().unwrap());
                    }
                }
                other => {
                    context.write(PROJECT_SETTINGS, &json!({"env": settings}).to_string());
                    if other == "trusted" {
                        trust(&context);
                    }
                }
            }
            let deny = json!({"permissions": {"deny": ["Read(./.env)"]}}).to_string();
            let finished = context.run(&stream(&["--settings", &deny, "go"])).success();
            let results = tool_results(&finished);
            assert!(!results[0].contains("CANARY"), "{command} ({from}): {}", results[0]);
        }
    }
}

/// AT-117 to AT-119: the program that the variable would make the command run.
#[test]
fn variables_make_no_command_run_another_program() {
    // `man` runs the formatter that its configuration names.
    let man = json!({"MANOPT": "-C<cwd>/man.conf", "MANPATH": "<cwd>/man", "MANPAGER": "cat"});
    let cases = [
        ("man x", man),
        ("ls", json!({"BASH_ENV": "<cwd>/evil.sh"})),
        ("git log", json!({"GIT_PAGER": "<cwd>/evil.sh", "GIT_EXTERNAL_DIFF": "<cwd>/evil.sh"})),
    ];
    for (command, variables) in cases {
        for from in ["trusted", "process"] {
            let mut context = running(&[command]);
            let cwd = context.cwd().to_str().unwrap().to_owned();
            let evil = context.write("evil.sh", "#!/bin/sh\ntouch \"$(dirname \"$0\")/pwned\" pwned\n");
            std::fs::set_permissions(&evil, std::fs::Permissions::from_mode(0o755)).unwrap();
            context.write("man.conf", &format!("DEFINE nroff {cwd}/evil.sh\nDEFINE troff {cwd}/evil.sh\n"));
            context.write("man/man1/x.1", ".TH X 1\n.SH NAME\nx\n");
            let variables = variables.to_string().replace("<cwd>", &cwd);
            let variables: Value = serde_json::from_str(&variables).unwrap();
            if from == "trusted" {
                trust(&context);
                context.write(PROJECT_SETTINGS, &json!({"env": variables}).to_string());
            } else {
                for (name, value) in variables.as_object().unwrap() {
                    context = context.env(name, value.as_str().unwrap());
                }
            }
            context.run(&stream(&["go"])).success();
            assert!(!context.cwd().join("pwned").exists(), "{command} ({from})");
        }
    }
}

// What belongs to nobody else, elsewhere than in an environment.

#[test]
fn a_crash_leaves_no_core_file_and_commands_keep_their_limit() {
    let context = running(&["grep -h 'Max core file size' /proc/self/limits /proc/$CLAUDE_PID/limits"]);
    let limited = format!(
        "#!/bin/sh\nulimit -Sc 4242\ncat /proc/self/limits > limits\nexec '{}' \"$@\"\n",
        env!("CARGO_BIN_EXE_lathe")
    );
    let wrapper = context.write_home("wrapper", &limited);
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let context = context.binary(wrapper);
    let results = tool_results(&allowed(&context, &[]));
    let soft = |line: &str| line.split_whitespace().nth(4).unwrap().to_owned();
    let limits: Vec<String> = results[0].trim_matches('"').split("\\n").map(soft).collect();
    let before = context.read("limits");
    let before = before.lines().find(|line| line.starts_with("Max core file size")).map(soft).unwrap();
    assert_ne!(before, "0");
    assert_eq!(limits, [before, "0".to_owned()], "{}", results[0]);
}

#[test]
fn debug_output_holds_no_credential() {
    let context = running(&[]);
    let log = context.home().join("debug.log");
    let words = ["--debug", "api", "--debug-file", log.to_str().unwrap(), "--", "go"];
    let finished = context.run(&stream(&words)).success();
    assert!(!finished.stderr.contains("CANARY") && !finished.stdout.contains("CANARY"));
    let mut open = vec![context.home().to_owned()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            assert!(!text.contains("CANARY"), "{}", path.display());
        }
    }
}

#[test]
fn telemetry_variables_send_nothing_anywhere() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    collector.set_nonblocking(true).unwrap();
    let address = format!("http://{}", collector.local_addr().unwrap());
    let context = running(&[])
        .env("CLAUDE_CODE_ENABLE_TELEMETRY", "1")
        .env("OTEL_METRICS_EXPORTER", "otlp")
        .env("OTEL_LOGS_EXPORTER", "otlp")
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", address);
    context.run(&stream(&["go"])).success();
    assert!(collector.accept().is_err(), "somebody was told of the session");
}

#[test]
fn a_token_in_the_address_of_a_remote_is_told_to_nobody() {
    let context = running(&[]);
    context.write(".git/HEAD", "ref: refs/heads/main\n");
    let remote =
        "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://user:REMOTE-TOKEN@example.org/x.git\n";
    context.write(".git/config", remote);
    let finished = context.run(&stream(&["go"])).success();
    assert!(!finished.stdout.contains("REMOTE-TOKEN"));
    let requests = context.server().requests();
    assert!(!requests.is_empty());
    assert!(requests.iter().all(|request| !request.json().to_string().contains("REMOTE-TOKEN")));
}
