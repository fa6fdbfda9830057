//! Checks that the lists of flags in COMPATIBILITY.md agree with the table of `crates/cli/src/args.rs`.
//!
//! Both are read as text: this program links no crate of the workspace. A table that cannot be found is a failure, so
//! that moving it does not switch the check off.

use std::collections::BTreeMap;

use super::{Findings, SourceFile};

const TABLE: &str = "crates/cli/src/args.rs";
const DOCUMENT: &str = "COMPATIBILITY.md";

/// The states of the table and the headings they belong under.
const LISTS: &[(&str, &str)] = &[
    ("Works", "### Flags that work"),
    ("Ignored", "### Flags without effect"),
    ("NotYet", "### Flags that are refused"),
];

/// Compares the two lists and complains about each difference, and about a list that is missing or empty.
pub fn check(files: &[SourceFile]) -> Findings {
    let mut findings = Findings::default();
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
    let (Some(table), Some(document)) = (text(TABLE), text(DOCUMENT)) else {
        findings.complaints.push(format!("{TABLE} or {DOCUMENT} is missing"));
        return findings;
    };
    let (real, written) = (table_flags(table), document_flags(document));
    if real.is_empty() {
        findings.complaints.push(format!("{TABLE} has no lines of the form `flag(\"name\", …)`"));
    }
    for (flag, state) in &real {
        let heading = LISTS.iter().find(|(name, _)| name == state).map_or("no list", |(_, heading)| heading);
        if written.get(flag) != Some(state) {
            findings.complaints.push(format!("{DOCUMENT} must list {flag} under \"{heading}\""));
        }
    }
    for flag in written.keys().filter(|flag| !real.contains_key(*flag)) {
        findings.complaints.push(format!("{DOCUMENT} lists {flag}, which is not in {TABLE}"));
    }
    findings
}

/// Returns the first long spelling of each flag in the table, and its state. Lines of another form and flags without a
/// long spelling are left out.
fn table_flags(text: &str) -> BTreeMap<String, String> {
    let rows = text.lines().filter_map(|line| line.trim().strip_prefix("flag(\"")?.strip_suffix("),"));
    rows.filter_map(|row| {
        let spelling = row.split('"').find(|part| part.starts_with("--"))?;
        let state = row.rsplit(',').next()?.trim();
        Some((spelling.to_owned(), state.to_owned()))
    })
    .collect()
}

/// Returns each flag in code marks below one of the headings, and the state of that heading. Flags below other headings
/// are left out.
fn document_flags(text: &str) -> BTreeMap<String, String> {
    let mut flags = BTreeMap::new();
    let mut state = None;
    for line in text.lines() {
        if line.starts_with('#') {
            state = LISTS.iter().find(|(_, heading)| *heading == line.trim()).map(|(name, _)| *name);
        } else if let Some(state) = state {
            let marked = line.split('`').skip(1).step_by(2).filter(|part| part.starts_with("--"));
            flags.extend(marked.map(|flag| (flag.to_owned(), state.to_owned())));
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARGS: &str = "    flag(\"print\", &[\"-p\", \"--print\"], Switch, \"-p, --print\", Works),\n    \
                        flag(\"agents\", &[\"--agents\"], One, \"--agents <json>\", NotYet),\n";

    fn complaints(args: &str, document: &str) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        check(&[file(TABLE, args), file(DOCUMENT, document)]).complaints
    }

    #[test]
    fn agreeing_lists_are_fine() {
        let document = "### Flags that work\n`--print`, and `a` b\n### Flags that are refused\n`--agents`\n# End\n`--x`\n";
        assert_eq!(complaints(ARGS, document), Vec::<String>::new());
    }

    #[test]
    fn a_flag_in_the_wrong_list_or_in_none_is_named() {
        let document = "### Flags that work\n`--agents` `--gone`\n";
        assert_eq!(
            complaints(ARGS, document),
            [
                "COMPATIBILITY.md must list --agents under \"### Flags that are refused\"",
                "COMPATIBILITY.md must list --print under \"### Flags that work\"",
                "COMPATIBILITY.md lists --gone, which is not in crates/cli/src/args.rs",
            ]
        );
    }

    #[test]
    fn a_table_that_moved_is_noticed() {
        assert_eq!(complaints("", "").len(), 1);
        assert_eq!(check(&[]).complaints.len(), 1);
    }
}
