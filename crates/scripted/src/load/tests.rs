use super::*;
use crate::script::TurnScope;

fn refused(text: &str) -> String {
    Script::parse("talk.yaml", text).expect_err("the script is wrong").to_string()
}

#[test]
fn a_misspelt_key_names_file_line_and_the_key_that_was_meant() {
    let error = refused("turns:\n  - text: one\n  - txet: two\n");
    assert!(error.starts_with("talk.yaml:3:5: unknown key `txet`"), "{error}");
    assert!(error.ends_with("hint: did you mean `text`?"), "{error}");

    let error = refused("turns:\n  - text: a\n    cut: {after_evnts: 2}\n");
    assert!(error.contains("talk.yaml:3:") && error.contains("`after_events`?"), "{error}");

    let error = refused("turns:\n  - text: a\n    when: {user: {regx: b}}\n");
    assert!(error.contains("talk.yaml:3:") && error.contains("`regex`?"), "{error}");

    let error = refused("turns:\n  - text: a\n    error: {statsu: 500}\n");
    assert!(error.contains("talk.yaml:3:") && error.contains("`status`?"), "{error}");
}

#[test]
fn a_key_that_resembles_nothing_gets_the_list() {
    let error = refused("turns:\n  - {text: a, cut: {quetzalcoatl: 1}}\n");
    assert!(error.contains("the keys here are how, before_headers, after_events, after_bytes"), "{error}");
}

#[test]
fn json_errors_have_a_line_too() {
    let error =
        Script::parse("talk.json", "{\n \"turns\": [\n  {\"text\": \"a\", \"tols\": []}\n ]\n}").unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("talk.json:3:"), "{error}");
    assert!(error.ends_with("did you mean `tools`?"), "{error}");
    let error = Script::parse("talk.json", "{\"turns\": [").unwrap_err().to_string();
    assert!(error.starts_with("talk.json:1:"), "{error}");
}

#[test]
fn wrong_values_are_told_apart_from_wrong_keys() {
    assert!(refused("turns:\n  - text: a\n    when: {user: {regex: '('}}\n").contains("bad regex"));
    assert!(refused("turns:\n  - text: '{{tool}}'\n").contains("unknown placeholder `{{tool}}`"));
    assert!(refused("turns: []\nscope: everyone\n").contains("everyone"));
    assert!(refused("turns:\n  - text: a\nat_end: sometimes\n").contains("`repeat`, `error`"));
    assert!(refused("turns: 7\n").contains("talk.yaml:1:"));
    assert!(refused("").contains("talk.yaml"));
    assert!(refused("a: [b\n").contains("talk.yaml:"));
}

#[test]
fn what_does_not_go_together_names_the_turn() {
    let cases = [
        (
            "- {text: a}\n  - {text: b, error: 500}",
            "turn 2: text/thinking/tools and error exclude each other",
        ),
        ("- {id: x, text: a, times: 0}", "turn 1 (`x`): `times: 0`"),
        ("- {error: 200}", "status 200 is not 400 to 599"),
        ("- {text: a, headers: {x-a: \"b\\r\\nx-c: d\"}}", "header \"x-a\""),
        ("- {text: a, cut: {after_events: 1, after_bytes: 1}}", "both `after_events` and `after_bytes`"),
        ("- {blocks: [{text: a, thinking: b}]}", "a block is exactly one of"),
        ("- {tools: [{name: A, input: {}, raw: '{'}]}", "`input` or `raw`, not both"),
        ("- {text: a, drip: {bytes: 0}}", "`drip.bytes`"),
    ];
    for (turns, expected) in cases {
        let error = refused(&format!("turns:\n  {turns}\n"));
        assert!(error.contains(expected), "{turns}: {error}");
    }
    assert!(refused("turns: []\n").contains("no turns"));
    assert!(refused("turns: []\nroutes: [{name: r, when: x, turns: []}]\n").contains("route r"));
    assert!(refused("version: 2\nturns: [{text: a}]\n").contains("2 is not known"));
}

