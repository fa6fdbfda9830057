//! Text files: numbered lines, all of them or some.
//!
//! One pass over the file in blocks: it counts the lines, keeps only the wanted ones, and never holds more than the
//! size limit, however long the file or a line of it is. A file with a NUL byte near its start counts as binary, as in
//! git.

use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;

use serde_json::json;

use super::{INLINE_BYTES, Request, TIME, failure};
use crate::files::error::human_size;
use crate::files::open::Opened;
use crate::files::seen::{Seen, View};
use crate::files::{FileError, text};
use crate::stoppable::{self, Stop};
use crate::{Content, ToolContext, ToolFailure, ToolOutput};

/// Larger files are not even scanned for some of their lines.
const SCAN_BYTES: u64 = 1 << 30;

/// How many bytes at the start are searched for a NUL.
const PROBE_BYTES: usize = 8 * 1024;

const BLOCK_BYTES: usize = 256 * 1024;

/// The result of one pass over the file.
struct Scan {
    /// The bytes of the wanted lines.
    bytes: Vec<u8>,
    /// How many lines `bytes` holds.
    lines: u64,
    total_lines: u64,
}

/// Why a scan failed.
enum ScanError {
    File(FileError),
    Binary,
    /// The wanted lines have more bytes than may be shown.
    TooMuch,
    Stopped,
}

/// Lines `first..first + count`, counted from 0.
#[derive(Clone, Copy)]
struct Wanted {
    first: u64,
    count: u64,
    max_bytes: u64,
}

/// Reads the wanted lines and records in the workspace what was seen. Only a read of all lines counts as the whole
/// file; a part is recorded without a hash, because the other bytes were not read. Fails if the file or the wanted
/// lines are too large, or if the file is binary.
pub(super) async fn read(
    request: Request,
    opened: Opened,
    path: &Path,
    context: &ToolContext,
) -> Result<ToolOutput, ToolFailure> {
    let limits = &context.workspace.limits;
    let max_bytes = if request.allow_large { limits.read_large_bytes } else { limits.read_bytes };
    let whole = request.offset.is_none_or(|offset| offset <= 1) && request.limit.is_none();
    let size = opened.stamp.size;
    if whole && size > max_bytes {
        return Err(too_large(size, max_bytes));
    }
    if size > SCAN_BYTES {
        return Err(ToolFailure::Failed(format!(
            "File is too large for this tool ({}): {}. Use a shell command such as head, tail or sed -n.",
            human_size(size),
            request.path
        )));
    }
    let wanted = Wanted {
        first: request.offset.map_or(0, |offset| u64::try_from(offset - 1).unwrap_or(0)),
        count: request.limit.unwrap_or(u64::MAX),
        max_bytes,
    };
    let stamp = opened.stamp;
    let scanned = if size <= INLINE_BYTES {
        scan(&opened.file, wanted, &Stop::default())
    } else {
        let work = move |stop: &Stop| scan(&opened.file, wanted, stop);
        stoppable::run(&context.cancel, TIME, work).await?
    };
    let scan = scanned.map_err(|error| match error {
        ScanError::File(error) => failure(error, &request.path, context),
        ScanError::Binary => ToolFailure::Rejected(format!(
            "This tool cannot read binary files. The file contains NUL bytes: {}. \
             Look at it with a shell command or a script that knows the format.",
            request.path
        )),
        ScanError::TooMuch => ToolFailure::Failed(format!(
            "The lines asked for exceed maximum allowed size ({}). Ask for fewer lines, or use a shell command \
             such as cut if they are very long.",
            human_size(max_bytes)
        )),
        ScanError::Stopped => {
            ToolFailure::Failed(format!("Reading took longer than {} s: {}", TIME.as_secs(), request.path))
        }
    })?;
    let all_of_it = wanted.first == 0 && scan.lines == scan.total_lines;
    let seen = if all_of_it { Seen::of_bytes(View::Whole, stamp, &scan.bytes) } else { Seen::of_part(stamp) };
    context.workspace.record_file(path.to_owned(), seen);
    Ok(output(&request, &scan))
}

/// Returns the failure for a file that is too large to be shown whole. It names the ways to read it all the same.
fn too_large(size: u64, max: u64) -> ToolFailure {
    ToolFailure::Failed(format!(
        "File content ({}) exceeds maximum allowed size ({}). Read a part of it with offset and limit, \
         search it, or set allow_large: true if you need all of it.",
        human_size(size),
        human_size(max)
    ))
}

