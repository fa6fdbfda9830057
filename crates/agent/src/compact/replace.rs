//! Puts a summary in the place of what it stands for: how the conversation begins from now on, whether that is smaller,
//! and what is recorded and reported about it. Nothing here waits for the model, hooks or the host.

use std::time::Instant;

use lathe_protocol::ContentBlock;
use lathe_protocol::reminder::system_reminder;
use lathe_protocol::system::{CompactBoundary, CompactMetadata, PreservedMessages, PreservedSegment};
use lathe_protocol::text::first_chars;
use lathe_settings::memory::{LoadReason, Memory as MemoryFiles};

use super::restore::RestoredContext;
use super::summary::{self, SummaryWording};
use super::{CompactCause, CompactTrigger, CompactionFrames, Trouble};
use crate::record::estimate::{BYTES_PER_TOKEN, block_tokens, text_tokens};
use crate::record::history::ConversationTail;
use crate::record::journal::CompactBoundaryRecord;
use crate::state::agent::Agent;
use crate::state::instructions::preamble_of;
use crate::turn::Turn;

/// The size up to which a summary that the user asked for is accepted, however short the conversation is.
const SHORT_SUMMARY_TOKENS: u64 = 250;

/// Tokens that restored files may take together.
const RESTORED_TOKENS: u64 = 20_000;

impl Turn<'_> {
    /// Returns the text that takes the place of the older part of the conversation: the summary, and after it the
    /// prompts of the running turn if the kept tail does not end with them. Each prompt is cut to a tenth of the
    /// threshold. After a `/compact` no prompts follow, because the turn has none that the model works on.
    fn replacement_text(
        &self,
        summary: &str,
        wording: SummaryWording,
        trigger: CompactTrigger,
        tail: &ConversationTail,
    ) -> String {
        let path = self.session.files.path().map(|path| path.display().to_string());
        let mut text = summary::replacement(summary, wording, path.as_deref());
        // The model goes on working on these prompts, and the tail does not hold them.
        if trigger == CompactTrigger::Auto && !tail.ends_with_prompt {
            let most = (self.limits().threshold / 10 * BYTES_PER_TOKEN) as usize;
            for asked in &self.stats.asked {
                text.push_str("\n\nWhat the user asked for, word for word:\n");
                let head = first_chars(asked, most);
                text.push_str(head);
                if head.len() < asked.len() {
                    text.push_str("\n[the rest is left out here]");
                }
            }
        }
        text
    }

    /// Builds what the conversation will begin with, and checks that it makes the conversation smaller: after a
    /// `/compact` than its messages, otherwise than the request of `before` tokens. If it does not, the restored files
    /// are left out, then the words around the summary; if even that does not help, this is an error and nothing may be
    /// replaced. A short summary that the user asked for is accepted in any case.
    pub(super) fn head(
        &self,
        summary: &str,
        cause: CompactCause,
        tail: &ConversationTail,
        before: u64,
    ) -> Result<CompactedHead, Trouble> {
        let trigger = cause.trigger();
        let room = RESTORED_TOKENS.min(self.limits().threshold / 10);
        let restored = RestoredContext::collect(&self.agent.handle, room);
        let memory =
            self.agent.instructions.read_again(LoadReason::Compact, self.agent.handle.session.read_check());
        let preamble = memory.as_ref().and_then(preamble_of);
        let next = match trigger {
            CompactTrigger::Auto if !tail.ends_with_prompt => SummaryWording::WorkGoesOn,
            CompactTrigger::Auto | CompactTrigger::Manual => SummaryWording::UserSpeaks,
        };
        let (overhead, old) = (self.agent.handle.overhead_tokens(), self.agent.history.size().messages);
        for (wording, restored) in [
            (next, restored),
            (next, RestoredContext::default()),
            (SummaryWording::Bare, RestoredContext::default()),
        ] {
            let text = self.replacement_text(summary, wording, trigger, tail);
            let texts = [preamble.clone(), Some(text.clone()), restored.text.clone()];
            let blocks: Vec<ContentBlock> = texts.into_iter().flatten().map(ContentBlock::text).collect();
            let new = blocks.iter().map(block_tokens).sum::<u64>() + self.agent.history.tokens_from(tail);
            let shrinks = match cause {
                // The window was not full, so the estimates of the messages alone are compared.
                CompactCause::Asked => {
                    new < old
                        || wording == SummaryWording::Bare
                            && text_tokens(summary.len()) <= SHORT_SUMMARY_TOKENS
                }
                CompactCause::NearlyFull | CompactCause::Refused => overhead + new < before,
            };
            if shrinks {
                let after = (overhead + new).min((before + new).saturating_sub(old));
                return Ok(CompactedHead { text, blocks, restored, memory, after });
            }
        }
        let size = if cause == CompactCause::Asked { old } else { before };
        Err(Trouble::Failed(format!(
            "its summary would be no smaller than the conversation itself ({size} tokens)"
        )))
    }

    /// Forgets the loaded tools that the tail does not refer to, because their descriptions are gone with what was
    /// summarised. Returns a note that tells the model how to load them again, or `None` if no tool was forgotten.
    fn forget_loaded_tools(&self, tail: &ConversationTail) -> Option<String> {
        let referenced = self.agent.history.tools_referenced_from(tail);
        let forgotten = self.agent.handle.change(|view| view.forget_loaded_tools(&referenced));
        let search = lathe_tools::ToolSearch::NAME;
        (!forgotten.is_empty()).then(|| {
            system_reminder(&format!(
                "Tools that were loaded before this summary have to be loaded again before they are used: {search} \
                 with the query \"select:{}\".",
                forgotten.join(",")
            ))
        })
    }

    /// Replaces the conversation: writes the boundary and the summary to the session's file, then changes the history,
    /// the files that the model knows, the loaded tools and the memory files. Returns the frames, which the caller
    /// sends. This is the only step of a compaction that changes the conversation, so everything that may fail has to
    /// come before it.
    pub(super) fn commit(&mut self, new: ConversationReplacement) -> CompactionFrames {
        let agent = self.agent.handle.clone();
        let size = self.agent.history.size();
        let mut blocks = new.head.blocks;
        let mut notes: Vec<String> = new.head.restored.text.iter().cloned().collect();
        if !new.notes.is_empty() {
            let note = system_reminder(&new.notes.join("\n"));
            blocks.push(ContentBlock::text(note.as_str()));
            notes.push(note);
        }
        if let Some(note) = self.forget_loaded_tools(&new.tail) {
            blocks.push(ContentBlock::text(note.as_str()));
            notes.push(note);
        }
        let memory = &mut self.agent.compaction.memory;
        memory.succeeded(new.before.saturating_sub(new.head.after));
        let dropped = memory.dropped_tokens;
        let told = CompactionFrames {
            summary: agent.frames.summary(&new.head.text, new.cause.trigger()),
            boundary: CompactBoundary {
                compact_metadata: CompactMetadata {
                    trigger: new.cause.trigger().wire_name().to_owned(),
                    pre_tokens: size.measured.unwrap_or(new.before),
                    post_tokens: Some(new.head.after),
                    duration_ms: Some(new.began.elapsed().as_millis() as u64),
                    cumulative_dropped_tokens: Some(dropped),
                    ..CompactMetadata::default()
                },
                uuid: agent.frames.uuid(),
                session_id: agent.frames.session_id(),
                ..CompactBoundary::default()
            },
        };
        let told = record_compaction(self.agent, told, &new.tail, &notes);
        self.agent.history.compact(blocks, &new.tail);
        new.head.restored.note_seen(&agent);
        // The usage of the last response is that of the conversation that was just replaced.
        agent.session.totals().forget_last();
        self.agent.replace_instructions(new.head.memory);
        agent.publish_size(self.agent.history.size());
        told
    }
}

