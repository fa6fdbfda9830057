//! Counts of tests: how to read them from the test runners, how to add them, how to print them.
//!
//! Readers take text and know nothing of processes. Text that is not a summary counts nothing: the caller decides
//! whether a runner without a summary has failed.

use std::ops::AddAssign;

/// How many tests ended in which way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Ran and passed.
    pub passed: usize,
    /// Ran and failed, or should have run and could not.
    pub failed: usize,
    /// Left out on purpose.
    pub skipped: usize,
}

impl Totals {
    /// One thing that passed.
    pub const PASSED: Self = Self { passed: 1, failed: 0, skipped: 0 };
    /// One thing that failed.
    pub const FAILED: Self = Self { passed: 0, failed: 1, skipped: 0 };
    /// One thing that was left out.
    pub const SKIPPED: Self = Self { passed: 0, failed: 0, skipped: 1 };

    /// Moves `skipped` tests that had nothing to work on from passed, where their harness counts them, to skipped.
    pub fn with_skipped(self, skipped: usize) -> Self {
        Self { passed: self.passed.saturating_sub(skipped), skipped: self.skipped + skipped, ..self }
    }

    /// Returns the last line of a run. Programs read it, so its form must not change.
    pub fn closing_line(self) -> String {
        format!("tests: {} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// Reads `test result: ok. 12 passed; 0 failed; 1 ignored; …` of a Rust test binary; `None` for any other line.
pub fn of_libtest_line(line: &str) -> Option<Totals> {
    let rest = line.strip_prefix("test result: ")?;
    let count = |word: &str| {
        rest.split(';').find_map(|part| {
            let number = part.trim().strip_suffix(word)?.trim_end();
            // The first part reads `ok. 12 passed`.
            number.rsplit(' ').next()?.parse().ok()
        })
    };
    Some(Totals { passed: count("passed")?, failed: count("failed")?, skipped: count("ignored")? })
}

/// The line that a Rust test prints when it has nothing to work on: `SKIPPED_LINE` of
/// `crates/testkit/src/recordings.rs`.
const SKIPPED_LINE: &str = "skipped: the recordings are not beside the repository";

/// Returns whether a line says that a test had nothing to work on. It may follow other text on the same line.
pub fn says_skipped(line: &str) -> bool {
    line.ends_with(SKIPPED_LINE)
}

/// Reads the closing comments of TAP as `node --test --test-reporter=tap` writes them, such as `# pass 3`; `None` if
/// they are missing. Tests to be done count as skipped, and cancelled ones as failed.
pub fn of_tap(text: &str) -> Option<Totals> {
    let count = |word: &str| {
        text.lines().rev().find_map(|line| {
            line.strip_prefix("# ")?.strip_prefix(word)?.strip_prefix(' ')?.trim().parse::<usize>().ok()
        })
    };
    let skipped = count("skipped")? + count("todo").unwrap_or(0);
    let failed = count("fail")? + count("cancelled").unwrap_or(0);
    Some(Totals { passed: count("pass")?, failed, skipped })
}

/// Reads what Python's `unittest` prints last: `Ran 5 tests in …`, then `OK` or `FAILED (failures=1, …)`. `None` if
/// either is missing. Expected failures count as skipped.
pub fn of_unittest(text: &str) -> Option<Totals> {
    let ran: usize = text.lines().rev().find_map(|line| {
        let (number, rest) = line.strip_prefix("Ran ")?.split_once(' ')?;
        rest.starts_with("test").then(|| number.parse().ok())?
    })?;
    let verdict = text.lines().rev().find(|line| {
        line.starts_with("OK") || line.starts_with("FAILED") || line.starts_with("NO TESTS RAN")
    })?;
    let count = |word: &str| -> usize {
        let Some((_, inside)) = verdict.split_once('(') else { return 0 };
        inside
            .trim_end_matches(')')
            .split(", ")
            .find_map(|part| part.strip_prefix(word)?.strip_prefix('=')?.parse().ok())
            .unwrap_or(0)
    };
    let failed = count("failures") + count("errors") + count("unexpected successes");
    let skipped = count("skipped") + count("expected failures");
    Some(Totals { passed: ran.saturating_sub(failed + skipped), failed, skipped })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(passed: usize, failed: usize, skipped: usize) -> Totals {
        Totals { passed, failed, skipped }
    }

    #[test]
    fn the_closing_line_has_its_fixed_form() {
        assert_eq!(totals(12, 0, 3).closing_line(), "tests: 12 passed, 0 failed, 3 skipped");
    }

    #[test]
    fn a_result_line_of_a_rust_test_binary_is_read() {
        let line = "test result: FAILED. 12 passed; 2 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.03s";
        assert_eq!(of_libtest_line(line), Some(totals(12, 2, 1)));
    }

    #[test]
    fn colour_around_the_verdict_does_not_matter() {
        let line = "test result: \u{1b}[32mok\u{1b}(B\u{1b}[m. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(of_libtest_line(line), Some(totals(3, 0, 0)));
    }

    #[test]
    fn other_lines_of_a_rust_test_binary_count_nothing() {
        for line in
            ["running 3 tests", "test a::b ... ok", "  test result: ok. 1 passed", "test result: odd", ""]
        {
            assert_eq!(of_libtest_line(line), None, "{line}");
        }
    }

    #[test]
    fn tests_without_recordings_are_skipped_and_not_passed() {
        assert!(says_skipped(SKIPPED_LINE));
        assert!(says_skipped(&format!("test every_scenario_loads ... {SKIPPED_LINE}")));
        assert!(!says_skipped("test says_skipped ... ok"));
        assert_eq!(totals(12, 1, 2).with_skipped(3), totals(9, 1, 5));
        let testkit = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/testkit/src/recordings.rs");
        let source = std::fs::read_to_string(testkit).unwrap();
        assert!(source.contains(&format!("\"{SKIPPED_LINE}\"")), "both sides know the same line");
    }

    #[test]
    fn tap_is_read_from_its_closing_comments() {
        let text = "TAP version 13\nok 1 - a\n1..4\n# tests 4\n# suites 0\n# pass 2\n# fail 1\n# cancelled 0\n# skipped 1\n# todo 0\n# duration_ms 51.2\n";
        assert_eq!(of_tap(text), Some(totals(2, 1, 1)));
        assert_eq!(of_tap("node: bad option"), None);
    }

    #[test]
    fn unittest_is_read_from_its_last_lines() {
        let failed = "..F\n------\nRan 5 tests in 0.1s\n\nFAILED (failures=1, errors=1, skipped=1)\n";
        assert_eq!(of_unittest(failed), Some(totals(2, 2, 1)));
        assert_eq!(of_unittest("Ran 1 test in 0.0s\n\nOK\n"), Some(totals(1, 0, 0)));
        assert_eq!(of_unittest("Ran 2 tests in 0.0s\n\nOK (skipped=2)\n"), Some(totals(0, 0, 2)));
        assert_eq!(of_unittest("Traceback (most recent call last):"), None);
    }
}
