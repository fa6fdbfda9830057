//! The ledger: who is running, and the power to end all of it.
//!
//! Each child has an [`Entry`] here that holds its lifeline, and one tracked task, its *keeper*, that
//! listens to the supervisor, reaps it and strikes the entry off. Dropping the last clone of a [`Ledger`]
//! closes every lifeline. The keepers hold the ledger only weakly, or that drop would never come.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::launch::{self, Launched, launch};
use crate::running::Output;
use crate::supervisor::{self, END_RECORD_BYTES};
use crate::{ChildLimits, ExecError, Exit, Running, Spec, StdinSource};

/// All children of one session. Clones are the same ledger; when the last one is dropped, every tree on it
/// is killed.
#[derive(Clone, Default)]
pub struct Ledger {
    book: Arc<Book>,
}

#[derive(Default)]
struct Book {
    limits: ChildLimits,
    entries: Mutex<BTreeMap<u64, Arc<Entry>>>,
    next_id: AtomicU64,
    /// Keepers and the writers and readers that serve a child whose owner does not wait for them. All of
    /// them end when their child's tree does.
    tasks: TaskTracker,
}

/// One child on the ledger.
pub(crate) struct Entry {
    id: u64,
    pub pid: i32,
    label: String,
    started: Instant,
    pub grace: Duration,
    /// `None` once the tree was told to end.
    lifeline: Mutex<Option<OwnedFd>>,
    /// Set when the command ended and left something that may go on.
    kept: std::sync::atomic::AtomicBool,
    pub stage: watch::Receiver<Stage>,
}

/// How far a child is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Running,
    /// The main process has ended.
    Ended {
        exit: Exit,
        rest: Rest,
    },
    /// The whole tree is gone and the supervisor reaped.
    Gone {
        exit: Exit,
    },
}

/// What was there besides the main process when it ended.
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
    /// As given in the [`Spec`].
    pub label: String,
    /// Since it was started.
    pub age: Duration,
    /// The main process has ended; what it started in the background goes on.
    pub leftover: bool,
}

/// How many commands may leave something running; the oldest such tree is killed to make room.
const MAX_LEFTOVERS: usize = 64;

/// How long after SIGKILL a tree may take to be gone before nobody waits for it any more (a process in an
/// uninterruptible system call, or one that belongs to another user).
pub(crate) const KILL_WAIT: Duration = Duration::from_secs(2);

impl Ledger {
    /// A ledger whose children run within these limits.
    pub fn with_limits(limits: ChildLimits) -> Self {
        let mut book = Book::default();
        book.limits = limits;
        Self { book: Arc::new(book) }
    }

    /// The number to use for [`Spec::note_fd`]: `preferred`, or the highest one that there can be where the
    /// limit of open files is lower.
    pub fn note_number(&self, preferred: i32) -> i32 {
        launch::note_number(preferred, self.book.limits)
    }

    /// Starts a command and hands out its pipes. Needs a tokio runtime with I/O enabled.
    pub fn spawn(&self, spec: Spec) -> Result<Running, ExecError> {
        let launched = launch(&spec, self.book.limits)?;
        let Launched { child, pid, lifeline, status, mut stdin, stdout, stderr, note } = launched;
        let (news, stage) = watch::channel(Stage::Running);
        let entry = Arc::new(Entry {
            id: self.book.next_id.fetch_add(1, Ordering::Relaxed),
            // 0 stands for "already gone": the keeper finds out at once.
            pid: pid.unwrap_or(0),
            label: spec.label,
            started: Instant::now(),
            grace: spec.grace,
            lifeline: Mutex::new(Some(lifeline)),
            kept: false.into(),
            stage,
        });
        self.book.entries().insert(entry.id, Arc::clone(&entry));
        let keeper =
            Keeper { id: entry.id, pid: entry.pid, status, child, news, book: Arc::downgrade(&self.book) };
        self.book.tasks.spawn(keeper.run());
        if let StdinSource::Bytes(bytes) = spec.stdin
            && let Some(pipe) = stdin.take()
        {
            let gone = entry.stage.clone();
            self.book.tasks.spawn(feed(pipe, bytes, gone));
        }
        Ok(Running::new(entry, stdin, Output { stdout, stderr }, note))
    }

