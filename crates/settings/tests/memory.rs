//! Memory: what is told, in which order, and what is not.

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use insta::assert_snapshot;
use lathe_settings::Sources;
use lathe_settings::memory::{
    LoadReason, MAX_FILE_BYTES, MAX_FILES, MAX_TOTAL_BYTES, Memory, MemoryFile, MemoryRequest, OutsideFiles,
    ReadCheck, load,
};
use lathe_testkit::Normaliser;
use support::World;

fn request(world: &World) -> MemoryRequest {
    MemoryRequest {
        cwd: world.project(),
        home: Some(world.path("home")),
        config_dir: Some(world.path("home/.claude")),
        managed_dir: Some(world.path("managed")),
        ..MemoryRequest::default()
    }
}

/// The paths relative to the world, which is what tests name.
fn paths(world: &World, files: &[MemoryFile]) -> Vec<String> {
    let relative =
        |file: &MemoryFile| file.path.strip_prefix(world.path("")).unwrap_or(&file.path).to_owned();
    files.iter().map(|file| relative(file).display().to_string()).collect()
}

/// A line for each file, as an `InstructionsLoaded` hook is told about it. Paths begin at the root of the world.
fn described(world: &World, files: &[MemoryFile]) -> String {
    let line = |file: &MemoryFile| {
        let Some(input) = file.hook_input() else {
            return format!("{:?} (no hook) {}", file.kind, file.path.display());
        };
        let mut line = format!("{:<8}{:<17}{}", input.memory_type, input.load_reason, input.file_path);
        let globs = input.globs.map(|globs| globs.join(" "));
        let more = [
            (", imported by ", input.parent_file_path),
            (", for ", globs),
            (", read: ", input.trigger_file_path),
        ];
        more.into_iter().for_each(|(word, text)| line.extend(text.map(|text| format!("{word}{text}"))));
        line
    };
    let lines: Vec<String> = files.iter().map(line).collect();
    let root = world.project().parent().unwrap().display().to_string();
    Normaliser::default().replace(&root, "").numbered().text(&lines.join("\n"))
}

fn told(world: &World) -> Vec<String> {
    paths(world, load(request(world)).files())
}

fn problems(memory: &Memory) -> Vec<String> {
    memory.problems().iter().map(|problem| problem.message.clone()).collect()
}

