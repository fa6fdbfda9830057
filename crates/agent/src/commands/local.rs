//! Commands whose whole effect is a text, or a setting and a text about it: `/context`, `/usage`, `/model`
//! and the like.

use std::sync::Arc;

use serde_json::{Value, json};

use super::table::{Builtin, Kind};
use super::{CommandEnd, Invocation};
use crate::compact::policy::{CompactPolicy, Switch};
use crate::context::ContextReport;
use crate::control;
use crate::shared::Shared;
use crate::turn::{Outcome, Turn};

/// Answers a command that needs a terminal.
pub(super) async fn unavailable(turn: &mut Turn<'_>, call: &Invocation) -> Outcome {
    let text = format!("/{} isn't available in this environment.", call.name);
    turn.show_init(&call.prompt).await;
    let mut frame = turn.shared.frames.command_answer(&text);
    frame.local_command_outcome = Some(json!({"kind": "unavailable_headless"}));
    turn.shared.emit(frame).await;
    Outcome::Command(CommandEnd { text, ..CommandEnd::default() })
}

/// Answers one of ours.
pub(super) async fn run(turn: &mut Turn<'_>, call: &Invocation, command: &Builtin) -> Outcome {
    let shared = turn.shared.clone();
    let mut context = None;
    let answer = match command.kind {
        Kind::Context => {
            shared.note_context(turn.history.size());
            let report = ContextReport::of(&shared);
            context = Some(report.for_frame());
            Ok(report.for_people())
        }
        Kind::Usage => Ok(control::cost_text(&shared)),
        Kind::Model => model(turn, &call.args).await,
        Kind::Effort => effort(&shared, &call.args),
        Kind::Rename => control::rename(&shared, &call.args)
            .await
            .map(|()| format!("The session is now called {:?}.", call.args.trim())),
        Kind::Autocompact => autocompact(&shared, &call.args),
        Kind::Clear | Kind::Compact => Ok(String::new()),
    };
    let (text, is_error) = match answer {
        Ok(text) => (text, false),
        Err(text) => (text, true),
    };
    show(turn, call, command.name, &text, context).await;
    Outcome::Command(CommandEnd { name: Some(command.name), text, is_error, cleared: false })
}

async fn show(turn: &Turn<'_>, call: &Invocation, name: &str, text: &str, context: Option<Value>) {
    let shared = turn.shared;
    turn.show_init(&call.prompt).await;
    let mut frame = shared.frames.command_answer(text);
    frame.local_command_run = Some(json!({"command": name, "args": call.args}));
    frame.context_usage = context;
    turn.record_command(call, name, &call.uuid(shared), (&frame.uuid, text));
    shared.emit(frame).await;
}

async fn model(turn: &Turn<'_>, name: &str) -> Result<String, String> {
    if name.is_empty() {
        return Ok(format!("The model is {}.", turn.shared.choice().id));
    }
    let switched = control::switch_model(turn.shared, name, &turn.cancel).await;
    switched.map(|id| format!("Set model to {id}"))
}

fn effort(shared: &Arc<Shared>, level: &str) -> Result<String, String> {
    let mut choice = shared.choice();
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
            choice.effort = None;
            Ok("The effort is left to the model's default.".to_owned())
        }
        level if capabilities.efforts.contains(&level) => {
            choice.effort = Some(level.to_owned());
            Ok(format!("Set effort to {level}"))
        }
        level => Err(format!("There is no effort level {level:?}: {}.", takes())),
    }
}

fn autocompact(shared: &Arc<Shared>, wanted: &str) -> Result<String, String> {
    let window = {
        let choice = shared.choice();
        lathe_models::catalog::context_window(&choice.id, &choice.betas)
    };
    let mut compaction = shared.compaction();
    let policy = &mut compaction.policy;
    match wanted {
        "" => {}
        "auto" => (policy.window, policy.automatic) = (None, Switch::On),
        tokens => match tokens.replace(['_', ','], "").parse::<u64>() {
            Ok(tokens) => {
                (policy.window, policy.automatic) = (Some(CompactPolicy::clamp_window(tokens)), Switch::On);
            }
            Err(_) => return Err(format!("{wanted:?} is neither \"auto\" nor a number of tokens.")),
        },
    }
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
