//! Every effect that the notes list, as a table: what a hook says, and what the outcome makes of it.

mod support;

use lathe_hooks::{
    ContextKind, HookSource, Outcome, PermissionVerdict, ProblemKind, StopRequest, ToolOutputKind,
};
use lathe_protocol::HookEvent;
use lathe_protocol::hooks::{HookPermissionDecision, PermissionRequestDecision};
use serde_json::{Value, json};
use support::{Bench, input};

/// What a callback that says `output` brings about.
async fn says(event: &str, fields: Value, output: Value) -> Outcome {
    let bench = Bench::new();
    assert_eq!(bench.callbacks(json!({ event: [{ "hookCallbackIds": ["h"] }] })), []);
    bench.host.answer("h", output);
    bench.run(&input(event, fields)).await
}

fn specific(event: &str, fields: Value) -> Value {
    let mut value = json!({ "hookEventName": event });
    for (key, field) in fields.as_object().unwrap() {
        value[key] = field.clone();
    }
    json!({ "hookSpecificOutput": value })
}

fn neutral() -> Outcome {
    Outcome { ran: 1, ..Outcome::default() }
}

#[tokio::test]
async fn no_opinion_is_no_effect_on_any_event() {
    for event in HookEvent::NAMES {
        let fields = if *event == "SessionStart" { json!({ "source": "compact" }) } else { json!({}) };
        assert_eq!(says(event, fields, json!({})).await, neutral(), "{event}");
    }
}

#[tokio::test]
async fn verdicts_about_calls() {
    for (decision, behavior) in [
        ("allow", HookPermissionDecision::Allow),
        ("deny", HookPermissionDecision::Deny),
        ("ask", HookPermissionDecision::Ask),
        ("defer", HookPermissionDecision::Defer),
    ] {
        let output = specific(
            "PreToolUse",
            json!({ "permissionDecision": decision, "permissionDecisionReason": "why" }),
        );
        let verdict = PermissionVerdict {
            behavior,
            reason: Some("why".into()),
            hook_name: "PreToolUse:Bash".into(),
            event: HookEvent::PreToolUse,
            source: HookSource::Callbacks,
        };
        let outcome = says("PreToolUse", json!({}), output).await;
        assert_eq!(outcome.permission.as_ref(), Some(&verdict));
        assert_eq!(outcome, Outcome { permission: Some(verdict), ..neutral() });
    }
}

#[tokio::test]
async fn the_old_words_for_verdicts() {
    let blocked = says("PreToolUse", json!({}), json!({ "decision": "block", "reason": "legacy" })).await;
    let verdict = blocked.permission.unwrap();
    assert_eq!(verdict.behavior, HookPermissionDecision::Deny);
    assert_eq!(verdict.tool_error(), "PreToolUse:Bash hook error: legacy");
    let approved = says("PreToolUse", json!({}), json!({ "decision": "approve", "reason": "fine" })).await;
    let verdict = approved.permission.unwrap();
    assert_eq!(verdict.behavior, HookPermissionDecision::Allow);
    assert_eq!(verdict.reason.as_deref(), Some("fine"));
    // A "no" without a word still has something to show.
    let silent = says("PreToolUse", json!({}), json!({ "decision": "block" })).await;
    assert!(!silent.permission.unwrap().reason.unwrap().is_empty());
    // The new word beats the old one.
    let mut both = specific("PreToolUse", json!({ "permissionDecision": "deny" }));
    both["decision"] = json!("approve");
    let verdict = says("PreToolUse", json!({}), both).await.permission.unwrap();
    assert_eq!(verdict.behavior, HookPermissionDecision::Deny);
}

#[tokio::test]
async fn allow_with_other_input_and_context() {
    let output = specific(
        "PreToolUse",
        json!({
            "permissionDecision": "allow",
            "updatedInput": { "command": "echo replaced" },
            "additionalContext": "ctx",
        }),
    );
    let outcome = says("PreToolUse", json!({}), output).await;
    assert_eq!(outcome.updated_input, Some(json!({ "command": "echo replaced" })));
    assert_eq!(outcome.contexts[0].line(), "PreToolUse:Bash hook additional context: ctx");
    assert_eq!(outcome.permission.unwrap().behavior, HookPermissionDecision::Allow);
}

