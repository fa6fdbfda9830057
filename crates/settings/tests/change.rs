//! Changes while a session runs: flags, updates, permission answers, files that others edit.

mod support;

use std::fs;

use lathe_protocol::{PermissionMode, PermissionUpdate, SettingsSource};
use lathe_settings::{Kept, SettingsError, SettingsStack, StackRequest};
use serde::Deserialize;
use serde_json::{Value, json};
use support::{LOCAL, MANAGED, PROJECT, USER, World};

fn update(value: Value) -> PermissionUpdate {
    PermissionUpdate::deserialize(&value).unwrap()
}

fn texts(stack: &SettingsStack) -> Vec<String> {
    stack
        .permission_rules()
        .map(|(behavior, _, rule)| format!("{} {}", behavior.as_str(), rule.text))
        .collect()
}

#[test]
fn flags_are_merged_key_by_key_and_null_clears() {
    let world = World::new();
    world.json(USER, &json!({ "model": "user" }));
    let flag = json!({ "model": "flag", "permissions": { "deny": ["A"] }, "language": "en" }).to_string();
    let mut stack = SettingsStack::load(StackRequest { flag: Some(flag), ..world.request() }).unwrap();
    assert_eq!(stack.apply_flag(json!({ "model": "applied" })).unwrap(), []);
    assert_eq!(stack.effective().model.as_deref(), Some("applied"));
    stack.apply_flag(json!({ "permissions": { "allow": ["B"] }, "language": null })).unwrap();
    assert_eq!(texts(&stack), ["allow B"]);
    assert_eq!(stack.effective().language, None);
    stack.apply_flag(json!({ "model": null })).unwrap();
    assert_eq!(stack.effective().model.as_deref(), Some("user"));
    assert_eq!(
        json!(stack.sources_json()),
        json!([
            { "source": "userSettings", "settings": { "model": "user" } },
            { "source": "flagSettings", "settings": { "permissions": { "allow": ["B"] } } },
        ])
    );
}

#[test]
fn flags_that_make_no_sense_change_nothing() {
    let world = World::new();
    let mut stack = world.load();
    stack.apply_flag(json!({ "model": "m" })).unwrap();
    for bad in [json!(5), json!({ "permissions": { "deny": "x" } }), json!({ "deny": [] })] {
        assert!(stack.apply_flag(bad.clone()).is_err(), "{bad}");
        assert_eq!(stack.effective_json(), json!({ "model": "m" }));
    }
    let warnings = stack.apply_flag(json!({ "modle": 1, "language": 5 })).unwrap();
    assert_eq!(warnings.len(), 2);
    assert_eq!(stack.effective().language, None);
}

#[test]
fn a_client_may_write_some_keys() {
    let world = World::new();
    let mut stack = world.load();
    let kept = stack.update(SettingsSource::Local, json!({ "outputStyle": "Explanatory" })).unwrap();
    assert_eq!(kept, Kept::Written(world.path(LOCAL)));
    assert_eq!(world.read(LOCAL), json!({ "outputStyle": "Explanatory" }));
    assert_eq!(stack.effective().output_style.as_deref(), Some("Explanatory"));
    stack.update(SettingsSource::User, json!({ "model": "m" })).unwrap();
    stack.update(SettingsSource::Local, json!({ "outputStyle": null })).unwrap();
    assert_eq!(world.read(LOCAL), json!({}));
    assert_eq!(world.read(USER), json!({ "model": "m" }));
    for (source, settings) in [
        (SettingsSource::User, json!({ "hooks": {} })),
        (SettingsSource::User, json!({ "permissions": { "allow": ["Bash"] } })),
        (SettingsSource::User, json!({ "env": { "PATH": "x" } })),
        (SettingsSource::User, json!({ "model": 5 })),
        (SettingsSource::Project, json!({ "model": "m" })),
        (SettingsSource::Policy, json!({ "model": "m" })),
    ] {
        assert!(stack.update(source, settings.clone()).is_err(), "{settings}");
    }
    assert_eq!(world.read(USER), json!({ "model": "m" }));
}

