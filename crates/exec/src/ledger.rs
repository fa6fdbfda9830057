//! The ledger: the running children, and the means to end them.
//!
//! Each child has an [`Entry`] here that holds its lifeline, and one tracked task: its *keeper*, which listens to the
//! supervisor, reaps it and removes the entry; a job has its pump in addition. Which entries belong together, and how
//! they end, is in `scope.rs`. The tasks hold the book only weakly: the scopes own it, and dropping a scope closes the
//! lifelines of its entries.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::job::{CommandJob, ForegroundCommand, JobShared};
use crate::launch::{self, Launched, launch};
use crate::pump::Pump;
use crate::running::Output;
use crate::scope::CommandScope;
use crate::supervisor::{self, END_RECORD_BYTES};
use crate::{ChildLimits, Ended, ExecError, Exit, InputPipe, RunLimits, Running, Spec, StdinSource};

/// All children of one owner, such as a session, an agent or a call: its *scope*. Clones are the same scope; when
/// the last one is dropped, every tree in it is killed. A scope can have scopes inside, which end with it; see
/// [`Ledger::open_scope`].
#[derive(Clone, Default)]
pub struct Ledger {
    pub(crate) scope: Arc<CommandScope>,
}

/// The book that the scopes of one session share.
#[derive(Default)]
pub(crate) struct Book {
    /// The limits of every child.
    pub limits: ChildLimits,
    pages: Mutex<Pages>,
    next_id: AtomicU64,
    /// One for each child. A task ends with the tree of its child.
    tasks: TaskTracker,
}

/// What a ledger lists, behind one lock.
#[derive(Default)]
pub(crate) struct Pages {
    /// By number, and therefore by age.
    pub entries: BTreeMap<u64, Listed>,
    /// The scopes in which commands may be started; a scope is closed if any scope around it is.
    pub open_scopes: BTreeSet<u64>,
}

/// A child, and its job if `exec` itself reads its output.
#[derive(Clone)]
pub(crate) struct Listed {
    pub entry: Arc<Entry>,
    pub job: Option<Arc<JobShared>>,
}

/// One child on the ledger.
pub(crate) struct Entry {
    pub id: u64,
    pub pid: i32,
    pub label: String,
    /// The scopes around it, the outermost first.
    pub scopes: Arc<[u64]>,
    /// Their names.
    scope_name: Arc<str>,
    /// When its start began: the time for the forks is included.
    pub started: Instant,
    pub grace: Duration,
    lifeline: Mutex<Lifeline>,
    /// Wakes the pump: the lifeline was cut, or the deadline moved.
    pub told: Notify,
    /// Set when the command ended and left processes that may continue.
    kept: AtomicBool,
    pub stage: watch::Receiver<Stage>,
}

/// The write end of the pipe whose end tells a supervisor to end its tree, or when and why it was closed.
enum Lifeline {
    Held(OwnedFd),
    /// The tree was told to end.
    Cut {
        why: Ended,
        since: Instant,
    },
}

/// The stages of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Running,
    /// The main process has ended.
    Ended {
        exit: Exit,
        rest: Rest,
    },
    /// The whole tree is gone and the supervisor was reaped.
    Gone {
        exit: Exit,
    },
}

/// Whether other processes of the tree were left when the main process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    Nothing,
    Processes,
}

/// One line of [`Ledger::live`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveProcess {
    /// The command's main process, which is also its process group and session.
    pub pid: i32,
    /// The label from the [`Spec`].
    pub label: String,
    /// The names of the scopes around it, the outermost first, with `/` between them.
    pub scope: String,
    /// The time since it was started.
    pub age: Duration,
    /// The main process has ended; processes that it started in the background continue.
    pub leftover: bool,
}

/// How many commands may leave processes running; the oldest such tree is killed to make room.
const MAX_LEFTOVERS: usize = 64;

/// How long after SIGKILL the end of a tree is awaited. It may never come: a process can be in an uninterruptible
/// system call, or belong to another user.
pub(crate) const KILL_WAIT: Duration = Duration::from_secs(2);

