//! S2 and S9 of the failure catalogue: a file that was damaged anywhere still loads, and one damage costs
//! at most one record.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "tests read the environment and print"
)]

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

/// One sort of damage to a line, at one of its bytes. The line break behind it is not part of the line.
type LineDamage = fn(&mut Vec<u8>, usize);

/// Every sort of damage that stays inside its line.
const LINE_DAMAGES: [(&str, LineDamage); 6] = [
    ("a flipped bit", |line, at| line[at] ^= 1 << (at % 8)),
    ("a missing byte", |line, at| drop(line.drain(at..=at))),
    ("a NUL in place of a byte", |line, at| line[at] = 0),
    ("NULs between two bytes", |line, at| drop(line.splice(at..at, [0; 9]))),
    ("a stray line break", |line, at| line.insert(at, b'\n')),
    ("the rest cut off", |line, at| line.truncate(at)),
];

/// Damages one byte of every `EACH`th line at once: damage in one line must not reach another, so one load
/// tries some hundred places. Returns how many.
fn damage_many(path: &Path, sort: (&str, LineDamage), at: usize, phase: usize) -> usize {
    let Sample { bytes, shown: whole, .. } = sample();
    let mut damaged = Vec::with_capacity(bytes.len() + 10_000);
    let mut places = 0;
    for (nth, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let mut line = line[..line.len() - 1].to_vec();
        if nth % EACH == phase && at < line.len() {
            (sort.1)(&mut line, at);
            places += 1;
        }
        damaged.extend(line);
        damaged.push(b'\n');
    }
    if places == 0 {
        return 0;
    }
    std::fs::write(path, &damaged).unwrap();
    let resumed = load_for_resume(path, ResumeAt::Latest).unwrap();
    assert_valid(&resumed.messages);
    let left = shown(path);
    let lost = whole.difference(&left).count();
    assert!(lost <= places, "{} at byte {at} of {places} lines: {lost} records are lost", sort.0);
    places
}

/// Lines between two that are damaged.
const EACH: usize = 2;

/// Every byte of the sample, with every sort of damage. A minute in a release build; run it with
/// `cargo test --release -p lathe-transcript --test damage -- --ignored --nocapture`.
#[test]
#[ignore = "takes minutes"]
fn every_byte_damaged_in_turn_costs_at_most_one_record_each() {
    let bytes = &sample().bytes;
    let longest = bytes.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let places = std::sync::atomic::AtomicUsize::new(0);
    let order = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                let dir = tempfile::tempdir().unwrap();
                loop {
                    let at = next.fetch_add(1, order);
                    if at >= longest {
                        break;
                    }
                    for sort in LINE_DAMAGES {
                        for phase in 0..EACH {
                            places
                                .fetch_add(damage_many(&dir.path().join("d.jsonl"), sort, at, phase), order);
                        }
                    }
                }
            });
        }
    });
    println!("{} damages of {} bytes", places.into_inner(), bytes.len());
}

/// A sample of the above: some bytes of all lines.
#[test]
fn many_damages_at_once_cost_at_most_one_record_each() {
    let dir = tempfile::tempdir().unwrap();
    let mut dice = Dice(0x5678_9abc);
    for sort in LINE_DAMAGES {
        for _ in 0..samples().div_ceil(2) {
            let at = dice.below(500);
            let places = damage_many(&dir.path().join("d.jsonl"), sort, at, dice.below(EACH));
            assert!(places > 0 || at > 300, "most lines are longer than {at}");
        }
    }
}

/// Every line break taken out, one at a time: the records on both sides are still found.
#[test]
#[ignore = "takes minutes"]
fn every_two_lines_joined_cost_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let Sample { bytes, shown: whole, .. } = sample();
    let path = dir.path().join("joined.jsonl");
    let breaks: Vec<usize> = (0..bytes.len() - 1).filter(|at| bytes[*at] == b'\n').collect();
    for at in breaks {
        let mut damaged = bytes.clone();
        damaged.remove(at);
        std::fs::write(&path, &damaged).unwrap();
        assert_eq!(&shown(&path), whole, "byte {at}");
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
