//! The commands that a session answers itself, and those that need a terminal.

use lathe_protocol::control::SlashCommand;

use crate::state::compact_policy::Switch;

/// Whether prompts may be commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SlashCommands {
    #[default]
    On,
    /// `/name` is text like any other.
    Off,
}

/// One command.
#[derive(Debug)]
pub(crate) struct Builtin {
    pub name: &'static str,
    aliases: &'static [&'static str],
    description: &'static str,
    hint: &'static str,
    pub kind: Kind,
}

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Clear,
    Compact,
    Context,
    Usage,
    Model,
    Effort,
    Rename,
    Autocompact,
}

/// Whom a name stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Found {
    Builtin(&'static Builtin),
    TerminalOnly,
}

/// In the order of their names.
const BUILTINS: &[Builtin] = &[
    Builtin {
        name: "autocompact",
        aliases: &[],
        description: "Choose at how many tokens a conversation is compacted by itself",
        hint: "[auto|<tokens>]",
        kind: Kind::Autocompact,
    },
    Builtin {
        name: "clear",
        aliases: &["reset", "new"],
        description: "Begin a new session without history; the old one can be resumed",
        hint: "[name]",
        kind: Kind::Clear,
    },
    Builtin {
        name: "compact",
        aliases: &[],
        description: "Replace the conversation by a summary to make room",
        hint: "<optional custom summarization instructions>",
        kind: Kind::Compact,
    },
    Builtin {
        name: "context",
        aliases: &[],
        description: "Show how full the model's window is",
        hint: "",
        kind: Kind::Context,
    },
    Builtin {
        name: "effort",
        aliases: &[],
        description: "Show or set how much effort the model puts in",
        hint: "<low|medium|high|xhigh|max|auto>",
        kind: Kind::Effort,
    },
    Builtin {
        name: "model",
        aliases: &[],
        description: "Show or set the model",
        hint: "<model>",
        kind: Kind::Model,
    },
    Builtin {
        name: "rename",
        aliases: &["name"],
        description: "Give the session a name",
        hint: "[name]",
        kind: Kind::Rename,
    },
    Builtin {
        name: "usage",
        aliases: &["cost", "stats"],
        description: "Show what the session has used and cost",
        hint: "",
        kind: Kind::Usage,
    },
];

/// Commands of other programs' terminals, which people type out of habit.
const TERMINAL_ONLY: &[&str] = &[
    "help",
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

/// The commands of a session.
pub(crate) fn available(compact: Switch) -> impl Iterator<Item = &'static Builtin> {
    BUILTINS.iter().filter(move |command| command.kind != Kind::Compact || compact == Switch::On)
}

/// The command with this name.
pub(crate) fn find(name: &str, compact: Switch) -> Option<Found> {
    let known = |command: &&Builtin| command.name == name || command.aliases.contains(&name);
    match available(compact).find(known) {
        Some(command) => Some(Found::Builtin(command)),
        None => TERMINAL_ONLY.contains(&name).then_some(Found::TerminalOnly),
    }
}

impl Builtin {
    /// As hosts list it.
    pub fn for_hosts(&self) -> SlashCommand {
        let aliases = self.aliases.iter().map(|alias| (*alias).to_owned()).collect::<Vec<_>>();
        SlashCommand {
            name: self.name.to_owned(),
            description: self.description.to_owned(),
            argument_hint: self.hint.to_owned(),
            aliases: (!aliases.is_empty()).then_some(aliases),
            builtin: Some(true),
            ..SlashCommand::default()
        }
    }

    /// Whether it costs something.
    pub fn asks_the_model(&self) -> bool {
        self.kind == Kind::Compact
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_one_command() {
        let mut names: Vec<&str> =
            BUILTINS.iter().flat_map(|c| c.aliases.iter().copied().chain([c.name])).collect();
        names.extend(TERMINAL_ONLY);
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(matches!(find("cost", Switch::On), Some(Found::Builtin(found)) if found.name == "usage"));
        assert!(matches!(find("help", Switch::On), Some(Found::TerminalOnly)));
        assert!(find("nobody", Switch::On).is_none());
        assert!(find("compact", Switch::Off).is_none());
    }
}
