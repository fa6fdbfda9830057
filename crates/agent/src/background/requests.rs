//! What hosts ask about tasks.

use std::sync::Arc;

use lathe_exec::OutputStream;
use lathe_protocol::control::{BackgroundTasksRequest, GetTaskOutputResponse};
use lathe_tools::{NotStopped, TaskGround};

use crate::state::services::SessionServices;

/// Bytes of output that a host gets.
const OUTPUT_BYTES: usize = 8 * 1024;

impl SessionServices {
    /// Stops a task because the host asked for it, and tells the host its end. Does nothing if the task has ended or
    /// never existed, because then nothing is left to stop.
    pub(crate) async fn stop_for_host(&self, id: &str) {
        match self.stop_task(id).await {
            Ok(_) | Err(NotStopped::Unknown | NotStopped::Ended(_)) => {}
        }
    }

    /// Moves foreground tasks to the background: the one of the call that the request names, or all of them if it names
    /// none. Returns whether any was moved.
    pub(crate) async fn background_for_host(self: &Arc<Self>, request: &BackgroundTasksRequest) -> bool {
        let wanted = |call: &str| request.tool_use_id.as_deref().is_none_or(|id| id == call);
        let ids: Vec<String> = {
            let list = self.tasks.list();
            let foreground = list.running().filter(|task| task.ground == TaskGround::Foreground);
            foreground.filter(|task| wanted(&task.tool_use_id)).map(|task| task.id.clone()).collect()
        };
        let mut moved = false;
        for id in &ids {
            moved |= self.move_to_background(id).await;
        }
        moved
    }

    /// Returns the last [`OUTPUT_BYTES`] of the standard output of a task, running or ended, and how much it has
    /// printed in all. `None` if no task has this id. Does not change what the model counts as read.
    pub(crate) fn output_for_host(&self, id: &str) -> Option<GetTaskOutputResponse> {
        let job = self.tasks.list().get(id)?.job.clone();
        let total_bytes = job.total_bytes(OutputStream::Stdout);
        let from = total_bytes.saturating_sub(OUTPUT_BYTES as u64);
        let part = job.read_from(OutputStream::Stdout, from, OUTPUT_BYTES);
        Some(GetTaskOutputResponse {
            output: String::from_utf8_lossy(&part.bytes).into_owned(),
            total_bytes,
            truncated: from > 0,
            ..GetTaskOutputResponse::default()
        })
    }
}
