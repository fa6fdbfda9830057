//! A folder that brings one item of every kind of content, with the built program: untrusted nothing of it runs, allows or
//! is sent anywhere, and the host hears of each; after `lathe trust` all of it counts that has a feature; what changes
//! later is withheld again, alone.
//!
//! The folder is `conformance/fixtures/one-of-each.json`, which the tests of the official SDKs use too.
#![allow(clippy::disallowed_methods, reason = "tests work on real files, and git is a program")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use lathe_testkit::{Finished, TestContext};
use serde_json::{Value, json};

const SETTINGS: &str = ".claude/settings.json";
const STREAM: [&str; 4] = ["-p", "--output-format", "stream-json", "--verbose"];
const TALK: [&str; 6] =
    ["-p", "--output-format", "stream-json", "--verbose", "--input-format", "stream-json"];

fn context(script: &Value) -> TestContext {
    TestContext::new(&script.to_string()).binary(env!("CARGO_BIN_EXE_lathe"))
}

fn fixture() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/fixtures/one-of-each.json");
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// Lays the files of the fixture out in a folder.
fn lay_out(folder: &Path) {
    for (path, content) in fixture()["files"].as_object().unwrap() {
        let text = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::create_dir_all(folder.with_file_name("outside")).unwrap();
}

/// A model that tries in each of `runs` runs what the folder would allow.
fn trying(runs: usize) -> TestContext {
    let call = |name: &str, input: Value| json!({"tools": [{"name": name, "input": input}]});
    let turns = (0..runs).flat_map(|_| {
        [
            call("Bash", json!({"command": "touch canary-rule"})),
            call("Write", json!({"file_path": "canary-mode", "content": "x"})),
            call("Write", json!({"file_path": "../outside/canary-directory", "content": "x"})),
            call("Bash", json!({"command": "touch forbidden"})),
            call("Bash", json!({"command": "printenv CANARY_VARIABLE"})),
            json!({"text": "done"}),
        ]
    });
    context(&turns.collect())
}

/// One run. What it prints of the variable is allowed, so that the variable can be seen.
fn go(context: &TestContext) -> Finished {
    let flags = ["--allowedTools", "Bash(printenv *)", "--", "go"];
    context.run(&STREAM.into_iter().chain(flags).collect::<Vec<_>>()).success()
}

/// Everything that ran or was allowed, and what it left is taken away.
fn canaries(context: &TestContext) -> Vec<String> {
    let mut found = Vec::new();
    for folder in [context.cwd().to_owned(), context.cwd().with_file_name("outside")] {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with("canary") || name == "forbidden" {
                if path.is_dir() {
                    fs::remove_dir_all(path).unwrap()
                } else {
                    fs::remove_file(path).unwrap()
                }
                found.push(name);
            }
        }
    }
    found.sort();
    found
}

/// The frames that say what is withheld.
fn notices(finished: &Finished) -> Vec<Value> {
    let is_notice = |line: &Value| line["subtype"] == "informational" && line["tag"] == "workspace_untrusted";
    finished.lines().into_iter().filter(is_notice).collect()
}

fn counts(list: &Value) -> BTreeMap<String, u64> {
    let entries = list.as_array().unwrap().iter();
    entries
        .map(|entry| (entry["kind"].as_str().unwrap().to_owned(), entry["count"].as_u64().unwrap()))
        .collect()
}

fn says_nothing(finished: &Finished) {
    assert_eq!(notices(finished), Vec::<Value>::new());
    assert_eq!(finished.stderr, "");
}

fn trust(context: &TestContext) -> Finished {
    context.run(&["trust", "--yes"]).success()
}

