//! NotebookEdit: replaces, inserts or deletes one cell of a notebook.
//!
//! The notebook must have been read, whatever the model: its cells are addressed by ids that are only known from
//! reading. Everything else in the file stays, in its order; the layout becomes the usual one of notebooks (indented by
//! one space).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use lathe_protocol::CallSubject;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::file_tools::notebook::{cell_id, source_of};
use crate::file_tools::read::missing_text;
use crate::file_tools::write::{NOT_READ, is_notebook};
use crate::files::FileError;
use crate::files::real::Parents;
use crate::files::replace::{Expected, Target};
use crate::files::seen::{Seen, View};
use crate::stoppable::{self, Stop};
use crate::{
    Content, Limits, Loading, ResultLimits, Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput,
};

/// The NotebookEdit tool.
#[derive(Debug, Default)]
pub struct NotebookEdit;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "notebook_path": { "type": "string", "description": "Path of the .ipynb file" },
            "cell_id": { "type": "string", "description": "The cell; for insert, the one to insert after (none: at the top)" },
            "new_source": { "type": "string" },
            "cell_type": { "type": "string", "enum": ["code", "markdown"], "description": "Needed for insert" },
            "edit_mode": { "type": "string", "enum": ["replace", "insert", "delete"], "description": "Default: replace" },
        },
        "required": ["notebook_path", "new_source"],
        "additionalProperties": false,
    })
});

/// The input of the call.
struct Request<'a> {
    path: &'a str,
    cell: Option<&'a str>,
    source: &'a str,
    cell_type: Option<&'a str>,
    mode: Mode,
}

/// What is done with a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Replace,
    Insert,
    Delete,
}

impl Mode {
    /// Returns the mode as `edit_mode` in input and result writes it.
    fn name(self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::Insert => "insert",
            Self::Delete => "delete",
        }
    }
}

impl<'a> Request<'a> {
    /// Reads the input. Missing parts read as empty: the schema has been checked before.
    fn of(input: &'a Value) -> Self {
        Self {
            path: input["notebook_path"].as_str().unwrap_or_default(),
            cell: input["cell_id"].as_str(),
            source: input["new_source"].as_str().unwrap_or_default(),
            cell_type: input["cell_type"].as_str(),
            mode: match input["edit_mode"].as_str() {
                Some("insert") => Mode::Insert,
                Some("delete") => Mode::Delete,
                Some(_) | None => Mode::Replace,
            },
        }
    }
}

impl Tool for NotebookEdit {
    fn name(&self) -> &str {
        "NotebookEdit"
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration { loading: Loading::Deferred, ..ToolDeclaration::EVERYWHERE }
    }

    fn description(&self) -> &str {
        "Replaces, inserts or deletes one cell of a Jupyter notebook. Read the notebook first: that gives the \
         cell ids."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn subject(&self, input: &Value) -> CallSubject {
        CallSubject::write(input["notebook_path"].as_str())
    }

    fn check(&self, input: &Value) -> Result<(), ToolFailure> {
        let request = Request::of(input);
        if !is_notebook(request.path) {
            return Err(rejected(
                "File must be a Jupyter notebook (.ipynb file). For other files use the Edit tool.",
            ));
        }
        if request.mode == Mode::Insert && request.cell_type.is_none() {
            return Err(rejected("Cell type is required when using edit_mode=insert."));
        }
        if request.mode != Mode::Insert && request.cell.is_none() {
            return Err(rejected("Cell ID must be specified when not inserting a new cell."));
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
            if context.is_quick_change(request.path, request.source.len()) {
                return edit(&request, context, &Stop::default());
            }
            let (input, for_work) = (input.clone(), context.clone());
            let work = move |stop: &Stop| edit(&Request::of(&input), &for_work, stop);
            stoppable::change(&context.cancel, work).await
        })
    }
}

/// Returns the failure of a call that cannot be carried out as it was written; only for places where nothing has been
/// changed yet.
fn rejected(text: impl Into<String>) -> ToolFailure {
    ToolFailure::Rejected(text.into())
}

