//! What the tests of the engine share: an engine over real processes, inputs of every kind, and fakes for
//! the host, the model and the network that answer as they are told.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use lathe_exec::{Ledger, PlaceLimit, ProcessLimits};
use lathe_hooks::{
    CallbackCall, CallbackError, CallbackMatchers, Callbacks, EngineOptions, HookEngine, HookEvents,
    HookFrame, HookSource, HookVariables, HookWarning, HttpPoster, Outcome, PromptError, PromptQuestion,
    Prompter, RuleMatcher, RunContext, Services,
};
use lathe_protocol::web::{JsonPost, WebError, WebReply};
use lathe_protocol::{HookInput, SettingsSource};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Long enough for every machine, short enough to see a hang.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// An engine in a folder of its own.
pub struct Bench {
    pub engine: HookEngine,
    pub ledger: Ledger,
    pub folder: TempDir,
    pub frames: Arc<Frames>,
    pub host: Arc<FakeHost>,
    pub model: Arc<FakeModel>,
    pub net: Arc<FakeNet>,
    pub cancel: CancellationToken,
    pub env: HookVariables,
    pub env_file: Option<PathBuf>,
}

impl Bench {
    pub fn new() -> Self {
        Self::with_options(EngineOptions::default())
    }

    pub fn with_options(options: EngineOptions) -> Self {
        Self::with_limit(options, ProcessLimits::default().hooks)
    }

    pub fn with_limit(options: EngineOptions, limit: PlaceLimit) -> Self {
        let ledger = Ledger::default();
        let ids = AtomicU64::new(0);
        let (host, model, net) =
            (Arc::<FakeHost>::default(), Arc::<FakeModel>::default(), Arc::<FakeNet>::default());
        let services = Services {
            ledger: ledger.clone(),
            limit,
            new_id: Arc::new(move || format!("id-{}", ids.fetch_add(1, Ordering::Relaxed))),
            callbacks: Some(host.clone()),
            prompter: Some(model.clone()),
            http: Some(net.clone()),
        };
        let path = "/usr/local/bin:/usr/bin:/bin".to_owned();
        Self {
            engine: HookEngine::new(services, options),
            ledger,
            folder: tempfile::tempdir().unwrap(),
            frames: Arc::default(),
            host,
            model,
            net,
            cancel: CancellationToken::new(),
            env: HookVariables::unrestricted(vec![("PATH".to_owned(), path)]),
            env_file: None,
        }
    }

    /// An engine with these hooks, as they stand in a settings file.
    pub fn hooks(hooks: Value) -> Self {
        let bench = Self::new();
        assert_eq!(bench.register(HookSource::Settings(SettingsSource::User), hooks), []);
        bench
    }

    /// An engine with one command for an event.
    pub fn command(event: &str, command: &str) -> Self {
        Self::hooks(json!({ event: [{ "hooks": [{ "type": "command", "command": command }] }] }))
    }

    pub fn register(&self, source: HookSource, hooks: Value) -> Vec<HookWarning> {
        self.engine.register(source, &serde_json::from_value(hooks).unwrap())
    }

    pub fn callbacks(&self, hooks: Value) -> Vec<HookWarning> {
        let matchers: CallbackMatchers = serde_json::from_value(hooks).unwrap();
        self.engine.register_callbacks(&matchers)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn context(&self) -> RunContext<'_> {
        RunContext {
            cwd: self.folder.path(),
            project_dir: self.folder.path(),
            env: &self.env,
            env_file: self.env_file.as_deref(),
            spill_dir: None,
            tool_use_id: None,
            cancel: &self.cancel,
            events: self.frames.clone(),
            rules: &FakeRules,
        }
    }

    pub async fn run(&self, input: &HookInput) -> Outcome {
        in_time(self.engine.run(input, self.context())).await
    }
}

pub async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("this takes too long")
}

/// An input of an event with the fields given and all others filled in.
pub fn input(event: &str, fields: Value) -> HookInput {
    let mut value = json!({
        "session_id": "sess-1",
        "transcript_path": "/t.jsonl",
        "cwd": "/w",
        "permission_mode": "default",
        "hook_event_name": event,
    });
    for source in [defaults(event), fields] {
        for (key, field) in source.as_object().cloned().unwrap_or_default() {
            value[key] = field;
        }
    }
    let input: HookInput = serde_json::from_value(value).unwrap();
    let known = !matches!(input.event, lathe_protocol::hooks::HookEventInput::Unknown(_));
    assert!(known, "{event} lacks a field");
    input
}

