//! Worktrees against the built program: entering, leaving and removing them, what holds inside of one, the hooks that
//! make and remove them, `--worktree`, and repositories that mean harm.

#![allow(clippy::disallowed_methods, reason = "a test makes repositories with git")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use lathe_testkit::{Finished, TestContext};
use rustix::process::Signal;
use serde_json::{Value, json};

const STREAM: [&str; 7] =
    ["-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions", "--", "go"];

fn call(name: &str, input: Value) -> Value {
    json!({"tools": [{"name": name, "input": input}]})
}

fn enter(name: &str) -> Value {
    call("EnterWorktree", json!({"name": name}))
}

fn exit(input: Value) -> Value {
    call("ExitWorktree", input)
}

fn bash(command: &str) -> Value {
    call("Bash", json!({"command": command}))
}

/// A context whose model makes these calls and ends.
fn context(calls: &[Value]) -> TestContext {
    let mut script = calls.to_vec();
    script.push(json!({"text": "Done."}));
    script.push(json!({"text": "Done again."}));
    TestContext::new(&Value::from(script).to_string())
        .binary(env!("CARGO_BIN_EXE_lathe"))
        .env("IS_SANDBOX", "1")
}

/// The same in a repository with a commit.
fn in_repository(calls: &[Value]) -> TestContext {
    let context = context(calls);
    context.write("kept.txt", "one\n");
    init(&context);
    context
}

fn init(context: &TestContext) {
    git(context, &["init", "-q", "-b", "main"]);
    git(context, &["config", "user.name", "t"]);
    git(context, &["config", "user.email", "t@example.org"]);
    git(context, &["add", "."]);
    git(context, &["commit", "-qm", "first", "--no-verify", "--allow-empty"]);
}

fn git(context: &TestContext, args: &[&str]) -> String {
    git_in(context, context.cwd(), args)
}

