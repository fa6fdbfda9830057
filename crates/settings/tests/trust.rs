//! Trust that a person gave item by item: what was shown counts while it stays as it was shown, in the folder in which
//! it was shown, and nothing else does.

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use lathe_settings::trust::{ItemState, TrustBasis};
use lathe_settings::{ContentKind, SettingsStack, StackRequest, TrustStore};
use serde_json::{Value, json};
use support::{LOCAL, PROJECT, World};

const TRUST: &str = "home/.claude/lathe-trust.json";

fn command(line: &str) -> Value {
    json!({ "hooks": [{ "type": "command", "command": line }] })
}

fn store(world: &World) -> TrustStore {
    TrustStore::in_config_dir(&world.path("home/.claude"))
}

/// What `lathe trust --yes` does.
fn agree(world: &World) {
    let review = world.load().review();
    let items: Vec<_> = review.items.iter().map(|reviewed| &reviewed.item).collect();
    store(world).trust(&review.folder, &items).unwrap();
}

fn commands(stack: &SettingsStack) -> Vec<String> {
    let hooks = stack.hooks();
    let groups = hooks.iter().flat_map(|source| source.hooks.values().flatten());
    let handlers = groups.flat_map(|group| &group.hooks);
    handlers.map(|handler| json!(handler)["command"].as_str().unwrap().to_owned()).collect()
}

fn full() -> Value {
    json!({
        "hooks": { "SessionStart": [command("one"), command("two")], "Stop": [command("three")] },
        "permissions": { "allow": ["Bash(a)", "Bash(b)"], "defaultMode": "acceptEdits" },
        "env": { "FOO": "1" }
    })
}

