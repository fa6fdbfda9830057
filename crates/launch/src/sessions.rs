//! The session of a run: a new one, or one that is resumed, found by id, title or folder.
//!
//! A file that cannot be written causes a warning; one that cannot be read is an error, because a run must not pretend
//! to continue a conversation that it does not have.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lathe_agent::AgentJournal;
use lathe_agent::ProcessHost;
use lathe_agent::SessionBeginning;
use lathe_agent::share_copies;
use lathe_protocol::PermissionMode;
use lathe_transcript::record::Envelope;
use lathe_transcript::{
    Durability, ForkIds, ForkPlan, ResumeAt, Resumed, SessionPaths, Sessions, TranscriptError,
    TranscriptWriter, fork, is_session_id, load_for_resume,
};
use serde_json::Value;

use crate::PROTOCOL_VERSION;
use crate::env::LaunchEnvironment;
use crate::error::LaunchError;
use crate::options::{ResumeOption, SessionOptions};
use crate::warning::{LaunchWarning, WarningSink};

/// How often a lock that no living process holds is tried again, and the pause between two tries: half a second in all.
const DYING_TRIES: u32 = 50;
const DYING_PAUSE: Duration = Duration::from_millis(10);

/// A session that is open for writing.
pub struct OpenSession {
    pub id: String,
    pub journal: AgentJournal,
    /// Whether the session is new, resumed or forked, with the earlier conversation.
    pub beginning: SessionBeginning,
}

impl OpenSession {
    /// Returns the permission mode that the resumed session had. `None` for a new session, if no known mode was
    /// recorded, and for plan mode and bypassing permissions, which a run must request again.
    pub fn saved_mode(&self) -> Option<PermissionMode> {
        let (SessionBeginning::Resumed(resumed) | SessionBeginning::Forked(resumed)) = &self.beginning else {
            return None;
        };
        let mode = PermissionMode::parse(resumed.permission_mode.as_deref()?).ok()?;
        (!matches!(mode, PermissionMode::Plan | PermissionMode::BypassPermissions)).then_some(mode)
    }
}

/// Opens the session that the options ask for and locks its file if it is saved. A missing or unreadable session to
/// resume is an error, but a folder without a newest session gets a new one; a file that cannot be written, or an
/// unknown config folder, only causes a warning, and the session is not saved. Waits up to half a second for the lock
/// of a process that has just died.
pub fn open(
    options: &SessionOptions,
    env: &LaunchEnvironment,
    cwd: &Path,
    host: &dyn ProcessHost,
    warnings: &WarningSink,
) -> Result<OpenSession, LaunchError> {
    let opening = Opening { options, env, cwd, host, warnings, config_dir: env.config_dir() };
    let Some(config_dir) = &opening.config_dir else {
        if options.persist {
            warnings(LaunchWarning::NoHome);
        }
        return match &options.resume {
            ResumeOption::Named { name, .. } => Err(opening.not_found(name)),
            ResumeOption::No | ResumeOption::Newest => Ok(opening.unsaved(opening.new_id())),
        };
    };
    let sessions = Sessions::new(config_dir);
    match &options.resume {
        ResumeOption::No => opening.new_session(config_dir),
        ResumeOption::Newest => match sessions.newest_for_cwd(cwd) {
            Some(info) => opening.resume(&info.path, ResumeAt::Latest),
            None => opening.new_session(config_dir),
        },
        ResumeOption::Named { name, at, drops_turn } => {
            let at = match at {
                Some(uuid) => ResumeAt::Message { uuid, drops_turn: drops_turn.as_deref() },
                None => ResumeAt::Latest,
            };
            opening.resume(&opening.find(&sessions, name)?, at)
        }
    }
}

/// Everything that opening a session depends on.
struct Opening<'a> {
    options: &'a SessionOptions,
    env: &'a LaunchEnvironment,
    cwd: &'a Path,
    host: &'a dyn ProcessHost,
    warnings: &'a WarningSink,
    config_dir: Option<PathBuf>,
}

