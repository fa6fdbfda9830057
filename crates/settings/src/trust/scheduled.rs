//! The scheduled tasks of a folder (`.claude/scheduled_tasks.json`): prompts that start turns by the clock in whatever
//! session is open there. Read, changed under the lock of the folder, and judged: the author of the file could make a
//! session work for them, so a task counts only if its folder or the task itself is trusted.
//!
//! Of several sessions in one folder one starts the turn of a task: the one that notes it in the file first
//! ([`ScheduledTasks::fire`]). So no process has to lead, and none that dies leaves a lock behind.
//!
//! The format is `{"tasks": [{id, cron, prompt, createdAt, recurring?, lastFiredAt?}]}` with times in milliseconds. Other
//! programs write the file too: fields and entries that are not understood stay as they are.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use crate::error::SettingsError;
use crate::file::{ReadFailure, Stamp, Text, read_text};
use crate::problem::{Origin, SettingsProblem};
use crate::source::StackRequest;
use crate::stack::SettingsStack;
use crate::trust::{ContentItem, ContentKind, Counts, FolderTrust};
use crate::write::{Owner, ReplacementContent, rewrite};

/// The file, relative to its folder. `xtask house` allows it here because every task is judged.
pub(crate) const FILE: &str = ".claude/scheduled_tasks.json";

/// No such file is larger.
const MAX_BYTES: u64 = 1 << 20;
/// Further tasks are not looked at.
const MAX_TASKS: usize = 200;

/// One task of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledTask {
    /// Its id.
    pub id: String,
    /// Its cron expression, unchecked.
    pub cron: String,
    /// The prompt of the turn that it starts.
    pub prompt: String,
    /// Whether it stays after its first turn.
    pub recurring: bool,
    /// When it was written, milliseconds since the epoch.
    pub created_ms: u64,
    /// When it last started a turn.
    pub last_fired_ms: Option<u64>,
}

/// A task, and whether it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedTask {
    /// The task.
    pub task: ScheduledTask,
    /// Whether it may start turns: its folder or the task itself is trusted.
    pub counts: bool,
}

/// What a change did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskChange {
    /// The file has changed.
    Made,
    /// No task has this id, or it has changed meanwhile.
    NoSuchTask,
}

/// The scheduled tasks of one folder.
#[derive(Debug)]
pub struct ScheduledTasks {
    request: StackRequest,
    /// Set when the first task is judged.
    trust: OnceLock<FolderTrust>,
}

impl SettingsStack {
    /// Returns the scheduled tasks of the folder; `None` if `--setting-sources` leaves out the project's files. Reads
    /// no task yet.
    pub fn scheduled_tasks(&self) -> Option<ScheduledTasks> {
        let request = self.request.clone();
        self.request.sources.project.then(|| ScheduledTasks { request, trust: self.trust.clone() })
    }
}

impl ScheduledTasks {
    /// Returns the stamp of the file, by which a change is noticed; `None` without a file.
    pub fn stamp(&self) -> Option<Stamp> {
        Stamp::at(&self.file())
    }

    /// Reads the tasks, each with whether it counts. A missing file has none; one that cannot be read is an error.
    /// Entries that are not understood are left out, and so are tasks above the limit of 200.
    pub fn read(&self) -> Result<Vec<JudgedTask>, SettingsError> {
        let path = self.file();
        let entries = entries(&path, read_text(&path, MAX_BYTES))?;
        let tasks = entries.iter().filter_map(task_of).take(MAX_TASKS);
        Ok(tasks.map(|task| JudgedTask { counts: self.counts(&task), task }).collect())
    }

    /// Adds a task at the end of the file, which is created if need be. Fails with [`SettingsError::Busy`] while
    /// another writer is at the file, as every change does, and if the file would become too large. It is not checked
    /// whether the id is free or whether [`Self::read`] has reached its limit of tasks.
    pub fn add(&self, task: &ScheduledTask) -> Result<(), SettingsError> {
        self.change(|entries| {
            entries.push(entry_of(task));
            TaskChange::Made
        })
        .map(drop)
    }

    /// Removes the task with this id, and the others that have the same one. [`TaskChange::NoSuchTask`] if there is
    /// none.
    pub fn remove(&self, id: &str) -> Result<TaskChange, SettingsError> {
        self.change(|entries| {
            let before = entries.len();
            entries.retain(|entry| entry["id"] != id);
            if entries.len() < before { TaskChange::Made } else { TaskChange::NoSuchTask }
        })
    }

    /// Notes that a task starts a turn now: a recurring one is marked, another one removed. The turn may only be
    /// started after [`TaskChange::Made`]; the file stays as it is if the task is not in it any more as it was read,
    /// because then another process has started its turn or has changed it.
    pub fn fire(&self, task: &ScheduledTask, now_ms: u64) -> Result<TaskChange, SettingsError> {
        self.change(|entries| {
            let Some(at) = entries.iter().position(|entry| task_of(entry).as_ref() == Some(task)) else {
                return TaskChange::NoSuchTask;
            };
            if task.recurring {
                entries[at]["lastFiredAt"] = json!(now_ms);
            } else {
                entries.remove(at);
            }
            TaskChange::Made
        })
    }

    /// Returns the path of the folder's file of scheduled tasks.
    fn file(&self) -> PathBuf {
        self.request.cwd.join(FILE)
    }

    /// Returns whose file it is: the user's own in the home folder, where `.claude` is the configuration folder,
    /// otherwise the project's.
    fn owner(&self) -> Owner {
        match self.request.config_dir.as_deref() {
            Some(config_dir) if self.file().parent() == Some(config_dir) => Owner::User,
            Some(_) | None => Owner::Project,
        }
    }

