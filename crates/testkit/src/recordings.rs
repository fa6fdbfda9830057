//! Material that lies beside the repository and is not part of it: recordings of the reference, and lists of
//! cases. Knows where it is and what it means when it is not there; what is in it is its readers' business.
//!
//! A clone without the material is whole, and its tests pass: a test that needs it says so with one fixed line
//! and returns. `cargo xtask test` counts these lines as skipped tests. With `LATHE_RECORDINGS=required` the
//! test fails instead. The line goes to stdout itself and not through `println!`, because the test harness
//! keeps what a passing test prints.
#![allow(clippy::disallowed_methods, reason = "whether the material is promised is said by the environment")]

use std::io::Write;
use std::path::{Path, PathBuf};

/// What a test says that has nothing to work on. `xtask/src/totals.rs` looks for this text.
pub const SKIPPED_LINE: &str = "skipped: the recordings are not beside the repository";

/// The folder of the recordings; none, after the fixed line, where it is missing. Ask once in a test: each
/// time without an answer counts as a skipped test.
pub fn recordings() -> Option<PathBuf> {
    beside_repository("recordings")
}

/// A file or folder of the material, such as `reference/security-cases.json`; otherwise as [`recordings`].
pub fn beside_repository(path: &str) -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path);
    let required = std::env::var("LATHE_RECORDINGS").is_ok_and(|value| value == "required");
    found(place, if required { IfMissing::Fail } else { IfMissing::Skip })
}

/// What becomes of a test whose material is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IfMissing {
    Skip,
    Fail,
}

fn found(place: PathBuf, if_missing: IfMissing) -> Option<PathBuf> {
    if place.exists() {
        return Some(place);
    }
    assert!(if_missing == IfMissing::Skip, "{} is missing, and LATHE_RECORDINGS=required", place.display());
    // A line that cannot be written is missing in the totals, which is no reason to fail.
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
