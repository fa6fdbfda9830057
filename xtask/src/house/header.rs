//! Every module begins with a comment that says what it is for.
//!
//! Only the presence of the comment can be checked; whether it is worth reading is for the reviewer.

use super::{Findings, SourceFile};

/// Complains about every Rust file, tests excepted, whose first line is not a `//!` with a text.
pub fn check(files: &[SourceFile]) -> Findings {
    let mut findings = Findings::default();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        let first = file.text.lines().next().unwrap_or_default();
        let says = first.strip_prefix("//!").map(str::trim);
        match says {
            Some(text) if !text.is_empty() => {}
            Some(_) | None => findings.complaints.push(format!(
                "{} opens without a `//!` comment: say what it is responsible for and what it leaves to others",
                file.path
            )),
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> usize {
        check(&[SourceFile { path: path.to_owned(), text: text.to_owned() }]).complaints.len()
    }

    #[test]
    fn a_module_must_open_with_its_comment() {
        assert_eq!(complaints("a.rs", "//! Reads lines.\n"), 0);
        assert_eq!(complaints("a.rs", "use b;\n//! Too late.\n"), 1);
        assert_eq!(complaints("a.rs", "//!\n"), 1);
        assert_eq!(complaints("a.rs", "/// An item.\n"), 1);
        assert_eq!(complaints("a.rs", ""), 1);
    }

    #[test]
    fn tests_and_other_files_may_open_as_they_like() {
        assert_eq!(complaints("crates/a/tests/b.rs", "use c;\n"), 0);
        assert_eq!(complaints("b.md", "text\n"), 0);
    }
}
