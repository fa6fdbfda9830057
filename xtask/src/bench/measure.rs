//! What is measured, and how: one function per row.
//!
//! A turn of the tool rows is the time between two requests at a server that responds at once: what the subject needs
//! to read the response, run the command, and send the next request. The time of the command is included; its floor is
//! `bash` running the same command.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::figures::{Budget, Figures, Row, Unit};
use super::process::{self, Finished};
use super::server::{Plan, Request, Seen, Server};
use super::subject::{Detail, Place, Subject};

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Runs behind each median.
    pub runs: usize,
    /// Turns of the tool row.
    pub turns: usize,
    /// Turns of the growth row.
    pub long_turns: usize,
    /// Pieces of the streaming row.
    pub pieces: usize,
}

impl Effort {
    /// The effort for the figures of README.md.
    pub const FULL: Self = Self { runs: 20, turns: 200, long_turns: 1000, pieces: 50_000 };
    /// A minute or less, for CI.
    pub const QUICK: Self = Self { runs: 5, turns: 50, long_turns: 200, pieces: 10_000 };
}

/// How many turns at each end of the long session are compared.
pub(super) const ENDS: usize = 50;
/// How many sessions of many turns are measured: they are long, and each gives many figures.
pub(super) const SESSIONS: usize = 3;
/// How much slower the last turns may be than the first. They send a longer request, but must not do more work.
pub(super) const FLAT: f64 = 1.5;

/// Runs every measurement and returns the table. `host_size` is the path of the program that `host_size.rs` builds. The
/// first run that fails ends all.
pub fn all(lathe: &Subject, peers: &[Subject], effort: Effort, host_size: PathBuf) -> Result<Figures> {
    let server = Server::start()?;
    let place = Place::new(server.base_url().to_owned())?;
    let bench = Bench { server, place, lathe, peers, effort, host_size };
    let mut figures = Figures { peers: peers.iter().map(|peer| peer.name.clone()).collect(), rows: vec![] };
    let curl = bench.curl()?;
    figures.rows.push(bench.version()?);
    figures.rows.extend(bench.one_answer(&curl)?);
    figures.rows.push(bench.memory_of_one_answer(&curl)?);
    figures.rows.push(bench.tool_turns()?);
    figures.rows.push(bench.memory_of_tool_turns()?);
    figures.rows.extend(bench.shell_files()?);
    figures.rows.push(bench.growth()?);
    figures.rows.push(bench.own_growth()?);
    figures.rows.extend(bench.large_resume()?);
    figures.rows.push(bench.permission_answer()?);
    figures.rows.push(bench.many_rules()?);
    figures.rows.extend(bench.background()?);
    figures.rows.extend(bench.searches()?);
    figures.rows.extend(bench.large_page()?);
    figures.rows.push(bench.streaming()?);
    figures.rows.extend(bench.host_sizes()?);
    Ok(figures)
}

/// Measures only the rows about commands in the background, without peers.
pub fn background(lathe: &Subject, effort: Effort) -> Result<Figures> {
    let server = Server::start()?;
    let place = Place::new(server.base_url().to_owned())?;
    let bench = Bench { server, place, lathe, peers: &[], effort, host_size: PathBuf::new() };
    Ok(Figures { peers: vec![], rows: bench.background()? })
}

/// What every row needs.
pub(super) struct Bench<'a> {
    pub(super) server: Server,
    pub(super) place: Place,
    lathe: &'a Subject,
    peers: &'a [Subject],
    pub(super) effort: Effort,
    /// The program that `host_size.rs` uses.
    pub(super) host_size: PathBuf,
}

/// A finished run and what the server recorded of it.
pub(super) struct Run {
    pub(super) finished: Finished,
    pub(super) seen: Seen,
}

impl Run {
    /// Returns the time from the start of the program to its first request. Fails if there was none.
    pub(super) fn first_request(&self) -> Result<Duration> {
        let arrived = self.seen.arrivals.first().context("the server saw no request")?;
        Ok(arrived.duration_since(self.finished.started))
    }

    /// Returns the time from the start of the program to its end.
    pub(super) fn total(&self) -> Duration {
        self.finished.ended.duration_since(self.finished.started)
    }

