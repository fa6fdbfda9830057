//! What the worktree tools do to the agent that calls them: it works in another folder from then on, and in the first
//! one again when it leaves.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::create::WorktreeOrigin;
use super::name::WorktreeName;
use super::refusal::WorktreeRefusal;
use crate::DetachedSession;

/// The worktree that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorktreeTarget {
    /// A new one with this name, or the one that an earlier session made under it.
    Named(WorktreeName),
    /// A new one, whatever its name is.
    Unnamed,
    /// The one at this path.
    Existing(PathBuf),
}

/// A worktree that an agent has entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnteredWorktree {
    /// Where it is.
    pub path: PathBuf,
    /// Its branch; none for one that a hook made, or whose head is detached.
    pub branch: Option<String>,
    /// Whether it is new.
    pub origin: WorktreeOrigin,
}

/// What becomes of a worktree that is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorktreeLeave {
    /// It stays.
    Keep,
    /// It is removed if no work is lost.
    RemoveUnchanged,
    /// It is removed with whatever is in it.
    Discard,
}

/// A worktree that an agent has left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftWorktree {
    /// Where it is, or was.
    pub path: PathBuf,
    /// Its branch.
    pub branch: Option<String>,
    /// The folder that the agent stood in before it entered.
    pub original_cwd: PathBuf,
    /// Where it stands now: that folder, or the project if the folder is gone.
    pub restored_cwd: PathBuf,
    /// The work that was lost with it; none if it stays.
    pub lost: Option<LostWork>,
}

/// How much was lost with a worktree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LostWork {
    /// Files with changes that were in no commit.
    pub files: u64,
    /// Commits that were on no other branch.
    pub commits: u64,
    /// Whether git kept the branch, for example because another worktree is on it.
    pub branch_stays: bool,
}

/// The folder of an agent, as the worktree tools change it.
pub trait WorktreeActions: Send + Sync {
    /// Creates a worktree or looks one up, and makes it the folder that the agent works in. After an error the agent
    /// works where it did before.
    fn enter_worktree(
        self: Arc<Self>,
        target: WorktreeTarget,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<EnteredWorktree, WorktreeRefusal>>;

    /// Goes back to the folder from before. After an error the agent still works in the worktree.
    fn leave_worktree(
        self: Arc<Self>,
        how: WorktreeLeave,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<LeftWorktree, WorktreeRefusal>>;
}

/// A tool that is called alone is in no worktree.
impl WorktreeActions for DetachedSession {
    fn enter_worktree(
        self: Arc<Self>,
        _: WorktreeTarget,
        _: CancellationToken,
    ) -> BoxFuture<'static, Result<EnteredWorktree, WorktreeRefusal>> {
        Box::pin(std::future::ready(Err(WorktreeRefusal::Hook("there is no session".to_owned()))))
    }

    fn leave_worktree(
        self: Arc<Self>,
        _: WorktreeLeave,
        _: CancellationToken,
    ) -> BoxFuture<'static, Result<LeftWorktree, WorktreeRefusal>> {
        Box::pin(std::future::ready(Err(WorktreeRefusal::NotInside)))
    }
}
