//! What a session file tells of background tasks, also where other programs wrote it.

use lathe_transcript::{RecordedTasks, recorded_tasks};
use serde_json::{Value, json};

fn read(records: &[Value]) -> RecordedTasks {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let lines: Vec<String> = records.iter().map(|record| format!("{record}\n")).collect();
    std::fs::write(&path, lines.concat() + "{\"type\":\"queue-oper").unwrap();
    recorded_tasks(&path).unwrap()
}

fn call(uuid: &str, id: &str, input: Value) -> Value {
    let block = json!({"type": "tool_use", "id": id, "name": "Bash", "input": input});
    json!({"type": "assistant", "uuid": uuid, "parentUuid": null, "message": {"id": "m", "content": [block]}})
}

fn started(uuid: &str, call: &str, tool_use: &str, task: &str) -> Value {
    let block = json!({"type": "tool_result", "tool_use_id": tool_use, "content": "x"});
    json!({"type": "user", "uuid": uuid, "parentUuid": call, "message": {"role": "user", "content": [block]},
        "sourceToolAssistantUUID": call, "toolUseResult": {"stdout": "", "backgroundTaskId": task}})
}

fn notice(task: &str, status: &str) -> String {
    format!("<task-notification>\n<task-id>{task}</task-id>\n<status>{status}</status>\n</task-notification>")
}

fn queue(operation: &str, run: Option<&str>, content: Option<String>) -> Value {
    json!({"type": "queue-operation", "operation": operation, "timestamp": "T", "sessionId": "s",
        "runId": run, "content": content})
}

fn ends(tasks: &RecordedTasks) -> Vec<(&str, Option<&str>)> {
    tasks.tasks.iter().map(|task| (task.id.as_str(), task.end.as_deref())).collect()
}

#[test]
fn a_task_is_open_until_its_end_is_recorded() {
    let start =
        [call("a", "t1", json!({"command": "make", "description": "Build"})), started("r", "a", "t1", "b1")];
    let tasks = read(&start);
    let open: Vec<_> = tasks.open().collect();
    assert_eq!(open.len(), 1);
    assert_eq!(
        (open[0].id.as_str(), open[0].tool_use_id.as_str(), open[0].description.as_str()),
        ("b1", "t1", "Build")
    );
    let mut ended = start.to_vec();
    ended.push(queue("enqueue", Some("run"), Some(notice("b1", "failed"))));
    let tasks = read(&ended);
    assert_eq!(ends(&tasks), [("b1", Some("failed"))]);
    assert_eq!((tasks.untold.len(), tasks.untold[0].run_id.as_str()), (1, "run"));
}

#[test]
fn a_notice_is_told_once_the_conversation_names_its_run() {
    let queued = |run: &str| queue("enqueue", Some(run), Some(notice("b1", "completed")));
    let untold = |record: Value| -> Vec<String> {
        let records = [queued("one"), queued("two"), queued("two"), record];
        read(&records).untold.into_iter().map(|untold| untold.run_id).collect()
    };
    // A `dequeue` alone proves nothing: the process may have died before the prompt was recorded.
    assert_eq!(untold(queue("dequeue", Some("one"), None)), ["one", "two"]);
    assert_eq!(untold(queue("remove", Some("one"), Some(notice("b1", "completed")))), ["two"]);
    let prompt = |origin: Value| json!({"type": "user", "uuid": "p", "parentUuid": null, "message": {"content": "x"}, "origin": origin});
    assert_eq!(untold(prompt(json!({"kind": "task-notification", "runId": "one"}))), ["two"]);
    assert_eq!(untold(prompt(json!({"runId": "one", "runIds": ["one", "two"]}))), [""; 0]);
    let note = json!({"type": "attachment", "uuid": "n", "parentUuid": null,
        "attachment": {"type": "hook_additional_context", "content": ["x"], "runId": "two", "runIds": ["two"]}});
    assert_eq!(untold(note), ["one"]);
}

#[test]
fn what_other_programs_wrote_counts() {
    let records = [
        call("a", "t1", json!({"command": "one"})),
        started("r1", "a", "t1", "b1"),
        call("c", "t2", json!({"command": "two"})),
        started("r2", "c", "t2", "b2"),
        call("d", "t3", json!({"command": "three"})),
        started("r3", "d", "t3", "b3"),
        queue("enqueue", None, Some(notice("b1", "completed"))),
        json!({"type": "user", "uuid": "r4", "parentUuid": "r3", "message": {"content": []},
            "toolUseResult": {"message": "Stopped", "task_id": "b2", "task_type": "local_bash"}}),
    ];
    let tasks = read(&records);
    assert_eq!(ends(&tasks), [("b1", Some("completed")), ("b2", Some("killed")), ("b3", None)]);
    assert_eq!(tasks.untold.len(), 0, "without a run it cannot be told apart");
    assert_eq!(tasks.tasks[2].description, "three");
}
