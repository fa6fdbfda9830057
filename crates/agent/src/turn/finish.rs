//! The end of a turn: the one `result` it gets, whatever ended it.

use lathe_models::failure::ApiFailure;
use lathe_protocol::ResultMessage;
use lathe_protocol::hooks::{HookEventInput, StopFailureInput};
use lathe_protocol::result::DeferredToolUse;
use serde_json::{Value, json};

use crate::model::cut_short;
use crate::turn::Turn;
use crate::turn::decide::TurnEnding;
use crate::turn::outcome::CommandEnd;
use crate::turn::outcome::OutOfRoom;
use crate::turn::outcome::{TurnOutcome, TurnPhase};

/// The stop reason of messages that the runtime wrote.
const SYNTHETIC_STOP_REASON: &str = "stop_sequence";

/// What the session remembers of a finished turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinishedTurn {
    /// Decides the exit code, if this turn is the last.
    pub is_error: bool,
    /// Whether an interrupt or a more urgent prompt cut it short.
    pub cut_short: bool,
}

/// Makes the one result of a turn of its outcome, and sends what has to precede it, such as the message about a
/// failure. The result itself is left to the caller to send. Takes the usage since the last result, so it must be
/// called once per turn.
pub async fn finish(
    turn: &mut Turn<'_>,
    outcome: TurnOutcome,
    result_index: u64,
) -> (ResultMessage, FinishedTurn) {
    let mut result = base(turn, result_index);
    let cut_short =
        matches!(outcome, TurnOutcome::Ended(TurnEnding::Preempted) | TurnOutcome::Interrupted(_));
    match outcome {
        TurnOutcome::Ended(ending) => ended(turn, ending, &mut result).await,
        TurnOutcome::Failed(error) => {
            let failure = ApiFailure::new(&error, &turn.model_id);
            failed(turn, &failure, SYNTHETIC_STOP_REASON, &mut result).await;
        }
        TurnOutcome::OutOfRoom(why) => {
            failed(turn, &out_of_room(why), SYNTHETIC_STOP_REASON, &mut result).await
        }
        TurnOutcome::Interrupted(phase) => interrupted(turn, phase, &mut result),
        TurnOutcome::Command(end) => command(end, &mut result),
    }
    turn.session.options.client_generation.clear_error_for_old_clients(&mut result);
    let finished = FinishedTurn { is_error: result.is_error, cut_short };
    (result, finished)
}

/// Fills in the result of a command that ran without the model: no rounds, no time of the API. `subtype` is `success`
/// even if the command failed.
fn command(end: CommandEnd, result: &mut ResultMessage) {
    result.subtype = "success".to_owned();
    result.is_error = end.is_error;
    result.result = Some(end.text);
    result.local_command = end.name;
    result.num_turns = 0;
    result.stop_reason = None;
    result.duration_api_ms = 0;
}

/// Fills in the result of a turn that ended by a decision of the loop; a failure is also told to hooks and host. If a
/// tool's hook, the limit of stop hooks or a more urgent prompt ended the turn, its last text is dropped, and the
/// result is empty or the structured output. `subtype` and `terminal_reason` are read by hosts and must not change.
async fn ended(turn: &mut Turn<'_>, ending: TurnEnding, result: &mut ResultMessage) {
    match ending {
        TurnEnding::Completed => success(turn, "completed", result),
        TurnEnding::HookStopped => {
            turn.stats.last_text.clear();
            success(turn, "hook_stopped", result);
        }
        TurnEnding::Deferred => deferred(turn, "tool_deferred", result),
        TurnEnding::DeferredUnavailable => {
            deferred(turn, "tool_deferred_unavailable", result);
            result.is_error = true;
        }
        TurnEnding::StopHookPrevented => success(turn, "stop_hook_prevented", result),
        TurnEnding::StopHookCap => {
            turn.stats.last_text.clear();
            success(turn, "completed", result);
        }
        TurnEnding::Preempted => {
            turn.stats.last_text.clear();
            success(turn, "aborted_tools", result);
        }
        TurnEnding::NothingAsked => {
            success(turn, "completed", result);
            result.num_turns = 0;
            result.terminal_reason = None;
            result.api_error_status = None;
        }
        TurnEnding::MaxTurns(limit) => {
            let text = format!("Reached maximum number of turns ({limit})");
            error(result, "error_max_turns", "max_turns", text);
        }
        TurnEnding::Budget => {
            let limit = turn.session.max_budget_usd.unwrap_or_default();
            error(
                result,
                "error_max_budget_usd",
                "budget_exhausted",
                format!("Reached maximum budget (${limit})"),
            );
        }
        TurnEnding::StructuredOutputExhausted => error(
            result,
            "error_max_structured_output_retries",
            "structured_output_retry_exhausted",
            turn.stats.structured.exhausted(),
        ),
        TurnEnding::OutOfTokens => {
            let known = lathe_models::catalog::capabilities(&turn.model_id).max_output_tokens;
            let limit = turn.agent.handle.choice().max_output_tokens.unwrap_or(known);
            failed(turn, &out_of_tokens(limit), SYNTHETIC_STOP_REASON, result).await;
        }
        TurnEnding::CutOff => {
            let error = turn.stats.broken_by.take().unwrap_or_else(cut_short);
            failed(turn, &ApiFailure::new(&error, &turn.model_id), SYNTHETIC_STOP_REASON, result).await;
        }
        TurnEnding::Refused => {
            let model = turn.model_id.clone();
            let prompt = turn.agent.journal.prompt_id();
            let frame = turn.agent.handle.frames.refused(&model, turn.stats.request_id.clone(), prompt);
            turn.session.emit(frame).await;
            failed(turn, &refused(&model), "refusal", result).await;
        }
    }
}

