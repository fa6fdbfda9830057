//! Plain HTTP for those who must not make clients of their own: a JSON body is posted, the answer comes back
//! as text. Used by HTTP hooks; the model API has its own client beside this one.
//!
//! The same rules hold as for the model: proxies and certificates are handed in, redirects are not followed
//! (an address was allowed, another one was not), and nothing is loaded before the first request.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Request, Url};

use crate::anthropic::{ClientConfig, Credential, ProxyConfig, client_for, describe};

/// Clients that are kept: one for each address that is asked, so that its connection can be used again.
const MAX_CLIENTS: usize = 8;

/// A way out to addresses that somebody configured.
#[derive(Default)]
pub struct WebClient {
    proxy: ProxyConfig,
    extra_ca_file: Option<PathBuf>,
    /// By origin, oldest first.
    clients: Mutex<Vec<(String, Client)>>,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub struct JsonPost<'a> {
    /// `http://` or `https://`.
    pub url: &'a str,
    /// Headers besides `content-type`.
    pub headers: &'a [(String, String)],
    /// JSON.
    pub body: &'a str,
    /// More of the answer than this is not read.
    pub max_reply_bytes: usize,
    /// From the first byte out to the last byte in.
    pub timeout: Duration,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebReply {
    /// The status code.
    pub status: u16,
    /// The body, as far as it was read.
    pub body: String,
    /// Whether there was more.
    pub is_cut: bool,
}

/// There is no answer. No text here repeats the address: it may hold a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebError {
    /// It took too long.
    #[error("no answer within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The request cannot be made.
    #[error("{0}")]
    Unusable(String),
    /// The other side was not reached, or broke off.
    #[error("{0}")]
    Failed(String),
}

impl WebClient {
    /// A client that leaves by these proxies and trusts this file beside the system's certificates.
    pub fn new(proxy: ProxyConfig, extra_ca_file: Option<PathBuf>) -> Self {
        Self { proxy, extra_ca_file, clients: Mutex::default() }
    }

    /// Posts JSON. Dropping the future breaks the request off.
    pub async fn post(&self, post: JsonPost<'_>) -> Result<WebReply, WebError> {
        let url =
            Url::parse(post.url).map_err(|error| WebError::Unusable(format!("the address: {error}")))?;
        let mut request = Request::new(Method::POST, url.clone());
        *request.headers_mut() = headers(post.headers)?;
        *request.body_mut() = Some(post.body.to_owned().into());
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

    fn client(&self, url: &Url) -> Result<Client, WebError> {
        let origin = url.origin().ascii_serialization();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = clients.iter().find(|(known, _)| *known == origin) {
            return Ok(client.clone());
        }
        let mut config = ClientConfig::new(origin.clone(), Credential::None);
        config.proxy = self.proxy.clone();
        config.extra_ca_file.clone_from(&self.extra_ca_file);
        let client = client_for(&config, url).map_err(|error| WebError::Unusable(error.message))?;
        if clients.len() == MAX_CLIENTS {
            clients.remove(0);
        }
        clients.push((origin, client.clone()));
        Ok(client)
    }
}

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

fn failed(error: reqwest::Error) -> WebError {
    WebError::Failed(describe(&error))
}
