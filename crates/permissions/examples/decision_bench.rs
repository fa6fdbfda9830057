//! How long decisions take, with 10 rules and with 1,000. Run it with `--release`; prints one line a call:
//! the median in microseconds for each of the two, and their ratio.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "an example prints and takes an argument"
)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::time::Instant;

use lathe_permissions::{EngineConfig, PermissionScopeConfig, RuleSource};
use lathe_protocol::SettingsSource;
use lathe_protocol::permission::PermissionBehavior;
use serde_json::{Value, json};
use support::Rig;

/// Decisions that are timed for each figure.
const ROUNDS: usize = 2001;

/// A rule with a number.
type Numbered = fn(usize) -> String;

fn engine(root: &Path, rules: usize) -> Rig {
    let scope = PermissionScopeConfig { working_dirs: vec![root.to_owned()], ..Default::default() };
    let mut engine = Rig::new(EngineConfig::default(), scope);
    let kinds: [(PermissionBehavior, Numbered); 4] = [
        (PermissionBehavior::Deny, |n| format!("Bash(denied{n} sub{n} *)")),
        (PermissionBehavior::Allow, |n| format!("Bash(allowed{n} *)")),
        (PermissionBehavior::Deny, |n| format!("Read(./secret{n}/**)")),
        (PermissionBehavior::Ask, |n| format!("mcp__server{n}__tool{n}")),
    ];
    for n in 0..rules {
        let (behavior, text) = kinds[n % kinds.len()];
        engine.add_rules(behavior, RuleSource::Settings(SettingsSource::User), [text(n)]);
    }
    engine
}

fn median_micros(engine: &Rig, tool: &str, input: &Value, cwd: &Path) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            std::hint::black_box(engine.decide(tool, input, cwd));
            began.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

fn main() {
    let root = std::env::args().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    let root = root.canonicalize().expect("a directory");
    let (few, many) = (engine(&root, 10), engine(&root, 1000));
    println!("{:>9} {:>9} {:>6}  call", "10 rules", "1000", "ratio");
    for (tool, input) in [
        ("Bash", json!({"command": "ls -la src"})),
        ("Bash", json!({"command": "git status"})),
        ("Bash", json!({"command": "npm test -- --watch=false"})),
        ("Bash", json!({"command": "cd src && grep -rn 'fn main' . | head -20"})),
        ("Bash", json!({"command": "for f in a b c; do echo $f; done; timeout 5 make -j4 > out.log 2>&1"})),
        ("Bash", json!({"command": "denied0 sub0 x"})),
        ("Read", json!({"file_path": "src/main.rs"})),
        ("Edit", json!({"file_path": "src/deep/down/main.rs"})),
        ("mcp__server3__tool3", json!({})),
    ] {
        let (few, many) =
            (median_micros(&few, tool, &input, &root), median_micros(&many, tool, &input, &root));
        println!("{few:>7.1}µs {many:>7.1}µs {:>6.2}  {tool} {input}", many / few);
    }
}
