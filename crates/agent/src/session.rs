//! The session: reads the lines of the host, runs one turn after the other, and returns how it ended. Everything that
//! waits for the host waits here; the turn itself is `turn.rs`, lines of the host are handled in `session/lines.rs`.

mod ending;
mod first_worktree;
mod lines;
mod opening;
mod turn_kind;
mod wakers;

use std::sync::Arc;
use std::time::Duration;

use lathe_exec::ScopeEndPolicy;
use lathe_protocol::reminder::system_reminder;
use lathe_protocol::system::Informational;
use lathe_protocol::{Inbound, InboundUser, Outbound};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::background::schedule::ScheduledTurn;
use crate::control::pending_requests::PendingRequests;
use crate::hooks::services::hook_engine;
use crate::state::agent::{Agent, AgentHandle};
use crate::state::config::{SessionConfig, SetupTrigger};
use crate::state::deferral::DeferredCallState;
use crate::state::services::SessionServices;
use crate::state::wire_names::{PromptState, SessionState};
use crate::turn::Turn;
use crate::turn::finish::{FinishedTurn, finish};
use crate::turn::outcome::TurnHandle;
use crate::turn::outcome::TurnOutcome;
use crate::turn::stats::TurnStats;
use ending::{IdleStep, LeaveReason};
use turn_kind::outcome_of;

/// How long a session with a deferred call waits for the prompt of a host that has introduced itself. Hosts write both
/// at once; with the prompt the call is part of its turn, and there is one result for both.
const PROMPT_PATIENCE: Duration = Duration::from_millis(300);

/// The signals that end a session from outside.
#[derive(Debug, Clone, Default)]
pub struct SessionSignals {
    /// Interrupt the current turn, write its result, and end (Ctrl-C).
    pub finish_early: CancellationToken,
    /// End at once: kill what runs, write no result (the terminating signal, a reader that is gone).
    pub stop: CancellationToken,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionEnd {
    /// Whether the last result was an error; false when there was none.
    pub last_was_error: bool,
    /// Whether it was told to finish early, which is not an error in itself.
    pub interrupted: bool,
}

/// What a session does next.
enum Due {
    Prompt(Box<InboundUser>),
    /// What the clock starts.
    Scheduled(Box<ScheduledTurn>),
    /// The call that the session was resumed with.
    DeferredCall,
}

impl Due {
    /// Returns the id under which the host was told of the wake-up that starts this turn; `None` if the turn starts for
    /// another reason.
    fn wake_up_id(&self) -> Option<String> {
        match self {
            Self::Scheduled(turn) => turn.wake_up.as_ref().map(|wake_up| wake_up.uuid.clone()),
            Self::Prompt(_) | Self::DeferredCall => None,
        }
    }
}

/// What follows while no turn runs.
enum NextDue {
    /// A turn for this.
    Turn(Due),
    /// The end of the session.
    Leave(LeaveReason),
}

/// The loop of a running session. The main agent is not part of it but lent to each step, so that the host's lines can
/// be read while the agent works.
struct SessionLoop {
    session: Arc<SessionServices>,
    /// The main agent as host requests see it.
    main: Arc<AgentHandle>,
    inbox: mpsc::Receiver<Inbound>,
    /// Requests of the host that take their time.
    pending: PendingRequests,
    /// Whether the inbox is still open.
    inbox_open: bool,
    /// Fires when the current turn is to be the last.
    finish_early: CancellationToken,
    /// Goes in front of the first prompt, as a note.
    preamble: Option<String>,
    /// The same, as the user's words.
    first_words: Option<String>,
    /// What the host is told once, after the first init frame.
    notices: Vec<Informational>,
    results: u64,
    started_ms: u64,
    /// When the last turn ended; the wait for tasks counts from then.
    last_turn_ended: Option<Instant>,
    /// Whether the host is to be told that the session is idle once no task can wake it any more.
    owes_idle: bool,
    end: SessionEnd,
}

/// Runs a session until the host has closed `inbox` and nothing in it can start a turn any more, or until a signal, the
/// host or a limit ends it. Frames for the host go to `out`. A session that cannot enter its worktree ends before it
/// begins, and one with [`SetupTrigger::InitOnly`] before its first prompt.
pub async fn run(
    mut config: SessionConfig,
    inbox: mpsc::Receiver<Inbound>,
    out: mpsc::Sender<Outbound>,
    signals: SessionSignals,
) -> SessionEnd {
    let beginning = std::mem::take(&mut config.beginning);
    let source = beginning.source();
    let (setup, worktree) = (config.setup, config.worktree.take());
    let notices = std::mem::take(&mut config.notices);
    let (session, main) = SessionServices::start(config, out, signals.stop, hook_engine);
    let mut agent = Agent::main(session, main);
    if let Some(mut resumed) = beginning.resumed() {
        agent.deferral = DeferredCallState::from_earlier_run(resumed.deferred.take());
        agent.resume(*resumed);
    }
    agent.handle.publish_size(agent.history.size());
    let (main, session) = (agent.handle.clone(), agent.handle.session.clone());
    let mut looping = SessionLoop {
        started_ms: session.process.host.now_ms(),
        pending: PendingRequests::new(main.clone()),
        preamble: agent.instructions.preamble(),
        session,
        main,
        inbox,
        inbox_open: true,
        finish_early: signals.finish_early,
        first_words: None,
        notices,
        results: 0,
        last_turn_ended: None,
        owes_idle: false,
        end: SessionEnd { last_was_error: false, interrupted: false },
    };
    // Each of these is on the heap while it runs: in the future of the session they would take their room for as long as
    // it is open, which most of all it is while nothing happens.
    if let Some(target) = worktree
        && let Err(refusal) = Box::pin(looping.begin_in_worktree(target)).await
    {
        return Box::pin(looping.end_unbegun(&refusal)).await;
    }
    Box::pin(looping.begin(&mut agent, source, setup)).await;
    let reason = loop {
        if setup == Some(SetupTrigger::InitOnly) {
            break LeaveReason::NothingLeft;
        }
        match looping.next_due(&agent.deferral).await {
            NextDue::Turn(due) => Box::pin(looping.turn(&mut agent, due)).await,
            NextDue::Leave(reason) => break reason,
        }
    };
    Box::pin(looping.end(reason)).await
}

impl SessionLoop {
    /// Ends the session after its last turn: pending replies, tasks, hooks, commands, then files. The order matters,
    /// because hooks may run commands, and all of them may write records. Returns how the session ended.
    async fn end(mut self, reason: LeaveReason) -> SessionEnd {
        // In this order, because hooks may run commands, and all of these may write records.
        self.answer_the_rest().await;
        self.leave_wakers(reason).await;
        self.end_hooks().await;
        self.main.tell_worktree_left();
        self.main.workspace.ledger.end(ScopeEndPolicy::Stop).await;
        self.main.workspace.shell_startup.remove_snapshot();
        self.flush_files().await;
        self.session.mirror_records().await;
        if let Some(checkpoints) = self.session.checkpoints.clone() {
            // What could not be removed is left to the clean-up of old sessions.
            let _ = lathe_exec::spawn_blocking(move || checkpoints.close()).await;
        }
        self.end.interrupted = self.finish_early.is_cancelled();
        self.end
    }