#[test]
fn permission_updates_reach_their_file() {
    let world = World::new();
    world.json(LOCAL, &json!({ "zeta": 1, "permissions": { "allow": ["Read"] } }));
    let mut stack = world.load();
    let local = "localSettings";
    for (change, expected) in [
        (
            json!({ "type": "addRules", "behavior": "allow", "destination": local,
                    "rules": [{ "toolName": "Bash", "ruleContent": "touch y *" }, { "toolName": "Read" }] }),
            json!({ "allow": ["Read", "Bash(touch y *)"] }),
        ),
        (
            json!({ "type": "removeRules", "behavior": "allow", "destination": local, "rules": [{ "toolName": "Read" }] }),
            json!({ "allow": ["Bash(touch y *)"] }),
        ),
        (
            json!({ "type": "replaceRules", "behavior": "deny", "destination": local, "rules": [{ "toolName": "WebFetch" }] }),
            json!({ "allow": ["Bash(touch y *)"], "deny": ["WebFetch"] }),
        ),
        (
            json!({ "type": "setMode", "mode": "acceptEdits", "destination": local }),
            json!({ "allow": ["Bash(touch y *)"], "deny": ["WebFetch"], "defaultMode": "acceptEdits" }),
        ),
        (
            json!({ "type": "addDirectories", "directories": ["/a", "~/b"], "destination": local }),
            json!({ "allow": ["Bash(touch y *)"], "deny": ["WebFetch"], "defaultMode": "acceptEdits",
                    "additionalDirectories": ["/a", "~/b"] }),
        ),
        (
            json!({ "type": "removeDirectories", "directories": ["/a"], "destination": local }),
            json!({ "allow": ["Bash(touch y *)"], "deny": ["WebFetch"], "defaultMode": "acceptEdits",
                    "additionalDirectories": ["~/b"] }),
        ),
    ] {
        assert_eq!(
            stack.apply_permission_update(&update(change.clone())).unwrap(),
            Kept::Written(world.path(LOCAL))
        );
        assert_eq!(world.read(LOCAL), json!({ "zeta": 1, "permissions": expected }), "{change}");
    }
    assert_eq!(texts(&stack), ["deny WebFetch", "allow Bash(touch y *)"], "what was written is in force");
    assert_eq!(stack.default_mode(), Some(PermissionMode::AcceptEdits));
    assert_eq!(stack.permission_dirs()[0].path, world.path("home/b"));
    assert!(stack.changed().is_empty(), "our own writing is no news");
}

#[test]
fn updates_for_the_session_are_not_written() {
    let world = World::new();
    let mut stack = world.load();
    for change in [
        json!({ "type": "addRules", "behavior": "allow", "destination": "session", "rules": [{ "toolName": "Bash" }] }),
        json!({ "type": "setMode", "mode": "plan", "destination": "cliArg" }),
        json!({ "type": "somethingNew", "destination": "localSettings" }),
    ] {
        assert_eq!(stack.apply_permission_update(&update(change)).unwrap(), Kept::NotInAFile);
    }
    assert!(!world.path(LOCAL).exists());
    let again = json!({ "type": "removeRules", "behavior": "deny", "destination": "localSettings", "rules": [{ "toolName": "X" }] });
    assert_eq!(stack.apply_permission_update(&update(again)).unwrap(), Kept::Unchanged(world.path(LOCAL)));
    assert!(!world.path(LOCAL).exists(), "there was nothing to write");
}

#[test]
fn parallel_grants_all_arrive() {
    let world = World::new();
    std::thread::scope(|scope| {
        for writer in 0..16 {
            let world = &world;
            scope.spawn(move || {
                let rule = json!({ "toolName": "Bash", "ruleContent": format!("job {writer}") });
                let change = json!({ "type": "addRules", "behavior": "allow", "destination": "localSettings", "rules": [rule] });
                support::apply_in_time(&mut world.load(), &update(change)).unwrap();
            });
        }
    });
    assert_eq!(world.read(LOCAL)["permissions"]["allow"].as_array().unwrap().len(), 16);
    assert_eq!(world.load().permission_rules().count(), 16);
}

