//! Names of models: aliases, `[1m]`, the remapping of retired ones, and the list to choose from.
//!
//! The facts themselves are in [`crate::table`]; the user's environment comes in as [`ModelOverrides`]. An unknown id
//! is passed on as it is: the API decides, not this list.

use serde::Serialize;

use crate::betas::LONG_CONTEXT;
use crate::table::{
    self, Capabilities, LONG_WINDOW, MODELS, ModelFacts, ThinkingStyle, UNKNOWN_CLAUDE, UNKNOWN_FOREIGN,
};

/// The user's settings for names.
#[derive(Debug, Clone, Default)]
pub struct ModelOverrides {
    /// The model for `default` (`ANTHROPIC_DEFAULT_MODEL`).
    pub default: Option<String>,
    /// The model for `opus` and `best` (`ANTHROPIC_DEFAULT_OPUS_MODEL`).
    pub opus: Option<String>,
    /// The model for `sonnet` (`ANTHROPIC_DEFAULT_SONNET_MODEL`).
    pub sonnet: Option<String>,
    /// The model for `haiku` (`ANTHROPIC_DEFAULT_HAIKU_MODEL`, or the older `ANTHROPIC_SMALL_FAST_MODEL`).
    pub haiku: Option<String>,
    /// The model for `fable` (`ANTHROPIC_DEFAULT_FABLE_MODEL`).
    pub fable: Option<String>,
    /// Whether retired models are remapped.
    pub legacy: LegacyModels,
    /// Whether `[1m]` is honoured.
    pub long_context: LongContext,
}

/// The treatment of `claude-opus-4-0` and `claude-opus-4-1`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LegacyModels {
    /// They are sent as the current Opus.
    #[default]
    Remap,
    /// They are sent as they are (`CLAUDE_CODE_DISABLE_LEGACY_MODEL_REMAP`).
    Keep,
}

/// The treatment of a `[1m]` after a name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LongContext {
    /// It stays on the id; the client turns it into its beta.
    #[default]
    Allowed,
    /// It is removed (`CLAUDE_CODE_DISABLE_1M_CONTEXT`).
    Disabled,
}

/// What the session is doing: `opusplan` plans with Opus and works with Sonnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Plan mode.
    Planning,
    /// Any other mode.
    Working,
}

/// Canonical ids, and their short forms, that are remapped.
const LEGACY: &[&str] =
    &["claude-opus-4", "claude-opus-4-0", "claude-opus-4-1", "opus-4", "opus-4-0", "opus-4-1"];

/// Resolves names.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    overrides: ModelOverrides,
}

impl Catalog {
    /// Creates a catalogue with the user's settings for aliases.
    pub fn new(overrides: ModelOverrides) -> Self {
        Self { overrides }
    }

    /// Returns the model id that `name` stands for: an alias is replaced, a retired model becomes the current Opus
    /// unless the user keeps it, and anything else is an id already. A `[1m]` at the end, of the name or of the setting
    /// of an alias, stays unless the user has disabled it. `phase` matters for aliases that mean different models in
    /// plan mode.
    pub fn resolve(&self, name: &str, phase: Phase) -> String {
        let (base, wants_long) = table::split_long_context(name.trim());
        let id = self.alias(&base.to_ascii_lowercase(), phase).unwrap_or(base);
        let id = match self.overrides.legacy {
            LegacyModels::Remap if LEGACY.contains(&table::canonical(id)) => self.opus(),
            LegacyModels::Remap | LegacyModels::Keep => id,
        };
        let (id, has_long) = table::split_long_context(id);
        match self.overrides.long_context {
            LongContext::Allowed if wants_long || has_long => format!("{id}[1m]"),
            LongContext::Allowed | LongContext::Disabled => id.to_owned(),
        }
    }

    /// Returns the id of the cheap model for side work: what `haiku` stands for.
    pub fn small_fast(&self) -> String {
        self.resolve("haiku", Phase::Working)
    }

