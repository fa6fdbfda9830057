//! A list of tasks on disk: a folder with one JSON file a task, named by its number, that several agents, sessions and
//! processes use at the same time.
//!
//! Every change is made under the lock of the list, `flock` on its file `.lock`, and each file is replaced by a rename,
//! so that readers need no lock. Numbers are never used twice: `.highwatermark` holds the highest one that was given
//! out, and is written before the task is. Fields of other programs in a task file stay as they are.
//!
//! The surprising thing: a task that is done stays in the `blockedBy` of the tasks it blocked. It is left out only when
//! a task is shown ([`TaskListContent::open_blockers`]), so a task that is reopened blocks again.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The most tasks of one list.
const MOST_TASKS: usize = 1000;

/// The most bytes of one task's file.
const TASK_BYTES: u64 = 256 << 10;

/// The file of a list that is locked for a change.
const LOCK: &str = ".lock";

/// The file with the highest number that was given out.
const HIGHEST: &str = ".highwatermark";
/// The file that replaces another one. Only the holder of the lock uses it, so one name is enough.
const TEMPORARY: &str = ".lathe-tmp";

/// The status of a task that is done.
pub(crate) const COMPLETED: &str = "completed";

/// A list of tasks, by its folder; neither need exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskListStore {
    folder: PathBuf,
}

/// One task, as its file holds it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedTask {
    /// A number.
    pub id: String,
    pub subject: String,
    #[serde(default)]
    pub description: String,
    /// The subject while the task is being worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
    /// The agent that works on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// `pending`, `in_progress`, `completed`, or a word of another program.
    #[serde(default = "pending")]
    pub status: String,
    /// The tasks that wait for this one.
    #[serde(default)]
    pub blocks: Vec<String>,
    /// The tasks that this one waits for, those that are done included.
    #[serde(default)]
    pub blocked_by: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// What other programs have written.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Returns the status of a task whose file names none.
fn pending() -> String {
    "pending".to_owned()
}

impl ListedTask {
    /// Returns whether a program keeps the task for itself, so that the model is not shown it.
    pub fn is_internal(&self) -> bool {
        let marked = self.metadata.as_ref().and_then(|metadata| metadata.get("_internal"));
        marked == Some(&Value::Bool(true))
    }
}

/// The tasks of a list at one moment.
#[derive(Debug, Default)]
pub(crate) struct TaskListContent {
    /// By number.
    pub tasks: BTreeMap<u64, ListedTask>,
    /// Files with the name of a task that hold none.
    pub damaged: Vec<String>,
}

impl TaskListContent {
    /// Returns the task with this id, as [`number`] reads it; `None` if the list has no such task.
    pub fn get(&self, id: &str) -> Option<&ListedTask> {
        self.tasks.get(&number(id)?)
    }

    /// Returns the ids of the tasks that exist, are not done and block this one.
    pub fn open_blockers(&self, task: &ListedTask) -> Vec<String> {
        let is_open = |id: &&String| self.get(id).is_some_and(|blocker| blocker.status != COMPLETED);
        task.blocked_by.iter().filter(is_open).cloned().collect()
    }
}

/// Returns the number that an id stands for, however the model wrote it: with a `#`, zeros or spaces in front. `None`
/// if it is not a number.
pub(crate) fn number(id: &str) -> Option<u64> {
    let digits = id.trim().trim_start_matches('#');
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// Why a list could not be read or changed. The model reads it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskListError {
    /// Another agent or program changes the list.
    #[error("the task list {} is in use", folder.display())]
    Busy { folder: PathBuf },
    /// The list is full.
    #[error("the task list holds {MOST_TASKS} tasks, which is the most; delete those that are done")]
    Full,
    /// The task is too large for its file.
    #[error("a task may have {TASK_BYTES} bytes, and this one would have {bytes}")]
    TooLarge { bytes: usize },
    /// The call was cancelled before it began.
    #[error("the call was cancelled")]
    Cancelled,
    /// Anything else.
    #[error("the task list {} could not be {action}: {source}", folder.display())]
    Io { action: &'static str, folder: PathBuf, source: io::Error },
}

impl TaskListStore {
    /// Returns the list with this name below the folder of lists. Characters that a folder name should not contain
    /// become dashes. Nothing is created.
    pub fn new(lists: &Path, name: &str) -> Self {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let name: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
        Self { folder: lists.join(name) }
    }

    /// Returns the error of a failed step of the file system; `action` is the participle that the message contains.
    fn failed(&self, action: &'static str, source: impl Into<io::Error>) -> TaskListError {
        TaskListError::Io { action, folder: self.folder.clone(), source: source.into() }
    }

    /// Reads all tasks. A list without a folder is empty; files that hold no task are listed as damaged and fail
    /// nothing.
    pub(crate) fn read(&self) -> Result<TaskListContent, TaskListError> {
        match open_folder(&self.folder) {
            Ok(dir) => self.read_at(&dir),
            Err(Errno::NOENT) => Ok(TaskListContent::default()),
            Err(errno) => Err(self.failed("read", errno)),
        }
    }

    /// Reads all tasks of an open folder. Needs no lock, because files are replaced by a rename. A file whose name is a
    /// number and that contains no task of this number is listed as damaged.
    fn read_at(&self, dir: &OwnedFd) -> Result<TaskListContent, TaskListError> {
        let mut content = TaskListContent::default();
        for entry in Dir::read_from(dir).map_err(|errno| self.failed("read", errno))? {
            let entry = entry.map_err(|errno| self.failed("read", errno))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(id) = name.strip_suffix(".json").and_then(number) else { continue };
            // A file that is gone was deleted since its name was read.
            let Some(bytes) = read_file(dir, &name, TASK_BYTES).transpose() else { continue };
            let task = bytes.ok().and_then(|bytes| serde_json::from_slice::<ListedTask>(&bytes).ok());
            match task.filter(|task| number(&task.id) == Some(id)) {
                Some(task) => drop(content.tasks.insert(id, task)),
                None => content.damaged.push(name),
            }
        }
        content.damaged.sort();
        Ok(content)
    }

    /// Takes the lock of the list until the result is dropped, and creates its folder if it is missing. Fails at once
    /// with `Busy` if the lock is held, also by another agent of this process.
    pub(crate) fn lock(&self) -> Result<LockedTasks<'_>, TaskListError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.map_err(|error| self.failed("made", error))?;
        let dir = open_folder(&self.folder).map_err(|errno| self.failed("opened", errno))?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock =
            rustix::fs::openat(&dir, LOCK, flags, PRIVATE).map_err(|errno| self.failed("locked", errno))?;
        match rustix::io::retry_on_intr(|| rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive))
        {
            Ok(()) => Ok(LockedTasks { list: self, dir, _lock: lock }),
            Err(Errno::WOULDBLOCK) => Err(TaskListError::Busy { folder: self.folder.clone() }),
            Err(errno) => Err(self.failed("locked", errno)),
        }
    }
}

