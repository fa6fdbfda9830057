//! What a person at a terminal sees of a `text` run while it is under way: a line per tool call and a
//! spinner line for what is going on now. All of it on stderr, and nothing when stderr is no terminal.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros, reason = "progress is for people, on stderr")]

use std::io::IsTerminal;

use lathe_protocol::text::shorten;
use lathe_protocol::{BlockView, ContentBlock, Outbound, SystemMessage};
use serde_json::Value;

/// The signs of the spinner; it moves with every frame that arrives.
const SPINNER: [char; 4] = ['-', '\\', '|', '/'];

/// The progress display of one run.
pub struct Progress {
    shown: bool,
    step: usize,
    /// Whether the spinner line stands at the end of the terminal now.
    spinning: bool,
}

impl Progress {
    /// Shows progress only if someone can see it.
    pub fn on_terminal() -> Self {
        Self::new(std::io::stderr().is_terminal())
    }

    /// No display.
    pub fn off() -> Self {
        Self::new(false)
    }

    /// A display that prints whatever stderr is (the demo).
    pub fn always() -> Self {
        Self::new(true)
    }

    fn new(shown: bool) -> Self {
        Self { shown, step: 0, spinning: false }
    }

    /// Shows one frame.
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

    /// Takes the spinner away.
    pub fn end(&mut self) {
        if self.spinning {
            eprint!("\r\x1b[K");
            self.spinning = false;
        }
    }

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

    fn line(&mut self, text: &str) {
        self.end();
        eprintln!("{text}");
    }

    fn spin(&mut self, doing: &str) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        self.step += 1;
        eprint!("\r\x1b[K{} {doing} …", SPINNER[self.step % SPINNER.len()]);
        self.spinning = true;
    }
}

/// The part of an input that tells most.
fn summary(input: &Value) -> String {
    let keys = ["command", "file_path", "pattern", "path", "url", "query", "description"];
    let value = keys.iter().find_map(|key| input[*key].as_str());
    shorten(value.unwrap_or("").lines().next().unwrap_or(""), 100).into_owned()
}
