//! Token counts, as the Messages API reports them and as results add them up.
//!
//! Only the four main counters are fields; the nested ones stay in `extra` as the API sent them, so that a relayed
//! usage is unchanged. Adding therefore works on JSON: numbers are summed, objects are merged key by key, and for
//! anything else the later value is kept.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::Extra;

/// Tokens of one response, or a sum of responses. Fields that the API adds later are kept in `extra`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    #[serde(default, deserialize_with = "null_is_zero")]
    pub input_tokens: u64,
    #[serde(default, deserialize_with = "null_is_zero")]
    pub cache_creation_input_tokens: u64,
    #[serde(default, deserialize_with = "null_is_zero")]
    pub cache_read_input_tokens: u64,
    #[serde(default, deserialize_with = "null_is_zero")]
    pub output_tokens: u64,
    /// The other fields: `cache_creation`, `server_tool_use`, `service_tier`, …
    #[serde(flatten)]
    pub extra: Extra,
}

/// Reads a counter in which null counts as 0, because some compatible servers write null for counters that they do
/// not keep.
fn null_is_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Option::<u64>::deserialize(deserializer)?.unwrap_or(0))
}

impl Usage {
    /// Returns a copy of this usage with every field that `result.usage` shows; missing counters are zero, and the
    /// other missing fields have their usual values.
    pub fn result_shape(&self) -> Self {
        let mut shaped = Self::default();
        let Value::Object(fields) = json!({
            "output_tokens_details": { "thinking_tokens": 0 },
            "server_tool_use": { "web_search_requests": 0, "web_fetch_requests": 0 },
            "service_tier": "standard",
            "cache_creation": { "ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0 },
            "inference_geo": "",
            "iterations": [],
            "speed": "standard",
            "fallback_credit": null,
        }) else {
            unreachable!("the literal is an object")
        };
        shaped.extra = fields;
        shaped.add(self);
        shaped
    }

    /// Adds another usage to this one, nested counters included; sums stop at the largest number. A field that is not a
    /// counter takes the value of `other`, unless that is null.
    pub fn add(&mut self, other: &Usage) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.cache_creation_input_tokens =
            self.cache_creation_input_tokens.saturating_add(other.cache_creation_input_tokens);
        self.cache_read_input_tokens =
            self.cache_read_input_tokens.saturating_add(other.cache_read_input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        merge(&mut self.extra, &other.extra);
    }

    /// Returns the tokens written to the five-minute cache; 0 if the API did not say.
    pub fn cache_creation_5m(&self) -> u64 {
        self.nested("cache_creation", "ephemeral_5m_input_tokens")
    }

    /// Returns the tokens written to the one-hour cache; 0 if the API did not say.
    pub fn cache_creation_1h(&self) -> u64 {
        self.nested("cache_creation", "ephemeral_1h_input_tokens")
    }

    /// Returns the number of searches that the API ran; 0 if it did not say.
    pub fn web_search_requests(&self) -> u64 {
        self.nested("server_tool_use", "web_search_requests")
    }

    /// Returns how many of the output tokens were thinking; 0 if the API did not say.
    pub fn thinking_tokens(&self) -> u64 {
        self.nested("output_tokens_details", "thinking_tokens")
    }

    /// Returns a counter of a group in `extra`; 0 if the group or the counter is absent, or it is not a whole number.
    fn nested(&self, group: &str, counter: &str) -> u64 {
        self.extra.get(group).and_then(|group| group[counter].as_u64()).unwrap_or(0)
    }
}

/// Adds the counters of `from` to those of `into`: sums whole numbers that are not negative, descends into objects, and
/// takes any other value from `from`. A null replaces nothing, but is taken for a field that `into` does not have.
fn merge(into: &mut Extra, from: &Extra) {
    for (key, new) in from {
        match (into.get_mut(key), new) {
            (None, new) => {
                into.insert(key.clone(), new.clone());
            }
            (Some(_), Value::Null) => {}
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (Some(old), new) => match (old.as_u64(), new.as_u64()) {
                (Some(a), Some(b)) => *old = Value::from(a.saturating_add(b)),
                _ => *old = new.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(value: Value) -> Usage {
        Usage::deserialize(value).unwrap()
    }

    #[test]
    fn adding_sums_the_nested_counters_too() {
        let answer = usage(json!({
            "input_tokens": 10, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 2, "output_tokens": 5,
            "cache_creation": { "ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 2 },
            "server_tool_use": { "web_search_requests": 1 },
            "output_tokens_details": { "thinking_tokens": 4 },
            "service_tier": "standard",
        }));
        let mut sum = Usage::default();
        sum.add(&answer);
        sum.add(&answer);
        assert_eq!((sum.input_tokens, sum.output_tokens), (20, 10));
        assert_eq!((sum.cache_creation_input_tokens, sum.cache_read_input_tokens), (6, 4));
        assert_eq!((sum.cache_creation_5m(), sum.cache_creation_1h()), (2, 4));
        assert_eq!((sum.web_search_requests(), sum.thinking_tokens()), (2, 8));
        assert_eq!(sum.extra["service_tier"], "standard");
    }

    #[test]
    fn a_null_never_wipes_what_was_there() {
        let mut sum =
            usage(json!({ "output_tokens": 1, "cache_creation": { "ephemeral_5m_input_tokens": 1 } }));
        sum.add(&usage(json!({ "output_tokens": null, "cache_creation": null, "service_tier": null })));
        assert_eq!((sum.output_tokens, sum.cache_creation_5m()), (1, 1));
        assert_eq!(sum.extra["service_tier"], Value::Null);
    }

    #[test]
    fn the_shape_of_a_result_fills_in_zeros_and_keeps_what_is_counted() {
        let shaped = usage(json!({
            "input_tokens": 7, "server_tool_use": { "web_search_requests": 2 }, "service_tier": null,
        }))
        .result_shape();
        assert_eq!((shaped.input_tokens, shaped.web_search_requests()), (7, 2));
        assert_eq!(shaped.extra["server_tool_use"]["web_fetch_requests"], 0);
        assert_eq!(shaped.extra["service_tier"], "standard");
        assert_eq!(shaped.result_shape(), shaped);
    }

    #[test]
    fn counters_that_overflow_stop_at_the_top() {
        let mut sum = Usage { input_tokens: u64::MAX, ..Default::default() };
        sum.add(&Usage { input_tokens: 1, ..Default::default() });
        assert_eq!(sum.input_tokens, u64::MAX);
    }
}
