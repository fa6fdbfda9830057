//! Files as they were before each prompt, so that a host can go back there (`rewind_files`). Only files that the file
//! tools change are kept, never whole trees; what a shell command changes is not covered.
//!
//! A prompt gets a snapshot: for every file followed so far, the saved copy that it equals. A file is saved right
//! before it is changed for the first time. Both are records of the transcript, so that a later run can go back too;
//! the copies are in `file-history/<session>` (see `store.rs`), the way back is `rewind.rs`.
//!
//! Surprising: a file that could not be saved is not the same as a file that did not exist. It is recorded as
//! uncovered, and a rewind past it says so instead of deleting it.

mod rewind;
mod store;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use lathe_tools::keep::{self, FileMark};
use lathe_transcript::record::{Record, SideRecord};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use rewind::{DryRun, NoRewind};
use store::CheckpointStore;
pub use store::share_copies;

/// The largest number of prompts that a rewind can go back to.
const MAX_SNAPSHOTS: usize = 100;

/// The largest file that is kept.
const MAX_FILE_BYTES: u64 = 32 << 20;

/// The error for a file whose record cannot be used.
const NOWHERE: &str = "its record does not say where it is";

/// The configuration of checkpoints.
#[derive(Debug, Clone)]
pub struct CheckpointsConfig {
    /// The folder for copies of all sessions, `file-history`.
    pub dir: PathBuf,
    /// The folder that file names in records are relative to.
    pub root: PathBuf,
    /// The transcript of a resumed or forked session, with the records of earlier runs.
    pub earlier: Option<PathBuf>,
    /// Whether the copies outlive the run.
    pub lasting: bool,
}

/// The checkpoints of one session.
pub struct FileCheckpoints {
    config: CheckpointsConfig,
    /// Written by prompts and by calls that change files; read by `rewind_files`.
    state: Mutex<State>,
}

/// A saved copy, as records name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Backup {
    /// None: there was no such file.
    backup_file_name: Option<String>,
    version: u32,
    backup_time: String,
    /// The real folder of the file; a rewind follows no link to it.
    #[serde(default)]
    real_parent_dir: PathBuf,
}

/// The files as they were before a prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Snapshot {
    message_id: String,
    #[serde(default)]
    tracked_file_backups: BTreeMap<String, Backup>,
    #[serde(default)]
    timestamp: String,
    /// Files that could not be saved.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    uncovered: BTreeSet<String>,
}

#[derive(Default)]
struct State {
    /// Whether the records of earlier runs have been read.
    loaded: bool,
    /// The session that the snapshots belong to; another one begins without any.
    session: String,
    snapshots: VecDeque<Snapshot>,
    /// The state of each file when it was found to equal its newest copy.
    marks: BTreeMap<String, FileMark>,
    store: CheckpointStore,
    /// The folder that file names in records are relative to.
    root: PathBuf,
    troubles: Vec<String>,
}

/// A moment of a session.
#[derive(Debug, Clone, Copy)]
pub struct CheckpointMoment<'a> {
    pub session: &'a str,
    pub now: &'a str,
}

impl FileCheckpoints {
    /// Begins without reading anything; earlier records are loaded when the first prompt begins.
    pub fn new(config: CheckpointsConfig) -> Self {
        Self { config, state: Mutex::default() }
    }

    /// Begins the checkpoint of the prompt with the id `prompt`: every file followed so far is compared with its copy,
    /// and saved again if it differs; one that cannot be saved is recorded as uncovered. Returns the record for the
    /// session's file. Beyond `MAX_SNAPSHOTS` prompts the oldest is forgotten.
    pub fn begin(&self, prompt: &str, at: CheckpointMoment<'_>) -> SideRecord {
        let mut state = self.state(at.session);
        let files = state.snapshots.back().map(|last| last.tracked_file_backups.clone()).unwrap_or_default();
        // In place before anything is saved for it: otherwise its copies would not count as needed when room is made
        // for the next one.
        state.snapshots.push_back(Snapshot {
            message_id: prompt.to_owned(),
            timestamp: at.now.to_owned(),
            ..Snapshot::default()
        });
        for (name, backup) in files {
            let refreshed = state.refresh(&name, &backup, at.now);
            if let Err(error) = &refreshed {
                state.tell(&name, error);
            }
            let Some(snapshot) = state.snapshots.back_mut() else { continue };
            match refreshed {
                Ok(backup) => drop(snapshot.tracked_file_backups.insert(name, backup)),
                Err(_) => drop(snapshot.uncovered.insert(name)),
            }
        }
        state.forget_oldest(MAX_SNAPSHOTS);
        state.snapshots.back().unwrap_or(&Snapshot::default()).record(IsUpdate::No)
    }

