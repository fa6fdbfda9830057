//! The slash commands of a session: a registry that starts with the built-in ones and can change while the session
//! runs. Commands that need a terminal are known by name, so that they can be refused with a message. `commands.rs`
//! runs a command; `dispatch.rs` decides whether a prompt is one.

pub mod expansion;
mod loop_text;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use lathe_protocol::control::SlashCommand;
use lathe_tools::ClockTurns;

use crate::state::compact_policy::CompactSwitch;
use expansion::PromptCommand;

/// Whether prompts may be commands, and which commands there are.
#[derive(Debug, Clone)]
pub enum SlashCommands {
    /// Those of the registry. The owner of a clone can add commands while the session runs.
    On(Arc<CommandRegistry>),
    /// `/name` is text like any other.
    Off,
}

impl Default for SlashCommands {
    fn default() -> Self {
        Self::On(Arc::default())
    }
}

/// A command that is added to the built-in ones, by a plugin for instance.
#[derive(Debug, Clone)]
pub struct AddedCommand {
    /// The text after the `/`: ASCII letters and digits, `-`, `_` and `:`.
    pub name: String,
    /// Further names for it.
    pub aliases: Vec<String>,
    /// For people who read a list of commands.
    pub description: String,
    /// What may follow the name, e.g. `[name]`; empty if nothing may.
    pub argument_hint: String,
    /// The code that runs it.
    pub action: Arc<dyn CommandAction>,
}

/// The code of an added command.
pub trait CommandAction: fmt::Debug + Send + Sync {
    /// Returns the text that the user is shown in place of a response of the model; an `Err` is shown as a failure. The
    /// future is dropped when the turn is interrupted.
    fn answer<'a>(&'a self, args: &'a str) -> BoxFuture<'a, Result<String, String>>;
}

/// The error when a command is added whose name another one has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("add the command /{name}: there is already a command with this name")]
pub struct CommandNameTaken {
    /// The name or alias that is taken.
    pub name: String,
}

/// The commands of a session by name. A new registry holds the built-in ones.
#[derive(Debug)]
pub struct CommandRegistry {
    /// In the order of their names. Written when commands are added and removed while the session runs; read for every
    /// prompt that begins with `/` and for every list of commands.
    commands: Mutex<BTreeMap<String, Arc<RegisteredCommand>>>,
}

/// One command of the registry.
#[derive(Debug)]
pub(crate) struct RegisteredCommand {
    pub name: String,
    aliases: Vec<String>,
    description: String,
    argument_hint: String,
    pub kind: CommandKind,
}

/// What runs a command.
#[derive(Debug, Clone)]
pub(crate) enum CommandKind {
    /// The session itself.
    Builtin(BuiltinCommand),
    /// The model, with a text of ours.
    Prompt(PromptCommand),
    /// The code that was added with it.
    Added(Arc<dyn CommandAction>),
}

/// The commands that the session runs itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BuiltinCommand {
    Clear,
    Compact,
    Context,
    Help,
    Usage,
    Model,
    Effort,
    Rename,
    Autocompact,
}

/// What decides about the commands of a session besides the registry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandOffer {
    /// Whether the user may compact the conversation.
    pub compact: CompactSwitch,
    /// Whether turns may start by the clock.
    pub clock: ClockTurns,
}

/// What a name refers to.
#[derive(Debug, Clone)]
pub(crate) enum FoundCommand {
    Command(Arc<RegisteredCommand>),
    /// A prompt, under this name.
    Prompt(PromptCommand, String),
    TerminalOnly,
}

/// A built-in command as it is registered.
struct BuiltinFacts {
    builtin: BuiltinCommand,
    name: &'static str,
    aliases: &'static [&'static str],
    description: &'static str,
    argument_hint: &'static str,
}

