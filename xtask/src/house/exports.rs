//! Names that two crates export. A reader who searches for the name of a type should find one, so a type that one crate
//! exports has a name that no other crate exports.
//!
//! The check reads `lib.rs` of each crate: what is in a public module or named by `pub use` is exported. A re-exported
//! type of another crate is not counted again. `Result` aliases are exempt, and so are the names that `exceptions.txt`
//! lists with a reason.

use std::collections::{BTreeMap, BTreeSet};

use super::exceptions::Exceptions;
use super::scan::Code;
use super::{Findings, SourceFile};

/// Crates whose types no other crate of the product uses.
const NOT_COUNTED: [&str; 1] = ["testkit"];

/// Complains about names that several crates export, unless they are excused, and about excuses that are not needed any
/// more.
pub fn check(files: &[SourceFile], exceptions: &Exceptions) -> Findings {
    let mut exporters: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for name in crates(files) {
        for exported in exported_types(files, name) {
            exporters.entry(exported).or_default().insert(name);
        }
    }
    let mut findings = Findings::default();
    let mut excused = BTreeSet::new();
    for (name, by) in exporters.iter().filter(|(name, by)| by.len() > 1 && *name != "Result") {
        if exceptions.allows_shared_name(name) {
            excused.insert(name.as_str());
            continue;
        }
        let by = by.iter().copied().collect::<Vec<_>>().join(", ");
        findings
            .complaints
            .push(format!("`{name}` is exported by {by}: give each its own name, or merge them"));
    }
    for name in exceptions.shared_names().filter(|name| !excused.contains(name)) {
        findings.complaints.push(format!("xtask/exceptions.txt: only one crate exports `{name}` now"));
    }
    findings.notes.push(format!(
        "{} exported types, {} shared names excused",
        exporters.len(),
        excused.len()
    ));
    findings
}

/// Returns the names of the crates whose exports are compared: those with a `lib.rs`, except [`NOT_COUNTED`].
fn crates(files: &[SourceFile]) -> impl Iterator<Item = &str> {
    let roots =
        files.iter().filter_map(|file| file.path.strip_prefix("crates/")?.strip_suffix("/src/lib.rs"));
    roots.filter(|name| !NOT_COUNTED.contains(name))
}

/// Returns the types that a crate exports: those declared in public modules outside of tests, and its own that `pub
/// use` names.
fn exported_types(files: &[SourceFile], name: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let src = format!("crates/{name}/src");
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
    let mut modules = vec![format!("{src}/lib.rs")];
    while let Some(path) = modules.pop() {
        let Some(source) = text(&path) else { continue };
        let folder = path.strip_suffix("/lib.rs").or_else(|| path.strip_suffix(".rs")).unwrap_or(&path);
        let lines = Code::new(source);
        for line in lines.public_items() {
            if let Some(module) = line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) {
                modules.push(format!("{folder}/{module}.rs"));
            } else if let Some(path) = line.strip_prefix("use ") {
                found.extend(own_types(path));
            } else {
                found.extend(declared_type(&line));
            }
        }
    }
    found
}

/// Returns the types that the path of a `pub use` names; none if it begins with another crate. Functions and constants
/// are left out, which have no name with a capital letter at its beginning and a small one.
fn own_types(path: &str) -> Vec<String> {
    let path = path.trim_end_matches(';');
    if path.starts_with("lathe_") || path.starts_with("tokio") || path.starts_with("serde") {
        return Vec::new();
    }
    let (_, names) = path.rsplit_once("::").map_or(("", path), |parts| parts);
    let names = if let Some(open) = path.find('{') { &path[open + 1..] } else { names };
    let names = names.trim_end_matches('}').split(',').map(str::trim);
    // Functions and constants do not count: types begin with a capital letter and contain a small one.
    let is_type = |name: &&str| {
        name.starts_with(|first: char| first.is_ascii_uppercase())
            && name.contains(|letter: char| letter.is_ascii_lowercase())
    };
    names.filter(is_type).map(|name| name.rsplit(' ').next().unwrap_or(name).to_owned()).collect()
}

/// Returns the name of the type that a line declares, given without `pub`; `None` if it declares none.
fn declared_type(line: &str) -> Option<String> {
    let line = line.strip_prefix("unsafe ").unwrap_or(line);
    let rest = ["struct ", "enum ", "trait ", "type ", "union "]
        .into_iter()
        .find_map(|keyword| line.strip_prefix(keyword))?;
    let name: String = rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::super::exceptions;
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: format!("crates/{path}"), text: text.to_owned() }
    }

    fn two_crates() -> Vec<SourceFile> {
        vec![
            file(
                "a/src/lib.rs",
                "mod inner;\npub mod outer;\npub use inner::{Shown, helper};\npub use lathe_b::Other;\n",
            ),
            file("a/src/inner.rs", "pub struct Shown;\npub struct Hidden;\n"),
            file(
                "a/src/outer.rs",
                "pub enum Kind { A }\npub(crate) struct Close;\npub type Result<T> = T;\n",
            ),
            file(
                "b/src/lib.rs",
                "pub struct Shown<T>(T);\npub struct Hidden;\npub struct Other;\npub type Result<T> = T;\n",
            ),
            file("testkit/src/lib.rs", "pub struct Other;\n"),
        ]
    }

    #[test]
    fn a_name_is_exported_once() {
        let none = exceptions::parse("").expect("empty");
        let found = check(&two_crates(), &none).complaints;
        assert_eq!(found, ["`Shown` is exported by a, b: give each its own name, or merge them"]);
    }

    #[test]
    fn exceptions_excuse_and_go_when_they_are_not_needed() {
        let listed = exceptions::parse("type Shown the two are one on the wire\n").expect("valid");
        assert!(check(&two_crates(), &listed).complaints.is_empty());
        let stale = exceptions::parse("type Shown why\ntype Gone why\n").expect("valid");
        let found = check(&two_crates(), &stale).complaints;
        assert_eq!(found, ["xtask/exceptions.txt: only one crate exports `Gone` now"]);
    }

    #[test]
    fn several_lines_of_names_are_one_item() {
        let files = [
            file("a/src/lib.rs", "pub use inner::{\n    One, Two,\n};\n"),
            file("b/src/lib.rs", "pub use inner::Two;\n"),
        ];
        let found = check(&files, &exceptions::parse("").expect("empty")).complaints;
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
