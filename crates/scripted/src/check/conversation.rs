//! The messages together: roles and their order, calls and their results, and what may be at the end.
//!
//! Works on summaries only, so that it is cheap for any length of conversation. Adjacent messages of one role count as
//! one turn, because the API joins them; paths still name the message that was sent.

use std::collections::HashSet;

use super::generation::ModelRules;
use super::message::{BlockId, MessageRole, MessageSummary};
use super::refusal::{Verdict, refuse};

/// Adjacent messages of one role.
#[derive(Debug, Clone)]
pub(crate) struct JoinedTurn<'a> {
    pub(crate) role: MessageRole,
    /// Index in the request, and the message.
    pub(crate) messages: Vec<(usize, &'a MessageSummary)>,
}

impl<'a> JoinedTurn<'a> {
    /// Returns the calls of the turn in order, each with the index of its message in the request.
    fn calls(&self) -> impl Iterator<Item = (usize, &'a BlockId)> {
        self.messages.iter().flat_map(|(index, message)| message.calls.iter().map(|call| (*index, call)))
    }

    /// Returns the tool results of the turn in order, each with the index of its message in the request.
    fn results(&self) -> impl Iterator<Item = (usize, &'a BlockId)> {
        self.messages
            .iter()
            .flat_map(|(index, message)| message.results.iter().map(|result| (*index, result)))
    }

    /// Returns whether the turn has any result of a tool that the client runs.
    pub(crate) fn has_results(&self) -> bool {
        self.results().next().is_some()
    }

    /// Returns the ids of results that follow other blocks of the turn; empty if all results come first, as they have
    /// to.
    fn late_results(&self) -> Vec<&'a str> {
        let mut other = false;
        let mut late = Vec::new();
        for (_, message) in &self.messages {
            let first_other = message.first_other;
            for result in &message.results {
                if other || first_other.is_some_and(|first| first < result.block) {
                    late.push(result.id.as_str());
                }
            }
            other |= first_other.is_some();
        }
        late
    }

    /// Returns the ids of the calls of the turn, in order; calls of server tools are not among them.
    pub(crate) fn call_ids(&self) -> impl Iterator<Item = &'a str> {
        self.calls().map(|(_, call)| call.id.as_str())
    }
}

/// Returns the conversation as turns of alternating roles, in order. System messages are left out and do not divide a
/// turn.
pub(crate) fn joined_turns<'a>(messages: &[&'a MessageSummary]) -> Vec<JoinedTurn<'a>> {
    let mut turns: Vec<JoinedTurn<'a>> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        match turns.last_mut() {
            _ if message.role == MessageRole::System => {}
            Some(turn) if turn.role == message.role => turn.messages.push((index, message)),
            Some(_) | None => {
                turns.push(JoinedTurn { role: message.role, messages: vec![(index, message)] });
            }
        }
    }
    turns
}

/// Checks the positions of system messages, and that no other message is empty except an assistant message at the end.
pub(crate) fn check_roles(messages: &[&MessageSummary], rules: &ModelRules) -> Verdict {
    for (index, message) in messages.iter().enumerate() {
        let is_last = index + 1 == messages.len();
        match message.role {
            MessageRole::System => {
                check_system(index, message, messages.get(index + 1).map(|next| next.role), rules)?;
            }
            MessageRole::Assistant if is_last => {}
            MessageRole::User | MessageRole::Assistant if message.blocks == 0 => {
                return refuse(format!(
                    "messages.{index}: all messages must have non-empty content except for the optional \
                     final assistant message"
                ));
            }
            MessageRole::User | MessageRole::Assistant => {}
        }
    }
    Ok(())
}

/// Checks one `system` message, given the role of the message after it. Models up to 4.5 refuse the role; others refuse
/// it at the beginning and before a user message, but accept one without content anywhere.
fn check_system(
    index: usize,
    message: &MessageSummary,
    next: Option<MessageRole>,
    rules: &ModelRules,
) -> Verdict {
    if rules.is_up_to_four_five() {
        return refuse(
            "messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter, \
             not \"system\" as an input message role.",
        );
    }
    if message.blocks == 0 {
        return Ok(());
    }
    if index == 0 {
        return refuse(
            "messages.0: use the top-level 'system' parameter for the initial system prompt; the \
             directive-only form (content: [] with output_config) is accepted at any position",
        );
    }
    match next {
        Some(MessageRole::User) => refuse(format!(
            "messages.{index}: role 'system' must precede an 'assistant' message or end the array"
        )),
        Some(MessageRole::Assistant | MessageRole::System) | None => Ok(()),
    }
}

