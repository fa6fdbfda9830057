//! The facts about each model, as one table: prices, window, thinking. Data, not code: a new model is a new row.
//!
//! Rows are found by canonical id (see [`canonical`]), never by prefix: `claude-opus-5` is not `claude-opus-5-5`.
//! Numbers are list prices, last checked on 2026-11-16.

use crate::request::Thinking;

/// One model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFacts {
    /// Canonical id, without date or provider.
    pub id: &'static str,
    /// Other ids of the same model.
    pub also: &'static [&'static str],
    /// Name for people, e.g. `Opus 5.5`.
    pub name: &'static str,
    /// The price of a token.
    pub price: TokenPrice,
    /// The capabilities of the model.
    pub capabilities: Capabilities,
}

/// Prices in billionths of a dollar per token, so $1 per million tokens is 1000. Whole numbers, so that sums of any
/// length are exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenPrice {
    /// Input that was not cached.
    pub input: u64,
    /// Output, thinking included.
    pub output: u64,
    /// Input read from the cache.
    pub cache_read: u64,
    /// Input written to the cache for five minutes.
    pub cache_write_5m: u64,
    /// Input written to the cache for an hour.
    pub cache_write_1h: u64,
}

/// The capabilities of a model, as far as a request depends on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The size of the context window in tokens, for prompt and response.
    pub context_window: u64,
    /// The longest response, and the default for `max_tokens`.
    pub max_output_tokens: u32,
    /// How its thinking is requested.
    pub thinking: ThinkingStyle,
    /// The values of `output_config.effort` that it takes, lowest first; empty if the field is rejected.
    pub efforts: &'static [&'static str],
    /// The default effort.
    pub default_effort: Option<&'static str>,
    /// Whether results may refer to tools (`tool_reference`), so that requests can leave out what is not used.
    pub tool_references: bool,
}

/// How a model's thinking is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingStyle {
    /// It does not show its thinking.
    None,
    /// It takes a budget of tokens.
    Budget,
    /// It decides itself, guided by the effort.
    Adaptive,
}

/// The smallest budget the API accepts.
pub const MIN_THINKING_BUDGET: u32 = 1024;

impl Capabilities {
    /// Returns the default thinking for a response of at most `max_tokens`. A budget is all of it but one token, and
    /// none if that is below the API's minimum.
    pub fn default_thinking(&self, max_tokens: u32) -> Thinking {
        match self.thinking {
            ThinkingStyle::None => Thinking::Disabled,
            ThinkingStyle::Budget if max_tokens > MIN_THINKING_BUDGET => Thinking::Budget(max_tokens - 1),
            ThinkingStyle::Budget => Thinking::Disabled,
            ThinkingStyle::Adaptive => Thinking::Adaptive,
        }
    }

    /// Returns `wanted`, or the next lower effort that this model takes, or its lowest if all are higher. `None` if it
    /// takes none, or if `wanted` is not an effort.
    pub fn clamp_effort(&self, wanted: &str) -> Option<&'static str> {
        let rank = |name: &str| ALL_EFFORTS.iter().position(|effort| *effort == name);
        let wanted = rank(wanted)?;
        let mut at_most = self.efforts.iter().copied().filter(|name| rank(name) <= Some(wanted));
        at_most.next_back().or_else(|| self.efforts.first().copied())
    }
}

/// Every effort there is, lowest first.
pub const ALL_EFFORTS: &[&str] = &["low", "medium", "high", "xhigh", "max"];
/// The efforts of the first models that had one.
const EARLY_EFFORTS: &[&str] = &["low", "medium", "high"];

/// Returns a price row from thousandths of a dollar per million tokens, which are billionths of a dollar per token.
const fn milli(
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write_5m: u64,
    cache_write_1h: u64,
) -> TokenPrice {
    TokenPrice { input, output, cache_read, cache_write_5m, cache_write_1h }
}

/// Returns the capabilities of a model that decides itself how long to think and takes every effort.
const fn adaptive(context_window: u64, max_output_tokens: u32) -> Capabilities {
    Capabilities {
        context_window,
        max_output_tokens,
        thinking: ThinkingStyle::Adaptive,
        efforts: ALL_EFFORTS,
        default_effort: Some("medium"),
        tool_references: true,
    }
}

/// Returns the capabilities of a model that thinks within a fixed budget and takes no effort.
const fn budgeted(context_window: u64, max_output_tokens: u32) -> Capabilities {
    Capabilities {
        context_window,
        max_output_tokens,
        thinking: ThinkingStyle::Budget,
        efforts: &[],
        default_effort: None,
        tool_references: true,
    }
}

/// The window of models with a long context.
pub const LONG_WINDOW: u64 = 1_000_000;
const SHORT_WINDOW: u64 = 200_000;

const OPUS_4_5_TO_5: TokenPrice = milli(5000, 25_000, 500, 6250, 10_000);
const SONNET_4: TokenPrice = milli(3000, 15_000, 300, 3750, 6000);
const FIRST_FABLE: TokenPrice = milli(10_000, 50_000, 1000, 12_500, 20_000);

