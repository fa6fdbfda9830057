//! Refuses what the Messages API refuses: one check over the bytes that are sent, for both the server and the
//! in-process model. `SCRIPT.md` lists the rules, and those that are known but not enforced.
//!
//! The order is that of the API: headers, JSON, the fields one by one, the conversation, what the model accepts, the
//! totals; only the first fault is reported. The cost is per new message, not per request: a message is parsed when its
//! bytes are seen for the first time, and the rules about the conversation work on the summary made then.

mod blocks;
mod cache;
mod conversation;
mod generation;
mod media;
mod message;
mod refusal;
mod remembered;
mod schema;
mod sent;
mod thinking;
mod tools;
mod top;
mod totals;

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::script::{Script, Turn};
use cache::MarkOrder;
use conversation::{check_calls, check_end, check_roles, joined_turns};
use generation::ModelRules;
use message::{MessageContext, MessageSummary, check_message};
pub use refusal::RequestRefusal;
pub(crate) use refusal::Verdict;
use refusal::{FieldPath, refuse};
use remembered::{RecentlyChecked, fingerprints, part_fingerprint};
pub(crate) use sent::{BodyFields, MessagesField, head_of};
use thinking::{HistoryChain, OwnAnswers, SamplingFields, ThinkingAsked, ThinkingHistory};
use tools::{ToolChoiceAsked, ToolList};
pub(crate) use top::ApiEndpoint;
use top::SystemText;

/// Memory for checked messages, in each of two generations.
const MESSAGE_MEMORY: usize = 32 * 1024 * 1024;
/// The most checked tool lists and system prompts, in each of two generations.
const PART_MEMORY: usize = 64;
/// The most responses with thinking that are remembered.
const ANSWERS_WITH_THINKING: usize = 10_000;

/// The beginning of the default ids of a script's calls; see `render/events.rs`.
pub(crate) const CALL_PREFIX: &str = "toolu_";

/// Checks requests and remembers what it has checked.
#[derive(Debug)]
pub(crate) struct RequestChecker {
    foreign: crate::script::ForeignSignatures,
    betas: Vec<String>,
    /// Ids that the script sets for its calls.
    given_ids: HashSet<String>,
    messages: Mutex<RecentlyChecked<RememberedMessage>>,
    tools: Mutex<RecentlyChecked<Arc<ToolList>>>,
    systems: Mutex<RecentlyChecked<Arc<SystemText>>>,
    /// Numbers of the responses that began with thinking.
    with_thinking: Mutex<VecDeque<u64>>,
    /// Messages that were parsed and checked.
    checked: AtomicU64,
}

#[derive(Debug, Clone)]
struct RememberedMessage {
    /// The cache marks it was checked with.
    marks: u64,
    summary: Arc<MessageSummary>,
}

/// A valid message.
#[derive(Debug, Clone)]
struct CheckedMessage {
    summary: Arc<MessageSummary>,
    /// Whether the marks of the summary are in this request too.
    marked: bool,
}

/// A valid request.
#[derive(Debug, Default)]
pub(crate) struct CheckedRequest {
    messages: Vec<CheckedMessage>,
    /// The conversation, for models that bind their thinking to it; 0 for others.
    pub(crate) history: u64,
}

impl CheckedRequest {
    /// Returns whether the conversation contains a call with this id; calls of server tools do not count.
    pub(crate) fn has_call(&self, id: &str) -> bool {
        self.messages.iter().any(|message| message.summary.calls.iter().any(|call| call.id == id))
    }
}

/// The fields besides the messages, as far as other rules need them.
struct RequestParts {
    model: String,
    tools: Option<Arc<ToolList>>,
    system: Option<Arc<SystemText>>,
    choice: ToolChoiceAsked,
    thinking: ThinkingAsked,
    sampling: SamplingFields,
}

impl RequestChecker {
    /// Returns a checker with the settings of `script`; `None` for a lax script, whose requests are not checked.
    pub(crate) fn of(script: &Script) -> Option<Self> {
        if script.lax {
            return None;
        }
        let turns = script.turns.iter().chain(script.routes.iter().flat_map(|route| &route.turns));
        Some(Self {
            foreign: script.foreign_signatures,
            betas: script.betas.clone(),
            given_ids: turns.flat_map(given_ids).collect(),
            messages: Mutex::new(RecentlyChecked::new(MESSAGE_MEMORY)),
            tools: Mutex::new(RecentlyChecked::new(PART_MEMORY)),
            systems: Mutex::new(RecentlyChecked::new(PART_MEMORY)),
            with_thinking: Mutex::default(),
            checked: AtomicU64::new(0),
        })
    }

    /// Returns how many messages were parsed and checked so far. A message that is remembered does not count again.
    pub(crate) fn messages_checked(&self) -> u64 {
        self.checked.load(Ordering::Relaxed)
    }

