//! Guards under want: hooks that must be asked before a call runs, on a machine without descriptors or processes
//! for them. The built program runs under a limit that a shell sets before it starts it, so that nothing of the
//! test itself is limited.
#![allow(clippy::disallowed_macros, reason = "a test that cannot run here says so")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use lathe_testkit::{Finished, Running, TestContext};
use serde_json::{Value, json};

const LATHE: &str = env!("CARGO_BIN_EXE_lathe");

/// What the guard says is not in its own text, so that a message which only names the hook is not taken for it.
const GUARD: &str = "echo ke''pt >&2; exit 2";
const GUARD_SAYS: &str = "[echo ke''pt >&2; exit 2]: kept";

const NOT_ASKED: &str = "[echo ke''pt >&2; exit 2]: this hook could not be asked";

const SECRET: &str = "what the file says";

/// A run whose model asks for this many Reads at once, with hooks of the user's own settings.
fn reading(reads: usize, hooks: &Value) -> TestContext {
    let read = json!({"name": "Read", "input": {"file_path": "secret.txt"}});
    let script = json!([{"tools": vec![read; reads]}, {"text": "done"}]);
    let context = TestContext::new(&script.to_string()).limit(Duration::from_secs(120));
    context.write("secret.txt", SECRET);
    context.write_home(".claude/settings.json", &json!({"hooks": hooks}).to_string());
    // A shell that sets the limits and then becomes the program.
    context.binary("/bin/bash")
}

fn command_hook(command: &str) -> Value {
    json!({"type": "command", "command": command})
}

fn before_tools(hooks: &[Value]) -> Value {
    json!({"PreToolUse": [{"hooks": hooks}]})
}

/// The words for a shell that runs `first` and then the program in its place.
fn behind(first: &str, words: &[&str]) -> Vec<String> {
    let shell = format!("{first} && exec \"$0\" \"$@\"");
    let all = ["-c", &shell, LATHE].into_iter().chain(words.iter().copied());
    all.map(str::to_owned).collect()
}

const STREAM: [&str; 6] = ["-p", "--output-format", "stream-json", "--verbose", "--allowedTools", "Read"];

fn run(context: &TestContext, first: &str) -> Finished {
    let words: Vec<&str> = STREAM.into_iter().chain(["--", "go"]).collect();
    context.run(&behind(first, &words)).success()
}

/// What the model was told about its calls.
fn answers(finished: &Finished) -> Vec<String> {
    let lines = finished.of_type("user");
    let blocks =
        lines.iter().flat_map(|line| line["message"]["content"].as_array().cloned().unwrap_or_default());
    let results = blocks.filter(|block| block["type"] == "tool_result");
    results.map(|block| block["content"].to_string()).collect()
}

/// Each call has one answer, which is the guard's or names guard and error; the run ends well.
fn assert_all_kept(finished: &Finished, calls: usize, what: &str) {
    let answers = answers(finished);
    assert_eq!(answers.len(), calls, "{what}: {finished:#?}");
    for answer in &answers {
        assert!(!answer.contains(SECRET), "{what}: a Read ran");
        let by_error = answer.contains(NOT_ASKED) && answer.contains("os error");
        assert!(answer.contains(GUARD_SAYS) || by_error, "{what}: {answer}");
    }
    assert_eq!(finished.result()["result"], "done", "{what}");
    assert!(!finished.stdout.contains(SECRET), "{what}");
}

#[test]
fn few_descriptors_let_no_call_pass_its_guard() {
    for limit in [48, 32, 24] {
        let context = reading(12, &before_tools(&[command_hook(GUARD)]));
        let finished = run(&context, &format!("ulimit -n {limit}"));
        assert_all_kept(&finished, 12, &format!("-n {limit}"));
        context.assert_no_survivors();
    }
}

