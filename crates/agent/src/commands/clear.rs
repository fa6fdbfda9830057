//! `/clear`: ends the conversation and begins another in the same process, with an id and a file of its own. What the
//! host has chosen stays: model, permissions, hooks, and the prompts in the queue. The spending limit is that of the
//! run, so what was spent before still counts.

use lathe_protocol::ContentBlock;
use lathe_protocol::event::ConversationReset;

use crate::state::dispatch::CommandInvocation;
use crate::turn::Turn;
use crate::turn::outcome::CommandEnd;
use crate::turn::outcome::TurnOutcome;

/// Runs `/clear`: ends the conversation and begins another one under a new session id and in a new file; an argument
/// becomes the title of the session that is left. The steps about the old session (hooks, title, tasks, mirrored
/// records) have to come before `begin_anew`, which changes the id. Queued prompts and what the host has chosen stay.
pub(super) async fn run(turn: &mut Turn<'_>, call: &CommandInvocation) -> TurnOutcome {
    let agent = turn.agent.handle.clone();
    // SessionEnd hooks and the title are about the old session, so they come before the id changes.
    agent.end_conversation("clear").await;
    if !call.args.is_empty() {
        agent.session.files.title(&agent.frames.session_id(), &call.args);
    }
    let uuid = call.uuid(turn.agent);
    let reset_id = agent.frames.uuid();
    agent
        .session
        .emit(ConversationReset {
            new_conversation_id: reset_id.clone(),
            trigger: Some("clear".to_owned()),
            user_message_uuid: Some(uuid.clone()),
            timestamp: Some(agent.frames.now()),
            uuid: reset_id,
            session_id: agent.frames.session_id(),
            ..ConversationReset::default()
        })
        .await;
    agent.session.tell_background_set().await;
    agent.session.leave_tasks_behind();
    agent.session.mirror_records().await;
    turn.agent.begin_anew(&agent.frames.uuid());
    if let Some(preamble) = turn.agent.instructions.preamble() {
        turn.agent.history.add_user_text(&preamble);
    }
    turn.agent.announce_instructions(&turn.cancel).await;
    let opening = agent.start_conversation("clear", &turn.cancel).await;
    turn.agent.history.add_notes(&opening.notes);
    turn.show_init(&call.prompt).await;
    if let Some(words) = opening.first_words {
        turn.agent.history.add_user_text(&words);
        turn.say_as_user(agent.frames.user(vec![ContentBlock::text(&words)])).await;
    }
    turn.record_command(call, "clear", &uuid, (&agent.frames.uuid(), ""));
    TurnOutcome::Command(CommandEnd {
        name: Some("clear".to_owned()),
        cleared: true,
        ..CommandEnd::default()
    })
}
