//! Edit: replaces one string of a file by another.
//!
//! Matching works on the text as the model sees it (see `files::text`), writing works on the bytes, so the rest of the
//! file stays as it is. Surprising: a file that changed since it was read may still be edited if the old string occurs
//! exactly once, because the edit then still has one meaning; the result says so. If another program changes the file
//! between our reading and our writing, the edit starts over, so no update is lost.

mod matching;

use std::path::Path;
use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use lathe_protocol::CallSubject;
use serde_json::{Value, json};

use crate::file_tools::read::missing_text;
use crate::file_tools::write::{NOT_READ, STATE_IS_CURRENT, is_notebook};
use crate::files::FileError;
use crate::files::error::human_size;
use crate::files::patch::{changed_lines, structured_patch};
use crate::files::real::Parents;
use crate::files::replace::{Expected, Original, Target};
use crate::files::seen::{Seen, View};
use crate::files::text::FileText;
use crate::stoppable::{self, Stop};
use crate::{
    Content, Limits, ReadBeforeEdit, ResultLimits, Tool, ToolContext, ToolDeclaration, ToolFailure,
    ToolOutput,
};
use matching::Found;

/// How often an edit starts over because the file keeps changing.
const ATTEMPTS: usize = 5;

/// The Edit tool.
#[derive(Debug, Default)]
pub struct Edit;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "file_path": { "type": "string", "description": "Path of the file, best absolute" },
            "old_string": { "type": "string", "description": "Text to replace, exactly as in the file, without line numbers; empty to create the file" },
            "new_string": { "type": "string", "description": "Text to put in its place" },
            "replace_all": { "type": "boolean", "default": false, "description": "Replace every occurrence" },
        },
        "required": ["file_path", "old_string", "new_string"],
        "additionalProperties": false,
    })
});

/// The input of the call.
struct Request<'a> {
    path: &'a str,
    /// With LF line ends.
    old: String,
    new: &'a str,
    replace_all: bool,
}

impl<'a> Request<'a> {
    /// Reads the input. Missing parts read as empty: the schema has been checked before.
    fn of(input: &'a Value) -> Self {
        Self {
            path: input["file_path"].as_str().unwrap_or_default(),
            old: input["old_string"].as_str().unwrap_or_default().replace("\r\n", "\n"),
            new: input["new_string"].as_str().unwrap_or_default(),
            replace_all: input["replace_all"] == json!(true),
        }
    }
}

impl Tool for Edit {
    fn name(&self) -> &str {
        "Edit"
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration { bare: true, ..ToolDeclaration::EVERYWHERE }
    }

    fn description(&self) -> &str {
        "Replaces a string in a file. old_string must match exactly, indentation included, and be unique in \
         the file unless replace_all is set: add surrounding lines if it is not. Read the file first."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn subject(&self, input: &Value) -> CallSubject {
        CallSubject::write(input["file_path"].as_str())
    }

    fn check(&self, input: &Value) -> Result<(), ToolFailure> {
        if input["old_string"] == input["new_string"] {
            return Err(rejected("No changes to make: old_string and new_string are exactly the same."));
        }
        if is_notebook(input["file_path"].as_str().unwrap_or_default()) {
            return Err(rejected("File is a Jupyter Notebook. Use the NotebookEdit to edit this file."));
        }
        Ok(())
    }

    fn result_limits(&self, limits: &Limits) -> ResultLimits {
        ResultLimits::of_changed_file(limits)
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            self.check(input)?;
            let request = Request::of(input);
            if context.is_quick_change(request.path, request.old.len() + request.new.len()) {
                return edit(&request, context, &Stop::default());
            }
            let (input, for_work) = (input.clone(), context.clone());
            let work = move |stop: &Stop| edit(&Request::of(&input), &for_work, stop);
            stoppable::change(&context.cancel, work).await
        })
    }
}

/// Returns the failure of a call that made no sense as it was; only for places where nothing has been changed yet.
fn rejected(text: impl Into<String>) -> ToolFailure {
    ToolFailure::Rejected(text.into())
}

