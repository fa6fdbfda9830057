//! What was granted through Lathe in an untrusted folder: it counts, and nothing else that widens a session does.

mod support;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use lathe_protocol::{PermissionMode, PermissionUpdate};
use lathe_settings::{SettingsError, SettingsStack, StackRequest};
use serde::Deserialize;
use serde_json::{Value, json};
use support::{LOCAL, PROJECT, World};

const GRANTS: &str = "home/.claude/lathe-grants.json";

fn apply(stack: &mut SettingsStack, update: Value) -> Result<(), SettingsError> {
    stack.apply_permission_update(&PermissionUpdate::deserialize(&update).unwrap()).map(drop)
}

/// "Always allow" for a command, in the file of a destination.
fn allow(command: &str, destination: &str) -> Value {
    let rule = json!({ "toolName": "Bash", "ruleContent": command });
    json!({ "type": "addRules", "behavior": "allow", "rules": [rule], "destination": destination })
}

fn texts(stack: &SettingsStack) -> Vec<String> {
    stack.permission_rules().map(|(_, _, rule)| rule.text).collect()
}

fn load_in(world: &World, cwd: &Path) -> SettingsStack {
    SettingsStack::load(StackRequest { cwd: cwd.to_owned(), ..world.request() }).unwrap()
}

#[test]
fn grants_of_every_kind_count_at_once_and_later_and_bring_only_themselves() {
    for (file, destination) in [(LOCAL, "localSettings"), (PROJECT, "projectSettings")] {
        let world = World::new();
        world.json(
            file,
            &json!({
                "permissions": { "allow": ["Bash(evil)"], "additionalDirectories": ["/evil"], "deny": ["Read(x)"] },
                "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "evil" }] }] }
            }),
        );
        let mut stack = world.load();
        for update in [
            allow("good", destination),
            json!({ "type": "addDirectories", "directories": ["/good"], "destination": destination }),
            json!({ "type": "setMode", "mode": "acceptEdits", "destination": destination }),
        ] {
            apply(&mut stack, update).unwrap();
        }
        for stack in [stack, world.load()] {
            assert_eq!(texts(&stack), ["Read(x)", "Bash(good)"], "{file}");
            let dirs: Vec<_> = stack.permission_dirs().into_iter().map(|dir| dir.path).collect();
            assert_eq!(dirs, [Path::new("/good")]);
            assert_eq!(stack.default_mode(), Some(PermissionMode::AcceptEdits));
            assert!(stack.hooks().is_empty());
            let warning = stack.trust_warnings().next().unwrap();
            let what =
                "Ignoring 1 permissions.allow entry, 1 permissions.additionalDirectories entry, hooks from";
            assert!(warning.starts_with(what), "{warning}");
        }
        let mode = fs::metadata(world.path(GRANTS)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

/// The rule stands in the file already and does not count; the answer of a person makes it count.
#[test]
fn a_grant_of_what_the_file_already_says_counts() {
    let world = World::new();
    world.json(LOCAL, &json!({ "permissions": { "allow": ["Bash(a)"] } }));
    let mut stack = world.load();
    assert!(texts(&stack).is_empty());
    apply(&mut stack, allow("a", "localSettings")).unwrap();
    assert_eq!(texts(&stack), ["Bash(a)"]);
    assert_eq!(texts(&world.load()), ["Bash(a)"]);
}

#[test]
fn a_grant_counts_for_its_file_and_folder_only() {
    let world = World::new();
    apply(&mut world.load(), allow("a", "localSettings")).unwrap();
    let text = fs::read_to_string(world.path(LOCAL)).unwrap();
    world.write("copy/.claude/settings.local.json", &text);
    assert!(texts(&load_in(&world, &world.path("copy"))).is_empty());
    symlink(world.project(), world.path("link")).unwrap();
    assert_eq!(texts(&load_in(&world, &world.path("link"))), ["Bash(a)"], "the same folder by another name");
    world.write(PROJECT, &text);
    fs::remove_file(world.path(LOCAL)).unwrap();
    assert!(texts(&world.load()).is_empty(), "the other file of the same folder");
}

#[test]
fn what_is_no_longer_in_the_file_is_forgotten() {
    type Removal<'a> = &'a dyn Fn(&World, &mut SettingsStack);
    let removals: [Removal<'_>; 5] = [
        &|_, stack| {
            let mut removal = allow("a", "localSettings");
            removal["type"] = "removeRules".into();
            apply(stack, removal).unwrap();
        },
        &|_, stack| {
            let none = json!({ "type": "replaceRules", "behavior": "allow", "rules": [], "destination": "localSettings" });
            apply(stack, none).unwrap();
        },
        // By hand, seen by the running session.
        &|world, stack| {
            world.json(LOCAL, &json!({ "permissions": { "allow": [] } }));
            let changed = stack.changed();
            assert_eq!(stack.reload(&changed), []);
        },
        // By hand, seen by the next start.
        &|world, _| {
            world.json(LOCAL, &json!({}));
            world.load();
        },
        &|world, _| {
            fs::remove_file(world.path(LOCAL)).unwrap();
            world.load();
        },
    ];
    for (number, remove) in removals.iter().enumerate() {
        let world = World::new();
        let mut stack = world.load();
        apply(&mut stack, allow("a", "localSettings")).unwrap();
        apply(&mut stack, allow("b", "projectSettings")).unwrap();
        remove(&world, &mut stack);
        world.json(LOCAL, &json!({ "permissions": { "allow": ["Bash(a)"] } }));
        assert_eq!(texts(&world.load()), ["Bash(b)"], "removal {number}");
    }
}

#[test]
fn a_file_that_is_gone_for_a_moment_or_not_asked_for_costs_no_grant() {
    let world = World::new();
    let mut stack = world.load();
    apply(&mut stack, allow("a", "localSettings")).unwrap();
    let text = fs::read_to_string(world.path(LOCAL)).unwrap();
    fs::remove_file(world.path(LOCAL)).unwrap();
    let changed = stack.changed();
    stack.reload(&changed);
    assert!(texts(&stack).is_empty());
    let sources = lathe_settings::Sources::NONE;
    SettingsStack::load(StackRequest { sources, ..world.request() }).unwrap();
    world.write(LOCAL, text);
    assert_eq!(texts(&world.load()), ["Bash(a)"]);
}

#[test]
fn an_edit_by_hand_keeps_the_grant_and_says_what_it_withholds() {
    let world = World::new();
    let mut stack = world.load();
    apply(&mut stack, allow("a", "localSettings")).unwrap();
    world.json(LOCAL, &json!({ "model": "m", "permissions": { "allow": ["Bash(a)", "Bash(evil)"] } }));
    let changed = stack.changed();
    let problems = stack.reload(&changed);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].message.contains("Ignoring 1 permissions.allow entry"), "{problems:?}");
    assert_eq!(texts(&stack), ["Bash(a)"]);
    assert_eq!(stack.effective().model.as_deref(), Some("m"));
    world.json(LOCAL, &json!({ "model": "other", "permissions": { "allow": ["Bash(a)", "Bash(evil)"] } }));
    let changed = stack.changed();
    assert_eq!(stack.reload(&changed), [], "said once");
}

#[test]
fn a_file_of_grants_that_cannot_be_used_grants_nothing() {
    type Damage<'a> = &'a dyn Fn(&Path);
    let damages: [(&str, Damage<'_>); 6] = [
        ("EOF", &|path| fs::write(path, "{\"version\": 1, \"folders\": {").unwrap()),
        ("version 2", &|path| fs::write(path, r#"{"version": 2, "folders": {}}"#).unwrap()),
        ("unknown field", &|path| fs::write(path, r#"{"version": 1, "folders": {}, "x": 1}"#).unwrap()),
        ("changed by others", &|path| fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap()),
        ("larger than", &|path| fs::write(path, " ".repeat(5 << 20)).unwrap()),
        ("a directory", &|path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }),
    ];
    for (words, damage) in damages {
        let world = World::new();
        apply(&mut world.load(), allow("a", "localSettings")).unwrap();
        damage(&world.path(GRANTS));
        let mut stack = world.load();
        assert!(texts(&stack).is_empty(), "{words}");
        let problems: Vec<String> = stack.problems().map(ToString::to_string).collect();
        assert!(problems.iter().any(|text| text.contains(words) && text.contains(GRANTS)), "{problems:?}");
        assert!(stack.permission_failure().is_none());
        let error = apply(&mut stack, allow("b", "localSettings")).unwrap_err();
        assert!(error.to_string().contains("in this session only"), "{error}");
        assert_eq!(texts(&stack), ["Bash(b)"], "{words}: the answer counts where it was given");
        assert!(texts(&world.load()).is_empty());
    }
}

#[test]
fn what_grants_nothing_leaves_no_file() {
    let world = World::new();
    let mut stack = world.load();
    let mut deny = allow("a", "localSettings");
    deny["behavior"] = "deny".into();
    apply(&mut stack, deny).unwrap();
    apply(&mut stack, json!({ "type": "setMode", "mode": "plan", "destination": "projectSettings" }))
        .unwrap();
    assert!(!world.path(GRANTS).exists());
    assert_eq!(texts(&stack), ["Bash(a)"]);
}

#[test]
fn names_that_are_not_utf8_are_told_apart() {
    let world = World::new();
    let folders = [b"\xff", b"\xfe"].map(|name| world.path("").join(std::ffi::OsStr::from_bytes(name)));
    for folder in &folders {
        fs::create_dir_all(folder.join(".claude")).unwrap();
    }
    apply(&mut load_in(&world, &folders[0]), allow("a", "localSettings")).unwrap();
    let file = ".claude/settings.local.json";
    fs::copy(folders[0].join(file), folders[1].join(file)).unwrap();
    assert_eq!(texts(&load_in(&world, &folders[0])), ["Bash(a)"]);
    assert!(texts(&load_in(&world, &folders[1])).is_empty());
}