#[test]
fn yaml_and_json_are_the_same_script() {
    let yaml = "scope: conversation\nturns:\n  - text: \"smile \u{1F600}\"\n    tools: [{name: Bash, input: {command: ls}}]\n";
    let json = r#"{"scope":"conversation","turns":[{"text":"smile 😀","tools":[{"name":"Bash","input":{"command":"ls"}}]}]}"#;
    // Without a name that says JSON, the content must.
    for (file, text) in [("a.yaml", yaml), ("a.json", json), ("a", json)] {
        let script = Script::parse(file, text).unwrap();
        assert_eq!(script.scope, TurnScope::Conversation);
        assert_eq!(
            format!("{:?}", script.turns),
            format!("{:?}", Script::parse("b.yaml", yaml).unwrap().turns)
        );
    }
}

#[test]
fn the_short_form_is_a_list_or_a_map_of_lists() {
    let list = Script::parse(
        "s.json",
        r#"[{"text": ""}, {"error": 529, "etype": "overloaded_error"}, {"wait": 1.5, "text": "x"}]"#,
    );
    let list = list.unwrap();
    // The first turn is the probe.
    assert!(list.turns[0].when.is_some());
    assert!(list.turns[1].text.is_none(), "an empty text makes no block");
    assert_eq!(list.turns[2].error.as_ref().unwrap().kind.as_deref(), Some("overloaded_error"));
    assert_eq!(list.turns[3].delay_ms, Some(1500));

    let keyed =
        Script::parse("s.json", r#"{"MAIN": [{"text": "a"}], "*": [{"text": "b"}], "bob": [{"text": "c"}]}"#)
            .unwrap();
    let names: Vec<_> = keyed.routes.iter().map(|route| route.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["MAIN", "bob"]);
    assert_eq!(keyed.routes[1].when.as_ref().unwrap().marker.as_deref(), Some("bob"));
    let error = Script::parse("s.json", "[\n {\"txt\": \"a\"}\n]").unwrap_err().to_string();
    assert!(error.starts_with("s.json:2:") && error.contains("`text`?"), "{error}");
    assert!(Script::parse("s.json", "[]").is_err());
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Script::load(Path::new("/nonexistent/talk.yaml")).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/talk.yaml"), "{error}");
}

#[test]
fn recordings_are_sorted_and_a_torn_tail_is_left_out() {
    let header = r#"{"lathe_recording":1}"#;
    let turn = |n: u32| format!(r#"{{"n":{n},"raw":{{"status":200,"headers":{{}},"chunks":["body {n}"]}}}}"#);
    let text = format!("{header}\n{}\n{}\n{}", turn(2), turn(1), &turn(3)[..30]);
    let script = Script::parse("r.jsonl", &text).unwrap();
    let ids: Vec<_> = script.turns.iter().map(|turn| turn.id.as_deref().unwrap()).collect();
    assert_eq!(ids, ["recorded 1", "recorded 2"]);
    assert!(matches!(script.at_end, AtEnd::Error));

    let bad_middle = format!("{header}\n{}\n{}\n", &turn(1)[..30], turn(2));
    let error = Script::parse("r.jsonl", &bad_middle).unwrap_err().to_string();
    assert!(error.starts_with("r.jsonl:2:"), "{error}");
    assert!(Script::parse("r.jsonl", header).unwrap().turns.is_empty(), "killed before the first turn");
}

#[test]
fn the_nearest_key_is_near() {
    assert_eq!(nearest("stauts", &["status", "headers"]), Some("status"));
    assert_eq!(nearest("banana", &["status", "headers"]), None);
    assert_eq!(edit_distance("kitten", "sitting"), 3);
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_loader_panic(text in "(turns:|- |text: |\\{|\\}|\\[|\\]|:|\n|  |a|\"|'|[0-9]|&a|\\*a|#){0,60}") {
        let _ = Script::parse("x.yaml", &text);
    }
}
