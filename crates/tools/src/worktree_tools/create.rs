//! Makes a worktree, or takes up one that is there.
//!
//! While git fills it, a worktree is locked with a reason of ours, and the lock is taken off as the last step. So a
//! worktree whose making was cut short, by `kill -9` for instance, is known: the next one with its name clears it away
//! and begins again. A branch is never thrown away here: one that an earlier worktree left is checked out as it is.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use lathe_protocol::settings::{WorktreeBase, WorktreeSettings};
use tokio_util::sync::CancellationToken;

use super::facts::{ListedWorktree, Repository};
use super::git::{GitRunner, LOOK, WRITE};
use super::name::WorktreeName;
use super::place::{LockedPlace, is_own_folder, words};
use super::refusal::WorktreeRefusal;

/// Why a worktree is locked that is not finished.
const UNFINISHED: &str = "lathe is making this worktree";

/// What git itself writes there.
const UNFINISHED_BY_GIT: &str = "initializing";

/// The time that removing an unfinished worktree may take.
pub(super) const CLEAR: Duration = Duration::from_secs(60);

/// The branches that `fresh` begins with: the default branch of `origin` as it was last fetched.
const DEFAULT_BRANCHES: [&str; 3] =
    ["refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/remotes/origin/master"];

/// A worktree, and what is needed to remove it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Its root.
    pub path: PathBuf,
    /// The folder in it that stands for the one that the agent came from.
    pub folder: PathBuf,
    /// Its branch; none for one that a hook made, or whose head is detached.
    pub branch: Option<String>,
    /// Where it comes from.
    pub origin: WorktreeOrigin,
    /// The root of the checkout that it was made from.
    pub(super) top: PathBuf,
    /// The commit that it began with.
    pub(super) base: Option<String>,
    /// Links that were made in it, relative to its root.
    pub(super) links: Vec<PathBuf>,
}

/// Where a worktree comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorktreeOrigin {
    /// It was made for this agent.
    Created,
    /// It was there before.
    Found,
    /// A hook made it, perhaps without git.
    ByHook,
}

impl Worktree {
    /// Returns the description of a worktree at `path` that a hook made for an agent in `folder`. Nothing is checked,
    /// because it need not be a repository.
    pub fn by_hook(path: PathBuf, folder: &Path) -> Self {
        Self {
            folder: path.clone(),
            path,
            branch: None,
            origin: WorktreeOrigin::ByHook,
            top: folder.to_owned(),
            base: None,
            links: Vec::new(),
        }
    }
}

/// Creates the worktree with this name for an agent that works in `folder`, or returns the one that an earlier session
/// made, to which the settings are not applied; bad settings are refused in both cases. Of two calls at once the second
/// finds the worktree of the first, because the place is locked meanwhile.
pub async fn create(
    git: &GitRunner,
    folder: &Path,
    name: &WorktreeName,
    settings: &WorktreeSettings,
    cancel: &CancellationToken,
) -> Result<Worktree, WorktreeRefusal> {
    let checked = CheckedSettings::of(settings)?;
    let repository = Repository::open(git, folder, cancel).await?;
    let place = LockedPlace::take(&repository.top, cancel).await?;
    let path = place.path.join(name.folder());
    if let Some(found) = take_up(&repository, &path, &name.branch(), folder, cancel).await? {
        return Ok(found);
    }
    let base = base(&repository, settings.base_ref.unwrap_or_default(), cancel).await?;
    let making =
        Making { repository: &repository, path: &path, branch: name.branch(), base, settings: &checked };
    making.make(folder, cancel).await
}

