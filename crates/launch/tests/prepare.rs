//! Sessions launched as another program would: from options, an environment that may be empty and a model, with every
//! error and warning as a value.

use std::path::Path;
use std::sync::{Arc, Mutex};

use lathe_launch::options::ResumeOption;
use lathe_launch::{
    LaunchEnvironment, LaunchError, LaunchWarning, ModelSource, PreparedSession, SessionOptions,
    SessionSignals, SharedServices, WarningSink, prepare,
};
use lathe_protocol::{Inbound, Outbound, PermissionMode};
use lathe_scripted::{Script, ScriptedModel};
use serde_json::{Value, json};
use tokio::sync::mpsc;

type Warnings = Arc<Mutex<Vec<LaunchWarning>>>;

fn sink(warnings: &Warnings) -> WarningSink {
    let warnings = warnings.clone();
    Arc::new(move |warning| warnings.lock().unwrap().push(warning))
}

fn script(script: &Value) -> Arc<ScriptedModel> {
    let script = Script::parse("test.json", &script.to_string()).expect("the script is valid");
    Arc::new(ScriptedModel::new(script).expect("the script is sound"))
}

fn says(text: &str) -> Arc<ScriptedModel> {
    script(&json!({"turns": [{"text": text}]}))
}

fn in_folder(folder: &Path) -> SessionOptions {
    SessionOptions { cwd: Some(folder.to_owned()), ..SessionOptions::default() }
}

fn launch(
    options: &SessionOptions,
    environment: LaunchEnvironment,
    warnings: &Warnings,
) -> Result<PreparedSession, LaunchError> {
    let model = ModelSource::Value(says("hello"));
    prepare(options, environment, model, &SharedServices::default(), &sink(warnings))
}

fn refused(options: &SessionOptions, environment: LaunchEnvironment) -> LaunchError {
    launch(options, environment, &Warnings::default()).err().expect("it is refused")
}

/// Runs lines to the end of the session; the frames as JSON.
async fn run(session: PreparedSession, lines: &[Value]) -> Vec<Value> {
    let (prompts, inbox) = mpsc::channel(8);
    for line in lines {
        let line = Inbound::parse_line(&line.to_string()).expect("a line of the protocol");
        prompts.send(line).await.expect("room for the lines");
    }
    drop(prompts);
    let (out, mut frames) = mpsc::channel::<Outbound>(16);
    let collect = async {
        let mut all = Vec::new();
        while let Some(frame) = frames.recv().await {
            all.push(serde_json::to_value(&frame).expect("frames serialise"));
        }
        all
    };
    tokio::join!(Box::pin(session.run(inbox, out, SessionSignals::default())), collect).1
}

fn prompt(text: &str) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": null})
}

fn result(frames: &[Value]) -> &Value {
    frames.iter().find(|frame| frame["type"] == "result").expect("a result")
}

#[tokio::test]
async fn an_empty_environment_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let warnings = Warnings::default();
    let session = launch(&in_folder(folder.path()), LaunchEnvironment::default(), &warnings).unwrap();
    assert_eq!(result(&run(session, &[prompt("hi")]).await)["result"], "hello");
    let warnings = warnings.lock().unwrap();
    assert!(matches!(warnings.as_slice(), [LaunchWarning::NoHome]), "{warnings:?}");
}

#[tokio::test]
async fn children_and_hosts_learn_of_the_process_only_what_the_environment_says() {
    let folder = tempfile::tempdir().unwrap();
    let calls = json!({"turns": [
        {"tools": [{"name": "Bash", "input": {"command": "echo pid=${CLAUDE_PID-none} a=${A-none}"}}]},
        {"text": "{{last_tool_result}}"},
    ]});
    let options =
        SessionOptions { allowed_tools: vec!["Bash".to_owned()], persist: false, ..in_folder(folder.path()) };
    let known = LaunchEnvironment {
        pid: Some(4711),
        ..LaunchEnvironment::with_variables([("A".to_owned(), "1".to_owned())])
    };
    let expected = [
        (known, json!(4711), "pid=4711 a=1"),
        (LaunchEnvironment::default(), Value::Null, "pid=none a=none"),
    ];
    for (environment, pid, told) in expected {
        let model = ModelSource::Value(script(&calls));
        let sink = sink(&Warnings::default());
        let session = prepare(&options, environment, model, &SharedServices::default(), &sink).unwrap();
        let initialize =
            json!({"type": "control_request", "request_id": "1", "request": {"subtype": "initialize"}});
        let frames = run(session, &[initialize, prompt("go")]).await;
        let reply = frames.iter().find(|frame| frame["type"] == "control_response").expect("a reply");
        assert_eq!(reply["response"]["response"]["pid"], pid);
        assert_eq!(result(&frames)["result"], told);
    }
}

#[tokio::test]
async fn what_a_running_session_logs_is_a_warning_too() {
    let folder = tempfile::tempdir().unwrap();
    let warnings = Warnings::default();
    let options = SessionOptions { persist: false, ..in_folder(folder.path()) };
    let session = launch(&options, LaunchEnvironment::default(), &warnings).unwrap();
    run(session, &[json!({"type": "nothing we know"}), prompt("hi")]).await;
    let warnings = warnings.lock().unwrap();
    assert!(
        matches!(warnings.as_slice(), [LaunchWarning::Running(line)] if line.contains("nothing we know")),
        "{warnings:?}"
    );
}

