//! The files of a session: its own, and one for each child agent. Every record of the session passes through here, so a
//! problem with the disk is reported once, and a host that keeps its own copy (`--session-mirror`) gets the records of
//! all files in the order in which they were written.
//!
//! The order of records within a conversation is kept by [`super::AgentJournal`], one for each agent.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lathe_protocol::event::TranscriptMirror;
use lathe_transcript::record::{Line, SideRecord};
use lathe_transcript::{Names, TranscriptError, TranscriptWriter};
use serde_json::Value;

/// The largest number of records in one frame of the mirror.
const MIRROR_BATCH: usize = 500;

/// Which of the session's files a record belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionFile {
    /// The session's own: the conversation of its main agent.
    Main,
    /// The file of a child agent, by the agent's id.
    OfAgent(String),
}

/// The files of a session.
pub struct SessionFiles {
    /// Written by the turn of each agent and by host requests that name the session; read by the mirror when frames are
    /// sent.
    state: Mutex<FilesState>,
}

#[derive(Default)]
struct FilesState {
    main: Option<TranscriptWriter>,
    /// Open while their agent works.
    agents: BTreeMap<String, TranscriptWriter>,
    /// The current title of the session.
    title: Option<String>,
    /// What lists of sessions are to find in the file.
    names: Names,
    troubles: Vec<String>,
    mirror: Option<Mirror>,
}

/// The records that the host does not have yet, oldest first.
struct Mirror {
    /// Where the host believes the session's own file to be.
    main: PathBuf,
    waiting: VecDeque<(PathBuf, Value)>,
}

impl SessionFiles {
    /// Creates the files of a session that writes to `main`; without a writer nothing is kept.
    pub fn new(main: Option<TranscriptWriter>) -> Self {
        Self { state: Mutex::new(FilesState { main, ..FilesState::default() }) }
    }

    /// Locks the files of the session, also after a panic under the lock.
    fn state(&self) -> MutexGuard<'_, FilesState> {
        // A panic under the lock can at worst have left a record out; the session goes on.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on sends every record to the host too, as part of the file at `path`. `copied` are records that are in
    /// the file already and are sent first; other records from before the call are never sent.
    pub fn mirror(&self, path: &Path, copied: Vec<Value>) {
        let waiting = copied.into_iter().map(|record| (path.to_owned(), record)).collect();
        self.state().mirror = Some(Mirror { main: path.to_owned(), waiting });
    }

    /// Adds the file of a child agent. If it could not be opened, its records are not kept and the host is told.
    pub fn open_agent(&self, agent_id: &str, writer: Result<TranscriptWriter, TranscriptError>) {
        let mut state = self.state();
        match writer {
            Ok(writer) => drop(state.agents.insert(agent_id.to_owned(), writer)),
            Err(error) => state.troubles.push(format!("agent {agent_id} is not saved: {error}")),
        }
    }

    /// Closes the file of a child agent that has ended; does nothing if it has none. Records that still wait are
    /// written first, and a failure is kept for the host.
    pub fn close_agent(&self, agent_id: &str) {
        let mut state = self.state();
        if let Some(mut writer) = state.agents.remove(agent_id)
            && let Err(error) = writer.end_turn()
        {
            state.troubles.push(error.to_string());
        }
    }

    /// Returns whether the records of this session are kept, in files or by the host.
    pub fn are_kept(&self) -> bool {
        let state = self.state();
        state.main.is_some() || state.mirror.is_some()
    }

    /// Appends a record to one of the session's files and to the mirror. Does not fail: a problem is kept for
    /// [`Self::take_troubles`], and a record for a file that is not open reaches only the mirror.
    pub fn append(&self, file: &SessionFile, line: Result<Line, TranscriptError>) {
        self.state().append(file, line);
    }

    /// Appends a record that is not part of the conversation, such as a title or a checkpoint.
    pub fn side(&self, record: &SideRecord) {
        self.append(&SessionFile::Main, Line::of(record));
    }

    /// Appends a record of the title that a person gave the session, and keeps it for the end of turns.
    pub fn title(&self, session_id: &str, title: &str) {
        let record = SideRecord::custom_title(session_id, title);
        let mut state = self.state();
        state.title = Some(title.to_owned());
        state.append(&SessionFile::Main, Line::of(&record));
    }

    /// Sets title and tag that the session has from an earlier run. A title that was set in this run stays. The tag is
    /// dropped if the session has no file.
    pub fn known_as(&self, title: Option<String>, tag: Option<String>) {
        let mut state = self.state();
        state.title = state.title.take().or(title);
        if let Some(path) = state.main.as_ref().map(TranscriptWriter::path) {
            state.names = Names::of_session(path, state.title.clone(), tag);
        }
    }

    /// Returns the current title of the session, as far as this run knows it; `None` if it has none.
    pub fn current_title(&self) -> Option<String> {
        self.state().title.clone()
    }

