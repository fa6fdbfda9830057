//! Every kind of content that a folder can bring has its row in the two tables that say what counts without trust, and
//! files of a folder are named in few places.
//!
//! The kinds are the variants of `ContentKind`; a row of a table begins with the variant in code marks. A feature that
//! reads something new from `.claude` or beside it has to name that file in its code; the place is listed here only when
//! it asks about trust, or has no need to.

use super::scan::Code;
use super::{Findings, SourceFile};

const KINDS: &str = "crates/settings/src/trust/kinds.rs";
const DOCUMENTS: [&str; 2] = ["ARCHITECTURE.md", "SECURITY.md"];

/// Names of what a folder brings. Glued together, so that this file does not complain about itself.
const NAMES: [&str; 3] = [concat!("\".", "claude"), concat!("\".", "mcp.json"), concat!("\".", "lsp.json")];

/// Code that names a file of a folder, and why that needs no further question.
const PLACES: &[(&str, &str)] = &[
    ("crates/settings/src/source.rs", "settings files, cut by trust/folder.rs"),
    ("crates/settings/src/trust/folder.rs", "asks"),
    ("crates/settings/src/trust/listing.rs", "lists, for the question"),
    ("crates/settings/src/trust/scheduled.rs", "asks, for every task"),
    ("crates/settings/src/trust/review.rs", "tells settings files from others in a sentence"),
    ("crates/settings/src/memory/collect.rs", "memory files: text, which counts without trust"),
    ("crates/settings/src/styles.rs", "output styles: text, which counts without trust"),
    ("crates/settings/src/doctor.rs", "looks for files that were left behind"),
    ("crates/permissions/src/files.rs", "protects the folder from changes"),
    ("crates/permissions/src/protected.rs", "protects the folder from changes"),
    ("crates/permissions/src/update.rs", "names the file that an answer is written to"),
    (
        "crates/tools/src/worktree_tools/place.rs",
        "the folder that worktrees are made in; nothing is read from it",
    ),
    ("crates/launch/src/env.rs", "the user's own configuration folder"),
    ("crates/launch/src/settings.rs", "the user's own state file"),
    ("crates/models/src/credentials.rs", "the user's own credentials"),
];

/// Compares the enum with the tables of both documents, and complains about code that names a file of a folder
/// without being listed.
pub fn check(files: &[SourceFile]) -> Findings {
    let mut findings = Findings::default();
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
    let kinds = text(KINDS).map(variants).unwrap_or_default();
    if kinds.is_empty() {
        findings.complaints.push(format!("{KINDS} has no `pub enum ContentKind` with variants"));
    }
    for document in DOCUMENTS {
        let rows = text(document).map(rows).unwrap_or_default();
        for kind in kinds.iter().filter(|kind| !rows.contains(kind)) {
            findings.complaints.push(format!(
                "{document} has no row `| \\`{kind}\\` | …` that says what an untrusted folder gives of this kind"
            ));
        }
        for row in rows.iter().filter(|row| !kinds.contains(row)) {
            findings.complaints.push(format!("{document} has a row for `{row}`, which is not in {KINDS}"));
        }
    }
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        let is_shipped = file.path.starts_with("crates/") && !file.path.starts_with("crates/testkit/");
        let is_listed = PLACES.iter().any(|(path, _)| *path == file.path);
        if is_shipped && !is_listed && names_a_file(&file.text) {
            findings.complaints.push(format!(
                "{} names a file that a folder can bring: ask `FolderTrust` what of it counts, add its kind to {KINDS}, \
                 and the place to xtask/src/house/trust.rs",
                file.path
            ));
        }
    }
    findings
}

/// Returns the names of the variants of `ContentKind` in the source `text`; empty if the enum is not found.
fn variants(text: &str) -> Vec<String> {
    let body = text.split_once("pub enum ContentKind {").and_then(|(_, rest)| rest.split_once('}'));
    let lines = body.map(|(body, _)| body).unwrap_or_default().lines().map(str::trim);
    let names = lines.filter_map(|line| line.strip_suffix(',')).filter(|name| !name.starts_with("//"));
    names.map(str::to_owned).collect()
}

/// Returns the kinds in the first cells of the table whose head begins with `| kind |`; empty if the document has none.
fn rows(text: &str) -> Vec<String> {
    let lines = text.lines().skip_while(|line| !line.starts_with("| kind |"));
    let rows = lines.take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| Some(row.strip_prefix("| `")?.split_once('`')?.0.to_owned())).collect()
}

/// Returns whether code outside of tests and comments names a file of a folder.
fn names_a_file(text: &str) -> bool {
    let tests = Code::new(text).test_modules();
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let mut found = lines.filter(|(_, line)| NAMES.iter().any(|name| line.contains(name)));
    found.any(|(at, _)| !tests.iter().any(|test| test.contains(&(at + 1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENUM: &str = "pub enum ContentKind {\n    /// Text, with a comma,\n    Hooks,\n    Skills,\n}\n";
    const TABLE: &str =
        "text\n\n| kind | is |\n| --- | --- |\n| `Hooks` | a |\n| `Skills` | b |\n\n| `Other` | c |\n";

    fn complaints(kinds: &str, one: &str, two: &str, code: (&str, &str)) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let files =
            [file(KINDS, kinds), file(DOCUMENTS[0], one), file(DOCUMENTS[1], two), file(code.0, code.1)];
        check(&files).complaints
    }

    const NO_CODE: (&str, &str) = ("crates/a/src/b.rs", "fn a() {}\n");

    #[test]
    fn every_kind_has_a_row_in_both_tables_and_every_row_a_kind() {
        assert_eq!(complaints(ENUM, TABLE, TABLE, NO_CODE), Vec::<String>::new());
        let short = TABLE.replace("| `Skills` | b |\n", "");
        for (one, two) in [(short.as_str(), TABLE), (TABLE, short.as_str())] {
            let found = complaints(ENUM, one, two, NO_CODE);
            assert!(found.len() == 1 && found[0].contains("Skills"), "{found:?}");
        }
        let fewer = ENUM.replace("    Skills,\n", "");
        assert_eq!(complaints(&fewer, TABLE, TABLE, NO_CODE).len(), 2, "a row of a kind that is gone");
        assert_eq!(complaints(ENUM, "", TABLE, NO_CODE).len(), 2, "a table that is gone");
        assert!(!complaints("", "", "", NO_CODE).is_empty(), "an enum that is gone");
    }

    #[test]
    fn a_new_reader_of_the_folder_is_found() {
        for name in NAMES {
            let code = format!("fn a() {{\n    read(cwd.join({name}/x\"));\n}}\n");
            assert_eq!(complaints(ENUM, TABLE, TABLE, ("crates/a/src/b.rs", &code)).len(), 1, "{code}");
            let (listed, _) = PLACES[0];
            assert_eq!(complaints(ENUM, TABLE, TABLE, (listed, &code)).len(), 0);
            let test = format!("//! {name}\n#[cfg(test)]\nmod tests {{\n    const A: &str = {name}\";\n}}\n");
            assert_eq!(complaints(ENUM, TABLE, TABLE, ("crates/a/src/b.rs", &test)).len(), 0);
        }
    }
}
