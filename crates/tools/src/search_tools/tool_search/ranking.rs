//! Which tools words describe best. Names count more than descriptions, and whole words more than parts of them.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::Tool;

/// The most words of a query that count.
const MAX_WORDS: usize = 32;

/// The words of a query, in lower case.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// Those that make a tool a better match.
    any: Vec<String>,
    /// Words that a tool must contain to match.
    required: Vec<String>,
}

impl Words {
    /// Splits a query at its spaces into at most [`MAX_WORDS`] words, in lower case and without punctuation around
    /// them. Words after a `+` are required.
    pub fn of(query: &str) -> Self {
        let mut words = Self::default();
        for word in query.split_whitespace().take(MAX_WORDS) {
            let (list, word) = match word.strip_prefix('+') {
                Some(word) => (&mut words.required, word),
                None => (&mut words.any, word),
            };
            let word = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_').to_lowercase();
            if !word.is_empty() {
                list.push(word);
            }
        }
        words
    }
}

/// Returns the names of the tools that match best, at most `max_results`, the best first; of two that match as well, in
/// the order given. Tools that do not match are left out.
pub(super) fn best<'a>(
    tools: impl Iterator<Item = &'a Arc<dyn Tool>>,
    words: &Words,
    max_results: usize,
) -> Vec<String> {
    let scored = tools.filter_map(|tool| Some((score(tool.as_ref(), words)?, tool.name())));
    let mut found: Vec<(u32, &str)> = scored.collect();
    found.sort_by_key(|(score, _)| Reverse(*score));
    found.into_iter().take(max_results).map(|(_, name)| name.to_owned()).collect()
}

/// Returns how well a tool matches, by the sum over all words; `None` if a required word, or every word, does not
/// occur.
fn score(tool: &dyn Tool, words: &Words) -> Option<u32> {
    let name = tool.name().to_lowercase();
    let name_parts = parts_of_name(tool.name());
    let description = tool.description().to_lowercase();
    let of_word = |word: &String| match score_of_word(word, &name, &name_parts, &description) {
        // The plural of what is there.
        0 if word.len() > 3 => {
            word.strip_suffix('s').map_or(0, |word| score_of_word(word, &name, &name_parts, &description))
        }
        score => score,
    };
    let mut sum = 0;
    for word in &words.required {
        match of_word(word) {
            0 => return None,
            score => sum += score,
        }
    }
    sum += words.any.iter().map(of_word).sum::<u32>();
    (sum > 0).then_some(sum)
}

/// Returns how well one word in lower case matches a tool; 0 if it occurs neither in its name nor in its description.
/// All arguments must be in lower case.
fn score_of_word(word: &str, name: &str, name_parts: &[String], description: &str) -> u32 {
    let in_name = if word == name {
        100
    } else if name_parts.iter().any(|part| part == word) {
        12
    } else if name.contains(word) {
        6
    } else {
        0
    };
    let in_description = if !description.contains(word) {
        0
    } else if description.split(|c: char| !c.is_alphanumeric() && c != '_').any(|other| other == word) {
        3
    } else {
        1
    };
    in_name + in_description
}

/// Returns the words that a name is made of, in lower case: `CronCreate` and `mcp__cron__create_job` contain `cron` and
/// `create`.
fn parts_of_name(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut after_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && after_lower) {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut().filter(|_| c.is_alphanumeric()) {
            part.extend(c.to_lowercase());
        }
        after_lower = c.is_lowercase();
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_words_and_required_words() {
        let words = Words::of("  +Slack send, \"message\" + - ");
        assert_eq!(words.required, ["slack"]);
        assert_eq!(words.any, ["send", "message"]);
        assert_eq!(Words::of(" \t"), Words::default());
    }

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(parts_of_name("NotebookEdit"), ["notebook", "edit"]);
        assert_eq!(parts_of_name("mcp__my-server__getURL2"), ["mcp", "my", "server", "get", "url2"]);
        assert!(parts_of_name("").is_empty());
    }
}
