//! Reads the lines of a session file, which may be damaged. A good line is one JSON object; a damaged file may hold
//! torn lines, two records on one line, runs of NULs after a power cut, bytes that are not UTF-8, and lines of any
//! length. Every record that is still complete is found, the rest is counted, and only a failure of the disk is an
//! error.

use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;

use crate::head::Head;

/// The longest line that is read; longer ones are skipped, so that memory stays bounded. Ten times the largest image
/// that the API accepts.
pub const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

/// The number of objects in a line that may fail to parse before the rest of the line is skipped.
const MAX_FAILED_STARTS: usize = 64;

/// The damage found in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Damage {
    /// Lines of which at least a part could not be parsed.
    pub bad_lines: u64,
    /// The number of the first of them, counted from 1.
    pub first_bad_line: Option<u64>,
    /// Lines that held more than one record.
    pub joined_lines: u64,
    /// Lines that were skipped because of their length; they count as bad as well.
    pub oversized_lines: u64,
    /// The file ends in the middle of a record.
    pub torn_tail: bool,
}

/// The position of a record in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub offset: u64,
    pub length: u32,
}

/// Reads `source` line by line and passes every record to `sink`, in order, with its position and line number.
/// Lines that cannot be parsed are skipped and counted in the result; a line longer than `max_line` counts as one
/// of them.
pub(crate) fn scan(
    source: impl Read,
    max_line: usize,
    mut sink: impl FnMut(Span, Head<'_>, u64),
) -> io::Result<Damage> {
    let mut reader = BufReader::with_capacity(256 * 1024, source);
    let mut damage = Damage::default();
    let mut line = Vec::new();
    let mut offset = 0_u64;
    let mut number = 0_u64;
    loop {
        line.clear();
        let read = reader.by_ref().take(max_line as u64 + 1).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(damage);
        }
        number += 1;
        let start = offset;
        offset += read as u64;
        let is_whole = line.last() == Some(&b'\n');
        if !is_whole && read > max_line {
            offset += reader.skip_until(b'\n')? as u64;
            damage.oversized_lines += 1;
            damage.note_bad(number);
            continue;
        }
        let found = records_in(&line, |range, head| {
            let span = Span { offset: start + range.start as u64, length: range.len() as u32 };
            sink(span, head, number);
        });
        if found.records > 1 {
            damage.joined_lines += 1;
        }
        // No record contains a NUL byte, so NULs show that something was lost.
        if found.is_bad || line.contains(&0) {
            damage.note_bad(number);
            damage.torn_tail |= !is_whole;
        }
    }
}

impl Damage {
    /// Counts a bad line and remembers the first one. Must be called in the order of the lines, once for each.
    fn note_bad(&mut self, line: u64) {
        self.bad_lines += 1;
        self.first_bad_line.get_or_insert(line);
    }
}

struct Found {
    records: usize,
    is_bad: bool,
}

/// Finds the records in one line, which usually has one, and passes each to `sink` with its range; the result says how
/// many were found and whether a part was lost. After a part that cannot be parsed only objects with a session id count
/// as records, and after [`MAX_FAILED_STARTS`] such parts the rest of the line is skipped.
fn records_in(line: &[u8], mut sink: impl FnMut(Range<usize>, Head<'_>)) -> Found {
    let mut found = Found { records: 0, is_bad: false };
    let mut at = 0;
    let mut failed_starts = 0;
    while let Some(start) = next_token(line, at) {
        match parse_one(&line[start..]) {
            Ok((head, length)) => {
                // In a damaged line only an object with a session id is a record; any other object is a part of the
                // broken record.
                if !found.is_bad || head.session_id.is_some() {
                    found.records += 1;
                    sink(start..start + length, head);
                }
                at = start + length;
            }
            Err(()) => {
                if found.records == 0
                    && !found.is_bad
                    && parse_lossy(&line[start..], |head| sink(start..line.len(), head))
                {
                    found.records = 1;
                    return found;
                }
                found.is_bad = true;
                failed_starts += 1;
                match next_object(line, start + 1).filter(|_| failed_starts < MAX_FAILED_STARTS) {
                    Some(next) => at = next,
                    None => break,
                }
            }
        }
        if found.is_bad {
            // Brackets and commas lie between the parts of a broken record: go to the next object.
            match next_object(line, at) {
                Some(next) => at = next,
                None => break,
            }
        }
    }
    found
}

/// Parses the record at the start of `bytes` and returns its head and its length. What follows is not looked at,
/// because a line may hold several records.
fn parse_one(bytes: &[u8]) -> Result<(Head<'_>, usize), ()> {
    let mut stream = serde_json::Deserializer::from_slice(bytes).into_iter::<Head<'_>>();
    match stream.next() {
        Some(Ok(head)) => Ok((head, stream.byte_offset())),
        Some(Err(_)) | None => Err(()),
    }
}

/// Parses a line that is JSON but not UTF-8 with replacement characters and passes its head to `sink`. Returns false,
/// without calling `sink`, if it is UTF-8 or not one record.
fn parse_lossy(bytes: &[u8], sink: impl FnOnce(Head<'_>)) -> bool {
    if std::str::from_utf8(bytes).is_ok() {
        return false;
    }
    let text = String::from_utf8_lossy(bytes);
    match serde_json::from_str::<Head<'_>>(text.trim_end_matches(is_filler_char)) {
        Ok(head) => {
            sink(head);
            true
        }
        Err(_) => false,
    }
}

/// Returns the position of the next byte from `from` on that is neither white space nor NUL; `None` if there is none.
fn next_token(line: &[u8], from: usize) -> Option<usize> {
    line.get(from..)?.iter().position(|byte| !is_filler(*byte)).map(|skip| from + skip)
}

/// Returns the position of the next `{"` from `from` on, with which every record begins; `None` if there is none.
fn next_object(line: &[u8], from: usize) -> Option<usize> {
    line.get(from..)?.windows(2).position(|pair| pair == b"{\"").map(|skip| from + skip)
}

/// Returns whether a byte between records is skipped: white space, or a NUL, which a crash of the machine can leave in
/// a file.
fn is_filler(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0)
}

/// Returns whether a character between records is skipped, as [`is_filler`] does for a byte.
fn is_filler_char(c: char) -> bool {
    u8::try_from(c).is_ok_and(is_filler)
}

/// Returns the text of a record, with replacement characters for bytes that are not UTF-8 and without trailing filler.
pub(crate) fn clean(bytes: Vec<u8>) -> String {
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    let trimmed = text.trim_end_matches(is_filler_char).len();
    let mut text = text;
    text.truncate(trimmed);
    text
}

#[cfg(test)]
mod tests;
