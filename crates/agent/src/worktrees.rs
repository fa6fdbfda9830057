//! Worktrees as agents use them: which folder an agent works in, what follows when it moves, and the hooks that make and
//! remove worktrees in place of git. How git does it is in `lathe_tools::worktree_tools`.
//!
//! An agent in a worktree has it as its own folder: its shell goes back there, the folder it came from stops being a
//! working directory, and every rule counts in the worktree as it does in the project. Settings, hooks and the files of
//! the session stay those of the project. The surprising thing: at the end of a session the worktree stays, even if
//! nothing was changed in it, because a run without a terminal cannot ask the user.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use lathe_protocol::hooks::{HookEventInput, WorktreeCreateInput, WorktreeRemoveInput};
use lathe_protocol::{HookEvent, PermissionMode};
use lathe_tools::worktree_tools::actions::{
    EnteredWorktree, LeftWorktree, LostWork, WorktreeActions, WorktreeLeave, WorktreeTarget,
};
use lathe_tools::worktree_tools::create::{self, Worktree, WorktreeOrigin};
use lathe_tools::worktree_tools::git::GitRunner;
use lathe_tools::worktree_tools::name::WorktreeName;
use lathe_tools::worktree_tools::refusal::WorktreeRefusal;
use tokio_util::sync::CancellationToken;

use crate::state::agent::{AgentHandle, OccupiedWorktree};

