//! The server that the benchmark's subjects talk to: it records when each request has arrived and responds at once with
//! prepared bytes.
//!
//! This is not the scripted model, on purpose: `xtask` links no crate of the workspace, and an HTTP framework in a
//! debug build would show in every figure. This server reads the request line and counts, so that it costs the same on
//! turn 1 and on turn 1,000. Subjects are started by this process and connect to it, so both times are of one clock.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{background, process, sse};

/// What the server does during one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// A short text for every request.
    Text,
    /// This many calls of the shell, then a short text.
    ToolTurns(usize),
    /// A text in this many pieces.
    Pieces(usize),
    /// The same call this many times, then a short text.
    Calls {
        /// The number of calls.
        turns: usize,
        /// The tool.
        tool: &'static str,
        /// The input.
        input: Value,
    },
    /// This many times a page that is fetched and read, each under an address of its own, then a short text.
    Fetches {
        /// The number of pages.
        turns: usize,
        /// The address, to which a number is added.
        page: String,
    },
    /// A short text; calls that each start a command in the background which stays alive, and a short text; then commands
    /// that end when a pipe is closed, each with a short text, and one more for its end.
    Background {
        /// Commands that stay alive.
        alive: usize,
        /// Commands that end.
        ends: usize,
        /// The pipe.
        gate: PathBuf,
    },
    /// This many calls that each write a new file in a folder, then a short text.
    Writes {
        /// The number of calls.
        turns: usize,
        /// The folder.
        folder: PathBuf,
    },
}

/// A request as it was received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// `POST /v1/messages HTTP/1.1`.
    pub line: String,
    /// Headers in the order sent.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

/// What the server recorded during one run.
#[derive(Debug, Default)]
pub struct Seen {
    /// When each request for a message was complete.
    pub arrivals: Vec<Instant>,
    /// The first of them.
    pub first: Option<Request>,
    /// Processor time that the watched process had used at each arrival.
    pub processor: Vec<Duration>,
    /// The memory that it had then, in bytes.
    pub memory: Vec<u64>,
}

/// A running server. Its threads end with the process.
pub struct Server {
    base_url: String,
    state: Arc<Mutex<State>>,
}

struct State {
    answers: Vec<Arc<Vec<u8>>>,
    seen: Seen,
    /// The process whose processor time and memory are recorded with each request.
    watched: Option<u32>,
}

impl State {
    /// Records a request, with the time and memory of the watched process, and returns its response. After the last
    /// response of the plan that one is repeated; `None` if no run has begun.
    fn answer(&mut self, request: Request, arrived: Instant) -> Option<Arc<Vec<u8>>> {
        let number = self.seen.arrivals.len();
        self.seen.arrivals.push(arrived);
        self.seen.processor.extend(self.watched.and_then(process::processor_time));
        self.seen.memory.extend(self.watched.and_then(process::resident_memory));
        if number == 0 {
            self.seen.first = Some(request);
        }
        self.answers.get(number).or(self.answers.last()).cloned()
    }
}

impl Server {
    /// Starts the server on a free port of this machine. It has no plan until [`Server::begin`].
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("failed to listen")?;
        let base_url = format!("http://{}", listener.local_addr().context("failed to listen")?);
        let state = Arc::new(Mutex::new(State { answers: vec![], seen: Seen::default(), watched: None }));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                // A subject that disappears in the middle is noticed by its exit code.
                thread::spawn(move || drop(serve(stream, &state)));
            }
        });
        Ok(Self { base_url, state })
    }

    /// Returns the address of the server for clients.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Begins a run with this plan, forgets what was recorded before, and ends the watch. All responses are built here,
    /// so that none is built while a subject is timed.
    pub fn begin(&self, plan: Plan) {
        let answers = match plan {
            Plan::Text => vec![sse::text()],
            Plan::ToolTurns(turns) => (0..turns).map(sse::echo).chain([sse::text()]).collect(),
            Plan::Pieces(count) => vec![sse::pieces(count)],
            Plan::Calls { turns, tool, input } => {
                (0..turns).map(|number| sse::call(number, tool, &input)).chain([sse::text()]).collect()
            }
            Plan::Fetches { turns, page } => {
                let fetch = |number| {
                    let input = json!({ "url": format!("{page}?{number}"), "prompt": "What is it?" });
                    [sse::call(number, "WebFetch", &input), sse::text()]
                };
                (0..turns).flat_map(fetch).chain([sse::text()]).collect()
            }
            Plan::Background { alive, ends, gate } => {
                let (stay, end) = background::commands(alive, ends, &gate);
                let start = |number: usize, command: &String| {
                    let input = json!({ "command": command, "run_in_background": true });
                    sse::call(number, "Bash", &input)
                };
                let stay: Vec<_> =
                    stay.iter().enumerate().map(|(nth, command)| start(nth, command)).collect();
                let between = (alive > 0).then(sse::text);
                let end = end.iter().enumerate();
                let end =
                    end.flat_map(|(nth, command)| [start(alive + nth, command), sse::text(), sse::text()]);
                [sse::text()].into_iter().chain(stay).chain(between).chain(end).collect()
            }
            Plan::Writes { turns, folder } => {
                (0..turns).map(|number| sse::write(number, &folder)).chain([sse::text()]).collect()
            }
        };
        let answers = answers.into_iter().map(Arc::new).collect();
        *lock(&self.state) = State { answers, seen: Seen::default(), watched: None };
    }

    /// Records processor time and memory of this process with each request, until the next run begins.
    pub fn watch(&self, process: u32) {
        lock(&self.state).watched = Some(process);
    }

    /// Ends a run and returns what the server recorded. Requests that come later still get the responses of the plan,
    /// again from its first one.
    pub fn end(&self) -> Seen {
        std::mem::take(&mut lock(&self.state).seen)
    }
}

