//! The files of subagents: `<session>/subagents/agent-<id>.jsonl`, each with a sidecar file that describes the agent. A
//! subagent's transcript is written like any other (its envelope has the agent's id) and resumed like any other; only
//! finding and listing differ.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Result, TranscriptError};
use crate::index::{Entry, Index, Siblings};
use crate::paths::SessionPaths;
use crate::reader::{MessageRow, rows};

/// The sidecar file `agent-<id>.meta.json`, which describes a subagent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentMeta {
    /// Its type.
    pub agent_type: Option<String>,
    /// A short description of its task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The call that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// The agent that started it, unless that was the main one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_agent_id: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Returns the ids of the session's subagents, sorted; empty if there are none.
pub fn list_subagents(session: &SessionPaths) -> Result<Vec<String>> {
    let mut ids: Vec<String> = agent_files(&session.subagents())?.into_iter().map(|(id, _)| id).collect();
    ids.sort();
    ids.dedup();
    Ok(ids)
}

/// Returns the messages of a subagent that are shown, oldest first and without meta messages. If it does not exist, the
/// error is [`TranscriptError::NotFound`].
pub fn subagent_messages(session: &SessionPaths, agent_id: &str) -> Result<Vec<MessageRow>> {
    let files = agent_files(&session.subagents())?;
    let Some((_, path)) = files.into_iter().find(|(id, _)| id == agent_id) else {
        return Err(TranscriptError::NotFound { path: session.subagent(agent_id) });
    };
    let meta = read_agent_meta(&path.with_extension("meta.json"));
    let index = Index::open(&path)?;
    let tip = index.entries.iter().rposition(Entry::is_message);
    let chain = tip.map(|tip| index.chain(tip)).unwrap_or_default();
    let shown = index.with_siblings(&chain, index.entries.len(), Siblings::AsSdksShow);
    let mut found = Vec::new();
    let is_shown = |entry: &Entry| entry.is_message() && !entry.is_meta;
    rows(&index, &path, &shown, is_shown, &meta, |row| {
        found.push(row);
        Ok(())
    })?;
    Ok(found)
}

/// Reads a subagent's sidecar; one that is missing or not valid gives the default.
pub fn read_agent_meta(path: &Path) -> AgentMeta {
    std::fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Writes a sidecar by a rename, so that a reader sees either the old content or the new. Creates its folder if needed;
/// folder and file are for this user only.
pub fn write_agent_meta(path: &Path, meta: &AgentMeta) -> Result<()> {
    let failed = |error| TranscriptError::io("write", path, error);
    let json = serde_json::to_vec(meta)?;
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    }
    let new = path.with_extension("json.new");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new).map_err(failed)?;
    file.write_all(&json).and_then(|()| std::fs::rename(&new, path)).map_err(failed)
}

/// Returns all `agent-<id>.jsonl` below `dir`, at any depth, each with its id and in no fixed order. Links to folders
/// are not followed; a missing `dir` gives none.
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
            // Links are not followed, because a cycle of them would never end.
            match (entry.file_type(), agent) {
                (Ok(kind), _) if kind.is_dir() => pending.push(entry.path()),
                (Ok(_), Some(id)) => found.push((id.to_owned(), entry.path())),
                (Ok(_), None) | (Err(_), _) => {}
            }
        }
    }
    Ok(found)
}
