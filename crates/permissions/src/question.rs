//! The input of the engine: a call that was described once, and the circumstances at the moment of the decision.
//!
//! The two parts have different lifetimes. A [`DescribedCall`] follows from the input alone and stays valid as long as
//! the input does, so its shell text is parsed once. Mode, directories and the current folder can change between two
//! calls of one response, and so can the disk: they come with each [`PermissionQuestion`], and nothing decided from
//! them is kept.

use std::path::Path;
use std::sync::Arc;

use lathe_protocol::{CallSubject, PermissionMode};
use serde_json::Value;

use crate::bash::{self, ShownFile};
use crate::engine::PermissionEngine;
use crate::scope::PermissionScope;
use crate::shell::parse::ParseError;
use crate::shell::walk::{Analysis, analyse};

/// One tool call to decide, at one moment.
#[derive(Debug, Clone, Copy)]
pub struct PermissionQuestion<'a> {
    /// The tool's name, as rules use it.
    pub tool: &'a str,
    /// The input, for rules about single fields of it.
    pub input: &'a Value,
    /// The description of the call.
    pub call: &'a DescribedCall,
    /// The directory that relative paths of the call start from: the current directory of the shell.
    pub cwd: &'a Path,
    /// The mode and the directories of the agent that calls.
    pub scope: &'a PermissionScope,
}

/// The subject of a call, with the parse of its shell text if it has one. Cheap to clone.
#[derive(Debug, Clone)]
pub struct DescribedCall {
    subject: CallSubject,
    shell: Option<Arc<ParsedShell>>,
}

/// A parsed shell command.
#[derive(Debug)]
pub(crate) struct ParsedShell {
    pub command: String,
    pub analysis: Result<Analysis, ParseError>,
    reads_only: bool,
}

impl PermissionEngine {
    /// Describes a call, and parses its command if it is a shell call; a command that cannot be parsed is kept with its
    /// error. Done once for each input, because the description does not depend on mode, directories or disk.
    pub fn describe(&self, subject: CallSubject) -> DescribedCall {
        let shell = match &subject {
            CallSubject::Shell { command } => Some(Arc::new(self.parse(command))),
            CallSubject::File { .. }
            | CallSubject::Host { .. }
            | CallSubject::WebSearch { .. }
            | CallSubject::McpTool { .. }
            | CallSubject::Agent { .. }
            | CallSubject::Skill { .. }
            | CallSubject::Question(_)
            | CallSubject::StructuredOutput
            | CallSubject::Session(_)
            | CallSubject::Unknown => None,
        };
        DescribedCall { subject, shell }
    }

    /// Analyses the text of a shell command and notes whether it only reads, judged by the text alone. A text that
    /// cannot be parsed does not count as reading, and its error is kept.
    fn parse(&self, command: &str) -> ParsedShell {
        let analysis = analyse(command, &self.known());
        let reads_only =
            analysis.as_ref().is_ok_and(|analysis| bash::reads_only(command, analysis, &self.known()));
        ParsedShell { command: command.to_owned(), analysis, reads_only }
    }
}

impl DescribedCall {
    /// Returns the description of a call whose tool cannot say what it would do.
    pub fn unknown() -> Self {
        Self { subject: CallSubject::Unknown, shell: None }
    }

    /// Returns the subject of the call.
    pub fn subject(&self) -> &CallSubject {
        &self.subject
    }

    /// Returns whether this is a shell command whose text says that it only reads; `false` for every other call. This
    /// is not a permission: where it reads, and what the configuration of a repository makes git run, is checked when
    /// the call is decided.
    pub fn is_reading_command(&self) -> bool {
        self.shell.as_ref().is_some_and(|shell| shell.reads_only)
    }

    /// Returns the existing file that a shell command prints when it runs in `cwd`; the model has then read that file.
    /// `None` if the command does anything else or cannot be parsed, and for other calls.
    pub fn shown_file(&self, cwd: &Path) -> Option<ShownFile> {
        let analysis = self.shell.as_ref()?.analysis.as_ref().ok()?;
        bash::shown_file(analysis, cwd)
    }

    /// Returns the parsed command of a shell call; `None` for every other subject.
    pub(crate) fn shell(&self) -> Option<&ParsedShell> {
        self.shell.as_deref()
    }

    /// Returns the MCP server of the called tool; `None` for a tool of another kind.
    pub(crate) fn mcp_server(&self) -> Option<&str> {
        match &self.subject {
            CallSubject::McpTool { server, .. } => Some(server),
            CallSubject::Shell { .. }
            | CallSubject::File { .. }
            | CallSubject::Host { .. }
            | CallSubject::WebSearch { .. }
            | CallSubject::Agent { .. }
            | CallSubject::Skill { .. }
            | CallSubject::Question(_)
            | CallSubject::StructuredOutput
            | CallSubject::Session(_)
            | CallSubject::Unknown => None,
        }
    }
}

impl PermissionQuestion<'_> {
    /// Returns the permission mode of the agent that calls.
    pub(crate) fn mode(&self) -> PermissionMode {
        self.scope.mode()
    }

    /// Returns the MCP server of the called tool; `None` for a tool of another kind.
    pub(crate) fn mcp_server(&self) -> Option<&str> {
        self.call.mcp_server()
    }
}
