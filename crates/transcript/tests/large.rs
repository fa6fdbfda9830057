//! The performance budget: resuming a 100 MB transcript takes at most a second and 150 MB, and appending
//! a record about ten microseconds. Run with `cargo test --release --test large -- --ignored`, one at a
//! time; in a debug build the figures say nothing. Time is what the processor spent on it, because other
//! work on the machine is none of ours.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "measures itself in a process of its own"
)]

mod common;

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{SESSION, Session};
use lathe_transcript::{Durability, Line, ResumeAt, SideRecord, TranscriptWriter, load_for_resume};

/// A file of about `megabytes`, by repeating a session with other ids; the parts follow each other.
fn large_session(dir: &Path, megabytes: usize, filler: usize) -> PathBuf {
    let part_dir = tempfile::tempdir_in(dir).unwrap();
    let mut session = Session::create(part_dir.path());
    session.grow(1000, &"lorem ipsum ".repeat(filler));
    let last = session.last.clone().unwrap();
    let part = std::fs::read_to_string(&session.path).unwrap();
    let path = dir.join(format!("{SESSION}.jsonl"));
    let mut out = BufWriter::new(std::fs::File::create(&path).unwrap());
    for nth in 0..megabytes * 1_000_000 / part.len() + 1 {
        // Ids hold `-1111-4111-`: another number there makes another set.
        let mut text = part.replace("-1111-4111-", &format!("-{nth:04x}-4111-"));
        text = text.replace("toolu_", &format!("toolu_{nth}_")).replace("msg_", &format!("msg_{nth}_"));
        if nth > 0 {
            let before = last.replace("-1111-4111-", &format!("-{:04x}-4111-", nth - 1));
            text = text.replacen("\"parentUuid\":null", &format!("\"parentUuid\":\"{before}\""), 1);
        }
        out.write_all(text.as_bytes()).unwrap();
    }
    out.flush().unwrap();
    path
}

/// Processor time of this thread so far.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

fn peak_rss_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The child that measures: loads the file named in the environment.
#[test]
fn child_resumes() {
    let Some(path) = std::env::var_os("LATHE_CHILD") else { return };
    let start = cpu_time();
    let resumed = load_for_resume(Path::new(&path), ResumeAt::Latest).unwrap();
    let took = cpu_time() - start;
    let blocks: usize = resumed.messages.iter().map(|message| message.blocks.len()).sum();
    println!("\nmeasured {} {} {blocks}", took.as_millis(), peak_rss_kb());
}

/// Milliseconds and kilobytes that a resume takes in a fresh process, and the blocks it loads.
fn measure(path: &Path) -> (u64, u64, u64) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_resumes", "--nocapture", "--test-threads=1"])
        .env("LATHE_CHILD", path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line =
        text.lines().find_map(|line| line.strip_prefix("measured ")).unwrap_or_else(|| panic!("{text}"));
    let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
    (numbers[0], numbers[1], numbers[2])
}

fn report(what: &str, figures: (u64, u64, u64)) {
    let (millis, kilobytes, blocks) = figures;
    println!("{what}: {millis} ms, {} MB, {blocks} blocks", kilobytes / 1000);
}

/// Appends a compaction and what follows it: the usual state of a large transcript.
fn compact(path: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let mut tail = Session::create(dir.path());
    tail.compact("summary");
    tail.grow(500, "x");
    let text = std::fs::read_to_string(&tail.path).unwrap().replace("-1111-4111-", "-eeee-4111-");
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
#[ignore = "takes 100 MB and a release build"]
fn a_hundred_megabytes_resume_within_the_budget() {
    let dir = tempfile::tempdir().unwrap();
    let path = large_session(dir.path(), 100, 20);
    let whole = measure(&path);
    report("100 MB, all of it needed", whole);
    compact(&path);
    let compacted = measure(&path);
    report("100 MB, compacted", compacted);
    for (millis, kilobytes, blocks) in [whole, compacted] {
        assert!(blocks > 300);
        assert!(millis <= 1000 && kilobytes <= 150_000, "{millis} ms, {kilobytes} kB");
    }
}

/// The worst case for the index: many records, each of them small.
#[test]
#[ignore = "takes 300 MB and a release build"]
fn three_hundred_megabytes_of_small_records_resume() {
    let dir = tempfile::tempdir().unwrap();
    let path = large_session(dir.path(), 300, 1);
    report("300 MB of small records, all of it needed", measure(&path));
    compact(&path);
    let figures = measure(&path);
    report("300 MB of small records, compacted", figures);
    assert!(figures.0 <= 10_000 && figures.1 <= 150_000, "{figures:?}");
}

#[test]
#[ignore = "measures time"]
fn appending_is_cheap() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = TranscriptWriter::create(&dir.path().join("S.jsonl"), Durability::ProcessCrash).unwrap();
    let records = 20_000;
    let start = cpu_time();
    for nth in 0..records {
        let record = SideRecord::last_prompt(SESSION, &"word ".repeat(100), &nth.to_string());
        writer.append(&Line::of(&record).unwrap()).unwrap();
    }
    let each = (cpu_time() - start) / records;
    println!("append: {each:?} per record");
    assert!(each < Duration::from_micros(50), "{each:?}");
}
