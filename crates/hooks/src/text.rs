//! Bounds the texts of hooks: texts for the model and the user are cut at [`MAX_TEXT_CHARS`], and a longer text is
//! written to a file as a whole if there is a folder for it.
//!
//! The write blocks an async thread, which is acceptable because the output of a hook is bounded and the write only
//! reaches the page cache.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use lathe_protocol::text::first_chars;

/// The number of characters that a text of a hook may have.
pub const MAX_TEXT_CHARS: usize = 10_000;

/// Cuts the texts of one hook.
pub(crate) struct Cutter {
    /// The folder for long texts.
    pub dir: Option<PathBuf>,
    /// Part of the file name, different for each hook.
    pub hook_id: String,
    /// How many files were already written for this hook.
    files: usize,
}

impl Cutter {
    /// Creates a cutter for the texts of one hook. Long texts are saved in `dir`; without it, the rest of a long
    /// text is lost.
    pub fn new(dir: Option<&Path>, hook_id: &str) -> Self {
        Self { dir: dir.map(Path::to_owned), hook_id: hook_id.to_owned(), files: 0 }
    }

    /// Returns the text, or its start with a note about the rest; never longer than [`MAX_TEXT_CHARS`]. A longer text
    /// is written to a new file in the folder, if there is one.
    pub fn cut(&mut self, text: String) -> String {
        if fits(&text) {
            return text;
        }
        let note = match self.keep(&text) {
            Some(Ok(path)) => format!("all of it is in {}", path.display()),
            Some(Err(error)) => format!("the rest is lost: {error}"),
            None => "the rest is lost".to_owned(),
        };
        let note = format!("\n[a hook said {} characters here; {note}]", text.chars().count());
        let room = MAX_TEXT_CHARS.saturating_sub(note.chars().count());
        format!("{}{note}", first_chars(&text, room))
    }

    /// Writes the whole text to a new file and returns its path; `None` without a folder. Each call uses another name,
    /// also after an error.
    fn keep(&mut self, text: &str) -> Option<io::Result<PathBuf>> {
        let dir = self.dir.as_deref()?;
        let path = dir.join(format!("hook-{}-{}.txt", self.hook_id, self.files));
        self.files += 1;
        Some(write(dir, &path, text).map(|()| path))
    }
}

/// Returns whether the text is within [`MAX_TEXT_CHARS`]. Reads no more of it than that.
fn fits(text: &str) -> bool {
    first_chars(text, MAX_TEXT_CHARS).len() == text.len()
}

/// Writes the file, readable only for the user, and creates the folder if it is missing. An existing file is an error.
fn write(dir: &Path, path: &Path, text: &str) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    // Only for the user, since output may hold secrets; `create_new` does not write through a link.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// Returns the first [`MAX_TEXT_CHARS`] characters of an output for a frame, with replacement characters for bytes that
/// are not UTF-8. The rest is not written to a file.
pub(crate) fn frame_text(bytes: &[u8]) -> String {
    first_chars(&String::from_utf8_lossy(bytes), MAX_TEXT_CHARS).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_stay_as_they_are() {
        let mut cutter = Cutter::new(None, "h");
        assert_eq!(cutter.cut("ü".repeat(MAX_TEXT_CHARS)), "ü".repeat(MAX_TEXT_CHARS));
    }

    #[test]
    fn long_texts_end_with_the_name_of_the_file_that_has_them() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("deep/er");
        let mut cutter = Cutter::new(Some(&dir), "h1");
        let long = "ü".repeat(MAX_TEXT_CHARS + 1);
        for name in ["hook-h1-0.txt", "hook-h1-1.txt"] {
            let cut = cutter.cut(long.clone());
            assert_eq!(cut.chars().count(), MAX_TEXT_CHARS);
            assert!(cut.ends_with(&format!("all of it is in {}]", dir.join(name).display())), "{cut}");
            assert_eq!(std::fs::read_to_string(dir.join(name)).unwrap(), long);
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_costs_only_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        for dir in [None, Some(file.as_path())] {
            let cut = Cutter::new(dir, "h").cut("x".repeat(20_000));
            assert!(cut.chars().count() <= MAX_TEXT_CHARS && cut.contains("the rest is lost"), "{cut}");
        }
    }
}