#[tokio::test]
async fn continue_false_stops_and_says_why() {
    for event in ["PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SubagentStop", "TaskCreated"] {
        let outcome = says(event, json!({}), json!({ "continue": false, "stopReason": "enough" })).await;
        let Some(StopRequest { reason, .. }) = outcome.stop else { panic!("{event} does not stop") };
        assert_eq!(reason.as_deref(), Some("enough"));
        assert_eq!(outcome.permission, None, "{event}");
        assert_eq!(outcome.blocks, [], "{event}");
    }
    assert_eq!(says("Stop", json!({}), json!({ "continue": true })).await, neutral());
}

#[tokio::test]
async fn blocks_on_events_that_can_be_blocked_and_only_there() {
    let can = [
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "UserPromptSubmit",
        "UserPromptExpansion",
        "Stop",
        "SubagentStop",
        "TaskCreated",
        "TaskCompleted",
        "TeammateIdle",
        "ConfigChange",
        "PreCompact",
        "WorktreeCreate",
        "WorktreeRemove",
        "Elicitation",
        "ElicitationResult",
    ];
    let otherwise = ["PreToolUse", "PreModelSwitch", "PermissionRequest"];
    for event in HookEvent::NAMES.iter().filter(|event| !otherwise.contains(event)) {
        let fields = if *event == "SessionStart" { json!({ "source": "clear" }) } else { json!({}) };
        let outcome = says(event, fields, json!({ "decision": "block", "reason": "bad" })).await;
        assert_eq!(outcome.ran, 1, "{event}");
        assert_eq!(outcome.blocks.len(), usize::from(can.contains(event)), "{event}");
        assert_eq!(outcome.block().map_or("bad", |block| &block.reason), "bad");
    }
    let policy = json!({ "source": "policy_settings" });
    assert_eq!(says("ConfigChange", policy, json!({ "decision": "block" })).await, neutral());
}

#[tokio::test]
async fn blocks_in_the_words_the_model_reads() {
    let stop = says("Stop", json!({}), json!({ "decision": "block", "reason": "keep going" })).await;
    let block = stop.block().unwrap();
    assert_eq!(block.feedback(), "Stop hook feedback:\nkeep going");
    assert_eq!(
        block.blocking_error(),
        "Stop:Callback hook blocking error from command: \"callback\": keep going"
    );
    let post = says("PostToolUse", json!({}), json!({ "decision": "block", "reason": "bad output" })).await;
    assert_eq!(
        post.block().unwrap().blocking_error(),
        "PostToolUse:Bash hook blocking error from command: \"callback\": bad output"
    );
}

#[tokio::test]
async fn contexts_where_events_take_them() {
    let take = [
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "SubagentStart",
        "Setup",
        "Notification",
        "UserPromptSubmit",
        "UserPromptExpansion",
        "SessionStart",
        "Stop",
        "SubagentStop",
        "PostModelSwitch",
    ];
    for event in HookEvent::NAMES {
        let fields = if *event == "SessionStart" { json!({ "source": "clear" }) } else { json!({}) };
        let outcome = says(event, fields, specific(event, json!({ "additionalContext": "ctx" }))).await;
        assert_eq!(outcome.contexts.len(), usize::from(take.contains(event)), "{event}");
        assert!(outcome.contexts.iter().all(|context| context.kind == ContextKind::Additional));
        assert_eq!(outcome.blocks, [], "{event}");
    }
}

#[tokio::test]
async fn what_a_tool_gave_can_be_replaced() {
    let changed = json!({ "stdout": "REWRITTEN" });
    let output = specific(
        "PostToolUse",
        json!({ "updatedToolOutput": changed, "classifierContext": "x".repeat(3000) }),
    );
    let outcome = says("PostToolUse", json!({}), output).await;
    let change = outcome.tool_output.unwrap();
    assert_eq!((change.value, change.kind), (changed.clone(), ToolOutputKind::AnyTool));
    assert_eq!(outcome.classifier_context.unwrap().len(), 2000);
    let output = specific("PostToolUse", json!({ "updatedMCPToolOutput": changed }));
    let change = says("PostToolUse", json!({}), output).await.tool_output.unwrap();
    assert_eq!(change.kind, ToolOutputKind::McpTool);
}

