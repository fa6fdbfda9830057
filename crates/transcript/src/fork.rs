//! Copies a conversation into a new session. The source is only read. The copy holds its chain records in the order of
//! the file, with abandoned branches and without subagents, and, if the ids are kept, the records of saved files, so
//! that rewinding to a copied prompt still works.
//!
//! There are two kinds of forks, and clients know both. A fork made by a session function gets fresh ids throughout and
//! records where each record came from; a fork made by a run (`--fork-session`) keeps the ids, so that a client can
//! still refer to the messages it has seen.

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

/// The parameters of a fork.
pub struct ForkPlan<'a> {
    /// Id of the new session.
    pub session_id: &'a str,
    /// The project directory of the new session; `None` means that of the source.
    pub dir: Option<&'a Path>,
    /// The last record to copy; `None` means all.
    pub up_to: Option<&'a str>,
    /// How the ids are treated.
    pub ids: ForkIds<'a>,
}

/// How the ids of records are treated in a fork.
pub enum ForkIds<'a> {
    /// They are kept. No title is written: the run that made the fork continues it.
    Keep,
    /// Every record gets a new id and a field that names its origin; the fork gets a title.
    Fresh {
        /// Creates ids.
        new_uuid: &'a mut dyn FnMut() -> String,
        /// The time for the last record of the copy, so that the fork counts as new.
        now: &'a str,
        /// The title; `None` means that of the source with ` (fork)` appended.
        title: Option<&'a str>,
    },
}

/// Fields that refer to the old session.
const DROPPED_FIELDS: [&str; 4] = ["teamName", "agentName", "slug", "sourceToolAssistantUUID"];

/// Forks the session at `source` into a new file and returns its paths. Fails if the new file exists or there is
/// nothing to copy; an incomplete fork is removed.
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
        // An incomplete fork would look like a complete one. If it cannot be removed, the first error is reported.
        drop(std::fs::remove_file(&path));
        return Err(error);
    }
    Ok(target)
}

/// Returns the positions of the records to copy, up to and including `up_to` (all with `None`): no sidechains, no
/// progress, and of repeated ids only the record that counts. An `up_to` that is not in the main conversation is an
/// error.
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
    /// Copies the records and changes only their session id, then copies the ends of background tasks and all records
    /// about saved files.
    fn keep_ids(&mut self, copied: &[At]) -> Result<()> {
        for at in copied {
            let text = self.read(self.index.entries[*at].span)?;
            let mut record = RawObject::parse(&text)?;
            record.set("sessionId", &self.to)?;
            self.write(&Line::of(&record)?)?;
        }
        self.add_task_marks()?;
        // Those of dropped records too: the files on the disk are in the state that the dropped turns left.
        for span in &self.index.sides.file_history {
            let text = self.read(*span)?;
            self.write(&Line::of(&RawObject::parse(&text)?)?)?;
        }
        Ok(())
    }

    /// Copies the ends of background tasks that are no part of the conversation, because a copy must not take these
    /// tasks for lost.
    fn add_task_marks(&mut self) -> Result<()> {
        for mark in self.index.task_marks.iter().filter(|mark| !mark.is_link) {
            let text = self.read(mark.span)?;
            let mut record = RawObject::parse(&text)?;
            record.set("sessionId", &self.to)?;
            self.write(&Line::of(&record)?)?;
        }
        Ok(())
    }

    /// Copies the records with new ids and without [`DROPPED_FIELDS`], and gives the last one the time `now`. All ids
    /// are assigned before the first record is written, so that every link can be translated; a link to a record that
    /// is not copied goes to its nearest copied ancestor, and is null if there is none.
    fn fresh_ids(&mut self, copied: &[At], new_uuid: &mut dyn FnMut() -> String, now: &str) -> Result<()> {
        // The children of a record that is not copied are linked to its nearest copied ancestor.
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

    /// Adds the side records of a fork: the ends of background tasks, all content replacements joined into one record,
    /// and last the title. Without a title it is that of the source with ` (fork)` appended.
    fn add_sides(&mut self, title: Option<&str>) -> Result<()> {
        self.add_task_marks()?;
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

    /// Returns the title, or else the first prompt, of the source with ` (fork)` appended; `Forked session (fork)` if
    /// it has neither.
    fn marked_title(&self) -> Result<String> {
        let info =
            peek::peek(self.source).map_err(|error| TranscriptError::io("read", self.source, error))?;
        let name = info.and_then(|info| info.custom_title.or(info.first_prompt));
        Ok(format!("{} (fork)", name.as_deref().unwrap_or("Forked session")))
    }

    /// Returns the text of a record of the source file.
    fn read(&self, span: Span) -> Result<String> {
        self.index.read(span).map_err(|error| TranscriptError::io("read", self.source, error))
    }

    /// Appends a record to the new file, which is buffered; the caller must flush it.
    fn write(&mut self, line: &Line) -> Result<()> {
        self.out.write_all(line.bytes()).map_err(|error| TranscriptError::io("write", self.source, error))
    }
}
