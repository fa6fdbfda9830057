//! The compiled input of a search: matcher, walk, and how much of the results is wanted.
//!
//! What ripgrep would reject is rejected here, in ripgrep's words.

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{Searcher, SearcherBuilder};
use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;
use ignore::types::TypesBuilder;
use serde_json::Value;

use super::Cut;
use crate::search_tools::search::{Place, Vcs};

/// The number of results when the input does not say.
const DEFAULT_LIMIT: usize = 250;

/// The most results that offset and limit together can reach; it bounds the memory.
const MAX_REACH: usize = 100_000;

/// Memory for one line, or for one file when matches may span lines. Files that need more are skipped.
const HEAP_BYTES: usize = 32 << 20;

/// Memory of a compiled pattern, and of its caches, for each thread.
const REGEX_BYTES: usize = 10 << 20;
const REGEX_CACHE_BYTES: usize = 16 << 20;

/// The form of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Files,
    Content,
    Count,
}

/// Which of the results are shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page {
    pub offset: usize,
    /// `None` shows all.
    pub limit: Option<usize>,
    pub max_bytes: usize,
}

impl Page {
    /// Returns how many results have to be kept so that this page can be shown: up to its end, and at most
    /// [`MAX_REACH`].
    pub fn reach(self) -> usize {
        match self.limit {
            Some(limit) => self.offset.saturating_add(limit).min(MAX_REACH),
            None => MAX_REACH,
        }
    }

    /// Returns the results of this page, and what was left out. The first result that does not fit into its bytes ends
    /// the page. `items` are the first results, `total` is the number of all.
    pub fn of_items(self, items: impl Iterator<Item = String>, total: u64) -> (Vec<String>, Cut) {
        let mut bytes = 0;
        let shown: Vec<String> = items
            .skip(self.offset)
            .take(self.limit.unwrap_or(usize::MAX))
            .take_while(|item| {
                bytes += item.len() + 1;
                bytes <= self.max_bytes
            })
            .collect();
        let more = (self.offset + shown.len()) as u64 != total.max(self.offset as u64);
        let cut =
            Cut { limit: more.then_some(shown.len()), offset: (self.offset > 0).then_some(self.offset) };
        (shown, cut)
    }
}

/// A search.
pub(super) struct Query {
    pub matcher: RegexMatcher,
    pub walk: WalkBuilder,
    pub mode: Mode,
    pub page: Page,
    pub line_numbers: bool,
    pub only_matching: bool,
    before: usize,
    after: usize,
    multiline: bool,
}

impl Query {
    /// Reads the input of a call, with the defaults for what it does not name. A negative number counts as 0, and a
    /// `head_limit` of 0 shows all; lines around matches count only for content, and `context` or `-C` there overrides
    /// `-A` and `-B`. An invalid pattern, glob or type is an error, which is a text for the model.
    pub fn of(input: &Value, place: &Place, max_bytes: usize) -> Result<Self, String> {
        let flag = |name: &str| input[name].as_bool();
        let count = |name: &str| input[name].as_f64().map(|number| number.max(0.0) as usize);
        let mode = match input["output_mode"].as_str() {
            Some("content") => Mode::Content,
            Some("count") => Mode::Count,
            Some(_) | None => Mode::Files,
        };
        let around = count("context").or(count("-C"));
        let context = |name: &str| match mode {
            Mode::Content => around.or(count(name)).unwrap_or(0),
            Mode::Files | Mode::Count => 0,
        };
        let multiline = flag("multiline").unwrap_or(false);
        let limit = count("head_limit").unwrap_or(DEFAULT_LIMIT);
        Ok(Self {
            matcher: matcher(
                input["pattern"].as_str().unwrap_or_default(),
                multiline,
                flag("-i").unwrap_or(false),
            )?,
            walk: walk_of(input, place)?,
            mode,
            page: Page {
                offset: count("offset").unwrap_or(0).min(MAX_REACH),
                limit: (limit > 0).then_some(limit),
                max_bytes,
            },
            line_numbers: flag("-n").unwrap_or(true),
            only_matching: flag("-o").unwrap_or(false),
            before: context("-B"),
            after: context("-A"),
            multiline,
        })
    }