    /// Waits for what comes next: a prompt, a scheduled turn, the notices of tasks, a deferred call, or a reason to
    /// leave. A queued prompt comes before everything that needs none, and no turn begins while a request is changing
    /// the session. With the input closed, the session still waits for what can start a turn, up to the ceiling;
    /// `ending.rs` decides.
    async fn next_due(&mut self, deferral: &DeferredCallState) -> NextDue {
        let mut patience = None;
        loop {
            if let Some(reason) = self.told_to_leave() {
                return NextDue::Leave(reason);
            }
            // A change of the session takes effect before the prompt that came after it.
            let changing = self.pending.is_changing();
            let next = if changing { None } else { self.session.queue().take_next() };
            // A prompt of the host comes first; what could have started a turn then goes with its request.
            if let Some(prompt) = next {
                return NextDue::Turn(Due::Prompt(Box::new(prompt)));
            }
            // A host that has introduced itself has brought its hooks; one that is gone will bring none.
            let heard = self.session.introduction().is_done || !self.inbox_open;
            let resumes_call = !changing && heard && deferral.resumes_without_prompt();
            if resumes_call && !self.inbox_open {
                return NextDue::Turn(Due::DeferredCall);
            }
            let now = Instant::now();
            // Set once, so that other lines of the host do not extend the wait.
            let prompt_due = if resumes_call { *patience.get_or_insert(now + PROMPT_PATIENCE) } else { now };
            let until = match self.follow_wakers(now).await {
                IdleStep::Leave(reason) if !changing => return NextDue::Leave(reason),
                IdleStep::Await { until } => until,
                IdleStep::Leave(_) | IdleStep::Idle => None,
            };
            if !changing && let Some(prompt) = self.session.wake_up_prompt() {
                return NextDue::Turn(Due::Prompt(Box::new(prompt)));
            }
            let clock_counts = !changing && self.clock_counts();
            if clock_counts && let Some(turn) = self.session.take_scheduled_turn().await {
                return NextDue::Turn(Due::Scheduled(Box::new(turn)));
            }
            tokio::select! {
                // Lines come before wake-ups: a prompt of the user before one that a hook makes.
                biased;
                () = self.session.stop.cancelled() => {}
                () = self.finish_early.cancelled() => {}
                line = self.inbox.recv(), if self.inbox_open => self.take_in(line, None).await,
                () = self.pending.changed(), if changing => {}
                () = self.session.tasks.changed.notified() => {}
                () = tokio::time::sleep_until(until.unwrap_or(now)), if until.is_some() => {}
                () = self.session.until_scheduled(), if clock_counts => {}
                () = tokio::time::sleep_until(prompt_due), if resumes_call => return NextDue::Turn(Due::DeferredCall),
                prompt = self.session.until_woken(), if self.inbox_open && !changing => {
                    return NextDue::Turn(Due::Prompt(Box::new(prompt)));
                }
            }
        }
    }

