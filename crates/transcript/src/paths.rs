//! The paths of session files: `<config>/projects/<project key>/<session id>.jsonl`, with a directory of the same name
//! beside it for subagents and large tool results. This module only builds paths; it creates and reads nothing, except
//! that the path of a project is resolved before it becomes a key.
//!
//! The surprising thing: keys are not unique. `/a_b` and `/a-b` share one, and paths longer than 200
//! characters end in a hash that other programs may compute differently, so a reader also accepts any
//! directory with the same first 200 characters.

use std::path::{Path, PathBuf};

use icu_normalizer::ComposingNormalizerBorrowed;

/// The length of the longest key that has no hash.
const KEY_CHARS: usize = 200;

/// Returns the directory name for the sessions of a working directory. Reads the file system to resolve the path; a
/// path that cannot be resolved is used as given.
pub fn project_key(cwd: &Path) -> String {
    key_of(&resolved(cwd), char::len_utf16)
}

/// Returns all keys that programs use for a working directory, that of Lathe first. They agree on most names. The
/// Python SDK composes letters and their accents (NFC), which matters for folders that came from other systems, and
/// counts a character beyond the basic plane once; the TypeScript SDK uses names as they are and counts such a
/// character twice.
pub(crate) fn project_keys(cwd: &Path) -> Vec<String> {
    let path = resolved(cwd);
    let composed = ComposingNormalizerBorrowed::new_nfc().normalize(&path);
    let mut keys = vec![key_of(&path, char::len_utf16), key_of(&composed, |_| 1)];
    keys.dedup();
    keys
}

/// Returns the path with links resolved, or as given if that fails; bytes that are not UTF-8 are replaced.
fn resolved(cwd: &Path) -> String {
    std::fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned()).to_string_lossy().into_owned()
}

/// Returns the key of a path that is already resolved: other characters than ASCII letters and digits become dashes, of
/// which `dashes` says how many, and a key beyond [`KEY_CHARS`] is cut and ends in a hash.
fn key_of(path: &str, dashes: impl Fn(char) -> usize) -> String {
    let mut key = String::with_capacity(path.len());
    for c in path.chars() {
        if c.is_ascii_alphanumeric() {
            key.push(c);
        } else {
            key.extend(std::iter::repeat_n('-', dashes(c)));
        }
    }
    if key.len() > KEY_CHARS {
        key.truncate(KEY_CHARS);
        key.push('-');
        key.push_str(&path_hash(path));
    }
    key
}

/// Returns the prefix by which the directories of a long path are found, whatever hash they end in; `None` for a key
/// without a hash.
pub(crate) fn long_key_prefix(key: &str) -> Option<&str> {
    (key.len() > KEY_CHARS).then(|| &key[..=KEY_CHARS])
}

/// Returns the hash of a path: `h * 31 + unit` over UTF-16 units in 32 bits, absolute value, base 36.
fn path_hash(path: &str) -> String {
    let hash = path.encode_utf16().fold(0_i32, |h, unit| h.wrapping_mul(31).wrapping_add(i32::from(unit)));
    base36(hash.unsigned_abs())
}

/// Returns the digits of a number in base 36 in lower case, as JavaScript writes it.
fn base36(mut value: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(value % 36, 36).expect("a remainder of 36 is a base-36 digit"));
        value /= 36;
        if value == 0 {
            return digits.iter().rev().collect();
        }
    }
}

