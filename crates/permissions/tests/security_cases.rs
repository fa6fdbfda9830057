//! Published bypasses as test cases: no attack is allowed, nothing that must run is asked about.
//!
//! The cases are read in place, from `security-cases.json` beside the repository, and are never copied. Each case is turned into an engine, a small real workspace and one call. What the engine alone
//! cannot express (start-up, protocol, sessions) is answered by tests elsewhere, named in
//! `security_cases_elsewhere.txt`; what nothing answers yet is listed with its reason in
//! `security_cases_pending.txt`. Both lists must be exact.
#![allow(clippy::disallowed_methods, reason = "a test makes a pipe with the program for it")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use lathe_permissions::{
    Decision, EngineConfig, HookVerdict, PermissionEngine, PermissionScopeConfig, RuleSource,
    resolve_without_host,
};
use lathe_protocol::permission::{PermissionBehavior, PermissionMode};
use lathe_protocol::{CallSubject, McpAccess, SettingsSource};
use serde_json::{Map, Value, json};
use support::Rig;

const PENDING: &str = include_str!("security_cases_pending.txt");
const ELSEWHERE: &str = include_str!("security_cases_elsewhere.txt");

struct Case {
    id: String,
    class: String,
    rules: String,
    input: Value,
    expected: String,
}

fn cases() -> Option<Vec<Case>> {
    let file = lathe_testkit::beside_repository("reference/security-cases.json")?;
    let cases: Vec<Value> = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let text = |case: &Value, name: &str| case[name].as_str().unwrap_or("").to_owned();
    Some(
        cases
            .iter()
            .map(|case| Case {
                id: text(case, "id"),
                class: text(case, "class"),
                rules: text(case, "rule_or_mode"),
                input: case["input"].clone(),
                expected: text(case, "expected"),
            })
            .collect(),
    )
}

/// The ids of a list with what stands behind them.
fn listed(list: &str) -> BTreeMap<String, String> {
    list.lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (id, reason) = line.split_once(' ').expect("an id and something about it");
            (id.to_owned(), reason.trim().to_owned())
        })
        .collect()
}