impl Opening<'_> {
    /// Returns the file of the session with this id, in any folder, or with this title. A name that looks like an id is
    /// never searched as a title; if nothing is found, returns the error of [`Self::not_found`].
    fn find(&self, sessions: &Sessions, name: &str) -> Result<PathBuf, LaunchError> {
        if is_session_id(name) {
            let found = sessions.find_by_id_anywhere(self.cwd, name);
            return found.map(|paths| paths.transcript()).map_err(|_| self.not_found(name));
        }
        sessions.find_by_title(self.cwd, name).map(|info| info.path).ok_or_else(|| self.not_found(name))
    }

    /// Returns the error for a session that does not exist: another one for an id than for a title, because programs
    /// match the text for ids.
    fn not_found(&self, name: &str) -> LaunchError {
        if is_session_id(name) {
            return LaunchError::UnknownSession { id: name.to_owned() };
        }
        LaunchError::UnknownTitle { title: name.to_owned() }
    }

    /// Returns the id for a new session or a copy: the one that the options give, or a fresh UUID.
    fn new_id(&self) -> String {
        self.options.session_id.clone().unwrap_or_else(|| self.host.uuid())
    }

    /// Resumes a session, in its own file or in a copy (`--fork-session`). The own file is locked before it is loaded,
    /// so that no other process can append records in between; a lock that is held elsewhere is an error. A session
    /// that is not saved is loaded without a lock.
    fn resume(&self, source: &Path, at: ResumeAt<'_>) -> Result<OpenSession, LaunchError> {
        let paths = SessionPaths::of_transcript(source);
        let failed = |error| refusal(error, paths.session_id());
        if self.options.fork {
            let resumed = self.load(source, at)?;
            return self.resume_in_copy(source, resumed, at);
        }
        let id = paths.session_id().to_owned();
        // The lock is taken before loading, so that no other process can append records in between.
        let journal = match self.options.persist {
            true => self.writable(source, &id, TranscriptWriter::open_existing).map_err(failed)?,
            false => None,
        };
        let resumed = self.load(source, at)?;
        let journal = journal.unwrap_or_else(|| AgentJournal::off(self.envelope(&id)));
        self.mirror(&journal, source, Vec::new());
        Ok(OpenSession { id, journal, beginning: SessionBeginning::Resumed(Box::new(resumed)) })
    }

    /// Loads the conversation of a session up to `at`. Damaged records are skipped; if no record can be read because of
    /// damage, it is reported as a warning and the session counts as not found.
    fn load(&self, source: &Path, at: ResumeAt<'_>) -> Result<Resumed, LaunchError> {
        let id = SessionPaths::of_transcript(source).session_id().to_owned();
        let resumed = load_for_resume(source, at).map_err(|error| refusal(error, &id))?;
        if resumed.last_uuid.is_none() && !resumed.warnings.is_empty() {
            let damage = resumed.warnings.iter().map(ToString::to_string).collect();
            (self.warnings)(LaunchWarning::DamagedSession { path: source.to_owned(), damage });
            return Err(self.not_found(&id));
        }
        Ok(resumed)
    }

    /// Resumes a session in a new file and leaves the original unchanged; title and tag stay with the original. If the
    /// copy cannot be written, the session runs without being saved, with a warning; an error means that the source is
    /// missing or the new id is taken.
    fn resume_in_copy(
        &self,
        source: &Path,
        resumed: Resumed,
        at: ResumeAt<'_>,
    ) -> Result<OpenSession, LaunchError> {
        let id = self.new_id();
        // The title and the tag stay with the original session.
        let beginning = SessionBeginning::Forked(Box::new(Resumed { title: None, tag: None, ..resumed }));
        let up_to = match at {
            ResumeAt::Latest => None,
            ResumeAt::Message { uuid, .. } => Some(uuid),
        };
        // The copy belongs to the folder of this run, so that it is found from there.
        let dir = self.config_dir.as_ref().map(|dir| Sessions::new(dir).dir_of_copy(self.cwd, source));
        let fork_plan = ForkPlan { session_id: &id, dir: dir.as_deref(), up_to, ids: ForkIds::Keep };
        let copy = || fork(source, fork_plan);
        let path = match self.options.persist {
            true => self.unless_unwritable(copy()).map_err(|error| refusal(error, &id))?,
            false => None,
        };
        let Some(path) = path.map(|paths| paths.transcript()) else {
            return Ok(OpenSession { beginning, ..self.unsaved(id) });
        };
        let journal = self.writable(&path, &id, TranscriptWriter::open_existing);
        let journal = journal.map_err(|error| refusal(error, &id))?;
        let journal = journal.unwrap_or_else(|| AgentJournal::off(self.envelope(&id)));
        if let Some(config_dir) = &self.config_dir {
            let from = SessionPaths::of_transcript(source);
            let shared = share_copies(&config_dir.join("file-history"), from.session_id(), &id);
            journal.files().report(shared.err().into_iter());
        }
        self.mirror(&journal, &path, if self.options.mirror { records(&path) } else { Vec::new() });
        Ok(OpenSession { id, journal, beginning })
    }

    /// Creates a new session. If its file cannot be written, the session runs without being saved, with a warning; an
    /// id that the options give and another session has is an error.
    fn new_session(&self, config_dir: &Path) -> Result<OpenSession, LaunchError> {
        let id = self.new_id();
        if !self.options.persist {
            return Ok(self.unsaved(id));
        }
        let path = SessionPaths::new(config_dir, self.cwd, &id).transcript();
        // A chosen id may already be in use, which must be an error. A fresh UUID is not checked.
        let make = match self.options.session_id {
            Some(_) => TranscriptWriter::claim,
            None => TranscriptWriter::create,
        };
        let journal = match self.writable(&path, &id, make) {
            Err(TranscriptError::AlreadyExists { .. } | TranscriptError::Locked { .. }) => {
                return Err(LaunchError::SessionIdInUse { id });
            }
            Err(error) => {
                // Not even the folder can be created.
                (self.warnings)(LaunchWarning::NotSaved(error));
                None
            }
            Ok(journal) => journal,
        };
        let journal = journal.unwrap_or_else(|| AgentJournal::off(self.envelope(&id)));
        self.mirror(&journal, &path, Vec::new());
        Ok(OpenSession { id, journal, beginning: SessionBeginning::New })
    }

    /// Opens the file at `path` with `open` and returns a journal on it; `None`, with a warning, if it cannot be
    /// written. A file that is missing, exists already or is locked by a living process is an error.
    fn writable(
        &self,
        path: &Path,
        id: &str,
        open: impl Fn(&Path, Durability) -> Result<TranscriptWriter, TranscriptError>,
    ) -> Result<Option<AgentJournal>, TranscriptError> {
        let opened = retry_if_holder_died(|| open(path, Durability::ProcessCrash));
        let writer = self.unless_unwritable(opened)?;
        Ok(writer.map(|writer| AgentJournal::new(writer, self.envelope(id))))
    }

    /// Turns an error of writing (full disk, no permission) into a warning and `None`, so that the run goes on unsaved.
    /// Errors about which session is meant (missing, taken, locked, bad id) are returned.
    fn unless_unwritable<T>(
        &self,
        outcome: Result<T, TranscriptError>,
    ) -> Result<Option<T>, TranscriptError> {
        match outcome {
            Ok(made) => Ok(Some(made)),
            Err(
                error @ (TranscriptError::AlreadyExists { .. }
                | TranscriptError::Locked { .. }
                | TranscriptError::NotFound { .. }
                | TranscriptError::BadSessionId(_)),
            ) => Err(error),
            Err(error) => {
                (self.warnings)(LaunchWarning::NotSaved(error));
                Ok(None)
            }
        }
    }

    /// Starts to send every record to the host as well, if the options ask for it and the session is saved. `copied`
    /// are records that the file has already; they are sent first.
    fn mirror(&self, journal: &AgentJournal, path: &Path, copied: Vec<Value>) {
        if self.options.mirror && self.options.persist {
            journal.files().mirror(path, copied);
        }
    }

    /// Returns a new session whose records are not written anywhere. `beginning` is `New`; a caller that resumes
    /// replaces it.
    fn unsaved(&self, id: String) -> OpenSession {
        OpenSession { journal: AgentJournal::off(self.envelope(&id)), id, beginning: SessionBeginning::New }
    }

    /// Returns the fields that every record of the session repeats.
    fn envelope(&self, session_id: &str) -> Envelope {
        Envelope {
            session_id: session_id.to_owned(),
            cwd: self.cwd.display().to_string(),
            version: PROTOCOL_VERSION.to_owned(),
            git_branch: git_branch(self.cwd),
            entrypoint: self.env.get("CLAUDE_CODE_ENTRYPOINT").unwrap_or("sdk-cli").to_owned(),
            ..Envelope::default()
        }
    }
}

