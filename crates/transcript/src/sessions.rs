//! The sessions under a configuration directory: finding, listing, renaming, deleting.
//!
//! A rename is one more record, appended without the session's lock: one append cannot split another, and a person may
//! rename a session that is running. Deleting takes the lock, because a running session would write to a deleted file.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::{Result, TranscriptError};
use crate::paths::{self, SessionPaths, is_session_id};
use crate::peek::{self, SessionInfo};
use crate::record::{Line, SideRecord};
use crate::writer;

/// All sessions of a configuration directory.
#[derive(Debug, Clone)]
pub struct Sessions {
    config_dir: PathBuf,
}

/// The projects whose sessions are searched.
#[derive(Debug, Clone, Copy)]
pub enum SessionScope<'a> {
    /// Those of these directories: the working directory, and the other worktrees of its repository if the caller adds
    /// them.
    Projects(&'a [&'a Path]),
    /// All projects.
    Everywhere,
}

/// A part of a list.
#[derive(Debug, Clone, Copy, Default)]
pub struct Page {
    /// How many entries to skip.
    pub offset: usize,
    /// How many entries to return at most.
    pub limit: Option<usize>,
}

/// A file with the name of a session file.
struct Candidate {
    path: PathBuf,
    modified: SystemTime,
}

impl Sessions {
    /// Creates a view of the sessions under `config_dir`. Nothing is read yet, and the folder need not exist.
    pub fn new(config_dir: &Path) -> Self {
        Self { config_dir: config_dir.to_owned() }
    }

    /// Returns the paths of a session that is started in `cwd`; it need not exist. An id that is not a UUID is an
    /// error.
    pub fn paths(&self, cwd: &Path, session_id: &str) -> Result<SessionPaths> {
        check_id(session_id)?;
        Ok(SessionPaths::new(&self.config_dir, cwd, session_id))
    }

    /// Returns the sessions in `scope` that have something to show, the last changed first. Files that cannot be read
    /// are left out.
    pub fn list(&self, scope: SessionScope<'_>, page: Page) -> Vec<SessionInfo> {
        let shown =
            self.candidates(scope).into_iter().filter_map(|candidate| peek::peek(&candidate.path).ok()?);
        shown.skip(page.offset).take(page.limit.unwrap_or(usize::MAX)).collect()
    }

    /// Returns the session that changed last in the project of `cwd` (`--continue`); `None` if there is none. `cwd`
    /// must be resolved; sessions of other folders with the same project key do not count, but those that name no
    /// folder do.
    pub fn newest_for_cwd(&self, cwd: &Path) -> Option<SessionInfo> {
        // Folders whose names differ only in punctuation share a project directory, but must not share sessions. The
        // last record counts as well as the first, because a copy begins with records of the folder of its original.
        let is_here =
            |of: &String| Path::new(of) == cwd || Path::new(of).canonicalize().is_ok_and(|of| of == cwd);
        let here = |session: &SessionInfo| match (&session.cwd, &session.last_cwd) {
            (None, None) => true,
            (first, last) => first.iter().chain(last).any(is_here),
        };
        let candidates = self.candidates(SessionScope::Projects(&[cwd])).into_iter();
        candidates.filter_map(|candidate| peek::peek(&candidate.path).ok()?).find(here)
    }

    /// Returns the project directory for a session that runs in `cwd` and is a copy of the one at `source`: the
    /// directory of the original, if sessions of `cwd` are searched there, otherwise the usual one.
    pub fn dir_of_copy(&self, cwd: &Path, source: &Path) -> PathBuf {
        let mut dirs = self.project_dirs(cwd);
        let beside = source.parent().filter(|dir| dirs.iter().any(|known| known == dir));
        beside.map_or_else(|| dirs.swap_remove(0), Path::to_owned)
    }

    /// Returns the paths of a session found by its id, in the project of `cwd` or else in any other. Empty files and
    /// links do not count; without a match the error is `NotFound`.
    pub fn find_by_id_anywhere(&self, cwd: &Path, session_id: &str) -> Result<SessionPaths> {
        check_id(session_id)?;
        let here = self.project_dirs(cwd).into_iter();
        let found = here.chain(self.all_project_dirs()).find_map(|dir| {
            let paths = SessionPaths::in_project_dir(&dir, session_id);
            // An empty file counts as absent, and so does a link, because nothing is written through a link.
            paths
                .transcript()
                .symlink_metadata()
                .is_ok_and(|file| file.is_file() && file.len() > 0)
                .then_some(paths)
        });
        found.ok_or_else(|| TranscriptError::NotFound {
            path: SessionPaths::new(&self.config_dir, cwd, session_id).transcript(),
        })
    }

