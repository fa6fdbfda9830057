//! Output styles, and what `doctor` says about all of it.

mod support;

use std::os::unix::fs::symlink;

use lathe_settings::memory;
use lathe_settings::styles::{StyleOrigin, StyleRequest, Styles};
use lathe_settings::{Check, CheckStatus, Sources, checks};
use serde_json::json;
use support::{PROJECT, USER, World};

fn styles(world: &World) -> Styles {
    Styles::load(&StyleRequest {
        cwd: world.path("project/sub"),
        config_dir: Some(world.path("home/.claude")),
        managed_dir: Some(world.path("managed")),
        sources: Sources::ALL,
    })
}

#[test]
fn styles_are_found_and_the_nearest_wins() {
    let world = World::new();
    world.write("project/.git/HEAD", "");
    world.write("project/sub/x", "");
    let pirate = "---\nname: Pirate\ndescription: Arr: and more\nkeep-coding-instructions: true\n---\n\nTalk like one.\n";
    world.write("home/.claude/output-styles/p.md", pirate);
    world.write("home/.claude/output-styles/Plain.md", "No frontmatter.");
    world.write("home/.claude/output-styles/default.md", "Not this name.");
    world.write("project/.claude/output-styles/Plain.md", "The project's.");
    world.write("project/sub/.claude/output-styles/Plain.md", "The nearest.");
    world.write("home/.aws/credentials", "SECRET");
    symlink(world.path("home/.aws/credentials"), world.path("project/.claude/output-styles/leak.md"))
        .unwrap();
    let found = styles(&world);
    assert_eq!(
        found.names(),
        ["default", "Proactive", "Concise", "Explanatory", "Learning", "Pirate", "Plain"]
    );
    let pirate = found.find("Pirate").unwrap();
    assert_eq!((pirate.description.as_str(), pirate.text.as_str()), ("Arr: and more", "Talk like one."));
    assert!(pirate.keep_coding_instructions);
    let plain = found.find("Plain").unwrap();
    assert_eq!((plain.text.as_str(), plain.keep_coding_instructions), ("The nearest.", false));
    assert_eq!(found.find("default").unwrap().origin, StyleOrigin::BuiltIn);
    assert!(found.find("leak").is_none());
    assert_eq!(found.problems.len(), 2, "{:?}", found.problems);
}

fn examine(world: &World) -> Vec<Check> {
    let stack = world.load();
    checks(&stack, &memory::load(stack.memory_request()), &Styles::load(&stack.style_request()))
}

#[test]
fn all_is_well() {
    let world = World::new();
    world.json(USER, &json!({ "model": "m" }));
    world.write("project/CLAUDE.md", "hello");
    let found = examine(&world);
    assert!(found.iter().all(|check| check.status == CheckStatus::Ok), "{found:?}");
    let names: Vec<&str> = found.iter().map(|check| check.name).collect();
    assert_eq!(names, ["settings", "permissions", "trust", "memory", "output style"]);
    assert_eq!(found[3].detail, "1 memory files with 5 bytes");
}

#[test]
fn everything_that_is_wrong_is_there() {
    let world = World::new();
    world.json(USER, &json!({ "modle": "m", "outputStyle": "Nope" }));
    world.json(PROJECT, &json!({ "permissions": { "allow": ["Bash"] } }));
    world.write("project/.claude/settings.local.json", "{");
    world.write("project/.claude/.settings.json.lathe-tmp", "half");
    world.write("project/CLAUDE.md", b"\0");
    let found = examine(&world);
    let of = |status: CheckStatus| {
        let found = found.iter().filter(|check| check.status == status);
        found.map(|check| (check.name, check.hint.is_some())).collect::<Vec<_>>()
    };
    assert_eq!(of(CheckStatus::Fail), [("settings", false)]);
    assert_eq!(
        of(CheckStatus::Warn),
        [
            ("settings", true),
            ("trust", false),
            ("memory", false),
            ("output style", true),
            ("leftovers", true)
        ]
    );
}