/// Opens the file of a session, and tries again for up to half a second while its lock is held but not by a living
/// process. After a process was killed, the next run may resume its session at once, while a child that the process was
/// just starting still has the lock. Blocks the thread; usually the first try succeeds.
#[allow(clippy::disallowed_methods, reason = "`prepare` is called on a thread that may wait")]
fn retry_if_holder_died<T>(open: impl Fn() -> Result<T, TranscriptError>) -> Result<T, TranscriptError> {
    for _ in 0..DYING_TRIES {
        match open() {
            Err(TranscriptError::Locked { holder: None, .. }) => std::thread::sleep(DYING_PAUSE),
            outcome => return outcome,
        }
    }
    open()
}

/// Wraps an error of a session file into the launch error that names the session.
fn refusal(error: TranscriptError, session: &str) -> LaunchError {
    LaunchError::SessionFile { session: session.to_owned(), error }
}

/// Returns the records of a file as JSON values. A file that cannot be read gives none, and lines that are not JSON are
/// skipped.
fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns the branch that is checked out in the repository around `cwd`, `HEAD` if it is detached, or `None` outside a
/// repository or if its files cannot be read. They are read directly, because starting `git` would take longer. In an
/// additional worktree `.git` is a file with the path of the actual folder.
fn git_branch(cwd: &Path) -> Option<String> {
    let (top, git) = cwd.ancestors().map(|dir| (dir, dir.join(".git"))).find(|(_, git)| git.exists())?;
    let git = match std::fs::read_to_string(&git) {
        Ok(link) => top.join(link.strip_prefix("gitdir:")?.trim()),
        Err(_) => git,
    };
    let head = std::fs::read_to_string(git.join("HEAD")).ok()?;
    // A detached head holds a commit id; `git rev-parse --abbrev-ref` prints `HEAD` then.
    let branch = head.trim().strip_prefix("ref: refs/heads/");
    Some(branch.unwrap_or("HEAD").to_owned())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Returns how often a file is opened whose lock has this holder and is released after `free_after` tries.
    fn tries(holder: Option<u32>, free_after: u32) -> (u32, Result<(), TranscriptError>) {
        let tried = Cell::new(0);
        let outcome = retry_if_holder_died(|| {
            tried.set(tried.get() + 1);
            if tried.get() > free_after {
                return Ok(());
            }
            Err(TranscriptError::Locked { path: "s.jsonl".into(), holder })
        });
        (tried.get(), outcome)
    }

    #[test]
    fn a_lock_is_waited_for_only_while_its_holder_is_dead_and_not_for_ever() {
        assert!(matches!(tries(None, 0), (1, Ok(()))));
        assert!(matches!(tries(None, 2), (3, Ok(()))));
        assert!(matches!(tries(Some(1), 2), (1, Err(TranscriptError::Locked { .. }))));
        assert!(matches!(tries(None, 1000), (51, Err(TranscriptError::Locked { .. }))));
    }
}
