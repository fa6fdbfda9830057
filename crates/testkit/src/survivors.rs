//! Survivors: processes that have a test's cookie in their environment, found in `/proc`. A child may leave its group
//! and its session, but not the environment it was started with.

#![allow(clippy::disallowed_methods, reason = "the test itself is not a survivor")]

use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::context::COOKIE;

const POLL: Duration = Duration::from_millis(20);

/// A process that should have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survivor {
    /// Its id.
    pub pid: i32,
    /// Its command line.
    pub command: String,
}

impl Survivor {
    /// Kills the process, so that a failed test leaves nothing behind.
    pub fn kill(&self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // The error is ignored: the process may have ended on its own in the meantime.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Returns the processes whose environment has `cookie`, except this one. Zombies have no environment and do not count:
/// they have ended, and only their parent has not waited for them yet.
pub fn scan_survivors(cookie: &str) -> Vec<Survivor> {
    let wanted = format!("{COOKIE}={cookie}");
    let own = std::process::id().cast_signed();
    let entries = std::fs::read_dir("/proc").expect("this test support needs /proc");
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Some(pid) =
            std::str::from_utf8(entry.file_name().as_bytes()).ok().and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // A process of another user, or one that has just ended, is not a survivor of this test.
        let Ok(environment) = std::fs::read(entry.path().join("environ")) else { continue };
        if pid != own && environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes()) {
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push(Survivor { pid, command: String::from_utf8_lossy(&command).replace('\0', " ") });
        }
    }
    found
}

/// Waits until no process is left, at most for `limit`, and returns those that are left then.
pub fn wait_for_no_survivors(cookie: &str, limit: Duration) -> Vec<Survivor> {
    let deadline = Instant::now() + limit;
    loop {
        let survivors = scan_survivors(cookie);
        if survivors.is_empty() || Instant::now() >= deadline {
            return survivors;
        }
        std::thread::sleep(POLL);
    }
}
