//! Copies of whole files, taken and restored, for callers that keep the state of a file before a change. Paths are real
//! ones: no link on the way is followed, so a restored file never ends up at the target of a link that was made
//! meanwhile.

use std::path::Path;

use super::FileError;
use super::open::Stamp;
use super::patch::structured_patch;
use super::real::Parents;
use super::replace::{Expected, Target};

/// Texts up to this size are compared line by line; of larger ones only the number of lines is reported.
const COMPARED_BYTES: usize = 1 << 20;

/// A file as it was at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCopy {
    /// Its content.
    pub bytes: Vec<u8>,
    /// Its permission bits.
    pub mode: u32,
}

/// Enough to notice that a file has not been touched since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMark(Stamp);

/// Why a file was not copied or restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeepError {
    /// The path is a link or goes through one, or the file has further names, or it is not a regular file.
    #[error("it is a link, has further names, or is not a regular file")]
    NotPlain,
    /// Larger than the caller allows.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// Turns an error into the reason why a file is not kept: everything that is not a plain file is
/// [`KeepError::NotPlain`].
fn failed(error: FileError, path: &Path) -> KeepError {
    match error {
        FileError::Swapped | FileError::Special | FileError::Directory => KeepError::NotPlain,
        error => KeepError::Failed(error.in_words(path)),
    }
}

/// Copies the file at a path, and returns the copy with the mark of the state it was taken in; `None` if there is none.
/// Fails if it is not a plain file or has more than `max_bytes`. Waits while another call is at the file.
pub fn take(path: &Path, max_bytes: u64) -> Result<Option<(FileCopy, FileMark)>, KeepError> {
    let target = match Target::at(path.to_owned(), Parents::MustExist) {
        Ok(target) => target,
        Err(FileError::Missing) => return Ok(None),
        Err(error) => return Err(failed(error, path)),
    };
    match target.read(max_bytes) {
        Ok(None) => Ok(None),
        Ok(Some(original)) => {
            let copy = FileCopy { bytes: original.bytes, mode: original.stamp.mode & 0o7777 };
            Ok(Some((copy, FileMark(original.stamp))))
        }
        Err(FileError::TooLarge { .. }) => Err(KeepError::TooLarge(max_bytes)),
        Err(error) => Err(failed(error, path)),
    }
}

/// Returns the mark of the file at a path, without reading it; `None` if there is none or it cannot be looked at. Waits
/// while another call is at the file.
pub fn mark(path: &Path) -> Option<FileMark> {
    Target::at(path.to_owned(), Parents::MustExist).ok()?.stamp().ok()?.map(FileMark)
}

/// Restores content and mode of a file, whatever file is there now; missing folders are created. Fails if something
/// else than a plain file is there, or a file with further names.
pub fn put_back(path: &Path, copy: &FileCopy) -> Result<(), KeepError> {
    let failed = |error| failed(error, path);
    let target = Target::at(path.to_owned(), Parents::Create).map_err(failed)?;
    match target.stamp().map_err(failed)? {
        Some(now) => {
            only_name(&target, path)?;
            let wanted = Stamp { mode: copy.mode, ..now };
            target.replace(&copy.bytes, Expected::Unchanged(&wanted)).map_err(failed)?;
        }
        None => {
            target.replace(&copy.bytes, Expected::Absent).map_err(failed)?;
            target.set_mode(copy.mode).map_err(failed)?;
        }
    }
    Ok(())
}

/// Checks that the file at a path may be replaced or removed: it is missing, or it is a plain file without further
/// names. Changes nothing.
pub fn may_change(path: &Path) -> Result<(), KeepError> {
    let failed = |error| failed(error, path);
    let target = match Target::at(path.to_owned(), Parents::MustExist) {
        Err(FileError::Missing) => return Ok(()),
        result => result.map_err(failed)?,
    };
    match target.stamp().map_err(failed)? {
        Some(_) => only_name(&target, path),
        None => Ok(()),
    }
}

