//! Thinking: what a request may ask of which model, and the blocks that are sent back.
//!
//! A block that the model signed itself is compared with what was signed. Blocks of other models cannot be compared:
//! they are accepted unless the script says otherwise. Whether a response had no thinking from the start is known only
//! for the model's own responses, by the ids of their calls.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::conversation::JoinedTurn;
use super::generation::{DisabledThinking, ModelGeneration, ModelRules};
use super::message::{MessageRole, MessageSummary, ThinkingBlock};
use super::refusal::{FieldPath, REQUIRED, Verdict, refuse};
use crate::script::ForeignSignatures;
use crate::signature::ThinkingSeal;

const MIN_BUDGET: u64 = 1024;

/// What `thinking` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThinkingAsked {
    Omitted,
    Disabled,
    Adaptive,
    Enabled { budget: u64 },
}

impl ThinkingAsked {
    /// Reads the field `thinking` and checks what holds for every model. `None`, an absent field, gives `Omitted`.
    pub(crate) fn read(field: Option<&Value>) -> Verdict<Self> {
        let path = FieldPath::root("thinking");
        let Some(field) = field else { return Ok(Self::Omitted) };
        let thinking = path.object(field)?;
        let kind = path.text(thinking, "type")?;
        let fields = path.key(kind);
        match kind {
            "disabled" => fields.only(thinking, &["type"]).map(|()| Self::Disabled),
            "adaptive" => fields.only(thinking, &["type", "display"]).map(|()| Self::Adaptive),
            "enabled" => {
                fields.only(thinking, &["type", "budget_tokens", "display"])?;
                let path = fields.key("budget_tokens");
                let Some(budget) = thinking.get("budget_tokens") else { return path.refuse(REQUIRED) };
                match budget.as_i64() {
                    Some(budget) if budget >= MIN_BUDGET as i64 => {
                        Ok(Self::Enabled { budget: budget.unsigned_abs() })
                    }
                    Some(_) => path.refuse(format!("Input should be greater than or equal to {MIN_BUDGET}")),
                    None => path.refuse("Input should be a valid integer"),
                }
            }
            other => path.tag(other, &["adaptive", "disabled", "enabled"]),
        }
    }

    /// Returns whether the request itself turns thinking on; a model's default does not count.
    fn is_asked_for(self) -> bool {
        matches!(self, Self::Adaptive | Self::Enabled { .. })
    }

    /// Returns whether the model certainly does not think: it is told so, or it is known not to think by default.
    fn is_off(self, rules: &ModelRules) -> bool {
        match self {
            Self::Disabled => true,
            Self::Adaptive | Self::Enabled { .. } => false,
            Self::Omitted => {
                !matches!(rules.generation, ModelGeneration::FiveOrLater | ModelGeneration::Unknown)
            }
        }
    }
}

/// Fields whose rules depend on thinking.
#[derive(Debug, Default)]
pub(crate) struct SamplingFields {
    pub(crate) max_tokens: Option<u64>,
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) has_top_k: bool,
    pub(crate) effort: Option<String>,
    /// The budget may exceed `max_tokens`: interleaved thinking, with tools.
    pub(crate) budget_spans_turn: bool,
}

