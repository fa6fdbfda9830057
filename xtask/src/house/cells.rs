//! Shared mutable state in `agent`: how much of it there is, and whether each field says who uses it. The loop is easy
//! to follow while state has one owner; every additional lock needs a reason.

use super::scan::Code;
use super::{Findings, SourceFile};

/// The most fields of `agent` that may be changed while other code reads them.
const MAX_CELLS: usize = 16;

/// The types that make a field such a cell.
const CELL_TYPES: [&str; 8] =
    ["Mutex<", "RwLock<", "RefCell<", "OnceLock<", "OnceCell<", "ArcSwap<", "watch::Sender<", "Atomic"];

/// Counts the cells in `agent` and complains about too many, and about one whose comment does not say who writes and
/// who reads it.
pub fn check(files: &[SourceFile]) -> Findings {
    let mut findings = Findings::default();
    let mut count = 0;
    for file in files.iter().filter(|file| is_agent_source(file)) {
        for (line, documentation) in cells(&file.text) {
            count += 1;
            let text = documentation.to_lowercase();
            if !(text.contains("written by") && text.contains("read by")
                || text.contains("written") && text.contains("read for"))
            {
                findings.complaints.push(format!(
                    "{}:{line}: a shared cell says who writes it and who reads it while a turn runs \
                     (\"Written by …; read by …\")",
                    file.path
                ));
            }
        }
    }
    if count > MAX_CELLS {
        findings.complaints.push(format!(
            "crates/agent has {count} shared cells, {MAX_CELLS} are allowed: find the one owner instead"
        ));
    }
    findings.notes.push(format!("{count} of {MAX_CELLS} shared cells in agent"));
    findings
}

/// Returns whether a file is code of `agent`, without its tests.
fn is_agent_source(file: &SourceFile) -> bool {
    file.path.starts_with("crates/agent/src/") && file.is_rust() && !file.is_test()
}

/// Returns the line, from 1, and the documentation of every field that is a cell, outside of tests.
fn cells(source: &str) -> Vec<(usize, String)> {
    let code = Code::new(source);
    let tests = code.test_modules();
    let mut found = Vec::new();
    let mut documentation = String::new();
    let mut in_struct = false;
    for (at, line) in source.lines().enumerate() {
        let (number, text) = (at + 1, line.trim());
        if tests.iter().any(|lines| lines.contains(&number)) {
            continue;
        }
        if let Some(comment) = text.strip_prefix("///") {
            documentation.push_str(comment);
            continue;
        }
        let is_field = in_struct && line.starts_with("    ") && text.contains(": ");
        if is_field && CELL_TYPES.iter().any(|cell| text.contains(cell)) {
            found.push((number, documentation.clone()));
        }
        if text.contains("struct ") && text.ends_with('{') {
            in_struct = true;
        } else if line.starts_with('}') {
            in_struct = false;
        }
        if !text.starts_with("#[") {
            documentation.clear();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
pub struct Kept {
    /// Written by the turn; read by requests.
    queue: Mutex<Vec<u8>>,
    /// How many.
    count: AtomicU64,
    plain: u8,
}

fn look(queue: &Mutex<u8>) {}

#[cfg(test)]
mod tests {
    struct Fake {
        log: Mutex<u8>,
    }
}
";

    #[test]
    fn fields_count_and_must_say_who_uses_them() {
        let found: Vec<usize> = cells(SOURCE).into_iter().map(|(line, _)| line).collect();
        assert_eq!(found, [3, 5]);
        let file = SourceFile { path: "crates/agent/src/a.rs".to_owned(), text: SOURCE.to_owned() };
        let findings = check(&[file]);
        assert_eq!(findings.complaints.len(), 1, "{findings:?}");
        assert!(findings.complaints[0].contains("a.rs:5"), "{findings:?}");
    }

    #[test]
    fn too_many_are_too_many() {
        let fields: String = (0..=MAX_CELLS)
            .map(|n| format!("    /// Written by a; read by b.\n    field{n}: Mutex<u8>,\n"))
            .collect();
        let text = format!("struct Many {{\n{fields}}}\n");
        let file = SourceFile { path: "crates/agent/src/a.rs".to_owned(), text };
        assert_eq!(check(&[file]).complaints.len(), 1);
    }
}
