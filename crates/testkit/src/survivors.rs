//! Who is still there: processes that carry a test's cookie in their environment, found in `/proc`. A
//! child may leave its group and its session, but not the environment it was started with.

#![allow(clippy::disallowed_methods, reason = "the test itself is no survivor")]

use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::context::COOKIE;

const POLL: Duration = Duration::from_millis(20);

/// A process that should be gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survivor {
    /// Its id.
    pub pid: i32,
    /// Its command line.
    pub command: String,
}

impl Survivor {
    /// Ends it.
    pub fn kill(&self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // It may have ended by itself in the meantime.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Processes whose environment holds `cookie`, this one left out. Zombies have no environment and do not
/// count: whoever started them has only not looked yet.
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
        // Another user's process, or one that ended just now, is none of ours.
        let Ok(environment) = std::fs::read(entry.path().join("environ")) else { continue };
        if pid != own && environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes()) {
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push(Survivor { pid, command: String::from_utf8_lossy(&command).replace('\0', " ") });
        }
    }
    found
}

/// Looks until nobody is left or `limit` is over, and returns who is left then.
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
