//! What git says about the repository around a folder, and whether that may be believed.
//!
//! The author of a folder also wrote its `.git`. So the work tree has to contain the folder, and without trust the
//! configuration has to consist of keys that are known to start nothing, or that `git.rs` overrides. Git is asked which
//! configuration it reads, so that this check and the commands after it see the same; a key that is not on the list is
//! taken for a dangerous one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::git::{GitRunner, LOOK, RepositoryTrust};
use super::place::words;
use super::refusal::WorktreeRefusal;

/// Sections of which no key makes a checkout, a status or a look at commits start a program. Keys for transports,
/// merges and diffs are harmless here because none of that happens, and no protocol may be spoken.
const HARMLESS: [&str; 43] = [
    "advice",
    "alias",
    "apply",
    "author",
    "blame",
    "branch",
    "color",
    "column",
    "commit",
    "committer",
    "credential",
    "diff",
    "difftool",
    "feature",
    "fetch",
    "filter",
    "format",
    "gc",
    "gitlab",
    "gpg",
    "gui",
    "help",
    "http",
    "i18n",
    "index",
    "init",
    "instaweb",
    "lfs",
    "log",
    "maintenance",
    "merge",
    "mergetool",
    "notes",
    "pack",
    "pull",
    "push",
    "rebase",
    "rerere",
    "status",
    "submodule",
    "tag",
    "url",
    "user",
];

/// Single keys of other sections.
const HARMLESS_KEYS: [(&str, &str); 3] = [
    (
        "core",
        "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol \
         safecrlf abbrev quotepath compression loosecompression commentchar commentstring longpaths protectntfs \
         protecthfs sharedrepository untrackedcache preloadindex fscache splitindex sparsecheckout sparsecheckoutcone \
         checkstat trustctime bigfilethreshold deltabasecachelimit packedgitlimit packedgitwindowsize editor sshcommand \
         pager excludesfile attributesfile whitespace multipackindex commitgraph hidedotfiles fsync fsyncmethod \
         fsyncobjectfiles warnambiguousrefs hookspath fsmonitor",
    ),
    ("extensions", "objectformat refstorage noop worktreeconfig relativeworktrees"),
    (
        "remote",
        "url fetch push pushurl tagopt prune prunetags mirror skipdefaultupdate skipfetchall followremotehead \
         gh-resolved",
    ),
];

/// A repository with a work tree, as it may be used.
pub(super) struct Repository {
    /// The root of the work tree, links resolved.
    pub top: PathBuf,
    /// The folder that its worktrees share, links resolved.
    pub common: PathBuf,
    /// Runs git in it.
    pub git: GitRunner,
}

impl Repository {
    /// Returns the repository around a folder, after it was checked. It is an error if there is none, if it claims a
    /// work tree elsewhere, or if its configuration might start programs and the folder is not trusted.
    pub async fn open(
        git: &GitRunner,
        folder: &Path,
        cancel: &CancellationToken,
    ) -> Result<Self, WorktreeRefusal> {
        let (top, common) = located(git, folder, cancel).await?;
        let is_inside = folder.canonicalize().is_ok_and(|folder| folder.starts_with(&top));
        // With `core.worktree` a repository may claim any folder. All further commands run in `top`, so git has to find
        // the same repository from there.
        let is_there = is_inside
            && located(git, &top, cancel).await.is_ok_and(|there| there == (top.clone(), common.clone()));
        if !is_there {
            return Err(WorktreeRefusal::Elsewhere { top, folder: folder.to_owned() });
        }
        let git = match git.trust() {
            RepositoryTrust::Trusted => git.clone(),
            RepositoryTrust::Untrusted => checked(git, &top, cancel).await?,
        };
        Ok(Self { top, common, git })
    }

    /// Returns the commit that a name stands for, or `None` if git does not know the name or it leads to no commit.
    pub async fn commit(
        &self,
        name: &str,
        cancel: &CancellationToken,
    ) -> Result<Option<String>, WorktreeRefusal> {
        let name = format!("{name}^{{commit}}");
        let args = words(&["rev-parse", "--verify", "--quiet", "--end-of-options", &name]);
        let answer = self.git.ask(&self.top, &args, LOOK, cancel).await?;
        Ok((answer.code == 0).then(|| answer.line()))
    }

    /// Returns the worktrees that the repository lists, unfinished and missing ones included.
    pub async fn worktrees(
        &self,
        cancel: &CancellationToken,
    ) -> Result<Vec<ListedWorktree>, WorktreeRefusal> {
        let args = words(&["worktree", "list", "--porcelain", "-z"]);
        let answer = self.git.run(&self.top, &args, LOOK, cancel).await?;
        Ok(listed(&String::from_utf8_lossy(&answer.stdout)))
    }
}

