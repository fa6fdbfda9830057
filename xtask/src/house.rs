//! The house rules that a program can check: `cargo xtask test --only house`.
//!
//! Each check is a function from text to complaints, and has its tests beside it; reading files happens
//! here. A complaint names the file and what to do. Notes are printed too and fail nothing.

mod budget;
mod cells;
mod crates;
mod exceptions;
mod exports;
mod flags;
mod folders;
mod forbidden;
mod header;
mod invariants;
mod lookups;
mod one_word;
mod reminders;
mod scan;
mod sizes;
mod toolnames;
mod trust;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::repo::Repo;
use crate::totals::Totals;

/// What one check has to say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Broken rules. One is enough to fail.
    pub complaints: Vec<String>,
    /// What to look at, without failing.
    pub notes: Vec<String>,
}

/// A file of the repository as the checks see it.
pub struct SourceFile {
    /// Relative to the root, with `/`.
    pub path: String,
    /// The whole text.
    pub text: String,
}

impl SourceFile {
    /// Returns whether the file is Rust code, by its name.
    fn is_rust(&self) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == "rs")
    }

    /// Returns whether the whole file is a test, by its path. The rules about sizes and headers do not apply to tests.
    fn is_test(&self) -> bool {
        let mut parts = self.path.rsplit('/');
        let name = parts.next().unwrap_or_default();
        name == "tests.rs" || name.ends_with("_tests.rs") || parts.any(|folder| folder == "tests")
    }
}

/// Runs every check, prints what it finds and counts each check as one test. A list of exceptions that cannot be read
/// is an error.
pub fn run(repo: &Repo) -> Result<Totals> {
    let files = text_files(repo)?;
    let exceptions = exceptions::parse(include_str!("../exceptions.txt"))?;
    let tool_names = toolnames::parse(include_str!("../tool-names.txt"))?;
    let binary = repo.target_dir().join("release").join("lathe");
    let checks = [
        ("dependency directions", crates::check(&repo.metadata)?),
        ("sizes", sizes::check(&files, &exceptions.sizes)),
        ("module headers", header::check(&files)),
        ("forbidden text", forbidden::check(&files, &repo.root)),
        ("flags", flags::check(&files)),
        ("exported names", exports::check(&files, &exceptions)),
        ("one-word names", one_word::check(&files)),
        ("invariants", invariants::check(&files)),
        ("folders", folders::check(&files)),
        ("look-ups by a string", lookups::check(&files)),
        ("reminders", reminders::check(&files)),
        ("shared cells", cells::check(&files)),
        ("tool names", toolnames::check(&files, &tool_names)),
        ("trust", trust::check(&files)),
        ("budgets", budget::check(&files, fs::metadata(binary).ok().map(|found| found.len()))),
    ];
    let mut totals = Totals::default();
    for (name, findings) in checks {
        let broken = !findings.complaints.is_empty();
        println!("{name}: {}", if broken { "failed" } else { "ok" });
        for complaint in &findings.complaints {
            println!("  error: {complaint}");
        }
        for note in &findings.notes {
            println!("  note: {note}");
        }
        totals += if broken { Totals::FAILED } else { Totals::PASSED };
    }
    Ok(totals)
}

/// Returns every file of the repository that is UTF-8; others are left out. A file that cannot be read is an error.
fn text_files(repo: &Repo) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    for path in repo.files()? {
        let bytes = fs::read(repo.root.join(&path)).with_context(|| format!("failed to read {path}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(SourceFile { path, text });
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: String::new() }
    }

    #[test]
    fn tests_are_known_by_their_path() {
        for path in [
            "crates/a/tests/b.rs",
            "crates/a/src/b/tests.rs",
            "crates/a/src/tests/x.rs",
            "crates/a/src/b_tests.rs",
        ] {
            assert!(file(path).is_test(), "{path}");
        }
        for path in ["crates/testkit/src/lib.rs", "crates/a/src/latests.rs", "xtask/src/test.rs"] {
            assert!(!file(path).is_test(), "{path}");
        }
    }
}
