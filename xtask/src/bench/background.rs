//! The cost of commands in the background: how long a start takes, how soon a host hears of an end, and how much memory a
//! command takes beside its own.
//!
//! A command waits at a pipe with a name; the instant at which this process closes the pipe counts as its exit, so the
//! figures include what the command and its shell need to end.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::figures::{Budget, Row, Unit};
use super::measure::{Bench, median, median_ms, row};
use super::server::Plan;
use super::subject::{Detail, Subject};

/// Commands that are alive while the ends of others are measured.
const ALIVE: usize = 50;
/// The budgets: for a start, as a multiple of a turn with `echo`; for the time to the frame, in milliseconds; for memory,
/// in MB (300 KB).
const START: f64 = 1.2;
const MEDIAN: f64 = 5.0;
const WORST: f64 = 20.0;
const MEMORY: f64 = 300.0 / 1024.0;
/// How long to wait before memory is read.
const SETTLED: Duration = Duration::from_millis(500);
/// How long a command may take to come up.
const PATIENCE: Duration = Duration::from_secs(30);

impl Bench<'_> {
    /// Measures all rows about commands in the background. Peers are not measured, because they tell of ends in other
    /// ways.
    pub(super) fn background(&self) -> Result<Vec<Row>> {
        let (idle, _) = self.ends(0)?;
        let (busy, kilobytes) = self.ends(ALIVE)?;
        let what = |at: &str| format!("a background command ends → the host has the frame, {at}");
        let mut rows = vec![self.background_start()?];
        for (times, where_) in [(idle, "idle"), (busy, "50 others alive")] {
            let worst = percentile(&times, 99);
            rows.push(self.own(&what(&format!("{where_}, median")), median_ms(times), MEDIAN));
            rows.push(self.own(&what(&format!("{where_}, 99 of 100")), worst, WORST));
        }
        let memory = kilobytes.map(|kilobytes| kilobytes / 1024.0);
        rows.push(Row {
            unit: Unit::Megabytes,
            ..self.own("memory of a background command (PSS of Lathe and its keepers)", memory, MEMORY)
        });
        Ok(rows)
    }

    /// Returns a row in milliseconds with a figure of Lathe alone; the peers have none.
    fn own(&self, what: &str, figure: Option<f64>, budget: f64) -> Row {
        let mut figures: Vec<Option<f64>> = self.subjects().map(|_| None).collect();
        figures[0] = figure;
        row(what, Unit::Milliseconds, figures, None, Budget::AtMost(budget))
    }

    /// Measures the time of a turn that starts a command, as a multiple of one that waits for it.
    fn background_start(&self) -> Result<Row> {
        let (turns, lathe) = (self.effort.turns, self.lathe());
        let turn = |input: Value| -> Result<Option<f64>> {
            let mut command = lathe.session(&self.place, "go", Detail::Messages);
            command.args(["--background", "stop"]);
            let plan = Plan::Calls { turns, tool: "Bash", input };
            let mut times = self.run(&lathe.name, command, plan)?.rounds();
            times.truncate(turns);
            Ok(median_ms(times))
        };
        let mut ratios = vec![];
        for _ in 0..3 {
            let waits = turn(json!({ "command": "echo x" }))?;
            let starts = turn(json!({ "command": "echo x", "run_in_background": true }))?;
            ratios.extend(starts.zip(waits).map(|(starts, waits)| starts / waits));
        }
        let what = "a turn that starts a background command, compared with one that runs `echo`";
        Ok(Row { unit: Unit::Times, ..self.own(what, median(ratios), START) })
    }

    /// Measures the times from the end of a command to its frame while `alive` others run, and the memory of one of
    /// these in KB; that is `None` if none run or `/proc` does not have it.
    fn ends(&self, alive: usize) -> Result<(Vec<Duration>, Option<f64>)> {
        let gate = self.place.path(&format!("gate-{alive}"));
        let made = Command::new("mkfifo").arg(&gate).status().context("failed to start mkfifo")?;
        if !made.success() {
            bail!("mkfifo failed");
        }
        let ends = self.effort.turns;
        self.server.begin(Plan::Background { alive, ends, gate: gate.clone() });
        let mut session = Session::start(self.lathe(), self)?;
        session.ask()?;
        session.until("result")?;
        let before = session.memory();
        if alive > 0 {
            session.ask()?;
            session.until("result")?;
        }
        // Keepers give back what they do not need of Lathe's memory once their command has lived for a tenth of a second.
        thread::sleep(SETTLED);
        let each = session.memory().zip(before).map(|(after, before)| (after - before) / alive.max(1) as f64);
        let mut times = vec![];
        for _ in 0..ends {
            session.ask()?;
            session.until("result")?;
            let open = opened(&gate)?;
            let ended = Instant::now();
            drop(open);
            session.until("task_notification")?;
            times.push(ended.elapsed());
            // The turn of the notice.
            session.until("result")?;
        }
        session.end()?;
        self.server.end();
        Ok((times, each.filter(|_| alive > 0)))
    }
}