    /// What is running now, oldest first.
    pub fn live(&self) -> Vec<LiveProcess> {
        let entries = self.book.entries();
        let line = |entry: &Arc<Entry>| {
            let leftover = match *entry.stage.borrow() {
                Stage::Running => false,
                Stage::Ended { rest: Rest::Processes, .. } => true,
                Stage::Ended { rest: Rest::Nothing, .. } | Stage::Gone { .. } => return None,
            };
            Some(LiveProcess {
                pid: entry.pid,
                label: entry.label.clone(),
                age: entry.started.elapsed(),
                leftover,
            })
        };
        entries.values().filter_map(line).collect()
    }

    /// Kills every tree on the ledger and waits until all are gone, but not longer than the longest grace
    /// period and a moment for the kernel. The trees die also if nobody polls this to its end.
    pub async fn kill_all(&self) {
        let entries: Vec<_> = self.book.entries().values().cloned().collect();
        for entry in &entries {
            entry.cut();
        }
        let longest = entries.iter().map(|entry| entry.grace).max();
        let Some(longest) = longest else { return };
        let all_gone = async {
            for entry in &entries {
                entry.gone().await;
            }
        };
        let _ = tokio::time::timeout(longest + KILL_WAIT, all_gone).await;
    }

    /// Lets what a finished command left behind go on. Its output is read and thrown away.
    pub(crate) fn keep_leftovers(&self, entry: &Arc<Entry>, output: Output) {
        entry.kept.store(true, Ordering::Relaxed);
        let kept: Vec<_> = self
            .book
            .entries()
            .values()
            .filter(|entry| entry.kept.load(Ordering::Relaxed))
            .cloned()
            .collect();
        for oldest in kept.iter().take(kept.len().saturating_sub(MAX_LEFTOVERS)) {
            oldest.cut();
        }
        let entry = Arc::downgrade(entry);
        self.book.tasks.spawn(async move {
            let Some(stage) = entry.upgrade().map(|entry| entry.stage.clone()) else {
                return;
            };
            tokio::select! {
                () = output.discard() => {}
                () = wait_gone(stage) => {}
            }
        });
    }
}

impl Book {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Entry>>> {
        // Nothing is done under the lock that could leave the map half changed.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Book {
    fn drop(&mut self) {
        for entry in self.entries().values() {
            entry.cut();
        }
    }
}

impl Entry {
    /// Tells the supervisor to end the tree.
    pub fn cut(&self) {
        self.lifeline.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Until the whole tree is gone.
    pub async fn gone(&self) {
        wait_gone(self.stage.clone()).await;
    }
}

async fn wait_gone(mut stage: watch::Receiver<Stage>) {
    // An error means that the keeper's runtime is gone, and with it everybody who could tell us.
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
    async fn run(mut self) {
        let mut record = [0; END_RECORD_BYTES];
        let exit = match self.status.read_exact(&mut record).await {
            Ok(_) => {
                let (exit, rest) = decode(record);
                self.news.send_replace(Stage::Ended { exit, rest });
                exit
            }
            // The supervisor was killed. The kernel kills the main process; the rest of its group is ours.
            Err(_) => {
                if self.pid > 0 {
                    supervisor::kill_group(self.pid);
                }
                Exit::Lost
            }
        };
        // Nothing more comes but the end of the pipe, when the supervisor exits.
        let _ = self.status.read(&mut record).await;
        let _ = self.child.wait().await;
        self.news.send_replace(Stage::Gone { exit });
        if let Some(book) = self.book.upgrade() {
            book.entries().remove(&self.id);
        }
    }
}

fn decode(record: [u8; END_RECORD_BYTES]) -> (Exit, Rest) {
    let [a, b, c, d, e, f, g, h] = record;
    let rest = match i32::from_ne_bytes([e, f, g, h]) {
        0 => Rest::Nothing,
        _ => Rest::Processes,
    };
    (Exit::from_wait_status(i32::from_ne_bytes([a, b, c, d])), rest)
}

/// Writes a command's input. A command that ends or closes its input early is not an error.
async fn feed(mut pipe: pipe::Sender, bytes: bytes::Bytes, stage: watch::Receiver<Stage>) {
    use tokio::io::AsyncWriteExt;
    tokio::select! {
        _ = pipe.write_all(&bytes) => {}
        () = wait_gone(stage) => {}
    }
}
