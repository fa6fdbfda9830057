//! The files that hooks wait for, each with its state at the last check. The first check reports nothing: a file is
//! compared with what it was when it was added.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lathe_settings::Stamp;

/// The largest number of watched files; further ones are ignored.
const MAX_WATCHED: usize = 1000;

/// The files that the hooks of a session wait for.
#[derive(Debug, Default)]
pub struct FileWatch {
    /// Written by hooks that name files, of any agent; read by the check between two rounds.
    files: Mutex<BTreeMap<PathBuf, Option<Stamp>>>,
}

impl FileWatch {
    /// Locks the map of watched files, also after a panic under the lock.
    fn files(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Option<Stamp>>> {
        // Nothing that is done under the lock could leave the map half changed.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to watch files that a hook named, from their present state on; relative paths start at `cwd`. Files that
    /// are watched already keep their state, and at most [`MAX_WATCHED`] are watched: the rest is ignored.
    pub fn add_paths(&self, paths: &[String], cwd: &Path) {
        let mut files = self.files();
        for path in paths {
            let path = cwd.join(path);
            if files.len() < MAX_WATCHED && !files.contains_key(&path) {
                let stamp = Stamp::at(&path);
                files.insert(path, stamp);
            }
        }
    }

    /// Returns the watched files that have changed since the last call (or since they were added), each with the name
    /// of the event: `add`, `change` or `unlink`. The new state is remembered, so a change is returned once.
    pub fn changes(&self) -> Vec<(PathBuf, &'static str)> {
        let mut changes = Vec::new();
        for (path, was) in self.files().iter_mut() {
            let now = Stamp::at(path);
            let event = match (&*was, &now) {
                (before, after) if before == after => continue,
                (None, Some(_)) => "add",
                (Some(_), None) => "unlink",
                (Some(_), Some(_)) | (None, None) => "change",
            };
            *was = now;
            changes.push((path.clone(), event));
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_once_and_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let watch = FileWatch::default();
        watch.add_paths(&[".env".to_owned(), ".env".to_owned()], folder.path());
        let file = folder.path().join(".env");
        assert_eq!(watch.changes(), []);
        std::fs::write(&file, "A=1").unwrap();
        assert_eq!(watch.changes(), [(file.clone(), "add")]);
        std::fs::write(&file, "A=12").unwrap();
        assert_eq!(watch.changes(), [(file.clone(), "change")]);
        assert_eq!(watch.changes(), []);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(watch.changes(), [(file, "unlink")]);
    }

    #[test]
    fn there_is_a_bound() {
        let watch = FileWatch::default();
        let paths: Vec<String> = (0..MAX_WATCHED + 10).map(|n| format!("/none/{n}")).collect();
        watch.add_paths(&paths, Path::new("/"));
        assert_eq!(watch.files().len(), MAX_WATCHED);
    }
}
