//! What the user's global state file (`.claude.json`) says of a folder: a mark that it is trusted as a whole, and one
//! that its instructions may import files from outside.
//!
//! Both are keyed by the real path of the folder or of the working tree it lies in. Surprising: git is not asked
//! whether a file came with the repository. The author of the folder also decides what git would say.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::file::read_text;
use crate::problem::{Origin, SettingsProblem};

/// The global state file also holds histories and grows large.
const MAX_GLOBAL_BYTES: u64 = 64 << 20;

/// What the user has agreed to for a folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FolderMarks {
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

/// Looks for the marks of a folder, and of those above it in the same working tree, in the user's state file. A missing
/// file has none; if the file cannot be read, there are no marks either, and the problem says so, otherwise it is
/// `None`.
pub(crate) fn look_up(global_config: &Path, cwd: &Path) -> (FolderMarks, Option<SettingsProblem>) {
    let origin = Origin::File(global_config.to_owned());
    let text = match read_text(global_config, MAX_GLOBAL_BYTES) {
        Ok(Some(text)) => text.text,
        Ok(None) => return (FolderMarks::default(), None),
        Err(failure) => {
            let problem = SettingsProblem::warning(&origin, failure.position(), failure.to_string());
            return (FolderMarks::default(), Some(problem));
        }
    };
    let state: GlobalState = match serde_json::from_str(&text) {
        Ok(state) => state,
        Err(error) => {
            let problem =
                SettingsProblem::warning(&origin, None, format!("no workspace is trusted: {error}"));
            return (FolderMarks::default(), Some(problem));
        }
    };
    let mut trust = FolderMarks::default();
    for folder in folders_of_tree(cwd) {
        // A path that is not UTF-8 cannot be a key of a JSON file, so no mark is meant for it.
        let Some(project) = folder.to_str().and_then(|folder| state.projects.get(folder)) else { continue };
        trust.is_trusted |= project.has_trust_dialog_accepted == Some(true);
        trust.outside_imports |= project.has_claude_md_external_includes_approved == Some(true);
    }
    (trust, None)
}

/// Returns the real path of the folder and those above it up to the root of its git repository; only the folder if it
/// is in none.
fn folders_of_tree(cwd: &Path) -> Vec<PathBuf> {
    let real = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    // The working tree is the bound: otherwise a mark on the home folder would trust every folder below it.
    let root = tree_root(&real).unwrap_or(&real);
    real.ancestors().take_while(|folder| folder.starts_with(root)).map(Path::to_owned).collect()
}

/// Returns the nearest folder, from this one upwards, that contains `.git`; `None` if there is none.
pub(crate) fn tree_root(folder: &Path) -> Option<&Path> {
    // `.git` is a file in linked working trees and submodules. A folder that brings its own can only shorten the
    // search.
    folder.ancestors().find(|folder| folder.join(".git").symlink_metadata().is_ok())
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
    fn a_damaged_state_file_trusts_no_folder_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state.json");
        assert_eq!(look_up(&state, dir.path()), (FolderMarks::default(), None));
        fs::write(&state, "{\"projects\": {").unwrap();
        let (trust, problem) = look_up(&state, dir.path());
        assert!(!trust.is_trusted && problem.is_some());
        fs::write(&state, r#"{"projects": {"/x": {"hasTrustDialogAccepted": "yes"}}}"#).unwrap();
        assert!(look_up(&state, dir.path()).1.is_some());
    }
}
