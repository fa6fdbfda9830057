//! Which tools a session has. Every tool declares it in its own file ([`Tool::declaration`]); all lists of tools are
//! made from the declarations here.

use std::sync::Arc;

use lathe_protocol::ClientGeneration;
use lathe_protocol::tool_names::current_name;

use crate::{Tool, ToolSet};

/// What a tool says about where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolDeclaration {
    /// The sessions of current clients that have it.
    pub current: Offered,
    /// The sessions of clients of the generation [`ClientGeneration::Sdk02`] that have it.
    pub sdk_0_2: Offered,
    /// The sessions of clients of the generation [`ClientGeneration::Cli10`] that have it.
    pub cli_1_0: Offered,
    /// Whether requests describe it, or name it only.
    pub loading: Loading,
    /// Whether a session has it that is to have as little as possible (`--bare`).
    pub bare: bool,
    /// Whether subagents have it.
    pub for_subagents: bool,
    /// Whether subagents have it that run in the background.
    pub for_background_agents: bool,
}

/// The sessions that have a tool, of those that choose no tools by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// All.
    Always,
    /// Those whose host answers permission questions.
    WithHost,
    /// Those with Bash.
    WithBash,
    /// Those without Bash: with it, the model searches by commands.
    WithoutBash,
    /// Those whose model searches for deferred tools.
    WithToolSearch,
    /// Those that may start turns by the clock.
    WithSchedule,
    /// Those that keep a list of tasks in files.
    WithTaskList,
    /// Those that keep a list of to-dos.
    WithTodoList,
    /// None, but it can be chosen by name.
    ByName,
    /// None.
    Never,
}

/// How the model gets to know a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    /// Every request describes it.
    Always,
    /// It is described once the model has searched for it.
    Deferred,
}

impl ToolDeclaration {
    /// Every session and agent has the tool, and every request describes it.
    pub const EVERYWHERE: Self = Self {
        current: Offered::Always,
        sdk_0_2: Offered::Always,
        cli_1_0: Offered::Always,
        loading: Loading::Always,
        bare: false,
        for_subagents: true,
        for_background_agents: true,
    };

    /// Returns in which sessions of a generation of clients the tool is offered.
    pub fn offered(&self, generation: ClientGeneration) -> Offered {
        match generation {
            ClientGeneration::Current => self.current,
            ClientGeneration::Sdk02 => self.sdk_0_2,
            ClientGeneration::Cli10 => self.cli_1_0,
        }
    }
}

/// Which list of its own work the model keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WorkList {
    /// None, unless tools for tasks are chosen by name.
    #[default]
    TasksByName,
    /// Tasks, in files that agents share.
    Tasks,
    /// None, unless the tool for to-dos is chosen by name.
    TodosByName,
    /// To-dos, which one agent holds.
    Todos,
}

/// Whether the clock may start turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClockTurns {
    /// Cron jobs and wake-ups do.
    #[default]
    On,
    /// Nothing does (`CLAUDE_CODE_DISABLE_CRON`).
    Off,
}

/// What the tools of a session depend on.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionKind {
    /// The generation of the client.
    pub generation: ClientGeneration,
    /// Whether a host answers permission questions.
    pub has_host: bool,
    /// Whether turns may be started by the clock.
    pub clock: ClockTurns,
    /// The list that the model keeps.
    pub work_list: WorkList,
    /// Whether tools may be deferred.
    pub deferral: ToolDeferral,
}

/// Whether requests may leave deferred tools out until the model has searched for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolDeferral {
    /// Every tool is described: the server or the user does not want it otherwise.
    #[default]
    Off,
    /// Deferred tools are left out, for models that can do without.
    On,
}

/// The tools that the caller of a session wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// All that suit the session.
    #[default]
    Default,
    /// The same, and those of these names that sessions with Bash are without: the caller has allowed calls of them.
    DefaultAnd(Vec<String>),
    /// As few as possible.
    Bare,
    /// Those with these names; names without a tool are ignored.
    Only(Vec<String>),
}

