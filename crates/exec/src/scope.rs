//! Scopes: which commands belong to the same owner, and how they end together.
//!
//! A scope is a part of a ledger. A command that is started in it ends with it, and so do the scopes inside; its
//! siblings and the scopes around it are not affected. The surprising thing: a scope that has ended is closed for good,
//! so that a command that is started at the same moment is refused or killed, not missed.

use std::sync::Arc;
use std::time::Duration;

use crate::ledger::{Book, KILL_WAIT, Listed, Stage};
use crate::{ChildLimits, Ended, ExecError, Ledger};

/// How the commands of a scope are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScopeEndPolicy {
    /// Waits at most this long for commands to end on their own, then acts like `Stop`. Processes that ended commands
    /// left in the background are not waited for.
    Wait(Duration),
    /// SIGTERM; SIGKILL after the grace period of each command.
    Stop,
    /// SIGKILL at once.
    LeaveNothing,
}

/// One owner's part of a book. Dropping it kills what is in it.
pub(crate) struct CommandScope {
    pub book: Arc<Book>,
    /// The numbers of the scopes around it and its own, the outermost first.
    pub path: Arc<[u64]>,
    /// Their names with `/` between them.
    pub name: Arc<str>,
}

impl Default for CommandScope {
    fn default() -> Self {
        Self::with_limits(ChildLimits::default())
    }
}

impl CommandScope {
    /// Returns the outermost scope of a new book, whose children run within these limits.
    pub fn with_limits(limits: ChildLimits) -> Self {
        let book = Arc::new(Book::with_limits(limits));
        let id = book.next_id();
        book.pages().open_scopes.insert(id);
        Self { book, path: Arc::new([id]), name: "session".into() }
    }

    /// Returns the number of this scope, the last of its path.
    fn id(&self) -> u64 {
        // A path contains at least the number of its own scope.
        self.path.last().copied().unwrap_or_default()
    }

    /// Returns whether this scope and every scope around it are open.
    fn is_open(&self) -> bool {
        let pages = self.book.pages();
        self.path.iter().all(|scope| pages.open_scopes.contains(scope))
    }

    /// Fails with [`ExecError::ScopeEnded`], which names `label`, if this scope or one around it has ended.
    pub fn must_be_open(&self, label: &str) -> Result<(), ExecError> {
        if self.is_open() {
            return Ok(());
        }
        Err(ExecError::ScopeEnded { label: label.to_owned(), scope: self.name.to_string() })
    }

    /// Adds a child to the ledger. If its scope has ended meanwhile, the child is told to end and the result is an
    /// error; it stays listed until its keeper removes it.
    pub fn enter(&self, listed: Listed) -> Result<(), ExecError> {
        let entry = Arc::clone(&listed.entry);
        self.book.pages().entries.insert(entry.id, listed);
        // Ending a scope first closes it and then looks for children. So either it finds this child, or this check
        // finds the scope closed.
        self.must_be_open(&entry.label).inspect_err(|_| entry.cut(Ended::Stopped))
    }

    /// Returns the children in this scope and those inside it, oldest first; ended ones too, as long as their tree is
    /// not gone.
    pub fn listed(&self) -> Vec<Listed> {
        let id = self.id();
        let pages = self.book.pages();
        pages.entries.values().filter(|listed| listed.entry.scopes.contains(&id)).cloned().collect()
    }

    /// Closes the scope for good. Must come before the search for its children; see [`CommandScope::enter`].
    fn close(&self) {
        self.book.pages().open_scopes.remove(&self.id());
    }
}

impl Drop for CommandScope {
    fn drop(&mut self) {
        self.close();
        for listed in self.listed() {
            listed.entry.cut(Ended::Stopped);
        }
    }
}

impl Ledger {
    /// Opens a scope inside this one, for an owner that may end earlier: what is started with the returned ledger ends
    /// with it, and at the latest with this one. Inside a scope that has ended the new one refuses every command.
    pub fn open_scope(&self, name: &str) -> Self {
        let around = &self.scope;
        let id = around.book.next_id();
        around.book.pages().open_scopes.insert(id);
        let path = around.path.iter().copied().chain([id]).collect();
        let name = format!("{}/{name}", around.name).into();
        Self { scope: Arc::new(CommandScope { book: Arc::clone(&around.book), path, name }) }
    }

    /// Ends this scope and those inside it, and waits until all of their trees are gone, but after the wait that the
    /// policy asks for not longer than the longest grace period and two seconds for the kernel. Once the killing
    /// begins, nothing can be started in it any more. The trees die even if this future is not polled to its end, from
    /// the moment the killing has begun.
    pub async fn end(&self, policy: ScopeEndPolicy) {
        match policy {
            ScopeEndPolicy::Wait(limit) => drop(tokio::time::timeout(limit, self.until_idle()).await),
            ScopeEndPolicy::Stop | ScopeEndPolicy::LeaveNothing => {}
        }
        self.scope.close();
        let listed = self.scope.listed();
        match policy {
            ScopeEndPolicy::Wait(_) | ScopeEndPolicy::Stop => stop(&listed).await,
            ScopeEndPolicy::LeaveNothing => {
                for listed in &listed {
                    listed.entry.kill_now(Ended::Stopped);
                }
                all_gone(&listed, KILL_WAIT).await;
            }
        }
    }

    /// Kills every tree in this scope and those inside it as [`ScopeEndPolicy::Stop`] does, waits for them for at most
    /// the longest grace period and two seconds, and leaves the scope open. Commands that are started meanwhile are not
    /// affected.
    pub async fn kill_all(&self) {
        stop(&self.scope.listed()).await;
    }

    /// Waits until no main process in this scope or those inside it is running, including those started meanwhile.
    /// Leftovers do not count. Returns early if the runtime that watches the processes is gone.
    async fn until_idle(&self) {
        loop {
            let mut listed = self.scope.listed();
            listed.retain(|listed| *listed.entry.stage.borrow() == Stage::Running);
            let Some(oldest) = listed.first() else { return };
            oldest.ended().await;
            // If the runtime has ended, the stage never changes; then there is nothing to wait for.
            if *oldest.entry.stage.borrow() == Stage::Running {
                return;
            }
        }
    }
}

/// Tells every tree to end (SIGTERM, and SIGKILL after the grace period of each) and waits until all are gone, for at
/// most the longest grace period and [`KILL_WAIT`].
async fn stop(listed: &[Listed]) {
    for listed in listed {
        listed.entry.cut(Ended::Stopped);
    }
    let longest = listed.iter().map(|listed| listed.entry.grace).max().unwrap_or_default();
    all_gone(listed, longest + KILL_WAIT).await;
}

/// Waits until every tree is gone, but not longer than `at_most` for all of them together.
async fn all_gone(listed: &[Listed], at_most: Duration) {
    let all = async {
        for listed in listed {
            listed.gone().await;
        }
    };
    // A process in an uninterruptible system call, or of another user, is left to its supervisor.
    let _ = tokio::time::timeout(at_most, all).await;
}
