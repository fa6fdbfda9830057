//! What a person or host granted for a folder through Lathe. It counts also while the folder is untrusted.
//!
//! "Always allow" writes a rule into a file of the project. That file belongs to the folder: the one who fills the
//! folder can put the same rule there. So the granted values are kept a second time, in one file of the user's
//! configuration folder, by the real path of the folder and by the settings file they went to. This module is the only
//! one that reads or writes that file. What counts of a project's file is decided in [`crate::stack`].
//!
//! Surprising: what is remembered is never more than what the project's file still says. A grant that was taken out of
//! the file is forgotten when Lathe next reads the file, so the same rule does not count when it is put back by hand.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::SettingsError;
use crate::file::read_text;
use crate::load::MAX_SETTINGS_BYTES;
use crate::merge::{apart, common};
use crate::problem::{Origin, SettingsProblem};
use crate::trust::remembered::{self, Damage, folder_key};
use crate::withhold::withhold;
use lathe_protocol::SettingsSource;

/// In the user's configuration folder.
const GRANTS_FILE: &str = "lathe-grants.json";
const DAMAGE: Damage = Damage {
    effect: "no grant counts",
    hint: "repair the file or delete it; what was granted is then asked about again",
};

/// What was granted in one folder, in the form of the settings files it was written to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RememberedGrants {
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    local_settings: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    project_settings: Map<String, Value>,
}

impl RememberedGrants {
    /// Returns what was granted in the file of a source; `None` for sources that are not files of the folder.
    fn of(&self, source: SettingsSource) -> Option<&Map<String, Value>> {
        match source {
            SettingsSource::Local => Some(&self.local_settings),
            SettingsSource::Project => Some(&self.project_settings),
            SettingsSource::Policy | SettingsSource::Flag | SettingsSource::User => None,
        }
    }

    /// Returns what was granted in the file of a source, to be changed; `None` for sources that are not files of the
    /// folder.
    fn of_mut(&mut self, source: SettingsSource) -> Option<&mut Map<String, Value>> {
        match source {
            SettingsSource::Local => Some(&mut self.local_settings),
            SettingsSource::Project => Some(&mut self.project_settings),
            SettingsSource::Policy | SettingsSource::Flag | SettingsSource::User => None,
        }
    }
}

/// The remembered grants of one folder.
#[derive(Debug, Clone, Default)]
pub(crate) struct FolderGrants {
    /// Where they are kept; nowhere without a configuration folder.
    store: Option<PathBuf>,
    folder: PathBuf,
    remembered: RememberedGrants,
    problem: Option<SettingsProblem>,
}

impl FolderGrants {
    /// Reads the grants of a folder. Without a configuration folder, and for a folder without a real path, there are
    /// none. An unusable file counts as one without grants, and is reported by [`Self::problem`].
    pub fn read(config_dir: Option<&Path>, folder: &Path) -> Self {
        let store = config_dir.map(|dir| dir.join(GRANTS_FILE));
        let mut grants = Self { store, folder: folder.to_owned(), ..Self::default() };
        let Some(store) = &grants.store else { return grants };
        match remembered::read::<RememberedGrants>(store, DAMAGE) {
            Ok(None) => {}
            Ok(Some(mut document)) => {
                // A folder without a real path has no key, and then nothing is remembered for it.
                let found = folder_key(folder).ok().and_then(|key| document.folders.remove(&key));
                grants.remembered = found.unwrap_or_default();
            }
            Err(problem) => grants.problem = Some(*problem),
        }
        grants
    }

    /// Returns what was granted through Lathe in the file of a source; empty if nothing was, or if the source is not a
    /// file of the folder.
    pub fn of(&self, source: SettingsSource) -> Map<String, Value> {
        self.remembered.of(source).cloned().unwrap_or_default()
    }

    /// Returns the problem with the file of grants; `None` if it could be used.
    pub fn problem(&self) -> Option<&SettingsProblem> {
        self.problem.as_ref()
    }

    /// Remembers what a change grants to which a person or host has agreed, and forgets what it removes; does nothing
    /// for a source that is not a file of the folder. The settings file must have been written before, because only
    /// what it contains and what needs trust is remembered. Fails with [`SettingsError::Busy`] while another process
    /// writes, and without a configuration folder if anything is granted; `change` is called more than once.
    pub fn record(
        &mut self,
        source: SettingsSource,
        settings_file: &Path,
        change: &dyn Fn(&mut Map<String, Value>),
    ) -> Result<(), SettingsError> {
        if self.remembered.of(source).is_none() {
            return Ok(());
        }
        let has_store = self.store.as_ref().is_some_and(|store| store.symlink_metadata().is_ok());
        let mut granted = Map::new();
        change(&mut granted);
        // A change that grants nothing need not create the file; in an existing file it may take a grant away.
        if !has_store && withhold(&mut granted).0.is_empty() {
            return Ok(());
        }
        let store = self.store.as_ref().ok_or(SettingsError::NoFile("what was granted"))?;
        let key = folder_key(&self.folder).map_err(|source| SettingsError::Io {
            action: "find the real path of",
            path: self.folder.clone(),
            source,
        })?;
        let mut now = RememberedGrants::default();
        remembered::change(store, DAMAGE, |document| {
            let entry: &mut RememberedGrants = document.folders.entry(key.clone()).or_default();
            if let Some(grants) = entry.of_mut(source) {
                change(grants);
                *grants = still_written(grants, settings_file);
            }
            now = entry.clone();
            if now == RememberedGrants::default() {
                document.folders.remove(&key);
            }
        })?;
        self.remembered = now;
        Ok(())
    }

    /// Forgets grants that a settings file no longer contains. `written` is the content that was read. A failure
    /// becomes the problem that [`Self::problem`] returns.
    pub fn forget_missing(
        &mut self,
        source: SettingsSource,
        settings_file: &Path,
        written: &Map<String, Value>,
    ) {
        let remembered = Value::Object(self.of(source));
        if apart(&remembered, &Value::Object(written.clone())).is_none() {
            return;
        }
        // The file is looked at again under the lock, so a grant that another process writes just now stays.
        if let Err(error) = self.record(source, settings_file, &|_| {})
            && let Some(store) = &self.store
        {
            let message =
                format!("what {} no longer allows stays remembered: {error}", settings_file.display());
            self.problem = Some(SettingsProblem::warning(&Origin::File(store.clone()), None, message));
        }
    }
}

/// Returns the grants that need trust and that the settings file still contains; none if the file is absent. If it
/// cannot be read now or is not JSON, all grants that need trust stay, because its content does not count anyway.
fn still_written(grants: &Map<String, Value>, settings_file: &Path) -> Map<String, Value> {
    let written: Option<Value> = match read_text(settings_file, MAX_SETTINGS_BYTES) {
        Ok(Some(text)) => serde_json::from_str(&text.text).ok(),
        Ok(None) => Some(Value::Object(Map::new())),
        Err(_) => None,
    };
    let grants = Value::Object(grants.clone());
    let shared = written.map_or(Some(grants.clone()), |written| common(&grants, &written));
    let mut shared = shared.and_then(|shared| shared.as_object().cloned()).unwrap_or_default();
    withhold(&mut shared).0
}
