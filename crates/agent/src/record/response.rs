//! A response of the model while it arrives: events are folded into content blocks, and each finished block is handed
//! out once, whole. Knows nothing of frames, tools or retries.

use std::collections::BTreeMap;

use lathe_models::{CompleteMessage, ContentDelta, ResponseMessage, StreamEvent};
use lathe_protocol::content::BlockView;
use lathe_protocol::{ContentBlock, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The input of a call that is not a JSON object. It is kept under a key of its own, so that the call can be refused
/// with the text the model sent.
#[derive(Debug, Serialize, Deserialize)]
pub struct UnparsedInput {
    #[serde(rename = "__unparsedToolInput")]
    kept: UnparsedText,
}

#[derive(Debug, Serialize, Deserialize)]
struct UnparsedText {
    #[serde(default)]
    raw: String,
    #[serde(default)]
    len: usize,
}

impl UnparsedInput {
    /// Returns the text that the model sent as the input if `input` stands for one that was not a JSON object,
    /// otherwise `None`.
    pub fn raw(input: &Value) -> Option<String> {
        Self::deserialize(input).ok().map(|unparsed| unparsed.kept.raw)
    }

    /// Wraps a text that is not a JSON object as an input, so that the call can be recorded and refused like any other.
    fn input(raw: &str) -> Value {
        json!(Self { kept: UnparsedText { raw: raw.to_owned(), len: raw.len() } })
    }
}

/// What has arrived of one response.
#[derive(Debug, Default)]
pub struct ModelResponse {
    /// The API's id of the message.
    pub id: String,
    /// The model that responded.
    pub model: String,
    /// Usage at the start: what frames of single blocks carry.
    pub first_usage: Usage,
    /// Usage so far: final after `message_delta`.
    pub usage: Usage,
    pub stop_reason: Option<String>,
    /// The API's id of the request.
    pub request_id: Option<String>,
    /// Finished blocks in order.
    pub blocks: Vec<ContentBlock>,
    /// Blocks still growing, by index.
    open: BTreeMap<usize, OpenBlock>,
    /// Whether `message_stop` was seen.
    pub complete: bool,
}

/// A block that is still growing: its beginning, and what has come for each of its fields since.
#[derive(Debug, Default)]
struct OpenBlock {
    block: ContentBlock,
    text: String,
    thinking: String,
    signature: String,
    json: String,
}

impl ModelResponse {
    /// Takes in one event. Returns the block that it finished, which is also kept in `blocks`; `None` if it finished
    /// none. A delta or an end for a block that is not open is ignored.
    pub fn fold(&mut self, event: &StreamEvent) -> Option<ContentBlock> {
        match event {
            StreamEvent::MessageStart(message) => {
                self.id.clone_from(&message.id);
                self.model.clone_from(&message.model);
                self.first_usage = message.usage.clone();
                self.usage = message.usage.clone();
                None
            }
            StreamEvent::ContentBlockStart { index, block } => {
                self.open.insert(*index, OpenBlock::new(block));
                None
            }
            StreamEvent::ContentBlockDelta { index, delta } => {
                if let Some(open) = self.open.get_mut(index) {
                    open.grow(delta);
                }
                None
            }
            StreamEvent::ContentBlockStop { index } => {
                let block = self.open.remove(index)?.finish();
                self.blocks.push(block.clone());
                Some(block)
            }
            StreamEvent::MessageDelta { stop_reason, stop_sequence: _, usage } => {
                // A delta may bring usage only.
                if stop_reason.is_some() {
                    self.stop_reason.clone_from(stop_reason);
                }
                if let Some(usage) = usage {
                    merge_usage(&mut self.usage, usage);
                }
                None
            }
            StreamEvent::MessageStop => {
                self.complete = true;
                None
            }
            StreamEvent::Unknown => None,
        }
    }

    /// Builds the response, which is complete, from one that was not streamed.
    pub fn from_complete(whole: CompleteMessage) -> Self {
        let ResponseMessage { id, model, blocks, stop_reason, usage } = whole.read();
        Self {
            id,
            model,
            first_usage: usage.result_shape(),
            usage,
            stop_reason,
            request_id: whole.request_id,
            blocks,
            open: BTreeMap::new(),
            complete: true,
        }
    }

    /// Replaces the last finished block, so that the history holds the same form that was recorded and shown. Does
    /// nothing if no block is finished.
    pub fn replace_last(&mut self, block: &ContentBlock) {
        if let Some(last) = self.blocks.last_mut() {
            last.clone_from(block);
        }
    }

    /// Takes the text of unfinished blocks when the response was cut off, and drops these blocks, with their thinking
    /// and half-streamed calls. `None` if the text is blank. The indices of open blocks must be read before.
    pub fn take_partial_text(&mut self) -> Option<String> {
        let open = std::mem::take(&mut self.open);
        let text: String = open.into_values().map(|open| open.text).collect();
        (!text.trim().is_empty()).then_some(text)
    }

    /// Returns the indices of blocks that were begun and not finished.
    pub fn open_indices(&self) -> Vec<usize> {
        self.open.keys().copied().collect()
    }

    /// Returns whether something was handed out that cannot be undone: text that was shown, or a call that may have
    /// started; thinking does not count. Such a response is never requested a second time.
    pub fn is_committed(&self) -> bool {
        self.blocks.iter().any(|block| !block.is_thinking())
    }

    /// Returns whether nothing of the response is missing: its last event was seen, or would bring nothing new, because
    /// the response has a stop reason, all of its blocks are finished, and one of them is not thinking.
    pub fn is_whole(&self) -> bool {
        self.complete || (self.stop_reason.is_some() && self.open.is_empty() && self.is_committed())
    }

    /// Returns whether the last block is a call whose input is not a JSON object, because it was cut off.
    pub fn ends_in_half_a_call(&self) -> bool {
        let last = self.blocks.last().and_then(ContentBlock::as_tool_use);
        last.is_some_and(|call| UnparsedInput::raw(call.input).is_some())
    }

    /// Returns whether the response contains anything that a person sees; thinking and blank texts do not count.
    pub fn is_visible(&self) -> bool {
        self.blocks.iter().any(|block| match block.view() {
            BlockView::Text(text) => !text.trim().is_empty(),
            BlockView::Thinking(_) | BlockView::RedactedThinking => false,
            BlockView::ToolUse(_)
            | BlockView::ServerToolUse(_)
            | BlockView::McpToolUse(_)
            | BlockView::ToolResult(_)
            | BlockView::Image(_)
            | BlockView::Document(_) => true,
            BlockView::Unknown => !block.tag().is_empty(),
        })
    }
}

impl OpenBlock {
    /// Begins a block with what its start event already holds. The text collects outside of the block until
    /// [`Self::finish`].
    fn new(block: &ContentBlock) -> Self {
        let mut open = Self { block: block.clone(), ..Self::default() };
        match block.view() {
            BlockView::Text(text) => open.text = text.to_owned(),
            BlockView::Thinking(thinking) => {
                open.thinking = thinking.text.to_owned();
                open.signature = thinking.signature.to_owned();
            }
            BlockView::RedactedThinking
            | BlockView::ToolUse(_)
            | BlockView::ServerToolUse(_)
            | BlockView::McpToolUse(_)
            | BlockView::ToolResult(_)
            | BlockView::Image(_)
            | BlockView::Document(_)
            | BlockView::Unknown => {}
        }
        open
    }

    /// Adds a delta. Input stays JSON text here, because a part of it cannot be parsed.
    fn grow(&mut self, delta: &ContentDelta) {
        match delta {
            ContentDelta::Text(more) => self.text.push_str(more),
            ContentDelta::Thinking(more) => self.thinking.push_str(more),
            ContentDelta::Signature(more) => self.signature.push_str(more),
            ContentDelta::InputJson(more) => self.json.push_str(more),
            ContentDelta::Unknown => {}
        }
    }

    /// Puts the collected text, thinking or input into the block. Blocks of other kinds stay as they began.
    fn finish(self) -> ContentBlock {
        let Self { mut block, text, thinking, signature, json } = self;
        match block.view() {
            BlockView::Text(_) => block.set_text(text),
            BlockView::Thinking(_) => block.set_thinking(thinking, signature),
            BlockView::ToolUse(_) | BlockView::ServerToolUse(_) | BlockView::McpToolUse(_) => {
                // If nothing was streamed, the input from the start of the block stays.
                if let Some(input) = read_input(&json) {
                    block.set_input(input);
                }
            }
            BlockView::RedactedThinking
            | BlockView::ToolResult(_)
            | BlockView::Image(_)
            | BlockView::Document(_)
            | BlockView::Unknown => {}
        }
        block
    }
}

/// Parses the streamed input of a tool call; `None` if nothing was streamed. A text that is not a JSON object is
/// wrapped as [`UnparsedInput`].
fn read_input(json: &str) -> Option<Value> {
    if json.is_empty() {
        return None;
    }
    match serde_json::from_str::<Value>(json) {
        Ok(value @ Value::Object(_)) => Some(value),
        Ok(_) | Err(_) => Some(UnparsedInput::input(json)),
    }
}

/// Merges later counts into earlier ones; what the delta does not name stays. A zero count in the delta means "not
/// repeated here".
fn merge_usage(usage: &mut Usage, later: &Usage) {
    let keep = |old: u64, new: u64| if new == 0 { old } else { new };
    usage.input_tokens = keep(usage.input_tokens, later.input_tokens);
    usage.cache_creation_input_tokens =
        keep(usage.cache_creation_input_tokens, later.cache_creation_input_tokens);
    usage.cache_read_input_tokens = keep(usage.cache_read_input_tokens, later.cache_read_input_tokens);
    usage.output_tokens = keep(usage.output_tokens, later.output_tokens);
    for (key, value) in &later.extra {
        if !value.is_null() {
            usage.extra.insert(key.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_models::ModelEvent;

    fn fold_all(events: &[Value]) -> (ModelResponse, Vec<ContentBlock>) {
        let mut answer = ModelResponse::default();
        let blocks =
            events.iter().filter_map(|event| answer.fold(&ModelEvent::parse(event.clone()).event)).collect();
        (answer, blocks)
    }

    #[test]
    fn blocks_come_out_whole_and_in_order() {
        let (answer, blocks) = fold_all(&[
            json!({"type":"message_start","message":{"id":"m","model":"x","usage":{"input_tokens":9,"output_tokens":1}}}),
            json!({"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}),
            json!({"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}),
            json!({"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}),
            json!({"type":"content_block_stop","index":0}),
            json!({"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"Bash","input":{}}}),
            json!({"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"command\":"}}),
            json!({"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\"ls\"}"}}),
            json!({"type":"content_block_stop","index":1}),
            json!({"type":"content_block_start","index":2,"content_block":{"type":"brand_new","x":1}}),
            json!({"type":"content_block_stop","index":2}),
            json!({"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":20}}),
            json!({"type":"message_stop"}),
        ]);
        assert_eq!(
            blocks,
            [
                json!({"type":"thinking","thinking":"hm","signature":"s"}),
                json!({"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}),
                json!({"type":"brand_new","x":1}),
            ]
            .map(ContentBlock::from)
        );
        assert_eq!(answer.blocks, blocks);
        assert!(answer.complete);
        assert_eq!((answer.usage.input_tokens, answer.usage.output_tokens), (9, 20));
        assert_eq!(answer.first_usage.output_tokens, 1);
    }

    #[test]
    fn input_that_is_no_json_object_is_kept_as_text() {
        assert_eq!(read_input(""), None);
        assert_eq!(read_input("{}"), Some(json!({})));
        let raw = "{\"file_path\": \"/etc/ho";
        let kept = json!({"__unparsedToolInput": {"raw": raw, "len": 22}});
        assert_eq!(read_input(raw), Some(kept));
        assert_eq!(UnparsedInput::raw(&read_input("[1]").unwrap()).as_deref(), Some("[1]"));
        assert_eq!(UnparsedInput::raw(&json!({"command": "ls"})), None);
    }

    #[test]
    fn thinking_alone_commits_to_nothing() {
        let (mut answer, _) = fold_all(&[
            json!({"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"a"}}),
            json!({"type":"content_block_stop","index":0}),
            json!({"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}),
            json!({"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"half"}}),
        ]);
        assert!(!answer.is_committed());
        assert_eq!(answer.open_indices(), [1]);
        assert_eq!(answer.take_partial_text().as_deref(), Some("half"));
    }
}
