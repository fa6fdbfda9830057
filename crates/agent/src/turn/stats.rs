//! What a turn counts and remembers until its result is built.

use std::time::Instant;

use lathe_models::ModelError;
use lathe_protocol::{InboundUser, PermissionDenial, Usage};
use serde_json::Value;

use crate::turn::decide::NudgeCounts;
use crate::turn::structured::StructuredProgress;

/// What a turn counts.
pub struct TurnStats {
    pub started: Instant,
    /// The id of the turn for hooks; made when one of them needs it.
    pub turn_id: Option<String>,
    /// Where the prompt came from, if the host said so.
    pub origin: Option<Value>,
    /// The prompts of this turn, as text.
    pub asked: Vec<String>,
    /// Whether room was made because a request was too long; reset by the next response.
    pub made_room: bool,
    /// Client ids of the prompts of this turn.
    pub prompts: Vec<String>,
    /// Whether the first frame of the response has named them.
    pub prompt_ids_sent: bool,
    /// Frames of the main thread's user side: `num_turns` is one more.
    pub user_frames: u64,
    pub rounds: u32,
    /// How often stop hooks made the turn go on.
    pub stop_blocks: u32,
    pub nudges: NudgeCounts,
    pub usage: Usage,
    pub denials: Vec<PermissionDenial>,
    pub structured: StructuredProgress,
    pub last_text: String,
    pub stop_reason: Option<String>,
    /// The API's id of the last response.
    pub answer_id: String,
    /// The API's id of the last request that got a response.
    pub request_id: Option<String>,
    /// Whether the last response had anything a person sees.
    pub visible: bool,
    /// The error that cut off the last incomplete response.
    pub broken_by: Option<ModelError>,
    pub api_ms: u64,
    /// Estimate of the tokens that were thought in this turn.
    pub thinking_tokens: u64,
    pub first_request_ms: Option<u64>,
    pub first_event_ms: Option<u64>,
    pub first_frame_ms: Option<u64>,
}

impl TurnStats {
    /// Begins the counts of a turn with its first prompt; the clock of the turn starts here.
    pub fn new(prompt: &InboundUser) -> Self {
        Self {
            started: Instant::now(),
            turn_id: None,
            origin: prompt.origin.clone(),
            asked: vec![prompt.message.content.text()],
            made_room: false,
            prompts: prompt.uuid.iter().cloned().collect(),
            prompt_ids_sent: false,
            user_frames: 0,
            rounds: 0,
            stop_blocks: 0,
            nudges: NudgeCounts::default(),
            usage: Usage::default(),
            denials: Vec::new(),
            structured: StructuredProgress::default(),
            last_text: String::new(),
            stop_reason: None,
            answer_id: String::new(),
            request_id: None,
            visible: false,
            broken_by: None,
            api_ms: 0,
            thinking_tokens: 0,
            first_request_ms: None,
            first_event_ms: None,
            first_frame_ms: None,
        }
    }

    /// Returns the client ids of the turn's prompts; `None` if none of them has an id.
    pub fn prompt_list(&self) -> Option<Vec<String>> {
        (!self.prompts.is_empty()).then(|| self.prompts.clone())
    }

    /// Returns the milliseconds since the turn began.
    pub fn elapsed_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }
}