#[test]
fn a_broken_file_is_not_overwritten() {
    let world = World::new();
    let mut stack = world.load();
    world.write(LOCAL, "{\"permissions\": {\"deny\": [");
    let change = json!({ "type": "setMode", "mode": "plan", "destination": "localSettings" });
    assert!(matches!(stack.apply_permission_update(&update(change)), Err(SettingsError::Broken(_))));
    assert_eq!(fs::read_to_string(world.path(LOCAL)).unwrap(), "{\"permissions\": {\"deny\": [");
}

#[test]
fn changed_files_are_noticed_and_read_again() {
    let world = World::new();
    world.json(USER, &json!({ "model": "a" }));
    let mut stack = world.load();
    assert!(stack.changed().is_empty());
    let see = |stack: &mut SettingsStack| {
        let changed = stack.changed();
        let problems = stack.reload(&changed);
        assert!(stack.changed().is_empty(), "seen once");
        (changed.into_iter().map(|changed| changed.source).collect::<Vec<_>>(), problems)
    };
    // Of another length: a file system may not tell two moments of the same millisecond apart.
    world.json(USER, &json!({ "model": "bb" }));
    assert_eq!(see(&mut stack), (vec![SettingsSource::User], vec![]));
    assert_eq!(stack.effective().model.as_deref(), Some("bb"));
    world.json(LOCAL, &json!({ "model": "c" }));
    assert_eq!(see(&mut stack), (vec![SettingsSource::Local], vec![]));
    fs::remove_file(world.path(LOCAL)).unwrap();
    assert_eq!(see(&mut stack), (vec![SettingsSource::Local], vec![]));
    assert_eq!(stack.effective().model.as_deref(), Some("bb"));
    world.json("managed/managed-settings.d/new.json", &json!({ "model": "policy" }));
    assert_eq!(see(&mut stack).0, [SettingsSource::Policy]);
    world.json("managed/managed-settings.d/new.json", &json!({ "model": "changed" }));
    assert_eq!(see(&mut stack).0, [SettingsSource::Policy]);
    assert_eq!(stack.effective().model.as_deref(), Some("changed"));
}

#[test]
fn a_file_that_breaks_while_the_session_runs_stays_as_it_was() {
    let world = World::new();
    world.json(USER, &json!({ "permissions": { "deny": ["Bash"] } }));
    world.json(MANAGED, &json!({ "permissions": { "deny": ["Write"] } }));
    let mut stack = world.load();
    for file in [USER, MANAGED] {
        world.write(file, "{\"permissions\": {");
        let changed = stack.changed();
        let problems = stack.reload(&changed);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(stack.changed().is_empty(), "said once");
        assert_eq!(texts(&stack), ["deny Write", "deny Bash"]);
    }
    world.json(USER, &json!({ "permissions": { "deny": ["Edit"] } }));
    assert_eq!(stack.reload(&stack.changed()), []);
    assert_eq!(texts(&stack), ["deny Write", "deny Edit"]);
}

#[test]
fn a_flag_file_is_read_again_below_what_a_client_applied() {
    let world = World::new();
    world.json("project/f.json", &json!({ "model": "a", "language": "en" }));
    let mut stack =
        SettingsStack::load(StackRequest { flag: Some("f.json".into()), ..world.request() }).unwrap();
    stack.apply_flag(json!({ "model": "b" })).unwrap();
    world.json("project/f.json", &json!({ "model": "ccc", "language": "fr" }));
    assert_eq!(stack.reload(&stack.changed()), []);
    assert_eq!(stack.effective_json(), json!({ "model": "b", "language": "fr" }));
    fs::remove_file(world.path("project/f.json")).unwrap();
    assert_eq!(stack.reload(&stack.changed()).len(), 1);
    assert_eq!(stack.effective_json(), json!({ "model": "b", "language": "fr" }), "it stays as it was");
}

