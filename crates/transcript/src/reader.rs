//! A session's records for programs: the message rows that the session functions of the official SDKs return, and all
//! records of given types. Unlike in [`resume`](crate::resume), nothing is merged or repaired here; records are
//! returned as they were written, except those that are not meant to be shown.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Result, TranscriptError};
use crate::index::{At, Entry, Index, Siblings};
use crate::lines::{self, MAX_LINE_BYTES, Span};
use crate::raw::RawObject;
use crate::record::Record;
use crate::subagents::AgentMeta;

/// One message of a conversation.
#[derive(Debug, Clone, Serialize)]
pub struct MessageRow {
    /// `user` or `assistant`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The record's id.
    pub uuid: String,
    /// The session it was written in.
    pub session_id: String,
    /// The API message as it is in the file.
    pub message: Box<RawValue>,
    /// The call that started the subagent; `None` in the main conversation.
    pub parent_tool_use_id: Option<String>,
    /// The agent that started the subagent.
    pub parent_agent_id: Option<String>,
}

/// Returns the messages of the session at `path` that are shown, oldest first; without those of subagents and without
/// meta messages.
pub fn session_messages(path: &Path) -> Result<Vec<MessageRow>> {
    let mut rows = Vec::new();
    each_message(path, |row| {
        rows.push(row);
        Ok(())
    })?;
    Ok(rows)
}

/// Passes the messages of the session at `path` that are shown to `sink` one by one, oldest first, so that a large
/// session is never in memory as a whole. An error of `sink` ends the reading.
pub fn each_message(path: &Path, sink: impl FnMut(MessageRow) -> Result<()>) -> Result<()> {
    let index = Index::open(path)?;
    let is_main = |entry: &Entry| !entry.is_sidechain && !entry.is_team && !entry.is_meta;
    let tip = index.leaf(is_main).or_else(|| index.leaf(|_| true));
    let chain = tip.map(|tip| index.chain(tip)).unwrap_or_default();
    let shown = index.with_siblings(&chain, index.entries.len(), Siblings::AsSdksShow);
    let is_shown =
        |entry: &Entry| entry.is_message() && !entry.is_meta && !entry.is_sidechain && !entry.is_team;
    rows(&index, path, &shown, is_shown, &AgentMeta::default(), sink)
}

/// Passes the records of a chain for which `is_shown` is true to `sink` as rows, in the order of the chain. A record
/// that is not an object is left out; `meta` gives the parents of all rows.
pub(crate) fn rows(
    index: &Index,
    path: &Path,
    chain: &[At],
    is_shown: impl Fn(&Entry) -> bool,
    meta: &AgentMeta,
    mut sink: impl FnMut(MessageRow) -> Result<()>,
) -> Result<()> {
    for entry in chain.iter().map(|at| &index.entries[*at]).filter(|entry| is_shown(entry)) {
        let text = index.read(entry.span).map_err(|error| TranscriptError::io("read", path, error))?;
        let Ok(record) = RawObject::parse(&text) else { continue };
        sink(MessageRow {
            kind: record.text("type").unwrap_or_default(),
            uuid: record.text("uuid").unwrap_or_default(),
            session_id: record.text("sessionId").unwrap_or_default(),
            message: record.get("message").map_or_else(|| RawValue::NULL.to_owned(), ToOwned::to_owned),
            parent_tool_use_id: meta.tool_use_id.clone(),
            parent_agent_id: meta.parent_agent_id.clone(),
        })?;
    }
    Ok(())
}

/// Returns all records of these types, for example the file history, in the order of the file. Lines that cannot be
/// parsed are left out.
pub fn records_of(path: &Path, types: &[&str]) -> Result<Vec<Record>> {
    let failed = |error| TranscriptError::io("read", path, error);
    let file = File::open(path).map_err(failed)?;
    let mut spans: Vec<Span> = Vec::new();
    let is_wanted = |kind: Option<&str>| kind.is_some_and(|kind| types.contains(&kind));
    lines::scan(&file, MAX_LINE_BYTES, |span, head, _| {
        spans.extend(is_wanted(head.kind.as_deref()).then_some(span))
    })
    .map_err(failed)?;
    let mut records = Vec::with_capacity(spans.len());
    for span in spans {
        let mut bytes = vec![0; span.length as usize];
        file.read_exact_at(&mut bytes, span.offset).map_err(failed)?;
        records.extend(Record::parse(&lines::clean(bytes)));
    }
    Ok(records)
}
