//! Merges layers into one: objects are merged key by key, the stronger value wins, and lists that only ever grow, such
//! as rules and hooks, are joined.
//!
//! Lists that *limit* (which models, which hook addresses) are not joined: a weaker layer could widen them.

use serde_json::{Map, Value};

/// The top-level keys below which lists are joined over all layers.
const JOINED: &[&str] = &[
    "permissions",
    "hooks",
    "sandbox",
    "enabledMcpjsonServers",
    "disabledMcpjsonServers",
    "deniedMcpServers",
    "blockedMarketplaces",
    "claudeMdExcludes",
];

#[derive(Clone, Copy)]
enum Lists {
    Join,
    Replace,
}

/// Merges a stronger layer into a weaker one: objects are merged key by key, and other values replace those of the
/// weaker one, but lists below the keys in [`JOINED`] are joined. Null in the stronger layer removes nothing; below the
/// top level it is inserted where the weaker layer has no such key.
pub(crate) fn lay_over(weak: &mut Map<String, Value>, strong: &Map<String, Value>) {
    for (key, value) in strong {
        let lists = if JOINED.contains(&key.as_str()) { Lists::Join } else { Lists::Replace };
        match weak.get_mut(key) {
            Some(below) => combine(below, value, lists),
            None if value.is_null() => {}
            None => {
                weak.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Merges a stronger value into a weaker one. `lists` applies to all lists below the top-level key. In a joined list
/// the entries of the weaker one come first, and equal entries of the stronger one are not repeated.
fn combine(weak: &mut Value, strong: &Value, lists: Lists) {
    match (weak, strong, lists) {
        // Null means "not set": a layer cannot remove the value of a weaker one.
        (_, Value::Null, _) => {}
        (Value::Object(weak), Value::Object(strong), _) => {
            for (key, value) in strong {
                match weak.get_mut(key) {
                    Some(below) => combine(below, value, lists),
                    None => {
                        weak.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(weak), Value::Array(strong), Lists::Join) => {
            for entry in strong {
                if !weak.contains(entry) {
                    weak.push(entry.clone());
                }
            }
        }
        (weak, strong, _) => *weak = strong.clone(),
    }
}

/// Returns the part of `wanted` that is also in `approved`: equal values, common list entries, common object keys.
/// `None` if two single values differ; objects and lists without common parts are returned empty.
pub(crate) fn common(wanted: &Value, approved: &Value) -> Option<Value> {
    match (wanted, approved) {
        (Value::Object(wanted), Value::Object(approved)) => {
            let shared: Map<String, Value> = wanted
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), common(value, approved.get(key)?)?)))
                .collect();
            Some(Value::Object(shared))
        }
        (Value::Array(wanted), Value::Array(approved)) => {
            Some(wanted.iter().filter(|entry| approved.contains(entry)).cloned().collect())
        }
        (wanted, approved) => (wanted == approved).then(|| wanted.clone()),
    }
}

/// Returns the part of `wanted` that is not in `approved`, the counterpart of [`common`]; `None` if everything is in
/// it.
pub(crate) fn apart(wanted: &Value, approved: &Value) -> Option<Value> {
    match (wanted, approved) {
        (Value::Object(wanted), Value::Object(approved)) => {
            let rest: Map<String, Value> = wanted
                .iter()
                .filter_map(|(key, value)| {
                    let rest = approved.get(key).map_or(Some(value.clone()), |with| apart(value, with))?;
                    Some((key.clone(), rest))
                })
                .collect();
            (!rest.is_empty()).then_some(Value::Object(rest))
        }
        (Value::Array(wanted), Value::Array(approved)) => {
            let rest: Vec<Value> = wanted.iter().filter(|entry| !approved.contains(entry)).cloned().collect();
            (!rest.is_empty()).then_some(Value::Array(rest))
        }
        (wanted, approved) => (wanted != approved).then(|| wanted.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn layers_are_laid_over_each_other() {
        for (weak, strong, expected) in [
            (json!({ "model": "a", "x": 1 }), json!({ "model": "b" }), json!({ "model": "b", "x": 1 })),
            (json!({ "model": "a" }), json!({ "model": null, "y": null }), json!({ "model": "a" })),
            (
                json!({ "env": { "A": "1", "B": "1" } }),
                json!({ "env": { "B": "2" } }),
                json!({ "env": { "A": "1", "B": "2" } }),
            ),
            (
                json!({ "permissions": { "allow": ["a", "b"], "defaultMode": "plan" } }),
                json!({ "permissions": { "allow": ["b", "c"], "deny": ["d"], "defaultMode": "default" } }),
                json!({ "permissions": { "allow": ["a", "b", "c"], "defaultMode": "default", "deny": ["d"] } }),
            ),
            (
                json!({ "hooks": { "Stop": [{ "hooks": [1] }] } }),
                json!({ "hooks": { "Stop": [{ "hooks": [2] }], "Setup": [] } }),
                json!({ "hooks": { "Stop": [{ "hooks": [1] }, { "hooks": [2] }], "Setup": [] } }),
            ),
            (
                json!({ "sandbox": { "enabled": false, "network": { "allowedDomains": ["a"] } } }),
                json!({ "sandbox": { "enabled": true, "network": { "allowedDomains": ["b"] } } }),
                json!({ "sandbox": { "enabled": true, "network": { "allowedDomains": ["a", "b"] } } }),
            ),
            (
                json!({ "availableModels": ["a", "b"] }),
                json!({ "availableModels": ["a"] }),
                json!({ "availableModels": ["a"] }),
            ),
            (
                json!({ "fallbackModel": ["a"] }),
                json!({ "fallbackModel": "b" }),
                json!({ "fallbackModel": "b" }),
            ),
        ] {
            let mut merged = weak.as_object().unwrap().clone();
            lay_over(&mut merged, strong.as_object().unwrap());
            assert_eq!(Value::Object(merged), expected, "{strong} over {weak}");
        }
    }

    #[test]
    fn what_one_value_has_alone() {
        for (wanted, approved, expected) in [
            (
                json!({ "a": [1, 2], "b": 1 }),
                json!({ "a": [2, 3], "b": 2 }),
                Some(json!({ "a": [1], "b": 1 })),
            ),
            (
                json!({ "a": { "x": 1, "y": 2 } }),
                json!({ "a": { "x": 1 } }),
                Some(json!({ "a": { "y": 2 } })),
            ),
            (json!({ "a": [1], "b": {} }), json!({ "a": [2, 1], "b": {}, "c": 1 }), None),
            (json!({ "a": [1] }), json!({ "a": 1 }), Some(json!({ "a": [1] }))),
            (json!({ "a": [1] }), json!({}), Some(json!({ "a": [1] }))),
        ] {
            assert_eq!(apart(&wanted, &approved), expected, "{wanted} without {approved}");
        }
    }

    #[test]
    fn what_two_values_share() {
        for (wanted, approved, expected) in [
            (json!({ "a": [1, 2], "b": 1 }), json!({ "a": [2, 3], "b": 2 }), json!({ "a": [2] })),
            (json!({ "a": { "x": 1, "y": 2 } }), json!({ "a": { "x": 1 } }), json!({ "a": { "x": 1 } })),
            (json!({ "a": [1] }), json!({ "a": 1 }), json!({})),
        ] {
            assert_eq!(common(&wanted, &approved), Some(expected), "{wanted} and {approved}");
        }
    }
}
