use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "file_path": { "type": "string" },
            "offset": { "type": "integer", "minimum": 0 },
            "ratio": { "type": "number", "maximum": 10 },
            "mode": { "type": "string", "enum": ["a", "b"] },
            "all": { "type": "boolean", "default": false },
            "query": { "type": "string", "minLength": 2 },
            "todos": {
                "type": "array", "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": { "content": { "type": "string" } },
                    "required": ["content"],
                    "additionalProperties": false,
                },
            },
        },
        "required": ["file_path"],
        "additionalProperties": false,
    })
}

fn issues(input: Value) -> Value {
    let invalid = validate("Read", &schema(), input).unwrap_err();
    serde_json::from_str(&invalid.issues_json).unwrap()
}

#[test]
fn a_missing_parameter_is_told_in_prose() {
    let invalid = validate("Read", &schema(), json!({})).unwrap_err();
    assert_eq!(
        invalid.content(),
        "<tool_use_error>InputValidationError: Read failed due to the following issue:\n\
         The required parameter `file_path` is missing</tool_use_error>"
    );
    assert_eq!(
        invalid.result(),
        "InputValidationError: [\n  {\n    \"expected\": \"string\",\n    \"code\": \"invalid_type\",\n    \"path\": [\n      \"file_path\"\n    ],\n    \"message\": \"Invalid input: expected string, received undefined\"\n  }\n]"
    );
}

#[test]
fn an_unknown_parameter_is_told_in_prose() {
    let invalid = validate("Read", &schema(), json!({"file_path": "x", "foo": 1})).unwrap_err();
    assert_eq!(
        invalid.message,
        "Read failed due to the following issue:\nAn unexpected parameter `foo` was provided"
    );
    assert_eq!(
        invalid.issues_json,
        "[\n  {\n    \"code\": \"unrecognized_keys\",\n    \"keys\": [\n      \"foo\"\n    ],\n    \"path\": [],\n    \"message\": \"Unrecognized key: \\\"foo\\\"\"\n  }\n]"
    );
}

#[test]
fn several_such_issues_are_listed() {
    let invalid = validate("Read", &schema(), json!({"x": 1, "y": 2})).unwrap_err();
    assert_eq!(
        invalid.message,
        "Read failed due to the following issues:\n\
         The required parameter `file_path` is missing\n\
         An unexpected parameter `x` was provided\n\
         An unexpected parameter `y` was provided"
    );
}

#[test]
fn other_issues_are_given_as_json() {
    let invalid = validate("Read", &schema(), json!({"file_path": 1})).unwrap_err();
    assert_eq!(invalid.message, invalid.issues_json);
    assert_eq!(
        issues(json!({"file_path": 1, "offset": 1.5, "ratio": 11, "mode": "c", "all": "true", "query": "q"})),
        json!([
            {"expected": "string", "code": "invalid_type", "path": ["file_path"], "message": "Invalid input: expected string, received number"},
            {"expected": "int", "format": "safeint", "code": "invalid_type", "path": ["offset"], "message": "Invalid input: expected int, received number"},
            {"origin": "number", "code": "too_big", "maximum": 10, "inclusive": true, "path": ["ratio"], "message": "Too big: expected number to be <=10"},
            {"code": "invalid_value", "values": ["a", "b"], "path": ["mode"], "message": "Invalid option: expected one of \"a\"|\"b\""},
            {"expected": "boolean", "code": "invalid_type", "path": ["all"], "message": "Invalid input: expected boolean, received string"},
            {"origin": "string", "code": "too_small", "minimum": 2, "inclusive": true, "path": ["query"], "message": "Too small: expected string to have >=2 characters"},
        ])
    );
}

#[test]
fn nested_issues_carry_their_path() {
    assert_eq!(
        issues(json!({"file_path": "x", "todos": [{"content": "c"}, {}]}))[0]["path"],
        json!(["todos", 1, "content"])
    );
    let invalid = validate("T", &schema(), json!({"file_path": "x", "todos": [{}]})).unwrap_err();
    assert!(invalid.message.contains("`todos[0].content` is missing"), "{}", invalid.message);
    assert_eq!(issues(json!({"file_path": "x", "todos": []}))[0]["code"], "too_small");
}

#[test]
fn an_input_that_is_no_object_is_refused() {
    for input in [json!(null), json!([]), json!("x")] {
        assert_eq!(issues(input)[0]["expected"], "object");
    }
}

#[test]
fn numeric_strings_become_numbers_and_defaults_are_filled_in() {
    let mended =
        validate("Read", &schema(), json!({"file_path": "12", "offset": " 2 ", "ratio": "1.5"})).unwrap();
    assert_eq!(mended, json!({"file_path": "12", "offset": 2, "ratio": 1.5, "all": false}));
    for text in ["", "x", "1e3", "0x10", "inf", "-"] {
        assert_eq!(issues(json!({"file_path": "x", "ratio": text}))[0]["expected"], "number");
    }
}

#[test]
fn broken_json_is_quoted_back_in_part() {
    let raw = "{\"file_path\": \"/etc/ho";
    let invalid = InvalidInput::unparsable("Read", raw);
    assert_eq!(invalid.result(), "InputValidationError: JSON parse failed (22 bytes)");
    assert!(invalid.message.contains("(first 22 of 22 bytes): {\"file_path\": \"/etc/ho\n"));
    let long = InvalidInput::unparsable("Read", &"é".repeat(5000));
    assert!(long.message.len() < 1000);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(
                (
                    prop_oneof![
                        Just("file_path".to_owned()),
                        Just("todos".to_owned()),
                        Just("content".to_owned()),
                        Just("offset".to_owned()),
                        "[a-z]{1,3}"
                    ],
                    inner
                ),
                0..4
            )
            .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    /// For any input: no panic, issues are JSON, and a repaired input passes a second time unchanged.
    #[test]
    fn any_input_is_judged(input in any_json()) {
        match validate("T", &schema(), input) {
            Ok(mended) => {
                prop_assert_eq!(validate("T", &schema(), mended.clone()), Ok(mended));
            }
            Err(invalid) => {
                let issues: Value = serde_json::from_str(&invalid.issues_json).unwrap();
                prop_assert!(!issues.as_array().unwrap().is_empty());
            }
        }
    }
}
