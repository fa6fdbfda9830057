//! Questions to the model outside of the conversation: a side question of the host, a title for the session. They see
//! the conversation where that helps, call no tools, and leave nothing in the history; their cost counts for the
//! session.

use std::sync::Arc;

use lathe_models::references::referenced_tools;
use lathe_models::{ModelError, ModelRequest, WireMessage};
use lathe_protocol::control::{GenerateSessionTitleRequest, SideQuestionRequest};
use lathe_protocol::reminder::system_reminder;
use lathe_protocol::system::ControlRequestProgress;
use lathe_protocol::text::first_chars;
use lathe_protocol::{Outbound, Role, SystemMessage};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Reply;
use crate::model::request;
use crate::state::agent::AgentHandle;
use crate::state::process::RetryWait;

/// The note in front of a side question.
const SIDE_NOTE: &str = "The user asks the following aside, while the work above goes on \
elsewhere. Answer it briefly from what you know by now. Call no tools, and do not carry on with the task: \
neither the question nor your answer becomes part of the conversation.";

/// The request for a title.
const TITLE_NOTE: &str = "Write a title of three to six words for a working session that begins with the \
following request. Answer with the title alone: one line, no quotes, no full stop.";

/// Tokens that a title may take.
const TITLE_TOKENS: u32 = 100;

/// The largest number of characters in a title.
const MAX_TITLE_CHARS: usize = 80;

/// A request in progress, for the frames about it.
struct Asking<'a> {
    agent: &'a AgentHandle,
    id: &'a str,
    withdraw: &'a CancellationToken,
    progress: Progress,
}

/// Whether the host is told about the progress.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Shown,
    Quiet,
}

/// Why a response is missing.
enum Failed {
    Withdrawn,
    Model(ModelError),
}

/// Asks the model a question beside the turn and returns the response as the reply; the host gets a progress frame at
/// the start and at each retry. The conversation does not change, but the usage counts. A blank question, a withdrawn
/// request and a failure of the model are errors.
pub(super) async fn question(
    agent: Arc<AgentHandle>,
    id: String,
    body: SideQuestionRequest,
    withdraw: CancellationToken,
) -> Reply {
    if body.question.trim().is_empty() {
        return Reply::Error("side_question: the question is empty".to_owned());
    }
    let asking = Asking { agent: &agent, id: &id, withdraw: &withdraw, progress: Progress::Shown };
    asking.tell(ControlRequestProgress { status: "started".to_owned(), ..asking.frame() }).await;
    match asking.ask(side_request(&agent, &body.question)).await {
        Ok(text) => Reply::Success(json!({"response": text, "synthetic": false})),
        Err(Failed::Withdrawn) => Reply::Error("side_question: it was taken back".to_owned()),
        Err(Failed::Model(error)) => Reply::Error(format!("side_question: {}", error.message)),
    }
}

/// Replies to `generate_session_title`, and gives the session the title if the request says `persist`. The title is
/// null if the model failed, which is logged, or wrote none; only a withdrawn request is an error.
pub(super) async fn title(
    agent: Arc<AgentHandle>,
    id: String,
    body: GenerateSessionTitleRequest,
    withdraw: CancellationToken,
) -> Reply {
    let asking = Asking { agent: &agent, id: &id, withdraw: &withdraw, progress: Progress::Quiet };
    let title = match asking.ask(title_request(&agent, &body.description)).await {
        Ok(text) => as_title(&text),
        Err(Failed::Withdrawn) => {
            return Reply::Error("generate_session_title: it was taken back".to_owned());
        }
        Err(Failed::Model(error)) => {
            agent.session.process.host.log(&format!("no session title could be made: {}", error.message));
            None
        }
    };
    if let (Some(title), Some(true)) = (&title, body.persist) {
        agent.session.set_title(title).await;
    }
    Reply::Success(json!({"title": title}))
}

