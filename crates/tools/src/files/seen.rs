//! What the model has seen of which file: the base for "read it before you change it" and for noticing that a file
//! changed in between.
//!
//! Keys are real paths (symlinks resolved), so two names of one file share an entry. Bounded: the least recently
//! recorded entries are dropped. Such a file then counts as unread, which is the safe side.

use std::collections::HashMap;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::open::{Stamp, open_regular};
use super::real;

/// The most files that are remembered.
const MAX_FILES: usize = 4096;

/// A file that a shell command printed is read again for its hash up to this size.
const MAX_NOTED_BYTES: u64 = 1 << 20;

/// The files that one agent has read or written. A copy shares the entries until one of the two changes.
#[derive(Debug, Clone, Default)]
pub struct FilesRead {
    files: Arc<HashMap<PathBuf, (u64, Seen)>>,
    /// Increases with every entry that is recorded; looking one up does not count.
    clock: u64,
}

/// What is remembered of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub view: View,
    stamp: Stamp,
    /// The hash of all bytes, if all bytes were read.
    hash: Option<u64>,
}

/// How much of the current content the model knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Whole,
    /// Some lines of it.
    Part,
    /// Nothing, or not what other programs changed: it was edited without having been read.
    Blind,
}

impl Seen {
    /// Returns the entry of a file of which all bytes were at hand; `view` says how much of it the model knows.
    pub fn of_bytes(view: View, stamp: Stamp, bytes: &[u8]) -> Self {
        Self { view, stamp, hash: Some(hash_of(bytes)) }
    }

    /// Returns the entry of a file that was read in part. It has no hash, so only the stamp tells whether the file
    /// changed.
    pub fn of_part(stamp: Stamp) -> Self {
        Self { view: View::Part, stamp, hash: None }
    }

    /// Returns whether the file still has the content that was seen, by its bytes where all of them were seen,
    /// otherwise by its stamp.
    pub fn is_current(&self, stamp: &Stamp, bytes: &[u8]) -> bool {
        match self.hash {
            Some(hash) => hash == hash_of(bytes),
            None => self.stamp.same_content(stamp),
        }
    }

    /// Returns whether the file still has the content that was seen, judged by the stamp alone, for files whose bytes
    /// are not at hand.
    pub fn is_current_by_stamp(&self, stamp: &Stamp) -> bool {
        self.stamp.same_content(stamp)
    }
}

/// Returns the hash of a file's bytes. Only for comparing within one process: it is not stable between versions.
fn hash_of(bytes: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

impl FilesRead {
    /// Records what was seen of the file at a real path, in place of its entry before, and drops the oldest entry
    /// beyond [`MAX_FILES`].
    pub(crate) fn record(&mut self, path: PathBuf, seen: Seen) {
        self.clock += 1;
        let files = Arc::make_mut(&mut self.files);
        files.insert(path, (self.clock, seen));
        if files.len() > MAX_FILES {
            let oldest = files.iter().min_by_key(|(_, (clock, _))| *clock);
            if let Some(path) = oldest.map(|(path, _)| path.clone()) {
                files.remove(&path);
            }
        }
    }

    /// Returns what was seen of the file at a real path; `None` counts as unread. Does not make the entry newer.
    pub(crate) fn get(&self, path: &Path) -> Option<Seen> {
        self.files.get(path).map(|(_, seen)| *seen)
    }

    /// Returns at most `count` of the files, those recorded last first: they are worth restoring after a compaction.
    pub fn recent(&self, count: usize) -> Vec<PathBuf> {
        let mut files: Vec<(u64, &PathBuf)> =
            self.files.iter().map(|(path, (clock, _))| (*clock, path)).collect();
        files.sort_unstable_by_key(|(clock, _)| std::cmp::Reverse(*clock));
        files.into_iter().take(count).map(|(_, path)| path.clone()).collect()
    }

    /// Forgets everything, when the context that held the files is gone.
    pub fn clear(&mut self) {
        self.files = Arc::default();
    }
}

/// Returns whether a file has not changed since `mtime_ms` (milliseconds since 1970). False if it cannot be looked at;
/// a link is judged by its own time.
pub(crate) fn is_unchanged_since(path: &Path, mtime_ms: f64) -> bool {
    let modified = path.symlink_metadata().and_then(|metadata| metadata.modified());
    let since_epoch = modified.ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    // Hosts round the time down or to the nearest millisecond.
    since_epoch.is_some_and(|time| time.as_secs_f64() * 1000.0 < mtime_ms + 1.0)
}

/// Returns the real path and the entry of a file that was shown to the model by other means than Read. A file that is
/// too large to read here counts as seen in part; `None` if it cannot be opened.
pub(crate) fn look_at(path: &Path, shown: Shown) -> Option<(PathBuf, Seen)> {
    let path = real::follow(path).ok()?;
    let opened = open_regular(&path).ok()?;
    let mut bytes = Vec::new();
    let whole = shown == Shown::Whole
        && opened.stamp.size <= MAX_NOTED_BYTES
        && std::io::Read::read_to_end(&mut std::io::Read::take(&opened.file, MAX_NOTED_BYTES), &mut bytes)
            .is_ok();
    let seen =
        if whole { Seen::of_bytes(View::Whole, opened.stamp, &bytes) } else { Seen::of_part(opened.stamp) };
    Some((path, seen))
}

/// Returns the current text of the file at a real path, up to `max_bytes`, and only whole lines of a longer one. `None`
/// if it cannot be opened, is not UTF-8 or contains a NUL, or if not even its first line fits.
pub fn current_text(path: &Path, max_bytes: usize) -> Option<Excerpt> {
    let opened = open_regular(path).ok()?;
    let mut bytes = Vec::new();
    let mut limited = std::io::Read::take(&opened.file, max_bytes as u64 + 1);
    std::io::Read::read_to_end(&mut limited, &mut bytes).ok()?;
    let shown = if bytes.len() > max_bytes { Shown::Part } else { Shown::Whole };
    if shown == Shown::Part {
        bytes.truncate(max_bytes);
        let end = bytes.iter().rposition(|byte| *byte == b'\n')?;
        bytes.truncate(end + 1);
    }
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))?;
    Some(Excerpt { text, shown })
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The text.
    pub text: String,
    /// How much of the file it is.
    pub shown: Shown,
}

