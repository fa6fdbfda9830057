//! The corpus of commands in `commands.txt`: which run unasked in default mode, and which do not.
#![allow(clippy::disallowed_methods, reason = "a test that builds a project directory")]

use std::fs;
use std::path::Path;

mod support;

use lathe_permissions::{Decision, EngineConfig, PermissionScopeConfig};
use lathe_protocol::CallSubject;
use serde_json::json;
use support::Rig;

const COMMANDS: &str = include_str!("commands.txt");

/// `\n`, `\r` and `\uXXXX` of the corpus; `\\` in front of a letter stays a backslash.
fn unescaped(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        result.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (piece, used) = match after.as_bytes().first() {
            Some(b'n') => ("\n".to_owned(), 1),
            Some(b'r') => ("\r".to_owned(), 1),
            Some(b'\\') if after.len() > 1 && after.as_bytes()[1] == b'n' => ("\\\n".to_owned(), 2),
            Some(b'\\') => ("\\".to_owned(), 1),
            Some(b'u') => {
                let code = u32::from_str_radix(&after[1..5], 16).unwrap();
                (char::from_u32(code).unwrap().to_string(), 5)
            }
            _ => ("\\".to_owned(), 0),
        };
        result.push_str(&piece);
        rest = &after[used..];
    }
    result + rest
}

fn project() -> tempfile::TempDir {
    let project = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = project.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    file("README.md", "# readme\n");
    file("package.json", "{}\n");
    file("src/main.rs", "fn main() {}\n");
    file(".git/HEAD", "ref: refs/heads/main\n");
    file(
        ".git/config",
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote \"origin\"]\n\turl = x\n",
    );
    project
}

fn engine(project: &Path) -> Rig {
    let config = EngineConfig {
        home: Some("/home/somebody".into()),
        config_dir: Some("/home/somebody/.claude".into()),
        ..EngineConfig::default()
    };
    Rig::new(config, PermissionScopeConfig { working_dirs: vec![project.to_owned()], ..Default::default() })
}

#[test]
fn the_corpus_is_decided_as_written() {
    let project = project();
    let root = project.path().canonicalize().unwrap();
    let engine = engine(&root);
    let mut wrong = Vec::new();
    let mut seen = 0;
    for line in COMMANDS.lines().filter(|line| line.starts_with("allow ") || line.starts_with("ask ")) {
        let (expected, command) = line.split_once(' ').unwrap();
        let command = unescaped(command);
        let input = json!({"command": command});
        let decision = engine.decide("Bash", &input, &root);
        let decided = match decision {
            Decision::Allow(_) => "allow",
            Decision::Ask(_) => "ask",
            Decision::Deny(_) => "deny",
        };
        seen += 1;
        if decided != expected {
            wrong.push(format!("{decided}, not {expected}: {command:?}"));
        }
        // What runs beside others is exactly what changes nothing, the directory of later calls included; reading
        // elsewhere is a matter of permission.
        let read_only = engine.describe(CallSubject::Shell { command: command.clone() }).is_reading_command();
        let moves = command.starts_with("cd ") || command.contains(" cd ");
        if decided == "allow" && read_only == moves {
            wrong.push(format!("allowed, and runs beside others: {read_only}: {command:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {seen} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(seen > 380, "only {seen} commands");
}
