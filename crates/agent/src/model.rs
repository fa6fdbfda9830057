//! Requests to the model: how a request is built, what follows a failed attempt, and questions outside of the
//! conversation.

pub mod attempts;
pub mod offer;
pub mod one_question;
pub mod request;

use lathe_models::{ErrorKind, ModelError};

/// Returns the error of a stream that ended before its response was complete.
pub(crate) fn cut_short() -> ModelError {
    ModelError {
        kind: ErrorKind::StreamCut,
        status: None,
        api_type: None,
        message: "the answer ended before it was complete".to_owned(),
        retry_after: None,
        request_id: None,
    }
}
