//! A small HTTP/1.1 server side on a raw socket: requests in, [`Step`]s out.
//!
//! Written by hand because a fault is the product here: half a chunk and then a reset, headers and then silence. A
//! framework's whole purpose is to prevent that. It is strict in what it reads (one length, no folding, bounded head
//! and body) and knows nothing of models; [`crate::server`] and [`crate::record`](mod@crate::record) are its two handlers.

mod read;

pub(crate) use read::MAX_BODY;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::render::{Framing, Reply, Step};

/// Collected output is written once it is this large, even if more follows at once.
const WRITE_SIZE: usize = 64 * 1024;
/// The most bytes that a client may send ahead while it waits for a response.
const MAX_SENT_AHEAD: usize = 1024 * 1024;
/// How long the rest of a refused request is read.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// How long the listener waits when the system has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A request as it was received.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    keep_alive: bool,
    chunked_allowed: bool,
}

impl Request {
    /// Returns the target up to the query, not decoded.
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or("")
    }

    /// Returns the first value of a query parameter, not decoded; `None` without `name=`.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        let (_, query) = self.target.split_once('?')?;
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }
}

/// A response whose steps are known, or arrive while it runs.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) framing: Framing,
    pub(crate) steps: Steps,
}

pub(crate) enum Steps {
    Known(std::vec::IntoIter<Step>),
    Live(mpsc::Receiver<Step>),
}

impl Steps {
    /// Returns the next step; `None` after the last one, or when the task that sends live steps has ended.
    async fn next(&mut self) -> Option<Step> {
        match self {
            Self::Known(steps) => steps.next(),
            Self::Live(steps) => steps.recv().await,
        }
    }

    /// Returns whether the next step may not be there yet, so that collected output must be written before it is
    /// awaited.
    fn may_wait(&self) -> bool {
        matches!(self, Self::Live(_))
    }
}

impl From<Reply> for Response {
    fn from(reply: Reply) -> Self {
        Self {
            status: reply.status,
            headers: reply.headers,
            framing: reply.framing,
            steps: Steps::Known(reply.steps.into_iter()),
        }
    }
}

/// Responds to requests.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Returns the response to one request; the connection performs its steps afterwards. Requests of one connection
    /// come one after the other, those of several at the same time.
    fn handle(&self, request: Request) -> impl Future<Output = Response> + Send;
}

/// Accepts connections until `stop`. Every connection runs as a task of `tasks` and ends with `stop` too; after an
/// error of the listener the next attempt waits for [`ACCEPT_PAUSE`].
pub(crate) async fn accept<H: Handler>(
    listener: TcpListener,
    handler: Arc<H>,
    stop: CancellationToken,
    tasks: TaskTracker,
) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let handler = Arc::clone(&handler);
        let stop = stop.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = converse(stream, &*handler) => {}
            }
        });
    }
}

/// Serves the requests of one connection until either side closes it. A request that cannot be read is refused, if a
/// response can still be sent, and ends the connection.
async fn converse<H: Handler>(stream: TcpStream, handler: &H) {
    // Without it the second small write of a response waits for the client's delayed acknowledgement.
    let _ = stream.set_nodelay(true);
    let mut connection = Connection { stream, input: BytesMut::new(), output: Vec::new() };
    loop {
        let request = match connection.read_request().await {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(read::ReadError::Io) => return,
            Err(read::ReadError::Refused(reply)) => {
                let about = About { head_only: false, keep_alive: false, chunked_allowed: true };
                if connection.perform(Response::from(*reply), about).await.is_ok() {
                    connection.let_it_be_read().await;
                }
                return;
            }
        };
        let about = About {
            head_only: request.method == "HEAD",
            keep_alive: request.keep_alive,
            chunked_allowed: request.chunked_allowed,
        };
        let response = handler.handle(request).await;
        match connection.perform(response, about).await {
            Ok(Next::Keep) => {}
            Ok(Next::Close) | Err(_) => return,
        }
    }
}

struct Connection {
    stream: TcpStream,
    /// Received, not yet parsed.
    input: BytesMut,
    /// To be written.
    output: Vec<u8>,
}

/// The part of the request that its response depends on.
#[derive(Clone, Copy)]
struct About {
    head_only: bool,
    keep_alive: bool,
    chunked_allowed: bool,
}

enum Next {
    Keep,
    Close,
}

