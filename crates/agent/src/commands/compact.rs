//! `/compact [instructions]`: the frames around a compaction that the user asked for.

use lathe_protocol::Outbound;

use crate::compact::{CompactCause, CompactOutcome};
use crate::state::dispatch::CommandInvocation;
use crate::turn::Turn;
use crate::turn::outcome::CommandEnd;
use crate::turn::outcome::{TurnOutcome, TurnPhase};

/// Runs `/compact`: compacts the conversation, with the argument as an instruction for the summary, and then sends the
/// init frame and sends and records what came of it; only the status frames of the compaction precede the init frame.
/// An empty conversation is not an error; a failed compaction makes the result of the turn one, and an interrupted one
/// ends the turn without a record of the command.
pub(super) async fn run(turn: &mut Turn<'_>, call: &CommandInvocation) -> TurnOutcome {
    let instructions = (!call.args.is_empty()).then_some(call.args.as_str());
    let compacted = turn.compact(CompactCause::Asked, instructions).await;
    turn.show_init(&call.prompt).await;
    let agent = turn.agent.handle.clone();
    let (note, is_error) = match compacted {
        CompactOutcome::Done(told) => {
            agent.session.emit(Outbound::system(told.boundary)).await;
            agent.session.emit(told.summary).await;
            ("Compacted ".to_owned(), false)
        }
        CompactOutcome::Nothing => ("There is nothing to compact yet.".to_owned(), false),
        CompactOutcome::Failed(why) => (format!("The conversation was not compacted: {why}"), true),
        CompactOutcome::Interrupted => return TurnOutcome::Interrupted(TurnPhase::Streaming),
    };
    let frame = agent.frames.command_output(&note);
    let uuid = call.uuid(turn.agent);
    turn.record_command(call, "compact", &uuid, (&frame.uuid, &note));
    agent.session.emit(frame).await;
    // A compaction that worked shows in its frames; the result of a failed one is the reason.
    let text = if is_error { note } else { String::new() };
    TurnOutcome::Command(CommandEnd { name: Some("compact".to_owned()), text, is_error, cleared: false })
}