#[tokio::test]
async fn permission_requests_are_answered() {
    let allow = json!({ "decision": { "behavior": "allow", "updatedInput": { "command": "x" } } });
    let outcome = says("PermissionRequest", json!({}), specific("PermissionRequest", allow)).await;
    let PermissionRequestDecision::Allow { updated_input, .. } = outcome.permission_request.unwrap().decision
    else {
        panic!("not allowed")
    };
    assert_eq!(updated_input, Some(json!({ "command": "x" })));
    let deny = json!({ "decision": { "behavior": "deny", "message": "no", "interrupt": true } });
    let outcome = says("PermissionRequest", json!({}), specific("PermissionRequest", deny)).await;
    let expected = PermissionRequestDecision::Deny { message: Some("no".into()), interrupt: Some(true) };
    assert_eq!(outcome.permission_request.unwrap().decision, expected);
    let outcome = says("PermissionRequest", json!({}), json!({ "decision": "block", "reason": "no" })).await;
    let expected = PermissionRequestDecision::Deny { message: Some("no".into()), interrupt: None };
    assert_eq!(outcome.permission_request.unwrap().decision, expected);
}

#[tokio::test]
async fn what_only_one_event_understands() {
    let model = json!({ "permissionDecision": "deny", "permissionDecisionReason": "nope" });
    let outcome = says("PreModelSwitch", json!({}), specific("PreModelSwitch", model)).await;
    let verdict = outcome.permission.unwrap();
    assert_eq!((verdict.behavior, verdict.reason.as_deref()), (HookPermissionDecision::Deny, Some("nope")));

    let prompt = json!({ "sessionTitle": "T", "suppressOriginalPrompt": true });
    let outcome = says("UserPromptSubmit", json!({}), specific("UserPromptSubmit", prompt)).await;
    assert_eq!(outcome.prompt.session_title.as_deref(), Some("T"));
    assert!(outcome.prompt.suppress_original);

    let start = json!({
        "initialUserMessage": "hi", "sessionTitle": "T", "watchPaths": ["/a"], "reloadSkills": true
    });
    let compact = json!({ "source": "compact" });
    let outcome = says("SessionStart", compact, specific("SessionStart", start)).await;
    assert_eq!(outcome.session_start.initial_user_message.as_deref(), Some("hi"));
    assert_eq!(outcome.session_start.session_title.as_deref(), Some("T"));
    assert!(outcome.session_start.reload_skills);
    assert_eq!(outcome.watch_paths, ["/a"]);

    let retry = specific("PermissionDenied", json!({ "retry": true }));
    assert!(says("PermissionDenied", json!({}), retry).await.retry);

    for event in ["CwdChanged", "FileChanged"] {
        let outcome = says(event, json!({}), specific(event, json!({ "watchPaths": ["/b"] }))).await;
        assert_eq!(outcome.watch_paths, ["/b"]);
    }
    let path = specific("WorktreeCreate", json!({ "worktreePath": "/wt" }));
    assert_eq!(says("WorktreeCreate", json!({}), path).await.worktree_path.as_deref(), Some("/wt"));

    let form = json!({ "action": "accept", "content": { "a": 1 } });
    let answer = says("Elicitation", json!({}), specific("Elicitation", form)).await.elicitation.unwrap();
    assert_eq!((answer.action.as_str(), answer.content), ("accept", Some(json!({ "a": 1 }))));

    let shown = specific("MessageDisplay", json!({ "displayContent": "***" }));
    assert_eq!(says("MessageDisplay", json!({}), shown).await.display_content.as_deref(), Some("***"));
}

#[tokio::test]
async fn fields_of_another_event_are_left_alone() {
    let everything = json!({
        "permissionDecision": "ask", "updatedInput": {}, "updatedToolOutput": {}, "retry": true,
        "sessionTitle": "T", "suppressOriginalPrompt": true, "initialUserMessage": "hi",
        "reloadSkills": true, "watchPaths": ["/a"], "action": "accept", "worktreePath": "/wt",
        "displayContent": "***", "classifierContext": "c",
    });
    assert_eq!(says("Stop", json!({}), specific("Stop", everything)).await, neutral());
}

