//! The session: takes the lines a host writes, runs one turn after the other, and says how it all ended.
//! Everything that waits for the host waits here; the turn itself is `turn.rs`, what becomes of a line
//! that the host writes is `lines.rs`.

use std::sync::Arc;
use std::time::Duration;

use lathe_protocol::reminder::system_reminder;
use lathe_protocol::{ContentBlock, HookEvent, Inbound, InboundUser, Outbound};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::announce::{init_frame, is_blank, prompt_blocks};
use crate::beside::Beside;
use crate::checkpoints::Checkpoints;
use crate::commands::{self, Dispatch};
use crate::config::{SessionConfig, Setup};
use crate::finish::{Finished, finish};
use crate::history::History;
use crate::hooking::submit::Submitted;
use crate::journal::{Starts, Words};
use crate::lines;
use crate::planning;
use crate::shared::Shared;
use crate::toolrun::ToolCall;
use crate::turn::{Outcome, Stats, Turn};
use crate::work::{Work, outcome_of};

/// How long a session with a call that was put off waits for the prompt of a host that has introduced itself.
/// Hosts write both at once; with the prompt the call is part of its turn, and there is one result for both.
const PROMPT_PATIENCE: Duration = Duration::from_millis(300);

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

/// The turn under way, as far as others may touch it.
#[derive(Clone)]
pub(crate) struct TurnHandle {
    /// Breaks it off.
    pub cancel: CancellationToken,
    /// Ends it at its next pause, because something more urgent came.
    pub preempt: CancellationToken,
}

/// What a session does next.
enum Due {
    Prompt(Box<InboundUser>),
    /// The call that the session was resumed with.
    DeferredCall,
}

/// A running session.
struct Session {
    shared: Arc<Shared>,
    history: History,
    inbox: mpsc::Receiver<Inbound>,
    /// Requests of the host that take their time.
    beside: Beside,
    /// Whether the inbox is still open.
    open: bool,
    /// Fires when the turn under way is to be the last.
    finish: CancellationToken,
    /// Goes in front of the first prompt, as a note.
    preamble: Option<String>,
    /// The same, as the user's words.
    first_words: Option<String>,
    /// The call that a hook put off; it is taken up before the model is asked again.
    deferred: Option<ToolCall>,
    /// Whether that happens without a prompt.
    takes_up: bool,
    results: u64,
    started_ms: u64,
    end: SessionEnd,
}

/// Runs a session until its inbox is closed (no more prompts) and everything in it is done, or until a
/// signal ends it.
pub async fn run(
    mut config: SessionConfig,
    inbox: mpsc::Receiver<Inbound>,
    out: mpsc::Sender<Outbound>,
    signals: Signals,
) -> SessionEnd {
    let beginning = std::mem::take(&mut config.beginning);
    let source = beginning.source();
    let setup = config.setup;
    let shared = Shared::new(config, out, signals.stop);
    let mut resumed = beginning.resumed();
    let deferred =
        resumed.as_mut().and_then(|resumed| resumed.deferred.take()).map(ToolCall::put_off_earlier);
    let history = resumed.map_or_else(History::default, |resumed| shared.take_up(*resumed));
    shared.note_context(history.size());
    let mut session = Session {
        started_ms: shared.host.now_ms(),
        beside: Beside::new(shared.clone()),
        preamble: shared.preamble(),
        shared,
        history,
        inbox,
        open: true,
        finish: signals.finish,
        first_words: None,
        takes_up: deferred.is_some(),
        deferred,
        results: 0,
        end: SessionEnd { last_was_error: false, interrupted: false },
    };
    session.begin(source, setup).await;
    while setup != Some(Setup::InitOnly)
        && let Some(due) = session.next_due().await
    {
        session.turn(due).await;
    }
    session.answer_the_rest().await;
    session.finish_hooks().await;
    session.shared.workspace.ledger.kill_all().await;
    session.close_journal().await;
    session.shared.mirror_records().await;
    session.shared.checkpoints.iter().for_each(Checkpoints::close);
    session.end.interrupted = session.finish.is_cancelled();
    session.end
}

