//! S1, S4, S5 and S6 of the failure catalogue: killed writers, full disks, read-only places, two at once.
//! Tests that need a process of their own run this binary again with the name of a test below and
//! `LATHE_CHILD` set.
#![allow(clippy::disallowed_methods, reason = "tests start processes and read the environment")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;

use common::{Dice, SESSION, Session, assert_valid};
use lathe_transcript::{
    Appended, Durability, Line, ResumeAt, SideRecord, TranscriptError, TranscriptWriter, load_for_resume,
    verify,
};
use serde_json::Value;

/// The directory given to a child; `None` in the parent, where child tests have nothing to do.
fn child_dir() -> Option<PathBuf> {
    std::env::var_os("LATHE_CHILD").map(PathBuf::from)
}

fn start_child(test: &str, dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("LATHE_CHILD", dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// How many writers are killed; `LATHE_CRASH_ROUNDS=1000` for a long run.
fn rounds() -> u64 {
    std::env::var("LATHE_CRASH_ROUNDS").ok().and_then(|count| count.parse().ok()).unwrap_or(8)
}

fn title(text: &str) -> Line {
    Line::of(&SideRecord::custom_title(SESSION, text)).unwrap()
}

fn titles(path: &Path) -> Vec<String> {
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let title =
        |line: &str| serde_json::from_str::<Value>(line).ok()?["customTitle"].as_str().map(str::to_owned);
    text.lines().filter_map(title).collect()
}

/// The child of the next test: appends for ever and says of each record when it is in.
#[test]
fn child_appends_until_killed() {
    let Some(dir) = child_dir() else { return };
    let path = dir.join(format!("{SESSION}.jsonl"));
    let mut writer = TranscriptWriter::open_existing(&path, Durability::ProcessCrash).unwrap();
    let mut next = titles(&path).len();
    loop {
        // Records of many pages are the ones that tear.
        let filler = "x".repeat(if next.is_multiple_of(7) { 300_000 } else { 30 });
        writer.append(&title(&format!("{next} {filler}"))).unwrap();
        let mut out = std::io::stdout();
        writeln!(out, "\nin {next}").unwrap();
        out.flush().unwrap();
        next += 1;
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost_by_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(format!("{SESSION}.jsonl"));
    let mut first = TranscriptWriter::create(&path, Durability::ProcessCrash).unwrap();
    first.append(&title("0 start")).unwrap();
    drop(first);
    let mut dice = Dice(4711);
    for round in 0..rounds() {
        let mut child = start_child("child_appends_until_killed", dir.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut acknowledged = 0;
        for _ in 0..1 + dice.below(25) {
            let seen = lines
                .by_ref()
                .map(Result::unwrap)
                .find_map(|line| line.strip_prefix("in ")?.parse::<usize>().ok());
            acknowledged = seen.expect("the child goes on until it is killed");
        }
        if round == 0 {
            let second = TranscriptWriter::open_existing(&path, Durability::ProcessCrash).map(|_| ());
            let Err(TranscriptError::Locked { holder, .. }) = second else { panic!("{second:?}") };
            assert!(holder.is_none_or(|pid| pid == child.id()), "{holder:?}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let left = titles(&path);
        assert!(
            left.len() > acknowledged,
            "round {round}: {acknowledged} was acknowledged, {} are there",
            left.len()
        );
        for (nth, title) in left.iter().enumerate() {
            assert!(title.starts_with(&format!("{nth} ")), "round {round}: record {nth} is in its place");
        }
        // A torn record is at the end, and only there.
        let report = verify(&path).unwrap();
        assert!(report.joined_lines == 0 && report.bad_lines <= round + 1, "{report:?}");
    }
    // The lock died with its holder.
    TranscriptWriter::open_existing(&path, Durability::ProcessCrash).unwrap();
}

#[test]
fn of_a_hundred_that_open_a_session_one_wins() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    session.turn("x");
    let path = session.path.clone();
    drop(session);
    let before = std::fs::read(&path).unwrap();
    assert_eq!(race(|| TranscriptWriter::open_existing(&path, Durability::ProcessCrash)), 1);
    let new = dir.path().join("new.jsonl");
    assert_eq!(race(|| TranscriptWriter::create(&new, Durability::ProcessCrash)), 1);
    assert_eq!(titles(&new).len(), 1);
    let after = std::fs::read(&path).unwrap();
    assert!(after.starts_with(&before) && titles(&path).len() == 1);
}

/// A hundred threads open and append at the same time. How many got their record in.
fn race(open: impl Fn() -> Result<TranscriptWriter, TranscriptError> + Sync) -> usize {
    let barrier = Barrier::new(100);
    let (open, barrier) = (&open, &barrier);
    std::thread::scope(|scope| {
        let racers: Vec<_> = (0..100)
            .map(|nth| {
                scope.spawn(move || {
                    barrier.wait();
                    let mut writer = open();
                    let outcome =
                        writer.as_mut().map(|writer| writer.append(&title(&format!("racer {nth}"))));
                    // The winner stays until all have tried.
                    barrier.wait();
                    matches!(outcome, Ok(Ok(Appended::Written)))
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).filter(|won| *won).count()
    })
}

/// Runs on a disk (or under a limit) of about 64 KiB; `free` makes room.
fn fill_and_recover(dir: &Path, free: impl FnOnce()) {
    let mut session = Session::create(dir);
    session.prompt("go");
    let call = session.calls(1).remove(0);
    session.result(&call, "done");
    let path = session.path.clone();
    let mut writer = std::mem::replace(
        &mut session.writer,
        TranscriptWriter::create(&dir.join("unused"), Durability::ProcessCrash).unwrap(),
    );
    let mut written = 0;
    let error = loop {
        match writer.append(&title(&format!("{written} {}", "x".repeat(3000)))) {
            Ok(Appended::Written) => written += 1,
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
        assert!(written < 1000, "the disk is small");
    };
    assert!(matches!(error, TranscriptError::NoSpace { .. }), "{error:?}");
    // From now on it is quiet, and nothing half-written is in the file.
    for more in 1..5 {
        assert_eq!(
            writer.append(&title(&format!("{} {}", written + more, "x".repeat(3000)))).unwrap(),
            Appended::Held
        );
    }
    writer.end_turn().unwrap();
    assert_eq!(writer.held(), 5);
    assert!(verify(&path).unwrap().is_sound());
    assert_valid(&load_for_resume(&path, ResumeAt::Latest).unwrap().messages);
    free();
    assert_eq!(writer.append(&title("last")).unwrap(), Appended::Written);
    assert_eq!(writer.held(), 0);
    let all = titles(&path);
    assert_eq!(all.len(), written + 6, "everything that waited is in, in order");
    assert!(all[..written + 5].iter().enumerate().all(|(nth, title)| title.starts_with(&format!("{nth} "))));
    assert!(verify(&path).unwrap().is_sound());
}

#[test]
fn child_under_a_size_limit() {
    let Some(dir) = child_dir() else { return };
    let limit = rustix::process::Rlimit { current: Some(1 << 30), maximum: None };
    fill_and_recover(&dir, || rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap());
}

#[test]
fn child_on_a_small_disk() {
    let Some(dir) = child_dir() else { return };
    let ballast = dir.join("ballast");
    std::fs::write(&ballast, vec![1; 32 * 1024]).unwrap();
    fill_and_recover(&dir, || std::fs::remove_file(&ballast).unwrap());
}

/// Runs a child test below `script`, in which `"$0" "$@"` is the child and `$LATHE_CHILD` its directory.
fn run_below(wrapper: &[&str], script: &str, test: &str, dir: &Path) -> std::process::Output {
    Command::new(wrapper[0])
        .args(&wrapper[1..])
        .args(["sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("LATHE_CHILD", dir)
        .output()
        .unwrap()
}

#[test]
fn records_wait_for_a_quota_and_are_written_later() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"trap "" XFSZ; ulimit -S -f 128; exec "$0" "$@""#;
    let output = run_below(&["env"], script, "child_under_a_size_limit", dir.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(dir.path().join(format!("{SESSION}.jsonl")).exists(), "the child has run");
}

#[test]
fn records_wait_for_a_full_disk_and_are_written_later() {
    let namespaces = ["unshare", "--user", "--map-root-user", "--mount"];
    let can_mount = Command::new(namespaces[0])
        .args(&namespaces[1..])
        .args(["sh", "-c", "mount -t tmpfs none /mnt"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !can_mount {
        // Not everywhere may a test mount; the quota above takes the same path through the writer.
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs -o size=96k none "$LATHE_CHILD" && exec "$0" "$@""#;
    let output = run_below(&namespaces, script, "child_on_a_small_disk", dir.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[test]
fn a_read_only_place_is_said_once_and_the_session_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut place = dir.path().join("locked");
    std::fs::create_dir(&place).unwrap();
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o500)).unwrap();
    if rustix::process::geteuid().is_root() {
        // Nothing is forbidden to root, except here.
        place = PathBuf::from("/sys");
    }
    let mut writer =
        TranscriptWriter::create(&place.join("projects/-p/S.jsonl"), Durability::FsyncPerTurn).unwrap();
    let error = writer.append(&title("a")).unwrap_err();
    assert!(matches!(error, TranscriptError::ReadOnly { .. }), "{error:?}");
    assert_eq!(writer.append(&title("b")).unwrap(), Appended::Off);
    writer.end_turn().unwrap();
}
