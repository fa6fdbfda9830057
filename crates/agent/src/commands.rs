//! Runs the slash commands that the session answers itself, without the model. Whether a prompt is one is decided in
//! `state/dispatch.rs`.

mod clear;
mod compact;
mod local;

use lathe_protocol::{InboundUser, Outbound};

use crate::record::journal::CommandRecord;
use crate::state::agent::Agent;
use crate::state::commands::Found;
use crate::state::commands::Kind;
use crate::state::dispatch::Invocation;
use crate::turn::Turn;
use crate::turn::announce::init_frame;
use crate::turn::decide::Ending;
use crate::turn::outcome::Outcome;

/// Runs a command in place of a turn.
pub(crate) async fn run(turn: &mut Turn<'_>, call: Box<Invocation>) -> Outcome {
    let builtin = match call.found {
        Found::Builtin(builtin) => builtin,
        Found::TerminalOnly => return local::unavailable(turn, &call).await,
    };
    turn.agent.handle.follow_settings(&turn.cancel).await;
    if builtin.asks_the_model() && turn.session.over_budget() {
        turn.show_init(&call.prompt).await;
        return Outcome::Ended(Ending::Budget);
    }
    match builtin.kind {
        Kind::Clear => clear::run(turn, &call).await,
        Kind::Compact => compact::run(turn, &call).await,
        Kind::Context | Kind::Usage | Kind::Model | Kind::Effort | Kind::Rename | Kind::Autocompact => {
            local::run(turn, &call, builtin).await
        }
    }
}

impl Turn<'_> {
    /// The init frame of this turn, and the acknowledgement of its prompt.
    async fn show_init(&self, prompt: &InboundUser) {
        let init = init_frame(&self.agent.handle, prompt.uuid.as_deref());
        self.session.emit(Outbound::system(init)).await;
        self.session.replay(prompt).await;
    }

    /// Writes a command and its output into the session's file; `output_uuid` is the frame that shows it.
    fn record_command(&mut self, call: &Invocation, name: &str, uuid: &str, output: (&str, &str)) {
        let now = self.agent.handle.frames.now();
        let record = CommandRecord { name, args: &call.args, uuid, output, now: &now };
        self.agent.journal.command(&record);
    }
}

impl Invocation {
    /// The id of the prompt: the host's, or the one that hooks were told.
    fn uuid(&self, agent: &mut Agent) -> String {
        let announced = agent.journal.take_announced();
        self.prompt.uuid.clone().or(announced).unwrap_or_else(|| agent.handle.frames.uuid())
    }
}