#[test]
fn nothing_of_an_untrusted_folder_runs_and_the_host_hears_of_each() {
    let context = trying(1);
    lay_out(context.cwd());
    let finished = go(&context);
    assert_eq!(canaries(&context), Vec::<String>::new());
    let lines = finished.lines();
    let init = lines.iter().find(|line| line["subtype"] == "init").unwrap();
    assert_eq!((&init["permissionMode"], &init["output_style"]), (&json!("default"), &json!("Canary")));
    assert_eq!(init["additional_directories"], json!([]));
    assert!(!finished.stdout.contains("\"of the folder\""), "the variable was there");
    let requests = context.server().requests();
    assert!(requests.iter().all(|request| request.headers.iter().all(|(name, _)| name != "x-canary")));
    let first = requests[0].json().to_string();
    for text in ["STYLE-OF-THE-FOLDER", "MEMORY-OF-THE-FOLDER", "kept in its repository"] {
        assert!(first.contains(text), "{text} counts as text");
    }

    let notices = notices(&finished);
    assert_eq!(notices.len(), 1, "one frame a session");
    let (facts, expected) = (&notices[0]["workspace_trust"], fixture());
    for list in ["withheld", "text_only", "in_force"] {
        let expected: BTreeMap<String, u64> = serde_json::from_value(expected[list].clone()).unwrap();
        assert_eq!(counts(&facts[list]), expected, "{list}");
    }
    let line = format!("lathe trust {}", context.cwd().display());
    assert_eq!(facts["command"], line);
    let content = notices[0]["content"].as_str().unwrap();
    for words in ["3 hooks", "2 MCP servers", "1 language server", "1 agent, 1 skill, 1 command", &line] {
        assert!(content.contains(words), "{words:?} is missing in {content:?}");
    }
    let place = lines.iter().position(|line| line["tag"] == "workspace_untrusted").unwrap();
    assert!(place > lines.iter().position(|line| line["subtype"] == "init").unwrap(), "init comes first");

    let doctor = context.run(&["doctor"]);
    assert!(doctor.stdout.contains("warn  trust") && doctor.stdout.contains("3 hooks"), "{}", doctor.stdout);
}

/// Every kind that can be withheld is in the fixture, so a new kind without an item here fails.
#[test]
fn the_fixture_has_an_item_of_every_kind() {
    let fixture = fixture();
    for kind in lathe_settings::ContentKind::ALL {
        let lists = ["withheld", "text_only", "in_force"];
        assert!(
            lists.iter().any(|list| fixture[*list][kind.as_str()].is_u64()),
            "{kind:?} is not in the fixture"
        );
    }
}

#[test]
fn after_trust_everything_that_exists_takes_effect_and_the_second_run_says_nothing() {
    let context = trying(2);
    lay_out(context.cwd());
    let finished = go(&context);
    assert!(finished.stderr.contains(&format!("run: lathe trust {}", context.cwd().display())));
    assert_eq!(canaries(&context), Vec::<String>::new());

    let shown = trust(&context).stdout;
    for text in [
        "touch canary-hook\n",
        "Bash(touch canary-rule)\n",
        "../outside\n",
        "acceptEdits\n",
        "touch canary-helper; echo key-of-the-folder\n",
        "env.CANARY_VARIABLE",
        "x-canary: of the folder\n",
        "touch canary-mcp-server\n",
        ".claude/agents/canary.md",
    ] {
        assert!(shown.contains(text), "{text:?} was not shown in {shown}");
    }
    let store = context.home().join(".claude/lathe-trust.json");
    assert_eq!(fs::metadata(&store).unwrap().permissions().mode() & 0o777, 0o600);

    let finished = go(&context);
    says_nothing(&finished);
    let mut expected: Vec<String> = serde_json::from_value(fixture()["trusted"].clone()).unwrap();
    expected.extend(["canary-rule", "canary-mode", "canary-directory"].map(str::to_owned));
    expected.sort();
    assert_eq!(canaries(&context), expected, "what is forbidden stays forbidden");
    assert!(finished.stdout.contains("\"of the folder\""), "the variable is there");
    let last = context.server().requests().pop().unwrap();
    assert!(last.headers.contains(&("x-canary".to_owned(), "of the folder".to_owned())));
}

#[test]
fn a_helper_runs_only_in_a_trusted_folder() {
    let context = context(&json!([{"text": "Hello."}])).without_env("ANTHROPIC_API_KEY");
    lay_out(context.cwd());
    let finished = context.run(&["-p", "hi"]);
    assert_eq!((finished.code, context.server().request_count()), (Some(1), 0), "{}", finished.stderr);
    assert_eq!(canaries(&context), Vec::<String>::new());
    trust(&context);
    let finished = context.run(&["-p", "hi"]).success();
    assert!(finished.stdout.contains("Hello."));
    assert!(canaries(&context).contains(&"canary-helper".to_owned()));
}