    /// Returns the model that an alias stands for; `None` if `name`, in lower case, is not an alias.
    fn alias(&self, name: &str, phase: Phase) -> Option<&str> {
        let overrides = &self.overrides;
        match (name, phase) {
            ("default", _) => Some(given(&overrides.default).unwrap_or_else(|| self.opus())),
            ("opus" | "best", _) | ("opusplan", Phase::Planning) => Some(self.opus()),
            ("sonnet", _) | ("opusplan", Phase::Working) => {
                Some(given(&overrides.sonnet).unwrap_or("claude-sonnet-5-5"))
            }
            ("haiku", _) => Some(given(&overrides.haiku).unwrap_or("claude-haiku-5-5")),
            ("fable", _) => Some(given(&overrides.fable).unwrap_or("claude-fable-5-2")),
            _ => None,
        }
    }

    /// Returns the user's Opus, or the first row of the table, which therefore must stay an Opus.
    fn opus(&self) -> &str {
        given(&self.overrides.opus).unwrap_or(MODELS[0].id)
    }

    /// Returns the models that a host may offer its user: the aliases, with what they stand for now.
    pub fn choices(&self) -> Vec<ListedModel> {
        const OFFERED: [(&str, &str, &str); 5] = [
            ("default", "Default", "what Lathe uses when no model is named"),
            ("opus", "Opus", "for demanding everyday work"),
            ("fable", "Fable", "for the hardest and longest tasks"),
            ("sonnet", "Sonnet", "for routine work at half the price"),
            ("haiku", "Haiku", "for quick and small answers"),
        ];
        OFFERED
            .into_iter()
            .map(|(value, name, purpose)| {
                let id = self.resolve(value, Phase::Working);
                let capabilities = capabilities(&id);
                ListedModel {
                    value,
                    display_name: name,
                    description: describe(&id, purpose),
                    supports_effort: !capabilities.efforts.is_empty(),
                    supported_effort_levels: capabilities.efforts,
                    supports_adaptive_thinking: capabilities.thinking == ThinkingStyle::Adaptive,
                    resolved_model: id,
                }
            })
            .collect()
    }
}

/// Returns a setting that names a model, without blanks around it; `None` if it is not set or blank, as in an empty
/// environment variable.
fn given(setting: &Option<String>) -> Option<&str> {
    setting.as_deref().map(str::trim).filter(|id| !id.is_empty())
}

/// Returns the line about a model for a list: its name, the purpose and, for a model of the table, its prices.
fn describe(id: &str, purpose: &str) -> String {
    let Some(row) = table::facts(id) else { return format!("{id}: {purpose}") };
    let dollars = |nano: u64| nano as f64 / 1000.0;
    format!(
        "{}: {purpose} (${} in, ${} out per million tokens)",
        row.name,
        dollars(row.price.input),
        dollars(row.price.output)
    )
}

/// One entry of the list that a host shows; serialises as `models` of the `initialize` response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedModel {
    /// The alias to pass back.
    pub value: &'static str,
    /// The id it stands for.
    pub resolved_model: String,
    /// Name for people.
    pub display_name: &'static str,
    /// A line about it.
    pub description: String,
    /// Whether an effort may be chosen.
    pub supports_effort: bool,
    /// The efforts to choose from.
    pub supported_effort_levels: &'static [&'static str],
    /// Whether it decides itself how long to think.
    pub supports_adaptive_thinking: bool,
}

/// Returns the capabilities of a model, with `[1m]` in the name counted. One that is not in the table gets guesses:
/// those of a new model for `claude-`, and for others only what every server knows.
pub fn capabilities(model: &str) -> Capabilities {
    let known = table::facts(model).map(|row| row.capabilities);
    let mut capabilities = known.unwrap_or(if table::canonical(model).starts_with("claude-") {
        UNKNOWN_CLAUDE
    } else {
        UNKNOWN_FOREIGN
    });
    if table::split_long_context(model).1 {
        capabilities.context_window = capabilities.context_window.max(LONG_WINDOW);
    }
    capabilities
}