    /// Returns whether a task may start turns: the file is the user's own, or its folder or the task itself is trusted.
    /// Trust is looked up once, for the first task that needs it, so a later change of it does not count here.
    pub fn counts(&self, task: &ScheduledTask) -> bool {
        let trust = || self.trust.get_or_init(|| self.request.look_up_trust());
        self.owner() == Owner::User || trust().counts(&item_of(task)) == Counts::Fully
    }

    /// Changes the entries of the file under the lock of its folder. Nothing is written if `change` returns
    /// [`TaskChange::NoSuchTask`]; otherwise the file is created if need be. Fields that are not understood stay; a
    /// file that is not understood as a whole is refused, and so is a result above [`MAX_BYTES`].
    fn change(
        &self,
        change: impl FnOnce(&mut Vec<Value>) -> TaskChange,
    ) -> Result<TaskChange, SettingsError> {
        let mut made = TaskChange::NoSuchTask;
        rewrite(&self.file(), self.owner(), MAX_BYTES, |path, text| {
            let mut document = document(path, text)?;
            let mut entries = match document.get_mut("tasks").map(Value::take) {
                Some(Value::Array(entries)) => entries,
                Some(_) | None => Vec::new(),
            };
            made = change(&mut entries);
            if made == TaskChange::NoSuchTask {
                return Ok(None);
            }
            document.insert("tasks".to_owned(), Value::Array(entries));
            let mut bytes = serde_json::to_vec_pretty(&document).map_err(|error| SettingsError::Io {
                action: "write",
                path: path.to_owned(),
                source: error.into(),
            })?;
            bytes.push(b'\n');
            if bytes.len() as u64 > MAX_BYTES {
                return Err(broken(path, format!("it would be larger than {MAX_BYTES} bytes")));
            }
            Ok(Some(ReplacementContent { bytes, mode: 0o644 }))
        })?;
        Ok(made)
    }
}

/// Returns the tasks of a folder as items that need trust; a file that cannot be read is one item that can never be
/// trusted.
pub(crate) fn items(folder: &Path) -> Vec<ContentItem> {
    let path = folder.join(FILE);
    match entries(&path, read_text(&path, MAX_BYTES)) {
        Ok(entries) => {
            entries.iter().filter_map(task_of).take(MAX_TASKS).map(|task| item_of(&task)).collect()
        }
        Err(error) => vec![ContentItem::unreadable(ContentKind::ScheduledTasks, FILE, &error.to_string())],
    }
}

/// Returns a task as an item. When it last ran is not part of it, because trust would then end with the first turn.
fn item_of(task: &ScheduledTask) -> ContentItem {
    let content = json!([task.cron, task.prompt, task.recurring]).to_string();
    let shown = format!("{}: {}", task.cron, task.prompt);
    ContentItem::new(ContentKind::ScheduledTasks, FILE, task.id.clone(), shown, content.as_bytes())
}

/// Reads one entry of the file; `None` if its id, expression or prompt is missing, empty or no text. Other fields that
/// are not understood get their default.
fn task_of(entry: &Value) -> Option<ScheduledTask> {
    let text = |field: &str| entry.get(field)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let time = |field: &str| entry.get(field)?.as_f64().filter(|ms| *ms >= 0.0).map(|ms| ms as u64);
    Some(ScheduledTask {
        id: text("id")?,
        cron: text("cron")?,
        prompt: text("prompt")?,
        recurring: entry.get("recurring").and_then(Value::as_bool).unwrap_or(false),
        created_ms: time("createdAt").unwrap_or(0),
        last_fired_ms: time("lastFiredAt"),
    })
}

/// Returns a task as an entry of the file, without fields that have their default.
fn entry_of(task: &ScheduledTask) -> Value {
    let mut entry = json!({
        "id": task.id,
        "cron": task.cron,
        "prompt": task.prompt,
        "createdAt": task.created_ms,
    });
    if task.recurring {
        entry["recurring"] = json!(true);
    }
    if let Some(fired) = task.last_fired_ms {
        entry["lastFiredAt"] = json!(fired);
    }
    entry
}

/// Returns the error about a file that cannot be used; `message` says why.
fn broken(path: &Path, message: String) -> SettingsError {
    SettingsError::Broken(Box::new(SettingsProblem::error(&Origin::File(path.to_owned()), None, message)))
}

/// Returns the whole file as an object; empty if there is none. One that is not understood is an error, so that it is
/// not overwritten.
fn document(
    path: &Path,
    text: Result<Option<Text>, ReadFailure>,
) -> Result<Map<String, Value>, SettingsError> {
    let text = match text {
        Ok(None) => return Ok(Map::new()),
        Ok(Some(text)) => text.text,
        Err(failure) => return Err(broken(path, failure.to_string())),
    };
    let document: Map<String, Value> =
        serde_json::from_str(&text).map_err(|error| broken(path, error.to_string()))?;
    match document.get("tasks") {
        None | Some(Value::Array(_)) => Ok(document),
        Some(_) => Err(broken(path, "its `tasks` is not a list".to_owned())),
    }
}

/// Returns the entries in the text of the file as they are; none if there is no file or it has no list of tasks. A file
/// that is not understood is an error.
fn entries(path: &Path, text: Result<Option<Text>, ReadFailure>) -> Result<Vec<Value>, SettingsError> {
    Ok(match document(path, text)?.remove("tasks") {
        Some(Value::Array(entries)) => entries,
        Some(_) | None => Vec::new(),
    })
}

#[cfg(test)]
mod tests;
