//! Parses server-sent events from bytes that may be split anywhere.
//!
//! A push parser: bytes in, events out, no I/O and no clock; timeouts and reconnecting belong to the client. Two points
//! differ from the browser's rules on purpose: [`SseParser::finish`] returns an event that lacks its closing blank line
//! (some proxies swallow the last newline), and an event larger than the cap is refused, because an endless `data:`
//! line must not become an endless buffer.

/// The largest event accepted by [`SseParser::new`]. A real response stays far below it; the API's own request limit is
/// 32 MB.
pub const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event:` field, empty if there was none.
    pub name: String,
    /// The `data:` lines joined by newlines.
    pub data: String,
}

/// An event exceeded the cap. The parser cannot be used any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a server-sent event is larger than {limit} bytes")]
pub struct EventTooLarge {
    /// The cap that was exceeded.
    pub limit: usize,
}

/// The parser's state between two pushes.
#[derive(Debug)]
pub struct SseParser {
    limit: usize,
    /// The line being read, without its terminator.
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    /// Whether a `data` field was seen: `data:` alone is an event with empty data.
    has_data: bool,
    after_cr: bool,
    first_line: bool,
    overflowed: bool,
}

impl Default for SseParser {
    fn default() -> Self {
        Self::new()
    }
}

impl SseParser {
    /// Returns a parser with the usual cap, [`MAX_EVENT_BYTES`].
    pub fn new() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }

    /// Returns a parser that refuses events of more than `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_cr: false,
            first_line: true,
            overflowed: false,
        }
    }

    /// Parses the next bytes and appends the events they complete to `events`. On an error the events completed before
    /// it have been appended, and every further call fails.
    pub fn push(&mut self, mut bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), EventTooLarge> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            if bytes[0] == b'\n' {
                bytes = &bytes[1..];
            }
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.extend_line(&bytes[..end])?;
            self.end_line(events);
            let crlf = bytes[end] == b'\r' && bytes.get(end + 1) == Some(&b'\n');
            self.after_cr = bytes[end] == b'\r' && end + 1 == bytes.len();
            bytes = &bytes[end + if crlf { 2 } else { 1 }..];
        }
        self.extend_line(bytes)
    }

    /// Ends the stream and returns the event that was still open; `None` if it has no data or the parser has failed.
    pub fn finish(&mut self) -> Option<SseEvent> {
        if self.overflowed {
            return None;
        }
        let mut events = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut events);
        }
        self.dispatch(&mut events);
        events.pop()
    }

    /// Adds bytes to the open line. The cap is on the whole event, so the fields read before count too; after an
    /// overflow every call fails.
    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), EventTooLarge> {
        let size = self.line.len() + bytes.len() + self.data.len() + self.name.len();
        if self.overflowed || size > self.limit {
            self.overflowed = true;
            return Err(EventTooLarge { limit: self.limit });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Handles a complete line: an empty one ends the event, any other is a field. A byte order mark is removed from
    /// the first line of the stream only.
    fn end_line(&mut self, events: &mut Vec<SseEvent>) {
        let mut buffer = std::mem::take(&mut self.line);
        let mut line = buffer.as_slice();
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            self.dispatch(events);
        } else {
            self.field(line);
        }
        buffer.clear();
        self.line = buffer;
    }

    /// Reads a `key: value` line into the open event. Only one space after the colon is removed.
    fn field(&mut self, line: &[u8]) {
        let (key, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &b""[..]),
        };
        match key {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            // `id` and `retry` are for reconnecting, which a POSTed stream cannot do; an empty key is a comment.
            _ => {}
        }
    }

    /// Ends the open event and appends it, unless it had no `data` field: such an event is dropped together with its
    /// name.
    fn dispatch(&mut self, events: &mut Vec<SseEvent>) {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        if std::mem::take(&mut self.has_data) {
            events.push(SseEvent { name: into_text(name), data: into_text(data) });
        }
    }
}

