//! HTML as Markdown, in bounded memory and time whatever the page holds.
//!
//! The tags of a page are read one after the other, and what Markdown can express is built into a small tree; whenever
//! the tree is large enough, `htmd` converts it and a new one begins. A tree of the whole page would take twenty to
//! forty times its size, and the rules by which browsers repair broken pages take time that grows with the square of
//! the nesting. Here nesting is limited, and elements are closed where a browser would close them; what a browser would
//! move elsewhere stays where it is written.

mod tags;
mod tree;

use std::cell::RefCell;

use html5ever::TokenizerResult;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

use self::tree::PageTree;
use crate::stoppable::Stop;

/// Bytes of HTML between two looks at whether the work should stop.
const PIECE: usize = 32 << 10;

/// Bytes of Markdown that are made of one page. Lines of nested lists and quotes are longer than their HTML.
const MAX_MARKDOWN: usize = 16 << 20;

/// Why a page has no Markdown form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped;

/// Converts a page to Markdown. The end is left out if there is more than 16 MB of Markdown; fails only if `stop` is
/// set.
pub(crate) fn from_html(html: &str, stop: &Stop) -> Result<String, Stopped> {
    converted(html, MAX_MARKDOWN, stop)
}

/// Converts a page piece by piece, until there are more than `max` bytes of Markdown. The stop is checked before each
/// piece.
fn converted(html: &str, max: usize, stop: &Stop) -> Result<String, Stopped> {
    let tokenizer = Tokenizer::new(PageSink::default(), TokenizerOpts::default());
    let queue = BufferQueue::default();
    let mut rest = html;
    while !rest.is_empty() {
        if stop.is_set() {
            return Err(Stopped);
        }
        let (piece, tail) = rest.split_at(rest.floor_char_boundary(PIECE));
        rest = tail;
        queue.push_back(StrTendril::from_slice(piece));
        // The tokenizer also returns where a browser would run a script.
        while !matches!(tokenizer.feed(&queue), TokenizerResult::Done) {}
        if tokenizer.sink.tree.borrow().markdown_bytes() > max {
            break;
        }
    }
    tokenizer.end();
    Ok(tokenizer.sink.tree.into_inner().into_markdown())
}

/// Takes the tags and texts of a page.
#[derive(Default)]
struct PageSink {
    tree: RefCell<PageTree>,
}

impl TokenSink for PageSink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut tree = self.tree.borrow_mut();
        match token {
            Token::TagToken(tag) => match tag.kind {
                TagKind::StartTag => {
                    if let Some(raw) = tree.start(tag) {
                        return TokenSinkResult::RawData(raw);
                    }
                }
                TagKind::EndTag => tree.end(&tag.name),
            },
            Token::CharacterTokens(text) => tree.text(text),
            Token::DoctypeToken(_)
            | Token::CommentToken(_)
            | Token::NullCharacterToken
            | Token::EOFToken
            | Token::ParseError(_) => {}
        }
        TokenSinkResult::Continue
    }
}

#[cfg(test)]
mod tests;