const BUILTINS: &[BuiltinFacts] = &[
    BuiltinFacts {
        builtin: BuiltinCommand::Autocompact,
        name: "autocompact",
        aliases: &[],
        description: "Choose at how many tokens a conversation is compacted by itself",
        argument_hint: "[auto|<tokens>]",
    },
    BuiltinFacts {
        builtin: BuiltinCommand::Clear,
        name: "clear",
        aliases: &["reset", "new"],
        description: "Begin a new session without history; the old one can be resumed",
        argument_hint: "[name]",
    },
    BuiltinFacts {
        builtin: BuiltinCommand::Compact,
        name: "compact",
        aliases: &[],
        description: "Replace the conversation by a summary to make room",
        argument_hint: "<optional custom summarization instructions>",
    },
    BuiltinFacts {
        builtin: BuiltinCommand::Context,
        name: "context",
        aliases: &[],
        description: "Show how full the model's window is",
        argument_hint: "",
    },
    BuiltinFacts {
        builtin: BuiltinCommand::Effort,
        name: "effort",
        aliases: &[],
        description: "Show or set how much effort the model puts in",
        argument_hint: "<low|medium|high|xhigh|max|auto>",
    },
    BuiltinFacts {
        builtin: BuiltinCommand::Help,
        name: "help",
        aliases: &[],
        description: "Show the commands there are",
        argument_hint: "",
    },
    BuiltinFacts {
        builtin: BuiltinCommand::Model,
        name: "model",
        aliases: &[],
        description: "Show or set the model",
        argument_hint: "<model>",
    },
    BuiltinFacts {
        builtin: BuiltinCommand::Rename,
        name: "rename",
        aliases: &["name"],
        description: "Give the session a name",
        argument_hint: "[name]",
    },
    BuiltinFacts {
        builtin: BuiltinCommand::Usage,
        name: "usage",
        aliases: &["cost", "stats"],
        description: "Show what the session has used and cost",
        argument_hint: "",
    },
];

/// A command that is a prompt, as it is registered.
struct PromptFacts {
    prompt: PromptCommand,
    name: &'static str,
    description: &'static str,
    argument_hint: &'static str,
}

const PROMPTS: &[PromptFacts] = &[
    PromptFacts {
        prompt: PromptCommand::Init,
        name: "init",
        description: "Write a CLAUDE.md that tells later sessions how to work in this project",
        argument_hint: "[wishes]",
    },
    PromptFacts {
        prompt: PromptCommand::Loop,
        name: "loop",
        description: "Have something done again and again while the session is open",
        argument_hint: "[interval] <prompt>",
    },
    PromptFacts {
        prompt: PromptCommand::Review,
        name: "review",
        description: "Review a change: a pull request, a branch, or what is not committed",
        argument_hint: "[what to review]",
    },
    PromptFacts {
        prompt: PromptCommand::SecurityReview,
        name: "security-review",
        description: "Look for vulnerabilities that a change brings in",
        argument_hint: "[what to review]",
    },
];

/// Commands of other programs' terminals, which people type out of habit.
const TERMINAL_ONLY: &[&str] = &[
    "bug",
    "color",
    "doctor",
    "exit",
    "export",
    "feedback",
    "focus",
    "hooks",
    "ide",
    "login",
    "logout",
    "memory",
    "permissions",
    "quit",
    "release-notes",
    "resume",
    "statusline",
    "status",
    "terminal-setup",
    "theme",
    "upgrade",
    "vim",
];

impl Default for CommandRegistry {
    fn default() -> Self {
        let builtins = BUILTINS.iter().map(BuiltinFacts::registered);
        let commands = builtins.chain(PROMPTS.iter().map(PromptFacts::registered));
        let named = commands.map(|command| (command.name.clone(), Arc::new(command)));
        Self { commands: Mutex::new(named.collect()) }
    }
}

impl CommandRegistry {
    /// Adds a command. If its name or an alias belongs to another command, also to one that this session does not
    /// offer, nothing is added; the form of the names is not checked. The name of a command that needs a terminal may
    /// be used; the added one is then found.
    pub fn add(&self, command: AddedCommand) -> Result<(), CommandNameTaken> {
        let AddedCommand { name, aliases, description, argument_hint, action } = command;
        let mut commands = self.lock();
        let is_taken = |name: &&String| commands.values().any(|other| other.answers_to(name));
        if let Some(taken) = aliases.iter().chain([&name]).find(is_taken) {
            return Err(CommandNameTaken { name: taken.clone() });
        }
        let kind = CommandKind::Added(action);
        let command = RegisteredCommand { name: name.clone(), aliases, description, argument_hint, kind };
        commands.insert(name, Arc::new(command));
        Ok(())
    }

    /// Removes the added command with this name; an alias does not count. An unknown name does nothing, and built-in
    /// commands cannot be removed.
    pub fn remove(&self, name: &str) {
        self.lock().retain(|other, command| match command.kind {
            CommandKind::Builtin(_) | CommandKind::Prompt(_) => true,
            CommandKind::Added(_) => other != name,
        });
    }

