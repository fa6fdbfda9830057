//! What the agents of a session share between their calls of web tools: pages that were fetched a short time ago, and
//! how often the web may still be searched.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::cache::PageCache;

/// Limits of the web tools of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebLimits {
    /// How long a page is kept. Zero keeps none.
    pub cache_time: Duration,
    /// Searches of the session, all agents together.
    pub max_searches: u64,
}

impl Default for WebLimits {
    fn default() -> Self {
        Self { cache_time: Duration::from_secs(15 * 60), max_searches: 200 }
    }
}

/// Looks up the addresses of hosts.
pub trait HostResolver: Send + Sync {
    /// Returns the addresses of a name, in the order in which they are to be tried; none if the name has none.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The shared state of the web tools of a session.
pub struct WebState {
    pub(crate) resolver: Arc<dyn HostResolver>,
    pages: Mutex<PageCache>,
    searches_left: AtomicU64,
    max_searches: u64,
}

impl Default for WebState {
    fn default() -> Self {
        Self::new(WebLimits::default())
    }
}

impl WebState {
    /// Returns the state of a new session.
    pub fn new(limits: WebLimits) -> Self {
        Self {
            resolver: Arc::new(SystemResolver),
            pages: Mutex::new(PageCache::new(limits.cache_time)),
            searches_left: AtomicU64::new(limits.max_searches),
            max_searches: limits.max_searches,
        }
    }

    /// Returns the same state with another way to look up hosts.
    pub fn with_resolver(self, resolver: Arc<dyn HostResolver>) -> Self {
        Self { resolver, ..self }
    }

    /// Locks the cache of pages, also after a panic under the lock.
    pub(crate) fn pages(&self) -> MutexGuard<'_, PageCache> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up to `wanted` searches of those that the session may still make; `None` if there are none left. When the
    /// result is dropped, all that its `made` does not count are given back, so the caller must set that.
    pub(crate) fn reserve_searches(&self, wanted: u64) -> Option<ReservedSearches<'_>> {
        let take = |left: u64| Some(left.saturating_sub(wanted));
        let before = self.searches_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or(0);
        let count = before.min(wanted);
        (count > 0).then_some(ReservedSearches { state: self, count, made: 0 })
    }

    /// Returns how many searches the session may make.
    pub(crate) fn max_searches(&self) -> u64 {
        self.max_searches
    }
}

/// Searches that a call may make.
pub(crate) struct ReservedSearches<'a> {
    state: &'a WebState,
    /// How many it may make.
    pub count: u64,
    /// How many it has made.
    pub made: u64,
}

impl Drop for ReservedSearches<'_> {
    fn drop(&mut self) {
        let unused = self.count.saturating_sub(self.made);
        self.state.searches_left.fetch_add(unused, Ordering::Relaxed);
    }
}

/// Asks the system, on a thread of the blocking pool: a look-up may take long.
struct SystemResolver;

impl HostResolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let host = host.to_owned();
        Box::pin(async move {
            let look_up = lathe_exec::spawn_blocking(move || {
                let found = (host.as_str(), 0).to_socket_addrs()?;
                Ok(found.map(|address| address.ip()).collect())
            });
            look_up.await.unwrap_or_else(|error| Err(io::Error::other(error)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_that_were_not_made_are_given_back() {
        let state = WebState::new(WebLimits { max_searches: 10, ..WebLimits::default() });
        let mut first = state.reserve_searches(8).unwrap();
        let second = state.reserve_searches(8).unwrap();
        assert_eq!((first.count, second.count), (8, 2));
        assert!(state.reserve_searches(8).is_none());
        first.made = 3;
        drop((first, second));
        assert_eq!(state.reserve_searches(100).map(|reserved| reserved.count), Some(7));
    }

    #[tokio::test]
    async fn the_system_looks_up_names() {
        let found = SystemResolver.resolve("localhost").await.unwrap();
        assert!(found.iter().any(IpAddr::is_loopback), "{found:?}");
        assert!(SystemResolver.resolve("no such host").await.is_err());
    }
}