    /// Returns the lines on stdout per second, counted from the arrival of the first request to the last piece of
    /// output; `None` without a request or output.
    #[allow(clippy::cast_precision_loss, reason = "a count of lines, shown without digits")]
    fn lines_per_second(&self) -> Option<f64> {
        let arrived = *self.seen.arrivals.first()?;
        let (_, last) = self.finished.stdout.span?;
        let lines = self.finished.stdout.bytes.iter().filter(|byte| **byte == b'\n').count();
        Some(lines as f64 / last.duration_since(arrived).as_secs_f64())
    }

    /// Returns the times between consecutive requests, in order. With the plans that it is used for each is one turn; a
    /// single request gives none.
    pub(super) fn rounds(&self) -> Vec<Duration> {
        self.seen.arrivals.windows(2).map(|pair| pair[1].duration_since(pair[0])).collect()
    }
}

impl Bench<'_> {
    /// Returns Lathe itself.
    pub(super) fn lathe(&self) -> &Subject {
        self.lathe
    }

    /// Returns the measured programs, Lathe first. All figures are in this order.
    pub(super) fn subjects(&self) -> impl Iterator<Item = &Subject> {
        std::iter::once(self.lathe).chain(self.peers)
    }

    /// Runs a command to a successful end while the server follows a plan. `name` is for the error message.
    pub(super) fn run(&self, name: &str, mut command: Command, plan: Plan) -> Result<Run> {
        self.server.begin(plan);
        let finished = process::run(&mut command)?;
        finished.must_be_good(name)?;
        Ok(Run { finished, seen: self.server.end() })
    }

    /// Runs one session to its end. Fails if it sent fewer requests than planned or a command of it was refused,
    /// because such a run would be fast and prove nothing.
    pub(super) fn session(&self, subject: &Subject, plan: Plan) -> Result<Run> {
        let detail = match plan {
            Plan::Text
            | Plan::ToolTurns(_)
            | Plan::Writes { .. }
            | Plan::Fetches { .. }
            | Plan::Calls { .. }
            | Plan::Background { .. } => Detail::Messages,
            Plan::Pieces(_) => Detail::PartialMessages,
        };
        let expected = match plan {
            Plan::Text | Plan::Pieces(_) | Plan::Background { .. } => 1,
            Plan::ToolTurns(turns) | Plan::Writes { turns, .. } | Plan::Calls { turns, .. } => turns + 1,
            Plan::Fetches { turns, .. } => 2 * turns + 1,
        };
        let mut command = subject.session(&self.place, "go", detail);
        // Current clients search with Bash; the search tools are there for those who name them.
        if let Plan::Calls { tool, .. } = &plan {
            command.args(["--tools", tool]);
        }
        let run = self.run(&subject.name, command, plan)?;
        let got = run.seen.arrivals.len();
        if got < expected {
            bail!("{} sent {got} requests, and the plan has {expected}", subject.name);
        }
        if let Some(refusal) = failed_tool_result(&run.finished.stdout.bytes) {
            bail!("{} did not run the command of a tool turn: {refusal}", subject.name);
        }
        Ok(run)
    }

    /// Returns `curl` with the same request that Lathe sends, learnt from a first run of Lathe. Writes its body into
    /// the folder of the run.
    fn curl(&self) -> Result<Curl> {
        let request =
            self.session(self.lathe, Plan::Text)?.seen.first.context("the server saw no request")?;
        let body = self.place.path("request.json");
        fs::write(&body, &request.body).context("failed to keep the request")?;
        Ok(Curl { request, body: format!("@{}", body.display()) })
    }

    /// Measures the time of `--version` from start to end.
    fn version(&self) -> Result<Row> {
        let mut times = vec![vec![]; 1 + self.peers.len()];
        for _ in 0..self.effort.runs {
            for (subject, times) in self.subjects().zip(&mut times) {
                let run = self.run(&subject.name, subject.version(&self.place), Plan::Text)?;
                times.push(run.total());
            }
        }
        let figures = times.into_iter().map(median_ms).collect();
        Ok(row("`--version`", Unit::Milliseconds, figures, None, Budget::AtMost(5.0)))
    }

    /// Measures a session with one response: the time to its request, and the time to its end. The programs take turns,
    /// so that a change of the machine's load affects all of them.
    fn one_answer(&self, curl: &Curl) -> Result<[Row; 2]> {
        let count = 1 + self.peers.len();
        let (mut first, mut total) = (vec![vec![]; count], vec![vec![]; count]);
        let (mut curl_first, mut curl_total) = (vec![], vec![]);
        for _ in 0..self.effort.runs {
            let run = self.run("curl", curl.command(&self.place), Plan::Text)?;
            curl_first.push(run.first_request()?);
            curl_total.push(run.total());
            for (number, subject) in self.subjects().enumerate() {
                let run = self.session(subject, Plan::Text)?;
                first[number].push(run.first_request()?);
                total[number].push(run.total());
            }
        }
        let figures = |times: Vec<Vec<Duration>>| times.into_iter().map(median_ms).collect();
        Ok([
            row(
                "spawn → first request (floor: curl, the same POST)",
                Unit::Milliseconds,
                figures(first),
                median_ms(curl_first),
                Budget::TimesFloor(2.0),
            ),
            row(
                "spawn → exit, one answer (floor: curl)",
                Unit::Milliseconds,
                figures(total),
                median_ms(curl_total),
                Budget::Open,
            ),
        ])
    }

    /// Measures the peak memory of a session with one response; the floor is that of `curl`.
    fn memory_of_one_answer(&self, curl: &Curl) -> Result<Row> {
        let floor = self.peak(1, &Plan::Text, || curl.command(&self.place))?;
        let what = "peak memory, one answer (floor: curl)";
        self.memory(what, Plan::Text, SESSIONS, floor)
    }

    /// Measures the peak memory of one session with many tool calls; the row has no floor.
    fn memory_of_tool_turns(&self) -> Result<Row> {
        let turns = self.effort.turns;
        self.memory(&format!("peak memory, {turns} tool turns"), Plan::ToolTurns(turns), 1, None)
    }

    /// Measures the peak memory of every program, as the median of `runs` sessions; `what` and `floor` go into the row.
    fn memory(&self, what: &str, plan: Plan, runs: usize, floor: Option<f64>) -> Result<Row> {
        let mut figures = vec![];
        for subject in self.subjects() {
            let command = || subject.session(&self.place, "go", Detail::Messages);
            figures.push(self.peak(runs, &plan, command)?);
        }
        Ok(row(what, Unit::Megabytes, figures, floor, Budget::AtMost(20.0)))
    }

    /// Returns the median peak memory of `runs` children in megabytes, each run under `plan`; `None` if the machine
    /// does not report it.
    fn peak(&self, runs: usize, plan: &Plan, command: impl Fn() -> Command) -> Result<Option<f64>> {
        let mut peaks = vec![];
        for _ in 0..runs {
            self.server.begin(plan.clone());
            peaks.extend(process::peak_memory(&mut command())?.map(megabytes));
            self.server.end();
        }
        Ok(median(peaks))
    }

    /// Measures a turn with one tool call. The floor is the same command run by `bash`, in runs of its own.
    fn tool_turns(&self) -> Result<Row> {
        let turns = self.effort.turns;
        let mut times = vec![vec![]; 1 + self.peers.len()];
        let mut bash = vec![];
        for _ in 0..SESSIONS {
            for _ in 0..turns {
                let mut command = self.place.command("bash");
                command.args(["-c", "echo hi"]);
                bash.push(self.run("bash", command, Plan::Text)?.total());
            }
            for (subject, times) in self.subjects().zip(&mut times) {
                times.extend(self.session(subject, Plan::ToolTurns(turns))?.rounds());
            }
        }
        let figures = times.into_iter().map(median_ms).collect();
        let what = format!("a tool turn, median of {turns} (floor: bash -c 'echo hi')");
        Ok(row(&what, Unit::Milliseconds, figures, median_ms(bash), Budget::AtMost(5.0)))
    }

    /// Measures how much longer the last turns of a long session take than the first ones.
    fn growth(&self) -> Result<Row> {
        let turns = self.effort.long_turns;
        let mut figures = vec![];
        for subject in self.subjects() {
            figures.push(growth_of(&self.session(subject, Plan::ToolTurns(turns))?.rounds()));
        }
        let what = format!("the last {ENDS} of {turns} tool turns, compared with the first {ENDS}");
        Ok(row(&what, Unit::Times, figures, None, Budget::AtMost(FLAT)))
    }

    /// Measures how many lines per second a session writes with partial messages; the row has no budget.
    fn streaming(&self) -> Result<Row> {
        let mut rates = vec![vec![]; 1 + self.peers.len()];
        for _ in 0..SESSIONS {
            for (subject, rates) in self.subjects().zip(&mut rates) {
                let run = self.session(subject, Plan::Pieces(self.effort.pieces))?;
                rates.extend(run.lines_per_second());
            }
        }
        let what = format!("stream-json lines, {} pieces, --include-partial-messages", self.effort.pieces);
        Ok(row(&what, Unit::LinesPerSecond, rates.into_iter().map(median).collect(), None, Budget::Open))
    }
}

