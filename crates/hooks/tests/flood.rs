//! A hook that prints far too much. A binary of its own: it measures this process.

mod support;

use lathe_hooks::MAX_TEXT_CHARS;
use serde_json::json;
use support::{Bench, input};

#[tokio::test]
async fn a_flood_is_read_and_forgotten() {
    let bench = Bench::command("UserPromptSubmit", "head -c 100000000 /dev/zero | tr '\\0' x");
    let before = resident_kib();
    let outcome = bench.run(&input("UserPromptSubmit", json!({}))).await;
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 32 * 1024, "{grown} KiB");
    let [context] = &outcome.contexts[..] else { panic!("{:?}", outcome.problems) };
    assert_eq!(context.text.chars().count(), MAX_TEXT_CHARS);
    let last = bench.frames.lines().pop().unwrap();
    assert_eq!(last["stdout"].as_str().unwrap().len(), MAX_TEXT_CHARS);
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
