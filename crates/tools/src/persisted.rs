//! Results that are too large to be shown: the file that holds them, and the text that replaces them.
//!
//! Only [`shown_in_place`] makes the `<persisted-output>` form and only [`both_ends`] the excerpt, for Bash, which
//! writes its file while the command runs, and for the agent, which bounds the results of all tools. The caller decides
//! what is too large. File names are made from the ids of calls, which a model chose: only plain characters of an id
//! reach the disk, and an existing file is never written to.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lathe_exec::SpillFile;
use lathe_protocol::text::first_chars;
use tokio_util::sync::CancellationToken;

pub use crate::files::error::human_size;

use crate::ToolFailure;
use crate::stoppable::{self, Stop};

/// The most characters of a large output that are shown with the name of its file.
const PREVIEW_CHARS: usize = 2000;

/// The most bytes that one file takes; the rest of a result is not kept.
pub const FILE_BYTES: u64 = SpillFile::DEFAULT_CAP_BYTES;

/// The time limit for all file work of one result.
const TIME: Duration = Duration::from_secs(30);

/// How many names are tried for one file.
const NAMES_TRIED: usize = 10_000;

/// A file with a result, or with as much of it as fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedResult {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes of the result in it.
    pub bytes: u64,
    /// Bytes of the whole result.
    pub total_bytes: u64,
}

impl SavedResult {
    /// Returns the words that say where the result is and how much of it, for the end of a sentence.
    pub fn whereabouts(&self) -> String {
        let path = self.path.display();
        if self.bytes < self.total_bytes {
            format!("its first {} are in {path}", human_size(self.bytes))
        } else {
            format!("all of it is in {path}")
        }
    }
}

/// Returns the words that say why a result is not in a file, for the end of a sentence.
pub fn not_kept(why: &str) -> String {
    format!("it could not be kept in a file: {why}")
}

/// Returns what the model reads instead of an output that is in a file: size, file and the first 2 KB of `text`, in
/// whole lines unless the first one is longer than that.
pub fn shown_in_place(text: &str, saved: &SavedResult) -> String {
    let start = first_chars(text, PREVIEW_CHARS);
    let start = start.rfind('\n').map_or(start, |end| &start[..end]);
    let size = human_size(saved.total_bytes);
    let whereabouts = saved.whereabouts();
    let (first, rest) = whereabouts.split_at(1);
    let extent = first.to_uppercase() + rest;
    format!(
        "<persisted-output>\nThe output is too large to be shown ({size}). {extent}\n\n\
         It begins (2KB):\n{start}\n...\n</persisted-output>"
    )
}

/// Returns the beginning and the end of a text, at most `limit` characters together, with a note between them that says
/// how much is left out. `missing_bytes` counts those that the text itself lacks somewhere in its middle.
pub fn both_ends(text: &str, missing_bytes: u64, limit: usize, note: &str) -> String {
    let head = first_chars(text, limit / 2);
    let tail = last_chars(&text[head.len()..], limit / 2);
    let left_out = missing_bytes + (text.len() - head.len() - tail.len()) as u64;
    format!("{head}\n\n[{} left out here; {note}]\n\n{tail}", human_size(left_out))
}

/// Returns the last `count` characters of a text, or all of it if it has fewer.
fn last_chars(text: &str, count: usize) -> &str {
    match text.char_indices().rev().nth(count.saturating_sub(1)) {
        Some((start, _)) if count > 0 => &text[start..],
        Some(_) => "",
        None => text,
    }
}

/// Returns names for a file of this call in `directory`, best first: `before` + id + `after`, then with numbers. All of
/// them are inside the directory, whatever the id is.
pub(crate) fn names(
    directory: &Path,
    before: &str,
    tool_use_id: &str,
    after: &str,
) -> impl Iterator<Item = PathBuf> {
    let safe = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    let id: String = tool_use_id.chars().filter(safe).take(100).collect();
    let id = if id.is_empty() { "call".to_owned() } else { id };
    let (directory, before, after) = (directory.to_owned(), before.to_owned(), after.to_owned());
    (1..=NAMES_TRIED).map(move |number| match number {
        1 => directory.join(format!("{before}{id}{after}")),
        _ => directory.join(format!("{before}{id}-{number}{after}")),
    })
}

/// The content of a file, which decides the end of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Text for the model.
    Text,
    /// Text for the model that is JSON, or its content blocks.
    Json,
    /// The value for programs.
    ValueJson,
}

impl FileKind {
    /// Returns the end of the file name. The endings differ, so that the text and the value of one call do not compete
    /// for a name.
    fn ending(self) -> &'static str {
        match self {
            Self::Text => ".txt",
            Self::Json => ".json",
            Self::ValueJson => "-result.json",
        }
    }
}

/// The place where the results of one call are kept.
#[derive(Debug, Clone)]
pub struct ResultFolder {
    /// Created when the first file is written.
    pub folder: PathBuf,
    /// The base of the file names.
    pub tool_use_id: String,
}

/// Keeps results in files, or says why it cannot.
pub enum ResultSaver<'a> {
    /// Writes files.
    Files {
        /// Where they go.
        place: &'a ResultFolder,
        /// Set when the caller no longer waits for the files.
        stop: &'a StopSaving,
    },
    /// Writes no files, for this reason.
    Refuses(&'a str),
}

/// Tells the work that writes files to end.
pub struct StopSaving(Stop);

