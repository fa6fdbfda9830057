//! Where tool calls work: what the calls of one agent share ([`Workspace`], with the [`AgentPlace`] that
//! changes while it works). What the agents of a session share is in `child_env.rs`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lathe_exec::{Ledger, ProcessLimits};

use crate::ShellStartup;
use crate::WebState;
use crate::child_env::ChildEnvironment;
use crate::files::seen::{self, FilesRead, Seen, Shown};

/// One agent's place of work.
#[derive(Clone)]
pub struct Workspace {
    /// The project directory: where the agent was started.
    pub root: PathBuf,
    /// Where large outputs are kept, made when first needed.
    pub output_dir: PathBuf,
    /// Every child of the agent is on it.
    pub ledger: Ledger,
    /// The environment of children; all agents of a session share it.
    pub env: Arc<ChildEnvironment>,
    /// What shells begin with besides; all agents of a session share it, too.
    pub shell_startup: Arc<ShellStartup>,
    /// What web tools keep between calls; all agents of a session share it.
    pub web: Arc<WebState>,
    /// Where the plan of this session is written.
    pub plan_file: Option<PathBuf>,
    /// The shell that runs Bash calls.
    pub shell: PathBuf,
    /// Bounds and policies of the tools.
    pub limits: Limits,
    /// How many commands and searches run at the same time in the whole process. An agent puts in those of its process.
    pub process_limits: ProcessLimits,
    /// Who holds the place; see [`Workspace::with_place`].
    place: Arc<dyn PlaceHolder>,
}

/// Where an agent stands, and what it has seen there. Replaced as a whole when any of it changes.
#[derive(Debug, Clone, Default)]
pub struct AgentPlace {
    /// Where the shell stands; `cd` in a Bash call moves it, inside the working directories.
    pub cwd: PathBuf,
    /// The folder that the agent works in instead of the one it was started in: a worktree that it has entered.
    pub home: Option<PathBuf>,
    /// Further directories the agent may work in (`--add-dir`).
    pub directories: Vec<PathBuf>,
    /// The files the model has read or written.
    pub files_read: FilesRead,
}

impl AgentPlace {
    /// Removes directories from those that the agent may use besides its root, then adds others. One that is in both
    /// lists is kept; no directory is added twice.
    pub fn change_directories(&mut self, removed: &[PathBuf], added: &[PathBuf]) {
        self.directories.retain(|dir| !removed.contains(dir));
        for dir in added {
            if !self.directories.contains(dir) {
                self.directories.push(dir.clone());
            }
        }
    }
}

/// Holds the place of one agent. An agent keeps it together with what else changes about it, so that a
/// decision sees all of it at one moment.
pub trait PlaceHolder: Send + Sync {
    /// Returns the current place. It is a snapshot: later changes do not show in it.
    fn place(&self) -> Arc<AgentPlace>;

    /// Replaces the place by a changed copy. `change` must not read the place, which may be locked.
    fn change_place(&self, change: &mut dyn FnMut(&mut AgentPlace));
}

/// A place that is not shared.
impl PlaceHolder for Mutex<Arc<AgentPlace>> {
    fn place(&self) -> Arc<AgentPlace> {
        self.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change_place(&self, change: &mut dyn FnMut(&mut AgentPlace)) {
        change(Arc::make_mut(&mut self.lock().unwrap_or_else(PoisonError::into_inner)));
    }
}

/// Says of a path whether it belongs to some set. Asked from several threads at once, for every file a
/// search comes across.
pub type PathFilter = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

/// Bounds on what a call may take or return.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Time of a Bash call that does not say its own.
    pub bash_default_timeout: Duration,
    /// The longest time a Bash call may ask for.
    pub bash_max_timeout: Duration,
    /// Characters of output that go to the model directly; more is kept in a file.
    pub bash_output_chars: usize,
    /// Bytes of text that one Read returns.
    pub read_bytes: u64,
    /// The same with `allow_large`.
    pub read_large_bytes: u64,
    /// Bytes of a file that Edit and Write still compare with the new content.
    pub edit_bytes: u64,
    /// Whether files must be read before they are changed; a matter of the model.
    pub read_before_edit: ReadBeforeEdit,
    /// Time of one Glob or Grep call.
    pub search_timeout: Duration,
    /// Bytes that one Grep returns at most, whatever its `head_limit`.
    pub search_bytes: usize,
    /// What Glob looks at.
    pub glob_scope: GlobScope,
    /// Whether a command can move the shell of later ones.
    pub shell_folder: ShellFolder,
}

/// Where the shell of a command begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellFolder {
    /// Where the command before it ended, inside the working directories.
    Follows,
    /// Always in the project directory (`CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR`, and subagents).
    StaysAtRoot,
}

/// Whether Edit and Write insist that the file was read before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadBeforeEdit {
    /// An unread file is not changed.
    Required,
    /// It may be; the result says that the model does not know the rest of it.
    Advisory,
}