impl WorktreeActions for AgentHandle {
    fn enter_worktree(
        self: Arc<Self>,
        target: WorktreeTarget,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<EnteredWorktree, WorktreeRefusal>> {
        Box::pin(async move {
            if let Some(inside) = &self.view().worktree {
                return Err(WorktreeRefusal::AlreadyInside { path: inside.tree.path.clone() });
            }
            self.may_change()?;
            let tree = match target {
                WorktreeTarget::Named(name) => self.make_worktree(&name, &cancel).await?,
                WorktreeTarget::Unnamed => self.make_worktree(&self.made_up_name()?, &cancel).await?,
                WorktreeTarget::Existing(path) => self.find_worktree(&path, &cancel).await?,
            };
            let entered =
                EnteredWorktree { path: tree.path.clone(), branch: tree.branch.clone(), origin: tree.origin };
            self.move_into(tree);
            Ok(entered)
        })
    }

    fn leave_worktree(
        self: Arc<Self>,
        how: WorktreeLeave,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<LeftWorktree, WorktreeRefusal>> {
        Box::pin(async move {
            let inside = self.view().worktree.clone().ok_or(WorktreeRefusal::NotInside)?;
            let lost = match how {
                WorktreeLeave::Keep => None,
                WorktreeLeave::RemoveUnchanged | WorktreeLeave::Discard => {
                    self.may_change()?;
                    Some(self.remove_worktree(&inside.tree, how, &cancel).await?)
                }
            };
            Ok(self.move_out(&inside, lost))
        })
    }
}

/// Worktrees for this agent itself, and for an agent that it starts.
impl AgentHandle {
    /// Makes a worktree for work in the folder of this agent, with the WorktreeCreate hooks if there are any, otherwise
    /// with git. Does not enter it.
    pub(crate) async fn make_worktree(
        self: &Arc<Self>,
        name: &WorktreeName,
        cancel: &CancellationToken,
    ) -> Result<Worktree, WorktreeRefusal> {
        let folder = self.workspace.home();
        if self.session.listens(&HookEvent::WorktreeCreate) {
            let path = self.path_by_hook(name, cancel).await?;
            return Ok(Worktree::by_hook(path, &folder));
        }
        let policy = self.session.settings.worktrees();
        create::create(&self.git(), &folder, name, &policy.settings, cancel).await
    }

    /// Removes a worktree: runs the WorktreeRemove hooks if there are any, and then git, unless a hook made the
    /// worktree. Refuses one that was only found, and one that a hook made if no hook removes it; without the wish to
    /// discard also one with work in it, or that a hook made. These refusals and that of a hook leave the worktree as
    /// it is; git may still fail after the hooks have run.
    pub(crate) async fn remove_worktree(
        self: &Arc<Self>,
        tree: &Worktree,
        how: WorktreeLeave,
        cancel: &CancellationToken,
    ) -> Result<LostWork, WorktreeRefusal> {
        let git = self.git();
        let removes = self.session.listens(&HookEvent::WorktreeRemove);
        let may_lose = how == WorktreeLeave::Discard;
        match tree.origin {
            WorktreeOrigin::Found => return Err(WorktreeRefusal::NotOurs { path: tree.path.clone() }),
            WorktreeOrigin::ByHook if !removes => {
                return Err(WorktreeRefusal::Hook(format!(
                    "A hook made the worktree {}, and no WorktreeRemove hook is set up that could remove it: leave \
                     it with action \"keep\"",
                    tree.path.display()
                )));
            }
            WorktreeOrigin::ByHook if !may_lose => {
                let what = "a hook made it, so it is not known what work is in it".to_owned();
                return Err(WorktreeRefusal::Changed { what });
            }
            WorktreeOrigin::ByHook | WorktreeOrigin::Created => {}
        }
        if !may_lose {
            let changes = tree.changes(&git, cancel).await?;
            if !changes.is_none() {
                return Err(WorktreeRefusal::Changed { what: changes.in_words() });
            }
        }
        if removes {
            self.tell_removal(&tree.path, cancel).await?;
        }
        tree.remove(&git, cancel).await
    }

    /// Returns a runner of git commands with the environment and the limits of this agent, restricted if the repository
    /// is not trusted.
    fn git(&self) -> GitRunner {
        GitRunner::new(&self.workspace, self.session.settings.worktrees().trust)
    }

    /// Runs the WorktreeCreate hooks and returns the real path of the folder that they name. A refusal of a hook, and a
    /// path that is missing, relative or not a folder, are errors.
    async fn path_by_hook(
        self: &Arc<Self>,
        name: &WorktreeName,
        cancel: &CancellationToken,
    ) -> Result<PathBuf, WorktreeRefusal> {
        let input = WorktreeCreateInput { name: name.as_str().to_owned(), ..WorktreeCreateInput::default() };
        let outcome = self.fire(HookEventInput::WorktreeCreate(input), None, cancel).await;
        if cancel.is_cancelled() {
            return Err(WorktreeRefusal::Interrupted);
        }
        if let Some(block) = outcome.block() {
            let why = format!("A WorktreeCreate hook failed, so no worktree was made: {}", block.reason);
            return Err(WorktreeRefusal::Hook(why));
        }
        let named = outcome.worktree_path.filter(|path| !path.is_empty()).ok_or_else(|| {
            let why =
                "The WorktreeCreate hook named no worktree: its last line of output is the absolute path";
            WorktreeRefusal::Hook(why.to_owned())
        })?;
        let path = Path::new(&named).canonicalize().ok().filter(|path| path.is_dir());
        path.filter(|_| Path::new(&named).is_absolute()).ok_or_else(|| {
            let why = format!(
                "The WorktreeCreate hook named {named:?}, which is not the absolute path of a folder"
            );
            WorktreeRefusal::Hook(why)
        })
    }

    /// Runs the WorktreeRemove hooks before the worktree at `path` is removed. A refusal or failure of a hook is an
    /// error, and then the worktree must stay.
    async fn tell_removal(
        self: &Arc<Self>,
        path: &Path,
        cancel: &CancellationToken,
    ) -> Result<(), WorktreeRefusal> {
        let worktree_path = path.display().to_string();
        let input = WorktreeRemoveInput { worktree_path, ..WorktreeRemoveInput::default() };
        let outcome = self.fire(HookEventInput::WorktreeRemove(input), None, cancel).await;
        if cancel.is_cancelled() {
            return Err(WorktreeRefusal::Interrupted);
        }
        match outcome.block() {
            None => Ok(()),
            Some(block) => Err(WorktreeRefusal::Hook(format!(
                "A WorktreeRemove hook failed, so the worktree stays: {}",
                block.reason
            ))),
        }
    }

    /// Returns the worktree at a path. It has to lie in a working directory of the agent, otherwise the result is an
    /// error: entering it makes it a working directory without a permission question.
    async fn find_worktree(
        self: &Arc<Self>,
        path: &Path,
        cancel: &CancellationToken,
    ) -> Result<Worktree, WorktreeRefusal> {
        let path = self.workspace.resolve(&path.to_string_lossy());
        let tree = create::find(&self.git(), &self.workspace.home(), &path, cancel).await?;
        let view = self.view();
        let mut real = view.scope.working_dirs().filter_map(|dir| dir.canonicalize().ok());
        match real.any(|dir| tree.path.starts_with(dir)) {
            true => Ok(tree),
            false => Err(WorktreeRefusal::OutsideFolders { path: tree.path }),
        }
    }

    /// Makes a name that no other session uses: `wt-` and a part of a fresh id.
    fn made_up_name(&self) -> Result<WorktreeName, WorktreeRefusal> {
        let id = self.session.process.host.uuid();
        WorktreeName::parse(&format!("wt-{}", id.split('-').next().unwrap_or(&id)))
    }

    /// Returns an error in plan mode, in which nothing is changed, not even on disk; every other mode allows it.
    fn may_change(&self) -> Result<(), WorktreeRefusal> {
        match self.view().scope.mode() {
            PermissionMode::Plan => Err(WorktreeRefusal::PlanMode),
            PermissionMode::Default
            | PermissionMode::AcceptEdits
            | PermissionMode::BypassPermissions
            | PermissionMode::Auto
            | PermissionMode::DontAsk => Ok(()),
        }
    }

    /// Makes a worktree the folder of this agent, and remembers the one that it leaves. Rules count there before the
    /// agent works there. The agent must not be in a worktree already.
    fn move_into(&self, tree: Worktree) {
        // Before the agent works there: a rule that forbids counts from the first moment on.
        self.session.permissions().add_root(&tree.folder);
        self.change(|view| {
            let left = view.scope.working_dirs().next().map(Path::to_owned);
            let place = Arc::make_mut(&mut view.place);
            let occupied = OccupiedWorktree {
                original_cwd: place.cwd.clone(),
                original_home: place.home.clone(),
                original_root: left.unwrap_or_else(|| self.workspace.root.clone()),
                tree,
            };
            place.cwd.clone_from(&occupied.tree.folder);
            place.home = Some(occupied.tree.folder.clone());
            view.scope.move_root(&occupied.tree.folder);
            view.worktree = Some(Arc::new(occupied));
        });
    }

    /// Makes the folder from before the worktree `inside` that of this agent again, or the project if that folder is
    /// gone. Returns the report for the tool, with `lost` as the work that was discarded.
    fn move_out(&self, inside: &OccupiedWorktree, lost: Option<LostWork>) -> LeftWorktree {
        let home = inside.original_home.clone().unwrap_or_else(|| self.workspace.root.clone());
        let restored_cwd = if inside.original_cwd.is_dir() { inside.original_cwd.clone() } else { home };
        self.change(|view| {
            let place = Arc::make_mut(&mut view.place);
            place.cwd.clone_from(&restored_cwd);
            place.home.clone_from(&inside.original_home);
            view.scope.move_root(&inside.original_root);
            view.worktree = None;
        });
        self.session.permissions().remove_root(&inside.tree.folder);
        LeftWorktree {
            path: inside.tree.path.clone(),
            branch: inside.tree.branch.clone(),
            original_cwd: inside.original_cwd.clone(),
            restored_cwd,
            lost,
        }
    }

    /// Writes to the log where the worktree is that this agent leaves behind at its end; does nothing if it is in none.
    pub(crate) fn tell_worktree_left(&self) {
        if let Some(inside) = &self.view().worktree {
            let path = inside.tree.path.display();
            let branch = inside.tree.branch.as_ref().map(|branch| format!(" on the branch {branch}"));
            let line = format!("the worktree {path}{} is kept", branch.unwrap_or_default());
            self.session.process.host.log(&line);
        }
    }
}
