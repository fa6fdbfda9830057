//! Edit: replaces one string of a file by another. What it does is done here for MultiEdit, too, which has several
//! strings: all of them are found and replaced in memory, one after the other, and the file is written once or not at
//! all.
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

/// How many times an edit is tried in all, because other programs may keep changing the file.
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

/// What a call asks for. Missing parts read as empty: the schema has been checked before.
pub(super) struct Request<'a> {
    path: &'a str,
    /// At least one. Each is made in what the one before has left.
    steps: Vec<Step<'a>>,
}

/// One string to replace.
struct Step<'a> {
    /// With LF line ends.
    old: String,
    new: &'a str,
    replace_all: bool,
}

/// Reads the input of Edit, as a request with one step.
fn one_edit(input: &Value) -> Request<'_> {
    Request { path: path_of(input), steps: vec![Step::of(input)] }
}

/// Reads the input of MultiEdit, as a request with a step for each edit, in their order.
pub(super) fn several_edits(input: &Value) -> Request<'_> {
    let steps = input["edits"].as_array().into_iter().flatten().map(Step::of);
    Request { path: path_of(input), steps: steps.collect() }
}

impl Request<'_> {
    /// Returns how many bytes the old and new strings of all steps have together, as a measure of the work.
    fn bytes(&self) -> usize {
        self.steps.iter().map(|step| step.old.len() + step.new.len()).sum()
    }

    /// Adds to a rejection which step failed (`at` counts from 0) and that no edit was made. A call with a single step,
    /// and any other failure, is returned as it is.
    fn of_step(&self, at: usize, failure: ToolFailure) -> ToolFailure {
        match failure {
            ToolFailure::Rejected(text) if self.steps.len() > 1 => rejected(format!(
                "Edit {} of {}: {text}\nNo edit of this call was made.",
                at + 1,
                self.steps.len()
            )),
            failure => failure,
        }
    }
}

impl<'a> Step<'a> {
    /// Reads one edit of an input. Missing parts read as empty: the schema has been checked before.
    fn of(edit: &'a Value) -> Self {
        Self {
            old: edit["old_string"].as_str().unwrap_or_default().replace("\r\n", "\n"),
            new: edit["new_string"].as_str().unwrap_or_default(),
            replace_all: edit["replace_all"] == json!(true),
        }
    }
}

/// Returns the path of an input; empty if it is missing.
fn path_of(input: &Value) -> &str {
    input["file_path"].as_str().unwrap_or_default()
}

/// Refuses an edit whose old and new string are equal, because it would change nothing.
pub(super) fn check_difference(edit: &Value) -> Result<(), ToolFailure> {
    match edit["old_string"] == edit["new_string"] {
        true => Err(rejected("No changes to make: old_string and new_string are exactly the same.")),
        false => Ok(()),
    }
}

/// Refuses an edit of a notebook, for which there is another tool.
pub(super) fn check_kind(input: &Value) -> Result<(), ToolFailure> {
    match is_notebook(path_of(input)) {
        true => Err(rejected("File is a Jupyter Notebook. Use the NotebookEdit to edit this file.")),
        false => Ok(()),
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
        check_difference(input)?;
        check_kind(input)
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
            let change = make(input, context, one_edit).await?;
            Ok(change.output(input))
        })
    }
}

/// Makes the edits of a call: at once on the event loop if they are quick, otherwise on the blocking pool. `request`
/// reads the input; it is a function so that the work can read its own copy there.
pub(super) async fn make(
    input: &Value,
    context: &ToolContext,
    request: fn(&Value) -> Request<'_>,
) -> Result<ChangedFile, ToolFailure> {
    let asked = request(input);
    if context.is_quick_change(asked.path, asked.bytes()) {
        return edit(&asked, context, &Stop::default());
    }
    let (input, for_work) = (input.clone(), context.clone());
    let work = move |stop: &Stop| edit(&request(&input), &for_work, stop);
    stoppable::change(&context.cancel, work).await
}