    /// Returns whether lines around a match are shown, which means that groups of lines are separated.
    pub fn has_context(&self) -> bool {
        self.before > 0 || self.after > 0
    }

    /// Returns a searcher; each thread needs its own, because it owns the buffers.
    pub fn searcher(&self) -> Searcher {
        let numbers = self.mode == Mode::Content && self.line_numbers;
        SearcherBuilder::new()
            .line_number(numbers)
            .before_context(self.before)
            .after_context(self.after)
            .multi_line(self.multiline)
            .heap_limit(Some(HEAP_BYTES))
            .build()
    }
}

/// Compiles the pattern, with bounds on its size and its caches; an error is a text for the model. `^` and `$` always
/// match at lines; without `multiline` a match cannot contain a line end, which lets the searcher go line by line.
fn matcher(pattern: &str, multiline: bool, ignore_case: bool) -> Result<RegexMatcher, String> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .unicode(true)
        .octal(false)
        .case_insensitive(ignore_case)
        .size_limit(REGEX_BYTES)
        .dfa_size_limit(REGEX_CACHE_BYTES);
    if multiline {
        builder.dot_matches_new_line(true);
    } else {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(pattern).map_err(|error| {
        let hint = if !multiline && pattern.contains("\\n") {
            "\nSet multiline: true to match across lines."
        } else {
            ""
        };
        format!("{error}{hint}")
    })
}

/// Returns the walk over the files that `glob` and `type` select. Ignore files are respected, but as in ripgrep a file
/// that `glob` selects is searched even if one of them names it. An error is text for the model.
fn walk_of(input: &Value, place: &Place) -> Result<WalkBuilder, String> {
    let mut builder = place.walk(Vcs::Skip);
    builder.add_custom_ignore_filename(".rgignore");
    if let Some(globs) = input["glob"].as_str() {
        let mut overrides = OverrideBuilder::new(&place.root);
        for glob in split_globs(globs) {
            overrides.add(glob).map_err(|error| error.to_string())?;
        }
        builder.overrides(overrides.build().map_err(|error| error.to_string())?);
    }
    if let Some(name) = input["type"].as_str().filter(|name| !name.is_empty()) {
        let mut types = TypesBuilder::new();
        types.add_defaults().select(name);
        builder.types(types.build().map_err(|error| error.to_string())?);
    }
    Ok(builder)
}

/// Splits globs that are separated by spaces or commas; a comma in braces belongs to its glob.
fn split_globs(globs: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    globs
        .split(move |letter: char| {
            match letter {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            letter.is_whitespace() || (letter == ',' && depth == 0)
        })
        .filter(|glob| !glob.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_split_outside_of_braces() {
        let globs: Vec<&str> = split_globs("*.{ts,tsx}, *.js  !x").collect();
        assert_eq!(globs, ["*.{ts,tsx}", "*.js", "!x"]);
    }

    #[test]
    fn a_page_says_what_it_left_out() {
        let page = |offset, limit, max_bytes| {
            let page = Page { offset, limit, max_bytes };
            let items = (0..5).map(|n| n.to_string());
            let (shown, cut) = page.of_items(items, 5);
            (shown.join(""), cut.limit, cut.offset)
        };
        assert_eq!(page(0, Some(9), 99), ("01234".to_owned(), None, None));
        assert_eq!(page(0, Some(5), 99), ("01234".to_owned(), None, None));
        assert_eq!(page(1, Some(2), 99), ("12".to_owned(), Some(2), Some(1)));
        assert_eq!(page(3, Some(2), 99), ("34".to_owned(), None, Some(3)));
        assert_eq!(page(9, Some(2), 99), (String::new(), None, Some(9)));
        assert_eq!(page(0, None, 5), ("01".to_owned(), Some(2), None));
    }
}
