//! The difference of two texts as a `structuredPatch`: hunks with three lines of context.
//!
//! Surprising: unlike in a unified diff header, an empty side still starts at line 1.

use std::time::Duration;

use serde::Serialize;
use similar::{Algorithm, DiffOp, DiffTag, TextDiff};

use crate::ChangedLines;

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// After this time the rest of two very different texts becomes one removed and one added block.
const DEADLINE: Duration = Duration::from_millis(500);

const NO_NEWLINE: &str = "\\ No newline at end of file";

/// One changed place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Hunk {
    pub old_start: usize,
    pub old_lines: usize,
    pub new_start: usize,
    pub new_lines: usize,
    /// Each with its prefix: space, `-` or `+`; or the note that the line before has no newline.
    pub lines: Vec<String>,
}

/// Returns the hunks that turn `old` into `new`; none if they are equal. After [`DEADLINE`] the comparison gets
/// coarser, so that a difference may be larger than necessary but is never wrong.
pub(crate) fn structured_patch(old: &str, new: &str) -> Vec<Hunk> {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let diff = TextDiff::configure().algorithm(Algorithm::Myers).timeout(DEADLINE).diff_slices(&old, &new);
    diff.grouped_ops(CONTEXT).iter().map(|ops| hunk(ops, &old, &new)).collect()
}

/// Counts the lines that a patch adds and removes; a replaced line counts as both.
pub(crate) fn changed_lines(patch: &[Hunk]) -> ChangedLines {
    let lines = patch.iter().flat_map(|hunk| &hunk.lines);
    lines.fold(ChangedLines::default(), |count, line| match line.chars().next() {
        Some('+') => ChangedLines { added: count.added + 1, ..count },
        Some('-') => ChangedLines { removed: count.removed + 1, ..count },
        Some(_) | None => count,
    })
}

/// Returns one group of changes as a hunk. Line numbers count from 1, also where the hunk has no lines on that side.
fn hunk(ops: &[DiffOp], old: &[&str], new: &[&str]) -> Hunk {
    let mut lines = Vec::new();
    let mut push = |prefix: char, line: &str| match line.strip_suffix('\n') {
        Some(line) => lines.push(format!("{prefix}{line}")),
        None => lines.extend([format!("{prefix}{line}"), NO_NEWLINE.to_owned()]),
    };
    for op in ops {
        if op.tag() == DiffTag::Equal {
            old[op.old_range()].iter().for_each(|line| push(' ', line));
            continue;
        }
        old[op.old_range()].iter().for_each(|line| push('-', line));
        new[op.new_range()].iter().for_each(|line| push('+', line));
    }
    let span = |range: fn(&DiffOp) -> std::ops::Range<usize>| {
        let start = ops.first().map_or(0, |op| range(op).start);
        let end = ops.last().map_or(0, |op| range(op).end);
        (start + 1, end - start)
    };
    let (old_start, old_lines) = span(DiffOp::old_range);
    let (new_start, new_lines) = span(DiffOp::new_range);
    Hunk { old_start, old_lines, new_start, new_lines, lines }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(old: &str, new: &str) -> Vec<Vec<String>> {
        structured_patch(old, new).into_iter().map(|hunk| hunk.lines).collect()
    }

    /// Applies a patch the way a client would.
    fn apply(old: &str, hunks: &[Hunk]) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let mut out = String::new();
        let mut at = 0;
        for hunk in hunks {
            old[at..hunk.old_start - 1].iter().for_each(|line| out.push_str(line));
            at = hunk.old_start - 1 + hunk.old_lines;
            let mut newlines = 0;
            for (index, line) in hunk.lines.iter().enumerate() {
                if !line.starts_with([' ', '+']) {
                    continue;
                }
                newlines += 1;
                out.push_str(&line[1..]);
                if hunk.lines.get(index + 1).map(String::as_str) != Some(NO_NEWLINE) {
                    out.push('\n');
                }
            }
            assert_eq!(newlines, hunk.new_lines);
        }
        old[at..].iter().for_each(|line| out.push_str(line));
        out
    }

    #[test]
    fn a_missing_last_newline_is_noted() {
        assert_eq!(lines("hello", "bye"), [["-hello", NO_NEWLINE, "+bye", NO_NEWLINE]]);
        assert_eq!(lines("a", "a\n"), [["-a", NO_NEWLINE, "+a"].map(str::to_owned).to_vec()]);
        assert_eq!(lines("a\nb", "x\nb"), [["-a", "+x", " b", NO_NEWLINE].map(str::to_owned).to_vec()]);
    }

    #[test]
    fn an_empty_side_starts_at_one() {
        let made = structured_patch("", "x\n");
        assert_eq!(
            made,
            [Hunk { old_start: 1, old_lines: 0, new_start: 1, new_lines: 1, lines: vec!["+x".to_owned()] }]
        );
        assert!(structured_patch("same\n", "same\n").is_empty());
    }

    #[test]
    fn far_changes_get_their_own_hunks() {
        let old: String = (0..30).map(|n| format!("{n}\n")).collect();
        let new = old.replace("2\n", "two\n").replace("25\n", "x\n");
        let hunks = structured_patch(&old, &new);
        assert!(hunks.len() >= 2);
        assert_eq!(apply(&old, &hunks), new);
    }

    proptest! {
        #[test]
        fn a_patch_makes_the_new_text(old in "([ab]{0,2}\n){0,24}[ab]{0,2}", new in "([ab]{0,2}\n){0,24}[ab]{0,2}") {
            prop_assert_eq!(apply(&old, &structured_patch(&old, &new)), new);
        }
    }
}
