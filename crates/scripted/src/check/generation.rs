//! Which requests a model accepts, derived from its name: the generations of the API reference as one table.
//!
//! A name of another vendor, or one without a version (such as `m` in tests), has no generation: it is only subject to
//! the rules for every model. A version that is newer than the table has the rules that all models of the last
//! generation share, and none of those in which they differ.

use lathe_models::table;

/// Models that accept the same requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ModelGeneration {
    /// A model that is not known.
    Unknown,
    /// Up to 4.5: budgets for thinking, and the last message may be the assistant's.
    UpToFourFive,
    /// 4.6: budgets and adaptive thinking.
    FourSix,
    /// 4.7 and 4.8: adaptive thinking only.
    FourSevenOrEight,
    /// 5 and later: they think unless told otherwise.
    FiveOrLater,
}

/// The treatment of `thinking: {"type": "disabled"}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DisabledThinking {
    Accepted,
    /// Accepted unless the effort is above high.
    UpToHighEffort,
    Refused,
}

/// The rules for one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelRules {
    pub(crate) generation: ModelGeneration,
    /// The largest `max_tokens`.
    pub(crate) output_cap: Option<u64>,
    /// The most input tokens.
    pub(crate) window: u64,
    pub(crate) disabled_thinking: DisabledThinking,
    /// Budgets are accepted although the generation has none (Mythos Preview).
    pub(crate) takes_budget: bool,
    pub(crate) takes_effort: bool,
    /// Results may refer to tools.
    pub(crate) takes_tool_references: bool,
    /// `temperature` and `top_p` exclude each other.
    pub(crate) one_sampling_field: bool,
    /// Input and `max_tokens` together must fit into the window.
    pub(crate) counts_answer: bool,
    /// An edited thinking text is not noticed as long as the signature is intact.
    pub(crate) overlooks_edits: bool,
    /// Thinking blocks are bound to the conversation before them.
    pub(crate) binds_history: bool,
}

const SHORT_WINDOW: u64 = 200_000;
const LONG_WINDOW: u64 = 1_000_000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ModelVersion(u32, u32);

impl ModelRules {
    /// Returns the rules for the `model` of a request that is sent with `betas`, some of which widen a limit. A name
    /// without family and version gets the rules that every model has.
    pub(crate) fn of(model: &str, betas: &[&str]) -> Self {
        let id = table::canonical(model);
        let Some((family, version)) = family_and_version(id) else { return Self::unknown(id) };
        let generation = generation_of(version);
        let old = generation == ModelGeneration::UpToFourFive;
        let asked_long = betas.iter().any(|beta| beta.starts_with("context-1m-"));
        let disabled_thinking = match (family, version) {
            ("fable" | "mythos", ModelVersion(5, 0 | 1)) => DisabledThinking::Refused,
            ("opus", ModelVersion(5, 0)) => DisabledThinking::UpToHighEffort,
            _ => DisabledThinking::Accepted,
        };
        Self {
            generation,
            output_cap: output_cap(family, version)
                .filter(|_| !betas.iter().any(|b| b.starts_with("output-"))),
            window: if old && !asked_long { SHORT_WINDOW } else { LONG_WINDOW },
            disabled_thinking,
            takes_budget: false,
            takes_effort: !old || (family, version) == ("opus", ModelVersion(4, 5)),
            // From Sonnet 4 and Opus 4 on, and no earlier Haiku than the fifth.
            takes_tool_references: version >= ModelVersion(if family == "haiku" { 5 } else { 4 }, 0),
            one_sampling_field: (ModelVersion(4, 1)..=ModelVersion(4, 6)).contains(&version),
            counts_answer: version <= ModelVersion(4, 1),
            overlooks_edits: (family, version) == ("sonnet", ModelVersion(5, 0)),
            binds_history: (family, version) == ("fable", ModelVersion(5, 1)),
        }
    }

    /// Returns the rules for a name without family and version: only what every model refuses is refused. One such name
    /// is known to belong to the last generation.
    fn unknown(id: &str) -> Self {
        let preview = id == "claude-mythos-preview";
        let generation = if preview { ModelGeneration::FiveOrLater } else { ModelGeneration::Unknown };
        Self {
            generation,
            output_cap: None,
            window: LONG_WINDOW,
            disabled_thinking: if preview { DisabledThinking::Refused } else { DisabledThinking::Accepted },
            takes_budget: preview,
            takes_effort: true,
            takes_tool_references: true,
            one_sampling_field: false,
            counts_answer: false,
            overlooks_edits: false,
            binds_history: false,
        }
    }

