//! Pages that were fetched a short time ago, by the address that was asked for. Bounded in number and size: the oldest
//! page makes room.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::page::Page;

/// The most pages that are kept.
const MAX_PAGES: usize = 32;

/// The most bytes of their texts together.
const MAX_BYTES: usize = 8 << 20;

/// The cache of a session.
pub(crate) struct PageCache {
    keep: Duration,
    /// Oldest first.
    pages: VecDeque<Kept>,
}

/// A page in the cache, under the address that was asked for, and when it is too old.
struct Kept {
    /// As it was asked for, before redirects.
    url: String,
    page: Arc<Page>,
    until: Instant,
}

impl PageCache {
    /// Creates an empty cache that keeps each page for this long.
    pub(crate) fn new(keep: Duration) -> Self {
        Self { keep, pages: VecDeque::new() }
    }

    /// Returns the page with this address; `None` if it is not kept or too old. Forgets all pages that are too old.
    pub(crate) fn get(&mut self, url: &str) -> Option<Arc<Page>> {
        self.forget_old();
        self.pages.iter().find(|kept| kept.url == url).map(|kept| kept.page.clone())
    }

    /// Keeps a page, in place of an earlier one with the same address, and drops the oldest pages that do not fit any
    /// more. A page that is larger than the cache is not kept.
    pub(crate) fn put(&mut self, url: String, page: Arc<Page>) {
        self.forget_old();
        self.pages.retain(|kept| kept.url != url);
        if self.keep.is_zero() || page.text.len() > MAX_BYTES {
            return;
        }
        self.pages.push_back(Kept { url, page, until: Instant::now() + self.keep });
        while self.pages.len() > MAX_PAGES || self.bytes() > MAX_BYTES {
            self.pages.pop_front();
        }
    }

    /// Returns the size of the kept texts in bytes.
    fn bytes(&self) -> usize {
        self.pages.iter().map(|kept| kept.page.text.len()).sum()
    }

    /// Forgets the pages whose time is over.
    fn forget_old(&mut self) {
        let now = Instant::now();
        self.pages.retain(|kept| kept.until > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: usize) -> Arc<Page> {
        Arc::new(Page { text: "x".repeat(bytes), ..Page::default() })
    }

    #[tokio::test(start_paused = true)]
    async fn pages_are_kept_for_a_while_and_within_bounds() {
        let mut cache = PageCache::new(Duration::from_secs(60));
        cache.put("a".to_owned(), page(1));
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(cache.get("a").is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(cache.get("a").is_none());
        for number in 0..=MAX_PAGES {
            cache.put(number.to_string(), page(1));
        }
        assert!(cache.get("0").is_none() && cache.get("1").is_some());
        cache.put("large".to_owned(), page(MAX_BYTES - 1));
        assert_eq!(cache.pages.len(), 2);
        cache.put("larger".to_owned(), page(MAX_BYTES + 1));
        assert!(cache.get("larger").is_none() && cache.get("large").is_some());
    }

    #[tokio::test]
    async fn nothing_is_kept_for_no_time() {
        let mut cache = PageCache::new(Duration::ZERO);
        cache.put("a".to_owned(), page(1));
        assert!(cache.get("a").is_none());
    }
}
