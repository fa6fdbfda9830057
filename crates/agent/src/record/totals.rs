//! What a session has used, by model, and what that cost.

use std::collections::BTreeMap;

use lathe_models::prices::{self, Cost, CostBasis};
use lathe_protocol::{ModelUsage, Usage};
use lathe_tools::ChangedLines;
use lathe_transcript::record::CostState;
use serde_json::Value;

use crate::record::journal::SpentTotals;

/// Running sums of one session.
#[derive(Default)]
pub struct SessionTotals {
    models: Vec<(String, Sum)>,
    /// Models of the current turn, for `model_usage_since_last_result`.
    since_result: Vec<(String, Sum)>,
    unknown_models: Vec<String>,
    /// Usage of the last response of the conversation.
    last_usage: Option<Usage>,
    /// Time spent in requests.
    api_ms: u64,
    /// What earlier runs of the session cost: part of its total, not of this run's budget.
    earlier: Earlier,
    work: Work,
    /// Cost of the sessions that this run has left with `/clear`: part of its budget, not of the session's total.
    left: Cost,
}

/// What a session had used when this run resumed it.
#[derive(Default)]
struct Earlier {
    cost_usd: f64,
    models: BTreeMap<String, ModelUsage>,
    duration_ms: u64,
    started_ms: Option<u64>,
}

/// Work of a session, over all its runs, which its file keeps for later readers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Work {
    api_ms: u64,
    tool_ms: u64,
    lines_added: u64,
    lines_removed: u64,
    /// Whether a model without a price was used.
    unknown_cost: bool,
}

#[derive(Default, Clone)]
struct Sum {
    usage: Usage,
    cost: Cost,
    basis: Option<CostBasis>,
}

impl SessionTotals {
    /// Adds the usage and cost of one response, and notes a model without a price for [`Self::take_unknown_models`].
    /// Must be called once per response, also for a broken one.
    pub fn add(&mut self, model: &str, usage: &Usage) {
        let priced = prices::price(usage, model);
        if priced.basis == CostBasis::Unknown && !self.unknown_models.iter().any(|known| known == model) {
            self.unknown_models.push(model.to_owned());
            self.work.unknown_cost = true;
        }
        for sums in [&mut self.models, &mut self.since_result] {
            let at = match sums.iter().position(|(name, _)| name == model) {
                Some(at) => at,
                None => {
                    sums.push((model.to_owned(), Sum::default()));
                    sums.len() - 1
                }
            };
            let sum = &mut sums[at].1;
            sum.usage.add(usage);
            sum.cost += priced.cost;
            sum.basis = Some(priced.basis);
        }
    }

    /// Notes the usage of a response of the main conversation, from which its size is known. A response that failed
    /// before it began has no usage and leaves the noted one.
    pub fn note_last(&mut self, usage: &Usage) {
        // A response that failed before it began has no usage.
        if sent(usage) > 0 {
            self.last_usage = Some(usage.clone());
        }
    }

    /// Forgets the noted usage when the conversation is replaced or begins anew.
    pub fn forget_last(&mut self) {
        self.last_usage = None;
    }

    /// Returns the usage of the last response of the main conversation; `None` before the first, and after
    /// [`Self::forget_last`].
    pub fn last_usage(&self) -> Option<&Usage> {
        self.last_usage.as_ref()
    }

    /// Returns the tokens of the conversation as the last response counted them; 0 before the first.
    pub fn context_tokens(&self) -> u64 {
        self.last_usage.as_ref().map_or(0, |usage| sent(usage) + usage.output_tokens)
    }

    /// Adds the time of a request to the time of this run, which [`Self::api_ms`] returns. [`Self::add_api_time`]
    /// counts for the session's file.
    pub fn add_api_ms(&mut self, ms: u64) {
        self.api_ms += ms;
    }

    /// Returns the time that this run has spent in requests for this session, in milliseconds.
    pub fn api_ms(&self) -> u64 {
        self.api_ms
    }

    /// Takes over the totals of earlier runs of the session, which later totals include. The usage of a model that
    /// cannot be parsed is left out. To be called before anything is counted, because times and changed lines are
    /// replaced.
    pub fn start_from(&mut self, state: &CostState) {
        let usage = |(model, value): (&String, &Value)| {
            Some((model.clone(), serde_json::from_value(value.clone()).ok()?))
        };
        self.earlier = Earlier {
            cost_usd: state.total_cost_usd,
            models: state.model_usage.iter().filter_map(usage).collect(),
            duration_ms: state.total_duration,
            started_ms: (state.start_time > 0).then_some(state.start_time),
        };
        self.work = Work {
            api_ms: state.total_api_duration,
            tool_ms: state.total_tool_duration,
            lines_added: state.total_lines_added,
            lines_removed: state.total_lines_removed,
            unknown_cost: state.has_unknown_model_cost,
        };
    }

    /// Adds time that a turn spent in requests to the work that the session's file keeps. It is not part of
    /// [`Self::api_ms`].
    pub fn add_api_time(&mut self, ms: u64) {
        self.work.api_ms += ms;
    }

    /// Adds time that a tool call took to the work that the session's file keeps.
    pub fn add_tool_time(&mut self, ms: u64) {
        self.work.tool_ms += ms;
    }

