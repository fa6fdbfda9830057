//! `/clear`: the session ends as far as its conversation goes, and another begins in the same process, with
//! an id and a file of its own. What the host has chosen stays: model, permissions, hooks, and the prompts
//! that wait. The spending limit is the run's, so what was spent still counts for it.

use lathe_protocol::event::ConversationReset;
use lathe_protocol::system::BackgroundTasksChanged;
use lathe_protocol::{ContentBlock, Outbound};

use super::{CommandEnd, Invocation};
use crate::history::History;
use crate::turn::{Outcome, Turn};

/// Clears the conversation. An argument names the session that is left behind.
pub(super) async fn run(turn: &mut Turn<'_>, call: &Invocation) -> Outcome {
    let shared = turn.shared.clone();
    shared.end_conversation("clear").await;
    if !call.args.is_empty() {
        shared.journal().title(&call.args);
    }
    let uuid = call.uuid(&shared);
    let reset_id = shared.frames.uuid();
    shared
        .emit(ConversationReset {
            new_conversation_id: reset_id.clone(),
            trigger: Some("clear".to_owned()),
            user_message_uuid: Some(uuid.clone()),
            timestamp: Some(shared.frames.now()),
            uuid: reset_id,
            session_id: shared.frames.session_id(),
            ..ConversationReset::default()
        })
        .await;
    let tasks = BackgroundTasksChanged {
        session_id: shared.frames.session_id(),
        uuid: shared.frames.uuid(),
        ..BackgroundTasksChanged::default()
    };
    shared.emit(Outbound::system(tasks)).await;
    shared.begin_anew(&shared.frames.uuid());
    *turn.history = History::default();
    if let Some(preamble) = shared.preamble() {
        turn.history.add_user_text(&preamble);
    }
    shared.announce_instructions(&turn.cancel).await;
    let opening = shared.start_conversation("clear", &turn.cancel).await;
    turn.history.add_notes(&opening.notes);
    turn.show_init(&call.prompt).await;
    if let Some(words) = opening.first_words {
        turn.history.add_user_text(&words);
        turn.say_as_user(shared.frames.user(vec![ContentBlock::text(&words)])).await;
    }
    turn.record_command(call, "clear", &uuid, (&shared.frames.uuid(), ""));
    Outcome::Command(CommandEnd { name: Some("clear"), cleared: true, ..CommandEnd::default() })
}
