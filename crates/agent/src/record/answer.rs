//! An answer while it arrives: events are folded into content blocks, each finished block is handed out
//! once, whole. Knows nothing of frames, tools or retries.

use std::collections::BTreeMap;

use lathe_models::{ContentDelta, StreamEvent};
use lathe_protocol::Usage;
use serde_json::{Map, Value, json};

/// What the input of a call is kept under when it is no JSON object.
pub const UNPARSED_INPUT: &str = "__unparsedToolInput";

/// What has arrived of one answer.
#[derive(Debug, Default)]
pub struct Answer {
    /// The `message` of `message_start`: id, model and whatever else the API put there.
    pub head: Map<String, Value>,
    /// Usage at the start: what frames of single blocks carry.
    pub first_usage: Usage,
    /// Usage so far: final after `message_delta`.
    pub usage: Usage,
    pub stop_reason: Option<String>,
    /// The API's id of the request.
    pub request_id: Option<String>,
    /// Finished blocks in order.
    pub blocks: Vec<Value>,
    /// Blocks still growing, by index.
    open: BTreeMap<usize, OpenBlock>,
    /// Whether `message_stop` was seen.
    pub complete: bool,
}

/// A block that is still growing.
#[derive(Debug)]
struct OpenBlock {
    block: Map<String, Value>,
    text: String,
    thinking: String,
    signature: String,
    json: String,
}

impl Answer {
    /// Takes one event in. A block that it finished is returned, and kept in `blocks`.
    pub fn fold(&mut self, event: &StreamEvent) -> Option<Value> {
        match event {
            StreamEvent::MessageStart { message, usage } => {
                self.head = message.as_object().cloned().unwrap_or_default();
                self.first_usage = usage.clone();
                self.usage = usage.clone();
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
            StreamEvent::MessageDelta { stop_reason, stop_sequence, usage } => {
                if stop_reason.is_some() {
                    self.stop_reason.clone_from(stop_reason);
                }
                self.head.insert("stop_sequence".into(), json!(stop_sequence));
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

    /// A whole answer that was not streamed.
    pub fn from_complete(message: &Value, request_id: Option<String>) -> Self {
        let head = message.as_object().cloned().unwrap_or_default();
        let usage = lathe_models::event::usage_of(&message["usage"]).unwrap_or_default();
        Self {
            blocks: message["content"].as_array().cloned().unwrap_or_default(),
            stop_reason: message["stop_reason"].as_str().map(str::to_owned),
            first_usage: usage.result_shape(),
            usage,
            head,
            request_id,
            open: BTreeMap::new(),
            complete: true,
        }
    }

    /// Puts another form of the last finished block in its place.
    pub fn replace_last(&mut self, block: &Value) {
        if let Some(last) = self.blocks.last_mut() {
            last.clone_from(block);
        }
    }

    /// Text that stood in a block when the answer was broken off; none if there was none.
    pub fn take_partial_text(&mut self) -> Option<String> {
        let open = std::mem::take(&mut self.open);
        let text: String = open.into_values().map(|open| open.text).collect();
        (!text.trim().is_empty()).then_some(text)
    }

    /// Indices of blocks that were begun and not finished.
    pub fn open_indices(&self) -> Vec<usize> {
        self.open.keys().copied().collect()
    }

    /// Whether something was handed out that cannot be taken back: text that was shown, or a tool that
    /// may have started. Such an answer is never asked for a second time.
    pub fn is_committed(&self) -> bool {
        self.blocks
            .iter()
            .any(|block| !matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking")))
    }

    /// Whether all of it is here. The last event says nothing new: a stream that breaks between the reason why the
    /// answer ended and that event has lost nothing.
    pub fn is_whole(&self) -> bool {
        self.complete || (self.stop_reason.is_some() && self.open.is_empty() && self.is_committed())
    }

    /// Whether its last block is a call whose input breaks off.
    pub fn ends_in_half_a_call(&self) -> bool {
        self.blocks
            .last()
            .is_some_and(|block| block["type"] == "tool_use" && block["input"].get(UNPARSED_INPUT).is_some())
    }

    /// Whether a person sees anything of it.
    pub fn is_visible(&self) -> bool {
        self.blocks.iter().any(|block| match block["type"].as_str() {
            Some("text") => block["text"].as_str().is_some_and(|text| !text.trim().is_empty()),
            Some("thinking" | "redacted_thinking") | None => false,
            Some(_) => true,
        })
    }

    /// The API's id of the message.
    pub fn id(&self) -> &str {
        self.head.get("id").and_then(Value::as_str).unwrap_or("")
    }

    /// The model that answered.
    pub fn model(&self) -> &str {
        self.head.get("model").and_then(Value::as_str).unwrap_or("")
    }
}

impl OpenBlock {
    fn new(block: &Value) -> Self {
        let block = block.as_object().cloned().unwrap_or_default();
        let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
        Self {
            text: text("text"),
            thinking: text("thinking"),
            signature: text("signature"),
            json: String::new(),
            block,
        }
    }

    fn grow(&mut self, delta: &ContentDelta) {
        match delta {
            ContentDelta::Text(more) => self.text.push_str(more),
            ContentDelta::Thinking(more) => self.thinking.push_str(more),
            ContentDelta::Signature(more) => self.signature.push_str(more),
            ContentDelta::InputJson(more) => self.json.push_str(more),
            ContentDelta::Unknown => {}
        }
    }

    fn finish(mut self) -> Value {
        match self.block.get("type").and_then(Value::as_str) {
            Some("text") => {
                self.block.insert("text".into(), self.text.into());
            }
            Some("thinking") => {
                self.block.insert("thinking".into(), self.thinking.into());
                self.block.insert("signature".into(), self.signature.into());
            }
            Some("tool_use" | "server_tool_use" | "mcp_tool_use") => {
                if let Some(input) = read_input(&self.json) {
                    self.block.insert("input".into(), input);
                }
            }
            Some(_) | None => {}
        }
        Value::Object(self.block)
    }
}

/// The streamed input of a tool call; none when nothing was streamed. What is not a JSON object is kept
/// under a name of its own, so that the call can be refused with the text the model sent.
fn read_input(json: &str) -> Option<Value> {
    if json.is_empty() {
        return None;
    }
    match serde_json::from_str::<Value>(json) {
        Ok(value @ Value::Object(_)) => Some(value),
        Ok(_) | Err(_) => Some(json!({UNPARSED_INPUT: {"raw": json, "len": json.len()}})),
    }
}

/// Later counts replace earlier ones; what the delta does not name stays. A zero input count in the
/// delta means "not repeated here".
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

    fn fold_all(events: &[Value]) -> (Answer, Vec<Value>) {
        let mut answer = Answer::default();
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
        assert!(read_input("[1]").unwrap()["__unparsedToolInput"].is_object());
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
