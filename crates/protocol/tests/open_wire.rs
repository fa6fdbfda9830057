//! The wire is open: any JSON object reads without an error, and nothing of it is lost when it is written
//! again. Lines are the corpus with pieces replaced, removed and added at random, because random objects
//! alone never come near a type.
//!
//! For fields that we know, two liberties are taken with lines that are off the reference: null and absent
//! are one, and a missing field of a conversation message may appear as an empty value. Numbers count as
//! equal by value (`1.0` is written `1`). Recorded lines need none of this (see `recordings.rs`).

use lathe_protocol::{Inbound, Outbound};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

fn corpus() -> Vec<Value> {
    let requests = include_str!("corpus/control_requests.jsonl").lines();
    let bodies =
        requests.map(|body| format!(r#"{{"type":"control_request","request_id":"r","request":{body}}}"#));
    [
        include_str!("corpus/outbound.jsonl"),
        include_str!("corpus/system.jsonl"),
        include_str!("corpus/inbound.jsonl"),
    ]
    .into_iter()
    .flat_map(str::lines)
    .map(str::to_owned)
    .chain(bodies)
    .map(|line| serde_json::from_str(&line).unwrap())
    .collect()
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z\"\\\\\u{0}\u{1F600}]{0,4}".prop_map(Value::from),
        Just(Value::from("text")),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-z_]{0,6}|type|subtype|content", inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// What to do at the place that a path of indices leads to.
#[derive(Debug, Clone)]
enum Change {
    Replace(Value),
    Remove,
    Add(String, Value),
}

fn any_change() -> impl Strategy<Value = (Vec<usize>, Change)> {
    let change = prop_oneof![
        any_json().prop_map(Change::Replace),
        Just(Change::Remove),
        ("[a-z_]{0,6}", any_json()).prop_map(|(key, value)| Change::Add(key, value)),
    ];
    (prop::collection::vec(0..32usize, 1..4), change)
}

/// Follows the path as far as it goes and makes the change there.
fn apply(value: &mut Value, path: &[usize], change: &Change) {
    let Value::Object(object) = value else {
        if let (Value::Array(items), [step, rest @ ..]) = (&mut *value, path)
            && !items.is_empty()
        {
            let at = step % items.len();
            apply(&mut items[at], rest, change);
        }
        return;
    };
    let [step, rest @ ..] = path else { return };
    let Some(key) = object.keys().nth(step % object.len().max(1)).cloned() else { return };
    let deeper = matches!(object[&key], Value::Object(_) | Value::Array(_)) && !rest.is_empty();
    match change {
        _ if deeper => apply(&mut object[&key], rest, change),
        Change::Replace(new) => object[&key] = new.clone(),
        Change::Remove => drop(object.remove(&key)),
        Change::Add(name, new) => drop(object.insert(name.clone(), new.clone())),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
    }
}

/// Whether a written value has everything that was read, and nothing but empty values beside it.
fn keeps(read: &Value, written: &Value) -> bool {
    match (read, written) {
        (Value::Object(read), Value::Object(written)) => {
            let absent = Value::Null;
            let get = |fields: &Map<String, Value>, key| fields.get(key).unwrap_or(&absent).clone();
            read.keys().chain(written.keys()).all(|key| keeps(&get(read, key), &get(written, key)))
        }
        (Value::Array(read), Value::Array(written)) => {
            read.len() == written.len()
                && read.iter().zip(written).all(|(read, written)| keeps(read, written))
        }
        (Value::Number(read), Value::Number(written)) => read == written || read.as_f64() == written.as_f64(),
        (Value::Null, written) => is_empty(written),
        (read, written) => read == written,
    }
}

/// Reads, writes, reads and writes: the first round keeps everything, the second changes nothing.
fn check<T: Serialize + DeserializeOwned>(value: &Value) -> Result<(), TestCaseError> {
    let written = round::<T>(value)?;
    prop_assert!(keeps(value, &written), "{value}\nbecame {written}");
    let again = round::<T>(&written)?;
    prop_assert_eq!(again, written);
    Ok(())
}

fn round<T: Serialize + DeserializeOwned>(value: &Value) -> Result<Value, TestCaseError> {
    let fail = |error: serde_json::Error| TestCaseError::fail(format!("{value}: {error}"));
    let typed: T = serde_json::from_str(&value.to_string()).map_err(fail)?;
    let text = serde_json::to_string(&typed).map_err(fail)?;
    serde_json::from_str(&text).map_err(fail)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn changed_lines_keep_everything(
        line in prop::sample::select(corpus()),
        changes in prop::collection::vec(any_change(), 0..4),
    ) {
        let mut line = line;
        for (path, change) in &changes {
            apply(&mut line, path, change);
        }
        check::<Outbound>(&line)?;
        check::<Inbound>(&line)?;
        prop_assert!(Inbound::parse_line(&line.to_string()).is_ok());
    }

    #[test]
    fn any_object_keeps_everything(entries in prop::collection::vec(("[a-z]{0,5}|type|subtype", any_json()), 0..6)) {
        let line = Value::Object(entries.into_iter().collect());
        check::<Outbound>(&line)?;
        check::<Inbound>(&line)?;
    }

    #[test]
    fn any_text_is_a_line_or_an_error(text in any::<String>()) {
        let _ = Inbound::parse_line(&text);
    }
}
