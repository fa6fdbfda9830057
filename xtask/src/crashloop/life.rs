//! One life of a session: a process that gets prompts until all are done or it is killed. Everything that came out of
//! its pipe counts as read by the host, including what was still in the pipe when it died.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use super::script::PROMPTS;
use super::tasks::ToldOfTasks;

/// A life without output for this long counts as hung.
const SILENCE: Duration = Duration::from_secs(60);

/// When a life ends.
#[derive(Debug, Clone, Copy)]
pub enum Kill {
    /// On its own, when all prompts are done.
    Never,
    /// This long after its start.
    After(Duration),
    /// This long after it has written this many lines.
    AfterLines(u64, Duration),
}

/// How a life ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All prompts are done, and the process has exited.
    Done,
    /// It was killed.
    Killed,
}

/// What a life has reported to its host.
#[derive(Default)]
pub struct Told {
    /// The ids of the messages it has written.
    pub uuids: Vec<String>,
    /// Prompts that got their result.
    pub prompts: u32,
    /// The cost in the last result.
    pub cost: f64,
    /// The session that the first frame named.
    pub session: Option<String>,
    /// What it said of tasks.
    pub tasks: ToldOfTasks,
    lines: u64,
}

/// A running process.
pub struct Life<'a> {
    pub child: Child,
    pub stdin: Option<ChildStdin>,
    /// Keeps a copy of the output, as evidence.
    pub tee: File,
    pub told: Told,
    /// The number of the current prompt.
    pub prompt: u32,
    /// Makes the ids of prompts.
    pub new_uuid: &'a mut dyn FnMut() -> String,
}

impl<'a> Life<'a> {
    /// Starts a process of the session that begins with the prompt number `prompt`, and returns it before any prompt is
    /// sent. Its output is copied to `tee`, as evidence.
    pub fn start(
        command: &mut Command,
        tee: &Path,
        prompt: u32,
        new_uuid: &'a mut dyn FnMut() -> String,
    ) -> Result<Self> {
        let tee = File::create(tee).context("failed to keep what comes out")?;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start the program")?;
        let stdin = child.stdin.take();
        Ok(Self { child, stdin, tee, told: Told::default(), prompt, new_uuid })
    }

    /// Runs this process until it ends or is killed, and returns what it told its host and how it ended. Afterwards the
    /// process is gone in any case. A process that was not killed must end with success.
    pub fn live(mut self, kill: Kill) -> Result<(Told, End)> {
        let outcome = self.talk(kill);
        // Whatever went wrong, the process must not stay.
        let _ = self.child.kill();
        let status = self.child.wait().context("failed to wait for the program")?;
        let end = outcome?;
        if end == End::Done {
            ensure!(status.success(), "a session that was not killed ended with {status}");
        }
        Ok((self.told, end))
    }

    /// Sends prompts and reads frames until the process ends, or until the planned moment, at which it is killed; a
    /// process that ends before that moment is done. Fails if it leaves before all prompts are done, or says nothing
    /// for [`SILENCE`] while no moment is planned.
    fn talk(&mut self, kill: Kill) -> Result<End> {
        let mut deadline = match kill {
            Kill::After(time) => Some(Instant::now() + time),
            Kill::Never | Kill::AfterLines(..) => None,
        };
        let mut stdout = self.child.stdout.take().context("the program has no stdout")?;
        let mut waiting = Vec::new();
        self.ask()?;
        loop {
            let limit = deadline.map_or(SILENCE, |at| at.saturating_duration_since(Instant::now()));
            if !is_readable(&stdout, limit)? {
                ensure!(deadline.is_some(), "the program says nothing for {} s", SILENCE.as_secs());
                self.child.kill().context("failed to kill the program")?;
                // Complete lines that were written count; a torn last line does not.
                stdout.read_to_end(&mut waiting).context("failed to read the last words")?;
                self.take_lines(&mut waiting)?;
                return Ok(End::Killed);
            }
            let mut piece = [0_u8; 16 * 1024];
            let read = stdout.read(&mut piece).context("failed to read what the program says")?;
            if read == 0 {
                ensure!(self.prompt == PROMPTS, "the program left before all prompts were done");
                return Ok(End::Done);
            }
            waiting.extend_from_slice(&piece[..read]);
            self.take_lines(&mut waiting)?;
            if let Kill::AfterLines(lines, pause) = kill
                && self.told.lines >= lines
            {
                deadline.get_or_insert(Instant::now() + pause);
            }
        }
    }

    /// Takes the complete lines out of `waiting`, copies each to the evidence and handles its frame; one that is not
    /// JSON is an error. A last line without an end stays in `waiting`.
    fn take_lines(&mut self, waiting: &mut Vec<u8>) -> Result<()> {
        while let Some(end) = waiting.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = waiting.drain(..=end).collect();
            self.tee.write_all(&line).context("failed to keep what comes out")?;
            let frame: Value = serde_json::from_slice(&line).context("a line is not JSON")?;
            self.told.lines += 1;
            self.take(&frame)?;
        }
        Ok(())
    }

    /// Checks a frame and adds what it tells to `told`. The result of a prompt is followed by the next prompt; that of
    /// a notice is not.
    fn take(&mut self, frame: &Value) -> Result<()> {
        let session = frame["session_id"].as_str().unwrap_or_default();
        let known = self.told.session.get_or_insert_with(|| session.to_owned());
        ensure!(known == session, "the session {known} calls itself {session}");
        self.told.tasks.add(frame)?;
        match frame["type"].as_str() {
            Some("assistant" | "user") => {
                self.told.uuids.extend(frame["uuid"].as_str().map(str::to_owned));
            }
            Some("result") => {
                ensure!(frame["subtype"] == "success" && frame["is_error"] == false, "a bad result: {frame}");
                let cost = frame["total_cost_usd"].as_f64().unwrap_or(0.0);
                ensure!(cost > self.told.cost, "the cost fell from {} to {cost}", self.told.cost);
                self.told.cost = cost;
                if frame["origin"]["kind"] == "task-notification" {
                    ensure!(self.told.prompts > 0, "a turn of a notice comes before the first prompt");
                    return Ok(());
                }
                self.told.prompts += 1;
                self.prompt += 1;
                self.ask()?;
            }
            Some(_) => {}
            None => bail!("a line without a type: {frame}"),
        }
        Ok(())
    }

    /// Sends the next prompt, or closes the input after the last, so that the session ends. A process that was just
    /// killed is not an error.
    fn ask(&mut self) -> Result<()> {
        if self.prompt == PROMPTS {
            self.stdin = None;
            return Ok(());
        }
        let Some(stdin) = &mut self.stdin else { return Ok(()) };
        let message = json!({ "role": "user", "content": format!("do step {}", self.prompt) });
        let uuid = (self.new_uuid)();
        let line = json!({ "type": "user", "message": message, "parent_tool_use_id": null, "uuid": uuid })
            .to_string();
        // A process that was just killed takes no more prompts.
        let _ = stdin.write_all(format!("{line}\n").as_bytes());
        Ok(())
    }
}

/// Waits until there is something to read, or the end of the pipe; returns false when the time is over.
fn is_readable(stdout: &impl std::os::fd::AsFd, limit: Duration) -> Result<bool> {
    let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
    let mut fds = [PollFd::new(stdout, PollFlags::IN)];
    loop {
        match poll(&mut fds, Some(&limit)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("failed to wait for the program"),
        }
    }
}