/// Builds the result with the fields that all outcomes share; the others are filled in by outcome. Takes the usage
/// since the last result from the totals, so it can be built once.
fn base(turn: &Turn<'_>, result_index: u64) -> ResultMessage {
    let stats = &turn.stats;
    let mut totals = turn.session.totals();
    ResultMessage {
        duration_ms: stats.elapsed_ms(),
        duration_api_ms: stats.api_ms,
        // By the meaning of the wire: each user frame asked for one more round.
        num_turns: stats.user_frames + 1,
        stop_reason: stats.stop_reason.clone(),
        session_id: turn.agent.handle.frames.session_id(),
        total_cost_usd: totals.cost_usd(),
        usage: stats.usage.result_shape(),
        model_usage: totals.model_usage(),
        model_usage_since_last_result: Some(totals.take_since_result()),
        permission_denials: stats.denials.clone(),
        uuid: turn.agent.handle.frames.uuid(),
        origin: stats.origin.clone(),
        user_message_uuid: stats.prompts.first().cloned(),
        user_message_uuids: stats.prompt_list(),
        queued_turn_count: Some(0),
        result_index: Some(result_index),
        fast_mode_state: Some("off".to_owned()),
        fast_mode_disabled_reason: Some("sdk_opt_in_required".to_owned()),
        subagent_stats: Some(no_subagents()),
        safety_stops: Some(0),
        ..ResultMessage::default()
    }
}

/// Returns the field about subagents with all numbers zero, which every result carries.
fn no_subagents() -> Value {
    json!({
        "spawned": 0,
        "requested": {"background": 0, "foreground": 0, "unset": 0},
        "started_in_background": 0, "max_depth": 0, "spawned_by_subagents": 0, "completed": 0, "failed": 0,
        "killed": {"parent": 0, "user": 0, "system": 0},
        "refused": {"depth_limit": 0, "concurrency_limit": 0, "budget": 0},
        "by_type": {},
    })
}

/// Fills in a successful result: its text is the structured output as JSON if there is one, or else the last text of
/// the turn. Endings without a text of their own clear `last_text` before this.
fn success(turn: &Turn<'_>, terminal_reason: &str, result: &mut ResultMessage) {
    result.subtype = "success".to_owned();
    result.is_error = false;
    // The structured output is the result, whatever text was around it.
    let answer = turn.stats.structured.answer.clone();
    result.result = Some(answer.as_ref().map_or_else(|| turn.stats.last_text.clone(), Value::to_string));
    result.structured_output = answer;
    result.api_error_status = Some(None);
    result.terminal_reason = Some(terminal_reason.to_owned());
    result.ttft_ms = turn.stats.first_frame_ms;
    result.ttft_stream_ms = turn.stats.first_event_ms;
    result.time_to_request_ms = turn.stats.first_request_ms;
    result.first_content_frame_ms = turn.stats.first_frame_ms;
}

/// Fills in the result of a turn that ended with a deferred call, which it names so that a host can resume it. `reason`
/// is the stop reason and the terminal reason.
fn deferred(turn: &Turn<'_>, reason: &str, result: &mut ResultMessage) {
    result.subtype = "success".to_owned();
    result.is_error = false;
    result.result = Some(String::new());
    result.stop_reason = Some(reason.to_owned());
    result.terminal_reason = Some(reason.to_owned());
    result.deferred_tool_use = turn.agent.deferral.call().map(|call| DeferredToolUse {
        id: call.id.clone(),
        name: call.name.clone(),
        input: call.input.clone(),
        ..DeferredToolUse::default()
    });
}

