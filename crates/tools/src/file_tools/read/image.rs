//! Pictures: unchanged when they are small enough for the API, otherwise scaled down and encoded again.
//!
//! The first bytes decide the format, not the extension: the API rejects data whose type is not the declared one.
//! Decoding is bounded in pixels and memory, so a small file that unpacks to a huge picture is an error and not an
//! outage.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{DynamicImage, ImageFormat, ImageReader};
use serde_json::json;

use super::{Request, TIME, read_whole};
use crate::files::open::Opened;
use crate::stoppable;
use crate::{Content, ToolContext, ToolFailure, ToolOutput};

const MAX_FILE_BYTES: u64 = 64 << 20;

/// The longest side that is sent; more adds cost, not detail.
const MAX_SIDE: u32 = 2000;

/// A picture with more bytes is encoded again.
const MAX_SENT_BYTES: usize = 500 * 1024;

/// The longest side, and the memory, of a picture that is decoded at all.
const MAX_DECODED_SIDE: u32 = 20_000;
const MAX_DECODED_BYTES: u64 = 512 << 20;

/// JPEG qualities, tried in turn until the picture is small enough.
const QUALITIES: [u8; 4] = [80, 60, 40, 20];

/// A picture ready to be sent.
struct Picture {
    bytes: Vec<u8>,
    format: ImageFormat,
    original: (u32, u32),
    shown: (u32, u32),
}

/// Reads an image; it is not recorded as seen. A small one is sent as it is; a large one is scaled and encoded again on
/// a blocking thread. Fails if the file is empty, too large, or no image by its first bytes, whatever its extension
/// says.
pub(super) async fn read(
    request: &Request,
    opened: Opened,
    context: &ToolContext,
) -> Result<ToolOutput, ToolFailure> {
    let bytes = read_whole(opened, MAX_FILE_BYTES, request, context).await?;
    let original_size = bytes.len();
    let refused = |why: String| ToolFailure::Failed(format!("{why}: {}", request.path));
    if bytes.is_empty() {
        return Err(refused("Image file is empty".to_owned()));
    }
    let (format, dimensions) = header(&bytes).map_err(refused)?;
    let picture = if fits(bytes.len(), dimensions) {
        Picture { bytes, format, original: dimensions, shown: dimensions }
    } else {
        let work = move |_: &stoppable::Stop| shrink(&bytes, format, dimensions);
        stoppable::run(&context.cancel, TIME, work).await?.map_err(refused)?
    };
    Ok(output(&picture, original_size))
}

/// A picture as the API takes it.
pub(crate) struct SentImage {
    /// Base64.
    pub data: String,
    /// Its real format.
    pub media_type: &'static str,
}

/// Returns a picture as it can be sent to the model, scaled down like one that is read from a file; blocks for the time
/// of the work. An error says why the bytes are no picture.
pub(crate) fn prepared(bytes: Vec<u8>) -> Result<SentImage, String> {
    let (format, dimensions) = header(&bytes)?;
    let (bytes, format) = if fits(bytes.len(), dimensions) {
        (bytes, format)
    } else {
        let shrunk = shrink(&bytes, format, dimensions)?;
        (shrunk.bytes, shrunk.format)
    };
    Ok(SentImage { data: BASE64.encode(bytes), media_type: format.to_mime_type() })
}

/// Returns whether a picture is sent as it is: it has few enough bytes and neither side is too long.
fn fits(bytes: usize, dimensions: (u32, u32)) -> bool {
    bytes <= MAX_SENT_BYTES && dimensions.0.max(dimensions.1) <= MAX_SIDE
}

/// Returns the format and the size in pixels (width, height), read from the first bytes. An error says why the bytes
/// are no picture that can be read.
fn header(bytes: &[u8]) -> Result<(ImageFormat, (u32, u32)), String> {
    let unreadable = |error: image::ImageError| format!("Image cannot be read ({error})");
    let format = image::guess_format(bytes).map_err(unreadable)?;
    let dimensions =
        ImageReader::with_format(Cursor::new(bytes), format).into_dimensions().map_err(unreadable)?;
    Ok((format, dimensions))
}

