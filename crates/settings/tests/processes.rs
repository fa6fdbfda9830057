//! Several processes at one settings file, and one that is killed in the middle.
#![allow(clippy::disallowed_methods, reason = "the test starts itself as the other processes")]

mod support;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lathe_protocol::PermissionUpdate;
use lathe_settings::{SettingsStack, StackRequest};
use serde::Deserialize;
use serde_json::{Value, json};
use support::World;

const FOLDER: &str = "SETTINGS_TEST_FOLDER";
const NAME: &str = "SETTINGS_TEST_NAME";
const ROUNDS: &str = "SETTINGS_TEST_ROUNDS";
/// The configuration folder, inside the folder of the test.
const CONFIG: &str = "config";

/// One of the other processes: grants itself rules in the folder it is given.
#[test]
#[ignore = "the other tests start it"]
fn writer() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else { return };
    let (name, rounds) = (env::var(NAME).unwrap(), env::var(ROUNDS).unwrap().parse::<u32>().unwrap());
    let managed = lathe_settings::ManagedFiles { dir: folder.join("none"), owner: 0 };
    let config_dir = Some(folder.join(CONFIG));
    let mut stack =
        SettingsStack::load(StackRequest { config_dir, ..StackRequest::new(folder, managed) }).unwrap();
    for round in 0..rounds {
        let rule = json!({ "toolName": "Bash", "ruleContent": format!("{name} {round}") });
        let update = json!({ "type": "addRules", "behavior": "allow", "destination": "localSettings", "rules": [rule] });
        let update = PermissionUpdate::deserialize(&update).unwrap();
        support::apply_in_time(&mut stack, &update).unwrap();
    }
}

fn start(folder: &Path, name: &str, rounds: u32) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "writer", "--ignored"])
        .env(FOLDER, folder)
        .env(NAME, name)
        .env(ROUNDS, rounds.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn rules(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join(".claude/settings.local.json")).unwrap();
    let settings: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    settings["permissions"]["allow"].as_array().unwrap().clone()
}

/// What a new session counts of the rules: the folder is not trusted, so only what was remembered.
fn counted(folder: &Path) -> usize {
    let managed = lathe_settings::ManagedFiles { dir: folder.join("none"), owner: 0 };
    let config_dir = Some(folder.join(CONFIG));
    let request = StackRequest { config_dir, ..StackRequest::new(folder, managed) };
    let stack = SettingsStack::load(request).unwrap();
    assert_eq!(stack.problems().count(), 0, "{:?}", stack.problems().collect::<Vec<_>>());
    stack.permission_rules().count()
}

#[test]
fn fifty_processes_lose_nothing() {
    // In memory where there is such a place: it is the order of writers that matters here, not the disk.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let writers: Vec<Child> = (0..50).map(|n| start(dir.path(), &format!("writer {n}"), 4)).collect();
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    assert_eq!(rules(dir.path()).len(), 200);
    let left = fs::read_dir(dir.path().join(".claude")).unwrap().count();
    assert_eq!(left, 1, "nothing but the file is left");
    assert_eq!(counted(dir.path()), 200, "every grant is remembered");
    assert_eq!(fs::read_dir(dir.path().join(CONFIG)).unwrap().count(), 1);
}

#[test]
fn a_killed_writer_leaves_the_old_file_or_the_new_one() {
    let world = World::new();
    let mut known = 0;
    for round in 0..12 {
        let mut writer = start(&world.project(), &format!("round {round}"), 100_000);
        // Wait until it is at work, then a little longer each time.
        while !world.path(support::LOCAL).exists() || rules(&world.project()).len() < known + 1 + round % 4 {
            assert!(writer.try_wait().unwrap().is_none(), "the writer ended early");
            std::thread::yield_now();
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        let now = rules(&world.project()).len();
        assert!(now > known);
        // The file is written first. A writer that was killed in between leaves one rule that is asked about again.
        let remembered = counted(&world.project());
        assert!(remembered <= now && now - remembered <= round + 1, "{remembered} of {now}");
        known = now;
    }
}