/// Runs work that keeps results in files on the blocking pool, and returns its value. An error says why the work was
/// abandoned: the call was cancelled, the disk does not respond, or the work panicked.
pub async fn on_blocking_pool<T: Send + 'static>(
    place: ResultFolder,
    cancel: &CancellationToken,
    work: impl FnOnce(&ResultSaver<'_>) -> T + Send + 'static,
) -> Result<T, String> {
    let in_thread = move |stop: &Stop| {
        let stop = StopSaving(stop.clone());
        work(&ResultSaver::Files { place: &place, stop: &stop })
    };
    stoppable::run(cancel, TIME, in_thread).await.map_err(|failure| match failure {
        ToolFailure::Interrupted => "the call was interrupted".to_owned(),
        ToolFailure::Rejected(why) | ToolFailure::Failed(why) => why,
    })
}

impl ResultSaver<'_> {
    /// Writes what `write` produces to a new file, up to [`FILE_BYTES`], and returns where it is. An error says why the
    /// file is missing; no part of it is left then.
    pub fn save(
        &self,
        kind: FileKind,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<SavedResult, String> {
        let (place, stop) = match self {
            Self::Files { place, stop } => (*place, *stop),
            Self::Refuses(why) => return Err((*why).to_owned()),
        };
        let (path, file) = create(place, kind)?;
        fill(file, stop, write)
            .map(|(bytes, total_bytes)| SavedResult { path: path.clone(), bytes, total_bytes })
            .map_err(|error| {
                // Half a file is useless, least of all on a full disk.
                let _gone_or_not = std::fs::remove_file(&path);
                format!("{}: {error}", path.display())
            })
    }
}

/// Creates a new file in the folder, and the folder if it is missing, both for the user alone. An existing file is
/// never overwritten; it is an error if all names for this call are taken.
fn create(place: &ResultFolder, kind: FileKind) -> Result<(PathBuf, File), String> {
    let folder = &place.folder;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in names(folder, "", &place.tool_use_id, kind.ending()) {
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    Err(format!("{}: it has too many files of one call", folder.display()))
}

/// Writes the file, up to [`FILE_BYTES`]; the rest is only counted. Returns the bytes in it and the bytes that were to
/// be written. Fails if a write fails or the call is stopped.
fn fill(
    file: File,
    stop: &StopSaving,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<(u64, u64)> {
    let mut capped = Capped { file, bytes: 0, total_bytes: 0, stop };
    let mut buffered = BufWriter::with_capacity(1 << 16, &mut capped);
    write(&mut buffered)?;
    buffered.flush()?;
    drop(buffered);
    Ok((capped.bytes, capped.total_bytes))
}

/// A file that takes [`FILE_BYTES`] and only counts the rest.
struct Capped<'a> {
    file: File,
    bytes: u64,
    total_bytes: u64,
    stop: &'a StopSaving,
}

impl Write for Capped<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if self.stop.0.is_set() {
            return Err(io::Error::other("writing it took too long"));
        }
        let part = &part[..part.len().min(1 << 20)];
        let room = usize::try_from(FILE_BYTES - self.bytes).unwrap_or(usize::MAX);
        let kept = &part[..room.min(part.len())];
        self.file.write_all(kept)?;
        self.bytes += kept.len() as u64;
        self.total_bytes += part.len() as u64;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unstopped() -> StopSaving {
        StopSaving(Stop::default())
    }

    #[test]
    fn no_id_leads_out_of_the_folder() {
        for (id, name) in [
            ("toolu_1", "toolu_1.txt"),
            ("../../x", "x.txt"),
            ("/etc/passwd", "etcpasswd.txt"),
            ("..", "call.txt"),
            ("", "call.txt"),
            ("a\0b\nc", "abc.txt"),
        ] {
            let path = names(Path::new("/f"), "", id, ".txt").next().unwrap();
            assert_eq!(path, Path::new("/f").join(name), "{id:?}");
        }
        let long = names(Path::new("/f"), "", &"x".repeat(5000), ".txt").next().unwrap();
        assert!(long.as_os_str().len() < 200);
    }

    #[test]
    fn a_file_holds_no_more_than_its_cap_and_says_what_there_was() {
        let folder = tempfile::tempdir().unwrap();
        let place = ResultFolder { folder: folder.path().join("new"), tool_use_id: "t".to_owned() };
        let stop = unstopped();
        let saver = ResultSaver::Files { place: &place, stop: &stop };
        let whole = FILE_BYTES as usize + 1000;
        let saved = saver.save(FileKind::Text, |out| out.write_all(&vec![b'x'; whole])).unwrap();
        assert_eq!((saved.bytes, saved.total_bytes), (FILE_BYTES, whole as u64));
        assert_eq!(std::fs::metadata(&saved.path).unwrap().len(), FILE_BYTES);
        let second = saver.save(FileKind::Text, |out| out.write_all(b"second")).unwrap();
        assert_eq!(second.path, place.folder.join("t-2.txt"));
        assert_eq!(std::fs::metadata(&saved.path).unwrap().len(), FILE_BYTES, "the first is as it was");
    }

    #[test]
    fn a_disk_that_fills_up_is_an_error() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let error = fill(full, &unstopped(), |out| out.write_all(&[b'x'; 1 << 20])).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        // These few bytes reach the disk only when the buffer is flushed.
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let error = fill(full, &unstopped(), |out| out.write_all(b"x")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn half_a_file_is_taken_away() {
        let folder = tempfile::tempdir().unwrap();
        let place = ResultFolder { folder: folder.path().to_owned(), tool_use_id: "t".to_owned() };
        let stop = unstopped();
        let saver = ResultSaver::Files { place: &place, stop: &stop };
        let why = saver
            .save(FileKind::Json, |out| {
                out.write_all(&[b'x'; 1 << 20])?;
                Err(io::Error::from(io::ErrorKind::StorageFull))
            })
            .unwrap_err();
        assert!(why.contains("t.json: "), "{why}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