/// CI-030: the folder was trusted, and then a pull brought another hook.
#[test]
fn after_one_changed_byte_only_that_hook_is_withheld() {
    let context = trying(2);
    lay_out(context.cwd());
    trust(&context);
    context.write(
        SETTINGS,
        &context.read(SETTINGS).replace("touch canary-second-hook", "touch canary-second-hooj"),
    );
    let finished = go(&context);
    let found = canaries(&context);
    assert!(!found.iter().any(|name| name.starts_with("canary-second")), "{found:?}");
    for name in ["canary-hook", "canary-local-hook", "canary-rule", "canary-mode", "canary-directory"] {
        assert!(found.contains(&name.to_owned()), "{name} is still trusted: {found:?}");
    }
    let notices = notices(&finished);
    assert_eq!(counts(&notices[0]["workspace_trust"]["withheld"]), BTreeMap::from([("hooks".to_owned(), 1)]));
    for text in [&finished.stderr, notices[0]["content"].as_str().unwrap()] {
        assert!(text.contains("touch canary-second-hooj") && text.contains("changed"), "{text}");
    }
    let shown = trust(&context).stdout;
    assert_eq!(shown.matches("(changed)").count(), 1, "{shown}");
    says_nothing(&go(&context));
    assert!(canaries(&context).contains(&"canary-second-hooj".to_owned()));
}

#[test]
fn hosts_can_vouch_for_a_folder_and_settings_files_cannot() {
    let context = trying(4);
    lay_out(context.cwd());
    let user = json!({"env": {"LATHE_TRUST_WORKSPACE": "1"}}).to_string();
    context.write_home(".claude/settings.json", &user);
    let mut settings: Value = serde_json::from_str(&context.read(SETTINGS)).unwrap();
    settings["env"]["LATHE_TRUST_WORKSPACE"] = "1".into();
    context.write(SETTINGS, &settings.to_string());
    assert_eq!(notices(&go(&context)).len(), 1);
    assert_eq!(canaries(&context), Vec::<String>::new());

    let flags = ["--trust-workspace", "--allowedTools", "Bash(printenv *)", "--", "go"];
    let by_flag = context.run(&STREAM.into_iter().chain(flags).collect::<Vec<_>>()).success();
    says_nothing(&by_flag);
    assert!(canaries(&context).contains(&"canary-hook".to_owned()));
    for (value, is_trusted) in [("1", true), ("never", false)] {
        let context = trying(1).env("LATHE_TRUST_WORKSPACE", value);
        lay_out(context.cwd());
        assert_eq!(notices(&go(&context)).is_empty(), is_trusted);
        assert_eq!(canaries(&context).is_empty(), !is_trusted);
    }
}

/// A command may start a session in a folder that the host did not vouch for.
#[test]
fn children_do_not_inherit_the_word_of_the_host() {
    let call = |command: &str| json!({"tools": [{"name": "Bash", "input": {"command": command}}]});
    let context = context(&json!([call("env"), {"text": "done"}])).env("LATHE_TRUST_WORKSPACE", "1");
    let flags = ["--allowedTools", "Bash", "--", "go"];
    let hook =
        json!({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "env > seen"}]}]}});
    context.write(SETTINGS, &hook.to_string());
    let finished = context.run(&STREAM.into_iter().chain(flags).collect::<Vec<_>>()).success();
    assert!(context.read("seen").contains("CLAUDECODE=1"), "the hook ran and saw an environment");
    assert!(!context.read("seen").contains("LATHE_TRUST_WORKSPACE"));
    assert!(finished.stdout.contains("CLAUDECODE=1") && !finished.stdout.contains("LATHE_TRUST_WORKSPACE"));
}

#[test]
fn the_command_refuses_without_a_terminal_and_can_be_looked_at_listed_and_undone() {
    let context = trying(1);
    let nothing = context.run(&["trust"]).success();
    assert!(nothing.stdout.contains("brings nothing that needs trust"), "{}", nothing.stdout);
    lay_out(context.cwd());
    let refused = context.run(&["trust"]);
    assert_eq!(refused.code, Some(1));
    let line = format!("lathe trust --yes {}", context.cwd().display());
    assert!(
        refused.stdout.contains("touch canary-hook") && refused.stderr.contains(&line),
        "{}",
        refused.stderr
    );

    let look = context.run(&["trust", "--json"]).success();
    let look: Value = serde_json::from_str(&look.stdout).unwrap();
    assert_eq!((&look["remembered"], &look["trusted_by"]), (&json!(false), &json!("untrusted")));
    let items = look["items"].as_array().unwrap();
    assert_eq!(items.len(), 22);
    assert!(items.iter().all(|item| item["state"] == "new" && item["hash"].as_str().unwrap().len() == 64));
    assert!(!context.home().join(".claude/lathe-trust.json").exists(), "a look changes nothing");

    // From elsewhere, by a link to the folder.
    let link = context.home().join("link");
    symlink(context.cwd(), &link).unwrap();
    context.run(&["trust", "--yes", "--json", link.to_str().unwrap()]).success();
    let listed = context.run(&["trust", "--list"]).success().stdout;
    assert_eq!(listed, format!("{}  22 items\n", context.cwd().display()));
    let again = context.run(&["trust"]).success();
    assert!(again.stdout.contains("All of it is trusted already."), "nothing is asked twice");
    context.run(&["trust", "--remove"]).success();
    assert_eq!(context.run(&["trust", "--list", "--json"]).success().stdout.trim(), "[]");
    assert_eq!(context.run(&["trust", "--remove"]).code, Some(1));
    go(&context);
    assert_eq!(canaries(&context), Vec::<String>::new());
    for wrong in
        [&["trust", "--all"][..], &["trust", "--list", "--yes"], &["trust", "a", "b"], &["trust", "/nowhere"]]
    {
        assert_eq!(context.run(wrong).code, Some(1), "{wrong:?}");
    }
}

