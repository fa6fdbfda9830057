//! One command hook as it runs: reads what it prints within bounds, tells the frames about it, and notices
//! the end, the timeout, or that the hook wants to go on by itself.
//!
//! The surprising thing: a command is started so that what it leaves behind may live on, because only its
//! first line of output tells whether it wants that. Dropping the process kills the whole tree, and that is
//! what happens at the end of every hook that did not ask for more time.

use std::time::Duration;

use lathe_exec::{Exit, Ledger, OutputPipe, Running};
use lathe_protocol::{HookEvent, HookOutput};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::frames::FrameWriter;
use crate::text::{MAX_TEXT_CHARS, frame_text};

/// How much of stdout is kept: room for an answer that carries a rewritten tool output.
pub(crate) const MAX_STDOUT: usize = 2 * 1024 * 1024;
const MAX_STDERR: usize = 256 * 1024;
/// What frames show of both together: enough bytes for the characters of a text.
const MAX_BOTH: usize = 4 * MAX_TEXT_CHARS;
const READ_BYTES: usize = 64 * 1024;

/// How long outputs are read after the main process has ended, if somebody still holds them.
const DRAIN: Duration = Duration::from_millis(200);

/// How often a background tree without output is looked for.
const LINGER_POLL: Duration = Duration::from_millis(250);

/// The start of an output.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    bytes: Vec<u8>,
    max: usize,
    total: u64,
}

impl Kept {
    fn new(max: usize) -> Self {
        Self { bytes: Vec::new(), max, total: 0 }
    }

    fn push(&mut self, chunk: &[u8]) {
        self.total += chunk.len() as u64;
        let room = self.max - self.bytes.len();
        self.bytes.extend_from_slice(&chunk[..room.min(chunk.len())]);
    }

    pub fn is_complete(&self) -> bool {
        self.total == self.bytes.len() as u64
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub fn frame_text(&self) -> String {
        frame_text(&self.bytes)
    }
}

/// What a command has printed.
#[derive(Debug)]
pub(crate) struct Printed {
    pub stdout: Kept,
    pub stderr: Kept,
    /// Both in the order they came.
    pub both: Kept,
}

impl Default for Printed {
    fn default() -> Self {
        Self { stdout: Kept::new(MAX_STDOUT), stderr: Kept::new(MAX_STDERR), both: Kept::new(MAX_BOTH) }
    }
}

/// Why [`Process::watch`] returned.
#[derive(Debug)]
pub(crate) enum Pause {
    /// The main process ended, and its output is read.
    Ended(Exit),
    /// The deadline is over. The tree still lives.
    TimedOut,
    /// The token fired. The tree still lives.
    Cancelled,
    /// The first line says that the hook goes on by itself. Said once.
    SaysAsync(Box<HookOutput>),
}

/// The reading side of a command's outputs.
struct Outputs {
    stdout: Option<OutputPipe>,
    stderr: Option<OutputPipe>,
    buffers: [Vec<u8>; 2],
    printed: Printed,
}

impl Outputs {
    fn is_open(&self) -> bool {
        self.stdout.is_some() || self.stderr.is_some()
    }

    /// Reads once from whichever has something; never returns when both are closed. Cancel-safe.
    async fn step(&mut self) -> usize {
        let Printed { stdout, stderr, both } = &mut self.printed;
        let [out, err] = &mut self.buffers;
        let (kept, chunk) = tokio::select! {
            biased;
            count = read(&mut self.stdout, out) => (stdout, &out[..count]),
            count = read(&mut self.stderr, err) => (stderr, &err[..count]),
        };
        kept.push(chunk);
        both.push(chunk);
        chunk.len()
    }