/// Checks that this model accepts the requested thinking, sampling and effort. The order of the checks decides which
/// fault is reported.
pub(crate) fn check_model(asked: ThinkingAsked, with: &SamplingFields, rules: &ModelRules) -> Verdict {
    check_mode(asked, with, rules)?;
    if let (ThinkingAsked::Enabled { budget }, Some(max_tokens)) = (asked, with.max_tokens)
        && budget >= max_tokens
        && !with.budget_spans_turn
    {
        return refuse(
            "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at \
             https://docs.claude.com/en/docs/build-with-claude/extended-thinking",
        );
    }
    let off_default = with.temperature.is_some_and(|temperature| temperature != 1.0);
    if asked.is_asked_for() && off_default {
        return refuse(
            "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode. Please consult \
             our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking",
        );
    }
    if rules.refuses_sampling() {
        let tuned = [
            ("temperature", off_default),
            ("top_p", with.top_p.is_some_and(|top_p| top_p != 1.0)),
            ("top_k", with.has_top_k),
        ];
        if let Some((name, _)) = tuned.iter().find(|(_, tuned)| *tuned) {
            return refuse(format!("`{name}` is deprecated for this model."));
        }
    }
    if rules.one_sampling_field && with.temperature.is_some() && with.top_p.is_some() {
        return refuse(
            "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        );
    }
    if with.effort.is_some() && !rules.takes_effort {
        return refuse("This model does not support the effort parameter.");
    }
    Ok(())
}

/// Checks `thinking.type` against the model. Whether it may be turned off can also depend on the effort.
fn check_mode(asked: ThinkingAsked, with: &SamplingFields, rules: &ModelRules) -> Verdict {
    match asked {
        ThinkingAsked::Enabled { .. } if rules.refuses_budget() => refuse(
            "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \
             \"output_config.effort\" to control thinking behavior.",
        ),
        ThinkingAsked::Adaptive if rules.is_up_to_four_five() => {
            refuse("adaptive thinking is not supported on this model")
        }
        ThinkingAsked::Disabled => {
            let high = matches!(with.effort.as_deref(), Some("xhigh" | "max"));
            match rules.disabled_thinking {
                DisabledThinking::Accepted => Ok(()),
                DisabledThinking::UpToHighEffort if !high => Ok(()),
                DisabledThinking::UpToHighEffort | DisabledThinking::Refused => refuse(
                    "\"thinking.type.disabled\" is not supported for this model. Thinking defaults to \
                     adaptive mode when not specified; use \"thinking.type.enabled\" with \"budget_tokens\" \
                     for extended thinking.",
                ),
            }
        }
        ThinkingAsked::Omitted | ThinkingAsked::Adaptive | ThinkingAsked::Enabled { .. } => Ok(()),
    }
}

/// What is known of the model's own responses.
pub(crate) trait OwnAnswers {
    /// Returns whether the response with this call is known to have begun without thinking, because the script gave it
    /// so; false if the id does not tell.
    fn began_without_thinking(&self, call: &str) -> bool;
}

/// The thinking blocks of a conversation.
pub(crate) struct ThinkingHistory<'a> {
    pub(crate) messages: &'a [&'a MessageSummary],
    pub(crate) turns: &'a [JoinedTurn<'a>],
    pub(crate) asked: ThinkingAsked,
    pub(crate) rules: &'a ModelRules,
    pub(crate) foreign: ForeignSignatures,
}

