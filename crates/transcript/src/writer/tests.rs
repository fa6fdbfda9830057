#![allow(clippy::disallowed_methods, reason = "the holder of a lock is this process")]

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::record::SideRecord;

fn line(title: &str) -> Line {
    Line::of(&SideRecord::custom_title("S", title)).unwrap()
}

fn titles(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let title = |line: &str| {
        serde_json::from_str::<serde_json::Value>(line).ok()?["customTitle"].as_str().map(str::to_owned)
    };
    text.lines().filter_map(title).collect()
}

#[test]
fn nothing_exists_before_the_first_record() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("projects/-p/S.jsonl");
    let mut writer = TranscriptWriter::create(&path, Durability::ProcessCrash).unwrap();
    assert!(!dir.path().join("projects").exists());
    assert_eq!(writer.append(&line("a")).unwrap(), Appended::Written);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", line("a").json()));
}

#[test]
fn a_session_that_exists_is_not_created_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("S.jsonl");
    let mut early = TranscriptWriter::create(&path, Durability::ProcessCrash).unwrap();
    std::fs::write(&path, "{}\n").unwrap();
    let again = TranscriptWriter::create(&path, Durability::ProcessCrash);
    assert!(matches!(again, Err(TranscriptError::AlreadyExists { .. })));
    // The same for a writer that was created before the other created the file.
    assert!(matches!(early.append(&line("a")), Err(TranscriptError::AlreadyExists { .. })));
    assert_eq!(early.append(&line("b")).unwrap(), Appended::Off, "the error is said once");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}\n");
}

#[test]
fn an_empty_file_counts_as_absent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("S.jsonl");
    std::fs::write(&path, "").unwrap();
    let resumed = TranscriptWriter::open_existing(&path, Durability::ProcessCrash);
    assert!(matches!(resumed, Err(TranscriptError::NotFound { .. })));
    let mut writer = TranscriptWriter::create(&path, Durability::ProcessCrash).unwrap();
    assert_eq!(writer.append(&line("a")).unwrap(), Appended::Written);
    let missing = TranscriptWriter::open_existing(&dir.path().join("no.jsonl"), Durability::ProcessCrash);
    assert!(matches!(missing, Err(TranscriptError::NotFound { .. })));
}

#[test]
fn a_session_has_one_writer_and_the_other_is_told_who() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("S.jsonl");
    let mut writer = TranscriptWriter::create(&path, Durability::ProcessCrash).unwrap();
    writer.append(&line("a")).unwrap();
    match TranscriptWriter::open_existing(&path, Durability::ProcessCrash).map(|_| ()) {
        Err(TranscriptError::Locked { holder, .. }) => {
            // Some kernels hide the list of locks.
            assert!(holder.is_none_or(|pid| pid == std::process::id()), "{holder:?}");
        }
        other => panic!("{other:?}"),
    }
    // Readers, and programs that append a title, are not locked out.
    append_unlocked(&path, &line("renamed")).unwrap();
    writer.append(&line("b")).unwrap();
    assert_eq!(titles(&path), ["a", "renamed", "b"]);
    drop(writer);
    TranscriptWriter::open_existing(&path, Durability::ProcessCrash).unwrap();
}

#[test]
fn a_torn_tail_is_ended_and_never_cut() {
    let whole = line("whole");
    for (tail, expected) in [
        (whole.json().to_owned(), vec!["a", "whole", "b"]),
        (whole.json()[..10].to_owned(), vec!["a", "b"]),
        (format!("{}{}", whole.json(), &whole.json()[..10]), vec!["a", "b"]),
        ("\0\0\0".to_owned(), vec!["a", "b"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("S.jsonl");
        let before = format!("{}\n{tail}", line("a").json());
        std::fs::write(&path, &before).unwrap();
        let mut writer = TranscriptWriter::open_existing(&path, Durability::ProcessCrash).unwrap();
        writer.append(&line("b")).unwrap();
        let after = std::fs::read_to_string(&path).unwrap();
        assert_eq!(after, format!("{before}\n{}\n", line("b").json()));
        assert_eq!(titles(&path), expected);
    }
}

#[test]
fn an_unlocked_append_does_not_join_a_torn_line_and_creates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("S.jsonl");
    assert!(matches!(append_unlocked(&path, &line("a")), Err(TranscriptError::NotFound { .. })));
    assert!(!path.exists());
    std::fs::write(&path, "{\"torn").unwrap();
    append_unlocked(&path, &line("a")).unwrap();
    assert_eq!(titles(&path), ["a"]);
}

#[test]
fn a_deleted_session_is_noticed_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("S.jsonl");
    let mut writer = TranscriptWriter::create(&path, Durability::ProcessCrash).unwrap();
    writer.append(&line("a")).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(writer.append(&line("b")), Err(TranscriptError::Deleted { .. })));
    assert_eq!(writer.append(&line("c")).unwrap(), Appended::Off);
    assert!(!path.exists());
}

