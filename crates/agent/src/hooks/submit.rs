//! What hooks do with a prompt before it is used: it goes to the model with their notes, or it is refused and the
//! result says why.

use std::sync::Arc;

use lathe_hooks::{ContextText, Outcome};
use lathe_protocol::InboundUser;
use lathe_protocol::hooks::{HookEventInput, UserPromptExpansionInput, UserPromptSubmitInput};
use tokio_util::sync::CancellationToken;

use crate::background::notice::notices_in;
use crate::record::journal::PromptWords;
use crate::state::agent::AgentHandle;
use crate::state::commands::expansion::ExpandedPrompt;
use crate::state::refused_prompt::{RefusalKind, RefusedPrompt};

/// The outcome of the hooks for a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SubmittedPrompt {
    /// It goes to the model, with these notes behind it.
    Accepted { contexts: Vec<String>, words: PromptWords },
    /// It does not go to the model.
    Refused(RefusedPrompt),
    /// Its hooks were cancelled before they had agreed: it does not go to the model either, and is forgotten.
    Cancelled,
}

impl SubmittedPrompt {
    /// A prompt about which no hook has said anything.
    pub const UNTOUCHED: Self = Self::Accepted { contexts: Vec::new(), words: PromptWords::Shown };
}

impl AgentHandle {
    /// Runs the UserPromptSubmit hooks for a prompt; `source` says what started its turn, if it was not the host.
    /// Returns whether the prompt may reach the model, with the notes that hooks add to it, and takes over the title
    /// that they give; a cancellation looks like consent, so the caller has to check the token. A prompt that a
    /// background hook wrote is accepted without asking, so that its hooks cannot wake the model again.
    pub(crate) async fn submit_to_hooks(
        self: &Arc<Self>,
        prompt: &InboundUser,
        source: Option<&str>,
        cancel: &CancellationToken,
    ) -> SubmittedPrompt {
        // A prompt that a hook wrote to wake the model is not the user's, and its hooks must not wake the model again.
        let is_of_hook = prompt.origin.as_ref().is_some_and(|origin| origin["subkind"] == "hook");
        if is_of_hook {
            return SubmittedPrompt::UNTOUCHED;
        }
        let input = UserPromptSubmitInput {
            prompt: words_for_hooks(prompt),
            source: source.map(str::to_owned),
            session_title: self.session.files.current_title(),
            ..UserPromptSubmitInput::default()
        };
        let outcome = self.fire(HookEventInput::UserPromptSubmit(input), None, cancel).await;
        self.session.take_title(outcome.prompt.session_title.as_deref()).await;
        read_outcome(&outcome)
    }

    /// Runs the UserPromptExpansion hooks for the command in a prompt that the UserPromptSubmit hooks have accepted;
    /// any other `submitted` is returned as it is. Their notes come behind those that the prompt already has.
    pub(crate) async fn expand_before_hooks(
        self: &Arc<Self>,
        prompt: &InboundUser,
        expanded: &ExpandedPrompt,
        submitted: SubmittedPrompt,
        cancel: &CancellationToken,
    ) -> SubmittedPrompt {
        let SubmittedPrompt::Accepted { mut contexts, words } = submitted else { return submitted };
        let input = UserPromptExpansionInput {
            expansion_type: "slash_command".to_owned(),
            command_name: expanded.name.clone(),
            command_args: expanded.args.clone(),
            prompt: prompt.message.content.text(),
            ..UserPromptExpansionInput::default()
        };
        let outcome = self.fire(HookEventInput::UserPromptExpansion(input), None, cancel).await;
        match read_outcome(&outcome) {
            SubmittedPrompt::Accepted { contexts: more, words: other } => {
                contexts.extend(more);
                let words = if other == PromptWords::Hidden { other } else { words };
                SubmittedPrompt::Accepted { contexts, words }
            }
            refused @ (SubmittedPrompt::Refused(_) | SubmittedPrompt::Cancelled) => refused,
        }
    }
}

/// Returns the text that hooks are asked about: what the user wrote. If ends of tasks start the turn, it is their
/// notices alone, without the words that the runtime wrote around them.
fn words_for_hooks(prompt: &InboundUser) -> String {
    let text = prompt.message.content.text();
    let is_notice = prompt.origin.as_ref().is_some_and(|origin| origin["producer"] == "session-task");
    match notices_in(&text) {
        Some(notices) if is_notice => notices.to_owned(),
        Some(_) | None => text,
    }
}

/// Converts the outcome of the hooks of a prompt. A block counts before a stop; a prompt is hidden from the model only
/// if a note remains to be sent. Cancelled hooks look here as if they had accepted the prompt, and the result is never
/// [`SubmittedPrompt::Cancelled`], so the caller has to check the token.
fn read_outcome(outcome: &Outcome) -> SubmittedPrompt {
    if let Some(block) = outcome.block() {
        let text = format!("A hook refused this prompt: {}", block.reason);
        let (reason, kind) = (block.reason.clone(), RefusalKind::Blocked);
        return SubmittedPrompt::Refused(RefusedPrompt { text, reason, kind });
    }
    if let Some(stop) = &outcome.stop {
        let reason = stop.reason.clone().unwrap_or_default();
        let why = if reason.is_empty() { "no reason was given" } else { &reason };
        let text = format!("A hook stopped this prompt: {why}");
        return SubmittedPrompt::Refused(RefusedPrompt { text, reason, kind: RefusalKind::Stopped });
    }
    let contexts: Vec<String> = outcome.contexts.iter().map(ContextText::line).collect();
    // Without a note there would be nothing left to send.
    let is_hidden = outcome.prompt.suppress_original && !contexts.is_empty();
    SubmittedPrompt::Accepted {
        contexts,
        words: if is_hidden { PromptWords::Hidden } else { PromptWords::Shown },
    }
}
