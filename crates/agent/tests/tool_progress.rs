//! Heartbeats: while a tool runs, the host is shown every 30 seconds that the session is alive. The clock of these
//! tests runs ahead whenever everybody waits.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Setup, of_type, run_config};
use futures_util::future::BoxFuture;
use lathe_agent::SessionConfig;
use lathe_protocol::{CallSubject, ClientGeneration, PermissionMode};
use lathe_tools::{Content, Tool, ToolContext, ToolFailure, ToolOutput};
use serde_json::{Value, json};
use tempfile::tempdir;

/// A tool that does nothing for as many seconds as it is told.
struct Idler;

impl Tool for Idler {
    fn name(&self) -> &str {
        "Idle"
    }

    fn description(&self) -> &str {
        "waits"
    }

    fn input_schema(&self) -> &Value {
        static SCHEMA: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| json!({"type": "object"}));
        &SCHEMA
    }

    fn subject(&self, _input: &Value) -> CallSubject {
        CallSubject::Unknown
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        _context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(input["seconds"].as_u64().unwrap())).await;
            Ok(ToolOutput::new(Content::Text("done".to_owned()), json!("done")))
        })
    }
}

/// The frames of a turn in which a tool runs for that long.
async fn turn(seconds: u64, generation: ClientGeneration) -> Vec<Value> {
    let folder = tempdir().unwrap();
    let call = json!({"name": "Idle", "id": "toolu_1", "input": {"seconds": seconds}});
    let mut setup = Setup::new(json!({"turns": [{"tools": [call]}, {"text": "ok"}]}), folder.path());
    setup.mode = PermissionMode::BypassPermissions;
    setup.frames.client_generation = generation;
    let add = |mut config: SessionConfig| {
        config.main.tools = config.main.tools.with(Arc::new(Idler));
        config
    };
    let (frames, _) = run_config(add(setup.config()), &["go"]).await;
    assert_eq!(of_type(&frames, "result")[0]["result"], "ok", "{frames:?}");
    frames
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_takes_long_is_shown_every_thirty_seconds() {
    let frames = turn(95, ClientGeneration::Current).await;
    let beats = of_type(&frames, "tool_progress");
    assert_eq!(beats.len(), 3, "{beats:?}");
    for (count, beat) in beats.iter().enumerate() {
        let expected = json!({
            "type": "tool_progress",
            "tool_use_id": format!("toolu_1-heartbeat-{count}"),
            "tool_name": "Idle",
            "parent_tool_use_id": "toolu_1",
            "elapsed_time_seconds": 30 * (count + 1),
            "heartbeat": true,
            "session_id": beat["session_id"],
            "uuid": beat["uuid"],
        });
        assert_eq!(**beat, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_done_in_time_is_not_shown() {
    assert!(of_type(&turn(29, ClientGeneration::Current).await, "tool_progress").is_empty());
}

/// As recorded with both versions: a command of 35 seconds, and no frame while it ran.
#[tokio::test(start_paused = true)]
async fn clients_of_the_old_generation_get_no_heartbeats() {
    assert!(of_type(&turn(95, ClientGeneration::Sdk02).await, "tool_progress").is_empty());
}
