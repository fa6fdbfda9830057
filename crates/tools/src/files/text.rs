//! Text as the model sees it and bytes as they are in the file.
//!
//! The model works on lines that end with LF, without a byte order mark. [`FileText`] keeps both sides, so a change of
//! some characters leaves every other byte of the file as it was, even with mixed line endings and bytes that are not
//! UTF-8.

use std::borrow::Cow;
use std::ops::Range;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// A file's bytes and the text in them.
pub(crate) struct FileText {
    raw: Vec<u8>,
    /// Without byte order mark, CRLF as LF. Still bytes, because it may not be UTF-8.
    pub lf: Vec<u8>,
    newline: Newline,
    has_bom: bool,
}

/// How most lines of a file end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Newline {
    Lf,
    Crlf,
}

impl FileText {
    /// Separates the text of a file from its form: byte order mark and line ends are remembered and kept when parts are
    /// replaced. Lines count as CRLF if more than half of them end so.
    pub fn new(raw: Vec<u8>) -> Self {
        let has_bom = raw.starts_with(BOM);
        let body = if has_bom { &raw[BOM.len()..] } else { &raw[..] };
        let lf = to_lf(body);
        let pairs = body.len() - lf.len();
        let lines = memchr::memchr_iter(b'\n', &lf).count();
        let newline = if pairs * 2 > lines { Newline::Crlf } else { Newline::Lf };
        let lf = lf.into_owned();
        Self { lf, newline, has_bom, raw }
    }

    /// Returns the text; bytes that are not UTF-8 show as U+FFFD.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.lf)
    }

    /// Returns the bytes of the file.
    pub fn into_raw(self) -> Vec<u8> {
        self.raw
    }

    /// Returns the bytes of the file after the parts of `lf` at `ranges` (in order, without overlap) are replaced by
    /// `new`. In a file with CRLF the line ends of `new` become CRLF, too.
    pub fn replaced(&self, ranges: &[Range<usize>], new: &str) -> Vec<u8> {
        let new = self.encode(new);
        let mut out = Vec::with_capacity(self.raw.len() + ranges.len() * new.len());
        let mut place = Place { raw: if self.has_bom { BOM.len() } else { 0 }, lf: 0 };
        let mut copied = 0;
        for range in ranges {
            let start = place.advance(&self.raw, range.start);
            out.extend_from_slice(&self.raw[copied..start]);
            out.extend_from_slice(new.as_bytes());
            copied = place.advance(&self.raw, range.end);
        }
        out.extend_from_slice(&self.raw[copied..]);
        out
    }

    /// Returns the bytes of a file with `text` as its whole content and with the byte order mark and line ends of this
    /// one.
    pub fn rewritten(&self, text: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() + BOM.len());
        if self.has_bom && !text.as_bytes().starts_with(BOM) {
            out.extend_from_slice(BOM);
        }
        out.extend_from_slice(self.encode(text).as_bytes());
        out
    }

    /// Returns `text` with the line ends of this file. In a file with LF lines the text stays as it is: a CR there is
    /// intended.
    fn encode<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.newline {
            Newline::Lf => Cow::Borrowed(text),
            Newline::Crlf => Cow::Owned(text.replace("\r\n", "\n").replace('\n', "\r\n")),
        }
    }
}

/// A position in both views of the file.
struct Place {
    raw: usize,
    lf: usize,
}

impl Place {
    /// Advances to the character `lf` of the text and returns its position in the raw bytes. Only forward: `lf` must
    /// not be before the place. A line end is one character here, so no position is between its CR and its LF.
    fn advance(&mut self, raw: &[u8], lf: usize) -> usize {
        while self.lf < lf {
            let pair = raw[self.raw] == b'\r' && raw.get(self.raw + 1) == Some(&b'\n');
            self.raw += if pair { 2 } else { 1 };
            self.lf += 1;
        }
        self.raw
    }
}

/// Returns the bytes with LF in place of CRLF; a CR elsewhere stays. Borrowed if nothing changes.
pub(crate) fn to_lf(bytes: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memmem::find(bytes, b"\r\n").is_none() {
        return Cow::Borrowed(bytes);
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = memchr::memmem::find(rest, b"\r\n") {
        out.extend_from_slice(&rest[..at]);
        out.push(b'\n');
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    Cow::Owned(out)
}

/// Returns bytes of (the start of) a file as the text that the model reads: no byte order mark, LF, UTF-8, and no NUL,
/// which some readers of the stream reject.
pub(crate) fn for_model(bytes: &[u8]) -> String {
    let bytes = bytes.strip_prefix(BOM).unwrap_or(bytes);
    let lf = to_lf(bytes);
    let text = match lf {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Cow::Owned(bytes) => String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    };
    if text.contains('\0') { text.replace('\0', "\u{FFFD}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_replaced_bytes_change() {
        let raw = b"\xEF\xBB\xBFone\r\ntwo\nthr\xFFee\r\nfour\r\n".to_vec();
        let text = FileText::new(raw);
        assert_eq!(text.lf, b"one\ntwo\nthr\xFFee\nfour\n");
        let at = 2..6; // "e\ntw"
        assert_eq!(
            text.replaced(std::slice::from_ref(&at), "E\nT"),
            b"\xEF\xBB\xBFonE\r\nTo\nthr\xFFee\r\nfour\r\n"
        );
    }

    #[test]
    fn a_rewritten_file_keeps_its_kind() {
        let crlf = FileText::new(b"\xEF\xBB\xBFa\r\nb\r\n".to_vec());
        assert_eq!(crlf.rewritten("x\ny\r\n"), b"\xEF\xBB\xBFx\r\ny\r\n");
        let lf = FileText::new(b"a\nb\n".to_vec());
        assert_eq!(lf.rewritten("x\r\n"), b"x\r\n");
        assert_eq!(FileText::new(Vec::new()).rewritten("x\n"), b"x\n");
    }

    #[test]
    fn the_model_sees_clean_text() {
        assert_eq!(for_model(b"\xEF\xBB\xBFa\r\nb\rc\xFF\0"), "a\nb\rc\u{FFFD}\u{FFFD}");
    }

    proptest! {
        /// Replacing in the file and replacing in the text give the same text.
        #[test]
        fn both_views_agree(raw in "[ab\r\n]{0,40}", start in 0usize..40, length in 0usize..10) {
            let file = FileText::new(raw.into_bytes());
            let start = start.min(file.lf.len());
            let end = (start + length).min(file.lf.len());
            let bytes = file.replaced(std::slice::from_ref(&(start..end)), "X\nY");
            let mut expected = file.lf.clone();
            expected.splice(start..end, *b"X\nY");
            // A CR before the cut and a LF after it would form a new pair, so that the CR no longer stands alone.
            prop_assume!(!expected.windows(2).any(|pair| pair == b"\r\n"));
            let after = FileText::new(bytes);
            prop_assert_eq!(after.lf, expected);
        }

        #[test]
        fn replacing_nothing_changes_nothing(raw in prop::collection::vec(any::<u8>(), 0..60)) {
            let file = FileText::new(raw.clone());
            prop_assert_eq!(file.replaced(&[], "x"), raw);
        }
    }
}