fn defaults(event: &str) -> Value {
    let tool = json!({ "tool_name": "Bash", "tool_input": { "command": "ls" }, "tool_use_id": "tu-1" });
    let with = |more: Value| {
        let mut value = tool.clone();
        for (key, field) in more.as_object().cloned().unwrap_or_default() {
            value[key] = field;
        }
        value
    };
    match event {
        "PreToolUse" => tool,
        "PostToolUse" => with(json!({ "tool_response": { "stdout": "" } })),
        "PostToolUseFailure" => with(json!({ "error": "boom" })),
        "PermissionRequest" => json!({ "tool_name": "Bash", "tool_input": { "command": "ls" } }),
        "PermissionDenied" => with(json!({ "reason": "no" })),
        "PostToolBatch" => json!({ "tool_calls": [] }),
        "Notification" => json!({ "message": "m", "notification_type": "idle_prompt" }),
        "UserPromptSubmit" => json!({ "prompt": "go" }),
        "UserPromptExpansion" => json!({
            "expansion_type": "slash_command", "command_name": "hello", "command_args": "", "prompt": "/hello"
        }),
        "SessionStart" => json!({ "source": "startup" }),
        "SessionEnd" => json!({ "reason": "other" }),
        "Stop" => json!({ "stop_hook_active": false }),
        "SubagentStart" => json!({ "agent_id": "a1", "agent_type": "my-agent" }),
        "SubagentStop" => json!({
            "stop_hook_active": false, "agent_id": "a1", "agent_type": "my-agent",
            "agent_transcript_path": "/a.jsonl"
        }),
        "PreCompact" => json!({ "trigger": "manual", "custom_instructions": null }),
        "PostCompact" => json!({ "trigger": "auto", "compact_summary": "s" }),
        "StopFailure" => json!({ "error": "rate_limit" }),
        "PreModelSwitch" | "PostModelSwitch" => json!({ "from_model": "a", "to_model": "b" }),
        "Setup" => json!({ "trigger": "init" }),
        "TeammateIdle" => json!({ "teammate_name": "t", "team_name": "n" }),
        "TaskCreated" | "TaskCompleted" => json!({ "task_id": "1", "task_subject": "s" }),
        "Elicitation" => json!({ "mcp_server_name": "srv", "message": "m" }),
        "ElicitationResult" => json!({ "mcp_server_name": "srv", "action": "accept" }),
        "ConfigChange" => json!({ "source": "project_settings" }),
        "WorktreeCreate" => json!({ "name": "w" }),
        "WorktreeRemove" => json!({ "worktree_path": "/w" }),
        "InstructionsLoaded" => {
            json!({ "file_path": "/m.md", "memory_type": "Project", "load_reason": "session_start" })
        }
        "CwdChanged" => json!({ "old_cwd": "/a", "new_cwd": "/b" }),
        "FileChanged" => json!({ "file_path": "/w/.envrc", "event": "change" }),
        "DirectoryAdded" => json!({ "directory": "/d", "source": "slash_command" }),
        "MessageDisplay" => {
            json!({ "turn_id": "t", "message_id": "m", "index": 0, "final": true, "delta": "d" })
        }
        other => panic!("no such event: {other}"),
    }
}

/// Keeps the frames, and tells when one comes.
#[derive(Default)]
pub struct Frames {
    pub seen: Mutex<Vec<HookFrame>>,
    news: Notify,
}

impl Frames {
    pub fn all(&self) -> Vec<HookFrame> {
        self.seen.lock().unwrap().clone()
    }

    /// The frames as lines, without their ids.
    pub fn lines(&self) -> Vec<Value> {
        let lines = self.all().into_iter().map(|frame| {
            let mut line = serde_json::to_value(frame.into_message(String::new())).unwrap();
            for id in ["uuid", "session_id", "hook_id"] {
                line.as_object_mut().unwrap().remove(id);
            }
            line
        });
        lines.collect()
    }

    pub async fn wait_for(&self, wanted: impl Fn(&HookFrame) -> bool) {
        in_time(async {
            loop {
                let news = self.news.notified();
                tokio::pin!(news);
                news.as_mut().enable();
                if self.all().iter().any(&wanted) {
                    return;
                }
                news.await;
            }
        })
        .await;
    }
}

impl HookEvents for Frames {
    fn emit(&self, frame: HookFrame) -> BoxFuture<'_, ()> {
        self.seen.lock().unwrap().push(frame);
        self.news.notify_waiters();
        Box::pin(async {})
    }
}

/// Rules of the form `Tool(text)`: the tool, and a text its input contains. `???` cannot be parsed.
struct FakeRules;

impl RuleMatcher for FakeRules {
    fn matches(&self, rule: &str, tool_name: &str, tool_input: &Value) -> Option<bool> {
        let (tool, rest) = rule.split_once('(')?;
        let text = rest.trim_end_matches(')');
        Some(tool == tool_name && tool_input.to_string().contains(text))
    }
}

/// What a fake does when it is called.
#[derive(Debug, Clone)]
pub enum Reply {
    Answer(Value),
    Error(String),
    Closed,
    /// Keeps its deadline, but has nothing to say.
    TimesOut,
    /// Does not even keep its deadline.
    Hangs,
}

/// A host that answers callbacks.
#[derive(Default)]
pub struct FakeHost {
    pub replies: Mutex<BTreeMap<String, Vec<Reply>>>,
    pub calls: Mutex<Vec<Value>>,
    /// How many questions were withdrawn or given up.
    pub withdrawn: AtomicU64,
    /// How many questions are open.
    pub open: AtomicU64,
    pub most_open: AtomicU64,
    pub news: Notify,
}

