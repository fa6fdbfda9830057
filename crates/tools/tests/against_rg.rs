//! Grep and Glob find what `rg` finds, where `rg` is installed.

#![allow(clippy::disallowed_methods, reason = "tests start rg")]

mod support;

use std::process::Command;

use serde_json::{Value, json};
use support::Folder;

fn tree() -> Folder {
    let folder = Folder::new();
    let files: [(&str, &[u8]); 16] = [
        (".gitignore", b"*.log\n/build/\n!keep.log\nsub/*.tmp\n"),
        ("sub/.gitignore", b"inner.txt\n"),
        (".ignore", b"private\n"),
        (".rgignore", b"rgonly\n"),
        ("a.txt", b"alpha needle\nbeta\nneedle gamma\n\nneedle\n"),
        ("crlf.txt", b"x\r\nneedle\r\ny\r\n"),
        ("noeol.rs", b"fn needle() {}"),
        ("sub/inner.txt", b"needle\n"),
        ("sub/x.tmp", b"needle\n"),
        ("sub/deep/y.tmp", b"Needle NEEDLE\n"),
        ("x.log", b"needle\n"),
        ("keep.log", b"needle\n"),
        ("build/out.txt", b"needle\n"),
        (".hidden/h.txt", b"needle \xFF\n"),
        ("private/p", b"needle\n"),
        ("rgonly", b"needle\n"),
    ];
    for (name, content) in files {
        folder.write(name, content);
    }
    folder.write("bin.raw", b"before needle\n\0after\n");
    folder.write("early.raw", b"\0needle\n");
    folder.write("utf16.txt", b"\xFF\xFEn\0e\0e\0d\0l\0e\0\n\0");
    folder.write(".git/config", "needle");
    std::os::unix::fs::symlink("a.txt", folder.path("link.txt")).unwrap();
    std::os::unix::fs::symlink(".", folder.path("around")).unwrap();
    folder
}

fn rg(folder: &Folder, args: &[&str]) -> Vec<String> {
    let output = Command::new("rg")
        .args(["--no-config", "--hidden", "-g", "!.git", "--no-heading", "--no-messages"])
        .args(args)
        .arg(".")
        .current_dir(&folder.context.workspace.root)
        .env("HOME", "/nonexistent")
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let plain = |line: &str| line.trim_end_matches('\r').trim_start_matches("./").to_owned();
    sorted(text.lines().filter(|line| !line.contains("binary file matches")).map(plain).collect())
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

fn is_installed() -> bool {
    Command::new("rg").arg("--version").output().is_ok()
}

#[tokio::test]
async fn the_same_lines_are_found() {
    if !is_installed() {
        return;
    }
    let folder = tree();
    let cases: [(Value, &[&str]); 12] = [
        (json!({ "pattern": "needle" }), &["-n", "needle"]),
        (json!({ "pattern": "needle", "-n": false }), &["-N", "needle"]),
        (json!({ "pattern": "NEEDLE", "-i": true }), &["-n", "-i", "NEEDLE"]),
        (json!({ "pattern": "^needle$" }), &["-n", "^needle$"]),
        (json!({ "pattern": "\\bneed\\w+", "-o": true }), &["-n", "-o", "\\bneed\\w+"]),
        (json!({ "pattern": "needle", "glob": "*.txt" }), &["-n", "-g", "*.txt", "needle"]),
        (json!({ "pattern": "needle", "glob": "!*.txt" }), &["-n", "-g", "!*.txt", "needle"]),
        (json!({ "pattern": "needle", "glob": "sub/**" }), &["-n", "-g", "sub/**", "needle"]),
        (json!({ "pattern": "needle", "type": "rust" }), &["-n", "-t", "rust", "needle"]),
        (json!({ "pattern": "beta", "-C": 1 }), &["-n", "-C", "1", "beta"]),
        (
            json!({ "pattern": "beta.*gamma", "multiline": true }),
            &["-n", "-U", "--multiline-dotall", "beta.*gamma"],
        ),
        (json!({ "pattern": "" }), &["-n", ""]),
    ];
    for (mut input, args) in cases {
        input["output_mode"] = json!("content");
        let seen = folder.call("Grep", input.clone()).await.ok();
        let ours = seen.result["content"].as_str().unwrap().lines().map(str::to_owned).collect();
        assert_eq!(sorted(ours), rg(&folder, args), "{input}");
    }
}

#[tokio::test]
async fn the_same_files_and_counts_are_found() {
    if !is_installed() {
        return;
    }
    let folder = tree();
    let files = folder.call("Grep", json!({ "pattern": "needle" })).await.ok();
    let ours: Vec<String> = serde_json::from_value(files.result["filenames"].clone()).unwrap();
    assert_eq!(sorted(ours), rg(&folder, &["-l", "needle"]));
    let counts = folder.call("Grep", json!({ "pattern": "needle", "output_mode": "count" })).await.ok();
    let ours = counts.result["content"].as_str().unwrap().lines().map(str::to_owned).collect();
    assert_eq!(sorted(ours), rg(&folder, &["-c", "needle"]));
    for pattern in ["*.txt", "**/*.tmp", "sub/*", "sub/**/*.tmp", "*.{log,rs}", "[ab]*", "nothing"] {
        let found = folder.call("Glob", json!({ "pattern": pattern })).await.ok();
        let ours: Vec<String> = serde_json::from_value(found.result["filenames"].clone()).unwrap();
        assert_eq!(sorted(ours), rg(&folder, &["--files", "--no-ignore", "-g", pattern]), "{pattern}");
    }
}
