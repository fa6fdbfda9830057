//! The saved copies of one session: files named after a hash of the path and a version, each written once.
//! A copy has the mode of the file it was made of; the folder is private, whatever that mode is.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use lathe_tools::keep::FileCopy;

/// Bytes that all copies of a session may take.
const MAX_TOTAL_BYTES: u64 = 512 << 20;

/// Versions that are tried when a name is taken.
const MAX_TRIES: u32 = 1000;

/// The folder of one session's copies; it is made when there is something to put into it.
#[derive(Default)]
pub(super) struct CheckpointStore {
    dir: PathBuf,
    bytes: u64,
    /// Bytes that all copies may take.
    pub most: u64,
}

impl CheckpointStore {
    /// Opens the store of a session and sums up the copies that are already there. The folder need not exist yet.
    pub fn open(dir: PathBuf) -> Self {
        let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        let bytes = entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum();
        Self { dir, bytes, most: MAX_TOTAL_BYTES }
    }

    /// Returns whether that many bytes more stay within the limit for all copies of the session.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.bytes + bytes as u64 <= self.most
    }

    /// Saves a copy of a file under the version `version`, or the next one whose name is free. Returns its name in the
    /// store and the version it got. A copy is never overwritten, because forks share copies. It is an error if the
    /// copies of the session would then exceed `most`; see [`Self::has_room`].
    pub fn write(&mut self, path: &Path, version: u32, copy: &FileCopy) -> Result<(String, u32), String> {
        if !self.has_room(copy.bytes.len()) {
            return Err(format!("the copies of this session would take more than {} bytes", self.most));
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .map_err(|error| self.failed(&error))?;
        let key = fnv(path.as_os_str().as_bytes());
        for version in version..version.saturating_add(MAX_TRIES) {
            let name = format!("{key:016x}@v{version}");
            let place = self.dir.join(&name);
            // A name that is taken belongs to a copy whose record was never written, or to another path.
            let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&place) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                result => result.map_err(|error| self.failed(&error))?,
            };
            let written = file
                .write_all(&copy.bytes)
                .and_then(|()| file.set_permissions(Permissions::from_mode(copy.mode)));
            if let Err(error) = written {
                // A part of a copy must not be found under its name later. A failure to remove it changes nothing.
                drop(std::fs::remove_file(&place));
                return Err(self.failed(&error));
            }
            self.bytes += copy.bytes.len() as u64;
            return Ok((name, version));
        }
        Err(format!("there are too many copies of it in {}", self.dir.display()))
    }

    /// Reads a saved copy by its name in the store. A name that leads out of the folder and a copy that is not a plain
    /// file are errors, because records may come from another program.
    pub fn read(&self, name: &str) -> Result<FileCopy, String> {
        // The name comes from a record, which another program may have written.
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            return Err("its copy has no proper name".to_owned());
        }
        let path = self.dir.join(name);
        // A link here was not made by `write`, and could restore the content of any other file.
        let is_file = std::fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file());
        if !is_file {
            return Err("its copy is gone".to_owned());
        }
        let mode = std::fs::metadata(&path).map_err(|error| self.failed(&error))?.permissions().mode();
        let bytes = std::fs::read(&path).map_err(|error| self.failed(&error))?;
        Ok(FileCopy { bytes, mode: mode & 0o7777 })
    }

    /// Deletes all copies but the needed ones; a copy that cannot be deleted stays and keeps counting.
    pub fn remove_all_but(&mut self, needed: &BTreeSet<&str>) {
        for entry in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            if needed.contains(entry.file_name().to_string_lossy().as_ref()) {
                continue;
            }
            let size = entry.metadata().map_or(0, |metadata| metadata.len());
            if std::fs::remove_file(entry.path()).is_ok() {
                self.bytes = self.bytes.saturating_sub(size);
            }
        }
    }

    /// Deletes all copies of the session and their folder.
    pub fn remove_all(&mut self) {
        if !self.dir.as_os_str().is_empty() {
            // What cannot be removed is left to the clean-up of old sessions.
            drop(std::fs::remove_dir_all(&self.dir));
            self.bytes = 0;
        }
    }

    /// Returns the message for an error of the disk, with the folder of the store.
    fn failed(&self, error: &std::io::Error) -> String {
        format!("{}: {error}", self.dir.display())
    }
}

/// Gives the session `to` the copies of the session `from`, of which it is a fork; does nothing if there are none. A
/// copy is written once and never changed, so both may have the same file; where hard links are not possible, it is
/// copied. `dir` is the folder of all copies. The first failure ends the sharing; what was shared before stays.
pub fn share_copies(dir: &Path, from: &str, to: &str) -> Result<(), String> {
    let (from, to) = (dir.join(from), dir.join(to));
    let copies: Vec<_> = std::fs::read_dir(&from).into_iter().flatten().flatten().collect();
    if copies.is_empty() {
        return Ok(());
    }
    let lost = |error| format!("files cannot be rewound to before the fork: {}: {error}", to.display());
    DirBuilder::new().recursive(true).mode(0o700).create(&to).map_err(lost)?;
    for copy in copies.iter().filter(|copy| copy.file_type().is_ok_and(|kind| kind.is_file())) {
        let place = to.join(copy.file_name());
        std::fs::hard_link(copy.path(), &place)
            .or_else(|_| std::fs::copy(copy.path(), &place).map(drop))
            .map_err(lost)?;
    }
    Ok(())
}

/// Returns a hash that is the same in every run and on every machine (FNV-1a).
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