/// Makes the edit, and starts over with the new content if another program changes the file in between. The stop is
/// checked right before each write, so that a cancelled call changes nothing.
fn edit(request: &Request<'_>, context: &ToolContext, stop: &Stop) -> Result<ToolOutput, ToolFailure> {
    let failed = |error: FileError| match error {
        FileError::Missing => rejected(missing_text(context)),
        FileError::Directory => {
            rejected("Error calling tool (Edit): EISDIR: illegal operation on a directory, read")
        }
        error => ToolFailure::Failed(error.in_words(Path::new(request.path))),
    };
    let parents = if request.old.is_empty() { Parents::Create } else { Parents::MustExist };
    let path = context.real(request.path).map_err(failed)?;
    let mut last = FileError::Changed;
    for _ in 0..ATTEMPTS {
        let target = Target::at(path.clone(), parents).map_err(failed)?;
        let original = target.read(context.workspace.limits.edit_bytes).map_err(failed)?;
        let plan = Plan::make(request, original, &target, context)?;
        stop.check()?;
        match plan.carry_out(&target, context) {
            Ok(()) => return Ok(plan.output(request)),
            Err(FileError::Changed) => last = FileError::Changed,
            Err(error) => return Err(failed(error)),
        }
    }
    Err(failed(last))
}

/// A change, computed for the current content of the file.
struct Plan {
    /// The current content; `None` for a file that is created.
    original: Option<Original>,
    old_text: String,
    new_text: String,
    new_bytes: Vec<u8>,
    /// The old string as it is in the file.
    actual_old: String,
    knowledge: Knowledge,
    view_after: View,
}

/// What the model knows of the file apart from this edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Knowledge {
    Current,
    /// The file was read and has changed since.
    Stale,
    Unread,
}

impl Plan {
    /// Computes the change without touching the file. The checks come before the new content is built, because that may
    /// need a lot of memory.
    fn make(
        request: &Request<'_>,
        original: Option<Original>,
        target: &Target,
        context: &ToolContext,
    ) -> Result<Self, ToolFailure> {
        if request.old.is_empty() {
            return Self::create(request, original);
        }
        let Some(original) = original else {
            return Err(rejected(missing_text(context)));
        };
        let (knowledge, view_after) = knowledge(&original, target, context)?;
        let file = FileText::new(original.bytes.clone());
        let found = matching::find(&file.lf, &request.old);
        check_matches(request, &found, knowledge)?;
        let new = found.restyle(request.new);
        check_growth(&file, &found, &new, context)?;
        let mut new_lf = Vec::with_capacity(file.lf.len() + new.len());
        let mut copied = 0;
        for range in &found.ranges {
            new_lf.extend_from_slice(&file.lf[copied..range.start]);
            new_lf.extend_from_slice(new.replace("\r\n", "\n").as_bytes());
            copied = range.end;
        }
        new_lf.extend_from_slice(&file.lf[copied..]);
        Ok(Self {
            old_text: file.text().into_owned(),
            new_text: String::from_utf8_lossy(&new_lf).into_owned(),
            new_bytes: file.replaced(&found.ranges, &new),
            actual_old: found.actual,
            original: Some(original),
            knowledge,
            view_after,
        })
    }

    /// Plans the creation of a file, which an empty old string asks for. An existing file must be empty.
    fn create(request: &Request<'_>, original: Option<Original>) -> Result<Self, ToolFailure> {
        if original.as_ref().is_some_and(|original| !original.bytes.trim_ascii().is_empty()) {
            return Err(rejected("Cannot create new file - file already exists."));
        }
        let bytes = original.as_ref().map(|original| original.bytes.clone()).unwrap_or_default();
        Ok(Self {
            old_text: FileText::new(bytes).text().into_owned(),
            new_text: request.new.replace("\r\n", "\n"),
            new_bytes: request.new.as_bytes().to_owned(),
            actual_old: String::new(),
            original,
            knowledge: Knowledge::Current,
            view_after: View::Whole,
        })
    }

