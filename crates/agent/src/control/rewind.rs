//! `rewind_files`: restores the files of the session to what they were before a prompt.

use std::sync::Arc;

use lathe_protocol::control::{RewindFilesRequest, RewindFilesResponse};
use serde_json::json;

use super::Reply;
use crate::record::checkpoints::{CheckpointMoment, DryRun, NoRewind};
use crate::state::agent::AgentHandle;

/// Rewinds the files to before the prompt that the request names, or reports what that would change. Files that could
/// not be restored are listed in the reply. If no rewind is possible, a real one is an error, and a dry run is a
/// success that says `can_rewind: false`.
pub(super) async fn files(agent: &Arc<AgentHandle>, body: &RewindFilesRequest) -> Reply {
    let dry = if body.dry_run == Some(true) { DryRun::Yes } else { DryRun::No };
    let (session, now) = (agent.frames.session_id(), agent.frames.now());
    let outcome = match agent.session.checkpoints.clone() {
        Some(checkpoints) => {
            let prompt = body.user_message_id.clone();
            // On the blocking pool, because files of up to 32 MB are read and written.
            let work =
                move || checkpoints.rewind(&prompt, dry, CheckpointMoment { session: &session, now: &now });
            let broke_off = |error: tokio::task::JoinError| Err(NoRewind::AllFailed(error.to_string()));
            lathe_exec::spawn_blocking(work).await.unwrap_or_else(broke_off)
        }
        None => Err(NoRewind::NotEnabled),
    };
    match outcome {
        Ok(rewound) => {
            let failures = (!rewound.failures.is_empty()).then(|| rewound.failures.join("; "));
            Reply::Success(json!(RewindFilesResponse {
                can_rewind: true,
                files_changed: Some(rewound.files_changed),
                insertions: Some(rewound.insertions),
                deletions: Some(rewound.deletions),
                error: failures.map(|failures| format!("not everything could be rewound: {failures}")),
                skipped_links: (dry == DryRun::No).then_some(rewound.skipped_links),
                ..RewindFilesResponse::default()
            }))
        }
        Err(error) if dry == DryRun::Yes => Reply::Success(json!(RewindFilesResponse {
            can_rewind: false,
            error: Some(error.to_string()),
            ..RewindFilesResponse::default()
        })),
        Err(error) => Reply::Error(error.to_string()),
    }
}
