//! Copies a conversation into a session of its own. The source is only read; the copy holds its chain
//! records in the order of the file, abandoned branches included, subagents' excluded, and, where the ids
//! stay, the records of saved files, so that going back to a copied prompt still works.
//!
//! There are two customs, and clients know both. A fork made by a session function gets fresh ids
//! throughout and says where each record came from; a fork made by running on (`--fork-session`) keeps
//! the ids, so that a client can still name the messages it has seen.

use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};

use crate::error::{Result, TranscriptError};
use crate::index::{At, Index, Kind};
use crate::lines::Span;
use crate::paths::{SessionPaths, is_session_id};
use crate::peek;
use crate::raw::RawObject;
use crate::record::{Line, SideRecord};
use crate::writer;

/// How to fork.
pub struct ForkPlan<'a> {
    /// Id of the new session.
    pub session_id: &'a str,
    /// The project directory it goes to; that of the source if there is none.
    pub dir: Option<&'a Path>,
    /// The last record to copy; all if there is none.
    pub up_to: Option<&'a str>,
    /// What becomes of the ids.
    pub ids: ForkIds<'a>,
}

/// What becomes of the records' ids in a fork.
pub enum ForkIds<'a> {
    /// They stay. Nothing else is written: the new session goes on by itself.
    Keep,
    /// Every record gets a new one and a note of where it came from; the fork gets a title.
    Fresh {
        /// Makes ids.
        new_uuid: &'a mut dyn FnMut() -> String,
        /// Time of the last record in the copy, so that the fork counts as new.
        now: &'a str,
        /// The title; without one, that of the source with a mark.
        title: Option<&'a str>,
    },
}

/// Fields that tie a record to its old session.
const DROPPED_FIELDS: [&str; 4] = ["teamName", "agentName", "slug", "sourceToolAssistantUUID"];

/// Forks the session at `source` into a file of its own. Returns where.
pub fn fork(source: &Path, plan: ForkPlan<'_>) -> Result<SessionPaths> {
    if !is_session_id(plan.session_id) {
        return Err(TranscriptError::BadSessionId(plan.session_id.to_owned()));
    }
    let index = Index::open(source)?;
    let copied = records_to_copy(&index, plan.up_to)?;
    if copied.is_empty() {
        return Err(TranscriptError::NotFound { path: source.to_owned() });
    }
    let from = SessionPaths::of_transcript(source);
    let beside = || source.parent().unwrap_or(Path::new(""));
    let target = SessionPaths::in_project_dir(plan.dir.unwrap_or_else(beside), plan.session_id);
    let path = target.transcript();
    let file = writer::create_file(&path)?;
    let mut copy = Copy {
        index: &index,
        source,
        from: from.session_id(),
        to: plan.session_id,
        out: BufWriter::new(&file),
    };
    let outcome = match plan.ids {
        ForkIds::Keep => copy.keep_ids(&copied),
        ForkIds::Fresh { new_uuid, now, title } => {
            copy.fresh_ids(&copied, new_uuid, now).and_then(|()| copy.add_sides(title))
        }
    };
    let outcome =
        outcome.and_then(|()| copy.out.flush().map_err(|error| TranscriptError::io("write", &path, error)));
    if let Err(error) = outcome {
        // Half a fork would look like a whole one. If it cannot be removed either, the error says enough.
        drop(std::fs::remove_file(&path));
        return Err(error);
    }
    Ok(target)
}

fn records_to_copy(index: &Index, up_to: Option<&str>) -> Result<Vec<At>> {
    let is_copied = |at: &At| {
        let entry = &index.entries[*at];
        !entry.is_sidechain && entry.kind != Kind::Progress && index.is_current(*at)
    };
    let end = match up_to {
        None => index.entries.len(),
        Some(uuid) => {
            let at = index.position(uuid).filter(|at| !index.entries[*at].is_sidechain);
            at.ok_or_else(|| TranscriptError::NoSuchMessage(uuid.to_owned()))? + 1
        }
    };
    Ok((0..end).filter(is_copied).collect())
}