/// Writes boundary, summary and notes to the session's file, in this order. Returns the frames with the ids of the
/// records that are kept, if any are, and of the last record before the boundary.
fn record_compaction(
    agent: &mut Agent,
    mut told: CompactionFrames,
    tail: &ConversationTail,
    notes: &[String],
) -> CompactionFrames {
    let (handle, journal) = (&agent.handle, &mut agent.journal);
    let now = handle.frames.now();
    let kept = tail.record.as_deref().map(|head| journal.records_from(head)).unwrap_or_default();
    if let (Some(head), Some(last)) = (kept.first(), kept.last()) {
        let anchor_uuid = told.summary.uuid.clone();
        told.boundary.compact_metadata.preserved_segment = Some(PreservedSegment {
            head_uuid: head.clone(),
            anchor_uuid: anchor_uuid.clone(),
            tail_uuid: last.clone(),
            ..PreservedSegment::default()
        });
        // A segment ends at a boundary; the list also names what an earlier compaction kept.
        told.boundary.compact_metadata.preserved_messages =
            Some(PreservedMessages { anchor_uuid, uuids: kept.clone(), ..PreservedMessages::default() });
    }
    told.boundary.logical_parent_uuid = Some(journal.last_record());
    journal.compacted(CompactBoundaryRecord {
        uuid: &told.boundary.uuid,
        now: &now,
        metadata: &told.boundary.compact_metadata,
        kept,
        summary: &told.summary,
    });
    for note in notes {
        journal.note(&handle.frames.uuid(), &now, note);
    }
    told
}

/// The beginning of a compacted conversation.
pub(super) struct CompactedHead {
    /// The summary and the words around it.
    text: String,
    blocks: Vec<ContentBlock>,
    restored: RestoredContext,
    /// The memory files as they are now.
    memory: Option<MemoryFiles>,
    /// Estimate of the next request.
    after: u64,
}

/// A summary that was accepted, and everything that goes with it.
pub(super) struct ConversationReplacement {
    pub cause: CompactCause,
    pub head: CompactedHead,
    pub tail: ConversationTail,
    /// What hooks want the model to know.
    pub notes: Vec<String>,
    /// The size of the conversation before it, in tokens.
    pub before: u64,
    /// When the compaction began, for its duration.
    pub began: Instant,
}
