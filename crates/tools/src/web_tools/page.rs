//! Fetches one page: judges the host, follows redirects inside of it, reads and converts what comes.

use std::sync::Arc;
use std::time::Duration;

use lathe_protocol::web::{PageGet, PageReply, WebError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::actions::WebActions;
use super::body::{self, BodyError};
use super::reach::{self, Reach, ReachError};
use super::state::WebState;
use crate::{ToolFailure, stoppable};

/// The time for a page: look-ups, redirects, the transfer and the conversion together.
pub(crate) const MAX_TIME: Duration = Duration::from_secs(60);

/// Redirects inside of a host that are followed.
const MAX_REDIRECTS: usize = 10;

/// Headers of the request. Pages may come as Markdown, which needs no conversion.
const HEADERS: [(&str, &str); 2] =
    [("accept", "text/markdown, text/html, */*"), ("accept-encoding", "gzip, deflate")];

/// A page that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub text: String,
    /// Bytes of the page, decompressed.
    pub bytes: usize,
    pub status: u16,
    pub status_text: String,
    /// The internal host that the page came from, if it came from one.
    pub internal_host: Option<String>,
}

/// What came of a fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fetched {
    /// The page.
    Page(Arc<Page>),
    /// The host says that the page is at another one, which is not asked.
    ElsewhereAt { status: u16, status_text: String, url: String },
    /// The server answered with an error.
    Refused { status: u16, status_text: String },
}

/// Why nothing came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FetchError {
    #[error(transparent)]
    Reach(#[from] ReachError),
    #[error(transparent)]
    Web(#[from] WebError),
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error("it redirects more than {MAX_REDIRECTS} times")]
    TooManyRedirects,
    #[error("it redirects to an address that cannot be read")]
    BadRedirect,
    #[error("it took longer than {} s", MAX_TIME.as_secs())]
    TimedOut,
    #[error("{0}")]
    BrokeOff(String),
    #[error("cancelled")]
    Cancelled,
}

/// Returns a page from the cache, or fetches and keeps it, within [`MAX_TIME`]. A kept page of an internal host counts
/// only while a rule still names the host. A redirect to another host and a refusal of the server are results and not
/// errors; neither is kept.
pub(crate) async fn fetch(
    url: &Url,
    web: &dyn WebActions,
    state: &WebState,
    cancel: &CancellationToken,
) -> Result<Fetched, FetchError> {
    let kept = state.pages().get(url.as_str());
    // The rule that opened an internal host may be gone.
    let is_open = |page: &Arc<Page>| page.internal_host.as_deref().is_none_or(|host| web.names_host(host));
    if let Some(page) = kept.filter(is_open) {
        return Ok(Fetched::Page(page));
    }
    let until = Instant::now() + MAX_TIME;
    let fetching = tokio::time::timeout_at(until, transfer(url, web, state));
    let transferred = match cancel.run_until_cancelled(fetching).await {
        None => return Err(FetchError::Cancelled),
        Some(Err(_elapsed)) => return Err(FetchError::TimedOut),
        Some(Ok(transferred)) => transferred?,
    };
    let (reply, reach) = match transferred {
        Transferred::Page(reply, reach) => (reply, reach),
        Transferred::Other(fetched) => return Ok(fetched),
    };
    let (status, status_text) = (reply.status, reply.status_text.clone());
    let time_left = until.saturating_duration_since(Instant::now());
    let converted = stoppable::run(cancel, time_left, move |stop| body::text_of(*reply, stop)).await;
    let body = converted.map_err(abandoned)??;
    let internal_host = reach.is_internal.then_some(reach.host);
    let page = Arc::new(Page { text: body.text, bytes: body.bytes, status, status_text, internal_host });
    state.pages().put(url.as_str().to_owned(), page.clone());
    Ok(Fetched::Page(page))
}

/// Converts the failure of work on the blocking pool into an error of the fetch.
fn abandoned(failure: ToolFailure) -> FetchError {
    match failure {
        ToolFailure::Interrupted => FetchError::Cancelled,
        ToolFailure::Failed(why) | ToolFailure::Rejected(why) => FetchError::BrokeOff(why),
    }
}

/// The outcome of the requests for a page.
enum Transferred {
    /// Its bytes, and where they came from.
    Page(Box<PageReply>, Reach),
    /// No page.
    Other(Fetched),
}

/// Requests a page, and follows redirects that stay at its host, at most [`MAX_REDIRECTS`]. Every hop is judged before
/// its request; one to another host is returned and not followed. A status other than 2xx is a refusal, and a page that
/// was cut at the size limit is an error.
async fn transfer(url: &Url, web: &dyn WebActions, state: &WebState) -> Result<Transferred, FetchError> {
    let mut url = url.clone();
    for _ in 0..=MAX_REDIRECTS {
        let reach = reach::judge(&url, web, state.resolver.as_ref()).await?;
        let get = PageGet {
            url: reach.url.as_str(),
            route: &reach.route,
            headers: &HEADERS,
            max_bytes: body::MAX_BYTES,
        };
        let reply = web.get_page(get).await?;
        let (status, status_text) = (reply.status, reply.status_text.clone());
        let location = reply.location.as_deref().filter(|_| is_redirect(status));
        if let Some(location) = location {
            let next = reach.url.join(location).map_err(|_| FetchError::BadRedirect)?;
            if !is_same_place(&reach.url, &next) {
                let url = next.as_str().to_owned();
                return Ok(Transferred::Other(Fetched::ElsewhereAt { status, status_text, url }));
            }
            url = next;
            continue;
        }
        if !(200..300).contains(&status) {
            return Ok(Transferred::Other(Fetched::Refused { status, status_text }));
        }
        if reply.is_cut {
            return Err(BodyError::TooLarge.into());
        }
        return Ok(Transferred::Page(Box::new(reply), reach));
    }
    Err(FetchError::TooManyRedirects)
}

/// Returns whether a status asks to continue at another address.
fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Returns whether a redirect stays at its host: the same name and port, where the usual ports of `http` and `https`
/// are alike, and no login.
fn is_same_place(from: &Url, to: &Url) -> bool {
    let is_web = matches!(to.scheme(), "http" | "https");
    let has_login = !to.username().is_empty() || to.password().is_some();
    is_web && !has_login && reach::rule_name(from) == reach::rule_name(to) && from.port() == to.port()
}

#[cfg(test)]
mod tests;
