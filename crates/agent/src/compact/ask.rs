//! Gets a summary from the model: one request outside of the conversation, with the same retries as any other. Nothing
//! of it is shown while it streams, so a failed attempt can always be repeated. Its usage counts for the session's cost
//! and budget, not for the turn's own usage.

use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use lathe_models::failure::ApiFailure;
use lathe_models::{ErrorKind, ModelRequest, WireMessage};
use lathe_protocol::text::first_chars;
use lathe_protocol::{BlockView, ContentBlock, Role};
use serde_json::Value;

use super::{Trouble, summary};
use crate::model::attempts::FailedAttempts;
use crate::model::cut_short;
use crate::model::request;
use crate::record::history::blocks_of;
use crate::record::response::ModelResponse;
use crate::turn::Turn;
use crate::turn::retry::{GaveUp, NextAttempt};

/// How often a part is left out because even the request for a summary is too long. A cut takes a third, so this is
/// enough for a conversation that has grown in a window twenty times as large.
const MAX_CUTS: u32 = 8;

/// Characters that are kept of a text or result when everything together is too long.
const SHORTENED_CHARS: usize = 2_000;

impl Turn<'_> {
    /// Asks the model to summarise `messages` and returns its text, which is not empty. If the request is too long, the
    /// oldest messages are left out, then long texts are shortened, at most [`MAX_CUTS`] times. A refused or cut-off
    /// response is an error.
    pub(super) async fn ask_for_summary(
        &mut self,
        mut messages: Vec<WireMessage>,
        instruction: &str,
    ) -> Result<String, Trouble> {
        let mut cuts = 0;
        loop {
            match self.summary_answer(&messages, instruction).await {
                Ok(answer) => return summary_text(&answer),
                Err(GaveUp::Interrupted) => return Err(Trouble::Interrupted),
                Err(GaveUp::Failed(error)) => {
                    let too_long = matches!(error.kind, ErrorKind::PromptTooLong | ErrorKind::TooLarge);
                    if !(too_long
                        && cuts < MAX_CUTS
                        && (leave_out_oldest(&mut messages) || shorten_longest(&mut messages)))
                    {
                        return Err(Trouble::Failed(ApiFailure::new(&error, &self.model_id).text));
                    }
                    cuts += 1;
                }
            }
        }
    }

    /// Requests one summary until a response is complete, the retries are used up or the turn is interrupted; if
    /// streams keep breaking, the last request is one without a stream. The usage of every attempt is counted, also of
    /// a failed one, because each is paid for.
    async fn summary_answer(
        &mut self,
        messages: &[WireMessage],
        instruction: &str,
    ) -> Result<ModelResponse, GaveUp> {
        let mut failed = FailedAttempts::default();
        loop {
            self.follow_model_choice();
            let request = Arc::new(self.summary_request(messages, instruction));
            let began = Instant::now();
            let mut answer = ModelResponse::default();
            let heard = self.read_stream(&request, &mut answer).await;
            self.count_side_request(&answer, began);
            match heard {
                Ok(()) => return Ok(answer),
                Err(GaveUp::Interrupted) => return Err(GaveUp::Interrupted),
                Err(GaveUp::Failed(error)) => {
                    if let NextAttempt::WithoutStream = self.after_failure(error, &mut failed).await? {
                        return self.whole_summary(&request).await;
                    }
                }
            }
        }
    }

    /// Builds the request for a summary: that of the conversation with `messages`, then the instruction. The cache
    /// breakpoint must stay before the instruction, because everything up to there is what the API has cached.
    fn summary_request(&mut self, messages: &[WireMessage], instruction: &str) -> ModelRequest {
        let block = ContentBlock::text(instruction);
        let instruction = WireMessage::new(Role::User, &[block]).expect("a text block is an object");
        let mut request = request::build(self.agent, &self.model_id);
        request.messages = self.agent.handle.offer(&self.model_id).readable(messages.to_vec());
        request.messages.push(instruction.without_breakpoint());
        ModelRequest { agent: "compact".into(), ..request }
    }

    /// Reads the stream of a response into `answer` without showing any of it. A stream that ends too early is an
    /// error. After an error `answer` holds what arrived, whose usage the caller still has to count.
    async fn read_stream(
        &mut self,
        request: &Arc<ModelRequest>,
        answer: &mut ModelResponse,
    ) -> Result<(), GaveUp> {
        let model = self.session.model.clone();
        let mut stream = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(GaveUp::Interrupted),
            stream = model.stream(request.clone()) => stream.map_err(GaveUp::Failed)?,
        };
        loop {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(GaveUp::Interrupted),
                event = stream.events.next() => match event {
                    Some(Ok(event)) => drop(answer.fold(&event.event)),
                    Some(Err(error)) => return Err(GaveUp::Failed(error)),
                    None if answer.complete => return Ok(()),
                    None => return Err(GaveUp::Failed(cut_short())),
                },
            }
        }
    }

    /// Requests the summary as one piece instead of a stream, once, because streams keep breaking. Counts the usage of
    /// the response; a request that fails or is interrupted has none to count.
    async fn whole_summary(&mut self, request: &Arc<ModelRequest>) -> Result<ModelResponse, GaveUp> {
        let began = Instant::now();
        let model = self.session.model.clone();
        let whole = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(GaveUp::Interrupted),
            whole = model.complete(request.clone()) => whole.map_err(GaveUp::Failed)?,
        };
        let answer = ModelResponse::from_complete(whole);
        self.count_side_request(&answer, began);
        Ok(answer)
    }

    /// Adds the time of a request beside the conversation to the turn and the session, and its usage to the session.
    /// Must be called only once for each attempt; a failed one may have been paid for too.
    fn count_side_request(&mut self, answer: &ModelResponse, began: Instant) {
        let ms = began.elapsed().as_millis() as u64;
        self.stats.api_ms += ms;
        // A response that failed before its first event names no model.
        let model = if answer.model.is_empty() { &self.model_id } else { &answer.model };
        let mut totals = self.session.totals();
        totals.add_api_ms(ms);
        totals.add(model, &answer.usage);
    }
}

