//! The lines of a monitor as events: those that come together are one notice for the model.
//!
//! At most one event of a monitor waits for the model. While a turn is busy, further lines stay with the command; of
//! too many only the newest are kept, and the next event says how much was left out. So a slow model makes events
//! larger, not more. A command that prints faster than any monitor needs is stopped.

use std::collections::VecDeque;
use std::time::Duration;

use lathe_exec::{CommandJob, Ended, JobEvent, OutputStream};
use lathe_protocol::text::first_chars;
use tokio::time::{Instant, timeout};

use super::notice;
use crate::state::background_tasks::SessionTask;
use crate::state::services::SessionServices;

/// How long lines are collected into one event.
const GATHER: Duration = Duration::from_millis(300);

/// Characters of one event.
const EVENT_CHARS: usize = 8_000;

/// Bytes that are read at once; no unfinished line is longer.
const READ_BYTES: usize = 64 << 10;

/// A monitor that prints more than this many bytes in [`FLOOD_TIME`] is stopped.
const FLOOD_BYTES: u64 = 256 << 10;

/// The time for which the printed bytes are counted.
const FLOOD_TIME: Duration = Duration::from_secs(10);

/// Why no more lines are read.
enum StreamEnd {
    /// The command has ended, or was stopped.
    Ended,
    /// It printed too much.
    Flooded,
}

impl SessionServices {
    /// Tells the model the lines of a monitor as they come, until the command ends, then its end with the lines that
    /// are left. A monitor that prints too much is killed. Returns when the end has been told.
    pub(super) async fn follow_monitor(&self, task: &SessionTask) {
        let mut lines = MonitorLines::new(task.job.clone());
        let mut told = 0;
        let end = self.tell_lines(task, &mut lines, &mut told).await;
        if let StreamEnd::Flooded = end {
            task.job.kill().await;
        }
        let finished = task.job.wait().await;
        let last = lines.take_rest();
        told += usize::from(!last.is_empty());
        let why = match (end, finished.ended) {
            (StreamEnd::Flooded, _) => Some(format!(
                "[Monitor stopped: it printed more than {} KB within {} s. Print only what matters.]",
                FLOOD_BYTES >> 10,
                FLOOD_TIME.as_secs(),
            )),
            (StreamEnd::Ended, Ended::TimedOut) => {
                let seconds = finished.duration.as_secs();
                let events = if told == 1 { "event" } else { "events" };
                Some(format!(
                    "[Monitor expired after {seconds}s with {told} {events} delivered. Start it again if it still matters.]"
                ))
            }
            (StreamEnd::Ended, Ended::ByItself | Ended::Cancelled | Ended::OutputLimit | Ended::Stopped) => {
                None
            }
        };
        let parts: Vec<String> =
            [Some(last), why].into_iter().flatten().filter(|part| !part.is_empty()).collect();
        let event = (!parts.is_empty()).then(|| parts.join("\n"));
        self.command_ended(&task.id, &finished, event.as_deref()).await;
    }

    /// Queues the lines of a monitor as events until the command ends or prints too much; returns which. Counts the
    /// events in `told`. While an event of this monitor still waits for the model, no other is queued, and the lines
    /// stay with the command; those in front of the end stay in `lines` for the notice of the end.
    async fn tell_lines(&self, task: &SessionTask, lines: &mut MonitorLines, told: &mut usize) -> StreamEnd {
        let mut meter = FloodMeter::default();
        let mut events = task.job.events();
        loop {
            match events.next().await {
                Some(JobEvent::OutputGrew { .. }) => {}
                Some(JobEvent::Started { .. } | JobEvent::Detached | JobEvent::OutputCapReached) => continue,
                Some(JobEvent::Exited { .. } | JobEvent::Gone) | None => return StreamEnd::Ended,
            }
            loop {
                if timeout(GATHER, task.job.exit()).await.is_ok() {
                    return StreamEnd::Ended;
                }
                if meter.floods(task.job.total_bytes(OutputStream::Stdout), Instant::now()) {
                    return StreamEnd::Flooded;
                }
                if !self.tasks.list().has_event_of(&task.id) {
                    break;
                }
            }
            let text = lines.take_whole();
            if !text.is_empty() {
                *told += 1;
                self.tasks.list().add_notice(notice::event_notice(task, &text));
                self.tasks.tell_loop();
            }
        }
    }
}

