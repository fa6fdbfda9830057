//! Files that FileChanged hooks wait for: those they name, in the folder of the session, and those that other hooks
//! asked to be watched. They are checked between rounds, with one `stat` each; nothing watches in between. The list of
//! files and their last known state are in `state/file_watch.rs`.

use std::sync::Arc;

use lathe_protocol::HookEvent;
use lathe_protocol::hooks::{FileChangedInput, HookEventInput};
use tokio_util::sync::CancellationToken;

use crate::state::agent::AgentHandle;

impl AgentHandle {
    /// Fires FileChanged hooks for each watched file that differs from the last look at it. A file is first compared on
    /// the call after the one that began to watch it. Does nothing if no hook listens.
    pub(crate) async fn look_at_files(self: &Arc<Self>, cancel: &CancellationToken) {
        if !self.session.listens(&HookEvent::FileChanged) {
            return;
        }
        self.session.watch.add_paths(&self.session.hooks.watched_names(), &self.workspace.cwd());
        for (path, event) in self.session.watch.changes() {
            let input = FileChangedInput {
                file_path: path.display().to_string(),
                event: event.to_owned(),
                ..FileChangedInput::default()
            };
            self.fire(HookEventInput::FileChanged(input), None, cancel).await;
        }
    }
}
