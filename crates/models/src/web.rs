//! Plain HTTP for crates that must not create clients of their own: posts a JSON body and returns the response as text
//! (for HTTP hooks), and gets pages (`page.rs`, for tools). The model API has a separate client.
//!
//! The same rules hold as for the model: proxies and certificates are passed in, redirects are not followed (only the
//! original address was allowed), and nothing is loaded before the first request.

mod page;

use std::error::Error;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use lathe_protocol::web::{JsonPost, WebError, WebReply};
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Request, Url};
use rustix::io::Errno;

use crate::anthropic::{ClientConfig, Credential, ProxyConfig, client_for, describe};

/// The most clients that are kept: one for each address, so that its connection can be reused.
const MAX_CLIENTS: usize = 8;

/// The descriptors that a request may need at once: a socket, and the files for looking up a name and for certificates.
const DESCRIPTORS_OF_A_REQUEST: usize = 4;

/// An HTTP client for addresses from settings.
#[derive(Default)]
pub struct WebClient {
    proxy: ProxyConfig,
    extra_ca_file: Option<PathBuf>,
    /// By origin, oldest first.
    clients: Mutex<Vec<(String, Client)>>,
    /// For pages; loaded by the first one that needs it.
    page_tls: OnceLock<Result<rustls::ClientConfig, WebError>>,
}

impl WebClient {
    /// Returns a client that uses these proxies and trusts this file in addition to the system's certificates.
    pub fn new(proxy: ProxyConfig, extra_ca_file: Option<PathBuf>) -> Self {
        Self { proxy, extra_ca_file, ..Self::default() }
    }

    /// Posts JSON and returns the reply, whatever its status, with its body cut to the limit; the whole reply must
    /// arrive within `post.timeout`. Redirects are not followed, because only this address was checked. Dropping the
    /// future cancels the request.
    pub async fn post(&self, post: JsonPost<'_>) -> Result<WebReply, WebError> {
        let url =
            Url::parse(post.url).map_err(|error| WebError::Unusable(format!("the address: {error}")))?;
        let mut request = Request::new(Method::POST, url.clone());
        *request.headers_mut() = headers(post.headers)?;
        *request.body_mut() = Some(post.body.to_owned().into());
        room_to_resolve(&url)?;
        let client = self.client(&url)?;
        let answer = async {
            let response = client.execute(request).await.map_err(|error| failed(error.without_url()))?;
            read(response, post.max_reply_bytes).await
        };
        match tokio::time::timeout(post.timeout, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(WebError::TimedOut(post.timeout)),
        }
    }

    /// Returns the client for the origin of an address, and creates it at the first request. Beyond [`MAX_CLIENTS`] the
    /// client that was created first is dropped; requests that still use it have their own copy.
    fn client(&self, url: &Url) -> Result<Client, WebError> {
        let origin = url.origin().ascii_serialization();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = clients.iter().find(|(known, _)| *known == origin) {
            return Ok(client.clone());
        }
        let mut config = ClientConfig::new(origin.clone(), Credential::None);
        config.proxy = self.proxy.clone();
        config.extra_ca_file.clone_from(&self.extra_ca_file);
        let client = client_for(&config, url).map_err(|error| match exhausted_now() {
            Some(why) => WebError::Exhausted(format!("{}: {why}", error.message)),
            None => WebError::Unusable(error.message),
        })?;
        if clients.len() == MAX_CLIENTS {
            clients.remove(0);
        }
        clients.push((origin, client.clone()));
        Ok(client)
    }
}

/// Returns the headers of a request; one that cannot be sent is an error. A given `content-type` replaces the default;
/// of several headers with one name the last is sent.
fn headers(given: &[(String, String)]) -> Result<HeaderMap, WebError> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in given {
        let cannot = |what| WebError::Unusable(format!("the {what} of header {name:?} cannot be sent"));
        let name = HeaderName::try_from(name.as_str()).map_err(|_| cannot("name"))?;
        let value = HeaderValue::try_from(value.as_str()).map_err(|_| cannot("value"))?;
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Reads the status and at most `max` bytes of the body. A longer one is cut and marked so, which is not an error;
/// bytes that are not UTF-8 become U+FFFD.
async fn read(mut response: reqwest::Response, max: usize) -> Result<WebReply, WebError> {
    let status = response.status().as_u16();
    let mut body = Vec::new();
    let mut is_cut = false;
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(error.without_url()))? {
        let room = max - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            is_cut = true;
            break;
        }
    }
    Ok(WebReply { status, body: String::from_utf8_lossy(&body).into_owned(), is_cut })
}

/// Classifies a failed request: [`WebError::Exhausted`] if the connection failed because this machine ran out of
/// descriptors, threads or memory, so that the address is not blamed for it.
fn failed(error: reqwest::Error) -> WebError {
    let reason = describe(&error);
    if !error.is_connect() {
        return WebError::Failed(reason);
    }
    match os_error(&error) {
        Some(number) if is_exhaustion(number) => WebError::Exhausted(reason),
        Some(_) => WebError::Failed(reason),
        // The look-up of a name does not always pass on its error number.
        None => match exhausted_now() {
            Some(why) => WebError::Exhausted(format!("{reason}: {why}")),
            None => WebError::Failed(reason),
        },
    }
}

/// Returns whether an error number says that the process or the machine has run out of something.
fn is_exhaustion(number: i32) -> bool {
    let numbers = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM];
    numbers.map(Errno::raw_os_error).contains(&number)
}

/// Returns the number of the system error inside another error; `None` if there is none. The `source` of an I/O error
/// skips the error it holds, so the error is unwrapped.
fn os_error(error: &(dyn Error + 'static)) -> Option<i32> {
    let io = error.downcast_ref::<io::Error>();
    let own = io.and_then(io::Error::raw_os_error);
    let held = || os_error(io?.get_ref()?);
    own.or_else(held).or_else(|| os_error(error.source()?))
}

/// Returns the error of opening a few files, if the machine does not allow it right now; `None` if it does. The files
/// are closed again.
fn exhausted_now() -> Option<io::Error> {
    let opened: io::Result<Vec<File>> =
        (0..DESCRIPTORS_OF_A_REQUEST).map(|_| File::open("/dev/null")).collect();
    opened.err().filter(|error| error.raw_os_error().is_some_and(is_exhaustion))
}

/// Checks that a thread can be started, because a host name is looked up on one and the runtime panics if it cannot
/// start its first. A numeric address needs none.
#[allow(clippy::disallowed_methods, reason = "the thread that is joined does nothing")]
fn room_to_resolve(url: &Url) -> Result<(), WebError> {
    if url.domain().is_none() {
        return Ok(());
    }
    match std::thread::Builder::new().spawn(|| {}) {
        Ok(thread) => {
            // The thread does nothing, so this returns at once, and the thread has ended before the real one starts.
            let _ = thread.join();
            Ok(())
        }
        Err(error) => Err(WebError::Exhausted(format!("start a thread to look up its name: {error}"))),
    }
}