impl FakeHost {
    /// What a callback answers, once; afterwards it has no opinion.
    pub fn reply(&self, id: &str, reply: Reply) {
        self.replies.lock().unwrap().entry(id.to_owned()).or_default().push(reply);
    }

    pub fn answer(&self, id: &str, answer: Value) {
        self.reply(id, Reply::Answer(answer));
    }

    pub fn called(&self) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        calls.iter().map(|call| call["callback_id"].as_str().unwrap().to_owned()).collect()
    }

    async fn serve(&self, call: CallbackCall<'_>) -> Result<Value, CallbackError> {
        let line = json!({
            "callback_id": call.callback_id,
            "input": call.input,
            "tool_use_id": call.tool_use_id,
        });
        self.calls.lock().unwrap().push(line);
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_open.fetch_max(open, Ordering::Relaxed);
        self.news.notify_waiters();
        // Lets the other callbacks of the event come in.
        tokio::task::yield_now().await;
        let reply = {
            let mut replies = self.replies.lock().unwrap();
            let queue = replies.entry(call.callback_id.to_owned()).or_default();
            if queue.is_empty() { Reply::Answer(json!({})) } else { queue.remove(0) }
        };
        let result = match reply {
            Reply::Answer(value) => Ok(value),
            Reply::Error(why) => Err(CallbackError::Refused(why)),
            Reply::Closed => Err(CallbackError::Closed),
            Reply::TimesOut => {
                tokio::select! {
                    () = tokio::time::sleep(call.timeout) => Err(CallbackError::TimedOut),
                    () = call.cancel.cancelled() => Err(CallbackError::Cancelled),
                }
            }
            Reply::Hangs => std::future::pending().await,
        };
        self.open.fetch_sub(1, Ordering::Relaxed);
        if matches!(result, Err(CallbackError::TimedOut | CallbackError::Cancelled)) {
            self.withdrawn.fetch_add(1, Ordering::Relaxed);
        }
        result
    }
}

impl Callbacks for FakeHost {
    fn call<'a>(&'a self, call: CallbackCall<'a>) -> BoxFuture<'a, Result<Value, CallbackError>> {
        Box::pin(self.serve(call))
    }
}

/// A model that answers with the next text.
#[derive(Default)]
pub struct FakeModel {
    pub answers: Mutex<Vec<Result<String, PromptError>>>,
    pub asked: Mutex<Vec<(String, Option<String>)>>,
}

impl FakeModel {
    pub fn answers(&self, text: &str) {
        self.answers.lock().unwrap().push(Ok(text.to_owned()));
    }
}

impl Prompter for FakeModel {
    fn ask<'a>(&'a self, question: PromptQuestion<'a>) -> BoxFuture<'a, Result<String, PromptError>> {
        let model = question.model.map(str::to_owned);
        self.asked.lock().unwrap().push((question.prompt.to_owned(), model));
        assert_eq!(question.schema["required"], json!(["ok", "reason"]));
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.is_empty() { None } else { Some(answers.remove(0)) };
        Box::pin(async move {
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        })
    }
}

/// A request as the network sees it: address, headers, body.
pub type Posted = (String, Vec<(String, String)>, String);

/// A network with one answer.
#[derive(Default)]
pub struct FakeNet {
    pub reply: Mutex<Option<Result<WebReply, WebError>>>,
    pub posted: Mutex<Vec<Posted>>,
    /// Whether it never answers.
    pub is_silent: AtomicBool,
}

impl FakeNet {
    pub fn replies(&self, status: u16, body: &str) {
        *self.reply.lock().unwrap() = Some(Ok(WebReply { status, body: body.to_owned(), is_cut: false }));
    }
}

impl HttpPoster for FakeNet {
    fn post<'a>(&'a self, post: JsonPost<'a>) -> BoxFuture<'a, Result<WebReply, WebError>> {
        self.posted.lock().unwrap().push((post.url.into(), post.headers.to_vec(), post.body.into()));
        let reply = self.reply.lock().unwrap().clone();
        let is_silent = self.is_silent.load(Ordering::Relaxed);
        Box::pin(async move {
            if is_silent {
                std::future::pending::<()>().await;
            }
            reply.unwrap_or(Err(WebError::Failed("connection refused".to_owned())))
        })
    }
}

/// Whether a process is there and no zombie.
pub fn is_alive(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z')
}

/// Waits until a process is gone.
pub async fn gone(pid: i32) {
    in_time(async {
        while is_alive(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Waits for a file with something in it.
pub async fn file(path: &std::path::Path) -> String {
    in_time(async {
        loop {
            match std::fs::read_to_string(path) {
                Ok(text) if text.ends_with('\n') => return text,
                Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await
}

/// A pid that a script wrote.
pub async fn pid_in(path: &std::path::Path) -> i32 {
    file(path).await.trim().parse().unwrap()
}
