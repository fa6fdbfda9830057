//! Runs a command to its end: input in, bounded output out, and a reason why it ended.
//!
//! The surprising thing: the end of the main process is the end of the command. A grandchild that holds
//! the pipes does not hold the result; after the main process has ended they are read for a moment more,
//! and whatever is in them then is all there is.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

use crate::capture::{Captured, Collector, Flow};
use crate::ledger::Rest;
use crate::running::Output;
use crate::{ExecError, Exit, Ledger, Leftovers, OutputPipe, RunLimits, Running, Spec};

/// A command that has ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// How the main process ended.
    pub exit: Exit,
    /// What made it end.
    pub ended: Ended,
    /// What it printed; both outputs if they are merged.
    pub stdout: Captured,
    /// What it printed to stderr; empty if the outputs are merged.
    pub stderr: Captured,
    /// What it wrote to [`Spec::note_fd`], up to 16 KiB.
    pub note: Vec<u8>,
    /// From start to end.
    pub duration: Duration,
}

/// What made a command end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It came to its end, good or bad.
    ByItself,
    /// [`RunLimits::timeout`] was over, and the tree was killed.
    TimedOut,
    /// The token was cancelled, and the tree was killed.
    Cancelled,
    /// It printed more than [`OutputLimit::KillAt`](crate::OutputLimit::KillAt), and the tree was killed.
    OutputLimit,
}

/// How long outputs are read after the main process ended, if somebody keeps them open.
const DRAIN: Duration = Duration::from_millis(200);

/// When leftovers may go on holding the pipes: how long a silence ends the reading.
const QUIET: Duration = Duration::from_millis(50);

const READ_BYTES: usize = 64 * 1024;

const NOTE_BYTES: usize = 16 * 1024;

impl Ledger {
    /// Runs a command to its end. Dropping the future kills the tree. An error means that it did not start.
    pub async fn run(
        &self,
        spec: Spec,
        limits: RunLimits,
        cancel: &CancellationToken,
    ) -> Result<Finished, ExecError> {
        let started = Instant::now();
        let leftovers = spec.leftovers;
        let mut running = self.spawn(spec)?;
        drop(running.stdin.take());
        let mut pump = Pump::new(&mut running, &limits);

        let ended = tokio::select! {
            biased;
            _ = running.ended() => Ended::ByItself,
            () = cancel.cancelled() => Ended::Cancelled,
            () = after(limits.timeout) => Ended::TimedOut,
            () = pump.until_over_limit() => Ended::OutputLimit,
        };
        let (exit, rest) = match ended {
            Ended::ByItself => running.ended().await,
            Ended::TimedOut | Ended::Cancelled | Ended::OutputLimit => {
                let exit = tokio::select! {
                    biased;
                    exit = running.kill() => exit,
                    never = pump.forever() => match never {},
                };
                (exit, Rest::Nothing)
            }
        };
        let kept = match (rest, leftovers) {
            (Rest::Processes, Leftovers::KeepForSession) => true,
            (Rest::Processes, Leftovers::KillNow) | (Rest::Nothing, _) => false,
        };
        pump.drain(if kept { QUIET } else { DRAIN }).await;
        let note = read_note(&running);
        let (stdout, stderr, output) = pump.finish();
        if kept {
            let entry = running.release();
            self.keep_leftovers(&entry, output);
        }
        Ok(Finished { exit, ended, stdout, stderr, note, duration: started.elapsed() })
    }
}

async fn after(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

/// Moves what a command prints into its collectors.
struct Pump {
    stdout: Stream,
    stderr: Option<Stream>,
}

struct Stream {
    pipe: OutputPipe,
    state: StreamState,
    collector: Collector,
    buffer: Vec<u8>,
}

#[derive(PartialEq)]
enum StreamState {
    Open,
    Closed,
}

impl Pump {
    fn new(running: &mut Running, limits: &RunLimits) -> Self {
        let stream = |pipe, capture: &crate::Capture| Stream {
            pipe,
            state: StreamState::Open,
            collector: Collector::new(capture.clone()),
            buffer: vec![0; READ_BYTES],
        };
        Self {
            stdout: stream(running.stdout.take().expect("nobody else has taken it yet"), &limits.stdout),
            stderr: running.stderr.take().map(|pipe| stream(pipe, &limits.stderr)),
        }
    }

    fn is_open(&self) -> bool {
        let open = |stream: &Stream| stream.state == StreamState::Open;
        open(&self.stdout) || self.stderr.as_ref().is_some_and(open)
    }

    /// Reads once from whichever output has something; pending for ever when both are closed. Cancel-safe.
    async fn step(&mut self) -> Flow {
        let stderr = async {
            match &mut self.stderr {
                Some(stream) => stream.read().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            flow = self.stdout.read() => flow,
            flow = stderr => flow,
        }
    }

    async fn until_over_limit(&mut self) {
        while self.step().await == Flow::GoOn {}
    }

    async fn forever(&mut self) -> Infallible {
        loop {
            self.step().await;
        }
    }

    /// After the end of the main process: reads until both outputs are closed, or silent for `quiet`, or
    /// [`DRAIN`] is over, and then what is in the pipes at that moment, so that nothing that the main
    /// process printed is lost on a busy machine.
    async fn drain(&mut self, quiet: Duration) {
        let until_quiet =
            async { while self.is_open() && tokio::time::timeout(quiet, self.step()).await.is_ok() {} };
        let _ = tokio::time::timeout(DRAIN, until_quiet).await;
        self.stdout.sweep();
        if let Some(stream) = &mut self.stderr {
            stream.sweep();
        }
    }

    fn finish(self) -> (Captured, Captured, Output) {
        let (stderr_pipe, stderr) = match self.stderr {
            Some(stream) => (Some(stream.pipe), stream.collector.finish()),
            None => (None, Captured::default()),
        };
        let output = Output { stdout: self.stdout.pipe, stderr: stderr_pipe };
        (self.stdout.collector.finish(), stderr, output)
    }
}

impl Stream {
    async fn read(&mut self) -> Flow {
        if self.state == StreamState::Closed {
            return std::future::pending().await;
        }
        match self.pipe.read(&mut self.buffer).await {
            Ok(0) | Err(_) => {
                self.state = StreamState::Closed;
                Flow::GoOn
            }
            Ok(count) => self.collector.push(&self.buffer[..count]),
        }
    }

    /// What is in the pipe right now; at most as much as a pipe can hold, for somebody may be writing.
    fn sweep(&mut self) {
        const AT_MOST: usize = 1024 * 1024;
        let mut swept = 0;
        while self.state == StreamState::Open && swept < AT_MOST {
            match read_now(self.pipe.as_fd(), &mut self.buffer) {
                Ok(0) => self.state = StreamState::Closed,
                Ok(count) => {
                    self.collector.push(&self.buffer[..count]);
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

fn read_note(running: &Running) -> Vec<u8> {
    let Some(pipe) = &running.note else {
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