/// Returns the failure of a call that cannot be carried out as it was written; only for places where nothing has been
/// changed yet.
pub(super) fn rejected(text: impl Into<String>) -> ToolFailure {
    ToolFailure::Rejected(text.into())
}

/// Makes the edits, and starts over with the new content, at most [`ATTEMPTS`] times in all, if another program changes
/// the file in between. The stop is checked right before each write, so that a cancelled call changes no file; for an
/// empty first old string missing directories are created before that.
fn edit(request: &Request<'_>, context: &ToolContext, stop: &Stop) -> Result<ChangedFile, ToolFailure> {
    let failed = |error: FileError| match error {
        FileError::Missing => rejected(missing_text(context)),
        FileError::Directory => {
            rejected("Error calling tool (Edit): EISDIR: illegal operation on a directory, read")
        }
        error => ToolFailure::Failed(error.in_words(Path::new(request.path))),
    };
    let creates = request.steps.first().is_some_and(|step| step.old.is_empty());
    let parents = if creates { Parents::Create } else { Parents::MustExist };
    let path = context.real(request.path).map_err(failed)?;
    let mut last = FileError::Changed;
    for _ in 0..ATTEMPTS {
        let target = Target::at(path.clone(), parents).map_err(failed)?;
        let original = target.read(context.workspace.limits.edit_bytes).map_err(failed)?;
        let plan = Plan::make(request, original, &target, context)?;
        stop.check()?;
        match plan.carry_out(&target, context) {
            Ok(()) => return Ok(plan.change),
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
    new_bytes: Vec<u8>,
    change: ChangedFile,
    view_after: View,
}

/// What edits made of a file.
pub(super) struct ChangedFile {
    old_text: String,
    new_text: String,
    /// The old string of each edit as it was in the file.
    actual_old: Vec<String>,
    knowledge: Knowledge,
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
    /// Computes the new content and the change in memory, without touching the file. Refuses if the model has not read
    /// the file, or if a step does not fit.
    fn make(
        request: &Request<'_>,
        original: Option<Original>,
        target: &Target,
        context: &ToolContext,
    ) -> Result<Self, ToolFailure> {
        let text_of = |original: &Original| FileText::new(original.bytes.clone());
        let mut steps = request.steps.iter().enumerate();
        let (file, old_text, known) = match request.steps.first().filter(|step| step.old.is_empty()) {
            Some(first) => {
                steps.next();
                let old_text = original.as_ref().map(|original| text_of(original).text().into_owned());
                let known = (Knowledge::Current, View::Whole);
                (first.begin(original.as_ref())?, old_text.unwrap_or_default(), known)
            }
            None => {
                let Some(original) = &original else { return Err(rejected(missing_text(context))) };
                let (known, file) = (knowledge(original, target, context)?, text_of(original));
                let old_text = file.text().into_owned();
                (file, old_text, known)
            }
        };
        let (mut file, mut actual_old) = (file, vec![String::new(); request.steps.len()]);
        for (at, step) in steps {
            let (changed, found) =
                step.make(&file, known.0, context).map_err(|failure| request.of_step(at, failure))?;
            (file, actual_old[at]) = (changed, found);
        }
        let change =
            ChangedFile { old_text, new_text: file.text().into_owned(), actual_old, knowledge: known.0 };
        Ok(Self { original, new_bytes: file.into_raw(), change, view_after: known.1 })
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
}

impl Step<'_> {
    /// Returns the new string as the whole file, for a step without an old string. Refuses if the file has content
    /// other than white space.
    fn begin(&self, original: Option<&Original>) -> Result<FileText, ToolFailure> {
        if original.is_some_and(|original| !original.bytes.trim_ascii().is_empty()) {
            return Err(rejected("Cannot create new file - file already exists."));
        }
        Ok(FileText::new(self.new.as_bytes().to_owned()))
    }

    /// Replaces the old string of this step; returns the new file and the old string as it was in the file. Refuses a
    /// string that does not match as it must. The checks come before the new content is built, because that may need a
    /// lot of memory.
    fn make(
        &self,
        file: &FileText,
        knowledge: Knowledge,
        context: &ToolContext,
    ) -> Result<(FileText, String), ToolFailure> {
        let found = matching::find(&file.lf, &self.old);
        check_matches(self, &found, knowledge)?;
        let new = found.restyle(self.new);
        check_growth(file, &found, &new, context)?;
        Ok((FileText::new(file.replaced(&found.ranges, &new)), found.actual))
    }
}

impl ChangedFile {
    /// Returns `done`, which says what was done, as the text for the model, followed by whether it has to read the file
    /// before the next edit.
    pub(super) fn telling(&self, done: String) -> Content {
        let remark = match self.knowledge {
            Knowledge::Current => STATE_IS_CURRENT,
            Knowledge::Stale => {
                " (note: the file had been modified on disk since you last read it. The edit fitted, but the \
                 file has other changes that you have not seen: Read it before edits that depend on them.)"
            }
            Knowledge::Unread => "",
        };
        Content::Text(done + remark)
    }

    /// Returns the output of a call with `content` for the model and the fields of `result` for programs, to which the
    /// old content, the patch and the state of the model's knowledge are added.
    pub(super) fn described(&self, content: Content, mut result: Value) -> ToolOutput {
        let patch = structured_patch(&self.old_text, &self.new_text);
        result["originalFile"] = json!(self.old_text);
        result["structuredPatch"] = json!(patch);
        result["userModified"] = json!(false);
        if self.knowledge == Knowledge::Stale {
            result["staleRecovered"] = json!(true);
        }
        if self.knowledge != Knowledge::Current {
            result["contentNotInModelContext"] = json!(true);
        }
        ToolOutput::new(content, result).with_changed_lines(changed_lines(&patch))
    }

    /// Returns the output of Edit, in words for the model and with the fields that programs expect.
    fn output(&self, input: &Value) -> ToolOutput {
        let (path, step) = (path_of(input), Step::of(input));
        let done = if step.replace_all {
            format!("The file {path} has been updated. All occurrences were successfully replaced.")
        } else {
            format!("The file {path} has been updated successfully.")
        };
        let result = json!({
            "filePath": path,
            "oldString": self.actual_old.concat(),
            "newString": step.new,
            "originalFile": null,
            "structuredPatch": null,
            "userModified": null,
            "replaceAll": step.replace_all,
        });
        self.described(self.telling(done), result)
    }
}

/// Returns what the model knows of the file before the edit, and how much of it will count as seen afterwards. Refuses
/// a file that the model has not read, if the settings require that it reads first.
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

/// Refuses an edit that would make the file larger than the limit for edits: many matches and a long new string could
/// exhaust the memory. What the edit removes is not subtracted. Must come before the new content is built.
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

/// Refuses a step whose old string does not mark one place, unless all places are meant. A file that changed since it
/// was read needs exactly one exact match, even with `replace_all`: the model has not seen the other places.
fn check_matches(step: &Step<'_>, found: &Found, knowledge: Knowledge) -> Result<(), ToolFailure> {
    let count = found.ranges.len();
    if knowledge == Knowledge::Stale && (count != 1 || !found.exact) {
        return Err(rejected(
            "File has been modified since it was read, and old_string does not match it exactly once. \
             Read it again before editing it.",
        ));
    }
    match count {
        0 => Err(rejected(format!("String to replace not found in file.\nString: {}", step.old))),
        1 => Ok(()),
        _ if step.replace_all => Ok(()),
        _ => Err(rejected(format!(
            "Found {count} matches of the string to replace, but replace_all is false. Set replace_all to \
             true for all of them, or add lines around the one you mean.\nString: {}",
            step.old
        ))),
    }
}

#[cfg(test)]
mod tests;