/// Reads the file in one pass, keeps the wanted lines and counts all of them. A NUL in the first bytes makes it binary.
/// Text after a last line end counts as one more line, even if it is empty; nothing is read beyond [`SCAN_BYTES`].
fn scan(file: &std::fs::File, wanted: Wanted, stop: &Stop) -> Result<Scan, ScanError> {
    let mut file = file.take(SCAN_BYTES);
    let mut block = vec![0; BLOCK_BYTES];
    let mut bytes = Vec::new();
    let mut line = 0;
    let mut probed = 0;
    let end = wanted.first.saturating_add(wanted.count);
    loop {
        if stop.is_set() {
            return Err(ScanError::Stopped);
        }
        let length = match file.read(&mut block) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(ScanError::File(FileError::from_io(&error, "read"))),
        };
        let block = &block[..length];
        if probed < PROBE_BYTES {
            let part = &block[..length.min(PROBE_BYTES - probed)];
            if memchr::memchr(0, part).is_some() {
                return Err(ScanError::Binary);
            }
            probed += part.len();
        }
        line = take_wanted(block, line, wanted.first..end, &mut bytes);
        if bytes.len() as u64 > wanted.max_bytes {
            return Err(ScanError::TooMuch);
        }
    }
    let total_lines = line + 1;
    // A cut before the end of the file is between lines: the last line end does not belong to it.
    if end < total_lines && bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    let lines = end.min(total_lines).saturating_sub(wanted.first);
    Ok(Scan { bytes, lines, total_lines })
}

/// Appends the part of `block` that belongs to the `wanted` lines; its first byte is in line `line`. Returns the line
/// of the byte after the block.
fn take_wanted(mut block: &[u8], mut line: u64, wanted: std::ops::Range<u64>, out: &mut Vec<u8>) -> u64 {
    while line < wanted.start && !block.is_empty() {
        match memchr::memchr(b'\n', block) {
            Some(at) => {
                block = &block[at + 1..];
                line += 1;
            }
            None => return line,
        }
    }
    if wanted.end == u64::MAX {
        out.extend_from_slice(block);
        return line + memchr::memchr_iter(b'\n', block).count() as u64;
    }
    while line < wanted.end && !block.is_empty() {
        match memchr::memchr(b'\n', block) {
            Some(at) => {
                out.extend_from_slice(&block[..=at]);
                block = &block[at + 1..];
                line += 1;
            }
            None => {
                out.extend_from_slice(block);
                return line;
            }
        }
    }
    line + memchr::memchr_iter(b'\n', block).count() as u64
}

/// Returns the output of the call: numbered lines for the model, plain text for programs. A file without the wanted
/// lines is described in words, because an empty result would look like a fault.
fn output(request: &Request, scan: &Scan) -> ToolOutput {
    // Only 0 numbers from 0; what is before the file begins with its first line.
    let start_line = request.offset.filter(|offset| *offset >= 0).unwrap_or(1);
    let content = text::for_model(&scan.bytes);
    let shown = if scan.total_lines == 1 && scan.bytes.is_empty() && start_line <= 1 {
        "<system-reminder>Warning: the file exists but the contents are empty.</system-reminder>".to_owned()
    } else if scan.lines == 0 {
        format!(
            "<system-reminder>Warning: the file exists but is shorter than the provided offset ({start_line}). The file has {} lines.</system-reminder>",
            scan.total_lines
        )
    } else {
        numbered(&content, start_line)
    };
    ToolOutput::new(
        Content::Text(shown),
        json!({
            "type": "text",
            "file": {
                "filePath": request.path,
                "content": content,
                "numLines": scan.lines,
                "startLine": start_line,
                "totalLines": scan.total_lines,
            },
        }),
    )
}

/// Returns the text with its number and a tab before each line, counted from `first`.
fn numbered(content: &str, first: i64) -> String {
    let mut out = String::with_capacity(content.len() + content.len() / 8 + 8);
    for (line, number) in content.split('\n').zip(first..) {
        if number != first {
            out.push('\n');
        }
        let _never_fails = write!(out, "{number}\t{line}");
    }
    out
}
