//! Reads one request: head, then body by length or by chunks. Every wait has a deadline and every buffer a bound. A
//! violation is refused with an API-shaped error and ends the connection, since the start of the next request is then
//! unknown.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Connection, Request};
use crate::render::{self, Reply};

/// The API's own limit on a request.
pub(crate) const MAX_BODY: usize = 32 * 1024 * 1024;
const MAX_HEAD: usize = 64 * 1024;
const MAX_HEADERS: usize = 128;
/// The time limit for an open connection without a request.
const IDLE: Duration = Duration::from_secs(600);
/// The time limit between two reads of a request.
const READ: Duration = Duration::from_secs(30);

pub(super) enum ReadError {
    /// The connection broke or went silent, so no response can be sent.
    Io,
    /// The request is invalid.
    Refused(Box<Reply>),
}

/// Returns the error that makes the connection send this response and close.
fn refuse(status: u16, kind: &str, message: &str) -> ReadError {
    ReadError::Refused(Box::new(render::api_error(0, status, kind, message)))
}

/// Returns the refusal (400) of a malformed request.
fn bad(message: &str) -> ReadError {
    refuse(400, "invalid_request_error", message)
}

/// How long the body is.
enum Length {
    Known(usize),
    Chunked,
}

struct Head {
    request: Request,
    length: Length,
    wants_continue: bool,
}

impl Connection {
    /// Reads the next request with its whole body, and first answers `expect: 100-continue`; `None` if the client has
    /// closed between two requests. What arrives beyond the request stays in the input. [`MAX_HEAD`] bounds a head only
    /// while its end is missing.
    pub(super) async fn read_request(&mut self) -> Result<Option<Request>, ReadError> {
        let head = loop {
            if let Some(head) = take_head(&mut self.input)? {
                break head;
            }
            if self.input.len() > MAX_HEAD {
                return Err(refuse(431, "invalid_request_error", "the request head is too large"));
            }
            let between_requests = self.input.is_empty();
            let limit = if between_requests { IDLE } else { READ };
            if !self.read_more(limit).await? {
                return if between_requests { Ok(None) } else { Err(ReadError::Io) };
            }
        };
        if head.wants_continue {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.map_err(|_| ReadError::Io)?;
        }
        let body = match head.length {
            Length::Known(length) => self.read_known(length).await?,
            Length::Chunked => self.read_chunks().await?,
        };
        Ok(Some(Request { body, ..head.request }))
    }

    /// Adds what arrives to the input, waiting at most `limit`. Returns false at the end of the input; a lost
    /// connection or a silence of `limit` is an error.
    async fn read_more(&mut self, limit: Duration) -> Result<bool, ReadError> {
        self.input.reserve(16 * 1024);
        match tokio::time::timeout(limit, self.stream.read_buf(&mut self.input)).await {
            Ok(Ok(count)) => Ok(count > 0),
            Ok(Err(_)) | Err(_) => Err(ReadError::Io),
        }
    }

    /// Takes exactly `length` bytes from the input, waiting for those that are missing. More than [`MAX_BODY`] is
    /// refused before memory is reserved.
    async fn read_known(&mut self, length: usize) -> Result<Bytes, ReadError> {
        if length > MAX_BODY {
            return Err(refuse(413, "request_too_large", "Request exceeds the maximum size"));
        }
        self.input.reserve(length.saturating_sub(self.input.len()));
        while self.input.len() < length {
            if !self.read_more(READ).await? {
                return Err(ReadError::Io);
            }
        }
        Ok(self.input.split_to(length).freeze())
    }

    /// Reads a body of chunks, at most [`MAX_BODY`] in all, up to and including its trailers, which are ignored.
    async fn read_chunks(&mut self) -> Result<Bytes, ReadError> {
        let mut body = BytesMut::new();
        loop {
            let size = self.read_line().await?;
            let digits = size.split(';').next().unwrap_or("").trim();
            let size = usize::from_str_radix(digits, 16).map_err(|_| bad("a chunk has no size"))?;
            if size == 0 {
                // Trailers, up to the empty line.
                while !self.read_line().await?.is_empty() {}
                return Ok(body.freeze());
            }
            if body.len().saturating_add(size) > MAX_BODY {
                return Err(refuse(413, "request_too_large", "Request exceeds the maximum size"));
            }
            body.extend_from_slice(&self.read_known(size).await?);
            if !self.read_line().await?.is_empty() {
                return Err(bad("a chunk is longer than it says"));
            }
        }
    }

