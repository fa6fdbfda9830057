//! Frames out: takes the one stream of frames a session makes and writes it in the format that was
//! asked for. The only place that writes to stdout during a run.

use std::io;

use lathe_launch::settings::WITHHELD_TAG;
use lathe_protocol::{Outbound, ResultMessage, SystemMessage};
use tokio::sync::mpsc;

use crate::plan::OutputFormat;
use crate::print;
use crate::progress::Progress;
use crate::stdio::Stream;

/// Lines are gathered up to this size before they are written, as long as more are waiting.
const BATCH_BYTES: usize = 64 * 1024;

/// How writing ended.
pub enum Written {
    /// Everything was written.
    All,
    /// The reader closed its end.
    ReaderGone,
}

/// Writes frames in this format until the session drops its end, or until the reader of stdout is gone, and shows them
/// as progress. Frames that are ready are written together. The formats that show only the result are completed at the
/// end.
pub async fn write_frames(
    format: OutputFormat,
    mut frames: mpsc::Receiver<Outbound>,
    mut progress: Progress,
) -> io::Result<Written> {
    let out = Stream::stdout()?;
    let mut page = Page::new(format);
    loop {
        let frame = tokio::select! {
            biased;
            frame = frames.recv() => frame,
            () = out.reader_gone() => return Ok(Written::ReaderGone),
        };
        let Some(frame) = frame else { break };
        progress.show(&frame);
        page.add(&frame);
        while page.bytes.len() < BATCH_BYTES
            && let Ok(frame) = frames.try_recv()
        {
            progress.show(&frame);
            page.add(&frame);
        }
        if let Err(error) = out.write_all(&page.bytes).await {
            return gone(error);
        }
        page.bytes.clear();
    }
    progress.end();
    page.close();
    match out.write_all(&page.bytes).await {
        Ok(()) => Ok(Written::All),
        Err(error) => gone(error),
    }
}

/// Turns a broken pipe into [`Written::ReaderGone`], because a host that closes its end is not a failure of the run.
/// Any other error stays one.
fn gone(error: io::Error) -> io::Result<Written> {
    if error.kind() == io::ErrorKind::BrokenPipe { Ok(Written::ReaderGone) } else { Err(error) }
}

/// What is about to be written.
struct Page {
    format: OutputFormat,
    bytes: Vec<u8>,
    /// Whether the list of `json --verbose` or the text of a result has begun.
    begun: bool,
    /// The last result, in the format that shows no other.
    last_result: Vec<u8>,
}

impl Page {
    /// Begins an empty output in this format.
    fn new(format: OutputFormat) -> Self {
        Self { format, bytes: Vec::new(), begun: false, last_result: Vec::new() }
    }

    /// Adds one frame in the chosen format. Must be called for every frame, in order: the formats with only the result
    /// choose here.
    fn add(&mut self, frame: &Outbound) {
        match self.format {
            OutputFormat::StreamJson => {
                self.json(frame);
                self.bytes.push(b'\n');
            }
            OutputFormat::JsonList => {
                self.bytes.push(if self.begun { b',' } else { b'[' });
                self.begun = true;
                self.json(frame);
            }
            OutputFormat::Json | OutputFormat::Text => self.result_only(frame),
        }
    }

    /// Adds a frame in the formats that show only the result: a result is kept (`json`) or added as text (`text`), and
    /// a warning for people is printed on stderr. Every other frame is ignored.
    fn result_only(&mut self, frame: &Outbound) {
        if let Outbound::System(SystemMessage::Informational(note)) = frame
            && note.level == "warning"
            && note.prevent_continuation.is_none()
            && note.tag.as_deref() != Some(WITHHELD_TAG)
        {
            print::note(format!("Warning: {}", note.content));
        }
        match self.format {
            OutputFormat::Json => {
                if matches!(frame, Outbound::Result(_)) {
                    // Written at the end, because a task in the background may still lead to another result.
                    let before = std::mem::take(&mut self.bytes);
                    self.json(frame);
                    self.bytes.push(b'\n');
                    self.last_result = std::mem::replace(&mut self.bytes, before);
                }
            }
            OutputFormat::Text => {
                if let Outbound::Result(result) = frame {
                    if self.begun {
                        self.bytes.push(b'\n');
                    }
                    self.begun = true;
                    self.bytes.extend_from_slice(text_of(result).as_bytes());
                }
            }
            OutputFormat::StreamJson | OutputFormat::JsonList => {}
        }
    }

    /// Adds a frame as JSON, without a line break.
    fn json(&mut self, frame: &Outbound) {
        if serde_json::to_writer(&mut self.bytes, frame).is_err() {
            // Frames are plain data and always serialise; should one not, an empty object keeps the
            // stream readable.
            self.bytes.extend_from_slice(b"{}");
        }
    }

    /// Ends the output: adds the last result where only that is shown, and ends the list of `json --verbose`. Without
    /// any frame the latter is an empty list, so that the output is always JSON. To be called once, after the last
    /// frame.
    fn close(&mut self) {
        self.bytes.append(&mut self.last_result);
        if self.format == OutputFormat::JsonList {
            self.bytes.extend_from_slice(if self.begun { b"]\n" } else { b"[]\n" });
        }
    }
}

/// Returns what `--output-format text` prints for a result: its text, or else its errors with a prefix by `subtype`. It
/// ends with a line break, except for `error_max_turns`, whose text programs match.
fn text_of(result: &ResultMessage) -> String {
    if let Some(text) = &result.result {
        return format!("{text}\n");
    }
    let errors = result.errors.clone().unwrap_or_default().join("\n");
    match result.subtype.as_str() {
        // The one text that programs match here.
        "error_max_turns" => {
            let limit: String = errors.chars().filter(char::is_ascii_digit).collect();
            format!("Error: Reached max turns ({limit})")
        }
        "error_during_execution" => format!("Execution error: {errors}\n"),
        _ => format!("Error: {errors}\n"),
    }
}
