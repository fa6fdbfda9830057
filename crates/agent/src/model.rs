//! Asking the model: how a request is put together, and questions beside the conversation.

pub mod one_question;
pub mod request;
