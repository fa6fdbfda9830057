//! Measures how long decisions take: `cargo run --release -p lathe-permissions --example decision_time`.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a maintainer's tool: it builds a project directory and prints"
)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use lathe_permissions::{EngineConfig, PermissionScopeConfig, RuleSource};
use lathe_protocol::SettingsSource;
use lathe_protocol::permission::PermissionBehavior;
use lathe_protocol::text::first_chars;
use serde_json::{Value, json};
use support::Rig;

const ROUNDS: u32 = 2000;

fn engine(root: &Path, rules: usize) -> Rig {
    let scope = PermissionScopeConfig { working_dirs: vec![root.to_owned()], ..Default::default() };
    let config = EngineConfig { home: Some("/home/somebody".into()), ..EngineConfig::default() };
    let mut engine = Rig::new(config, scope);
    // A mixture of every kind, shared out over the three behaviours.
    for index in 0..rules {
        let (behavior, rule) = match index % 10 {
            0 => (PermissionBehavior::Deny, format!("Bash(tool{index}:*)")),
            1 => (PermissionBehavior::Allow, format!("Bash(npm run script{index} *)")),
            2 => (PermissionBehavior::Ask, format!("Bash(git push origin branch{index})")),
            3 => (PermissionBehavior::Deny, format!("Read(./private{index}/**)")),
            4 => (PermissionBehavior::Deny, format!("Read(*.secret{index})")),
            5 => (PermissionBehavior::Allow, format!("Edit(src/part{index}/**)")),
            6 => (PermissionBehavior::Allow, format!("WebFetch(domain:host{index}.example.com)")),
            7 => (PermissionBehavior::Deny, format!("mcp__server{index}__drop")),
            8 => (PermissionBehavior::Deny, format!("Bash(rm -rf dir{index} *)")),
            _ => (PermissionBehavior::Allow, format!("Bash(make target{index})")),
        };
        let warnings = engine.add_rules(behavior, RuleSource::Settings(SettingsSource::User), [rule]);
        assert!(warnings.is_empty(), "{warnings:?}");
    }
    engine
}

/// The median of many decisions.
fn measure(engine: &Rig, root: &Path, tool: &str, input: &Value) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            black_box(engine.decide(tool, black_box(input), root));
            started.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

fn main() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let root = directory.path().canonicalize().expect("a path");
    fs::create_dir_all(root.join(".git")).expect("a directory");
    fs::create_dir_all(root.join("src")).expect("a directory");
    fs::write(root.join(".git/config"), "[core]\n\tbare = false\n").expect("a file");
    fs::write(root.join("src/main.rs"), "fn main() {}\n").expect("a file");
    let bash = |command: &str| ("Bash", json!({"command": command}));
    let long = "echo a && ".repeat(200) + "ls";
    let calls = [
        bash("ls"),
        bash("ls -la src | head -20"),
        bash("grep -rn 'fn main' src && cat src/main.rs"),
        bash("git status --porcelain"),
        bash("npm run build && npm test -- --watch=false"),
        bash("cd src && cargo test 2>&1 | tail -50"),
        bash("for f in a b c; do sed -i 's/x/y/' $f; done"),
        bash("cat *.md"),
        bash(&long),
        ("Read", json!({"file_path": root.join("src/main.rs")})),
        ("Write", json!({"file_path": root.join("src/deep/new.rs"), "content": ""})),
        ("WebFetch", json!({"url": "https://example.com/x"})),
        ("mcp__server__tool", json!({})),
    ];
    println!("{:<58} {:>10} {:>10} {:>10}", "median of a decision", "0 rules", "10 rules", "1000 rules");
    for (tool, input) in &calls {
        let times = [0, 10, 1000].map(|rules| measure(&engine(&root, rules), &root, tool, input));
        let shown = format!("{tool} {input}");
        let shown = first_chars(&shown, 56);
        println!("{shown:<58} {:>10.1?} {:>10.1?} {:>10.1?}", times[0], times[1], times[2]);
    }
    let bomb = json!({"command": format!("{}{}", "(".repeat(20_000), ")".repeat(20_000))});
    let started = Instant::now();
    black_box(engine(&root, 0).decide("Bash", &bomb, &root));
    println!("{:<58} {:>10.1?}", "40 KB of nested parentheses", started.elapsed());
    let bomb = json!({"command": "$((".repeat(20_000)});
    let started = Instant::now();
    black_box(engine(&root, 0).decide("Bash", &bomb, &root));
    println!("{:<58} {:>10.1?}", "60 KB of nested arithmetic", started.elapsed());
}