    /// Handles one line of the host, or the end of its input (`None`). `turn` is the running turn, which the line
    /// may interrupt.
    async fn take_in(&mut self, line: Option<Inbound>, turn: Option<&TurnHandle>) {
        match line {
            Some(line) => lines::take(&self.main, &mut self.pending, line, turn).await,
            None => self.close_inbox(),
        }
    }

    /// Runs `work` to its end while the host's lines are read, because `work` may wait for one of them, and returns
    /// what it returns. `turn` is the running turn, which lines may interrupt. If the session is told to finish early,
    /// `cancel` is cancelled; without a `cancel` the work goes on undisturbed. The signal to stop ends nothing here, so
    /// `work` must watch for it.
    async fn while_listening<T>(
        &mut self,
        work: impl Future<Output = T>,
        turn: Option<&TurnHandle>,
        cancel: Option<&CancellationToken>,
    ) -> T {
        tokio::pin!(work);
        loop {
            // Not polled again once it has fired: it stays ready, and the loop would spin.
            let running = cancel.filter(|cancel| !cancel.is_cancelled());
            tokio::select! {
                done = &mut work => return done,
                () = self.finish_early.cancelled(), if running.is_some() => {
                    running.into_iter().for_each(CancellationToken::cancel);
                }
                line = self.inbox.recv(), if self.inbox_open => self.take_in(line, turn).await,
            }
        }
    }

    /// Waits until the requests that are pending now have their replies, or the session is told to stop. The host's
    /// lines are read meanwhile, because a reply may depend on one; requests that arrive meanwhile are not waited for.
    async fn answer_the_rest(&mut self) {
        // Taken out, because reading lines needs `self`. Requests that arrive from now on are not waited for.
        let mut pending = std::mem::replace(&mut self.pending, PendingRequests::new(self.main.clone()));
        let stop = self.session.stop.clone();
        self.while_listening(
            async {
                tokio::select! {
                    () = pending.answer_all() => {}
                    () = stop.cancelled() => {}
                }
            },
            None,
            None,
        )
        .await;
    }

    /// Notes that the host has closed its input and fails all open questions to it, because it cannot reply any more.
    fn close_inbox(&mut self) {
        self.inbox_open = false;
        self.session.questions.close();
    }

    /// Runs the hooks at the beginning of the session. Their notes are added to the preamble of the first prompt, and
    /// their words for the user are kept in `first_words`.
    async fn begin(&mut self, agent: &mut Agent, source: &str, setup: Option<SetupTrigger>) {
        let cancel = self.session.stop.child_token();
        let beginning = self.while_listening(agent.begin(source, setup, &cancel), None, Some(&cancel)).await;
        if !beginning.notes.is_empty() {
            let notes = system_reminder(&beginning.notes.join("\n"));
            self.preamble = Some(match self.preamble.take() {
                Some(preamble) => format!("{preamble}\n{notes}"),
                None => notes,
            });
        }
        self.first_words = beginning.first_words;
    }

    /// Runs the SessionEnd hooks, then ends the hooks that still run in the background.
    async fn end_hooks(&mut self) {
        let main = self.main.clone();
        self.while_listening(main.end_conversation("other"), None, None).await;
        self.session.late.shut_down().await;
        self.session.hooks.shut_down().await;
    }

