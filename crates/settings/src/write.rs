//! Changes a settings file, or another file of the user: locked, as a whole, and without losing what it does not understand.
//!
//! The lock is on the folder, because the file itself is replaced; so no lock file is left behind. The new
//! content goes to a temporary file of a fixed name (the lock makes it ours), reaches the disk, and takes the
//! file's name. All steps go through the open folder, so a parent that is swapped meanwhile cannot redirect the
//! write. A file that is not valid is not touched.
//!
//! A lock that is taken is not waited for: the caller gets [`SettingsError::Busy`] at once, waits in its own way and tries
//! again. The calls write to the disk and wait for it, so they belong on a thread that may block.

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

/// What every temporary file of ours ends in.
pub(crate) const TEMPORARY: &str = ".lathe-tmp";

/// Whose file it is, which says how far links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The user's own: links lead wherever the user wants.
    User,
    /// In a project: `.claude` must lie inside, and the file must be one.
    Project,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Written,
    /// It already said so.
    Unchanged,
}

/// What a file is to hold from now on.
pub(crate) struct ReplacementContent {
    pub bytes: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
}

/// Changes the settings at `path` with `change`.
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

/// Replaces the file at `path` by what `renew` makes of it, under the lock of its folder. `renew` gets the path with
/// links resolved and what was read; `None` from it leaves the file as it is.
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
    folder.lock()?;
    let text = read_text_at(folder.dir.as_fd(), Path::new(folder.name()), Links::Refuse, limit);
    match renew(&folder.path, text)? {
        Some(new) => folder.replace(&new.bytes, new.mode).map(|()| Outcome::Written),
        None => Ok(Outcome::Unchanged),
    }
}

impl Owner {
    /// Permission bits of a new file: the user's settings may hold secrets.
    fn mode(self) -> u32 {
        match self {
            Self::User => 0o600,
            Self::Project => 0o644,
        }
    }
}

/// A settings file as it is now.
struct Now {
    settings: Map<String, Value>,
    /// What one level is indented by.
    indent: String,
    /// Permission bits, if there is a file.
    mode: Option<u32>,
}

impl Now {
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
    fn open(path: &Path, owner: Owner) -> Result<Self, SettingsError> {
        let failed = |action: &'static str| {
            let path = path.to_owned();
            move |source: io::Error| SettingsError::Io { action, path, source }
        };
        let outside = || SettingsError::Outside { path: path.to_owned() };
        let parent = path.parent().unwrap_or(Path::new("/"));
        if parent.symlink_metadata().is_err() {
            let mode = if owner == Owner::User { 0o700 } else { 0o755 };
            let recursive = owner == Owner::User;
            fs::DirBuilder::new().recursive(recursive).mode(mode).create(parent).or_else(|error| {
                // Another writer was faster.
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
        let no_follow = if owner == Owner::Project { OFlags::NOFOLLOW } else { OFlags::empty() };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | no_follow;
        let dir = rustix::fs::openat(CWD, parent, flags, Mode::empty())
            .map_err(|errno| failed("open the folder of")(errno.into()))?;
        Ok(Self { dir, path })
    }

    fn io(&self, action: &'static str, source: io::Error) -> SettingsError {
        SettingsError::Io { action, path: self.path.clone(), source }
    }

    fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// Held until the folder is closed. Writers of the same process exclude each other too: each opens the folder anew.
    fn lock(&self) -> Result<(), SettingsError> {
        let lock = || rustix::fs::flock(&self.dir, FlockOperation::NonBlockingLockExclusive);
        match rustix::io::retry_on_intr(lock) {
            Ok(()) => Ok(()),
            Err(Errno::WOULDBLOCK) => Err(SettingsError::Busy { path: self.path.clone() }),
            Err(errno) => Err(self.io("lock the folder of", errno.into())),
        }
    }

    fn replace(&self, content: &[u8], mode: u32) -> Result<(), SettingsError> {
        let mut temporary = OsStr::new(".").to_owned();
        temporary.push(self.name());
        temporary.push(TEMPORARY);
        // A writer that died left it behind; nobody else holds the lock.
        match rustix::fs::unlinkat(&self.dir, &temporary, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(self.io("replace", errno.into())),
        }
        let result = self.fill(&temporary, content, mode).and_then(|()| {
            rustix::fs::renameat(&self.dir, &temporary, &self.dir, self.name()).map_err(io::Error::from)
        });
        if let Err(error) = result {
            // If this fails too, the next writer and `doctor` see the file.
            let _ = rustix::fs::unlinkat(&self.dir, &temporary, AtFlags::empty());
            return Err(self.io("write", error));
        }
        // The content is on the disk before it gets its name, so a power cut leaves the old file or the new one.
        // Which of them is not worth another wait.
        Ok(())
    }

    fn fill(&self, temporary: &OsStr, content: &[u8], mode: u32) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        #[allow(clippy::useless_conversion, reason = "the type of a mode differs between platforms")]
        let mode = Mode::from_raw_mode(mode.try_into().unwrap_or_default());
        let mut file = File::from(rustix::fs::openat(self.dir.as_fd(), temporary, flags, mode)?);
        file.write_all(content)?;
        file.sync_data()
    }
}

/// What the first indented line starts with.
fn indent_of(text: &str) -> String {
    let blanks = |line: &str| line.chars().take_while(|c| matches!(c, ' ' | '\t')).collect::<String>();
    text.lines().map(blanks).find(|blanks| !blanks.is_empty()).unwrap_or_else(|| "  ".to_owned())
}

#[cfg(test)]
mod tests;