/// Files that Glob finds besides ordinary ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GlobScope {
    /// Names that begin with a dot.
    pub hidden: bool,
    /// Files that `.gitignore` and the like exclude.
    pub ignored: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bash_default_timeout: Duration::from_millis(120_000),
            bash_max_timeout: Duration::from_millis(600_000),
            bash_output_chars: 30_000,
            read_bytes: 256 << 10,
            read_large_bytes: 4 << 20,
            edit_bytes: 16 << 20,
            read_before_edit: ReadBeforeEdit::Advisory,
            search_timeout: Duration::from_secs(20),
            search_bytes: 512 << 10,
            glob_scope: GlobScope { hidden: true, ignored: true },
            shell_folder: ShellFolder::Follows,
        }
    }
}

impl Workspace {
    /// Creates a workspace whose root and current directory are `root`, with default limits.
    pub fn new(root: PathBuf, ledger: Ledger) -> Self {
        let place = AgentPlace { cwd: root.clone(), ..AgentPlace::default() };
        Self {
            output_dir: root.join(".lathe-output"),
            root,
            ledger,
            env: Arc::default(),
            shell_startup: Arc::default(),
            web: Arc::default(),
            plan_file: None,
            shell: PathBuf::from("/bin/bash"),
            limits: Limits::default(),
            process_limits: ProcessLimits::default(),
            place: Arc::new(Mutex::new(Arc::new(place))),
        }
    }

    /// Returns the same workspace at another place, which no other agent shares.
    pub fn with_own_place(self, place: AgentPlace) -> Self {
        self.with_place(Arc::new(Mutex::new(Arc::new(place))))
    }

    /// Returns the same workspace with its place kept by `place`, which other agents or the session may change, too.
    pub fn with_place(self, place: Arc<dyn PlaceHolder>) -> Self {
        Self { place, ..self }
    }

    /// Returns the agent's current place, as a snapshot.
    pub fn place(&self) -> Arc<AgentPlace> {
        self.place.place()
    }

    /// Changes the agent's place by `change`, which must not read the place; see [`PlaceHolder::change_place`].
    fn change(&self, change: impl FnOnce(&mut AgentPlace)) {
        let mut change = Some(change);
        self.place.change_place(&mut |place| {
            if let Some(change) = change.take() {
                change(place);
            }
        });
    }

    /// Returns the folder that the agent works in, and that its shell goes back to: the one it was started in, or a
    /// worktree that it has entered.
    pub fn home(&self) -> PathBuf {
        self.place().home.clone().unwrap_or_else(|| self.root.clone())
    }

    /// Returns the current directory of the agent's shell.
    pub fn cwd(&self) -> PathBuf {
        self.place().cwd.clone()
    }

    /// Changes the current directory of the agent's shell, for the next command and for relative paths.
    pub fn set_cwd(&self, cwd: PathBuf) {
        self.change(|place| place.cwd = cwd);
    }

    /// Removes and adds directories that the agent may use besides its root.
    pub fn change_dirs(&self, removed: &[PathBuf], added: &[PathBuf]) {
        self.change(|place| place.change_directories(removed, added));
    }

    /// Returns what the model has seen of the file at a real path; `None` if it has not read it.
    pub(crate) fn file_seen(&self, path: &Path) -> Option<Seen> {
        self.place().files_read.get(path)
    }

    /// Records what the model has now seen of the file at a real path, in place of what was recorded before.
    pub(crate) fn record_file(&self, path: PathBuf, seen: Seen) {
        self.change(|place| place.files_read.record(path, seen));
    }

    /// Records that the model has read a file by other means: a shell command that showed it (`cat`, `sed -n`), or an
    /// attachment. Nothing happens if it cannot be opened.
    pub fn note_read(&self, path: &Path, shown: Shown) {
        if let Some((path, seen)) = seen::look_at(path, shown) {
            self.record_file(path, seen);
        }
    }

    /// Records that the model has read a whole file as it was at `mtime_ms` (milliseconds since 1970). Nothing happens
    /// if the file has changed since or cannot be opened; what was recorded before stays.
    pub fn note_read_at(&self, path: &Path, mtime_ms: f64) {
        let Ok(path) = crate::files::real::follow(path) else { return };
        if seen::is_unchanged_since(&path, mtime_ms) {
            self.note_read(&path, Shown::Whole);
        }
    }

    /// Forgets which files the model has read, because the conversation that contains them is gone.
    pub fn forget_files(&self) {
        self.change(|place| place.files_read.clear());
    }

    /// Returns a path of an input as an absolute path; a relative one starts at the shell's current directory. Neither
    /// links nor `..` are resolved.
    pub fn resolve(&self, path: &str) -> PathBuf {
        self.cwd().join(Path::new(path))
    }
}
