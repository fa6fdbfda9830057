//! The budgets of the program: the number of packages in `Cargo.lock` and the size of the release binary.
//!
//! The binary is measured only if a release build exists; this check does not build one, because a test run should not
//! wait for it.

use super::{Findings, SourceFile};

const LOCK_PACKAGES: usize = 360;
const BINARY_BYTES: u64 = 22 * 1024 * 1024;

/// Reports both figures as notes, and as complaints if they exceed their budgets. `binary_bytes` is `None` if there is
/// no release build, which is only noted.
pub fn check(files: &[SourceFile], binary_bytes: Option<u64>) -> Findings {
    let mut findings = Findings::default();
    if let Some(lock) = files.iter().find(|file| file.path == "Cargo.lock") {
        let packages = lock.text.lines().filter(|line| *line == "[[package]]").count();
        let line = format!("Cargo.lock holds {packages} packages (at most {LOCK_PACKAGES})");
        findings.put(line, packages <= LOCK_PACKAGES);
    }
    match binary_bytes {
        Some(bytes) => {
            let line =
                format!("the release binary has {:.1} MB (at most {:.1})", mega(bytes), mega(BINARY_BYTES));
            findings.put(line, bytes <= BINARY_BYTES);
        }
        None => {
            findings.notes.push("the release binary was not measured: there is no release build".to_owned())
        }
    }
    findings
}

impl Findings {
    /// Adds a line, as a note if it is within the budget, otherwise as a complaint.
    fn put(&mut self, line: String, is_within: bool) {
        if is_within { self.notes.push(line) } else { self.complaints.push(line) }
    }
}

/// Converts bytes to megabytes of 1024 × 1024 bytes.
#[allow(clippy::cast_precision_loss, reason = "a size in bytes, printed with one digit")]
fn mega(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(packages: usize) -> [SourceFile; 1] {
        [SourceFile { path: "Cargo.lock".to_owned(), text: "[[package]]\nname = \"a\"\n".repeat(packages) }]
    }

    #[test]
    fn figures_within_the_budget_are_notes() {
        let found = check(&lock(360), Some(BINARY_BYTES));
        assert!(found.complaints.is_empty());
        assert_eq!(found.notes[0], "Cargo.lock holds 360 packages (at most 360)");
        assert_eq!(found.notes[1], "the release binary has 22.0 MB (at most 22.0)");
    }

    #[test]
    fn figures_over_the_budget_fail() {
        assert_eq!(check(&lock(361), Some(BINARY_BYTES + 1)).complaints.len(), 2);
    }

    #[test]
    fn a_missing_release_build_is_said() {
        assert!(check(&lock(1), None).notes[1].contains("was not measured"));
    }
}
