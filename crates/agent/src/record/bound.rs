//! The last step of every tool result: it is held to the limits that its tool states ([`Tool::result_limits`]).
//!
//! A result that is too large goes to a file of the session, and a part of it is shown. The model gets a
//! `<persisted-output>` form, or both ends of an error. Programs get the value with its long parts cut
//! (`bound/value.rs`), or the same as the model, if the value was nothing else. Hooks, the model, the host and the
//! transcript all get the bounded result; an output that a hook puts in its place is bounded again. The file and the
//! forms are described in `lathe_tools::persisted`.
//!
//! A result within its limits is passed on unchanged, and the check costs no more than the limit does. All other work
//! is done on the blocking pool, with a time limit: a disk that is full, or does not respond, costs the file and never
//! the result.

mod value;

use std::io::{self, Write};
use std::sync::Arc;

use lathe_protocol::content::{BlockView, SourceView, tag_of};
use lathe_protocol::text::first_chars;
use lathe_tools::persisted::{
    self, FileKind, ResultFolder, ResultSaver, SavedResult, both_ends, human_size, shown_in_place,
};
use lathe_tools::{Content, ResultLimits, TextLimit, Tool, ToolContext, ToolFailure, ToolOutput, Workspace};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::record::estimate::{BYTES_PER_TOKEN, text_tokens, value_tokens};
use crate::record::tool_result::content_value;

/// Bytes of base64 that the API takes for one picture.
const IMAGE_BYTES: usize = 5 << 20;

/// Bytes of base64 in all pictures and documents of one result. The API takes 32 MB a request.
const MEDIA_BYTES: usize = 28 << 20;

/// How many blocks at the start may keep their pictures when the rest goes to a file, and bytes of base64 in them.
const KEPT_BLOCKS: usize = 10;
const KEPT_BYTES: usize = IMAGE_BYTES;

/// Characters of an error that are shown when it is too long.
const ERROR_EXCERPT_CHARS: usize = 10_000;

/// Characters that notes may add to an excerpt.
const NOTE_CHARS: usize = 1_000;

/// The limits of one call's result, and where its files go.
pub struct ResultBounds {
    limits: ResultLimits,
    place: ResultFolder,
    cancel: CancellationToken,
}

impl ResultBounds {
    /// Returns the bounds for the result of a call that runs: the limits that its tool states.
    pub fn of_call(tool: &dyn Tool, context: &ToolContext) -> Self {
        Self {
            limits: tool.result_limits(&context.workspace.limits),
            ..Self::of_refusal(&context.workspace, &context.tool_use_id, &context.cancel)
        }
    }

    /// Returns the bounds for the error of a call that does not run. A refusal quotes hooks and the host, so it is
    /// bounded too.
    pub fn of_refusal(workspace: &Workspace, tool_use_id: &str, cancel: &CancellationToken) -> Self {
        Self {
            limits: ResultLimits::default(),
            place: ResultFolder { folder: workspace.output_dir.clone(), tool_use_id: tool_use_id.to_owned() },
            cancel: cancel.clone(),
        }
    }

    /// Returns the outcome of a call within the limits, output and failure alike.
    pub async fn outcome(&self, outcome: Result<ToolOutput, ToolFailure>) -> Result<ToolOutput, ToolFailure> {
        match outcome {
            Ok(output) => Ok(self.output(output).await),
            Err(failure) => Err(self.failure(failure).await),
        }
    }

    /// Returns an output within the limits. What is too large is saved to a file of the session, and the output
    /// names that file.
    pub async fn output(&self, output: ToolOutput) -> ToolOutput {
        let limits = self.limits;
        // A closure, because a large value need not be walked if the content is too large already.
        let value_fits =
            || value::fits(&output.result, limits.value_chars) || is_same(&output.content, &output.result);
        if content_fits(&output.content, limits.text) && value_fits() {
            return output;
        }
        self.saving(output, move |output, saver| bounded(output, limits, saver)).await
    }

    /// Returns a failure within [`ResultLimits::DEFAULT_CHARS`], whatever limits the tool states. Too long a text loses
    /// its middle, because the cause is at either end.
    pub async fn failure(&self, failure: ToolFailure) -> ToolFailure {
        match failure {
            ToolFailure::Rejected(text) => ToolFailure::Rejected(self.error_text(text).await),
            ToolFailure::Failed(text) => ToolFailure::Failed(self.error_text(text).await),
            ToolFailure::Interrupted => ToolFailure::Interrupted,
        }
    }

    /// Returns the text of an error. If it has more than [`ResultLimits::DEFAULT_CHARS`] characters, the whole text is
    /// saved to a file, and the middle is replaced by a note that names it, or says why there is none: the cause is at
    /// either end.
    pub async fn error_text(&self, text: String) -> String {
        if chars_fit(&text, ResultLimits::DEFAULT_CHARS) {
            return text;
        }
        self.saving(text, |text, saver| {
            let note = match saver.save(FileKind::Text, |out| out.write_all(text.as_bytes())) {
                Ok(saved) => saved.whereabouts(),
                Err(why) => persisted::not_kept(&why),
            };
            both_ends(text, 0, ERROR_EXCERPT_CHARS, &note)
        })
        .await
    }

