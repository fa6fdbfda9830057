//! A string that must not end up in a log.

use std::fmt;
use std::sync::Arc;

/// The shortest secret whose last characters may be shown: of a shorter one they would reveal too much.
const SHOW_TAIL_FROM: usize = 20;

/// A key or token. It prints as `sk-ant-…wxyz`; only [`Secret::expose`] returns the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a secret, without the white space that files and shells leave around it.
    pub fn new(text: &str) -> Self {
        Self(text.trim().into())
    }

    /// Returns the secret itself. Use it only for the header that carries it; the debug and display forms hide it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns whether the secret is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.starts_with("sk-ant-") {
            f.write_str("sk-ant-")?;
        }
        f.write_str("…")?;
        let length = self.0.chars().count();
        if length >= SHOW_TAIL_FROM {
            self.0.chars().skip(length - 4).try_for_each(|c| write!(f, "{c}"))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_kind_and_the_tail_only() {
        let key = Secret::new(" sk-ant-api03-0123456789abcdefwxyz\n");
        assert_eq!(key.to_string(), "sk-ant-…wxyz");
        assert_eq!(format!("{key:?}"), "Secret(sk-ant-…wxyz)");
        assert_eq!(key.expose(), "sk-ant-api03-0123456789abcdefwxyz");
        assert_eq!(Secret::new("sk-ant-short").to_string(), "sk-ant-…");
        assert_eq!(Secret::new("hunter2").to_string(), "…");
        assert_eq!(Secret::new("a-bearer-token-of-some-length-é").to_string(), "…th-é");
    }
}
