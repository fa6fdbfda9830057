//! Grep: file contents by regular expression, with the libraries of ripgrep.
//!
//! `query.rs` turns the input into matcher and walk, `collect.rs` holds the results within bounds, and this file
//! searches and words the result. Surprising: every matching file is read even when only some lines are wanted, because
//! the result says how many there are; results are in a fixed order, whichever thread was first.

mod collect;
mod query;

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher};
use ignore::{DirEntry, WalkState};
use lathe_protocol::CallSubject;
use rustix::fs::OFlags;
use serde_json::{Map, Value, json};

use crate::files::open::open_regular;
use crate::files::real;
use crate::search_tools::search::{self, Place, StartAt};
use crate::stoppable::{self, Stop, StopReason};
use crate::{
    Content, Limits, Offered, ResultLimits, Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput,
};
use collect::{Found, FoundFile, Lines};
use query::{Mode, Page, Query};

/// The Grep tool.
#[derive(Debug, Default)]
pub struct Grep;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "pattern": { "type": "string", "description": "Regular expression (ripgrep syntax)" },
            "path": { "type": "string", "description": "File or directory; default: the working directory" },
            "glob": { "type": "string", "description": "Only files like this, e.g. *.{ts,tsx}" },
            "type": { "type": "string", "description": "Only files of this type, e.g. rust, py" },
            "output_mode": { "type": "string", "enum": ["content", "files_with_matches", "count"], "description": "Default: files_with_matches" },
            "-A": { "type": "integer", "description": "Lines after a match" },
            "-B": { "type": "integer", "description": "Lines before" },
            "-C": { "type": "integer", "description": "Lines around" },
            "context": { "type": "integer", "description": "Same as -C" },
            "-n": { "type": "boolean", "description": "Line numbers; default: true" },
            "-i": { "type": "boolean", "description": "Ignore case" },
            "-o": { "type": "boolean", "description": "Only the matching parts" },
            "multiline": { "type": "boolean", "description": "Let matches span lines" },
            "head_limit": { "type": "integer", "description": "Results shown; default 250, 0: all" },
            "offset": { "type": "integer", "description": "Results skipped" },
        },
        "required": ["pattern"],
        "additionalProperties": false,
    })
});

impl Tool for Grep {
    fn name(&self) -> &str {
        "Grep"
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration { current: Offered::WithoutBash, ..ToolDeclaration::EVERYWHERE }
    }

    fn description(&self) -> &str {
        "Searches file contents by regular expression. Hidden files are searched, files in .gitignore are not. \
         Gives file names (newest first), matching lines or counts."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn subject(&self, input: &Value) -> CallSubject {
        search::subject(input, None)
    }

    fn main_input(&self) -> Option<&str> {
        Some("path")
    }

    fn result_limits(&self, limits: &Limits) -> ResultLimits {
        // The page is cut at this length. In the value each name takes slightly more room than in the text.
        let cut = ResultLimits::of_cut_text(limits.search_bytes);
        ResultLimits { value_chars: cut.value_chars.saturating_mul(2), ..cut }
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            let place = Place::of(input["path"].as_str(), StartAt::FileOrDirectory, context)?;
            let limits = &context.workspace.limits;
            let query = Query::of(input, &place, limits.search_bytes).map_err(ToolFailure::Failed)?;
            let time = limits.search_timeout;
            let (turn, time_left) =
                context.wait_for_place(&context.workspace.process_limits.searches, time).await?;
            let outcome = stoppable::run(&context.cancel, time_left, move |stop| {
                // Held by the work, not by the call: a search that was left behind still runs.
                let _turn = turn;
                let outcome = search(&query, &place, stop);
                (query, outcome)
            });
            let (query, outcome) = outcome.await?;
            report(&query, outcome, time)
        })
    }
}

/// The results of a search.
struct Outcome {
    found: Found,
    /// Files and directories that could not be read.
    unreadable: u64,
    stopped: Option<StopReason>,
}

