//! The way back: every followed file becomes what it was before a prompt. Files made since are removed, removed files
//! come back with their mode. Whatever is a link by now is left alone and counted.

use std::collections::BTreeMap;

use lathe_tools::keep::{self, FileCopy, KeepError};

use super::{Backup, CheckpointMoment, FileCheckpoints, MAX_FILE_BYTES, NOWHERE, State};

/// Whether files are changed or only checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DryRun {
    Yes,
    No,
}

/// What a rewind changed, or would change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RewoundFiles {
    pub files_changed: Vec<String>,
    pub insertions: u64,
    pub deletions: u64,
    /// Files left alone because a link, or something else that is not a file, is in their place.
    pub skipped_links: u64,
    /// Files that could not be restored, each with the reason.
    pub failures: Vec<String>,
}

/// Why a rewind is not possible. Hosts know the texts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoRewind {
    #[error("File rewinding is not enabled.")]
    NotEnabled,
    #[error("No file checkpoint found for this message.")]
    NoCheckpoint,
    #[error("none of the files could be rewound: {0}")]
    AllFailed(String),
}

/// What a file has to become.
enum Wanted {
    Backup(Backup),
    /// It could not be saved at the time.
    Uncovered,
}

impl FileCheckpoints {
    /// Gives every followed file the content it had before `prompt`; a dry run changes nothing and returns the same
    /// report. Files that cannot be restored are listed in it; where a link or something else that is not a file is in
    /// the way, that is left alone and only counted. The error says that the prompt has no checkpoint, or that files
    /// could not be restored and none was changed.
    pub fn rewind(
        &self,
        prompt: &str,
        dry: DryRun,
        at: CheckpointMoment<'_>,
    ) -> Result<RewoundFiles, NoRewind> {
        let state = self.state(at.session);
        let wanted = state.wanted(prompt).ok_or(NoRewind::NoCheckpoint)?;
        let mut rewound = RewoundFiles::default();
        for (name, wanted) in wanted {
            let outcome = match wanted {
                Wanted::Backup(backup) => state.rewind_file(&name, &backup, dry, &mut rewound),
                Wanted::Uncovered => Err(KeepError::Failed("it was not saved at the time".to_owned())),
            };
            match outcome {
                Ok(()) => {}
                Err(KeepError::NotPlain) => rewound.skipped_links += 1,
                Err(error) => rewound.failures.push(format!("{name}: {error}")),
            }
        }
        if rewound.files_changed.is_empty() && !rewound.failures.is_empty() {
            return Err(NoRewind::AllFailed(rewound.failures.join("; ")));
        }
        Ok(rewound)
    }
}

impl State {
    /// Returns what each file that was ever followed has to become; `None` if the prompt has no checkpoint. A file
    /// that was first followed after the prompt becomes what it was when it was first changed.
    fn wanted(&self, prompt: &str) -> Option<BTreeMap<String, Wanted>> {
        let from = self.snapshots.iter().rposition(|snapshot| snapshot.message_id == prompt)?;
        let mut wanted = BTreeMap::new();
        for snapshot in self.snapshots.iter().skip(from) {
            for name in &snapshot.uncovered {
                wanted.entry(name.clone()).or_insert(Wanted::Uncovered);
            }
            for (name, backup) in &snapshot.tracked_file_backups {
                wanted.entry(name.clone()).or_insert_with(|| Wanted::Backup(backup.clone()));
            }
        }
        Some(wanted)
    }

    /// Makes one file what its backup says, and counts it in `rewound` if it differs. A backup without a saved copy
    /// means that the file did not exist, and removes it. A dry run only checks that the change would be possible.
    fn rewind_file(
        &self,
        name: &str,
        backup: &Backup,
        dry: DryRun,
        rewound: &mut RewoundFiles,
    ) -> Result<(), KeepError> {
        let nowhere = || KeepError::Failed(NOWHERE.to_owned());
        let path = backup.path(name, &self.root).ok_or_else(nowhere)?;
        let then = match &backup.backup_file_name {
            Some(file) => Some(self.store.read(file).map_err(KeepError::Failed)?),
            None => None,
        };
        // A file that has grown beyond the limit is still replaced; only its lines are not counted.
        let now = match keep::take(&path, MAX_FILE_BYTES) {
            Ok(now) => now.map(|(copy, _)| copy),
            // No file has this mode, so the stand-in equals no copy.
            Err(KeepError::TooLarge(_)) => Some(FileCopy { bytes: Vec::new(), mode: u32::MAX }),
            Err(error) => return Err(error),
        };
        if now == then {
            return Ok(());
        }
        match (&then, dry) {
            (_, DryRun::Yes) => keep::may_change(&path)?,
            (Some(copy), DryRun::No) => keep::put_back(&path, copy)?,
            (None, DryRun::No) => keep::remove(&path)?,
        }
        let bytes = |copy: Option<FileCopy>| copy.map(|copy| copy.bytes).unwrap_or_default();
        let (insertions, deletions) = keep::changed_lines(&bytes(now), &bytes(then));
        rewound.insertions += insertions;
        rewound.deletions += deletions;
        rewound.files_changed.push(path.display().to_string());
        Ok(())
    }
}
