//! Deferred tools, with the built program: what requests say of them before and after a search, on each model and
//! server, and what of it survives the end of a conversation. The scripted model refuses what the API refuses, among
//! it each reference to a tool that the request does not hold.

use lathe_testkit::{Running, TestContext};
use serde_json::{Value, json};

const ID: &str = "5e55104e-0000-4000-8000-00000000005e";
const PLACEHOLDER: &str = "*DeferredToolPlaceholder";

fn context(script: Value) -> TestContext {
    TestContext::new(&script.to_string()).binary(env!("CARGO_BIN_EXE_lathe"))
}

fn call(name: &str, input: Value) -> Value {
    json!({"tools": [{"name": name, "input": input}]})
}

fn search(query: &str) -> Value {
    call("ToolSearch", json!({"query": query}))
}

fn words<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    ["-p", "--output-format", "stream-json", "--verbose"].iter().chain(flags).copied().collect()
}

fn body(context: &TestContext, request: usize) -> Value {
    context.server().requests()[request].json()
}

/// The names in the `tools` of a request, those that are deferred with a star in front.
fn tools(context: &TestContext, request: usize) -> Vec<String> {
    let body = body(context, request);
    let star = |tool: &Value| if tool["defer_loading"] == true { "*" } else { "" };
    let name = |tool: &Value| format!("{}{}", star(tool), tool["name"].as_str().unwrap_or_default());
    body["tools"].as_array().map(|tools| tools.iter().map(name).collect()).unwrap_or_default()
}

fn has(context: &TestContext, request: usize, tool: &str) -> bool {
    tools(context, request).iter().any(|name| name == tool)
}

/// Whether the system prompt of a request names a tool on a line of its own.
fn is_named(context: &TestContext, request: usize, tool: &str) -> bool {
    let system = body(context, request)["system"].clone();
    let texts = system.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    texts.flat_map(str::lines).any(|line| line == tool)
}

/// The content of the last result in a request.
fn result(context: &TestContext, request: usize) -> Value {
    let body = body(context, request);
    let blocks = body["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|message| message["content"].as_array().cloned().unwrap_or_default());
    let results: Vec<Value> = blocks.filter(|block| block["type"] == "tool_result").collect();
    results[results.len() - 1]["content"].clone()
}

fn references(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"type": "tool_reference", "tool_name": name})).collect()
}

fn prompt(text: &str) -> Value {
    json!({"type": "user", "session_id": "", "parent_tool_use_id": null,
        "message": {"role": "user", "content": text}})
}

/// Sends a prompt and waits for its result.
fn say(running: &mut Running, text: &str) -> Value {
    running.send(&prompt(text));
    running.wait_for_type("result")
}

const DIALOGUE: [&str; 2] = ["--input-format", "stream-json"];

#[test]
fn a_search_describes_what_it_finds() {
    let context =
        context(json!([search("select:TaskStop,NotebookEdit"), search("zzzqqq"), {"text": "Done."}]));
    let finished = context.run(&words(&["--", "go"])).success();
    let first = tools(&context, 0);
    assert_eq!(first.last().map(String::as_str), Some(PLACEHOLDER), "{first:?}");
    for name in ["Bash", "Edit", "Read", "ToolSearch", "Write"] {
        assert!(has(&context, 0, name), "{name}: {first:?}");
    }
    for name in ["NotebookEdit", "TaskStop"] {
        assert!(!has(&context, 0, name) && !has(&context, 0, &format!("*{name}")), "{name}: {first:?}");
        assert!(is_named(&context, 0, name), "{name}");
    }
    assert!(!is_named(&context, 0, "Bash"));
    let beta = context.server().requests()[0].header("anthropic-beta").unwrap_or_default().to_owned();
    assert!(beta.contains("advanced-tool-use-2025-11-20"), "{beta}");
    // The array has grown at its end, and nothing before it is different.
    let second = tools(&context, 1);
    assert_eq!(second[..first.len()], first[..]);
    assert_eq!(second[first.len()..], ["*TaskStop", "*NotebookEdit"]);
    assert_eq!(body(&context, 0)["system"], body(&context, 1)["system"]);
    assert_eq!(result(&context, 1), references(&["TaskStop", "NotebookEdit"]));
    assert_eq!(result(&context, 2), "No matching deferred tools found");
    assert_eq!(tools(&context, 2), second);
    let frames = finished.of_type("user");
    let total = frames[0]["tool_use_result"]["total_deferred_tools"].as_u64().unwrap();
    assert!(total >= 2);
    assert_eq!(frames[0]["message"]["content"][0]["content"], references(&["TaskStop", "NotebookEdit"]));
    assert_eq!(
        frames[0]["tool_use_result"],
        json!({
            "matches": ["TaskStop", "NotebookEdit"],
            "query": "select:TaskStop,NotebookEdit",
            "total_deferred_tools": total,
        })
    );
    assert_eq!(
        frames[1]["tool_use_result"],
        json!({"matches": [], "query": "zzzqqq", "total_deferred_tools": total})
    );
    let init = &finished.lines()[0]["tools"];
    for name in ["NotebookEdit", "TaskStop", "ToolSearch"] {
        assert!(init.as_array().unwrap().contains(&json!(name)), "{init}");
    }
}

