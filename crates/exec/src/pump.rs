//! The pump: moves what a command prints into its job, notices the end, and keeps the command's time.
//!
//! It runs in the task of its command, so it goes on when callers come and go.
//! Killing is done by the supervisor, keeping by `capture.rs`.
//!
//! The surprising thing: the end of the main process is the end of the command. A grandchild that holds
//! the pipes does not hold the result; after the main process has ended they are read for a moment more,
//! and whatever is in them then is what the command printed. What its leftovers print later is still read and
//! kept, if they may go on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::capture::Flow;
use crate::job::{EndFacts, JobShared};
use crate::ledger::{Book, KILL_WAIT, Rest, Stage, wait_gone};
use crate::reading::OutputStream;
use crate::running::Output;
use crate::{Ended, Exit, Leftovers, OutputPipe};

/// How long outputs are read after the main process ended, if another process keeps them open.
const DRAIN: Duration = Duration::from_millis(200);

/// When leftovers may go on holding the pipes for the session: how long a silence ends the reading.
const QUIET: Duration = Duration::from_millis(50);

/// Bytes of one read.
const READ_BYTES: usize = 64 * 1024;

/// Reads before others get a turn: together as much as a pipe holds.
const READS_IN_A_ROW: usize = 4;

const NOTE_BYTES: usize = 16 * 1024;

/// Reads one command's pipes from its start until nothing of it is left.
pub(crate) struct Pump {
    shared: Arc<JobShared>,
    stdout: Stream,
    stderr: Option<Stream>,
    note: Option<OwnedFd>,
    stage: watch::Receiver<Stage>,
    book: Weak<Book>,
}

struct Stream {
    pipe: OutputPipe,
    state: StreamState,
    which: OutputStream,
}

#[derive(PartialEq)]
enum StreamState {
    Open,
    Closed,
}

/// Whether too much output is a reason to return.
#[derive(Clone, Copy)]
enum Limit {
    Heeded,
    Ignored,
}

/// How the main process ended, as far as the supervisor said.
struct MainEnd {
    exit: Exit,
    rest: Rest,
    ended: Ended,
}

impl Pump {
    pub fn new(shared: Arc<JobShared>, output: Output, note: Option<OwnedFd>, book: Weak<Book>) -> Self {
        let stream = |pipe, which| Stream { pipe, state: StreamState::Open, which };
        Self {
            stage: shared.entry.stage.clone(),
            stdout: stream(output.stdout, OutputStream::Stdout),
            stderr: output.stderr.map(|pipe| stream(pipe, OutputStream::Stderr)),
            shared,
            note,
            book,
        }
    }

    pub async fn run(mut self) {
        let last_word = LastWord { shared: Arc::clone(&self.shared) };
        let MainEnd { exit, rest, ended } = self.until_ended().await;
        let kept = match (rest, self.shared.leftovers) {
            (Rest::Processes, Leftovers::KeepForSession | Leftovers::UntilDropped) => true,
            (Rest::Processes, Leftovers::KillNow) | (Rest::Nothing, _) => false,
        };
        self.drain(match self.shared.leftovers {
            Leftovers::KeepForSession if kept => QUIET,
            Leftovers::KeepForSession | Leftovers::UntilDropped | Leftovers::KillNow => DRAIN,
        })
        .await;
        if kept && let Some(book) = self.book.upgrade() {
            book.keep_leftovers(&self.shared.entry);
        }
        let (note, duration) = (self.read_note(), self.shared.entry.started.elapsed());
        self.shared.announce_end(EndFacts { exit, ended, note, duration });
        if kept {
            self.follow_leftovers().await;
        } else {
            let stage = self.stage.clone();
            // Closes the pipes: what the command started is being killed.
            drop(self);
            wait_gone(stage).await;
        }
        drop(last_word);
    }

    /// Reads until the main process has ended; if the tree was told to end, until all of it has, or until it
    /// is plain that it will not.
    async fn until_ended(&mut self) -> MainEnd {
        let shared = Arc::clone(&self.shared);
        loop {
            let cut = shared.entry.cut_for();
            let (due, limit) = match cut {
                None => (shared.deadline(), Limit::Heeded),
                Some((_, since)) => (Some(since + shared.entry.grace + KILL_WAIT), Limit::Ignored),
            };
            let over = |stage: &Stage| match stage {
                Stage::Running => false,
                Stage::Ended { .. } => cut.is_none(),
                Stage::Gone { .. } => true,
            };
            let mut stage = self.stage.clone();
            let why = tokio::select! {
                biased;
                _ = stage.wait_for(over) => return self.main_end(cut.map(|(why, _)| why)),
                () = shared.entry.told.notified() => continue,
                () = at(due) => Ended::TimedOut,
                () = self.read_on(limit) => Ended::OutputLimit,
            };
            match cut {
                None => shared.entry.cut(why),
                // It does not die. The exit that is known is told, or `Lost`.
                Some((why, _)) => return self.main_end(Some(why)),
            }
        }
    }

