//! Test material beside the repository that is not part of it: recordings of the reference, and lists of cases. This
//! module finds it and decides what happens if it is missing; the tests read it.
//!
//! A clone without the material is complete, and its tests pass: a test that needs the material prints one fixed line
//! and returns. `cargo xtask test` counts these lines as skipped tests. With `LATHE_RECORDINGS=required` the test fails
//! instead. The line is written to stdout directly and not with `println!`, because the test harness captures what a
//! passing test prints.
#![allow(clippy::disallowed_methods, reason = "whether the material is promised is said by the environment")]

use std::io::Write;
use std::path::{Path, PathBuf};

/// The line of a test whose material is missing. `xtask/src/totals.rs` searches for this text.
pub const SKIPPED_LINE: &str = "skipped: the recordings are not beside the repository";

/// Returns the folder of the recordings. If it is missing, prints the fixed line and returns `None`, or panics with
/// `LATHE_RECORDINGS=required`. Call it once in a test: each `None` counts as a skipped test.
pub fn recordings() -> Option<PathBuf> {
    beside_repository("recordings")
}

/// Returns a file or folder of the material, such as `reference/security-cases.json`. If it is missing, prints the
/// fixed line and returns `None`, or panics with `LATHE_RECORDINGS=required`.
pub fn beside_repository(path: &str) -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path);
    let required = std::env::var("LATHE_RECORDINGS").is_ok_and(|value| value == "required");
    found(place, if required { IfMissing::Fail } else { IfMissing::Skip })
}

/// What happens to a test whose material is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IfMissing {
    Skip,
    Fail,
}

/// Returns the place if it exists. Otherwise the test fails, or the line that marks a skipped test is printed and the
/// result is `None`. The line goes to stdout directly, because the test harness captures what `println!` prints.
fn found(place: PathBuf, if_missing: IfMissing) -> Option<PathBuf> {
    if place.exists() {
        return Some(place);
    }
    assert!(if_missing == IfMissing::Skip, "{} is missing, and LATHE_RECORDINGS=required", place.display());
    // The error is ignored: without the line only the number of skipped tests is wrong.
    let _ = std::io::stdout().lock().write_all(format!("{SKIPPED_LINE}\n").as_bytes());
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found() {
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(found(here.clone(), IfMissing::Fail), Some(here));
    }

    #[test]
    #[should_panic(expected = "LATHE_RECORDINGS=required")]
    fn what_is_required_must_be_there() {
        found(PathBuf::from("/nowhere/at/all"), IfMissing::Fail);
    }
}
