//! File errors, and how they are worded for the model: the name of the errno, the system's text in lower case, the
//! operation and the path, as in `EISDIR: illegal operation on a directory, read '/x'`.

use std::path::Path;

use rustix::io::Errno;

/// Why a file could not be opened, read or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FileError {
    #[error("the file does not exist")]
    Missing,
    #[error("it is a directory")]
    Directory,
    /// A device, FIFO, socket, or a file of a kernel file system such as `/proc`: reading one may block,
    /// never end, or have effects.
    #[error("it is a device or process file")]
    Special,
    #[error("it has {size} bytes, more than may be read")]
    TooLarge { size: u64 },
    /// Another program changed, created or removed it between reading and replacing.
    #[error("it was changed by someone else at the same moment")]
    Changed,
    /// A symbolic link is now where there was none when the call was decided.
    #[error("it leads elsewhere than a moment ago")]
    Swapped,
    #[error("{operation}: {errno}")]
    System { errno: Errno, operation: &'static str },
}

impl FileError {
    /// Maps an errno of `operation` to a variant of this type. One without a variant of its own becomes
    /// [`FileError::System`], which names the operation.
    pub fn from_errno(errno: Errno, operation: &'static str) -> Self {
        match errno {
            Errno::NOENT => Self::Missing,
            Errno::ISDIR => Self::Directory,
            Errno::NXIO | Errno::NODEV | Errno::AGAIN => Self::Special,
            errno => Self::System { errno, operation },
        }
    }

    /// Maps an error of the standard library like [`Self::from_errno`]. One without an errno counts as an input/output
    /// error.
    pub fn from_io(error: &std::io::Error, operation: &'static str) -> Self {
        Self::from_errno(Errno::from_io_error(error).unwrap_or(Errno::IO), operation)
    }

    /// Returns the error in words for the model. `path` is as the model wrote it.
    pub fn in_words(self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Missing => format!("ENOENT: no such file or directory, open '{path}'"),
            Self::Directory => {
                format!("EISDIR: illegal operation on a directory, read '{path}'")
            }
            Self::Special => format!(
                "Cannot read '{path}': this path names a device or process file that this tool does not read."
            ),
            Self::TooLarge { size } => {
                format!("File is too large for this tool ({}): {path}", human_size(size))
            }
            Self::Changed => format!(
                "File was changed by something else at the same moment: {path}. Read it again, then retry."
            ),
            Self::Swapped => format!(
                "'{path}' leads elsewhere now than when the call was checked: a symbolic link was put in its way. \
                 Nothing was read or written."
            ),
            Self::System { errno, operation } => {
                let (name, words) = errno_in_words(errno);
                format!("{name}: {words}, {operation} '{path}'")
            }
        }
    }
}

/// Returns the name of an errno and its text in lower case. One that is not in the list is named by its number, with
/// the text of the system.
fn errno_in_words(errno: Errno) -> (String, String) {
    let (name, words) = match errno {
        Errno::ACCESS => ("EACCES", "permission denied"),
        Errno::PERM => ("EPERM", "operation not permitted"),
        Errno::NOTDIR => ("ENOTDIR", "not a directory"),
        Errno::EXIST => ("EEXIST", "file already exists"),
        Errno::LOOP => ("ELOOP", "too many symbolic links encountered"),
        Errno::NAMETOOLONG => ("ENAMETOOLONG", "name too long"),
        Errno::NOSPC => ("ENOSPC", "no space left on device"),
        Errno::DQUOT => ("EDQUOT", "disk quota exceeded"),
        Errno::FBIG => ("EFBIG", "file too large"),
        Errno::ROFS => ("EROFS", "read-only file system"),
        Errno::MFILE => ("EMFILE", "too many open files"),
        Errno::NFILE => ("ENFILE", "file table overflow"),
        Errno::IO => ("EIO", "i/o error"),
        Errno::BUSY => ("EBUSY", "resource busy or locked"),
        Errno::TXTBSY => ("ETXTBSY", "text file is busy"),
        Errno::STALE => ("ESTALE", "stale file handle"),
        Errno::INVAL => ("EINVAL", "invalid argument"),
        other => {
            let words = std::io::Error::from(other).to_string();
            return (format!("errno {}", other.raw_os_error()), words);
        }
    };
    (name.to_owned(), words.to_owned())
}

/// Returns a size in words for people, with at most one digit after the point: `193 bytes`, `644.5KB`, `3MB`. A unit
/// has 1024 of the smaller one.
pub fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    let text = format!("{size:.1}");
    format!("{}{}", text.strip_suffix(".0").unwrap_or(&text), UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let sizes = [193, 262_144, 660_000, 3 << 20, 1 << 40].map(human_size);
        assert_eq!(sizes, ["193 bytes", "256KB", "644.5KB", "3MB", "1TB"]);
    }

    #[test]
    fn errors_name_the_errno_and_the_path() {
        let words = FileError::from_errno(Errno::NOSPC, "write").in_words(Path::new("/x"));
        assert_eq!(words, "ENOSPC: no space left on device, write '/x'");
        let odd = FileError::from_errno(Errno::PROTO, "open").in_words(Path::new("/x"));
        assert!(odd.starts_with("errno "), "{odd}");
    }
}
