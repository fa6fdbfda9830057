//! Worktrees of real repositories, friendly and hostile, on `create.rs` and `remove.rs` alone.

#![allow(clippy::disallowed_methods, reason = "a test finds git through the environment")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lathe_exec::{Ledger, RunLimits, Spec};
use lathe_protocol::settings::{WorktreeBase, WorktreeSettings};
use tokio_util::sync::CancellationToken;

use super::create::{Worktree, WorktreeOrigin, create, find};
use super::git::{GitRunner, RepositoryTrust};
use super::name::WorktreeName;
use super::refusal::WorktreeRefusal;
use crate::{ChildEnvironment, ChildVariables, Workspace};

/// A repository with a commit, in a home of its own.
struct Repo {
    _dir: tempfile::TempDir,
    home: PathBuf,
    top: PathBuf,
    ledger: Ledger,
}

impl Repo {
    async fn new() -> Self {
        let repo = Self::empty().await;
        repo.write("kept.txt", "one\n");
        repo.write("sub/inner.txt", "two\n");
        repo.git(&["add", "."]).await;
        repo.git(&["commit", "-qm", "first"]).await;
        repo
    }

    async fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let top = home.join("project");
        fs::create_dir(&top).unwrap();
        let repo = Self { _dir: dir, home, top, ledger: Ledger::default() };
        repo.git(&["init", "-q", "-b", "main"]).await;
        repo
    }

    fn variables(&self) -> Vec<(String, String)> {
        let path = std::env::var("PATH").unwrap();
        let who = ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"];
        let mut all: Vec<_> =
            who.iter().map(|name| ((*name).to_owned(), "t@example.org".to_owned())).collect();
        all.extend([("PATH".to_owned(), path), ("HOME".to_owned(), self.home.display().to_string())]);
        all
    }

    async fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.top, args).await
    }

    async fn git_in(&self, folder: &Path, args: &[&str]) -> String {
        let mut spec = Spec::new("git", folder);
        spec.args = args.iter().map(Into::into).collect();
        spec.env = self.variables();
        let finished = self.ledger.run(spec, RunLimits::default(), &CancellationToken::new()).await.unwrap();
        assert_eq!(finished.exit, lathe_exec::Exit::Code(0), "{args:?}: {}", finished.stderr.to_text());
        finished.stdout.to_text().trim().to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.top.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A program that leaves a mark when it runs.
    fn canary(&self, name: &str) -> String {
        let program = self.home.join(name);
        fs::write(&program, format!("#!/bin/sh\necho {name} >> {}\ncat\n", self.mark().display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program.display().to_string()
    }

    fn mark(&self) -> PathBuf {
        self.home.join("mark")
    }

    fn ran(&self) -> String {
        fs::read_to_string(self.mark()).unwrap_or_default()
    }

    fn runner(&self, trust: RepositoryTrust) -> GitRunner {
        let mut workspace = Workspace::new(self.top.clone(), self.ledger.clone());
        workspace.env = Arc::new(ChildEnvironment::new(ChildVariables::unrestricted(self.variables())));
        GitRunner::new(&workspace, trust)
    }

    async fn make(&self, name: &str, settings: &WorktreeSettings) -> Result<Worktree, WorktreeRefusal> {
        self.make_as(RepositoryTrust::Untrusted, name, settings).await
    }

    async fn make_as(
        &self,
        trust: RepositoryTrust,
        name: &str,
        settings: &WorktreeSettings,
    ) -> Result<Worktree, WorktreeRefusal> {
        let name = WorktreeName::parse(name).unwrap();
        create(&self.runner(trust), &self.top, &name, settings, &CancellationToken::new()).await
    }

    async fn remove(&self, tree: &Worktree) -> super::actions::LostWork {
        tree.remove(&self.runner(RepositoryTrust::Untrusted), &CancellationToken::new()).await.unwrap()
    }

    async fn changes(&self, tree: &Worktree) -> super::remove::WorktreeChanges {
        tree.changes(&self.runner(RepositoryTrust::Untrusted), &CancellationToken::new()).await.unwrap()
    }

    async fn branches(&self) -> String {
        self.git(&["branch", "--format=%(refname:short)"]).await
    }
}

fn plain() -> WorktreeSettings {
    WorktreeSettings::default()
}

#[tokio::test]
async fn a_worktree_is_made_and_removed_with_its_branch() {
    let repo = Repo::new().await;
    let tree = repo.make("wt1", &plain()).await.unwrap();
    assert_eq!(tree.path, repo.top.join(".claude/worktrees/wt1"));
    assert_eq!((tree.branch.as_deref(), tree.origin), (Some("worktree-wt1"), WorktreeOrigin::Created));
    assert_eq!(fs::read_to_string(tree.path.join("sub/inner.txt")).unwrap(), "two\n");
    assert_eq!(repo.git(&["status", "--porcelain"]).await, "", "the checkout does not list its worktrees");
    assert!(repo.changes(&tree).await.is_none());
    assert!(!repo.remove(&tree).await.branch_stays);
    assert!(!tree.path.exists());
    assert_eq!(repo.branches().await, "main");
}

#[tokio::test]
async fn work_that_would_be_lost_is_counted_and_named() {
    let repo = Repo::new().await;
    let tree = repo.make("wt1", &plain()).await.unwrap();
    fs::write(tree.path.join("kept.txt"), "changed\n").unwrap();
    fs::write(tree.path.join("new.txt"), "new\n").unwrap();
    repo.git_in(&tree.path, &["commit", "-qam", "mine"]).await;
    let changes = repo.changes(&tree).await;
    assert_eq!((changes.files, changes.commits), (1, 1));
    let words = changes.in_words();
    assert!(words.contains("new.txt") && words.contains("mine"), "{words}");
    // What is on another branch is not lost.
    repo.git(&["branch", "copy", "worktree-wt1"]).await;
    assert_eq!(repo.changes(&tree).await.commits, 0);
    assert_eq!(repo.remove(&tree).await.files, 1);
    assert_eq!(repo.branches().await, "copy\nmain");
}

#[tokio::test]
async fn a_worktree_from_before_is_taken_up_with_its_work() {
    let repo = Repo::new().await;
    let made = repo.make("wt1", &plain()).await.unwrap();
    fs::write(made.path.join("new.txt"), "new\n").unwrap();
    let again = repo.make("wt1", &plain()).await.unwrap();
    assert_eq!((again.origin, &again.path), (WorktreeOrigin::Found, &made.path));
    assert!(again.path.join("new.txt").exists());
    let (git, cancel) = (repo.runner(RepositoryTrust::Untrusted), CancellationToken::new());
    let by_path = find(&git, &repo.top, &made.path, &cancel).await.unwrap();
    assert_eq!((by_path.origin, by_path.branch.as_deref()), (WorktreeOrigin::Found, Some("worktree-wt1")));
    for other in [repo.top.as_path(), &repo.home, Path::new("/nowhere")] {
        let refused = find(&git, &repo.top, other, &cancel).await.unwrap_err();
        assert!(matches!(refused, WorktreeRefusal::NotAWorktree { .. }), "{refused}");
    }
}

#[tokio::test]
async fn a_branch_that_was_left_is_checked_out_as_it_is() {
    let repo = Repo::new().await;
    let tree = repo.make("wt1", &plain()).await.unwrap();
    fs::write(tree.path.join("new.txt"), "new\n").unwrap();
    repo.git_in(&tree.path, &["add", "."]).await;
    repo.git_in(&tree.path, &["commit", "-qm", "mine"]).await;
    fs::remove_dir_all(&tree.path).unwrap();
    let again = repo.make("wt1", &plain()).await.unwrap();
    assert!(again.path.join("new.txt").exists());
}

#[tokio::test]
async fn two_at_once_make_one() {
    let repo = Repo::new().await;
    let settings = plain();
    let (one, two) = tokio::join!(repo.make("wt1", &settings), repo.make("wt1", &settings));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.path, two.path);
    assert_ne!(one.origin, two.origin);
    assert_eq!(repo.branches().await, "main\nworktree-wt1");
}

#[tokio::test]
async fn a_worktree_that_was_cut_short_is_made_anew() {
    let repo = Repo::new().await;
    for (name, reason) in [("ours", "lathe is making this worktree"), ("gits", "initializing")] {
        let path = format!(".claude/worktrees/{name}");
        let branch = format!("worktree-{name}");
        repo.git(&[
            "worktree",
            "add",
            "-q",
            "--no-checkout",
            "--lock",
            "--reason",
            reason,
            "-b",
            &branch,
            &path,
        ])
        .await;
        // As after a kill in the middle: not even the link to the repository is there.
        fs::remove_file(repo.top.join(&path).join(".git")).unwrap();
        let tree = repo.make(name, &plain()).await.unwrap();
        assert_eq!(tree.origin, WorktreeOrigin::Created);
        assert!(tree.path.join("kept.txt").exists());
        assert!(!repo.git(&["worktree", "list", "--porcelain"]).await.contains("locked"));
    }
}

#[tokio::test]
async fn a_call_that_is_cancelled_leaves_nothing_behind() {
    let repo = Repo::new().await;
    let hooks = repo.top.join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    let (began, hook) = (repo.home.join("began"), hooks.join("post-checkout"));
    fs::write(&hook, format!("#!/bin/sh\n: > {}\nexec sleep 600\n", began.display())).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let (cancel, name) = (CancellationToken::new(), WorktreeName::parse("wt1").unwrap());
    let (git, settings) = (repo.runner(RepositoryTrust::Trusted), plain());
    let making = create(&git, &repo.top, &name, &settings, &cancel);
    let cancelled = async {
        while !began.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let (made, ()) = tokio::join!(making, cancelled);
    assert_eq!(made.unwrap_err(), WorktreeRefusal::Interrupted);
    assert_eq!(repo.branches().await, "main");
    assert!(!repo.top.join(".claude/worktrees/wt1").exists());
}

#[tokio::test]
async fn settings_say_where_it_begins_and_what_is_in_it() {
    let repo = Repo::new().await;
    let first = repo.git(&["rev-parse", "HEAD"]).await;
    repo.git(&["update-ref", "refs/remotes/origin/main", "HEAD"]).await;
    repo.write("later.txt", "later\n");
    repo.write("node_modules/x/index.js", "");
    repo.write(".gitignore", "node_modules/\n");
    repo.git(&["add", "."]).await;
    repo.git(&["commit", "-qm", "second"]).await;
    let fresh = repo.make("fresh", &plain()).await.unwrap();
    assert_eq!(repo.git_in(&fresh.path, &["rev-parse", "HEAD"]).await, first);
    let settings = WorktreeSettings {
        base_ref: Some(WorktreeBase::Head),
        symlink_directories: Some(vec!["node_modules".to_owned(), "missing".to_owned()]),
        sparse_paths: Some(vec!["sub".to_owned()]),
        ..plain()
    };
    let head = repo.make("head", &settings).await.unwrap();
    assert!(head.path.join("later.txt").exists() && head.path.join("sub/inner.txt").exists());
    assert!(head.path.join("node_modules/x/index.js").exists());
    assert!(repo.changes(&head).await.is_none(), "a link of ours does not count as a change");
    repo.remove(&head).await;
    assert!(repo.top.join("node_modules/x/index.js").exists(), "what a link leads to stays");
    for bad in ["../out", "/etc", "", "a/../b", "-x"] {
        let settings = WorktreeSettings { symlink_directories: Some(vec![bad.to_owned()]), ..plain() };
        let refused = repo.make("bad", &settings).await.unwrap_err();
        assert!(matches!(refused, WorktreeRefusal::BadSetting { .. }), "{bad}: {refused}");
    }
}

#[tokio::test]
async fn only_the_named_directories_are_checked_out() {
    let repo = Repo::new().await;
    repo.write("other/big.txt", "");
    repo.git(&["add", "."]).await;
    repo.git(&["commit", "-qm", "more"]).await;
    let settings = WorktreeSettings { sparse_paths: Some(vec!["sub".to_owned()]), ..plain() };
    let tree = repo.make("wt", &settings).await.unwrap();
    assert!(tree.path.join("sub/inner.txt").exists() && !tree.path.join("other").exists());
    assert!(repo.changes(&tree).await.is_none());
}

#[tokio::test]
async fn where_nothing_can_be_made_the_reason_is_told() {
    let empty = Repo::empty().await;
    assert_eq!(empty.make("a", &plain()).await.unwrap_err(), WorktreeRefusal::NoCommit);
    fs::remove_dir_all(empty.top.join(".git")).unwrap();
    let refused = empty.make("a", &plain()).await.unwrap_err();
    assert!(matches!(refused, WorktreeRefusal::NotARepository { .. }), "{refused}");
    let repo = Repo::new().await;
    repo.write(".claude/worktrees/taken/file", "");
    let refused = repo.make("taken", &plain()).await.unwrap_err();
    assert!(matches!(refused, WorktreeRefusal::Occupied { .. }), "{refused}");
    let linked = Repo::new().await;
    symlink(&linked.home, linked.top.join(".claude")).unwrap();
    let refused = linked.make("a", &plain()).await.unwrap_err();
    assert!(matches!(refused, WorktreeRefusal::NotAFolder { .. }), "{refused}");
    assert!(!linked.home.join("worktrees").exists());
}

/// What a repository can do to have its programs run.
async fn set_traps(repo: &Repo) {
    let hooks = repo.top.join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    for hook in ["post-checkout", "post-index-change", "reference-transaction", "pre-commit"] {
        symlink(repo.canary(hook), hooks.join(hook)).unwrap();
    }
    repo.write(".gitattributes", "* filter=evil\n*.txt filter=users diff=evil\n");
    repo.git(&["add", "."]).await;
    repo.git(&["commit", "-qm", "attributes", "--no-verify"]).await;
    for key in ["filter.evil.smudge", "filter.evil.clean", "filter.evil.process", "core.fsmonitor"] {
        let program = repo.canary(&key.replace('.', "-"));
        repo.git(&["config", key, &program]).await;
    }
    repo.git(&["config", "filter.evil.required", "true"]).await;
    let lent = repo.canary("lent-hooks");
    fs::create_dir_all(repo.home.join("lent")).unwrap();
    symlink(lent, repo.home.join("lent/post-checkout")).unwrap();
    repo.git(&["config", "core.hooksPath", &repo.home.join("lent").display().to_string()]).await;
    let users = repo.canary("users-filter");
    repo.git(&["config", "--global", "filter.users.smudge", &users]).await;
    let _ = fs::remove_file(repo.mark());
}

#[tokio::test]
async fn a_hostile_repository_runs_nothing() {
    let repo = Repo::new().await;
    set_traps(&repo).await;
    let tree = repo.make("wt", &plain()).await.unwrap();
    fs::write(tree.path.join("kept.txt"), "changed\n").unwrap();
    assert_eq!(repo.changes(&tree).await.files, 1);
    repo.remove(&tree).await;
    assert_eq!(repo.ran(), "");
    assert!(!tree.path.exists());
    // The same repository, trusted: so the traps are ones.
    repo.git(&["config", "--unset", "core.hooksPath"]).await;
    for key in ["filter.evil.process", "filter.evil.required", "core.fsmonitor"] {
        repo.git(&["config", "--unset", key]).await;
    }
    let tree = repo.make_as(RepositoryTrust::Trusted, "wt", &plain()).await.unwrap();
    let ran = repo.ran();
    assert!(ran.contains("post-checkout") && ran.contains("filter-evil-smudge"), "{ran}");
    drop(tree);
}

#[tokio::test]
async fn a_configuration_that_nobody_knows_is_refused_without_trust() {
    for (key, value) in [
        ("core.worktree", "/"),
        ("hook.x.command", "touch x"),
        ("remote.origin.promisor", "true"),
        ("include.path", "/dev/null"),
        ("core.somethingNew", "x"),
    ] {
        let repo = Repo::new().await;
        repo.git(&["config", key, value]).await;
        let refused = repo.make("wt", &plain()).await.unwrap_err();
        let is_named =
            matches!(&refused, WorktreeRefusal::Configured { key: named } if named.eq_ignore_ascii_case(key));
        let is_elsewhere = matches!(&refused, WorktreeRefusal::Elsewhere { .. });
        assert!(is_named || (key == "core.worktree" && is_elsewhere), "{key}: {refused}");
    }
}

#[tokio::test]
async fn a_list_of_worktrees_may_not_name_the_home() {
    let repo = Repo::new().await;
    let tree = repo.make("wt", &plain()).await.unwrap();
    // The repository claims that its worktree is the user's home.
    let claimed = repo.home.join("private");
    fs::create_dir(&claimed).unwrap();
    let link = repo.top.join(".git/worktrees/wt/gitdir");
    fs::write(link, format!("{}\n", claimed.join(".git").display())).unwrap();
    fs::write(claimed.join(".git"), "gitdir: elsewhere\n").unwrap();
    let (git, cancel) = (repo.runner(RepositoryTrust::Untrusted), CancellationToken::new());
    let refused = find(&git, &repo.top, &claimed, &cancel).await.unwrap_err();
    assert!(matches!(refused, WorktreeRefusal::NotAWorktree { .. }), "{refused}");
    drop(tree);
}

#[tokio::test]
async fn a_bare_layout_in_the_tree_is_no_repository() {
    let repo = Repo::new().await;
    let planted = repo.top.join("planted");
    repo.git(&["clone", "-q", "--bare", ".", "planted"]).await;
    // It claims to have a work tree, which is the folder around it.
    repo.git_in(&planted, &["config", "core.bare", "false"]).await;
    repo.git_in(&planted, &["config", "core.worktree", &repo.top.display().to_string()]).await;
    let (git, name) = (repo.runner(RepositoryTrust::Untrusted), WorktreeName::parse("wt").unwrap());
    let refused = create(&git, &planted, &name, &plain(), &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(refused, WorktreeRefusal::NotARepository { .. }), "{refused}");
}

#[tokio::test]
async fn a_subfolder_leads_to_its_counterpart() {
    let repo = Repo::new().await;
    let (git, name) = (repo.runner(RepositoryTrust::Untrusted), WorktreeName::parse("wt").unwrap());
    let tree = create(&git, &repo.top.join("sub"), &name, &plain(), &CancellationToken::new()).await.unwrap();
    assert_eq!(tree.path, repo.top.join(".claude/worktrees/wt"));
    assert_eq!(tree.folder, tree.path.join("sub"));
}