/// Builds the request for a side question: the current conversation with the question behind it. The tools stay
/// declared, because the conversation refers to them, but the model may not call them; tools that the conversation
/// refers to are loaded first.
fn side_request(agent: &AgentHandle, question: &str) -> ModelRequest {
    let choice = agent.choice();
    let conversation = agent.conversation();
    agent.load_referenced(&referenced_tools(&conversation));
    let offer = agent.offer(&choice.id);
    let mut messages = offer.readable(conversation);
    messages.extend(user_message(&[&system_reminder(SIDE_NOTE), question]));
    let mut request = ModelRequest {
        system: offer.system,
        messages,
        defers_tools: offer.defers_tools,
        cache: choice.cache,
        ..request::side_request(&choice, &choice.id, "side_question")
    };
    // The API refuses `tool_choice` in a request without tools.
    if offer.tools.trim() != "[]" {
        request.extra_body.insert("tool_choice".to_owned(), json!({"type": "none"}));
    }
    request.tools = offer.tools;
    request
}

/// Builds the request for a session title, for the small fast model. The betas of the session are left out, because
/// they were chosen for its own model.
fn title_request(agent: &AgentHandle, description: &str) -> ModelRequest {
    let model = agent.session.process.catalog.small_fast();
    ModelRequest {
        max_tokens: TITLE_TOKENS,
        messages: user_message(&[TITLE_NOTE, description]).into_iter().collect(),
        // The betas were chosen for the model of the session, not for the small one.
        betas: Vec::new(),
        ..request::side_request(&agent.choice(), &model, "session_title")
    }
}

/// Builds a user message of the texts that are not blank, without a cache breakpoint. `None` if the message cannot be
/// built.
fn user_message(texts: &[&str]) -> Option<WireMessage> {
    // The API refuses empty text blocks.
    let texts = texts.iter().filter(|text| !text.trim().is_empty());
    let blocks: Vec<Value> = texts.map(|text| json!({"type": "text", "text": text})).collect();
    WireMessage::new(Role::User, &blocks).ok().map(WireMessage::without_breakpoint)
}

/// Returns the first line that is not blank, cut at [`MAX_TITLE_CHARS`], without the quotes, Markdown marks and final
/// full stop that models like to add. `None` if nothing is left of it.
fn as_title(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let line = line.trim_matches(['"', '\'', '`', '*', '#', ' ']).trim_end_matches('.');
    let title = first_chars(line, MAX_TITLE_CHARS);
    (!title.is_empty()).then(|| title.to_owned())
}

impl Asking<'_> {
    /// Sends the request, with the retries that every request has, and returns the text of the response; the host hears
    /// of retries if the progress is shown. If the host withdraws its own request, the one to the model is dropped, and
    /// the error is [`Failed::Withdrawn`].
    async fn ask(&self, request: ModelRequest) -> Result<String, Failed> {
        let session = &self.agent.session;
        tokio::select! {
            biased;
            () = self.withdraw.cancelled() => Err(Failed::Withdrawn),
            answer = session.ask_model(request, |wait, error| self.retry_frame(wait, error)) => {
                answer.map_err(Failed::Model)
            }
        }
    }

    /// Returns a progress frame for this request that has only its ids; the caller fills in what happened.
    fn frame(&self) -> ControlRequestProgress {
        ControlRequestProgress {
            request_id: self.id.to_owned(),
            uuid: self.agent.frames.uuid(),
            session_id: self.agent.frames.session_id(),
            ..ControlRequestProgress::default()
        }
    }

    /// Returns the frame about a retry, or `None` if the progress of this request is not shown.
    fn retry_frame(&self, wait: RetryWait, error: &ModelError) -> Option<Outbound> {
        let frame = ControlRequestProgress {
            status: "api_retry".to_owned(),
            attempt: Some(wait.attempt.into()),
            max_retries: Some(wait.max_retries.into()),
            retry_delay_ms: Some(wait.delay.as_millis() as f64),
            error_status: Some(error.status),
            ..self.frame()
        };
        (self.progress == Progress::Shown)
            .then(|| Outbound::System(SystemMessage::ControlRequestProgress(frame)))
    }

    /// Sends a progress frame, unless the progress of this request is not shown.
    async fn tell(&self, frame: ControlRequestProgress) {
        if self.progress == Progress::Shown {
            self.agent.session.emit(Outbound::System(SystemMessage::ControlRequestProgress(frame))).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_plain_line() {
        assert_eq!(as_title("\n\"Fix the parser.\"\nmore").as_deref(), Some("Fix the parser"));
        assert_eq!(as_title("**Tidy up**").as_deref(), Some("Tidy up"));
        assert_eq!(as_title(" \n \"\" "), None);
        assert_eq!(as_title(&"x".repeat(500)).map(|title| title.len()), Some(MAX_TITLE_CHARS));
    }
}