#[test]
fn a_call_without_a_search_runs_or_is_told_the_schema() {
    let script = json!([
        call("TaskStop", json!({"task": 7})),
        call("TaskStop", json!({"task_id": "nothing"})),
        call("Read", json!({})),
        search("select:TaskStop"),
        call("TaskStop", json!({"task": 7})),
        {"text": "Done."},
    ]);
    let context = context(script);
    context.run(&words(&["--", "go"])).success();
    let told = |request: usize| result(&context, request).as_str().unwrap_or_default().to_owned();
    assert!(told(1).starts_with("<tool_use_error>InputValidationError: "), "{}", told(1));
    assert!(told(1).contains("\"select:TaskStop\"") && told(1).contains("\"shell_id\""), "{}", told(1));
    assert!(told(1).ends_with("</tool_use_error>"), "{}", told(1));
    assert_eq!(told(2), "<tool_use_error>No task found with ID: nothing</tool_use_error>");
    assert!(!told(3).contains("select:"), "this one is described: {}", told(3));
    assert!(!told(5).contains("select:"), "by now it is: {}", told(5));
}

#[test]
fn without_the_search_every_tool_is_described() {
    let everything = |context: &TestContext| {
        assert!(has(context, 0, "TaskStop"), "{:?}", tools(context, 0));
        assert!(!has(context, 0, PLACEHOLDER) && !has(context, 0, "ToolSearch"), "{:?}", tools(context, 0));
        assert!(!is_named(context, 0, "TaskStop"));
        let beta = context.server().requests()[0].header("anthropic-beta").unwrap_or_default().to_owned();
        assert!(!beta.contains("advanced-tool-use"), "{beta}");
    };
    let text = || json!([{"text": "Done."}]);
    let listed = |context: TestContext, flags: &[&str]| {
        let finished = context.run(&words(&[flags, &["--", "go"]].concat())).success();
        everything(&context);
        finished.lines()[0]["tools"].as_array().unwrap().contains(&json!("ToolSearch"))
    };
    assert!(!listed(context(text()).env("ENABLE_TOOL_SEARCH", "false"), &[]));
    assert!(!listed(context(text()).env("CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS", "1"), &[]));
    assert!(!listed(context(text()), &["--disallowedTools", "ToolSearch"]));
    assert!(!listed(context(text()), &["--tools", "Bash,Read"]));
    assert!(listed(context(text()), &["--model", "claude-haiku-4-5"]), "another model could search");
}

#[test]
fn a_model_that_does_not_know_references_reads_words_in_their_place() {
    let script =
        json!([search("select:TaskStop"), {"text": "Found."}, {"text": "Small."}, {"text": "Large."}]);
    let context = context(script);
    let mut running = context.start(&words(&DIALOGUE));
    say(&mut running, "one");
    let set_model = |running: &mut Running, model: &str| {
        let request = json!({"subtype": "set_model", "model": model});
        running.send(&json!({"type": "control_request", "request_id": model, "request": request}));
        running.wait_for_type("control_response");
    };
    set_model(&mut running, "claude-haiku-4-5");
    assert_eq!(say(&mut running, "two")["result"], "Small.");
    set_model(&mut running, "claude-sonnet-4-5");
    assert_eq!(say(&mut running, "three")["result"], "Large.");
    running.close_stdin();
    running.finish().success();
    assert_eq!(result(&context, 2), json!([{"type": "text", "text": "These tools can be called: TaskStop"}]));
    assert!(has(&context, 2, "TaskStop") && !has(&context, 2, PLACEHOLDER));
    assert_eq!(result(&context, 3), references(&["TaskStop"]));
    assert!(has(&context, 3, "*TaskStop"));
}