/// Opens the pipe for writing, once its command reads from it; fails if none does within [`PATIENCE`].
fn opened(gate: &Path) -> Result<File> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        match OpenOptions::new().write(true).custom_flags(nonblock).open(gate) {
            Ok(file) => return Ok(file),
            Err(error) if Instant::now() > deadline => {
                return Err(error).context("no command reads the pipe");
            }
            Err(_) => thread::sleep(Duration::from_micros(300)),
        }
    }
}

/// Returns this percentile of the times, in milliseconds; `None` of an empty list.
fn percentile(times: &[Duration], percent: usize) -> Option<f64> {
    let mut times = times.to_vec();
    times.sort();
    let at = (times.len() * percent).div_ceil(100).checked_sub(1)?;
    times.get(at).map(|time| time.as_secs_f64() * 1000.0)
}

/// A running session with a host.
struct Session {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Session {
    /// Starts a session on pipes that stops its background commands at the end instead of waiting for them.
    fn start(subject: &Subject, bench: &Bench<'_>) -> Result<Self> {
        let mut command = subject.talking(&bench.place);
        command.env("CLAUDE_CODE_TMPDIR", bench.place.path("home")).args(["--background", "stop"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("failed to start lathe")?;
        let stdin = child.stdin.take().context("the child has no stdin")?;
        let stdout = child.stdout.take().context("the child has no stdout")?;
        Ok(Self { child, stdin, lines: BufReader::new(stdout).lines() })
    }

    /// Sends the next prompt and does not wait for its result.
    fn ask(&mut self) -> Result<()> {
        let prompt = json!({ "type": "user", "message": { "role": "user", "content": "go" } });
        writeln!(self.stdin, "{prompt}").context("failed to send a prompt")
    }

    /// Reads until a frame of this type, or of this subtype, and drops the frames before it; waits for it without a
    /// limit. Fails if the session ends first or a command was not started.
    fn until(&mut self, wanted: &str) -> Result<()> {
        for line in self.lines.by_ref() {
            let frame: Value = serde_json::from_str(&line?).context("a line is not JSON")?;
            if frame["message"]["content"][0]["is_error"] == true {
                bail!("a command was not started: {}", frame["message"]["content"][0]["content"]);
            }
            if frame["type"] == wanted || frame["subtype"] == wanted {
                return Ok(());
            }
        }
        bail!("lathe ended before {wanted}")
    }

    /// Returns the proportional memory of the process and of its direct children, which are the keepers of the
    /// commands, in KB; `None` if `/proc` does not have it.
    fn memory(&self) -> Option<f64> {
        let own = self.child.id();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).ok()?;
        let all = children.split_whitespace().filter_map(|pid| pid.parse().ok()).chain([own]);
        Some(all.filter_map(proportional_kb).sum())
    }

    /// Closes the input and waits for the end of the session, which must succeed.
    fn end(self) -> Result<()> {
        let Self { mut child, stdin, lines } = self;
        drop(stdin);
        lines.for_each(drop);
        let status = child.wait().context("failed to wait for lathe")?;
        if !status.success() {
            bail!("lathe failed ({status})");
        }
        Ok(())
    }
}

/// Returns the proportional memory (PSS) of a process in KB; `None` if `/proc` does not have it.
fn proportional_kb(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Returns the commands of a plan: `alive` that stay alive, and `ends` that end when the pipe at `gate` is closed.
pub(super) fn commands(alive: usize, ends: usize, gate: &Path) -> (Vec<String>, Vec<String>) {
    let waits = format!("cat {}", gate.display());
    (vec!["tail -f /dev/null".to_owned(); alive], vec![waits; ends])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentile_is_of_the_sorted_times() {
        let times: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile(&times, 99), Some(198.0));
        assert_eq!(percentile(&times[..1], 99), Some(200.0));
        assert_eq!(percentile(&[], 99), None);
    }
}