/// A workspace like the one the cases describe, somewhere in a temporary directory.
struct World {
    root: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let world = Self { root };
        for directory in [
            "ws/app/src/deep",
            "ws/app/crates/core",
            "ws/app/.git",
            "ws/app/secrets",
            "ws/app/vendored",
            "home/u",
        ] {
            fs::create_dir_all(world.path(directory)).unwrap();
        }
        let config = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n";
        for (file, text) in [
            ("ws/app/src/main.rs", "fn main() {}\n"),
            ("ws/app/src/a.rs", ""),
            ("ws/app/README.md", "# app\n"),
            ("ws/app/package.json", "{\"name\":\"app\"}\n"),
            ("ws/app/.env", "KEY=CANARY\n"),
            ("ws/app/.env.example", "KEY=\n"),
            ("ws/app/secrets/a", "x\n"),
            ("ws/app/.git/config", config),
            ("ws/app/.git/HEAD", "ref: refs/heads/main\n"),
            ("home/u/.bashrc", "\n"),
        ] {
            fs::write(world.path(file), text).unwrap();
        }
        world
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(relative)
    }

    fn workspace(&self) -> PathBuf {
        self.path("ws/app")
    }

    /// The paths of the case in terms of this world.
    fn translate(&self, text: &str) -> String {
        let base = self.path("");
        let base = base.to_str().unwrap().trim_end_matches('/');
        let mut text = text.replace("$WS", "/ws/app");
        for (from, to) in [("/ws/", "/ws/"), ("/home/u", "/home/u")] {
            text = text.replace(from, &format!("{base}{to}"));
        }
        text.replace("/w/x", &format!("{base}/w/x"))
    }

    fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => json!(self.translate(text)),
            other => other.clone(),
        }
    }

    /// What the setup of a case adds to the world. Fails for a setup nobody translated.
    fn prepare(&self, case: &Case) {
        let workspace = self.workspace();
        let home = self.path("home/u");
        let link = |target: &Path, name: &str| symlink(target, workspace.join(name)).unwrap();
        match case.id.as_str() {
            "RO-021" => {
                for name in ["objects", "refs"] {
                    fs::create_dir_all(workspace.join("vendored").join(name)).unwrap();
                }
                fs::write(workspace.join("vendored/HEAD"), "ref: refs/heads/main\n").unwrap();
                fs::write(
                    workspace.join("vendored/config"),
                    "[core]\nbare=false\nfsmonitor='touch /tmp/pwned;'\n",
                )
                .unwrap();
            }
            "RO-022" => {
                fs::write(workspace.join(".git/config"), "[core]\n\tfsmonitor = touch /tmp/pwned;\n").unwrap()
            }
            "RO-023" => {
                fs::write(workspace.join(".gitattributes"), "* diff=x\n").unwrap();
                fs::write(workspace.join(".git/config"), "[diff \"x\"]\n\ttextconv=touch /tmp/pwned;\n")
                    .unwrap();
            }
            "RO-036" => fs::write(workspace.join("rgrc"), "--pre=sh\n").unwrap(),
            "PC-048" => {
                let status =
                    std::process::Command::new("mkfifo").arg(workspace.join("fifo")).status().unwrap();
                assert!(status.success());
            }
            "PC-050" => fs::hard_link(home.join(".bashrc"), workspace.join("link-to-bashrc")).unwrap(),
            "SY-001" => link(Path::new("/etc/passwd"), "link"),
            "SY-002" => link(Path::new(".env"), "innocuous.txt"),
            "SY-003" => link(Path::new("/etc/cron.d"), "cron"),
            "SY-004" => {
                fs::create_dir_all(home.join(".ssh")).unwrap();
                link(&home.join(".ssh"), "docs");
            }
            "SY-005" => link(&home.join(".config/autostart/x.desktop"), "dangling"),
            "SY-006" => link(Path::new("loop"), "loop"),
            "SY-008" => link(&home.join(".zshenv"), "out.txt"),
            "SY-016" => link(Path::new("/"), "rootlink"),
            "SY-018" => link(&home.join(".jupyter/x.ipynb"), "nb.ipynb"),
            "SY-021" => symlink(&workspace, self.path("w")).unwrap(),
            _ => {}
        }
    }
}

/// What the text of `rule_or_mode` (and the setups that name rules) means.
#[derive(Default)]
struct Rules {
    mode: PermissionMode,
    rules: Vec<(PermissionBehavior, RuleSource, String)>,
    directories: Vec<PathBuf>,
    variables: BTreeMap<String, String>,
}

