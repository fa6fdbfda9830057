//! Where a sandbox will put its walls: the step before `exec`, and words before the command's own.
#![allow(unsafe_code, reason = "the step before exec is a promise about what runs between fork and exec")]

mod support;

use std::ffi::{CString, OsString};
use std::io;
use std::sync::Arc;

use lathe_exec::{CommandWall, ExecError, Exit, Ledger};
use support::{new_cookie, nobody_left, run, sh, text};

/// Lowers the limit of open files and enters a folder.
#[derive(Debug)]
struct InnerWall {
    open_files: u64,
    folder: CString,
}

// SAFETY: two bare system calls; the path was made before the fork.
unsafe impl CommandWall for InnerWall {
    fn before_exec(&self) -> io::Result<()> {
        let limit = libc::rlimit { rlim_cur: self.open_files, rlim_max: self.open_files };
        // SAFETY: both pointers are to values that outlive the calls.
        let failed = unsafe {
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit) != 0 || libc::chdir(self.folder.as_ptr()) != 0
        };
        if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Starts the command through another program.
#[derive(Debug)]
struct OuterWall(&'static [&'static str]);

// SAFETY: nothing runs between fork and exec.
unsafe impl CommandWall for OuterWall {
    fn argv_prefix(&self) -> Vec<OsString> {
        self.0.iter().map(Into::into).collect()
    }
}

#[tokio::test]
async fn a_step_before_exec_confines_the_command_and_what_it_starts() {
    let mut spec = sh("sh -c 'ulimit -n; pwd'; exit 5", &new_cookie());
    spec.confine = Some(Arc::new(InnerWall { open_files: 77, folder: c"/usr".into() }));
    let finished = run(&Ledger::default(), spec).await;
    assert_eq!(text(&finished.stdout.head), "77\n/usr\n");
    assert_eq!(finished.exit, Exit::Code(5));
}

#[tokio::test]
async fn a_wall_that_cannot_be_put_up_keeps_the_command_from_starting() {
    let directory = tempfile::tempdir().unwrap();
    let proof = directory.path().join("proof");
    let cookie = new_cookie();
    let mut spec = sh(&format!("touch {}", proof.display()), &cookie);
    spec.confine = Some(Arc::new(InnerWall { open_files: 77, folder: c"/nonexistent".into() }));
    let ledger = Ledger::default();
    let Err(ExecError::Start { source, .. }) = ledger.spawn(spec) else {
        panic!("it started");
    };
    assert_eq!(source.raw_os_error(), Some(libc::ENOENT));
    assert!(ledger.live().is_empty());
    nobody_left(&cookie).await;
    assert!(!proof.exists());
}

#[tokio::test]
async fn words_before_the_command_start_it_through_another_program() {
    let mut spec = sh("env; echo \"$0 $1\"", &new_cookie());
    spec.args.extend(["name".into(), "a b".into()]);
    spec.confine = Some(Arc::new(OuterWall(&["env", "-i", "WALL=1", "PATH=/usr/bin:/bin"])));
    let finished = run(&Ledger::default(), spec).await;
    let mut lines: Vec<_> = text(&finished.stdout.head).lines().collect();
    assert_eq!(lines.pop(), Some("name a b"));
    assert!(lines.contains(&"WALL=1"), "{lines:?}");
    assert!(!lines.iter().any(|line| line.starts_with(support::COOKIE_NAME)), "{lines:?}");
}

#[tokio::test]
async fn a_missing_program_of_a_wall_is_named() {
    let mut spec = sh("true", &new_cookie());
    spec.confine = Some(Arc::new(OuterWall(&["surely-no-such-wall", "--"])));
    let Err(ExecError::Start { program, .. }) = Ledger::default().spawn(spec) else {
        panic!("it started");
    };
    assert_eq!(program.to_str(), Some("surely-no-such-wall"));
}
