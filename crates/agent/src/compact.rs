//! Makes room in a conversation: what was said so far is summarised by the model, and the summary, the
//! newest part word for word, and the files at hand stand in its place. By itself when the window fills up,
//! when the API says that a request is too long, or when the user asks for it.
//!
//! Two laws. Nothing changes unless a whole summary is there and is smaller than what it replaces: a
//! failed, refused, cut or interrupted one leaves the conversation as it was. And nothing is tried again for
//! ever: see [`policy`].

mod ask;
pub mod policy;
mod restore;
mod summary;

use std::sync::Arc;
use std::time::Instant;

use lathe_models::{ErrorKind, catalog};
use lathe_protocol::hooks::{HookEventInput, PostCompactInput, PreCompactInput};
use lathe_protocol::message::UserTurn;
use lathe_protocol::system::{CompactBoundary, CompactMetadata, PreservedMessages, PreservedSegment};
use lathe_protocol::{Outbound, UserMessage};
use lathe_settings::memory::{LoadReason, Memory as MemoryFiles};
use serde_json::{Value, json};

use crate::estimate::{BYTES_PER_TOKEN, block_tokens, text_tokens};
use crate::history::{Tail, TailBounds};
use crate::instructions::preamble_of;
use crate::journal::Boundary;
use crate::shared::Shared;
use crate::turn::{Outcome, Phase, Turn};
use policy::{CompactPolicy, Context, Limits, Memory, Step};
use restore::Restored;
use summary::Wording;

/// A summary that the user asked for may be so long, however short the conversation is.
const SHORT_SUMMARY_TOKENS: u64 = 250;
/// The newest part that stays word for word.
const TAIL_TOKENS: u64 = 8_000;

/// What files may take that are given back.
const RESTORED_TOKENS: u64 = 20_000;

/// Characters that are left of a prompt that no window holds.
const LEFT_CHARS: usize = 8_000;

/// Compaction as the session knows it.
#[derive(Default)]
pub struct Compaction {
    /// What counts.
    pub policy: CompactPolicy,
    /// What settings said last; a command may have said something else since.
    written: CompactPolicy,
    memory: Memory,
    /// The list of things to do, which may be older than the last summary.
    todos: Option<Value>,
}

impl Compaction {
    pub fn new(policy: CompactPolicy) -> Self {
        Self { policy, written: policy, ..Self::default() }
    }

    /// Forgets what happened; what the user set stays.
    pub fn begin_anew(&mut self) {
        *self = Self { policy: self.policy, written: self.written, ..Self::default() };
    }

    /// Settings were read again. Where they say what they said before, what a command has set stays.
    pub fn follow(&mut self, written: CompactPolicy) {
        if self.written != written {
            (self.policy, self.written) = (written, written);
        }
    }
}

/// Why a conversation is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The user said so.
    Asked,
    /// The window fills up.
    NearlyFull,
    /// The API did not take the request.
    Refused,
}

/// What hooks and frames call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    Manual,
    Auto,
}

impl Trigger {
    fn wire_name(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Auto => "auto",
        }
    }
}

impl Cause {
    fn trigger(self) -> Trigger {
        match self {
            Self::Asked => Trigger::Manual,
            Self::NearlyFull | Self::Refused => Trigger::Auto,
        }
    }
}

/// What became of it.
pub(crate) enum Compacted {
    /// The frames that tell of it, still to be shown.
    Done(Box<Told>),
    /// There was nothing to summarise.
    Nothing,
    /// The conversation is as it was.
    Failed(String),
    Interrupted,
}

/// The frames about a compaction.
pub(crate) struct Told {
    pub boundary: CompactBoundary,
    pub summary: UserMessage,
}

/// Why there is no summary.
enum Trouble {
    Interrupted,
    /// A hook did not want it.
    Blocked(String),
    Failed(String),
}

/// Why a turn cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutOfRoom {
    /// The conversation does not fit, and nothing makes room.
    Full,
    /// It fills up as fast as it is compacted.
    Refilled,
}

