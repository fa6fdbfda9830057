//! The kinds of content that a working folder can bring, and what each gives to a session before a person trusts the
//! folder. The tables in ARCHITECTURE.md and SECURITY.md have one row per variant; `cargo xtask test --only house`
//! fails when one of them lacks a row.
//!
//! A feature that reads a new kind of file or setting from the folder adds its variant here first, and asks
//! [`FolderTrust::counts`](super::FolderTrust::counts) before it uses what it read.

use std::fmt;

/// One kind of content of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContentKind {
    /// Handlers of `hooks`: commands, prompts and web requests that run at events.
    Hooks,
    /// `permissions.allow`.
    AllowRules,
    /// `permissions.additionalDirectories`.
    AdditionalDirectories,
    /// `permissions.defaultMode`, if the mode allows more than the default one.
    PermissionModes,
    /// Commands whose output is a credential or a header, such as `apiKeyHelper`.
    Helpers,
    /// Variables of `env` that say where requests go or what is sent with them, and the addresses that hooks may call.
    Destinations,
    /// All other variables of `env`.
    Variables,
    /// `statusLine` and `subagentStatusLine`.
    StatusLines,
    /// `fileSuggestion`.
    FileSuggestions,
    /// Servers of `.lsp.json`.
    LanguageServers,
    /// Servers of `.mcp.json`, and settings that approve them.
    McpServers,
    /// Plugins: those that settings enable, their marketplaces, and plugins among the skills.
    Plugins,
    /// `sandbox`, where it is not purely a limit.
    Sandbox,
    /// Other settings that widen a session, such as `disableAllHooks` and `cleanupPeriodDays`.
    Switches,
    /// Files of `.claude/agents`.
    Agents,
    /// Folders of `.claude/skills`.
    Skills,
    /// Files of `.claude/commands`.
    Commands,
    /// Tasks of `.claude/scheduled_tasks.json`.
    ScheduledTasks,
    /// Files of `.claude/output-styles`.
    OutputStyles,
    /// `CLAUDE.md` and its kin.
    MemoryFiles,
    /// Settings that only forbid: `permissions.deny`, `permissions.ask`.
    Limits,
}

/// What a kind gives to a session while the folder is untrusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutTrust {
    /// Nothing.
    Nothing,
    /// Its text, for the model to read. Everything in it that runs, allows or redirects does not count.
    TextOnly,
    /// All of it, because there is nothing in it but text for the model.
    Text,
    /// All of it, because it can only take rights away.
    Limit,
}

impl ContentKind {
    /// All kinds, in the order in which they are shown.
    pub const ALL: [Self; 21] = [
        Self::Hooks,
        Self::AllowRules,
        Self::AdditionalDirectories,
        Self::PermissionModes,
        Self::Helpers,
        Self::Destinations,
        Self::Variables,
        Self::StatusLines,
        Self::FileSuggestions,
        Self::LanguageServers,
        Self::McpServers,
        Self::Plugins,
        Self::Sandbox,
        Self::Switches,
        Self::Agents,
        Self::Skills,
        Self::Commands,
        Self::ScheduledTasks,
        Self::OutputStyles,
        Self::MemoryFiles,
        Self::Limits,
    ];

