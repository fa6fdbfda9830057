//! Commands whose whole effect is a text, or a setting and a text about it: `/context`, `/usage`, `/model` and others.

use std::sync::Arc;

use lathe_protocol::control::SlashCommand;
use serde_json::{Value, json};

use crate::control;
use crate::control::context_report::ContextReport;
use crate::state::agent::AgentHandle;
use crate::state::compact_policy::{CompactPolicy, CompactSwitch};
use crate::state::dispatch::{CommandInvocation, listing};
use crate::turn::Turn;
use crate::turn::outcome::CommandEnd;
use crate::turn::outcome::TurnOutcome;

/// Answers a command that cannot run in this environment, such as one that needs a terminal, with a text that says so.
/// The result is not an error, and the command is not recorded in the session's file.
pub(super) async fn unavailable(turn: &mut Turn<'_>, call: &CommandInvocation) -> TurnOutcome {
    let text = format!("/{} isn't available in this environment.", call.name);
    turn.show_init(&call.prompt).await;
    let mut frame = turn.agent.handle.frames.command_answer(&text);
    frame.local_command_outcome = Some(json!({"kind": "unavailable_headless"}));
    turn.session.emit(frame).await;
    TurnOutcome::Command(CommandEnd { text, ..CommandEnd::default() })
}

/// Runs `/context`: publishes the size of the conversation, then shows and records a report of what fills the window.
/// The frame also carries the figures, for hosts that draw them.
pub(super) async fn context(turn: &mut Turn<'_>, call: &CommandInvocation, name: &str) -> TurnOutcome {
    let agent = turn.agent.handle.clone();
    agent.publish_size(turn.agent.history.size());
    let report = ContextReport::of(&agent);
    let text = report.for_people();
    show(turn, call, name, &text, Some(json!(report.for_frame()))).await;
    TurnOutcome::Command(CommandEnd { name: Some(name.to_owned()), text, ..CommandEnd::default() })
}

/// Shows and records the text that a command returned, and returns it as the outcome of the turn. An `Err` is shown in
/// the same way and makes the result of the turn an error.
pub(super) async fn show_answer(
    turn: &mut Turn<'_>,
    call: &CommandInvocation,
    name: &str,
    answer: Result<String, String>,
) -> TurnOutcome {
    let is_error = answer.is_err();
    let (Ok(text) | Err(text)) = answer;
    show(turn, call, name, &text, None).await;
    TurnOutcome::Command(CommandEnd { name: Some(name.to_owned()), text, is_error, cleared: false })
}

/// Sends the init frame, records the command with its text, and sends the text to the host; `context` are the figures
/// of `/context`. The record has the id of the frame and is written before the frame is sent.
async fn show(turn: &mut Turn<'_>, call: &CommandInvocation, name: &str, text: &str, context: Option<Value>) {
    let agent = turn.agent.handle.clone();
    turn.show_init(&call.prompt).await;
    let mut frame = agent.frames.command_answer(text);
    frame.local_command_run = Some(json!({"command": name, "args": call.args}));
    frame.context_usage = context;
    let uuid = call.uuid(turn.agent);
    turn.record_command(call, name, &uuid, (&frame.uuid, text));
    agent.session.emit(frame).await;
}

/// Returns the text of `/help`: one line for each command that this session has, with its argument, its aliases and its
/// description.
pub(super) fn help(agent: &AgentHandle) -> String {
    let line = |command: SlashCommand| {
        let hint = Some(command.argument_hint).filter(|hint| !hint.is_empty());
        let hint = hint.map(|hint| format!(" {hint}")).unwrap_or_default();
        let names = command.aliases.unwrap_or_default();
        let names = names.iter().map(|alias| format!(", also /{alias}")).collect::<String>();
        format!("/{}{hint}{names}: {}", command.name, command.description)
    };
    let lines: Vec<String> = listing(agent).into_iter().map(line).collect();
    format!("A prompt that begins with one of these is a command:\n\n{}", lines.join("\n"))
}

/// Runs `/model` and returns the text to show: without a name it tells the current model, with one it switches to that
/// model. The error is the objection of a hook, and then the model stays.
pub(super) async fn model(turn: &Turn<'_>, name: &str) -> Result<String, String> {
    if name.is_empty() {
        return Ok(format!("The model is {}.", turn.agent.handle.choice().id));
    }
    let switched = control::switch_model(&turn.agent.handle, name, &turn.cancel).await;
    switched.map(|id| format!("Set model to {id}"))
}

/// Runs `/rename`: names the session, as the host's request does, and returns the text to show. An empty name is an
/// error and changes nothing.
pub(super) async fn rename(turn: &Turn<'_>, name: &str) -> Result<String, String> {
    let renamed = control::rename(&turn.agent.handle, name).await;
    renamed.map(|()| format!("The session is now called {:?}.", name.trim()))
}

/// Runs `/effort` and returns the text to show: without a level it tells the one in force, `auto` returns to the
/// model's default, and any other value is set. A level that the model does not list is an error and changes nothing.
pub(super) fn effort(agent: &Arc<AgentHandle>, level: &str) -> Result<String, String> {
    let choice = agent.choice();
    let capabilities = lathe_models::catalog::capabilities(&choice.id);
    let takes = || match capabilities.efforts {
        [] => format!("{} has no effort levels", choice.id),
        levels => format!("{} takes {}", choice.id, levels.join(", ")),
    };
    match level {
        "" => {
            let now = choice.effort.as_deref().or(capabilities.default_effort).unwrap_or("none");
            Ok(format!("The effort is {now}; {}.", takes()))
        }
        "auto" => {
            agent.change_choice(|choice| choice.effort = None);
            Ok("The effort is left to the model's default.".to_owned())
        }
        level if capabilities.efforts.contains(&level) => {
            agent.change_choice(|choice| choice.effort = Some(level.to_owned()));
            Ok(format!("Set effort to {level}"))
        }
        level => Err(format!("There is no effort level {level:?}: {}.", takes())),
    }
}

/// Runs `/autocompact` and returns the limits in force as the text to show. `auto` or a number of tokens (clamped to
/// the permitted range) sets the window and switches automatic compaction on; an empty text changes nothing, any other
/// is an error.
pub(super) fn autocompact(agent: &Arc<AgentHandle>, wanted: &str) -> Result<String, String> {
    let window = {
        let choice = agent.choice();
        lathe_models::catalog::context_window(&choice.id, &choice.betas)
    };
    let target = match wanted {
        "" => None,
        "auto" => Some(None),
        tokens => match tokens.replace(['_', ','], "").parse::<u64>() {
            Ok(tokens) => Some(Some(CompactPolicy::clamp_window(tokens))),
            Err(_) => return Err(format!("{wanted:?} is neither \"auto\" nor a number of tokens.")),
        },
    };
    let policy = agent.change(|view| {
        let policy = &mut view.compact.policy;
        if let Some(target) = target {
            (policy.window, policy.automatic) = (target, CompactSwitch::On);
        }
        *policy
    });
    let limits = policy.limits(window);
    Ok(if policy.is_automatic() {
        format!(
            "The conversation is compacted at {} tokens, for a window of {}.",
            limits.threshold, limits.window
        )
    } else {
        "The conversation is not compacted by itself.".to_owned()
    })
}