    /// Runs `work` on the blocking pool with a saver that may write files. If that is not possible, runs it again
    /// here with a saver that refuses, so that the result is bounded in any case.
    async fn saving<T: Send + Sync + 'static>(
        &self,
        large: T,
        work: impl Fn(&T, &ResultSaver<'_>) -> T + Copy + Send + 'static,
    ) -> T {
        // Shared, because the work on the pool may still run when the wait for it has ended.
        let large = Arc::new(large);
        let in_thread = large.clone();
        let saved = persisted::on_blocking_pool(self.place.clone(), &self.cancel, move |saver| {
            work(&in_thread, saver)
        });
        match saved.await {
            Ok(bounded) => bounded,
            Err(why) => work(&large, &ResultSaver::Refuses(&why)),
        }
    }
}

/// Returns an output in which everything too large has its short form. `content` is what the model gets, `result`
/// what programs get; each has its own limit.
fn bounded(output: &ToolOutput, limits: ResultLimits, saver: &ResultSaver<'_>) -> ToolOutput {
    let content = match &output.content {
        content if content_fits(content, limits.text) => content.clone(),
        Content::Text(text) => Content::Text(bounded_text(text, limits.text, saver)),
        Content::Blocks(blocks) => Content::Blocks(bounded_blocks(blocks, limits.text, saver)),
    };
    let result = if value::fits(&output.result, limits.value_chars) {
        output.result.clone()
    } else if is_same(&output.content, &output.result) {
        content_value(content.clone())
    } else {
        let saved = saver.save(FileKind::ValueJson, |out| {
            serde_json::to_writer(out, &output.result).map_err(io::Error::from)
        });
        value::cut_to_fit(&output.result, limits.value_chars, &saved)
    };
    ToolOutput { content, is_error: output.is_error, result, effects: output.effects }
}

/// A file that was to be written, or why it was not.
type Kept = Result<SavedResult, String>;

/// Saves a text that is too long to a file and returns the form that the model gets in its place.
fn bounded_text(text: &str, limit: TextLimit, saver: &ResultSaver<'_>) -> String {
    let kind = if is_json(text) { FileKind::Json } else { FileKind::Text };
    let saved = saver.save(kind, |out| out.write_all(text.as_bytes()));
    short_form(text, limit, &saved)
}

/// Returns what the model reads in place of a long text: its start and the path of the file, or both its ends if no
/// file could be written.
fn short_form(text: &str, limit: TextLimit, saved: &Kept) -> String {
    match saved {
        Ok(saved) => shown_in_place(text, saved),
        Err(why) => {
            let chars = match limit {
                TextLimit::Characters(chars) => chars,
                // Fits in any case, because a character has at most as many bytes as a token.
                TextLimit::Tokens(tokens) => usize::try_from(tokens).unwrap_or(usize::MAX),
            };
            both_ends(text, 0, chars.saturating_sub(NOTE_CHARS), &persisted::not_kept(why))
        }
    }
}

/// Returns blocks within the limits. Media that are too large for any request are replaced by a text; if there is still
/// too much, all blocks are saved to a file, and its short form and the first pictures are returned.
fn bounded_blocks(blocks: &[Value], limit: TextLimit, saver: &ResultSaver<'_>) -> Vec<Value> {
    let sendable: Vec<Value> =
        blocks.iter().map(|block| too_large_medium(block).unwrap_or_else(|| block.clone())).collect();
    if blocks_fit(&sendable, limit) {
        return sendable;
    }
    let saved = saver.save(FileKind::Json, |out| write_lines(out, blocks));
    let form = json!({"type": "text", "text": short_form(&plain_text(blocks), limit, &saved)});
    std::iter::once(form).chain(kept_pictures(&sendable, limit)).collect()
}

/// Returns the pictures among the first [`KEPT_BLOCKS`] blocks, up to the first with which they take more than half of
/// the limit or more than [`KEPT_BYTES`].
fn kept_pictures(blocks: &[Value], limit: TextLimit) -> Vec<Value> {
    let (mut cost, mut bytes) = (0, 0);
    let first = blocks.iter().take(KEPT_BLOCKS).filter(|block| is_image(block));
    first
        .take_while(|block| {
            cost += block_cost(block, limit);
            bytes += media_bytes(block);
            cost <= most(limit) / 2 && bytes <= KEPT_BYTES
        })
        .cloned()
        .collect()
}

/// Returns the text in place of a picture or document that no request could carry; `None` for every other block.
fn too_large_medium(block: &Value) -> Option<Value> {
    let limit = if is_image(block) { IMAGE_BYTES } else { MEDIA_BYTES };
    let size = media_bytes(block);
    (size > limit).then(|| {
        let text = format!(
            "[{} left out: it is too large to be shown; the limit is {} as base64]",
            described(block),
            human_size(limit as u64)
        );
        json!({"type": "text", "text": text})
    })
}