/// Returns the size of a model's context window in tokens when these betas are sent.
pub fn context_window(model: &str, betas: &[String]) -> u64 {
    let window = capabilities(model).context_window;
    let is_long = betas.iter().any(|beta| beta.trim() == LONG_CONTEXT);
    if is_long { window.max(LONG_WINDOW) } else { window }
}

/// Returns whether a model keeps track of longer work only with a list of it. These are the models that may not edit
/// unread files.
pub fn needs_work_list(model: &str) -> bool {
    !may_edit_unread(model)
}

/// Returns whether a model may change files that it has not read. Earlier models, up to Opus 4.6, Sonnet 4.5 and Haiku
/// 4.5, lose unseen content too easily; an unknown model counts as a new one.
pub fn may_edit_unread(model: &str) -> bool {
    let (base, _) = table::split_long_context(model);
    let Some(rest) = base.to_ascii_lowercase().strip_prefix("claude-").map(str::to_owned) else {
        return true;
    };
    let mut parts = rest.split('-');
    let last_careful = match parts.next() {
        Some("opus") => (4, 6),
        Some("sonnet" | "haiku") => (4, 5),
        Some(family) => return !family.starts_with(|first: char| first.is_ascii_digit()),
        None => return true,
    };
    // A long number is a date.
    let mut number = || parts.next().filter(|part| part.len() < 3).and_then(|part| part.parse::<u32>().ok());
    number().is_none_or(|major| (major, number().unwrap_or(0)) > last_careful)
}

/// Returns the name for people, e.g. in "switched to Sonnet 4.5"; the id itself if the model is not in the table.
pub fn display_name(model: &str) -> &str {
    table::facts(model).map_or(model, |row| row.name)
}

/// One model as `lathe models` lists it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelInfo {
    /// The id to pass as `--model`.
    pub id: String,
    /// Name for people.
    pub display_name: String,
    /// The release date, as the API gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// The size of the context window in tokens, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The longest response in tokens, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
}

impl ModelInfo {
    /// Returns what the table knows about `id`, under the name from the API, or else the table's, or else the id. What
    /// the table does not know is `None`.
    pub fn of(id: String, display_name: Option<String>, created_at: Option<String>) -> Self {
        let row = table::facts(&id);
        Self {
            display_name: display_name
                .or_else(|| row.map(|row| row.name.to_owned()))
                .unwrap_or_else(|| id.clone()),
            created_at,
            context_window: row.map(|row| row.capabilities.context_window),
            max_output_tokens: row.map(|row| row.capabilities.max_output_tokens),
            id,
        }
    }
}

