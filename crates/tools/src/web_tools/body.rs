//! From the bytes of a response to the text of a page: decompressed within a limit, decoded, and converted if it is
//! HTML.

use std::io::Read;

use encoding_rs::{Encoding, UTF_8};
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use lathe_protocol::web::PageReply;

use super::markdown;
use crate::stoppable::Stop;

/// Bytes of a page, decompressed.
pub(crate) const MAX_BYTES: usize = 10 << 20;

/// How far into a page its encoding is looked for.
const PRESCAN: usize = 1024;

/// The text of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageText {
    pub text: String,
    /// Bytes of the page, decompressed.
    pub bytes: usize,
}

/// Why a response has no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the page is larger than {} MB", MAX_BYTES >> 20)]
    TooLarge,
    #[error("the page is compressed in a way that was not asked for ({0})")]
    UnknownEncoding(String),
    #[error("the page cannot be decompressed: {0}")]
    Corrupt(String),
    #[error("the content is of the type {0}, which is not text; download it with a command")]
    NotText(String),
    #[error("the page took too long to convert")]
    Stopped,
}

/// What the content of a response is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContentKind {
    Html,
    Text,
    Other,
}

/// Returns the text of a response: decompressed, decoded, and as Markdown if it is HTML. Fails if it is not text, is
/// compressed in an unknown way, cannot be decompressed or becomes too large by that, or if `stop` is set; a body that is
/// not compressed is not limited here, because the request limits it. Characters that cannot be decoded become U+FFFD.
/// Meant for the blocking pool, because it takes as long as the page is large.
pub(crate) fn text_of(reply: PageReply, stop: &Stop) -> Result<PageText, BodyError> {
    let content_type = reply.content_type.unwrap_or_default();
    let body = decompressed(reply.body, reply.content_encoding.as_deref(), stop)?;
    let bytes = body.len();
    let kind = kind_of(&content_type, &body);
    if kind == ContentKind::Other {
        let media_type = content_type.split(';').next().unwrap_or_default().trim().to_owned();
        let named = if media_type.is_empty() { "unknown".to_owned() } else { media_type };
        return Err(BodyError::NotText(named));
    }
    let text = decoded(body, &content_type);
    let text = match kind {
        ContentKind::Html => markdown::from_html(&text, stop).map_err(|_stopped| BodyError::Stopped)?,
        ContentKind::Text | ContentKind::Other => text,
    };
    Ok(PageText { text, bytes })
}

/// Returns the decompressed body; an encoding that is not known is an error. The limit on its size holds while it is
/// decompressed, so that a small body cannot become a large one.
fn decompressed(body: Vec<u8>, encoding: Option<&str>, stop: &Stop) -> Result<Vec<u8>, BodyError> {
    let encoding = encoding.unwrap_or_default().trim().to_ascii_lowercase();
    match encoding.as_str() {
        "" | "identity" => Ok(body),
        "gzip" | "x-gzip" => read_all(MultiGzDecoder::new(body.as_slice()), stop),
        // Some servers leave out the header that belongs to it.
        "deflate" if body.first().is_some_and(|first| first & 0x0f == 8) => {
            read_all(ZlibDecoder::new(body.as_slice()), stop)
        }
        "deflate" => read_all(DeflateDecoder::new(body.as_slice()), stop),
        _ => Err(BodyError::UnknownEncoding(encoding)),
    }
}

/// Reads a decoded body to its end. More than [`MAX_BYTES`] is an error, and so is a stop, which is checked for every
/// piece.
fn read_all(mut reader: impl Read, stop: &Stop) -> Result<Vec<u8>, BodyError> {
    let mut all = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        if stop.is_set() {
            return Err(BodyError::Stopped);
        }
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(all),
            Ok(count) if count > MAX_BYTES - all.len() => return Err(BodyError::TooLarge),
            Ok(count) => all.extend_from_slice(&buffer[..count]),
            Err(error) => return Err(BodyError::Corrupt(error.to_string())),
        }
    }
}

/// Returns what a body is, by the declared type, or without one by its first bytes.
fn kind_of(content_type: &str, body: &[u8]) -> ContentKind {
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (kind, subtype) = media_type.split_once('/').unwrap_or((media_type.as_str(), ""));
    match (kind, subtype) {
        ("text", "html") | ("application", "xhtml+xml") => ContentKind::Html,
        ("text", _) => ContentKind::Text,
        (
            "application",
            "json" | "xml" | "javascript" | "ecmascript" | "yaml" | "x-yaml" | "toml" | "sql",
        ) => ContentKind::Text,
        ("application" | "image" | "model", subtype)
            if subtype.ends_with("+json") || subtype.ends_with("+xml") =>
        {
            ContentKind::Text
        }
        ("", _) => sniffed(body),
        _ => ContentKind::Other,
    }
}

/// Returns the kind of a body by its first bytes, for a response that does not say it: not text if there is a zero
/// byte, HTML if it begins with `<`, otherwise text, also if it is empty.
fn sniffed(body: &[u8]) -> ContentKind {
    let start = &body[..body.len().min(PRESCAN)];
    if start.contains(&0) {
        return ContentKind::Other;
    }
    let first = start.iter().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(&b'<') { ContentKind::Html } else { ContentKind::Text }
}

