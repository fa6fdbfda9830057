//! Times Grep and Glob against `rg` on the same tree, turn about, and prints medians, their ratio, and the
//! ratio of processor time, which a busy machine disturbs less.
//!
//! `cargo run --release -p lathe-tools --example search_bench -- DIR [CASE]`
//! A DIR that does not exist is filled with 50,000 files first. `rg` must be installed.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a program for people that starts another one to compare with"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lathe_exec::Ledger;
use lathe_tools::{DetachedSession, ToolContext, ToolSet, Workspace, builtin_tools};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 15;

/// A question put to both.
struct Case {
    name: &'static str,
    tool: &'static str,
    input: Value,
    rg: &'static [&'static str],
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let dir = PathBuf::from(std::env::args().nth(1).expect("the directory to search"));
    if !dir.exists() {
        make_tree(&dir);
    }
    let root = dir.canonicalize().expect("the directory");
    let context = ToolContext {
        tool_use_id: "bench".to_owned(),
        cancel: CancellationToken::new(),
        workspace: Arc::new(Workspace::new(root.clone(), Ledger::default())),
        session: Arc::new(DetachedSession),
        place: None,
        closed_paths: None,
        environment: lathe_tools::CommandEnvironment::Whole,
    };
    let tools = ToolSet::new(builtin_tools());
    let only = std::env::args().nth(2).unwrap_or_default();
    for case in cases().into_iter().filter(|case| case.name.contains(&only)) {
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        let (our_cpu, their_cpu) = cpu_ticks();
        for _ in 0..ROUNDS {
            let started = Instant::now();
            let tool = tools.get(case.tool).expect("a built-in tool");
            let outcome = tool.call(&case.input, &context).await;
            ours.push(started.elapsed());
            outcome.expect("the search works");
            let started = Instant::now();
            rg(&root, case.rg);
            theirs.push(started.elapsed());
        }
        let (ours, theirs) = (median(ours), median(theirs));
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        let after = cpu_ticks();
        let cpu = (after.0 - our_cpu) / (after.1 - their_cpu).max(1.0);
        println!("{:28} ours {ours:>9.1?}  rg {theirs:>9.1?}  ratio {ratio:.2}  cpu {cpu:.2}", case.name);
    }
}

fn cases() -> [Case; 6] {
    let grep = |pattern: &str, mode: &str| json!({ "pattern": pattern, "output_mode": mode });
    [
        Case {
            name: "grep rare, files",
            tool: "Grep",
            input: grep("needle_4\\d{3}7", "files_with_matches"),
            rg: &["--hidden", "-g", "!.git", "-l", "needle_4\\d{3}7"],
        },
        Case {
            name: "grep literal, content",
            tool: "Grep",
            input: grep("return value_12", "content"),
            rg: &["--hidden", "-g", "!.git", "-n", "return value_12"],
        },
        Case {
            name: "grep no literal, count",
            tool: "Grep",
            input: grep("[a-z]+_\\d+ = \\d+9;", "count"),
            rg: &["--hidden", "-g", "!.git", "-c", "[a-z]+_\\d+ = \\d+9;"],
        },
        Case {
            name: "grep ignore case, none",
            tool: "Grep",
            input: json!({ "pattern": "sherlock holmes", "-i": true }),
            rg: &["--hidden", "-g", "!.git", "-l", "-i", "sherlock holmes"],
        },
        Case {
            name: "glob all",
            tool: "Glob",
            input: json!({ "pattern": "**/*.rs" }),
            rg: &["--files", "--hidden", "--no-ignore", "--sortr", "modified", "-g", "**/*.rs"],
        },
        Case {
            name: "glob few",
            tool: "Glob",
            input: json!({ "pattern": "file_77.*" }),
            rg: &["--files", "--hidden", "--no-ignore", "--sortr", "modified", "-g", "file_77.*"],
        },
    ]
}

fn rg(root: &Path, args: &[&str]) {
    let output = Command::new("rg").args(args).arg(".").current_dir(root).stdin(Stdio::null()).output();
    output.expect("rg runs");
}

/// Processor time of this process and of its children so far; nothing where there is no `/proc`.
fn cpu_ticks() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> = stat.split_whitespace().map(|field| field.parse().unwrap_or(0.0)).collect();
    match fields.get(13..17) {
        Some([user, system, child_user, child_system]) => (user + system, child_user + child_system),
        Some(_) | None => (0.0, 0.0),
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// 500 directories with 100 files of 50 lines, some of them ignored.
fn make_tree(dir: &Path) {
    std::fs::create_dir_all(dir.join(".git")).expect("directory");
    std::fs::write(dir.join(".gitignore"), "*.log\n/dir_1/\n").expect("file");
    for folder in 0..500 {
        let folder_path = dir.join(format!("dir_{}/sub_{folder}", folder % 20));
        std::fs::create_dir_all(&folder_path).expect("directory");
        for file in 0..100 {
            let number = folder * 100 + file;
            let extension = ["rs", "py", "md", "log"][file % 4];
            let mut text = format!("// needle_{number}\n");
            for line in 0..50 {
                text.push_str(&format!("    let value_{line} = {}; return value_{line};\n", number * line));
            }
            std::fs::write(folder_path.join(format!("file_{file}.{extension}")), text).expect("file");
        }
    }
}
