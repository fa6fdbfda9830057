//! What the integration tests share: a server for a script, and a client that shows every byte.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use lathe_scripted::{Script, ServeOptions, ServerHandle, serve};
use serde_json::{Value, json};

pub fn script(text: &str) -> Script {
    Script::parse("test.yaml", text).unwrap()
}

pub async fn server(text: &str) -> ServerHandle {
    serve(script(text), ServeOptions::default()).await.unwrap()
}

pub fn body(stream: bool) -> Value {
    json!({"model": "m", "max_tokens": 100, "stream": stream, "messages": [{"role": "user", "content": "hello"}]})
}

pub fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nx-api-key: secret-key-1\r\nanthropic-version: 2023-06-01\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// How a connection ended.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum End {
    Closed,
    Reset,
    Open,
}

/// What came back on a connection, and how it ended.
#[derive(Debug)]
pub struct Heard {
    pub bytes: Vec<u8>,
    pub end: End,
}

impl Heard {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub fn status(&self) -> u16 {
        self.text()
            .split(' ')
            .nth(1)
            .unwrap_or_else(|| panic!("no status line: {:?}", self.text()))
            .parse()
            .unwrap()
    }

    /// The body of a response with a length.
    pub fn json(&self) -> Value {
        let text = self.text();
        serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

/// Sends `request` as it is and reads until the end, or until nothing came for `quiet`.
pub fn talk(addr: SocketAddr, request: &[u8], quiet: Duration) -> Heard {
    let mut stream = TcpStream::connect(addr).unwrap();
    // A server that has refused the request need not read all of it.
    let _ = stream.write_all(request);
    listen(&mut stream, quiet)
}

pub fn listen(stream: &mut TcpStream, quiet: Duration) -> Heard {
    stream.set_read_timeout(Some(quiet)).unwrap();
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Heard { bytes, end: End::Closed },
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                return Heard { bytes, end: End::Reset };
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Heard { bytes, end: End::Open };
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// [`talk`] from an async test, on a connection that is kept.
pub async fn ask_keeping(server: &ServerHandle, request: String) -> Heard {
    let addr = server.addr();
    tokio::task::spawn_blocking(move || talk(addr, request.as_bytes(), Duration::from_millis(300)))
        .await
        .unwrap()
}

/// One request on a connection of its own.
pub async fn ask(server: &ServerHandle, request: String) -> Heard {
    ask_keeping(server, request.replacen("\r\n", "\r\nconnection: close\r\n", 1)).await
}