/// Decodes the picture, within bounds on its size and memory, and halves the longest side until an encoding is small
/// enough. An error says why it cannot be decoded or encoded.
fn shrink(bytes: &[u8], format: ImageFormat, original: (u32, u32)) -> Result<Picture, String> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = image::Limits::default();
    limits.max_image_width = Some(MAX_DECODED_SIDE);
    limits.max_image_height = Some(MAX_DECODED_SIDE);
    limits.max_alloc = Some(MAX_DECODED_BYTES);
    reader.limits(limits);
    let decoded = reader.decode().map_err(|error| format!("Image cannot be read ({error})"))?;
    let mut side = MAX_SIDE;
    loop {
        let scaled = if decoded.width().max(decoded.height()) > side {
            decoded.resize(side, side, FilterType::Triangle)
        } else {
            decoded.clone()
        };
        if let Some((bytes, format)) = encode(&scaled, format)? {
            let shown = (scaled.width(), scaled.height());
            return Ok(Picture { bytes, format, original, shown });
        }
        side /= 2;
    }
}

/// Encodes the picture in few enough bytes: as PNG if it was one (sharp text stays sharp), otherwise, or if that is too
/// large, as JPEG. `None` if no quality is low enough; the caller's loop still ends, because a few pixels always fit.
fn encode(picture: &DynamicImage, was: ImageFormat) -> Result<Option<(Vec<u8>, ImageFormat)>, String> {
    let failed = |error: image::ImageError| format!("Image cannot be encoded ({error})");
    if was == ImageFormat::Png {
        let mut out = Vec::new();
        picture.write_to(&mut Cursor::new(&mut out), ImageFormat::Png).map_err(failed)?;
        if out.len() <= MAX_SENT_BYTES {
            return Ok(Some((out, ImageFormat::Png)));
        }
    }
    let opaque = on_white(picture);
    for quality in QUALITIES {
        let mut out = Vec::new();
        opaque.write_with_encoder(JpegEncoder::new_with_quality(&mut out, quality)).map_err(failed)?;
        if out.len() <= MAX_SENT_BYTES {
            return Ok(Some((out, ImageFormat::Jpeg)));
        }
    }
    Ok(None)
}

/// Returns the picture with white in place of transparency, which JPEG does not have.
fn on_white(picture: &DynamicImage) -> DynamicImage {
    if !picture.color().has_alpha() {
        return DynamicImage::ImageRgb8(picture.to_rgb8());
    }
    let source = picture.to_rgba8();
    let mut out = image::RgbImage::new(source.width(), source.height());
    for (from, to) in source.pixels().zip(out.pixels_mut()) {
        let alpha = u16::from(from[3]);
        for channel in 0..3 {
            let mixed = (u16::from(from[channel]) * alpha + 255 * (255 - alpha)) / 255;
            to[channel] = u8::try_from(mixed).unwrap_or(u8::MAX);
        }
    }
    DynamicImage::ImageRgb8(out)
}

/// Returns the image as a block for the model, and for programs with the sizes before and after.
fn output(picture: &Picture, original_size: usize) -> ToolOutput {
    let data = BASE64.encode(&picture.bytes);
    let media_type = picture.format.to_mime_type();
    ToolOutput::new(
        Content::Blocks(vec![json!({
            "type": "image",
            "source": { "type": "base64", "data": data, "media_type": media_type },
        })]),
        json!({
            "type": "image",
            "file": {
                "base64": data,
                "type": media_type,
                "originalSize": original_size,
                "dimensions": {
                    "originalWidth": picture.original.0,
                    "originalHeight": picture.original.1,
                    "displayWidth": picture.shown.0,
                    "displayHeight": picture.shown.1,
                },
            },
        }),
    )
}
