//! PDF files: given to the model as a document, whole, or some of their pages as pictures (`pages.rs`).
//!
//! Pages are counted by searching for page objects, which newer files may hide in compressed parts: then the size alone
//! decides.

use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;

use super::{Request, pages, read_whole};
use crate::files::error::human_size;
use crate::files::open::Opened;
use crate::{Content, ToolContext, ToolFailure, ToolOutput};

/// The most pages that are sent whole.
pub(super) const MAX_WHOLE_PAGES: usize = 10;

/// The most pages that one call may ask for.
const MAX_PAGES: u32 = 20;

/// The API takes 32 MB per request; base64 adds a third.
const MAX_BYTES: u64 = 20 << 20;

/// First and last page, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pages {
    pub first: u32,
    pub last: u32,
}

impl FromStr for Pages {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let (first, last) = trimmed.split_once('-').unwrap_or((trimmed, trimmed));
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|page| *page > 0);
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last && last - first < MAX_PAGES => {
                Ok(Self { first, last })
            }
            (Some(first), Some(last)) if first <= last => Err(format!(
                "Invalid pages parameter: {text:?}. That is {} pages; ask for at most {MAX_PAGES} at once.",
                last - first + 1
            )),
            _ => Err(format!(
                "Invalid pages parameter: {text:?}. It must be one page (\"3\") or one range (\"1-5\"), counted from 1."
            )),
        }
    }
}

/// Reads a PDF: the pages that were asked for as pictures, or else the whole file as a document block. A long document
/// is refused without `pages`; a file whose pages cannot be counted is not.
pub(super) async fn read(
    request: &Request,
    opened: Opened,
    context: &ToolContext,
) -> Result<ToolOutput, ToolFailure> {
    let refused = |why: String| Err(ToolFailure::Failed(why));
    if let Some(asked) = request.pages {
        return pages::read(request, asked, opened, context).await;
    }
    let bytes = read_whole(opened, MAX_BYTES, request, context).await?;
    if !bytes.starts_with(b"%PDF-") {
        return refused(format!("File is not a valid PDF: {}", request.path));
    }
    let pages = page_count(&bytes);
    if pages > MAX_WHOLE_PAGES {
        return refused(format!(
            "PDF has {pages} pages, too many to read at once. Set pages to a range of at most {MAX_PAGES}."
        ));
    }
    let size = bytes.len();
    let data = BASE64.encode(&bytes);
    let said = format!("PDF file read: {} ({})", request.path, human_size(size as u64));
    Ok(ToolOutput::new(
        Content::Blocks(vec![
            json!({ "type": "text", "text": said }),
            json!({
                "type": "document",
                "source": { "type": "base64", "media_type": "application/pdf", "data": data },
            }),
        ]),
        json!({
            "type": "pdf",
            "file": { "filePath": request.path, "base64": data, "originalSize": size },
        }),
    ))
}

/// Counts objects of the type `/Page`. 0 means that none can be found, not that there are none: newer files may hide
/// them in compressed parts.
pub(super) fn page_count(bytes: &[u8]) -> usize {
    memchr::memmem::find_iter(bytes, b"/Page")
        .filter(|at| {
            let ends = bytes.get(at + b"/Page".len()).is_none_or(|byte| !byte.is_ascii_alphabetic());
            ends && bytes[..*at].trim_ascii_end().ends_with(b"/Type")
        })
        .count()
}
