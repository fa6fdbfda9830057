//! Runs slash commands in place of a turn of the model: the built-in ones and those that were added to the registry.
//! `state/dispatch.rs` decides whether a prompt is a command.

mod clear;
mod compact;
mod local;

use lathe_protocol::{InboundUser, Outbound};

use crate::control;
use crate::record::journal::CommandRecord;
use crate::state::agent::Agent;
use crate::state::commands::{BuiltinCommand, CommandKind, FoundCommand};
use crate::state::dispatch::CommandInvocation;
use crate::turn::Turn;
use crate::turn::announce::init_frame;
use crate::turn::decide::TurnEnding;
use crate::turn::outcome::{TurnOutcome, TurnPhase};

/// Runs a command in place of the model and returns how the turn ends, as a rule with the text of the result. A
/// `/compact` over the budget and an added command that is interrupted end the turn without one. Changed settings files
/// are applied first.
pub(crate) async fn run(turn: &mut Turn<'_>, call: Box<CommandInvocation>) -> TurnOutcome {
    let command = match call.found.clone() {
        FoundCommand::Command(command) => command,
        // A prompt is dispatched as one and does not come here.
        FoundCommand::TerminalOnly | FoundCommand::Prompt(..) => {
            return local::unavailable(turn, &call).await;
        }
    };
    turn.agent.handle.follow_settings(&turn.cancel).await;
    let answer: Result<String, String> = match &command.kind {
        // A compaction costs a request, unlike the other commands.
        CommandKind::Builtin(BuiltinCommand::Compact) if turn.session.over_budget() => {
            turn.show_init(&call.prompt).await;
            return TurnOutcome::Ended(TurnEnding::Budget);
        }
        CommandKind::Builtin(BuiltinCommand::Compact) => return compact::run(turn, &call).await,
        CommandKind::Builtin(BuiltinCommand::Clear) => return clear::run(turn, &call).await,
        CommandKind::Builtin(BuiltinCommand::Context) => {
            return local::context(turn, &call, &command.name).await;
        }
        CommandKind::Builtin(BuiltinCommand::Help) => Ok(local::help(&turn.agent.handle)),
        CommandKind::Builtin(BuiltinCommand::Usage) => Ok(control::cost_text(&turn.agent.handle)),
        CommandKind::Builtin(BuiltinCommand::Model) => local::model(turn, &call.args).await,
        CommandKind::Builtin(BuiltinCommand::Effort) => local::effort(&turn.agent.handle, &call.args),
        CommandKind::Builtin(BuiltinCommand::Rename) => local::rename(turn, &call.args).await,
        CommandKind::Builtin(BuiltinCommand::Autocompact) => {
            local::autocompact(&turn.agent.handle, &call.args)
        }
        CommandKind::Prompt(_) => return local::unavailable(turn, &call).await,
        CommandKind::Added(action) => {
            // The code of an added command is not ours and may hang; an interrupt must still end the turn.
            match turn.cancel.run_until_cancelled(action.answer(&call.args)).await {
                Some(answer) => answer,
                None => return TurnOutcome::Interrupted(TurnPhase::Streaming),
            }
        }
    };
    local::show_answer(turn, &call, &command.name, answer).await
}

impl Turn<'_> {
    /// Sends the init frame of this turn, then the acknowledgement of its prompt. Each command calls this exactly once,
    /// because every turn begins with one init frame.
    async fn show_init(&self, prompt: &InboundUser) {
        let init = init_frame(&self.agent.handle, prompt.uuid.as_deref());
        self.session.emit(Outbound::system(init)).await;
        self.session.replay(prompt).await;
    }

    /// Writes a command and its output into the session's file. `uuid` is the id of the prompt; `output` is the id of
    /// the frame that shows the output, and the text of the output, which may be empty.
    fn record_command(&mut self, call: &CommandInvocation, name: &str, uuid: &str, output: (&str, &str)) {
        let now = self.agent.handle.frames.now();
        let record = CommandRecord { name, args: &call.args, uuid, output, now: &now };
        self.agent.journal.command(&record);
    }
}

impl CommandInvocation {
    /// Returns the id of the command's prompt: the one that the host chose, otherwise the one that hooks were told,
    /// otherwise a fresh one. Takes the id that hooks were told out of the journal, so a second call in the turn may
    /// return another id.
    fn uuid(&self, agent: &mut Agent) -> String {
        let announced = agent.journal.take_announced();
        self.prompt.uuid.clone().or(announced).unwrap_or_else(|| agent.handle.frames.uuid())
    }
}