    /// Records that the response `number` began with thinking, for the rule about tool loops. Beyond
    /// [`ANSWERS_WITH_THINKING`] the oldest is forgotten, and counts from then on as one without.
    pub(crate) fn note_thinking(&self, number: u64) {
        let mut answers = lock(&self.with_thinking);
        if answers.len() == ANSWERS_WITH_THINKING {
            answers.pop_front();
        }
        answers.push_back(number);
    }

    /// Checks the headers and returns the betas that they ask for, in their order. A missing `anthropic-version` is
    /// refused, and so are unknown betas, unless the script adds them.
    pub(crate) fn check_headers<'h>(&self, headers: &'h [(String, String)]) -> Verdict<Vec<&'h str>> {
        top::check_headers(headers, &self.betas)
    }

    /// Checks a body whose headers were found valid, and returns what later steps need of it. `betas` are those of the
    /// headers. Only the first fault is reported; parts that were found valid before it stay remembered.
    pub(crate) fn check_body(
        &self,
        fields: &BodyFields<'_>,
        endpoint: ApiEndpoint,
        betas: &[&str],
    ) -> Verdict<CheckedRequest> {
        top::check_fields(fields, endpoint, betas)?;
        top::check_simple_fields(fields)?;
        let parts = self.check_parts(fields, betas)?;
        let rules = ModelRules::of(&parts.model, betas);
        let context = MessageContext { cache_scope: allows_scope(betas), binds_history: rules.binds_history };
        let messages = self.check_messages(fields, context)?;
        self.check_together(&parts, &messages, &rules)?;
        let history = match rules.binds_history {
            true => HistoryChain::of(&summaries(&messages)).0,
            false => 0,
        };
        Ok(CheckedRequest { messages, history })
    }

    /// Checks the fields that have rules of their own (model, tools, system, tool choice, thinking, sampling) and
    /// returns what the rules about the whole request need. Tools and system are looked up in the memory first, because
    /// a client sends the same ones with each request. The order of the checks decides which fault is reported.
    fn check_parts(&self, fields: &BodyFields<'_>, betas: &[&str]) -> Verdict<RequestParts> {
        let Some(Value::String(model)) = fields.value("model")? else {
            return FieldPath::root("model").refuse("Input should be a valid string");
        };
        let scope = allows_scope(betas);
        if let Some(mark) = fields.value("cache_control")? {
            cache::check_mark_fields(&mark, &FieldPath::root("cache_control"), scope)?;
        }
        let tools = self.remembered_part(&self.tools, fields, "tools", scope, tools::check_tools)?;
        let system = self.remembered_part(&self.systems, fields, "system", scope, top::check_system)?;
        let names = tools.as_ref().map_or(&[][..], |tools| &tools.names);
        let choice = tools::check_choice(fields.value("tool_choice")?.as_ref(), names)?;
        let thinking = ThinkingAsked::read(fields.value("thinking")?.as_ref())?;
        let number = |name: &str| fields.value(name).map(|value| value.and_then(|value| value.as_f64()));
        let interleaved = betas.iter().any(|beta| beta.starts_with("interleaved-thinking-"));
        let sampling = SamplingFields {
            max_tokens: fields.value("max_tokens")?.and_then(|value| value.as_u64()),
            temperature: number("temperature")?,
            top_p: number("top_p")?,
            has_top_k: number("top_k")?.is_some(),
            effort: top::check_output_config(fields, betas)?,
            budget_spans_turn: interleaved && !names.is_empty(),
        };
        Ok(RequestParts { model, tools, system, choice, thinking, sampling })
    }

    /// Returns the summary of the field `name` from `memory`, or checks it and remembers the result; `None` if the
    /// field is absent or null. `check` is only called for a text that was not found valid before.
    fn remembered_part<T>(
        &self,
        memory: &Mutex<RecentlyChecked<Arc<T>>>,
        fields: &BodyFields<'_>,
        name: &str,
        cache_scope: bool,
        check: fn(&Value, bool) -> Verdict<T>,
    ) -> Verdict<Option<Arc<T>>> {
        let Some(raw) = fields.raw(name) else { return Ok(None) };
        let key = part_fingerprint(raw, cache_scope.into());
        if let Some(known) = lock(memory).get(key, |_| 1) {
            return Ok(Some(known));
        }
        let Some(value) = fields.value(name)? else { return Ok(None) };
        let part = Arc::new(check(&value, cache_scope)?);
        lock(memory).insert(key, Arc::clone(&part), 1);
        Ok(Some(part))
    }

    /// Checks each message on its own and remembers the valid ones. A message that is remembered is not parsed again,
    /// unless its cache marks differ from those it was checked with; one without marks needs no new check. Refuses a
    /// missing or empty list, and stops at the first invalid message; the ones before it stay remembered. The lock of the
    /// memory must not be held while a message is checked, so that other requests do not wait.
    fn check_messages(
        &self,
        fields: &BodyFields<'_>,
        context: MessageContext,
    ) -> Verdict<Vec<CheckedMessage>> {
        let messages = match &fields.messages {
            MessagesField::List(messages) if messages.is_empty() => {
                return refuse("messages: at least one message is required");
            }
            MessagesField::List(messages) => messages,
            MessagesField::Absent | MessagesField::NotAList => {
                return refuse("messages: Input should be a valid list");
            }
        };
        let path = FieldPath::root("messages");
        let mut checked = Vec::with_capacity(messages.len());
        let prints = fingerprints(messages.iter().map(|message| &*message.json), context.seed());
        let weight = |known: &RememberedMessage| known.summary.weight();
        let mut memory = lock(&self.messages);
        let remembered: Vec<_> = prints.iter().map(|print| memory.get(print.content, weight)).collect();
        // The lock is released while new parts are checked, so that other requests do not wait.
        drop(memory);
        for (index, (message, (print, known))) in
            messages.iter().zip(prints.iter().zip(remembered)).enumerate()
        {
            if let Some(known) = known.filter(|known| print.marks == 0 || print.marks == known.marks) {
                checked.push(CheckedMessage { summary: known.summary, marked: print.marks != 0 });
                continue;
            }
            self.checked.fetch_add(1, Ordering::Relaxed);
            let value = fields.parse_message(message)?;
            let summary = Arc::new(check_message(&value, &path.index(index), context)?);
            let weight = summary.weight();
            let remembered = RememberedMessage { marks: print.marks, summary: Arc::clone(&summary) };
            lock(&self.messages).insert(print.content, remembered, weight);
            checked.push(CheckedMessage { summary, marked: true });
        }
        Ok(checked)
    }

    /// Checks the rules that concern several fields or messages. The order of the checks is that of the API and must
    /// stay so, because only the first fault is reported.
    fn check_together(
        &self,
        parts: &RequestParts,
        messages: &[CheckedMessage],
        rules: &ModelRules,
    ) -> Verdict {
        let seen = summaries(messages);
        check_roles(&seen, rules)?;
        let turns = joined_turns(&seen);
        check_calls(&turns)?;
        check_marks(parts, messages)?;
        top::check_output_cap(&parts.model, parts.sampling.max_tokens, rules)?;
        if matches!(parts.thinking, ThinkingAsked::Enabled { .. }) && parts.choice == ToolChoiceAsked::Forced
        {
            return refuse("Thinking may not be enabled when tool_choice forces tool use.");
        }
        thinking::check_model(parts.thinking, &parts.sampling, rules)?;
        check_end(&seen, rules)?;
        let (asked, foreign) = (parts.thinking, self.foreign);
        ThinkingHistory { messages: &seen, turns: &turns, asked, rules, foreign }.check(self)?;
        totals::check_media(&seen, rules)?;
        let none = ToolList::default();
        let tools = parts.tools.as_deref().unwrap_or(&none);
        let fixed = tools.text_bytes
            + tools.check_references(&seen, rules)?
            + parts.system.as_ref().map_or(0, |system| system.text_bytes);
        let text_bytes = fixed + seen.iter().map(|message| message.text_bytes).sum::<u64>();
        totals::check_tokens(totals::input_tokens(text_bytes), parts.sampling.max_tokens, rules)
    }
}

