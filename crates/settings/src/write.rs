//! Changes a settings file, or another file of the user: under a lock, by replacing the whole file, and without losing
//! keys that are not known here.
//!
//! The lock is on the folder, because the file itself is replaced; so no lock file is left behind. The new content is
//! written to a temporary file with a fixed name (only the holder of the lock uses it), synced to the disk, and renamed
//! to the file's name. All steps go through the open folder, so a parent folder that is swapped meanwhile cannot
//! redirect the write. A file that is not valid is not touched.
//!
//! These functions do not wait for the lock: if it is taken, the caller gets [`SettingsError::Busy`] at once, waits in
//! its own way and tries again. They do wait for the disk, so call them on a thread that may block.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::Serialize;
use serde_json::ser::PrettyFormatter;
use serde_json::{Map, Value};

use crate::check::{Document, Strictness};
use crate::error::SettingsError;
use crate::file::{Links, ReadFailure, Text, read_text_at};
use crate::load::MAX_SETTINGS_BYTES;
use crate::problem::{Origin, SettingsProblem, Severity};

/// The suffix of every temporary file.
pub(crate) const TEMPORARY: &str = ".lathe-tmp";

/// Whose file is changed, which decides how far links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The user's own file: links may lead anywhere.
    User,
    /// A file in a project: `.claude` must resolve to a folder inside the project, and the file must not be a link.
    Project,
}

/// What a change did to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Written,
    /// The file already had the wanted content.
    Unchanged,
}

/// The new content of a file.
pub(crate) struct ReplacementContent {
    pub bytes: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
}

/// Changes the settings file at `path` under the lock of its folder, and creates it if it is absent. A file that has
/// errors or a repeated key is refused, because it would be written without what could not be read. Nothing is written
/// if `change` changes nothing; [`SettingsError::Busy`] is returned at once if the lock is taken.
pub(crate) fn edit(
    path: &Path,
    owner: Owner,
    change: &dyn Fn(&mut Map<String, Value>),
) -> Result<Outcome, SettingsError> {
    rewrite(path, owner, MAX_SETTINGS_BYTES, |path, text| {
        let now = Now::read(path, text)?;
        let mut settings = now.settings.clone();
        change(&mut settings);
        if settings == now.settings {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let indented = PrettyFormatter::with_indent(now.indent.as_bytes());
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, indented);
        settings.serialize(&mut serializer).map_err(|error| SettingsError::Io {
            action: "write",
            path: path.to_owned(),
            source: error.into(),
        })?;
        bytes.push(b'\n');
        Ok(Some(ReplacementContent { bytes, mode: now.mode.unwrap_or(owner.mode()) }))
    })
}

/// Replaces the file at `path` by what `renew` returns, under the lock of its folder; fails with
/// [`SettingsError::Busy`] if the lock is taken. `renew` gets the path with links resolved and the current content, of
/// at most `limit` bytes, or why it cannot be read, which is not an error here; if it returns `None`, the file stays as
/// it is. The folder is created in any case.
pub(crate) fn rewrite(
    path: &Path,
    owner: Owner,
    limit: u64,
    renew: impl FnOnce(
        &Path,
        Result<Option<Text>, ReadFailure>,
    ) -> Result<Option<ReplacementContent>, SettingsError>,
) -> Result<Outcome, SettingsError> {
    let folder = Folder::open(path, owner)?;
    // Read only under the lock: before that, another writer may be about to replace the file.
    folder.lock()?;
    let text = read_text_at(folder.dir.as_fd(), Path::new(folder.name()), Links::Refuse, limit);
    match renew(&folder.path, text)? {
        Some(new) => folder.replace(&new.bytes, new.mode).map(|()| Outcome::Written),
        None => Ok(Outcome::Unchanged),
    }
}

impl Owner {
    /// Returns the permission bits of a new file. A file of the user is for the user alone, because it may hold
    /// secrets.
    fn mode(self) -> u32 {
        match self {
            Self::User => 0o600,
            Self::Project => 0o644,
        }
    }
}

/// The current state of a settings file.
struct Now {
    settings: Map<String, Value>,
    /// The indentation of one level.
    indent: String,
    /// Permission bits, if the file exists.
    mode: Option<u32>,
}

impl Now {
    /// Takes the current content of the file apart. A file with errors is refused, because one that is not understood
    /// is never overwritten, and so is one with a repeated key, of which only the last would be written back. A missing
    /// file counts as empty.
    fn read(path: &Path, text: Result<Option<Text>, ReadFailure>) -> Result<Self, SettingsError> {
        let origin = Origin::File(path.to_owned());
        let broken = |problem: SettingsProblem| SettingsError::Broken(Box::new(problem));
        let text = match text {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(Self { settings: Map::new(), indent: "  ".to_owned(), mode: None }),
            Err(failure) => {
                return Err(broken(SettingsProblem::error(&origin, failure.position(), failure.to_string())));
            }
        };
        let document = Document::read(&text.text, &origin, Strictness::Usual);
        // Writing the file back would silently drop all but the last of several equal keys.
        let hides_something = !document.positions.duplicates.is_empty();
        let mut problems = document.problems.into_iter();
        match problems.find(|problem| problem.severity == Severity::Error || hides_something) {
            Some(problem) => Err(broken(problem)),
            None => Ok(Self {
                settings: document.raw,
                indent: indent_of(&text.text),
                mode: Some(text.stamp.mode & 0o777),
            }),
        }
    }
}