fn list(text: &str) -> Vec<String> {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The list that follows `name=` in a text.
fn named_list(text: &str, name: &str) -> Option<Vec<String>> {
    let start = text.find(&format!("{name}=["))? + name.len() + 1;
    let end = start + text[start..].find(']')? + 1;
    Some(list(&text[start..end]))
}

fn read_rules(case: &Case, world: &World) -> Rules {
    use PermissionBehavior::{Allow, Ask, Deny};
    let mut rules = Rules::default();
    let text = case.rules.as_str();
    if let Some(mode) = text.split("mode=").nth(1) {
        let name: String = mode.chars().take_while(char::is_ascii_alphabetic).collect();
        rules.mode = name.parse().unwrap();
    }
    let mut add = |behavior, source, texts: Vec<String>| {
        rules.rules.extend(texts.into_iter().map(|text| (behavior, source, world.translate(&text))));
    };
    let project = RuleSource::Settings(SettingsSource::Project);
    for (behavior, word) in [(Allow, "allow"), (Deny, "deny"), (Ask, "ask")] {
        if let Some(texts) = named_list(text, &format!("permissions.{word}")) {
            add(behavior, project, texts);
        } else if let Some(texts) = named_list(text, &format!(", {word}")) {
            add(behavior, project, texts);
        }
    }
    add(
        Ask,
        RuleSource::Settings(SettingsSource::Policy),
        named_list(text, "managed.ask").unwrap_or_default(),
    );
    add(
        Allow,
        RuleSource::Settings(SettingsSource::User),
        named_list(text, "user.allow").unwrap_or_default(),
    );
    if let Some(added) = named_list(text, "additionalDirectories") {
        rules.directories.extend(
            added.iter().map(|dir| PathBuf::from(dir.replace('~', world.path("home/u").to_str().unwrap()))),
        );
    }
    let mut add = |behavior, texts: &[&str]| {
        rules.rules.extend(texts.iter().map(|text| (behavior, project, world.translate(text))));
    };
    // Cases whose rules are written in words.
    match case.id.as_str() {
        "SY-003" => add(Allow, &["Edit(//ws/app/**)"]),
        "CI-033" => {
            add(Allow, &["toString", "__proto__"]);
            add(Deny, &["Bash(curl:*)"]);
        }
        "CI-046" => add(Deny, &["Read(./secrets/**)"]),
        "CI-047" => {
            rules.variables.insert("FOO".to_owned(), "bar".to_owned());
        }
        "BR-097" => add(Allow, &["AskUserQuestion"]),
        "MC-004" => add(Allow, &["mcp__github__*"]),
        "MC-006" => add(Allow, &["mcp__s"]),
        "MC-022" => add(Allow, &["mcp__fs__read_file"]),
        "SN-033" => add(Allow, &["WebFetch"]),
        "SN-035" => add(Allow, &["WebFetch(domain:allowed.test)"]),
        "SN-036" => add(Deny, &["WebFetch(domain:docs.pre.test)"]),
        "RX-029" => add(Allow, &["Bash(head:*)", "Bash(base64:*)", "Bash(wc:*)"]),
        "RX-026" => {
            for index in 0..2000 {
                add(Deny, &[&format!("Bash(denied{index}:*)")]);
                add(Allow, &[&format!("Bash(allowed{index}:*)")]);
            }
        }
        _ => {}
    }
    rules
}

fn engine(rules: Rules, world: &World) -> Rig {
    let mut working_dirs = vec![world.workspace()];
    working_dirs.extend(rules.directories);
    let config = EngineConfig {
        home: Some(world.path("home/u")),
        config_dir: Some(world.path("home/u/.claude")),
        variables: rules.variables,
        ..EngineConfig::default()
    };
    let scope = PermissionScopeConfig { mode: rules.mode, working_dirs, bypass_available: true };
    let mut engine = Rig::new(config, scope);
    for (behavior, source, text) in rules.rules {
        engine.add_rules(behavior, source, [text]);
    }
    engine
}

fn decide(case: &Case) -> Decision {
    let world = World::new();
    world.prepare(case);
    let engine = engine(read_rules(case, &world), &world);
    let call = case.input.get("tool_use").unwrap_or(&case.input);
    let tool = call.get("tool").or_else(|| call.get("name")).and_then(Value::as_str).expect("a tool");
    let mut input: Map<String, Value> = match call.get("input") {
        Some(Value::Object(input)) => input.clone(),
        _ => case.input.as_object().unwrap().clone(),
    };
    let cwd = input.remove("cwd").map_or(world.workspace(), |cwd| PathBuf::from(cwd.as_str().unwrap()));
    for name in ["kind", "tool", "shell", "sandbox"] {
        input.remove(name);
    }
    if let Some(generated) = input.remove("gen") {
        assert_eq!(generated, json!("'('*20000 + ')'*20000"), "{}", case.id);
        input.insert("command".to_owned(), json!(format!("{}{}", "(".repeat(20000), ")".repeat(20000))));
    }
    let input = Value::Object(input.into_iter().map(|(name, value)| (name, world.value(&value))).collect());
    let mut subject = support::subject(tool, &input);
    if let (CallSubject::McpTool { access, .. }, "MC-007") = (&mut subject, case.id.as_str()) {
        *access = McpAccess::ReadOnly;
    }
    let decision = engine.judge_subject(tool, &input, subject, &cwd).decision;
    // What a hook says comes on top.
    match case.id.as_str() {
        "HK-001" | "HK-021" => decision.after_hook(HookVerdict::Allow, tool),
        _ => decision,
    }
}

/// Whether the engine alone can answer a case.
fn is_expressible(case: &Case) -> bool {
    const FIRST: [&str; 6] = [
        "read-only-autoallow-bypass",
        "bash-rule-bypass",
        "path-containment",
        "symlink/TOCTOU",
        "config-injection",
        "mcp",
    ];
    // A class whose calls are about more than the decision, with those that are about the decision.
    const MORE: [&str; 13] = [
        "HK-001", "HK-021", "HK-022", "SN-031", "SN-033", "SN-035", "SN-036", "RX-010", "RX-026", "RX-027",
        "RX-029", "EN-005", "EN-013",
    ];
    let calls = matches!(case.input["kind"].as_str(), Some("tool" | "tool_gen"));
    let sandboxed = case.input.get("sandbox").is_some();
    (calls && !sandboxed && FIRST.contains(&case.class.as_str()))
        || MORE.contains(&case.id.as_str())
        || case.id == "PR-037"
}

fn verdict(decision: &Decision) -> &'static str {
    match decision {
        Decision::Allow(_) => "allow",
        Decision::Ask(_) => "ask",
        Decision::Deny(_) => "deny",
    }
}

