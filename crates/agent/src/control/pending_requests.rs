//! Requests of the host that take their time, because they ask the model or the host's own hooks. They go
//! on beside the turn, the host may take each of them back, and all are answered before the session ends.
//!
//! Requests that change the session run one after the other in the order they came, and the next prompt
//! waits for them: whoever sets a model and then asks something is answered by that model.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::control::{Reply, reply};
use crate::state::agent::AgentHandle;

/// The slow requests of a session. Dropping it breaks them off.
pub(crate) struct PendingRequests {
    agent: Arc<AgentHandle>,
    /// Each task gives back the id of its request.
    tasks: JoinSet<String>,
    changes: JoinSet<String>,
    /// How a request is taken back.
    open: HashMap<String, CancellationToken>,
    /// Resolves when the last change is done.
    last_change: Option<oneshot::Receiver<()>>,
}

impl PendingRequests {
    pub fn new(agent: Arc<AgentHandle>) -> Self {
        Self {
            agent,
            tasks: JoinSet::new(),
            changes: JoinSet::new(),
            open: HashMap::new(),
            last_change: None,
        }
    }

    /// Answers a request that only looks, whenever it is ready. `work` gets the token that takes it back.
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

    /// Answers a request that changes the session, after those before it.
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
                // Ends with the sender, however that change ended.
                let _ = before.await;
            }
            let answer = work.await;
            reply(&agent, id.clone(), answer).await;
            drop(done);
            id
        });
    }

    /// Whether a change is under way.
    pub fn is_changing(&mut self) -> bool {
        self.tidy();
        !self.changes.is_empty()
    }

    /// Waits until one change is done.
    pub async fn changed(&mut self) {
        if let Some(Ok(id)) = self.changes.join_next().await {
            self.open.remove(&id);
        }
    }

    /// The host no longer wants to know. A request that was answered meanwhile needs nothing.
    pub fn withdraw(&mut self, id: &str) {
        if let Some(token) = self.open.remove(id) {
            token.cancel();
        }
    }

    /// Waits for the answers that are still owed.
    pub(crate) async fn answer_all(&mut self) {
        while self.changes.join_next().await.is_some() {}
        while self.tasks.join_next().await.is_some() {}
    }

    fn withdrawal(&mut self, id: &str) -> CancellationToken {
        let token = self.agent.session.stop.child_token();
        self.open.insert(id.to_owned(), token.clone());
        token
    }

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
