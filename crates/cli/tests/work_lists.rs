//! Lists of work in the built program: which sessions have which, the files, hooks of settings and of a host, and two
//! programs at one list. What the tools say is in `crates/agent/tests/work_lists.rs`.

use std::path::Path;

use lathe_testkit::{Finished, Running, TestContext};
use serde_json::{Value, json};

const STREAM: [&str; 4] = ["-p", "--output-format", "stream-json", "--verbose"];
const ID: &str = "5e55104e-0000-4000-8000-000000000011";

fn context(script: Value) -> TestContext {
    TestContext::new(&script.to_string()).binary(env!("CARGO_BIN_EXE_lathe"))
}

/// A session whose model keeps tasks.
fn with_tasks(script: Value) -> TestContext {
    context(script).env("CLAUDE_CODE_ENABLE_TODO_TOOLS", "1")
}

fn tool(name: &str, input: Value) -> Value {
    json!({"tools": [{"name": name, "input": input}]})
}

fn create(subject: &str) -> Value {
    tool("TaskCreate", json!({"subject": subject, "description": "d"}))
}

fn complete(id: &str) -> Value {
    tool("TaskUpdate", json!({"taskId": id, "status": "completed"}))
}

fn words<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    STREAM.iter().chain(flags).chain(&["--", "go"]).copied().collect()
}

fn talking(context: &TestContext, flags: &[&'static str]) -> Running {
    context.start(&[&STREAM[..], &["--input-format", "stream-json"], flags].concat())
}

fn prompt(text: &str) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": null})
}

/// What the model read about its calls.
fn told(finished: &Finished) -> Vec<String> {
    let text = |line: &Value| line["message"]["content"][0]["content"].as_str().map(str::to_owned);
    finished.of_type("user").iter().filter_map(text).collect()
}

/// The tools of a session that keep lists or differ between generations, in order.
fn listed(context: &TestContext, flags: &[&str]) -> Vec<String> {
    const ASKED: [&str; 9] = [
        "TodoWrite",
        "TaskCreate",
        "TaskGet",
        "TaskList",
        "TaskUpdate",
        "MultiEdit",
        "BashOutput",
        "KillShell",
        "TaskOutput",
    ];
    let init = context.run(&words(flags)).success().lines()[0].clone();
    let tools = init["tools"].as_array().unwrap().iter().filter_map(Value::as_str);
    tools.filter(|name| ASKED.contains(name)).map(str::to_owned).collect()
}