    /// Returns the last changed session with exactly this title (`title` is trimmed), in the project of `cwd` or else
    /// in any other; `None` if there is none or the title is blank.
    pub fn find_by_title(&self, cwd: &Path, title: &str) -> Option<SessionInfo> {
        let title = title.trim();
        let in_scope = |scope| {
            let mut shown = self
                .candidates(scope)
                .into_iter()
                .filter_map(|candidate| peek::peek(&candidate.path).ok()?);
            shown.find(|session| session.custom_title.as_deref() == Some(title))
        };
        if title.is_empty() {
            return None;
        }
        in_scope(SessionScope::Projects(&[cwd])).or_else(|| in_scope(SessionScope::Everywhere))
    }

    /// Returns the list entry of one session; `None` if a list would not show it. A session that does not exist is an
    /// error.
    pub fn info(&self, cwd: &Path, session_id: &str) -> Result<Option<SessionInfo>> {
        let path = self.find_by_id_anywhere(cwd, session_id)?.transcript();
        peek::peek(&path).map_err(|error| TranscriptError::io("read", &path, error))
    }

    /// Returns all project directories that may hold the sessions of `cwd`, the usual one first; for long paths every
    /// one with the same first 200 characters. They need not exist.
    fn project_dirs(&self, cwd: &Path) -> Vec<PathBuf> {
        let projects = paths::projects_dir(&self.config_dir);
        let mut dirs = Vec::new();
        for key in paths::project_keys(cwd) {
            dirs.push(projects.join(&key));
            if let Some(prefix) = paths::long_key_prefix(&key) {
                let name = |dir: &PathBuf| dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
                dirs.extend(self.all_project_dirs().into_iter().filter(|dir| name(dir).starts_with(prefix)));
            }
        }
        dirs
    }

    /// Returns the directories of all projects in order of name; empty if there are none or they cannot be listed.
    fn all_project_dirs(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(paths::projects_dir(&self.config_dir)) else { return Vec::new() };
        let mut dirs: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        dirs.sort();
        dirs
    }

    /// Returns the session files in `scope`, the last changed first, each id once. Links and directories that cannot be
    /// read are left out.
    fn candidates(&self, scope: SessionScope<'_>) -> Vec<Candidate> {
        let dirs = match scope {
            SessionScope::Projects(cwds) => cwds.iter().flat_map(|cwd| self.project_dirs(cwd)).collect(),
            SessionScope::Everywhere => self.all_project_dirs(),
        };
        let mut newest: HashMap<String, Candidate> = HashMap::new();
        for dir in dirs {
            let Ok(entries) = std::fs::read_dir(dir) else { continue };
            for entry in entries.flatten() {
                let path = entry.path();
                let Some(id) = session_id_of(&path) else { continue };
                let Ok(metadata) = path.symlink_metadata() else { continue };
                let Some(modified) = metadata.modified().ok().filter(|_| metadata.is_file()) else {
                    continue;
                };
                if newest.get(&id).is_none_or(|known| known.modified < modified) {
                    newest.insert(id, Candidate { path, modified });
                }
            }
        }
        let mut found: Vec<Candidate> = newest.into_values().collect();
        found.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.path.cmp(&b.path)));
        found
    }
}

/// Returns the id in the name of a session file; `None` for any other file.
fn session_id_of(path: &Path) -> Option<String> {
    let id = path.file_stem()?.to_str()?;
    (path.extension()? == "jsonl" && is_session_id(id)).then(|| id.to_owned())
}

/// Rejects an id that is not a UUID. Must be called before an id of a caller becomes part of a path.
fn check_id(session_id: &str) -> Result<()> {
    if is_session_id(session_id) { Ok(()) } else { Err(TranscriptError::BadSessionId(session_id.to_owned())) }
}

/// Gives a session a title, which is trimmed, by appending a record; a blank title and a session without a file are
/// errors. Works also while the session is open elsewhere.
pub fn rename(session: &SessionPaths, title: &str) -> Result<()> {
    let title = title.trim();
    if title.is_empty() {
        return Err(TranscriptError::EmptyTitle);
    }
    let record = SideRecord::custom_title(session.session_id(), title);
    writer::append_unlocked(&session.transcript(), &Line::of(&record)?)
}

/// Deletes the file of a session and then its folder, which may be missing. Fails while the session is open or if it
/// has no file; if only the folder cannot be deleted, the error comes after the file is gone.
pub fn delete(session: &SessionPaths) -> Result<()> {
    let path = session.transcript();
    let failed = |error| TranscriptError::io("delete", &path, error);
    let file = OpenOptions::new().read(true).open(&path).map_err(failed)?;
    writer::lock(&file, &path)?;
    std::fs::remove_file(&path).map_err(failed)?;
    match std::fs::remove_dir_all(session.dir()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(TranscriptError::io("delete", &session.dir(), error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