/// Reports a failure of the model: StopFailure hooks are told, and its text becomes an assistant message, which is
/// recorded and sent, and the result. That counts as an error although its subtype is `success`.
async fn failed(turn: &mut Turn<'_>, failure: &ApiFailure, stop_reason: &str, result: &mut ResultMessage) {
    let event = StopFailureInput {
        error: failure.error.to_owned(),
        error_details: Some(failure.text.clone()),
        last_assistant_message: Some(turn.stats.last_text.clone()),
        ..StopFailureInput::default()
    };
    turn.agent.handle.fire(HookEventInput::StopFailure(event), None, &turn.cancel).await;
    let mut frame = turn.agent.handle.frames.api_error(failure);
    frame.message.stop_reason = Some(stop_reason.to_owned());
    if stop_reason != SYNTHETIC_STOP_REASON {
        frame.request_id.clone_from(&turn.stats.request_id);
        frame.extra.insert("refused_message_id".to_owned(), turn.stats.answer_id.clone().into());
    }
    turn.agent.journal.assistant(&frame);
    turn.session.emit(frame).await;
    result.subtype = "success".to_owned();
    result.is_error = true;
    result.stop_reason = Some(stop_reason.to_owned());
    result.result = Some(failure.text.clone());
    result.api_error_status = Some(failure.api_error_status);
    result.api_error_type.clone_from(&failure.api_error_type);
    result.api_error = failure.api_error.map(str::to_owned);
    result.terminal_reason = Some(failure.terminal_reason.to_owned());
}

/// Returns the failure of a turn whose responses kept exceeding the output limit of `limit` tokens.
fn out_of_tokens(limit: u32) -> ApiFailure {
    ApiFailure {
        text: format!(
            "API Error: the answer was longer than the {limit} output tokens a response may have, several \
             times in a row. CLAUDE_CODE_MAX_OUTPUT_TOKENS sets the limit."
        ),
        error: "max_output_tokens",
        api_error_status: None,
        api_error_type: None,
        api_error: Some("max_output_tokens"),
        terminal_reason: "api_error",
    }
}

/// Returns the failure of a turn whose conversation does not fit into the window; the two causes differ in text and
/// `terminal_reason`.
fn out_of_room(why: OutOfRoom) -> ApiFailure {
    let (text, terminal_reason) = match why {
        OutOfRoom::Full => ("Prompt is too long", "blocking_limit"),
        OutOfRoom::Refilled => (
            "The conversation filled the model's window again right after it was compacted, twice in a row, \
             so the turn was stopped. Something brings in too much at once: read large files and outputs in \
             smaller pieces, or begin a new session.",
            "rapid_refill_breaker",
        ),
    };
    ApiFailure {
        text: text.to_owned(),
        error: "invalid_request",
        api_error_status: None,
        api_error_type: None,
        api_error: None,
        terminal_reason,
    }
}

/// Returns the failure of a turn that the model refused to continue, for the result and the hooks.
fn refused(model: &str) -> ApiFailure {
    ApiFailure {
        text: format!(
            "API Error: {model} refused to answer this. Rephrase the request in a new session, or choose \
             another model."
        ),
        error: "invalid_request",
        api_error_status: None,
        api_error_type: None,
        api_error: None,
        terminal_reason: "api_error",
    }
}

/// Fills in the result of an interrupted turn, which is an error. An interruption during the stream reports no stop
/// reason and an empty usage.
fn interrupted(turn: &Turn<'_>, phase: TurnPhase, result: &mut ResultMessage) {
    let (reason, doing) = match phase {
        TurnPhase::Streaming => ("aborted_streaming", "the model was answering"),
        TurnPhase::Tools => ("aborted_tools", "tools were running"),
    };
    let text = format!("[ede_diagnostic] the turn was interrupted while {doing}");
    error(result, "error_during_execution", reason, text);
    if phase == TurnPhase::Streaming {
        result.stop_reason = None;
        result.usage = lathe_protocol::Usage::default().result_shape();
    }
    result.num_turns = turn.stats.user_frames + 1;
}

/// Fills in an error whose only text is `text`. `subtype` and `terminal_reason` are names of the wire.
fn error(result: &mut ResultMessage, subtype: &str, terminal_reason: &str, text: String) {
    result.subtype = subtype.to_owned();
    result.is_error = true;
    result.errors = Some(vec![text]);
    result.terminal_reason = Some(terminal_reason.to_owned());
}
