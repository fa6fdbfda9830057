//! The engine against recorded sessions of the reference: same verdicts, same texts where clients look at them.
//!
//! Read in place, beside the repository, when they are there. Where we decide better, the difference is
//! listed here with its reason.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use lathe_permissions::{
    Decision, Denied, EngineConfig, PermissionScopeConfig, RuleSource, ShownAs, parse_rule_list,
    resolve_without_host,
};
use lathe_protocol::SettingsSource;
use lathe_protocol::permission::{PermissionBehavior, PermissionMode, PermissionUpdate};
use lathe_testkit::recordings;
use serde_json::Value;
use support::Rig;

/// One recorded call and what became of it.
struct Recorded {
    tool: String,
    input: Value,
    /// The `permission_denied` frame.
    denied: Option<Value>,
    /// The `can_use_tool` request.
    asked: Option<Value>,
    result: String,
    is_error: bool,
    /// `permission_decision` of the result: who decided, and the kind of reason.
    decided: Value,
}

struct Recording {
    argv: Vec<String>,
    cwd: String,
    calls: Vec<Recorded>,
}

fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn read(folder: &Path) -> Recording {
    let argv: Value = serde_json::from_str(&fs::read_to_string(folder.join("argv.json")).unwrap()).unwrap();
    let mut uses: BTreeMap<String, (String, Value)> = BTreeMap::new();
    let mut denied: BTreeMap<String, Value> = BTreeMap::new();
    let mut asked: BTreeMap<String, Value> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in lines(&folder.join("stdout.jsonl")) {
        for block in line["message"]["content"].as_array().into_iter().flatten() {
            let id = block["id"].as_str().or(block["tool_use_id"].as_str()).unwrap_or("").to_owned();
            match block["type"].as_str() {
                Some("tool_use") => {
                    uses.insert(id, (block["name"].as_str().unwrap().to_owned(), block["input"].clone()));
                }
                Some("tool_result") => {
                    let Some((tool, input)) = uses.get(&id).cloned() else { continue };
                    calls.push(Recorded {
                        tool,
                        input,
                        denied: denied.remove(&id),
                        asked: asked.remove(&id),
                        result: block["content"].as_str().unwrap_or("").to_owned(),
                        is_error: block["is_error"].as_bool().unwrap_or(false),
                        decided: line["tool_result_meta"][0]["permission_decision"].clone(),
                    });
                }
                _ => {}
            }
        }
        if line["subtype"] == "permission_denied" {
            denied.insert(line["tool_use_id"].as_str().unwrap().to_owned(), line.clone());
        }
        if line["request"]["subtype"] == "can_use_tool" {
            asked
                .insert(line["request"]["tool_use_id"].as_str().unwrap().to_owned(), line["request"].clone());
        }
    }
    let argv_list =
        argv["argv"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap().to_owned()).collect();
    Recording { argv: argv_list, cwd: argv["cwd"].as_str().unwrap().to_owned(), calls }
}

/// A project at some place on this machine that stands for the recorded one.
struct World {
    root: tempfile::TempDir,
    recorded: String,
}

impl World {
    fn new(cwd: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let world = Self { root, recorded: cwd.to_owned() };
        fs::create_dir_all(world.cwd().join("src")).unwrap();
        fs::write(world.cwd().join("a.txt"), "x\n").unwrap();
        fs::write(world.cwd().join(".env"), "x\n").unwrap();
        let outside = world.base().join("rec/runtime/outside");
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("o.txt"), "o\n").unwrap();
        symlink(outside.join("o.txt"), world.cwd().join("link.txt")).unwrap();
        world
    }

    fn base(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap()
    }

    fn cwd(&self) -> PathBuf {
        self.base().join(self.recorded.trim_start_matches('/'))
    }

    /// Recorded paths in terms of this machine.
    fn here(&self, text: &str) -> String {
        text.replace("/rec/", &format!("{}/rec/", self.base().display()))
    }

    fn here_value(&self, value: &Value) -> Value {
        serde_json::from_str(&self.here(&value.to_string())).unwrap()
    }
}

fn option<'a>(argv: &'a [String], name: &str) -> Option<&'a str> {
    argv.iter().position(|arg| arg == name).and_then(|at| argv.get(at + 1)).map(String::as_str)
}

