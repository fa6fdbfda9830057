//! Whether somebody has said that a folder may be trusted, and whether a file came with the repository.
//!
//! Trust is a flag in the user's global state file, keyed by the real path of the folder or of the working
//! tree it lies in. Nothing inside the folder is believed: not a `commondir`, not a configuration. Surprising:
//! a checked-in `settings.local.json` is the repository speaking, whatever its name says.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::file::{read_start, read_text};
use crate::problem::{Origin, Problem};

/// The global state file also holds histories and grows large.
const MAX_GLOBAL_BYTES: u64 = 64 << 20;
/// A larger index is not searched, and the answer is "unknown".
const MAX_INDEX_BYTES: u64 = 256 << 20;

/// What the user has agreed to for a folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trust {
    /// The folder may grant itself permissions and run its own programs.
    pub is_trusted: bool,
    /// Its instructions may import files that lie outside.
    pub outside_imports: bool,
}

#[derive(Deserialize, Default)]
struct GlobalState {
    #[serde(default)]
    projects: HashMap<String, ProjectState>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct ProjectState {
    #[serde(default)]
    has_trust_dialog_accepted: Option<bool>,
    #[serde(default)]
    has_claude_md_external_includes_approved: Option<bool>,
}

/// Looks a folder up. A state file that cannot be read trusts nobody, and says so.
pub fn look_up(global_config: &Path, cwd: &Path) -> (Trust, Option<Problem>) {
    let origin = Origin::File(global_config.to_owned());
    let text = match read_text(global_config, MAX_GLOBAL_BYTES) {
        Ok(Some(text)) => text.text,
        Ok(None) => return (Trust::default(), None),
        Err(failure) => {
            let problem = Problem::warning(&origin, failure.position(), failure.to_string());
            return (Trust::default(), Some(problem));
        }
    };
    let state: GlobalState = match serde_json::from_str(&text) {
        Ok(state) => state,
        Err(error) => {
            let problem = Problem::warning(&origin, None, format!("no workspace is trusted: {error}"));
            return (Trust::default(), Some(problem));
        }
    };
    let mut trust = Trust::default();
    for folder in folders_of_tree(cwd) {
        let Some(project) = folder.to_str().and_then(|folder| state.projects.get(folder)) else { continue };
        trust.is_trusted |= project.has_trust_dialog_accepted == Some(true);
        trust.outside_imports |= project.has_claude_md_external_includes_approved == Some(true);
    }
    (trust, None)
}

/// The key under which trust for a folder is kept.
pub(crate) fn trust_key(cwd: &Path) -> PathBuf {
    cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned())
}

/// The folder and those above it up to the root of the working tree. Without a repository only the folder.
fn folders_of_tree(cwd: &Path) -> Vec<PathBuf> {
    let real = trust_key(cwd);
    let root = tree_root(&real).unwrap_or(&real);
    real.ancestors().take_while(|folder| folder.starts_with(root)).map(Path::to_owned).collect()
}

/// The nearest folder at or above that holds a `.git`.
pub(crate) fn tree_root(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|folder| folder.join(".git").symlink_metadata().is_ok())
}

/// Whether a file came with the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckedIn {
    Yes,
    No,
    /// There is an index that was not understood.
    Unknown,
}

/// Looks for a file in the index of its working tree, without starting `git`.
pub(crate) fn checked_in(file: &Path) -> CheckedIn {
    let Some(real) = file.parent().and_then(|parent| parent.canonicalize().ok()) else {
        return CheckedIn::No;
    };
    let Some(root) = tree_root(&real) else { return CheckedIn::No };
    let (Ok(below), Some(name)) = (real.strip_prefix(root), file.file_name()) else { return CheckedIn::No };
    let index = match read_start(&git_dir(root).join("index"), MAX_INDEX_BYTES) {
        Ok(Some(index)) if !index.is_cut => index.bytes,
        Ok(None) => return CheckedIn::No,
        Ok(Some(_)) | Err(_) => return CheckedIn::Unknown,
    };
    let path = below.join(name).into_os_string().into_encoded_bytes();
    find_in_index(&index, &path).unwrap_or(CheckedIn::Unknown)
}

/// Walks over an index; `None` where it is not understood. Up to version 3 an entry holds its whole path;
/// later ones share beginnings. A split index (extension `link`) keeps most entries in another file.
fn find_in_index(index: &[u8], path: &[u8]) -> Option<CheckedIn> {
    let number = |at: usize| Some(u32::from_be_bytes(index.get(at..at + 4)?.try_into().ok()?));
    if !index.starts_with(b"DIRC") || !matches!(number(4)?, 2 | 3) {
        return None;
    }
    let mut at = 12;
    for _ in 0..number(8)? {
        let is_extended = index.get(at + 60)? & 0x40 != 0;
        let head = if is_extended { 64 } else { 62 };
        let name = index.get(at + head..)?;
        let name = &name[..name.iter().position(|byte| *byte == 0)?];
        if name == path {
            return Some(CheckedIn::Yes);
        }
        at += (head + name.len() + 8) & !7;
    }
    (index.get(at..at + 4)? != b"link").then_some(CheckedIn::No)
}