/// Checks an assistant message at the end: newer models refuse it, and older ones refuse one that ends in white space.
/// Any other end passes.
pub(crate) fn check_end(messages: &[&MessageSummary], rules: &ModelRules) -> Verdict {
    let Some(last) = messages.last().filter(|last| last.role == MessageRole::Assistant) else {
        return Ok(());
    };
    if rules.refuses_prefill() {
        return refuse(
            "This model does not support assistant message prefill. The conversation must end with a user \
             message.",
        );
    }
    if rules.is_up_to_four_five() && last.ends_in_blank {
        return refuse("messages: final assistant content cannot end with trailing whitespace");
    }
    Ok(())
}

/// Checks that ids are unique, that each call has its result in the next turn, and that each result has its call.
pub(crate) fn check_calls(turns: &[JoinedTurn<'_>]) -> Verdict {
    let mut ids = HashSet::new();
    let mut server_ids = HashSet::new();
    let mut before: Option<&JoinedTurn<'_>> = None;
    for (at, turn) in turns.iter().enumerate() {
        for (index, call) in turn.calls() {
            if !ids.insert(call.id.as_str()) {
                return refuse(format!(
                    "messages.{index}.content.{}: `tool_use` ids must be unique",
                    call.block
                ));
            }
        }
        check_server_results(turn, &mut server_ids)?;
        check_results(turn, before)?;
        if turn.role == MessageRole::Assistant {
            check_answered(turn, turns.get(at + 1))?;
        }
        before = Some(turn);
    }
    Ok(())
}

/// Checks that each result of the turn belongs to one call of the turn before, and that no two belong to the same.
fn check_results(turn: &JoinedTurn<'_>, before: Option<&JoinedTurn<'_>>) -> Verdict {
    if !turn.has_results() {
        return Ok(());
    }
    let calls: HashSet<&str> = before.into_iter().flat_map(JoinedTurn::call_ids).collect();
    let mut answered = HashSet::new();
    for (index, result) in turn.results() {
        let (block, id) = (result.block, result.id.as_str());
        if !calls.contains(id) {
            return refuse(format!(
                "messages.{index}.content.{block}: unexpected `tool_use_id` found in `tool_result` blocks: \
                 {id}. Each `tool_result` block must have a corresponding `tool_use` block in the previous \
                 message."
            ));
        }
        if !answered.insert(id) {
            return refuse(format!(
                "messages.{index}.content.{block}: each tool_use must have a single result. Found multiple \
                 `tool_result` blocks with id: {id}"
            ));
        }
    }
    Ok(())
}

/// Checks that each call has its result at the beginning of the next turn. A call in the last message is left to the
/// rules about the end.
fn check_answered(turn: &JoinedTurn<'_>, next: Option<&JoinedTurn<'_>>) -> Verdict {
    let Some(next) = next.filter(|_| turn.calls().next().is_some()) else { return Ok(()) };
    let late = next.late_results();
    let answers: HashSet<&str> =
        next.results().map(|(_, result)| result.id.as_str()).filter(|id| !late.contains(id)).collect();
    let open: Vec<(usize, &BlockId)> =
        turn.calls().filter(|(_, call)| !answers.contains(call.id.as_str())).collect();
    let Some((index, _)) = open.first() else { return Ok(()) };
    let ids: Vec<&str> = open.iter().map(|(_, call)| call.id.as_str()).collect();
    refuse(format!(
        "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
         `tool_use` block must have a corresponding `tool_result` block in the next message.",
        ids.join(", ")
    ))
}

/// Checks that every result of a server tool has its call in the same message or before; the order inside a message is
/// not checked. `calls` collects the calls of all turns so far, so this must be called turn by turn, in order.
fn check_server_results<'a>(turn: &JoinedTurn<'a>, calls: &mut HashSet<&'a str>) -> Verdict {
    for (index, message) in &turn.messages {
        calls.extend(message.server_calls.iter().map(String::as_str));
        if let Some(result) = message.server_results.iter().find(|seen| !calls.contains(seen.id.as_str())) {
            let (block, kind, id) = (result.block, &result.kind, &result.id);
            return refuse(format!(
                "messages.{index}.content.{block}: unexpected `tool_use_id` found in `{kind}` blocks: {id}. \
                 Each `{kind}` block must have a corresponding `server_tool_use` block before it."
            ));
        }
    }
    Ok(())
}
