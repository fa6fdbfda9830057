//! The recorder: a proxy in front of a real API that writes the script which replays it.
//!
//! Every `POST /v1/messages` becomes a `raw` turn with the response body byte for byte; other requests are passed on
//! and not recorded. The recording is JSON lines, a header and then one turn per line, each written with a single
//! append: a recorder that is killed at any moment leaves a file that loads. Credentials go to the upstream and nowhere
//! else.

mod secrets;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::ScriptError;
use crate::http::{Handler, Request, Response, Steps};
use crate::load::json_error;
use crate::render::{self, Framing, Step};
use crate::script::{AtEnd, Chunk, Cut, RawReply, Script, Stall, Turn};
use crate::server::listen;
use secrets::Secrets;
pub(crate) use secrets::is_secret_header;

/// The first key of the first line of a recording.
const HEADER_KEY: &str = "lathe_recording";
/// A response larger than this is passed on but not recorded.
const MAX_RECORDED: usize = 64 * 1024 * 1024;
/// The most chunks that wait for a slow client.
const IN_FLIGHT: usize = 16;
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// A response counts as cut after this silence of the upstream.
const READ_LIMIT: Duration = Duration::from_secs(600);

/// Response headers that clients use. Everything else (cookies, organisation ids, server names) is left out of the
/// recording.
const KEPT_HEADERS: [&str; 5] =
    ["content-type", "request-id", "retry-after", "retry-after-ms", "x-should-retry"];
const KEPT_PREFIX: &str = "anthropic-ratelimit-";

/// What to record.
#[derive(Debug, Clone)]
pub struct RecordOptions {
    /// Where to listen; port 0 takes a free one.
    pub addr: SocketAddr,
    /// Base URL of the real API.
    pub upstream: String,
    /// The recording; must not exist yet.
    pub out: PathBuf,
}

/// A running recorder. Dropping it stops it; [`RecorderHandle::shutdown`] also waits for it.
#[derive(Debug)]
pub struct RecorderHandle {
    addr: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
    tape: Arc<Tape>,
}

impl RecorderHandle {
    /// Returns the address that the recorder listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the base URL for clients, without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Returns how many responses the file holds so far.
    pub fn recorded(&self) -> u64 {
        self.tape.recorded.load(Ordering::Acquire)
    }

