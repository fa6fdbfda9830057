//! What work there is in a worktree that would be lost with it, and its removal.

use tokio_util::sync::CancellationToken;

use super::actions::LostWork;
use super::create::{Worktree, WorktreeOrigin};
use super::facts::Repository;
use super::git::{GitRunner, LOOK, RepositoryTrust, WRITE};
use super::place::{LockedPlace, words};
use super::refusal::WorktreeRefusal;

/// How much of the work is named.
const NAMED: usize = 10;

/// The work in a worktree that is nowhere else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorktreeChanges {
    /// Files with changes that are in no commit.
    pub files: u64,
    /// Commits that are on no other branch.
    pub commits: u64,
    /// Some of both, in words.
    named: Vec<String>,
}

impl WorktreeChanges {
    /// Returns whether nothing would be lost.
    pub fn is_none(&self) -> bool {
        self.files == 0 && self.commits == 0
    }

    /// Returns how much would be lost, and some of it by name. Only for changes of which there are some.
    pub fn in_words(&self) -> String {
        let count = |count: u64, one: &str, many: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            more => Some(format!("{more} {many}")),
        };
        let parts = [
            count(
                self.files,
                "file with changes that are not committed",
                "files with changes that are not committed",
            ),
            count(self.commits, "commit that is on no other branch", "commits that are on no other branch"),
        ];
        let counts = parts.into_iter().flatten().collect::<Vec<_>>().join(" and ");
        format!("{counts} ({})", self.named.join("; "))
    }
}

impl Worktree {
    /// Returns the work that would be lost with this worktree. A worktree that a hook made is not looked at, because it
    /// need not be a repository; it counts as unchanged.
    pub async fn changes(
        &self,
        git: &GitRunner,
        cancel: &CancellationToken,
    ) -> Result<WorktreeChanges, WorktreeRefusal> {
        if self.origin == WorktreeOrigin::ByHook {
            return Ok(WorktreeChanges::default());
        }
        let repository = Repository::open(git, &self.top, cancel).await?;
        let mut changes = WorktreeChanges::default();
        if self.path.is_dir() {
            self.files(&repository, &mut changes, cancel).await?;
        }
        self.commits(&repository, &mut changes, cancel).await?;
        Ok(changes)
    }

    /// Counts changed, new and deleted files of the worktree into `changes`; a new folder counts once, and our links do
    /// not count. Submodules of an untrusted repository count as one change, because they are not looked into.
    async fn files(
        &self,
        repository: &Repository,
        changes: &mut WorktreeChanges,
        cancel: &CancellationToken,
    ) -> Result<(), WorktreeRefusal> {
        let trust = repository.git.trust();
        let mut args = words(&["status", "--porcelain", "-z", "--no-renames"]);
        match trust {
            RepositoryTrust::Trusted => {}
            // A status of submodules runs git in each of them, with a configuration that was not looked at.
            RepositoryTrust::Untrusted => args.extend(words(&["--ignore-submodules=all"])),
        }
        let answer = repository.git.run(&self.path, &args, WRITE, cancel).await?;
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        let paths = text.split_terminator('\0').filter_map(|entry| entry.get(3..));
        let is_link = |path: &str| self.links.iter().any(|link| link.as_os_str() == path);
        for path in paths.filter(|path| !is_link(path)) {
            changes.add_file(path);
        }
        if trust == RepositoryTrust::Untrusted && self.has_submodules(repository, cancel).await? {
            changes.add_file("submodules, which are not looked into");
        }
        Ok(())
    }

    /// Returns whether submodules were checked out in this worktree: their repositories are in the worktree's own
    /// folder in the repository.
    async fn has_submodules(
        &self,
        repository: &Repository,
        cancel: &CancellationToken,
    ) -> Result<bool, WorktreeRefusal> {
        let args = words(&["rev-parse", "--path-format=absolute", "--git-dir"]);
        let answer = repository.git.run(&self.path, &args, LOOK, cancel).await?;
        Ok(std::path::Path::new(&answer.line()).join("modules").exists())
    }

    /// Counts the commits of this worktree into `changes` that are on no other branch, and were not there when it was
    /// made.
    async fn commits(
        &self,
        repository: &Repository,
        changes: &mut WorktreeChanges,
        cancel: &CancellationToken,
    ) -> Result<(), WorktreeRefusal> {
        let branch = self.branch.as_deref().map(|branch| format!("refs/heads/{branch}"));
        let mut tips = Vec::new();
        // HEAD of a worktree is read in its folder. If that is gone, git would answer with HEAD of the checkout.
        if self.path.is_dir() {
            let args = words(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
            let head = repository.git.ask(&self.path, &args, LOOK, cancel).await?;
            tips.extend((head.code == 0).then(|| head.line()));
        }
        if let Some(branch) = &branch {
            tips.extend(repository.commit(branch, cancel).await?);
        }
        if tips.is_empty() {
            return Ok(());
        }
        let exclude = format!("--exclude={}", self.branch.as_deref().unwrap_or_default());
        let mut args = words(&["log", "--format=%h %s", "--no-show-signature", "--no-color"]);
        args.extend(tips.iter().map(AsRef::<std::ffi::OsStr>::as_ref));
        args.extend(words(&["--not"]));
        args.extend(self.base.as_ref().map(AsRef::<std::ffi::OsStr>::as_ref));
        args.extend(words(&[&exclude, "--branches", "--remotes", "--tags", "--"]));
        let answer = repository.git.run(&repository.top, &args, LOOK, cancel).await?;
        for commit in String::from_utf8_lossy(&answer.stdout).lines() {
            changes.commits += 1;
            changes.name(commit);
        }
        Ok(())
    }

    /// Removes the worktree with everything in it, and its branch if git does not refuse; returns what was lost. A
    /// worktree that a hook made stays, because the hook removes it. Whether work may be lost must be decided before.
    pub async fn remove(
        &self,
        git: &GitRunner,
        cancel: &CancellationToken,
    ) -> Result<LostWork, WorktreeRefusal> {
        let changes = self.changes(git, cancel).await?;
        let mut lost = LostWork { files: changes.files, commits: changes.commits, branch_stays: false };
        if self.origin == WorktreeOrigin::ByHook {
            return Ok(lost);
        }
        let repository = Repository::open(git, &self.top, cancel).await?;
        let _place = LockedPlace::take(&repository.top, cancel).await?;
        // Twice forced, because the user may have locked it meanwhile.
        let mut args = words(&["worktree", "remove", "--force", "--force", "--end-of-options"]);
        args.push(self.path.as_os_str());
        repository.git.run(&repository.top, &args, WRITE, cancel).await?;
        if let Some(branch) = &self.branch {
            let args = words(&["branch", "-D", "--quiet", "--end-of-options", branch]);
            let deleted = repository.git.ask(&repository.top, &args, LOOK, cancel).await?;
            lost.branch_stays = deleted.code != 0;
        }
        Ok(lost)
    }
}

impl WorktreeChanges {
    /// Counts a changed file, and names it if there is room.
    fn add_file(&mut self, path: &str) {
        self.files += 1;
        self.name(path);
    }

    /// Adds the name of some work; after [`NAMED`] names a single `…` says that there is more.
    fn name(&mut self, what: &str) {
        match self.named.len() {
            count if count < NAMED => self.named.push(what.chars().take(200).collect()),
            NAMED => self.named.push("…".to_owned()),
            _ => {}
        }
    }
}