impl Ledger {
    /// Returns a ledger whose children run within these limits.
    pub fn with_limits(limits: ChildLimits) -> Self {
        Self { scope: Arc::new(CommandScope::with_limits(limits)) }
    }

    /// Returns the number to use for [`Spec::note_fd`]: `preferred`, or the highest possible one if the limit of open
    /// files is lower.
    pub fn note_number(&self, preferred: i32) -> i32 {
        launch::note_number(preferred, self.scope.book.limits)
    }

    /// Starts a command whose output is read and kept by a task of the ledger, within `limits`. Dropping the returned
    /// handle kills the tree, unless it was detached; a piped stdin is closed at once. Fails if the scope has ended or
    /// the command cannot be started. Needs a tokio runtime with I/O and time enabled.
    pub fn start(&self, spec: Spec, limits: RunLimits) -> Result<ForegroundCommand, ExecError> {
        let (leftovers, mode) = (spec.leftovers, spec.output);
        let Enlisted { entry, keeper, input, output, note, .. } = self.launch(spec)?;
        let shared = JobShared::new(Arc::clone(&entry), leftovers, mode, limits);
        // From here on, dropping `command` ends the tree.
        let command = ForegroundCommand::new(Arc::clone(&shared));
        let pump = Pump::new(Arc::clone(&shared), output, note, Arc::downgrade(&self.scope.book));
        let admitted = self.scope.enter(Listed { entry: Arc::clone(&entry), job: Some(shared) });
        self.scope.book.tasks.spawn(async move {
            tokio::join!(keeper.run(), pump.run(), feed(input, entry.stage.clone()));
        });
        admitted.map(|()| command)
    }

    /// Starts a command and returns its pipes, which the caller must read. Its note pipe and leftovers are not
    /// reported. Dropping the result kills the tree; fails if the scope has ended or the command cannot be started.
    /// Needs a tokio runtime with I/O enabled.
    pub fn spawn(&self, spec: Spec) -> Result<Running, ExecError> {
        let Enlisted { entry, keeper, input, stdin, output, .. } = self.launch(spec)?;
        let running = Running::new(Arc::clone(&entry), stdin, output);
        let admitted = self.scope.enter(Listed { entry: Arc::clone(&entry), job: None });
        self.scope.book.tasks.spawn(async move {
            tokio::join!(keeper.run(), feed(input, entry.stage.clone()));
        });
        admitted.map(|()| running)
    }

    /// Starts the supervisor and the command. The child is not in the ledger yet and its keeper does not run: the
    /// caller must do both, and until then dropping the result closes the lifeline, which kills the tree.
    fn launch(&self, spec: Spec) -> Result<Enlisted, ExecError> {
        self.scope.must_be_open(&spec.label)?;
        let started = Instant::now();
        let launched = launch(&spec, self.scope.book.limits)?;
        let Launched { child, pid, lifeline, status, mut stdin, stdout, stderr, note } = launched;
        let (news, stage) = watch::channel(Stage::Running);
        let book = &self.scope.book;
        let entry = Arc::new(Entry {
            id: book.next_id(),
            // 0 means "already gone": the keeper finds out at once.
            pid: pid.unwrap_or(0),
            label: spec.label,
            scopes: Arc::clone(&self.scope.path),
            scope_name: Arc::clone(&self.scope.name),
            started,
            grace: spec.grace,
            lifeline: Mutex::new(Lifeline::Held(lifeline)),
            told: Notify::new(),
            kept: false.into(),
            stage,
        });
        let keeper = Keeper { id: entry.id, pid: entry.pid, status, child, news, book: Arc::downgrade(book) };
        let input = match spec.stdin {
            StdinSource::Bytes(bytes) => stdin.take().map(|pipe| (pipe, bytes)),
            StdinSource::Null | StdinSource::Piped => None,
        };
        Ok(Enlisted { entry, keeper, input, stdin, output: Output { stdout, stderr }, note })
    }

