//! Requests of the host that take their time, because they ask the model or the host's own hooks. They run in the
//! background, the host may withdraw each of them, and all get a reply before the session ends.
//!
//! Requests that change the session run one after the other in order of arrival, and the next prompt waits for them: a
//! prompt that follows `set_model` goes to that model.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::control::{Reply, reply};
use crate::state::agent::AgentHandle;

/// The slow requests of a session. Dropping it cancels them.
pub(crate) struct PendingRequests {
    agent: Arc<AgentHandle>,
    /// Each task returns the id of its request.
    tasks: JoinSet<String>,
    changes: JoinSet<String>,
    /// The token that withdraws each request.
    open: HashMap<String, CancellationToken>,
    /// Resolves when the last change is done.
    last_change: Option<oneshot::Receiver<()>>,
}

impl PendingRequests {
    /// Begins without any request. `agent` sends the replies.
    pub fn new(agent: Arc<AgentHandle>) -> Self {
        Self {
            agent,
            tasks: JoinSet::new(),
            changes: JoinSet::new(),
            open: HashMap::new(),
            last_change: None,
        }
    }

    /// Starts a request that does not change the session, at the same time as all others, and sends its reply when it
    /// is ready. `work` gets the token that [`Self::withdraw`] cancels.
    pub fn start<W>(&mut self, id: String, work: impl FnOnce(CancellationToken) -> W)
    where
        W: Future<Output = Reply> + Send + 'static,
    {
        self.tidy();
        let work = work(self.withdrawal(&id));
        let agent = self.agent.clone();
        self.tasks.spawn(async move {
            let answer = work.await;
            reply(&agent, id.clone(), answer).await;
            id
        });
    }

    /// Starts a request that changes the session. It runs after every change that was started before it, so that
    /// replies come in the order of the requests. `work` gets the token that [`Self::withdraw`] cancels.
    pub fn change<W>(&mut self, id: String, work: impl FnOnce(CancellationToken) -> W)
    where
        W: Future<Output = Reply> + Send + 'static,
    {
        self.tidy();
        let work = work(self.withdrawal(&id));
        let agent = self.agent.clone();
        let (done, is_done) = oneshot::channel::<()>();
        let before = self.last_change.replace(is_done);
        self.changes.spawn(async move {
            if let Some(before) = before {
                // Ends when the sender is dropped, however that change ended.
                let _ = before.await;
            }
            let answer = work.await;
            reply(&agent, id.clone(), answer).await;
            // After the reply, so that replies come in the order of the requests.
            drop(done);
            id
        });
    }

    /// Returns whether a change is still running or waiting.
    pub fn is_changing(&mut self) -> bool {
        self.tidy();
        !self.changes.is_empty()
    }

    /// Waits until one change has ended and its reply was sent. Returns at once if there is none.
    pub async fn changed(&mut self) {
        if let Some(Ok(id)) = self.changes.join_next().await {
            self.open.remove(&id);
        }
    }

    /// Cancels the request `id` because the host has withdrawn it; its work still returns a reply. Does nothing if the
    /// request has its reply already.
    pub fn withdraw(&mut self, id: &str) {
        if let Some(token) = self.open.remove(id) {
            token.cancel();
        }
    }

    /// Waits until every pending request has its reply, first those that change the session. Does not cancel them.
    pub(crate) async fn answer_all(&mut self) {
        while self.changes.join_next().await.is_some() {}
        while self.tasks.join_next().await.is_some() {}
    }

    /// Returns the token that withdraws a request, and registers it under the request's id. The end of the session
    /// cancels it too.
    fn withdrawal(&mut self, id: &str) -> CancellationToken {
        let token = self.agent.session.stop.child_token();
        self.open.insert(id.to_owned(), token.clone());
        token
    }

    /// Collects the tasks that have ended and forgets their tokens. Called before each new request, so that ended tasks
    /// do not pile up.
    fn tidy(&mut self) {
        for set in [&mut self.tasks, &mut self.changes] {
            while let Some(done) = set.try_join_next() {
                if let Ok(id) = done {
                    self.open.remove(&id);
                }
            }
        }
    }
}
