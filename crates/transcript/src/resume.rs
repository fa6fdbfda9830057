//! Loads a session to resume it: the conversation for the model, the parent of the next record, and the state in side
//! records.
//!
//! Only the records that the model still needs are parsed: everything before the last compaction boundary stays in the
//! file and out of memory. Context that earlier runs added in the role `system` (`attachment` records) is left out,
//! because the new run describes its own environment. Reminders in the role `user`, and prompts that were delivered as
//! attachments, are part of the conversation and are loaded.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::Path;

use lathe_protocol::Role;
use serde_json::Value;

use crate::error::{Result, TranscriptError};
use crate::history::{self, DanglingCall, DeferredCall, HistoryMessage, Piece};
use crate::index::{At, Id, Index, Kind, Siblings};
use crate::lines::{Damage, Span};
use crate::mend::{rendered_blocks, without_lone_surrogates};
use crate::message::{self, Block, BlockKind, MessageRecord};
use crate::raw::RawObject;
use crate::record::side::CostState;
use crate::record::{Record, SideRecord};
use crate::tasks::{self, RecordedTasks};

/// The record after which a session is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeAt<'a> {
    /// The last one.
    Latest,
    /// The record with this uuid; the records after it become an abandoned branch.
    Message {
        /// `--resume-session-at`.
        uuid: &'a str,
        /// `--resume-drops-turn`: fail unless all dropped records belong to the turn of this prompt.
        drops_turn: Option<&'a str>,
    },
}

/// A session that is ready to continue.
#[derive(Debug)]
pub struct Resumed {
    /// The conversation, oldest first. Roles alternate, every call has its result.
    pub messages: Vec<HistoryMessage>,
    /// The parent of the next record.
    pub last_uuid: Option<String>,
    /// The uuids of all prompts in the file, up to the record at which the session is resumed. A prompt that is sent
    /// again is a duplicate, unless a cut has dropped it: sending it again is what a cut is for.
    pub prompts: PromptIds,
    /// The number of the last prompt (`turnPosition.turnIndex`); 0 if none is numbered.
    pub turn_index: u64,
    /// The permission mode of the last prompt.
    pub permission_mode: Option<String>,
    /// The title given by a person, else a generated one.
    pub title: Option<String>,
    /// `agent-name`.
    pub agent_name: Option<String>,
    /// `tag`; `None` if it is empty.
    pub tag: Option<String>,
    /// `mode`.
    pub mode: Option<String>,
    /// The whole `agent-setting` record.
    pub agent_setting: Option<Value>,
    /// What the session has cost so far.
    pub cost_state: Option<CostState>,
    /// `todos` of the last TodoWrite call.
    pub todos: Option<Value>,
    /// The call that a hook deferred, with which the session ended.
    pub deferred: Option<DeferredCall>,
    /// Calls whose results were missing and were added.
    pub dangling: Vec<DanglingCall>,
    /// The background tasks of the session.
    pub tasks: RecordedTasks,
    /// The damage found in the file, each kind once.
    pub warnings: Vec<Warning>,
}

/// The prompts of a session, by uuid.
#[derive(Debug, Clone, Default)]
pub struct PromptIds(HashSet<Id>);

impl PromptIds {
    /// Returns whether a prompt with this uuid is in the transcript.
    pub fn contains(&self, uuid: &str) -> bool {
        self.0.contains(&Id::of(uuid))
    }

    /// Adds a prompt. Returns whether it was new; false if the transcript has it already.
    pub fn insert(&mut self, uuid: &str) -> bool {
        self.0.insert(Id::of(uuid))
    }
}

/// Damage in the file that people may want to know of. It does not keep the session from being resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// Lines that could not be parsed.
    BadLines {
        /// The number of lines.
        count: u64,
        /// The number of the first line, counted from 1.
        first: u64,
    },
    /// Records whose parent is missing; the record before them in the file was used instead.
    MissingParents(usize),
    /// Tool calls without a result.
    DanglingCalls(usize),
    /// Tool results without a call, which were left out.
    OrphanResults(usize),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadLines { count, first } => {
                write!(f, "skipped {count} unreadable line(s) of the transcript, the first is line {first}")
            }
            Self::MissingParents(count) => write!(f, "bridged {count} gap(s) in the transcript"),
            Self::DanglingCalls(count) => write!(f, "{count} tool call(s) had no recorded result"),
            Self::OrphanResults(count) => write!(f, "left out {count} tool result(s) without a call"),
        }
    }
}

