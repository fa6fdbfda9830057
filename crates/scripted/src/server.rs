//! The scripted model as an HTTP server for any Messages API client: `POST /v1/messages` streamed or not,
//! `count_tokens`, `GET /v1/models`. The engine chooses the turn and the renderer makes the bytes; this module has the
//! routes, and the log in which tests see what a client really sent.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::engine::{ScriptEngine, Served};
use crate::error::ScriptError;
use crate::http::{self, Handler, Request, Response};
use crate::record::is_secret_header;
use crate::render::{self, Reply};
use crate::script::Script;

/// The most memory for all bodies in the log.
const MAX_LOG_BYTES: usize = 64 * 1024 * 1024;

/// How to serve.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Where to listen; port 0 takes a free one.
    pub addr: SocketAddr,
    /// A file that gets a JSON line for every request.
    pub log_file: Option<PathBuf>,
    /// How many requests [`ServerHandle::requests`] remembers.
    pub keep_requests: usize,
    /// Whether to respond to what the API would refuse.
    pub strictness: RequestStrictness,
}

/// Whether a server responds to what the API would refuse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RequestStrictness {
    /// As the script says: it refuses unless it is `lax`.
    #[default]
    AsScripted,
    /// It responds to everything that can be parsed.
    Lax,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            addr: SocketAddr::from(([127, 0, 0, 1], 0)),
            log_file: None,
            keep_requests: 1_000,
            strictness: RequestStrictness::default(),
        }
    }
}

/// A request that got a response.
#[derive(Debug, Clone)]
pub struct LoggedRequest {
    /// Number of the messages request; 0 for other requests.
    pub number: u64,
    /// HTTP method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Headers, names in lower case, credentials replaced.
    pub headers: Vec<(String, String)>,
    /// The body as it was received.
    pub body: Bytes,
    /// Status of the response.
    pub status: u16,
    /// The name of the turn that was used.
    pub turn: String,
}

impl LoggedRequest {
    /// Returns the body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// Returns the first header of this name, which must be in lower case; `None` if the request has none.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the log line as JSON, with a line break at its end. The body is inserted as it was sent, apart from line
    /// breaks, and left out if it is not JSON.
    fn line(&self) -> String {
        let headers: serde_json::Map<String, Value> =
            self.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let mut line = json!({
            "n": self.number, "method": self.method, "target": self.target, "status": self.status,
            "turn": self.turn, "headers": headers,
        })
        .to_string();
        let body = std::str::from_utf8(&self.body).ok();
        if let Some(raw) = body.and_then(|text| serde_json::from_str::<&RawValue>(text).ok()) {
            line.truncate(line.len() - 1);
            line.push_str(",\"body\":");
            // JSON may span lines; a log line may not.
            line.extend(raw.get().chars().filter(|c| !matches!(c, '\n' | '\r')));
            line.push('}');
        }
        line.push('\n');
        line
    }
}