impl Session {
    /// What to do next; none when there will be nothing more.
    async fn next_due(&mut self) -> Option<Due> {
        let mut patience = None;
        loop {
            if self.shared.stop.is_cancelled() || self.finish.is_cancelled() {
                return None;
            }
            // What changes the session counts before the prompt that came after it.
            let changing = self.beside.is_changing();
            let next = if changing { None } else { self.shared.queue().take_next() };
            // A host that has introduced itself has brought its hooks; one that is gone will bring none.
            let heard = self.shared.is_initialized() || !self.open;
            let takes_up = next.is_none() && !changing && heard && self.takes_up;
            if takes_up && !self.open {
                return Some(Due::DeferredCall);
            }
            let now = Instant::now();
            let prompt_due = if takes_up { *patience.get_or_insert(now + PROMPT_PATIENCE) } else { now };
            if next.is_some() || !(self.open || changing) {
                return next.map(|prompt| Due::Prompt(Box::new(prompt)));
            }
            tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => return None,
                () = self.finish.cancelled() => return None,
                line = self.inbox.recv(), if self.open => self.take_in(line, None).await,
                () = self.beside.changed(), if changing => {}
                () = tokio::time::sleep_until(prompt_due), if takes_up => return Some(Due::DeferredCall),
                prompt = self.shared.until_woken(), if self.open && !changing => return Some(Due::Prompt(Box::new(prompt))),
            }
        }
    }

    /// Takes in a line of the host, or the news that there will be no more.
    async fn take_in(&mut self, line: Option<Inbound>, turn: Option<&TurnHandle>) {
        match line {
            Some(line) => lines::take(&self.shared, &mut self.beside, line, turn).await,
            None => self.close(),
        }
    }

    /// Lets something go on while the host's lines are taken in: it may wait for one of them.
    async fn serve<T>(&mut self, work: impl Future<Output = T>, turn: Option<&TurnHandle>) -> T {
        self.attend(work, turn, turn.map(|turn| &turn.cancel)).await
    }

    /// The same outside a turn, for hooks that somebody may want to break off.
    async fn listening<T>(&mut self, work: impl Future<Output = T>, cancel: &CancellationToken) -> T {
        self.attend(work, None, Some(cancel)).await
    }

    async fn attend<T>(
        &mut self,
        work: impl Future<Output = T>,
        turn: Option<&TurnHandle>,
        cancel: Option<&CancellationToken>,
    ) -> T {
        tokio::pin!(work);
        loop {
            let running = cancel.filter(|cancel| !cancel.is_cancelled());
            tokio::select! {
                done = &mut work => return done,
                () = self.finish.cancelled(), if running.is_some() => {
                    running.into_iter().for_each(CancellationToken::cancel);
                }
                line = self.inbox.recv(), if self.open => self.take_in(line, turn).await,
            }
        }
    }

    /// Requests that were under way when the last prompt was done still get their answer.
    async fn answer_the_rest(&mut self) {
        let mut beside = std::mem::replace(&mut self.beside, Beside::new(self.shared.clone()));
        let stop = self.shared.stop.clone();
        self.serve(
            async {
                tokio::select! {
                    () = beside.finish() => {}
                    () = stop.cancelled() => {}
                }
            },
            None,
        )
        .await;
    }

    /// The host sends no more: what it was asked can no longer be answered.
    fn close(&mut self) {
        self.open = false;
        self.shared.questions.close();
    }

    /// The hooks that wait for a session; what they say goes in front of the first prompt.
    async fn begin(&mut self, source: &str, setup: Option<Setup>) {
        let (shared, cancel) = (self.shared.clone(), self.shared.stop.child_token());
        let beginning = self.listening(shared.begin(source, setup, &cancel), &cancel).await;
        if !beginning.notes.is_empty() {
            let notes = system_reminder(&beginning.notes.join("\n"));
            self.preamble = Some(match self.preamble.take() {
                Some(preamble) => format!("{preamble}\n{notes}"),
                None => notes,
            });
        }
        self.first_words = beginning.first_words;
    }

    /// The hooks that wait for the end, and the end of those that ran on.
    async fn finish_hooks(&mut self) {
        let shared = self.shared.clone();
        self.serve(shared.end_conversation("other"), None).await;
        self.shared.late.shut_down().await;
        self.shared.hooks.shut_down().await;
    }

    /// What could not be saved until the end is told at the end: from here on it is gone.
    async fn close_journal(&mut self) {
        let lost = self.shared.journal().close();
        if let Some(lost) = lost {
            self.shared.trouble("session_not_saved", &lost).await;
        }
    }

    /// Opens the turn of a prompt, or of a call that was put off and has none.
    async fn open(&mut self, due: Due, handle: &TurnHandle) -> (InboundUser, Work) {
        self.takes_up = false;
        self.shared.emit_state("running").await;
        let prompt = match due {
            Due::DeferredCall => {
                let command = self.shared.frames.uuid();
                self.shared.emit_lifecycle(Some(&command), "started").await;
                return (InboundUser::default(), Work::TakeUp { command });
            }
            Due::Prompt(prompt) => *prompt,
        };
        self.shared.emit_lifecycle(prompt.uuid.as_deref(), "started").await;
        if self.asks_nothing(&prompt) {
            let work = self.open_blank(&prompt).await;
            return (prompt, work);
        }
        self.shared.announce_prompt(&prompt);
        if let Some(preamble) = self.preamble.take() {
            self.history.add_user_text(&preamble);
        }
        let work = match commands::dispatch(&self.shared, &prompt) {
            Dispatch::Command(call) => Work::Command(call),
            Dispatch::Prompt { note } => self.take_prompt(&prompt, note, handle).await,
        };
        (prompt, work)
    }

    /// Whether there is nothing to ask the model.
    fn asks_nothing(&self, prompt: &InboundUser) -> bool {
        let has_words = self.first_words.is_some() || prompt.should_query == Some(false);
        !has_words && is_blank(&prompt.message.content)
    }

    /// Opens the turn of a prompt without a word. Hosts send one to get a session that they can ask for something
    /// else, to rewind files for instance. The API refuses empty messages, so nobody is asked and nothing is written
    /// down; only a call that was put off is taken up.
    async fn open_blank(&mut self, prompt: &InboundUser) -> Work {
        let init = init_frame(&self.shared, prompt.uuid.as_deref());
        self.shared.emit(Outbound::system(init)).await;
        let uuid = prompt.uuid.clone().unwrap_or_else(|| self.shared.frames.uuid());
        self.shared.replay(&InboundUser { uuid: Some(uuid), ..prompt.clone() }).await;
        match self.deferred {
            Some(_) => Work::Answer,
            None => Work::Nothing { text: String::new() },
        }
    }

    /// One prompt, one result.
    async fn turn(&mut self, due: Due) {
        // From here on it can be broken off, also while hooks look at the prompt.
        let handle = TurnHandle { cancel: self.shared.stop.child_token(), preempt: CancellationToken::new() };
        let (prompt, work) = self.open(due, &handle).await;
        // A call that was put off comes before anything the model is asked.
        let deferred = match &work {
            Work::Answer | Work::TakeUp { .. } => self.deferred.take(),
            Work::Command(_) | Work::Nothing { .. } | Work::BrokenOff => None,
        };
        let choice = self.shared.choice().clone();
        let mut history = std::mem::take(&mut self.history);
        let mut turn = Turn {
            shared: &self.shared.clone(),
            history: &mut history,
            cancel: handle.cancel.clone(),
            preempt: handle.preempt.clone(),
            stats: Stats::new(&prompt),
            model_id: choice.id.clone(),
            chosen_id: choice.id,
            fallbacks: choice.fallbacks,
        };
        let (shared, index) = (self.shared.clone(), self.results);
        // The end of a turn may ask the host too, so both are driven: the loop and what follows it. On the heap,
        // because the future of a whole turn is large and would lie on the stack several times over.
        let work = Box::pin(async {
            let (outcome, command) = outcome_of(&mut turn, work, deferred).await;
            let cleared = matches!(&outcome, Outcome::Command(end) if end.cleared);
            if shared.stop.is_cancelled() {
                // Told to end at once: what ran has been answered, and nobody waits for a result.
                return None;
            }
            let (result, finished) = finish(&mut turn, outcome, index).await;
            let mut prompts = std::mem::take(&mut turn.stats.prompts);
            prompts.extend(command);
            Some((result, finished, prompts, cleared))
        });
        if let Some((result, finished, prompts, cleared)) = self.serve(work, Some(&handle)).await {
            if cleared {
                self.deferred = None;
                self.started_ms = self.shared.host.now_ms();
            }
            self.close_turn(result, finished, &prompts).await;
        }
        let deferred = turn.stats.deferred.take();
        self.deferred = deferred.or(self.deferred.take());
        self.shared.remember_conversation(history.so_far());
        self.history = history;
    }

    /// Takes a prompt for the model in, as far as the hooks let it.
    async fn take_prompt(&mut self, prompt: &InboundUser, note: Option<String>, handle: &TurnHandle) -> Work {
        let shared = self.shared.clone();
        let before = async {
            let notes = shared.catch_up(&handle.cancel).await;
            (notes, shared.submit_to_hooks(prompt, &handle.cancel).await)
        };
        let (notes, mut submitted) = self.serve(before, Some(handle)).await;
        if handle.cancel.is_cancelled() && self.shared.listens(&HookEvent::UserPromptSubmit) {
            submitted = Submitted::BrokenOff;
        }
        if let (Submitted::Accepted { contexts, .. }, Some(note)) = (&mut submitted, note) {
            contexts.push(note);
        }
        self.open_turn(prompt, &submitted, &notes).await;
        match submitted {
            Submitted::Refused(refusal) => Work::Nothing { text: refusal.text },
            Submitted::BrokenOff => Work::BrokenOff,
            Submitted::Accepted { .. } if prompt.should_query == Some(false) => {
                Work::Nothing { text: String::new() }
            }
            Submitted::Accepted { .. } => Work::Answer,
        }
    }

    /// Shows the init frame and puts the prompt where the model and later readers find it.
    async fn open_turn(&mut self, prompt: &InboundUser, submitted: &Submitted, notes: &[String]) {
        let init = init_frame(&self.shared, prompt.uuid.as_deref());
        self.shared.emit(Outbound::system(init)).await;
        if let Some(words) = self.first_words.take() {
            self.history.add_user_text(&words);
            let frame = self.shared.frames.user(vec![ContentBlock::text(&words)]);
            self.shared.journal().user(&frame);
            self.shared.emit(frame).await;
        }
        self.history.add_notes(notes);
        match submitted {
            Submitted::Accepted { contexts, words } => {
                if *words == Words::Shown {
                    self.history.add_user(prompt_blocks(&prompt.message.content));
                }
                self.history.add_notes(contexts);
                self.history.add_notes(planning::note(&self.shared).as_slice());
                let record = self.shared.write_prompt(prompt, Starts::Turn, *words).await;
                self.history.note_prompt(record);
                self.shared.write_notes(notes);
                self.shared.write_notes(contexts);
            }
            Submitted::Refused(refusal) => {
                if refusal.kept {
                    self.history.add_user(prompt_blocks(&prompt.message.content));
                    self.shared.write_prompt(prompt, Starts::Turn, Words::Shown).await;
                }
                self.shared.emit(self.shared.frames.prompt_refused(refusal)).await;
            }
            Submitted::BrokenOff => {}
        }
        self.report_troubles().await;
    }

    async fn close_turn(
        &mut self,
        mut result: lathe_protocol::ResultMessage,
        finished: Finished,
        prompts: &[String],
    ) {
        let waiting = self.shared.queue().len();
        result.queued_turn_count = Some(waiting as u64);
        self.results += 1;
        self.end.last_was_error = finished.is_error;
        self.shared.totals().add_api_time(result.duration_api_ms);
        let spent = self.shared.totals().spent(self.started_ms, self.shared.host.now_ms());
        self.shared.journal().end_of_turn(spent);
        self.report_troubles().await;
        self.shared.emit(result).await;
        let state = if finished.cut_short { "cancelled" } else { "completed" };
        for prompt in prompts {
            self.shared.emit_lifecycle(Some(prompt), state).await;
        }
        if waiting == 0 {
            self.shared.emit_state("idle").await;
        }
    }

    /// Tells the host what went wrong behind the scenes.
    async fn report_troubles(&mut self) {
        let unknown = self.shared.totals().take_unknown_models();
        let mut troubles = self.shared.journal().take_troubles();
        troubles.extend(self.shared.checkpoints.iter().flat_map(Checkpoints::take_troubles));
        troubles.extend(unknown.into_iter().map(|model| {
            format!("no price is known for {model}: its cost is counted as the default model's")
        }));
        for trouble in troubles {
            self.shared.emit(self.shared.frames.warning(&trouble)).await;
        }
    }
}
