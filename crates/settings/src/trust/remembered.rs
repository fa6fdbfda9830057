//! Files of the user's configuration folder that remember something for each working folder.
//!
//! Each such file is one JSON document with an entry per folder, named by the folder's real path. It is readable and
//! writable by the user alone, written as a whole under a lock ([`crate::write`]), and bounded. What an entry holds
//! is the business of [`crate::grants`] and [`crate::trust`].
//!
//! Surprising: a file that is damaged, of another version, or writable by others remembers nothing at all. The caller
//! gets a problem that says so.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::SettingsError;
use crate::file::{ReadFailure, Text, read_text};
use crate::problem::{Origin, SettingsProblem};
use crate::write::{Owner, ReplacementContent, rewrite};

/// No such file is larger.
const MAX_BYTES: u64 = 4 << 20;
const VERSION: u32 = 1;
/// Only the user may know and change it.
const MODE: u32 = 0o600;

/// The whole file.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FolderDocument<T> {
    version: u32,
    /// By [`folder_key`].
    pub folders: BTreeMap<String, T>,
}

impl<T> Default for FolderDocument<T> {
    fn default() -> Self {
        Self { version: VERSION, folders: BTreeMap::new() }
    }
}

/// What is said about a file that cannot be used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Damage {
    /// What does not count because of it.
    pub effect: &'static str,
    /// What to do about it.
    pub hint: &'static str,
}

/// Reads a document of the user about folders; `None` if the file does not exist. A damaged file, one of another
/// version and one that others can write is a problem.
pub(crate) fn read<T: DeserializeOwned>(
    path: &Path,
    damage: Damage,
) -> Result<Option<FolderDocument<T>>, Box<SettingsProblem>> {
    parse(path, read_text(path, MAX_BYTES), damage)
}

/// Changes a document under its lock; fails with [`SettingsError::Busy`] if the lock is taken, and for a damaged file.
/// `change` has to remove entries that it empties. Nothing is written if nothing changes.
pub(crate) fn change<T>(
    path: &Path,
    damage: Damage,
    change: impl FnOnce(&mut FolderDocument<T>),
) -> Result<(), SettingsError>
where
    T: Serialize + DeserializeOwned + Clone + PartialEq,
{
    rewrite(path, Owner::User, MAX_BYTES, |path, text| {
        let before: FolderDocument<T> =
            parse(path, text, damage).map_err(SettingsError::Broken)?.unwrap_or_default();
        let mut document = before.clone();
        change(&mut document);
        (document != before).then(|| content(document, path)).transpose()
    })
    .map(drop)
}

/// Returns the key of a folder in a document: its real path. A path that is not UTF-8 gets a key that no other path
/// has. Fails if the folder does not exist.
pub(crate) fn folder_key(folder: &Path) -> io::Result<String> {
    let real = folder.canonicalize()?;
    Ok(match real.to_str() {
        Some(path) => path.to_owned(),
        None => format!("bytes:{}", real.as_os_str().as_encoded_bytes().escape_ascii()),
    })
}

/// Parses the text of a document; `None` if the file does not exist. A damaged text, another version and a file that
/// others can write are problems.
fn parse<T: DeserializeOwned>(
    path: &Path,
    text: Result<Option<Text>, ReadFailure>,
    damage: Damage,
) -> Result<Option<FolderDocument<T>>, Box<SettingsProblem>> {
    let damaged = |message: String| {
        let message = format!("{}: {message}", damage.effect);
        Box::new(SettingsProblem::warning(&Origin::File(path.to_owned()), None, message).hint(damage.hint))
    };
    let text = match text {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(None),
        Err(failure) => return Err(damaged(failure.to_string())),
    };
    // A user who can write this file could grant rights in every folder.
    if text.stamp.mode & 0o022 != 0 {
        return Err(damaged("it can be changed by others than its owner".to_owned()));
    }
    match serde_json::from_str::<FolderDocument<T>>(&text.text) {
        // Another version may give the same fields another meaning.
        Ok(document) if document.version == VERSION => Ok(Some(document)),
        Ok(document) => Err(damaged(format!("its version {} is not known", document.version))),
        Err(error) => Err(damaged(error.to_string())),
    }
}

/// Returns the bytes and the permission bits of a document. If it is too large, entries of folders that do not exist
/// now are left out; if that is not enough, it is an error.
fn content<T: Serialize>(
    mut document: FolderDocument<T>,
    path: &Path,
) -> Result<ReplacementContent, SettingsError> {
    let bytes_of = |document: &FolderDocument<T>| {
        serde_json::to_vec_pretty(document).map_err(|error| SettingsError::Io {
            action: "write",
            path: path.to_owned(),
            source: error.into(),
        })
    };
    let is_too_large = |bytes: &[u8]| bytes.len() as u64 >= MAX_BYTES;
    let mut bytes = bytes_of(&document)?;
    if is_too_large(&bytes) {
        // Only when space runs out, because a folder on a drive that is not mounted just now loses its entry too.
        document.folders.retain(|folder, _| Path::new(folder).exists());
        bytes = bytes_of(&document)?;
    }
    if is_too_large(&bytes) {
        let message = format!("it would be larger than {MAX_BYTES} bytes");
        let problem = SettingsProblem::warning(&Origin::File(path.to_owned()), None, message);
        return Err(SettingsError::Broken(Box::new(problem)));
    }
    bytes.push(b'\n');
    Ok(ReplacementContent { bytes, mode: MODE })
}
