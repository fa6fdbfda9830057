//! What people trusted with `lathe trust`: `lathe-trust.json` in the user's configuration folder, by the real path of
//! the folder and by a hash of each item that was shown.
//!
//! Surprising: a folder that was renamed or copied is another folder, and has to be trusted again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::items::ContentItem;
use super::remembered::{self, Damage, folder_key};
use crate::error::SettingsError;
use crate::problem::SettingsProblem;

/// In the user's configuration folder.
const TRUST_FILE: &str = "lathe-trust.json";
const DAMAGE: Damage = Damage {
    effect: "no folder is trusted by it",
    hint: "repair the file or delete it, then run `lathe trust` again where you need it",
};

/// The file that remembers trust.
#[derive(Debug, Clone)]
pub struct TrustStore {
    path: PathBuf,
}

/// What was trusted in one folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedFolder {
    /// As they were shown.
    pub items: Vec<TrustedItem>,
}

/// One item that was trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedItem {
    /// [`ContentKind::as_str`](super::ContentKind::as_str).
    pub kind: String,
    /// The file it stood in, relative to the folder.
    pub file: String,
    /// Where in the file.
    pub name: String,
    /// SHA-256 of all that and its content. This alone decides.
    pub hash: String,
}

impl TrustedFolder {
    /// Returns whether the item was trusted with exactly this content. `false` for an item without a hash.
    pub fn holds(&self, item: &ContentItem) -> bool {
        item.hash.as_ref().is_some_and(|hash| self.items.iter().any(|trusted| trusted.hash == *hash))
    }

    /// Returns whether an item of the same kind, file and name was trusted, with any content. If so, and
    /// [`Self::holds`] does not accept this one, it has changed.
    pub(crate) fn knows_place(&self, item: &ContentItem) -> bool {
        let kind = item.kind.as_str();
        self.items.iter().any(|old| old.kind == kind && old.file == item.file && old.name == item.name)
    }
}

impl TrustStore {
    /// Opens the store of a configuration folder. Its file need not exist.
    pub fn in_config_dir(config_dir: &Path) -> Self {
        Self { path: config_dir.join(TRUST_FILE) }
    }

    /// Returns the path of the store's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads all trusted folders, by their keys: their real paths. A missing file has none; a damaged one is a problem.
    pub fn folders(&self) -> Result<BTreeMap<String, TrustedFolder>, Box<SettingsProblem>> {
        let document = remembered::read(&self.path, DAMAGE)?;
        Ok(document.map(|document| document.folders).unwrap_or_default())
    }

    /// Reads what was trusted in a folder; `None` if nothing was, or if the folder does not exist. A damaged file is a
    /// problem.
    pub fn of(&self, folder: &Path) -> Result<Option<TrustedFolder>, Box<SettingsProblem>> {
        // A folder without a real path has no key, and then nothing is remembered for it.
        let Ok(key) = folder_key(folder) else { return Ok(None) };
        Ok(self.folders()?.remove(&key))
    }

    /// Stores these items as the trusted ones of a folder, in place of the earlier ones; items without a hash are left
    /// out. Fails with [`SettingsError::Busy`] while another process writes; the same call can succeed a moment later.
    pub fn trust(&self, folder: &Path, items: &[&ContentItem]) -> Result<(), SettingsError> {
        let key = self.key(folder)?;
        let items: Vec<TrustedItem> = items
            .iter()
            .filter_map(|item| {
                Some(TrustedItem {
                    kind: item.kind.as_str().to_owned(),
                    file: item.file.clone(),
                    name: item.name.clone(),
                    hash: item.hash.clone()?,
                })
            })
            .collect();
        remembered::change(&self.path, DAMAGE, |document| {
            document.folders.insert(key, TrustedFolder { items });
        })
    }

    /// Removes a folder, which need not exist any more, from the store. Returns whether it was there; a missing file
    /// holds none and is not created.
    pub fn forget(&self, folder: &Path) -> Result<bool, SettingsError> {
        // A deleted folder has no real path any more, so its path is taken as the caller wrote it.
        let key = folder_key(folder).unwrap_or_else(|_| folder.to_string_lossy().into_owned());
        if self.path.symlink_metadata().is_err() {
            return Ok(false);
        }
        let mut was_there = false;
        remembered::change(
            &self.path,
            DAMAGE,
            |document: &mut remembered::FolderDocument<TrustedFolder>| {
                was_there = document.folders.remove(&key).is_some();
            },
        )?;
        Ok(was_there)
    }

    /// Returns the key of a folder in the store, which is made of its real path. Fails if the folder does not exist.
    fn key(&self, folder: &Path) -> Result<String, SettingsError> {
        folder_key(folder).map_err(|source| SettingsError::Io {
            action: "find the real path of",
            path: folder.to_owned(),
            source,
        })
    }
}
