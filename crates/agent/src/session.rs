//! The session: takes the lines a host writes, runs one turn after the other, and says how it all ended.
//! Everything that waits for the host waits here; the turn itself is `turn.rs`.

use std::collections::VecDeque;
use std::sync::Arc;

use lathe_protocol::{
    ContentBlock, ControlRequest, ControlResponse, Inbound, InboundUser, MessageContent, Outbound,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::config::SessionConfig;
use crate::finish::finish;
use crate::history::History;
use crate::journal::{Journal, Spent};
use crate::shared::{SessionParts, Shared};
use crate::turn::{Stats, Turn};

/// How a session is told to end from outside.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    /// Break off the turn under way, write its result, and end (Ctrl-C).
    pub finish: CancellationToken,
    /// End at once: kill what runs, write no result (the terminating signal, a reader that is gone).
    pub stop: CancellationToken,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionEnd {
    /// Whether the last result was an error; false when there was none.
    pub last_was_error: bool,
    /// Whether it was told to finish early, which is no error of its own.
    pub interrupted: bool,
}

/// A running session.
struct Session {
    shared: Arc<Shared>,
    history: History,
    journal: Journal,
    inbox: mpsc::Receiver<Inbound>,
    /// Whether the inbox is still open.
    open: bool,
    /// Fires when the turn under way is to be the last.
    finish: CancellationToken,
    queue: VecDeque<InboundUser>,
    preamble: Option<String>,
    results: u64,
    started_ms: u64,
    /// Time spent in requests, over all turns.
    api_ms: u64,
    end: SessionEnd,
}

/// Runs a session until its inbox is closed (no more prompts) and everything in it is done, or until a
/// signal ends it.
pub async fn run(
    config: SessionConfig,
    inbox: mpsc::Receiver<Inbound>,
    out: mpsc::Sender<Outbound>,
    signals: Signals,
) -> SessionEnd {
    let parts = SessionParts {
        session_id: config.session_id,
        host: config.host,
        model: config.model,
        choice: config.choice,
        retry: config.retry,
        tools: config.tools,
        known_tools: config.known_tools,
        workspace: config.workspace,
        permissions: config.permissions,
        system: config.system,
        limits: config.limits,
        options: config.frames,
        init: config.init,
    };
    let shared = Arc::new(Shared::new(parts, out, signals.stop));
    let started_ms = shared.host.now_ms();
    let mut session = Session {
        shared,
        history: History::default(),
        journal: config.journal,
        inbox,
        open: true,
        finish: signals.finish,
        queue: VecDeque::new(),
        preamble: config.preamble,
        results: 0,
        started_ms,
        api_ms: 0,
        end: SessionEnd { last_was_error: false, interrupted: false },
    };
    while let Some(prompt) = session.next_prompt().await {
        session.turn(prompt).await;
    }
    session.shared.workspace.ledger.kill_all().await;
    session.end.interrupted = session.finish.is_cancelled();
    session.end
}

impl Session {
    /// The next prompt; none when there will be no more.
    async fn next_prompt(&mut self) -> Option<InboundUser> {
        loop {
            if self.shared.stop.is_cancelled() || self.finish.is_cancelled() {
                return None;
            }
            if let Some(prompt) = self.queue.pop_front() {
                return Some(prompt);
            }
            if !self.open {
                return None;
            }
            tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => return None,
                () = self.finish.cancelled() => return None,
                line = self.inbox.recv() => match line {
                    Some(line) => handle_line(&self.shared, &mut self.queue, line, None).await,
                    None => self.open = false,
                },
            }
        }
    }

    /// One prompt, one result.
    async fn turn(&mut self, prompt: InboundUser) {
        self.open_turn(&prompt).await;
        let cancel = self.shared.stop.child_token();
        let choice = self.shared.choice().clone();
        let mut turn = Turn {
            shared: &self.shared,
            history: &mut self.history,
            journal: &mut self.journal,
            cancel: cancel.clone(),
            stats: Stats::new(),
            model_id: choice.id,
            fallbacks: choice.fallbacks,
        };
        let outcome = {
            let run = turn.run();
            tokio::pin!(run);
            loop {
                tokio::select! {
                    outcome = &mut run => break outcome,
                    () = self.finish.cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
                    line = self.inbox.recv(), if self.open => match line {
                        Some(line) => {
                            handle_line(&self.shared, &mut self.queue, line, Some(&cancel)).await;
                        }
                        None => self.open = false,
                    },
                }
            }
        };
        if self.shared.stop.is_cancelled() {
            // Told to end at once: what was running has been answered, and nobody waits for a result.
            return;
        }
        let (mut result, finished) = finish(&mut turn, outcome, self.results).await;
        result.queued_turn_count = Some(self.queue.len() as u64);
        self.results += 1;
        self.end.last_was_error = finished.is_error;
        self.api_ms += result.duration_api_ms;
        let spent = self.spent();
        self.journal.end_of_turn(spent);
        self.report_troubles().await;
        self.shared.emit(result).await;
    }

    /// What the session has used so far.
    fn spent(&self) -> Spent {
        let totals = self.shared.totals();
        Spent {
            cost_usd: totals.cost_usd(),
            api_ms: self.api_ms,
            duration_ms: self.shared.host.now_ms().saturating_sub(self.started_ms),
            started_ms: self.started_ms,
            model_usage: totals.model_usage(),
        }
    }

    /// Tells the host what went wrong behind the scenes.
    async fn report_troubles(&mut self) {
        let unknown = self.shared.totals().take_unknown_models();
        let unknown = unknown.into_iter().map(|model| {
            format!("no price is known for {model}: its cost is counted as the default model's")
        });
        for trouble in self.journal.take_troubles().into_iter().chain(unknown.collect::<Vec<_>>()) {
            self.shared.emit(self.shared.frames.warning(&trouble)).await;
        }
    }

    /// Shows the init frame and puts the prompt where the model and later readers find it.
    async fn open_turn(&mut self, prompt: &InboundUser) {
        self.shared.emit(init_frame(&self.shared)).await;
        if let Some(preamble) = self.preamble.take() {
            self.history.add_user_text(&preamble);
        }
        self.history.add_user(prompt_blocks(&prompt.message.content));
        let uuid = prompt.uuid.clone().unwrap_or_else(|| self.shared.frames.uuid());
        let mode = self.shared.permissions().mode().as_str();
        self.journal.prompt(prompt, &uuid, &self.shared.frames.now(), mode);
        self.report_troubles().await;
    }
}

