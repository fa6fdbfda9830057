//! Write: replaces the whole content of a file, or creates it.
//!
//! An existing file keeps its mode, line ends and byte order mark. A file that was read and has changed since is not
//! overwritten: the model would undo changes it has not seen. Whether an unread file may be overwritten is a setting;
//! notebooks and files read only in part never are.

use std::path::Path;
use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use lathe_protocol::CallSubject;
use serde_json::{Value, json};

use crate::files::FileError;
use crate::files::open::Stamp;
use crate::files::patch::{changed_lines, structured_patch};
use crate::files::real::Parents;
use crate::files::replace::{Expected, Original, Target};
use crate::files::seen::{Seen, View};
use crate::files::text::FileText;
use crate::stoppable::{self, Stop};
use crate::{
    ChangedLines, Content, Limits, ReadBeforeEdit, ResultLimits, Tool, ToolContext, ToolFailure, ToolOutput,
};

/// The Write tool.
#[derive(Debug, Default)]
pub struct Write;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "file_path": { "type": "string", "description": "Path of the file, best absolute" },
            "content": { "type": "string", "description": "The whole new content" },
        },
        "required": ["file_path", "content"],
        "additionalProperties": false,
    })
});

/// Said when the model knows the whole file after the change.
pub(crate) const STATE_IS_CURRENT: &str =
    " (file state is current in your context — no need to Read it back)";

/// Said when a file has to be read first.
pub(crate) const NOT_READ: &str = "File has not been read yet. Read it first before writing to it.";

impl Tool for Write {
    fn name(&self) -> &str {
        "Write"
    }

    fn description(&self) -> &str {
        "Writes a file, replacing what was there; missing directories are made. Read an existing file first. \
         Prefer Edit for changes to a part of a file."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn subject(&self, input: &Value) -> CallSubject {
        CallSubject::write(input["file_path"].as_str())
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
            let (path, content) = words(input);
            if context.is_quick_change(path, content.len()) {
                return write(path, content, context, &Stop::default());
            }
            let (input, for_work) = (input.clone(), context.clone());
            let work = move |stop: &Stop| {
                let (path, content) = words(&input);
                write(path, content, &for_work, stop)
            };
            stoppable::change(&context.cancel, work).await
        })
    }
}

/// Returns path and content of an input; empty where one is missing.
fn words(input: &Value) -> (&str, &str) {
    let word = |name: &str| input[name].as_str().unwrap_or_default();
    (word("file_path"), word("content"))
}

/// The state of the path before the write.
enum Before {
    Nothing,
    File(Original),
    /// Too large to compare: replaced all the same, without a patch.
    LargeFile(Stamp),
}

/// Writes the file, creating missing folders, and records it as seen. The stop is checked right before the write, so
/// that a cancelled call changes no file (folders may have been created by then); a file that changed after it was read
/// here is not overwritten.
fn write(path: &str, content: &str, context: &ToolContext, stop: &Stop) -> Result<ToolOutput, ToolFailure> {
    let failed = |error: FileError| match error {
        FileError::Directory => ToolFailure::Rejected(format!(
            "{path} is a directory, not a file. Add the name of the file to file_path."
        )),
        error => ToolFailure::Failed(error.in_words(Path::new(path))),
    };
    let target = Target::at(context.real(path).map_err(failed)?, Parents::Create).map_err(failed)?;
    let before = match target.read(context.workspace.limits.edit_bytes) {
        Ok(None) => Before::Nothing,
        Ok(Some(original)) => Before::File(original),
        Err(FileError::TooLarge { .. }) => match target.stamp().map_err(failed)? {
            Some(stamp) => Before::LargeFile(stamp),
            None => Before::Nothing,
        },
        Err(error) => return Err(failed(error)),
    };
    may_overwrite(&before, &target, path, context)?;
    let bytes;
    let (bytes, expected): (&[u8], Expected<'_>) = match &before {
        Before::Nothing => (content.as_bytes(), Expected::Absent),
        Before::LargeFile(stamp) => (content.as_bytes(), Expected::Unchanged(stamp)),
        Before::File(original) => {
            bytes = FileText::new(original.bytes.clone()).rewritten(content);
            (&bytes, Expected::Unchanged(&original.stamp))
        }
    };
    stop.check()?;
    let stamp = target.replace(bytes, expected).map_err(failed)?;
    let seen = Seen::of_bytes(View::Whole, stamp, bytes);
    context.workspace.record_file(target.path.clone(), seen);
    Ok(output(path, content, before))
}

/// Checks that the model knows what it overwrites; a missing file may always be written. A file that changed since it
/// was read, or was read in part, is never replaced, because the unseen part would be lost; an unread one only if the
/// settings allow it and it is not a notebook.
fn may_overwrite(
    before: &Before,
    target: &Target,
    path: &str,
    context: &ToolContext,
) -> Result<(), ToolFailure> {
    let current = |seen: &Seen| match before {
        Before::Nothing => true,
        Before::File(original) => seen.is_current(&original.stamp, &original.bytes),
        Before::LargeFile(stamp) => seen.is_current_by_stamp(stamp),
    };
    if matches!(before, Before::Nothing) {
        return Ok(());
    }
    let refused = |why: &str| Err(ToolFailure::Rejected(why.to_owned()));
    let required = context.workspace.limits.read_before_edit == ReadBeforeEdit::Required;
    match context.workspace.file_seen(&target.path) {
        None if required || is_notebook(path) => refused(NOT_READ),
        None => Ok(()),
        Some(seen) if !current(&seen) => {
            refused("File has been modified since it was read. Read it again before writing to it.")
        }
        Some(Seen { view: View::Part, .. }) => {
            refused("File has only been read in part. Read all of it before overwriting it, or use Edit.")
        }
        Some(Seen { view: View::Blind, .. }) if required => refused(NOT_READ),
        Some(Seen { view: View::Whole | View::Blind, .. }) => Ok(()),
    }
}

/// Returns whether the name is that of a notebook, in any case of letters.
pub(crate) fn is_notebook(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ipynb"))
}

/// Returns the output of the call. For a file that was too large to compare, it has no patch and no old content.
fn output(path: &str, content: &str, before: Before) -> ToolOutput {
    let (kind, original) = match before {
        Before::Nothing => ("create", None),
        Before::File(original) => ("update", Some(FileText::new(original.bytes))),
        Before::LargeFile(_) => ("update", None),
    };
    let original = original.as_ref().map(FileText::text);
    let patch = match &original {
        Some(original) => structured_patch(original, &content.replace("\r\n", "\n")),
        None => Vec::new(),
    };
    let changed = match kind {
        // All lines of a new file count as added.
        "create" => ChangedLines { added: content.lines().count() as u64, removed: 0 },
        _ => changed_lines(&patch),
    };
    let said = match kind {
        "create" => format!("File created successfully at: {path}"),
        _ => format!("The file {path} has been updated successfully."),
    };
    ToolOutput::new(
        Content::Text(said + STATE_IS_CURRENT),
        json!({
            "type": kind,
            "filePath": path,
            "content": content,
            "structuredPatch": patch,
            "originalFile": original,
            "userModified": false,
        }),
    )
    .with_changed_lines(changed)
}

#[cfg(test)]
mod tests;
