//! The Anthropic Messages client: one attempt per call, with a single exception.
//!
//! This module addresses, authorises and sends a request and receives the response; the body is made in `body.rs`, the
//! events of a response are read in `events.rs`, error responses are interpreted in `response.rs`. The exception is a
//! 401 with a helper's key: the helper runs again, once, and the request is sent once more.
//!
//! Creating a client costs almost nothing: TLS and its root certificates are loaded by the first request, and for an
//! `http://` address never.

mod auth;
mod config;
mod events;
mod headers;
mod http;
mod lookup;
mod response;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Response, StatusCode, Url};
use serde_json::Value;

use crate::body::{self, ChunkedBody, Purpose};
use crate::error::{ErrorKind, ModelError};
use crate::request::ModelRequest;
use crate::{CompleteMessage, Model, ModelStream, betas};

use auth::{Auth, AuthHeaders};
pub use config::{
    ApiServer, ClientConfig, ClientError, Credential, CredentialSource, DEFAULT_BASE_URL, DEFAULT_HELPER_TTL,
    HelperCredential, ProxyConfig, Timeouts,
};
use events::EventReader;
pub use headers::CustomHeaders;
pub(crate) use http::{build as client_for, build_for_page as page_client, idle_tls, trusting_tls};
pub(crate) use response::describe;

/// The name that Lathe sends as user agent.
pub const USER_AGENT: &str = concat!("lathe/", env!("CARGO_PKG_VERSION"));

/// Name and value of the header with the API version.
pub(crate) const API_VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");
/// Name of the header that enables features.
pub(crate) const API_BETA: &str = "anthropic-beta";

const VERSION: (HeaderName, HeaderValue) =
    (HeaderName::from_static(API_VERSION.0), HeaderValue::from_static(API_VERSION.1));
const BETA: HeaderName = HeaderName::from_static(API_BETA);

/// The slowest upload that is waited for, in addition to the time to the first byte.
const SLOWEST_UPLOAD_BYTES_PER_SECOND: u64 = 64 * 1024;

/// A client for one address and one credential. Cheap to share; connections are reused between turns.
pub struct AnthropicClient {
    config: ClientConfig,
    auth: Auth,
    base: Url,
    http: OnceLock<Result<reqwest::Client, ModelError>>,
}

/// One request as it will be sent.
struct Call {
    method: Method,
    url: Url,
    accept: &'static str,
    betas: Option<HeaderValue>,
    body: Option<Vec<Bytes>>,
    /// How long to wait for the head of the response.
    patience: Duration,
}

impl AnthropicClient {
    /// Checks the configuration and returns a client. Nothing is opened or read before the first request.
    pub fn new(config: ClientConfig) -> Result<Self, ClientError> {
        let base = config.parse_base_url()?;
        config.proxy.check(&base)?;
        let auth = Auth::new(&config.credential, &config.custom_headers)?;
        Ok(Self { config, auth, base, http: OnceLock::new() })
    }

    /// Returns the HTTP client, built by the first call. A failure to build it is kept as well and returned by every
    /// later request: the configuration does not change.
    fn http(&self) -> Result<&reqwest::Client, ModelError> {
        self.http.get_or_init(|| http::build(&self.config, &self.base)).as_ref().map_err(Clone::clone)
    }

    /// Returns the address of `path` below the base URL, whose own path is kept as a prefix (gateways have one); the
    /// query is `beta=true`.
    fn endpoint(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let prefix = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{prefix}{path}"));
        url.set_query(Some("beta=true"));
        url
    }

    /// Prepares a POST of the request; only a beta that no header can carry is an error. The time to wait for the head
    /// of the response grows with the body, because the upload of a long conversation alone can take longer than the
    /// usual limit.
    fn post(&self, path: &str, request: &ModelRequest, purpose: Purpose) -> Result<Call, ModelError> {
        let chunks = body::assemble(request, purpose, self.config.betas).chunks;
        let upload = Duration::from_secs(body::total_len(&chunks) / SLOWEST_UPLOAD_BYTES_PER_SECOND);
        let timeouts = &self.config.timeouts;
        let (accept, patience) = match purpose {
            Purpose::Stream => ("text/event-stream", timeouts.first_byte),
            Purpose::Complete | Purpose::CountTokens => ("application/json", timeouts.request),
        };
        let names = betas::betas_of(request, self.config.betas).join(",");
        let betas = match names.as_str() {
            "" => None,
            names => Some(HeaderValue::from_str(names).map_err(|_| {
                ModelError::new(ErrorKind::InvalidRequest, format!("a beta name cannot be sent: {names:?}"))
            })?),
        };
        let url = self.endpoint(path);
        let patience = patience.saturating_add(upload);
        Ok(Call { method: Method::POST, url, accept, betas, body: Some(chunks), patience })
    }