    /// Saves a file that a call is about to change, once per prompt; must be called before the change. Returns the
    /// record for the session's file, also if the file could not be saved. `None` if no prompt has begun, or the file
    /// was saved or tried before.
    pub fn before_change(&self, path: &Path, call: &str, at: CheckpointMoment<'_>) -> Option<SideRecord> {
        let mut state = self.state(at.session);
        let name = self.name_of(path);
        let snapshot = state.snapshots.back()?;
        // A file that could not be saved is not tried again: the call may have changed it since.
        if snapshot.tracked_file_backups.contains_key(&name) || snapshot.uncovered.contains(&name) {
            return None;
        }
        let prompt = snapshot.message_id.clone();
        match state.save(&name, path, 0, at.now) {
            Ok(backup) => {
                let record = SideRecord::FileHistoryDelta {
                    message_id: call.to_owned(),
                    snapshot_message_id: prompt,
                    tracking_path: name.clone(),
                    backup: json!(backup),
                    timestamp: at.now.to_owned(),
                    extra: Map::new(),
                };
                state.snapshots.back_mut()?.tracked_file_backups.insert(name, backup);
                Some(record)
            }
            Err(error) => {
                state.tell(&name, &error);
                let snapshot = state.snapshots.back_mut()?;
                snapshot.uncovered.insert(name);
                Some(snapshot.record(IsUpdate::Yes))
            }
        }
    }

    /// Takes the messages about files that could not be saved, for the host. Each is returned once.
    pub fn take_troubles(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().troubles)
    }

    /// Ends the run. Deletes the copies if the session is not kept, which blocks on the disk; otherwise does nothing.
    pub fn close(&self) {
        if !self.config.lasting {
            self.lock().store.remove_all();
        }
    }

    /// Returns the name that records use for a file: relative to the project, or absolute outside of it.
    fn name_of(&self, path: &Path) -> String {
        path.strip_prefix(&self.config.root).unwrap_or(path).display().to_string()
    }

    /// Locks the state for this session, which has another id after `/clear`. For an id other than the last one it
    /// starts again without snapshots, and the copies of a session that is not kept are deleted. The records of earlier
    /// runs are loaded once, for the first session.
    fn state(&self, session: &str) -> std::sync::MutexGuard<'_, State> {
        let mut state = self.lock();
        if state.session != session {
            let first = !std::mem::replace(&mut state.loaded, true);
            // A session that is not kept must leave nothing behind when `/clear` begins another one.
            if !self.config.lasting {
                state.store.remove_all();
            }
            *state = State { loaded: true, session: session.to_owned(), ..State::default() };
            state.store = CheckpointStore::open(self.config.dir.join(session));
            state.root.clone_from(&self.config.root);
            // The records of earlier runs belong to the first session, not to one that `/clear` has begun.
            if let Some(path) = self.config.earlier.as_deref().filter(|_| first) {
                state.load(path);
            }
        }
        state
    }

    /// Locks the state. A panic under the lock does not end the checkpoints of the session: a poisoned lock is used as
    /// it is.
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a record replaces one of the same prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IsUpdate {
    Yes,
    No,
}

impl Snapshot {
    /// Returns the snapshot as a record of the session file, marked as a new snapshot or as an update of one.
    fn record(&self, update: IsUpdate) -> SideRecord {
        SideRecord::FileHistorySnapshot {
            message_id: self.message_id.clone(),
            snapshot: json!(self),
            is_snapshot_update: update == IsUpdate::Yes,
            extra: Map::new(),
        }
    }
}

impl Backup {
    /// Returns where the file is. Older records do not say it, and for them it is the name below `root`. `None` if the
    /// name leads elsewhere (`..`), or the recorded folder is not absolute.
    fn path(&self, name: &str, root: &Path) -> Option<PathBuf> {
        let name = Path::new(name);
        if self.real_parent_dir.as_os_str().is_empty() {
            let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::RootDir);
            return name.components().all(is_plain).then(|| root.join(name));
        }
        self.real_parent_dir
            .is_absolute()
            .then(|| self.real_parent_dir.join(name.file_name().unwrap_or_default()))
    }
}