#[test]
fn the_order_is_machine_user_and_from_the_root_down() {
    let world = World::new();
    for file in [
        "project/CLAUDE.local.md",
        "project/.claude/rules/b.md",
        "project/.claude/rules/a/z.md",
        "project/.claude/CLAUDE.md",
        "project/CLAUDE.md",
        "CLAUDE.md",
        "home/.claude/rules/mine.md",
        "home/.claude/CLAUDE.md",
        "managed/CLAUDE.md",
        "project/sub/CLAUDE.md",
    ] {
        world.write(file, format!("this is {file}"));
    }
    world.write("auto/MEMORY.md", "line\n".repeat(500));
    let memory = load(MemoryRequest {
        managed_text: Some("be kind".to_owned()),
        auto_dir: Some(world.path("auto")),
        ..request(&world)
    });
    assert_snapshot!(described(&world, memory.files()), @r"
    Managed session_start    /managed/CLAUDE.md
    Managed session_start    /managed/managed-settings.json
    User    session_start    /home/.claude/CLAUDE.md
    User    session_start    /home/.claude/rules/mine.md
    Project session_start    /CLAUDE.md
    Project session_start    /project/CLAUDE.md
    Project session_start    /project/.claude/CLAUDE.md
    Project session_start    /project/.claude/rules/a/z.md
    Project session_start    /project/.claude/rules/b.md
    Local   session_start    /project/CLAUDE.local.md
    Auto (no hook) /auto/MEMORY.md
    ");
    assert_eq!(memory.files()[10].content.lines().count(), 200);
    let text = memory.text().unwrap();
    let heading = format!("Contents of {} (", world.path("project/CLAUDE.md").display());
    assert!(
        text.contains(&heading) && text.contains("):\n\nthis is project/CLAUDE.md\n\nContents of "),
        "{text}"
    );
    assert!(memory.problems().is_empty(), "{:?}", memory.problems());
}

#[test]
fn sources_decide_what_is_read() {
    let world = World::new();
    for file in
        ["project/CLAUDE.local.md", "project/CLAUDE.md", "home/.claude/CLAUDE.md", "managed/CLAUDE.md"]
    {
        world.write(file, "x");
    }
    for (names, expected) in [
        ("", vec!["managed/CLAUDE.md"]),
        ("user", vec!["managed/CLAUDE.md", "home/.claude/CLAUDE.md"]),
        ("project", vec!["managed/CLAUDE.md", "project/CLAUDE.md"]),
        ("local", vec!["managed/CLAUDE.md", "project/CLAUDE.local.md"]),
    ] {
        let sources = Sources::parse(names.split(',')).unwrap();
        let memory = load(MemoryRequest { sources, ..request(&world) });
        assert_eq!(paths(&world, memory.files()), expected, "{names}");
    }
    // Below the home, the user's folder is not the project's.
    world.write("home/work/CLAUDE.md", "x");
    let sources = Sources { project: true, ..Sources::NONE };
    let memory = load(MemoryRequest { sources, cwd: world.path("home/work"), ..request(&world) });
    assert_eq!(paths(&world, memory.files()), ["managed/CLAUDE.md", "home/work/CLAUDE.md"]);
}

#[test]
fn nothing_to_tell_is_no_text() {
    let world = World::new();
    world.write("project/CLAUDE.md", "<!-- only a remark -->\n");
    assert_eq!(load(request(&world)).text(), None);
}

#[test]
fn agents_md_counts_where_nothing_else_does() {
    let world = World::new();
    world.write("AGENTS.md", "x");
    world.write("project/AGENTS.md", "x");
    assert_eq!(told(&world), ["AGENTS.md", "project/AGENTS.md"]);
    world.write("project/CLAUDE.md", "x");
    assert_eq!(told(&world), ["AGENTS.md", "project/CLAUDE.md"]);
    fs::remove_file(world.path("project/CLAUDE.md")).unwrap();
    symlink("AGENTS.md", world.path("project/CLAUDE.md")).unwrap();
    assert_eq!(told(&world), ["AGENTS.md", "project/CLAUDE.md"], "one file under two names is told once");
}

#[test]
fn imports_follow_their_file_up_to_four_hops() {
    let world = World::new();
    world
        .write("project/CLAUDE.md", "read @imp1.md and @docs/other.md, not `@imp5.md`\n```\n@imp5.md\n```\n");
    for n in 1..=5 {
        world.write(&format!("project/imp{n}.md"), format!("@imp{}.md", n + 1));
    }
    world.write("project/docs/other.md", "@../CLAUDE.md @other.md @missing.md @docs");
    let memory = load(request(&world));
    assert_snapshot!(described(&world, memory.files()), @r"
    Project session_start    /project/CLAUDE.md
    Project include          /project/imp1.md, imported by /project/CLAUDE.md
    Project include          /project/imp2.md, imported by /project/imp1.md
    Project include          /project/imp3.md, imported by /project/imp2.md
    Project include          /project/imp4.md, imported by /project/imp3.md
    Project include          /project/docs/other.md, imported by /project/CLAUDE.md
    ");
    assert!(memory.files()[0].content.contains("@imp1.md"), "the text stays as it is");
    assert!(memory.problems().is_empty());
}

#[test]
fn cycles_end() {
    let world = World::new();
    world.write("project/CLAUDE.md", "@a.md");
    world.write("project/a.md", "@b.md @a.md @CLAUDE.md");
    world.write("project/b.md", "@a.md");
    symlink(".", world.path("project/.claude/rules")).unwrap();
    world.write("project/.claude/r.md", "rule");
    symlink("..", world.path("project/.claude/up")).unwrap();
    assert_snapshot!(described(&world, load(request(&world)).files()), @r"
    Project session_start    /project/CLAUDE.md
    Project include          /project/a.md, imported by /project/CLAUDE.md
    Project include          /project/b.md, imported by /project/a.md
    Project session_start    /project/.claude/rules/r.md
    ");
}

#[test]
fn a_project_does_not_reach_outside_without_consent() {
    let world = World::new();
    world.write("home/.aws/credentials", "SECRET");
    world.write("outside.md", "OUTSIDE");
    world.write("project/CLAUDE.md", "@~/.aws/credentials @../outside.md @/etc/hostname");
    symlink(world.path("home/.aws/credentials"), world.path("project/CLAUDE.local.md")).unwrap();
    fs::create_dir_all(world.path("project/.claude/rules")).unwrap();
    symlink(world.path("home/.aws/credentials"), world.path("project/.claude/rules/x.md")).unwrap();
    symlink(world.path("home"), world.path("project/.claude/rules/dir")).unwrap();
    let memory = load(request(&world));
    assert_eq!(paths(&world, memory.files()), ["project/CLAUDE.md"]);
    let said = problems(&memory);
    assert!(said.iter().all(|message| message.contains("outside the project")), "{said:?}");
    assert!(said.len() >= 5, "{said:?}");

    let memory = load(MemoryRequest { outside: OutsideFiles::Approved, ..request(&world) });
    assert!(paths(&world, memory.files()).contains(&"project/../outside.md".to_owned()));

    let state = world.path("home/.claude.json");
    let look_up = || {
        load(MemoryRequest { outside: OutsideFiles::LookUp(state.clone()), ..request(&world) }).files().len()
    };
    assert_eq!(look_up(), 1, "no consent on record");
    let key = world.project().display().to_string();
    let consent = serde_json::json!({ "projects": { key: { "hasClaudeMdExternalIncludesApproved": true } } });
    world.json("home/.claude.json", &consent);
    assert!(look_up() > 1);

    // The user's own file may import what it likes.
    world.write("home/.claude/CLAUDE.md", "@~/../outside.md");
    let memory = load(MemoryRequest { sources: Sources { user: true, ..Sources::NONE }, ..request(&world) });
    assert_eq!(memory.files().len(), 2);
}

#[test]
fn a_project_is_the_whole_working_tree() {
    let world = World::new();
    world.write("project/.git/HEAD", "ref: refs/heads/main");
    world.write("project/shared.md", "shared");
    world.write("project/sub/CLAUDE.md", "@../shared.md");
    let memory = load(MemoryRequest { cwd: world.path("project/sub"), ..request(&world) });
    assert_eq!(paths(&world, memory.files()), ["project/sub/CLAUDE.md", "project/sub/../shared.md"]);
}

#[test]
fn denied_files_are_not_told() {
    let world = World::new();
    world.write("project/.env", "CANARY");
    world.write("project/CLAUDE.md", "@./.env");
    let denied = world.path("project/.env");
    let check = ReadCheck(Arc::new(move |path: &Path| path != denied));
    let memory = load(MemoryRequest { may_read: check, ..request(&world) });
    assert!(!memory.text().unwrap().contains("CANARY"));
    assert_eq!(problems(&memory), ["it is left out: a permission rule denies reading it"]);
}

#[test]
fn each_look_at_the_disk_brings_the_rules_of_its_moment() {
    let world = World::new();
    world.write("project/CLAUDE.md", "top");
    world.write("project/sub/CLAUDE.md", "CANARY");
    world.write("project/sub/x", "code");
    let (top, nested) = (world.path("project/CLAUDE.md"), world.path("project/sub/CLAUDE.md"));
    let but = |denied: &Path| {
        let denied = denied.to_owned();
        ReadCheck(Arc::new(move |path: &Path| path != denied))
    };
    // The rules that count are not those that the session began with.
    let mut memory = load(MemoryRequest { may_read: but(&nested), ..request(&world) });
    assert_eq!(memory.nested_for(Path::new("sub/x"), ReadCheck::default()).len(), 1);
    let mut memory = load(request(&world));
    assert_eq!(memory.nested_for(Path::new("sub/x"), but(&nested)), []);
    assert_eq!(
        paths(&world, memory.read_again(LoadReason::Compact, but(&top)).files()),
        Vec::<String>::new()
    );
}

#[test]
fn excluded_files_are_passed_over() {
    let world = World::new();
    for file in ["CLAUDE.md", "project/CLAUDE.md", "project/.claude/rules/a.md", "managed/CLAUDE.md"] {
        world.write(file, "x");
    }
    let excludes = vec![
        world.path("CLAUDE.md").display().to_string(),
        ".claude/rules/**".to_owned(),
        "managed/**".to_owned(),
    ];
    let memory = load(MemoryRequest { excludes, ..request(&world) });
    assert_eq!(paths(&world, memory.files()), ["managed/CLAUDE.md", "project/CLAUDE.md"]);
    let memory = load(MemoryRequest { excludes: vec!["{a".to_owned()], ..request(&world) });
    assert_eq!(memory.problems().len(), 1);
}

#[test]
fn rules_wait_for_their_paths() {
    let world = World::new();
    world.write("project/.claude/rules/always.md", "---\ndescription: x\n---\nalways");
    world.write("project/.claude/rules/ts.md", "---\npaths: **/*.{ts,tsx}\n---\nno any\n\n@../../style.md");
    world.write("project/.claude/rules/src.md", "---\npaths:\n  - \"src/**\"\n---\nsrc only");
    world.write("project/.claude/rules/odd.md", "---\npaths: [unclosed\n---\nodd");
    world.write("home/.claude/rules/mine.md", "---\npaths: src/*.ts\n---\nmine");
    world.write("project/style.md", "two spaces");
    world.write("project/src/a.ts", "code");
    world.write("project/lib/b.rs", "code");
    let mut memory = load(request(&world));
    assert_eq!(
        paths(&world, memory.files()),
        ["project/.claude/rules/always.md", "project/.claude/rules/odd.md"]
    );
    assert_eq!(memory.files()[0].content, "always");
    assert!(problems(&memory)[0].contains("`paths` are not understood"));

    assert!(memory.nested_for(&world.path("project/lib/b.rs"), ReadCheck::default()).is_empty());
    let read = world.path("project/src/a.ts");
    let due = memory.nested_for(&read, ReadCheck::default());
    assert_snapshot!(described(&world, &due), @r"
    User    path_glob_match  /home/.claude/rules/mine.md, for src/*.ts, read: /project/src/a.ts
    Project path_glob_match  /project/.claude/rules/src.md, for src/**, read: /project/src/a.ts
    Project path_glob_match  /project/.claude/rules/ts.md, for **/*.{ts,tsx}, read: /project/src/a.ts
    Project include          /project/.claude/rules/../../style.md, imported by /project/.claude/rules/ts.md, read: /project/src/a.ts
    ");
    assert_eq!(due[2].content.trim(), "no any\n\n@../../style.md");
    assert!(memory.nested_for(&read, ReadCheck::default()).is_empty(), "each is told once");
    assert!(!memory.text().unwrap().contains("src only"), "the beginning stays the beginning");
}

#[test]
fn folders_below_speak_when_something_there_is_read() {
    let world = World::new();
    world.write("project/CLAUDE.md", "top");
    for file in [
        "project/a/CLAUDE.md",
        "project/a/b/CLAUDE.local.md",
        "project/a/b/.claude/rules/r.md",
        "project/a/b/AGENTS.md",
        "project/a/b/code.rs",
        "project/a/other/CLAUDE.md",
        "project/node_modules/evil/CLAUDE.md",
        "project/node_modules/evil/index.js",
        "elsewhere/CLAUDE.md",
        "elsewhere/x",
    ] {
        world.write(file, format!("this is {file}"));
    }
    world.write("project/a/b/.claude/rules/later.md", "---\npaths: '*.md'\n---\nlater");
    let mut memory = load(request(&world));
    let due = memory.nested_for(Path::new("a/b/code.rs"), ReadCheck::default());
    assert_snapshot!(described(&world, &due), @r"
    Project nested_traversal /project/a/CLAUDE.md, read: a/b/code.rs
    Project nested_traversal /project/a/b/AGENTS.md, read: a/b/code.rs
    Project nested_traversal /project/a/b/.claude/rules/r.md, read: a/b/code.rs
    Local   nested_traversal /project/a/b/CLAUDE.local.md, read: a/b/code.rs
    ");
    world.write("project/a/b/note.md", "x");
    assert_eq!(
        paths(&world, &memory.nested_for(Path::new("a/b/note.md"), ReadCheck::default())),
        ["project/a/b/.claude/rules/later.md"]
    );
    for quiet in ["a/b/code.rs", "node_modules/evil/index.js", "../elsewhere/x", "missing/file", "CLAUDE.md"]
    {
        assert_eq!(memory.nested_for(Path::new(quiet), ReadCheck::default()), [], "{quiet}");
    }
    symlink(world.path("elsewhere"), world.path("project/link")).unwrap();
    assert_eq!(
        memory.nested_for(Path::new("link/x"), ReadCheck::default()),
        [],
        "a link does not bring what lies behind it"
    );
}

#[test]
fn odd_files_are_left_out_with_a_warning() {
    let world = World::new();
    world.write("project/CLAUDE.md", b"text \0 binary");
    world.write("project/.claude/CLAUDE.md", b"latin \xe9");
    fs::create_dir_all(world.path("project/CLAUDE.local.md")).unwrap();
    symlink("nowhere", world.path("CLAUDE.md")).unwrap();
    let memory = load(request(&world));
    assert_eq!(memory.files(), []);
    assert_snapshot!(problems(&memory).join("\n"), @r"
    it is a link to something that does not exist
    it is left out: it is not text
    it is left out: it is not UTF-8 text
    it is a directory, not a file
    ");
}

#[test]
fn hidden_characters_are_taken_out_and_reported() {
    let world = World::new();
    world.write("project/CLAUDE.md", "be\u{e0041}\u{e0042} good\u{202e}");
    let memory = load(request(&world));
    assert_eq!(memory.files()[0].content, "be good");
    assert!(problems(&memory)[0].starts_with("3 hidden characters"));
}

#[test]
fn there_are_bounds() {
    let world = World::new();
    world.write("project/CLAUDE.md", "0123456789abcde\n".repeat(20_000));
    let memory = load(request(&world));
    let file = &memory.files()[0];
    assert!(file.is_cut && file.content.len() as u64 <= MAX_FILE_BYTES && file.content.ends_with('e'));
    assert!(file.text().contains("left out"));
    assert_eq!(memory.problems().len(), 1);

    for n in 0..1500 {
        world.write(&format!("project/.claude/rules/{n}.md"), "r");
    }
    let memory = load(request(&world));
    assert!(memory.files().len() <= MAX_FILES);
    assert!(memory.problems().len() <= 100);

    let world = World::new();
    for n in 0..8 {
        world.write(&format!("project/.claude/rules/{n}.md"), "0123456789abcde\n".repeat(16_000));
    }
    let memory = load(request(&world));
    let bytes: usize = memory.files().iter().map(|file| file.content.len()).sum();
    assert!(bytes <= MAX_TOTAL_BYTES + MAX_FILE_BYTES as usize && memory.files().len() < 8);
    assert!(problems(&memory)[0].contains("it is left out: there are already"));
}

#[test]
fn a_compaction_loads_everything_anew() {
    let world = World::new();
    world.write("project/CLAUDE.md", "@a.md");
    world.write("project/a.md", "a");
    let memory = load(MemoryRequest { reason: LoadReason::Compact, ..request(&world) });
    assert_snapshot!(described(&world, memory.files()), @r"
    Project compact          /project/CLAUDE.md
    Project include          /project/a.md, imported by /project/CLAUDE.md
    ");
}

#[test]
fn a_folder_that_is_gone_is_no_trouble() {
    let memory =
        load(MemoryRequest { cwd: PathBuf::from("/nonexistent/folder"), ..MemoryRequest::default() });
    assert!(memory.files().is_empty() && memory.text().is_none());
}
