//! What must never reach a recording or a log: credentials by the header that carries them, and their values wherever
//! else they occur.

use std::sync::LazyLock;

use bytes::Bytes;
use regex::bytes::Regex;

use crate::script::Chunk;

const REMOVED: &[u8] = b"(removed)";
/// Shorter values would match by accident.
const MIN_SECRET: usize = 8;

/// API keys by their form, for those that were not in a header.
static KEY: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"sk-[a-zA-Z0-9]{2,}-[a-zA-Z0-9_-]{8,}").expect("the pattern is fixed"));

/// Returns whether a header carries a credential or identifies the account, so that its value must not reach a file.
/// `name` must be in lower case.
pub(crate) fn is_secret_header(name: &str) -> bool {
    matches!(
        name,
        "authorization" | "proxy-authorization" | "cookie" | "set-cookie" | "anthropic-organization-id"
    ) || name.contains("api-key")
        || (name.contains("token") && !name.starts_with("anthropic-ratelimit-"))
        || name.contains("secret")
}

/// The secret values of one exchange.
pub(super) struct Secrets(Vec<Vec<u8>>);

impl Secrets {
    /// Returns the secrets in the headers of a request.
    pub(super) fn of_request(headers: &[(String, String)]) -> Self {
        Self(Vec::new()).and(headers)
    }

    /// Adds the secrets in the headers of the response, such as new cookies. Must be called before
    /// [`Secrets::removed_from`].
    pub(super) fn and_response(self, headers: &[(String, String)]) -> Self {
        self.and(headers)
    }

    /// Adds the values of secret headers: without `Bearer `, divided at `;`, and of `name=value` only the value. Short
    /// values are skipped, see [`MIN_SECRET`].
    fn and(mut self, headers: &[(String, String)]) -> Self {
        for (name, value) in headers {
            if is_secret_header(name) {
                let value = value.strip_prefix("Bearer ").unwrap_or(value);
                let parts =
                    value.split(';').map(|part| part.split_once('=').map_or(part, |(_, value)| value).trim());
                self.0.extend(
                    parts.filter(|part| part.len() >= MIN_SECRET).map(|part| part.as_bytes().to_vec()),
                );
            }
        }
        self
    }

    /// Returns the chunks with each secret and each API key replaced by `(removed)`. Without any they stay as they are;
    /// otherwise they become one chunk, since a secret may have been split between two.
    pub(super) fn removed_from(&self, chunks: Vec<Chunk>) -> Vec<Chunk> {
        let whole: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.0.iter().copied()).collect();
        let mut clean = KEY.replace_all(&whole, REMOVED).into_owned();
        for secret in &self.0 {
            clean = replace(&clean, secret);
        }
        if clean == whole { chunks } else { vec![Chunk(Bytes::from(clean))] }
    }
}

/// Returns the text with every occurrence of `secret`, which must not be empty, replaced by [`REMOVED`].
fn replace(text: &[u8], secret: &[u8]) -> Vec<u8> {
    let mut clean = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.windows(secret.len()).position(|window| window == secret) {
        clean.extend_from_slice(&rest[..place]);
        clean.extend_from_slice(REMOVED);
        rest = &rest[place + secret.len()..];
    }
    clean.extend_from_slice(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    fn chunks(texts: &[&str]) -> Vec<Chunk> {
        texts.iter().map(|text| Chunk(Bytes::copy_from_slice(text.as_bytes()))).collect()
    }

    #[test]
    fn a_secret_cut_in_two_is_still_found() {
        let secrets = Secrets::of_request(&[header("authorization", "Bearer topsecret-1234")])
            .and_response(&[header("set-cookie", "sid=cookievalue; Path=/")]);
        let clean = secrets.removed_from(chunks(&["you sent topsec", "ret-1234 and cookievalue"]));
        assert_eq!(clean, chunks(&["you sent (removed) and (removed)"]));
    }

    #[test]
    fn chunks_without_a_secret_stay_as_they_came() {
        let secrets = Secrets::of_request(&[header("x-api-key", "short")]);
        let body = chunks(&["a short ", "story"]);
        assert_eq!(secrets.removed_from(body.clone()), body);
    }

    #[test]
    fn keys_are_known_by_their_look() {
        let clean = Secrets::of_request(&[]).removed_from(chunks(&["key sk-ant-REDACTED!"]));
        assert_eq!(clean, chunks(&["key (removed)!"]));
    }
}
