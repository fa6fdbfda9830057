//! The results: the lines of one file while it is searched, and the files of the whole search.
//!
//! Only as much is kept as the requested page can show; the rest is counted.

use std::collections::BTreeMap;
use std::time::SystemTime;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};

use super::query::{Mode, Query};
use crate::search_tools::search::Best;
use lathe_protocol::text::first_chars;

/// The most characters of a line that are shown.
const LINE_CHARS: usize = 500;

/// Kept lines may take this many times the bytes that are shown, because the skipped lines before them count too.
const KEPT_BYTES_FACTOR: usize = 8;

const BREAK: &str = "--";

/// The results of one file while it is searched.
pub(super) struct Lines<'a> {
    matcher: &'a RegexMatcher,
    mode: Mode,
    line_numbers: bool,
    only_matching: bool,
    capacity: usize,
    kept: Vec<Line>,
    total: u64,
    matches: u64,
}

/// The results of one file.
pub(super) struct FoundFile {
    name: String,
    /// For the mode that lists files: the time of the last change.
    modified: Option<SystemTime>,
    kept: Vec<Line>,
    total: u64,
    matches: u64,
}

/// One line of output, without the file's name.
struct Line {
    kind: LineKind,
    number: Option<u64>,
    text: String,
}

/// What a line is in the results: a match, a line around one, or the mark of a gap between groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineKind {
    Match,
    Context,
    Break,
}

impl<'a> Lines<'a> {
    /// Returns the empty results of one file. The matcher is only used to find the matching parts of a line again, if
    /// only those are shown.
    pub fn new(query: &Query, matcher: &'a RegexMatcher) -> Self {
        Self {
            matcher,
            mode: query.mode,
            line_numbers: query.line_numbers,
            only_matching: query.only_matching,
            capacity: query.page.reach(),
            kept: Vec::new(),
            total: 0,
            matches: 0,
        }
    }

    /// Returns whether nothing matched. Lines of context do not count.
    pub fn is_empty(&self) -> bool {
        self.matches == 0
    }

    /// Returns the results of the file after its search. `modified` is only needed where files are listed.
    pub fn finish(self, name: String, modified: Option<SystemTime>) -> FoundFile {
        FoundFile { name, modified, kept: self.kept, total: self.total, matches: self.matches }
    }

    /// Counts a line, and keeps it, cut if it is long, as long as a page can still show it.
    fn push(&mut self, kind: LineKind, number: Option<u64>, bytes: &[u8]) {
        self.total += 1;
        if self.kept.len() < self.capacity {
            let number = if self.line_numbers { number } else { None };
            self.kept.push(Line { kind, number, text: cut(bytes) });
        }
    }

    /// Adds the lines of a match, which is one line unless matches may span lines; if only the matching parts are
    /// shown, each part counts as its own line.
    fn push_match(&mut self, matched: &SinkMatch<'_>) -> Result<(), std::io::Error> {
        if !self.only_matching {
            for (line, number) in matched.lines().zip(matched.line_number().unwrap_or(0)..) {
                self.push(LineKind::Match, Some(number), line);
            }
            return Ok(());
        }
        let bytes = matched.bytes();
        let mut parts = Vec::new();
        self.matcher
            .find_iter(bytes, |part| {
                parts.push(part);
                true
            })
            .map_err(std::io::Error::other)?;
        for part in parts {
            let above = memchr::memchr_iter(b'\n', &bytes[..part.start()]).count() as u64;
            let first = matched.line_number().unwrap_or(0) + above;
            for (line, number) in bytes[part].split(|byte| *byte == b'\n').zip(first..) {
                self.push(LineKind::Match, Some(number), line);
            }
        }
        Ok(())
    }
}

/// Returns a line as text, without its end. A line of more than [`LINE_CHARS`] characters is cut, with a note of its
/// length.
fn cut(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    // A character has at most four bytes, so the rest of a very long line is not needed.
    let head = &bytes[..bytes.len().min(LINE_CHARS * 4)];
    let text = String::from_utf8_lossy(head);
    let shown = first_chars(&text, LINE_CHARS);
    if shown.len() < text.len() {
        format!("{shown}… [line of {} bytes cut]", bytes.len())
    } else {
        text.into_owned()
    }
}

impl Sink for &mut Lines<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, matched: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.matches += 1;
        match self.mode {
            Mode::Files => Ok(false),
            Mode::Count => Ok(true),
            Mode::Content => self.push_match(matched).map(|()| true),
        }
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, Self::Error> {
        self.push(LineKind::Context, context.line_number(), context.bytes());
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, Self::Error> {
        self.push(LineKind::Break, None, b"");
        Ok(true)
    }
}

