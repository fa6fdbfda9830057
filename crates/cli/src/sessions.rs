//! The session of a run: a new one, or one that goes on, found by id, title or folder.
#![allow(clippy::disallowed_macros, reason = "warnings of the start go to stderr")]

use std::path::Path;

use lathe_agent::host::Host;
use lathe_agent::journal::Journal;
use lathe_transcript::record::Envelope;
use lathe_transcript::{
    Durability, ForkIds, ForkPlan, ResumeAt, Resumed, SessionPaths, Sessions, TranscriptError,
    TranscriptWriter, fork, is_session_id, load_for_resume,
};

use crate::PROTOCOL_VERSION;
use crate::env::Env;
use crate::plan::{Resume, RunPlan, StartError};

/// A session that is open for writing.
pub struct OpenSession {
    pub id: String,
    pub journal: Journal,
    /// What there was before, if it goes on.
    pub resumed: Option<Resumed>,
}

/// Opens the session that a plan asks for.
pub fn open(plan: &RunPlan, env: &Env, cwd: &Path, host: &dyn Host) -> Result<OpenSession, StartError> {
    let wanted = plan.session_id.clone();
    let Some(config_dir) = env.config_dir() else {
        if plan.persist {
            eprintln!("Warning: HOME is not set, so this session is not saved");
        }
        return Ok(unsaved(wanted.unwrap_or_else(|| host.uuid()), env, cwd));
    };
    let sessions = Sessions::new(&config_dir);
    let (source, at) = match &plan.resume {
        Resume::No => return new_session(plan, env, cwd, &config_dir, wanted.unwrap_or_else(|| host.uuid())),
        Resume::Newest => match sessions.newest_for_cwd(cwd) {
            Some(info) => (SessionPaths::new(&config_dir, cwd, &info.session_id), ResumeAt::Latest),
            None => return new_session(plan, env, cwd, &config_dir, wanted.unwrap_or_else(|| host.uuid())),
        },
        Resume::Named { name, at, drops_turn } => {
            let at = match at {
                Some(uuid) => ResumeAt::Message { uuid, drops_turn: drops_turn.as_deref() },
                None => ResumeAt::Latest,
            };
            (find(&sessions, cwd, name)?, at)
        }
    };
    go_on(plan, env, cwd, &source, at, wanted.unwrap_or_else(|| host.uuid()))
}

/// A session by its id, from any folder, or by its title.
fn find(sessions: &Sessions, cwd: &Path, name: &str) -> Result<SessionPaths, StartError> {
    let refused = |message: String| StartError { message, reason: None, session: Some(name.to_owned()) };
    if is_session_id(name) {
        return sessions
            .find_by_id_anywhere(cwd, name)
            .map_err(|_| refused(format!("No conversation found with session ID: {name}")));
    }
    let named = sessions.find_by_title(cwd, name).filter(|_| !name.is_empty());
    let found = named.and_then(|info| sessions.find_by_id_anywhere(cwd, &info.session_id).ok());
    found.ok_or_else(|| {
        refused(format!(
            "Error: --resume requires a valid session ID or session title when used with --print; \
             there is none for {name:?}"
        ))
    })
}

/// Takes a session up where it ended, in its own file or in a copy.
fn go_on(
    plan: &RunPlan,
    env: &Env,
    cwd: &Path,
    source: &SessionPaths,
    at: ResumeAt<'_>,
    new_id: String,
) -> Result<OpenSession, StartError> {
    let failed = |error: TranscriptError| StartError {
        message: match &error {
            TranscriptError::Locked { .. } => format!("Error: {error}; --fork-session goes on in a copy"),
            _ => error.to_string(),
        },
        reason: None,
        session: Some(source.session_id().to_owned()),
    };
    let paths = if plan.fork {
        let plan = ForkPlan { session_id: &new_id, up_to: None, ids: ForkIds::Keep };
        fork(&source.transcript(), plan).map_err(failed)?
    } else {
        SessionPaths::of_transcript(&source.transcript())
    };
    let id = paths.session_id().to_owned();
    let envelope = envelope(&id, env, cwd);
    let journal = if plan.persist {
        let writer =
            TranscriptWriter::open_existing(&paths.transcript(), Durability::ProcessCrash).map_err(failed)?;
        Journal::new(writer, envelope)
    } else {
        Journal::off(envelope)
    };
    let resumed = load_for_resume(&paths.transcript(), at).map_err(failed)?;
    Ok(OpenSession { id, journal, resumed: Some(resumed) })
}

/// A new session. A folder that cannot be written is a warning: the session runs without being kept.
fn new_session(
    plan: &RunPlan,
    env: &Env,
    cwd: &Path,
    config_dir: &Path,
    id: String,
) -> Result<OpenSession, StartError> {
    if !plan.persist {
        return Ok(unsaved(id, env, cwd));
    }
    let path = SessionPaths::new(config_dir, cwd, &id).transcript();
    match TranscriptWriter::create(&path, Durability::ProcessCrash) {
        Ok(writer) => {
            let journal = Journal::new(writer, envelope(&id, env, cwd));
            Ok(OpenSession { id, journal, resumed: None })
        }
        Err(TranscriptError::AlreadyExists { .. }) => {
            Err(StartError::new(format!("Error: Session ID {id} is already in use.")))
        }
        Err(error) => {
            eprintln!("Warning: this session is not saved: {error}");
            Ok(unsaved(id, env, cwd))
        }
    }
}

fn unsaved(id: String, env: &Env, cwd: &Path) -> OpenSession {
    let journal = Journal::off(envelope(&id, env, cwd));
    OpenSession { id, journal, resumed: None }
}

fn envelope(session_id: &str, env: &Env, cwd: &Path) -> Envelope {
    Envelope {
        session_id: session_id.to_owned(),
        cwd: cwd.display().to_string(),
        version: PROTOCOL_VERSION.to_owned(),
        git_branch: git_branch(cwd),
        entrypoint: env.get("CLAUDE_CODE_ENTRYPOINT").unwrap_or("sdk-cli").to_owned(),
        ..Envelope::default()
    }
}

/// The branch that is checked out, read from the repository itself: no `git` has to be started for it.
fn git_branch(cwd: &Path) -> Option<String> {
    let head = cwd.ancestors().find_map(|dir| std::fs::read_to_string(dir.join(".git/HEAD")).ok())?;
    let branch = head.trim().strip_prefix("ref: refs/heads/");
    Some(branch.unwrap_or("HEAD").to_owned())
}
