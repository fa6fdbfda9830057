//! The cost of permissions: how soon a host's reply takes effect, and whether many rules slow a session down.
//!
//! The reply is timed on the host's side of the pipes: from the moment it is handed to the kernel to the moment the
//! result of the permitted call can be read. The call writes a small file, so a result means that it ran. The row about
//! rules compares turns whose call a rule denies: no command starts in them, so that a slow decision would show.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::figures::{Budget, Row, Unit};
use super::measure::{Bench, median_ms, row};
use super::process;
use super::server::Plan;
use super::subject::Subject;

/// The budget for a reply, in milliseconds.
const ANSWER_BUDGET: f64 = 2.0;
/// The numbers of rules in the two sessions that are compared.
const RULES: [usize; 2] = [10, 1000];

impl Bench<'_> {
    /// Measures the time from a permission reply to the result of the call that it permits. Fails if a subject asks
    /// fewer times than planned.
    pub(super) fn permission_answer(&self) -> Result<Row> {
        let turns = self.effort.turns;
        let mut figures = vec![];
        for subject in self.subjects() {
            // A session must not find the files of an earlier one: overwriting them would be a different call.
            let folder = self.place.path(&format!("asked-{}", figures.len()));
            fs::create_dir(&folder).context("failed to make a folder")?;
            self.server.begin(Plan::Writes { turns, folder: folder.clone() });
            let times = answered(subject.asked(&self.place, &folder), &subject.name)?;
            self.server.end();
            if times.len() < turns {
                bail!("{} asked {} times, and the plan has {turns}", subject.name, times.len());
            }
            figures.push(median_ms(times));
        }
        let what = format!("permission answer → its call is done, median of {turns} (Write)");
        Ok(row(&what, Unit::Milliseconds, figures, None, Budget::AtMost(ANSWER_BUDGET)))
    }

    /// Measures a turn with [`RULES`]`[1]` rules as a multiple of one with [`RULES`]`[0]`.
    pub(super) fn many_rules(&self) -> Result<Row> {
        let mut figures = vec![];
        for subject in self.subjects() {
            let mut medians = vec![];
            for rules in RULES {
                let settings = self.place.path(&format!("{rules}-rules.json"));
                fs::write(&settings, settings_with(rules).to_string()).context("failed to write settings")?;
                medians.extend(median_ms(self.denied_turns(subject, &settings.to_string_lossy())?));
            }
            figures.push(match medians[..] {
                [few, many] if few > 0.0 => Some(many / few),
                _ => None,
            });
        }
        let what = format!("a denied call among {} rules, compared with {}", RULES[1], RULES[0]);
        Ok(row(&what, Unit::Times, figures, None, Budget::AtMost(2.0)))
    }

    /// Runs a session whose calls a rule denies and returns the times of its turns. Fails if no call was denied.
    fn denied_turns(&self, subject: &Subject, settings: &str) -> Result<Vec<Duration>> {
        let mut command = subject.denied(&self.place);
        command.args(["--settings", settings]);
        let run = self.run(&subject.name, command, Plan::ToolTurns(self.effort.turns))?;
        let stdout = String::from_utf8_lossy(&run.finished.stdout.bytes);
        if !stdout.contains("\"is_error\":true") {
            bail!("{} ran a command that a rule denies", subject.name);
        }
        Ok(run.rounds())
    }
}

/// Returns settings with this many allow rules, which match nothing, and the rule that denies the calls of the plan.
fn settings_with(rules: usize) -> Value {
    let allow: Vec<String> = (0..rules).map(|number| format!("Bash(tool-{number} run *)")).collect();
    json!({ "permissions": { "allow": allow, "deny": ["Bash(echo *)"] } })
}

/// Runs a session, allows every call, and returns how long each reply took to have its effect. A session that takes
/// longer than [`process::LIMIT`] is killed and fails.
fn answered(mut command: Command, name: &str) -> Result<Vec<Duration>> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("failed to start {name}"))?;
    let pid = rustix::process::Pid::from_child(&child);
    let (ended, watch) = mpsc::channel::<()>();
    let watchdog = thread::spawn(move || {
        // The child is not reaped before the sender is dropped, so the number still means this child.
        if watch.recv_timeout(process::LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    });
    let stdin = child.stdin.take().context("the child has no stdin")?;
    let stdout = BufReader::new(child.stdout.take().context("the child has no stdout")?);
    let times = talk(stdin, stdout);
    drop(ended);
    drop(watchdog.join());
    let status = child.wait().with_context(|| format!("failed to wait for {name}"))?;
    if !status.success() {
        bail!("{name} failed ({status})");
    }
    times
}

/// Sends one prompt, allows every call, and returns the time from each reply to the result of its call. Closes the
/// input at the result, so that the session ends.
fn talk(mut stdin: ChildStdin, stdout: impl BufRead) -> Result<Vec<Duration>> {
    let prompt = json!({ "type": "user", "message": { "role": "user", "content": "go" } });
    writeln!(stdin, "{prompt}")?;
    let mut stdin = Some(stdin);
    let (mut times, mut said) = (vec![], None);
    for line in stdout.lines() {
        let arrived = Instant::now();
        let message: Value = serde_json::from_str(&line?).context("a line is not JSON")?;
        match message["type"].as_str() {
            Some("control_request") => {
                let answer = yes(&message["request_id"]);
                let pipe = stdin.as_mut().context("a question came after the result")?;
                said = Some(Instant::now());
                pipe.write_all(format!("{answer}\n").as_bytes())?;
            }
            Some("user") => {
                if message["message"]["content"][0]["is_error"] == true {
                    bail!("a permitted call failed: {}", message["message"]["content"][0]["content"]);
                }
                times.extend(said.take().map(|said: Instant| arrived.duration_since(said)));
            }
            // No more prompts: the session ends.
            Some("result") => stdin = None,
            _ => {}
        }
    }
    Ok(times)
}

/// Returns the reply to the request with this id that allows its call.
fn yes(request_id: &Value) -> Value {
    json!({ "type": "control_response", "response": {
        "subtype": "success", "request_id": request_id, "response": { "behavior": "allow" },
    }})
}
