//! Flags to plans and to the texts of their errors.

use super::*;

fn plan(words: &[&str]) -> Result<RunPlan, StartError> {
    let args = Args::parse(words.iter().map(|word| (*word).to_owned())).unwrap();
    make(&args, &LaunchEnvironment::default())
}

fn complaint(words: &[&str]) -> String {
    plan(words).unwrap_err().message
}

#[test]
fn formats_follow_the_rules_of_print_mode() {
    assert_eq!(plan(&["-p", "x"]).unwrap().output, OutputFormat::Text);
    assert_eq!(plan(&["--output-format", "json"]).unwrap().output, OutputFormat::Json);
    let list = plan(&["--output-format", "json", "--verbose"]).unwrap();
    assert_eq!(list.output, OutputFormat::JsonList);
    assert!(complaint(&["--output-format=stream-json"]).ends_with("requires --verbose"));
    assert!(complaint(&["--input-format=stream-json"]).contains("output-format=stream-json"));
    assert!(complaint(&["--include-partial-messages"]).contains("--print"));
    assert!(complaint(&["--replay-user-messages"]).contains("both"));
}

#[test]
fn limits_are_checked() {
    assert_eq!(plan(&["--max-turns", "0"]).unwrap().session.max_turns, None);
    assert_eq!(plan(&["--max-turns=3"]).unwrap().session.max_turns, Some(3));
    assert_eq!(
        complaint(&["--max-budget-usd", "-1"]),
        "error: option '--max-budget-usd <amount>' argument '-1' is invalid. --max-budget-usd must be a positive number greater than 0"
    );
}

#[test]
fn tools_can_be_none_some_or_all() {
    assert_eq!(plan(&["--tools", ""]).unwrap().session.tools, ToolChoice::Only(vec![]));
    assert_eq!(plan(&["--tools", "default"]).unwrap().session.tools, ToolChoice::Default);
    let some = ToolChoice::Only(vec!["Bash".into(), "Read".into()]);
    assert_eq!(plan(&["--tools", "Bash,Read"]).unwrap().session.tools, some);
}

#[test]
fn root_may_not_skip_permissions_outside_a_sandbox() {
    let args = Args::parse(["--dangerously-skip-permissions".to_owned()]).unwrap();
    let mut env = LaunchEnvironment { is_root: true, ..LaunchEnvironment::default() };
    assert_eq!(make(&args, &env).unwrap_err().reason, Some("bypass_root"));
    env.set("IS_SANDBOX", "1");
    assert!(make(&args, &env).is_ok());
}

#[test]
fn what_is_not_there_yet_says_so() {
    assert_eq!(
        complaint(&["--agents", "{}"]),
        "error: option '--agents <json>' is known but not supported by lathe yet"
    );
}

#[test]
fn flags_that_stay_away_say_why() {
    for (words, piece) in [
        (&["--safe-mode"][..], "what it leaves out is not published"),
        (&["--restricted"], "what it forbids is not published"),
        (&["--file", "file_1:a.txt"], "lathe speaks to nobody but the model"),
    ] {
        let text = complaint(words);
        assert!(text.starts_with(&format!("error: option '{}", words[0])) && text.contains(piece), "{text}");
    }
    for words in [
        &["--bg"][..],
        &["--tmux"],
        &["--cloud", "x"],
        &["--teleport"],
        &["--from-pr", "12"],
        &["--remote-control"],
        &["--environment", "e"],
        &["--desktop"],
        &["--await-claim"],
    ] {
        let text = complaint(words);
        let named = text.starts_with(&format!("error: option '{}", words[0]));
        assert!(named && text.ends_with("is known but not supported by lathe yet"), "{text}");
    }
}

#[test]
fn a_task_budget_is_a_positive_integer() {
    assert_eq!(plan(&["--task-budget=1000"]).unwrap().session.task_budget, Some(1000));
    assert_eq!(plan(&[]).unwrap().session.task_budget, None);
    for bad in ["abc", "0", "-1", "1.5", ""] {
        assert_eq!(
            complaint(&["--task-budget", bad]),
            format!(
                "error: option '--task-budget <tokens>' argument '{bad}' is invalid. --task-budget must be a \
                 positive integer"
            )
        );
    }
}

#[test]
fn a_worktree_has_a_sound_name_or_none() {
    assert_eq!(plan(&["--worktree"]).unwrap().session.worktree, Some(WorktreeTarget::Unnamed));
    let named = WorktreeTarget::Named(WorktreeName::parse("fix/1").unwrap());
    assert_eq!(plan(&["-w", "fix/1"]).unwrap().session.worktree, Some(named));
    assert_eq!(plan(&[]).unwrap().session.worktree, None);
    let text = complaint(&["--worktree=../x"]);
    assert!(text.starts_with("error: option '-w, --worktree [name]' argument '../x' is invalid. "), "{text}");
}

#[test]
fn session_ids_are_uuids() {
    assert_eq!(complaint(&["--session-id", "x"]), "Error: Invalid session ID. Must be a valid UUID.");
    let id = "00000000-0000-4000-8000-00000000ABCD";
    assert_eq!(plan(&["--session-id", id]).unwrap().session.session_id.as_deref(), Some(id));
}