/// A request to be sent again with `curl`.
struct Curl {
    request: Request,
    body: String,
}

impl Curl {
    /// Returns the command that sends the recorded request with `curl`.
    fn command(&self, place: &Place) -> Command {
        let mut command = place.command("curl");
        command.args(["-q", "-sS", "-o", "/dev/null", "--data-binary", &self.body, "-H", "expect:"]);
        for (name, value) in &self.request.headers {
            // curl writes these itself.
            if !["host", "content-length", "transfer-encoding", "connection"].contains(&name.as_str()) {
                command.arg("-H").arg(format!("{name}: {value}"));
            }
        }
        let path = self.request.line.split(' ').nth(1).unwrap_or("/v1/messages");
        command.arg(format!("{}{path}", place.base_url()));
        command
    }
}

/// Returns the content of the first tool result in the output that is an error; `None` if there is none. A turn whose
/// command was refused is fast and proves nothing.
fn failed_tool_result(stdout: &[u8]) -> Option<String> {
    let lines = stdout.split(|byte| *byte == b'\n');
    let messages = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    messages.filter(|message| message["type"] == "user").find_map(|message| {
        let blocks = message["message"]["content"].as_array()?;
        let failed = blocks.iter().find(|block| block["is_error"] == true)?;
        Some(failed["content"].to_string())
    })
}