impl Warning {
    /// Returns the warning about unreadable lines; `None` if there are none.
    pub(crate) fn of_damage(damage: &Damage) -> Option<Self> {
        damage.first_bad_line.map(|first| Self::BadLines { count: damage.bad_lines, first })
    }
}

/// Loads the conversation and the state of the session at `path` for a new run. Damage is skipped and reported as
/// warnings. Fails if the record to resume at does not exist or the cut would drop more than it may.
pub fn load_for_resume(path: &Path, at: ResumeAt<'_>) -> Result<Resumed> {
    load(&Index::open(path)?, path, at)
}

/// Loads the conversation from an index that the caller has built for `path`. Finds the record at which it ends, and
/// first checks what a cut would drop.
pub(crate) fn load(index: &Index, path: &Path, at: ResumeAt<'_>) -> Result<Resumed> {
    let tip = match at {
        ResumeAt::Latest => leaf_for_model(index),
        ResumeAt::Message { uuid, drops_turn } => {
            let tip = index.position(uuid).ok_or_else(|| TranscriptError::NoSuchMessage(uuid.to_owned()))?;
            if let Some(turn) = drops_turn {
                check_dropped(index, path, tip, turn)?;
            }
            Some(tip)
        }
    };
    Loader { index, state: State::default() }
        .load(tip, at)
        .map_err(|error| TranscriptError::io("read", path, error))
}

/// Returns the leaf of a session, or of a subagent's file, in which all records are a sidechain; `None` if there is no
/// message.
fn leaf_for_model(index: &Index) -> Option<At> {
    index.leaf(|entry| !entry.is_sidechain).or_else(|| index.leaf(|_| true))
}

/// The state that is collected from the records of the conversation.
#[derive(Default)]
struct State {
    permission_mode: Option<String>,
    turn_index: u64,
    todos: Option<Value>,
}

struct Loader<'a> {
    index: &'a Index,
    state: State,
}

