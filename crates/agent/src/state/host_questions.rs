//! Questions to the host: a control request goes out, its reply comes back by id. A question ends in exactly one way —
//! answered, refused, withdrawn by us, out of time, or impossible because the host has closed its end — and never waits
//! for something that cannot come.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lathe_protocol::control::ControlResponseBody;
use lathe_protocol::{ControlCancelRequest, ControlRequest, ControlRequestBody, ControlResponse, Outbound};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::state::services::SessionServices;

/// Why a question has no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The host has closed its end, so no reply can come.
    #[error("Stream closed")]
    Closed,
    /// The turn was interrupted, or a hook has settled the matter.
    #[error("the question was withdrawn")]
    Withdrawn,
    /// The host did not reply in time.
    #[error("no answer within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The host replied with an error.
    #[error("{0}")]
    Refused(String),
}

/// The open questions of a session.
#[derive(Default)]
pub struct HostQuestions {
    /// Written by the code that asks the host and by replies; read by `initialize`.
    state: Mutex<State>,
}

/// The number of questions that are remembered after their end, so that a late reply can be told from a wrong one.
const MAX_REMEMBERED: usize = 1024;

#[derive(Default)]
struct State {
    closed: bool,
    /// Ids of questions that are over, oldest first.
    over: VecDeque<String>,
    waiting: HashMap<String, Waiting>,
}

/// An open question.
struct Waiting {
    asker: oneshot::Sender<Result<Value, String>>,
    /// The request itself, if a host that introduces itself again has to be told of it.
    shown: Option<Value>,
}

impl HostQuestions {
    /// Locks the open questions, also after a panic under the lock.
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a reply of the host to the code that waits for it. The return value says whether a question was waiting,
    /// was settled before, or never existed; only the last is worth a warning. Only the last [`MAX_REMEMBERED`] ids are
    /// known as settled.
    pub fn settle(&self, response: ControlResponse) -> SettledQuestion {
        let id = response.request_id().unwrap_or("").to_owned();
        let asker = {
            let mut state = self.state();
            let Some(asker) = state.end(&id) else {
                return if state.over.contains(&id) {
                    SettledQuestion::Late
                } else {
                    SettledQuestion::NobodyAsked { id }
                };
            };
            asker
        };
        let answer = match response.response {
            ControlResponseBody::Success(success) => Ok(success.response.unwrap_or_else(|| json!({}))),
            ControlResponseBody::Error(error) => Err(error.error),
            ControlResponseBody::Unknown(value) => {
                Err(format!("the host sent an answer that is neither success nor error: {value}"))
            }
        };
        // The asker may have given up this instant; then the reply is simply late.
        let _ = asker.send(answer);
        SettledQuestion::Answered
    }

    /// Fails all open questions now and all later ones at once, because the host has closed its input and cannot
    /// reply.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        // Dropping the senders wakes the askers.
        state.waiting.clear();
    }

    /// Returns the open permission questions, as they were asked, in no particular order.
    pub fn pending_permissions(&self) -> Vec<Value> {
        self.state().waiting.values().filter_map(|waiting| waiting.shown.clone()).collect()
    }

    /// Registers a question and returns where its reply arrives; [`AskError::Closed`] if the host has closed its input.
    /// Must precede the request, or a quick reply finds no question. `shown` is set for permission questions, which
    /// hosts can list.
    fn register(
        &self,
        id: &str,
        shown: Option<Value>,
    ) -> Result<oneshot::Receiver<Result<Value, String>>, AskError> {
        let mut state = self.state();
        if state.closed {
            return Err(AskError::Closed);
        }
        let (asker, answer) = oneshot::channel();
        state.waiting.insert(id.to_owned(), Waiting { asker, shown });
        Ok(answer)
    }

    /// Ends a question without a reply. A reply that still comes then counts as late.
    fn forget(&self, id: &str) {
        self.state().end(id);
    }
}

impl State {
    /// Removes an open question and returns where its reply goes; `None` if it is not open. Its id is remembered, so
    /// that a late reply is recognised as late; beyond [`MAX_REMEMBERED`] the oldest ids are forgotten.
    fn end(&mut self, id: &str) -> Option<oneshot::Sender<Result<Value, String>>> {
        let asker = self.waiting.remove(id)?.asker;
        if self.over.len() == MAX_REMEMBERED {
            self.over.pop_front();
        }
        self.over.push_back(id.to_owned());
        Some(asker)
    }
}

/// The outcome of a reply that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettledQuestion {
    Answered,
    /// The question was over already: withdrawn, out of time, or answered before.
    Late,
    NobodyAsked {
        id: String,
    },
}

impl SessionServices {
    /// Asks the host and waits for the reply, without a `timeout` as long as it takes. If `withdraw` or the timeout
    /// ends the question, the host is told that it is withdrawn; `withdraw` counts even if a reply is there at the same
    /// moment. An error that the host replied is [`AskError::Refused`]; once the host has closed its input, the result
    /// is [`AskError::Closed`] at once, and nothing is sent.
    pub async fn ask(
        &self,
        body: impl Into<ControlRequestBody>,
        withdraw: &CancellationToken,
        timeout: Option<Duration>,
    ) -> Result<Value, AskError> {
        let id = self.frames.uuid();
        let request = ControlRequest::new(id.clone(), body);
        let is_permission = matches!(request.request, ControlRequestBody::CanUseTool(_));
        let shown = is_permission.then(|| json!(Outbound::from(request.clone())));
        // Registered before it is sent, because the reply may come at once.
        let answer = self.questions.register(&id, shown)?;
        self.emit(request).await;
        let too_late = async {
            match timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        let error = tokio::select! {
            biased;
            () = withdraw.cancelled() => AskError::Withdrawn,
            answer = answer => {
                return match answer {
                    Ok(answer) => answer.map_err(AskError::Refused),
                    Err(_closed) => Err(AskError::Closed),
                };
            }
            () = too_late => AskError::TimedOut(timeout.unwrap_or_default()),
        };
        // Forgotten before the host is told, so that a reply on its way counts as late and not as unexpected.
        self.questions.forget(&id);
        self.emit(ControlCancelRequest { request_id: id, ..ControlCancelRequest::default() }).await;
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_reaches_the_one_who_asked() {
        let questions = HostQuestions::default();
        let answer = questions.register("a", None).unwrap();
        assert_eq!(questions.state().waiting.len(), 1);
        assert_eq!(
            questions.settle(ControlResponse::success("a", json!({"x": 1}))),
            SettledQuestion::Answered
        );
        assert_eq!(answer.await.unwrap(), Ok(json!({"x": 1})));
        assert_eq!(questions.settle(ControlResponse::ack("a")), SettledQuestion::Late);
        let wrong = questions.settle(ControlResponse::ack("b"));
        assert_eq!(wrong, SettledQuestion::NobodyAsked { id: "b".into() });
    }

    #[tokio::test]
    async fn closing_fails_open_and_later_questions() {
        let questions = HostQuestions::default();
        let answer = questions.register("a", None).unwrap();
        questions.close();
        assert!(answer.await.is_err());
        assert_eq!(questions.register("b", None).unwrap_err(), AskError::Closed);
    }

    #[tokio::test]
    async fn errors_and_empty_answers_are_told_apart() {
        let questions = HostQuestions::default();
        let refused = questions.register("a", None).unwrap();
        let empty = questions.register("b", None).unwrap();
        questions.settle(ControlResponse::error("a", "no"));
        questions.settle(ControlResponse::ack("b"));
        assert_eq!(refused.await.unwrap(), Err("no".to_owned()));
        assert_eq!(empty.await.unwrap(), Ok(json!({})));
    }
}