    /// After the end of the main process: what is in the pipes. Not for long if somebody holds them open,
    /// but always what was there when the time was over.
    async fn drain(&mut self) {
        const AT_MOST_LATE: usize = 1024 * 1024;
        let until = Instant::now() + DRAIN;
        let mut late = 0;
        while self.is_open() && late < AT_MOST_LATE {
            let count = tokio::select! {
                biased;
                count = self.step() => count,
                () = tokio::time::sleep_until(until) => return,
            };
            if Instant::now() >= until {
                late += count;
            }
        }
    }
}

/// A running command hook.
pub(crate) struct Process {
    running: Running,
    outputs: Outputs,
    pub frames: FrameWriter,
    ticks: Interval,
    /// Bytes of both outputs when the last frame went out.
    shown: u64,
    first_line: FirstLine,
    exit: Option<Exit>,
}

#[derive(Debug, PartialEq, Eq)]
enum FirstLine {
    Awaited,
    Read,
}

enum News {
    Output,
    Ended(Exit),
    Tick,
    Pause(Pause),
}

impl Process {
    pub fn new(mut running: Running, frames: FrameWriter, progress_every: Duration) -> Self {
        let mut ticks = tokio::time::interval_at(Instant::now() + progress_every, progress_every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let outputs = Outputs {
            stdout: running.stdout.take(),
            stderr: running.stderr.take(),
            buffers: [vec![0; READ_BYTES], vec![0; READ_BYTES]],
            printed: Printed::default(),
        };
        Self { running, outputs, frames, ticks, shown: 0, first_line: FirstLine::Awaited, exit: None }
    }

    pub fn printed(&self) -> &Printed {
        &self.outputs.printed
    }

    /// Follows the command until something must be decided. Can be called again after
    /// [`Pause::SaysAsync`].
    pub async fn watch(&mut self, deadline: Instant, cancel: &CancellationToken) -> Pause {
        if let Some(exit) = self.exit {
            return Pause::Ended(exit);
        }
        loop {
            // Output comes last: a flood must not hide the end, the deadline or the token.
            let news = tokio::select! {
                biased;
                () = cancel.cancelled() => News::Pause(Pause::Cancelled),
                exit = self.running.wait() => News::Ended(exit),
                () = tokio::time::sleep_until(deadline) => News::Pause(Pause::TimedOut),
                _ = self.ticks.tick() => News::Tick,
                _ = self.outputs.step() => News::Output,
            };
            match news {
                News::Output => {
                    if let Some(output) = self.says_async(Complete::WithNewline) {
                        return Pause::SaysAsync(output);
                    }
                }
                News::Tick => self.show_progress(cancel).await,
                News::Pause(pause) => return pause,
                News::Ended(exit) => {
                    self.outputs.drain().await;
                    self.exit = Some(exit);
                    return match self.says_async(Complete::AtEnd) {
                        Some(output) => Pause::SaysAsync(output),
                        None => Pause::Ended(exit),
                    };
                }
            }
        }
    }

    async fn show_progress(&mut self, cancel: &CancellationToken) {
        let both = &self.outputs.printed.both;
        // Past what frames can show, another one would say the same again.
        let full = self.shown >= both.max as u64;
        if both.total > self.shown && !full {
            self.shown = both.total;
            self.frames.progress(&self.outputs.printed, cancel).await;
        }
    }

    /// Reads the first line once it is there.
    fn says_async(&mut self, complete: Complete) -> Option<Box<HookOutput>> {
        if self.first_line == FirstLine::Read {
            return None;
        }
        let bytes = &self.outputs.printed.stdout.bytes;
        let line = match (bytes.iter().position(|byte| *byte == b'\n'), complete) {
            (Some(end), _) => &bytes[..end],
            (None, Complete::AtEnd) => &bytes[..],
            // The marker is short; a line that has grown past one read is something else.
            (None, Complete::WithNewline) if bytes.len() > READ_BYTES => &[],
            (None, Complete::WithNewline) => return None,
        };
        self.first_line = FirstLine::Read;
        async_marker(&String::from_utf8_lossy(line)).map(Box::new)
    }

    /// Kills the tree and waits for its end.
    pub async fn kill(&self) {
        self.running.kill().await;
    }

    /// For a hook that goes on by itself: after the main process ended, until nothing of its tree is left,
    /// the deadline is over, or the token fires.
    pub async fn linger(&mut self, ledger: &Ledger, deadline: Instant, cancel: &CancellationToken) {
        let pid = self.running.pid();
        while ledger.live().iter().any(|process| process.pid == pid) {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                () = tokio::time::sleep_until(deadline) => return,
                _ = self.outputs.step() => {}
                () = tokio::time::sleep(LINGER_POLL) => {}
            }
        }
        self.outputs.drain().await;
    }
}

#[derive(Clone, Copy)]
enum Complete {
    WithNewline,
    AtEnd,
}

/// Reads once; closes the pipe at its end and then never returns. Cancel-safe.
async fn read(pipe: &mut Option<OutputPipe>, buffer: &mut [u8]) -> usize {
    let Some(open) = pipe else { return std::future::pending().await };
    match open.read(buffer).await {
        Ok(count @ 1..) => count,
        Ok(0) | Err(_) => {
            *pipe = None;
            0
        }
    }
}

/// The answer `{"async": true, …}`, if this line is one.
pub(crate) fn async_marker(line: &str) -> Option<HookOutput> {
    let line = line.trim();
    if !line.starts_with('{') || !line.contains("async") {
        return None;
    }
    let value = serde_json::from_str(line).ok()?;
    let output = HookOutput::parse(&value, &HookEvent::Unknown(String::new())).ok()?;
    (output.async_ == Some(true)).then_some(output)
}