impl Loader<'_> {
    /// Reads the conversation up to `tip` and the state beside it; without a `tip` there is no conversation. With a
    /// cut, records after it do not count; of side records the last one counts in any case.
    fn load(mut self, tip: Option<At>, at: ResumeAt<'_>) -> io::Result<Resumed> {
        let index = self.index;
        let chain = tip.map(|tip| index.chain(tip)).unwrap_or_default();
        let limit = match at {
            ResumeAt::Latest => index.entries.len(),
            ResumeAt::Message { .. } => tip.map_or(0, |tip| tip + 1),
        };
        let mut pieces = Vec::new();
        for at in self.needed(&chain, limit)? {
            pieces.extend(self.piece(at)?);
        }
        let open = tip.map(|tip| self.deferred_call_id(tip)).transpose()?.flatten();
        let history = history::build(pieces, open);
        let deferred = history.left_open.as_ref().and_then(|call| deferred_call(call, &history.messages));
        let gaps = chain.iter().filter(|at| index.is_bridged(**at)).count();
        let warnings = [
            Warning::of_damage(&index.damage),
            (gaps > 0).then_some(Warning::MissingParents(gaps)),
            (!history.dangling.is_empty()).then_some(Warning::DanglingCalls(history.dangling.len())),
            (history.orphan_results > 0).then_some(Warning::OrphanResults(history.orphan_results)),
        ];
        let state = std::mem::take(&mut self.state);
        let sides = &index.sides;
        let kept = &index.entries[..limit];
        let users = kept.iter().filter(|entry| entry.kind == Kind::User).map(|entry| entry.id);
        let queued = index.queued.iter().filter(|(at, _)| *at < limit).map(|(_, id)| *id);
        Ok(Resumed {
            messages: history.messages,
            last_uuid: tip.map(|tip| self.field(index.entries[tip].span, "uuid")).transpose()?.flatten(),
            prompts: PromptIds(users.chain(queued).collect()),
            turn_index: state.turn_index,
            permission_mode: state.permission_mode,
            title: match self.side(sides.title, "customTitle")? {
                Some(title) => Some(title),
                None => self.side(sides.ai_title, "aiTitle")?,
            },
            agent_name: self.side(sides.agent_name, "agentName")?,
            tag: self.side(sides.tag, "tag")?.filter(|tag| !tag.is_empty()),
            mode: self.side(sides.mode, "mode")?,
            agent_setting: self.side_value(sides.agent_setting)?,
            cost_state: self.cost_state(sides.cost)?,
            todos: state.todos,
            deferred,
            dangling: history.dangling,
            tasks: tasks::collect(index, limit)?,
            warnings: warnings.into_iter().flatten().collect(),
        })
    }

    /// Returns the records of the chain that the model needs: those from the last summary on, with the records that the
    /// compaction kept unchanged right after it. Siblings from `limit` on are left out.
    fn needed(&self, chain: &[At], limit: At) -> io::Result<Vec<At>> {
        let start = chain.iter().rposition(|at| self.index.entries[*at].is_summary).unwrap_or(0);
        let mut needed = self.index.with_siblings(&chain[start..], limit, Siblings::UnlessCutOff);
        if start > 0 {
            let kept = self.kept_by_compaction(chain[start - 1])?;
            needed.splice(1..1, kept);
        }
        Ok(needed)
    }

    /// Returns the records that a compaction boundary names as kept: a list of records, or a part of the old chain.
    /// Empty if it names none or they are not found.
    fn kept_by_compaction(&self, boundary: At) -> io::Result<Vec<At>> {
        let index = self.index;
        let text = index.read(index.entries[boundary].span)?;
        let Ok(record) = RawObject::parse(&text) else { return Ok(Vec::new()) };
        let metadata = record.value("compactMetadata").unwrap_or_default();
        if let Some(uuids) = metadata["preservedMessages"]["uuids"].as_array() {
            let kept: Vec<At> = uuids.iter().filter_map(|uuid| index.position(uuid.as_str()?)).collect();
            if !kept.is_empty() {
                return Ok(kept);
            }
        }
        let segment = &metadata["preservedSegment"];
        let Some(head) = segment["headUuid"].as_str() else { return Ok(Vec::new()) };
        let tail = segment["tailUuid"].as_str().and_then(|uuid| index.position(uuid));
        // A fork with new ids does not change the ids in this metadata. But it does change the id of the record before
        // the boundary, and every record names the one it was copied from.
        let before = record.text("logicalParentUuid").and_then(|uuid| index.position(&uuid));
        let Some(tail) = tail.or(before) else { return Ok(Vec::new()) };
        let stretch = index.chain(tail);
        let from = match index.position(head) {
            Some(head) => stretch.iter().position(|at| *at == head),
            None => self.copied_from(&stretch, head)?,
        };
        let from = from.unwrap_or(stretch.len());
        Ok(index.with_siblings(&stretch[from..], boundary, Siblings::UnlessCutOff))
    }

    /// Returns the place in `stretch`, a part of the chain, of the copy of the record with this id, searched from the
    /// end; `None` if it holds no copy of it.
    fn copied_from(&self, stretch: &[At], uuid: &str) -> io::Result<Option<usize>> {
        for (place, at) in stretch.iter().enumerate().rev() {
            let text = self.index.read(self.index.entries[*at].span)?;
            let origin = RawObject::parse(&text).ok().and_then(|record| record.value("forkedFrom"));
            match origin {
                Some(origin) if origin["messageUuid"] == uuid => return Ok(Some(place)),
                Some(_) => {}
                // Not a copy, so the records before it are not copies either.
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Returns the part of the conversation that comes from a record. `None` if the model gets nothing of it, as of
    /// system records, failed requests and what only people see. Also takes the state from the message, even if only
    /// people see it, so records must come in the order of the conversation.
    fn piece(&mut self, at: At) -> io::Result<Option<Piece>> {
        let entry = &self.index.entries[at];
        let role = match entry.kind {
            Kind::User => Role::User,
            Kind::Assistant => Role::Assistant,
            Kind::Attachment if entry.is_rendered => return self.attachment(at),
            Kind::Attachment | Kind::System | Kind::Progress | Kind::Other => return Ok(None),
        };
        let text = without_lone_surrogates(self.index.read(entry.span)?);
        let Ok(record) = serde_json::from_str::<MessageRecord<'_>>(&text) else { return Ok(None) };
        if record.is_api_error {
            return Ok(None);
        }
        let blocks = record.content.map(message::blocks_of).unwrap_or_default();
        self.state.note(role, &record, &blocks);
        if record.is_transcript_only && !entry.is_summary {
            return Ok(None);
        }
        let has_results = blocks.iter().any(|block| matches!(block.kind, BlockKind::ToolResult { .. }));
        let is_silent = blocks.iter().all(|block| block.kind == BlockKind::Blank);
        let is_prompt = role == Role::User && !entry.is_meta && !has_results && !is_silent;
        let answer = entry.response.filter(|_| role == Role::Assistant && entry.is_numbered_block);
        Ok(Some(Piece { at, role, uuid: record.uuid.into_owned(), blocks, answer, is_prompt }))
    }

    /// Returns the content of an attachment that is part of the conversation: a prompt that was queued while a turn
    /// ran, or a text in the role `user`. `None` for any other.
    fn attachment(&self, at: At) -> io::Result<Option<Piece>> {
        let text = without_lone_surrogates(self.index.read(self.index.entries[at].span)?);
        let Ok(record) = RawObject::parse(&text) else { return Ok(None) };
        let body = record.get("attachment").and_then(|raw| RawObject::parse(raw.get()).ok());
        let prompt = body.filter(|body| body.text("type").as_deref() == Some("queued_command"));
        let content = match &prompt {
            Some(body) => body.get("prompt"),
            None if record.text("renderedRole").as_deref() == Some("user") => record.get("rendered"),
            None => None,
        };
        let uuid = record.text("uuid").unwrap_or_default();
        Ok(content.map(|content| Piece {
            at,
            role: Role::User,
            uuid,
            blocks: rendered_blocks(content),
            answer: None,
            is_prompt: prompt.is_some(),
        }))
    }

    /// Returns the id of the deferred call, if the record at `tip` is the mark of one; otherwise `None`.
    fn deferred_call_id(&self, tip: At) -> io::Result<Option<String>> {
        let entry = &self.index.entries[tip];
        if entry.kind != Kind::Attachment {
            return Ok(None);
        }
        let text = self.index.read(entry.span)?;
        let mark = RawObject::parse(&text).ok().and_then(|record| record.value("attachment"));
        let mark = mark.filter(|mark| mark["type"] == "hook_deferred_tool");
        Ok(mark.and_then(|mark| mark["toolUseID"].as_str().map(str::to_owned)))
    }

    /// Reads one string of the record at `span`; `None` if the record cannot be parsed or the field is not a string.
    fn field(&self, span: Span, key: &str) -> io::Result<Option<String>> {
        let text = self.index.read(span)?;
        Ok(RawObject::parse(&text).ok().and_then(|record| record.text(key)))
    }

    /// Reads one string of the side record at `span`; `None` if the record is missing, it cannot be parsed or the
    /// field is not a string.
    fn side(&self, span: Option<Span>, key: &str) -> io::Result<Option<String>> {
        span.map_or(Ok(None), |span| self.field(span, key))
    }

    /// Reads the saved costs; `None` if there are none. A record that does not fit counts as missing and does not stop
    /// the resume.
    fn cost_state(&self, span: Option<Span>) -> io::Result<Option<CostState>> {
        let Some(span) = span else { return Ok(None) };
        Ok(match Record::parse(&self.index.read(span)?) {
            Ok(Record::Side(SideRecord::CostState(state))) => Some(state),
            Ok(_) | Err(_) => None,
        })
    }

    /// Reads a whole side record as JSON; `None` if it is missing or cannot be parsed.
    fn side_value(&self, span: Option<Span>) -> io::Result<Option<Value>> {
        let Some(span) = span else { return Ok(None) };
        Ok(serde_json::from_str(&self.index.read(span)?).ok())
    }
}

/// Returns the deferred call with its input from the last response; `None` if the call is not in it. A prompt may
/// follow it, if the call was deferred again.
fn deferred_call(call: &DanglingCall, messages: &[HistoryMessage]) -> Option<DeferredCall> {
    let answer = messages.iter().rfind(|message| message.role == Role::Assistant)?;
    let mut values = answer.blocks.iter().filter_map(|block| serde_json::from_str::<Value>(block.get()).ok());
    let block = values.find(|block| block["id"] == call.tool_use_id.as_str())?;
    Some(DeferredCall {
        tool_use_id: call.tool_use_id.clone(),
        name: call.name.clone(),
        input: block["input"].clone(),
        assistant_uuid: call.assistant_uuid.clone(),
    })
}

impl State {
    /// Takes the state from one message. Must be called in the order of the conversation, because the last value
    /// counts.
    fn note(&mut self, role: Role, record: &MessageRecord<'_>, blocks: &[Block]) {
        if role == Role::User {
            if let Some(mode) = &record.permission_mode {
                self.permission_mode = Some(mode.clone().into_owned());
            }
            let position = record.turn_position.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
            if let Some(turn) = position.and_then(|position| position["turnIndex"].as_u64()) {
                self.turn_index = turn;
            }
        }
        let is_todo_call =
            |block: &&Block| matches!(&block.kind, BlockKind::ToolUse { name, .. } if name == "TodoWrite");
        if let Some(call) = blocks.iter().rfind(is_todo_call)
            && let Ok(mut call) = serde_json::from_str::<Value>(call.raw.get())
        {
            self.todos = Some(call["input"]["todos"].take());
        }
    }
}

/// Checks that all messages after `cut` on the current branch belong to the turn of prompt `turn`: the first must be
/// that prompt, and no other prompt may follow. If there are none the check passes, and messages that cannot be parsed
/// are passed over. Fails also if `cut` is not on that branch.
fn check_dropped(index: &Index, path: &Path, cut: At, turn: &str) -> Result<()> {
    let read =
        |at: At| index.read(index.entries[at].span).map_err(|error| TranscriptError::io("read", path, error));
    let cut_text = read(cut)?;
    let refused = |reason| {
        let at = RawObject::parse(&cut_text).ok().and_then(|record| record.text("uuid")).unwrap_or_default();
        TranscriptError::DropsTurn { at, turn: turn.to_owned(), reason }
    };
    let chain = leaf_for_model(index).map(|tip| index.chain(tip)).unwrap_or_default();
    let Some(position) = chain.iter().position(|at| *at == cut) else {
        return Err(refused("the message is not part of the current conversation".to_owned()));
    };
    let dropped = chain[position + 1..].iter().filter(|at| index.entries[**at].is_message());
    let mut turn_id = None;
    for (nth, at) in dropped.enumerate() {
        let entry = &index.entries[*at];
        let text = read(*at)?;
        let Ok(record) = RawObject::parse(&text) else { continue };
        let uuid = record.text("uuid").unwrap_or_default();
        let prompt_id = record.text("promptId");
        if nth == 0 {
            if uuid != turn {
                let kind = record.text("type").unwrap_or_default();
                let what = format!(
                    "the first discarded entry is not the prompt of that turn [type={kind}, uuid={uuid}]"
                );
                return Err(refused(what));
            }
            turn_id = prompt_id;
            continue;
        }
        // Some programs give all prompts of a fork the same id; but only a prompt that starts a turn has a number.
        let is_numbered = record.found("turnPosition").is_some();
        let belongs = entry.kind == Kind::Assistant
            || entry.is_meta
            || (prompt_id.is_some() && prompt_id == turn_id && !is_numbered)
            || message::has_tool_result(&record);
        if !belongs {
            return Err(refused(format!(
                "discarded entry {nth} starts another turn [type=user, uuid={uuid}]"
            )));
        }
    }
    Ok(())
}