/// Returns the models of the table, the default first, for when the API cannot be reached.
pub fn known_models() -> Vec<ModelInfo> {
    let info = |row: &ModelFacts| ModelInfo::of(row.id.to_owned(), Some(row.name.to_owned()), None);
    MODELS.iter().map(info).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(name: &str) -> String {
        Catalog::default().resolve(name, Phase::Working)
    }

    #[test]
    fn earlier_models_read_before_they_edit() {
        for careful in [
            "claude-sonnet-4-5",
            "claude-sonnet-4-20250514",
            "claude-opus-4-6[1m]",
            "claude-haiku-4-5-20251001",
            "claude-3-5-sonnet-20241022",
        ] {
            assert!(!may_edit_unread(careful), "{careful}");
        }
        for free in
            ["claude-opus-4-7", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5-2", "some-model"]
        {
            assert!(may_edit_unread(free), "{free}");
        }
    }

    #[test]
    fn aliases_stand_for_the_current_models() {
        for (alias, id) in [
            ("default", "claude-opus-5-5"),
            ("opus", "claude-opus-5-5"),
            ("best", "claude-opus-5-5"),
            ("Sonnet", "claude-sonnet-5-5"),
            (" haiku ", "claude-haiku-5-5"),
            ("fable", "claude-fable-5-2"),
            ("opusplan", "claude-sonnet-5-5"),
            ("sonnet[1m]", "claude-sonnet-5-5[1m]"),
            ("claude-sonnet-4-5[1m]", "claude-sonnet-4-5[1m]"),
            ("some-Other-Model", "some-Other-Model"),
        ] {
            assert_eq!(resolve(alias), id, "{alias}");
        }
        assert_eq!(Catalog::default().resolve("opusplan", Phase::Planning), "claude-opus-5-5");
    }

    #[test]
    fn retired_models_become_the_current_opus() {
        for name in
            ["claude-opus-4-0", "claude-opus-4-1", "claude-opus-4-1-20250805", "claude-opus-4-20250514"]
        {
            assert_eq!(resolve(name), "claude-opus-5-5", "{name}");
        }
        assert_eq!(resolve("claude-opus-4-5"), "claude-opus-4-5");
        let keep = Catalog::new(ModelOverrides { legacy: LegacyModels::Keep, ..Default::default() });
        assert_eq!(keep.resolve("claude-opus-4-1", Phase::Working), "claude-opus-4-1");
    }

    #[test]
    fn the_user_says_what_names_mean() {
        let catalog = Catalog::new(ModelOverrides {
            opus: Some("my-opus".into()),
            sonnet: Some("claude-sonnet-4-6[1m]".into()),
            haiku: Some("  ".into()),
            ..Default::default()
        });
        assert_eq!(catalog.resolve("best", Phase::Working), "my-opus");
        assert_eq!(catalog.resolve("default", Phase::Working), "my-opus");
        assert_eq!(catalog.resolve("claude-opus-4-1", Phase::Working), "my-opus");
        assert_eq!(catalog.resolve("sonnet", Phase::Working), "claude-sonnet-4-6[1m]");
        assert_eq!(catalog.small_fast(), "claude-haiku-5-5");
    }

    #[test]
    fn the_long_window_can_be_switched_off() {
        let off = ModelOverrides { long_context: LongContext::Disabled, ..Default::default() };
        assert_eq!(Catalog::new(off).resolve("sonnet[1m]", Phase::Working), "claude-sonnet-5-5");
        assert_eq!(capabilities("claude-sonnet-4-5").context_window, 200_000);
        assert_eq!(capabilities("claude-sonnet-4-5[1m]").context_window, 1_000_000);
        assert_eq!(context_window("claude-sonnet-4-5", &[]), 200_000);
        assert_eq!(context_window("claude-sonnet-4-5", &["context-1m-2025-08-07".to_owned()]), 1_000_000);
    }

    #[test]
    fn unknown_models_get_only_what_they_will_take() {
        assert_eq!(capabilities("claude-opus-9").thinking, ThinkingStyle::Adaptive);
        assert_eq!(capabilities("claude-opus-9").max_output_tokens, 32_000);
        assert_eq!(capabilities("glm-5").thinking, ThinkingStyle::None);
        assert!(capabilities("glm-5").efforts.is_empty());
        assert_eq!(display_name("glm-5"), "glm-5");
        assert_eq!(display_name("claude-opus-4-5-20251101"), "Opus 4.5");
    }

    #[test]
    fn choices_have_the_shape_hosts_read() {
        let choices = serde_json::to_value(Catalog::default().choices()).unwrap();
        assert_eq!(choices[0]["value"], "default");
        assert_eq!(choices[0]["resolvedModel"], "claude-opus-5-5");
        assert_eq!(choices[0]["supportsEffort"], true);
        assert_eq!(choices[3]["supportedEffortLevels"][4], "max");
        assert_eq!(choices.as_array().unwrap().len(), 5);
    }
}
