//! One command hook as it runs: tells the frames what it prints, and notices the end, the timeout, or that the
//! hook wants to go on by itself. Reading and bounding the output is `lathe_exec`'s.
//!
//! The surprising thing: a command is started so that what it leaves behind may live on, because only its
//! first line of output tells whether it wants that. Dropping the process kills the whole tree, and that is
//! what happens at the end of every hook that did not ask for more time.

use std::time::Duration;

use lathe_exec::{
    Capture, Captured, Exit, ForegroundCommand, JobEvents, OutputLimit, OutputStream, RunLimits,
};
use lathe_protocol::{HookEvent, HookOutput};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::frames::FrameWriter;
use crate::text::{MAX_TEXT_CHARS, frame_text};

/// How much of stdout is kept: room for an answer that carries a rewritten tool output.
pub(crate) const MAX_STDOUT: usize = 2 * 1024 * 1024;
const MAX_STDERR: usize = 256 * 1024;
/// What frames show of both together: enough bytes for the characters of a text.
const MAX_BOTH: usize = 4 * MAX_TEXT_CHARS;
/// The line that says that a hook goes on by itself is short; a first line longer than this is something else.
const MAX_MARKER: usize = 64 * 1024;

/// What is kept of a hook's outputs. Its time is kept by [`Process::watch`].
pub(crate) fn limits() -> RunLimits {
    let start_of = |head_bytes| Capture { head_bytes, tail_bytes: 0, spill: None, limit: OutputLimit::None };
    RunLimits {
        timeout: None,
        stdout: start_of(MAX_STDOUT),
        stderr: start_of(MAX_STDERR),
        both: Some(start_of(MAX_BOTH)),
        // The hook itself holds its place: from before the first try to start it, and not while it is in the background.
        place: None,
    }
}

/// The start of an output.
#[derive(Debug, Default)]
pub(crate) struct Kept(Captured);

impl Kept {
    pub fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.head).into_owned()
    }

    pub fn frame_text(&self) -> String {
        frame_text(&self.0.head)
    }
}

/// What a command has printed.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    pub stdout: Kept,
    pub stderr: Kept,
    /// Both in the order they came.
    pub both: Kept,
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

/// A running command hook.
pub(crate) struct Process {
    command: ForegroundCommand,
    events: JobEvents,
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
    pub fn new(command: ForegroundCommand, frames: FrameWriter, progress_every: Duration) -> Self {
        let mut ticks = tokio::time::interval_at(Instant::now() + progress_every, progress_every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let events = command.events();
        Self { command, events, frames, ticks, shown: 0, first_line: FirstLine::Awaited, exit: None }
    }

    pub fn printed(&self) -> Printed {
        let kept = |stream| Kept(self.command.output(stream));
        Printed {
            stdout: kept(OutputStream::Stdout),
            stderr: kept(OutputStream::Stderr),
            both: kept(OutputStream::Both),
        }
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
                exit = self.command.exit() => News::Ended(exit),
                () = tokio::time::sleep_until(deadline) => News::Pause(Pause::TimedOut),
                _ = self.ticks.tick() => News::Tick,
                Some(_) = self.events.next() => News::Output,
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
        let total = self.command.total_bytes(OutputStream::Both);
        // Past what frames can show, another one would say the same again.
        let full = self.shown >= MAX_BOTH as u64;
        if total > self.shown && !full {
            self.shown = total;
            self.frames.progress(&self.printed(), cancel).await;
        }
    }

    /// Reads the first line once it is there.
    fn says_async(&mut self, complete: Complete) -> Option<Box<HookOutput>> {
        if self.first_line == FirstLine::Read {
            return None;
        }
        let line = self.command.peek(OutputStream::Stdout, |bytes| {
            let line = match (bytes.iter().position(|byte| *byte == b'\n'), complete) {
                (Some(end), _) => &bytes[..end],
                (None, Complete::AtEnd) => bytes,
                (None, Complete::WithNewline) if bytes.len() > MAX_MARKER => &[],
                (None, Complete::WithNewline) => return None,
            };
            Some(String::from_utf8_lossy(line).into_owned())
        })?;
        self.first_line = FirstLine::Read;
        async_marker(&line).map(Box::new)
    }

    /// Kills the tree and waits for its end.
    pub async fn kill(&self) {
        self.command.kill().await;
    }

    /// For a hook that goes on by itself: after the main process ended, until nothing of its tree is left,
    /// the deadline is over, or the token fires.
    pub async fn linger(&self, deadline: Instant, cancel: &CancellationToken) {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = tokio::time::sleep_until(deadline) => {}
            () = self.command.wait_gone() => {}
        }
    }
}

#[derive(Clone, Copy)]
enum Complete {
    WithNewline,
    AtEnd,
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
