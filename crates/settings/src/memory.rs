//! Memory: the files in which people tell the agent about themselves and their projects.
//!
//! [`load`] collects them in the order in which they are told: the machine's, the user's, then every folder from
//! the root down to the working directory, each with its rules and imports. [`Memory::nested_for`] adds what
//! becomes due when a file further down is read. Every file is told once. What is done with the text is the
//! caller's business.
//!
//! Surprising: a project's file may not lead out of the project, neither by a link nor by an import, unless
//! somebody agreed. Otherwise a repository could have the user's own files sent to a model.

mod collect;
mod markdown;
mod scope;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lathe_protocol::hooks::InstructionsLoadedInput;

use crate::problem::SettingsProblem;
use crate::source::Sources;

pub use collect::Memory;
use scope::PathRule;

/// Longer files are cut at a line, with a note and a warning.
pub const MAX_FILE_BYTES: u64 = 256 << 10;
/// All files of a session together; further ones are left out with a warning.
pub const MAX_TOTAL_BYTES: usize = 1 << 20;
/// The number of files of a session.
pub const MAX_FILES: usize = 256;
/// How many files lie between a file and what it imports through others.
pub const MAX_IMPORT_HOPS: usize = 4;
/// What is told of the index of automatic memory.
pub const MAX_AUTO_LINES: usize = 200;
/// The same in bytes.
pub const MAX_AUTO_BYTES: u64 = 25 << 10;

/// Who wrote a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// The administrator of the machine.
    Managed,
    /// The user, for every project.
    User,
    /// The project.
    Project,
    /// The user, for this project.
    Local,
    /// The agent, in earlier sessions.
    Auto,
}

impl MemoryKind {
    /// `memory_type` of an `InstructionsLoaded` hook; automatic memory is not announced.
    pub fn hook_name(self) -> Option<&'static str> {
        match self {
            Self::Managed => Some("Managed"),
            Self::User => Some("User"),
            Self::Project => Some("Project"),
            Self::Local => Some("Local"),
            Self::Auto => None,
        }
    }

    fn scope(self) -> &'static str {
        match self {
            Self::Managed => "instructions of the organisation, for everybody on this machine",
            Self::User => "the user's own instructions, for all projects",
            Self::Project => "instructions of the project, kept in its repository",
            Self::Local => "the user's own instructions for this project, not in its repository",
            Self::Auto => "notes from earlier sessions in this project",
        }
    }
}

/// Why a file was loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum LoadReason {
    /// The session begins.
    #[default]
    SessionStart,
    /// A file in its folder was read.
    NestedTraversal,
    /// A path that it names was read.
    PathGlobMatch,
    /// Another file imports it.
    Include,
    /// The conversation was compacted.
    Compact,
}

impl LoadReason {
    /// `load_reason` of an `InstructionsLoaded` hook.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionStart => "session_start",
            Self::NestedTraversal => "nested_traversal",
            Self::PathGlobMatch => "path_glob_match",
            Self::Include => "include",
            Self::Compact => "compact",
        }
    }
}

/// One file, as it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryFile {
    /// Where it lies, as it was found.
    pub path: PathBuf,
    /// Who wrote it.
    pub kind: MemoryKind,
    /// Without frontmatter, block comments and hidden characters.
    pub content: String,
    /// Why it was loaded.
    pub reason: LoadReason,
    /// The patterns of a rule that waited for a path.
    pub globs: Vec<String>,
    /// The file whose reading made it due.
    pub trigger: Option<PathBuf>,
    /// The file that imports it.
    pub parent: Option<PathBuf>,
    /// It is longer than [`MAX_FILE_BYTES`], and the end is missing.
    pub is_cut: bool,
}

impl MemoryFile {
    /// The file with the line that introduces it. Clients look for this line.
    pub fn text(&self) -> String {
        let cut = if self.is_cut { "\n\n[The rest of this file is left out: it is too long.]" } else { "" };
        let (path, scope) = (self.path.display(), self.kind.scope());
        format!("Contents of {path} ({scope}):\n\n{}{cut}", self.content.trim())
    }

    /// What an `InstructionsLoaded` hook is told about it.
    pub fn hook_input(&self) -> Option<InstructionsLoadedInput> {
        let text = |path: &PathBuf| path.display().to_string();
        Some(InstructionsLoadedInput {
            file_path: text(&self.path),
            memory_type: self.kind.hook_name()?.to_owned(),
            load_reason: self.reason.as_str().to_owned(),
            globs: (!self.globs.is_empty()).then(|| self.globs.clone()),
            trigger_file_path: self.trigger.as_ref().map(text),
            parent_file_path: self.parent.as_ref().map(text),
            ..InstructionsLoadedInput::default()
        })
    }
}

/// Whether a project's files may lead outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum OutsideFiles {
    /// They are left out, with a warning.
    #[default]
    LeftOut,
    /// The user agreed.
    Approved,
    /// Whether the user agreed is written in this global state file; it is read when it matters.
    LookUp(PathBuf),
}

/// Whether a file may be read at all: deny rules hold for memory too.
#[derive(Clone)]
pub struct ReadCheck(pub Arc<dyn Fn(&Path) -> bool + Send + Sync>);

impl Default for ReadCheck {
    fn default() -> Self {
        Self(Arc::new(|_| true))
    }
}

impl fmt::Debug for ReadCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadCheck")
    }
}

/// Everything that loading memory needs to know about the world.
#[derive(Debug, Clone, Default)]
pub struct MemoryRequest {
    /// The working directory, absolute.
    pub cwd: PathBuf,
    /// The user's home, for `~/`.
    pub home: Option<PathBuf>,
    /// The user's configuration folder.
    pub config_dir: Option<PathBuf>,
    /// The folder of managed files.
    pub managed_dir: Option<PathBuf>,
    /// `claudeMd` of managed settings.
    pub managed_text: Option<String>,
    /// `--setting-sources`.
    pub sources: Sources,
    /// `claudeMdExcludes`.
    pub excludes: Vec<String>,
    /// Whether a project's files may lead outside.
    pub outside: OutsideFiles,
    /// The folder of automatic memory, if it is on.
    pub auto_dir: Option<PathBuf>,
    /// The session's beginning, or a compaction.
    pub reason: LoadReason,
    /// Deny rules, as they are at the moment of loading. Each later look at the disk brings its own.
    pub may_read: ReadCheck,
}

/// How far a file, its links and its imports may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Written by somebody who may read everything here anyway.
    Anywhere,
    /// This real folder.
    Below(PathBuf),
}

/// Collects the memory of a session.
pub fn load(request: MemoryRequest) -> Memory {
    Memory::load(request)
}

impl Memory {
    /// The text for the beginning of a conversation; `None` if there is nothing to tell.
    pub fn text(&self) -> Option<String> {
        let files = self.at_start();
        let intro = "Before you start: these are the standing instructions for this work. Where they say how \
                     something is to be done here, do it that way, even if you would do it differently. The \
                     closer a file is to what you are working on, the more its word counts. Ignore what has \
                     nothing to do with the task.";
        (!files.is_empty()).then(|| format!("{intro}\n\n{}", texts(files)))
    }

    /// What is wrong: files that could not be told, or not as a whole.
    pub fn problems(&self) -> &[SettingsProblem] {
        &self.problems
    }
}

/// Several files, one after the other.
pub fn texts(files: &[MemoryFile]) -> String {
    files.iter().map(MemoryFile::text).collect::<Vec<_>>().join("\n\n")
}
