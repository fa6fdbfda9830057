//! Memory: the files in which people give the agent instructions about themselves and their projects.
//!
//! [`load`] collects them in the order in which the model reads them: the machine's, the user's, then those of every
//! folder from the root down to the working directory, each with its rules and imports. [`Memory::nested_for`] adds the
//! files that apply once a file further down is read. Each file is loaded once. What is done with the text is up to the
//! caller.
//!
//! Surprising: a project's file may not lead out of the project, neither by a link nor by an import, unless the user
//! agreed. Otherwise a repository could have the user's own files sent to a model.

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

/// The size above which a file is cut at a line end, with a note for the model and a warning.
pub const MAX_FILE_BYTES: u64 = 256 << 10;
/// The size of all files of a session together; further files are left out with a warning.
pub const MAX_TOTAL_BYTES: usize = 1 << 20;
/// The number of files of a session; further files are left out with a warning.
pub const MAX_FILES: usize = 256;
/// The length of the longest chain of imports that is followed.
pub const MAX_IMPORT_HOPS: usize = 4;
/// The number of lines that are loaded from the index of automatic memory.
pub const MAX_AUTO_LINES: usize = 200;
/// The number of bytes that are loaded from the index of automatic memory.
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
    /// Returns the `memory_type` of an `InstructionsLoaded` hook; `None` for automatic memory, which fires no hook.
    pub fn hook_name(self) -> Option<&'static str> {
        match self {
            Self::Managed => Some("Managed"),
            Self::User => Some("User"),
            Self::Project => Some("Project"),
            Self::Local => Some("Local"),
            Self::Auto => None,
        }
    }

    /// Returns the words that tell the model whose instructions a file holds.
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
    /// A file that its `paths` cover was read.
    PathGlobMatch,
    /// Another file imports it.
    Include,
    /// The conversation was compacted.
    Compact,
}

impl LoadReason {
    /// Returns the `load_reason` of an `InstructionsLoaded` hook.
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

/// One file, as the model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryFile {
    /// The path under which it was found, links not resolved.
    pub path: PathBuf,
    /// Who wrote it.
    pub kind: MemoryKind,
    /// The text without frontmatter of a rule, block comments and hidden characters.
    pub content: String,
    /// Why it was loaded.
    pub reason: LoadReason,
    /// The `paths` of a rule that was loaded because a file matched them.
    pub globs: Vec<String>,
    /// The file that was read and thereby caused this one to be loaded.
    pub trigger: Option<PathBuf>,
    /// The file that imports it.
    pub parent: Option<PathBuf>,
    /// Whether the end is missing because the file is longer than [`MAX_FILE_BYTES`].
    pub is_cut: bool,
}

impl MemoryFile {
    /// Returns the content after a line that introduces the file, and a note if its end is missing. Clients look for
    /// the first line.
    pub fn text(&self) -> String {
        let cut = if self.is_cut { "\n\n[The rest of this file is left out: it is too long.]" } else { "" };
        let (path, scope) = (self.path.display(), self.kind.scope());
        format!("Contents of {path} ({scope}):\n\n{}{cut}", self.content.trim())
    }

    /// Returns the input of an `InstructionsLoaded` hook; `None` for automatic memory, which fires no hook.
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
    /// This global state file records whether the user agreed. It is read at the first file that lies outside.
    LookUp(PathBuf),
}

/// Decides whether a file may be read at all: deny rules apply to memory files too.
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

/// Everything that loading memory depends on.
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
    /// The start of the session, or a compaction.
    pub reason: LoadReason,
    /// The deny rules at the moment of loading. [`Memory::nested_for`] and [`Memory::read_again`] take their own.
    pub may_read: ReadCheck,
}

/// How far a file, its links and its imports may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Limit {
    /// No limit: the author is the user, the administrator or the agent, who can read everything here anyway.
    Anywhere,
    /// Only below this folder, links resolved.
    Below(PathBuf),
}

/// Reads the memory files of a session that apply from the start. Never fails: what cannot be used is left out, with a
/// warning.
pub fn load(request: MemoryRequest) -> Memory {
    Memory::load(request)
}

impl Memory {
    /// Returns the text for the beginning of a conversation; `None` if no file was loaded at the start. Files that were
    /// loaded later are not in it.
    pub fn text(&self) -> Option<String> {
        let files = self.at_start();
        let intro = "Before you start: these are the standing instructions for this work. Where they say how \
                     something is to be done here, do it that way, even if you would do it differently. The \
                     closer a file is to what you are working on, the more its word counts. Ignore what has \
                     nothing to do with the task.";
        (!files.is_empty()).then(|| format!("{intro}\n\n{}", texts(files)))
    }

    /// Returns the warnings about files that were left out, cut or cleaned.
    pub fn problems(&self) -> &[SettingsProblem] {
        &self.problems
    }
}

/// Returns the texts of several files, one after the other, each with the line that introduces it.
pub fn texts(files: &[MemoryFile]) -> String {
    files.iter().map(MemoryFile::text).collect::<Vec<_>>().join("\n\n")
}
