//! Output of hooks that finished after their event: hooks that went to the background, and events that were fired in
//! the background. The texts wait here and go to the model with the next request; a hook that was told to wake the
//! model does so when the session is idle.

use std::sync::Arc;

use lathe_hooks::ContextText;
use lathe_protocol::hooks::HookEventInput;
use lathe_protocol::reminder::system_reminder;
use lathe_protocol::{InboundUser, MessageContent};
use serde_json::json;

use crate::state::agent::AgentHandle;
use crate::state::services::SessionServices;

impl AgentHandle {
    /// Starts the hooks of an event and returns at once, so their verdicts have no effect. What they want the model to
    /// know goes with the next request; they are cancelled when the session ends.
    pub(crate) fn fire_in_background(self: &Arc<Self>, event: HookEventInput) {
        let session = &self.session;
        if !session.listens(&event.tag().into()) {
            return;
        }
        let agent = self.clone();
        let cancel = session.late.ended.child_token();
        session.late.side.spawn(async move {
            let outcome = agent.fire(event, None, &cancel).await;
            agent.session.late.add(outcome.contexts.iter().map(ContextText::line));
        });
    }
}

impl SessionServices {
    /// Queues texts as notes for the next request to the model.
    pub(crate) fn say_later(&self, lines: impl IntoIterator<Item = String>) {
        self.late.add(lines);
    }

    /// Takes the texts that background hooks have left since the last call, as notes for the next request. Their
    /// notices are shown first.
    pub(crate) async fn take_late(&self) -> Vec<String> {
        self.late.keep(self.hooks.take_async_results());
        self.show_late().await;
        self.late.take()
    }

    /// Waits until a hook in the background wants to wake the model, and returns the prompt that starts a turn, with
    /// all texts that wait by then. Output without that wish is kept for the next request, and notices are shown as
    /// they come. Nothing is lost when the future is dropped.
    pub(crate) async fn until_woken(&self) -> InboundUser {
        loop {
            self.show_late().await;
            if self.late.waiting().wakes {
                return wake_up(&self.late.take());
            }
            let results = self.hooks.next_async_results().await;
            self.late.keep(results);
        }
    }

    /// Shows the waiting notices in order. May be dropped at any await: a notice leaves the queue only after it was
    /// sent.
    async fn show_late(&self) {
        loop {
            let Some(notice) = self.late.waiting().notices.front().cloned() else { return };
            self.show(notice).await;
            // Removed only when it has been sent, because the future may be dropped during the wait.
            self.late.waiting().notices.pop_front();
        }
    }
}

/// Builds the synthetic prompt of a turn that a background hook starts; its text is the notes.
fn wake_up(notes: &[String]) -> InboundUser {
    let text = system_reminder(&notes.join("\n"));
    let mut prompt = InboundUser { is_synthetic: Some(true), ..InboundUser::default() };
    prompt.message.role = "user".to_owned();
    prompt.message.content = MessageContent::Text(text);
    prompt.origin = Some(json!({"kind": "task-notification", "subkind": "hook"}));
    prompt
}
