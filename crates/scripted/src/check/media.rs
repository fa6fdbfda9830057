//! Images and documents: the declared type against the bytes, the size, and the pages of a PDF.
//!
//! No image is decoded. Type and dimensions are in the first bytes of each format, and that is enough for every rule
//! here; an image that is damaged further in passes. Pages of a PDF are counted where they are uncompressed: those in
//! compressed object streams are not found.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;
use serde_json::{Map, Value};

use super::cache::behind_message;
use super::message::{ImageSeen, MessageSummary};
use super::refusal::{FieldPath, REQUIRED, Verdict, refuse};

/// The most characters of base64 that an image may have.
const MOST_BASE64: usize = 5 * 1024 * 1024;
/// The longest edge of an image in pixels.
const LONGEST_EDGE: u32 = 8000;
const IMAGE_TYPES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
/// The size of an image, counted as bytes of text.
const IMAGE_BYTES: u64 = 1600 * 4;

/// Checks an image block and adds it to the summary; `inside` ends in `image`. An image that is not sent as base64 has
/// the edge 0, since its size is not known.
pub(crate) fn check_image(
    block: &Map<String, Value>,
    inside: &FieldPath<'_>,
    summary: &mut MessageSummary,
) -> Verdict {
    let path = inside.key("source");
    let Some(source) = block.get("source") else { return path.refuse(REQUIRED) };
    let source = path.object(source)?;
    summary.text_bytes += IMAGE_BYTES;
    let kind = path.text(source, "type")?;
    let fields = path.key(kind);
    let edge = match kind {
        "base64" => {
            fields.only(source, &["type", "media_type", "data"])?;
            base64_edge(source, &fields)?
        }
        "url" => {
            fields.only(source, &["type", "url"])?;
            0
        }
        "file" => {
            fields.only(source, &["type", "file_id"])?;
            0
        }
        other => return path.tag(other, &["base64", "file", "url"]),
    };
    summary.images.push(ImageSeen { path: behind_message(&fields.to_string()), edge });
    Ok(())
}

/// Checks an image that is sent as base64 and returns its longer edge in pixels. `fields` is the path of the source;
/// the size limit applies to the encoded text and is checked before that is decoded.
fn base64_edge(source: &Map<String, Value>, fields: &FieldPath<'_>) -> Verdict<u32> {
    let declared = fields.text(source, "media_type")?;
    if !IMAGE_TYPES.contains(&declared) {
        let allowed = "Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'";
        return fields.key("media_type").refuse(allowed);
    }
    let data = fields.text(source, "data")?;
    if data.len() > MOST_BASE64 {
        let size = data.len();
        return fields.refuse(format!("image exceeds 5 MB maximum: {size} bytes > {MOST_BASE64} bytes"));
    }
    let Ok(bytes) = STANDARD.decode(data) else { return fields.refuse("invalid base64 data") };
    let Some((found, width, height)) =
        image_header(&bytes).filter(|(_, width, height)| *width > 0 && *height > 0)
    else {
        return refuse("Could not process image");
    };
    if found != declared {
        return fields.refuse(format!(
            "The image was specified using the {declared} media type, but the image appears to be a {found} image"
        ));
    }
    let edge = width.max(height);
    if edge > LONGEST_EDGE {
        return fields.key("data").refuse(format!(
            "At least one of the image dimensions exceed max allowed size: {LONGEST_EDGE} pixels"
        ));
    }
    Ok(edge)
}

/// Returns type, width and height of an image from its first bytes; `None` if the type is unknown or the header is
/// damaged.
fn image_header(bytes: &[u8]) -> Option<(&'static str, u32, u32)> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        (bytes.get(12..16)? == b"IHDR").then_some(())?;
        return Some(("image/png", big_endian(bytes, 16, 4)?, big_endian(bytes, 20, 4)?));
    }
    if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        return Some(("image/gif", little_endian(bytes, 6, 2)?, little_endian(bytes, 8, 2)?));
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        let (width, height) = webp_size(bytes)?;
        return Some(("image/webp", width, height));
    }
    if bytes.starts_with(b"\xff\xd8\xff") {
        let (width, height) = jpeg_size(bytes)?;
        return Some(("image/jpeg", width, height));
    }
    None
}

/// Returns width and height of a WebP file, from whichever of the three forms its first chunk has; `None` if it is
/// damaged or has another form.
fn webp_size(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8 " => {
            (bytes.get(23..26)? == b"\x9d\x01\x2a").then_some(())?;
            Some((little_endian(bytes, 26, 2)? & 0x3fff, little_endian(bytes, 28, 2)? & 0x3fff))
        }
        b"VP8L" => {
            (*bytes.get(20)? == 0x2f).then_some(())?;
            let bits = little_endian(bytes, 21, 4)?;
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => Some((little_endian(bytes, 24, 3)? + 1, little_endian(bytes, 27, 3)? + 1)),
        _ => None,
    }
}