/// How much of a file was shown to the model by other means than Read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// All of it.
    Whole,
    /// Some lines.
    Part,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "tests look at the real file system")]

    use super::*;

    #[test]
    fn the_oldest_entry_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        std::fs::write(&file, "x").unwrap();
        let stamp = open_regular(&real::follow(&file).unwrap()).unwrap().stamp;
        let mut seen = FilesRead::default();
        for n in 0..=MAX_FILES {
            seen.record(PathBuf::from(n.to_string()), Seen::of_part(stamp));
        }
        assert_eq!(seen.get(Path::new("0")), None);
        assert!(seen.get(Path::new("1")).is_some());
        assert_eq!(seen.recent(1), [PathBuf::from(MAX_FILES.to_string())]);
        seen.clear();
        assert!(seen.recent(1).is_empty());
    }

    #[test]
    fn an_excerpt_ends_with_a_line_and_is_text() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let excerpt = |path: &Path, max| current_text(path, max).map(|found| (found.text, found.shown));
        let file = write("f", b"one\ntwo\nthree");
        assert_eq!(excerpt(&file, 13), Some(("one\ntwo\nthree".to_owned(), Shown::Whole)));
        assert_eq!(excerpt(&file, 10), Some(("one\ntwo\n".to_owned(), Shown::Part)));
        assert_eq!(excerpt(&file, 2), None, "not even a line fits");
        assert_eq!(excerpt(&write("binary", b"a\0b"), 9), None);
        assert_eq!(excerpt(&write("latin", b"\xe9"), 9), None);
        assert_eq!(excerpt(&dir.path().join("none"), 9), None);
    }

    #[test]
    fn what_a_shell_command_showed_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().canonicalize().unwrap().join("f");
        std::fs::write(&file, "x").unwrap();
        let mut seen = FilesRead::default();
        let (path, looked_at) = look_at(&file, Shown::Whole).unwrap();
        seen.record(path, looked_at);
        let entry = seen.get(&file).unwrap();
        assert_eq!(entry.view, View::Whole);
        let stamp = open_regular(&real::follow(&file).unwrap()).unwrap().stamp;
        assert!(entry.is_current(&stamp, b"x"));
        assert!(!entry.is_current(&stamp, b"y"));
        assert_eq!(look_at(&dir.path().join("none"), Shown::Part), None);
        assert_eq!(seen.recent(9), [file]);
    }
}