    /// Sends the call and returns a response with status 200; anything else is an error. After a 401 with a helper's
    /// key the helper runs again and the call is sent once more.
    async fn send(&self, call: Call) -> Result<Response, ModelError> {
        let key = self.auth.current().await?;
        let response = self.attempt(&call, &key).await?;
        let response = match response.status() {
            StatusCode::UNAUTHORIZED => match self.auth.refreshed(&key).await? {
                Some(fresh) => self.attempt(&call, &fresh).await?,
                None => response,
            },
            _ => response,
        };
        if response.status() == StatusCode::OK {
            return Ok(response);
        }
        Err(response::refusal(response, self.config.timeouts.idle).await)
    }

    /// Sends the call once and returns the response with any status; no response within the call's patience is a stall.
    /// It borrows the call, so that [`Self::send`] can send it again with a fresh key; copying the body only copies
    /// references to its pieces.
    async fn attempt(&self, call: &Call, key: &AuthHeaders) -> Result<Response, ModelError> {
        let mut request = Request::new(call.method.clone(), call.url.clone());
        self.fill_headers(request.headers_mut(), call, key);
        *request.body_mut() = call.body.clone().map(|chunks| reqwest::Body::wrap(ChunkedBody::new(chunks)));
        match tokio::time::timeout(call.patience, self.http()?.execute(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(response::unreachable(&self.base, error)),
            Err(_) => Err(ModelError::new(
                ErrorKind::Stalled,
                format!("no answer from {} within {} s", host(&self.base), call.patience.as_secs_f32()),
            )),
        }
    }

    /// Sets the headers of a request. The user's own come last and replace those of the same name, the credential and
    /// the betas included.
    fn fill_headers(&self, headers: &mut HeaderMap, call: &Call, key: &AuthHeaders) {
        headers.insert(header::ACCEPT, HeaderValue::from_static(call.accept));
        headers.insert(VERSION.0, VERSION.1);
        if call.body.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(betas) = &call.betas {
            headers.insert(BETA, betas.clone());
        }
        for (name, value) in key.headers.iter().chain(self.config.custom_headers.iter()) {
            headers.insert(name, value.clone());
        }
    }

    /// Sends the request and returns its events once the first one has arrived. A failure before that is an error of
    /// the request and not of the stream.
    async fn open_stream(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        let response = self.send(self.post("/v1/messages", request, Purpose::Stream)?).await?;
        let request_id = response::request_id(&response);
        let mut reader = EventReader::open(response, self.config.timeouts.idle).await?;
        // The first event is awaited here, so that a failure before it is an error of the request and not of a
        // response.
        let first = reader.next().await.unwrap_or_else(|| Err(events::cut("nothing was sent")))?;
        let rest = stream::unfold(reader, async |mut reader| Some((reader.next().await?, reader)));
        Ok(ModelStream { request_id, events: stream::iter([Ok(first)]).chain(rest).boxed() })
    }

    /// Sends the request without streaming and returns the message. An error object in the body is that error, and
    /// anything else a protocol error.
    async fn whole_message(&self, request: &ModelRequest) -> Result<CompleteMessage, ModelError> {
        let response = self.send(self.post("/v1/messages", request, Purpose::Complete)?).await?;
        let request_id = response::request_id(&response);
        let message = self.json(response).await?;
        if message["type"] != "message" {
            return Err(ModelError::new(ErrorKind::Protocol, "the answer is not a message"));
        }
        Ok(CompleteMessage { request_id, message })
    }

    /// Reads the body as JSON, within the time limit of a whole request. An error object in it is an error.
    async fn json(&self, response: Response) -> Result<Value, ModelError> {
        response::json(response, self.config.timeouts.request).await
    }
}

impl Model for AnthropicClient {
    fn stream(&self, request: Arc<ModelRequest>) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        async move { self.open_stream(&request).await }.boxed()
    }

    fn complete(&self, request: Arc<ModelRequest>) -> BoxFuture<'_, Result<CompleteMessage, ModelError>> {
        async move { self.whole_message(&request).await }.boxed()
    }
}

/// Returns host and port of an address, a form that may be shown because it has no user and path.
fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or("?");
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}