#[test]
fn the_mark_of_the_state_file_trusts_the_whole_folder() {
    let context = trying(1);
    lay_out(context.cwd());
    let key = context.cwd().to_str().unwrap();
    let state = json!({"projects": {key: {"hasTrustDialogAccepted": true}}});
    context.write_home(".claude.json", &state.to_string());
    let shown = context.run(&["trust"]).success().stdout;
    assert!(shown.contains("All of it counts already"), "{shown}");
    says_nothing(&go(&context));
    assert!(canaries(&context).contains(&"canary-hook".to_owned()));
}

/// A person who is asked about a command must see the command.
#[test]
fn what_is_shown_cannot_hide_or_paint_over_anything() {
    let context = context(&json!([{"text": "Hello."}]));
    let command = "touch a\u{1b}[2K\r\u{202e}b\nrm c";
    let hook = json!({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]},
        "env": {"A\u{1b}]0;x\u{7}": "1"}});
    context.write(SETTINGS, &hook.to_string());
    for finished in [context.run(&["-p", "hi"]).success(), context.run(&["trust"])] {
        let text = format!("{}{}", finished.stdout, finished.stderr);
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{7}', '\r']), "{text:?}");
    }
    let shown = context.run(&["trust"]).stdout;
    assert!(shown.contains("      touch a\\u{1b}[2K\\r\\u{202e}b\n      rm c\n"), "{shown}");
}