/// Returns the text of a complete summary. A response that was refused, cut off or empty is an error, and so is one
/// that calls tools without a `<summary>` mark, because a bad summary would replace the conversation.
fn summary_text(answer: &ModelResponse) -> Result<String, Trouble> {
    let failed = |text: &str| Err(Trouble::Failed(text.to_owned()));
    match answer.stop_reason.as_deref() {
        Some("refusal") => return failed("the model refused to write the summary"),
        Some("max_tokens" | "model_context_window_exceeded") => {
            return failed("the summary was cut off by the output limit");
        }
        Some(_) | None => {}
    }
    let text: String = answer.blocks.iter().filter_map(ContentBlock::as_text).collect();
    let calls_tools = answer.blocks.iter().any(|block| block.as_tool_use().is_some());
    // Text beside a tool call is as a rule an announcement of the call, not the summary.
    if text.trim().is_empty() || (calls_tools && !text.contains("<summary>")) {
        return failed("summarization produced empty response");
    }
    Ok(text)
}

/// Replaces about the oldest third of the messages by a note. The rest begins with a message of the model, so that no
/// call is separated from its result. Returns false and changes nothing if nothing can be left out.
fn leave_out_oldest(messages: &mut Vec<WireMessage>) -> bool {
    let total: usize = messages.iter().map(|message| message.bytes().len()).sum();
    let mut before = 0;
    let cut = messages.iter().enumerate().position(|(at, message)| {
        // Never at 1: the first message may be the note of an earlier cut, and replacing that gains nothing.
        let fits = before * 3 >= total && at > 1 && message.role() == Role::Assistant;
        before += message.bytes().len();
        fits
    });
    let Some(cut) = cut.filter(|cut| cut + 1 < messages.len()) else { return false };
    let note = ContentBlock::text(summary::LEFT_OUT);
    let Ok(note) = WireMessage::new(Role::User, &[note]) else { return false };
    messages.splice(..cut, [note]);
    true
}

/// Shortens the long texts and results in all user messages and replaces their pictures by a note, because the newest
/// part alone may be more than a window holds. Responses of the model stay as they are. Returns whether anything was
/// shortened; a second call finds nothing.
fn shorten_longest(messages: &mut [WireMessage]) -> bool {
    let mut shortened = false;
    for message in messages.iter_mut().filter(|message| message.role() == Role::User) {
        let mut blocks = blocks_of(message);
        // `count` and not `any`, which would stop at the first block that was shortened.
        if blocks.iter_mut().map(shorten_block).filter(|shortened| *shortened).count() == 0 {
            continue;
        }
        if let Ok(shorter) = WireMessage::new(Role::User, &blocks) {
            (*message, shortened) = (shorter, true);
        }
    }
    shortened
}

