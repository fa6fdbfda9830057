//! Interprets responses other than the wanted one, and reads bodies with a bound on their size.

use std::error::Error;
use std::time::Duration;

use reqwest::header::{self, HeaderMap};
use reqwest::{Response, Url};
use serde_json::Value;

use super::host;
use crate::error::{ErrorKind, ModelError};

/// The most bytes of an error body that are read.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// The most bytes of a whole response that are read.
const MAX_JSON_BODY: usize = 32 * 1024 * 1024;
/// The most characters that are shown of a body that is not an API error.
const SHOWN_CHARS: usize = 300;

/// Returns the id that the API gave to the request, for its support; `None` if the response has none.
pub(super) fn request_id(response: &Response) -> Option<String> {
    header_text(response.headers(), "request-id").map(str::to_owned)
}

/// Returns the value of a header; `None` if it is missing or not visible ASCII.
fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the error that a response with a status other than 200 stands for. Reads up to [`MAX_ERROR_BODY`] of the
/// body; if it does not arrive, the status alone decides.
pub(super) async fn refusal(response: Response, idle: Duration) -> ModelError {
    let status = response.status().as_u16();
    let id = request_id(&response);
    let retry_after = retry_after(response.headers());
    let location = response.headers().get(header::LOCATION).cloned();
    // If the body does not arrive, or not completely, the status alone decides.
    let body = read_up_to(response, MAX_ERROR_BODY, idle).await.0;
    let mut error = match status {
        300..400 => redirect(status, location.as_ref().and_then(|location| location.to_str().ok())),
        _ => from_body(Some(status), &body),
    };
    error.retry_after = retry_after;
    error.request_id = id.or(error.request_id);
    error
}

/// Returns the error in a body: the API's object, or the beginning of any other text.
pub(super) fn from_body(status: Option<u16>, body: &[u8]) -> ModelError {
    let parsed: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let told = &parsed["error"];
    let message = match told["message"].as_str().or_else(|| told.as_str()) {
        Some(message) if !message.is_empty() => message,
        Some(_) | None => &shown(body),
    };
    let mut error = ModelError::from_api(status, told["type"].as_str(), message);
    error.request_id = parsed["request_id"].as_str().map(str::to_owned);
    error
}

/// Returns the error for a redirect. It names only the host of the target, because the rest of an address may hold
/// secrets.
fn redirect(status: u16, location: Option<&str>) -> ModelError {
    let target = location.and_then(|location| Url::parse(location).ok());
    let target = target.map_or_else(|| "another address".to_owned(), |url| host(&url));
    let message = format!(
        "the server redirects to {target}; redirects are not followed, so that no key is sent there: use \
         the final address as base URL"
    );
    ModelError::from_api(Some(status), None, &message)
}

/// Returns the beginning of a body on one line, for messages; `no message` if it has no visible text.
pub(super) fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * SHOWN_CHARS)]);
    let words: Vec<_> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|c| !c.is_control()).take(SHOWN_CHARS).collect();
    if line.is_empty() { "no message".to_owned() } else { line }
}

/// Returns the wait that `retry-after` asks for, in seconds or as a date; `None` if it is missing or cannot be read. A
/// date is compared with the server's own `date`: two clocks that disagree do not cause a wait, and a test needs no
/// clock.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = header_text(headers, "retry-after")?.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let now = httpdate::parse_http_date(header_text(headers, "date")?).ok()?;
    Some(until.duration_since(now).unwrap_or(Duration::ZERO))
}

/// Returns the error of a request without a response. Only a lost connection is retried, not a certificate that is not
/// trusted or a request that cannot be sent.
pub(super) fn unreachable(base: &Url, error: reqwest::Error) -> ModelError {
    let connecting = error.is_connect();
    let unsendable = error.is_builder();
    let error = error.without_url();
    let reason = describe(&error);
    if is_certificate_error(&error) {
        let message = format!(
            "{} shows a certificate that is not trusted: {reason}. hint: name your company's certificates in \
             NODE_EXTRA_CA_CERTS",
            host(base)
        );
        return ModelError::new(ErrorKind::InvalidRequest, message);
    }
    if unsendable {
        return ModelError::new(ErrorKind::InvalidRequest, format!("the request cannot be sent: {reason}"));
    }
    let what = if connecting { "cannot reach" } else { "lost the connection to" };
    ModelError::new(ErrorKind::Connection, format!("{what} {}: {reason}", host(base)))
}

/// Returns whether a certificate was refused, which a retry does not change. The error is inside I/O errors whose
/// `source` skips the error they hold, so each of them is unwrapped.
fn is_certificate_error(error: &(dyn Error + 'static)) -> bool {
    let is_tls = matches!(error.downcast_ref(), Some(rustls::Error::InvalidCertificate(_)));
    let held = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    is_tls
        || held.is_some_and(|error| is_certificate_error(error))
        || error.source().is_some_and(is_certificate_error)
}

/// Returns the text of the innermost cause, because the layers above it only describe themselves.
pub(crate) fn describe(error: &dyn Error) -> String {
    let mut reason = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        reason = error.to_string();
        cause = error.source();
    }
    reason
}

