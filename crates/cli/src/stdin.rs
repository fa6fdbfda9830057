//! Reads standard input: the prompt of a text run, or the protocol lines of a streaming one.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use lathe_launch::LaunchWarning;
use lathe_protocol::inbound::LineError;
use lathe_protocol::message::UserTurn;
use lathe_protocol::{Inbound, InboundUser};
use tokio::sync::mpsc;

use crate::pipe;
use crate::refusal::warnings_to_stderr;
use crate::stdio::Stream;

/// The longest line: images and whole files are sent as single lines.
const MAX_LINE_BYTES: usize = 256 * 1024 * 1024;

/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;

/// How long a run with a prompt on the command line waits for more text on a pipe that only its parent can write to. A
/// parent that wants to write has written by then; one that merely left the pipe open never will.
const PARENT_GRACE: Duration = Duration::from_millis(150);

/// How long a run waits for a pipe that another process than its parent can write to before it looks whether that is still
/// so.
const WRITER_CHECK: Duration = Duration::from_millis(500);

/// The number of reads after which a run that cannot start stops reading.
const MAX_SWALLOWED_READS: usize = 20;

/// A line that ends the run.
#[derive(Debug)]
pub struct FatalInput {
    pub message: String,
    /// `startup_failure_reason`, if the run never began.
    pub reason: Option<&'static str>,
}

impl FatalInput {
    /// Creates an error that gives programs no reason.
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), reason: None }
    }
}

/// Reads the text on standard input, to its end, that belongs to the prompt; its length is not limited. Empty from a
/// terminal, or if there is a prompt on the command line already (`has_prompt`) and nothing comes. Bytes that are not
/// UTF-8 are replaced.
pub async fn read_text(has_prompt: bool) -> io::Result<String> {
    if rustix::termios::isatty(rustix::stdio::stdin()) {
        return Ok(String::new());
    }
    let input = Stream::stdin()?;
    if has_prompt && !will_speak(&input).await {
        return Ok(String::new());
    }
    let mut bytes = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match input.read(&mut buffer).await? {
            0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

/// Returns whether to read standard input in addition to a prompt on the command line. A command in a pipeline is
/// waited for however long it takes; a parent that left a pipe open has [`PARENT_GRACE`] to write.
async fn will_speak(input: &Stream) -> bool {
    let mut nothing = [0; 0];
    loop {
        if input.is_readable_now() {
            return true;
        }
        let has_writer = pipe::has_writer_besides_parent();
        let patience = if has_writer { WRITER_CHECK } else { PARENT_GRACE };
        if tokio::time::timeout(patience, input.read(&mut nothing)).await.is_ok() {
            return true;
        }
        // A parent that starts another child at this moment has it hold a copy of the pipe until its `exec`, which looks
        // like a pipeline. So the writers are looked at again, for as long as there are any.
        if !has_writer {
            return false;
        }
    }
}

/// Reads and discards the first lines of the host, until it pauses. A run that cannot start ends so early that the host
/// would write to a closed pipe, and some hosts crash on that. Blocks the thread for a bounded time, so it is only for
/// a run that ends.
pub fn swallow_first_lines() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stdin = rustix::stdio::stdin();
    let mut buffer = vec![0; READ_BYTES];
    for nth in 0..MAX_SWALLOWED_READS {
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        // On a busy machine the host may need some time for its first line; the others follow at once.
        let silence = match nth {
            0 => Timespec { tv_sec: 1, tv_nsec: 0 },
            _ => Timespec { tv_sec: 0, tv_nsec: 100_000_000 },
        };
        if !matches!(poll(&mut fds, Some(&silence)), Ok(count) if count > 0) {
            return;
        }
        if !matches!(rustix::io::read(stdin, &mut buffer), Ok(count) if count > 0) {
            return;
        }
    }
}

/// Converts a text prompt into the line that a host would write; it has no id.
pub fn prompt_line(text: String) -> Inbound {
    Inbound::User(InboundUser { message: UserTurn::new(text), ..InboundUser::default() })
}

/// Reads protocol lines from standard input and sends them to the session, until the input ends; then `lines` is
/// dropped, which tells the session so. A last line without a line break counts. Waits while the session's queue is
/// full. The error is a line that ends the run, also one longer than [`MAX_LINE_BYTES`], or a failure to read.
pub async fn read_lines(lines: mpsc::Sender<Inbound>, first: FirstLine) -> Result<(), FatalInput> {
    let mut lines = Lines { to: lines, first };
    let input =
        Stream::stdin().map_err(|error| FatalInput::new(format!("Error: cannot read stdin: {error}")))?;
    let mut pending = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = match input.read(&mut buffer).await {
            Ok(count) => count,
            Err(error) => return Err(FatalInput::new(format!("Error: cannot read stdin: {error}"))),
        };
        if count == 0 {
            return lines.take(&pending).await;
        }
        let mut rest = &buffer[..count];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            pending.extend_from_slice(&rest[..end]);
            lines.take(&pending).await?;
            pending.clear();
            rest = &rest[end + 1..];
        }
        pending.extend_from_slice(rest);
        if pending.len() > MAX_LINE_BYTES {
            return Err(FatalInput::new(format!(
                "Error: a line on stdin is longer than {MAX_LINE_BYTES} bytes"
            )));
        }
    }
}