    /// Returns whether the model accepts no thinking budget; false for a model that is not known.
    pub(crate) fn refuses_budget(&self) -> bool {
        self.generation >= ModelGeneration::FourSevenOrEight && !self.takes_budget
    }

    /// Returns whether the last message must be the user's; false for a model that is not known.
    pub(crate) fn refuses_prefill(&self) -> bool {
        self.generation >= ModelGeneration::FourSix
    }

    /// Returns whether the model refuses `temperature`, `top_p` and `top_k` other than their defaults; false for a
    /// model that is not known.
    pub(crate) fn refuses_sampling(&self) -> bool {
        self.generation >= ModelGeneration::FourSevenOrEight
    }

    /// Returns whether the model is of version 4.5 or older; false for a name without a version.
    pub(crate) fn is_up_to_four_five(&self) -> bool {
        self.generation == ModelGeneration::UpToFourFive
    }
}

/// Returns the generation of a version. A version newer than the table belongs to the last one.
fn generation_of(version: ModelVersion) -> ModelGeneration {
    match version {
        v if v < ModelVersion(4, 6) => ModelGeneration::UpToFourFive,
        v if v < ModelVersion(4, 7) => ModelGeneration::FourSix,
        v if v < ModelVersion(5, 0) => ModelGeneration::FourSevenOrEight,
        _ => ModelGeneration::FiveOrLater,
    }
}

/// Returns the largest `max_tokens` of a model; `None` means that none is enforced. The arms depend on their order:
/// each only sees the versions that those above leave.
fn output_cap(family: &str, version: ModelVersion) -> Option<u64> {
    match (family, version) {
        (_, v) if v < ModelVersion(4, 0) => None,
        ("opus", v) if v <= ModelVersion(4, 1) => Some(32_000),
        (_, v) if v <= ModelVersion(4, 5) => Some(64_000),
        _ => Some(128_000),
    }
}

/// Returns family and version of an id in the style of `claude-opus-4-5` or of `claude-3-5-haiku`; a missing minor
/// version is 0. `None` if the id does not begin with `claude-`, has no number, or begins with its version and has no
/// family.
fn family_and_version(id: &str) -> Option<(&str, ModelVersion)> {
    let parts: Vec<&str> = id.strip_prefix("claude-")?.split('-').collect();
    let number = |at: usize| parts.get(at).and_then(|part| part.parse::<u32>().ok());
    match number(0) {
        Some(major) => {
            let minor = number(1);
            let family = parts.get(if minor.is_some() { 2 } else { 1 })?;
            Some((family, ModelVersion(major, minor.unwrap_or(0))))
        }
        None => Some((parts[0], ModelVersion(number(1)?, number(2).unwrap_or(0)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_generations() {
        use ModelGeneration::{FiveOrLater, FourSevenOrEight, FourSix, Unknown, UpToFourFive};
        for (model, generation, cap) in [
            ("claude-3-5-haiku-20241022", UpToFourFive, None),
            ("claude-opus-4-20250514", UpToFourFive, Some(32_000)),
            ("claude-sonnet-4-20250514", UpToFourFive, Some(64_000)),
            ("claude-opus-4-5-20251101", UpToFourFive, Some(64_000)),
            ("claude-sonnet-4-6", FourSix, Some(128_000)),
            ("claude-opus-4-8", FourSevenOrEight, Some(128_000)),
            ("claude-sonnet-5", FiveOrLater, Some(128_000)),
            ("claude-opus-5-5[1m]", FiveOrLater, Some(128_000)),
            ("claude-mythos-preview", FiveOrLater, None),
            ("claude-x", Unknown, None),
            ("m", Unknown, None),
        ] {
            let rules = ModelRules::of(model, &[]);
            assert_eq!((rules.generation, rules.output_cap), (generation, cap), "{model}");
        }
        assert_eq!(ModelRules::of("claude-sonnet-4-5", &[]).window, 200_000);
        assert_eq!(ModelRules::of("claude-sonnet-4-5", &["context-1m-2025-08-07"]).window, 1_000_000);
        assert!(ModelRules::of("claude-opus-4-5", &[]).takes_effort);
        assert!(!ModelRules::of("claude-haiku-4-5", &[]).takes_effort);
        for (model, takes) in [
            ("claude-haiku-4-5", false),
            ("claude-3-5-haiku", false),
            ("claude-haiku-5-5", true),
            ("claude-sonnet-4", true),
            ("m", true),
        ] {
            assert_eq!(ModelRules::of(model, &[]).takes_tool_references, takes, "{model}");
        }
        assert!(ModelRules::of("claude-fable-5-1", &[]).binds_history);
        assert!(!ModelRules::of("claude-fable-5-2", &[]).binds_history);
    }
}
