//! Where the worktrees of a repository lie: `.claude/worktrees` at its root. The folders on the way must be folders of
//! their own, because a repository may bring links in their place; a file there, locked while one is created or
//! removed, keeps two sessions apart.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::refusal::WorktreeRefusal;

/// The folder below the root of the repository.
const FOLDERS: [&str; 2] = [".claude", "worktrees"];

/// Keeps the worktrees out of `git status` and searches of the checkout that they lie in.
const IGNORE_ALL: &str = "*\n";

/// How long another process is waited for; a checkout of a large repository takes a while.
const LOCK_WAIT: Duration = Duration::from_secs(120);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// The folder of worktrees while no other session creates or removes one in it.
pub(super) struct LockedPlace {
    /// The folder.
    pub path: PathBuf,
    /// Locked until this is dropped; the kernel lets go of it when the process ends.
    _lock: File,
}

impl LockedPlace {
    /// Creates the folder of the worktrees if it is missing, and takes its lock, which is held until the result is
    /// dropped. Fails if the lock is not free within [`LOCK_WAIT`].
    pub async fn take(top: &Path, cancel: &CancellationToken) -> Result<Self, WorktreeRefusal> {
        let path = make_folders(top)?;
        ignore_all(&path)?;
        let lock = lock(&path.join(".lock"), cancel).await?;
        Ok(Self { path, _lock: lock })
    }
}

/// Creates the folders that are missing and returns the innermost. A link or a file in the place of one is an error.
fn make_folders(top: &Path) -> Result<PathBuf, WorktreeRefusal> {
    let mut path = top.to_owned();
    for name in FOLDERS {
        path.push(name);
        match fs::create_dir(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if !is_own_folder(&path) {
                    return Err(WorktreeRefusal::NotAFolder { path });
                }
            }
            Err(error) => {
                return Err(WorktreeRefusal::disk(format!("creating {}", path.display()), &error));
            }
        }
    }
    Ok(path)
}

/// Returns whether there is a folder at a path, and not a link to one; false if there is nothing.
pub(super) fn is_own_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

/// Writes the file that keeps git from listing the worktrees. One that exists stays as it is.
fn ignore_all(path: &Path) -> Result<(), WorktreeRefusal> {
    let file = path.join(".gitignore");
    match OpenOptions::new().write(true).create_new(true).open(&file) {
        Ok(mut opened) => opened
            .write_all(IGNORE_ALL.as_bytes())
            .map_err(|error| WorktreeRefusal::disk(format!("writing {}", file.display()), &error)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(WorktreeRefusal::disk(format!("writing {}", file.display()), &error)),
    }
}

/// Creates the file if it is missing, locks it and returns it; closing it releases the lock. It is tried again with
/// pauses, because waiting for the lock would hold the thread of all sessions.
async fn lock(path: &Path, cancel: &CancellationToken) -> Result<File, WorktreeRefusal> {
    let failed = |error: &std::io::Error| WorktreeRefusal::disk(format!("locking {}", path.display()), error);
    // Without following a link, and without waiting where a pipe lies in the place of the file.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags as i32);
    let file = options.open(path).map_err(|error| failed(&error))?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err(WorktreeRefusal::NotAFolder { path: path.to_owned() });
    }
    let deadline = Instant::now() + LOCK_WAIT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(failed(&error)),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                return Err(WorktreeRefusal::Busy { seconds: LOCK_WAIT.as_secs() });
            }
            Err(TryLockError::WouldBlock) => {}
        }
        tokio::select! {
            () = cancel.cancelled() => return Err(WorktreeRefusal::Interrupted),
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// Returns the words as arguments of a command.
pub(super) fn words<'a>(words: &[&'a str]) -> Vec<&'a OsStr> {
    words.iter().map(|word| OsStr::new(*word)).collect()
}