impl OwnAnswers for RequestChecker {
    fn began_without_thinking(&self, call: &str) -> bool {
        if self.given_ids.contains(call) {
            return true;
        }
        let number = call.strip_prefix(CALL_PREFIX).and_then(|rest| rest.split('_').next());
        let Some(number) = number.and_then(|digits| digits.parse::<u64>().ok()) else { return false };
        !lock(&self.with_thinking).contains(&number)
    }
}

/// Returns the summaries in the order of the request, in the form that the rules about the conversation take.
fn summaries(messages: &[CheckedMessage]) -> Vec<&MessageSummary> {
    messages.iter().map(|message| message.summary.as_ref()).collect()
}

/// Checks number and order of the cache marks in tools, system and messages together. Marks of a remembered message
/// count only if it has them in this request too.
fn check_marks(parts: &RequestParts, messages: &[CheckedMessage]) -> Verdict {
    let mut order = MarkOrder::default();
    parts.tools.iter().flat_map(|tools| &tools.marks).for_each(|mark| order.add(mark, None));
    parts.system.iter().flat_map(|system| &system.marks).for_each(|mark| order.add(mark, None));
    for (index, message) in messages.iter().enumerate().filter(|(_, message)| message.marked) {
        message.summary.marks.iter().for_each(|mark| order.add(mark, Some(index)));
    }
    order.verdict()
}

/// Returns whether a beta allows the field `scope` in a cache mark, which is refused otherwise.
fn allows_scope(betas: &[&str]) -> bool {
    betas.iter().any(|beta| beta.starts_with("prompt-caching-scope-"))
}

/// Returns the call ids that the script itself sets in a turn. Such an id does not contain the number of its response,
/// so its call counts as one of a response without thinking.
fn given_ids(turn: &Turn) -> impl Iterator<Item = String> {
    let calls = turn.tools.iter().chain(turn.blocks.iter().filter_map(|block| block.tool.as_ref()));
    calls.filter_map(|call| call.id.clone())
}

/// Locks a memory of the checker, also after a panic under the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
