//! Why a worktree was not created, entered, left or removed, in words for the model.

use std::path::PathBuf;

use crate::ToolFailure;

/// A worktree that is not what was asked for. Each text names what to do about it where something can be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorktreeRefusal {
    /// The name is none.
    #[error(
        "{name:?} cannot be the name of a worktree: parts of letters, digits, dots, underscores and dashes, \
         separated by /, 64 characters in all, and no part begins with a dot or a dash"
    )]
    BadName {
        /// The name.
        name: String,
    },
    /// Both `name` and `path`.
    #[error("Give name, for a new worktree, or path, for one that exists: not both")]
    NameAndPath,
    /// The agent is in one.
    #[error("Already working in the worktree at {}: leave it with ExitWorktree first", path.display())]
    AlreadyInside {
        /// The worktree.
        path: PathBuf,
    },
    /// The agent is in none.
    #[error(
        "There is no worktree to leave: ExitWorktree is about the one that EnterWorktree entered in this session, \
         and leaves all others alone. Nothing was changed"
    )]
    NotInside,
    /// In plan mode nothing changes.
    #[error("Plan mode is on, in which nothing is created or removed: worktrees come after the plan")]
    PlanMode,
    /// Work would be lost.
    #[error("Not removed: {what}. Remove it with discard_changes: true only if the user agrees to lose this")]
    Changed {
        /// The work.
        what: String,
    },
    /// It was there before.
    #[error(
        "The worktree at {} was there before this session entered it, so it is not removed from here: leave it with \
         action \"keep\"",
        path.display()
    )]
    NotOurs {
        /// The worktree.
        path: PathBuf,
    },
    /// The folder is not in a repository, or git does not accept it as one.
    #[error("{} is not in a git repository with a work tree, and no WorktreeCreate hook makes one: {why}", folder.display())]
    NotARepository {
        /// The folder.
        folder: PathBuf,
        /// What git says.
        why: String,
    },
    /// The repository claims to be somewhere else.
    #[error("The repository says that its work tree is {}, which does not contain {}", top.display(), folder.display())]
    Elsewhere {
        /// Where git says that the work tree is.
        top: PathBuf,
        /// The folder that the session works in.
        folder: PathBuf,
    },
    /// No commit to begin with.
    #[error(
        "There is no commit that a worktree could begin with: the branch has none yet. Commit something first"
    )]
    NoCommit,
    /// A repository without trust that may run programs.
    #[error(
        "The git configuration of this folder, which is not trusted, sets {key:?}, and it is not known that this \
         runs no program: no worktree is made of it. A session that trusts the folder (--trust-workspace) makes one"
    )]
    Configured {
        /// The key.
        key: String,
    },
    /// A folder on the way is a link.
    #[error("{} is not a folder of its own, so nothing is created behind it", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// Something else is there.
    #[error("{} exists and is not a worktree on the branch {branch}: choose another name, or enter it by its path", path.display())]
    Occupied {
        /// The path.
        path: PathBuf,
        /// The branch that it would be on.
        branch: String,
    },
    /// Not a worktree of this repository.
    #[error("{} is not a worktree of this repository (`git worktree list` shows those there are)", path.display())]
    NotAWorktree {
        /// The path.
        path: PathBuf,
    },
    /// Not where the session may work.
    #[error(
        "{} is outside of the folders that this session works in: the user can add it to them (--add-dir)",
        path.display()
    )]
    OutsideFolders {
        /// The path.
        path: PathBuf,
    },
    /// A setting that leads out of the repository.
    #[error("the setting worktree.{setting} names {path:?}, which is not a path inside the repository")]
    BadSetting {
        /// The setting.
        setting: &'static str,
        /// The value.
        path: String,
    },
    /// Another process does not let go.
    #[error(
        "Another process has been creating or removing a worktree of this repository for {seconds} s: try again"
    )]
    Busy {
        /// How long it was waited for.
        seconds: u64,
    },
    /// A git command failed.
    #[error("git {command} failed: {why}")]
    Git {
        /// The command, without options.
        command: String,
        /// What it says.
        why: String,
    },
    /// The disk.
    #[error("{what} failed: {why}")]
    Disk {
        /// What was tried.
        what: String,
        /// The error.
        why: String,
    },
    /// A hook said no, failed, or gave no usable path.
    #[error("{0}")]
    Hook(String),
    /// The call was cancelled.
    #[error("interrupted")]
    Interrupted,
}

impl WorktreeRefusal {
    /// Returns the failure of the call. What is refused before anything was tried counts as a mistake of the call.
    pub fn failure(&self) -> ToolFailure {
        match self {
            Self::BadName { .. }
            | Self::NameAndPath
            | Self::AlreadyInside { .. }
            | Self::NotInside
            | Self::PlanMode
            | Self::Changed { .. }
            | Self::NotOurs { .. } => ToolFailure::Rejected(self.to_string()),
            Self::NotARepository { .. }
            | Self::Elsewhere { .. }
            | Self::NoCommit
            | Self::Configured { .. }
            | Self::NotAFolder { .. }
            | Self::Occupied { .. }
            | Self::NotAWorktree { .. }
            | Self::OutsideFolders { .. }
            | Self::BadSetting { .. }
            | Self::Busy { .. }
            | Self::Git { .. }
            | Self::Disk { .. }
            | Self::Hook(_) => ToolFailure::Failed(self.to_string()),
            Self::Interrupted => ToolFailure::Interrupted,
        }
    }

    /// Returns the refusal for an error of the disk; `what` says in words what was tried.
    pub(crate) fn disk(what: impl Into<String>, error: &std::io::Error) -> Self {
        Self::Disk { what: what.into(), why: error.to_string() }
    }
}