/// Returns width and height of a JPEG, which are in its frame header behind other segments; `None` if that is missing
/// or a segment is damaged.
fn jpeg_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        if *bytes.get(at)? != 0xff {
            return None;
        }
        let marker = *bytes.get(at + 1)?;
        match marker {
            // Fill bytes before a marker.
            0xff => at += 1,
            // Markers without a segment.
            0x01 | 0xd0..=0xd8 => at += 2,
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                return Some((big_endian(bytes, at + 7, 2)?, big_endian(bytes, at + 5, 2)?));
            }
            0xd9 | 0xda => return None,
            _ => at += 2 + big_endian(bytes, at + 2, 2)? as usize,
        }
    }
}

/// Returns the number in `count` bytes (at most 4) from `at` on, the most significant first; `None` if there are fewer.
fn big_endian(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    let part = bytes.get(at..at + count)?;
    Some(part.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// Returns the number in `count` bytes (at most 4) from `at` on, the least significant first; `None` if there are
/// fewer.
fn little_endian(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    let part = bytes.get(at..at + count)?;
    Some(part.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// Checks a document block at `at`, and adds its pages or its text to the summary. One that is sent as base64 counts as
/// a PDF whatever its media type, and the blocks of one with the source `content` are not checked. Error messages call
/// it `pdf` where it is one.
pub(crate) fn check_document(
    block: &Map<String, Value>,
    at: &FieldPath<'_>,
    summary: &mut MessageSummary,
) -> Verdict {
    let document = at.key("document");
    let path = document.key("source");
    let Some(source) = block.get("source") else { return path.refuse(REQUIRED) };
    let source = path.object(source)?;
    let kind = path.text(source, "type")?;
    let fields = path.key(kind);
    let known: &[&str] = match kind {
        "base64" | "text" => &["type", "media_type", "data"],
        "content" => &["type", "content"],
        "url" => &["type", "url"],
        "file" => &["type", "file_id"],
        other => return path.tag(other, &["base64", "content", "file", "text", "url"]),
    };
    fields.only(source, known)?;
    match kind {
        "base64" => {
            let data = fields.text(source, "data")?;
            let Ok(bytes) = STANDARD.decode(data) else { return fields.refuse("invalid base64 data") };
            let pages = pdf_pages(&bytes);
            let data = format!("{}.pdf.source.base64.data", behind_message(&at.to_string()));
            summary.pdfs.push((data, pages));
            summary.text_bytes += pages as u64 * IMAGE_BYTES;
        }
        "text" => summary.text_bytes += fields.text(source, "data")?.len() as u64,
        _ => {}
    }
    Ok(())
}

/// Returns the number of pages of a PDF that are not compressed; 0 if all are.
fn pdf_pages(bytes: &[u8]) -> usize {
    let types = memmem::find_iter(bytes, b"/Type").map(|at| bytes[at + 5..].trim_ascii_start());
    let is_page = |rest: &&[u8]| {
        rest.strip_prefix(b"/Page").is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_alphanumeric))
    };
    types.filter(is_page).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_type_and_size() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x03\x20\0\0\x00\x10";
        assert_eq!(image_header(png), Some(("image/png", 800, 16)));
        assert_eq!(image_header(b"GIF89a\x02\x01\x03\x00rest"), Some(("image/gif", 258, 3)));
        let jpeg = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc2\x00\x11\x08\x00\x20\x01\x00\x03";
        assert_eq!(image_header(jpeg), Some(("image/jpeg", 256, 32)));
        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x05\x00\x06\x00";
        assert_eq!(image_header(lossy), Some(("image/webp", 5, 6)));
        let lossless = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x04\x40\x01\x00";
        assert_eq!(image_header(lossless), Some(("image/webp", 5, 6)));
        let extended = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x04\0\0\x05\0\0";
        assert_eq!(image_header(extended), Some(("image/webp", 5, 6)));
        for broken in
            [&b""[..], b"BM", b"\xff\xd8\xff\xd9", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0\xff\xff"]
        {
            assert_eq!(image_header(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn pages_are_counted_and_their_trees_are_not() {
        assert_eq!(pdf_pages(b"<</Type /Pages>> <</Type/Page>> <</Type /Page /X 1>> /Type/PageLabel"), 2);
    }
}