/// Describes a block in a few words, by its type and, if it has media, their type and size.
fn described(block: &Value) -> String {
    let kind = match tag_of(block) {
        "" => "block",
        tag => first_chars(tag, 40),
    };
    match (SourceView::of(block), media_bytes(block)) {
        (_, 0) | (None, _) => kind.to_owned(),
        (Some(source), bytes) => {
            let media = first_chars(source.media_type.unwrap_or("unknown type"), 80);
            format!("{kind} ({media}, {} as base64)", human_size(bytes as u64))
        }
    }
}

/// Returns the size of a block's media: the bytes of its base64 text, or 0 for a block without any.
fn media_bytes(block: &Value) -> usize {
    SourceView::of(block).and_then(|source| source.data).map_or(0, str::len)
}

/// Returns whether a content block is an image; documents are not.
fn is_image(block: &Value) -> bool {
    matches!(BlockView::of(block), BlockView::Image(_))
}

/// Joins the texts of blocks, with a short description in place of each block that is not text.
fn plain_text(blocks: &[Value]) -> String {
    let texts: Vec<String> = blocks
        .iter()
        .map(|block| match BlockView::of(block) {
            BlockView::Text(text) => text.to_owned(),
            _other => format!("[{}]", described(block)),
        })
        .collect();
    texts.join("\n")
}

/// Writes a JSON array with one block a line, so that parts of the file can be read. `blocks` must not be empty.
fn write_lines(out: &mut dyn Write, blocks: &[Value]) -> io::Result<()> {
    let mut before = "[\n";
    for block in blocks {
        out.write_all(before.as_bytes())?;
        serde_json::to_writer(&mut *out, block)?;
        before = ",\n";
    }
    out.write_all(b"\n]\n")
}

/// Returns whether the text is a whole JSON object or array, which decides the kind of its file. Other JSON values
/// count as text.
fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Returns whether programs get the same as the model. Then they also get the same bounded form, whatever the limit of
/// other values is: a picture that the model can be shown is whole for them, too.
fn is_same(content: &Content, value: &Value) -> bool {
    match (content, value) {
        (Content::Text(text), Value::String(value)) => text == value,
        (Content::Blocks(blocks), Value::Array(value)) => blocks == value,
        _ => false,
    }
}

/// Returns whether content can be sent as it is: text within its limit, and no single image or document too large.
fn content_fits(content: &Content, limit: TextLimit) -> bool {
    match (content, limit) {
        (Content::Text(text), TextLimit::Characters(chars)) => chars_fit(text, chars),
        (Content::Text(text), TextLimit::Tokens(tokens)) => text_tokens(text.len()) <= tokens,
        (Content::Blocks(blocks), limit) => {
            blocks.iter().all(|block| too_large_medium(block).is_none()) && blocks_fit(blocks, limit)
        }
    }
}

/// Returns whether a text has at most `chars` characters. A text whose bytes alone decide it is not counted.
fn chars_fit(text: &str, chars: usize) -> bool {
    text.len() <= chars || (text.len() / 4 <= chars && text.chars().count() <= chars)
}

/// Returns whether the blocks together stay within the text limit and within the bytes that media may have. Stops at
/// the first block that exceeds one.
fn blocks_fit(blocks: &[Value], limit: TextLimit) -> bool {
    let (mut cost, mut bytes) = (0_u64, 0);
    blocks.iter().all(|block| {
        cost += block_cost(block, limit);
        bytes += media_bytes(block);
        cost <= most(limit) && bytes <= MEDIA_BYTES
    })
}

/// Returns the limit as a plain number of characters or tokens; [`block_cost`] counts in the same unit.
fn most(limit: TextLimit) -> u64 {
    match limit {
        TextLimit::Characters(chars) => chars as u64,
        TextLimit::Tokens(tokens) => tokens,
    }
}

/// Returns how much of the limit a block takes, in the unit of the limit. Pictures and documents count what they
/// usually cost the model, not the bytes of their data. A number beyond the limit need not be exact.
fn block_cost(block: &Value, limit: TextLimit) -> u64 {
    let data = media_bytes(block);
    let chars_beside =
        |most: usize| value::chars(block, most.saturating_add(data)).saturating_sub(data) as u64;
    match (limit, data) {
        (TextLimit::Tokens(_), 0) => value_tokens(block),
        (TextLimit::Tokens(tokens), _) => {
            let most = usize::try_from(tokens.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX);
            value_tokens(block) + chars_beside(most) / BYTES_PER_TOKEN
        }
        (TextLimit::Characters(most), 0) => value::chars(block, most) as u64,
        (TextLimit::Characters(most), _) => value_tokens(block) * BYTES_PER_TOKEN + chars_beside(most),
    }
}