/// Tasks are their user's alone.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Opens the folder of a list for access relative to it.
fn open_folder(folder: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, folder, flags, Mode::empty())
}

/// Reads a file of the folder; `None` if there is none. Fails if it has more than `most` bytes or is a link.
fn read_file(dir: &OwnedFd, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
    // Without waiting: a name that leads to a pipe must not hold the list.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::other("the file is too large")),
        false => Ok(Some(bytes)),
    }
}

/// A list whose lock is held until this value is dropped.
pub(crate) struct LockedTasks<'a> {
    list: &'a TaskListStore,
    dir: OwnedFd,
    _lock: OwnedFd,
}

impl LockedTasks<'_> {
    /// Reads all tasks, as no other holder of the lock can change them meanwhile.
    pub fn read(&self) -> Result<TaskListContent, TaskListError> {
        self.list.read_at(&self.dir)
    }

    /// Returns the next number, which is never given out again, whether or not a task is written under it. Fails with
    /// `Full` if the list has [`MOST_TASKS`] tasks.
    pub fn new_id(&self) -> Result<String, TaskListError> {
        let content = self.read()?;
        if content.tasks.len() + content.damaged.len() >= MOST_TASKS {
            return Err(TaskListError::Full);
        }
        let given = read_file(&self.dir, HIGHEST, 64).map_err(|error| self.list.failed("read", error))?;
        let given = given.and_then(|bytes| number(std::str::from_utf8(&bytes).ok()?)).unwrap_or(0);
        let taken = content.tasks.keys().copied();
        let damaged = content.damaged.iter().filter_map(|name| number(name.strip_suffix(".json")?));
        let highest = taken.chain(damaged).max().unwrap_or(0).max(given);
        let id = highest.saturating_add(1).to_string();
        self.replace(HIGHEST, id.as_bytes())?;
        Ok(id)
    }

    /// Writes a task into the file of its id, in place of what was there. Fails with `TooLarge` if it has more than
    /// [`TASK_BYTES`].
    pub fn write(&self, task: &ListedTask) -> Result<(), TaskListError> {
        let bytes = serde_json::to_vec_pretty(task).map_err(|error| self.list.failed("written", error))?;
        if bytes.len() as u64 > TASK_BYTES {
            return Err(TaskListError::TooLarge { bytes: bytes.len() });
        }
        self.replace(&format!("{}.json", task.id), &bytes)
    }

    /// Removes the id of a task from the other tasks, then deletes the task; in this order, so that a crash in between
    /// leaves no reference to a missing task. No effect on a missing task. `id` must be written as in the files: a
    /// plain number.
    pub fn delete(&self, id: &str) -> Result<(), TaskListError> {
        for (_, mut task) in self.read()?.tasks {
            let before = (task.blocks.len(), task.blocked_by.len());
            task.blocks.retain(|other| other != id);
            task.blocked_by.retain(|other| other != id);
            if before != (task.blocks.len(), task.blocked_by.len()) {
                self.write(&task)?;
            }
        }
        match rustix::fs::unlinkat(&self.dir, format!("{id}.json"), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.list.failed("changed", errno)),
        }
    }

    /// Replaces a file by a rename, so that readers see either the old or the new content. It is not synced to the
    /// disk.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), TaskListError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // A file that exists was left by a writer that died: a living one would hold the lock.
        match rustix::fs::unlinkat(&self.dir, TEMPORARY, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(self.list.failed("changed", errno)),
        }
        let written = rustix::fs::openat(self.dir.as_fd(), TEMPORARY, flags, PRIVATE)
            .map_err(io::Error::from)
            .and_then(|file| File::from(file).write_all(bytes))
            .and_then(|()| Ok(rustix::fs::renameat(&self.dir, TEMPORARY, &self.dir, name)?));
        written.map_err(|error| {
            // If this fails too, the next writer removes the file.
            let _ = rustix::fs::unlinkat(&self.dir, TEMPORARY, AtFlags::empty());
            self.list.failed("written", error)
        })
    }
}

#[cfg(test)]
mod tests;