    /// Returns the name for programs. It must not change, because hashes of trusted items are made of it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hooks => "hooks",
            Self::AllowRules => "allow_rules",
            Self::AdditionalDirectories => "additional_directories",
            Self::PermissionModes => "permission_modes",
            Self::Helpers => "helpers",
            Self::Destinations => "destinations",
            Self::Variables => "variables",
            Self::StatusLines => "status_lines",
            Self::FileSuggestions => "file_suggestions",
            Self::LanguageServers => "language_servers",
            Self::McpServers => "mcp_servers",
            Self::Plugins => "plugins",
            Self::Sandbox => "sandbox",
            Self::Switches => "switches",
            Self::Agents => "agents",
            Self::Skills => "skills",
            Self::Commands => "commands",
            Self::ScheduledTasks => "scheduled_tasks",
            Self::OutputStyles => "output_styles",
            Self::MemoryFiles => "memory_files",
            Self::Limits => "limits",
        }
    }

    /// Returns what counts of this kind in an untrusted folder. The tables in ARCHITECTURE.md and SECURITY.md say
    /// the same.
    pub fn without_trust(self) -> WithoutTrust {
        match self {
            Self::Hooks
            | Self::AllowRules
            | Self::AdditionalDirectories
            | Self::PermissionModes
            | Self::Helpers
            | Self::Destinations
            | Self::Variables
            | Self::StatusLines
            | Self::FileSuggestions
            | Self::LanguageServers
            | Self::McpServers
            | Self::Plugins
            | Self::Sandbox
            | Self::Switches => WithoutTrust::Nothing,
            Self::Agents | Self::Skills | Self::Commands | Self::ScheduledTasks => WithoutTrust::TextOnly,
            Self::OutputStyles | Self::MemoryFiles => WithoutTrust::Text,
            Self::Limits => WithoutTrust::Limit,
        }
    }

    /// Returns the words for one and for several items of this kind, for messages.
    fn nouns(self) -> (&'static str, &'static str) {
        match self {
            Self::Hooks => ("hook", "hooks"),
            Self::AllowRules => ("allow rule", "allow rules"),
            Self::AdditionalDirectories => ("additional directory", "additional directories"),
            Self::PermissionModes => ("permission mode", "permission modes"),
            Self::Helpers => ("credential helper", "credential helpers"),
            Self::Destinations => ("server address or header", "server addresses or headers"),
            Self::Variables => ("variable", "variables"),
            Self::StatusLines => ("status line", "status lines"),
            Self::FileSuggestions => ("file suggestion", "file suggestions"),
            Self::LanguageServers => ("language server", "language servers"),
            Self::McpServers => ("MCP server", "MCP servers"),
            Self::Plugins => ("plugin", "plugins"),
            Self::Sandbox => ("sandbox setting", "sandbox settings"),
            Self::Switches => ("other setting", "other settings"),
            Self::Agents => ("agent", "agents"),
            Self::Skills => ("skill", "skills"),
            Self::Commands => ("command", "commands"),
            Self::ScheduledTasks => ("scheduled task", "scheduled tasks"),
            Self::OutputStyles => ("output style", "output styles"),
            Self::MemoryFiles => ("memory file", "memory files"),
            Self::Limits => ("rule that forbids or asks", "rules that forbid or ask"),
        }
    }
}

/// A number of things of one kind. `Display` gives "2 hooks".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindCount {
    /// What they are.
    pub kind: ContentKind,
    /// How many there are; at least one.
    pub count: usize,
}

impl fmt::Display for KindCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (one, many) = self.kind.nouns();
        write!(f, "{} {}", self.count, if self.count == 1 { one } else { many })
    }
}

/// Returns how many items there are of each kind, in the order of [`ContentKind::ALL`]; kinds without items are left
/// out. The list must have the kinds in the order in which the enum declares them, because they are counted by number.
pub(crate) fn count(kinds: impl Iterator<Item = ContentKind>) -> Vec<KindCount> {
    let mut counts = [0_usize; ContentKind::ALL.len()];
    for kind in kinds {
        counts[kind as usize] += 1;
    }
    let counted = ContentKind::ALL.into_iter().zip(counts);
    counted.filter(|(_, count)| *count > 0).map(|(kind, count)| KindCount { kind, count }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_whole_and_in_the_order_of_the_enum() {
        for (at, kind) in ContentKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at, "{kind:?}");
        }
        assert_eq!(
            ContentKind::Limits as usize,
            ContentKind::ALL.len() - 1,
            "the last variant is in the list"
        );
        let mut names: Vec<&str> = ContentKind::ALL.into_iter().map(ContentKind::as_str).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ContentKind::ALL.len());
    }

    #[test]
    fn counts_are_words() {
        let counted = count([ContentKind::Skills, ContentKind::Hooks, ContentKind::Hooks].into_iter());
        let words: Vec<String> = counted.iter().map(ToString::to_string).collect();
        assert_eq!(words, ["2 hooks", "1 skill"]);
    }
}
