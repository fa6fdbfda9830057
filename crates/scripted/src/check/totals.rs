//! The totals of a request: images, pages of documents, tokens.
//!
//! Tokens are estimated without a tokenizer: four bytes of text count as one, which is fewer tokens than most texts
//! have. A request that is refused as too long is too long for the API as well; one just below the limit may not be
//! accepted by the API.

use super::generation::ModelRules;
use super::message::MessageSummary;
use super::refusal::{Verdict, refuse};

/// Bytes of text that are counted as one token.
const BYTES_PER_TOKEN: u64 = 4;
/// With more images than this, their edges are limited further.
const MANY_IMAGES: usize = 20;
const MANY_IMAGES_EDGE: u32 = 2000;

/// Checks number and size of the images and PDF pages in all messages together. The bounds depend on the window of the
/// model and on the number of images.
pub(crate) fn check_media(messages: &[&MessageSummary], rules: &ModelRules) -> Verdict {
    let count: usize = messages.iter().map(|message| message.images.len()).sum();
    let most = if rules.window > 200_000 { 600 } else { 100 };
    if count > most {
        return refuse(format!("messages: too many images: {count} > {most} maximum"));
    }
    let mut pages = 0;
    for (index, message) in messages.iter().enumerate() {
        let large = message.images.iter().find(|image| image.edge > MANY_IMAGES_EDGE);
        if let Some(image) = large.filter(|_| count > MANY_IMAGES) {
            return refuse(format!(
                "messages.{index}.{}.data: At least one of the image dimensions exceed max allowed size for \
                 many-image requests: {MANY_IMAGES_EDGE} pixels",
                image.path
            ));
        }
        for (path, more) in &message.pdfs {
            pages += more;
            if pages > most {
                return refuse(format!(
                    "messages.{index}.{path}: A maximum of {most} PDF pages may be provided."
                ));
            }
        }
    }
    Ok(())
}

/// Returns the estimate of the input tokens of a request with this much text, rounded up.
pub(crate) fn input_tokens(text_bytes: u64) -> u64 {
    text_bytes.div_ceil(BYTES_PER_TOKEN)
}

/// Checks that the input, and for some models input and output together, fit into the window.
pub(crate) fn check_tokens(input: u64, max_tokens: Option<u64>, rules: &ModelRules) -> Verdict {
    let window = rules.window;
    if input > window {
        return refuse(format!("prompt is too long: {input} tokens > {window} maximum"));
    }
    match max_tokens {
        Some(max_tokens) if rules.counts_answer && input + max_tokens > window => refuse(format!(
            "input length and `max_tokens` exceed context limit: {input} + {max_tokens} > {window}, decrease \
             input length or `max_tokens` and try again"
        )),
        Some(_) | None => Ok(()),
    }
}
