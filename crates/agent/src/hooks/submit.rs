//! What hooks make of a prompt before anything is done with it: it goes to the model with their notes, or it
//! does not and the result says why.

use std::sync::Arc;

use lathe_hooks::{ContextText, Outcome};
use lathe_protocol::InboundUser;
use lathe_protocol::hooks::{HookEventInput, UserPromptSubmitInput};
use tokio_util::sync::CancellationToken;

use crate::record::journal::Words;
use crate::state::agent::AgentHandle;
use crate::state::refused_prompt::{Refusal, RefusalKind};

/// What became of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Submitted {
    /// It goes to the model, with these notes behind it.
    Accepted { contexts: Vec<String>, words: Words },
    /// It does not.
    Refused(Refusal),
    /// Somebody broke its hooks off before they had agreed: it does not either, and is forgotten.
    BrokenOff,
}

impl Submitted {
    /// A prompt that no hook has anything to say about.
    pub const UNTOUCHED: Self = Self::Accepted { contexts: Vec::new(), words: Words::Shown };
}

impl AgentHandle {
    /// Lets the hooks see a prompt.
    pub(crate) async fn submit_to_hooks(
        self: &Arc<Self>,
        prompt: &InboundUser,
        cancel: &CancellationToken,
    ) -> Submitted {
        // What a hook said to wake the model is not the user's, and must not wake it again.
        if prompt.is_synthetic == Some(true) {
            return Submitted::UNTOUCHED;
        }
        let input = UserPromptSubmitInput {
            prompt: prompt.message.content.text(),
            session_title: self.session.files.current_title(),
            ..UserPromptSubmitInput::default()
        };
        let outcome = self.fire(HookEventInput::UserPromptSubmit(input), None, cancel).await;
        self.session.take_title(outcome.prompt.session_title.as_deref()).await;
        read(&outcome)
    }
}

fn read(outcome: &Outcome) -> Submitted {
    if let Some(block) = outcome.block() {
        let text = format!("A hook refused this prompt: {}", block.reason);
        let (reason, kind) = (block.reason.clone(), RefusalKind::Blocked);
        return Submitted::Refused(Refusal { text, reason, kind });
    }
    if let Some(stop) = &outcome.stop {
        let reason = stop.reason.clone().unwrap_or_default();
        let why = if reason.is_empty() { "no reason was given" } else { &reason };
        let text = format!("A hook stopped this prompt: {why}");
        return Submitted::Refused(Refusal { text, reason, kind: RefusalKind::Stopped });
    }
    let contexts: Vec<String> = outcome.contexts.iter().map(ContextText::line).collect();
    // Without a note there would be nothing left to ask.
    let is_hidden = outcome.prompt.suppress_original && !contexts.is_empty();
    Submitted::Accepted { contexts, words: if is_hidden { Words::Hidden } else { Words::Shown } }
}
