//! Removes sessions that have not been used for a long time, with three precautions: a session that is open is locked
//! and stays; the age is checked again under the lock, because a session may be resumed between the check and the
//! deletion; and one call removes a limited number, so that it never takes long.
//!
//! The folders of a session are removed with it. Folders of sessions whose file is gone (some programs delete only the
//! file) are removed too, when they are old enough, and snapshots of shells that killed sessions left behind.
//!
//! The caller decides when to call it and what is old: no clock is read here.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::{Result, TranscriptError};
use crate::paths::{self, SessionPaths, is_session_id};
use crate::writer;

/// The number of sessions that one call removes at most.
pub const MOST_REMOVED: usize = 500;

/// The result of a sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// The number of sessions that were removed.
    pub removed: usize,
    /// The number of old sessions that remain, because they are in use or cannot be deleted.
    pub kept: usize,
    /// Whether every session was checked.
    pub is_complete: bool,
}

/// Returns the path at which the snapshot of a session's shell is kept; `shell` is the name of the program, without a
/// dash.
pub fn shell_snapshot(config_dir: &Path, shell: &str, session_id: &str) -> PathBuf {
    shell_snapshots(config_dir).join(format!("snapshot-{shell}-{session_id}.sh"))
}

/// Returns the folder with the snapshots of shells.
fn shell_snapshots(config_dir: &Path) -> PathBuf {
    config_dir.join("shell-snapshots")
}

/// Deletes the sessions under `config_dir` that were last written before `cutoff`, with everything that belongs to
/// them, and leftovers of deleted sessions and shells. A session that is open is kept, and one call removes at most
/// [`MOST_REMOVED`]; a leftover folder counts as a session, while snapshots have the same limit of their own. Errors
/// are counted and do not stop the sweep.
pub fn sweep(config_dir: &Path, cutoff: SystemTime) -> Swept {
    let mut swept = Swept { is_complete: true, ..Swept::default() };
    let folders: Vec<PathBuf> = entries(&paths::projects_dir(config_dir)).collect();
    let transcripts: Vec<PathBuf> =
        folders.iter().flat_map(|folder| entries(folder)).filter(|path| is_transcript(path)).collect();
    let known: HashSet<&OsStr> = transcripts.iter().filter_map(|path| path.file_stem()).collect();
    let is_left = |path: &PathBuf| path.file_name().is_some_and(|name| is_id(name) && !known.contains(name));
    let beside = folders_beside(config_dir);
    let left = folders.iter().chain(&beside).flat_map(|folder| entries(folder)).filter(is_left);
    let files = transcripts.iter().cloned().map(|path| (path, Kind::File));
    let all = files.chain(left.map(|path| (path, Kind::Left)));
    for (path, kind) in all.filter(|(path, kind)| kind.is_at(path) && is_older(path, cutoff)) {
        if swept.removed == MOST_REMOVED {
            swept.is_complete = false;
            break;
        }
        let outcome = match kind {
            Kind::File => remove(config_dir, &path, cutoff),
            Kind::Left => remove_left(&path),
        };
        match outcome {
            Ok(()) => swept.removed += 1,
            Err(_) => swept.kept += 1,
        }
    }
    let snapshots = entries(&shell_snapshots(config_dir));
    let is_left = |path: &PathBuf| is_snapshot(path) && Kind::File.is_at(path) && is_older(path, cutoff);
    for snapshot in snapshots.filter(is_left).take(MOST_REMOVED) {
        // One that cannot be deleted does no harm.
        drop(std::fs::remove_file(snapshot));
    }
    swept
}

