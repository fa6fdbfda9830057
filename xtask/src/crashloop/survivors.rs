//! Processes that a killed session left behind, found by a cookie in their environment: a child may leave its group and
//! its parent, but not the environment it was started with.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// The variable that holds the cookie.
pub const COOKIE: &str = "LATHE_CRASHLOOP";

/// How long the kernel and the supervisors may take to clear up, on a busy machine.
const LIMIT: Duration = Duration::from_secs(10);

/// Waits until no process has the cookie, at most [`LIMIT`]. Returns the command lines of those that still have it;
/// empty if all are gone.
pub fn wait_until_gone(cookie: &str) -> Vec<String> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let left = scan(cookie);
        if left.is_empty() || Instant::now() >= deadline {
            return left;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the command lines of the processes whose environment has the cookie, except this one. A process whose
/// environment cannot be read is left out: it is another user's or has ended.
fn scan(cookie: &str) -> Vec<String> {
    let wanted = format!("{COOKIE}={cookie}");
    let own = std::process::id();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let processes = entries.flatten().filter(|entry| {
        let pid: Option<u32> = entry.file_name().to_str().and_then(|name| name.parse().ok());
        pid.is_some_and(|pid| pid != own)
    });
    processes
        .filter_map(|process| {
            // The environment of another user's process, or of one that has just ended, cannot be read: neither is
            // ours. A zombie has no environment any more.
            let environment = fs::read(process.path().join("environ")).ok()?;
            let carries = environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes());
            let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
            carries.then(|| String::from_utf8_lossy(&command).replace('\0', " "))
        })
        .collect()
}
