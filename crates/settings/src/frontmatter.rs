//! Frontmatter: the lines of YAML between `---` at the top of a Markdown file.
//!
//! Surprising: frontmatter that is not valid YAML is parsed a second time with quotes around its values. People write
//! `paths: **/*.ts`, and to YAML the asterisk starts a reference.

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The longest frontmatter that is parsed.
pub const MAX_FRONTMATTER_BYTES: usize = 64 << 10;

/// Splits a text into its frontmatter, without the lines around it, and the rest. `None` if the text does not begin
/// with `---` or no line closes it. A byte order mark is left out.
pub fn split(text: &str) -> (Option<&str>, &str) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| line.trim_end() == "---") else { return (None, text) };
    let mut end = first.len();
    for line in lines {
        if line.trim_end() == "---" {
            return (Some(&text[first.len()..end]), &text[end + line.len()..]);
        }
        end += line.len();
    }
    // Without a closing line, the first `---` is a horizontal rule of the Markdown text.
    (None, text)
}

/// Parses frontmatter into a type; an empty one counts as a mapping without keys, and one that is too long is refused.
/// What is not valid is tried again with quotes around its values. The error is a message for people, about the first
/// try.
pub fn read<T: DeserializeOwned>(yaml: &str) -> Result<T, String> {
    if yaml.len() > MAX_FRONTMATTER_BYTES {
        return Err(format!("the frontmatter is longer than {MAX_FRONTMATTER_BYTES} bytes"));
    }
    // YAML parses an empty document as null; callers expect a mapping without keys.
    let is_empty = yaml.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    let yaml = if is_empty { "{}" } else { yaml };
    serde_saphyr::from_str(yaml).or_else(|error| {
        let first_line = |error: serde_saphyr::Error| {
            let text = error.to_string();
            text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
        };
        // The first error describes the text as its author wrote it.
        serde_saphyr::from_str(&quoted(yaml)).map_err(|_| first_line(error))
    })
}

/// Returns the frontmatter with quotes around the value of each line, so that values which YAML would misread (`key: a:
/// b`) can be parsed. Values that are quoted, lists or block texts stay as they are.
fn quoted(yaml: &str) -> String {
    let mut text = String::with_capacity(yaml.len() + 64);
    for line in yaml.lines() {
        let body = line.trim_start();
        let start = if body.starts_with("- ") {
            Some(line.len() - body.len() + 2)
        } else {
            line.find(": ").map(|colon| colon + 2)
        };
        // Values that start with one of these are already quoted, span several lines, are comments, or are lists.
        let value = start
            .map(|start| line[start..].trim())
            .filter(|value| !value.is_empty() && !value.starts_with(['"', '\'', '|', '>', '#', '[']));
        match (start, value) {
            (Some(start), Some(value)) => {
                text += &line[..start];
                text.push('\'');
                text += &value.replace('\'', "''");
                text.push('\'');
            }
            (Some(_) | None, _) => text += line,
        }
        text.push('\n');
    }
    text
}

/// A list, or one text whose parts are separated by commas outside braces.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Words {
    /// `[a, b]`.
    List(Vec<String>),
    /// `a, b`.
    Text(String),
}

impl Words {
    /// Returns the parts, trimmed and without empty ones if they come from one text.
    pub fn into_vec(self) -> Vec<String> {
        match self {
            Self::List(list) => list,
            Self::Text(text) => {
                // The comma in `*.{ts,tsx}` belongs to the pattern.
                let mut depth = 0_i32;
                let outside = |c: char| {
                    depth += i32::from(c == '{') - i32::from(c == '}');
                    c == ',' && depth <= 0
                };
                let parts = text.split(outside).map(str::trim);
                parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
            }
        }
    }
}

/// Deserializes a flag that is written as `true` or as the quoted word. Any other text counts as `false`; `None` if the
/// value is null.
pub(crate) fn flag<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Flag {
        Bool(bool),
        Text(String),
    }
    Ok(match Option::<Flag>::deserialize(deserializer)? {
        Some(Flag::Bool(value)) => Some(value),
        Some(Flag::Text(text)) => Some(text.trim() == "true"),
        None => None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    struct Rule {
        #[serde(default)]
        paths: Option<Words>,
        #[serde(default, deserialize_with = "flag")]
        keep: Option<bool>,
    }

    #[test]
    fn the_top_is_split_off() {
        for (text, expected) in [
            ("---\na: 1\n---\nbody\n", (Some("a: 1\n"), "body\n")),
            ("---\r\na: 1\r\n---\r\nbody", (Some("a: 1\r\n"), "body")),
            ("\u{feff}---\n---\n", (Some(""), "")),
            ("---\nnever closed\n", (None, "---\nnever closed\n")),
            ("# title\n---\na\n---\n", (None, "# title\n---\na\n---\n")),
            ("----\na\n---\n", (None, "----\na\n---\n")),
            ("", (None, "")),
        ] {
            assert_eq!(split(text), expected, "{text:?}");
        }
    }

    #[test]
    fn paths_may_be_written_in_many_ways() {
        for (yaml, expected) in [
            ("paths: src/**/*.ts", vec!["src/**/*.ts"]),
            ("paths: **/*.ts", vec!["**/*.ts"]),
            ("paths: \"a, b\"", vec!["a", "b"]),
            ("paths: src/*.{ts,tsx}, lib/**", vec!["src/*.{ts,tsx}", "lib/**"]),
            ("paths: {a,b}/**", vec!["{a,b}/**"]),
            ("paths:\n  - a\n  - 'b, c'\n", vec!["a", "b, c"]),
            ("paths:\n- **/a\n- *.md\n", vec!["**/a", "*.md"]),
            ("paths: [\"a\", b]", vec!["a", "b"]),
        ] {
            let rule: Rule = read(yaml).unwrap_or_else(|error| panic!("{yaml}: {error}"));
            assert_eq!(rule.paths.unwrap().into_vec(), expected, "{yaml}");
        }
        assert_eq!(read::<Rule>("").unwrap(), Rule::default());
        assert_eq!(read::<Rule>("# only a remark\n").unwrap(), Rule::default());
        assert_eq!(read::<Rule>("keep: true").unwrap().keep, Some(true));
        assert_eq!(read::<Rule>("keep: 'true'").unwrap().keep, Some(true));
        assert!(read::<Rule>("paths: [a").is_err());
        assert!(read::<Rule>(&"a: 1\n".repeat(20_000)).is_err());
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "[-a: '\"*{}\\[\\]|>&!#\n\t]*") {
            let (yaml, body) = split(&text);
            prop_assert!(text.ends_with(body));
            let _ = read::<Rule>(yaml.unwrap_or(&text));
        }
    }
}