struct Copy<'a, W: Write> {
    index: &'a Index,
    source: &'a Path,
    from: &'a str,
    to: &'a str,
    out: BufWriter<W>,
}

impl<W: Write> Copy<'_, W> {
    fn keep_ids(&mut self, copied: &[At]) -> Result<()> {
        for at in copied {
            let text = self.read(self.index.entries[*at].span)?;
            let mut record = RawObject::parse(&text)?;
            record.set("sessionId", &self.to)?;
            self.write(&Line::of(&record)?)?;
        }
        // Of what a cut has dropped as well: the files on the disk are those that came of it.
        for span in &self.index.sides.file_history {
            let text = self.read(*span)?;
            self.write(&Line::of(&RawObject::parse(&text)?)?)?;
        }
        Ok(())
    }

    fn fresh_ids(&mut self, copied: &[At], new_uuid: &mut dyn FnMut() -> String, now: &str) -> Result<()> {
        // Records that are not copied are passed over: their children follow what they followed.
        let fresh: HashMap<At, String> = copied.iter().map(|at| (*at, new_uuid())).collect();
        for (nth, at) in copied.iter().enumerate() {
            let text = self.read(self.index.entries[*at].span)?;
            let mut record = RawObject::parse(&text)?;
            let old = record.text("uuid").unwrap_or_default();
            record.set("uuid", &fresh[at])?;
            let fresh_above = |at: At| self.index.walk_up(at).find_map(|above| fresh.get(&above));
            record.set("parentUuid", &self.index.parent(*at).and_then(fresh_above))?;
            if let Some(logical) = record.text("logicalParentUuid") {
                record.set("logicalParentUuid", &self.index.position(&logical).and_then(fresh_above))?;
            }
            record.set("sessionId", &self.to)?;
            record.set("isSidechain", &false)?;
            record.set("forkedFrom", &json!({ "sessionId": self.from, "messageUuid": old }))?;
            DROPPED_FIELDS.iter().for_each(|field| record.remove(field));
            if nth + 1 == copied.len() {
                record.set("timestamp", &now)?;
            }
            self.write(&Line::of(&record)?)?;
        }
        Ok(())
    }

    fn add_sides(&mut self, title: Option<&str>) -> Result<()> {
        let mut replacements: Vec<Value> = Vec::new();
        for span in &self.index.sides.content_replacements {
            let text = self.read(*span)?;
            if let Ok(mut record) = serde_json::from_str::<Value>(&text)
                && let Value::Array(found) = record["replacements"].take()
            {
                replacements.extend(found);
            }
        }
        if !replacements.is_empty() {
            let record = SideRecord::ContentReplacement {
                session_id: self.to.to_owned(),
                replacements,
                extra: serde_json::Map::new(),
            };
            self.write(&Line::of(&record)?)?;
        }
        let title = match title.map(str::trim).filter(|title| !title.is_empty()) {
            Some(title) => title.to_owned(),
            None => self.marked_title()?,
        };
        self.write(&Line::of(&SideRecord::custom_title(self.to, &title))?)
    }

    fn marked_title(&self) -> Result<String> {
        let info =
            peek::peek(self.source).map_err(|error| TranscriptError::io("read", self.source, error))?;
        let name = info.and_then(|info| info.custom_title.or(info.first_prompt));
        Ok(format!("{} (fork)", name.as_deref().unwrap_or("Forked session")))
    }

    fn read(&self, span: Span) -> Result<String> {
        self.index.read(span).map_err(|error| TranscriptError::io("read", self.source, error))
    }

    fn write(&mut self, line: &Line) -> Result<()> {
        self.out.write_all(line.bytes()).map_err(|error| TranscriptError::io("write", self.source, error))
    }
}