    /// Writes the new content, and records it as seen only after the write. [`FileError::Changed`] means that the file
    /// is not the one the change was computed for.
    fn carry_out(&self, target: &Target, context: &ToolContext) -> Result<(), FileError> {
        let expected = match &self.original {
            Some(original) => Expected::Unchanged(&original.stamp),
            None => Expected::Absent,
        };
        let stamp = target.replace(&self.new_bytes, expected)?;
        let seen = Seen::of_bytes(self.view_after, stamp, &self.new_bytes);
        context.workspace.record_file(target.path.clone(), seen);
        Ok(())
    }

    /// Returns the result. The text for the model says whether it has to read the file before the next edit; the value
    /// for programs contains the old content and the patch.
    fn output(&self, request: &Request<'_>) -> ToolOutput {
        let path = request.path;
        let said = if request.replace_all {
            format!("The file {path} has been updated. All occurrences were successfully replaced.")
        } else {
            format!("The file {path} has been updated successfully.")
        };
        let remark = match self.knowledge {
            Knowledge::Current => STATE_IS_CURRENT,
            Knowledge::Stale => {
                " (note: the file had been modified on disk since you last read it. The edit fitted, but the \
                 file has other changes that you have not seen: Read it before edits that depend on them.)"
            }
            Knowledge::Unread => "",
        };
        let patch = structured_patch(&self.old_text, &self.new_text);
        let mut result = json!({
            "filePath": path,
            "oldString": self.actual_old,
            "newString": request.new,
            "originalFile": self.old_text,
            "structuredPatch": patch,
            "userModified": false,
            "replaceAll": request.replace_all,
        });
        if self.knowledge == Knowledge::Stale {
            result["staleRecovered"] = json!(true);
        }
        if self.knowledge != Knowledge::Current {
            result["contentNotInModelContext"] = json!(true);
        }
        ToolOutput::new(Content::Text(said + remark), result).changing(changed_lines(&patch))
    }
}

/// Returns what the model knows of the file before the edit, and how much of it will count as seen afterwards. The
/// error is a file that the model has to read first.
fn knowledge(
    original: &Original,
    target: &Target,
    context: &ToolContext,
) -> Result<(Knowledge, View), ToolFailure> {
    let required = context.workspace.limits.read_before_edit == ReadBeforeEdit::Required;
    match context.workspace.file_seen(&target.path) {
        None | Some(Seen { view: View::Blind, .. }) if required => Err(rejected(NOT_READ)),
        None | Some(Seen { view: View::Blind, .. }) => Ok((Knowledge::Unread, View::Blind)),
        Some(seen) if seen.is_current(&original.stamp, &original.bytes) => {
            Ok((Knowledge::Current, seen.view))
        }
        Some(_) => Ok((Knowledge::Stale, View::Blind)),
    }
}

/// Refuses an edit that would make the file too large: many matches and a long new string could exhaust the memory.
fn check_growth(file: &FileText, found: &Found, new: &str, context: &ToolContext) -> Result<(), ToolFailure> {
    let added = new.len().saturating_mul(found.ranges.len());
    let size = file.lf.len().saturating_add(added) as u64;
    let most = context.workspace.limits.edit_bytes;
    if size <= most {
        return Ok(());
    }
    Err(rejected(format!(
        "The edited file would have about {}, more than this tool writes ({}).",
        human_size(size),
        human_size(most)
    )))
}

/// Checks that the old string marks one place, or that all places are meant. A file that changed since it was read
/// needs exactly one exact match, even with `replace_all`: the model has not seen the other places.
fn check_matches(request: &Request<'_>, found: &Found, knowledge: Knowledge) -> Result<(), ToolFailure> {
    let count = found.ranges.len();
    if knowledge == Knowledge::Stale && (count != 1 || !found.exact) {
        return Err(rejected(
            "File has been modified since it was read, and old_string does not match it exactly once. \
             Read it again before editing it.",
        ));
    }
    match count {
        0 => Err(rejected(format!("String to replace not found in file.\nString: {}", request.old))),
        1 => Ok(()),
        _ if request.replace_all => Ok(()),
        _ => Err(rejected(format!(
            "Found {count} matches of the string to replace, but replace_all is false. Set replace_all to \
             true for all of them, or add lines around the one you mean.\nString: {}",
            request.old
        ))),
    }
}

#[cfg(test)]
mod tests;