#[test]
fn many_hooks_let_no_call_pass_its_guard() {
    for further in [20, 40] {
        let mut hooks: Vec<Value> =
            (0..further).map(|n| command_hook(&format!("sleep 0.3; : {n}"))).collect();
        hooks.push(command_hook(GUARD));
        let context = reading(12, &before_tools(&hooks));
        let finished = run(&context, "ulimit -n 1024");
        assert_all_kept(&finished, 12, &format!("{further} further hooks"));
        let by_guard = answers(&finished).iter().filter(|answer| answer.contains(GUARD_SAYS)).count();
        assert_eq!(by_guard, 12, "places for all of them");
    }
}

#[test]
fn hundreds_of_calls_behind_a_guard_come_to_their_end() {
    let context = reading(600, &before_tools(&[command_hook(GUARD)]));
    let finished = run(&context, "ulimit -n 256");
    assert_all_kept(&finished, 600, "600 Reads");
}

/// A shell's words after which its user can start no further process. Root has no such limit, so another user is
/// needed, who must be able to reach the program and the folders of the test; none and a line that says so where
/// that cannot be.
fn without_processes(context: &TestContext) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("ulimit -u 1".to_owned());
    }
    let reachable = |path: &&Path| {
        let found = std::fs::metadata(path);
        found.is_ok_and(|found| found.permissions().mode() & 0o001 != 0)
    };
    let setpriv = ["/usr/bin/setpriv", "/bin/setpriv"].map(Path::new);
    let root = context.cwd().parent().expect("the folder of the test");
    // Folders of the test itself are opened below.
    let way = Path::new(LATHE).ancestors().chain(root.ancestors().skip(1));
    let closed = way.into_iter().find(|path| !reachable(path));
    let missing = if setpriv.iter().any(reachable) { closed } else { Some(setpriv[0]) };
    if let Some(path) = missing {
        eprintln!("skipped: {} cannot be used by, or to become, another user", path.display());
        return None;
    }
    let root = root.display();
    // `exec` twice: the limit is set by the other user's shell, which then becomes the program.
    Some(format!(
        "chmod -R a+rwX {root} && exec setpriv --reuid=65534 --regid=65534 --clear-groups \
         /bin/bash -c 'ulimit -u 1 && exec \"$0\" \"$@\"' \"$0\" \"$@\""
    ))
}

#[test]
fn a_machine_without_processes_lets_no_call_pass_its_guard() {
    let guard = json!({"type": "command", "command": GUARD, "timeout": 1});
    // Looking up its name would take a thread, which counts as a process.
    let http = json!({"type": "http", "url": "http://localhost:9/guard", "timeout": 1});
    for (hook, calls, named) in [(guard, 12, NOT_ASKED), (http, 2, "[http://localhost:9/guard]: this hook")] {
        let context = reading(calls, &before_tools(&[hook]));
        let Some(first) = without_processes(&context) else { return };
        let finished = run(&context, &first);
        let answers = answers(&finished);
        assert_eq!(answers.len(), calls, "{finished:#?}");
        for answer in &answers {
            assert!(answer.contains(named) && answer.contains("(os error 11)"), "{answer}");
        }
        assert_eq!(finished.result()["result"], "done");
    }
}

#[test]
fn a_prompt_whose_guard_cannot_start_reaches_no_model() {
    let guard = json!({"type": "command", "command": GUARD, "timeout": 1});
    let context = reading(1, &json!({"UserPromptSubmit": [{"hooks": [guard]}]}));
    let Some(first) = without_processes(&context) else { return };
    let words: Vec<&str> = STREAM.into_iter().chain(["--", "go"]).collect();
    let text = context.run(&behind(&first, &words)).result().to_string();
    assert!(text.contains(NOT_ASKED) && text.contains("(os error 11)"), "{text}");
    assert_eq!(context.server().request_count(), 0);
}

#[test]
fn a_killed_guard_denies_and_an_exit_code_does_not() {
    for (command, runs) in [("kill -9 $$", false), ("exit 1", true), ("exit 127", true)] {
        let context = reading(1, &before_tools(&[command_hook(command)]));
        let finished = run(&context, "true");
        let answer = answers(&finished).concat();
        assert_eq!(answer.contains(SECRET), runs, "{command}: {answer}");
        let named = format!("[{command}]: this hook could not be asked");
        assert_eq!(answer.contains(&named) && answer.contains("signal 9"), !runs, "{command}: {answer}");
    }
}

