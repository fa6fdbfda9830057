//! S2 and S9 of the failure catalogue: a file that was damaged anywhere still loads, and one damage costs
//! at most one record.
#![allow(clippy::disallowed_methods, reason = "tests read the environment")]

mod common;

use std::collections::HashSet;
use std::path::Path;
use std::sync::OnceLock;

use common::{Dice, Session, assert_valid};
use lathe_transcript::{ResumeAt, Warning, load_for_resume, session_messages, verify};

const RECORDS: usize = 2000;

/// A session of 2,000 records.
struct Sample {
    bytes: Vec<u8>,
    /// The uuids its conversation shows.
    shown: HashSet<String>,
    records: u64,
}

fn sample() -> &'static Sample {
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let mut session = Session::create(dir.path());
        session.grow(RECORDS, "some \"filler\" text {\"type\":\"text\"}");
        let path = &session.path;
        Sample {
            bytes: std::fs::read(path).unwrap(),
            shown: shown(path),
            records: verify(path).unwrap().records,
        }
    })
}

fn shown(path: &Path) -> HashSet<String> {
    session_messages(path).unwrap().into_iter().map(|row| row.uuid).collect()
}

/// Applies `damage` at `samples` places, each on a fresh copy, and checks what is left.
fn check(samples: usize, seed: u64, damage: impl Fn(&mut Vec<u8>, usize, &mut Dice)) {
    let dir = tempfile::tempdir().unwrap();
    let Sample { bytes, shown: whole, records } = sample();
    let path = dir.path().join("damaged.jsonl");
    let mut dice = Dice(seed);
    for _ in 0..samples {
        let at = dice.below(bytes.len());
        let mut damaged = bytes.clone();
        damage(&mut damaged, at, &mut dice);
        std::fs::write(&path, &damaged).unwrap();
        let resumed = load_for_resume(&path, ResumeAt::Latest).unwrap();
        assert_valid(&resumed.messages);
        let report = verify(&path).unwrap();
        assert!(
            report.records + 1 >= *records,
            "byte {at}: {} of {records} records are left",
            report.records
        );
        // A lost call may take its result out of the conversation, nothing else may go with it.
        let lost: Vec<_> = whole.difference(&shown(&path)).cloned().collect();
        assert!(lost.len() <= 2, "byte {at}: lost {lost:?}");
    }
}

/// How often each sort of damage is tried. A few places show that the test works; `LATHE_DAMAGE_SAMPLES=2000`
/// with a release build leaves hardly a field out.
fn samples() -> usize {
    std::env::var("LATHE_DAMAGE_SAMPLES").ok().and_then(|count| count.parse().ok()).unwrap_or(4)
}

#[test]
fn a_flipped_bit_costs_at_most_one_record() {
    check(samples(), 0x1234_5678, |bytes, at, dice| bytes[at] ^= 1 << dice.below(8));
}

#[test]
fn a_missing_byte_costs_at_most_one_record() {
    check(samples(), 0x2345_6789, |bytes, at, _| {
        bytes.remove(at);
    });
}

#[test]
fn nuls_cost_at_most_one_record() {
    check(samples(), 0x3456_789a, |bytes, at, dice| {
        let nuls = vec![0; 1 + dice.below(600)];
        bytes.splice(at..at, nuls);
    });
}

#[test]
fn joined_lines_cost_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let Sample { bytes, shown: whole, records } = sample();
    let path = dir.path().join("joined.jsonl");
    let breaks: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
    let mut dice = Dice(77);
    for _ in 0..samples() {
        let mut damaged = bytes.clone();
        damaged.remove(breaks[dice.below(breaks.len() - 1)]);
        std::fs::write(&path, &damaged).unwrap();
        assert_eq!(&shown(&path), whole);
        let report = verify(&path).unwrap();
        assert_eq!((report.records, report.joined_lines, report.bad_lines), (*records, 1, 0));
    }
}

#[test]
fn a_stray_line_break_costs_at_most_one_record() {
    check(samples(), 0x4567_89ab, |bytes, at, _| bytes.insert(at, b'\n'));
}

#[test]
fn a_file_cut_anywhere_keeps_everything_before_the_cut() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = &sample().bytes;
    let path = dir.path().join("cut.jsonl");
    let mut dice = Dice(99);
    for _ in 0..samples() {
        let cut = 1 + dice.below(bytes.len() - 1);
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let whole_lines = bytes[..cut].iter().filter(|byte| **byte == b'\n').count() as u64;
        let resumed = load_for_resume(&path, ResumeAt::Latest).unwrap();
        assert_valid(&resumed.messages);
        let report = verify(&path).unwrap();
        let has_torn_line = bytes[cut - 1] != b'\n' && bytes[cut] != b'\n';
        assert!(report.records >= whole_lines, "cut at {cut}");
        assert_eq!(report.torn_tail, has_torn_line, "cut at {cut}");
    }
}

#[test]
fn damage_is_said_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    session.grow(40, "x");
    let path = session.path.clone();
    drop(session);
    let mut lines: Vec<String> = std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
    for bad in [7, 20] {
        lines[bad].truncate(50);
    }
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let resumed = load_for_resume(&path, ResumeAt::Latest).unwrap();
    let bad: Vec<_> =
        resumed.warnings.iter().filter(|warning| matches!(warning, Warning::BadLines { .. })).collect();
    assert_eq!(bad, [&Warning::BadLines { count: 2, first: 8 }]);
    let report = verify(&path).unwrap();
    assert!(!report.is_sound() && report.bad_lines == 2 && report.is_resumable, "{report:?}");
}

/// Records of a version that does not exist yet.
#[test]
fn records_of_the_future_are_followed_and_kept_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    session.prompt("one");
    session.text("two");
    let path = session.path.clone();
    let last = session.last.clone().unwrap();
    drop(session);
    let uuid = "ffffffff-0000-4000-8000-000000000000";
    let text = std::fs::read_to_string(&path).unwrap();
    let future =
        format!(r#"{{"type":"hologram","uuid":"{uuid}","parentUuid":"{last}","sessionId":"S","x":[{{}}]}}"#);
    std::fs::write(&path, format!("{text}{future}\n{{\"type\":\"mood\",\"mood\":\"fine\"}}\n")).unwrap();
    let resumed = load_for_resume(&path, ResumeAt::Latest).unwrap();
    assert_eq!(resumed.messages.len(), 2);
    assert_eq!(resumed.last_uuid.as_deref(), Some(uuid));
    assert!(resumed.warnings.is_empty());
}