/// Returns whether `id` is a UUID in its usual spelling. Ids are checked before they become part of a path.
pub fn is_session_id(id: &str) -> bool {
    id.len() == 36
        && id.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The files of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPaths {
    project_dir: PathBuf,
    session_id: String,
}

impl SessionPaths {
    /// Returns the paths of session `session_id`, started in `cwd`, under `config_dir`. The id is not checked; see
    /// [`is_session_id`].
    pub fn new(config_dir: &Path, cwd: &Path, session_id: &str) -> Self {
        Self::in_project_dir(&projects_dir(config_dir).join(project_key(cwd)), session_id)
    }

    /// Returns the paths of a session in a known project directory. The id is not checked; see [`is_session_id`].
    pub fn in_project_dir(project_dir: &Path, session_id: &str) -> Self {
        Self { project_dir: project_dir.to_owned(), session_id: session_id.to_owned() }
    }

    /// Returns the paths of the session whose transcript has this path; its id is the name of the file without the
    /// extension.
    pub fn of_transcript(transcript: &Path) -> Self {
        let stem = transcript.file_stem().unwrap_or_default().to_string_lossy();
        Self::in_project_dir(transcript.parent().unwrap_or(Path::new("")), &stem)
    }

    /// Returns the id of the session.
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// Returns the path of the transcript.
    pub fn transcript(&self) -> PathBuf {
        self.project_dir.join(format!("{}.jsonl", self.session_id))
    }

    /// Returns the directory for all other files of the session; it need not exist.
    pub fn dir(&self) -> PathBuf {
        self.project_dir.join(&self.session_id)
    }

    /// Returns the directory of the subagents' transcripts.
    pub fn subagents(&self) -> PathBuf {
        self.dir().join("subagents")
    }

    /// Returns the path of a subagent's transcript, as it is written; readers also look into folders below.
    pub fn subagent(&self, agent_id: &str) -> PathBuf {
        self.subagents().join(format!("agent-{agent_id}.jsonl"))
    }

    /// Returns the path of the file that describes a subagent.
    pub fn subagent_meta(&self, agent_id: &str) -> PathBuf {
        self.subagents().join(format!("agent-{agent_id}.meta.json"))
    }

    /// Returns the directory of tool results that are too large for the conversation.
    pub fn tool_results(&self) -> PathBuf {
        self.dir().join("tool-results")
    }
}

/// Returns the directory above all project directories of a configuration directory.
pub fn projects_dir(config_dir: &Path) -> PathBuf {
    config_dir.join("projects")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str) -> String {
        project_key(Path::new(path))
    }

    #[test]
    fn every_character_outside_ascii_letters_and_digits_becomes_a_dash() {
        assert_eq!(key("/no/a_b"), "-no-a-b");
        assert_eq!(key("/no/é/x.y"), "-no---x-y");
        assert_eq!(project_keys(Path::new("/no/é")), ["-no--"]);
    }

    /// Observed: the TypeScript SDK (0.3.325) looks under the first, the Python SDK (0.2.182) under the second.
    #[test]
    fn programs_disagree_about_characters_beyond_the_basic_plane_and_about_accents() {
        assert_eq!(project_keys(Path::new("/no/😀x")), ["-no---x", "-no--x"]);
        assert_eq!(project_keys(Path::new("/no/e\u{301}")), ["-no-e-", "-no--"]);
    }

    /// Expected values come from the official Python SDK (0.2.182).
    #[test]
    fn long_paths_are_cut_and_hashed_as_the_sdks_do() {
        let ascii = format!("/tmp/{}", "a".repeat(250));
        assert_eq!(key(&ascii), format!("-tmp-{}-bxbzwn", "a".repeat(195)));
        let accented = format!("/tmp/{}/{}", "é".repeat(120), "b".repeat(100));
        assert!(key(&accented).ends_with("-ss1duw"), "{}", key(&accented));
        assert_eq!(long_key_prefix(&key(&ascii)), Some(format!("-tmp-{}-", "a".repeat(195)).as_str()));
        assert_eq!(long_key_prefix("-tmp"), None);
    }

    #[test]
    fn a_symlinked_project_has_the_key_of_its_target() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        std::fs::create_dir(&real).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(project_key(&link), project_key(&real));
    }

    #[test]
    fn only_uuids_are_session_ids() {
        assert!(is_session_id("00000000-0000-0000-0000-000000000009"));
        for bad in [
            "",
            "../../etc/passwd",
            "00000000-0000-0000-0000-00000000000g",
            "0000000000000000000000000000000000-0",
        ] {
            assert!(!is_session_id(bad), "{bad}");
        }
    }

    #[test]
    fn files_of_a_session_lie_beside_its_transcript() {
        let paths = SessionPaths::in_project_dir(Path::new("/c/projects/-p"), "ID");
        assert_eq!(paths.transcript(), Path::new("/c/projects/-p/ID.jsonl"));
        assert_eq!(paths.subagent("a1"), Path::new("/c/projects/-p/ID/subagents/agent-a1.jsonl"));
        assert_eq!(paths.tool_results(), Path::new("/c/projects/-p/ID/tool-results"));
        assert_eq!(SessionPaths::of_transcript(&paths.transcript()), paths);
    }
}