/// Makes the edit, and records the notebook as seen. The file must be the one that was read: cells without ids are
/// addressed by position, so a changed notebook would get the edit in the wrong cell. The stop is checked right before
/// the write.
fn edit(request: &Request<'_>, context: &ToolContext, stop: &Stop) -> Result<ToolOutput, ToolFailure> {
    let failed = |error: FileError| match error {
        FileError::Missing => rejected(missing_text(context)),
        error => ToolFailure::Failed(error.in_words(Path::new(request.path))),
    };
    let path = context.real(request.path).map_err(failed)?;
    let target = match Target::at(path, Parents::MustExist) {
        Err(FileError::Missing) => return Err(rejected(NOT_READ)),
        result => result.map_err(failed)?,
    };
    let Some(seen) = context.workspace.file_seen(&target.path) else {
        return Err(rejected(NOT_READ));
    };
    let original = target
        .read(context.workspace.limits.edit_bytes)
        .map_err(failed)?
        .ok_or_else(|| failed(FileError::Missing))?;
    if !seen.is_current(&original.stamp, &original.bytes) {
        return Err(rejected(
            "File has been modified since it was read. Read it again before writing to it.",
        ));
    }
    let mut notebook: Value = serde_json::from_slice(&original.bytes)
        .map_err(|error| rejected(format!("Notebook is not valid JSON: {error}")))?;
    let done = change(request, &mut notebook, &context.tool_use_id)?;
    let updated = written(&notebook)?;
    stop.check()?;
    let stamp = target.replace(updated.as_bytes(), Expected::Unchanged(&original.stamp)).map_err(failed)?;
    context
        .workspace
        .record_file(target.path.clone(), Seen::of_bytes(View::Whole, stamp, updated.as_bytes()));
    let before = String::from_utf8_lossy(&original.bytes).into_owned();
    Ok(output(request, &notebook, done, before, updated))
}

/// The change that was made, and to which cell.
struct Done {
    cell_id: String,
    cell_type: String,
    old_source: Option<String>,
}

/// Changes the notebook in memory. An insertion goes after the given cell, or to the beginning if none is given.
/// Refuses if there is no list of cells, if the given cell does not exist, or if none is given for another change;
/// `salt` makes the id of a new cell differ from call to call.
fn change(request: &Request<'_>, notebook: &mut Value, salt: &str) -> Result<Done, ToolFailure> {
    let has_ids = has_cell_ids(notebook);
    let cells = notebook["cells"].as_array_mut().ok_or_else(|| rejected("Notebook has no list of cells."))?;
    let index = match request.cell {
        None => None,
        Some(id) => Some(
            cells
                .iter()
                .enumerate()
                .position(|(index, cell)| cell_id(cell, index) == id)
                .ok_or_else(|| rejected(format!("Cell with ID {id:?} not found in notebook.")))?,
        ),
    };
    match (request.mode, index) {
        (Mode::Insert, index) => {
            let at = index.map_or(0, |index| index + 1);
            Ok(insert(request, cells, at, has_ids.then_some(salt)))
        }
        (Mode::Delete, Some(index)) => {
            let id = cell_id(&cells[index], index);
            let cell = cells.remove(index);
            Ok(Done {
                cell_id: id,
                cell_type: cell["cell_type"].as_str().unwrap_or("code").to_owned(),
                old_source: Some(source_of(&cell)),
            })
        }
        (Mode::Replace, Some(index)) => Ok(replace(request, &mut cells[index], index)),
        (Mode::Replace | Mode::Delete, None) => {
            Err(rejected("Cell ID must be specified when not inserting a new cell."))
        }
    }
}

/// Returns whether new cells get ids: cells have them since version 4.5 of the format, and older readers reject them.
/// False if the notebook names no version.
fn has_cell_ids(notebook: &Value) -> bool {
    let version = (notebook["nbformat"].as_u64(), notebook["nbformat_minor"].as_u64());
    version >= (Some(4), Some(5))
}