    /// Returns the available commands as hosts list them, in the order of their names. Without compaction, `/compact`
    /// is not among them, and without the clock `/loop` is not.
    pub(crate) fn listing(&self, offer: CommandOffer) -> Vec<SlashCommand> {
        self.lock()
            .values()
            .filter(|command| command.is_available(offer))
            .map(|command| command.for_hosts())
            .collect()
    }

    /// Returns the command with this name or alias, or `None` if there is none. A command that `offer` makes
    /// unavailable is not found; a known name that needs a terminal is found as [`FoundCommand::TerminalOnly`].
    pub(crate) fn find(&self, name: &str, offer: CommandOffer) -> Option<FoundCommand> {
        let is_meant =
            |command: &&Arc<RegisteredCommand>| command.answers_to(name) && command.is_available(offer);
        match self.lock().values().find(is_meant) {
            Some(command) => Some(match command.kind {
                CommandKind::Prompt(prompt) => FoundCommand::Prompt(prompt, command.name.clone()),
                CommandKind::Builtin(_) | CommandKind::Added(_) => FoundCommand::Command(command.clone()),
            }),
            None => TERMINAL_ONLY.contains(&name).then_some(FoundCommand::TerminalOnly),
        }
    }

    /// Locks the commands, also after a panic under the lock.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<RegisteredCommand>>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BuiltinFacts {
    /// Returns the built-in command as an entry of the registry.
    fn registered(&self) -> RegisteredCommand {
        RegisteredCommand {
            name: self.name.to_owned(),
            aliases: self.aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            description: self.description.to_owned(),
            argument_hint: self.argument_hint.to_owned(),
            kind: CommandKind::Builtin(self.builtin),
        }
    }
}

impl PromptFacts {
    /// Returns the prompt as an entry of the registry.
    fn registered(&self) -> RegisteredCommand {
        RegisteredCommand {
            name: self.name.to_owned(),
            aliases: Vec::new(),
            description: self.description.to_owned(),
            argument_hint: self.argument_hint.to_owned(),
            kind: CommandKind::Prompt(self.prompt),
        }
    }
}

impl RegisteredCommand {
    /// Returns whether this is the name of the command or one of its aliases; upper and lower case differ.
    fn answers_to(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }

    /// Returns whether a session with this offer has the command: `/compact` needs compaction, and `/loop` the clock.
    fn is_available(&self, offer: CommandOffer) -> bool {
        match self.kind {
            CommandKind::Builtin(BuiltinCommand::Compact) => offer.compact == CompactSwitch::On,
            CommandKind::Prompt(PromptCommand::Loop) => offer.clock == ClockTurns::On,
            CommandKind::Builtin(_) | CommandKind::Prompt(_) | CommandKind::Added(_) => true,
        }
    }

    /// Returns the command as hosts list it. `builtin` is absent, not false, for a command that was added.
    fn for_hosts(&self) -> SlashCommand {
        SlashCommand {
            name: self.name.clone(),
            description: self.description.clone(),
            argument_hint: self.argument_hint.clone(),
            aliases: (!self.aliases.is_empty()).then(|| self.aliases.clone()),
            builtin: match self.kind {
                CommandKind::Builtin(_) | CommandKind::Prompt(_) => Some(true),
                CommandKind::Added(_) => None,
            },
            ..SlashCommand::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_one_command() {
        let mut names: Vec<&str> =
            BUILTINS.iter().flat_map(|c| c.aliases.iter().copied().chain([c.name])).collect();
        names.extend(PROMPTS.iter().map(|prompt| prompt.name));
        names.extend(TERMINAL_ONLY);
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        let registry = CommandRegistry::default();
        let find = |name: &str, compact| registry.find(name, CommandOffer { compact, clock: ClockTurns::On });
        assert!(
            matches!(find("cost", CompactSwitch::On), Some(FoundCommand::Command(found)) if found.name == "usage")
        );
        assert!(matches!(find("vim", CompactSwitch::On), Some(FoundCommand::TerminalOnly)));
        let prompt = find("init", CompactSwitch::On);
        assert!(matches!(prompt, Some(FoundCommand::Prompt(PromptCommand::Init, name)) if name == "init"));
        assert!(find("nobody", CompactSwitch::On).is_none());
        assert!(find("compact", CompactSwitch::Off).is_none());
        assert!(find("loop", CompactSwitch::Off).is_some());
        let without_clock = CommandOffer { compact: CompactSwitch::On, clock: ClockTurns::Off };
        assert!(registry.find("loop", without_clock).is_none());
    }
}
