//! Laws of the engine, on generated rules and commands.

use std::path::Path;

use lathe_permissions::{Call, Decision, Engine, EngineConfig, RuleSource};
use lathe_protocol::permission::{PermissionBehavior, PermissionMode};
use proptest::prelude::*;
use serde_json::json;

const ROOT: &str = "/nowhere/project";

fn engine(mode: PermissionMode, allow: &[String], deny: &[String]) -> Engine {
    let mut engine = Engine::new(EngineConfig {
        mode,
        working_dirs: vec![ROOT.into()],
        home: Some("/nowhere/home".into()),
        bypass_available: true,
        ..EngineConfig::default()
    });
    engine.add_rules(
        PermissionBehavior::Allow,
        RuleSource::Session,
        allow.iter().map(|rule| format!("Bash({rule})")),
    );
    engine.add_rules(
        PermissionBehavior::Deny,
        RuleSource::Session,
        deny.iter().map(|rule| format!("Bash({rule})")),
    );
    engine
}

fn rank(engine: &Engine, command: &str) -> u8 {
    let input = json!({"command": command});
    match engine.decide(&Call { tool: "Bash", input: &input, cwd: Path::new(ROOT), ..Call::default() }) {
        Decision::Allow(_) => 0,
        Decision::Ask(_) => 1,
        Decision::Deny(_) => 2,
    }
}

fn command() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "ls",
        "ls -la src",
        "cat a b",
        "npm test",
        "npm run x",
        "git status",
        "git push",
        "rm x",
        "touch y",
        "curl z",
        "echo hi",
        "FOO=1 make",
        "timeout 5 make",
        "cd src",
        "make > out",
        "true",
        "find . -name x",
        "sed -i s/a/b/ f",
        "x=1",
        "sudo make",
    ])
    .prop_map(str::to_owned)
}

fn rules() -> impl Strategy<Value = Vec<String>> {
    let rule = prop::sample::select(vec![
        "npm test:*",
        "npm *",
        "git push",
        "git *",
        "rm *",
        "make",
        "make *",
        "* x",
        "touch y",
        "curl:*",
        "timeout *",
        "echo*",
    ]);
    prop::collection::vec(rule.prop_map(str::to_owned), 0..4)
}

fn mode() -> impl Strategy<Value = PermissionMode> {
    prop::sample::select(PermissionMode::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn adding_a_deny_never_widens(command in command(), allow in rules(), deny in rules(), more in rules(), mode in mode()) {
        let before = rank(&engine(mode, &allow, &deny), &command);
        let all: Vec<String> = deny.iter().chain(&more).cloned().collect();
        prop_assert!(rank(&engine(mode, &allow, &all), &command) >= before);
    }

    #[test]
    fn a_whole_is_no_freer_than_its_parts(
        first in command(), second in command(), allow in rules(), deny in rules(), mode in mode(),
        joint in prop::sample::select(vec![" && ", "; ", " | ", "\n", " || "]),
    ) {
        let engine = engine(mode, &allow, &deny);
        let whole = rank(&engine, &format!("{first}{joint}{second}"));
        prop_assert!(whole >= rank(&engine, &first), "{first} {joint:?} {second}");
        // The first part may have changed the directory, but never for the better.
        prop_assert!(whole >= rank(&engine, &second), "{first} {joint:?} {second}");
    }

    #[test]
    fn no_disguise_lifts_a_deny(
        word in prop::sample::select(vec!["curl", "rm", "git"]),
        disguise in prop::sample::select(vec![
            "sudo {}", "env A=1 {}", "echo $({})", "sh -c '{}'", "({})", "xargs {}", "A=1 {}", "timeout 5 {}", "\\{}", "/usr/bin/{}",
            "eval '{}'", "{ {}; }", "if {}; then ls; fi", "ls | {}", "nice {} x", "find . -exec {} \\;", "! {}", "f() { {}; }",
        ]),
        mode in mode(),
    ) {
        let deny = vec![format!("{word}:*")];
        let engine = engine(mode, &["*".to_owned()], &deny);
        let disguised = disguise.replace("{}", word);
        prop_assert_eq!(rank(&engine, &disguised), 2, "{}", disguised);
    }

    #[test]
    fn any_text_is_decided_and_never_crashes(text in "\\PC{0,60}", allow in rules(), mode in mode()) {
        rank(&engine(mode, &allow, &[]), &text);
    }

    #[test]
    fn any_soup_of_operators_is_decided_and_never_crashes(
        soup in prop::collection::vec(prop::sample::select(vec![
            "$(", "${", "$((", "))", ")", "}", "`", "'", "\"", "\\", "\n", "<<E\n", "\nE\n", "<(", "a", "=", "[", "]", "((", "{", ";", "&",
            "|", "if ", "then ", "fi", "case x in ", "esac", "for ", "do ", "done", "[[ ", " ]]", "#", " ", "é", "$'", "$\"", "!", "x=(",
        ]), 0..24),
    ) {
        rank(&engine(PermissionMode::Default, &[], &[]), &soup.concat());
    }

    #[test]
    fn what_does_not_parse_is_never_allowed(command in command(), broken in prop::sample::select(vec!["(", ")", "'", "\"", "$(", "`", "${", "<<E"])) {
        let text = format!("{command} {broken}");
        let engine = engine(PermissionMode::AcceptEdits, &["*".to_owned()], &[]);
        prop_assert!(rank(&engine, &text) >= 1, "{}", text);
    }
}