impl Turn<'_> {
    /// Before a request: makes room if it will not fit. None: it can be sent.
    pub(crate) async fn make_room(&mut self) -> Option<Outcome> {
        let (limits, context) = (self.limits(), self.context());
        let step = {
            let mut compaction = self.shared.compaction();
            let policy = compaction.policy;
            compaction.memory.before_request(&policy, &limits, context)
        };
        match step {
            Step::Send => None,
            Step::StopFull => Some(Outcome::OutOfRoom(OutOfRoom::Full)),
            Step::StopRefilled => Some(Outcome::OutOfRoom(OutOfRoom::Refilled)),
            Step::Compact => match self.compact_and_tell(Cause::NearlyFull).await {
                Compacted::Done(_) | Compacted::Nothing | Compacted::Failed(_) => self.spent_too_much(),
                Compacted::Interrupted => Some(Outcome::Interrupted(Phase::Streaming)),
            },
        }
    }

    /// After a failed request: if it was too long, compacts and lets the turn go on, once. None: go on.
    pub(crate) async fn recover(&mut self, outcome: Outcome) -> Option<Outcome> {
        let too_long = matches!(&outcome, Outcome::Failed(error) if error.kind == ErrorKind::PromptTooLong);
        if !too_long {
            return Some(outcome);
        }
        if !self.stats.made_room && self.may_recover() {
            self.stats.made_room = true;
            match self.compact_and_tell(Cause::Refused).await {
                Compacted::Done(_) => return self.spent_too_much(),
                Compacted::Nothing | Compacted::Failed(_) => {}
                Compacted::Interrupted => return Some(Outcome::Interrupted(Phase::Streaming)),
            }
        }
        // A text that takes so much of the window by itself would be in the way of everything that follows.
        self.history.shorten_unanswered(self.limits().window / 4, LEFT_CHARS);
        Some(outcome)
    }

    /// A prompt begins: how quickly the window filled up before it says nothing about a loop.
    pub(crate) fn forget_refills(&self) {
        self.shared.compaction().memory.begin_turn();
    }

    fn may_recover(&self) -> bool {
        let mut compaction = self.shared.compaction();
        let policy = compaction.policy;
        compaction.memory.after_refusal(&policy)
    }

    fn spent_too_much(&self) -> Option<Outcome> {
        self.shared.over_budget().then_some(Outcome::Ended(crate::decide::Ending::Budget))
    }

    /// Compacts in the middle of a turn: the frames follow at once, and the turn goes on.
    async fn compact_and_tell(&mut self, cause: Cause) -> Compacted {
        let compacted = self.compact(cause, None).await;
        match &compacted {
            Compacted::Done(told) => {
                self.shared.emit(Outbound::system(told.boundary.clone())).await;
                self.stats.user_frames += 1;
                self.shared.emit(told.summary.clone()).await;
            }
            Compacted::Interrupted => self.mark_interrupted(Phase::Streaming).await,
            Compacted::Nothing | Compacted::Failed(_) => {}
        }
        compacted
    }

    /// Compacts the conversation. The frames about the result are left to the caller, because they stand
    /// elsewhere when the user has asked for it.
    pub(crate) async fn compact(&mut self, cause: Cause, instructions: Option<&str>) -> Compacted {
        if !self.history.has_answers() {
            return Compacted::Nothing;
        }
        let trigger = cause.trigger();
        self.shared.emit(self.shared.frames.compacting(trigger)).await;
        let trouble = match self.replace_history(cause, instructions).await {
            Ok(told) => {
                self.shared.announce_instructions(&self.cancel).await;
                self.shared.emit(self.shared.frames.compacted(None)).await;
                return Compacted::Done(Box::new(told));
            }
            Err(trouble) => trouble,
        };
        let (text, outcome) = match trouble {
            Trouble::Interrupted => ("the summary was interrupted".to_owned(), Compacted::Interrupted),
            Trouble::Blocked(reason) => {
                let text = format!("blocked by a PreCompact hook: {reason}");
                (text.clone(), Compacted::Failed(text))
            }
            Trouble::Failed(text) => {
                self.note_failure(cause, &text).await;
                (text.clone(), Compacted::Failed(text))
            }
        };
        self.shared.emit(self.shared.frames.compacted(Some(&text))).await;
        outcome
    }

    /// An attempt that cost something and brought nothing: after two in a row no more are made by themselves.
    async fn note_failure(&mut self, cause: Cause, why: &str) {
        if cause != Cause::Asked && self.shared.compaction().memory.failed() {
            let text = format!(
                "compaction failed twice in a row ({why}); the conversation is not compacted by itself any \
                 more until /compact succeeds or /clear begins a new one"
            );
            self.shared.emit(self.shared.frames.note("auto_compact_paused", &text)).await;
        }
    }

    async fn replace_history(&mut self, cause: Cause, instructions: Option<&str>) -> Result<Told, Trouble> {
        let began = Instant::now();
        self.ask_hooks_before(cause, instructions).await?;
        let (limits, context) = (self.limits(), self.context());
        // Memory files stand in front of every conversation and are no part of what was said.
        let memory = self.shared.preamble().map_or(0, |text| text_tokens(text.len()));
        let said = self.history.size().messages.saturating_sub(memory);
        let tail = self.history.tail(TailBounds {
            tokens: TAIL_TOKENS.min(said / 4).min(limits.threshold / 10),
            prompt: limits.threshold / 2,
        });
        let mut messages = self.history.messages();
        if let Some(todos) = restore::last_todos(&messages) {
            self.shared.compaction().todos = Some(todos);
        }
        messages.truncate(tail.start);
        let instructions: Vec<String> = instructions.map(str::to_owned).into_iter().collect();
        let raw = self.ask_for_summary(messages, &summary::request(&instructions)).await?;
        let empty = || Trouble::Failed("summarization produced empty response".to_owned());
        let text = summary::extract(&raw).ok_or_else(empty)?;
        let before = match cause {
            Cause::Asked | Cause::NearlyFull => context.tokens,
            Cause::Refused => context.tokens.max(limits.window),
        };
        let head = self.head(&text, cause, &tail, before)?;
        let notes = self.run_hooks_after(cause.trigger(), raw).await;
        Ok(self.commit(Replacement { cause, head, tail, notes, before, began }))
    }

    /// Lets the hooks say no.
    async fn ask_hooks_before(&mut self, cause: Cause, instructions: Option<&str>) -> Result<(), Trouble> {
        let input = PreCompactInput {
            trigger: cause.trigger().wire_name().to_owned(),
            custom_instructions: instructions.map(str::to_owned),
            ..PreCompactInput::default()
        };
        let outcome = self.shared.fire(HookEventInput::PreCompact(input), None, &self.cancel).await;
        if let Some(block) = outcome.block() {
            return Err(Trouble::Blocked(block.reason.clone()));
        }
        if let Some(stop) = outcome.stop {
            return Err(Trouble::Blocked(stop.reason.unwrap_or_else(|| "no reason was given".to_owned())));
        }
        if self.cancel.is_cancelled() { Err(Trouble::Interrupted) } else { Ok(()) }
    }

    /// The hooks that follow a summary; what they want the model to know.
    async fn run_hooks_after(&mut self, trigger: Trigger, raw: String) -> Vec<String> {
        let opening = self.shared.start_conversation("compact", &self.cancel).await;
        let post = PostCompactInput {
            trigger: trigger.wire_name().to_owned(),
            compact_summary: raw,
            ..PostCompactInput::default()
        };
        self.shared.fire(HookEventInput::PostCompact(post), None, &self.cancel).await;
        opening.notes
    }

    /// The text that stands for what was said, with the request under way word for word.
    fn replacement(&self, summary: &str, wording: Wording, trigger: Trigger, tail: &Tail) -> String {
        let path = self.shared.journal().path().map(|path| path.display().to_string());
        let mut text = summary::replacement(summary, wording, path.as_deref());
        if trigger == Trigger::Auto && !tail.ends_with_prompt {
            let most = (self.limits().threshold / 10 * BYTES_PER_TOKEN) as usize;
            for asked in &self.stats.asked {
                text.push_str("\n\nWhat the user asked for, word for word:\n");
                text.extend(asked.chars().take(most));
                if asked.chars().nth(most).is_some() {
                    text.push_str("\n[the rest is left out here]");
                }
            }
        }
        text
    }

    /// What the conversation begins with from now on, provided that it becomes smaller. What is given back,
    /// and in the end the words around the summary, are left out if they would spoil that. The exception: a few
    /// words that the user asked for are taken, although a conversation may be shorter still.
    fn head(&self, summary: &str, cause: Cause, tail: &Tail, before: u64) -> Result<Head, Trouble> {
        let trigger = cause.trigger();
        let todos = self.shared.compaction().todos.clone();
        let restored =
            Restored::collect(self.shared, todos.as_ref(), RESTORED_TOKENS.min(self.limits().threshold / 10));
        let memory = self.shared.instructions.read_again(LoadReason::Compact);
        let preamble = memory.as_ref().and_then(preamble_of);
        let next = match trigger {
            Trigger::Auto if !tail.ends_with_prompt => Wording::WorkGoesOn,
            Trigger::Auto | Trigger::Manual => Wording::UserSpeaks,
        };
        let (overhead, old) = (self.shared.overhead_tokens(), self.history.size().messages);
        for (wording, restored) in
            [(next, restored), (next, Restored::default()), (Wording::Bare, Restored::default())]
        {
            let text = self.replacement(summary, wording, trigger, tail);
            let texts = [preamble.clone(), Some(text.clone()), restored.text.clone()];
            let blocks: Vec<Value> =
                texts.into_iter().flatten().map(|text| json!({"type": "text", "text": text})).collect();
            let new = blocks.iter().map(block_tokens).sum::<u64>() + self.history.tokens_from(tail);
            let shrinks = match cause {
                // Nothing was full: like is compared with like.
                Cause::Asked => {
                    new < old
                        || wording == Wording::Bare && text_tokens(summary.len()) <= SHORT_SUMMARY_TOKENS
                }
                Cause::NearlyFull | Cause::Refused => overhead + new < before,
            };
            if shrinks {
                let after = (overhead + new).min((before + new).saturating_sub(old));
                return Ok(Head { text, blocks, restored, memory, after });
            }
        }
        let size = if cause == Cause::Asked { old } else { before };
        Err(Trouble::Failed(format!(
            "its summary would be no smaller than the conversation itself ({size} tokens)"
        )))
    }

    /// Puts it all in place: the conversation, the file, what is known of files.
    fn commit(&mut self, new: Replacement) -> Told {
        let shared = self.shared.clone();
        let size = self.history.size();
        let mut blocks = new.head.blocks;
        let mut notes: Vec<String> = new.head.restored.text.iter().cloned().collect();
        if !new.notes.is_empty() {
            let note = format!("<system-reminder>\n{}\n</system-reminder>", new.notes.join("\n"));
            blocks.push(json!({"type": "text", "text": note}));
            notes.push(note);
        }
        let dropped = {
            let mut compaction = shared.compaction();
            compaction.memory.succeeded(new.before.saturating_sub(new.head.after));
            compaction.memory.dropped_tokens
        };
        let told = Told {
            summary: shared.frames.summary(&new.head.text, new.cause.trigger()),
            boundary: CompactBoundary {
                compact_metadata: CompactMetadata {
                    trigger: new.cause.trigger().wire_name().to_owned(),
                    pre_tokens: size.measured.unwrap_or(new.before),
                    post_tokens: Some(new.head.after),
                    duration_ms: Some(new.began.elapsed().as_millis() as u64),
                    cumulative_dropped_tokens: Some(dropped),
                    ..CompactMetadata::default()
                },
                uuid: shared.frames.uuid(),
                session_id: shared.frames.session_id(),
                ..CompactBoundary::default()
            },
        };
        let told = write_down(&shared, told, &new.tail, &notes);
        self.history.compact(blocks, &new.tail);
        new.head.restored.note_seen(&shared);
        shared.totals().forget_last();
        shared.instructions.put(new.head.memory);
        shared.note_context(self.history.size());
        told
    }

    fn limits(&self) -> Limits {
        let window = catalog::context_window(&self.model_id, &self.shared.choice().betas);
        self.shared.compaction().policy.limits(window)
    }

    fn context(&self) -> Context {
        Context::of(self.history.size(), self.shared.overhead_tokens())
    }
}

