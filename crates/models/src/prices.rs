//! The cost of responses. Sums are kept in whole billionths of a dollar and become floating-point numbers only for
//! display, so that many small costs add up exactly.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use lathe_protocol::Usage;
use serde_json::Value;

use crate::table::{self, MODELS, TokenPrice};

/// A web search, in billionths of a dollar.
const WEB_SEARCH: u64 = 10_000_000;

/// An amount of money.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    nano_usd: u128,
}

impl Cost {
    /// Nothing.
    pub const ZERO: Self = Self { nano_usd: 0 };

    /// Returns the amount in billionths of a dollar.
    pub const fn nano_usd(self) -> u128 {
        self.nano_usd
    }

    /// Returns the amount in dollars, for the wire. Sums must be made before this conversion, which rounds.
    pub fn usd(self) -> f64 {
        self.nano_usd as f64 / 1e9
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { nano_usd: self.nano_usd.saturating_add(other.nano_usd) }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::ZERO, Add::add)
    }
}

/// Where a price comes from; `costBasis` on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostBasis {
    /// The model's row in the table.
    List,
    /// The model is not in the table and was priced as the default one: worth one warning.
    Unknown,
}

impl CostBasis {
    /// Returns the value on the wire.
    pub fn wire_name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Unknown => "unknown",
        }
    }
}

/// A cost and the basis of its price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priced {
    /// The amount.
    pub cost: Cost,
    /// Where the price comes from.
    pub basis: CostBasis,
}

/// Returns the cost of `usage` for `model`. An unknown model is counted at the price of the default one, and the
/// result says so.
pub fn price(usage: &Usage, model: &str) -> Priced {
    let (price, basis) = match table::facts(model) {
        Some(row) => (row.price, CostBasis::List),
        None => (MODELS[0].price, CostBasis::Unknown),
    };
    Priced { cost: price_with(usage, price), basis }
}

/// Returns the cost of `usage` at given prices: tokens by kind, and web searches at their own price.
pub fn price_with(usage: &Usage, price: TokenPrice) -> Cost {
    let writes = CacheWrites::of(usage);
    let nano_usd = [
        (usage.input_tokens, price.input),
        (usage.output_tokens, price.output),
        (usage.cache_read_input_tokens, price.cache_read),
        (writes.five_minutes, price.cache_write_5m),
        (writes.one_hour, price.cache_write_1h),
        (web_searches(usage), WEB_SEARCH),
    ]
    .into_iter()
    .map(|(count, each)| u128::from(count) * u128::from(each))
    .sum();
    Cost { nano_usd }
}

/// Tokens written to the cache, by its lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheWrites {
    /// `ephemeral_5m_input_tokens`, and everything that is not marked as one hour.
    pub five_minutes: u64,
    /// `ephemeral_1h_input_tokens`.
    pub one_hour: u64,
}

impl CacheWrites {
    /// Returns how many tokens were written to which cache. Without the `cache_creation` detail all of them count
    /// as five-minute writes.
    pub fn of(usage: &Usage) -> Self {
        let detail = |key: &str| usage.extra.get("cache_creation").map_or(0, |detail| count(&detail[key]));
        let one_hour = detail("ephemeral_1h_input_tokens");
        let rest = usage.cache_creation_input_tokens.saturating_sub(one_hour);
        Self { five_minutes: rest.max(detail("ephemeral_5m_input_tokens")), one_hour }
    }
}

/// Returns the number of web searches that the API ran, each of which is paid for; 0 if the usage names none.
pub fn web_searches(usage: &Usage) -> u64 {
    usage.extra.get("server_tool_use").map_or(0, |detail| count(&detail["web_search_requests"]))
}

/// Returns a number of tokens or requests; 0 for anything that is not a non-negative integer.
fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn usage(value: Value) -> Usage {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_short_answer_of_the_default_model() {
        let priced = price(&usage(json!({"input_tokens": 100, "output_tokens": 20})), "claude-opus-5-5");
        assert_eq!(priced.cost.usd(), 0.0008);
        assert_eq!(priced.basis, CostBasis::List);
    }

    #[test]
    fn cache_writes_are_told_apart() {
        let cost = |value| price(&usage(value), "claude-sonnet-4-5").cost.nano_usd();
        let total = json!({"cache_creation_input_tokens": 1000});
        assert_eq!(cost(total), 3_750_000);
        let hour = json!({"cache_creation_input_tokens": 1000, "cache_read_input_tokens": 10,
            "cache_creation": {"ephemeral_5m_input_tokens": 400, "ephemeral_1h_input_tokens": 600}});
        assert_eq!(cost(hour), 400 * 3750 + 600 * 6000 + 10 * 300);
        // A sum of usages may have lost part of the detail: nothing is priced twice, nothing is free.
        let partial = json!({"cache_creation_input_tokens": 1000,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 600}});
        assert_eq!(cost(partial), 400 * 3750 + 600 * 6000);
    }

    #[test]
    fn searches_cost_a_cent_each() {
        let searched = usage(json!({"server_tool_use": {"web_search_requests": 3}}));
        assert_eq!(price(&searched, "claude-haiku-5-5").cost.usd(), 0.03);
    }

    #[test]
    fn an_unknown_model_is_priced_as_the_default_one_and_says_so() {
        let some = usage(json!({"input_tokens": 5, "output_tokens": 5}));
        let unknown = price(&some, "nonsense-model");
        assert_eq!(unknown.cost, price(&some, "opus-unknown").cost);
        assert_eq!(unknown.cost, price(&some, "claude-opus-5-5").cost);
        assert_eq!(unknown.basis, CostBasis::Unknown);
    }

    #[test]
    fn sums_do_not_drift_and_do_not_overflow() {
        let one = price(&usage(json!({"input_tokens": 1, "output_tokens": 1})), "claude-haiku-5-5").cost;
        let many: Cost = std::iter::repeat_n(one, 1_000_000).sum();
        assert_eq!(many.usd(), 0.6);
        let huge = usage(json!({"input_tokens": u64::MAX, "output_tokens": u64::MAX}));
        let huge = price(&huge, "claude-opus-5-5").cost;
        assert!((huge + Cost { nano_usd: u128::MAX }).usd().is_finite());
    }
}
