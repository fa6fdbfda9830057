//! Look-ups by a string in `agent`: JSON that is indexed by the name of a field is a type that was not declared, and
//! the compiler does not notice a wrong name. A few are allowed where bytes come in; everything after that point has a
//! type.
//!
//! The scan is of text: brackets whose whole content is a string literal, and the methods of JSON values that take a
//! name. A key in a variable is not found.

use super::scan::Code;
use super::{Findings, SourceFile};

/// The most look-ups that may be left in `agent`.
const MAX_LOOKUPS: usize = 12;

/// The methods of JSON values and maps that take a name.
const METHODS: [&str; 6] =
    [".get(\"", ".get_mut(\"", ".contains_key(\"", ".remove(\"", ".pointer(\"", ".pointer_mut(\""];

/// Complains if `agent` has more than [`MAX_LOOKUPS`] look-ups of JSON fields by name, and notes their number in any
/// case.
pub fn check(files: &[SourceFile]) -> Findings {
    let sources = files.iter().filter(|file| is_agent_source(file));
    let found: Vec<String> = sources
        .flat_map(|file| lookups(&file.text).into_iter().map(move |line| format!("{}:{line}", file.path)))
        .collect();
    let count = found.len();
    let mut findings = Findings::default();
    if count > MAX_LOOKUPS {
        findings.complaints.push(format!(
            "crates/agent looks {count} fields up by a string, {MAX_LOOKUPS} are allowed: read the JSON into a type \
             where it comes in ({})",
            found.join(", ")
        ));
    }
    findings.notes.push(format!("{count} of {MAX_LOOKUPS} look-ups by a string in agent"));
    findings
}

/// Returns whether a file is code of `agent`, without its tests.
fn is_agent_source(file: &SourceFile) -> bool {
    file.path.starts_with("crates/agent/src/") && file.is_rust() && !file.is_test()
}

/// Returns the line, from 1, of every look-up outside of tests and comments; a line with two occurs twice.
fn lookups(source: &str) -> Vec<usize> {
    let code = Code::new(source);
    let tests = code.test_modules();
    let mut found = Vec::new();
    for (at, line) in source.lines().enumerate() {
        let number = at + 1;
        if tests.iter().any(|lines| lines.contains(&number)) || line.trim_start().starts_with("//") {
            continue;
        }
        let methods = METHODS.iter().map(|method| line.matches(method).count()).sum::<usize>();
        found.extend(std::iter::repeat_n(number, methods + indexed(line)));
    }
    found
}

/// Returns how often a line has `value["field"]`. A list of one string, as in `&["field"]`, has no value before it and
/// does not count.
fn indexed(line: &str) -> usize {
    let is_value_end = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b')' | b']' | b'?');
    let starts = line.match_indices("[\"").filter(|(at, _)| {
        let before = line.as_bytes()[..*at].last().copied();
        let closes = line[at + 2..].find('"').is_some_and(|end| line[at + 2 + end..].starts_with("\"]"));
        before.is_some_and(is_value_end) && closes
    });
    starts.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn every_form_of_a_look_up_is_seen() {
        let source = "\
let a = value[\"one\"][\"two\"].as_str();
let b = map.get(\"x\").or(call()[\"y\"]);
map.pointer(\"/a/b\"); map.contains_key(\"z\");
if block[\"type\"] == \"text\" {}
";
        assert_eq!(lookups(source), [1, 1, 2, 2, 3, 3, 4]);
    }

    #[test]
    fn lists_names_in_variables_comments_and_tests_are_none() {
        let source = "\
let a: [&str; 1] = [\"one\"];
call(&[\"one\"], map.get(name), value[key]);
let b = json!({\"a\": [\"b\"]});
// value[\"one\"]
#[cfg(test)]
mod tests {
    fn a() { value[\"one\"]; }
}
";
        assert_eq!(lookups(source), [0; 0]);
    }

    #[test]
    fn only_too_many_in_agent_are_too_many() {
        let text = |count: usize| "value[\"a\"];\n".repeat(count);
        let agent = "crates/agent/src/a.rs";
        assert_eq!(check(&[file(agent, &text(MAX_LOOKUPS))]).complaints, [""; 0]);
        let elsewhere =
            [file("crates/models/src/a.rs", &text(99)), file("crates/agent/tests/a.rs", &text(99))];
        assert_eq!(check(&elsewhere).complaints, [""; 0]);
        let found =
            check(&[file(agent, &text(MAX_LOOKUPS)), file("crates/agent/src/b.rs", &text(1))]).complaints;
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("13 fields") && found[0].contains("b.rs:1"), "{found:?}");
    }
}
