//! A server of pages on this machine, with and without TLS. It has one thread per connection, and they end with the
//! program.
#![allow(clippy::disallowed_methods, reason = "the server of the tests is made of threads")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// The page at `/page`.
pub const PAGE: &str = "<html><head><title>The title</title></head><body><script>no()</script>\
                        <h1>Head</h1><p>Words</p></body></html>";

/// The heads of requests, in the order in which they came.
type Seen = Arc<(Mutex<Vec<String>>, Condvar)>;

/// A running server.
pub struct PageServer {
    base: String,
    seen: Seen,
}

/// A certificate or key that was made for tests.
pub fn certificate(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../models/tests/tls");
    folder.join(name).display().to_string()
}

impl PageServer {
    /// Starts one for `http`.
    pub fn start() -> Self {
        Self::with("http", serve)
    }

    /// Starts one for `https`.
    pub fn start_tls() -> Self {
        let chain = vec![CertificateDer::from_pem_file(certificate("server.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(certificate("server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(builder.with_no_client_auth().with_single_cert(chain, key).unwrap());
        Self::with("https", move |stream, seen| {
            serve(StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream), seen);
        })
    }

    fn with(scheme: &str, serve: impl Fn(TcpStream, &Seen) + Send + Sync + 'static) -> Self {
        // Reached by several addresses of this machine.
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let base = format!("{scheme}://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let (seen, serve) = (Seen::default(), Arc::new(serve));
        let shared = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, serve) = (shared.clone(), serve.clone());
                std::thread::spawn(move || serve(stream, &seen));
            }
        });
        Self { base, seen }
    }

    /// The address of a page.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// The heads of all requests so far, in lower case but for the first line.
    pub fn requests(&self) -> Vec<String> {
        self.seen.0.lock().unwrap().clone()
    }

    /// Waits until there was a request.
    pub fn wait_for_a_request(&self) {
        let limit = Duration::from_secs(30);
        let guard = self.seen.0.lock().unwrap();
        let (_guard, timed_out) =
            self.seen.1.wait_timeout_while(guard, limit, |requests| requests.is_empty()).unwrap();
        assert!(!timed_out.timed_out(), "no question was asked");
    }
}

/// Answers one request. A client that goes away early is of no interest.
fn serve(mut stream: impl Read + Write, seen: &Seen) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            Ok(_) | Err(_) => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let (first, rest) = head.split_once("\r\n").unwrap_or((&head, ""));
    seen.0.lock().unwrap().push(format!("{first}\r\n{}", rest.to_lowercase()));
    seen.1.notify_all();
    drop(answer(&mut stream, &target));
}

fn answer(stream: &mut (impl Read + Write), target: &str) -> std::io::Result<()> {
    let mut reply = |head: &str, body: &[u8]| {
        let head = format!("HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).and_then(|()| stream.flush())
    };
    match target.split_once('?').unwrap_or((target, "")) {
        ("/page", _) => reply("200 OK\r\ncontent-type: text/html; charset=utf-8", PAGE.as_bytes()),
        ("/to", location) => reply(&format!("302 Found\r\nlocation: {location}"), b""),
        ("/large", _) => reply("200 OK\r\ncontent-type: text/html", &vec![b'x'; (10 << 20) + 1]),
        ("/bomb", _) => reply("200 OK\r\ncontent-type: text/html\r\ncontent-encoding: gzip", &bomb()),
        ("/picture", _) => reply("200 OK\r\ncontent-type: image/png", b"\x89PNG"),
        ("/cut", _) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 9\r\n\r\nhalf")
        }
        ("/endless", _) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n")?;
            let piece = vec![b'x'; 64 << 10];
            // Ends when the client has had enough.
            loop {
                stream.write_all(&piece)?;
            }
        }
        ("/silent", _) => {
            // Until the client goes away.
            let mut byte = [0];
            stream.read(&mut byte).map(drop)
        }
        _ => reply("404 Not Found", b"not here"),
    }
}

/// 12 MB of blanks, compressed.
fn bomb() -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let piece = vec![b' '; 1 << 20];
    (0..12).for_each(|_| encoder.write_all(&piece).unwrap());
    encoder.finish().unwrap()
}
