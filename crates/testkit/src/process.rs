//! The program under test as a child process: lines in, lines out, and a deadline for every wait.
//!
//! Threads read the output from the start, so that a child with much output never blocks while the test does not read
//! it. A run ends when the process ends: a grandchild that keeps the pipe open gets a moment and is then left to the
//! check for survivors.

#![allow(
    clippy::disallowed_methods,
    reason = "a test drives the program from outside, not through the ledger"
)]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

/// How long pipes are read after the process itself has ended.
const DRAIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(2);

/// A running child. Dropping it before its end kills its process group.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    seen: Vec<String>,
    stderr: Arc<Mutex<Vec<u8>>>,
    stderr_done: Receiver<()>,
    started: Instant,
    deadline: Instant,
    what: String,
}

/// A run that has ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Everything on stdout.
    pub stdout: String,
    /// Everything on stderr.
    pub stderr: String,
    /// The time from the start to the end of the process.
    pub elapsed: Duration,
}

impl Finished {
    /// Returns the lines of stdout as JSON; panics if one is not JSON.
    pub fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| parse(line, self)).collect()
    }

    /// Returns the lines of stdout with this `type`, in order; empty if there are none.
    pub fn of_type(&self, kind: &str) -> Vec<Value> {
        self.lines().into_iter().filter(|line| line["type"] == kind).collect()
    }

    /// Returns the only `result` line. Panics if there is none or more than one.
    pub fn result(&self) -> Value {
        let mut results = self.of_type("result");
        assert_eq!(results.len(), 1, "one result expected in {self:#?}");
        results.remove(0)
    }

    /// Returns itself if the exit code is 0, and panics with the output otherwise.
    pub fn success(self) -> Self {
        assert_eq!(self.code, Some(0), "the run failed: {self:#?}");
        self
    }
}

/// Parses a line as JSON. Panics with the line and the context, because a line that is not JSON fails the test.
fn parse(line: &str, context: &dyn std::fmt::Debug) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in the line {line:?} of {context:#?}"))
}