#[tokio::test]
async fn texts_for_the_user() {
    let outcome =
        says("PostToolUse", json!({}), json!({ "systemMessage": "sys note", "suppressOutput": true })).await;
    let [notice] = &outcome.notices()[..] else { panic!("{outcome:?}") };
    assert_eq!(
        (notice.content.as_str(), notice.level.as_str()),
        ("PostToolUse:Bash says: sys note", "notice")
    );
    let outcome = says("Stop", json!({}), json!({ "terminalSequence": "\u{7}" })).await;
    assert_eq!(outcome.terminal_sequences, ["\u{7}"]);
}

#[tokio::test]
async fn an_answer_that_goes_on_elsewhere_lets_the_action_proceed() {
    let outcome = says("PreToolUse", json!({}), json!({ "async": true, "asyncTimeout": 3000 })).await;
    assert_eq!(outcome, neutral());
}

#[tokio::test]
async fn the_strongest_word_wins_and_the_first_to_say_it_is_named() {
    let words = ["allow", "ask", "defer", "deny"];
    for (first, second, winner) in [(0, 1, 1), (1, 0, 1), (2, 1, 2), (3, 2, 3), (2, 3, 3), (0, 3, 3)] {
        let bench = Bench::new();
        let groups: Vec<Value> = ["a", "b", "c"].map(|id| json!({ "hookCallbackIds": [id] })).into();
        assert_eq!(bench.callbacks(json!({ "PreToolUse": groups })), []);
        for (id, word) in [("a", first), ("b", second), ("c", winner)] {
            let verdict = json!({
                "permissionDecision": words[word], "permissionDecisionReason": id, "updatedInput": { "by": id }
            });
            bench.host.answer(id, specific("PreToolUse", verdict));
        }
        let outcome = bench.run(&input("PreToolUse", json!({}))).await;
        let verdict = outcome.permission.unwrap();
        assert_eq!(json!(verdict.behavior), words[winner]);
        assert_eq!(verdict.reason.as_deref(), Some(if first == winner { "a" } else { "b" }));
        assert_eq!(outcome.updated_input, Some(json!({ "by": "a" })));
        assert_eq!(outcome.ran, 3);
    }
}

#[tokio::test]
async fn a_deny_beats_an_allow_of_a_request_and_else_the_first_is_heard() {
    for (order, winner) in [
        (["allow", "deny"], json!({ "behavior": "deny", "message": "1" })),
        (["deny", "allow"], json!({ "behavior": "deny", "message": "0" })),
        (["deny", "deny"], json!({ "behavior": "deny", "message": "0" })),
        (["allow", "allow"], json!({ "behavior": "allow", "updatedInput": 0 })),
    ] {
        let bench = Bench::new();
        assert_eq!(bench.callbacks(json!({ "PermissionRequest": [{ "hookCallbackIds": ["0", "1"] }] })), []);
        for (at, word) in order.iter().enumerate() {
            let decision = match *word {
                "allow" => json!({ "behavior": "allow", "updatedInput": at }),
                deny => json!({ "behavior": deny, "message": at.to_string() }),
            };
            bench
                .host
                .answer(&at.to_string(), specific("PermissionRequest", json!({ "decision": decision })));
        }
        let outcome = bench.run(&input("PermissionRequest", json!({}))).await;
        assert_eq!(json!(outcome.permission_request.unwrap().decision), winner, "{order:?}");
    }
}

#[tokio::test]
async fn nonsense_is_no_verdict() {
    for output in [
        json!({ "decision": "wat" }),
        json!({ "hookSpecificOutput": { "hookEventName": "Stop" } }),
        json!({ "continue": "no" }),
        json!([]),
        json!("text"),
        json!(null),
    ] {
        let outcome = says("PreToolUse", json!({}), output.clone()).await;
        assert_eq!(outcome.permission, None, "{output}");
        let [problem] = &outcome.problems[..] else { panic!("{output}: {:?}", outcome.problems) };
        assert!(matches!(problem.kind, ProblemKind::CallbackFailed { .. }));
        let line = problem.informational().unwrap();
        assert_eq!((line.level.as_str(), line.tag.as_deref()), ("warning", Some("hook_callback_failed")));
    }
}
