//! A session that begins in a worktree, as if its first act were to enter one. Without the worktree it does not begin:
//! the caller wanted the project left alone.

use lathe_exec::ScopeEndPolicy;
use lathe_protocol::reminder::system_reminder;
use lathe_tools::worktree_tools::actions::{WorktreeActions, WorktreeTarget};
use lathe_tools::worktree_tools::refusal::WorktreeRefusal;

use super::{SessionEnd, SessionLoop};

impl SessionLoop {
    /// Enters the worktree and adds a note about it to the preamble of the first prompt. Must come before the hooks of
    /// the beginning; after an `Err` the session must not begin and is ended with [`Self::end_unbegun`].
    pub(super) async fn begin_in_worktree(&mut self, target: WorktreeTarget) -> Result<(), WorktreeRefusal> {
        let cancel = self.session.stop.child_token();
        let project = self.main.workspace.cwd();
        let entering = self.main.clone().enter_worktree(target, cancel.clone());
        let entered = self.while_listening(entering, None, Some(&cancel)).await?;
        let branch = entered.branch.map(|branch| format!(" on the branch {branch}")).unwrap_or_default();
        let note = format!(
            "You do not work in {} but in a worktree of it: {}{branch}. Leave the files of the former alone.",
            project.display(),
            self.main.workspace.cwd().display(),
        );
        let note = system_reminder(&note);
        self.preamble = Some(match self.preamble.take() {
            Some(preamble) => format!("{preamble}\n{note}"),
            None => note,
        });
        Ok(())
    }

    /// Ends a session that could not enter the worktree to begin in, and logs why. No hook is told of its end, as none
    /// was told of its beginning. The end counts as an error.
    pub(super) async fn end_unbegun(mut self, refusal: &WorktreeRefusal) -> SessionEnd {
        self.session.process.host.log(&format!("there is no worktree to begin in: {refusal}"));
        self.session.hooks.shut_down().await;
        self.main.workspace.ledger.end(ScopeEndPolicy::Stop).await;
        self.flush_files().await;
        SessionEnd { last_was_error: true, interrupted: self.finish_early.is_cancelled() }
    }
}
