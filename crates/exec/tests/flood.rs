//! Endless output, and what starting a command costs. A binary of its own: it measures this process.

mod support;

use std::time::{Duration, Instant};

use lathe_exec::{Capture, Ended, Exit, Ledger, OutputMode, RunLimits, Spec, SpillFile};
use support::{new_cookie, run, sh};
use tokio_util::sync::CancellationToken;

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn flood(seconds: f64) -> (f64, u64) {
    let mut spec = sh("yes", &new_cookie());
    spec.output = OutputMode::Merged;
    let limits = RunLimits { timeout: Some(Duration::from_secs_f64(seconds)), ..RunLimits::default() };
    let before = resident_kib();
    let started = Instant::now();
    let finished = Ledger::default().run(spec, limits, &CancellationToken::new()).await.unwrap();
    assert_eq!(finished.ended, Ended::TimedOut);
    let rate = finished.stdout.total_bytes as f64 / started.elapsed().as_secs_f64() / 1e6;
    (rate, resident_kib().saturating_sub(before))
}

#[tokio::test]
async fn endless_output_does_not_grow_memory() {
    let (rate, growth) = flood(0.5).await;
    assert!(growth < 4096, "grew by {growth} KiB");
    // A busy machine is no defect; far below this something is wrong.
    assert!(rate > 50.0, "only {rate} MB/s");
    // Neither in the background, where the file has the head and is soon full.
    let directory = tempfile::tempdir().unwrap();
    let file = SpillFile { cap_bytes: 1 << 20, ..SpillFile::new(directory.path().join("out.txt")) };
    let stdout = Capture { spill: Some(file), ..Capture::default() };
    let limits = RunLimits { stdout, ..RunLimits::default() };
    let before = resident_kib();
    let ledger = Ledger::default();
    let job = ledger.start(sh("yes", &new_cookie()), limits).unwrap();
    job.detach(Duration::from_millis(300));
    assert_eq!(job.exit().await, Exit::Signal(15));
    let growth = resident_kib().saturating_sub(before);
    assert!(growth < 4096, "grew by {growth} KiB");
}

/// Prints figures: `cargo test --release -p lathe-exec --test flood -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "a measurement, not a test"]
#[allow(clippy::disallowed_macros, reason = "figures for a person")]
async fn figures() {
    let (rate, growth) = flood(2.0).await;
    println!("drain: {rate:.0} MB/s, memory +{growth} KiB");
    let ledger = Ledger::default();
    let mut times = Vec::new();
    for _ in 0..500 {
        let spec = Spec::new("/bin/true", "/");
        times.push(run(&ledger, spec).await.duration);
    }
    times.sort_unstable();
    println!("run of /bin/true: p50 {:?}, p95 {:?}", times[250], times[475]);
    let mut plain = Vec::new();
    for _ in 0..500 {
        let started = Instant::now();
        #[allow(clippy::disallowed_methods, reason = "what it is compared with")]
        let _ = tokio::process::Command::new("/bin/true").output().await;
        plain.push(started.elapsed());
    }
    plain.sort_unstable();
    println!("plain tokio:      p50 {:?}, p95 {:?}", plain[250], plain[475]);
}
