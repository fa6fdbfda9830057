//! Slash commands: a prompt that begins with `/name` is looked at before the model sees it. Commands of the
//! session itself are answered here, without the model; a name that nobody knows goes to the model, with a
//! note that says so.
//!
//! Commands that people write as files will be found by [`dispatch`] too, as one more [`Dispatch`]: they
//! become a prompt, and the turn goes its usual way.

mod clear;
mod compact;
mod local;

use lathe_protocol::control::SlashCommand;
use lathe_protocol::{ContentBlock, InboundUser, MessageContent, Outbound};

use crate::record::journal::CommandRecord;
use crate::state::agent::{Agent, AgentHandle};
use crate::state::commands::{Builtin, Found, SlashCommands};
use crate::turn::announce::init_frame;
use crate::turn::decide::Ending;
use crate::turn::{Outcome, Turn};

/// What becomes of a prompt.
pub(crate) enum Dispatch {
    /// The session answers it.
    Command(Box<Invocation>),
    /// The model does.
    Prompt {
        /// What the model should know about it.
        note: Option<String>,
    },
}

/// A command as it was called.
pub(crate) struct Invocation {
    name: String,
    args: String,
    found: Found,
    /// The prompt it came in.
    prompt: InboundUser,
}

/// How a command ended.
#[derive(Debug, Default)]
pub struct CommandEnd {
    /// `local_command`; none for one that cannot run here.
    pub name: Option<&'static str>,
    pub text: String,
    pub is_error: bool,
    /// Whether another session began.
    pub cleared: bool,
}

/// Decides who answers a prompt.
pub(crate) fn dispatch(agent: &AgentHandle, prompt: &InboundUser) -> Dispatch {
    let Some((name, args)) = call_of(agent, prompt) else { return Dispatch::Prompt { note: None } };
    match crate::state::commands::find(name, can_compact(agent)) {
        Some(found) => Dispatch::Command(Box::new(Invocation {
            name: name.to_owned(),
            args: args.to_owned(),
            found,
            prompt: prompt.clone(),
        })),
        None => Dispatch::Prompt { note: Some(unknown_note(agent, name)) },
    }
}

/// Whether the session will answer a prompt itself.
pub(crate) fn is_command(agent: &AgentHandle, prompt: &InboundUser) -> bool {
    matches!(dispatch(agent, prompt), Dispatch::Command(_))
}

/// The commands there are, as hosts list them.
pub(crate) fn listing(agent: &AgentHandle) -> Vec<SlashCommand> {
    match agent.session.slash_commands {
        SlashCommands::On => {
            crate::state::commands::available(can_compact(agent)).map(Builtin::for_hosts).collect()
        }
        SlashCommands::Off => Vec::new(),
    }
}

fn can_compact(agent: &AgentHandle) -> crate::state::compact_policy::Switch {
    agent.view().compact.policy.manual
}

/// Name and arguments of a prompt that is a call.
fn call_of<'a>(agent: &AgentHandle, prompt: &'a InboundUser) -> Option<(&'a str, &'a str)> {
    let verbatim = prompt.client_composed == Some(true) || prompt.should_query == Some(false);
    if agent.session.slash_commands == SlashCommands::Off || verbatim {
        return None;
    }
    let text = match &prompt.message.content {
        MessageContent::Text(text) => text,
        MessageContent::Blocks(blocks) => match blocks.as_slice() {
            [ContentBlock::Text(block)] => &block.text,
            _ => return None,
        },
        MessageContent::Unknown(_) => return None,
    };
    split(text)
}

/// `/name args`; a path such as `/etc/hosts` is no name.
fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix('/')?;
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (name, args) = rest.split_at(end);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':');
    (!name.is_empty() && name.chars().all(is_name)).then(|| (name, args.trim()))
}

/// What the model is told about a command that does not exist.
fn unknown_note(agent: &AgentHandle, name: &str) -> String {
    let names: Vec<String> = listing(agent).into_iter().map(|command| format!("/{}", command.name)).collect();
    format!(
        "The message above looks like the command /{name}, but this session has no such command and nothing \
         was run. There are: {}. Take it as ordinary text, and say so if the user seems to expect a command.",
        names.join(", ")
    )
}

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
        crate::state::commands::Kind::Clear => clear::run(turn, &call).await,
        crate::state::commands::Kind::Compact => compact::run(turn, &call).await,
        crate::state::commands::Kind::Context
        | crate::state::commands::Kind::Usage
        | crate::state::commands::Kind::Model
        | crate::state::commands::Kind::Effort
        | crate::state::commands::Kind::Rename
        | crate::state::commands::Kind::Autocompact => local::run(turn, &call, builtin).await,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_paths_and_prose() {
        let rows = [
            ("/compact", Some(("compact", ""))),
            ("/compact  keep names ", Some(("compact", "keep names"))),
            ("/compact\nkeep\nlines", Some(("compact", "keep\nlines"))),
            ("/sub:nested x", Some(("sub:nested", "x"))),
            ("/etc/hosts is broken", None),
            ("/ compact", None),
            ("/", None),
            (" /compact", None),
            ("compact", None),
            ("/héllo", None),
        ];
        for (text, wanted) in rows {
            assert_eq!(split(text), wanted, "{text}");
        }
    }
}
