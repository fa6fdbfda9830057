//! A command that prints one picture, as a data URI and nothing else: the model gets the picture.
//!
//! Anything that is not quite that stays text. The picture may be larger than memory keeps of an output; then it is
//! read from the file that the output went to, which only this code knows and removes.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use lathe_exec::{Captured, SpillFile};

use crate::ToolContext;
use crate::file_tools::read::image::{SentImage, prepared};
use crate::stoppable;

/// A longer output does not count as a picture: the file of an output ends here.
const MAX_URI_BYTES: u64 = SpillFile::DEFAULT_CAP_BYTES;

/// The longest beginning of a data URI, up to its comma.
const MAX_HEAD_BYTES: usize = 100;

/// The time limit for reading and scaling the picture.
const TIME: Duration = Duration::from_secs(30);

/// Returns the picture that an output consists of, in a size that can be sent, and removes the file of the output, if
/// there is one. `None`, and the file stays, if the output is something else or cannot be read as a picture.
pub(super) async fn printed(output: &Captured, context: &ToolContext) -> Option<SentImage> {
    if output.total_bytes > MAX_URI_BYTES || payload(&output.head).is_none() {
        return None;
    }
    let file = output.spill.as_ref().map(|spill| spill.path.clone());
    let whole = match (output.is_complete(), &file) {
        (true, _) => [output.head.as_slice(), &output.tail].concat(),
        (false, Some(_)) => Vec::new(),
        (false, None) => return None,
    };
    let work = move |_: &stoppable::Stop| {
        let bytes = match &file {
            Some(file) if whole.is_empty() => std::fs::read(file).ok()?,
            Some(_) | None => whole,
        };
        let mut encoded = payload(&bytes)?.to_vec();
        // Programs that encode break their lines.
        encoded.retain(|byte| !byte.is_ascii_whitespace());
        let image = prepared(BASE64.decode(encoded).ok()?).ok()?;
        if let Some(file) = file {
            // One that remains goes with the session.
            let _ = std::fs::remove_file(file);
        }
        Some(image)
    };
    stoppable::run(&context.cancel, TIME, work).await.ok().flatten()
}

/// Returns what follows `data:image/TYPE;base64,` at the start of an output; `None` if it does not begin so.
fn payload(bytes: &[u8]) -> Option<&[u8]> {
    let bytes = bytes.trim_ascii_start();
    let comma = bytes.iter().take(MAX_HEAD_BYTES).position(|byte| *byte == b',')?;
    let head = std::str::from_utf8(&bytes[..comma]).ok()?.to_ascii_lowercase();
    let kind = head.strip_prefix("data:image/")?.strip_suffix(";base64")?;
    let is_kind = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '+' | '_' | '-');
    (!kind.is_empty() && kind.chars().all(is_kind)).then(|| &bytes[comma + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_data_uri_of_an_image_has_a_payload() {
        for (text, expected) in [
            ("data:image/png;base64,QUJD", Some("QUJD")),
            ("  \nDATA:image/svg+xml;base64,QQ==\n", Some("QQ==\n")),
            ("data:image/png,QUJD", None),
            ("data:text/plain;base64,QUJD", None),
            ("data:image/;base64,QUJD", None),
            ("data:image/a b;base64,QUJD", None),
            ("see data:image/png;base64,QUJD", None),
            ("data:image/png;base64", None),
            ("", None),
        ] {
            assert_eq!(payload(text.as_bytes()), expected.map(str::as_bytes), "{text}");
        }
    }
}