/// Returns the worktree at `path` of the repository around `folder`. A path that is no finished worktree of this
/// repository, or its main checkout, is an error.
pub async fn find(
    git: &GitRunner,
    folder: &Path,
    path: &Path,
    cancel: &CancellationToken,
) -> Result<Worktree, WorktreeRefusal> {
    let none = || WorktreeRefusal::NotAWorktree { path: path.to_owned() };
    let repository = Repository::open(git, folder, cancel).await?;
    let path = path.canonicalize().map_err(|_| none())?;
    let all = repository.worktrees(cancel).await?;
    let is_meant = |listed: &&ListedWorktree| listed.path.canonicalize().is_ok_and(|listed| listed == path);
    let listed = all.iter().find(is_meant).filter(|listed| !is_unfinished(listed)).ok_or_else(none)?;
    if path == repository.top || !belongs_to(&repository, &path, cancel).await? {
        return Err(none());
    }
    let branch = listed.branch.as_deref().and_then(|branch| branch.strip_prefix("refs/heads/"));
    Ok(found(&repository, path.clone(), branch.map(str::to_owned), folder))
}

/// Returns the description of a worktree that existed before this call; it has no links of ours and no base.
fn found(repository: &Repository, path: PathBuf, branch: Option<String>, folder: &Path) -> Worktree {
    Worktree {
        folder: counterpart(repository, &path, folder),
        path,
        branch,
        origin: WorktreeOrigin::Found,
        top: repository.top.clone(),
        base: None,
        links: Vec::new(),
    }
}

/// Returns the folder of a worktree that corresponds to `folder` in the checkout, such as its `crates/cli`; the root of
/// the worktree if it has no such folder.
fn counterpart(repository: &Repository, path: &Path, folder: &Path) -> PathBuf {
    let folder = folder.canonicalize().ok();
    let below = folder.as_deref().and_then(|folder| folder.strip_prefix(&repository.top).ok());
    let inside = below.and_then(|below| path.join(below).canonicalize().ok());
    inside.filter(|inside| inside.starts_with(path) && inside.is_dir()).unwrap_or_else(|| path.to_owned())
}

/// Returns whether git, asked in a folder, says that it is a worktree of this repository. The list of worktrees is not
/// enough: its author may have listed the user's home.
async fn belongs_to(
    repository: &Repository,
    path: &Path,
    cancel: &CancellationToken,
) -> Result<bool, WorktreeRefusal> {
    match Repository::open(&repository.git, path, cancel).await {
        Ok(own) => Ok(own.top == path && own.common == repository.common),
        Err(WorktreeRefusal::NotARepository { .. } | WorktreeRefusal::Elsewhere { .. }) => Ok(false),
        Err(other) => Err(other),
    }
}

/// Returns whether the making of a worktree was interrupted, which its lock shows: it has a reason that only
/// [`Making::fill`] and git itself give.
fn is_unfinished(listed: &ListedWorktree) -> bool {
    matches!(listed.locked.as_deref(), Some(UNFINISHED | UNFINISHED_BY_GIT))
}

/// Returns the worktree at a path if it is whole and on its branch. `None` if there is none: an unfinished one is
/// removed before, and one whose folder is gone is forgotten. Anything else at this path is an error.
async fn take_up(
    repository: &Repository,
    path: &Path,
    branch: &str,
    folder: &Path,
    cancel: &CancellationToken,
) -> Result<Option<Worktree>, WorktreeRefusal> {
    let all = repository.worktrees(cancel).await?;
    let listed = all.iter().find(|listed| listed.path == path);
    let is_there = path.symlink_metadata().is_ok();
    let occupied = || WorktreeRefusal::Occupied { path: path.to_owned(), branch: branch.to_owned() };
    match listed {
        Some(listed) if is_unfinished(listed) || !is_there => {
            clear(repository, path, cancel).await?;
            Ok(None)
        }
        Some(listed) => {
            let is_ours = listed.branch.as_deref().and_then(|full| full.strip_prefix("refs/heads/"))
                == Some(branch)
                && is_own_folder(path)
                && belongs_to(repository, path, cancel).await?;
            match is_ours {
                true => Ok(Some(found(repository, path.to_owned(), Some(branch.to_owned()), folder))),
                false => Err(occupied()),
            }
        }
        None if is_there => Err(occupied()),
        None => Ok(None),
    }
}

