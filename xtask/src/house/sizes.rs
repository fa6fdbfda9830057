//! Limits for the length of files and functions: over the soft limit is listed, over the hard limit fails.
//!
//! Tests do not count: whole test files are not checked, and test modules inside a file are subtracted.

use super::exceptions::{Exception, Kind};
use super::scan::Code;
use super::{Findings, SourceFile};

/// A pair of limits in lines.
struct Limits {
    soft: usize,
    hard: usize,
}

const FILE: Limits = Limits { soft: 500, hard: 700 };
const FUNCTION: Limits = Limits { soft: 60, hard: 120 };

/// Measures every Rust file and function, and complains about those over their limit or their exception, and about
/// exceptions that are not needed any more.
pub fn check(files: &[SourceFile], exceptions: &[Exception]) -> Findings {
    let mut judge = Judge { findings: Findings::default(), exceptions, used: vec![] };
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        let code = Code::new(&file.text);
        let tests = code.test_modules();
        let test_lines: usize = tests.iter().map(ExactSizeIterator::len).sum();
        let lines = file.text.lines().count().saturating_sub(test_lines);
        judge.weigh(Kind::File, &file.path, lines, &FILE);
        for function in code.functions() {
            if tests.iter().any(|module| module.contains(&function.line)) {
                continue;
            }
            let subject = format!("{}::{}", file.path, function.name);
            judge.weigh(Kind::Function, &subject, function.body_lines, &FUNCTION);
        }
    }
    judge.finish()
}

/// Compares sizes with limits and exceptions, and remembers which exceptions were needed.
struct Judge<'a> {
    findings: Findings,
    exceptions: &'a [Exception],
    used: Vec<&'a Exception>,
}

impl Judge<'_> {
    /// Compares the size of one file or function with the limits, and adds a note or a complaint. Beyond the hard limit
    /// its exception counts, which is noted as used.
    fn weigh(&mut self, kind: Kind, subject: &str, lines: usize, limits: &Limits) {
        if lines > limits.hard {
            let exception =
                self.exceptions.iter().find(|entry| entry.kind == kind && entry.subject == subject);
            match exception {
                Some(entry) if lines <= entry.lines => {
                    self.used.push(entry);
                    self.findings.notes.push(format!("{subject} has {lines} lines (an exception)"));
                }
                Some(entry) => {
                    self.used.push(entry);
                    let allowed = entry.lines;
                    self.findings.complaints.push(format!(
                        "{subject} has {lines} lines, and its exception allows {allowed}: exceptions may only shrink"
                    ));
                }
                None => self
                    .findings
                    .complaints
                    .push(format!("{subject} has {lines} lines: split it (at most {})", limits.hard)),
            }
        } else if lines > limits.soft {
            self.findings.notes.push(format!("{subject} has {lines} lines (aim for {})", limits.soft));
        }
    }

    /// Adds a complaint for each exception that was not needed, and returns all findings. Must be called after
    /// everything was weighed.
    fn finish(mut self) -> Findings {
        for entry in self.exceptions {
            if !self.used.contains(&entry) {
                let subject = &entry.subject;
                self.findings.complaints.push(format!(
                    "the exception for {subject} is not needed any more: remove it from xtask/exceptions.txt"
                ));
            }
        }
        self.findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: String) -> SourceFile {
        SourceFile { path: path.to_owned(), text }
    }

    fn lines(count: usize) -> String {
        "// x\n".repeat(count)
    }

    fn function(body_lines: usize) -> String {
        format!("fn go() {{\n{}}}\n", "    x;\n".repeat(body_lines))
    }

    #[test]
    fn files_are_listed_over_the_soft_limit_and_fail_over_the_hard_one() {
        let found = check(
            &[
                file("a.rs", lines(500)),
                file("b.rs", lines(501)),
                file("c.rs", lines(700)),
                file("d.rs", lines(701)),
            ],
            &[],
        );
        assert_eq!(found.notes, ["b.rs has 501 lines (aim for 500)", "c.rs has 700 lines (aim for 500)"]);
        assert_eq!(found.complaints, ["d.rs has 701 lines: split it (at most 700)"]);
    }

    #[test]
    fn functions_are_measured_by_their_bodies() {
        let found = check(
            &[file("a.rs", function(60)), file("b.rs", function(61)), file("c.rs", function(121))],
            &[],
        );
        assert_eq!(found.notes, ["b.rs::go has 61 lines (aim for 60)"]);
        assert_eq!(found.complaints, ["c.rs::go has 121 lines: split it (at most 120)"]);
    }

    #[test]
    fn tests_do_not_count() {
        let module = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", lines(10), function(900));
        let found = check(
            &[file("a.rs", module), file("crates/x/tests/b.rs", lines(2000)), file("README.md", lines(2000))],
            &[],
        );
        assert_eq!(found, Findings::default());
    }

    #[test]
    fn an_exception_allows_what_it_says_and_no_more() {
        let entry = Exception { kind: Kind::File, subject: "a.rs".to_owned(), lines: 720 };
        let with = |count| check(&[file("a.rs", lines(count))], std::slice::from_ref(&entry));
        assert!(with(720).complaints.is_empty());
        assert!(with(721).complaints[0].contains("its exception allows 720"));
        assert!(with(700).complaints[0].contains("is not needed any more"));
    }
}