/// An unknown model: priced as the default model, with a moderate response length.
pub const UNKNOWN_CLAUDE: Capabilities = adaptive(LONG_WINDOW, 32_000);
/// A model of another vendor behind a compatible address: only fields that it certainly knows.
pub const UNKNOWN_FOREIGN: Capabilities = Capabilities {
    context_window: LONG_WINDOW,
    max_output_tokens: 32_000,
    thinking: ThinkingStyle::None,
    efforts: &[],
    default_effort: None,
    tool_references: false,
};

/// The table. The first row is the default model.
pub static MODELS: &[ModelFacts] = &[
    ModelFacts {
        id: "claude-opus-5-5",
        also: &[],
        name: "Opus 5.5",
        price: milli(4000, 20_000, 200, 5000, 8000),
        capabilities: adaptive(LONG_WINDOW, 128_000),
    },
    ModelFacts {
        id: "claude-sonnet-5-5",
        also: &[],
        name: "Sonnet 5.5",
        price: milli(2000, 10_000, 100, 2500, 4000),
        capabilities: adaptive(LONG_WINDOW, 128_000),
    },
    ModelFacts {
        id: "claude-haiku-5-5",
        also: &[],
        name: "Haiku 5.5",
        price: milli(100, 500, 10, 125, 200),
        capabilities: adaptive(LONG_WINDOW, 128_000),
    },
    ModelFacts {
        id: "claude-fable-5-2",
        also: &[],
        name: "Fable 5.2",
        price: milli(8000, 40_000, 200, 10_000, 16_000),
        capabilities: adaptive(LONG_WINDOW, 128_000),
    },
    ModelFacts {
        id: "claude-fable-5",
        also: &["claude-fable-5-0"],
        name: "Fable 5",
        price: FIRST_FABLE,
        capabilities: adaptive(LONG_WINDOW, 64_000),
    },
    ModelFacts {
        id: "claude-mythos-5",
        also: &["claude-mythos-5-0"],
        name: "Mythos 5",
        price: FIRST_FABLE,
        capabilities: adaptive(LONG_WINDOW, 64_000),
    },
    ModelFacts {
        id: "claude-opus-5",
        also: &["claude-opus-5-0"],
        name: "Opus 5",
        price: OPUS_4_5_TO_5,
        capabilities: adaptive(LONG_WINDOW, 64_000),
    },
    ModelFacts {
        id: "claude-opus-4-8",
        also: &[],
        name: "Opus 4.8",
        price: OPUS_4_5_TO_5,
        capabilities: adaptive(LONG_WINDOW, 64_000),
    },
    ModelFacts {
        id: "claude-opus-4-7",
        also: &[],
        name: "Opus 4.7",
        price: OPUS_4_5_TO_5,
        capabilities: adaptive(LONG_WINDOW, 64_000),
    },
    ModelFacts {
        id: "claude-opus-4-6",
        also: &[],
        name: "Opus 4.6",
        price: OPUS_4_5_TO_5,
        capabilities: Capabilities { efforts: EARLY_EFFORTS, ..adaptive(SHORT_WINDOW, 64_000) },
    },
    ModelFacts {
        id: "claude-opus-4-5",
        also: &[],
        name: "Opus 4.5",
        price: OPUS_4_5_TO_5,
        capabilities: Capabilities {
            efforts: EARLY_EFFORTS,
            default_effort: Some("high"),
            ..budgeted(SHORT_WINDOW, 32_000)
        },
    },
    ModelFacts {
        id: "claude-sonnet-5",
        also: &["claude-sonnet-5-0"],
        name: "Sonnet 5",
        price: milli(2000, 10_000, 200, 2500, 4000),
        capabilities: adaptive(LONG_WINDOW, 64_000),
    },
    ModelFacts {
        id: "claude-sonnet-4-6",
        also: &[],
        name: "Sonnet 4.6",
        price: SONNET_4,
        capabilities: Capabilities { efforts: EARLY_EFFORTS, ..adaptive(SHORT_WINDOW, 32_000) },
    },
    ModelFacts {
        id: "claude-sonnet-4-5",
        also: &[],
        name: "Sonnet 4.5",
        price: SONNET_4,
        capabilities: budgeted(SHORT_WINDOW, 32_000),
    },
    ModelFacts {
        id: "claude-sonnet-4",
        also: &["claude-sonnet-4-0"],
        name: "Sonnet 4",
        price: SONNET_4,
        capabilities: budgeted(SHORT_WINDOW, 32_000),
    },
    ModelFacts {
        id: "claude-haiku-4-5",
        also: &[],
        name: "Haiku 4.5",
        price: milli(1000, 5000, 100, 1250, 2000),
        capabilities: Capabilities { tool_references: false, ..budgeted(SHORT_WINDOW, 32_000) },
    },
    ModelFacts {
        id: "claude-3-5-haiku",
        also: &[],
        name: "Haiku 3.5",
        price: milli(800, 4000, 80, 1000, 1600),
        capabilities: Capabilities {
            thinking: ThinkingStyle::None,
            tool_references: false,
            ..budgeted(SHORT_WINDOW, 8192)
        },
    },
];