    /// Reads a line of the chunk framing and returns it without its CRLF. A line that has fully arrived may be longer
    /// than [`MAX_HEAD`], since the bound applies only while the end is missing.
    async fn read_line(&mut self) -> Result<String, ReadError> {
        loop {
            if let Some(end) = self.input.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.input.split_to(end);
                self.input.advance(2);
                return String::from_utf8(line.to_vec()).map_err(|_| bad("a chunk line is not text"));
            }
            if self.input.len() > MAX_HEAD {
                return Err(bad("a chunk line is too long"));
            }
            if !self.read_more(READ).await? {
                return Err(ReadError::Io);
            }
        }
    }
}

/// Takes a complete head from the start of the input; `None`, with the input unchanged, while a part is missing.
fn take_head(input: &mut BytesMut) -> Result<Option<Head>, ReadError> {
    let mut slots = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut slots);
    let used = match parsed.parse(input) {
        Ok(httparse::Status::Complete(used)) => used,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(bad(&format!("not HTTP/1.1: {error}"))),
    };
    let mut headers = Vec::with_capacity(parsed.headers.len());
    for header in parsed.headers.iter() {
        let value = std::str::from_utf8(header.value).map_err(|_| bad("a header is not text"))?;
        headers.push((header.name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let one_one = parsed.version == Some(1);
    let find = |name: &str| headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let connection = find("connection").unwrap_or("").to_ascii_lowercase();
    let keep_alive = if one_one { !connection.contains("close") } else { connection.contains("keep-alive") };
    let length = length(&headers)?;
    let wants_continue = find("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue"));
    let request = Request {
        method: parsed.method.unwrap_or("").to_owned(),
        target: parsed.path.unwrap_or("").to_owned(),
        headers,
        body: Bytes::new(),
        keep_alive,
        chunked_allowed: one_one,
    };
    input.advance(used);
    Ok(Some(Head { request, length, wants_continue }))
}

/// Returns how the length of the body is given; 0 if it is not given, and the largest number if it is too large for
/// one. More than one statement of it is refused, even if they agree, because requests are smuggled that way; so is
/// every coding but `chunked`.
fn length(headers: &[(String, String)]) -> Result<Length, ReadError> {
    let all = |name: &str| {
        headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect::<Vec<_>>()
    };
    match (all("content-length").as_slice(), all("transfer-encoding").as_slice()) {
        ([], []) => Ok(Length::Known(0)),
        ([], [coding]) if coding.eq_ignore_ascii_case("chunked") => Ok(Length::Chunked),
        ([digits], []) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(Length::Known(digits.parse().unwrap_or(usize::MAX)))
        }
        _ => Err(bad("the length of the body is not clear")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(text: &str) -> Result<Option<Head>, ReadError> {
        take_head(&mut BytesMut::from(text))
    }

    #[test]
    fn a_head_is_taken_only_when_it_is_complete() {
        let text = "POST /v1/messages?a=b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
        for cut in 0..text.len() - 3 {
            assert!(matches!(head(&text[..cut]), Ok(None)), "cut at {cut}");
        }
        let mut input = BytesMut::from(text);
        let Ok(Some(head)) = take_head(&mut input) else { panic!("the head is complete") };
        assert_eq!(&input[..], b"abc");
        assert_eq!((head.request.path(), head.request.query("a")), ("/v1/messages", Some("b")));
        assert!(matches!(head.length, Length::Known(3)) && head.request.keep_alive);
    }

    #[test]
    fn a_doubtful_length_is_refused() {
        let with = |lines: &str| head(&format!("POST / HTTP/1.1\r\n{lines}\r\n"));
        for lines in [
            "content-length: 1\r\ncontent-length: 2\r\n",
            "content-length: 1\r\ntransfer-encoding: chunked\r\n",
            "content-length: +1\r\n",
            "content-length: \r\n",
            "transfer-encoding: gzip\r\n",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
        ] {
            assert!(matches!(with(lines), Err(ReadError::Refused(_))), "{lines:?}");
        }
        assert!(matches!(
            with("transfer-encoding: chunked\r\n"),
            Ok(Some(Head { length: Length::Chunked, .. }))
        ));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = take_head(&mut BytesMut::from(&bytes[..]));
        }
    }
}