/// A running server. Dropping it stops the server; [`ServerHandle::shutdown`] also waits for it.
#[derive(Debug)]
pub struct ServerHandle {
    addr: SocketAddr,
    log: Arc<Log>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl ServerHandle {
    /// Returns the address that the server listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the base URL for clients.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Returns the remembered requests, oldest first. The oldest are forgotten beyond `keep_requests`, and when their
    /// bodies have more than 64 MiB together.
    pub fn requests(&self) -> Vec<LoggedRequest> {
        self.log.lock().entries.iter().cloned().collect()
    }

    /// Returns how many requests of all kinds there were, including forgotten ones.
    pub fn request_count(&self) -> u64 {
        self.log.lock().count
    }

    /// Blocks the thread until there were `count` requests in all, including forgotten ones; returns false if the time
    /// is over first.
    #[allow(clippy::disallowed_methods, reason = "for tests, which have a thread of their own")]
    pub fn wait_for_requests(&self, count: u64, limit: Duration) -> bool {
        let fewer = |entries: &mut Entries| entries.count < count;
        let waited = self.log.changed.wait_timeout_while(self.log.lock(), limit, fewer);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Returns the first error of writing the log file; `None` if the file is complete or there is none.
    pub fn log_error(&self) -> Option<String> {
        self.log.lock().write_error.clone()
    }

    /// Stops accepting, ends every connection, even inside a response, and waits until all are gone.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Starts a server for `script`, which runs until its handle is shut down or dropped. It is an error if the script is
/// not valid, the log file cannot be opened, or the address cannot be listened on.
pub async fn serve(mut script: Script, options: ServeOptions) -> Result<ServerHandle, ScriptError> {
    script.lax |= options.strictness == RequestStrictness::Lax;
    let engine = Arc::new(ScriptEngine::new(script)?);
    let log = Arc::new(Log::open(&options)?);
    let handler = Arc::new(ScriptHandler { engine, log: Arc::clone(&log) });
    let (addr, stop, tasks) = listen(options.addr, handler).await?;
    Ok(ServerHandle { addr, log, stop, tasks })
}

/// Opens the listener, starts to accept connections and returns the address it got. The token ends all connections; the
/// tracker is closed and waits for their tasks.
pub(crate) async fn listen<H: Handler>(
    addr: SocketAddr,
    handler: Arc<H>,
) -> Result<(SocketAddr, CancellationToken, TaskTracker), ScriptError> {
    let failed = |source| ScriptError::Io { what: format!("listen on {addr}"), source };
    let listener = TcpListener::bind(addr).await.map_err(failed)?;
    let addr = listener.local_addr().map_err(failed)?;
    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    tasks.spawn(http::accept(listener, handler, stop.clone(), tasks.clone()));
    tasks.close();
    Ok((addr, stop, tasks))
}

struct ScriptHandler {
    engine: Arc<ScriptEngine>,
    log: Arc<Log>,
}

impl Handler for ScriptHandler {
    async fn handle(&self, request: Request) -> Response {
        let answer = self.answer(&request);
        self.log.add(request, &answer);
        Response::from(answer.reply)
    }
}

struct Answer {
    number: u64,
    turn: String,
    reply: Reply,
}

impl From<Served> for Answer {
    fn from(served: Served) -> Self {
        Self { number: served.number, turn: served.turn, reply: served.reply }
    }
}

impl Answer {
    /// Returns a response that uses no turn and has no number; `turn` is what the log shows instead.
    fn other(turn: &str, reply: Reply) -> Self {
        Self { number: 0, turn: turn.to_owned(), reply }
    }

    /// Returns an error of the server itself, which uses no turn; `kind` is the API's error type.
    fn error(status: u16, kind: &str, message: &str) -> Self {
        Self::other("", render::api_error(0, status, kind, message))
    }
}

impl ScriptHandler {
    /// Returns the response of the endpoint that the request names. A known path with another method is 405; any other
    /// path, and another method for a single model, is 404.
    fn answer(&self, request: &Request) -> Answer {
        let path = request.path();
        match (request.method.as_str(), path) {
            ("POST", "/v1/messages") => self.messages(request),
            ("POST", "/v1/messages/count_tokens") => self.count_tokens(request),
            ("GET" | "HEAD", "/v1/models") => self.list_models(request),
            ("GET" | "HEAD", _) if path.starts_with("/v1/models/") => {
                self.one_model(&path["/v1/models/".len()..])
            }
            (_, "/v1/messages" | "/v1/messages/count_tokens" | "/v1/models") => {
                Answer::error(405, "invalid_request_error", "Method Not Allowed")
            }
            _ => Answer::error(404, "not_found_error", "Not Found"),
        }
    }

    /// Lets the script respond to a request for a message, which uses a turn, or refuses it.
    fn messages(&self, request: &Request) -> Answer {
        Answer::from(self.engine.respond_http(request.body.clone(), request.headers.clone()))
    }

    /// Returns the scripted count, or an estimate of four bytes per token, after the checks of this endpoint; also for
    /// a lax script a body without a list of messages is 400. Uses no turn.
    fn count_tokens(&self, request: &Request) -> Answer {
        if let Err(refusal) = self.engine.check_count(&request.body, &request.headers) {
            return Answer::from(self.engine.refusal(&refusal));
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
        if !body["messages"].is_array() {
            return Answer::error(400, "invalid_request_error", "messages: Field required");
        }
        // Without a tokenizer: four bytes per token is the estimate that clients use as well.
        let size = |key: &str| body.get(key).map_or(0, |value| value.to_string().len() as u64);
        let estimate = (size("messages") + size("system") + size("tools")).div_ceil(4);
        let tokens = self.engine.script().count_tokens.unwrap_or(estimate);
        Answer::other("count_tokens", Reply::json(0, 200, &json!({"input_tokens": tokens})))
    }

    /// Returns the ids that the script lists, or `scripted` if it lists none.
    fn models(&self) -> Vec<&str> {
        let listed = &self.engine.script().models;
        if listed.is_empty() { vec!["scripted"] } else { listed.iter().map(String::as_str).collect() }
    }

    /// Returns one page of the models: 20, or as many as `limit` asks for (1 to 1000, otherwise 400). An unknown
    /// `after_id` or `before_id` gives an empty page.
    fn list_models(&self, request: &Request) -> Answer {
        let models = self.models();
        let limit = match request.query("limit").map(str::parse::<usize>) {
            None => 20,
            Some(Ok(limit)) if (1..=1000).contains(&limit) => limit,
            Some(_) => return Answer::error(400, "invalid_request_error", "limit: must be 1 to 1000"),
        };
        let place = |id: &str| models.iter().position(|model| *model == id);
        let (start, end) = match (request.query("after_id"), request.query("before_id")) {
            (Some(after), _) => (place(after).map_or(models.len(), |place| place + 1), models.len()),
            (None, Some(before)) => {
                let end = place(before).unwrap_or(0);
                (end.saturating_sub(limit), end)
            }
            (None, None) => (0, models.len()),
        };
        let page = &models[start..end.min(start + limit)];
        let more =
            if request.query("before_id").is_some() { start > 0 } else { start + page.len() < models.len() };
        let body = json!({
            "data": page.iter().map(|id| model(id)).collect::<Vec<_>>(),
            "has_more": more, "first_id": page.first(), "last_id": page.last(),
        });
        Answer::other("models", Reply::json(0, 200, &body))
    }

    /// Returns the entry of one model, or 404 for an id that the script does not list.
    fn one_model(&self, id: &str) -> Answer {
        match self.models().contains(&id) {
            true => Answer::other("models", Reply::json(0, 200, &model(id))),
            false => Answer::error(404, "not_found_error", &format!("model: {id}")),
        }
    }
}

/// Returns the API's object for a model. The date is fixed, so that two runs are identical.
fn model(id: &str) -> Value {
    json!({"type": "model", "id": id, "display_name": id, "created_at": "1970-01-01T00:00:00Z"})
}

/// The requests so far, bounded in number and bytes.
#[derive(Debug)]
struct Log {
    entries: Mutex<Entries>,
    changed: Condvar,
    keep: usize,
    file: Option<Mutex<File>>,
}

#[derive(Debug, Default)]
struct Entries {
    entries: VecDeque<LoggedRequest>,
    bytes: usize,
    count: u64,
    write_error: Option<String>,
}

impl Log {
    /// Returns an empty log. Its file, if there is to be one, is opened now, so that a bad path fails at the start.
    fn open(options: &ServeOptions) -> Result<Self, ScriptError> {
        let file = options.log_file.as_deref().map(open_log).transpose()?;
        Ok(Self {
            entries: Mutex::default(),
            changed: Condvar::new(),
            keep: options.keep_requests,
            file: file.map(Mutex::new),
        })
    }

    /// Locks the entries, also after a panic under the lock.
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request, without credentials in its headers, to the memory and the file, and wakes those that wait for
    /// it. Drops the oldest beyond the bounds, of which that of bytes never drops the newest. A write error is kept for
    /// `log_error` and does not change the response.
    fn add(&self, request: Request, answer: &Answer) {
        let hide = |(name, value): (String, String)| {
            let value = if is_secret_header(&name) { "(removed)".to_owned() } else { value };
            (name, value)
        };
        let entry = LoggedRequest {
            number: answer.number,
            method: request.method,
            target: request.target,
            headers: request.headers.into_iter().map(hide).collect(),
            body: request.body,
            status: answer.reply.status,
            turn: answer.turn.clone(),
        };
        // A log that cannot be written must not change what the client under test sees; the owner of the server gets
        // the error from `log_error`.
        let written = self.file.as_ref().map_or(Ok(()), |file| {
            file.lock().unwrap_or_else(PoisonError::into_inner).write_all(entry.line().as_bytes())
        });
        let mut log = self.lock();
        if let Err(error) = written {
            log.write_error.get_or_insert_with(|| error.to_string());
        }
        log.count += 1;
        log.bytes += entry.body.len();
        log.entries.push_back(entry);
        while log.entries.len() > self.keep || (log.bytes > MAX_LOG_BYTES && log.entries.len() > 1) {
            let Some(dropped) = log.entries.pop_front() else { break };
            log.bytes -= dropped.body.len();
        }
        drop(log);
        self.changed.notify_all();
    }
}

/// Opens the log file to append to it, and creates it if it is absent; what earlier servers wrote stays.
fn open_log(path: &Path) -> Result<File, ScriptError> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.map_err(|source| ScriptError::Io {
        what: format!("open the request log {}", path.display()),
        source,
    })
}
