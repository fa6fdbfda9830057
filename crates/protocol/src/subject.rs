//! The subject of a tool call: the one description that rules, scheduling, checkpoints and memory files use.
//!
//! A tool derives it from the input of a call alone, so it holds names as they were written: where a path leads, which
//! host an address reaches and whether a rule covers it is determined later, when a decision is made. The surprising
//! thing: it has no `Default`. A tool that does not know the subject of a call returns [`CallSubject::Unknown`], and
//! such a call is asked about in every mode that asks at all.

/// The subject of one tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallSubject {
    /// A command line for a shell.
    Shell { command: String },
    /// One file or folder. A relative path starts in the current directory of the shell; an empty one is that
    /// directory.
    File { path: String, access: FileAccess },
    /// An address on the web that is fetched.
    Host { url: String },
    /// Words for a search engine. Lathe itself contacts no host that could be named.
    WebSearch { query: String },
    /// A tool of an MCP server.
    McpTool { server: String, tool: String, access: McpAccess },
    /// An agent to start.
    Agent { agent_type: String },
    /// A skill to load.
    Skill { name: String },
    /// A question that only the user can answer.
    Question(UserQuestion),
    /// The final result of the turn in the shape that the user asked for. Nothing outside the session is touched.
    StructuredOutput,
    /// Nothing outside the session.
    Session(SessionAccess),
    /// The tool cannot tell.
    Unknown,
}

/// What is done with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileAccess {
    /// Its content is read.
    Read,
    /// It is changed, or created if it does not exist.
    Write,
    /// The files below it are listed or read. `name_pattern` is a pattern of their paths, whose leading folders may
    /// lead elsewhere.
    Search { name_pattern: Option<String> },
}

/// Whether a tool of an MCP server changes anything, as far as the server says. A hint, never a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpAccess {
    /// The server says that it only reads.
    ReadOnly,
    /// It may change something.
    MayChange,
}

/// What the user is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserQuestion {
    /// A choice that has not been made yet.
    Open,
    /// A choice that has been made: the input holds it.
    Answered,
    /// The approval of a plan, after which the session works in another mode.
    PlanApproval,
}

/// What a call does to its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionAccess {
    /// It reads something.
    Reads,
    /// It changes something.
    Changes,
}

impl CallSubject {
    /// Returns the subject of a call that reads the file at `path`; unknown without a path.
    pub fn read(path: Option<&str>) -> Self {
        Self::file(path, FileAccess::Read)
    }

    /// Returns the subject of a call that writes the file at `path`; unknown without a path.
    pub fn write(path: Option<&str>) -> Self {
        Self::file(path, FileAccess::Write)
    }

    /// Returns the subject of a call that accesses the file at `path`. Without a path it is unknown, never a file with
    /// an empty path.
    fn file(path: Option<&str>, access: FileAccess) -> Self {
        path.map_or(Self::Unknown, |path| Self::File { path: path.to_owned(), access })
    }

    /// Returns the subject for a tool of an MCP server by the name that the model uses, `mcp__server__tool`; the tool
    /// counts as one that may change something. `None` for other names, and for names that could be split in several
    /// ways.
    pub fn of_mcp_name(name: &str) -> Option<Self> {
        let (server, tool) = name.strip_prefix("mcp__")?.split_once("__")?;
        let plain = !server.is_empty() && !tool.is_empty() && !tool.contains("__");
        plain.then(|| Self::McpTool {
            server: server.to_owned(),
            tool: tool.to_owned(),
            access: McpAccess::MayChange,
        })
    }

    /// Returns the one file that a call reads or changes, as it was written; `None` for calls about anything else.
    pub fn touched_file(&self) -> Option<&str> {
        match self {
            Self::File { path, access: FileAccess::Read | FileAccess::Write } => Some(path),
            Self::File { access: FileAccess::Search { .. }, .. }
            | Self::Shell { .. }
            | Self::Host { .. }
            | Self::WebSearch { .. }
            | Self::McpTool { .. }
            | Self::Agent { .. }
            | Self::Skill { .. }
            | Self::Question(_)
            | Self::StructuredOutput
            | Self::Session(_)
            | Self::Unknown => None,
        }
    }

    /// Returns the one file that a call changes, as it was written; `None` for calls whose changes are not known
    /// beforehand, such as commands.
    pub fn changed_file(&self) -> Option<&str> {
        match self {
            Self::File { path, access: FileAccess::Write } => Some(path),
            Self::File { access: FileAccess::Read | FileAccess::Search { .. }, .. }
            | Self::Shell { .. }
            | Self::Host { .. }
            | Self::WebSearch { .. }
            | Self::McpTool { .. }
            | Self::Agent { .. }
            | Self::Skill { .. }
            | Self::Question(_)
            | Self::StructuredOutput
            | Self::Session(_)
            | Self::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_path_is_unknown() {
        assert_eq!(CallSubject::read(None), CallSubject::Unknown);
        let read = CallSubject::read(Some("a"));
        assert_eq!((read.touched_file(), read.changed_file()), (Some("a"), None));
        let written = CallSubject::write(Some("b"));
        assert_eq!((written.touched_file(), written.changed_file()), (Some("b"), Some("b")));
        let search =
            CallSubject::File { path: "c".to_owned(), access: FileAccess::Search { name_pattern: None } };
        assert_eq!((search.touched_file(), search.changed_file()), (None, None));
    }

    #[test]
    fn mcp_names_come_apart_in_one_way_or_not_at_all() {
        let known = CallSubject::of_mcp_name("mcp__git__log");
        let expected = CallSubject::McpTool {
            server: "git".to_owned(),
            tool: "log".to_owned(),
            access: McpAccess::MayChange,
        };
        assert_eq!(known, Some(expected));
        for name in ["mcp__git", "mcp____log", "mcp__a__b__c", "Read", "mcp__git__"] {
            assert_eq!(CallSubject::of_mcp_name(name), None, "{name}");
        }
    }
}
