//! A running command hook: sends frames with its output, and reports its end, its timeout, or that it wants to move to
//! the background. `lathe_exec` reads and bounds the output.
//!
//! The surprising thing: every command is started in such a way that its children may outlive it, because only its
//! first line of output tells whether it wants that. Dropping the process kills the whole tree, which happens at the
//! end of every hook that did not move to the background.

use std::time::Duration;

use lathe_exec::{
    Capture, Captured, Exit, ForegroundCommand, JobEvents, OutputLimit, OutputStream, RunLimits,
};
use lathe_protocol::{HookEvent, HookOutput};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::frames::FrameWriter;
use crate::text::{MAX_TEXT_CHARS, frame_text};

/// How much of stdout is kept: enough for output that contains a rewritten tool result.
pub(crate) const MAX_STDOUT: usize = 2 * 1024 * 1024;
const MAX_STDERR: usize = 256 * 1024;
/// How much is kept of both outputs together for frames: a character of the text takes up to four bytes.
const MAX_BOTH: usize = 4 * MAX_TEXT_CHARS;
/// The longest first line that is checked for the `{"async": true}` marker, which is short.
const MAX_MARKER: usize = 64 * 1024;

/// Returns how much of a hook's outputs is kept. [`Process::watch`] enforces the timeout.
pub(crate) fn limits() -> RunLimits {
    let start_of = |head_bytes| Capture { head_bytes, tail_bytes: 0, spill: None, limit: OutputLimit::None };
    RunLimits {
        timeout: None,
        stdout: start_of(MAX_STDOUT),
        stderr: start_of(MAX_STDERR),
        both: Some(start_of(MAX_BOTH)),
        // The caller holds the place: from before the first try to start the command, and not while it is in the
        // background.
        place: None,
    }
}

/// The kept start of an output.
#[derive(Debug, Default)]
pub(crate) struct Kept(Captured);

impl Kept {
    /// Returns whether all output was kept. If not, JSON in it is cut off and must not be used.
    pub fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    /// Returns all that was kept, with replacement characters for bytes that are not UTF-8.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.head).into_owned()
    }

    /// Returns the start for a frame, which is shorter than what is kept for [`Self::text`].
    pub fn frame_text(&self) -> String {
        frame_text(&self.0.head)
    }
}

/// The output of a command so far.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    pub stdout: Kept,
    pub stderr: Kept,
    /// Both in the order of arrival.
    pub both: Kept,
}

/// Why [`Process::watch`] returned.
#[derive(Debug)]
pub(crate) enum Pause {
    /// The main process ended, and its output has been read.
    Ended(Exit),
    /// The deadline has passed. The process tree is still alive.
    TimedOut,
    /// The token was cancelled. The process tree is still alive.
    Cancelled,
    /// The first line asks to move the hook to the background. Returned once.
    SaysAsync(Box<HookOutput>),
}

/// A running command hook.
pub(crate) struct Process {
    command: ForegroundCommand,
    events: JobEvents,
    pub frames: FrameWriter,
    ticks: Interval,
    /// Bytes of both outputs at the time of the last frame.
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
    /// Wraps a command that was just started. The first progress frame comes after `progress_every`, so short hooks
    /// send none.
    pub fn new(command: ForegroundCommand, frames: FrameWriter, progress_every: Duration) -> Self {
        let mut ticks = tokio::time::interval_at(Instant::now() + progress_every, progress_every);
        // Each frame holds all output so far, so ticks missed while a reader was slow are not made up for.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let events = command.events();
        Self { command, events, frames, ticks, shown: 0, first_line: FirstLine::Awaited, exit: None }
    }

    /// Returns a copy of the output so far; the command may still be running.
    pub fn printed(&self) -> Printed {
        let kept = |stream| Kept(self.command.output(stream));
        Printed {
            stdout: kept(OutputStream::Stdout),
            stderr: kept(OutputStream::Stderr),
            both: kept(OutputStream::Both),
        }
    }

    /// Follows the command until the caller has to act, and sends progress frames meanwhile. Kills nothing: after a
    /// timeout or a cancellation the caller has to. Can be called again after [`Pause::SaysAsync`].
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

    /// Sends a progress frame if there is new output since the last one, and the part that frames show was not full
    /// yet.
    async fn show_progress(&mut self, cancel: &CancellationToken) {
        let total = self.command.total_bytes(OutputStream::Both);
        // Frames show only the start of the output, so once it is full another frame would be the same.
        let full = self.shown >= MAX_BOTH as u64;
        if total > self.shown && !full {
            self.shown = total;
            self.frames.progress(&self.printed(), cancel).await;
        }
    }

    /// Parses the first line of stdout once it is complete, and returns the output if it is the marker. `None` if it is
    /// not, if it is not complete yet, or if it was parsed before. A line that has more than [`MAX_MARKER`] bytes and
    /// no end yet counts as none.
    fn says_async(&mut self, complete: Complete) -> Option<Box<HookOutput>> {
        if self.first_line == FirstLine::Read {
            return None;
        }
        let line = self.command.peek(OutputStream::Stdout, |bytes| {
            let line = match (bytes.iter().position(|byte| *byte == b'\n'), complete) {
                (Some(end), _) => &bytes[..end],
                (None, Complete::AtEnd) => bytes,
                // Too long for a marker: an empty line ends the search.
                (None, Complete::WithNewline) if bytes.len() > MAX_MARKER => &[],
                (None, Complete::WithNewline) => return None,
            };
            Some(String::from_utf8_lossy(line).into_owned())
        })?;
        self.first_line = FirstLine::Read;
        async_marker(&line).map(Box::new)
    }

    /// Kills the process tree of the hook and waits until it has ended.
    pub async fn kill(&self) {
        self.command.kill().await;
    }

    /// Waits, after the main process of a background hook ended, until its whole tree is gone, the deadline has passed,
    /// or the token is cancelled. Kills nothing.
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

/// Parses a line of output as `{"async": true, …}`, by which a hook asks to continue in the background; `None` for
/// any other line.
pub(crate) fn async_marker(line: &str) -> Option<HookOutput> {
    let line = line.trim();
    // Saves parsing the JSON output of most hooks, which can be large, a second time.
    if !line.starts_with('{') || !line.contains("async") {
        return None;
    }
    let value = serde_json::from_str(line).ok()?;
    // The marker is the same for every event.
    let output = HookOutput::parse(&value, &HookEvent::Unknown(String::new())).ok()?;
    (output.async_ == Some(true)).then_some(output)
}
