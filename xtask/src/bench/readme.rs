//! Puts the table of a run between two marks of README.md.
//!
//! The marks stay, so that the next run replaces the table; the text outside of them is never touched.

use anyhow::{Context, Result};

use super::figures::Figures;
use super::measure::Effort;

const START: &str = "<!-- bench:start -->";
const END: &str = "<!-- bench:end -->";

/// Returns the text that stands between the marks in README.md: a sentence about the machine, and the table.
pub fn section(figures: &Figures, effort: Effort) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let system = std::env::consts::OS;
    format!(
        "Medians of {} runs, measured side by side on one machine ({system}, {cores} cores).\n\n{}",
        effort.runs,
        figures.as_markdown()
    )
}

/// Returns the README with this text between its marks. Fails if the marks are missing.
pub fn replaced(text: &str, section: &str) -> Result<String> {
    let (before, rest) = text.split_once(START).with_context(|| format!("README.md has no {START}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("README.md has no {END}"))?;
    Ok(format!("{before}{START}\n{}\n{END}{after}", section.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let text = format!("a\n{START}\nold\n{END}\nz\n");
        let once = replaced(&text, "| new |\n").unwrap();
        assert_eq!(once, format!("a\n{START}\n| new |\n{END}\nz\n"));
        assert_eq!(replaced(&once, "| new |\n").unwrap(), once);
    }

    #[test]
    fn missing_marks_are_named() {
        assert_eq!(replaced("no marks", "x").unwrap_err().to_string(), format!("README.md has no {START}"));
        assert!(replaced(START, "x").is_err());
    }
}