/// The tool that runs commands, and the one that ends those which run in the background.
const COMMAND_TOOLS: [&str; 2] = ["Bash", "TaskStop"];

impl SessionKind {
    /// Returns the tools of a session, out of all there are: those that `choice` and the kind of session allow and
    /// `is_removed` does not name. A choice of names with Bash includes TaskStop. Current clients get them sorted by
    /// name, older ones in the order of `all`.
    pub fn tools(
        &self,
        all: Vec<Arc<dyn Tool>>,
        choice: &ToolChoice,
        is_removed: impl Fn(&str) -> bool,
    ) -> ToolSet {
        let has_bash = choice.names(COMMAND_TOOLS[0]) && !is_removed(COMMAND_TOOLS[0]);
        let tools = all.into_iter().filter(|tool| !is_removed(tool.name())).filter(|tool| {
            let declaration = tool.declaration();
            let offered = declaration.offered(self.generation);
            match choice {
                ToolChoice::Default => self.has(offered, has_bash),
                ToolChoice::DefaultAnd(names) => {
                    let is_allowed = offered == Offered::WithoutBash && is_among(names, tool.name());
                    is_allowed || self.has(offered, has_bash)
                }
                ToolChoice::Bare => declaration.bare,
                ToolChoice::Only(_) => {
                    let goes_with_bash = has_bash && current_name(tool.name()) == COMMAND_TOOLS[1];
                    (choice.names(tool.name()) || goes_with_bash) && self.can_have(offered)
                }
            }
        });
        let set = ToolSet::new(tools);
        // Earlier clients were given every built-in tool in full.
        match (self.generation, self.deferral) {
            (ClientGeneration::Current, ToolDeferral::On) => set.by_name().deferring(),
            (ClientGeneration::Current, ToolDeferral::Off) => set.by_name(),
            (ClientGeneration::Sdk02 | ClientGeneration::Cli10, _) => set,
        }
    }

    /// Returns whether the session has a tool when no tools are chosen by name. `has_bash` matters because the
    /// search tools stand in for a missing Bash.
    fn has(&self, offered: Offered, has_bash: bool) -> bool {
        match offered {
            Offered::Always => true,
            Offered::WithHost => self.has_host,
            Offered::WithBash => has_bash,
            Offered::WithoutBash => !has_bash,
            Offered::WithToolSearch => self.deferral == ToolDeferral::On,
            Offered::WithSchedule => self.clock == ClockTurns::On,
            Offered::WithTaskList => self.work_list == WorkList::Tasks,
            Offered::WithTodoList => self.work_list == WorkList::Todos,
            Offered::ByName | Offered::Never => false,
        }
    }

    /// Returns whether the session gets a tool that was chosen by name. Unlike [`Self::has`], what a session does not
    /// have by default may be chosen, except where the session cannot serve the tool.
    fn can_have(&self, offered: Offered) -> bool {
        match offered {
            Offered::WithHost => self.has_host,
            Offered::WithTaskList => matches!(self.work_list, WorkList::Tasks | WorkList::TasksByName),
            Offered::WithTodoList => matches!(self.work_list, WorkList::Todos | WorkList::TodosByName),
            Offered::WithToolSearch => self.deferral == ToolDeferral::On,
            Offered::WithSchedule => self.clock == ClockTurns::On,
            Offered::Never => false,
            Offered::Always | Offered::WithBash | Offered::WithoutBash | Offered::ByName => true,
        }
    }
}

impl ToolChoice {
    /// Returns whether the choice includes the tool with this name or former name; true for a choice without names.
    fn names(&self, tool: &str) -> bool {
        match self {
            Self::Default | Self::DefaultAnd(_) | Self::Bare => true,
            Self::Only(names) => is_among(names, tool),
        }
    }
}

/// Returns whether one of the names, or former names, is that of the tool.
fn is_among(names: &[String], tool: &str) -> bool {
    names.iter().any(|name| current_name(name) == current_name(tool))
}

#[cfg(test)]
mod tests;
