//! Glob: files by the pattern of their name, newest last.
//!
//! Patterns are those of `.gitignore`: without a slash they match at any depth, with one they start at the search root.
//! The walk starts in the literal directories that a pattern begins with, so `src/**/*.rs` does not read the rest of
//! the tree, and absolute patterns and `../` work.

use std::path::{Component, Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use futures_util::future::BoxFuture;
use ignore::WalkState;
use ignore::overrides::{Override, OverrideBuilder};
use lathe_protocol::CallSubject;
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde_json::{Value, json};

use crate::files::real;
use crate::search_tools::search::{self, Best, Place, StartAt, Vcs};
use crate::stoppable::{self, Stop, StopReason};
use crate::workspace::GlobScope;
use crate::{Content, Offered, Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput};

/// The most files that are listed.
const MAX_FILES: usize = 100;

/// The Glob tool.
#[derive(Debug, Default)]
pub struct Glob;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "pattern": { "type": "string", "description": "For example **/*.rs or src/*.{ts,tsx}" },
            "path": { "type": "string", "description": "Directory to search; default: the working directory" },
        },
        "required": ["pattern"],
        "additionalProperties": false,
    })
});

impl Tool for Glob {
    fn name(&self) -> &str {
        "Glob"
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration { current: Offered::WithoutBash, ..ToolDeclaration::EVERYWHERE }
    }

    fn description(&self) -> &str {
        "Finds files by name pattern. A pattern without a slash matches at any depth. Hidden and ignored files \
         are included. Lists up to 100 files, the most recently changed last."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn subject(&self, input: &Value) -> CallSubject {
        match input["pattern"].as_str() {
            Some(pattern) => search::subject(input, Some(pattern)),
            None => CallSubject::Unknown,
        }
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            let started = Instant::now();
            let pattern = input["pattern"].as_str().unwrap_or_default();
            let (below, rest) = split(pattern);
            let start = StartAt::Directory { below: below.as_deref() };
            let place = Place::of(input["path"].as_str(), start, context)?;
            let vcs = Vcs::named_in(pattern);
            let search = Search::new(&rest, &place, vcs, context.workspace.limits.glob_scope)?;
            let time = context.workspace.limits.search_timeout;
            let (turn, time_left) =
                context.wait_for_place(&context.workspace.process_limits.searches, time).await?;
            let work = move |stop: &Stop| {
                // Held by the work, not by the call: a search that was left behind still runs.
                let _turn = turn;
                search.run(stop)
            };
            let (best, stopped) = stoppable::run(&context.cancel, time_left, work).await?;
            Ok(output(&place, best, stopped, started))
        })
    }
}

/// A compiled pattern.
struct Search {
    place: Place,
    pattern: Override,
    vcs: Vcs,
    scope: GlobScope,
}

/// Newest first, so that the best entries are the newest.
type Newest = Best<(std::cmp::Reverse<SystemTime>, PathBuf), ()>;

impl Search {
    /// Compiles a pattern, which is relative to the root of `place`. The error is a text for the model.
    fn new(pattern: &str, place: &Place, vcs: Vcs, scope: GlobScope) -> Result<Self, ToolFailure> {
        let bad = |error: ignore::Error| ToolFailure::Failed(format!("Invalid glob: {error}"));
        let mut builder = OverrideBuilder::new(&place.root);
        builder.add(pattern).map_err(bad)?;
        let pattern = builder.build().map_err(bad)?;
        Ok(Self { place: place.clone(), pattern, vcs, scope })
    }

    /// Walks the tree on several threads and keeps the newest files, at most [`MAX_FILES`]; all are counted. A file
    /// without a readable time counts as the oldest; what cannot be read is skipped. Stopped early, it returns what it
    /// has found so far, with the reason.
    fn run(self, stop: &Stop) -> (Newest, Option<StopReason>) {
        let found = Mutex::new(Best::new(MAX_FILES));
        let mut builder = self.place.walk(self.vcs);
        builder.overrides(self.pattern).hidden(!self.scope.hidden);
        if self.scope.ignored {
            builder.ignore(false).git_ignore(false).git_exclude(false).parents(false);
        }
        builder.build_parallel().run(|| {
            Box::new(|entry| {
                if stop.is_set() {
                    return WalkState::Quit;
                }
                let Ok(entry) = entry else { return WalkState::Continue };
                if entry.file_type().is_some_and(|kind| kind.is_file()) {
                    let modified = entry
                        .metadata()
                        .ok()
                        .and_then(|metadata| metadata.modified().ok())
                        .unwrap_or(SystemTime::UNIX_EPOCH);
                    let key = (std::cmp::Reverse(modified), entry.into_path());
                    found.lock().unwrap_or_else(PoisonError::into_inner).add(key, ());
                }
                WalkState::Continue
            })
        });
        (found.into_inner().unwrap_or_else(PoisonError::into_inner), stop.reason())
    }
}

/// Splits off the literal directories at the start of a pattern, and returns them with the rest, which is then anchored
/// there. Without such directories the first part is `None` and the pattern stays as it is.
fn split(pattern: &str) -> (Option<PathBuf>, String) {
    let is_literal = |part: &Component<'_>| match part {
        Component::Normal(name) => !name.to_string_lossy().contains(['*', '?', '[', '{', '\\', '!']),
        Component::RootDir | Component::CurDir | Component::ParentDir | Component::Prefix(_) => true,
    };
    let parts: Vec<Component<'_>> = Path::new(pattern).components().collect();
    let directories = &parts[..parts.len().saturating_sub(1)];
    let literal = directories.iter().take_while(|part| is_literal(part)).count();
    let (base, rest) = parts.split_at(literal);
    let (base, rest): (PathBuf, PathBuf) = (base.iter().collect(), rest.iter().collect());
    if base.as_os_str().is_empty() {
        return (None, pattern.to_owned());
    }
    let slash = if pattern.ends_with('/') { "/" } else { "" };
    (Some(base), format!("/{}{slash}", rest.display()))
}

/// Returns whether a found file is really at its path, and not behind a directory that became a link meanwhile. A file
/// that exists but cannot be opened counts as there.
fn is_there(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    !matches!(real::open(path, flags), Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT))
}

/// Returns the output of the call, the most recently changed file last. Paths are checked once more before they are
/// shown, because the tree may have changed during the search; one that is left out then still counts in the total.
fn output(place: &Place, best: Newest, stopped: Option<StopReason>, started: Instant) -> ToolOutput {
    let total = best.total;
    let filenames: Vec<String> = best
        .into_entries()
        .rev()
        .filter(|((_, path), ())| is_there(path))
        .map(|((_, path), ())| place.name(&path))
        .collect();
    let shown = filenames.len();
    let truncated = (shown as u64) < total;
    let mut content = if filenames.is_empty() { "No files found".to_owned() } else { filenames.join("\n") };
    if truncated {
        content.push_str(&format!(
            "\n(Showing the {shown} most recently changed of {total} files; a narrower pattern or path shows others.)"
        ));
    }
    let mut result = json!({
        "filenames": filenames,
        "durationMs": u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "numFiles": shown,
        "truncated": truncated,
        "totalMatches": total,
        "countIsComplete": stopped.is_none(),
    });
    if stopped.is_some() {
        content.push_str("\n(The search ran out of time; there may be more files.)");
        result["timedOut"] = json!(true);
    }
    ToolOutput::new(Content::Text(content), result)
}

#[cfg(test)]
mod tests;