/// Searches the tree on several threads. Stopped early, it returns what it has found so far. A path that cannot be read
/// is counted and does not end the search.
fn search(query: &Query, place: &Place, stop: &Stop) -> Outcome {
    let found = std::sync::Mutex::new(Found::new(query));
    let unreadable = AtomicU64::new(0);
    query.walk.build_parallel().run(|| {
        // Each thread has its own matcher: threads that share one wait for its caches.
        let mut worker =
            Worker { query, place, stop, searcher: query.searcher(), matcher: query.matcher.clone() };
        let (found, unreadable) = (&found, &unreadable);
        Box::new(move |entry| {
            if stop.is_set() {
                return WalkState::Quit;
            }
            let searched = entry.map_err(drop).and_then(|entry| worker.search(&entry).map_err(drop));
            match searched {
                Ok(None) => {}
                Ok(Some(file)) => found.lock().unwrap_or_else(PoisonError::into_inner).add(file),
                Err(()) if stop.is_set() => return WalkState::Quit,
                Err(()) => drop(unreadable.fetch_add(1, Ordering::Relaxed)),
            }
            WalkState::Continue
        })
    });
    Outcome {
        found: found.into_inner().unwrap_or_else(PoisonError::into_inner),
        unreadable: unreadable.into_inner(),
        stopped: stop.reason(),
    }
}

/// The tools of one thread.
struct Worker<'a> {
    query: &'a Query,
    place: &'a Place,
    stop: &'a Stop,
    searcher: Searcher,
    matcher: RegexMatcher,
}

impl Worker<'_> {
    /// Searches one file; `None` if nothing matched or it is not a file. A binary file that the walk found is searched
    /// only up to its first zero byte. Stopped while it reads, it fails.
    fn search(&mut self, entry: &DirEntry) -> std::io::Result<Option<FoundFile>> {
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            return Ok(None);
        }
        // A file that the call names is searched to its end even if it is binary, one that the walk finds is not.
        self.searcher.set_binary_detection(if entry.depth() == 0 {
            BinaryDetection::convert(0)
        } else {
            BinaryDetection::quit(0)
        });
        let file = open(entry)?;
        let mut lines = Lines::new(self.query, &self.matcher);
        let reader = Watched { file: &file, stop: self.stop };
        self.searcher.search_reader(&self.matcher, reader, &mut lines)?;
        if lines.is_empty() {
            return Ok(None);
        }
        let modified = match self.query.mode {
            Mode::Files => file.metadata().and_then(|metadata| metadata.modified()).ok(),
            Mode::Content | Mode::Count => None,
        };
        Ok(Some(lines.finish(self.place.name(entry.path()), modified)))
    }
}

/// Opens a file for searching. A file that the walk found was regular a moment ago; if it is something else now, no
/// link is followed and nothing blocks.
fn open(entry: &DirEntry) -> std::io::Result<File> {
    if entry.depth() == 0 {
        return open_regular(entry.path()).map(|opened| opened.file).map_err(std::io::Error::other);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(File::from(real::open(entry.path(), flags)?))
}

/// A file whose reads fail once the search must stop, so that one endless file cannot hold it up.
struct Watched<'a> {
    file: &'a File,
    stop: &'a Stop,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.stop.is_set() {
            return Err(std::io::Error::other("the search was stopped"));
        }
        self.file.read(buffer)
    }
}

/// Returns the output of the call in the form that the mode asks for. A search that was stopped with nothing found is a
/// failure, because "no matches" would be untrue.
fn report(query: &Query, outcome: Outcome, time: Duration) -> Result<ToolOutput, ToolFailure> {
    let Outcome { found, unreadable, stopped } = outcome;
    if stopped.is_some() && found.is_empty() {
        return Err(ToolFailure::Failed(format!(
            "The search found nothing within {} s and was stopped. Search a smaller part of the tree.",
            time.as_secs()
        )));
    }
    let nothing_found = found.is_empty();
    let mut output = match query.mode {
        Mode::Files => files_output(found, query.page),
        Mode::Content => content_output(found, query.page),
        Mode::Count => count_output(found, query.page),
    };
    if let Content::Text(text) = &mut output.content {
        if stopped.is_some() {
            text.push_str(&format!(
                "\n[The search was stopped after {} s; there may be more results]",
                time.as_secs()
            ));
        }
        if nothing_found && unreadable > 0 {
            text.push_str(&format!("\n[{} could not be read]", counted(unreadable, "path")));
        }
    }
    Ok(output)
}

