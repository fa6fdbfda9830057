//! Removes sessions that nobody has used for long. Careful in three ways: a session that is open is
//! locked and stays; the age is looked at again under the lock, because a session may be taken up between
//! the look and the deletion; and one call removes a bounded number, so that it never takes long.
//!
//! When to call it, and what counts as long, is the caller's business: no clock is read here.

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
    for transcript in transcripts(config_dir) {
        if !is_older(&transcript, cutoff) {
            continue;
        }
        if swept.removed == MOST_REMOVED {
            swept.is_complete = false;
            break;
        }
        match remove(config_dir, &transcript, cutoff) {
            Ok(()) => swept.removed += 1,
            Err(_) => swept.kept += 1,
        }
    }
    swept
}

/// All session files, whatever folder they are of.
fn transcripts(config_dir: &Path) -> impl Iterator<Item = PathBuf> {
    let projects = std::fs::read_dir(paths::projects_dir(config_dir)).into_iter().flatten().flatten();
    let files =
        projects.flat_map(|project| std::fs::read_dir(project.path()).into_iter().flatten().flatten());
    files.map(|file| file.path()).filter(|path| {
        let id = path.file_stem().and_then(|stem| stem.to_str());
        path.extension().is_some_and(|extension| extension == "jsonl") && id.is_some_and(is_session_id)
    })
}

/// Whether the file is older; one whose age cannot be told is not.
fn is_older(path: &Path, cutoff: SystemTime) -> bool {
    path.symlink_metadata().and_then(|file| file.modified()).is_ok_and(|modified| modified < cutoff)
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
    drop(std::fs::remove_dir_all(config_dir.join("file-history").join(session.session_id())));
    Ok(())
}
