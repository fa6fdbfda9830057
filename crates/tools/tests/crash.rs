//! A file that is being written when the writer is killed, or when the disk is full, has its old content or
//! its new one. The writer is this test program itself, started again with a variable that tells its part.

#![allow(clippy::disallowed_methods, reason = "tests start and kill a copy of themselves")]

mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use support::Folder;

const PART: &str = "LATHE_TEST_WRITER";

/// A text that shows at once whether it is whole: one letter, many times.
fn content(round: usize) -> String {
    let letter = char::from(b'a' + u8::try_from(round % 26).unwrap());
    letter.to_string().repeat(SIZE)
}

const SIZE: usize = 200_000;

/// The writer: writes the file again and again, until it is killed, or once where writing must fail.
#[tokio::test]
async fn writer() {
    let Ok(target) = std::env::var(PART) else { return };
    let folder = Folder::new();
    for round in 0.. {
        let input = json!({ "file_path": target, "content": content(round) });
        let seen = folder.call("Write", input).await;
        if seen.is_error {
            std::fs::write(format!("{target}.error"), seen.text()).unwrap();
            return;
        }
    }
}

fn start_writer(command: &mut Command, target: &Path) -> Child {
    command
        .env(PART, target)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn is_whole(text: &str) -> bool {
    text.len() == SIZE && text.bytes().all(|byte| byte == text.as_bytes()[0])
}

#[test]
fn a_killed_writer_leaves_the_old_or_the_new() {
    let folder = Folder::new();
    let target = folder.write("f", "a".repeat(SIZE));
    let mut changed = 0;
    for _ in 0..20 {
        let before = std::fs::read_to_string(&target).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut child = start_writer(command.args(["--exact", "writer", "--test-threads", "1"]), &target);
        // Killed at some moment after its first write.
        let mut reads = 0;
        while std::fs::read_to_string(&target).unwrap() == before && reads < 100_000 {
            reads += 1;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let after = std::fs::read_to_string(&target).unwrap();
        assert!(is_whole(&after), "{} bytes", after.len());
        changed += usize::from(after != before);
    }
    assert!(changed > 0, "no writer came to write");
}

#[test]
fn a_write_that_does_not_fit_leaves_the_old() {
    let folder = Folder::new();
    let target = folder.write("f", "a".repeat(SIZE));
    // A limit on file sizes fails in the middle of the write, as a full disk does.
    let script = format!(
        "trap '' XFSZ; ulimit -f 100; exec {:?} --exact writer --test-threads 1",
        std::env::current_exe().unwrap()
    );
    let mut child = start_writer(Command::new("/bin/bash").args(["-c", &script]), &target);
    child.wait().unwrap();
    let error = std::fs::read_to_string(folder.path("f.error")).unwrap();
    assert!(error.starts_with("EFBIG: file too large, write '"), "{error}");
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "a".repeat(SIZE));
    assert_eq!(support::names(target.parent().unwrap()), ["f", "f.error"]);
}
