//! Deferred tools of two agents: what one has loaded, the other has not.

mod common;

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use common::Setup;
use futures_util::future::BoxFuture;
use lathe_protocol::CallSubject;
use lathe_tools::{
    AgentRequest, Content, SessionKind, Tool, ToolChoice, ToolContext, ToolDeferral, ToolFailure, ToolOutput,
    builtin_tools,
};
use serde_json::{Value, json};

/// Starts an agent with the tools of the one that calls.
struct StartAgent;

impl Tool for StartAgent {
    fn name(&self) -> &str {
        "StartAgent"
    }

    fn description(&self) -> &str {
        "starts an agent"
    }

    fn input_schema(&self) -> &Value {
        static SCHEMA: LazyLock<Value> = LazyLock::new(|| json!({"type": "object"}));
        &SCHEMA
    }

    fn subject(&self, _: &Value) -> CallSubject {
        CallSubject::Agent { agent_type: "child".to_owned() }
    }

    fn call<'a>(
        &'a self,
        _: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            let request = AgentRequest {
                agent_type: "child".to_owned(),
                description: "a test".to_owned(),
                prompt: "work".to_owned(),
                system_prompt: "You are a child.".to_owned(),
                tools: context.session.agent_tools().as_ref().clone(),
                model: None,
                folder: None::<PathBuf>,
                max_rounds: None,
            };
            let (id, cancel) = (context.tool_use_id.clone(), context.cancel.clone());
            let report = context.session.clone().run_agent(request, id, cancel).await;
            Ok(ToolOutput::new(Content::Text(report.text), json!({})))
        })
    }
}

fn turn(agent: &str, call: Value, expected: &[&str]) -> Value {
    json!({"when": {"agent": agent, "tools": expected}, "times": 1, "tools": [call]})
}

fn search(name: &str) -> Value {
    json!({"name": "ToolSearch", "input": {"query": format!("select:{name}")}})
}

#[tokio::test]
async fn each_agent_loads_for_itself() {
    let script = json!({"turns": [
        turn("main", search("TaskStop"), &["ToolSearch"]),
        turn("main", json!({"name": "StartAgent", "input": {}}), &["TaskStop"]),
        turn("child", search("NotebookEdit"), &["ToolSearch"]),
        {"when": {"agent": "child", "tools": ["NotebookEdit"]}, "times": 1, "text": "I have one"},
        {"when": {"agent": "main", "tools": ["TaskStop"]}, "times": 1, "text": "done"},
    ]});
    let world = tempfile::tempdir().unwrap();
    let setup = Setup::new(script, world.path());
    let told = setup.offered_tools.clone();
    let mut config = setup.config();
    let kind = SessionKind { deferral: ToolDeferral::On, ..SessionKind::default() };
    let tools = kind.tools(builtin_tools(), &ToolChoice::Default, |_| false);
    config.main.tools = tools.with(Arc::new(StartAgent));
    let (frames, end) = common::run_config(config, &["go"]).await;
    assert!(!end.last_was_error, "{frames:?}");
    let loaded: Vec<(bool, bool)> = told
        .lock()
        .unwrap()
        .iter()
        .map(|tools| (tools.contains("\"TaskStop\""), tools.contains("\"NotebookEdit\"")))
        .collect();
    assert_eq!(loaded, [(false, false), (true, false), (false, false), (false, true), (true, false)]);
}
