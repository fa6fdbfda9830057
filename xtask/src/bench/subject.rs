//! A measured program: a command line to which the arguments of a headless session are appended.
//!
//! Every subject gets the same arguments, environment and folders, and only those: a configuration of the person who
//! runs the benchmark must not change the figures.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// A CLI that speaks the headless protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Its column in the table.
    pub name: String,
    words: Vec<String>,
}

/// How much a session prints on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// One line a message.
    Messages,
    /// Every streamed piece as well.
    PartialMessages,
}

impl Subject {
    /// Creates a program to be measured, which is started with these words.
    pub fn new(name: &str, words: Vec<String>) -> Self {
        Self { name: name.to_owned(), words }
    }

    /// Returns a subject from one string, split at spaces; the name is the file name of its first word. An empty string
    /// is an error.
    pub fn peer(command: &str) -> Result<Self> {
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        let first = words.first().context("--peer needs a command")?;
        let name =
            Path::new(first).file_name().map_or_else(|| first.clone(), |name| name.to_string_lossy().into());
        Ok(Self { name, words })
    }

    /// Returns the command for a session with one prompt that may run `echo`.
    pub fn session(&self, place: &Place, prompt: &str, detail: Detail) -> Command {
        let mut command = self.bare(place);
        command.args(["-p", prompt, "--output-format", "stream-json", "--verbose"]);
        command.args(["--model", super::sse::MODEL, "--allowedTools", "Bash(echo *)"]);
        match detail {
            Detail::Messages => {}
            Detail::PartialMessages => {
                command.arg("--include-partial-messages");
            }
        }
        command
    }

    /// Returns the command for a session that is resumed by its id, with one more prompt.
    pub fn resumed(&self, place: &Place, session: &str) -> Command {
        let mut command = self.session(place, "go", Detail::Messages);
        command.args(["--resume", session]);
        command
    }

    /// Returns the command for a session on pipes that asks its host before files are written; `folder` is one of its
    /// folders.
    pub fn asked(&self, place: &Place, folder: &Path) -> Command {
        let mut command = self.bare(place);
        command.args(["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
        command.args(["--model", super::sse::MODEL, "--permission-prompt-tool", "stdio"]);
        command.arg("--add-dir").arg(folder);
        command
    }

    /// Returns the command for a session on pipes that may run every shell command.
    pub fn talking(&self, place: &Place) -> Command {
        let mut command = self.bare(place);
        command.args(["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
        command.args(["--model", super::sse::MODEL, "--allowedTools", "Bash"]);
        command
    }

    /// Returns the command for a session without permissions of its own; the caller adds the settings file with its
    /// rules.
    pub fn denied(&self, place: &Place) -> Command {
        let mut command = self.bare(place);
        command.args(["-p", "go", "--output-format", "stream-json", "--verbose"]);
        command.args(["--model", super::sse::MODEL]);
        command
    }

    /// Returns the command for `--version`.
    pub fn version(&self, place: &Place) -> Command {
        let mut command = self.bare(place);
        command.arg("--version");
        command
    }

    /// Returns the command with the program's own words and nothing else, in the environment of the run.
    fn bare(&self, place: &Place) -> Command {
        let mut command = place.command(&self.words[0]);
        command.args(&self.words[1..]);
        command
    }
}

/// Where subjects run: an empty home, an empty working folder, and the server to talk to.
pub struct Place {
    dir: tempfile::TempDir,
    base_url: String,
}

impl Place {
    /// Creates the folders of a run, which are removed with this value; the programs will use the server at `base_url`.
    pub fn new(base_url: String) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("bench-").tempdir().context("failed to make a folder")?;
        for folder in ["home", "work"] {
            std::fs::create_dir(dir.path().join(folder)).context("failed to make a folder")?;
        }
        Ok(Self { dir, base_url })
    }

    /// Returns a path inside the folder of the run; it need not exist.
    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the address of the server.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Returns a command with the environment of a run, and nothing of the caller's.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path("work")).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.path("home"));
        command.env("ANTHROPIC_BASE_URL", &self.base_url);
        command.env("ANTHROPIC_API_KEY", "bench");
        // Peers would otherwise send telemetry; the figures are about the model's requests.
        for name in ["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER"] {
            command.env(name, "1");
        }
        command
    }
}