/// Returns a row of the figures of all subjects. Lathe's must be the first, and there must be at least that one.
pub(super) fn row(
    what: &str,
    unit: Unit,
    mut figures: Vec<Option<f64>>,
    floor: Option<f64>,
    budget: Budget,
) -> Row {
    let peers = figures.split_off(1);
    Row { what: what.to_owned(), unit, lathe: figures[0], floor, peers, budget }
}

/// Returns how many times longer the last [`ENDS`] turns took than the first, by their medians; `None` with fewer than
/// twice as many turns.
fn growth_of(turns: &[Duration]) -> Option<f64> {
    if turns.len() < 2 * ENDS {
        return None;
    }
    let first = median_ms(turns[..ENDS].to_vec())?;
    let last = median_ms(turns[turns.len() - ENDS..].to_vec())?;
    Some(last / first)
}

/// Returns the median of some times in milliseconds; `None` of an empty list.
pub(super) fn median_ms(times: Vec<Duration>) -> Option<f64> {
    median(times.into_iter().map(|time| time.as_secs_f64() * 1000.0).collect())
}

/// Returns the median of a list, which need not be sorted; `None` of an empty one.
pub(super) fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(figures[middle]),
        _ => Some(f64::midpoint(figures[middle - 1], figures[middle])),
    }
}

/// Converts bytes to megabytes of 1024 × 1024 bytes.
#[allow(clippy::cast_precision_loss, reason = "a size in bytes, shown with one digit")]
pub(super) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 100.0]), Some(3.0));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn a_refused_command_is_noticed() {
        let line = |is_error: bool| {
            let block = json!({ "type": "tool_result", "content": "no", "is_error": is_error });
            format!("{}\n", json!({ "type": "user", "message": { "content": [block] } }))
        };
        assert_eq!(failed_tool_result(line(false).as_bytes()), None);
        assert_eq!(failed_tool_result((line(false) + &line(true)).as_bytes()).unwrap(), "\"no\"");
        assert_eq!(failed_tool_result(b"plain text\n"), None);
    }

    #[test]
    fn growth_compares_the_ends() {
        let mut turns = vec![Duration::from_millis(2); ENDS];
        turns.extend(vec![Duration::from_millis(90); 7]);
        turns.extend(vec![Duration::from_millis(3); ENDS]);
        assert_eq!(growth_of(&turns), Some(1.5));
        assert_eq!(growth_of(&turns[..ENDS]), None);
    }
}