    /// Ends the turn: repeats the session's names where lists would not find them any more, and makes sure that the
    /// records are in the session's own file. A failure is kept for [`Self::take_troubles`].
    pub fn end_turn(&self, session_id: &str) {
        let mut state = self.state();
        if let Some(path) = state.main.as_ref().map(|writer| writer.path().to_owned()) {
            // A file that cannot be read now may be readable after the next turn; nothing else depends on it.
            let due = state.names.out_of_sight(&path, session_id).unwrap_or_default();
            for record in due {
                state.append(&SessionFile::Main, Line::of(&record));
            }
        }
        let failure = state.main.as_mut().and_then(|writer| writer.end_turn().err());
        state.troubles.extend(failure.map(|error| error.to_string()));
    }

    /// Queues messages for the host, which [`Self::take_troubles`] returns.
    pub fn report(&self, troubles: impl Iterator<Item = String>) {
        self.state().troubles.extend(troubles);
    }

    /// Returns what went wrong since the last call, for the host; each message is returned once.
    pub fn take_troubles(&self) -> Vec<String> {
        std::mem::take(&mut self.state().troubles)
    }

    /// Returns the path of the session's own file; `None` if the session is not kept.
    pub fn path(&self) -> Option<PathBuf> {
        self.state().main.as_ref().map(|writer| writer.path().to_owned())
    }

    /// Returns the path of a child agent's file as text; `None` if the file is not open.
    pub fn agent_path(&self, agent_id: &str) -> Option<String> {
        self.state().agents.get(agent_id).map(|writer| writer.path().display().to_string())
    }

    /// Takes the next records that were not sent to the host yet, at most `MIRROR_BATCH` and all of one file; `None`
    /// if there are none.
    pub fn take_mirrored(&self) -> Option<TranscriptMirror> {
        let mut state = self.state();
        let waiting = &mut state.mirror.as_mut()?.waiting;
        let (path, _) = waiting.front()?;
        let path = path.clone();
        // A frame names one file, so it ends where the file changes.
        let batch = waiting.iter().take(MIRROR_BATCH).take_while(|(of, _)| *of == path).count();
        Some(TranscriptMirror {
            file_path: path.display().to_string(),
            entries: waiting.drain(..batch).map(|(_, record)| record).collect(),
            ..TranscriptMirror::default()
        })
    }

    /// Continues in a new file for another session id, beside the old one, and forgets title and tag. If the file
    /// cannot be made, nothing more is saved, but the mirror goes on. The mirrored records of the old file must have
    /// been sent before.
    pub fn begin_anew(&self, session_id: &str) {
        let mut state = self.state();
        state.title = None;
        state.names = Names::default();
        if let Some(mirror) = &mut state.mirror {
            mirror.main.set_file_name(format!("{session_id}.jsonl"));
        }
        let Some(writer) = &state.main else { return };
        match writer.beside(session_id) {
            Ok(next) => state.main = Some(next),
            Err(error) => {
                // Records of the new session must not go into the file of the old one.
                state.main = None;
                state.troubles.push(format!("the session is not saved any more: {error}"));
            }
        }
    }

    /// Ends the run with a last attempt to write what waits for room on the disk. Returns a message about what is lost
    /// if that fails; `None` if nothing is, or if the session has no file. Only the session's own file is written here:
    /// files of child agents end with [`Self::close_agent`].
    pub fn close(&self) -> Option<String> {
        let mut state = self.state();
        let writer = state.main.as_mut()?;
        let failure = writer.end_turn().err();
        match (writer.held(), failure) {
            (0, None) => None,
            (0, Some(error)) => Some(format!("the end of this session was not saved: {error}")),
            (held, _) => Some(format!(
                "{held} record(s) of this session were not saved: until its end there was no room for them on \
                 the filesystem of {}",
                writer.path().display()
            )),
        }
    }
}

impl FilesState {
    /// Appends a record to a file and to the mirror. The mirror comes first and gets the record also if the file cannot
    /// be written or is not open.
    fn append(&mut self, file: &SessionFile, line: Result<Line, TranscriptError>) {
        let writer = match file {
            SessionFile::Main => self.main.as_mut(),
            SessionFile::OfAgent(id) => self.agents.get_mut(id),
        };
        if let (Some(mirror), Ok(line)) = (&mut self.mirror, &line) {
            let path = match file {
                SessionFile::Main => mirror.main.clone(),
                SessionFile::OfAgent(id) => agent_file(&mirror.main, id),
            };
            mirror.waiting.extend(serde_json::from_str(line.json()).ok().map(|record| (path, record)));
        }
        let Some(writer) = writer else { return };
        match line.and_then(|line| writer.append(&line)) {
            Ok(_) => {}
            Err(error @ TranscriptError::NoSpace { .. }) => self
                .troubles
                .push(format!("{error}: the session goes on, and is saved as soon as there is room")),
            Err(error) => self.troubles.push(format!("the session is not saved any more: {error}")),
        }
    }
}

/// Returns the path of a child agent's file: `<session>/subagents/agent-<id>.jsonl` beside `<session>.jsonl`.
pub fn agent_file(main: &Path, agent_id: &str) -> PathBuf {
    main.with_extension("").join("subagents").join(format!("agent-{agent_id}.jsonl"))
}