fn git(folder: &Path, words: &[&str]) {
    let fixed = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"];
    let output = Command::new("git")
        .current_dir(folder)
        .args(fixed)
        .args(words)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .expect("git is there");
    assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A repository of the files in a folder.
fn commit(folder: &Path) {
    git(folder, &["init", "-q", "-b", "main"]);
    git(folder, &["add", "-A", "-f"]);
    git(folder, &["commit", "-q", "-m", "all"]);
}

/// Trust that was given to the place the clone came from, or to another clone, is not the clone's.
#[test]
fn a_clone_brings_no_trust_also_with_submodules() {
    for has_submodule in [false, true] {
        let context = trying(2);
        let (source, part) = (context.home().join("source"), context.home().join("part"));
        lay_out(&source);
        if has_submodule {
            fs::rename(source.join(".claude"), &part).unwrap();
            commit(&part);
            commit(&source);
            // A blank at the end of the name once hid the submodule from a check of ours.
            let part = part.to_str().unwrap();
            git(&source, &["submodule", "--quiet", "add", "--name", "x ", part, ".claude"]);
            git(&source, &["commit", "-q", "-m", "settings"]);
        } else {
            commit(&source);
        }
        context.run(&["trust", "--yes", source.to_str().unwrap()]).success();
        let (from, to) = (source.to_str().unwrap(), context.cwd().to_str().unwrap());
        git(context.home(), &["clone", "-q", "--recurse-submodules", from, to]);
        fs::create_dir_all(context.cwd().with_file_name("outside")).unwrap();
        assert!(context.read(SETTINGS).contains("canary-hook"), "the clone has the settings");
        let finished = go(&context);
        assert_eq!(canaries(&context), Vec::<String>::new(), "with a submodule: {has_submodule}");
        assert_eq!(notices(&finished).len(), 1);
        trust(&context);
        says_nothing(&go(&context));
        assert!(canaries(&context).contains(&"canary-hook".to_owned()));
    }
}

/// However `.claude` is made, it widens nothing before it is trusted, and after that only what was shown.
#[test]
fn odd_forms_of_the_folder_of_settings_widen_nothing() {
    type Make<'a> = &'a dyn Fn(&Path);
    let inside = |folder: &Path| {
        fs::rename(folder.join(".claude"), folder.join("elsewhere")).unwrap();
        symlink("elsewhere", folder.join(".claude")).unwrap();
    };
    let outside = |folder: &Path| {
        fs::rename(folder.join(".claude"), folder.with_file_name("elsewhere")).unwrap();
        symlink("../elsewhere", folder.join(".claude")).unwrap();
    };
    let other_case = |folder: &Path| fs::rename(folder.join(".claude"), folder.join(".Claude")).unwrap();
    let other_case_linked = |folder: &Path| {
        other_case(folder);
        symlink(".Claude", folder.join(".claude")).unwrap();
    };
    let file = |folder: &Path| {
        fs::remove_dir_all(folder.join(".claude")).unwrap();
        fs::write(folder.join(".claude"), fixture()["files"][SETTINGS].to_string()).unwrap();
    };
    // Where the settings are read, the session starts and nothing counts; a name in another case is no such folder here.
    let readable: [(&str, Make<'_>); 5] = [
        ("a link inside", &inside),
        ("a link outside", &outside),
        ("another case", &other_case),
        ("a link to another case", &other_case_linked),
        ("a file", &file),
    ];
    for (name, make) in readable {
        let context = trying(1);
        lay_out(context.cwd());
        make(context.cwd());
        assert_eq!(notices(&go(&context)).len(), 1, "{name}");
        assert_eq!(canaries(&context), Vec::<String>::new(), "{name}");
    }
    // What may forbid something and cannot be read stops the start. A folder without rights stops a plain user; root
    // reads it all the same, so it is not trusted either.
    let loops = |folder: &Path| {
        fs::remove_dir_all(folder.join(".claude")).unwrap();
        symlink(".claude", folder.join(".claude")).unwrap();
    };
    let closed = |folder: &Path| {
        fs::set_permissions(folder.join(".claude"), fs::Permissions::from_mode(0o000)).unwrap();
    };
    let unreadable: [(&str, Make<'_>); 2] = [("a link to itself", &loops), ("no rights", &closed)];
    for (name, make) in unreadable {
        let context = trying(1);
        lay_out(context.cwd());
        make(context.cwd());
        let finished = context.run(&["-p", "go"]);
        assert_eq!(canaries(&context), Vec::<String>::new(), "{name}");
        let is_told = finished.stderr.contains("settings") && finished.stderr.contains(".claude");
        assert!(is_told, "{name}: {}", finished.stderr);
        let rights = fs::Permissions::from_mode(0o755);
        if name == "no rights" {
            fs::set_permissions(context.cwd().join(".claude"), rights).unwrap();
        }
    }
}

#[test]
fn settings_that_are_swapped_while_a_session_runs_widen_nothing() {
    let call =
        |name: &str| json!({"tools": [{"name": "Bash", "input": {"command": format!("touch {name}")}}]});
    let context = context(&json!([
        call("first"), {"text": "done"}, call("second"), {"text": "done"}, call("third"), {"text": "done"},
    ]));
    let hook = |command: &str| {
        let group = json!([{"hooks": [{"type": "command", "command": command}]}]);
        json!({"UserPromptSubmit": group, "Stop": group})
    };
    let rules = |rule: &str, command: &str| {
        json!({"permissions": {"allow": [rule]}, "hooks": hook(command)}).to_string()
    };
    context.write(SETTINGS, &rules("Bash(touch first)", "touch canary-trusted"));
    trust(&context);
    context.write("evil/settings.json", &rules("Bash(touch *)", "touch canary-evil"));
    context.write("evil/settings.local.json", &rules("Bash(touch *)", "touch canary-evil"));
    let mut running = context.start(&TALK);
    let mut prompt = || {
        running.send(&json!({"type": "user", "message": {"role": "user", "content": "go"}}));
        running.wait_for_type("result")
    };
    prompt();
    fs::rename(context.cwd().join(".claude"), context.cwd().join("mine")).unwrap();
    symlink("evil", context.cwd().join(".claude")).unwrap();
    prompt();
    // As a folder, too, and with a mark in the state file, which counts from the next start on.
    fs::remove_file(context.cwd().join(".claude")).unwrap();
    fs::rename(context.cwd().join("evil"), context.cwd().join(".claude")).unwrap();
    let key = context.cwd().to_str().unwrap();
    let state = json!({"projects": {key: {"hasTrustDialogAccepted": true}}});
    context.write_home(".claude.json", &state.to_string());
    prompt();
    running.close_stdin();
    running.finish().success();
    let has = |name: &str| context.cwd().join(name).exists();
    assert!(has("first") && has("canary-trusted"), "what was trusted counted before the swap");
    assert!(!has("second") && !has("third") && !has("canary-evil"));
}
