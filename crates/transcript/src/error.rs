//! Errors of session files, sorted by what the caller can do: refuse the session (in use, not found), go on without
//! saving it (read-only), or go on and try again later (disk full). Damage inside a file is never an error: readers
//! report it as a warning and load the rest.

use std::io;
use std::path::{Path, PathBuf};

/// A failed operation on a session file.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// The file does not exist, or is empty, which counts as absent.
    #[error("no session file at {}", path.display())]
    NotFound {
        /// The path of the missing file.
        path: PathBuf,
    },
    /// The file of a new session already exists.
    #[error("session file {} already exists", path.display())]
    AlreadyExists {
        /// The existing file.
        path: PathBuf,
    },
    /// Another process (or another writer of this one) has the session open.
    #[error("session file {} is in use{}", path.display(), in_use_by(*holder))]
    Locked {
        /// The locked file.
        path: PathBuf,
        /// Process id of the holder, if the system tells it. Without one, the holder may just have been killed, and the
        /// lock can be free a moment later.
        holder: Option<u32>,
    },
    /// The disk, the quota or the file size limit is exhausted. The writer keeps the record and tries again.
    #[error("no space left on the filesystem of {}", path.display())]
    NoSpace {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// The file cannot be written at all: the file system is read-only, or a permission is missing.
    #[error("no permission to write {}", path.display())]
    ReadOnly {
        /// The file or folder that could not be written.
        path: PathBuf,
    },
    /// The file was removed or replaced while the writer had it open; further records would be lost.
    #[error("session file {} was deleted while in use", path.display())]
    Deleted {
        /// The path of the removed file.
        path: PathBuf,
    },
    /// The disk stayed full for so long that the waiting records exceeded their limit.
    #[error("gave up on {}: more than {limit} bytes waited for space on the disk", path.display())]
    BacklogFull {
        /// The file that could not grow.
        path: PathBuf,
        /// The limit in bytes.
        limit: usize,
    },
    /// Any other failure of the file system.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted, as a verb such as `open`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A record could not be serialised.
    #[error("serialise a record: {0}")]
    Json(#[from] serde_json::Error),
    /// A session id that is not a UUID; such ids never become part of a path.
    #[error("`{0}` is not a session id (a UUID)")]
    BadSessionId(String),
    /// A blank title.
    #[error("a session title cannot be empty")]
    EmptyTitle,
    /// `--resume-session-at` (or a fork point) names a record that does not exist. Clients match this text.
    #[error("No message found with message.uuid of: {0}")]
    NoSuchMessage(String),
    /// `--resume-drops-turn`: the cut would drop more than the named turn. Clients match the beginning.
    #[error(
        "Resume rejected by --resume-drops-turn: resuming at {at} would discard entries not attributable to \
         turn {turn}: {reason}"
    )]
    DropsTurn {
        /// The record of `--resume-session-at`.
        at: String,
        /// The prompt of `--resume-drops-turn`.
        turn: String,
        /// Which record would also be dropped.
        reason: String,
    },
}

/// Returns the end of the message about a locked file: the process that holds the lock, or nothing if it is unknown.
fn in_use_by(holder: Option<u32>) -> String {
    holder.map(|pid| format!(" by process {pid}")).unwrap_or_default()
}

impl TranscriptError {
    /// Returns the error for a failed I/O operation, classified by what the caller can do about it. `action` is a verb
    /// such as `open`, for the message.
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            // `FileTooLarge` is the size limit of a process (RLIMIT_FSIZE), which acts like a quota.
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::NoSpace { path }
            }
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Self::ReadOnly { path },
            _ => Self::Io { action, path, source },
        }
    }
}

/// A result whose error is a [`TranscriptError`].
pub type Result<T, E = TranscriptError> = std::result::Result<T, E>;