    /// Returns one entry for each command of this scope and those inside it that has a running process, oldest first;
    /// a command that has ended is in it only if it left processes behind.
    pub fn live(&self) -> Vec<LiveProcess> {
        let line = |listed: Listed| {
            let entry = listed.entry;
            let leftover = match *entry.stage.borrow() {
                Stage::Running => false,
                Stage::Ended { rest: Rest::Processes, .. } => true,
                Stage::Ended { rest: Rest::Nothing, .. } | Stage::Gone { .. } => return None,
            };
            Some(LiveProcess {
                pid: entry.pid,
                label: entry.label.clone(),
                scope: entry.scope_name.to_string(),
                age: entry.started.elapsed(),
                leftover,
            })
        };
        self.scope.listed().into_iter().filter_map(line).collect()
    }

    /// Returns the jobs of this scope and those inside it whose tree is not gone, oldest first: foreground and
    /// detached ones, and ended ones with leftovers. Commands of [`Ledger::spawn`] are not jobs.
    pub fn jobs(&self) -> Vec<CommandJob> {
        self.scope.listed().into_iter().filter_map(|listed| listed.job).map(CommandJob::new).collect()
    }
}

/// A child that has just been started, before its task is.
struct Enlisted {
    entry: Arc<Entry>,
    keeper: Keeper,
    input: Option<(InputPipe, Bytes)>,
    stdin: Option<InputPipe>,
    output: Output,
    note: Option<OwnedFd>,
}

impl Book {
    /// Returns an empty book whose children run within these limits.
    pub fn with_limits(limits: ChildLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Locks the entries and the open scopes. Never held across an `await`.
    pub fn pages(&self) -> MutexGuard<'_, Pages> {
        // No code under the lock can leave the pages half changed, so a poisoned lock is used as it is.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a number that no other entry or scope of this book has. Entries are listed by it, so it is also their
    /// order of age.
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Marks the processes that a finished command left behind as kept. If more than [`MAX_LEFTOVERS`] commands of the
    /// session, in all of its scopes, have such processes, the trees of the oldest are told to end.
    pub fn keep_leftovers(&self, entry: &Entry) {
        entry.kept.store(true, Ordering::Relaxed);
        let is_kept = |listed: &&Listed| listed.entry.kept.load(Ordering::Relaxed);
        let kept: Vec<_> = self.pages().entries.values().filter(is_kept).cloned().collect();
        for oldest in kept.iter().take(kept.len().saturating_sub(MAX_LEFTOVERS)) {
            oldest.entry.cut(Ended::Stopped);
        }
    }
}

impl Listed {
    /// Waits until the main process has ended and, for a job, its output has been read; returns also if the runtime of
    /// its keeper is gone.
    pub async fn ended(&self) {
        match &self.job {
            Some(job) => drop(CommandJob::new(Arc::clone(job)).wait().await),
            None => {
                // An error means that the keeper's runtime is gone, and with it every sender.
                let _ = self.entry.stage.clone().wait_for(|stage| *stage != Stage::Running).await;
            }
        }
    }

    /// Waits until no process of the tree is left and, for a job, nothing more is read.
    pub async fn gone(&self) {
        match &self.job {
            Some(job) => CommandJob::new(Arc::clone(job)).wait_gone().await,
            None => self.entry.gone().await,
        }
    }
}

impl Entry {
    /// Tells the supervisor to end the tree (SIGTERM, the grace period, SIGKILL) by closing its lifeline, and wakes
    /// the pump. Returns at once. Only the first call has an effect, and its reason is the one that is reported.
    pub fn cut(&self, why: Ended) {
        if let Some(lifeline) = self.let_go(why) {
            drop(lifeline);
            self.told.notify_one();
        }
    }

    /// Tells the supervisor to send SIGKILL at once, by a byte before it closes the lifeline. No effect on a tree that
    /// was told to end before: it keeps its grace period.
    pub fn kill_now(&self, why: Ended) {
        if let Some(lifeline) = self.let_go(why) {
            // If the supervisor is gone, nothing is left to kill.
            let _ = rustix::io::write(&lifeline, supervisor::NO_GRACE);
            drop(lifeline);
            self.told.notify_one();
        }
    }

