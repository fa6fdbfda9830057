//! What to run and within which bounds: plain data, no behaviour.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{CommandWall, Exit, Place};

/// One command.
#[derive(Debug, Clone)]
pub struct Spec {
    /// A path, or a name that is looked up in the `PATH` of `env`.
    pub program: PathBuf,
    /// The arguments after the program's name.
    pub args: Vec<OsString>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// The complete environment; nothing is inherited.
    pub env: Vec<(String, String)>,
    /// What it reads.
    pub stdin: StdinSource,
    /// Whether stderr has its own pipe.
    pub output: OutputMode,
    /// What a person sees in [`Ledger::live`](crate::Ledger::live).
    pub label: String,
    /// Time between SIGTERM and SIGKILL when the tree is killed; zero sends SIGKILL at once.
    pub grace: Duration,
    /// What becomes of processes that are still there when the main process has ended.
    pub leftovers: Leftovers,
    /// Gives the command the write end of a small extra pipe under this descriptor number, on which it can
    /// leave a note apart from its output; [`Finished::note`](crate::Finished::note) has it. A full
    /// pipe fails the writer instead of blocking it, if it writes to the descriptor itself (`>&N`).
    /// [`Ledger::note_number`](crate::Ledger::note_number) says which number there can be.
    pub note_fd: Option<i32>,
    /// The walls of a sandbox around the command.
    pub confine: Option<Arc<dyn CommandWall>>,
}

impl Spec {
    /// Returns a command that runs `program` in `cwd` with an empty environment, no input, separate outputs, two
    /// seconds of grace, and whose leftovers are killed when it ends. Its label is the program.
    pub fn new(program: impl Into<PathBuf>, cwd: impl Into<PathBuf>) -> Self {
        let program = program.into();
        Self {
            label: program.display().to_string(),
            program,
            args: Vec::new(),
            cwd: cwd.into(),
            env: Vec::new(),
            stdin: StdinSource::Null,
            output: OutputMode::Separate,
            grace: Duration::from_secs(2),
            leftovers: Leftovers::KillNow,
            note_fd: None,
            confine: None,
        }
    }
}

/// What children get in place of a limit that the host changed for itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChildLimits {
    /// Soft limit of open files (`RLIMIT_NOFILE`), set right before `exec`. `None`: the host's own.
    pub open_files: Option<u64>,
    /// Soft limit of core files (`RLIMIT_CORE`), set at the same moment; more than the hard limit is the hard limit.
    /// `None`: the host's own.
    pub core_bytes: Option<u64>,
}

/// What a command finds on its standard input.
#[derive(Debug, Clone)]
pub enum StdinSource {
    /// `/dev/null`.
    Null,
    /// These bytes, then the end. A command that does not read them is not an error.
    Bytes(Bytes),
    /// A pipe in [`Running::stdin`](crate::Running::stdin). A job closes it at once.
    Piped,
}

/// How stdout and stderr are carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMode {
    /// A pipe each.
    Separate,
    /// One pipe for both, so that the order of what was written is kept; it is reported as stdout.
    Merged,
}

/// What becomes of processes that outlive the command's main process, such as those started with `&`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leftovers {
    /// They are killed as soon as the main process has ended.
    KillNow,
    /// They go on until the scope ends. What they print is kept as the command's output was, in its file
    /// if the [`Capture`] names one. At most 64 commands of a session have such leftovers; the oldest make room.
    /// A [`Running`](crate::Running) kills them when it is dropped.
    KeepForSession,
    /// They go on until the [`ForegroundCommand`](crate::ForegroundCommand) is dropped. What they print is kept too.
    UntilDropped,
}

/// Bounds of one job: [`Ledger::start`](crate::Ledger::start), [`Ledger::run`](crate::Ledger::run).
#[derive(Debug, Default)]
pub struct RunLimits {
    /// After this time the tree is killed. `None`: the caller's token is the only end.
    pub timeout: Option<Duration>,
    /// What is kept of stdout, or of both in [`OutputMode::Merged`].
    pub stdout: Capture,
    /// What is kept of stderr.
    pub stderr: Capture,
    /// What is kept of both in the order in which they came, besides. Its limit does not count.
    pub both: Option<Capture>,
    /// The place that the command takes. It is free again when the main process has ended, or at once when the
    /// command is detached. `None`: a command that counts for no limit, such as a server.
    pub place: Option<Place>,
}

/// How much of an output is kept. Output is always read to its end, whatever is kept of it.
#[derive(Debug, Clone)]
pub struct Capture {
    /// Bytes kept in memory from the start.
    pub head_bytes: usize,
    /// Bytes kept in memory from the end, besides the head.
    pub tail_bytes: usize,
    /// Where the output goes once memory does not hold all of it.
    pub spill: Option<SpillFile>,
    /// Whether there is an amount of output that ends the command.
    pub limit: OutputLimit,
}

impl Default for Capture {
    fn default() -> Self {
        Self { head_bytes: 64 * 1024, tail_bytes: 64 * 1024, spill: None, limit: OutputLimit::None }
    }
}

/// What becomes of output that a full file does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// It is not written: the file keeps the beginning.
    KeepHead,
    /// The older half of the file makes room for it: the file keeps the end. Until the command has ended; what its
    /// leftovers print then is written as far as it fits.
    KeepTail,
}

/// A file for output that memory does not hold, or that is to stay. It starts with the first byte of the
/// output, is made only when needed, with mode 0600, and must not exist before.
#[derive(Debug, Clone)]
pub struct SpillFile {
    /// The file; missing directories above it are made with mode 0700.
    pub path: PathBuf,
    /// Bytes of output that it takes; the command goes on.
    pub cap_bytes: u64,
    /// What becomes of further output.
    pub when_full: WhenFull,
    /// A text that is written into the file when the command has ended, also into a full one, after its
    /// output and before that of its leftovers. It does not count as output.
    pub exit_line: Option<fn(Exit) -> String>,
}

impl SpillFile {
    /// How much a spill file takes unless told otherwise.
    pub const DEFAULT_CAP_BYTES: u64 = 64 * 1024 * 1024;

    /// Returns a file with the default cap and no exit line. Nothing is created yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            cap_bytes: Self::DEFAULT_CAP_BYTES,
            when_full: WhenFull::KeepHead,
            exit_line: None,
        }
    }
}

/// Whether much output is a reason to kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputLimit {
    /// No: only time ends it.
    None,
    /// Yes, once this many bytes came.
    KillAt(u64),
}