fn git_in(context: &TestContext, folder: &Path, args: &[&str]) -> String {
    let output = std::process::Command::new("git")
        .args(args)
        .current_dir(folder)
        .env_clear()
        .envs([("PATH", std::env::var("PATH").unwrap()), ("HOME", context.home().display().to_string())])
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn tree(context: &TestContext, name: &str) -> PathBuf {
    context.cwd().join(".claude/worktrees").join(name)
}

/// The results of the calls, in order: text, whether it is an error, and the value for programs.
fn results(finished: &Finished) -> Vec<(String, bool, Value)> {
    let users = finished.of_type("user");
    let results = users.iter().filter(|user| user["message"]["content"][0]["type"] == "tool_result");
    results
        .map(|user| {
            let block = &user["message"]["content"][0];
            let text = block["content"].as_str().unwrap_or_default().to_owned();
            (text, block["is_error"] == true, user["tool_use_result"].clone())
        })
        .collect()
}

/// Runs and returns the results.
fn run(context: &TestContext) -> Vec<(String, bool, Value)> {
    results(&context.run(&STREAM).success())
}

#[track_caller]
fn refused(result: &(String, bool, Value), piece: &str) {
    assert!(result.1 && result.0.contains(piece), "{piece}: {result:?}");
}

#[test]
fn a_worktree_is_entered_and_left_as_recorded() {
    let context = in_repository(&[
        enter("wt1"),
        bash("pwd && git branch --show-current"),
        call("Write", json!({"file_path": "new.txt", "content": "new"})),
        bash("ls; rm new.txt; cd .."),
        exit(json!({"action": "remove"})),
        exit(json!({"action": "keep"})),
        bash("pwd"),
    ]);
    let (path, cwd) = (tree(&context, "wt1").display().to_string(), context.cwd().display().to_string());
    let results = run(&context);
    let entered = &results[0].2;
    assert_eq!(
        (&entered["worktreePath"], &entered["worktreeBranch"]),
        (&json!(path), &json!("worktree-wt1"))
    );
    assert_eq!(entered["message"], results[0].0);
    assert_eq!(results[1].0, format!("{path}\nworktree-wt1"));
    assert_eq!(results[3].0, format!("kept.txt\nnew.txt\nShell cwd was reset to {path}"));
    let left = &results[4].2;
    let wanted = json!({
        "action": "remove", "originalCwd": cwd, "worktreePath": path, "worktreeBranch": "worktree-wt1",
        "discardedFiles": 0, "discardedCommits": 0, "restoredCwd": cwd, "originalCwdMissing": false,
        "message": results[4].0,
    });
    assert_eq!(*left, wanted);
    assert!(results[5].0.starts_with("<tool_use_error>There is no worktree to leave"), "{}", results[5].0);
    assert_eq!(results[6].0, cwd);
    assert!(!Path::new(&path).exists());
    assert_eq!(git(&context, &["branch", "--format=%(refname:short)"]), "main");
    assert_eq!(git(&context, &["status", "--porcelain"]), "");
}

#[test]
fn work_is_lost_only_on_purpose() {
    let context = in_repository(&[
        enter("wt1"),
        bash("echo x > new.txt; echo y > kept.txt; git commit -qam mine"),
        exit(json!({"action": "remove"})),
        bash("pwd"),
        exit(json!({"action": "remove", "discard_changes": true})),
        exit(json!({"action": "remove", "discard_changes": true})),
    ]);
    let results = run(&context);
    refused(
        &results[2],
        "<tool_use_error>Not removed: 1 file with changes that are not committed and 1 commit",
    );
    assert!(results[2].0.contains("new.txt") && results[2].0.contains("mine"), "{}", results[2].0);
    assert_eq!(results[3].0, tree(&context, "wt1").display().to_string(), "still inside");
    assert_eq!((&results[4].2["discardedFiles"], &results[4].2["discardedCommits"]), (&json!(1), &json!(1)));
    refused(&results[5], "There is no worktree to leave");
    assert!(!tree(&context, "wt1").exists());
}

#[test]
fn a_worktree_that_is_kept_stays_and_can_be_entered_again_but_not_removed() {
    let context = in_repository(&[
        enter("wt1"),
        bash("echo x > new.txt"),
        exit(json!({"action": "keep"})),
        call("EnterWorktree", json!({"path": ".claude/worktrees/wt1"})),
        bash("cat new.txt"),
        exit(json!({"action": "remove", "discard_changes": true})),
    ]);
    let finished = context.run(&STREAM).success();
    let results = results(&finished);
    assert_eq!(results[2].2["action"], "keep");
    assert_eq!(results[2].2.get("discardedFiles"), None);
    assert_eq!(results[3].2["worktreeBranch"], "worktree-wt1");
    assert_eq!(results[4].0, "x");
    refused(&results[5], "was there before this session entered it");
    let path = tree(&context, "wt1");
    assert!(path.join("new.txt").exists());
    // The session has ended in it, and says where it is.
    let line = format!("lathe: the worktree {} on the branch worktree-wt1 is kept\n", path.display());
    assert_eq!(finished.stderr, line);
}

#[test]
fn each_way_not_to_enter_has_its_text() {
    let calls = [
        call("EnterWorktree", json!({"name": "../out"})),
        call("EnterWorktree", json!({"name": "a", "path": "b"})),
        call("EnterWorktree", json!({"path": "src"})),
        call("EnterWorktree", json!({"path": "../elsewhere"})),
        call("EnterWorktree", json!({"name": "taken"})),
        enter("wt1"),
        enter("wt2"),
    ];
    let context = in_repository(&calls);
    context.write("src/a", "");
    context.write(".claude/worktrees/taken/file", "");
    git(&context, &["worktree", "add", "-q", "-b", "elsewhere", "../elsewhere"]);
    let results = run(&context);
    refused(&results[0], "<tool_use_error>\"../out\" cannot be the name of a worktree");
    refused(&results[1], "<tool_use_error>Give name, for a new worktree, or path");
    refused(&results[2], "is not a worktree of this repository");
    refused(&results[3], "is outside of the folders that this session works in");
    refused(&results[4], "exists and is not a worktree on the branch worktree-taken");
    assert!(!results[5].1, "{:?}", results[5]);
    refused(&results[6], "<tool_use_error>Already working in the worktree at ");
}

#[test]
fn without_a_repository_or_a_commit_there_is_no_worktree() {
    let nothing = context(&[enter("a")]);
    refused(
        &run(&nothing)[0],
        "is not in a git repository with a work tree, and no WorktreeCreate hook makes one",
    );
    let empty = context(&[enter("a")]);
    git(&empty, &["init", "-q"]);
    refused(&run(&empty)[0], "There is no commit that a worktree could begin with");
    let without_git = in_repository(&[enter("a")]).env("PATH", "/nonexistent");
    refused(&run(&without_git)[0], "git rev-parse failed: start git");
}

#[test]
fn plan_mode_makes_and_removes_nothing() {
    let context = in_repository(&[enter("a")]);
    let words =
        ["-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "plan", "--", "go"];
    refused(&results(&context.run(&words).success())[0], "<tool_use_error>Plan mode is on");
    assert!(!context.cwd().join(".claude").exists());
}

#[test]
fn rules_hold_inside_and_the_checkout_is_out_of_bounds() {
    let context = in_repository(&[
        enter("wt1"),
        call("Read", json!({"file_path": "secret/key.txt"})),
        call("Write", json!({"file_path": "mine.txt", "content": ""})),
        call("Write", json!({"file_path": "../../../kept.txt", "content": ""})),
    ]);
    context.write("secret/key.txt", "k");
    git(&context, &["add", "."]);
    git(&context, &["commit", "-qm", "second"]);
    let words = [
        "-p",
        "--output-format",
        "stream-json",
        "--verbose",
        "--permission-mode",
        "acceptEdits",
        "--disallowedTools",
        "Read(./secret/key.txt)",
        "--",
        "go",
    ];
    let results = results(&context.run(&words).success());
    refused(&results[1], "denied");
    assert!(!results[2].1, "{:?}", results[2]);
    assert!(results[3].1, "the checkout needs a permission: {:?}", results[3]);
    assert_eq!(context.read("kept.txt"), "one\n");
}

#[test]
fn instructions_of_the_worktree_are_read() {
    let context = in_repository(&[enter("wt1"), call("Read", json!({"file_path": "kept.txt"}))]);
    context.write("CLAUDE.md", "Committed advice.");
    git(&context, &["add", "."]);
    git(&context, &["commit", "-qm", "second"]);
    context.write("CLAUDE.md", "Advice of the checkout.");
    run(&context);
    let last = context.server().requests().last().unwrap().json().to_string();
    assert!(last.contains("Committed advice.") && last.contains("Advice of the checkout."), "{last}");
}

#[test]
fn settings_links_and_hooks_of_the_user_count() {
    let context = in_repository(&[enter("wt1"), bash("cat deps/x; pwd"), exit(json!({"action": "remove"}))]);
    context.write("deps/x", "linked");
    context.write(".gitignore", "deps\n");
    git(&context, &["add", ".gitignore"]);
    git(&context, &["commit", "-qm", "second"]);
    let mark = context.home().join("removed");
    let settings = json!({
        "worktree": {"symlinkDirectories": ["deps"], "baseRef": "head"},
        "hooks": {"WorktreeRemove": [{"hooks": [
            {"type": "command", "command": format!("cat >> {}", mark.display())},
        ]}]},
    });
    context.write_home(".claude/settings.json", &settings.to_string());
    let results = run(&context);
    assert!(results[1].0.starts_with("linked"), "{:?}", results[1]);
    assert!(!results[2].1, "{:?}", results[2]);
    let told: Value = serde_json::from_str(&fs::read_to_string(mark).unwrap()).unwrap();
    assert_eq!(told["worktree_path"], tree(&context, "wt1").display().to_string());
    assert_eq!(told["hook_event_name"], "WorktreeRemove");
    assert!(context.cwd().join("deps/x").exists());
}

/// A context without git whose user has hooks that make and remove worktrees.
fn with_hooks(calls: &[Value], create: &str, remove: &str) -> TestContext {
    let context = context(calls);
    let hook = |command: &str| json!([{"hooks": [{"type": "command", "command": command}]}]);
    let settings = json!({"hooks": {"WorktreeCreate": hook(create), "WorktreeRemove": hook(remove)}});
    context.write_home(".claude/settings.json", &settings.to_string());
    context
}

#[test]
fn a_hook_makes_and_removes_a_worktree_without_git() {
    let calls = [
        enter("copy"),
        bash("pwd"),
        exit(json!({"action": "remove"})),
        exit(json!({"action": "remove", "discard_changes": true})),
    ];
    let create = r#"name=$(sed 's/.*"name":"\([^"]*\)".*/\1/'); mkdir -p "$HOME/trees/$name"; echo working; echo "$HOME/trees/$name""#;
    let context = with_hooks(&calls, create, r#"rm -r "$HOME/trees/copy""#);
    let results = run(&context);
    let path = context.home().join("trees/copy");
    assert_eq!(results[0].2["worktreePath"], path.display().to_string());
    assert_eq!(results[0].2.get("worktreeBranch"), None);
    assert_eq!(results[1].0, path.display().to_string());
    refused(&results[2], "a hook made it, so it is not known what work is in it");
    assert!(!results[3].1, "{:?}", results[3]);
    assert!(!path.exists());
}

#[test]
fn any_failure_of_a_hook_aborts() {
    for (create, piece) in [
        ("echo no >&2; exit 2", "A WorktreeCreate hook failed"),
        ("exit 1", "A WorktreeCreate hook failed"),
        ("true", "named no worktree"),
        ("echo relative", "which is not the absolute path of a folder"),
        ("echo /nowhere/at/all", "which is not the absolute path of a folder"),
    ] {
        let context = with_hooks(&[enter("a"), bash("pwd")], create, "true");
        let results = run(&context);
        refused(&results[0], piece);
        assert_eq!(results[1].0, context.cwd().display().to_string(), "{create}");
    }
    let calls = [enter("a"), exit(json!({"action": "remove", "discard_changes": true})), bash("pwd")];
    let context = with_hooks(&calls, r#"mkdir -p "$HOME/a"; echo "$HOME/a""#, "echo locked >&2; exit 1");
    let results = run(&context);
    refused(&results[1], "A WorktreeRemove hook failed, so the worktree stays");
    assert_eq!(results[2].0, context.home().join("a").display().to_string());
}

#[test]
fn a_host_makes_a_worktree_by_callback() {
    let context = context(&[enter("mine"), bash("pwd"), exit(json!({"action": "keep"}))]);
    let made = context.home().join("made");
    fs::create_dir(&made).unwrap();
    let words = [
        "-p",
        "--output-format",
        "stream-json",
        "--verbose",
        "--input-format",
        "stream-json",
        "--dangerously-skip-permissions",
    ];
    let mut running = context.start(&words);
    let hooks = json!({"WorktreeCreate": [{"matcher": null, "hookCallbackIds": ["cb"]}]});
    running.send(&json!({"type": "control_request", "request_id": "i",
        "request": {"subtype": "initialize", "hooks": hooks}}));
    running.wait_for("the reply", |line| line["type"] == "control_response");
    running.send(&json!({"type": "user", "session_id": "", "parent_tool_use_id": null,
        "message": {"role": "user", "content": "go"}}));
    let asked = running.wait_for("the callback", |line| line["request"]["subtype"] == "hook_callback");
    assert_eq!(asked["request"]["input"]["name"], "mine");
    let output = json!({"hookSpecificOutput": {"hookEventName": "WorktreeCreate", "worktreePath": made}});
    running.send(&json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": asked["request_id"], "response": output}}));
    running.wait_for("the result", |line| line["type"] == "result");
    running.close_stdin();
    let finished = running.finish().success();
    assert_eq!(results(&finished)[1].0, made.display().to_string());
}

#[test]
fn a_session_begins_in_a_worktree() {
    let context = in_repository(&[bash("pwd; echo x > new.txt")]);
    let words = [
        "-p",
        "--output-format",
        "stream-json",
        "--verbose",
        "--dangerously-skip-permissions",
        "--worktree",
        "wt1",
        "--",
        "go",
    ];
    let finished = context.run(&words).success();
    let path = tree(&context, "wt1");
    let init = finished.lines().into_iter().find(|line| line["subtype"] == "init").unwrap();
    assert_eq!(init["cwd"], path.display().to_string());
    assert_eq!(init["original_cwd"], context.cwd().display().to_string());
    assert_eq!(results(&finished)[0].0, path.display().to_string());
    assert!(finished.stderr.contains("is kept"), "{}", finished.stderr);
    let told = context.server().requests()[0].json().to_string();
    assert!(told.contains("You do not work in") && told.contains("worktree-wt1"), "{told}");
    // The session lies where it was started, and another one goes on in the same worktree.
    let again = context.run(&["-p", "--continue", "--worktree", "wt1", "--", "again"]).success();
    assert_eq!(again.stdout, "Done again.\n");
    assert!(path.join("new.txt").exists());
}

#[test]
fn a_session_without_its_worktree_does_not_begin() {
    let context = context(&[]);
    let finished =
        context.run(&["-p", "--output-format", "stream-json", "--verbose", "--worktree", "--", "go"]);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(1), ""));
    assert!(finished.stderr.starts_with("lathe: there is no worktree to begin in: "), "{}", finished.stderr);
    assert!(context.server().requests().is_empty());
}

/// A program in the place of hooks and filters that leaves a mark.
fn canary(context: &TestContext, name: &str) -> PathBuf {
    let program = context.home().join(name);
    let mark = context.home().join("mark");
    fs::write(&program, format!("#!/bin/sh\necho {name} >> {}\ncat\n", mark.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[test]
fn a_hostile_repository_starts_nothing_until_it_is_trusted() {
    let calls = [enter("wt1"), exit(json!({"action": "remove"}))];
    for (flag, runs) in [("--verbose", false), ("--trust-workspace", true)] {
        let context = in_repository(&calls);
        for hook in ["post-checkout", "reference-transaction", "post-index-change"] {
            symlink(canary(&context, hook), context.cwd().join(".git/hooks").join(hook)).unwrap();
        }
        context.write(".gitattributes", "*.txt filter=evil\n");
        git(&context, &["add", "."]);
        git(&context, &["commit", "-qm", "second", "--no-verify"]);
        let filter = canary(&context, "smudge").display().to_string();
        git(&context, &["config", "filter.evil.smudge", &filter]);
        let _ = fs::remove_file(context.home().join("mark"));
        let mut words = vec![flag];
        words.extend(STREAM);
        let results = results(&context.run(&words).success());
        assert!(!results[0].1 && !results[1].1, "{results:?}");
        let ran = fs::read_to_string(context.home().join("mark")).unwrap_or_default();
        assert_eq!(ran.contains("smudge") && ran.contains("post-checkout"), runs, "{flag}: {ran}");
        assert_eq!(ran.is_empty(), !runs, "{flag}: {ran}");
    }
}

#[test]
fn a_killed_process_leaves_a_worktree_that_can_be_made_again() {
    let context = in_repository(&[enter("wt1")]);
    context.make_pipe("../home/gate");
    let hook = context.cwd().join(".git/hooks/post-checkout");
    fs::write(&hook, format!("#!/bin/sh\necho began > {}/gate; sleep 600\n", context.home().display()))
        .unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let mut words = vec!["--trust-workspace"];
    words.extend(STREAM);
    let running = context.start(&words);
    assert_eq!(context.drain_pipe("../home/gate"), "began\n");
    running.signal(Signal::KILL);
    running.finish();
    context.assert_no_survivors();
    assert!(git(&context, &["worktree", "list", "--porcelain"]).contains("locked"));
    fs::remove_file(hook).unwrap();
    // The script goes on where it was: a call of the same kind follows in a new session.
    let again = in_same_repository(&context, &[enter("wt1"), bash("cat kept.txt")]);
    let results = run(&again);
    assert!(!results[0].1, "{:?}", results[0]);
    assert_eq!(results[1].0, "one");
    assert!(!git(&context, &["worktree", "list", "--porcelain"]).contains("locked"));
}

/// A context whose working folder is a link to that of another one.
fn in_same_repository(other: &TestContext, calls: &[Value]) -> TestContext {
    let context = context(calls);
    fs::remove_dir(context.cwd()).unwrap();
    symlink(other.cwd(), context.cwd()).unwrap();
    context
}

#[test]
fn two_sessions_at_once_make_one_worktree() {
    let one = in_repository(&[enter("wt1"), bash("pwd")]);
    let two = in_same_repository(&one, &[enter("wt1"), bash("pwd")]);
    let (first, second) = (one.start(&STREAM), two.start(&STREAM));
    for finished in [first.finish().success(), second.finish().success()] {
        let results = results(&finished);
        assert!(!results[0].1, "{:?}", results[0]);
        assert_eq!(results[1].0, tree(&one, "wt1").display().to_string());
    }
}
