//! Removes sessions that nobody has used for long. Careful in three ways: a session that is open is
//! locked and stays; the age is looked at again under the lock, because a session may be taken up between
//! the look and the deletion; and one call removes a bounded number, so that it never takes long.
//!
//! What belongs to a session goes with it. What is left of sessions whose file is gone (another program deletes
//! only that) goes as well, when it is old enough.
//!
//! When to call it, and what counts as long, is the caller's business: no clock is read here.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::{Result, TranscriptError};
use crate::paths::{self, SessionPaths, is_session_id};
use crate::writer;

/// Sessions that one call removes at most.
pub const MOST_REMOVED: usize = 500;

/// What became of old sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Gone, with everything that belonged to them.
    pub removed: usize,
    /// Old, and still there: in use, or not ours to delete.
    pub kept: usize,
    /// Whether every session was looked at.
    pub is_complete: bool,
}

/// Removes the sessions under `config_dir` that were last written before `cutoff`.
pub fn sweep(config_dir: &Path, cutoff: SystemTime) -> Swept {
    let mut swept = Swept { is_complete: true, ..Swept::default() };
    let folders: Vec<PathBuf> = entries(&paths::projects_dir(config_dir)).collect();
    let transcripts: Vec<PathBuf> =
        folders.iter().flat_map(|folder| entries(folder)).filter(|path| is_transcript(path)).collect();
    let known: HashSet<&OsStr> = transcripts.iter().filter_map(|path| path.file_stem()).collect();
    let is_left = |path: &PathBuf| path.file_name().is_some_and(|name| is_id(name) && !known.contains(name));
    let histories = file_histories(config_dir);
    let left = folders.iter().chain([&histories]).flat_map(|folder| entries(folder)).filter(is_left);
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
    swept
}

/// What there may be of a session.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Its file.
    File,
    /// A folder that belonged to a file that is gone.
    Left,
}

impl Kind {
    /// Whether this is what lies there; whatever else has such a name, a link say, is not ours to delete.
    fn is_at(self, path: &Path) -> bool {
        let Ok(found) = path.symlink_metadata() else { return false };
        match self {
            Self::File => found.is_file(),
            Self::Left => found.is_dir(),
        }
    }
}

/// What is in a folder.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Where the saved files of all sessions are.
fn file_histories(config_dir: &Path) -> PathBuf {
    config_dir.join("file-history")
}

/// Whether this is called like the file of a session.
fn is_transcript(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl") && path.file_stem().is_some_and(is_id)
}

fn is_id(name: &OsStr) -> bool {
    name.to_str().is_some_and(is_session_id)
}

/// Whether a file is older, or a folder with everything right in it; what has no age that can be told is not.
fn is_older(path: &Path, cutoff: SystemTime) -> bool {
    let is_old = |path: &Path| {
        path.symlink_metadata().and_then(|found| found.modified()).is_ok_and(|modified| modified < cutoff)
    };
    is_old(path) && (!path.is_dir() || entries(path).all(|inner| is_old(&inner)))
}

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
    // What belongs to it is of no use without it; what cannot be removed is looked for by nobody.
    drop(std::fs::remove_dir_all(session.dir()));
    drop(std::fs::remove_dir_all(file_histories(config_dir).join(session.session_id())));
    Ok(())
}

/// Removes the folder of a session that is gone.
fn remove_left(folder: &Path) -> Result<()> {
    std::fs::remove_dir_all(folder).map_err(|error| TranscriptError::io("delete", folder, error))
}