    /// Takes the lifeline out of the entry and records the reason. `None` means that it was taken before: the first
    /// reason stays. The tree ends when the caller drops the returned pipe.
    fn let_go(&self, why: Ended) -> Option<OwnedFd> {
        let mut lifeline = self.lifeline();
        match *lifeline {
            Lifeline::Cut { .. } => None,
            Lifeline::Held(_) => {
                let cut = Lifeline::Cut { why, since: Instant::now() };
                match std::mem::replace(&mut *lifeline, cut) {
                    Lifeline::Held(pipe) => Some(pipe),
                    Lifeline::Cut { .. } => None,
                }
            }
        }
    }

    /// Returns the reason and the time of the first call that told the tree to end, or `None` if none did.
    pub fn cut_for(&self) -> Option<(Ended, Instant)> {
        match *self.lifeline() {
            Lifeline::Held(_) => None,
            Lifeline::Cut { why, since } => Some((why, since)),
        }
    }

    /// Locks the lifeline. A poisoned lock is used as it is, since the value is only ever replaced in one step.
    fn lifeline(&self) -> MutexGuard<'_, Lifeline> {
        self.lifeline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no process of the tree is left; see [`wait_gone`].
    pub async fn gone(&self) {
        wait_gone(self.stage.clone()).await;
    }
}

/// Waits until no process of the tree is left and its supervisor was reaped, or until the keeper is gone with its
/// runtime.
pub(crate) async fn wait_gone(mut stage: watch::Receiver<Stage>) {
    // An error means that the keeper's runtime is gone, and with it every sender.
    let _ = stage.wait_for(|stage| matches!(stage, Stage::Gone { .. })).await;
}

/// Listens to one supervisor until it is reaped.
struct Keeper {
    id: u64,
    pid: i32,
    status: pipe::Receiver,
    child: Child,
    news: watch::Sender<Stage>,
    book: Weak<Book>,
}

impl Keeper {
    /// Waits for the end record, then for the end of the supervisor, reaps it and removes the entry. Without a record
    /// the supervisor was killed: the group of the command is killed, and the stage becomes [`Stage::Gone`] with
    /// [`Exit::Lost`], never [`Stage::Ended`]. A waiter that sees [`Stage::Gone`] can rely on the supervisor being
    /// reaped, so the order must stay.
    async fn run(mut self) {
        let mut record = [0; END_RECORD_BYTES];
        let exit = match self.status.read_exact(&mut record).await {
            Ok(_) => {
                let (exit, rest) = decode(record);
                self.news.send_replace(Stage::Ended { exit, rest });
                exit
            }
            // The supervisor was killed. The kernel kills the main process; we kill the rest of its group.
            Err(_) => {
                if self.pid > 0 {
                    supervisor::kill_group(self.pid);
                }
                Exit::Lost
            }
        };
        // Only the end of the pipe follows, when the supervisor exits.
        let _ = self.status.read(&mut record).await;
        let _ = self.child.wait().await;
        self.news.send_replace(Stage::Gone { exit });
        if let Some(book) = self.book.upgrade() {
            book.pages().entries.remove(&self.id);
        }
    }
}

/// Decodes the end record of a supervisor: how the main process ended, and whether other processes are left. Both are
/// numbers in native byte order; the format must match what `Family::sweep` in `supervisor/life.rs` writes.
fn decode(record: [u8; END_RECORD_BYTES]) -> (Exit, Rest) {
    let [a, b, c, d, e, f, g, h] = record;
    let rest = match i32::from_ne_bytes([e, f, g, h]) {
        0 => Rest::Nothing,
        _ => Rest::Processes,
    };
    (Exit::from_wait_status(i32::from_ne_bytes([a, b, c, d])), rest)
}

/// Writes `input` to the stdin of the command and closes it; stops when the tree is gone. A command that ends or
/// closes its input early is not an error.
async fn feed(input: Option<(InputPipe, Bytes)>, stage: watch::Receiver<Stage>) {
    let Some((mut pipe, bytes)) = input else { return };
    tokio::select! {
        _ = pipe.write_all(&bytes) => {}
        () = wait_gone(stage) => {}
    }
}