/// Removes what is left of an unfinished worktree: its folder, and what the repository knows of it. Its branch stays.
async fn clear(
    repository: &Repository,
    path: &Path,
    cancel: &CancellationToken,
) -> Result<(), WorktreeRefusal> {
    let git = &repository.git;
    let at = path.as_os_str();
    let two = |first, second| [&words(&[first, second, "--end-of-options"])[..], &[at]].concat();
    // Both fail where there is nothing to unlock or the folder is damaged; what counts is that nothing is left.
    let unlocked = git.ask(&repository.top, &two("worktree", "unlock"), LOOK, cancel).await;
    drop(unlocked);
    if is_own_folder(path) {
        let folder = path.to_owned();
        let removed = lathe_exec::spawn_blocking(move || fs::remove_dir_all(folder)).await;
        if let Ok(Err(error)) = removed {
            return Err(WorktreeRefusal::disk(format!("removing {}", path.display()), &error));
        }
    }
    git.run(&repository.top, &words(&["worktree", "prune", "--expire", "now"]), LOOK, cancel).await?;
    Ok(())
}

/// Returns the commit that a new worktree begins with: the first default branch that exists if it should be fresh,
/// otherwise HEAD. A repository without a commit is an error.
async fn base(
    repository: &Repository,
    wanted: WorktreeBase,
    cancel: &CancellationToken,
) -> Result<String, WorktreeRefusal> {
    let names: &[&str] = match wanted {
        WorktreeBase::Fresh => &DEFAULT_BRANCHES,
        WorktreeBase::Head => &[],
    };
    for name in names.iter().chain(&["HEAD"]) {
        if let Some(commit) = repository.commit(name, cancel).await? {
            return Ok(commit);
        }
    }
    Err(WorktreeRefusal::NoCommit)
}

/// What settings say about new worktrees, as far as it leads nowhere else.
struct CheckedSettings {
    links: Vec<PathBuf>,
    sparse: Vec<String>,
}

impl CheckedSettings {
    /// Checks the paths in the settings, and returns them. One that could lead out of the worktree is an error.
    fn of(settings: &WorktreeSettings) -> Result<Self, WorktreeRefusal> {
        let check = |setting: &'static str, paths: &Option<Vec<String>>| {
            let paths = paths.clone().unwrap_or_default();
            match paths.iter().find(|path| !is_inside(path)) {
                Some(bad) => Err(WorktreeRefusal::BadSetting { setting, path: bad.clone() }),
                None => Ok(paths),
            }
        };
        let links = check("symlinkDirectories", &settings.symlink_directories)?;
        let sparse = check("sparsePaths", &settings.sparse_paths)?;
        Ok(Self { links: links.into_iter().map(PathBuf::from).collect(), sparse })
    }
}

/// Returns whether a relative path from the settings cannot lead out of the folder it starts in, nor be taken for an
/// option of git.
fn is_inside(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    // `git sparse-checkout` keeps `--end-of-options` as a path, so a path must not look like an option.
    !path.is_empty()
        && !path.starts_with('-')
        && !path.contains(['\0', '\n'])
        && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// A worktree that is being made.
struct Making<'a> {
    repository: &'a Repository,
    path: &'a Path,
    branch: String,
    base: String,
    settings: &'a CheckedSettings,
}