/// Decodes a body by its byte order mark, or else the declared encoding, or else the one that the page names, or else
/// as UTF-8. What cannot be decoded becomes U+FFFD.
fn decoded(body: Vec<u8>, content_type: &str) -> String {
    let marked = Encoding::for_bom(&body).map(|(encoding, _)| encoding);
    let declared = || charset_in(content_type.as_bytes());
    let named = || charset_in(&body[..body.len().min(PRESCAN)]);
    let encoding = marked.or_else(declared).or_else(named).unwrap_or(UTF_8);
    if encoding == UTF_8 && marked.is_none() {
        // Without a copy, in the usual case.
        return match String::from_utf8(body) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
    }
    encoding.decode(&body).0.into_owned()
}

/// Returns the encoding that follows the first `charset=` in a text; `None` if there is none or its name is unknown.
fn charset_in(text: &[u8]) -> Option<&'static Encoding> {
    const KEY: &[u8] = b"charset=";
    let at = text.windows(KEY.len()).position(|window| window.eq_ignore_ascii_case(KEY))?;
    let label = text[at + KEY.len()..].trim_ascii_start();
    let label = label.strip_prefix(b"\"").or_else(|| label.strip_prefix(b"'")).unwrap_or(label);
    let end = label.iter().position(|byte| !(byte.is_ascii_alphanumeric() || b"-_:.".contains(byte)));
    Encoding::for_label(&label[..end.unwrap_or(label.len())])
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn read(
        content_type: &str,
        encoding: Option<&str>,
        body: impl Into<Vec<u8>>,
    ) -> Result<String, BodyError> {
        let reply = PageReply {
            content_type: Some(content_type.to_owned()).filter(|kind| !kind.is_empty()),
            content_encoding: encoding.map(str::to_owned),
            body: body.into(),
            ..PageReply::default()
        };
        text_of(reply, &Stop::default()).map(|page| page.text)
    }

    #[test]
    fn content_is_told_by_its_type() {
        let html = "<p>a</p>";
        assert_eq!(read("text/html; charset=utf-8", None, html).unwrap(), "a");
        assert_eq!(read("application/xhtml+xml", None, html).unwrap(), "a");
        assert_eq!(read("", None, " <p>a</p>").unwrap(), "a");
        for kind in
            ["text/plain", "text/markdown", "application/json", "application/ld+json", "image/svg+xml"]
        {
            assert_eq!(read(kind, None, html).unwrap(), html, "{kind}");
        }
        assert_eq!(read("", None, "plain").unwrap(), "plain");
        for (kind, body) in [("image/png", "x"), ("application/pdf", "%PDF"), ("", "a\0b")] {
            let named = if kind.is_empty() { "unknown" } else { kind };
            assert_eq!(read(kind, None, body), Err(BodyError::NotText(named.to_owned())));
        }
    }

    #[test]
    fn compressed_pages_are_read() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(b"hello").unwrap();
        let gzip = gzip.finish().unwrap();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(b"hello").unwrap();
        let zlib = zlib.finish().unwrap();
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::fast());
        deflate.write_all(b"hello").unwrap();
        let deflate = deflate.finish().unwrap();
        for (encoding, body) in
            [("gzip", gzip.clone()), ("X-GZip", gzip.clone()), ("deflate", zlib), ("deflate", deflate)]
        {
            assert_eq!(read("text/plain", Some(encoding), body).unwrap(), "hello", "{encoding}");
        }
        assert!(matches!(
            read("text/plain", Some("gzip"), &gzip[..gzip.len() - 9]),
            Err(BodyError::Corrupt(_))
        ));
        assert_eq!(read("text/plain", Some("br"), "x"), Err(BodyError::UnknownEncoding("br".to_owned())));
    }

    #[test]
    fn a_compressed_bomb_is_too_large() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let blanks = vec![b' '; 1 << 20];
        (0..12).for_each(|_| encoder.write_all(&blanks).unwrap());
        let bomb = encoder.finish().unwrap();
        assert!(bomb.len() < 200 << 10, "{} bytes", bomb.len());
        assert_eq!(read("text/html", Some("gzip"), bomb), Err(BodyError::TooLarge));
    }

    #[test]
    fn text_is_decoded_as_it_says() {
        assert_eq!(read("text/plain; charset=ISO-8859-1", None, b"caf\xe9".as_slice()).unwrap(), "café");
        let page = b"<meta charset=\"shift_jis\"><p>\x83\x65\x83\x58\x83\x67".as_slice();
        assert_eq!(read("text/html", None, page).unwrap(), "テスト");
        assert_eq!(read("text/plain", None, b"\xef\xbb\xbfabc".as_slice()).unwrap(), "abc");
        assert_eq!(read("text/plain", None, b"\xff\xfea\0b\0".as_slice()).unwrap(), "ab");
        assert_eq!(read("text/plain", None, b"a\xffb".as_slice()).unwrap(), "a\u{fffd}b");
        assert_eq!(read("text/plain; charset=nonsense", None, "é").unwrap(), "é");
    }
}