    /// Returns descriptions of what could not be recorded, oldest first and at most 100; empty if the recording is
    /// complete.
    pub fn problems(&self) -> Vec<String> {
        self.tape.problems.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops accepting and waits for the connections. Responses in progress are recorded as far as they were received.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

impl Drop for RecorderHandle {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Starts a recorder, which runs until its handle is shut down or dropped. It is an error if the upstream is not an
/// HTTP URL, the recording already exists, or the address cannot be listened on; in the last case the new recording,
/// with its header only, is left behind.
pub async fn record(options: RecordOptions) -> Result<RecorderHandle, ScriptError> {
    let upstream = options.upstream.trim_end_matches('/').to_owned();
    let unusable = |message: String| ScriptError::Upstream { url: options.upstream.clone(), message };
    let url = reqwest::Url::parse(&upstream).map_err(|error| unusable(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(unusable("it must begin with http:// or https:// and name a host".to_owned()));
    }
    let client = client().map_err(|error| unusable(error.to_string()))?;
    let tape = Arc::new(Tape::create(&options.out)?);
    let pumps = TaskTracker::new();
    let handler = Recorder {
        client,
        upstream,
        tape: Arc::clone(&tape),
        requests: AtomicU64::new(0),
        pumps: pumps.clone(),
    };
    let (addr, stop, tasks) = listen(options.addr, Arc::new(handler)).await?;
    let waiting = tasks.clone();
    // One tracker to wait for: it ends after the connections and their pumps.
    tasks.reopen();
    let stopped = stop.clone();
    tasks.spawn(async move {
        stopped.cancelled().await;
        pumps.close();
        pumps.wait().await;
    });
    tasks.close();
    Ok(RecorderHandle { addr, stop, tasks: waiting, tape })
}

/// Returns the client for the upstream. It follows no redirect: the response is recorded as it came. Also installs
/// `ring` as the TLS provider of the whole process, unless another is installed already.
#[allow(clippy::disallowed_methods, reason = "the recorder is the HTTP client of another HTTP client")]
fn client() -> reqwest::Result<reqwest::Client> {
    // A second installation is refused, which is harmless: the first one stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // `no_proxy` keeps reqwest from reading the environment, which only the caller may do.
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_LIMIT)
        .read_timeout(READ_LIMIT)
        .build()
}

struct Recorder {
    client: reqwest::Client,
    upstream: String,
    tape: Arc<Tape>,
    requests: AtomicU64,
    /// Responses in progress, so that a shutdown waits until they are recorded.
    pumps: TaskTracker,
}

impl Handler for Recorder {
    async fn handle(&self, request: Request) -> Response {
        let is_turn = request.method == "POST" && request.path() == "/v1/messages";
        let number = if is_turn { self.requests.fetch_add(1, Ordering::AcqRel) + 1 } else { 0 };
        let secrets = Secrets::of_request(&request.headers);
        let upstream = match self.forward(request).await {
            Ok(upstream) => upstream,
            Err(error) => {
                let text = format!("the upstream did not answer: {}", error.without_url());
                self.tape.problem(format!("request {number}: {text}"));
                return Response::from(render::api_error(0, 502, "api_error", &text));
            }
        };
        let status = upstream.status().as_u16();
        let headers = header_list(upstream.headers());
        let (send, steps) = mpsc::channel(IN_FLIGHT);
        let tape = is_turn.then(|| Take {
            number,
            tape: Arc::clone(&self.tape),
            secrets: secrets.and_response(&headers),
            raw: RawReply { status, headers: kept(&headers), chunks: Vec::new() },
            size: 0,
        });
        self.pumps.spawn(pump(upstream, send, tape));
        Response { status, headers: passed_on(headers), framing: Framing::Chunked, steps: Steps::Live(steps) }
    }
}

impl Recorder {
    /// Sends the request to the upstream and returns the response, whose body is still to be read. `host` and headers
    /// that concern one connection only are left out, and `accept-encoding` too, because the body is recorded as text.
    /// A method that is not valid becomes `GET`.
    async fn forward(&self, request: Request) -> reqwest::Result<reqwest::Response> {
        let method = reqwest::Method::from_bytes(request.method.as_bytes()).unwrap_or(reqwest::Method::GET);
        let mut onward = self.client.request(method, format!("{}{}", self.upstream, request.target));
        for (name, value) in request.headers {
            // The body is recorded as text, so the upstream must not compress it.
            if !is_hop_header(&name) && name != "host" && name != "accept-encoding" {
                onward = onward.header(name, value);
            }
        }
        onward.body(request.body).send().await
    }
}

/// Passes the response to the client chunk by chunk until it ends, breaks off, or the client leaves. Then `take` is
/// written, before the client sees the end, so that a client which has read a response can rely on the recording; with
/// `None` nothing is recorded.
async fn pump(mut upstream: reqwest::Response, client: mpsc::Sender<Step>, mut take: Option<Take>) {
    let mut end = End::Complete;
    // The client may be gone before the first byte; the loop notices that.
    let _ = client.send(Step::Head).await;
    loop {
        let chunk = tokio::select! {
            chunk = upstream.chunk() => chunk,
            () = client.closed() => {
                end = End::ClientLeft;
                break;
            }
        };
        match chunk {
            Ok(Some(bytes)) => {
                if let Some(take) = &mut take {
                    take.add(&bytes);
                }
                if client.send(Step::Send(bytes)).await.is_err() {
                    end = End::ClientLeft;
                    break;
                }
            }
            Ok(None) => break,
            Err(_) => {
                let _ = client.send(Step::Fin).await;
                end = End::UpstreamBroke;
                break;
            }
        }
    }
    // Written before the client sees the end: a client that has read a response can rely on the recording.
    if let Some(take) = take {
        take.finish(end);
    }
    drop(client);
}

/// How a recorded response ended.
enum End {
    Complete,
    UpstreamBroke,
    ClientLeft,
}

/// One response while it is recorded.
struct Take {
    number: u64,
    tape: Arc<Tape>,
    secrets: Secrets,
    raw: RawReply,
    size: usize,
}

impl Take {
    /// Keeps a piece of the response. Beyond [`MAX_RECORDED`] only the size is counted, so that `finish` can report it.
    fn add(&mut self, bytes: &Bytes) {
        self.size += bytes.len();
        if self.size <= MAX_RECORDED {
            self.raw.chunks.push(Chunk(bytes.clone()));
        }
    }

    /// Writes the turn without its secrets, and with a fault in the place where the response broke off. A response that
    /// was too large is kept as a problem and not recorded.
    fn finish(mut self, end: End) {
        if self.size > MAX_RECORDED {
            let text = format!("request {}: {} bytes are too many to record", self.number, self.size);
            return self.tape.problem(text);
        }
        self.raw.chunks = self.secrets.removed_from(self.raw.chunks);
        let (cut, stall) = match end {
            End::Complete => (None, None),
            End::UpstreamBroke => (Some(json!({})), None),
            // The client left in the middle, so the replay stalls there for the next client to leave.
            End::ClientLeft => (None, Some(json!({}))),
        };
        self.tape.append(&RecordedLine { n: self.number, raw: &self.raw, cut, stall });
    }
}

#[derive(Serialize)]
struct RecordedLine<'a> {
    n: u64,
    raw: &'a RawReply,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stall: Option<serde_json::Value>,
}

/// The recording file.
#[derive(Debug)]
struct Tape {
    file: Mutex<File>,
    recorded: AtomicU64,
    problems: Mutex<Vec<String>>,
}

/// The most problems that are kept.
const MAX_PROBLEMS: usize = 100;

impl Tape {
    /// Creates the recording with its header line. A file that exists is an error, so that no recording is overwritten.
    fn create(path: &std::path::Path) -> Result<Self, ScriptError> {
        let failed =
            |source| ScriptError::Io { what: format!("create the recording {}", path.display()), source };
        let mut file = OpenOptions::new().append(true).create_new(true).open(path).map_err(failed)?;
        let header = json!({HEADER_KEY: 1, "about": "written by `lathe model record`; one turn a line"});
        file.write_all(format!("{header}\n").as_bytes()).map_err(failed)?;
        Ok(Self { file: Mutex::new(file), recorded: AtomicU64::new(0), problems: Mutex::default() })
    }

    /// Writes one line and counts it. If that fails the file is cut back to its last complete line and the problem
    /// kept, so that only this turn is lost.
    fn append(&self, line: &RecordedLine<'_>) {
        let written = serde_json::to_vec(line).map_err(std::io::Error::from).and_then(|mut bytes| {
            bytes.push(b'\n');
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            let before = file.metadata()?.len();
            // Half a line would spoil the next one: a full disk must not cost more than this turn.
            file.write_all(&bytes).inspect_err(|_| drop(file.set_len(before)))
        });
        match written {
            Ok(()) => {
                self.recorded.fetch_add(1, Ordering::AcqRel);
            }
            Err(error) => self.problem(format!("request {}: cannot write the recording: {error}", line.n)),
        }
    }

    /// Keeps a description of what could not be recorded; those beyond [`MAX_PROBLEMS`] are dropped.
    fn problem(&self, text: String) {
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        if problems.len() < MAX_PROBLEMS {
            problems.push(text);
        }
    }
}

/// Returns headers as text, in their order and with repeated ones; bytes that are not UTF-8 are replaced.
fn header_list(headers: &reqwest::header::HeaderMap) -> Vec<(String, String)> {
    let text = |value: &reqwest::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

/// Returns the headers that go into the recording. They are those of a list, so that an unknown header cannot leak an
/// account or a credential.
fn kept(headers: &[(String, String)]) -> BTreeMap<String, String> {
    let keep = |name: &str| KEPT_HEADERS.contains(&name) || name.starts_with(KEPT_PREFIX);
    headers.iter().filter(|(name, _)| keep(name)).cloned().collect()
}

/// Returns the headers that the client gets: all but those that concern one connection only.
fn passed_on(headers: Vec<(String, String)>) -> Vec<(String, String)> {
    headers.into_iter().filter(|(name, _)| !is_hop_header(name)).collect()
}

/// Returns whether a header concerns one connection and not the message. `name` must be in lower case.
fn is_hop_header(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "content-length"
            | "expect"
            | "keep-alive"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    ) || name.starts_with("proxy-")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedTurn {
    n: u64,
    raw: RawReply,
    cut: Option<Cut>,
    stall: Option<Stall>,
}

/// Returns whether the text of a script begins with the header line of a recording.
pub(crate) fn is_recording(text: &str) -> bool {
    text.starts_with(&format!("{{\"{HEADER_KEY}\""))
}

/// Returns a recording as a script: raw turns in the order of the requests, and an error after the last. The first line
/// is skipped unread, so the caller must have asked [`is_recording`]. A torn last line is left out, since a recorder
/// may be killed while it writes; every other bad line is an error.
pub(crate) fn parse_recording(file: &str, text: &str) -> Result<Script, ScriptError> {
    let mut turns: Vec<RecordedTurn> = Vec::new();
    for (index, line) in text.split_inclusive('\n').enumerate().skip(1) {
        match serde_json::from_str(line.trim_end_matches('\n')) {
            Ok(turn) => turns.push(turn),
            Err(_) if !line.ends_with('\n') => break,
            Err(error) => return Err(json_error(file, index as u64, &error)),
        }
    }
    turns.sort_by_key(|turn| turn.n);
    let turn = |turn: RecordedTurn| Turn {
        id: Some(format!("recorded {}", turn.n)),
        raw: Some(turn.raw),
        cut: turn.cut,
        stall: turn.stall,
        ..Turn::default()
    };
    let script = Script { at_end: AtEnd::Error, ..Script::new(turns.into_iter().map(turn)) };
    crate::load::validate(file, &script)?;
    Ok(script)
}