#[test]
fn a_place_that_cannot_be_a_directory_switches_the_writer_off() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let mut writer = TranscriptWriter::create(&file.join("S.jsonl"), Durability::ProcessCrash).unwrap();
    assert!(matches!(writer.append(&line("a")), Err(TranscriptError::Io { .. })));
    assert_eq!(writer.append(&line("b")).unwrap(), Appended::Off);
    writer.end_turn().unwrap();
}

#[test]
fn turns_can_be_forced_to_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("S.jsonl");
    let mut writer = TranscriptWriter::create(&path, Durability::FsyncPerTurn).unwrap();
    writer.end_turn().unwrap();
    writer.append(&line("a")).unwrap();
    assert!(writer.dirty && writer.new_entry);
    writer.end_turn().unwrap();
    assert!(!writer.dirty && !writer.new_entry);
}

#[test]
fn a_claimed_id_is_taken_at_once_and_given_back_unused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("projects/-p/S.jsonl");
    let claimed = TranscriptWriter::claim(&path, Durability::ProcessCrash).unwrap();
    let second = TranscriptWriter::claim(&path, Durability::ProcessCrash);
    assert!(matches!(second, Err(TranscriptError::Locked { .. })));
    drop(claimed);
    assert!(!path.exists(), "nothing was said, nothing is left");
    let mut writer = TranscriptWriter::claim(&path, Durability::FsyncPerTurn).unwrap();
    assert_eq!(writer.append(&line("a")).unwrap(), Appended::Written);
    writer.end_turn().unwrap();
    drop(writer);
    assert_eq!(titles(&path), ["a"]);
    let taken = TranscriptWriter::claim(&path, Durability::ProcessCrash);
    assert!(matches!(taken, Err(TranscriptError::AlreadyExists { .. })));
}

#[test]
fn a_pipe_is_no_session_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("S.jsonl");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let claimed = TranscriptWriter::claim(&path, Durability::ProcessCrash);
    assert!(matches!(claimed, Err(TranscriptError::Io { .. })));
    assert!(path.symlink_metadata().is_ok(), "and it is not ours to remove");
}

/// Runs `then` while the file is locked by a program that is dead and another still has it open. Does nothing if the
/// system has no `flock` program.
#[allow(clippy::disallowed_methods, reason = "the lock must be another process's")]
fn locked_by_the_dead(path: &Path, then: &str) -> Option<std::process::Child> {
    let script = format!("exec 9<>\"$0\"; flock -n 9 && echo locked && exec {then}");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).arg(path).stdout(std::process::Stdio::piped());
    let mut shell = shell.spawn().ok()?;
    let mut said = [0_u8];
    shell.stdout.take()?.read_exact(&mut said).ok()?;
    Some(shell)
}

#[test]
fn a_lock_that_the_dead_left_has_no_holder_and_is_free_soon() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("S.jsonl");
    std::fs::write(&path, "{}\n").unwrap();
    let Some(mut child) = locked_by_the_dead(&path, "sleep 60") else { return };
    let held = TranscriptWriter::open_existing(&path, Durability::ProcessCrash);
    assert!(matches!(held, Err(TranscriptError::Locked { holder: None, .. })));
    child.kill().unwrap();
    child.wait().unwrap();
    TranscriptWriter::open_existing(&path, Durability::ProcessCrash).unwrap();
}