/// Returns bytes as text; bytes that are not UTF-8 become U+FFFD. Copies only when it has to.
fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Outcome = (Vec<SseEvent>, Result<(), EventTooLarge>);

    fn parse_cut(input: &[u8], limit: usize, cuts: impl IntoIterator<Item = usize>) -> Outcome {
        let mut parser = SseParser::with_limit(limit);
        let mut events = Vec::new();
        let mut start = 0;
        for cut in cuts.into_iter().chain([input.len()]) {
            let cut = cut.clamp(start, input.len());
            if let Err(error) = parser.push(&input[start..cut], &mut events) {
                return (events, Err(error));
            }
            start = cut;
        }
        events.extend(parser.finish());
        (events, Ok(()))
    }

    fn parse(input: &str) -> Vec<(String, String)> {
        let (events, outcome) = parse_cut(input.as_bytes(), MAX_EVENT_BYTES, []);
        outcome.unwrap();
        events.into_iter().map(|event| (event.name, event.data)).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, data)| ((*name).to_owned(), (*data).to_owned())).collect()
    }

    #[test]
    fn reads_every_line_ending_alike() {
        let expected = pairs(&[("ping", "{}"), ("", "two")]);
        for ending in ["\n", "\r", "\r\n"] {
            let input = "event: ping\ndata: {}\n\ndata:two\n\n".replace('\n', ending);
            assert_eq!(parse(&input), expected, "ending {ending:?}");
        }
        assert_eq!(parse("event: ping\r\ndata: {}\r\r\ndata:two\n\r"), expected);
    }

    #[test]
    fn joins_data_lines_and_strips_one_space() {
        assert_eq!(parse("data: a\ndata:  b\ndata\ndata:c\n\n"), pairs(&[("", "a\n b\n\nc")]));
        assert_eq!(parse("data:\n\n"), pairs(&[("", "")]));
    }

    #[test]
    fn ignores_comments_unknown_fields_and_events_without_data() {
        assert_eq!(parse(": hi\nid: 7\nretry: 1\nevent: x\n\n\n\ndata: y\n\n"), pairs(&[("", "y")]));
    }

    #[test]
    fn the_byte_order_mark_counts_only_at_the_start() {
        assert_eq!(parse("\u{feff}data: a\n\n\u{feff}data: b\n\n"), pairs(&[("", "a")]));
    }

    #[test]
    fn hands_out_the_last_event_without_its_blank_line() {
        assert_eq!(parse("data: a\n\nevent: e\ndata: b"), pairs(&[("", "a"), ("e", "b")]));
        assert_eq!(parse("data: a\n\nevent: e"), pairs(&[("", "a")]));
    }

    #[test]
    fn replaces_invalid_utf8() {
        let (events, _) = parse_cut(b"data: a\xFFb\n\n", 100, []);
        assert_eq!(events[0].data, "a\u{FFFD}b");
    }

    #[test]
    fn refuses_an_event_over_the_cap_and_stays_refused() {
        let mut parser = SseParser::with_limit(16);
        let mut events = Vec::new();
        parser.push(b"data: 12345\n\n", &mut events).unwrap();
        assert_eq!(parser.push(b"data: 1234567890\ndata: x", &mut events), Err(EventTooLarge { limit: 16 }));
        assert_eq!(parser.push(b"\n\ndata: y\n\n", &mut events), Err(EventTooLarge { limit: 16 }));
        assert_eq!(parser.finish(), None);
        assert_eq!(events.len(), 1);
        // A comment that never ends is subject to the same cap.
        let mut parser = SseParser::with_limit(16);
        assert!((0..17).any(|_| parser.push(b":", &mut events).is_err()));
    }

    /// Bytes that are likely to mean something to the parser.
    fn stream_like() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"\n".to_vec()),
            Just(b"\r".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"data".to_vec()),
            Just(b"data: ".to_vec()),
            Just(b"event:".to_vec()),
            Just(b":".to_vec()),
            Just(b"\xEF\xBB\xBF".to_vec()),
            Just("é…".as_bytes().to_vec()),
            prop::collection::vec(any::<u8>(), 0..6),
        ];
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_cutting_gives_the_same_events(
            input in stream_like(),
            limit in prop_oneof![Just(MAX_EVENT_BYTES), 4usize..40],
            mut cuts in prop::collection::vec(0usize..200, 0..12),
        ) {
            cuts.sort_unstable();
            let whole = parse_cut(&input, limit, []);
            prop_assert_eq!(&parse_cut(&input, limit, cuts), &whole);
            prop_assert_eq!(&parse_cut(&input, limit, 0..input.len()), &whole);
        }

        #[test]
        fn arbitrary_bytes_never_panic(input in prop::collection::vec(any::<u8>(), 0..400)) {
            let (events, _) = parse_cut(&input, 64, [7, 50, 51]);
            prop_assert!(events.iter().all(|event| event.data.len() <= 64 * 3));
        }

        #[test]
        fn what_was_written_is_read(texts in prop::collection::vec("[^\r\n]{0,30}", 1..8)) {
            let input: String = texts.iter().map(|text| format!("event: e\ndata: {text}\n\n")).collect();
            let expected: Vec<_> = texts.iter().map(|text| ("e".to_owned(), text.clone())).collect();
            prop_assert_eq!(parse(&input), expected);
        }
    }
}