/// Shortens a text or a result, or replaces a picture or document by a note; other blocks stay as they are. Returns
/// whether the block was changed.
fn shorten_block(block: &mut ContentBlock) -> bool {
    match block.view() {
        BlockView::Text(text) => match shorter(text) {
            Some(text) => {
                block.set_text(text);
                true
            }
            None => false,
        },
        BlockView::ToolResult(_) => block.result_content_mut().is_some_and(shorten_content),
        BlockView::Image(_) | BlockView::Document(_) => {
            *block = ContentBlock::text(summary::PICTURE_LEFT_OUT);
            true
        }
        BlockView::Thinking(_)
        | BlockView::RedactedThinking
        | BlockView::ToolUse(_)
        | BlockView::ServerToolUse(_)
        | BlockView::McpToolUse(_)
        | BlockView::Unknown => false,
    }
}

/// Shortens the content of a tool result, which is a text or a list of blocks; any other value stays as it is. Returns
/// whether anything was changed.
fn shorten_content(content: &mut Value) -> bool {
    match content {
        Value::String(text) => match shorter(text) {
            Some(shorter) => {
                *text = shorter;
                true
            }
            None => false,
        },
        Value::Array(blocks) => {
            let shorten = |value: &mut Value| {
                let mut block = ContentBlock::from(value.take());
                let shortened = shorten_block(&mut block);
                *value = block.into_value();
                shortened
            };
            blocks.iter_mut().map(shorten).filter(|shortened| *shortened).count() > 0
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

/// Returns the first [`SHORTENED_CHARS`] characters of a text with a note that the rest is left out. `None` if the text
/// is short enough or ends with that note already.
fn shorter(text: &str) -> Option<String> {
    let kept = first_chars(text, SHORTENED_CHARS);
    let is_long = kept.len() < text.len() && !text.ends_with(summary::REST_LEFT_OUT);
    is_long.then(|| format!("{kept}{}", summary::REST_LEFT_OUT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message(role: Role, text: &str) -> WireMessage {
        WireMessage::new(role, &[json!({"type": "text", "text": text})]).unwrap()
    }

    #[test]
    fn the_oldest_part_goes_first_and_the_rest_begins_with_an_answer() {
        let mut messages: Vec<WireMessage> = (0..12)
            .map(|n| message(if n % 2 == 0 { Role::User } else { Role::Assistant }, &"x".repeat(100)))
            .collect();
        let mut lengths = vec![messages.len()];
        while leave_out_oldest(&mut messages) {
            assert_eq!(messages[0].role(), Role::User);
            assert_eq!(messages[1].role(), Role::Assistant);
            lengths.push(messages.len());
        }
        assert!(lengths.windows(2).all(|pair| pair[1] < pair[0]), "{lengths:?}");
        assert!(lengths.len() > 2, "{lengths:?}");
    }

    #[test]
    fn long_results_and_pictures_of_the_newest_part_are_shortened_once() {
        let image =
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}});
        let long = "ä".repeat(SHORTENED_CHARS + 1);
        let results = [
            json!({"type": "tool_result", "tool_use_id": "1", "content": long}),
            json!({"type": "tool_result", "tool_use_id": "2", "content": [{"type": "text", "text": long}, image]}),
            json!({"type": "text", "text": "short"}),
        ];
        let mut messages = [message(Role::Assistant, &long), WireMessage::new(Role::User, &results).unwrap()];
        assert!(shorten_longest(&mut messages));
        assert!(String::from_utf8_lossy(messages[0].bytes()).contains(&long), "answers stay as they are");
        let text = String::from_utf8_lossy(messages[1].bytes()).into_owned();
        assert!(!text.contains(&long) && !text.contains("image/png") && text.contains("short"), "{text}");
        assert_eq!(text.matches("tool_use_id").count(), 2);
        assert!(!shorten_longest(&mut messages), "no further");
    }

    #[test]
    fn a_single_exchange_cannot_be_shortened() {
        let mut messages = vec![message(Role::User, "a"), message(Role::Assistant, "b")];
        assert!(!leave_out_oldest(&mut messages));
        assert_eq!(messages.len(), 2);
    }
}
