//! The files in which hooks leave variables, one for each event that may set some. `changes/exported_env.rs` decides
//! which of them commands source.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use lathe_protocol::HookEvent;

/// The events that have a file, in the order in which the files are read.
const EVENTS: [(HookEvent, &str); 4] = [
    (HookEvent::Setup, "setup.sh"),
    (HookEvent::SessionStart, "session-start.sh"),
    (HookEvent::CwdChanged, "cwd-changed.sh"),
    (HookEvent::FileChanged, "file-changed.sh"),
];

/// The files in which hooks leave variables.
#[derive(Debug, Default)]
pub struct EnvFiles {
    /// A folder of this session; none if nothing can be kept.
    dir: Option<PathBuf>,
    /// Set once the files of an earlier run are removed. Written by the first event that has a file; read by the later
    /// ones.
    cleared: OnceLock<()>,
}

impl EnvFiles {
    /// Prepares files in `dir`, which is created when a hook first needs it. Without a folder hooks cannot export
    /// variables.
    pub fn new(dir: Option<PathBuf>) -> Self {
        Self { dir, cleared: OnceLock::new() }
    }

    /// Returns the file that the hooks of an event may write variables to, after creating it; `None` for events without
    /// one, without a folder, or if the file cannot be created. The first call removes the files of an earlier run, and
    /// for `CwdChanged` the file begins empty each time.
    pub fn prepare(&self, event: &HookEvent) -> Option<PathBuf> {
        let dir = self.dir.as_deref()?;
        let (_, name) = EVENTS.iter().find(|(known, _)| known == event)?;
        let path = dir.join(name);
        self.cleared.get_or_init(|| {
            for (_, name) in EVENTS {
                // A file that does not exist is what we want.
                let _ = fs::remove_file(dir.join(name));
            }
        });
        // What was exported for the old folder does not apply to the new one, so this file begins empty.
        make(dir, &path, *event == HookEvent::CwdChanged).ok()?;
        Some(path)
    }

    /// Returns the paths of all files in the order in which they are read, whether they exist or not; empty without a
    /// folder.
    pub fn paths(&self) -> Vec<PathBuf> {
        let dir = self.dir.iter();
        dir.flat_map(|dir| EVENTS.iter().map(|(_, name)| dir.join(name))).collect()
    }
}

/// Creates the file and its folder, readable by the user only, because variables may hold secrets. A file that exists
/// keeps its content unless `empty` is set. The error is that of the file system.
fn make(dir: &Path, path: &Path, empty: bool) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    OpenOptions::new().write(true).create(true).truncate(empty).mode(0o600).open(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_for_four_events_and_a_folder_is_left_with_its_variables() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("deep/er");
        let files = EnvFiles::new(Some(dir.clone()));
        assert!(!dir.exists(), "nothing is made before it is needed");
        assert_eq!(files.prepare(&HookEvent::PreToolUse), None);
        for (event, stays) in [(HookEvent::SessionStart, true), (HookEvent::CwdChanged, false)] {
            let file = files.prepare(&event).unwrap();
            fs::write(&file, "export A=1\n").unwrap();
            let again = files.prepare(&event).unwrap();
            assert_eq!(fs::read_to_string(&again).unwrap().is_empty(), !stays, "{event}");
        }
        assert_eq!(EnvFiles::default().prepare(&HookEvent::SessionStart), None);
        let next = EnvFiles::new(Some(dir)).prepare(&HookEvent::SessionStart).unwrap();
        assert_eq!(fs::read_to_string(next).unwrap(), "", "a new run starts without");
    }
}