/// Writes boundary, summary and notes into the session's file, and completes the frame with what only the
/// file knows.
fn write_down(shared: &Arc<Shared>, mut told: Told, tail: &Tail, notes: &[String]) -> Told {
    let now = shared.frames.now();
    let mut journal = shared.journal();
    let kept = tail.record.as_deref().map(|head| journal.records_from(head)).unwrap_or_default();
    if let (Some(head), Some(last)) = (kept.first(), kept.last()) {
        let anchor_uuid = told.summary.uuid.clone();
        told.boundary.compact_metadata.preserved_segment = Some(PreservedSegment {
            head_uuid: head.clone(),
            anchor_uuid: anchor_uuid.clone(),
            tail_uuid: last.clone(),
            ..PreservedSegment::default()
        });
        told.boundary.compact_metadata.preserved_messages =
            Some(PreservedMessages { anchor_uuid, uuids: kept.clone(), ..PreservedMessages::default() });
    }
    told.boundary.logical_parent_uuid = Some(journal.last_record());
    let metadata = &told.boundary.compact_metadata;
    journal.compacted(Boundary {
        uuid: &told.boundary.uuid,
        now: &now,
        metadata: lathe_transcript::record::CompactMetadata {
            trigger: metadata.trigger.clone(),
            pre_tokens: metadata.pre_tokens,
            post_tokens: metadata.post_tokens,
            duration_ms: metadata.duration_ms,
            cumulative_dropped_tokens: metadata.cumulative_dropped_tokens,
            ..lathe_transcript::record::CompactMetadata::default()
        },
        kept,
        summary: &told.summary,
    });
    for note in notes {
        journal.note(&shared.frames.uuid(), &now, note);
    }
    told
}

