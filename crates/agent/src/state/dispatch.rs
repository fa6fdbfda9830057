//! Decides whether a prompt is a command: one that begins with `/name` may be a command of the session, everything else
//! is for the model. A name that no command has goes to the model, with a note that says so.

use lathe_protocol::control::SlashCommand;
use lathe_protocol::{InboundUser, MessageContent};

use crate::state::agent::AgentHandle;
use crate::state::commands::expansion::ExpandedPrompt;
use crate::state::commands::{CommandOffer, FoundCommand, SlashCommands};

/// What a prompt is.
pub enum PromptDispatch {
    /// A command, which the session runs.
    Command(Box<CommandInvocation>),
    /// A command that is a prompt for the model.
    Expanded(Box<ExpandedPrompt>),
    /// A prompt for the model.
    Prompt {
        /// What the model should know about it.
        note: Option<String>,
    },
}

/// A command with its arguments.
pub struct CommandInvocation {
    pub name: String,
    pub args: String,
    pub found: FoundCommand,
    /// The prompt it came in.
    pub prompt: InboundUser,
}

/// Decides what a prompt is: text for the model, a command of the session, or the name of a command that does not
/// exist, which goes to the model with a note. With slash commands off everything is text. Runs and changes nothing.
pub fn dispatch(agent: &AgentHandle, prompt: &InboundUser) -> PromptDispatch {
    let SlashCommands::On(registry) = &agent.session.slash_commands else {
        return PromptDispatch::Prompt { note: None };
    };
    let Some((name, args)) = call_of(prompt) else { return PromptDispatch::Prompt { note: None } };
    match registry.find(name, offer(agent)) {
        Some(FoundCommand::Prompt(command, name)) => {
            PromptDispatch::Expanded(Box::new(ExpandedPrompt::new(command, &name, args, prompt)))
        }
        Some(found) => PromptDispatch::Command(Box::new(CommandInvocation {
            name: name.to_owned(),
            args: args.to_owned(),
            found,
            prompt: prompt.clone(),
        })),
        None => PromptDispatch::Prompt { note: Some(unknown_note(&registry.listing(offer(agent)), name)) },
    }
}

/// Returns whether the session would handle this prompt as a command, be it one that runs, one that is a prompt of
/// ours, or one that is refused because it needs a terminal. Such a prompt cannot join a running turn.
pub fn is_command(agent: &AgentHandle, prompt: &InboundUser) -> bool {
    match dispatch(agent, prompt) {
        PromptDispatch::Command(_) | PromptDispatch::Expanded(_) => true,
        PromptDispatch::Prompt { .. } => false,
    }
}

/// Returns the available commands, as hosts list them; empty if slash commands are off.
pub fn listing(agent: &AgentHandle) -> Vec<SlashCommand> {
    match &agent.session.slash_commands {
        SlashCommands::On(registry) => registry.listing(offer(agent)),
        SlashCommands::Off => Vec::new(),
    }
}

/// Returns which of the optional commands the session offers at this moment: `/compact` depends on the agent's policy,
/// `/loop` on the clock.
fn offer(agent: &AgentHandle) -> CommandOffer {
    CommandOffer { compact: agent.view().compact.policy.manual, clock: agent.session.schedule.config.clock }
}

/// Splits a prompt that consists of a command into its name and arguments; `None` for any other prompt. A prompt that a
/// client composed, that is only to be recorded, or that has several blocks is not a command.
fn call_of(prompt: &InboundUser) -> Option<(&str, &str)> {
    // A text that a client composed, or that is only to be kept, was not typed as a command.
    let verbatim = prompt.client_composed == Some(true) || prompt.should_query == Some(false);
    if verbatim {
        return None;
    }
    let text = match &prompt.message.content {
        MessageContent::Text(text) => text,
        MessageContent::Blocks(blocks) => match blocks.as_slice() {
            [only] => only.as_text()?,
            [] | [_, _, ..] => return None,
        },
        MessageContent::Unknown(_) => return None,
    };
    split(text)
}

/// Splits `/name args` into the name and the arguments without white space around them. `None` if the text does not
/// begin so; a path such as `/etc/hosts` is not a name.
fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix('/')?;
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (name, args) = rest.split_at(end);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':');
    (!name.is_empty() && name.chars().all(is_name)).then(|| (name, args.trim()))
}

/// Returns what the model is told about a command `name` that does not exist, with the list of those that do.
fn unknown_note(known: &[SlashCommand], name: &str) -> String {
    let names: Vec<String> = known.iter().map(|command| format!("/{}", command.name)).collect();
    format!(
        "The message above looks like the command /{name}, but this session has no such command and nothing \
         was run. There are: {}. Take it as ordinary text, and say so if the user seems to expect a command.",
        names.join(", ")
    )
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
