//! Keeps a session's title and tag near the end of its file. Lists of sessions read only the ends of a file
//! ([`peek`](crate::peek)), so they no longer find a title once enough has been written after it. It is then written
//! again.
//!
//! The surprising thing: the file counts, not what this run has written. Another program may give a running session a
//! new title, so everything after the last search is searched before an old title is repeated.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use serde_json::Value;

use crate::lines::MAX_LINE_BYTES;
use crate::peek::END_BYTES;
use crate::record::SideRecord;

/// How far from the end a name may be before it is repeated. The other half of the range leaves room for the records
/// that follow before the next check.
const IN_SIGHT: u64 = END_BYTES / 2;

/// The title and the tag of a session, and how far its file was searched for them.
#[derive(Debug, Clone, Default)]
pub struct Names {
    title: Found,
    tag: Found,
    searched: u64,
}

/// A name, and its position in the file.
#[derive(Debug, Clone, Default)]
struct Found {
    text: Option<String>,
    at: u64,
}

impl Names {
    /// Creates the names of a session that is resumed in the file at `path`, as they were read from it. The file counts
    /// as searched up to its present end, so the names must be those at that moment. Their positions are not known and
    /// count as the beginning of the file.
    pub fn of_session(path: &Path, title: Option<String>, tag: Option<String>) -> Self {
        let found = |text| Found { text, at: 0 };
        let searched = path.metadata().map_or(0, |file| file.len());
        Self { title: found(title), tag: found(tag), searched }
    }

    /// Returns the names that must be appended to the file at `path` again, because lists would soon not find them;
    /// usually none. The caller must append them, because until a later search finds them they are returned again.
    /// Reads what was written since the last search if a name may be far from the end.
    pub fn out_of_sight(&mut self, path: &Path, session_id: &str) -> io::Result<Vec<SideRecord>> {
        let end = path.metadata()?.len();
        if end.saturating_sub(self.searched.min(self.oldest())) < IN_SIGHT {
            return Ok(Vec::new());
        }
        self.search(path)?;
        let is_far = |found: &Found| end.saturating_sub(found.at) >= IN_SIGHT;
        let mut records = Vec::new();
        if let Some(title) = self.title.text.as_ref().filter(|_| is_far(&self.title)) {
            records.push(SideRecord::custom_title(session_id, title));
        }
        if let Some(tag) = self.tag.text.as_ref().filter(|tag| !tag.is_empty() && is_far(&self.tag)) {
            records.push(SideRecord::tag(session_id, tag));
        }
        Ok(records)
    }

    /// Returns the position of the name that is furthest from the end; the end of the search if there are no names.
    fn oldest(&self) -> u64 {
        let set = [&self.title, &self.tag].into_iter().filter(|found| found.text.is_some());
        set.map(|found| found.at).min().unwrap_or(self.searched)
    }

    /// Searches what was written since the last search, by this or another program, and keeps the last title and tag.
    /// An incomplete line at the end is left for the next search.
    fn search(&mut self, path: &Path) -> io::Result<()> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(self.searched))?;
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        loop {
            line.clear();
            // A line that is too long is not a name, and neither is its rest.
            let read = reader.by_ref().take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line)?;
            if read == 0 || (line.last() != Some(&b'\n') && read < MAX_LINE_BYTES) {
                // A line without an end is still being written, and is read by the next search.
                return Ok(());
            }
            self.note(&line);
            self.searched += read as u64;
        }
    }

    /// Keeps the name in a line, if it has one. All programs write `type` first, so other lines need not be parsed.
    fn note(&mut self, line: &[u8]) {
        let (place, key) = if line.starts_with(br#"{"type":"custom-title""#) {
            (&mut self.title, "customTitle")
        } else if line.starts_with(br#"{"type":"tag""#) {
            (&mut self.tag, "tag")
        } else {
            return;
        };
        let value = serde_json::from_slice::<Value>(line).ok();
        if let Some(text) = value.as_ref().and_then(|record| record[key].as_str()) {
            *place = Found { text: Some(text.to_owned()), at: self.searched };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn append(path: &Path, text: &str) {
        let mut file = File::options().create(true).append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn filler(bytes: usize) -> String {
        format!("{{\"type\":\"user\",\"x\":\"{}\"}}\n", "y".repeat(bytes))
    }

    /// Appends the names that are due, as a session does.
    fn due(names: &mut Names, path: &Path) -> Vec<String> {
        let records = names.out_of_sight(path, "S").unwrap();
        let lines = records.iter().map(|record| serde_json::to_string(record).unwrap());
        lines.inspect(|line| append(path, &format!("{line}\n"))).collect()
    }

    #[test]
    fn a_name_is_repeated_when_it_gets_out_of_sight_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let mut names = Names::default();
        append(&path, &filler(10));
        let title = r#"{"type":"custom-title","customTitle":"T","sessionId":"S"}"#;
        append(&path, &format!("{title}\n"));
        assert_eq!(due(&mut names, &path), [""; 0]);
        append(&path, &filler(IN_SIGHT as usize));
        assert_eq!(due(&mut names, &path), [title]);
        assert_eq!(due(&mut names, &path), [""; 0]);
        append(&path, &filler(IN_SIGHT as usize));
        assert_eq!(due(&mut names, &path), [title]);
    }

    #[test]
    fn what_another_program_wrote_last_is_repeated_and_what_it_cleared_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        append(&path, &filler(10));
        let mut names = Names::of_session(&path, Some("Old".into()), Some("red".into()));
        append(&path, &filler(10));
        let title = r#"{"type":"custom-title","customTitle":"New","sessionId":"S"}"#;
        append(&path, &format!("{title}\n{{\"type\":\"tag\",\"tag\":\"\",\"sessionId\":\"S\"}}\n"));
        append(&path, &filler(IN_SIGHT as usize));
        assert_eq!(due(&mut names, &path), [title]);
    }

    #[test]
    fn names_of_an_earlier_run_are_kept_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        append(&path, &filler(2 * IN_SIGHT as usize));
        let mut names = Names::of_session(&path, None, Some("red".into()));
        append(&path, "{\"type\":\"torn");
        assert_eq!(due(&mut names, &path), [r#"{"type":"tag","tag":"red","sessionId":"S"}"#]);
    }
}
