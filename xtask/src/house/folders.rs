//! Folders: how many files are in one, and, in `agent`, in which direction they depend on each other. The order of the
//! folders is the order of the `mod` lines in `crates/agent/src/lib.rs`, which is the order in which a prompt passes
//! through them. A file may use its own folder and later ones, never an earlier one: then each folder can be read, and
//! changed, without the ones before it.

use std::collections::BTreeMap;

use super::scan::Code;
use super::{Findings, SourceFile};

/// The most source files in one folder, without those in its subfolders.
const MAX_SIDE_BY_SIDE: usize = 24;

/// The crate whose folders have an order.
const ORDERED: &str = "crates/agent/src/";

/// Complains about folders with too many files, and about files of `agent` that use a folder before their own.
pub fn check(files: &[SourceFile]) -> Findings {
    let mut findings = Findings::default();
    side_by_side(files, &mut findings);
    let order = files
        .iter()
        .find(|file| file.path == format!("{ORDERED}lib.rs"))
        .map(|file| modules(&file.text))
        .unwrap_or_default();
    let sources = files.iter().filter(|file| file.path.starts_with(ORDERED) && file.is_rust());
    for file in sources.filter(|file| !file.is_test() && file.path != format!("{ORDERED}lib.rs")) {
        findings.complaints.extend(backward_paths(file, &order));
    }
    findings
}

/// Adds complaints about folders below a `src` with too many source files; tests and subfolders do not count.
fn side_by_side(files: &[SourceFile], findings: &mut Findings) {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        if let Some((folder, _)) = file.path.rsplit_once('/')
            && folder.split('/').any(|part| part == "src")
        {
            *folders.entry(folder).or_default() += 1;
        }
    }
    for (folder, count) in folders.into_iter().filter(|(_, count)| *count > MAX_SIDE_BY_SIDE) {
        findings
            .complaints
            .push(format!("{folder} has {count} files side by side, {MAX_SIDE_BY_SIDE} are allowed"));
    }
}

/// Returns the private modules that a `lib.rs` declares, in the order of its lines.
fn modules(source: &str) -> Vec<String> {
    let names = source.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    names.map(str::to_owned).collect()
}

/// Returns complaints about the places where a file names, outside of tests, a module that comes before its own in
/// `order` or is not in it. A file whose own module is not declared is one complaint.
fn backward_paths(file: &SourceFile, order: &[String]) -> Vec<String> {
    let place = |name: &str| order.iter().position(|module| module == name);
    let inside = file.path.trim_start_matches(ORDERED);
    let own = inside.split('/').next().unwrap_or_default().trim_end_matches(".rs");
    let Some(own_place) = place(own) else {
        return vec![format!("{}: lib.rs does not declare {own}", file.path)];
    };
    let code = Code::new(&file.text);
    let tests = code.test_modules();
    let mut found = Vec::new();
    for (line, name) in code.crate_paths() {
        if tests.iter().any(|lines| lines.contains(&line)) {
            continue;
        }
        if place(&name).is_none_or(|there| there < own_place) {
            found.push(format!("{}:{line} uses `crate::{name}`, which stands before `{own}`", file.path));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: format!("{ORDERED}{path}"), text: text.to_owned() }
    }

    const LIB: &str = "//! x\n// first\nmod front;\n\nmod back;\n\npub use front::A;\n";

    #[test]
    fn a_file_uses_what_is_ahead_of_it() {
        let front = file("front/a.rs", "use crate::back::B;\nuse crate::front::C;\n");
        let back = file("back.rs", "use crate::front::A;\nfn a() { crate::front::b() } // crate::front\n");
        let found = check(&[file("lib.rs", LIB), front, back]).complaints;
        assert_eq!(
            found,
            [
                "crates/agent/src/back.rs:1 uses `crate::front`, which stands before `back`",
                "crates/agent/src/back.rs:2 uses `crate::front`, which stands before `back`",
            ]
        );
    }

    #[test]
    fn grouped_paths_names_at_the_root_and_unknown_files_are_seen() {
        let grouped = file("back/a.rs", "use crate::{\n    back::x,\n    front::A,\n};\nuse crate::A;\n");
        let found = check(&[file("lib.rs", LIB), grouped, file("side.rs", "")]).complaints;
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("back/a.rs:1 uses `crate::front`"), "{found:?}");
        assert!(found[1].contains("`crate::A`"), "{found:?}");
        assert!(found[2].contains("does not declare side"), "{found:?}");
    }

    #[test]
    fn tests_may_use_what_they_like() {
        let tested = file("back.rs", "#[cfg(test)]\nmod tests {\n    use crate::front::A;\n}\n");
        assert_eq!(check(&[file("lib.rs", LIB), tested]), Findings::default());
    }

    #[test]
    fn too_many_files_side_by_side_are_named() {
        let many = |count: usize| -> Vec<SourceFile> {
            let path = |n| format!("crates/x/src/deep/f{n}.rs");
            (0..count).map(|n| SourceFile { path: path(n), text: String::new() }).collect()
        };
        assert_eq!(check(&many(MAX_SIDE_BY_SIDE)), Findings::default());
        let found = check(&many(MAX_SIDE_BY_SIDE + 1)).complaints;
        assert_eq!(found, ["crates/x/src/deep has 25 files side by side, 24 are allowed"]);
    }
}
