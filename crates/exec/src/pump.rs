//! The pump: moves the output of a command into its job, notices its end, and enforces its time-out.
//!
//! It runs in the task of its command, so it does not depend on callers. The supervisor kills; `capture.rs` keeps the
//! output.
//!
//! The surprising thing: the end of the main process is the end of the command. A grandchild that holds the pipes does
//! not delay the result; after the main process has ended the pipes are read for a moment more, and what is in them
//! then is what the command printed. What its leftovers print later is still read and kept, if they may continue.

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

/// How long outputs are read after the main process has ended, if another process keeps them open.
const DRAIN: Duration = Duration::from_millis(200);

/// When leftovers may hold the pipes for the rest of the session: the silence that ends the reading.
const QUIET: Duration = Duration::from_millis(50);

/// Bytes of one read.
const READ_BYTES: usize = 64 * 1024;

/// Reads before other tasks get a turn: together as much as a pipe holds.
const READS_IN_A_ROW: usize = 4;

const NOTE_BYTES: usize = 16 * 1024;

/// Reads the pipes of one command from its start until no process of it is left.
pub(crate) struct Pump {
    shared: Arc<JobShared>,
    stdout: Stream,
    stderr: Option<Stream>,
    note: Option<OwnedFd>,
    stage: watch::Receiver<Stage>,
    book: Weak<Book>,
}

/// Our end of one output, and which one it is.
struct Stream {
    pipe: OutputPipe,
    state: StreamState,
    which: OutputStream,
}

/// Whether the end of an output was seen. Nothing is read after that.
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

/// How the main process ended, as far as the supervisor reported it.
struct MainEnd {
    exit: Exit,
    rest: Rest,
    ended: Ended,
}

impl Pump {
    /// Returns the pump of one job. It reads nothing before [`Pump::run`].
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

    /// Reads until the command has ended, announces the end, and then either follows its leftovers or closes the pipes
    /// and waits until the tree is gone. `last_word` is dropped last: it announces the end of the tree even if this
    /// task is cancelled.
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
            // Closes the pipes: the processes that the command started are being killed.
            drop(self);
            wait_gone(stage).await;
        }
        drop(last_word);
    }

    /// Reads until the main process has ended, and enforces the limits meanwhile: at the deadline or at the limit of an
    /// output it tells the tree to end. Once that was told, it waits until the whole tree is gone, for at most the
    /// grace period and [`KILL_WAIT`].
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
                // The tree does not die. The known exit is reported, or `Lost`.
                Some((why, _)) => return self.main_end(Some(why)),
            }
        }
    }

    /// Returns how the main process ended. After a cut the rest of the tree dies with it, so no leftovers are reported;
    /// a main process that has not ended although it was told to is [`Exit::Lost`].
    fn main_end(&self, cut_for: Option<Ended>) -> MainEnd {
        let ended = cut_for.unwrap_or(Ended::ByItself);
        let (exit, rest) = match *self.stage.borrow() {
            Stage::Running => (Exit::Lost, Rest::Nothing),
            Stage::Ended { exit, rest } if cut_for.is_none() => (exit, rest),
            Stage::Ended { exit, .. } | Stage::Gone { exit } => (exit, Rest::Nothing),
        };
        MainEnd { exit, rest, ended }
    }

    /// Returns whether one of the outputs has not reached its end yet: some process still holds its pipe, or data is
    /// left in it.
    fn is_open(&self) -> bool {
        let open = |stream: &Stream| stream.state == StreamState::Open;
        open(&self.stdout) || self.stderr.as_ref().is_some_and(open)
    }

    /// Reads once from the next output that has data into the job; pending for ever when both are closed. Cancel-safe.
    /// [`Flow::OverLimit`] means that the output has reached its limit.
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

    /// Reads both outputs into the job until one reaches its limit; if the limit is ignored, until the future is
    /// dropped.
    async fn read_on(&mut self, limit: Limit) {
        loop {
            match (self.step().await, limit) {
                (Flow::OverLimit, Limit::Heeded) => return,
                (Flow::OverLimit, Limit::Ignored) | (Flow::GoOn, _) => {}
            }
        }
    }

    /// Reads, after the end of the main process, until both outputs are closed, or silent for `quiet`, or [`DRAIN`] is
    /// over, and then what is in the pipes at that moment, so that no output of the main process is lost on a busy
    /// machine.
    async fn drain(&mut self, quiet: Duration) {
        // Usually that is all, because no other process holds the pipes.
        self.sweep();
        if !self.is_open() {
            return;
        }
        let until_quiet =
            async { while self.is_open() && tokio::time::timeout(quiet, self.step()).await.is_ok() {} };
        let _ = tokio::time::timeout(DRAIN, until_quiet).await;
        self.sweep();
    }

    /// Reads what the leftovers of an ended command print, without a limit, until no process of the tree is left.
    async fn follow_leftovers(&mut self) {
        let stage = self.stage.clone();
        tokio::select! {
            biased;
            () = wait_gone(stage) => {}
            () = self.read_on(Limit::Ignored) => {}
        }
        self.sweep();
    }

    /// Reads what is in the pipes of both outputs now, without waiting; see [`Stream::sweep`].
    fn sweep(&mut self) {
        self.stdout.sweep(&self.shared);
        if let Some(stream) = &mut self.stderr {
            stream.sweep(&self.shared);
        }
    }

    /// Returns what the command wrote to its note pipe, at most [`NOTE_BYTES`]; empty without such a pipe. To be called
    /// after the main process has ended: it does not wait, and what is written later is lost.
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

/// Waits until `due`, or for ever if it is `None`, so that it can be a branch of a `select!`.
async fn at(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

impl Stream {
    /// Waits until the pipe has data, and reads it into the job. Pending for ever once the pipe is closed, so that a
    /// `select!` with the other stream does not spin. Cancel-safe: nothing is read before the last wait.
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

    /// Reads what is available into the job, at most [`READS_IN_A_ROW`] times, so that other tasks get a turn; marks
    /// the stream as closed at its end. [`Flow::OverLimit`] means that the output reached its limit. The buffer is
    /// allocated only here, so that a silent command does not have one.
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

    /// Reads what is in the pipe now into the job, without waiting and without heeding the limit; at most as much as a
    /// pipe can hold, because a process may still be writing.
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

/// Reads once from a non-blocking descriptor and returns the number of bytes: 0 at the end, an error if nothing is
/// there now. It does not use tokio's readiness flag, which may be stale.
fn read_now(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::retry_on_intr(|| rustix::io::read(fd, &mut *buffer))?)
}

/// Ends all waits for the command, even if its task is dropped together with its runtime.
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
