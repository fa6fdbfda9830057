//! The cost of long sessions: whether turn 1,000 takes more processor time than turn 10, and what it takes to resume a
//! transcript of 100 MB.
//!
//! The transcript is like such files in practice: far more than a model can be sent, most of it before a compaction,
//! and tool results recorded twice (for the model and for programs).

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::figures::{Budget, Row, Unit};
use super::measure::{Bench, ENDS, FLAT, Run, median, median_ms, megabytes, row};
use super::process;
use super::server::Plan;
use super::subject::Detail;

/// The session of the large transcript.
const SESSION: &str = "1a26e000-0000-4000-8000-000000000000";
/// Its size.
const BYTES: usize = 100_000_000;
/// Turns after the last compaction.
const RECENT: usize = 200;
/// The turn that the last ones are compared with.
const EARLY: usize = 10;

impl Bench<'_> {
    /// Measures the processor time of late turns of a long session as a multiple of early ones. The time of children
    /// does not count.
    pub(super) fn own_growth(&self) -> Result<Row> {
        let turns = self.effort.long_turns;
        let mut figures = vec![];
        for subject in self.subjects() {
            self.server.begin(Plan::ToolTurns(turns));
            let mut command = subject.session(&self.place, "go", Detail::Messages);
            let finished = process::run_watched(&mut command, |child| self.server.watch(child))?;
            finished.must_be_good(&subject.name)?;
            figures.push(growth_of(&self.server.end().processor));
        }
        let what = format!("own processor time of turn {turns}, compared with turn {EARLY}");
        Ok(row(&what, Unit::Times, figures, None, Budget::AtMost(FLAT)))
    }

    /// Measures a session of Lathe that resumes a file of 100 MB: the time to its first request, and its peak memory.
    /// Writes the file before each run and removes it at the end.
    pub(super) fn large_resume(&self) -> Result<[Row; 2]> {
        let lathe = self.subjects().next().context("there is always Lathe")?;
        let others = self.subjects().count() - 1;
        let path = self.transcript()?;
        let (mut times, mut peaks) = (vec![], vec![]);
        for _ in 0..3 {
            write_large(&path)?;
            let run: Run = self.run(&lathe.name, lathe.resumed(&self.place, SESSION), Plan::Text)?;
            let body = run.seen.first.as_ref().map_or(0, |request| request.body.len());
            ensure!(body > 50_000, "the request holds nothing of the session: {body} bytes");
            times.push(run.first_request()?);
            self.server.begin(Plan::Text);
            peaks.extend(process::peak_memory(&mut lathe.resumed(&self.place, SESSION))?.map(megabytes));
            self.server.end();
        }
        fs::remove_file(&path).context("failed to remove the large transcript")?;
        let figures = |figure: Option<f64>| std::iter::once(figure).chain(vec![None; others]).collect();
        Ok([
            row(
                "resume of a 100 MB transcript, spawn → first request",
                Unit::Milliseconds,
                figures(median_ms(times)),
                None,
                Budget::AtMost(1000.0),
            ),
            row(
                "resume of a 100 MB transcript, peak memory",
                Unit::Megabytes,
                figures(median(peaks)),
                None,
                Budget::AtMost(150.0),
            ),
        ])
    }

    /// Returns the path for the session file of the working folder, and creates its folder. The folder is named as
    /// Lathe names it.
    fn transcript(&self) -> Result<std::path::PathBuf> {
        let work = self.place.path("work").canonicalize().context("the working folder is gone")?;
        let key: String =
            work.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let folder = self.place.path("home").join(".claude/projects").join(key);
        fs::create_dir_all(&folder).context("failed to make the folder of the transcript")?;
        Ok(folder.join(format!("{SESSION}.jsonl")))
    }
}

/// Returns how many times more processor time the last [`ENDS`] turns take than as many after the turn [`EARLY`];
/// `None` with too few readings, or if the early ones took no measurable time.
fn growth_of(readings: &[Duration]) -> Option<f64> {
    if readings.len() < EARLY + 2 * ENDS {
        return None;
    }
    let used = |from: usize| (readings[from + ENDS] - readings[from]).as_secs_f64();
    let early = used(EARLY);
    (early > 0.0).then(|| used(readings.len() - 1 - ENDS) / early)
}