/// What the first line of input must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstLine {
    /// Any line.
    Any,
    /// The `initialize` request of the host (`--await-initialize`).
    Initialize,
}

/// The receiver of lines, and what the next line must be.
struct Lines {
    to: mpsc::Sender<Inbound>,
    first: FirstLine,
}

impl Lines {
    /// Parses one line and sends it to the session; a blank one is skipped. A line that cannot be parsed, a wrong first
    /// line or an unusable prompt ends the run with a message; lines that can be replied to or ignored are left to the
    /// session.
    async fn take(&mut self, bytes: &[u8]) -> Result<(), FatalInput> {
        let text = String::from_utf8_lossy(bytes);
        if text.trim().is_empty() {
            return Ok(());
        }
        let line = Inbound::parse_line(&text).map_err(|error| unreadable(&text, &error))?;
        self.check_first(&line)?;
        check_prompt(&line)?;
        if matches!(text, Cow::Owned(_)) {
            let text = "a line on stdin is not valid UTF-8; the bytes that are not were replaced";
            warnings_to_stderr()(LaunchWarning::Running(text.to_owned()));
        }
        // The error is ignored: it means that the session has ended, which is not an error of the input.
        let _ = self.to.send(line).await;
        Ok(())
    }

    /// Checks the first line under `--await-initialize` and lifts the demand, so every later line passes. Any first
    /// line but `initialize` is an error that ends the run. Must be called for each line in order.
    fn check_first(&mut self, line: &Inbound) -> Result<(), FatalInput> {
        let first = std::mem::replace(&mut self.first, FirstLine::Any);
        let introduces =
            matches!(line, Inbound::ControlRequest(request) if request.request.tag() == "initialize");
        if first == FirstLine::Any || introduces {
            return Ok(());
        }
        Err(FatalInput {
            message: format!(
                "Error: --await-initialize requires the initialize control request as the first stdin line, \
                 and it was a line of type {:?}",
                line.tag()
            ),
            reason: Some("initialize_not_first"),
        })
    }
}

/// Returns the error for a line that is not a JSON object, with the length of the line instead of its content.
fn unreadable(text: &str, error: &LineError) -> FatalInput {
    let count = text.chars().count();
    let why = match error {
        LineError::NotJson(error) if error.to_string().starts_with("recursion limit") => {
            "SyntaxError: nested deeper than 127 levels".to_owned()
        }
        LineError::NotJson(_) => "SyntaxError".to_owned(),
        LineError::NotAnObject => "SyntaxError: not an object".to_owned(),
    };
    FatalInput::new(format!("Error parsing streaming input line (type=unknown, {count} chars): {why}"))
}

/// Refuses a prompt that cannot be run: a user message with another role or form. Ignoring it would leave the host
/// waiting for a result forever. Every other line passes.
fn check_prompt(line: &Inbound) -> Result<(), FatalInput> {
    let role = match line {
        Inbound::User(user) if user.message.role == "user" => return Ok(()),
        Inbound::User(user) => user.message.role.clone(),
        Inbound::Unknown(value) if value["type"] == "user" => match value["message"]["role"].as_str() {
            Some("user") => {
                return Err(FatalInput::new(
                    "Error: a user message on stdin does not fit: `message.content` must be a string or a \
                     list of content blocks, and the other fields as the protocol says",
                ));
            }
            role => role.unwrap_or("undefined").to_owned(),
        },
        Inbound::ControlRequest(_)
        | Inbound::ControlResponse(_)
        | Inbound::ControlCancelRequest(_)
        | Inbound::KeepAlive(_)
        | Inbound::UpdateEnvironmentVariables(_)
        | Inbound::Unknown(_) => return Ok(()),
    };
    Err(FatalInput::new(format!("Error: Expected message role 'user', got '{role}'")))
}