/// Removes the file at a path; no effect if it is missing. Fails if it is not a plain file, or has further names.
pub fn remove(path: &Path) -> Result<(), KeepError> {
    let failed = |error| failed(error, path);
    let target = match Target::at(path.to_owned(), Parents::MustExist) {
        Err(FileError::Missing) => return Ok(()),
        result => result.map_err(failed)?,
    };
    if target.stamp().map_err(failed)?.is_none() {
        return Ok(());
    }
    only_name(&target, path)?;
    target.remove().map_err(failed)
}

/// Fails with [`KeepError::NotPlain`] if the file has further names (hard links): it also belongs to those, so it is
/// left alone.
fn only_name(target: &Target, path: &Path) -> Result<(), KeepError> {
    match target.links().map_err(|error| failed(error, path))? {
        0 | 1 => Ok(()),
        _more => Err(KeepError::NotPlain),
    }
}

/// Returns how many lines are added and removed, in this order, when `old` becomes `new`. Binary content counts as no
/// lines; very large content is not compared, so that all its lines count as replaced.
pub fn changed_lines(old: &[u8], new: &[u8]) -> (u64, u64) {
    let (Ok(old), Ok(new)) = (std::str::from_utf8(old), std::str::from_utf8(new)) else { return (0, 0) };
    if old.len().max(new.len()) > COMPARED_BYTES {
        return (new.lines().count() as u64, old.lines().count() as u64);
    }
    let patch = structured_patch(old, new);
    let lines = || patch.iter().flat_map(|hunk| &hunk.lines);
    let count = |prefix: char| lines().filter(|line| line.starts_with(prefix)).count() as u64;
    (count('+'), count('-'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "tests look at the real file system")]

    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        (folder, real)
    }

    #[test]
    fn a_file_comes_back_with_its_mode_also_when_its_folder_is_gone() {
        let (_folder, dir) = folder();
        let path = dir.join("a/b/run.sh");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
        let (copy, before) = take(&path, 100).unwrap().unwrap();
        assert_eq!(mark(&path), Some(before));
        fs::write(&path, "two").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_ne!(mark(&path), Some(before));
        put_back(&path, &copy).unwrap();
        assert_eq!(
            (fs::read_to_string(&path).unwrap().as_str(), fs::metadata(&path).unwrap().mode() & 0o7777),
            ("one", 0o751)
        );
        fs::remove_dir_all(dir.join("a")).unwrap();
        assert_eq!(take(&path, 100).unwrap(), None);
        put_back(&path, &copy).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o751);
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn links_are_never_followed() {
        let (_folder, dir) = folder();
        let outside = dir.join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("f"), "theirs").unwrap();
        let copy = FileCopy { bytes: b"mine".to_vec(), mode: 0o644 };
        symlink(outside.join("f"), dir.join("link")).unwrap();
        symlink(&outside, dir.join("sub")).unwrap();
        fs::hard_link(outside.join("f"), dir.join("hard")).unwrap();
        for path in [dir.join("link"), dir.join("sub/f"), dir.join("hard")] {
            assert_eq!(put_back(&path, &copy), Err(KeepError::NotPlain), "{}", path.display());
            assert_eq!(remove(&path), Err(KeepError::NotPlain), "{}", path.display());
            assert_eq!(may_change(&path), Err(KeepError::NotPlain), "{}", path.display());
        }
        assert_eq!(put_back(&dir.join("sub/new"), &copy), Err(KeepError::NotPlain));
        assert_eq!(fs::read_to_string(outside.join("f")).unwrap(), "theirs");
        assert_eq!(take(&outside.join("f"), 3), Err(KeepError::TooLarge(3)));
    }

    #[test]
    fn lines_are_counted() {
        assert_eq!(changed_lines(b"a\nb\n", b"a\nc\nd\n"), (2, 1));
        assert_eq!(changed_lines(b"", b"a\n"), (1, 0));
        assert_eq!(changed_lines(b"\xff\n", b"a\n"), (0, 0));
    }
}
