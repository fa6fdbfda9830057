//! Tests: which problems are warnings, which are errors, and the positions they name.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(text: &str) -> Document {
    Document::read(text, &Origin::Given("s"), Strictness::Usual)
}

/// Every problem as `E` or `W` and its text.
fn problems(text: &str) -> Vec<String> {
    let letter = |problem: &SettingsProblem| match problem.severity {
        Severity::Error => "E",
        Severity::Warning => "W",
    };
    read(text).problems.iter().map(|problem| format!("{} {problem}", letter(problem))).collect()
}

#[test]
fn what_is_fine_gives_no_problem() {
    for text in [
        "{}",
        r#"{"model":"m","env":{"A":"b","N":1,"T":true},"$schema":"x","statusLine":{}}"#,
        r#"{"permissions":{"deny":["Bash(curl:*)","toString","__proto__"],"defaultMode":"manual"}}"#,
        r#"{"permissions":{"deny":null},"model":null}"#,
        r#"{"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"x"}]}]}}"#,
        "{\r\n\t\"model\": \"m\"\r\n}\r\n",
    ] {
        assert_eq!(problems(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn wrong_keys_are_named_with_their_place_and_the_nearest_one() {
    for (text, expected) in [
        ("{\n  \"modle\": \"m\"\n}", "W s:2:3: unknown key `modle` (hint: did you mean `model`?)"),
        (r#"{"xyzzy": 1}"#, "W s:1:2: unknown key `xyzzy`"),
        (
            r#"{"permissions":{"alow":[]}}"#,
            "W s:1:17: unknown key `permissions.alow` (hint: did you mean `allow`?)",
        ),
        (
            r#"{"hooks":{"PreTooluse":[]}}"#,
            "W s:1:11: unknown hook event `PreTooluse` (hint: did you mean `PreToolUse`?)",
        ),
        (
            r#"{"permissions":{"defaultMode":"acceptEdit"}}"#,
            "W s:1:17: unknown permission mode `acceptEdit`, so `default` is used (hint: did you mean `acceptEdits`?)",
        ),
    ] {
        assert_eq!(problems(text), [expected], "{text}");
    }
}

#[test]
fn a_wrong_type_drops_only_its_key() {
    let document = read(r#"{"model": 5, "language": "en", "env": ["A"], "cleanupPeriodDays": -1}"#);
    assert_eq!(document.clean, *json!({ "language": "en" }).as_object().unwrap());
    assert_eq!(document.problems.len(), 3);
    assert!(document.problems.iter().all(|problem| problem.severity == Severity::Warning));
    assert!(document.problems[0].to_string().starts_with("s:1:2: the value of `model` is ignored: "));
}

#[test]
fn a_hook_that_cannot_run_is_named_and_its_neighbours_stay() {
    let document = read(
        r#"{"hooks":{"Stop":[
             {"hooks":[{"type":"command"},{"type":"command","command":"ok"},{"type":"lua"},{}]},
             {"matcher":"x"},
             {"hooks":[{"type":"prompt","prompt":"p"}]}],
           "SessionEnd":"x"}}"#,
    );
    assert_eq!(document.clean["hooks"]["Stop"].as_array().unwrap().len(), 2);
    assert_eq!(document.clean["hooks"]["SessionEnd"], json!([]));
    let lines: Vec<String> = document.problems.iter().map(ToString::to_string).collect();
    assert!(lines[0].ends_with("this command hook is incomplete and will not run"), "{lines:?}");
    assert!(lines[0].starts_with("s:2:24: "), "{lines:?}");
    assert!(lines[1].contains("unknown hook type `lua`"), "{lines:?}");
    assert!(lines[2].contains("no `type`"), "{lines:?}");
    assert!(lines[3].starts_with("s:3:14: this hook matcher is ignored"), "{lines:?}");
    assert!(lines[4].contains("`hooks.SessionEnd` must be a list"), "{lines:?}");
}

#[test]
fn what_could_hide_a_limit_is_an_error() {
    for (text, expected) in [
        (r#"{"permissions":{"deny":"Bash"}}"#, "s:1:17: `permissions.deny` must be a list of strings"),
        (r#"{"permissions":{"deny":["A", 5]}}"#, "s:1:30: `permissions.deny.1` must be a string"),
        (
            r#"{"permissions":{"denny":["A"]}}"#,
            "s:1:17: unknown key `permissions.denny` (hint: did you mean `deny`?)",
        ),
        (
            r#"{"permissions":{"disallowedTools":["A"]}}"#,
            "s:1:17: unknown key `permissions.disallowedTools` (hint: did you mean `deny`?)",
        ),
        (r#"{"permissions":["Bash"]}"#, "s:1:2: `permissions` must be an object"),
        (
            r#"{"permisions":{"deny":["A"]}}"#,
            "s:1:2: unknown key `permisions` (hint: did you mean `permissions`?)",
        ),
        (r#"{"deny":["A"]}"#, "s:1:2: `deny` has no effect here: it belongs inside `permissions`"),
        (
            "{\"permissions\":{\"deny\":[]},\n\"permissions\":{}}",
            "s:2:1: `permissions` stands there twice, and only the last one would count",
        ),
        (
            r#"{"permissions":{"disableBypassPermissionsMode":true}}"#,
            "s:1:17: `permissions.disableBypassPermissionsMode` must be a string",
        ),
        (r#"{"sandbox":true}"#, "s:1:2: `sandbox` must be an object"),
        (r#"["a"]"#, "s: settings must be a JSON object, not a list"),
        ("{\"a\": 1,\n}", "s:2:1: not valid JSON: trailing comma"),
        ("{\n  \"a\": \"é\" \"b\"\n}", "s:2:12: not valid JSON: expected `,` or `}`"),
        ("{\"deny\": [", "s:1:10: not valid JSON: EOF while parsing a list"),
        (
            "{\n  // no\n}",
            "s:2:3: not valid JSON: key must be a string (hint: comments are not allowed in settings files)",
        ),
    ] {
        assert_eq!(problems(text), [format!("E {expected}")], "{text}");
    }
}

#[test]
fn a_heap_of_unknown_keys_is_not_searched_for_slips() {
    let heap: serde_json::Map<String, Value> = (0..20_000).map(|n| (format!("k{n}"), json!(0))).collect();
    let document = read(&Value::Object(heap).to_string());
    assert!(document.problems.len() < 300);
    assert_eq!(
        document.problems[0].to_string(),
        "s: 20000 unknown keys: this does not look like a settings file"
    );
    assert_eq!(document.problems[0].severity, Severity::Error);
}

#[test]
fn an_empty_file_says_nothing_and_is_mentioned() {
    assert_eq!(problems(" \n"), ["W s: the file is empty"]);
}

#[test]
fn in_managed_settings_every_wrong_type_is_an_error() {
    let document = Document::read(r#"{"model": 5, "nope": 1}"#, &Origin::Given("s"), Strictness::Policy);
    let severities: Vec<Severity> = document.problems.iter().map(|problem| problem.severity).collect();
    assert_eq!(severities, [Severity::Warning, Severity::Error]);
}

proptest! {
    /// For any text: the cleaned settings fit the type, and invalid JSON is always reported.
    #[test]
    fn what_is_clean_fits(text in r#"[{}\[\]":,a-z0-9 \n]*"#) {
        let document = read(&text);
        prop_assert!(Settings::deserialize(&document.clean).is_ok());
        if serde_json::from_str::<serde_json::Map<String, Value>>(&text).is_err() {
            prop_assert!(!document.problems.is_empty());
        }
    }
}
