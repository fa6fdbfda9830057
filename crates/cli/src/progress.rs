//! The progress of a `text` run for a person at a terminal: a line per tool call, and a spinner line for the current
//! step. All of it goes to stderr, and nothing is shown if stderr is not a terminal.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros, reason = "progress is for people, on stderr")]

use std::io::IsTerminal;

use lathe_protocol::text::shorten;
use lathe_protocol::{BlockView, ContentBlock, Outbound, SystemMessage};
use serde_json::Value;

/// The characters of the spinner, which moves with every frame.
const SPINNER: [char; 4] = ['-', '\\', '|', '/'];

/// The progress display of one run.
pub struct Progress {
    shown: bool,
    step: usize,
    /// Whether the last line on the terminal is the spinner.
    spinning: bool,
}

impl Progress {
    /// Creates a display that is on if stderr is a terminal.
    pub fn on_terminal() -> Self {
        Self::new(std::io::stderr().is_terminal())
    }

    /// Creates a display that is off.
    pub fn off() -> Self {
        Self::new(false)
    }

    /// Creates a display that is always on (for the demo).
    pub fn always() -> Self {
        Self::new(true)
    }

    /// Creates a display that is on or off.
    fn new(shown: bool) -> Self {
        Self { shown, step: 0, spinning: false }
    }

    /// Shows a frame as progress on stderr, if the display is on. Frames that tell a person nothing are ignored.
    pub fn show(&mut self, frame: &Outbound) {
        if !self.shown {
            return;
        }
        match frame {
            Outbound::Assistant(message) => {
                for block in &message.message.content {
                    self.block(block);
                }
            }
            Outbound::User(message) => {
                if let lathe_protocol::MessageContent::Blocks(blocks) = &message.message.content {
                    blocks.iter().for_each(|block| self.block(block));
                }
            }
            Outbound::System(SystemMessage::ApiRetry(retry)) => {
                let seconds = retry.retry_delay_ms / 1000.0;
                self.line(&format!("  ! {}; trying again in {seconds:.1} s", retry.error));
            }
            Outbound::System(SystemMessage::Init(init)) => self.spin(&format!("asking {}", init.model)),
            _ => {}
        }
    }

    /// Removes the spinner, so that the next output begins on an empty line.
    pub fn end(&mut self) {
        if self.spinning {
            eprint!("\r\x1b[K");
            self.spinning = false;
        }
    }

    /// Shows a call or a result as a line, and what the run does next as the spinner. Text shows only as the spinner,
    /// other blocks not at all.
    fn block(&mut self, block: &ContentBlock) {
        match block.view() {
            BlockView::Text(text) if !text.trim().is_empty() => self.spin("thinking"),
            BlockView::ToolUse(call) => {
                self.line(&format!("  > {} {}", call.name, summary(call.input)));
                self.spin(&format!("running {}", call.name));
            }
            BlockView::ToolResult(result) => {
                let text = result.text();
                let first = text.lines().next().unwrap_or("");
                let mark = if result.is_error == Some(true) { "x" } else { "=" };
                self.line(&format!("  {mark} {}", shorten(first, 100)));
                self.spin("thinking");
            }
            _ => {}
        }
    }

    /// Prints a line that stays. Removes the spinner first, which would otherwise be part of it.
    fn line(&mut self, text: &str) {
        self.end();
        eprintln!("{text}");
    }

    /// Draws the spinner over the last one; nothing if stderr is not a terminal. It checks that again, because the demo
    /// is shown in files too, where the control characters would stay.
    fn spin(&mut self, doing: &str) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        self.step += 1;
        eprint!("\r\x1b[K{} {doing} …", SPINNER[self.step % SPINNER.len()]);
        self.spinning = true;
    }
}

/// Returns the most informative part of a call's input: the first line of the first known member that is a string, cut
/// to 100 characters; empty if there is none.
fn summary(input: &Value) -> String {
    let keys = ["command", "file_path", "pattern", "path", "url", "query", "description"];
    let value = keys.iter().find_map(|key| input[*key].as_str());
    shorten(value.unwrap_or("").lines().next().unwrap_or(""), 100).into_owned()
}