/// Removes the output of commands of sessions that was last written before `cutoff`, and project folders that are then
/// empty. `folder` holds a folder for each project, with one for each of its sessions; others can write beside it, so
/// nothing is removed unless it belongs to this user. Returns false if [`MOST_REMOVED`] was reached before every
/// session was checked, and true also if `folder` is missing or another user's.
pub fn sweep_outputs(folder: &Path, cutoff: SystemTime) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let is_own =
        |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
    if !is_own(folder) {
        return true;
    }
    let mut removed = 0;
    for project in entries(folder).filter(|path| is_own(path)) {
        let sessions = entries(&project).filter(|path| path.file_name().is_some_and(is_id) && is_own(path));
        for session in sessions.filter(|path| entries(path).all(|inner| is_older(&inner, cutoff))) {
            if removed == MOST_REMOVED {
                return false;
            }
            // What cannot be removed is tried again by a later sweep.
            drop(std::fs::remove_dir_all(&session));
            removed += 1;
        }
        // Fails unless it is empty, which is when it goes.
        drop(std::fs::remove_dir(&project));
    }
    true
}

/// The kind of a path that may be removed.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// The file of a session.
    File,
    /// The folder of a session whose file is gone.
    Left,
}

impl Kind {
    /// Returns whether the path is of this kind. Anything else with such a name, such as a link, is not deleted.
    fn is_at(self, path: &Path) -> bool {
        let Ok(found) = path.symlink_metadata() else { return false };
        match self {
            Self::File => found.is_file(),
            Self::Left => found.is_dir(),
        }
    }
}

/// Returns the paths of the entries of a folder; none if it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Returns the folders that hold a folder for each session besides `projects`: with saved files, and with task lists.
/// Lists with a name of their own stay.
fn folders_beside(config_dir: &Path) -> [PathBuf; 2] {
    ["file-history", "tasks"].map(|name| config_dir.join(name))
}

/// Returns whether the path has the name of a session file: a session id and `.jsonl`.
fn is_transcript(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl") && path.file_stem().is_some_and(is_id)
}

/// Returns whether the path has the name of the snapshot of a session's shell. Other programs have some there, too.
fn is_snapshot(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let kind_and_id = name.strip_prefix("snapshot-").and_then(|name| name.strip_suffix(".sh"));
    kind_and_id.and_then(|name| name.split_once('-')).is_some_and(|(_, id)| is_session_id(id))
}

/// Returns whether a name is a session id. Nothing with another name is ever deleted.
fn is_id(name: &OsStr) -> bool {
    name.to_str().is_some_and(is_session_id)
}

/// Returns whether a file was last written before `cutoff`, or a folder and all its direct entries. An unknown age
/// counts as new.
fn is_older(path: &Path, cutoff: SystemTime) -> bool {
    let is_old = |path: &Path| {
        path.symlink_metadata().and_then(|found| found.modified()).is_ok_and(|modified| modified < cutoff)
    };
    is_old(path) && (!path.is_dir() || entries(path).all(|inner| is_old(&inner)))
}

/// Deletes a session and its folders; folders that cannot be deleted are left for a later sweep. Fails with `Locked` if
/// it is open or was written since `cutoff`, which is checked again under the lock: a run may have resumed and ended
/// the session since it was listed.
fn remove(config_dir: &Path, transcript: &Path, cutoff: SystemTime) -> Result<()> {
    let failed = |error| TranscriptError::io("delete", transcript, error);
    let file = OpenOptions::new().read(true).open(transcript).map_err(failed)?;
    writer::lock(&file, transcript)?;
    let modified = file.metadata().and_then(|file| file.modified()).map_err(failed)?;
    if modified >= cutoff {
        return Err(TranscriptError::Locked { path: transcript.to_owned(), holder: None });
    }
    std::fs::remove_file(transcript).map_err(failed)?;
    let session = SessionPaths::of_transcript(transcript);
    // Errors are ignored: a folder that remains has no session file, and a later sweep removes it.
    drop(std::fs::remove_dir_all(session.dir()));
    for folder in folders_beside(config_dir) {
        drop(std::fs::remove_dir_all(folder.join(session.session_id())));
    }
    Ok(())
}

/// Deletes the folder of a session whose file no longer exists, with everything in it.
fn remove_left(folder: &Path) -> Result<()> {
    std::fs::remove_dir_all(folder).map_err(|error| TranscriptError::io("delete", folder, error))
}