#[test]
fn the_model_the_environment_and_the_generation_decide_about_the_list() {
    const SORTED: &[&str] = &["TaskCreate", "TaskGet", "TaskList", "TaskUpdate"];
    const OLD_MODEL: &[&str] = &["--model", "claude-sonnet-4-5"];
    const ON: (&str, &str) = ("CLAUDE_CODE_ENABLE_TODO_TOOLS", "1");
    const TASKS: (&str, &str) = ("CLAUDE_CODE_ENABLE_TASKS", "1");
    const NO_TASKS: (&str, &str) = ("CLAUDE_CODE_ENABLE_TASKS", "0");
    const SDK: (&str, &str) = ("CLAUDE_AGENT_SDK_VERSION", "0.2.50");
    const CLI: (&str, &str) = ("LATHE_CLIENT_GENERATION", "cli-1.0");
    const NAMED: &[&str] = &["--tools", "TaskCreate,TodoWrite"];
    type Row<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a [&'a str]);
    let rows: [Row<'_>; 13] = [
        (&[], &[], &[]),
        (&[TASKS], &[], &[]),
        (&[NO_TASKS], &[], &[]),
        (&[], &["--model", "haiku"], &[]),
        (&[], OLD_MODEL, SORTED),
        (&[NO_TASKS], OLD_MODEL, &["TodoWrite"]),
        (&[ON], &[], SORTED),
        (&[ON, NO_TASKS], &[], &["TodoWrite"]),
        (&[], NAMED, &["TaskCreate"]),
        (&[NO_TASKS], NAMED, &["TodoWrite"]),
        (&[SDK], &[], &["TaskOutput", "TodoWrite"]),
        (&[SDK, TASKS], &[], &["TaskOutput", "TaskCreate", "TaskGet", "TaskUpdate", "TaskList"]),
        (&[CLI], &[], &["BashOutput", "MultiEdit", "TodoWrite", "KillShell"]),
    ];
    for (variables, flags, wanted) in rows {
        let mut context = context(json!([{"text": "done"}]));
        for (name, value) in variables {
            context = context.env(name, *value);
        }
        assert_eq!(listed(&context, flags), wanted, "{variables:?} {flags:?}");
    }
}

/// The tasks of a list, by their numbers.
fn tasks(folder: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let mut ids: Vec<u32> = names.filter_map(|name| name.strip_suffix(".json")?.parse().ok()).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn a_resumed_session_has_its_list_and_one_that_is_not_saved_leaves_none() {
    let context =
        with_tasks(json!([create("S1"), {"text": "one"}, tool("TaskList", json!({})), {"text": "two"}]));
    context.run(&words(&["--session-id", ID])).success();
    let resumed = context.run(&words(&["--resume", ID])).success();
    assert_eq!(told(&resumed), ["#1 [pending] S1"]);
    assert_eq!(tasks(&context.home().join(".claude/tasks").join(ID)), [1]);

    let context = with_tasks(json!([create("S1"), tool("TaskList", json!({})), {"text": "done"}]));
    let finished = context.run(&words(&["--no-session-persistence"])).success();
    assert_eq!(told(&finished), ["Task #1 created successfully: S1", "#1 [pending] S1"]);
    assert!(!context.home().join(".claude/tasks").exists());
}

#[test]
fn two_programs_at_one_list_lose_nothing() {
    const EACH: u32 = 15;
    let script = || {
        let mut turns: Vec<Value> = (0..EACH).map(|at| create(&format!("S{at}"))).collect();
        turns.push(json!({"text": "done"}));
        json!(turns)
    };
    let (first, second) = (with_tasks(script()), with_tasks(script()));
    let config = first.home().join(".claude");
    let share = |context: TestContext| {
        context
            .env("CLAUDE_CONFIG_DIR", config.display().to_string())
            .env("CLAUDE_CODE_TASK_LIST_ID", "shared")
    };
    let (first, second) = (share(first), share(second));
    let running = [first.start(&words(&[])), second.start(&words(&["--no-session-persistence"]))];
    let results: Vec<String> =
        running.into_iter().flat_map(|running| told(&running.finish().success())).collect();
    assert_eq!(tasks(&config.join("tasks/shared")), (1..=2 * EACH).collect::<Vec<_>>());
    let mut given: Vec<u32> = results
        .iter()
        .filter_map(|text| text.strip_prefix("Task #")?.split_once(" created successfully: ")?.0.parse().ok())
        .collect();
    given.sort_unstable();
    assert_eq!(given, (1..=2 * EACH).collect::<Vec<_>>(), "{results:?}");
}

#[test]
fn a_list_that_is_in_use_is_waited_for_and_a_dead_holder_is_not() {
    let context = with_tasks(json!([create("S1"), {"text": "done"}])).env("CLAUDE_CODE_TASK_LIST_ID", "l");
    let folder = context.home().join(".claude/tasks/l");
    std::fs::create_dir_all(&folder).unwrap();
    let lock = std::fs::File::create(folder.join(".lock")).unwrap();
    lock.try_lock().unwrap();
    let mut running = context.start(&words(&[]));
    running.wait_for("the call", |line| line["message"]["content"][0]["type"] == "tool_use");
    assert!(tasks(&folder).is_empty());
    // As when the process that held it is killed.
    drop(lock);
    assert_eq!(told(&running.finish().success()), ["Task #1 created successfully: S1"]);
    assert_eq!(tasks(&folder), [1]);
}

#[test]
fn hooks_of_settings_refuse_tasks_and_keep_them_open() {
    let script =
        json!([create("vague"), create("S2"), complete("2"), tool("TaskList", json!({})), {"text": "done"}]);
    let context = with_tasks(script);
    let hook = |command: &str| json!([{"hooks": [{"type": "command", "command": command}]}]);
    let hooks = json!({
        "TaskCreated": hook("grep -q '\"task_subject\":\"vague\"' && { echo say what >&2; exit 2; }; exit 0"),
        "TaskCompleted": hook("echo '{\"decision\": \"block\", \"reason\": \"the tests fail\"}'"),
    });
    context.write_home(".claude/settings.json", &json!({ "hooks": hooks }).to_string());
    let told = told(&context.run(&words(&[])).success());
    assert!(
        told[0].starts_with("TaskCreated hook feedback:\n[grep") && told[0].ends_with("]: say what\n"),
        "{told:?}"
    );
    assert_eq!(told[1], "Task #2 created successfully: S2");
    assert_eq!(told[2], "TaskCompleted hook feedback:\nthe tests fail");
    assert_eq!(told[3], "#2 [pending] S2");
}

#[test]
fn a_host_is_asked_about_tasks() {
    let context = with_tasks(json!([create("S1"), complete("1"), complete("1"), {"text": "done"}]));
    let mut running = talking(&context, &[]);
    let callback = |id: &str| json!([{"matcher": null, "hookCallbackIds": [id]}]);
    let hooks = json!({"TaskCreated": callback("made"), "TaskCompleted": callback("done")});
    running.send(&json!({"type": "control_request", "request_id": "i", "request": {"subtype": "initialize", "hooks": hooks}}));
    running.wait_for_type("control_response");
    running.send(&prompt("go"));
    let block = json!({"decision": "block", "reason": "review it first"});
    for (id, event, output) in [
        ("made", "TaskCreated", json!({})),
        ("done", "TaskCompleted", block),
        ("done", "TaskCompleted", json!({})),
    ] {
        let asked = running.wait_for_type("control_request");
        let (request, input) = (&asked["request"], &asked["request"]["input"]);
        assert_eq!((&request["subtype"], &request["callback_id"]), (&json!("hook_callback"), &json!(id)));
        assert_eq!(
            (
                &input["hook_event_name"],
                &input["task_id"],
                &input["task_subject"],
                &input["task_description"]
            ),
            (&json!(event), &json!("1"), &json!("S1"), &json!("d"))
        );
        let response = json!({"subtype": "success", "request_id": asked["request_id"], "response": output});
        running.send(&json!({"type": "control_response", "response": response}));
    }
    running.wait_for_type("result");
    running.close_stdin();
    let finished = running.finish().success();
    assert_eq!(
        told(&finished),
        [
            "Task #1 created successfully: S1",
            "TaskCompleted hook feedback:\nreview it first",
            "Updated task #1 status"
        ]
    );
    let result = &finished.of_type("user")[1]["tool_use_result"];
    assert_eq!((&result["success"], &result["updatedFields"]), (&json!(false), &json!([])));
}

#[test]
fn a_client_of_1_0_edits_in_several_places_and_shows_its_plan_in_the_call() {
    let edits = json!([{"old_string": "a", "new_string": "b"}, {"old_string": "b", "new_string": "c"}]);
    let script = json!([
        tool("MultiEdit", json!({"file_path": "f.txt", "edits": edits})),
        tool("ExitPlanMode", json!({"plan": "1. Do it."})),
        {"text": "done"},
    ]);
    let old = |script: Value| context(script).env("LATHE_CLIENT_GENERATION", "cli-1.0");
    // Rules about files are those of Edit; one for the whole tool names it.
    for (rule, content) in [("Read", "a\n"), ("Edit(f.txt)", "c\n"), ("MultiEdit", "c\n")] {
        let context = old(script.clone());
        context.write("f.txt", "a\n");
        let finished = context.run(&words(&["--allowedTools", rule])).success();
        assert_eq!(context.read("f.txt"), content, "{rule}: {:?}", told(&finished));
    }
    let context = old(script);
    context.write("f.txt", "a\n");
    let mut running =
        talking(&context, &["--permission-prompt-tool", "stdio", "--permission-mode", "acceptEdits"]);
    running.send(&prompt("go"));
    let asked = running.wait_for_type("control_request");
    assert_eq!(asked["request"]["input"], json!({"plan": "1. Do it."}));
    let allow = json!({"behavior": "allow", "updatedInput": {"plan": "2. Do more."}});
    let response = json!({"subtype": "success", "request_id": asked["request_id"], "response": allow});
    running.send(&json!({"type": "control_response", "response": response}));
    running.wait_for_type("result");
    running.close_stdin();
    let finished = running.finish().success();
    assert_eq!(told(&finished)[0].lines().next().unwrap().split(" has been").next(), Some("The file f.txt"));
    let plan = &finished.of_type("user")[1]["tool_use_result"];
    assert_eq!(plan, &json!({"plan": "2. Do more.", "isAgent": false}));
}