impl ThinkingHistory<'_> {
    /// Checks the thinking blocks of the whole conversation. The order decides which fault is reported.
    pub(crate) fn check(&self, own: &dyn OwnAnswers) -> Verdict {
        self.check_blocks()?;
        self.check_bound_blocks()?;
        self.check_tool_loop(own)?;
        self.check_final_message()
    }

    /// Checks all signatures, and that the model's own blocks in the latest response are in their order.
    fn check_blocks(&self) -> Verdict {
        let latest = self.turns.iter().rev().find(|turn| turn.role == MessageRole::Assistant);
        let latest_from = latest.and_then(|turn| turn.messages.first()).map_or(usize::MAX, |first| first.0);
        let mut expected = 0;
        for (index, message) in self.messages.iter().enumerate() {
            for seen in &message.thinking {
                let is_latest = index >= latest_from;
                self.check_seal(index, seen, is_latest)?;
                match seen.seal {
                    // A block with index 0 may follow others: several responses can be joined in one turn.
                    ThinkingSeal::Own { index: place, .. } if is_latest => {
                        if place != 0 && place != expected {
                            return modified(index, seen.block);
                        }
                        expected = place + 1;
                    }
                    ThinkingSeal::Own { .. }
                    | ThinkingSeal::Forged
                    | ThinkingSeal::Empty
                    | ThinkingSeal::Foreign => {}
                }
            }
        }
        Ok(())
    }

    /// Checks one signature; `index` is that of its message. The order of the arms matters: an edited block of the
    /// latest turn has a message of its own, and any other bad signature is accepted while thinking is off.
    fn check_seal(&self, index: usize, seen: &ThinkingBlock, is_latest: bool) -> Verdict {
        let counts = !self.asked.is_off(self.rules);
        match seen.seal {
            ThinkingSeal::Own { text_intact: true, .. } => Ok(()),
            ThinkingSeal::Own { text_intact: false, .. } if self.rules.overlooks_edits => Ok(()),
            ThinkingSeal::Own { text_intact: false, .. } if is_latest => modified(index, seen.block),
            ThinkingSeal::Foreign if self.foreign == ForeignSignatures::Accept => Ok(()),
            ThinkingSeal::Own { .. } | ThinkingSeal::Forged | ThinkingSeal::Empty | ThinkingSeal::Foreign
                if counts =>
            {
                refuse(invalid_signature(index, seen.block))
            }
            ThinkingSeal::Own { .. } | ThinkingSeal::Forged | ThinkingSeal::Empty | ThinkingSeal::Foreign => {
                Ok(())
            }
        }
    }

    /// Checks, for models that bind thinking to the conversation before it, that the conversation before each of their
    /// own blocks is unchanged. Other models pass.
    fn check_bound_blocks(&self) -> Verdict {
        if !self.rules.binds_history {
            return Ok(());
        }
        let mut chain = HistoryChain::default();
        // The hash of the conversation at every block of the current assistant turn: one of them is where the response
        // began.
        let mut since_turn = vec![chain.0];
        for (index, message) in self.messages.iter().enumerate() {
            if message.role != MessageRole::Assistant {
                message.block_hashes.iter().for_each(|block| chain.add(*block));
                since_turn = vec![chain.0];
                continue;
            }
            for (block, hash) in message.block_hashes.iter().enumerate() {
                let sealed = message.thinking.iter().find(|seen| seen.block == block);
                if let Some(ThinkingBlock { seal: ThinkingSeal::Own { history, .. }, .. }) = sealed
                    && *history != 0
                    && !since_turn.contains(history)
                {
                    return refuse(format!(
                        "{}. The block is bound to a different conversation. Remove the block, or set …",
                        invalid_signature(index, block)
                    ));
                }
                chain.add(*hash);
                since_turn.push(chain.0);
            }
        }
        Ok(())
    }

    /// Checks models up to 4.5 with a thinking budget: if the conversation ends with tool results, the first or the
    /// last response of the tool loop must begin with thinking. Responses that the script gave without thinking are
    /// excused.
    fn check_tool_loop(&self, own: &dyn OwnAnswers) -> Verdict {
        let budgeted = matches!(self.asked, ThinkingAsked::Enabled { .. });
        if !budgeted || !self.rules.is_up_to_four_five() {
            return Ok(());
        }
        let Some((results, before)) = self.turns.split_last() else { return Ok(()) };
        if !results.has_results() {
            return Ok(());
        }
        let in_loop = |turn: &&JoinedTurn<'_>| turn.role == MessageRole::Assistant || turn.has_results();
        let answers: Vec<&JoinedTurn<'_>> = before
            .iter()
            .rev()
            .take_while(in_loop)
            .filter(|turn| turn.role == MessageRole::Assistant)
            .collect();
        let (Some(last), Some(first)) = (answers.first(), answers.last()) else { return Ok(()) };
        let begins =
            |turn: &JoinedTurn<'_>| turn.messages.iter().any(|(_, part)| part.starts_with_thinking());
        let excused = |turn: &JoinedTurn<'_>| turn.call_ids().any(|id| own.began_without_thinking(id));
        if begins(first) || begins(last) || excused(first) || excused(last) {
            return Ok(());
        }
        let Some((index, message)) = last.messages.first() else { return Ok(()) };
        refuse(format!(
            "messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{}`. When \
             `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding \
             the lastmost set of `tool_use` and `tool_result` blocks). We recommend you include thinking \
             blocks from previous turns.",
            message.first_kind
        ))
    }

    /// Checks that an assistant message at the end contains no thinking if thinking is off; any other end passes.
    fn check_final_message(&self) -> Verdict {
        let Some(last) = self.messages.last().filter(|last| last.role == MessageRole::Assistant) else {
            return Ok(());
        };
        match last.thinking.first() {
            Some(seen) if self.asked.is_off(self.rules) => refuse(format!(
                "messages.{}.content.{}: When thinking is disabled, an `assistant` message in the final \
                 position cannot contain `thinking`. To use thinking blocks, enable `thinking` in your request.",
                self.messages.len() - 1,
                seen.block
            )),
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns the message of the API for a signature that does not belong to its block.
fn invalid_signature(index: usize, block: usize) -> String {
    format!("messages.{index}.content.{block}: Invalid `signature` in `thinking` block")
}

/// Refuses a block of the latest response that was edited or moved; `index` is that of its message, and `block` its
/// own.
fn modified<T>(index: usize, block: usize) -> Verdict<T> {
    refuse(format!(
        "messages.{index}.content.{block}: `thinking` or `redacted_thinking` blocks in the latest assistant \
         message cannot be modified. These blocks must remain as they were in the original response."
    ))
}

/// A running hash of a conversation, block by block.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HistoryChain(pub(crate) u64);

impl HistoryChain {
    /// Adds a block: the hash so far and that of the block are hashed together, so order and number count.
    fn add(&mut self, block: u64) {
        let mut hasher = DefaultHasher::new();
        (self.0, block).hash(&mut hasher);
        self.0 = hasher.finish();
    }

    /// Returns the hash of a whole conversation; 0 if no message has block hashes.
    pub(crate) fn of(messages: &[&MessageSummary]) -> Self {
        let mut chain = Self::default();
        messages.iter().flat_map(|message| &message.block_hashes).for_each(|block| chain.add(*block));
        chain
    }
}