/// The lines that a monitor has printed and that were not told yet.
struct MonitorLines {
    job: CommandJob,
    /// Up to where the output has been read.
    offset: u64,
    /// What was read of a line that is not finished.
    begun: Vec<u8>,
}

impl MonitorLines {
    /// Creates a reader that begins at the first byte of the output.
    fn new(job: CommandJob) -> Self {
        Self { job, offset: 0, begun: Vec::new() }
    }

    /// Returns the finished lines since the last call as the text of an event, or an empty text if there are none. An
    /// unfinished line is kept for the next call, unless it is longer than [`READ_BYTES`]: then it is returned too, or
    /// it might never be told.
    fn take_whole(&mut self) -> String {
        let (mut bytes, left_out) = self.read_on();
        // A line without an end would otherwise never be told.
        let end = if bytes.len() > READ_BYTES {
            bytes.len()
        } else {
            bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
        };
        self.begun = bytes.split_off(end);
        self.event_text(&bytes, left_out)
    }

    /// Returns everything that was not returned before as the text of an event, also a last line without an end; empty
    /// if nothing is left.
    fn take_rest(&mut self) -> String {
        let (bytes, left_out) = self.read_on();
        self.event_text(&bytes, left_out)
    }

    /// Reads the output up to its present end, and returns the bytes that were not told and how many before them are
    /// lost. Of more than twice [`READ_BYTES`] only the newest are kept. Empties `begun`, so the caller has to put back
    /// what it does not tell.
    fn read_on(&mut self) -> (Vec<u8>, u64) {
        let (mut bytes, mut left_out) = (std::mem::take(&mut self.begun), 0);
        loop {
            let part = self.job.read_from(OutputStream::Stdout, self.offset, READ_BYTES);
            if part.bytes.is_empty() {
                return (bytes, left_out);
            }
            if part.offset > self.offset {
                left_out += part.offset - self.offset + bytes.len() as u64;
                bytes.clear();
            }
            self.offset = part.next_offset();
            bytes.extend(part.bytes);
            let too_many = bytes.len().saturating_sub(2 * READ_BYTES);
            left_out += too_many as u64;
            bytes.drain(..too_many);
        }
    }

    /// Returns bytes of the output as the text of an event, without the line ends behind it and cut after
    /// [`EVENT_CHARS`]. Two lines in brackets name what is only in the output file: the `left_out` bytes before, and
    /// the rest that was cut.
    fn event_text(&self, bytes: &[u8], left_out: u64) -> String {
        let whole = String::from_utf8_lossy(bytes);
        let whole = whole.trim_end_matches(['\n', '\r']);
        let shown = first_chars(whole, EVENT_CHARS);
        let mut text = String::new();
        if left_out > 0 {
            text.push_str(&format!("[{left_out} bytes before this are only in the output file]\n"));
        }
        text.push_str(shown);
        if shown.len() < whole.len() {
            let rest = whole.len() - shown.len();
            text.push_str(&format!("\n[{rest} further bytes are only in the output file]"));
        }
        text
    }
}

/// Measures how much a monitor has printed in the last [`FLOOD_TIME`].
#[derive(Default)]
struct FloodMeter {
    /// The size of the output at each call within that time, the oldest first.
    marks: VecDeque<(Instant, u64)>,
    /// The size of the output when that time began.
    before: u64,
}

impl FloodMeter {
    /// Returns whether more than [`FLOOD_BYTES`] were printed in the last [`FLOOD_TIME`]. `total_bytes` is the size of
    /// the whole output by now; it is remembered for later calls, so neither it nor `now` may decrease.
    fn floods(&mut self, total_bytes: u64, now: Instant) -> bool {
        while let Some((then, bytes)) = self.marks.front().copied()
            && now - then > FLOOD_TIME
        {
            self.before = bytes;
            self.marks.pop_front();
        }
        self.marks.push_back((now, total_bytes));
        total_bytes - self.before > FLOOD_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_much_in_little_time() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut meter = FloodMeter::default();
        assert!(!meter.floods(200 << 10, at(1)));
        assert!(!meter.floods(250 << 10, at(9)));
        assert!(meter.floods(300 << 10, at(10)), "300 KB in 10 s");
        let mut slow = FloodMeter::default();
        for minute in 0..100 {
            assert!(!slow.floods(minute * (200 << 10), at(minute * 60)), "{minute}");
        }
    }
}
