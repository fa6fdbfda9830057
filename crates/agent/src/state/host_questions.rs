//! Questions to the host: a control request goes out, its answer comes back by id. A question ends in
//! exactly one way — answered, refused, withdrawn by us, out of time, or impossible because the host has
//! closed its end — and never waits for something that cannot come.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lathe_protocol::control::ControlResponseBody;
use lathe_protocol::{ControlCancelRequest, ControlRequest, ControlRequestBody, ControlResponse, Outbound};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::state::services::SessionServices;

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The host has closed its end, so nobody can answer.
    #[error("Stream closed")]
    Closed,
    /// The turn was interrupted, or someone else has settled the matter.
    #[error("the question was withdrawn")]
    Withdrawn,
    /// The host did not answer in time.
    #[error("no answer within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The host answered with an error.
    #[error("{0}")]
    Refused(String),
}

/// The open questions of a session.
#[derive(Default)]
pub struct HostQuestions {
    /// Written by whoever asks the host and by the lines that answer; read by `initialize`.
    state: Mutex<State>,
}

/// Questions that are remembered after their end, so that a late answer can be told from a wrong one.
const MAX_REMEMBERED: usize = 1024;

#[derive(Default)]
struct State {
    closed: bool,
    /// Ids of questions that are over, oldest first.
    over: VecDeque<String>,
    waiting: HashMap<String, Waiting>,
}

/// A question that is open.
struct Waiting {
    asker: oneshot::Sender<Result<Value, String>>,
    /// The request itself, where a host that introduces itself again has to hear of it.
    shown: Option<Value>,
}

impl HostQuestions {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an answer. An answer to a question that is settled, or was never asked, is no error of
    /// the session; the caller may want to tell the host.
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
        // The asker may have given up this instant; then the answer is simply late.
        let _ = asker.send(answer);
        SettledQuestion::Answered
    }

    /// The host has closed its end: every open question fails now, every later one at once.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.waiting.clear();
    }

    /// The permission questions that are open, as they were asked.
    pub fn pending_permissions(&self) -> Vec<Value> {
        self.state().waiting.values().filter_map(|waiting| waiting.shown.clone()).collect()
    }

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

    fn forget(&self, id: &str) {
        self.state().end(id);
    }
}

impl State {
    /// Takes a question off the table and remembers that it was there.
    fn end(&mut self, id: &str) -> Option<oneshot::Sender<Result<Value, String>>> {
        let asker = self.waiting.remove(id)?.asker;
        if self.over.len() == MAX_REMEMBERED {
            self.over.pop_front();
        }
        self.over.push_back(id.to_owned());
        Some(asker)
    }
}

/// What became of an answer that came in.
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
    /// Asks the host and waits for the answer. `withdraw` takes the question back; so does the timeout.
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