impl Running {
    /// Starts the program with exactly this environment, as the leader of its own process group, so that a run that
    /// fails can be ended as a whole. `limit` is the deadline for all waits together.
    pub(crate) fn start(
        program: &Path,
        arguments: &[&OsStr],
        cwd: &Path,
        env: &BTreeMap<String, String>,
        limit: Duration,
    ) -> Self {
        let what = format!("{} {arguments:?}", program.display());
        let mut command = Command::new(program);
        command.args(arguments).current_dir(cwd).env_clear().envs(env).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("start {what}: {error}"));
        let started = Instant::now();
        let stdin = child.stdin.take();
        let lines = read_lines(child.stdout.take().expect("stdout is piped"));
        let (stderr, stderr_done) = read_all(child.stderr.take().expect("stderr is piped"));
        let deadline = started + limit;
        Self { child, stdin, lines, seen: Vec::new(), stderr, stderr_done, started, deadline, what }
    }

    /// Returns the process id of the program.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes to stdin, which must not be closed yet. A child that no longer reads is not a failure here: the test sees
    /// it in the output. Blocks, without a deadline, while the pipe is full and the child lives.
    pub fn write(&mut self, text: &str) {
        self.write_bytes(text.as_bytes());
    }

    /// Writes bytes that need not be text to stdin, which must not be closed yet.
    pub fn write_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin is closed already");
        let _ = stdin.write_all(bytes).and_then(|()| stdin.flush());
    }

    /// Writes one JSON value as a line to stdin, which must not be closed yet.
    pub fn send(&mut self, line: &Value) {
        self.write(&format!("{line}\n"));
    }

    /// Closes stdin, so that the program reads its end. Nothing can be written afterwards.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Returns the next line of stdout as JSON, and `None` at its end. Panics if the deadline passes first or the line
    /// is not JSON.
    pub fn next_line(&mut self) -> Option<Value> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => {
                self.seen.push(line);
                let line = self.seen.last().expect("just pushed");
                Some(parse(line.trim_end(), &self.seen))
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => self.give_up("no line on stdout"),
        }
    }

    /// Reads lines until one fits, and returns it; panics if stdout ends or the deadline passes first. Lines before it
    /// are skipped here, but stay in the output. `what` describes the line for the failure.
    pub fn wait_for(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            match self.next_line() {
                Some(line) if fits(&line) => return line,
                Some(_) => {}
                None => self.give_up(&format!("stdout ended before {what}")),
            }
        }
    }

    /// Reads lines until one has this `type`, and returns it; panics if stdout ends or the deadline passes first.
    pub fn wait_for_type(&mut self, kind: &str) -> Value {
        self.wait_for(kind, |line| line["type"] == kind)
    }

    /// Sends a signal to the process, not to its group; panics if that fails.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap_or_else(|error| panic!("signal {}: {error}", self.what));
    }

    /// Waits for the end of the process, then collects its output. Does not close stdin, so a program that waits
    /// for input needs [`Self::close_stdin`] before. Panics with the output if the deadline passes first.
    pub fn finish(mut self) -> Finished {
        let status = self.wait_exit();
        let elapsed = self.started.elapsed();
        let drained = Instant::now() + DRAIN;
        while let Ok(line) = self.lines.recv_timeout(drained.saturating_duration_since(Instant::now())) {
            self.seen.push(line);
        }
        let _ = self.stderr_done.recv_timeout(drained.saturating_duration_since(Instant::now()));
        Finished {
            code: status.code(),
            signal: status.signal(),
            stdout: self.seen.concat(),
            stderr: self.stderr_so_far(),
            elapsed,
        }
    }

    /// Waits for the exit of the process and collects its lines meanwhile; panics if the deadline passes first. Does
    /// not wait for the end of its pipes, which a grandchild may keep open.
    fn wait_exit(&mut self) -> ExitStatus {
        loop {
            while let Ok(line) = self.lines.try_recv() {
                self.seen.push(line);
            }
            match self.child.try_wait() {
                Ok(Some(status)) => return status,
                Ok(None) if Instant::now() >= self.deadline => self.give_up("it has not ended"),
                Ok(None) => std::thread::sleep(POLL),
                Err(error) => panic!("wait for {}: {error}", self.what),
            }
        }
    }

    /// Panics with `why` and everything that the program has written so far.
    fn give_up(&self, why: &str) -> ! {
        panic!(
            "{}: {why} after {:?}\n--- stdout\n{}--- stderr\n{}",
            self.what,
            self.started.elapsed(),
            self.seen.concat(),
            self.stderr_so_far()
        );
    }

    /// Returns what has arrived on stderr so far; more may follow while the process runs.
    pub fn stderr_so_far(&self) -> String {
        let bytes = self.stderr.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the process id in the form that signals need.
    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only for a run that has not ended. After a regular end the group is left alone, so that the check for
        // survivors finds the processes that it left behind.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process_group(self.pid(), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Reads lines in a thread until the pipe ends or the receiver is dropped. Lines keep their line ending, so that they
/// add up to the exact output.
fn read_lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (send, lines) = channel();
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while matches!(pipe.read_until(b'\n', &mut line), Ok(count) if count > 0) {
            if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    lines
}

/// Reads bytes in a thread until the pipe ends, when the receiver gets its one message. The bytes that have arrived can
/// be looked at before.
fn read_all(mut pipe: impl Read + Send + 'static) -> (Arc<Mutex<Vec<u8>>>, Receiver<()>) {
    let text = Arc::new(Mutex::new(Vec::new()));
    let (done, is_done) = channel();
    let collected = Arc::clone(&text);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count) = pipe.read(&mut buffer) {
            if count == 0 {
                break;
            }
            collected
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .extend_from_slice(&buffer[..count]);
        }
        let _ = done.send(());
    });
    (text, is_done)
}