#[test]
fn a_resumed_session_has_loaded_what_its_conversation_refers_to() {
    let script = json!([
        search("select:TaskStop,NotebookEdit"),
        {"text": "Found."},
        {"text": "Again."},
        {"text": "Without it."},
        {"text": "Everything."},
    ]);
    let context = context(script);
    context.run(&words(&["--session-id", ID, "--", "go"])).success();
    context.run(&words(&["--resume", ID, "--", "go on"])).success();
    assert_eq!(tools(&context, 2), tools(&context, 1));
    assert_eq!(result(&context, 2), references(&["TaskStop", "NotebookEdit"]));
    // The tool is gone, and what refers to it is not.
    context.run(&words(&["--resume", ID, "--disallowedTools", "TaskStop", "--", "go on"])).success();
    assert!(has(&context, 3, "*TaskStop") && !is_named(&context, 3, "TaskStop"));
    let described = body(&context, 3)["tools"]
        .as_array()
        .unwrap()
        .iter()
        .any(|tool| tool["name"] == "TaskStop" && tool["input_schema"]["properties"] != json!({}));
    assert!(!described, "{}", body(&context, 3)["tools"]);
    // And where nothing is deferred, nothing is referred to.
    context.run(&words(&["--resume", ID, "--disallowedTools", "ToolSearch", "--", "go on"])).success();
    let names = "These tools can be called: TaskStop, NotebookEdit";
    assert_eq!(result(&context, 4), json!([{"type": "text", "text": names}]));
}

#[test]
fn what_is_only_named_is_reported_and_not_counted() {
    let context = context(json!([search("select:TaskStop"), {"text": "Found."}]));
    let mut running = context.start(&words(&DIALOGUE));
    let report = |running: &mut Running| {
        let request = json!({"subtype": "get_context_usage"});
        running.send(&json!({"type": "control_request", "request_id": "c", "request": request}));
        let reply = running.wait_for_type("control_response");
        let usage = reply["response"]["response"].clone();
        let categories = usage["categories"].as_array().unwrap().clone();
        let tokens = |id: &str| {
            categories
                .iter()
                .find(|category| category["id"] == id)
                .map_or(0, |c| c["tokens"].as_u64().unwrap())
        };
        let used: u64 =
            categories.iter().filter(|c| c["kind"] == "used").map(|c| c["tokens"].as_u64().unwrap()).sum();
        assert_eq!(usage["totalTokens"], used);
        (tokens("system_tools"), tokens("system_tools_deferred"))
    };
    let before = report(&mut running);
    say(&mut running, "one");
    let after = report(&mut running);
    running.close_stdin();
    running.finish().success();
    assert!(before.1 > 0 && after.0 > before.0 && after.1 < before.1, "{before:?} {after:?}");
}

#[test]
fn a_new_conversation_has_nothing_loaded() {
    let script = json!([search("select:TaskStop"), {"text": "Found."}, {"text": "New."}]);
    let context = context(script);
    let mut running = context.start(&words(&DIALOGUE));
    say(&mut running, "one");
    say(&mut running, "/clear");
    say(&mut running, "two");
    running.close_stdin();
    running.finish().success();
    assert!(has(&context, 1, "*TaskStop"));
    assert_eq!(tools(&context, 2), tools(&context, 0));
    assert!(is_named(&context, 2, "TaskStop"));
}

#[test]
fn after_a_summary_the_model_is_told_what_to_load_again() {
    let script = json!([
        search("select:TaskStop"),
        {"text": "Found. ".repeat(2000)},
        {"text": "More. ".repeat(2000)},
        {"text": "<summary>They looked for a tool.</summary>"},
        {"text": "Going on."},
        search("select:TaskStop"),
        {"text": "There."},
    ]);
    let context = context(script);
    let mut running = context.start(&words(&DIALOGUE));
    say(&mut running, "one");
    say(&mut running, "two");
    say(&mut running, "/compact");
    say(&mut running, "three");
    say(&mut running, "four");
    running.close_stdin();
    running.finish().success();
    assert!(has(&context, 3, "*TaskStop"), "the summary is asked for with the same tools");
    assert_eq!(tools(&context, 4), tools(&context, 0));
    assert!(body(&context, 4)["messages"].to_string().contains("select:TaskStop"));
    assert_eq!(result(&context, 6), references(&["TaskStop"]));
    assert!(has(&context, 6, "*TaskStop"));
}

#[test]
fn references_that_another_program_recorded_break_nothing() {
    let context = context(json!([search("select:NotebookEdit"), {"text": "Found."}, {"text": "Again."}]));
    context.run(&words(&["--session-id", ID, "--", "go"])).success();
    let projects = std::fs::read_dir(context.home().join(".claude/projects")).unwrap();
    let folder = projects.flatten().next().unwrap().path();
    let file = folder.join(format!("{ID}.jsonl"));
    let recorded = std::fs::read_to_string(&file).unwrap();
    let other = recorded.replace(r#""tool_name":"NotebookEdit""#, r#""tool_name":"mcp__other__tool""#);
    assert_ne!(recorded, other);
    std::fs::write(&file, other).unwrap();
    let resumed = context.run(&words(&["--resume", ID, "--", "go on"])).success();
    assert_eq!(resumed.result()["result"], "Again.");
    assert_eq!(result(&context, 2), references(&["mcp__other__tool"]));
    assert!(has(&context, 2, "*mcp__other__tool"), "{:?}", tools(&context, 2));
}