/// A command that a session runs may write into `.claude`. That must not become a right in the same session.
#[test]
fn what_a_projects_file_newly_grants_waits_for_the_next_start() {
    let world = World::new();
    world.trust();
    for file in [LOCAL, PROJECT] {
        world.json(
            file,
            &json!({ "permissions": { "allow": ["Bash(a)", "Bash(b)"] }, "env": { "A": "1", "B": "1" } }),
        );
        let mut stack = world.load();
        world.json(file, &json!({
            "permissions": { "allow": ["Bash(b)", "Bash(evil)"], "deny": ["Read"], "defaultMode": "bypassPermissions" },
            "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "evil" }] }] },
            "env": { "A": "1", "B": "2", "PATH": "evil" }
        }));
        let problems = stack.reload(&stack.changed());
        assert!(problems[0].message.contains("from the next start on"), "{problems:?}");
        assert_eq!(
            texts(&stack),
            ["deny Read", "allow Bash(b)"],
            "limits at once, rights that went are gone"
        );
        assert!(stack.hooks().is_empty());
        assert_eq!(stack.default_mode(), None);
        let variables: Vec<(String, String)> = stack.env().into_iter().collect();
        assert_eq!(variables, [("A".to_owned(), "1".to_owned())], "a changed variable waits too");

        let grant = json!({ "type": "addRules", "behavior": "allow", "rules": [{ "toolName": "Bash", "ruleContent": "c" }],
            "destination": if file == LOCAL { "localSettings" } else { "projectSettings" } });
        stack.apply_permission_update(&update(grant)).unwrap();
        assert_eq!(
            texts(&stack),
            ["deny Read", "allow Bash(b)", "allow Bash(c)"],
            "a grant brings only itself"
        );
        assert_eq!(world.load().permission_rules().count(), 4, "the next start sees what is written");
        fs::remove_file(world.path(file)).unwrap();
    }
}

#[test]
fn a_change_that_somebody_refuses_is_left_alone_until_the_next_one() {
    let world = World::new();
    world.json(USER, &json!({ "permissions": { "deny": ["Bash(rm *)"] } }));
    let mut stack = world.load();
    world.json(USER, &json!({ "permissions": { "deny": [] }, "model": "other" }));
    let changed = stack.changed();
    assert_eq!(changed.len(), 1);
    stack.leave(&changed);
    assert_eq!(stack.changed(), []);
    assert_eq!(stack.permission_rules().count(), 1, "what was refused does not count");
    world.json(USER, &json!({ "permissions": { "deny": ["Bash(rm *)", "Read"] } }));
    let changed = stack.changed();
    assert_eq!(stack.reload(&changed), []);
    assert_eq!(stack.permission_rules().count(), 2);
}

#[test]
fn a_project_cannot_lift_what_it_forbade_while_a_session_runs() {
    for file in [PROJECT, LOCAL] {
        let world = World::new();
        world.json(file, &json!({ "permissions": { "deny": ["Read"], "ask": ["Bash"] } }));
        let mut stack = world.load();
        world.json(file, &json!({ "permissions": { "deny": ["WebFetch"] } }));
        let changed = stack.changed();
        assert_eq!(stack.reload(&changed).len(), 1, "it is said");
        assert_eq!(texts(&stack), ["deny WebFetch", "deny Read", "ask Bash"], "{file}");
        fs::remove_file(world.path(file)).unwrap();
        let changed = stack.changed();
        stack.reload(&changed);
        assert_eq!(texts(&stack), ["deny WebFetch", "deny Read", "ask Bash"], "{file} is gone");
        assert!(world.load().permission_rules().next().is_none(), "the next start knows nothing of it");
    }
    // The user's own file is the user's to change.
    let world = World::new();
    world.json(USER, &json!({ "permissions": { "deny": ["Read"] } }));
    let mut stack = world.load();
    world.json(USER, &json!({}));
    let changed = stack.changed();
    stack.reload(&changed);
    assert!(texts(&stack).is_empty());
}
