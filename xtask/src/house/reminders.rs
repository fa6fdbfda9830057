//! The tag around text that the runtime adds to a conversation is written in one place.
//!
//! `crates/protocol/src/reminder.rs` breaks the tag wherever it occurs in the text it wraps. A second place would have
//! to do the same, so the name of the tag may not occur in any other code; comments and tests are not checked.

use super::scan::Code;
use super::{Findings, SourceFile};

/// The one file that may write the tag.
const MAKER: &str = "crates/protocol/src/reminder.rs";

/// Concatenated, so that this file does not fail its own check.
const TAG: &str = concat!("system", "-reminder");

/// Code that spells the tag out without text from outside: file, lines, reason.
const ALLOWED: &[(&str, usize, &str)] = &[
    ("crates/scripted/src/facts.rs", 1, "recognises reminders in requests and writes none"),
    (
        "crates/tools/src/file_tools/read/text.rs",
        2,
        "fixed warnings of Read, with numbers at most; other clients know them by heart",
    ),
];

/// Complains about each file that has the tag on more lines than it is allowed, or on fewer, so that the list of
/// exceptions shrinks. It is a complaint too if [`MAKER`] is missing.
pub fn check(files: &[SourceFile]) -> Findings {
    let mut findings = Findings::default();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test() && file.path != MAKER) {
        let lines = lines_with_tag(&file.text);
        let allowed = ALLOWED.iter().find(|(path, ..)| *path == file.path).map_or(0, |(_, lines, _)| *lines);
        if lines.len() > allowed {
            let numbers: Vec<String> = lines.iter().map(usize::to_string).collect();
            findings.complaints.push(format!(
                "{}: the tag of reminders is spelled out in line {}; call `system_reminder` of {MAKER}, \
                 which breaks tags inside the text",
                file.path,
                numbers.join(", ")
            ));
        } else if lines.len() < allowed {
            findings.complaints.push(format!(
                "xtask/src/house/reminders.rs allows {allowed} line(s) in {}, which has {}",
                file.path,
                lines.len()
            ));
        }
    }
    if !files.iter().any(|file| file.path == MAKER) {
        findings.complaints.push(format!("{MAKER} is missing"));
    }
    findings
}

/// Returns the lines outside of tests and comments that contain the tag, from 1.
fn lines_with_tag(text: &str) -> Vec<usize> {
    let tests = Code::new(text).test_modules();
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    lines
        .filter(|(_, line)| !line.trim_start().starts_with("//") && line.to_ascii_lowercase().contains(TAG))
        .map(|(number, _)| number)
        .filter(|number| !tests.iter().any(|test| test.contains(number)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let maker = file(MAKER, &format!("const A: &str = \"<{TAG}>\";\n"));
        check(&[maker, file(path, text)]).complaints
    }

    #[test]
    fn a_second_maker_is_found_with_its_lines() {
        for tag in [TAG.to_owned(), TAG.to_uppercase()] {
            let text = format!("//! a\nfn a() {{\n    format!(\"<{tag}>{{x}}</{tag}>\")\n}}\n");
            let found = complaints("crates/agent/src/a.rs", &text);
            assert!(
                found.len() == 1 && found[0].contains("agent/src/a.rs") && found[0].contains("line 3;"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn comments_and_tests_may_name_the_tag() {
        let text = format!(
            "//! <{TAG}>\n/// </{TAG}>\nfn a() {{}}\n#[cfg(test)]\nmod tests {{\n    const A: &str = \"<{TAG}>\";\n}}\n"
        );
        assert!(complaints("crates/agent/src/a.rs", &text).is_empty());
        assert!(complaints("crates/agent/tests/a.rs", &format!("const A: &str = \"<{TAG}>\";\n")).is_empty());
    }

    #[test]
    fn what_is_allowed_is_counted() {
        let (path, lines, _) = ALLOWED[0];
        let line = format!("const A: &str = \"<{TAG}>\";\n");
        assert!(complaints(path, &line.repeat(lines)).is_empty());
        assert_eq!(complaints(path, &line.repeat(lines + 1)).len(), 1);
        assert_eq!(complaints(path, "fn a() {}\n").len(), 1, "an entry that is not needed any more");
    }

    #[test]
    fn the_maker_must_be_there() {
        assert_eq!(check(&[]).complaints.len(), 1);
    }
}