/// Locks the state, also after a panic under the lock.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Responds to the requests of one connection until the client closes it. Only requests for a message are recorded and
/// follow the plan.
fn serve(stream: TcpStream, state: &Mutex<State>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::with_capacity(256 * 1024, stream);
    while let Some(request) = read_request(&mut reader)? {
        let arrived = Instant::now();
        let path = request.line.split(' ').nth(1).unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default();
        let reply = if request.line.starts_with("POST ") && path == "/v1/messages" {
            let body = lock(state).answer(request, arrived).context("a request outside of a run")?;
            reply("200 OK", "text/event-stream", &body)
        } else if path == PAGE_PATH {
            reply("200 OK", "text/html; charset=utf-8", &PAGE)
        } else if path == "/v1/messages/count_tokens" {
            reply("200 OK", "application/json", br#"{"input_tokens":100}"#)
        } else {
            reply("404 Not Found", "application/json", b"{}")
        };
        writer.write_all(&reply)?;
    }
    Ok(())
}

/// The path of the page.
pub const PAGE_PATH: &str = "/page";

/// The size of the page.
pub const PAGE_BYTES: usize = 5 << 20;

/// The page: HTML of exactly [`PAGE_BYTES`], padded with spaces at its end.
static PAGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut page =
        String::from("<!DOCTYPE html><html><head><title>A page</title></head><body><h1>A page</h1>");
    let end = "</body></html>";
    for number in 0.. {
        let part = format!(
            "<div class=\"row r{number}\"><h2 id=\"s{number}\">Section {number}</h2><p>Some <b>bold</b> words and <a \
             href=\"/link/{number}\">a link</a>, in a text that goes on for a while, as texts do that people write.</p>\
             <ul><li>one of {number}</li><li>another</li></ul></div>\n"
        );
        if page.len() + part.len() + end.len() > PAGE_BYTES {
            break;
        }
        page.push_str(&part);
    }
    page.push_str(end);
    page.push_str(&" ".repeat(PAGE_BYTES - page.len()));
    page.into_bytes()
});

/// Returns the bytes of a complete HTTP response with this content type.
fn reply(status: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes =
        format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len())
            .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Reads one request with its body; `None` if the connection ends between two.
fn read_request(reader: &mut impl BufRead) -> Result<Option<Request>> {
    let Some(line) = read_line(reader)? else { return Ok(None) };
    let mut request = Request { line, ..Request::default() };
    loop {
        let header = read_line(reader)?.context("the head of a request was cut off")?;
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').context("a header has no colon")?;
        request.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let header =
        |name: &str| request.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    if header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        request.body = read_chunks(reader)?;
    } else if let Some(length) = header("content-length") {
        request.body = vec![0; length.parse().context("content-length is not a number")?];
        reader.read_exact(&mut request.body)?;
    }
    Ok(Some(request))
}

/// Reads a chunked body to its end and returns it without the chunk framing.
fn read_chunks(reader: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = read_line(reader)?.context("a body was cut off")?;
        let size = u64::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16)?;
        let got = reader.by_ref().take(size).read_to_end(&mut body)?;
        if got as u64 != size {
            bail!("a body was cut off");
        }
        read_line(reader)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

/// Reads one line without its end; `None` at the end of the stream. Of a line beyond 64 KB the rest is returned as the
/// next line.
fn read_line(reader: &mut impl BufRead) -> Result<Option<String>> {
    let mut line = Vec::new();
    if reader.by_ref().take(64 * 1024).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let text = String::from_utf8(line).context("the head of a request is not UTF-8")?;
    Ok(Some(text.trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Option<Request>> {
        read_request(&mut &bytes[..])
    }

    #[test]
    fn a_body_is_read_by_its_length_or_in_chunks() {
        let plain = read(b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}rest").unwrap().unwrap();
        assert_eq!(plain.body, b"{}");
        let chunked = read(
            b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n1;x=y\r\n}\r\n0\r\n\r\n",
        )
        .unwrap();
        assert_eq!(chunked.unwrap().body, b"{\"a}");
    }

    #[test]
    fn a_closed_connection_is_no_request_and_a_cut_one_an_error() {
        assert_eq!(read(b"").unwrap(), None);
        assert!(read(b"POST /a HTTP/1.1\r\nContent-Length: 9\r\n\r\n{}").is_err());
        assert!(read(b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{}").is_err());
        assert!(read(b"POST /a HTTP/1.1\r\n").is_err());
    }

    #[test]
    fn requests_are_counted_and_answered_in_order_on_one_connection() {
        let server = Server::start().unwrap();
        server.begin(Plan::ToolTurns(1));
        let mut stream = TcpStream::connect(server.base_url().strip_prefix("http://").unwrap()).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        for (path, expected) in
            [("/v1/messages?beta=true", "toolu_000000"), ("/other", "{}"), ("/v1/messages", "end_turn")]
        {
            write!(stream, "POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n").unwrap();
            let answer = read_request(&mut reader).unwrap().unwrap();
            let body = String::from_utf8(answer.body).unwrap();
            assert!(body.contains(expected), "{path}: {body}");
        }
        let seen = server.end();
        assert_eq!(seen.arrivals.len(), 2);
        assert_eq!(seen.first.unwrap().line, "POST /v1/messages?beta=true HTTP/1.1");
        assert!(server.end().arrivals.is_empty());
    }
}