    /// Adds the lines that a tool call has added and removed to the work that the session's file keeps.
    pub fn add_changes(&mut self, lines: ChangedLines) {
        self.work.lines_added += lines.added;
        self.work.lines_removed += lines.removed;
    }

    /// Returns the lines that tools have added to files and removed from them, over all runs of the session.
    pub fn changed_lines(&self) -> ChangedLines {
        ChangedLines { added: self.work.lines_added, removed: self.work.lines_removed }
    }

    /// Returns the totals over all runs that the session's file keeps; this run began at `started_ms`.
    pub fn spent(&self, started_ms: u64, now_ms: u64) -> SpentTotals {
        SpentTotals {
            cost_usd: self.cost_usd(),
            api_ms: self.work.api_ms,
            tool_ms: self.work.tool_ms,
            lines_added: self.work.lines_added,
            lines_removed: self.work.lines_removed,
            duration_ms: self.earlier.duration_ms + now_ms.saturating_sub(started_ms),
            started_ms: self.earlier.started_ms.unwrap_or(started_ms),
            has_unknown_cost: self.work.unknown_cost,
            model_usage: self.model_usage(),
        }
    }

    /// Starts at zero for another session in the same run. The budget is that of the run, so what was spent stays
    /// in [`Self::run_cost_usd`].
    pub fn begin_anew(&mut self) {
        let left = self.left + self.session_cost();
        // Models without a price stay, because the host has not been told of them yet.
        *self = Self { left, unknown_models: std::mem::take(&mut self.unknown_models), ..Self::default() };
    }

    /// Returns the cost of this session in this run, without earlier runs and without sessions that `/clear` has ended.
    fn session_cost(&self) -> Cost {
        self.models.iter().map(|(_, sum)| sum.cost).sum()
    }

    /// Returns the cost of this run over all its sessions in US dollars, which the budget limits.
    pub fn run_cost_usd(&self) -> f64 {
        (self.left + self.session_cost()).usd()
    }

    /// Returns the cost of the session over all its runs in US dollars.
    pub fn cost_usd(&self) -> f64 {
        self.earlier.cost_usd + self.session_cost().usd()
    }

    /// Returns usage and cost per model over all runs of the session, for the field `modelUsage` of a result.
    pub fn model_usage(&self) -> BTreeMap<String, ModelUsage> {
        let mut all = usage_map(&self.models);
        for (model, earlier) in &self.earlier.models {
            match all.get_mut(model) {
                Some(usage) => add(usage, earlier),
                None => drop(all.insert(model.clone(), earlier.clone())),
            }
        }
        all
    }

    /// Returns the usage per model since the last call, and starts at zero again. Must be called once per result.
    pub fn take_since_result(&mut self) -> BTreeMap<String, ModelUsage> {
        usage_map(&std::mem::take(&mut self.since_result))
    }

    /// Takes the names of models without a price, each once. They are counted at the price of the default model.
    pub fn take_unknown_models(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unknown_models)
    }
}

/// Returns the input tokens of a request, cached or not.
fn sent(usage: &Usage) -> u64 {
    usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens
}

/// Adds the counters of an earlier run of the session. Facts about the model, such as its window, stay.
fn add(usage: &mut ModelUsage, earlier: &ModelUsage) {
    usage.input_tokens += earlier.input_tokens;
    usage.output_tokens += earlier.output_tokens;
    usage.cache_read_input_tokens += earlier.cache_read_input_tokens;
    usage.cache_creation_input_tokens += earlier.cache_creation_input_tokens;
    usage.web_search_requests += earlier.web_search_requests;
    usage.cost_usd += earlier.cost_usd;
}

/// Returns the usage by model as results report it, without models that have used nothing.
fn usage_map(sums: &[(String, Sum)]) -> BTreeMap<String, ModelUsage> {
    let entry = |(model, sum): &(String, Sum)| {
        // A response that never began cost nothing and is not listed.
        let used = sum.usage.input_tokens + sum.usage.output_tokens > 0 || sum.cost != Cost::default();
        used.then(|| (model.clone(), model_usage(model, sum)))
    };
    sums.iter().filter_map(entry).collect()
}

/// Returns the usage of one model with the facts that hosts expect beside it, such as its window.
fn model_usage(model: &str, sum: &Sum) -> ModelUsage {
    let facts = lathe_models::catalog::capabilities(model);
    ModelUsage {
        input_tokens: sum.usage.input_tokens,
        output_tokens: sum.usage.output_tokens,
        cache_read_input_tokens: sum.usage.cache_read_input_tokens,
        cache_creation_input_tokens: sum.usage.cache_creation_input_tokens,
        web_search_requests: sum.usage.web_search_requests(),
        cost_usd: sum.cost.usd(),
        context_window: Some(facts.context_window),
        max_output_tokens: Some(facts.max_output_tokens.into()),
        thinking_tokens: Some(sum.usage.thinking_tokens()),
        cache_creation_ephemeral_5m_input_tokens: Some(sum.usage.cache_creation_5m()),
        cache_creation_ephemeral_1h_input_tokens: Some(sum.usage.cache_creation_1h()),
        canonical_model: Some(lathe_models::table::canonical(model).to_owned()),
        provider: Some("firstParty".to_owned()),
        cost_basis: sum.basis.map(|basis| basis.wire_name().to_owned()),
        ..ModelUsage::default()
    }
}
