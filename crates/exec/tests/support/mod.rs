//! Real commands, and the search for survivors: every command of a test carries a cookie in its environment,
//! and whoever in `/proc` still has it is alive.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::disallowed_methods, reason = "a cookie that no other test process has")]

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lathe_exec::{Exit, Finished, Ledger, RunLimits, Spec};
use tokio_util::sync::CancellationToken;

pub const COOKIE_NAME: &str = "LATHE_TEST_COOKIE";

/// A mark that no other test, and no other run of the tests, uses.
pub fn new_cookie() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}", std::process::id())
}

/// `/bin/sh -c script`, marked.
pub fn sh(script: &str, cookie: &str) -> Spec {
    let mut spec = Spec::new("/bin/sh", "/");
    spec.args = vec!["-c".into(), script.into()];
    spec.env =
        vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()), (COOKIE_NAME.into(), cookie.into())];
    spec.label = script.into();
    spec
}

/// Runs to the end with default limits.
pub async fn run(ledger: &Ledger, spec: Spec) -> Finished {
    ledger.run(spec, RunLimits::default(), &CancellationToken::new()).await.expect("the command starts")
}

pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("test output is UTF-8")
}

/// Pids of processes that carry the cookie, zombies excluded (their environment is gone).
pub fn survivors(cookie: &str) -> Vec<i32> {
    let wanted = format!("{COOKIE_NAME}={cookie}");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc is mounted").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(environment) = fs::read(entry.path().join("environ")) else {
            continue;
        };
        if environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

/// Waits until `condition` holds; fails the test after `limit`.
pub fn eventually(what: &str, limit: Duration, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + limit;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The same inside a runtime, which goes on working meanwhile.
pub async fn eventually_async(what: &str, limit: Duration, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + limit;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub async fn nobody_left(cookie: &str) {
    eventually_async("nobody of the tree is left", Duration::from_secs(2), || survivors(cookie).is_empty())
        .await;
}

/// Children of this process that ended and were not reaped, or are supervisors still at work.
pub fn own_children() -> Vec<i32> {
    let mut children = Vec::new();
    for task in fs::read_dir("/proc/self/task").expect("/proc is mounted").flatten() {
        let list = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.extend(list.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    children
}

pub fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("/proc is mounted").count()
}

pub const SUCCESS: Exit = Exit::Code(0);