/// `.git` itself, or where a file of that name points.
fn git_dir(root: &Path) -> PathBuf {
    let dot_git = root.join(".git");
    match read_text(&dot_git, 4096) {
        Ok(Some(text)) => match text.text.trim().strip_prefix("gitdir:") {
            Some(target) => root.join(target.trim()),
            None => dot_git,
        },
        Ok(None) | Err(_) => dot_git,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    #[test]
    fn trust_covers_the_working_tree_and_nothing_above_or_inside_another() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["repo/.git", "repo/sub/deep", "repo/vendor/other/.git", "plain/sub"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        let state = base.join("state.json");
        let trusted = |trusted: &str, asked: &str| {
            let key = base.join(trusted).display().to_string();
            let json =
                json!({ "numStartups": 3, "projects": { key: { "hasTrustDialogAccepted": true, "x": [] } } });
            fs::write(&state, json.to_string()).unwrap();
            look_up(&state, &base.join(asked)).0.is_trusted
        };
        for (given, asked, expected) in [
            ("repo", "repo", true),
            ("repo", "repo/sub/deep", true),
            ("repo/sub", "repo/sub/deep", true),
            ("repo/sub", "repo", false),
            ("repo", "repo/vendor/other", false),
            ("", "repo", false),
            ("plain", "plain", true),
            ("plain", "plain/sub", false),
        ] {
            assert_eq!(trusted(given, asked), expected, "{given} is trusted, {asked} is asked");
        }
    }

    #[test]
    fn a_damaged_state_file_trusts_nobody_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state.json");
        assert_eq!(look_up(&state, dir.path()), (Trust::default(), None));
        fs::write(&state, "{\"projects\": {").unwrap();
        let (trust, problem) = look_up(&state, dir.path());
        assert!(!trust.is_trusted && problem.is_some());
        fs::write(&state, r#"{"projects": {"/x": {"hasTrustDialogAccepted": "yes"}}}"#).unwrap();
        assert!(look_up(&state, dir.path()).1.is_some());
    }

    /// An index with the paths given, ended by the name of an extension.
    fn index(version: u8, paths: &[&str], extension: &[u8]) -> Vec<u8> {
        let mut bytes = b"DIRC\0\0\0".to_vec();
        bytes.push(version);
        bytes.extend_from_slice(&u32::try_from(paths.len()).unwrap().to_be_bytes());
        for path in paths {
            let mut entry = vec![1; 62];
            entry.extend_from_slice(path.as_bytes());
            entry.resize((entry.len() + 8) & !7, 0);
            bytes.append(&mut entry);
        }
        bytes.extend_from_slice(extension);
        bytes
    }

    #[test]
    fn a_file_in_the_index_came_with_the_repository() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::create_dir_all(root.join("sub/.claude")).unwrap();
        let file = root.join("sub/.claude/settings.local.json");
        assert_eq!(checked_in(&file), CheckedIn::No, "no index yet");
        for (bytes, expected) in [
            (index(2, &["a", "sub/.claude/settings.local.json", "z"], b"TREE"), CheckedIn::Yes),
            (index(3, &["link", "sub/.claude/settings.local.json.bak"], b"TREE"), CheckedIn::No),
            (index(2, &["a"], b"link"), CheckedIn::Unknown),
            (index(2, &["a"], b""), CheckedIn::Unknown),
            (index(4, &["a"], b"TREE"), CheckedIn::Unknown),
            (b"nonsense".to_vec(), CheckedIn::Unknown),
        ] {
            fs::write(root.join(".git/index"), bytes).unwrap();
            assert_eq!(checked_in(&file), expected);
        }
    }

    #[test]
    fn a_worktree_has_its_own_index() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join(".claude")).unwrap();
        fs::create_dir_all(dir.path().join("repo/.git/worktrees/tree")).unwrap();
        fs::write(tree.join(".git"), "gitdir: ../repo/.git/worktrees/tree\n").unwrap();
        let bytes = index(2, &[".claude/settings.local.json"], b"TREE");
        fs::write(dir.path().join("repo/.git/worktrees/tree/index"), bytes).unwrap();
        assert_eq!(checked_in(&tree.join(".claude/settings.local.json")), CheckedIn::Yes);
    }
}