impl Connection {
    /// Performs the steps of a response and returns whether the connection can be used again; it closes after a fault
    /// and when the client leaves during a pause. Bytes are collected and written before every wait and every fault, so
    /// that the client sees exactly what precedes it.
    async fn perform(&mut self, mut response: Response, about: About) -> io::Result<Next> {
        let chunked = response.framing == Framing::Chunked && about.chunked_allowed;
        // HTTP/1.0 has no chunks: there the end of the connection ends the body.
        let keep_alive = about.keep_alive && (chunked || response.framing == Framing::Length);
        while let Some(step) = response.steps.next().await {
            match step {
                Step::Head => self.push_head(&response, chunked, keep_alive),
                Step::Send(_) if about.head_only => {}
                Step::Send(bytes) => self.push_body(&bytes, chunked),
                Step::Pause(pause) => {
                    self.flush().await?;
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = self.client_leaves() => return Ok(Next::Close),
                    }
                }
                Step::Hang => {
                    self.flush().await?;
                    self.client_leaves().await;
                    return Ok(Next::Close);
                }
                Step::Fin => {
                    self.flush().await?;
                    return Ok(Next::Close);
                }
                Step::Reset => {
                    self.flush().await?;
                    self.stream.set_zero_linger()?;
                    return Ok(Next::Close);
                }
            }
            if response.steps.may_wait() || self.output.len() >= WRITE_SIZE {
                self.flush().await?;
            }
        }
        if chunked && !about.head_only {
            self.output.extend_from_slice(b"0\r\n\r\n");
        }
        self.flush().await?;
        Ok(if keep_alive { Next::Keep } else { Next::Close })
    }

    /// Appends status line and headers to the output. The length is the sum of the steps that are left, so this must be
    /// called at [`Step::Head`], before any part of the body is taken.
    fn push_head(&mut self, response: &Response, chunked: bool, keep_alive: bool) {
        let out = &mut self.output;
        let mut line = |parts: &[&str]| {
            parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
            out.extend_from_slice(b"\r\n");
        };
        line(&["HTTP/1.1 ", &response.status.to_string(), " ", reason(response.status)]);
        for (name, value) in &response.headers {
            line(&[name, ": ", value]);
        }
        match (&response.steps, chunked) {
            (_, true) => line(&["transfer-encoding: chunked"]),
            (Steps::Known(rest), false) if response.framing == Framing::Length => {
                let length = |step: &Step| if let Step::Send(bytes) = step { bytes.len() } else { 0 };
                let total: usize = rest.as_slice().iter().map(length).sum();
                line(&["content-length: ", &total.to_string()]);
            }
            (Steps::Known(_) | Steps::Live(_), false) => {}
        }
        if !keep_alive {
            line(&["connection: close"]);
        }
        line(&[]);
    }

    /// Appends a part of the body, as one chunk if `chunked`. An empty part is skipped: an empty chunk would end the
    /// body.
    fn push_body(&mut self, bytes: &[u8], chunked: bool) {
        if bytes.is_empty() {
            return;
        }
        if chunked {
            self.output.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
            self.output.extend_from_slice(bytes);
            self.output.extend_from_slice(b"\r\n");
        } else {
            self.output.extend_from_slice(bytes);
        }
    }

    /// Writes the collected output to the socket. Must come before every pause and fault, so that the client sees
    /// what precedes them.
    async fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            self.stream.write_all(&self.output).await?;
            self.output.clear();
        }
        Ok(())
    }

    /// Closes the sending half, then reads and discards for up to [`REFUSAL_TIME`] what the client still sends. Closing
    /// at once would reset the connection, and the client would lose the refusal.
    async fn let_it_be_read(&mut self) {
        let _ = self.stream.shutdown().await;
        let thrown_away = async {
            let mut buffer = vec![0; WRITE_SIZE];
            while matches!(self.stream.read(&mut buffer).await, Ok(count) if count > 0) {}
        };
        let _ = tokio::time::timeout(REFUSAL_TIME, thrown_away).await;
    }

    /// Returns when the client has closed or reset the connection. What it sends meanwhile is kept as input for the
    /// next request; beyond [`MAX_SENT_AHEAD`] nothing more is read, and a later end is not noticed.
    async fn client_leaves(&mut self) {
        while self.input.len() < MAX_SENT_AHEAD {
            match self.stream.read_buf(&mut self.input).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
        std::future::pending().await
    }
}

/// Returns the reason phrase of the status line. A status without an entry gets a fixed word, since a script may use
/// any.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        529 => "Overloaded",
        _ => "Scripted",
    }
}