/// Lists the names of the matching files, newest first.
fn files_output(found: Found, page: Page) -> ToolOutput {
    let total = found.total_files;
    let (filenames, cut) = page.of_items(found.into_names(), total);
    let text = if total == 0 {
        "No files found".to_owned()
    } else {
        let note = cut.in_words().map(|words| format!(" {words}")).unwrap_or_default();
        let lines = filenames.join("\n");
        format!("Found {}{note}\n{lines}", counted(filenames.len() as u64, "file"))
    };
    let result = json!({
        "mode": "files_with_matches",
        "filenames": filenames,
        "numFiles": filenames.len(),
        "totalFiles": total,
    });
    finish(text, result, cut)
}

/// Lists the matching lines in the order of file names. `numFiles` and `filenames` stay empty in this mode.
fn content_output(found: Found, page: Page) -> ToolOutput {
    let total = found.total_lines;
    let (lines, cut) = page.of_items(found.into_lines(), total);
    let content = lines.join("\n");
    let mut text = if total == 0 { "No matches found".to_owned() } else { content.clone() };
    if let Some(words) = cut.in_words() {
        text.push_str(&format!("\n\n[Showing results with pagination = {words}]"));
    }
    let result = json!({
        "mode": "content",
        "numFiles": 0,
        "filenames": [],
        "content": content,
        "numLines": lines.len(),
        "totalLines": total,
    });
    finish(text, result, cut)
}

/// Lists the number of matches of each file. The totals are of the whole search, not of the page.
fn count_output(found: Found, page: Page) -> ToolOutput {
    let (matches, files) = (found.total_matches, found.total_files);
    let (lines, cut) = page.of_items(found.into_counts(), files);
    let content = lines.join("\n");
    let shown = if files == 0 { "No matches found" } else { &content };
    let note = cut.in_words().map(|words| format!(" with pagination = {words}")).unwrap_or_default();
    let text = format!(
        "{shown}\n\nFound {} across {}.{note}",
        counted(matches, "total occurrence"),
        counted(files, "file"),
    );
    let result = json!({
        "mode": "count",
        "numFiles": files,
        "filenames": [],
        "content": content,
        "numMatches": matches,
    });
    finish(text, result, cut)
}

/// Returns a count with its noun: `1 file`, `2 files`. The plural is the noun with an `s`.
fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Describes what was left out of the results.
#[derive(Debug, Clone, Copy, Default)]
struct Cut {
    /// Set if there were more results.
    limit: Option<usize>,
    offset: Option<usize>,
}

impl Cut {
    /// Returns the limit and the offset of the page in words for the model; `None` if nothing was left out.
    fn in_words(self) -> Option<String> {
        match (self.limit, self.offset) {
            (None, None) => None,
            (Some(limit), None) => Some(format!("limit: {limit}")),
            (None, Some(offset)) => Some(format!("offset: {offset}")),
            (Some(limit), Some(offset)) => Some(format!("limit: {limit}, offset: {offset}")),
        }
    }
}

/// Builds the output of a search: `text` for the model, and for programs `result` with the limit and the offset, if
/// they had an effect.
fn finish(text: String, mut result: Value, cut: Cut) -> ToolOutput {
    let empty = &mut Map::new();
    let fields = result.as_object_mut().unwrap_or(empty);
    if let Some(limit) = cut.limit {
        fields.insert("appliedLimit".into(), json!(limit));
    }
    if let Some(offset) = cut.offset {
        fields.insert("appliedOffset".into(), json!(offset));
    }
    ToolOutput::new(Content::Text(text), result)
}

#[cfg(test)]
mod tests;
