//! Notebooks: the cells in order, each with its id, code with its output.
//!
//! Pictures among the outputs become image blocks. Long printed outputs are cut; the file itself has them.

use std::path::Path;

use lathe_protocol::text::first_chars;
use serde_json::{Map, Value, json};

use super::{Request, read_whole};
use crate::file_tools::notebook::{cell_id, source_of};
use crate::files::seen::{Seen, View};
use crate::{Content, ToolContext, ToolFailure, ToolOutput};

/// Notebooks contain pictures, so more is read than of plain text; what is shown is far less.
const MAX_BYTES: u64 = 16 << 20;

/// The most characters of one cell's printed output that are shown.
const OUTPUT_CHARS: usize = 10_000;

/// Reads all cells of a notebook and records the file as seen completely, although long outputs are cut. Fails if it is
/// too large or not valid JSON; a notebook without cells is not an error.
pub(super) async fn read(
    request: &Request,
    opened: super::Opened,
    path: &Path,
    context: &ToolContext,
) -> Result<ToolOutput, ToolFailure> {
    let stamp = opened.stamp;
    let bytes = read_whole(opened, MAX_BYTES, request, context).await?;
    let notebook: Value = serde_json::from_slice(&bytes).map_err(|error| {
        ToolFailure::Failed(format!("Notebook is not valid JSON: {error}. File: {}", request.path))
    })?;
    let language = notebook["metadata"]["language_info"]["name"].as_str().unwrap_or("python");
    let cells: Vec<Value> = notebook["cells"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .enumerate()
        .map(|(index, cell)| described(cell, index, language))
        .collect();
    let seen = Seen::of_bytes(View::Whole, stamp, &bytes);
    context.workspace.record_file(path.to_owned(), seen);
    Ok(ToolOutput::new(
        Content::Blocks(blocks(&cells)),
        json!({
            "type": "notebook",
            "file": { "filePath": request.path, "cells": cells },
        }),
    ))
}

/// Returns one cell in the form for programs.
fn described(cell: &Value, index: usize, language: &str) -> Value {
    let kind = cell["cell_type"].as_str().unwrap_or("code");
    let mut out = Map::new();
    out.insert("cellType".into(), json!(kind));
    out.insert("source".into(), json!(source_of(cell)));
    let is_code = kind == "code";
    if is_code && !cell["execution_count"].is_null() {
        out.insert("execution_count".into(), cell["execution_count"].clone());
    }
    out.insert("cell_id".into(), json!(cell_id(cell, index)));
    if is_code {
        out.insert("language".into(), json!(language));
        let outputs: Vec<Value> = cell["outputs"]
            .as_array()
            .map(|outputs| outputs.iter().filter_map(described_output).collect())
            .unwrap_or_default();
        if !outputs.is_empty() {
            out.insert("outputs".into(), json!(outputs));
        }
    }
    Value::Object(out)
}

/// Returns one output of a cell in the form for programs, with at most one picture; `None` if it has no type.
fn described_output(output: &Value) -> Option<Value> {
    let kind = output["output_type"].as_str()?;
    let text = match kind {
        "stream" => joined(&output["text"]),
        "execute_result" | "display_data" => joined(&output["data"]["text/plain"]),
        "error" => {
            let name = output["ename"].as_str().unwrap_or_default();
            let value = output["evalue"].as_str().unwrap_or_default();
            let trace: Vec<&str> = output["traceback"]
                .as_array()
                .map(|lines| lines.iter().filter_map(Value::as_str).collect())
                .unwrap_or_default();
            Some(format!("{name}: {value}\n{}", trace.join("\n")))
        }
        _unknown_kind => None,
    };
    let mut out = Map::new();
    out.insert("output_type".into(), json!(kind));
    if let Some(text) = text {
        out.insert("text".into(), json!(cut(text)));
    }
    for media_type in ["image/png", "image/jpeg"] {
        if let Some(data) = joined(&output["data"][media_type]) {
            let data: String = data.split_whitespace().collect();
            out.insert("image".into(), json!({ "image_data": data, "media_type": media_type }));
            break;
        }
    }
    Some(Value::Object(out))
}

/// Returns the text of a field that notebooks write as a string or as a list of lines; `None` if it is neither.
fn joined(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(lines) => Some(lines.iter().filter_map(Value::as_str).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// Returns a printed output, cut after [`OUTPUT_CHARS`] characters with a note of its length.
fn cut(text: String) -> String {
    let head = first_chars(&text, OUTPUT_CHARS);
    if head.len() < text.len() {
        format!("{head}\n[output cut here; it has {} bytes]", text.len())
    } else {
        text
    }
}

/// Returns the blocks for the model, from cells in the form that [`described`] gives them; adjacent texts become one
/// block.
fn blocks(cells: &[Value]) -> Vec<Value> {
    let mut blocks = Blocks::default();
    for cell in cells {
        let id = cell["cell_id"].as_str().unwrap_or_default();
        let kind = match cell["cellType"].as_str() {
            Some("code") | None => String::new(),
            Some(kind) => format!("<cell_type>{kind}</cell_type>"),
        };
        let source = cell["source"].as_str().unwrap_or_default();
        blocks.text(&format!("<cell id=\"{id}\">{kind}{source}</cell id=\"{id}\">"));
        for output in cell["outputs"].as_array().map(Vec::as_slice).unwrap_or_default() {
            if let Some(text) = output["text"].as_str() {
                blocks.text(&format!("\n{text}"));
            }
            if let Some(image) = output["image"].as_object() {
                blocks.image(&image["media_type"], &image["image_data"]);
            }
        }
    }
    blocks.finish()
}

/// The blocks for the model while they are built: those that are done, and the text block that is still open.
#[derive(Default)]
struct Blocks {
    done: Vec<Value>,
    open: Option<String>,
}

impl Blocks {
    /// Adds text on a new line of the open text block, or opens one.
    fn text(&mut self, text: &str) {
        match &mut self.open {
            Some(open) => {
                open.push('\n');
                open.push_str(text);
            }
            None => self.open = Some(text.to_owned()),
        }
    }

    /// Adds an image block. Text after it begins a new block, so that the order of the cells is kept.
    fn image(&mut self, media_type: &Value, data: &Value) {
        self.close();
        self.done.push(json!({
            "type": "image",
            "source": { "type": "base64", "data": data, "media_type": media_type },
        }));
    }

    /// Ends the open text block, if there is one.
    fn close(&mut self) {
        if let Some(text) = self.open.take() {
            self.done.push(json!({ "type": "text", "text": text }));
        }
    }

    /// Returns the blocks, never an empty list: a notebook without cells is described in words.
    fn finish(mut self) -> Vec<Value> {
        if self.done.is_empty() && self.open.is_none() {
            self.text("The notebook has no cells.");
        }
        self.close();
        self.done
    }
}
