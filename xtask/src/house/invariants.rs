//! The invariants that ARCHITECTURE.md states: each names what holds it, a test file or a check, and every path that the
//! document names exists. A sentence that nothing holds is a wish.

use super::{Findings, SourceFile};

const DOCUMENT: &str = "ARCHITECTURE.md";

/// What holds an invariant besides a test file.
const CHECKS: [&str; 3] = ["xtask house", "clippy fence", "cargo xtask bench"];

/// Complains about each invariant that does not name what holds it, and about every path below `crates/` in the
/// document that does not exist.
pub fn check(files: &[SourceFile]) -> Findings {
    let mut findings = Findings::default();
    let Some(document) = files.iter().find(|file| file.path == DOCUMENT) else {
        findings.complaints.push(format!("{DOCUMENT} is missing"));
        return findings;
    };
    let exists = |path: &str| {
        let folder = format!("{}/", path.trim_end_matches('/'));
        files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    };
    for (line, invariant) in invariants(&document.text) {
        let is_held = CHECKS.iter().any(|check| invariant.contains(check))
            || quoted(&invariant).any(|path| path.contains("/tests/"));
        if !is_held {
            findings
                .complaints
                .push(format!("{DOCUMENT}:{line}: an invariant names the test or check that holds it"));
        }
    }
    for (line, text) in (1..).zip(document.text.lines()) {
        let paths = quoted(text).filter(|path| path.starts_with("crates/") && !path.contains('<'));
        findings.complaints.extend(
            paths.filter(|path| !exists(path)).map(|path| format!("{DOCUMENT}:{line}: there is no {path}")),
        );
    }
    findings
}

/// Returns each paragraph from `**Invariant:**` to its end, in one line, with the number of the line it starts on.
fn invariants(text: &str) -> Vec<(usize, String)> {
    const MARK: &str = "**Invariant:**";
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (line, text) in (1..).zip(text.lines()) {
        if let Some(at) = text.find(MARK) {
            found.push((line, text[at..].to_owned()));
            is_open = true;
        } else if text.trim().is_empty() {
            is_open = false;
        } else if let Some((_, invariant)) = found.last_mut().filter(|_| is_open) {
            invariant.push(' ');
            invariant.push_str(text);
        }
    }
    found
}

/// Returns the texts between backquotes, which must be paired.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        check(&[file(DOCUMENT, text), file("crates/a/tests/b.rs", "")]).complaints
    }

    #[test]
    fn an_invariant_names_a_test_or_a_check() {
        assert!(complaints("**Invariant:** it holds\n(`crates/a/tests/b.rs`).\n").is_empty());
        assert!(complaints("x **Invariant:** it holds (`xtask house`, \"sizes\").\n").is_empty());
        let found = complaints("a\n\n**Invariant:** it holds.\n\nSee `crates/a/tests/b.rs`.\n");
        assert_eq!(found, ["ARCHITECTURE.md:3: an invariant names the test or check that holds it"]);
    }

    #[test]
    fn paths_exist() {
        assert!(complaints("`crates/a/tests/` and `crates/<name>`\n").is_empty());
        assert_eq!(complaints("`crates/a/src/c.rs`\n"), ["ARCHITECTURE.md:1: there is no crates/a/src/c.rs"]);
    }
}
