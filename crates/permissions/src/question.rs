//! What the engine is asked: a call that was described once, and the circumstances of the moment.
//!
//! The two halves live differently. A [`DescribedCall`] follows from the input alone and stays true as long as the
//! input does, so the shell text in it is parsed once. Mode, directories and the current folder change between two
//! calls of one answer, and so does the disk: they come in with each [`PermissionQuestion`] and nothing that is
//! decided from them is kept.

use std::path::Path;
use std::sync::Arc;

use lathe_protocol::{CallSubject, PermissionMode};
use serde_json::Value;

use crate::bash::{self, ShownFile};
use crate::engine::PermissionEngine;
use crate::scope::PermissionScope;
use crate::shell::parse::ParseError;
use crate::shell::walk::{Analysis, analyse};

/// One tool call to decide about, at one moment.
#[derive(Debug, Clone, Copy)]
pub struct PermissionQuestion<'a> {
    /// The tool's name, which rules may name.
    pub tool: &'a str,
    /// Its input, for rules about single fields of it.
    pub input: &'a Value,
    /// What the call is about.
    pub call: &'a DescribedCall,
    /// Where relative paths of the call start: the directory the shell stands in.
    pub cwd: &'a Path,
    /// The mode and the directories of the agent that calls.
    pub scope: &'a PermissionScope,
}

/// What a call is about, with the parse of its shell text if it has one. Cheap to clone.
#[derive(Debug, Clone)]
pub struct DescribedCall {
    subject: CallSubject,
    shell: Option<Arc<ParsedShell>>,
}

/// A shell command, taken apart.
#[derive(Debug)]
pub(crate) struct ParsedShell {
    pub command: String,
    pub analysis: Result<Analysis, ParseError>,
    reads_only: bool,
}

impl PermissionEngine {
    /// Describes a call: parses the command of a shell call. To be done once for each input.
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
            | CallSubject::FinalAnswer
            | CallSubject::Session(_)
            | CallSubject::Unknown => None,
        };
        DescribedCall { subject, shell }
    }

    fn parse(&self, command: &str) -> ParsedShell {
        let analysis = analyse(command, &self.known());
        let reads_only =
            analysis.as_ref().is_ok_and(|analysis| bash::reads_only(command, analysis, &self.known()));
        ParsedShell { command: command.to_owned(), analysis, reads_only }
    }
}

impl DescribedCall {
    /// A call that nobody can describe.
    pub fn unknown() -> Self {
        Self { subject: CallSubject::Unknown, shell: None }
    }

    /// What it is about.
    pub fn subject(&self) -> &CallSubject {
        &self.subject
    }

    /// Whether it is a shell command whose text says that it only reads. Says nothing about permission: where it
    /// reads, and what a repository makes of a git command, is seen when it is decided on.
    pub fn is_reading_command(&self) -> bool {
        self.shell.as_ref().is_some_and(|shell| shell.reads_only)
    }

    /// The file that a shell command shows when it runs in `cwd`, if showing it is all it does: the model has
    /// read it then.
    pub fn shown_file(&self, cwd: &Path) -> Option<ShownFile> {
        let analysis = self.shell.as_ref()?.analysis.as_ref().ok()?;
        bash::shown_file(analysis, cwd)
    }

    pub(crate) fn shell(&self) -> Option<&ParsedShell> {
        self.shell.as_deref()
    }

    /// The MCP server whose tool is called.
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
            | CallSubject::FinalAnswer
            | CallSubject::Session(_)
            | CallSubject::Unknown => None,
        }
    }
}

impl PermissionQuestion<'_> {
    pub(crate) fn mode(&self) -> PermissionMode {
        self.scope.mode()
    }

    pub(crate) fn mcp_server(&self) -> Option<&str> {
        self.call.mcp_server()
    }
}