/// A host that is asked about a Write whose PermissionRequest hook cannot start, and answers once that is known.
fn ask_host(behavior: &Value) -> Option<(TestContext, Finished)> {
    let write = json!({"name": "Write", "input": {"file_path": "new.txt", "content": large_text()}});
    let script = json!([{"tools": [write]}, {"text": "done"}]);
    let hook = json!({"type": "command", "command": GUARD, "timeout": 1});
    let hooks = json!({"PermissionRequest": [{"hooks": [hook]}]});
    let context = TestContext::new(&script.to_string()).binary("/bin/bash");
    context.write_home(".claude/settings.json", &json!({"hooks": hooks}).to_string());
    let first = without_processes(&context)?;
    let words = [
        "--output-format",
        "stream-json",
        "--input-format",
        "stream-json",
        "--verbose",
        "--permission-prompt-tool",
        "stdio",
    ];
    let mut running: Running = context.start(&behind(&first, &words));
    let prompt = json!({"role": "user", "content": "go"});
    running.send(&json!({"type": "user", "message": prompt, "parent_tool_use_id": null}));
    let question = running.wait_for("a question", |line| line["request"]["subtype"] == "can_use_tool");
    let failed = running.wait_for("the hook's failure", |line| line["hook_no_verdict"].is_object());
    assert!(failed["content"].as_str().unwrap_or_default().contains("(os error 11)"), "{failed}");
    let response = json!({"subtype": "success", "request_id": question["request_id"], "response": behavior});
    running.send(&json!({"type": "control_response", "response": response}));
    running.close_stdin();
    let finished = running.finish();
    Some((context, finished))
}

/// More than a tool writes on the event loop. Here there is no other thread that could do it.
fn large_text() -> String {
    "written ".repeat(10_000)
}

#[test]
fn a_permission_hook_that_cannot_start_leaves_the_answer_to_the_host() {
    let Some((context, finished)) = ask_host(&json!({"behavior": "allow"})) else { return };
    assert_eq!(context.read("new.txt"), large_text(), "{finished:#?}");
    let deny = json!({"behavior": "deny", "message": "not today"});
    let Some((context, finished)) = ask_host(&deny) else { return };
    assert!(!context.cwd().join("new.txt").exists());
    assert!(answers(&finished).concat().contains("not today"), "{finished:#?}");
}

#[test]
fn commands_work_with_few_descriptors_and_have_the_limit_of_the_user() {
    let bash = |command: &str| json!({"tools": [{"name": "Bash", "input": {"command": command}}]});
    let own = "grep -o 'open files *[0-9]*' /proc/$PPID/limits | tr -s ' '";
    let script = json!([
        bash("mkdir sub && cd sub"),
        bash("basename \"$PWD\""),
        bash(&format!("echo \"soft $(ulimit -Sn) hard $(ulimit -Hn)\"; {own}")),
        {"text": "done"},
    ]);
    let words = ["-p", "--output-format", "stream-json", "--verbose", "--allowedTools", "Bash", "--", "go"];
    let hook = json!({"PreToolUse": [{"hooks": [command_hook("ulimit -Sn >>hook-limit")]}]});
    for (limits, soft, hard) in [("ulimit -n 100", 100, 100), ("ulimit -Sn 90; ulimit -Hn 300", 90, 300)] {
        let context = TestContext::new(&script.to_string()).binary("/bin/bash");
        context.write_home(".claude/settings.json", &json!({"hooks": hook}).to_string());
        let finished = context.run(&behind(limits, &words)).success();
        let answers = answers(&finished);
        assert!(answers[1].contains("sub"), "the directory carries over: {answers:?}");
        assert!(answers[2].contains(&format!("soft {soft} hard {hard}")), "{answers:?}");
        // The supervisor is a copy of the program itself.
        assert!(answers[2].contains(&format!("open files {hard}")), "{answers:?}");
        assert!(context.read("hook-limit").starts_with(&format!("{soft}\n")), "hooks have it too");
    }
}