fn engine(recording: &Recording, world: &World) -> Rig {
    let mode: PermissionMode =
        option(&recording.argv, "--permission-mode").unwrap_or("default").parse().unwrap();
    let config = EngineConfig { home: Some("/home/somebody".into()), ..EngineConfig::default() };
    let scope = PermissionScopeConfig { mode, working_dirs: vec![world.cwd()], bypass_available: true };
    let mut engine = Rig::new(config, scope);
    let settings: Value =
        serde_json::from_str(option(&recording.argv, "--settings").unwrap_or("{}")).unwrap();
    for (name, behavior) in [
        ("allow", PermissionBehavior::Allow),
        ("deny", PermissionBehavior::Deny),
        ("ask", PermissionBehavior::Ask),
    ] {
        let rules: Vec<String> = settings["permissions"][name]
            .as_array()
            .into_iter()
            .flatten()
            .map(|rule| world.here(rule.as_str().unwrap()))
            .collect();
        engine.add_rules(behavior, RuleSource::Settings(SettingsSource::Flag), rules);
    }
    if let Some(at) = recording.argv.iter().position(|arg| arg == "--allowedTools") {
        for rules in recording.argv[at + 1..].iter().take_while(|arg| !arg.starts_with("--")) {
            engine.add_rules(PermissionBehavior::Allow, RuleSource::CliArg, parse_rule_list(rules));
        }
    }
    engine
}

fn headless(decision: Decision, mode: PermissionMode) -> Option<Denied> {
    match decision {
        Decision::Allow(_) => None,
        Decision::Deny(denied) => Some(denied),
        Decision::Ask(asked) => Some(resolve_without_host(&asked, mode)),
    }
}

/// Calls that we decide otherwise, on purpose.
fn decided_better(name: &str, call: &Recorded) -> bool {
    let command = call.input["command"].as_str().unwrap_or("");
    let path = call.input["file_path"].as_str().unwrap_or("");
    match name {
        // The reference names the file that is read, we name the one that is written.
        "11_mode_default" if command.starts_with("cp ") => true,
        // The reference asks a model here; we say that plans are made without changing anything.
        "11_mode_plan" => {
            call.denied.as_ref().is_some_and(|frame| frame["decision_reason_type"] == "classifier")
        }
        // The reference has its own words for every reason a command is not understood.
        "07_hook_ups_ctx" => command == "echo $ZED",
        // A deny for `rm` also holds behind `find -exec` and in `bash -c`.
        "12_rules_deny_ask" => command.starts_with("find ") || command.starts_with("bash -c"),
        // A deny for `/vendor/**` holds for the vendor folder of the project.
        "12_rules_paths" => path.contains("/vendor/") || command.contains("vendor/"),
        _ => false,
    }
}