/// The open folder of a file.
struct Folder {
    dir: OwnedFd,
    /// The file, links resolved.
    path: PathBuf,
}

impl Folder {
    /// Opens the folder of a file and creates it if necessary, for the user with all folders above it, in a project
    /// only the last one; the file need not exist. A link of the user's is followed; in a project, a path that is a
    /// link or leads out of the project is an error.
    fn open(path: &Path, owner: Owner) -> Result<Self, SettingsError> {
        let failed = |action: &'static str| {
            let path = path.to_owned();
            move |source: io::Error| SettingsError::Io { action, path, source }
        };
        let outside = || SettingsError::Outside { path: path.to_owned() };
        let parent = path.parent().unwrap_or(Path::new("/"));
        if parent.symlink_metadata().is_err() {
            let mode = if owner == Owner::User { 0o700 } else { 0o755 };
            // In a project only `.claude` itself may be missing; a missing project folder is an error.
            let recursive = owner == Owner::User;
            fs::DirBuilder::new().recursive(recursive).mode(mode).create(parent).or_else(|error| {
                // Another writer created it first.
                match error.kind() {
                    io::ErrorKind::AlreadyExists => Ok(()),
                    _ => Err(failed("create the folder of")(error)),
                }
            })?;
        }
        let path = match owner {
            Owner::User if path.is_symlink() => path.canonicalize().map_err(failed("write"))?,
            Owner::User => path.to_owned(),
            Owner::Project if path.is_symlink() => return Err(outside()),
            Owner::Project => {
                let root = parent.parent().unwrap_or(parent).canonicalize().map_err(failed("write"))?;
                let real = parent.canonicalize().map_err(failed("write"))?;
                if !real.starts_with(&root) {
                    return Err(outside());
                }
                real.join(path.file_name().unwrap_or_default())
            }
        };
        let parent = path.parent().unwrap_or(Path::new("/"));
        // The path is already resolved, so a link found here was put in place after the check above.
        let no_follow = if owner == Owner::Project { OFlags::NOFOLLOW } else { OFlags::empty() };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | no_follow;
        let dir = rustix::fs::openat(CWD, parent, flags, Mode::empty())
            .map_err(|errno| failed("open the folder of")(errno.into()))?;
        Ok(Self { dir, path })
    }

    /// Returns the error for a failed step, with the path of the file.
    fn io(&self, action: &'static str, source: io::Error) -> SettingsError {
        SettingsError::Io { action, path: self.path.clone(), source }
    }

    /// Returns the file name, for calls that are relative to the open folder.
    fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// Takes the lock, which is held until the folder is closed; fails with [`SettingsError::Busy`] at once if it is
    /// taken. Writers of the same process exclude each other too, because each of them opens the folder itself.
    fn lock(&self) -> Result<(), SettingsError> {
        let lock = || rustix::fs::flock(&self.dir, FlockOperation::NonBlockingLockExclusive);
        match rustix::io::retry_on_intr(lock) {
            Ok(()) => Ok(()),
            Err(Errno::WOULDBLOCK) => Err(SettingsError::Busy { path: self.path.clone() }),
            Err(errno) => Err(self.io("lock the folder of", errno.into())),
        }
    }

    /// Writes the content to a temporary file, syncs it and renames it over the old one. The folder must be locked.
    /// After a failure the old file is still there.
    fn replace(&self, content: &[u8], mode: u32) -> Result<(), SettingsError> {
        let mut temporary = OsStr::new(".").to_owned();
        temporary.push(self.name());
        temporary.push(TEMPORARY);
        // A file that exists was left by a writer that died: a living one would hold the lock.
        match rustix::fs::unlinkat(&self.dir, &temporary, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(self.io("replace", errno.into())),
        }
        let result = self.fill(&temporary, content, mode).and_then(|()| {
            rustix::fs::renameat(&self.dir, &temporary, &self.dir, self.name()).map_err(io::Error::from)
        });
        if let Err(error) = result {
            // An error is ignored here: the next writer removes the file, and `doctor` reports it.
            let _ = rustix::fs::unlinkat(&self.dir, &temporary, AtFlags::empty());
            return Err(self.io("write", error));
        }
        // The content was synced before the rename, so a power cut leaves the old file or the new one. The folder is
        // not synced, because it does not matter which of the two remains.
        Ok(())
    }

    /// Creates the temporary file, writes it and syncs it. Fails if the file exists, so nothing is written through a
    /// link.
    fn fill(&self, temporary: &OsStr, content: &[u8], mode: u32) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        #[allow(clippy::useless_conversion, reason = "the type of a mode differs between platforms")]
        let mode = Mode::from_raw_mode(mode.try_into().unwrap_or_default());
        let mut file = File::from(rustix::fs::openat(self.dir.as_fd(), temporary, flags, mode)?);
        file.write_all(content)?;
        file.sync_data()
    }
}

/// Returns the indentation of the first indented line; two blanks if no line is indented.
fn indent_of(text: &str) -> String {
    let blanks = |line: &str| line.chars().take_while(|c| matches!(c, ' ' | '\t')).collect::<String>();
    text.lines().map(blanks).find(|blanks| !blanks.is_empty()).unwrap_or_else(|| "  ".to_owned())
}

#[cfg(test)]
mod tests;
