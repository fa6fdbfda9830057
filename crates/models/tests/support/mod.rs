//! A server that writes its answers by hand, byte by byte where that matters, and keeps what it was sent.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lathe_models::anthropic::{ClientConfig, Credential};
use lathe_models::request::{CacheTtl, ModelRequest, Thinking, WireMessage};
use lathe_models::{AnthropicClient, ErrorKind, Model, ModelError, ModelStream, Secret};
use lathe_protocol::Role;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// One thing the server does on a connection.
#[derive(Clone)]
pub enum Step {
    Send(Vec<u8>),
    /// Each byte in a write of its own.
    SendEachByte(Vec<u8>),
    /// Says nothing more until the client goes away.
    Hold,
    /// Closes as a server does that is done.
    Close,
    /// Closes as a machine does that crashed.
    Reset,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub connection: usize,
    pub head: String,
    pub body: Vec<u8>,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1);
        let mut pairs = lines.filter_map(|line| line.split_once(": "));
        pairs.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[derive(Default)]
struct Log {
    seen: Mutex<Vec<Seen>>,
    /// How many connections the client closed while the server was holding them.
    abandoned: watch::Sender<usize>,
}

pub struct Server {
    pub url: String,
    log: Arc<Log>,
    _accepting: JoinSet<()>,
}

impl Server {
    /// Answers the n-th request with the n-th script, and all later ones with the last.
    pub async fn start(answers: Vec<Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(Log::default());
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, Arc::new(answers), Arc::clone(&log)));
        Self { url, log, _accepting: accepting }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.log.seen.lock().unwrap().clone()
    }

    /// Waits until the client has closed a connection that the server was holding.
    pub async fn hung_up(&self) {
        let mut abandoned = self.log.abandoned.subscribe();
        let closed = abandoned.wait_for(|count| *count > 0);
        tokio::time::timeout(Duration::from_secs(20), closed)
            .await
            .expect("the connection was kept")
            .unwrap();
    }
}

async fn accept(listener: TcpListener, answers: Arc<Vec<Vec<Step>>>, log: Arc<Log>) {
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        connections.spawn(serve(stream, number, Arc::clone(&answers), Arc::clone(&log)));
        number += 1;
    }
}

async fn serve(mut stream: TcpStream, connection: usize, answers: Arc<Vec<Vec<Step>>>, log: Arc<Log>) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = Vec::new();
    while let Some((head, body)) = read_request(&mut stream, &mut buffer).await {
        let number = {
            let mut seen = log.seen.lock().unwrap();
            seen.push(Seen { connection, head, body });
            seen.len() - 1
        };
        let answer = answers.get(number).or(answers.last()).cloned().unwrap_or_default();
        for step in answer {
            match step {
                Step::Send(bytes) => {
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Step::SendEachByte(bytes) => {
                    for byte in bytes {
                        if stream.write_all(&[byte]).await.is_err() {
                            return;
                        }
                        tokio::task::yield_now().await;
                    }
                }
                Step::Hold => {
                    let mut rest = [0; 16];
                    let _ = stream.read(&mut rest).await;
                    log.abandoned.send_modify(|count| *count += 1);
                    return;
                }
                Step::Close => {
                    let _ = stream.shutdown().await;
                    return;
                }
                Step::Reset => {
                    stream.set_zero_linger().unwrap();
                    return;
                }
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let head_end = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer[..head_end].to_vec()).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned))
        .map_or(0, |length| length.parse::<usize>().unwrap());
    while buffer.len() < head_end + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let rest = buffer.split_off(head_end + length);
    let body = buffer[head_end..].to_vec();
    *buffer = rest;
    Some((head, body))
}

/// An event as the API writes it.
pub fn event(value: Value) -> String {
    format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or(""))
}

/// A short whole answer, with a ping and a multi-byte letter in it.
pub fn answer_events() -> String {
    [
        json!({"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 9}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Grüße"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
        json!({"type": "message_stop"}),
    ]
    .into_iter()
    .map(event)
    .collect()
}

/// Types of the events of [`answer_events`] that a reader is to see.
pub const ANSWER_TYPES: [&str; 6] = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
];

pub fn stream_head(framing: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nrequest-id: req_1\r\n{framing}\r\n\r\n"
    )
}

/// A streamed response in HTTP chunks, one per piece.
pub fn chunked<'a>(pieces: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let mut response = stream_head("transfer-encoding: chunked");
    for piece in pieces {
        response += &format!("{:x}\r\n{piece}\r\n", piece.len());
    }
    (response + "0\r\n\r\n").into_bytes()
}

/// A whole streamed answer.
pub fn whole_answer() -> Vec<u8> {
    chunked([answer_events().as_str()])
}

pub fn response(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len()).into_bytes()
}

pub fn json_response(status: &str, headers: &str, body: &Value) -> Vec<u8> {
    response(status, &format!("content-type: application/json\r\n{headers}"), &body.to_string())
}

pub fn api_error(status: &str, headers: &str, api_type: &str, message: &str) -> Vec<u8> {
    json_response(status, headers, &json!({"type": "error", "error": {"type": api_type, "message": message}}))
}

pub fn config(url: &str) -> ClientConfig {
    let mut config = ClientConfig::new(url, Credential::ApiKey(Secret::new("sk-ant-test")));
    // Long enough for a busy machine, short enough to notice a hang.
    config.timeouts.first_byte = Duration::from_secs(20);
    config.timeouts.idle = Duration::from_secs(20);
    config.timeouts.request = Duration::from_secs(20);
    config
}

pub fn client(server: &Server) -> AnthropicClient {
    AnthropicClient::new(config(&server.url)).unwrap()
}

pub fn message(role: Role, text: &str) -> WireMessage {
    WireMessage::new(role, &[json!({"type": "text", "text": text})]).unwrap()
}

pub fn request() -> ModelRequest {
    ModelRequest {
        model: "claude-opus-5-5".into(),
        max_tokens: 1000,
        system: Vec::new(),
        tools: "[]".into(),
        defers_tools: false,
        messages: vec![message(Role::User, "hi")],
        thinking: Thinking::Disabled,
        effort: None,
        task_budget: None,
        user_id: None,
        betas: Vec::new(),
        cache: CacheTtl::Off,
        extra_body: serde_json::Map::new(),
        agent: "main".into(),
    }
}

/// What came out of one call: the types of the events, and the error that ended it.
#[derive(Debug)]
pub struct Outcome {
    pub types: Vec<String>,
    pub error: Option<ModelError>,
}

impl Outcome {
    pub fn kind(&self) -> Option<ErrorKind> {
        self.error.as_ref().map(|error| error.kind)
    }
}

pub async fn read_all(stream: Result<ModelStream, ModelError>) -> Outcome {
    use futures_util::StreamExt;
    let mut outcome = Outcome { types: Vec::new(), error: None };
    let mut events = match stream {
        Ok(stream) => stream.events,
        Err(error) => return Outcome { error: Some(error), ..outcome },
    };
    while let Some(event) = events.next().await {
        assert!(outcome.error.is_none(), "something followed an error");
        match event {
            Ok(event) => outcome.types.push(event.raw["type"].as_str().unwrap_or("").to_owned()),
            Err(error) => outcome.error = Some(error),
        }
    }
    outcome
}

/// Sends one request to a server that answers with `steps`.
pub async fn one_call(steps: Vec<Step>) -> Outcome {
    let server = Server::start(vec![steps]).await;
    read_all(client(&server).stream(Arc::new(request())).await).await
}