/// Inserts a cell at position `at`, which must not be behind the end; its type is code if the input names none. Without
/// `salt` the format has no ids, and the result names the cell by its position.
fn insert(request: &Request<'_>, cells: &mut Vec<Value>, at: usize, salt: Option<&str>) -> Done {
    let cell_type = request.cell_type.unwrap_or("code");
    let mut cell = Map::new();
    cell.insert("cell_type".into(), json!(cell_type));
    let id = match salt {
        Some(salt) => {
            let id = new_id(salt, request.source, cells);
            cell.insert("id".into(), json!(id));
            id
        }
        None => format!("cell-{at}"),
    };
    cell.insert("source".into(), json!(request.source));
    cell.insert("metadata".into(), json!({}));
    if cell_type == "code" {
        cell.insert("execution_count".into(), Value::Null);
        cell.insert("outputs".into(), json!([]));
    }
    cells.insert(at, Value::Object(cell));
    Done { cell_id: id, cell_type: cell_type.to_owned(), old_source: None }
}

/// Returns eight hex digits that no cell has. They are derived from the call instead of random, so that runs can be
/// repeated.
fn new_id(salt: &str, source: &str, cells: &[Value]) -> String {
    let mut hasher = DefaultHasher::new();
    (salt, source, cells.len()).hash(&mut hasher);
    let mut number = hasher.finish();
    loop {
        let id = format!("{:08x}", number & 0xFFFF_FFFF);
        if cells.iter().all(|cell| cell["id"] != json!(id)) {
            return id;
        }
        number = number.wrapping_add(1);
    }
}

/// Replaces the text of a cell, and its type if the input names one; id and metadata stay. Its outputs are removed,
/// because they belong to the old text. A cell that is not a JSON object is left as it is.
fn replace(request: &Request<'_>, cell: &mut Value, index: usize) -> Done {
    let old_source = source_of(cell);
    let id = cell_id(cell, index);
    let old_type = cell["cell_type"].as_str().unwrap_or("code").to_owned();
    let cell_type = request.cell_type.unwrap_or(&old_type).to_owned();
    if let Some(cell) = cell.as_object_mut() {
        cell.insert("source".into(), json!(request.source));
        cell.insert("cell_type".into(), json!(cell_type));
        if cell_type == "code" {
            cell.insert("execution_count".into(), Value::Null);
            cell.insert("outputs".into(), json!([]));
        } else {
            cell.shift_remove("execution_count");
            cell.shift_remove("outputs");
        }
    }
    Done { cell_id: id, cell_type, old_source: Some(old_source) }
}

/// Returns the notebook as text in Jupyter's own format: indented by one space, without a newline at the end, so
/// that an edit changes no other line.
fn written(notebook: &Value) -> Result<String, ToolFailure> {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b" ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    notebook
        .serialize(&mut serializer)
        .map_err(|error| ToolFailure::Failed(format!("Notebook cannot be written: {error}")))?;
    String::from_utf8(bytes)
        .map_err(|error| ToolFailure::Failed(format!("Notebook cannot be written: {error}")))
}

/// Returns the output of the call. The value for programs contains the whole file before and after the edit.
fn output(request: &Request<'_>, notebook: &Value, done: Done, before: String, after: String) -> ToolOutput {
    let Done { cell_id, cell_type, old_source } = done;
    let source = request.source;
    let said = match request.mode {
        Mode::Replace => format!("Updated cell {cell_id} with {source}"),
        Mode::Insert => format!("Inserted cell {cell_id} with {source}"),
        Mode::Delete => format!("Deleted cell {cell_id}"),
    };
    let mut result = Map::new();
    result.insert("new_source".into(), json!(source));
    if let Some(old_source) = old_source {
        result.insert("old_source".into(), json!(old_source));
    }
    let language = notebook["metadata"]["language_info"]["name"].as_str().unwrap_or("python");
    result.insert("cell_type".into(), json!(cell_type));
    result.insert("language".into(), json!(language));
    result.insert("edit_mode".into(), json!(request.mode.name()));
    result.insert("cell_id".into(), json!(cell_id));
    result.insert("error".into(), json!(""));
    result.insert("notebook_path".into(), json!(request.path));
    result.insert("original_file".into(), json!(before));
    result.insert("updated_file".into(), json!(after));
    ToolOutput::new(Content::Text(said), Value::Object(result))
}

#[cfg(test)]
mod tests;