/// Returns the row of a model, whatever provider, date or `[1m]` its id contains; `None` if the table does not have it.
pub fn facts(model: &str) -> Option<&'static ModelFacts> {
    let id = canonical(model);
    MODELS.iter().find(|row| row.id == id || row.also.contains(&id))
}

/// Returns the id without the additions of providers: `us.anthropic.claude-sonnet-4-5-20250929-v1:0` and
/// `claude-sonnet-4-5[1m]` are both `claude-sonnet-4-5`. Ids of other vendors stay as they are.
pub fn canonical(model: &str) -> &str {
    let (model, _) = split_long_context(model);
    let Some(start) = model.find("claude-") else { return model };
    let mut id = &model[start..];
    id = id.split_once('@').map_or(id, |(id, _)| id);
    if let Some((rest, version)) = id.rsplit_once("-v")
        && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b':')
    {
        id = rest;
    }
    id = id.strip_suffix("-latest").unwrap_or(id);
    match id.rsplit_once('-') {
        Some((rest, date)) if date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        Some(_) | None => id,
    }
}

/// Splits a trailing `[1m]`, in any case, off an id: returns the id without it and whether it was there.
pub fn split_long_context(model: &str) -> (&str, bool) {
    let lower_suffix = model.len().checked_sub(4).and_then(|at| model.get(at..));
    match lower_suffix {
        Some(suffix) if suffix.eq_ignore_ascii_case("[1m]") => (&model[..model.len() - 4], true),
        Some(_) | None => (model, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_whatever_stands_around_them() {
        let id = |model| facts(model).map(|row| row.id);
        for model in [
            "claude-sonnet-4-5",
            "claude-sonnet-4-5-20250929",
            "claude-sonnet-4-5[1m]",
            "claude-sonnet-4-5-20250929[1M]",
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "anthropic/claude-sonnet-4-5",
            "claude-sonnet-4-5@20250929",
            "claude-sonnet-4-5-latest",
        ] {
            assert_eq!(id(model), Some("claude-sonnet-4-5"), "{model}");
        }
        assert_eq!(id("claude-sonnet-4-20250514"), Some("claude-sonnet-4"));
        assert_eq!(id("claude-opus-5"), Some("claude-opus-5"));
        assert_eq!(id("claude-opus-5-5"), Some("claude-opus-5-5"));
        assert_eq!(id("claude-opus-5-6"), None);
        assert_eq!(id("glm-5"), None);
        assert_eq!(id(""), None);
        assert_eq!(canonical("é[1m]"), "é");
    }

    #[test]
    fn rows_are_unique_and_sensible() {
        let mut ids: Vec<_> = MODELS.iter().flat_map(|row| row.also.iter().chain([&row.id])).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "an id stands in two rows");
        for row in MODELS {
            assert_eq!(canonical(row.id), row.id);
            // True of every published model: a write costs 1.25 and 2 times the input price.
            assert_eq!(row.price.cache_write_5m * 4, row.price.input * 5, "{}", row.id);
            assert_eq!(row.price.cache_write_1h, row.price.input * 2, "{}", row.id);
            assert_eq!(row.price.output, row.price.input * 5, "{}", row.id);
            let effort = row.capabilities.default_effort;
            assert!(effort.is_none_or(|effort| row.capabilities.efforts.contains(&effort)));
        }
    }

    #[test]
    fn an_effort_falls_back_to_the_next_lower_one() {
        let capabilities = |model| facts(model).unwrap().capabilities;
        assert_eq!(capabilities("claude-opus-5-5").clamp_effort("max"), Some("max"));
        assert_eq!(capabilities("claude-opus-4-5").clamp_effort("xhigh"), Some("high"));
        assert_eq!(capabilities("claude-opus-4-5").clamp_effort("low"), Some("low"));
        assert_eq!(capabilities("claude-opus-4-5").clamp_effort("heroic"), None);
        assert_eq!(capabilities("claude-sonnet-4-5").clamp_effort("high"), None);
    }

    #[test]
    fn thinking_is_asked_for_as_the_model_takes_it() {
        let thinking = |model, max| facts(model).unwrap().capabilities.default_thinking(max);
        assert_eq!(thinking("claude-opus-5-5", 128_000), Thinking::Adaptive);
        assert_eq!(thinking("claude-sonnet-4-5", 32_000), Thinking::Budget(31_999));
        assert_eq!(thinking("claude-sonnet-4-5", 1024), Thinking::Disabled);
        assert_eq!(thinking("claude-3-5-haiku", 8192), Thinking::Disabled);
    }
}
