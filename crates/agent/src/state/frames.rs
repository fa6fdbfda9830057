//! Builds the lines a host reads: ids, times and the fields that frames share are set here. A frame that only one place
//! needs may be built there.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lathe_models::ModelError;
use lathe_models::failure::ApiFailure;
use lathe_protocol::event::ToolProgress;
use lathe_protocol::message::{SYNTHETIC_MODEL, UserTurn};
use lathe_protocol::system::{
    ApiRetry, Informational, ModelFallback, ModelRefusalFallback, ModelRefusalNoFallback, Notification,
    PermissionDenied, SessionStateChanged, SessionTitleChanged, Status, ThinkingTokens,
};
use lathe_protocol::{
    ApiMessage, AssistantMessage, ContentBlock, Extra, InboundUser, Outbound, StreamEventMessage,
    SystemMessage, ToolResultMeta, Usage, UserMessage,
};
use serde_json::{Value, json};

use crate::record::response::ModelResponse;
use crate::record::tool_result::ToolResult;
use crate::state::agent::AgentIdentity;
use crate::state::config::StateFrames;
use crate::state::host::{ProcessHost, iso_time};
use crate::state::process::RetryWait;
use crate::state::refused_prompt::RefusedPrompt;
use crate::state::wire_names::{InfoLevel, NotificationPriority, SessionState};

/// Builds the frames of one session, or of one agent in it.
pub struct FrameBuilder {
    session_id: Arc<SessionId>,
    host: Arc<dyn ProcessHost>,
    /// The agent that the frames come from.
    agent: AgentIdentity,
}

/// The id of the session that frames belong to.
struct SessionId {
    /// Written by `/clear`, which begins another session; read for every frame.
    current: Mutex<String>,
}

impl FrameBuilder {
    /// Creates the builder for the main agent of a session. Ids and times come from `host`.
    pub fn new(session_id: String, host: Arc<dyn ProcessHost>) -> Self {
        let session_id = Arc::new(SessionId { current: Mutex::new(session_id) });
        Self { session_id, host, agent: AgentIdentity::Main }
    }

    /// Creates the builder for another agent of the same session. Both share the session id, also after it changes.
    pub fn for_agent(&self, agent: AgentIdentity) -> Self {
        Self { session_id: self.session_id.clone(), host: self.host.clone(), agent }
    }