/// Takes in a line that arrived before or during a turn.
async fn handle_line(
    shared: &Shared,
    queue: &mut VecDeque<InboundUser>,
    line: Inbound,
    turn: Option<&CancellationToken>,
) {
    match line {
        Inbound::User(prompt) => queue.push_back(prompt),
        Inbound::ControlRequest(request) => answer_control(shared, request, turn).await,
        Inbound::ControlResponse(_)
        | Inbound::ControlCancelRequest(_)
        | Inbound::KeepAlive(_)
        | Inbound::UpdateEnvironmentVariables(_)
        | Inbound::Unknown(_) => {}
    }
}

/// Control requests come with their own issue; until then each gets a clear answer.
async fn answer_control(shared: &Shared, request: ControlRequest, turn: Option<&CancellationToken>) {
    let _ = (turn, &request);
    let response = ControlResponse::error(&request.request_id, "not supported yet");
    shared.emit(response).await;
}

/// The blocks of a prompt.
fn prompt_blocks(content: &MessageContent) -> Vec<Value> {
    match content {
        MessageContent::Text(text) => vec![json!({"type": "text", "text": text})],
        MessageContent::Blocks(blocks) => blocks.iter().map(block_value).collect(),
        MessageContent::Unknown(value) => vec![json!({"type": "text", "text": value.to_string()})],
    }
}

fn block_value(block: &ContentBlock) -> Value {
    serde_json::to_value(block).unwrap_or_default()
}

/// `system/init`, as things stand now.
fn init_frame(shared: &Shared) -> lathe_protocol::SystemMessage {
    let mut init = shared.init.clone();
    init.session_id.clone_from(&shared.frames.session_id);
    init.uuid = shared.frames.uuid();
    init.cwd = shared.workspace.cwd().display().to_string();
    init.model.clone_from(&shared.choice().id);
    init.permission_mode = shared.permissions().mode().to_string();
    init.tools = shared.tools.names().map(str::to_owned).collect();
    init.into()
}
