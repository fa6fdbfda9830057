//! Headers that the user adds to every request.

use reqwest::header::{self, HeaderName, HeaderValue};

/// The headers of `ANTHROPIC_CUSTOM_HEADERS`, and warnings about its text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CustomHeaders {
    headers: Vec<(HeaderName, HeaderValue)>,
    /// The lines that were left out. Values are not repeated: they may be secret.
    pub warnings: Vec<String>,
}

/// Headers that belong to the client: they frame the message, or identify the client.
const OWN: [HeaderName; 7] = [
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONTENT_TYPE,
    header::CONNECTION,
    header::HOST,
    header::USER_AGENT,
    header::ACCEPT,
];

impl CustomHeaders {
    /// Reads one `Name: value` per line. A line that cannot be sent, or that names one of the client's own headers, is
    /// left out with a warning and is not an error: the other headers still count.
    pub fn parse(text: &str) -> Self {
        let mut parsed = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match parse_line(line) {
                Ok((name, _)) if OWN.contains(&name) => {
                    parsed.warnings.push(format!("the header {name} cannot be replaced"));
                }
                Ok(header) => parsed.headers.push(header),
                Err(warning) => parsed.warnings.push(warning),
            }
        }
        parsed
    }

    /// Returns the headers in the order in which they were given.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(HeaderName, HeaderValue)> {
        self.headers.iter()
    }

    /// Returns whether one of the headers carries a credential. Then none is searched elsewhere.
    pub(super) fn authorises(&self) -> bool {
        self.headers.iter().any(|(name, _)| name == header::AUTHORIZATION || name == "x-api-key")
    }
}

/// Parses `Name: value`. The value is marked as sensitive, so that debug output hides it; an error names the header but
/// never repeats its value.
fn parse_line(line: &str) -> Result<(HeaderName, HeaderValue), String> {
    let Some((name, value)) = line.split_once(':') else {
        return Err("a custom header has no `:` between name and value".to_owned());
    };
    let name = name.trim();
    let Ok(parsed) = HeaderName::from_bytes(name.as_bytes()) else {
        return Err(format!("{name:?} is not the name of a header"));
    };
    let Ok(mut value) = HeaderValue::from_str(value.trim()) else {
        return Err(format!("the value of the header {parsed} cannot be sent"));
    };
    value.set_sensitive(true);
    Ok((parsed, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lines_and_says_what_it_left_out() {
        let text = "X-Foo: bar:baz\r\n\n  authorization:Bearer hunter2 \nno colon\nbad name: x\nUser-Agent: x\nX-Bad: a\u{7}b";
        let parsed = CustomHeaders::parse(text);
        let names: Vec<_> = parsed.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(names, [("x-foo", &b"bar:baz"[..]), ("authorization", b"Bearer hunter2")]);
        assert_eq!(parsed.warnings.len(), 4, "{:?}", parsed.warnings);
        assert!(parsed.authorises());
        assert!(!format!("{parsed:?}").contains("hunter2"));
        assert!(!CustomHeaders::parse("x: y").authorises());
    }
}