    /// Returns the current id of the session.
    pub fn session_id(&self) -> String {
        self.session_id.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives all later frames another session id, also those of the other agents, whose builders share it.
    pub fn set_session_id(&self, id: String) {
        *self.session_id.current.lock().unwrap_or_else(PoisonError::into_inner) = id;
    }

    /// Returns the id of the call that started the agent; `None` for the main one.
    fn parent_tool_use_id(&self) -> Option<String> {
        self.agent.child().map(|child| child.parent_tool_use_id.clone())
    }

    /// Returns the id of the child agent; `None` for the main one.
    fn agent_id(&self) -> Option<String> {
        self.agent.child().map(|child| child.agent_id.clone())
    }

    /// Returns a fresh id for a frame or record.
    pub fn uuid(&self) -> String {
        self.host.uuid()
    }

    /// Returns the current time in the format of frames and records.
    pub fn now(&self) -> String {
        iso_time(self.host.now_ms())
    }

    /// Builds the frame of one finished block of a response. A response is sent block by block under one message id;
    /// `stop_reason` is known only with the last one.
    pub fn assistant_block(
        &self,
        answer: &ModelResponse,
        block: &ContentBlock,
        stop_reason: Option<String>,
    ) -> AssistantMessage {
        let message = ApiMessage {
            id: answer.id.clone(),
            model: answer.model.clone(),
            content: vec![block.clone()],
            stop_reason,
            usage: answer.first_usage.clone(),
            ..ApiMessage::default()
        };
        AssistantMessage {
            message,
            session_id: self.session_id(),
            uuid: self.uuid(),
            timestamp: Some(self.now()),
            request_id: answer.request_id.clone(),
            parent_tool_use_id: self.parent_tool_use_id(),
            agent_id: self.agent_id(),
            ..AssistantMessage::default()
        }
    }

    /// Builds the assistant message that stands in place of the response to a request that failed for good.
    pub fn api_error(&self, failure: &ApiFailure) -> AssistantMessage {
        AssistantMessage {
            error: Some(failure.error.to_owned()),
            is_api_error_message: Some(true),
            api_error_status: failure.api_error_status,
            api_error_type: failure.api_error_type.clone(),
            api_error: failure.api_error.map(str::to_owned),
            ..self.synthetic_assistant(&failure.text, "stop_sequence", Some(""))
        }
    }

    /// Builds an assistant message that no model wrote, with the model name and the empty usage by which hosts
    /// recognise it.
    pub fn synthetic_assistant(
        &self,
        text: &str,
        stop_reason: &str,
        stop_sequence: Option<&str>,
    ) -> AssistantMessage {
        let mut extra = Extra::new();
        for key in ["diagnostics", "container", "stop_details"] {
            extra.insert(key.into(), Value::Null);
        }
        let message = ApiMessage {
            id: self.uuid(),
            model: SYNTHETIC_MODEL.to_owned(),
            content: vec![ContentBlock::text(text)],
            stop_reason: Some(stop_reason.to_owned()),
            stop_sequence: stop_sequence.map(str::to_owned),
            usage: empty_usage(),
            extra,
            ..ApiMessage::default()
        };
        AssistantMessage {
            message,
            session_id: self.session_id(),
            uuid: self.uuid(),
            timestamp: Some(self.now()),
            parent_tool_use_id: self.parent_tool_use_id(),
            agent_id: self.agent_id(),
            ..AssistantMessage::default()
        }
    }

    /// Builds the assistant message that shows the text of a command.
    pub fn command_answer(&self, text: &str) -> AssistantMessage {
        AssistantMessage {
            local_command_source: Some(format!("<local-command-stdout>{text}</local-command-stdout>")),
            ..self.synthetic_assistant(text, "end_turn", None)
        }
    }

    /// Builds the frame of a tool call's result: `block` as the model gets it, `result` as programs get it in
    /// `tool_use_result`.
    pub fn tool_result(
        &self,
        block: &ToolResult,
        result: Value,
        meta: Option<ToolResultMeta>,
    ) -> UserMessage {
        UserMessage {
            tool_use_result: Some(result),
            tool_result_meta: meta.map(|meta| vec![meta]),
            ..self.user(vec![block.shown()])
        }
    }

    /// Builds a user message that the runtime wrote: the model reads it, no person typed it.
    pub fn synthetic_user(&self, text: &str) -> UserMessage {
        UserMessage { is_synthetic: Some(true), ..self.user(vec![ContentBlock::text(text)]) }
    }

    /// Builds a user message of this agent with fresh ids and nothing else set, for others to add to.
    pub fn user(&self, content: Vec<ContentBlock>) -> UserMessage {
        UserMessage {
            message: UserTurn::new(content),
            session_id: self.session_id(),
            uuid: self.uuid(),
            timestamp: Some(self.now()),
            parent_tool_use_id: self.parent_tool_use_id(),
            agent_id: self.agent_id(),
            ..UserMessage::default()
        }
    }

    /// Builds the frame that passes on one event of the API unchanged (`--include-partial-messages`). `ttft_ms` is the
    /// time to the first event, in milliseconds, for the frame that begins a message.
    pub fn stream_event(
        &self,
        event: Value,
        api_message_id: &str,
        ttft_ms: Option<u64>,
    ) -> StreamEventMessage {
        StreamEventMessage {
            event,
            session_id: self.session_id(),
            uuid: self.uuid(),
            ttft_ms,
            api_message_id: Some(api_message_id.to_owned()),
            parent_tool_use_id: self.parent_tool_use_id(),
            ..StreamEventMessage::default()
        }
    }

    /// Builds the `system/status` frame that precedes a request; to be sent only with partial messages. The ids are
    /// those of the prompts that the request responds to, if the host is told them here.
    pub fn requesting(&self, user_message_uuids: Option<Vec<String>>) -> Outbound {
        system(SystemMessage::Status(Status {
            status: Some("requesting".to_owned()),
            user_message_uuids,
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..Status::default()
        }))
    }

    /// Builds the frame that says how many tokens the model has thought: `total` in all, `delta` since the last such
    /// frame.
    pub fn thinking_tokens(&self, total: u64, delta: u64) -> Outbound {
        system(SystemMessage::ThinkingTokens(ThinkingTokens {
            estimated_tokens: total,
            estimated_tokens_delta: delta,
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..ThinkingTokens::default()
        }))
    }

    /// Builds the frame about a request that failed and will be sent again after `wait`.
    pub fn api_retry(&self, wait: &RetryWait, error: &ModelError) -> Outbound {
        system(SystemMessage::ApiRetry(ApiRetry {
            attempt: wait.attempt.into(),
            max_retries: wait.max_retries.into(),
            retry_delay_ms: wait.delay.as_millis() as f64,
            error_status: error.status,
            error: error.kind.wire_name().to_owned(),
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..ApiRetry::default()
        }))
    }

    /// Builds the frame about a change to a fallback model; `trigger` is a value of the wire.
    pub fn model_fallback(&self, trigger: &str, original: &str, fallback: &str) -> Outbound {
        system(SystemMessage::ModelFallback(ModelFallback {
            trigger: trigger.to_owned(),
            original_model: original.to_owned(),
            fallback_model: fallback.to_owned(),
            content: format!("{original} is not available now; going on with {fallback}"),
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..ModelFallback::default()
        }))
    }

    /// Builds the frame about a change to the model `fallback` because `original` refused. `prompt` is the id of the
    /// prompt that was refused.
    pub fn refusal_fallback(
        &self,
        original: &str,
        fallback: &str,
        request_id: Option<String>,
        prompt: Option<String>,
    ) -> Outbound {
        system(SystemMessage::ModelRefusalFallback(ModelRefusalFallback {
            trigger: "refusal".to_owned(),
            direction: "retry".to_owned(),
            scope: Some("session".to_owned()),
            original_model: original.to_owned(),
            fallback_model: fallback.to_owned(),
            request_id,
            api_refusal_category: Some(None),
            api_refusal_explanation: Some(None),
            retracted_message_uuids: Some(Vec::new()),
            refused_user_message_uuid: Some(prompt),
            content: format!("{original} refused to answer; going on with {fallback}"),
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..ModelRefusalFallback::default()
        }))
    }

    /// Builds the frame about a model that refused when no other model is left to ask. `prompt` is the id of the prompt
    /// that was refused.
    pub fn refused(&self, model: &str, request_id: Option<String>, prompt: Option<String>) -> Outbound {
        system(SystemMessage::ModelRefusalNoFallback(ModelRefusalNoFallback {
            original_model: model.to_owned(),
            request_id,
            refused_user_message_uuid: Some(prompt),
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..ModelRefusalNoFallback::default()
        }))
    }

    /// Builds a warning for people about something that does not stop the session.
    pub fn warning(&self, text: &str) -> Outbound {
        system(SystemMessage::Informational(self.remark(InfoLevel::Warning, text)))
    }

    /// Builds a notice for people.
    pub fn notice(&self, text: &str) -> Outbound {
        system(SystemMessage::Informational(self.remark(InfoLevel::Notice, text)))
    }

    /// Builds the message behind all warnings and notices, with its ids; callers add the rest.
    fn remark(&self, level: InfoLevel, text: &str) -> Informational {
        Informational {
            content: text.to_owned(),
            level: level.wire_name().to_owned(),
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..Informational::default()
        }
    }

    /// Builds a warning with a `tag`, by which programs can recognise it. A tag that was released must not change.
    pub fn note(&self, tag: &str, text: &str) -> Outbound {
        system(SystemMessage::Informational(Informational {
            tag: Some(tag.to_owned()),
            ..self.remark(InfoLevel::Warning, text)
        }))
    }

    /// Builds a notification, which hosts show to a person at once. A later one with the same `key` replaces it.
    pub fn notification(&self, key: &str, text: &str, priority: NotificationPriority) -> Outbound {
        system(SystemMessage::Notification(Notification {
            key: key.to_owned(),
            text: text.to_owned(),
            priority: priority.wire_name().to_owned(),
            color: priority.color().map(str::to_owned),
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..Notification::default()
        }))
    }

    /// Builds the frame that says that a tool, or a hook of the host, is still running. `id` is its call, and `count`
    /// makes the frames of one call distinct.
    pub fn heartbeat(&self, name: &str, id: &str, count: u32, elapsed: Duration) -> Outbound {
        Outbound::ToolProgress(ToolProgress {
            tool_use_id: format!("{id}-heartbeat-{count}"),
            tool_name: name.to_owned(),
            parent_tool_use_id: Some(id.to_owned()),
            elapsed_time_seconds: elapsed.as_secs_f64(),
            heartbeat: Some(true),
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..ToolProgress::default()
        })
    }

    /// Builds the notice `text` that a hook ended the turn, marked so that hosts recognise it.
    pub fn stopped_by_hook(&self, text: &str) -> Outbound {
        system(SystemMessage::Informational(Informational {
            prevent_continuation: Some(true),
            ..self.remark(InfoLevel::Notice, text)
        }))
    }

    /// Builds the notice that a hook kept a prompt from the model, with the data by which hosts recognise it.
    pub(crate) fn prompt_refused(&self, refusal: &RefusedPrompt) -> Outbound {
        let RefusedPrompt { text, reason, kind } = refusal;
        let (name, kept) = (kind.wire_name(), kind.keeps_prompt());
        system(SystemMessage::Informational(Informational {
            prevent_continuation: Some(true),
            prompt_submit_outcome: Some(json!({"kind": name, "prompt_kept": kept, "reason": reason})),
            ..self.remark(InfoLevel::Warning, text)
        }))
    }

    /// Builds the frame about a change between running and idle; `None` if the host did not ask for such frames.
    pub fn state(&self, state: SessionState, who: StateFrames) -> Option<Outbound> {
        let sdk_host_only = match who {
            StateFrames::None => return None,
            StateFrames::SdkOnly => Some(true),
            StateFrames::Public => None,
        };
        Some(system(SystemMessage::SessionStateChanged(SessionStateChanged {
            state: state.wire_name().to_owned(),
            sdk_host_only,
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..SessionStateChanged::default()
        })))
    }

    /// Builds the acknowledgement of a prompt, which is a copy of it marked as replayed. It keeps the id of the prompt,
    /// or gets a fresh one if the prompt has none.
    pub fn replay(&self, prompt: &InboundUser) -> UserMessage {
        UserMessage {
            message: prompt.message.clone(),
            session_id: self.session_id(),
            uuid: prompt.uuid.clone().unwrap_or_else(|| self.uuid()),
            timestamp: Some(self.now()),
            is_replay: Some(true),
            origin: prompt.origin.clone(),
            ..UserMessage::default()
        }
    }

    /// Builds the frame for output of a command or of a change that a host made. It has the form of a replayed
    /// message and is sent whether or not replays were asked for.
    pub fn command_output(&self, text: &str) -> UserMessage {
        UserMessage {
            message: UserTurn::new(format!("<local-command-stdout>{text}</local-command-stdout>")),
            is_replay: Some(true),
            ..self.user(Vec::new())
        }
    }

    /// Builds the frame that tells the host of a new permission mode; `mode` is its name on the wire.
    pub fn mode_changed(&self, mode: &str) -> Outbound {
        system(SystemMessage::Status(Status {
            status: None,
            permission_mode: Some(mode.to_owned()),
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..Status::default()
        }))
    }

    /// Builds the frame about a new title of the session.
    pub fn title_changed(&self, title: &str) -> Outbound {
        system(SystemMessage::SessionTitleChanged(SessionTitleChanged {
            title: title.to_owned(),
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..SessionTitleChanged::default()
        }))
    }

    /// Builds the frame about a call that was denied without a question to the host; `denied` gives reason and message.
    pub fn permission_denied(
        &self,
        tool_name: &str,
        tool_use_id: &str,
        denied: &lathe_permissions::Denied,
    ) -> Outbound {
        system(SystemMessage::PermissionDenied(PermissionDenied {
            tool_name: tool_name.to_owned(),
            tool_use_id: tool_use_id.to_owned(),
            decision_reason_type: denied.reason.wire_type().map(str::to_owned),
            decision_reason: denied.reason.text(),
            message: denied.message.clone(),
            agent_id: self.agent_id(),
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..PermissionDenied::default()
        }))
    }
}

/// Wraps a message as a system frame.
pub fn system(message: SystemMessage) -> Outbound {
    Outbound::System(message)
}

/// Returns the usage of a message that no model wrote, with the fields that hosts expect to be there.
fn empty_usage() -> Usage {
    let extra = json!({
        "output_tokens_details": null,
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": null,
        "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
        "inference_geo": null, "iterations": null, "speed": null, "fallback_credit": null,
    });
    Usage { extra: extra.as_object().cloned().unwrap_or_default(), ..Usage::default() }
}