/// Returns the root of the work tree around a folder and the folder that its worktrees share, both with links resolved.
/// Fails if git finds no repository there, or a path is not UTF-8 or has a line end.
async fn located(
    git: &GitRunner,
    folder: &Path,
    cancel: &CancellationToken,
) -> Result<(PathBuf, PathBuf), WorktreeRefusal> {
    let args = words(&["rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir"]);
    let answer = git.ask(folder, &args, LOOK, cancel).await?;
    let none = |why: String| WorktreeRefusal::NotARepository { folder: folder.to_owned(), why };
    if answer.code != 0 {
        return Err(none(answer.reason()));
    }
    let text = String::from_utf8(answer.stdout).map_err(|_| none("its path is not UTF-8".to_owned()))?;
    let [top, common] = text.lines().collect::<Vec<_>>()[..] else {
        return Err(none("its path has more than one line".to_owned()));
    };
    let real = |path: &str| Path::new(path).canonicalize().map_err(|error| none(error.to_string()));
    Ok((real(top)?, real(common)?))
}

/// A worktree in the list of a repository.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ListedWorktree {
    /// Where it should be.
    pub path: PathBuf,
    /// `refs/heads/…`; none if no branch is checked out.
    pub branch: Option<String>,
    /// Why it is locked, if it is.
    pub locked: Option<String>,
}

/// Returns the worktrees in an output of `git worktree list --porcelain -z`. Fields that are not needed are ignored; a
/// lock without a reason becomes an empty text, and a detached head no branch.
fn listed(text: &str) -> Vec<ListedWorktree> {
    let mut all: Vec<ListedWorktree> = Vec::new();
    for field in text.split('\0') {
        let (name, value) = field.split_once(' ').unwrap_or((field, ""));
        match (name, all.last_mut()) {
            ("worktree", _) => all.push(ListedWorktree { path: value.into(), ..ListedWorktree::default() }),
            ("branch", Some(last)) => last.branch = Some(value.to_owned()),
            ("locked", Some(last)) => last.locked = Some(value.to_owned()),
            (_other, _) => {}
        }
    }
    all
}

/// Returns a runner for a repository without trust, whose filters are off. If its configuration has a key that is not
/// known to be harmless, the error names the key.
async fn checked(
    git: &GitRunner,
    top: &Path,
    cancel: &CancellationToken,
) -> Result<GitRunner, WorktreeRefusal> {
    let args = words(&["config", "--list", "--show-scope", "--name-only", "--includes", "-z"]);
    let answer = git.run(top, &args, LOOK, cancel).await?;
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    let fields: Vec<&str> = text.split_terminator('\0').collect();
    let mut filters = BTreeSet::new();
    for pair in fields.chunks(2) {
        let [scope, key] = pair else { continue };
        filters.extend(filter_of(key).map(str::to_owned));
        // The user's own configuration is trusted as the user is, and `command` is what `git.rs` adds.
        let is_own = matches!(*scope, "system" | "global" | "command");
        if !is_own && !is_harmless(key) {
            return Err(WorktreeRefusal::Configured { key: (*key).to_owned() });
        }
    }
    Ok(git.clone().without_filters(&filters.into_iter().collect::<Vec<_>>()))
}

/// Returns the name of the filter that a key configures; `None` for any other key.
fn filter_of(key: &str) -> Option<&str> {
    Some(key.strip_prefix("filter.")?.rsplit_once('.')?.0)
}

/// Returns whether a key is known to start nothing; an unknown one is not. Git writes section and key in lower case.
fn is_harmless(key: &str) -> bool {
    let (section, name) =
        (key.split('.').next().unwrap_or_default(), key.rsplit('.').next().unwrap_or_default());
    HARMLESS.contains(&section)
        || HARMLESS_KEYS
            .iter()
            .any(|(known, keys)| *known == section && keys.split_ascii_whitespace().any(|key| key == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_nobody_knows_are_dangerous() {
        for fine in [
            "core.bare",
            "remote.origin.url",
            "user.name",
            "branch.a.b.merge",
            "filter.x.y.smudge",
            "alias.x",
        ] {
            assert!(is_harmless(fine), "{fine}");
        }
        for bad in [
            "core.worktree",
            "hook.x.command",
            "remote.origin.promisor",
            "extensions.partialclone",
            "include.path",
            "includeif.gitdir:/x.path",
            "core.new",
            "safe.directory",
            "trace2.eventtarget",
            "",
            "core",
            "remote.o.vcs",
        ] {
            assert!(!is_harmless(bad), "{bad}");
        }
    }

    #[test]
    fn filters_are_found_by_any_of_their_keys() {
        assert_eq!(filter_of("filter.lfs.smudge"), Some("lfs"));
        assert_eq!(filter_of("filter.a.b=c.process"), Some("a.b=c"));
        assert_eq!(filter_of("filter.smudge"), None);
        assert_eq!(filter_of("core.bare"), None);
    }

    #[test]
    fn the_list_of_worktrees_is_read() {
        let text = "worktree /a\0HEAD 1\0branch refs/heads/main\0\0worktree /a b\0HEAD 2\0detached\0locked why not\0\0\
                    worktree /c\0bare\0locked\0\0";
        let all = listed(text);
        assert_eq!(all.len(), 3);
        assert_eq!(all[0].branch.as_deref(), Some("refs/heads/main"));
        assert_eq!((all[1].path.as_path(), all[1].locked.as_deref()), (Path::new("/a b"), Some("why not")));
        assert_eq!((all[1].branch.as_deref(), all[2].locked.as_deref()), (None, Some("")));
    }
}