/// Writes a session file: turns up to [`BYTES`], a compaction, and [`RECENT`] more turns.
fn write_large(path: &std::path::Path) -> Result<()> {
    let mut out = BufWriter::new(File::create(path).context("failed to write the large transcript")?);
    let mut log = Log { last: None, records: 0 };
    let mut written = 0;
    while written < BYTES {
        written += log.turn(&mut out)?;
    }
    log.compaction(&mut out)?;
    for _ in 0..RECENT {
        log.turn(&mut out)?;
    }
    out.flush().context("failed to write the large transcript")
}

/// A transcript that is being written.
struct Log {
    last: Option<String>,
    records: u64,
}

impl Log {
    /// Writes a prompt, a call, its result and a response. Returns the number of bytes written.
    fn turn(&mut self, out: &mut impl Write) -> Result<usize> {
        let call = format!("toolu_{}", self.records);
        let output = "a line of the output of some command\n".repeat(60);
        let prompt = json!({ "role": "user", "content": "go on with the next part" });
        let result = json!([{ "type": "tool_result", "tool_use_id": call, "content": output }]);
        let input = json!({ "command": "make test" });
        let mut bytes = self.add(out, json!({ "type": "user", "message": prompt }))?;
        bytes +=
            self.answer(out, json!({ "type": "tool_use", "id": call, "name": "Bash", "input": input }))?;
        bytes += self.add(
            out,
            json!({
                "type": "user",
                "message": { "role": "user", "content": result },
                "toolUseResult": { "stdout": output, "stderr": "" },
            }),
        )?;
        bytes += self.answer(out, json!({ "type": "text", "text": "That part is done. ".repeat(20) }))?;
        Ok(bytes)
    }

    /// Writes a record of one block of a response, with a message id of its own. Returns its number of bytes.
    fn answer(&mut self, out: &mut impl Write, block: Value) -> Result<usize> {
        let id = format!("msg_{}", self.records);
        let message =
            json!({ "id": id, "role": "assistant", "model": super::sse::MODEL, "content": [block] });
        self.add(out, json!({ "type": "assistant", "message": message, "apiBlockIndex": 0 }))
    }

    /// Writes a compaction boundary, which has no parent, and its summary. The conversation continues after them.
    fn compaction(&mut self, out: &mut impl Write) -> Result<()> {
        self.last = None;
        let metadata = json!({ "trigger": "auto", "preTokens": 150_000 });
        let boundary =
            json!({ "type": "system", "subtype": "compact_boundary", "compactMetadata": metadata });
        self.add(out, boundary)?;
        let summary = json!({ "role": "user", "content": "Much was done." });
        self.add(out, json!({ "type": "user", "isCompactSummary": true, "message": summary }))?;
        Ok(())
    }

    /// Writes a record with the fields that link it to the one before, which must be written already. Returns its
    /// number of bytes.
    fn add(&mut self, out: &mut impl Write, mut record: Value) -> Result<usize> {
        self.records += 1;
        let uuid = format!("{:08x}-0000-4000-8000-{:012x}", self.records, self.records);
        record["parentUuid"] = json!(self.last.replace(uuid.clone()));
        record["uuid"] = json!(uuid);
        record["sessionId"] = json!(SESSION);
        record["timestamp"] = json!("2026-01-01T00:00:00.000Z");
        record["isSidechain"] = json!(false);
        let line = format!("{record}\n");
        out.write_all(line.as_bytes()).context("failed to write the large transcript")?;
        Ok(line.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_compares_a_late_turn_with_an_early_one() {
        let mut readings: Vec<Duration> = (0..500).map(|nth| Duration::from_millis(nth * 2)).collect();
        assert_eq!(growth_of(&readings), Some(1.0));
        readings.extend((1..=ENDS as u64 + 1).map(|nth| Duration::from_millis(998 + nth * 3)));
        // The figures are not whole numbers.
        assert!(growth_of(&readings).is_some_and(|times| (times - 1.5).abs() < 1e-9));
        assert_eq!(growth_of(&readings[..ENDS]), None);
    }

    #[test]
    fn every_record_follows_the_one_before() {
        let mut bytes = Vec::new();
        let mut log = Log { last: None, records: 0 };
        log.turn(&mut bytes).unwrap();
        log.compaction(&mut bytes).unwrap();
        let records: Vec<Value> = String::from_utf8(bytes)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(records[1]["parentUuid"], records[0]["uuid"]);
        assert_eq!(
            (&records[4]["parentUuid"], &records[5]["parentUuid"]),
            (&Value::Null, &records[4]["uuid"])
        );
    }
}
