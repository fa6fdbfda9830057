//! A supervisor is a forked copy of its host; that of a long-lived command must not hold the host's memory.
//!
//! Without the test harness, because the stack of the main thread is a case of its own: what the supervisor
//! keeps depends on the thread it was forked from.

mod support;

use std::time::Duration;

use lathe_exec::{Exit, Ledger};
use support::{eventually_async, new_cookie, sh, survivors};

#[allow(clippy::disallowed_methods, reason = "there is no event loop here that could wait")]
fn main() {
    supervisors_become_small();
    std::thread::spawn(supervisors_become_small).join().unwrap();
}

fn supervisors_become_small() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut ballast = vec![1_u8; 64 << 20];
        let cookie = new_cookie();
        let ledger = Ledger::default();
        let mut spec = sh("trap 'exit 5' TERM; while :; do sleep 0.01; done", &cookie);
        spec.grace = Duration::from_secs(20);
        let running = ledger.spawn(spec).unwrap();
        let supervisor = status_field(running.pid(), "PPid:").unwrap();
        let supervisor = i32::try_from(supervisor).unwrap();
        eventually_async("the supervisor is small", Duration::from_secs(5), || {
            status_field(supervisor, "VmRSS:").is_some_and(|kib| kib < 16 << 10)
        })
        .await;
        ballast.fill(2);
        // It still knows its work, children that come and go included.
        assert_eq!(running.kill().await, Exit::Code(5));
        assert_eq!(survivors(&cookie), []);
        assert!(ledger.live().is_empty());
        assert_eq!(ballast.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 128 << 20);
    });
}

/// A number out of `/proc/PID/status`.
fn status_field(pid: i32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