    fn main_end(&self, cut_for: Option<Ended>) -> MainEnd {
        let ended = cut_for.unwrap_or(Ended::ByItself);
        let (exit, rest) = match *self.stage.borrow() {
            Stage::Running => (Exit::Lost, Rest::Nothing),
            Stage::Ended { exit, rest } if cut_for.is_none() => (exit, rest),
            Stage::Ended { exit, .. } | Stage::Gone { exit } => (exit, Rest::Nothing),
        };
        MainEnd { exit, rest, ended }
    }

    fn is_open(&self) -> bool {
        let open = |stream: &Stream| stream.state == StreamState::Open;
        open(&self.stdout) || self.stderr.as_ref().is_some_and(open)
    }

    /// Reads from whichever output has something; pending for ever when both are closed. Cancel-safe.
    async fn step(&mut self) -> Flow {
        let shared = &*self.shared;
        let stderr = async {
            match &mut self.stderr {
                Some(stream) => stream.read(shared).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            flow = self.stdout.read(shared) => flow,
            flow = stderr => flow,
        }
    }

    /// Reads until there is more than the limit allows; for ever if that is ignored.
    async fn read_on(&mut self, limit: Limit) {
        loop {
            match (self.step().await, limit) {
                (Flow::OverLimit, Limit::Heeded) => return,
                (Flow::OverLimit, Limit::Ignored) | (Flow::GoOn, _) => {}
            }
        }
    }

    /// After the end of the main process: reads until both outputs are closed, or silent for `quiet`, or
    /// [`DRAIN`] is over, and then what is in the pipes at that moment, so that nothing that the main
    /// process printed is lost on a busy machine.
    async fn drain(&mut self, quiet: Duration) {
        // Mostly that is all, because no other process holds the pipes.
        self.sweep();
        if !self.is_open() {
            return;
        }
        let until_quiet =
            async { while self.is_open() && tokio::time::timeout(quiet, self.step()).await.is_ok() {} };
        let _ = tokio::time::timeout(DRAIN, until_quiet).await;
        self.sweep();
    }

    /// Reads what an ended command's leftovers print, until they are gone.
    async fn follow_leftovers(&mut self) {
        let stage = self.stage.clone();
        tokio::select! {
            biased;
            () = wait_gone(stage) => {}
            () = self.read_on(Limit::Ignored) => {}
        }
        self.sweep();
    }

    fn sweep(&mut self) {
        self.stdout.sweep(&self.shared);
        if let Some(stream) = &mut self.stderr {
            stream.sweep(&self.shared);
        }
    }

    fn read_note(&self) -> Vec<u8> {
        let Some(pipe) = &self.note else {
            return Vec::new();
        };
        let mut note = vec![0; NOTE_BYTES];
        let mut filled = 0;
        while let Ok(count @ 1..) = read_now(pipe.as_fd(), &mut note[filled..]) {
            filled += count;
        }
        note.truncate(filled);
        note
    }
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

impl Stream {
    async fn read(&mut self, shared: &JobShared) -> Flow {
        if self.state == StreamState::Closed {
            return std::future::pending().await;
        }
        if self.pipe.readable().await.is_err() {
            self.state = StreamState::Closed;
            return Flow::GoOn;
        }
        self.take(shared)
    }

    /// Reads what is there. The buffer lives only here, so that a command that prints nothing costs none.
    fn take(&mut self, shared: &JobShared) -> Flow {
        let mut buffer = Vec::with_capacity(READ_BYTES);
        for _ in 0..READS_IN_A_ROW {
            buffer.clear();
            match self.pipe.try_read_buf(&mut buffer) {
                Ok(1..) => match shared.push(self.which, &buffer) {
                    Flow::GoOn => {}
                    Flow::OverLimit => return Flow::OverLimit,
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Ok(0) | Err(_) => {
                    self.state = StreamState::Closed;
                    break;
                }
            }
        }
        Flow::GoOn
    }

    /// What is in the pipe right now; at most as much as a pipe can hold, for a process may be writing.
    fn sweep(&mut self, shared: &JobShared) {
        const AT_MOST: usize = 1024 * 1024;
        if self.state == StreamState::Closed {
            return;
        }
        let mut buffer = vec![0; READ_BYTES];
        let mut swept = 0;
        while swept < AT_MOST {
            match read_now(self.pipe.as_fd(), &mut buffer) {
                Ok(0) => {
                    self.state = StreamState::Closed;
                    return;
                }
                Ok(count) => {
                    shared.push(self.which, &buffer[..count]);
                    swept += count;
                }
                Err(_) => return,
            }
        }
    }
}

/// Reads without waiting, and without asking tokio's possibly stale idea of readiness.
fn read_now(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::retry_on_intr(|| rustix::io::read(fd, &mut *buffer))?)
}

/// Ends all waits for the command, also when its task is dropped together with its runtime.
struct LastWord {
    shared: Arc<JobShared>,
}

impl Drop for LastWord {
    fn drop(&mut self) {
        let duration = self.shared.entry.started.elapsed();
        let (exit, ended, note) = (Exit::Lost, Ended::Stopped, Vec::new());
        self.shared.announce_end(EndFacts { exit, ended, note, duration });
        self.shared.announce_gone();
    }
}