/// The results of all files.
pub(super) struct Found {
    pub total_files: u64,
    pub total_matches: u64,
    pub total_lines: u64,
    has_context: bool,
    mode: Mode,
    /// Names, newest first.
    newest: Best<(std::cmp::Reverse<SystemTime>, String), ()>,
    /// Matches by name.
    counts: Best<String, u64>,
    /// Lines by name, and their total size.
    lines: BTreeMap<String, Vec<Line>>,
    kept_lines: usize,
    kept_bytes: usize,
    max_lines: usize,
    max_bytes: usize,
}

impl Found {
    /// Returns the empty results of a search; the bounds on what is kept come from the requested page.
    pub fn new(query: &Query) -> Self {
        let reach = query.page.reach();
        Self {
            total_files: 0,
            total_matches: 0,
            total_lines: 0,
            has_context: query.has_context(),
            mode: query.mode,
            newest: Best::new(reach),
            counts: Best::new(reach),
            lines: BTreeMap::new(),
            kept_lines: 0,
            kept_bytes: 0,
            max_lines: reach,
            max_bytes: query.page.max_bytes.saturating_mul(KEPT_BYTES_FACTOR),
        }
    }

    /// Returns whether no file matched.
    pub fn is_empty(&self) -> bool {
        self.total_files == 0
    }

    /// Counts the matches of a file and keeps what the requested page may show. Files come in any order, because
    /// several threads find them; the result does not depend on it.
    pub fn add(&mut self, file: FoundFile) {
        self.total_files += 1;
        self.total_matches += file.matches;
        match self.mode {
            Mode::Files => {
                let modified = file.modified.unwrap_or(SystemTime::UNIX_EPOCH);
                self.newest.add((std::cmp::Reverse(modified), file.name), ());
            }
            Mode::Count => self.counts.add(file.name, file.matches),
            Mode::Content => self.add_lines(file),
        }
    }

    /// Adds the lines of a file, then drops files from the end of the order by name while the others are enough for the
    /// page or the lines take too many bytes. The last remaining file is not dropped for its bytes.
    fn add_lines(&mut self, file: FoundFile) {
        // Files are separated like groups of lines.
        let breaks = u64::from(self.has_context && self.total_lines > 0);
        self.total_lines += file.total + breaks;
        self.kept_lines += file.kept.len();
        self.kept_bytes += size(&file.kept);
        self.lines.insert(file.name, file.kept);
        while let Some(last) = self.lines.last_entry() {
            let without = self.kept_lines - last.get().len();
            let too_big = self.kept_bytes > self.max_bytes && without > 0;
            if without < self.max_lines && !too_big {
                break;
            }
            self.kept_lines = without;
            self.kept_bytes -= size(last.get());
            last.remove();
        }
    }

    /// Returns the names that were kept, newest first.
    pub fn into_names(self) -> impl Iterator<Item = String> {
        self.newest.into_entries().map(|((_, name), ())| name)
    }

    /// Returns `name:count` for the files that were kept, in the order of names.
    pub fn into_counts(self) -> impl Iterator<Item = String> {
        self.counts.into_entries().map(|(name, count)| format!("{name}:{count}"))
    }

    /// Returns the lines that were kept, in the order of names. With context, files are separated like groups of lines.
    pub fn into_lines(self) -> impl Iterator<Item = String> {
        let has_context = self.has_context;
        self.lines.into_iter().enumerate().flat_map(move |(index, (name, lines))| {
            let apart = (has_context && index > 0).then(|| BREAK.to_owned());
            apart.into_iter().chain(lines.into_iter().map(move |line| line.named(&name)))
        })
    }
}

/// Returns about how much memory lines take, as a measure for what is kept.
fn size(lines: &[Line]) -> usize {
    lines.iter().map(|line| line.text.len() + std::mem::size_of::<Line>()).sum()
}

impl Line {
    /// Returns the line as it is shown: `name:12:text` for a match, `name-12-text` for context, `--` for a gap.
    fn named(self, name: &str) -> String {
        let mark = match self.kind {
            LineKind::Match => ':',
            LineKind::Context => '-',
            LineKind::Break => return BREAK.to_owned(),
        };
        match self.number {
            Some(number) => format!("{name}{mark}{number}{mark}{}", self.text),
            None => format!("{name}{mark}{}", self.text),
        }
    }
}
