//! A session's messages for programs: the rows that the official SDKs' session functions return, for the
//! main conversation and for subagents. Unlike [`resume`](crate::resume) nothing is merged or made up
//! here; records come out as they were written, minus those that are not meant to be shown.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::error::{Result, TranscriptError};
use crate::index::{At, Entry, Index};
use crate::paths::SessionPaths;
use crate::raw::RawObject;

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
    /// The API message as it stands in the file.
    pub message: Box<RawValue>,
    /// The call that started the subagent; `None` in the main conversation.
    pub parent_tool_use_id: Option<String>,
    /// The agent that started the subagent.
    pub parent_agent_id: Option<String>,
}

/// `agent-<id>.meta.json`: what a subagent is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentMeta {
    /// Its type.
    pub agent_type: Option<String>,
    /// What it was asked to do, in short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The call that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// The agent that started it, if that was not the main one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_agent_id: Option<String>,
    /// Whatever else there is.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The messages of the session at `path`, oldest first.
pub fn session_messages(path: &Path) -> Result<Vec<MessageRow>> {
    let index = Index::open(path)?;
    let is_main = |entry: &Entry| !entry.is_sidechain && !entry.is_team && !entry.is_meta;
    let tip = index.leaf(is_main).or_else(|| index.leaf(|_| true));
    let chain = tip.map(|tip| index.chain(tip)).unwrap_or_default();
    let shown = index.with_siblings(&chain, index.entries.len());
    let is_shown =
        |entry: &Entry| entry.is_message() && !entry.is_meta && !entry.is_sidechain && !entry.is_team;
    rows(&index, path, &shown, is_shown, &AgentMeta::default())
}

/// The ids of the session's subagents, sorted.
pub fn list_subagents(session: &SessionPaths) -> Result<Vec<String>> {
    let mut ids: Vec<String> = agent_files(&session.subagents())?.into_iter().map(|(id, _)| id).collect();
    ids.sort();
    ids.dedup();
    Ok(ids)
}

/// The messages of a subagent. An agent that is not there is [`TranscriptError::NotFound`].
pub fn subagent_messages(session: &SessionPaths, agent_id: &str) -> Result<Vec<MessageRow>> {
    let files = agent_files(&session.subagents())?;
    let Some((_, path)) = files.into_iter().find(|(id, _)| id == agent_id) else {
        return Err(TranscriptError::NotFound { path: session.subagent(agent_id) });
    };
    let meta = read_agent_meta(&path.with_extension("meta.json"));
    let index = Index::open(&path)?;
    let tip = index.entries.iter().rposition(Entry::is_message);
    let chain = tip.map(|tip| index.chain(tip)).unwrap_or_default();
    let shown = index.with_siblings(&chain, index.entries.len());
    rows(&index, &path, &shown, |entry| entry.is_message() && !entry.is_meta, &meta)
}

/// A subagent's sidecar; one that is missing or unreadable says nothing.
pub fn read_agent_meta(path: &Path) -> AgentMeta {
    std::fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

fn rows(
    index: &Index,
    path: &Path,
    chain: &[At],
    is_shown: impl Fn(&Entry) -> bool,
    meta: &AgentMeta,
) -> Result<Vec<MessageRow>> {
    let mut rows = Vec::new();
    for entry in chain.iter().map(|at| &index.entries[*at]).filter(|entry| is_shown(entry)) {
        let text = index.read(entry.span).map_err(|error| TranscriptError::io("read", path, error))?;
        let Ok(record) = RawObject::parse(&text) else { continue };
        rows.push(MessageRow {
            kind: record.text("type").unwrap_or_default(),
            uuid: record.text("uuid").unwrap_or_default(),
            session_id: record.text("sessionId").unwrap_or_default(),
            message: record.get("message").map_or_else(|| RawValue::NULL.to_owned(), ToOwned::to_owned),
            parent_tool_use_id: meta.tool_use_id.clone(),
            parent_agent_id: meta.parent_agent_id.clone(),
        });
    }
    Ok(rows)
}

/// All `agent-<id>.jsonl` below `dir`, at any depth.
fn agent_files(dir: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(TranscriptError::io("list", &dir, error)),
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let agent = name.strip_prefix("agent-").and_then(|rest| rest.strip_suffix(".jsonl"));
            // Links are not followed: a ring of them would never end.
            match (entry.file_type(), agent) {
                (Ok(kind), _) if kind.is_dir() => pending.push(entry.path()),
                (Ok(_), Some(id)) => found.push((id.to_owned(), entry.path())),
                (Ok(_), None) | (Err(_), _) => {}
            }
        }
    }
    Ok(found)
}