#[test]
fn what_was_shown_counts_and_is_not_mentioned_any_more() {
    let world = World::new();
    world.json(PROJECT, &full());
    world
        .json("project/.mcp.json", &json!({ "mcpServers": { "x": { "command": "serve", "args": ["-v"] } } }));
    world.write("project/.claude/agents/deep/helper.md", "text");
    let untrusted = world.load();
    assert!(commands(&untrusted).is_empty());
    let withheld = untrusted.withheld_content().unwrap();
    let words: Vec<String> =
        withheld.nothing_of.iter().chain(&withheld.text_of).map(ToString::to_string).collect();
    assert_eq!(
        words,
        ["3 hooks", "2 allow rules", "1 permission mode", "1 variable", "1 MCP server", "1 agent"]
    );
    let review = untrusted.review();
    let shown: Vec<&str> = review.items.iter().map(|reviewed| reviewed.item.shown.as_str()).collect();
    assert_eq!(shown, ["one", "two", "three", "Bash(a)", "Bash(b)", "acceptEdits", "1", "serve -v", ""]);
    assert!(review.items.iter().all(|reviewed| reviewed.state == ItemState::New));

    agree(&world);
    let trusted = world.load();
    assert!(matches!(trusted.trust().basis(), TrustBasis::Items(_)));
    assert_eq!(commands(&trusted), ["one", "two", "three"]);
    assert_eq!((trusted.permission_rules().count(), trusted.env().len()), (2, 1));
    assert!(trusted.withheld_content().is_none(), "{}", trusted.withheld_content().unwrap());
    assert_eq!(trusted.trust_warnings().count(), 0);
    let mode = fs::metadata(world.path(TRUST)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn one_changed_byte_takes_trust_from_one_item_and_names_it() {
    let world = World::new();
    world.json(PROJECT, &full());
    agree(&world);
    let mut changed = full();
    changed["hooks"]["SessionStart"][1] = command("twp");
    world.json(PROJECT, &changed);
    let stack = world.load();
    assert_eq!(commands(&stack), ["one", "three"]);
    assert_eq!((stack.permission_rules().count(), stack.env().len()), (2, 1), "everything else counts");
    let text = stack.withheld_content().unwrap().to_string();
    assert!(text.contains("Withheld: 1 hook.") && text.contains("hooks.SessionStart: twp"), "{text}");
    let warning = stack.trust_warnings().next().unwrap();
    assert!(warning.contains("has changed since") && warning.contains("twp"), "{warning}");
    let states: Vec<ItemState> = stack.review().items.iter().map(|reviewed| reviewed.state).collect();
    assert_eq!(states.iter().filter(|state| **state == ItemState::Changed).count(), 1, "{states:?}");
    assert_eq!(states.iter().filter(|state| **state == ItemState::Trusted).count(), 6, "{states:?}");

    // The matcher decides when a hook runs, so it is part of what was shown.
    let mut moved = full();
    moved["hooks"]["SessionStart"][0]["matcher"] = "resume".into();
    world.json(PROJECT, &moved);
    assert_eq!(commands(&world.load()), ["two", "three"]);
    // The same hook at another event is another one.
    world.json(PROJECT, &json!({ "hooks": { "PreToolUse": [command("one")] } }));
    assert!(commands(&world.load()).is_empty());
    // So is the same hook in the other file.
    fs::remove_file(world.path(PROJECT)).unwrap();
    world.json(LOCAL, &full());
    assert!(commands(&world.load()).is_empty());
}

#[test]
fn trust_belongs_to_a_real_folder() {
    let world = World::new();
    world.json(PROJECT, &full());
    agree(&world);
    let load_in =
        |cwd: &Path| SettingsStack::load(StackRequest { cwd: cwd.to_owned(), ..world.request() }).unwrap();
    world.json("copy/.claude/settings.json", &full());
    assert!(commands(&load_in(&world.path("copy"))).is_empty());
    symlink(world.project(), world.path("link")).unwrap();
    assert_eq!(commands(&load_in(&world.path("link"))).len(), 3, "the same folder by another name");
    // A folder below is another folder, also inside one repository.
    world.json("project/sub/.claude/settings.json", &full());
    fs::create_dir(world.path("project/.git")).unwrap();
    assert!(commands(&load_in(&world.path("project/sub"))).is_empty());
    // Another folder in the place of the trusted one brings what was shown, or nothing.
    fs::rename(world.project(), world.path("old")).unwrap();
    world.json(PROJECT, &json!({ "hooks": { "SessionStart": [command("one"), command("evil")] } }));
    assert_eq!(commands(&world.load()), ["one"]);
}

#[test]
fn forgetting_takes_everything_back() {
    let world = World::new();
    world.json(PROJECT, &full());
    assert!(!store(&world).forget(&world.project()).unwrap(), "there was nothing to forget");
    assert!(!world.path(TRUST).exists(), "and nothing was written");
    agree(&world);
    assert_eq!(store(&world).folders().unwrap().len(), 1);
    assert!(store(&world).forget(&world.project()).unwrap());
    assert!(commands(&world.load()).is_empty());
    agree(&world);
    fs::rename(world.project(), world.path("gone")).unwrap();
    assert!(store(&world).forget(&world.project()).unwrap(), "a folder that is gone can be forgotten");
}

#[test]
fn a_trust_file_that_is_damaged_or_open_to_others_trusts_nothing_and_is_named() {
    let world = World::new();
    world.json(PROJECT, &full());
    agree(&world);
    let good = fs::read(world.path(TRUST)).unwrap();
    for text in
        ["{", r#"{"version": 2, "folders": {}}"#, r#"{"version": 1, "folders": {"/": {"all": true}}}"#]
    {
        world.write(TRUST, text);
        let stack = world.load();
        assert!(commands(&stack).is_empty(), "{text}");
        let problems: Vec<String> = stack.problems().map(ToString::to_string).collect();
        assert!(problems.iter().any(|problem| problem.contains("lathe-trust.json")), "{problems:?}");
    }
    world.write(TRUST, &good);
    fs::set_permissions(world.path(TRUST), fs::Permissions::from_mode(0o666)).unwrap();
    assert!(commands(&world.load()).is_empty());
    fs::set_permissions(world.path(TRUST), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(commands(&world.load()).len(), 3);
}

/// A command that a session runs may write into `.claude`. What was trusted stays, and nothing is added.
#[test]
fn trust_does_not_grow_while_a_session_runs() {
    let world = World::new();
    let mut settings = full();
    settings["hooks"]["SessionStart"][0]["hooks"].as_array_mut().unwrap().push(json!({
        "type": "command", "command": "beside one" }));
    world.json(PROJECT, &settings);
    agree(&world);
    let mut stack = world.load();
    assert_eq!(commands(&stack), ["one", "beside one", "two", "three"]);
    settings["hooks"]["SessionStart"].as_array_mut().unwrap().push(command("evil"));
    settings["permissions"]["allow"] = json!(["Bash(b)", "Bash(evil)"]);
    world.json(PROJECT, &settings);
    let problems = stack.reload(&stack.changed());
    assert_eq!(commands(&stack), ["one", "beside one", "two", "three"]);
    let rules: Vec<String> = stack.permission_rules().map(|(_, _, rule)| rule.text).collect();
    assert_eq!(rules, ["Bash(b)"]);
    assert!(problems.iter().any(|problem| problem.message.contains("evil")), "{problems:?}");
    // `.claude` becomes a link to a folder of an attacker.
    world.json(
        "evil/settings.json",
        &json!({ "hooks": { "Stop": [command("evil")] }, "env": { "FOO": "2" } }),
    );
    fs::rename(world.path("project/.claude"), world.path("moved")).unwrap();
    symlink(world.path("evil"), world.path("project/.claude")).unwrap();
    stack.reload(&stack.changed());
    assert!(commands(&stack).is_empty() && stack.env().is_empty(), "{:?}", commands(&stack));
}

#[test]
fn files_that_cannot_be_read_are_listed_and_never_trusted() {
    let world = World::new();
    world.write("project/.mcp.json", "{ nonsense");
    fs::create_dir_all(world.path("project/.claude/agents/loop.md")).unwrap();
    symlink("nowhere", world.path("project/.claude/agents/dangling.md")).unwrap();
    for _ in 0..2 {
        let stack = world.load();
        let withheld = stack.withheld_content().unwrap();
        assert_eq!((withheld.nothing_of.len(), withheld.text_of.len()), (1, 1), "{withheld}");
        let states: Vec<ItemState> = stack.review().items.iter().map(|reviewed| reviewed.state).collect();
        assert_eq!(states, [ItemState::Unreadable; 2]);
        agree(&world);
    }
}

#[test]
fn a_folder_without_anything_that_needs_trust_is_not_mentioned() {
    let world = World::new();
    world.write("project/CLAUDE.md", "text");
    world.write("project/.claude/output-styles/short.md", "text");
    world.json(PROJECT, &json!({ "model": "m", "permissions": { "deny": ["Read(x)"] } }));
    assert!(world.load().withheld_content().is_none());
    // The user's own folder is not the project's.
    world.write("home/.claude/agents/mine.md", "text");
    let home = StackRequest { cwd: world.path("home"), ..world.request() };
    assert!(SettingsStack::load(home).unwrap().withheld_content().is_none());
    // With something to trust beside them they are listed, because they count.
    world.json(LOCAL, &json!({ "apiKeyHelper": "x" }));
    let withheld = world.load().withheld_content().unwrap();
    let counts: Vec<(ContentKind, usize)> =
        withheld.all_of.iter().map(|entry| (entry.kind, entry.count)).collect();
    assert_eq!(
        counts,
        [(ContentKind::OutputStyles, 1), (ContentKind::MemoryFiles, 1), (ContentKind::Limits, 1)]
    );
}