/// The beginning of a compacted conversation.
struct Head {
    /// The summary and the words around it.
    text: String,
    blocks: Vec<Value>,
    restored: Restored,
    /// The memory files as they are now.
    memory: Option<MemoryFiles>,
    /// Estimate of the next request.
    after: u64,
}

/// A summary that was accepted, and all that goes with it.
struct Replacement {
    cause: Cause,
    head: Head,
    tail: Tail,
    /// What hooks want the model to know.
    notes: Vec<String>,
    before: u64,
    began: Instant,
}

impl Shared {
    /// Estimate of what every request holds besides the messages.
    pub(crate) fn overhead_tokens(&self) -> u64 {
        let system: usize = self.system_prompt().parts().iter().map(|part| part.text.len()).sum();
        text_tokens(system) + text_tokens(self.tools().api_json().len())
    }
}

impl crate::frames::Frames {
    /// A compaction begins.
    fn compacting(&self, trigger: Trigger) -> Outbound {
        Outbound::system(lathe_protocol::system::Status {
            status: Some("compacting".to_owned()),
            compact_output_chars: match trigger {
                Trigger::Manual => None,
                Trigger::Auto => Some(0),
            },
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..lathe_protocol::system::Status::default()
        })
    }

    /// A compaction is over.
    fn compacted(&self, error: Option<&str>) -> Outbound {
        Outbound::system(lathe_protocol::system::Status {
            status: None,
            compact_result: Some(if error.is_some() { "failed" } else { "success" }.to_owned()),
            compact_error: error.map(str::to_owned),
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..lathe_protocol::system::Status::default()
        })
    }

    /// The summary as a message of the user's side.
    fn summary(&self, text: &str, trigger: Trigger) -> UserMessage {
        match trigger {
            Trigger::Auto => self.synthetic_user(text),
            Trigger::Manual => UserMessage {
                message: UserTurn::new(text.to_owned()),
                is_synthetic: Some(true),
                is_replay: Some(false),
                ..self.user(Vec::new())
            },
        }
    }
}