#[test]
fn headless_verdicts_and_reasons_are_those_of_the_reference() {
    let Some(folder) = recordings() else { return };
    let mut wrong = Vec::new();
    let mut seen = 0;
    for name in [
        "runtime/11_mode_default",
        "runtime/11_mode_dontAsk",
        "runtime/11_mode_bypass",
        "runtime/12_rules_allowedTools_cli",
        "runtime/12_rules_deny_ask",
        "runtime/12_rules_paths",
        "wire/denied",
        "wire/default_readonly",
        "wire/mode_dontask",
        "wire/allowed_forms",
        "runtime/11_mode_plan",
        "runtime/06_hooks",
        "runtime/07_hook_ups_ctx",
        "wire/write_edit_tools",
        "wire/basic_tool",
        "wire/tool_fail",
        "wire/parallel_writes",
        "wire/mcp_error",
        "wire/mcp_progress",
    ] {
        let recording = read(&folder.join(name));
        let world = World::new(&recording.cwd);
        let engine = engine(&recording, &world);
        let short = name.split('/').nth(1).unwrap();
        for call in &recording.calls {
            let input = world.here_value(&call.input);
            let decision = engine.decide(&call.tool, &input, &world.cwd());
            let granted = match &decision {
                Decision::Allow(allowed) => allowed.reason.wire_type().map(str::to_owned),
                Decision::Ask(_) | Decision::Deny(_) => None,
            };
            let denied = headless(decision, engine.scope.mode());
            seen += 1;
            if decided_better(short, call) {
                assert!(denied.is_some(), "{name}: {input}");
                continue;
            }
            // Refused by the tool before anybody asked for permission.
            if call.result.contains("has not been read yet") {
                continue;
            }
            let rejected = call.result.contains("denied by your permission settings")
                || call.result.contains("covered by a Read deny rule");
            if denied.is_some() != (call.denied.is_some() || rejected) {
                wrong.push(format!("{name}: {} {input} -> {denied:?}", call.tool));
                continue;
            }
            let Some(denied) = denied else {
                let theirs = call.decided["reason_type"].as_str();
                if call.decided.is_object() && granted.as_deref() != theirs {
                    wrong.push(format!("{name}: {input}: allowed by {granted:?}, not {theirs:?}"));
                }
                continue;
            };
            assert!(call.is_error);
            if rejected {
                assert_eq!(denied.shown_as, ShownAs::ToolUseError, "{input}");
                assert_eq!(format!("<tool_use_error>{}</tool_use_error>", denied.message), call.result);
                continue;
            }
            let frame = call.denied.as_ref().unwrap();
            if denied.reason.wire_type() != frame["decision_reason_type"].as_str() {
                wrong.push(format!(
                    "{name}: {input}: {:?} is not {}",
                    denied.reason, frame["decision_reason_type"]
                ));
            }
            let text = frame["message"].as_str().unwrap();
            if !same_opening(&denied.message, &world.here(text)) {
                wrong.push(format!("{name}: {input}:\n  {}\n  {text}", denied.message));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {seen} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(seen > 100, "only {seen} calls");
}

/// The part of a text that clients look at: all of it when it is short and fixed, else how it starts.
fn same_opening(ours: &str, theirs: &str) -> bool {
    for opening in ["needs approval.", "was blocked.", "operation detected", "has been denied because"] {
        if let Some(at) = theirs.find(opening) {
            return ours.starts_with(&theirs[..at + opening.len()]);
        }
    }
    // The reference names the failing part of a pipeline, we name the whole command.
    if theirs.starts_with("Permission to use Bash with command") {
        return ours.starts_with("Permission to use Bash with command") && ours.ends_with("has been denied.");
    }
    ours == theirs
}

#[test]
fn questions_offer_what_the_reference_offers() {
    let Some(folder) = recordings() else { return };
    let mut seen = 0;
    for name in [
        "wire/bi_can_use_allow_noinput",
        "runtime/19_cut_bash_allow_noinput",
        "runtime/19_cut_readout",
        "runtime/19_cut_webfetch",
        "runtime/19_cut_write",
        "runtime/19_cut_askq",
        "wire/mcp_sdk_flag",
    ] {
        let recording = read(&folder.join(name));
        let world = World::new(&recording.cwd);
        let engine = engine(&recording, &world);
        for call in &recording.calls {
            let Some(frame) = &call.asked else { continue };
            let frame = world.here_value(frame);
            let input = world.here_value(&call.input);
            let decision = engine.decide(&call.tool, &input, &world.cwd());
            let Decision::Ask(asked) = decision else { panic!("{name}: {input} is {decision:?}") };
            seen += 1;
            assert_eq!(asked.reason.wire_type(), frame["decision_reason_type"].as_str(), "{name}: {input}");
            assert_eq!(asked.reason.text().as_deref(), frame["decision_reason"].as_str(), "{name}: {input}");
            let blocked = asked.blocked_path.as_deref().map(|path| path.display().to_string());
            assert_eq!(blocked.as_deref(), frame["blocked_path"].as_str(), "{name}: {input}");
            let offered: Vec<PermissionUpdate> = serde_json::from_value(
                frame.get("permission_suggestions").cloned().unwrap_or(Value::Array(Vec::new())),
            )
            .unwrap();
            assert_eq!(asked.suggestions, offered, "{name}: {input}");
            let interaction = frame["requires_user_interaction"].as_bool().unwrap_or(false);
            assert_eq!(asked.requires_user_interaction, interaction, "{name}: {input}");
        }
    }
    assert!(seen >= 10, "only {seen} questions");
}