impl Making<'_> {
    /// Creates the worktree; after a failure or an interrupt it removes what was made, for at most [`CLEAR`]. The error
    /// is that of the failed step, and what could not be removed is left to the next call with this name.
    async fn make(self, folder: &Path, cancel: &CancellationToken) -> Result<Worktree, WorktreeRefusal> {
        let is_new_branch = self.repository.commit(&self.branch_ref(), cancel).await?.is_none();
        let made = self.fill(is_new_branch, cancel).await;
        let links = match made {
            Ok(links) => links,
            Err(refusal) => {
                // With a token of its own: what was begun is cleared away also after an interrupt.
                let cancel = CancellationToken::new();
                let cleared = tokio::time::timeout(CLEAR, self.undo(is_new_branch, &cancel)).await;
                // The reason why it was not made says more than why it was not cleared away; the next try does that.
                drop(cleared);
                return Err(refusal);
            }
        };
        Ok(Worktree {
            folder: counterpart(self.repository, self.path, folder),
            path: self.path.to_owned(),
            branch: Some(self.branch),
            origin: WorktreeOrigin::Created,
            top: self.repository.top.clone(),
            base: Some(self.base),
            links,
        })
    }

    /// Returns the full name of the branch, with `refs/heads/`.
    fn branch_ref(&self) -> String {
        format!("refs/heads/{}", self.branch)
    }

    /// Runs the steps that create the worktree, and returns the links that were made. The worktree is locked until the
    /// last step, so that an interrupted one is known.
    async fn fill(
        &self,
        is_new_branch: bool,
        cancel: &CancellationToken,
    ) -> Result<Vec<PathBuf>, WorktreeRefusal> {
        let (git, top, at) = (&self.repository.git, &self.repository.top, self.path.as_os_str());
        let is_sparse = !self.settings.sparse.is_empty();
        let mut args = words(&["worktree", "add", "--quiet", "--lock", "--reason", UNFINISHED]);
        if is_sparse {
            args.extend(words(&["--no-checkout"]));
        }
        match is_new_branch {
            true => {
                args.extend(words(&["--no-track", "-b", &self.branch, "--end-of-options"]));
                args.extend([at, self.base.as_ref()]);
            }
            false => {
                args.extend(words(&["--end-of-options"]));
                args.extend([at, self.branch.as_ref()]);
            }
        }
        git.run(top, &args, WRITE, cancel).await?;
        if is_sparse {
            let mut args = words(&["sparse-checkout", "set", "--cone"]);
            args.extend(self.settings.sparse.iter().map(AsRef::<std::ffi::OsStr>::as_ref));
            git.run(self.path, &args, WRITE, cancel).await?;
            git.run(self.path, &words(&["checkout", "--quiet", "--force"]), WRITE, cancel).await?;
        }
        let links = self.link()?;
        let unlock = [&words(&["worktree", "unlock", "--end-of-options"])[..], &[at]].concat();
        git.run(top, &unlock, LOOK, cancel).await?;
        Ok(links)
    }

    /// Links the directories of the settings from the checkout into the worktree, and returns the links that were made.
    /// One that the checkout does not have, that the worktree has already, or whose parent is missing or leads out of
    /// the worktree is left out.
    fn link(&self) -> Result<Vec<PathBuf>, WorktreeRefusal> {
        let mut made = Vec::new();
        for link in &self.settings.links {
            let (from, to) = (self.repository.top.join(link), self.path.join(link));
            let parent = to.parent().and_then(|parent| parent.canonicalize().ok());
            // A tracked link in the place of the parent would lead out of the worktree.
            let is_inside = parent.is_some_and(|parent| parent.starts_with(self.path));
            if !from.is_dir() || to.symlink_metadata().is_ok() || !is_inside {
                continue;
            }
            symlink(&from, &to)
                .map_err(|error| WorktreeRefusal::disk(format!("linking {}", to.display()), &error))?;
            made.push(link.clone());
        }
        Ok(made)
    }

    /// Removes what was begun. The branch is deleted only if it was new.
    async fn undo(&self, is_new_branch: bool, cancel: &CancellationToken) -> Result<(), WorktreeRefusal> {
        clear(self.repository, self.path, cancel).await?;
        if is_new_branch {
            let args = words(&["branch", "-D", "--quiet", "--end-of-options", &self.branch]);
            // There is none if git refused before it made one.
            self.repository.git.ask(&self.repository.top, &args, LOOK, cancel).await?;
        }
        Ok(())
    }
}