    /// Makes the last attempt to write the records that the session file still holds back, and tells the host what is
    /// lost if it fails. Must come after everything that writes records: nothing tries again after this.
    async fn flush_files(&mut self) {
        let lost = self.session.files.close();
        if let Some(lost) = lost {
            self.session.trouble("session_not_saved", &lost).await;
        }
    }

    /// Runs one turn: opens it for `due`, runs it while the host's lines are read, sends exactly one result, and
    /// publishes the conversation for side questions. A session that was told to stop sends no result.
    async fn turn(&mut self, agent: &mut Agent, due: Due) {
        // From here on the turn can be interrupted, also while hooks look at the prompt.
        let handle =
            TurnHandle { cancel: self.session.stop.child_token(), preempt: CancellationToken::new() };
        let wake_up = due.wake_up_id();
        let (prompt, kind) = self.open_turn(agent, due, &handle).await;
        let mut turn = Turn::new(agent, &handle, TurnStats::new(&prompt));
        let (stop, index) = (self.session.stop.clone(), self.results);
        // The end of a turn may ask the host too, so both are polled: the loop and what follows it. On the heap,
        // because the future of a whole turn is large and would be on the stack several times over.
        let work = Box::pin(async {
            let (outcome, command) = outcome_of(&mut turn, kind).await;
            let cleared = matches!(&outcome, TurnOutcome::Command(end) if end.cleared);
            if stop.is_cancelled() {
                // Told to end at once: the calls have their results, and the result of the turn has no reader.
                return None;
            }
            let (result, finished) = finish(&mut turn, outcome, index).await;
            let mut prompts = std::mem::take(&mut turn.stats.prompts);
            prompts.extend(command.into_iter().chain(wake_up));
            Some((result, finished, prompts, cleared))
        });
        let ended = self.while_listening(work, Some(&handle), Some(&handle.cancel)).await;
        if let Some((result, finished, prompts, cleared)) = ended {
            if cleared {
                self.started_ms = self.session.process.host.now_ms();
            }
            self.close_turn(agent, result, finished, &prompts).await;
        }
        // For side questions, which may come between two turns.
        agent.handle.publish_conversation(agent.history.so_far());
    }

    /// Sends the result of a turn and the final state of its prompts. Everything recorded in the turn is written
    /// before, so that a host that has the result finds the records. The host is also told that the session is idle,
    /// unless a prompt waits; if hosts must not see that while tasks can wake the session, it is kept for later in
    /// `owes_idle`.
    async fn close_turn(
        &mut self,
        agent: &mut Agent,
        mut result: lathe_protocol::ResultMessage,
        finished: FinishedTurn,
        prompts: &[String],
    ) {
        let waiting = self.session.queue().len();
        result.queued_turn_count = Some(waiting as u64);
        result.background_tasks = Some(self.session.tasks.list().told());
        self.results += 1;
        self.end.last_was_error = finished.is_error;
        self.session.totals().add_api_time(result.duration_api_ms);
        let spent = self.session.totals().spent(self.started_ms, self.session.process.host.now_ms());
        // Recorded before the result is sent, because a host may end the session as soon as it has the result.
        agent.journal.end_of_turn(spent);
        self.report_troubles().await;
        self.session.emit(result).await;
        let state = if finished.cut_short { PromptState::Cancelled } else { PromptState::Completed };
        for prompt in prompts {
            self.session.emit_lifecycle(Some(prompt), state).await;
        }
        self.last_turn_ended = Some(Instant::now());
        // With a prompt in the queue the session is not idle, not even for a moment.
        if waiting == 0 {
            self.owes_idle = !self.session.shows_idle_despite_wakers();
            if !self.owes_idle {
                self.session.emit_state(SessionState::Idle).await;
            }
        }
    }

    /// Sends the host the notices of the start and the problems with files and prices that no other frame has reported,
    /// each of them once.
    pub(super) async fn report_troubles(&mut self) {
        for notice in std::mem::take(&mut self.notices) {
            self.session.show(notice).await;
        }
        let unknown = self.session.totals().take_unknown_models();
        let mut troubles = self.session.files.take_troubles();
        troubles.extend(unknown.into_iter().map(|model| {
            format!("no price is known for {model}: its cost is counted as the default model's")
        }));
        for trouble in troubles {
            self.session.emit(self.main.frames.warning(&trouble)).await;
        }
    }
}
