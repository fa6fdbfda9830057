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
    pub fn new(session_id: String, host: Arc<dyn ProcessHost>) -> Self {
        let session_id = Arc::new(SessionId { current: Mutex::new(session_id) });
        Self { session_id, host, agent: AgentIdentity::Main }
    }

    /// The builder for an agent in the same session.
    pub fn for_agent(&self, agent: AgentIdentity) -> Self {
        Self { session_id: self.session_id.clone(), host: self.host.clone(), agent }
    }

    /// The current id of the session.
    pub fn session_id(&self) -> String {
        self.session_id.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes later frames belong to another session.
    pub fn set_session_id(&self, id: String) {
        *self.session_id.current.lock().unwrap_or_else(PoisonError::into_inner) = id;
    }

    /// The call that started the agent; none for the main one.
    fn parent_tool_use_id(&self) -> Option<String> {
        self.agent.child().map(|child| child.parent_tool_use_id.clone())
    }

    /// The id of the child agent; none for the main one.
    fn agent_id(&self) -> Option<String> {
        self.agent.child().map(|child| child.agent_id.clone())
    }

    /// A fresh id.
    pub fn uuid(&self) -> String {
        self.host.uuid()
    }

    /// The current time, as frames and records write it.
    pub fn now(&self) -> String {
        iso_time(self.host.now_ms())
    }

    /// One finished block of a response.
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

    /// The message that a failed request ends with.
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

    /// An assistant message that no model wrote.
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

    /// The text of a command.
    pub fn command_answer(&self, text: &str) -> AssistantMessage {
        AssistantMessage {
            local_command_source: Some(format!("<local-command-stdout>{text}</local-command-stdout>")),
            ..self.synthetic_assistant(text, "end_turn", None)
        }
    }

    /// The result of one tool call.
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

    /// A user message made by the runtime: the model reads it, the user did not type it.
    pub fn synthetic_user(&self, text: &str) -> UserMessage {
        UserMessage { is_synthetic: Some(true), ..self.user(vec![ContentBlock::text(text)]) }
    }

    /// A plain user frame.
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

    /// An event of the API, as it came.
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

    /// `system/status` before a request, with partial messages.
    pub fn requesting(&self, user_message_uuids: Option<Vec<String>>) -> Outbound {
        system(SystemMessage::Status(Status {
            status: Some("requesting".to_owned()),
            user_message_uuids,
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..Status::default()
        }))
    }

    /// How many tokens the model has thought so far, with partial messages.
    pub fn thinking_tokens(&self, total: u64, delta: u64) -> Outbound {
        system(SystemMessage::ThinkingTokens(ThinkingTokens {
            estimated_tokens: total,
            estimated_tokens_delta: delta,
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..ThinkingTokens::default()
        }))
    }

    /// A request failed and will be sent again.
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

    /// The session continues with another model.
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

    /// The model refused, and another one is asked.
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

    /// The model refused, also when asked again.
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

    /// A warning about something that stops nothing.
    pub fn warning(&self, text: &str) -> Outbound {
        system(SystemMessage::Informational(self.remark(InfoLevel::Warning, text)))
    }

    /// A notice for people.
    pub fn notice(&self, text: &str) -> Outbound {
        system(SystemMessage::Informational(self.remark(InfoLevel::Notice, text)))
    }

    /// Returns an informational message with its ids, for the callers to add fields to.
    fn remark(&self, level: InfoLevel, text: &str) -> Informational {
        Informational {
            content: text.to_owned(),
            level: level.wire_name().to_owned(),
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..Informational::default()
        }
    }

    /// A warning with a name that programs can look for.
    pub fn note(&self, tag: &str, text: &str) -> Outbound {
        system(SystemMessage::Informational(Informational {
            tag: Some(tag.to_owned()),
            ..self.remark(InfoLevel::Warning, text)
        }))
    }

    /// A notification to be shown to a person at once.
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

    /// A sign that a hook of the host is still running.
    pub fn heartbeat(&self, event: &str, id: &str, count: u32, elapsed: Duration) -> Outbound {
        Outbound::ToolProgress(ToolProgress {
            tool_use_id: format!("{id}-heartbeat-{count}"),
            tool_name: event.to_owned(),
            parent_tool_use_id: Some(id.to_owned()),
            elapsed_time_seconds: elapsed.as_secs_f64(),
            heartbeat: Some(true),
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..ToolProgress::default()
        })
    }

    /// A hook ends a turn before the model would have.
    pub fn stopped_by_hook(&self, text: &str) -> Outbound {
        system(SystemMessage::Informational(Informational {
            prevent_continuation: Some(true),
            ..self.remark(InfoLevel::Notice, text)
        }))
    }

    /// A prompt that a hook kept from the model.
    pub(crate) fn prompt_refused(&self, refusal: &RefusedPrompt) -> Outbound {
        let RefusedPrompt { text, reason, kind } = refusal;
        let (name, kept) = (kind.wire_name(), kind.keeps_prompt());
        system(SystemMessage::Informational(Informational {
            prevent_continuation: Some(true),
            prompt_submit_outcome: Some(json!({"kind": name, "prompt_kept": kept, "reason": reason})),
            ..self.remark(InfoLevel::Warning, text)
        }))
    }

    /// Whether the session is running; none if the host does not want to know.
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

    /// A prompt, acknowledged with a copy of itself.
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

    /// The output of something like a command, which is always shown as a replayed message.
    pub fn command_output(&self, text: &str) -> UserMessage {
        UserMessage {
            message: UserTurn::new(format!("<local-command-stdout>{text}</local-command-stdout>")),
            is_replay: Some(true),
            ..self.user(Vec::new())
        }
    }

    /// The permission mode has changed.
    pub fn mode_changed(&self, mode: &str) -> Outbound {
        system(SystemMessage::Status(Status {
            status: None,
            permission_mode: Some(mode.to_owned()),
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..Status::default()
        }))
    }

    /// The session has a title now.
    pub fn title_changed(&self, title: &str) -> Outbound {
        system(SystemMessage::SessionTitleChanged(SessionTitleChanged {
            title: title.to_owned(),
            session_id: self.session_id(),
            uuid: self.uuid(),
            ..SessionTitleChanged::default()
        }))
    }

    /// A call was denied without a question.
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

/// A system frame.
pub fn system(message: SystemMessage) -> Outbound {
    Outbound::System(message)
}

/// The usage of a message that cost nothing.
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
