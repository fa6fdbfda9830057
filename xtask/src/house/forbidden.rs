//! Text that must not be in any file: paths of the machine it was written on, and hosts of package registries. Both
//! make a clone depend on one machine's environment.
//!
//! The words are concatenated here so that this file does not fail its own check.

use std::path::Path;

use super::{Findings, SourceFile};

const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("/work", "/main"), "a path of the build machine"),
    (concat!("/work", "/shared"), "a path of the build machine"),
    (concat!("/tmp", "/lathe/"), "a path of the build machine"),
    (concat!("index.", "crates.io"), "a registry host"),
    (concat!("static.", "crates.io"), "a registry host"),
    (concat!("registry.", "npmjs.org"), "a registry host"),
    (concat!("registry.", "yarnpkg.com"), "a registry host"),
    (concat!("pypi.", "org"), "a registry host"),
    (concat!("python", "hosted.org"), "a registry host"),
    (concat!("sparse", "+http"), "a registry address"),
    (concat!("--index", "-url"), "a registry address"),
];

/// Complains about every line with a forbidden word or with the path of this clone; a path of up to 8 bytes is not
/// searched for, because it would match anywhere.
pub fn check(files: &[SourceFile], root: &Path) -> Findings {
    let mut findings = Findings::default();
    let root = root.to_string_lossy();
    let mut words: Vec<(&str, &str)> = FORBIDDEN.to_vec();
    // A short root such as `/src` would match everywhere and prove nothing.
    if root.len() > 8 {
        words.push((&root, "the path of this clone"));
    }
    for file in files {
        for (number, line) in file.text.lines().enumerate() {
            if let Some((word, why)) = words.iter().find(|(word, _)| line.contains(word)) {
                findings.complaints.push(format!("{}:{} contains {why}: {word}", file.path, number + 1));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> Vec<String> {
        let file = SourceFile { path: "a.md".to_owned(), text: text.to_owned() };
        check(&[file], Path::new("/somewhere/clone")).complaints
    }

    #[test]
    fn every_forbidden_word_is_found_with_its_line() {
        for (word, why) in FORBIDDEN {
            assert_eq!(
                complaints(&format!("fine\nsee {word} there\n")),
                [format!("a.md:2 contains {why}: {word}")]
            );
        }
    }

    #[test]
    fn the_place_of_the_clone_is_forbidden_too() {
        assert_eq!(complaints("in /somewhere/clone/target\n").len(), 1);
    }

    #[test]
    fn ordinary_text_is_fine() {
        assert!(
            complaints("source = \"registry+https://github.com/rust-lang/crates.io-index\"\n/tmp/x\n")
                .is_empty()
        );
    }
}