impl State {
    /// Returns the copy that a followed file equals now: the one it had, or a new one, which is saved. The error is for
    /// people and means that the file is not covered.
    fn refresh(&mut self, name: &str, backup: &Backup, now: &str) -> Result<Backup, String> {
        let path = backup.path(name, &self.root).ok_or(NOWHERE)?;
        let mark = keep::mark(&path);
        // The same mark means an unchanged file, which need not be read.
        if mark.is_some() && mark == self.marks.get(name).copied() {
            return Ok(backup.clone());
        }
        let is_there = mark.is_some();
        match &backup.backup_file_name {
            None if !is_there => return Ok(backup.clone()),
            Some(file) if is_there => {
                let now = keep::take(&path, MAX_FILE_BYTES).map_err(|error| error.to_string())?;
                if let (Some((copy, mark)), Ok(kept)) = (now, self.store.read(file))
                    && copy == kept
                {
                    self.marks.insert(name.to_owned(), mark);
                    return Ok(backup.clone());
                }
            }
            Some(_) | None => {}
        }
        self.save(name, &path, backup.version, now)
    }

    /// Saves the current content of a file as the version after `version`, or a later one if that name is taken. A file
    /// that does not exist is recorded as such, without a copy. If there is no room, the oldest prompts are forgotten
    /// first.
    fn save(&mut self, name: &str, path: &Path, version: u32, now: &str) -> Result<Backup, String> {
        let mut backup = Backup {
            backup_file_name: None,
            version: version + 1,
            backup_time: now.to_owned(),
            real_parent_dir: path.parent().unwrap_or(Path::new("/")).to_owned(),
        };
        // Until the copy is written, nothing may say that the file equals it.
        self.marks.remove(name);
        let taken = keep::take(path, MAX_FILE_BYTES).map_err(|error| error.to_string())?;
        let Some((copy, mark)) = taken else { return Ok(backup) };
        // The oldest prompts make room for the newest.
        while !self.store.has_room(copy.bytes.len()) && self.snapshots.len() > 1 {
            self.forget_oldest(self.snapshots.len() - 1);
        }
        (backup.backup_file_name, backup.version) =
            self.store.write(path, version + 1, &copy).map(|(name, version)| (Some(name), version))?;
        self.marks.insert(name.to_owned(), mark);
        Ok(backup)
    }

    /// Drops all but the newest `most` prompts, and deletes the copies that none of the others needs.
    fn forget_oldest(&mut self, most: usize) {
        let before = self.snapshots.len();
        while self.snapshots.len() > most {
            self.snapshots.pop_front();
        }
        if self.snapshots.len() < before {
            let backups = self.snapshots.iter().flat_map(|snapshot| snapshot.tracked_file_backups.values());
            let needed: BTreeSet<&str> =
                backups.filter_map(|backup| backup.backup_file_name.as_deref()).collect();
            self.store.remove_all_but(&needed);
        }
    }

    /// Keeps a message that a file cannot be rewound; [`FileCheckpoints::take_troubles`] hands it out.
    fn tell(&mut self, name: &str, why: &str) {
        self.troubles.push(format!("{name} cannot be rewound to before this prompt: {why}"));
    }

    /// Restores the snapshots from the records that earlier runs left in the session's file. If it cannot be read, the
    /// host is told and there are none.
    fn load(&mut self, transcript: &Path) {
        let kinds = ["file-history-snapshot", "file-history-delta"];
        let records = match lathe_transcript::records_of(transcript, &kinds) {
            Ok(records) => records,
            Err(error) => {
                return self.troubles.push(format!("checkpoints of earlier runs are lost: {error}"));
            }
        };
        for record in records {
            match record {
                Record::Side(SideRecord::FileHistorySnapshot { snapshot, .. }) => {
                    self.take_snapshot(snapshot)
                }
                Record::Side(SideRecord::FileHistoryDelta {
                    snapshot_message_id,
                    tracking_path,
                    backup,
                    ..
                }) => {
                    let snapshot = self.snapshots.iter_mut().rfind(|s| s.message_id == snapshot_message_id);
                    if let (Some(snapshot), Ok(backup)) = (snapshot, serde_json::from_value(backup)) {
                        snapshot.tracked_file_backups.insert(tracking_path, backup);
                    }
                }
                Record::Side(_) | Record::Chain(_) => {}
            }
        }
        while self.snapshots.len() > MAX_SNAPSHOTS {
            self.snapshots.pop_front();
        }
    }

    /// Adds a snapshot that was read from a record. A record for a known prompt is an update and is merged into it; one
    /// that cannot be parsed is ignored.
    fn take_snapshot(&mut self, snapshot: Value) {
        let Ok(snapshot) = serde_json::from_value::<Snapshot>(snapshot) else { return };
        match self.snapshots.iter_mut().rfind(|known| known.message_id == snapshot.message_id) {
            Some(known) => {
                known.tracked_file_backups.extend(snapshot.tracked_file_backups);
                known.uncovered.extend(snapshot.uncovered);
            }
            None => self.snapshots.push_back(snapshot),
        }
    }
}

#[cfg(test)]
mod tests;
