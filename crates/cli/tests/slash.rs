//! Slash commands that are prompts, and `/help`, against the built program. How the others are shown is compared with
//! recordings in `recordings.rs`.

use lathe_testkit::TestContext;
use serde_json::{Value, json};

const STREAM: [&str; 4] = ["-p", "--output-format", "stream-json", "--verbose"];

fn context() -> TestContext {
    let script = json!([{"text": "Written."}, {"text": "Again."}]);
    TestContext::new(&script.to_string()).binary(env!("CARGO_BIN_EXE_lathe"))
}

fn words<'a>(flags: &[&'a str], prompt: &'a str) -> Vec<&'a str> {
    STREAM.iter().chain(flags).chain(&["--", prompt]).copied().collect()
}

/// The texts of the last message of a request.
fn told(context: &TestContext, request: usize) -> Vec<String> {
    let body = context.server().requests()[request].json();
    let last = body["messages"].as_array().unwrap().last().unwrap().clone();
    let texts = last["content"].as_array().unwrap().iter();
    texts.filter_map(|block| Some(block["text"].as_str()?.to_owned())).collect()
}

#[test]
fn a_command_that_is_a_prompt_is_answered_by_the_model() {
    for (prompt, name, piece) in [
        ("/init", "init", "Write the file CLAUDE.md"),
        ("/review", "review", "Review a change to this project"),
        ("/security-review", "security-review", "Look for vulnerabilities"),
    ] {
        let context = context();
        let finished = context.run(&words(&[], prompt)).success();
        assert_eq!(finished.result()["result"], "Written.");
        assert_eq!(finished.result()["num_turns"], 1);
        let told = told(&context, 0);
        let typed =
            format!("<command-message>{name}</command-message>\n<command-name>/{name}</command-name>");
        assert!(told.contains(&typed), "{told:?}");
        assert!(told.iter().any(|text| text.starts_with(piece)), "{told:?}");
    }
}

#[test]
fn what_follows_the_name_goes_with_it_and_a_resume_has_both() {
    let context = context();
    context.run(&words(&[], "/review the branch fix-12")).success();
    let first = told(&context, 0);
    assert!(
        first.iter().any(|text| text.contains("<command-args>the branch fix-12</command-args>")),
        "{first:?}"
    );
    assert!(
        first.iter().any(|text| text.ends_with("The user says about it:\nthe branch fix-12")),
        "{first:?}"
    );
    let list = context.run(&["sessions", "list"]).success().stdout;
    assert!(list.contains("/review the branch fix-12"), "{list}");
    context.run(&words(&["--continue"], "and now?")).success();
    let messages = context.server().requests()[1].json()["messages"].to_string();
    assert!(
        messages.contains("Review a change to this project") && messages.contains("and now?"),
        "{messages}"
    );
}

#[test]
fn hooks_hear_what_was_typed_and_may_stop_it() {
    let context = context();
    let log = context.home().join("heard");
    let hear = format!("cat >> {0}; echo >> {0}", log.display());
    let hook = |command: &str| json!([{"hooks": [{"type": "command", "command": command}]}]);
    let settings = |expansion: &str| {
        json!({"hooks": {"UserPromptSubmit": hook(&hear), "UserPromptExpansion": hook(expansion)}})
            .to_string()
    };
    context.write_home(".claude/settings.json", &settings(&format!("{hear}; echo 'Use British spelling.'")));
    context.run(&words(&[], "/init please")).success();
    let heard: Vec<Value> = std::fs::read_to_string(&log)
        .unwrap()
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(heard[0]["hook_event_name"], "UserPromptSubmit");
    assert_eq!(heard[0]["prompt"], "/init please");
    assert_eq!(heard[1]["hook_event_name"], "UserPromptExpansion");
    let fields =
        ["expansion_type", "command_name", "command_args", "prompt"].map(|name| heard[1][name].clone());
    assert_eq!(fields, ["slash_command", "init", "please", "/init please"].map(Value::from));
    let body = context.server().requests()[0].json().to_string();
    assert!(body.contains("Use British spelling."), "{body}");
    context.write_home(".claude/settings.json", &settings("echo not today >&2; exit 2"));
    let refused = context.run(&words(&[], "/init")).success();
    assert!(refused.result()["result"].as_str().unwrap().contains("not today"), "{:?}", refused.result());
    assert_eq!(context.server().requests().len(), 1, "the model was not asked");
}

#[test]
fn help_names_the_commands_there_are() {
    let context = context();
    let finished = context.run(&words(&[], "/help")).success();
    let result = finished.result();
    let text = result["result"].as_str().unwrap();
    let init = finished.lines().into_iter().find(|line| line["subtype"] == "init").unwrap();
    let names = init["slash_commands"].as_array().unwrap();
    for name in names {
        assert!(text.contains(&format!("\n/{}", name.as_str().unwrap())), "{name}: {text}");
    }
    for line in [
        "/clear [name], also /reset, also /new: Begin a new session",
        "/init [wishes]: Write a CLAUDE.md",
        "/usage, also /cost, also /stats: Show what the session has used",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert_eq!((&result["num_turns"], &result["local_command"]), (&json!(0), &json!("help")));
    assert!(context.server().requests().is_empty());
}

#[test]
fn switched_off_commands_are_text() {
    let context = context();
    context.run(&words(&["--disable-slash-commands"], "/init")).success();
    assert_eq!(told(&context, 0).last().map(String::as_str), Some("/init"));
}