#[tokio::test]
async fn the_scratch_folder_goes_with_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let temp = folder.path().join("temp");
    let environment = LaunchEnvironment { temp_dir: Some(temp.clone()), ..LaunchEnvironment::default() };
    let command = "seq 20000";
    let calls = json!({"turns": [
        {"tools": [{"name": "Bash", "input": {"command": command}}]},
        {"text": "{{last_tool_result}}"},
    ]});
    let options =
        SessionOptions { allowed_tools: vec!["Bash".to_owned()], persist: false, ..in_folder(folder.path()) };
    let model = ModelSource::Value(script(&calls));
    let sink = sink(&Warnings::default());
    let session = prepare(&options, environment, model, &SharedServices::default(), &sink).unwrap();
    let frames = run(session, &[prompt("go")]).await;
    let told = result(&frames)["result"].as_str().unwrap().to_owned();
    assert!(told.contains(temp.to_str().unwrap()), "the whole output was kept there: {told}");
    assert_eq!(std::fs::read_dir(&temp).unwrap().count(), 0);
}

#[test]
fn the_caller_is_asked_for_a_model_by_the_name_that_settings_give() {
    let folder = tempfile::tempdir().unwrap();
    let options = SessionOptions {
        settings: Some(json!({"model": "mine:first"}).to_string()),
        persist: false,
        ..in_folder(folder.path())
    };
    let asked = Mutex::new(Vec::new());
    let look_up = |name: &str, _: &LaunchEnvironment| {
        asked.lock().unwrap().push(name.to_owned());
        Ok(name.strip_prefix("mine:").map(|text| says(text) as Arc<dyn lathe_models::Model>))
    };
    let launch = |model| {
        let sink = sink(&Warnings::default());
        prepare(&options, LaunchEnvironment::default(), model, &SharedServices::default(), &sink)
    };
    let session = launch(ModelSource::Lookup(&look_up)).unwrap();
    assert_eq!(*asked.lock().unwrap(), ["mine:first"]);
    assert!(session.config.main.choice.id.starts_with("claude-"), "{}", session.config.main.choice.id);
    let failing = |_: &str, _: &LaunchEnvironment| Err("no such model".into());
    let error = launch(ModelSource::Lookup(&failing)).err().expect("it is refused");
    assert!(matches!(&error, LaunchError::ModelLookup(why) if why.to_string() == "no such model"), "{error}");
}

#[test]
fn what_stops_a_launch_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = LaunchEnvironment::default;
    let options = || SessionOptions { persist: false, ..in_folder(folder.path()) };

    assert!(matches!(refused(&SessionOptions::default(), nothing()), LaunchError::NoWorkingDirectory));
    let relative = SessionOptions { cwd: Some("src".into()), ..SessionOptions::default() };
    assert!(matches!(refused(&relative, nothing()), LaunchError::NoWorkingDirectory));

    let named = |name: &str| ResumeOption::Named { name: name.to_owned(), at: None, drops_turn: None };
    let id = "00000000-0000-4000-8000-00000000abcd";
    let by_id = SessionOptions { resume: named(id), ..options() };
    assert!(matches!(refused(&by_id, nothing()), LaunchError::UnknownSession { id: told } if told == id));
    let by_title = SessionOptions { resume: named("my work"), ..options() };
    assert!(
        matches!(refused(&by_title, nothing()), LaunchError::UnknownTitle { title } if title == "my work")
    );

    let schema = SessionOptions { json_schema: Some(json!({"type": 7})), ..options() };
    assert!(matches!(refused(&schema, nothing()), LaunchError::AnswerSchema(_)));
    let settings = SessionOptions { settings: Some("/no/such/file.json".to_owned()), ..options() };
    assert!(matches!(refused(&settings, nothing()), LaunchError::Settings(_)));
    let sandbox = json!({"sandbox": {"enabled": true, "failIfUnavailable": true}}).to_string();
    let sandbox = SessionOptions { settings: Some(sandbox), ..options() };
    assert!(matches!(refused(&sandbox, nothing()), LaunchError::SandboxRequired));
}

#[test]
fn root_skips_no_permissions_whoever_launches() {
    let folder = tempfile::tempdir().unwrap();
    let root = LaunchEnvironment { is_root: true, ..LaunchEnvironment::default() };
    let plain = SessionOptions { persist: false, ..in_folder(folder.path()) };
    let mode = SessionOptions { permission_mode: Some(PermissionMode::BypassPermissions), ..plain.clone() };
    let later = SessionOptions { bypass_available: true, ..plain.clone() };
    for options in [&mode, &later] {
        assert!(matches!(refused(options, root.clone()), LaunchError::BypassAsRoot));
        assert!(launch(options, LaunchEnvironment::default(), &Warnings::default()).is_ok());
    }
    assert!(launch(&plain, root, &Warnings::default()).is_ok());
}

#[tokio::test]
async fn a_settings_write_that_waits_for_a_lock_lets_other_tasks_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join(".claude");
    std::fs::create_dir(&dir).unwrap();
    let session =
        launch(&in_folder(folder.path()), LaunchEnvironment::default(), &Warnings::default()).unwrap();
    let settings = session.config.settings.clone();
    let held = std::fs::File::open(&dir).unwrap();
    held.try_lock().unwrap();
    let language = json!({"language": "French"});
    let others = async {
        // On the same thread: if the write blocked it, the lock would never be given back.
        for _ in 0..20 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            assert_eq!(settings.listing().effective["language"], Value::Null, "it can be read meanwhile");
        }
        assert!(!dir.join("settings.local.json").exists());
        drop(held);
    };
    let (written, ()) = tokio::join!(settings.update("localSettings", &language), others);
    written.unwrap();
    assert_eq!(settings.listing().effective["language"], "French");
    let text = std::fs::read_to_string(dir.join("settings.local.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), language);
}