/// A denial counts for a rejection, and what nobody may agree to in plan mode is a denial.
fn is_right(case: &Case, decision: &Decision) -> bool {
    match case.expected.as_str() {
        "reject" => matches!(decision, Decision::Deny(_)),
        expected => verdict(decision) == expected,
    }
}

#[test]
fn no_attack_is_allowed_and_nothing_harmless_is_asked_about() {
    let Some(cases) = cases() else { return };
    let (pending, elsewhere) = (listed(PENDING), listed(ELSEWHERE));
    let known: BTreeSet<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    let mut wrong = Vec::new();
    for id in pending.keys().chain(elsewhere.keys()).filter(|id| !known.contains(id.as_str())) {
        wrong.push(format!("{id} is listed but there is no such case"));
    }
    let mut run = 0;
    for case in &cases {
        let lists = [pending.contains_key(&case.id), elsewhere.contains_key(&case.id)];
        match (is_expressible(case), lists) {
            (true, [false, false]) => {
                run += 1;
                let decision = decide(case);
                if !is_right(case, &decision) {
                    wrong.push(format!(
                        "{} expected {}: {} -> {decision:?}",
                        case.id, case.expected, case.input
                    ));
                }
            }
            (false, [true, false] | [false, true]) => {}
            (false, [false, false]) => wrong.push(format!("{} is neither run nor listed", case.id)),
            (_, _) => wrong.push(format!("{} is listed although it is run, or listed twice", case.id)),
        }
    }
    assert!(wrong.is_empty(), "{} of {run} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(run > 230, "only {run} cases were run");
}

#[test]
fn what_is_answered_elsewhere_has_a_test_there() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (id, place) in listed(ELSEWHERE) {
        let (file, test) = place.split_once(' ').expect("a file and a test");
        let text =
            fs::read_to_string(crates.join(file)).unwrap_or_else(|error| panic!("{id}: {file}: {error}"));
        assert!(text.contains(&format!("fn {test}(")), "{id}: {file} has no test {test}");
    }
}

#[test]
fn a_denied_server_offers_no_tools() {
    // MC-008: what the model is not told of, it does not call.
    let mut engine = PermissionEngine::new(EngineConfig::default());
    engine.add_rules(PermissionBehavior::Deny, RuleSource::Settings(SettingsSource::User), ["mcp__s"]);
    assert!(engine.removes_tool("mcp__s__read", Some("s")).is_some());
    assert!(engine.removes_tool("mcp__other__read", Some("other")).is_none());
}

#[test]
fn a_question_in_a_headless_session_never_runs() {
    let Some(cases) = cases() else { return };
    for case in cases.iter().filter(|case| is_expressible(case)) {
        if let Decision::Ask(asked) = decide(case) {
            let denied = resolve_without_host(&asked, PermissionMode::DontAsk);
            assert!(denied.message.contains("don't ask mode"), "{}", case.id);
        }
    }
}
