//! One-word names of types in `agent` and `launch`. A word such as `Answer` or `State` says nothing to a reader who finds
//! it in a search, so a type that other files can see has two words at least, unless the glossary of ARCHITECTURE.md
//! says what the word means.

use std::collections::BTreeSet;

use super::scan::Code;
use super::{Findings, SourceFile};

/// The crates that are checked.
const CHECKED: [&str; 2] = ["crates/agent/src/", "crates/launch/src/"];

/// Complains about one-word types that other files can see and the glossary does not contain.
pub fn check(files: &[SourceFile]) -> Findings {
    let mut findings = Findings::default();
    let document = files.iter().find(|file| file.path == "ARCHITECTURE.md");
    let glossary = document.map(|file| glossary(&file.text)).unwrap_or_default();
    let sources = files.iter().filter(|file| CHECKED.iter().any(|crate_| file.path.starts_with(crate_)));
    for file in sources.filter(|file| file.is_rust() && !file.is_test()) {
        for name in visible_types(&file.text) {
            let words = name.chars().filter(char::is_ascii_uppercase).count();
            if words < 2 && !glossary.contains(&name.to_lowercase()) {
                findings.complaints.push(format!(
                    "{}: `{name}` is one word that the glossary does not have: say what it is",
                    file.path
                ));
            }
        }
    }
    findings
}

/// Returns the words of the glossary in small letters: the first cells of its table. Empty if the document has none.
fn glossary(document: &str) -> BTreeSet<String> {
    let section = document.split("\n## Glossary").nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    cells.map(|cell| cell.trim().to_lowercase()).collect()
}

/// Returns the names of types that other files can see, outside of tests: those declared with `pub` at the outermost
/// level.
fn visible_types(source: &str) -> Vec<String> {
    let code = Code::new(source);
    let tests = code.test_modules();
    let mut found = Vec::new();
    for (number, line) in (1..).zip(source.lines()) {
        if tests.iter().any(|lines| lines.contains(&number)) {
            continue;
        }
        let visible = ["pub ", "pub(crate) ", "pub(super) "].iter().find_map(|mark| line.strip_prefix(mark));
        let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
        let Some(rest) = visible.and_then(|rest| kinds.iter().find_map(|kind| rest.strip_prefix(kind)))
        else {
            continue;
        };
        found.push(rest.chars().take_while(|letter| letter.is_alphanumeric()).collect());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_needs_an_entry_in_the_glossary() {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file(
                "ARCHITECTURE.md",
                "# A\n\n## Glossary\n\n| word | what |\n| --- | --- |\n| turn | x |\n\n## B\n",
            ),
            file(
                "crates/agent/src/a.rs",
                "pub struct Turn;\npub(crate) enum State { A }\nstruct Own;\npub type TwoWords = u8;\n\
                 #[cfg(test)]\nmod tests {\n    pub struct Fake;\n}\n",
            ),
            file("crates/tools/src/a.rs", "pub struct Other;\n"),
        ];
        let found = check(&files).complaints;
        assert_eq!(
            found,
            ["crates/agent/src/a.rs: `State` is one word that the glossary does not have: say what it is"]
        );
    }
}
