//! Flags whose effect shows outside of the session: in requests to the model, and in which files are read. Those that
//! are only parsed have their tests in `plan.rs`.

use lathe_testkit::TestContext;
use serde_json::json;

fn context() -> TestContext {
    TestContext::new(r#"[{"text": "Done."}]"#).binary(env!("CARGO_BIN_EXE_lathe"))
}

fn words<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    let stream = ["-p", "--output-format", "stream-json", "--verbose"];
    stream.iter().chain(flags).chain(&["--", "go"]).copied().collect()
}

#[test]
fn a_task_budget_reaches_the_model() {
    let context = context();
    context.run(&words(&["--task-budget", "50000"])).success();
    let request = &context.server().requests()[0];
    let budget = &request.json()["output_config"]["task_budget"];
    assert_eq!(*budget, json!({"type": "tokens", "total": 50000}));
    let wrong = context.run(&words(&["--task-budget", "abc"]));
    assert_eq!(wrong.code, Some(1));
    assert_eq!(
        wrong.stderr,
        "error: option '--task-budget <tokens>' argument 'abc' is invalid. --task-budget must be a positive integer\n"
    );
}

#[test]
fn settings_come_from_the_checkout_that_is_named() {
    let context = context();
    let hook = |mark: &str| {
        json!({"hooks": {"SessionStart": [{"hooks": [
            {"type": "command", "command": format!("echo {mark} $CLAUDE_PROJECT_DIR $PWD")},
        ]}]}})
        .to_string()
    };
    context.write(".claude/settings.json", &hook("of-the-branch"));
    context.write("CLAUDE.md", "Advice of the branch.");
    let checkout = context.home().join("checkout");
    context.write_home("checkout/.claude/settings.json", &hook("of-the-checkout"));
    let state = json!({"projects": {checkout.to_str().unwrap(): {"hasTrustDialogAccepted": true}}});
    context.write_home(".claude.json", &state.to_string());
    let root = checkout.display().to_string();
    context.run(&words(&["--project-config-root", &root])).success();
    let body = context.server().requests()[0].json().to_string();
    let wanted = format!("of-the-checkout {root} {}", context.cwd().display());
    assert!(body.contains(&wanted) && !body.contains("of-the-branch"), "{body}");
    assert!(body.contains("Advice of the branch."), "{body}");
    for bad in ["relative", "/nowhere/at/all"] {
        let refused = context.run(&words(&["--project-config-root", bad]));
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""));
        assert!(refused.stderr.starts_with("Error: --project-config-root: "), "{}", refused.stderr);
    }
}