/// Reads a whole JSON response within `patience`, at most [`MAX_JSON_BODY`]. An error object in it is an error,
/// whatever the status.
pub(super) async fn json(response: Response, patience: Duration) -> Result<Value, ModelError> {
    let (body, end) =
        match tokio::time::timeout(patience, read_up_to(response, MAX_JSON_BODY, patience)).await {
            Ok(read) => read,
            Err(_) => (Vec::new(), End::Stalled),
        };
    match end {
        End::Whole => {}
        End::TooLong => return Err(ModelError::new(ErrorKind::Protocol, "the answer is too large")),
        End::Stalled => {
            let message = format!("the answer was not complete after {} s", patience.as_secs_f32());
            return Err(ModelError::new(ErrorKind::Stalled, message));
        }
        End::Broken(reason) => return Err(super::events::cut(&reason)),
    }
    match serde_json::from_slice::<Value>(&body) {
        Ok(value) if value["type"] == "error" => Err(from_body(None, &body)),
        Ok(value) => Ok(value),
        Err(_) => Err(ModelError::new(
            ErrorKind::Protocol,
            format!("the answer is not JSON but begins with: {}", shown(&body)),
        )),
    }
}

/// How reading a body ended.
enum End {
    Whole,
    TooLong,
    Stalled,
    Broken(String),
}

/// Reads at most `limit` bytes of a body, waiting at most `idle` for each chunk. What was read is returned however the
/// reading ended; only [`End::Whole`] means that it is complete.
async fn read_up_to(mut response: Response, limit: usize, idle: Duration) -> (Vec<u8>, End) {
    let mut body = Vec::new();
    loop {
        match tokio::time::timeout(idle, response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                let room = limit - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if chunk.len() > room {
                    return (body, End::TooLong);
                }
            }
            Ok(Ok(None)) => return (body, End::Whole),
            Ok(Err(error)) => return (body, End::Broken(describe(&error.without_url()))),
            Err(_) => return (body, End::Stalled),
        }
    }
}

/// Returns up to [`MAX_ERROR_BODY`] of a body that should have been something else; what has arrived if it breaks off.
pub(super) async fn beginning(response: Response, idle: Duration) -> Vec<u8> {
    read_up_to(response, MAX_ERROR_BODY, idle).await.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_by_the_servers_clock() {
        let wait = |pairs: &[(&'static str, &str)]| retry_after(&headers(pairs)).map(|wait| wait.as_millis());
        assert_eq!(wait(&[("retry-after", "30")]), Some(30_000));
        assert_eq!(wait(&[("retry-after", " 1.5 ")]), Some(1500));
        assert_eq!(wait(&[("retry-after", "-1")]), None);
        assert_eq!(wait(&[("retry-after", "NaN")]), None);
        assert_eq!(wait(&[("retry-after", "soon")]), None);
        assert_eq!(wait(&[]), None);
        let until = ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT");
        assert_eq!(wait(&[until, ("date", "Sun, 06 Nov 1994 08:49:37 GMT")]), Some(30_000));
        assert_eq!(wait(&[until, ("date", "Sun, 06 Nov 1994 09:49:37 GMT")]), Some(0));
        assert_eq!(wait(&[until]), None);
    }

    #[test]
    fn the_apis_own_words_are_preferred() {
        let body =
            br#"{"type":"error","error":{"type":"rate_limit_error","message":"slow"},"request_id":"req_1"}"#;
        let error = from_body(Some(429), body);
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::RateLimit, "slow"));
        assert_eq!(error.api_type.as_deref(), Some("rate_limit_error"));
        assert_eq!(error.request_id.as_deref(), Some("req_1"));
        assert_eq!(from_body(Some(500), br#"{"error":"plain"}"#).message, "plain");
        let wordless = from_body(None, br#"{"error":{"type":"overloaded_error"}}"#);
        assert_eq!(wordless.kind, ErrorKind::Overloaded);
        assert!(wordless.message.contains("overloaded_error"));
    }

    #[test]
    fn other_bodies_are_shown_in_part_and_on_one_line() {
        let page = format!("<html>\n\n<title>Bad\tGateway</title>\u{1b}[31m{}", "x".repeat(100_000));
        let error = from_body(Some(502), page.as_bytes());
        assert_eq!(error.kind, ErrorKind::Server);
        assert!(error.message.starts_with("<html> <title>Bad Gateway</title>[31m"), "{}", error.message);
        assert!(error.message.chars().count() <= SHOWN_CHARS);
        assert_eq!(from_body(Some(500), b"").message, "no message");
        assert_eq!(from_body(Some(500), b"\xFF\xFE").message, "\u{FFFD}\u{FFFD}");
    }

    #[test]
    fn a_redirect_names_the_host_only() {
        let error = redirect(307, Some("https://evil.example/steal?key=hunter2"));
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
        assert!(error.message.contains("evil.example;"), "{}", error.message);
        assert!(!error.message.contains("hunter2"));
        assert!(redirect(302, Some("/relative")).message.contains("another address"));
    }
}
