//! Path patterns: `claudeMdExcludes`, and the `paths` of rules that wait for a file.

use std::path::{Path, PathBuf};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

/// How many patterns one list may have, and how long each may be.
const MAX_PATTERNS: usize = 64;
const MAX_PATTERN_BYTES: usize = 1024;

/// A rule file that is loaded when a path it covers is read.
#[derive(Debug, Clone)]
pub(super) struct PathRule {
    pub path: PathBuf,
    pub kind: super::MemoryKind,
    /// The folder that the patterns are relative to.
    pub base: PathBuf,
    pub globs: Vec<String>,
    pub set: GlobSet,
    pub limit: super::Limit,
}

impl PathRule {
    /// Returns whether the patterns cover an absolute path whose links are resolved. A path outside the base is never
    /// covered.
    pub fn covers(&self, path: &Path) -> bool {
        path.strip_prefix(&self.base).is_ok_and(|below| self.set.is_match(below))
    }
}

/// Compiles the patterns of a rule, relative to its base. The error is a message for people.
pub(super) fn patterns(globs: &[String]) -> Result<GlobSet, String> {
    let relative = |glob: &String| glob.trim_start_matches("./").trim_start_matches('/').to_owned();
    set(globs.iter().map(relative))
}

/// Compiles the patterns of `claudeMdExcludes` for absolute paths. A relative pattern matches in every folder, and `~/`
/// is the home folder, if it is known. The error is a message for people.
pub(super) fn exclusions(globs: &[String], home: Option<&Path>) -> Result<GlobSet, String> {
    let absolute = |glob: &String| match (glob.strip_prefix("~/"), home) {
        // The path of the home folder may hold characters that mean something in a pattern.
        (Some(rest), Some(home)) => format!("{}/{rest}", globset::escape(&home.to_string_lossy())),
        (Some(_) | None, _) if glob.starts_with(['/', '*']) => glob.clone(),
        (Some(_) | None, _) => format!("**/{}", glob.trim_start_matches("./")),
    };
    set(globs.iter().map(absolute))
}

/// Compiles patterns into one set. One bad pattern, or too many, fails the whole set.
fn set(globs: impl ExactSizeIterator<Item = String>) -> Result<GlobSet, String> {
    if globs.len() > MAX_PATTERNS {
        return Err(format!("more than {MAX_PATTERNS} patterns"));
    }
    let mut builder = GlobSetBuilder::new();
    for glob in globs {
        builder.add(pattern(&glob)?);
    }
    builder.build().map_err(|error| error.to_string())
}

/// Compiles one pattern, in which `*` does not cross a slash. One that ends in a slash covers everything below that
/// folder.
fn pattern(glob: &str) -> Result<Glob, String> {
    if glob.len() > MAX_PATTERN_BYTES {
        return Err(format!("a pattern is longer than {MAX_PATTERN_BYTES} bytes"));
    }
    // A pattern that ends in a slash names a folder and covers everything below it.
    let glob = if glob.ends_with('/') { format!("{glob}**") } else { glob.to_owned() };
    GlobBuilder::new(&glob).literal_separator(true).build().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(glob: &str, path: &str) -> bool {
        patterns(&[glob.to_owned()]).unwrap().is_match(path)
    }

    #[test]
    fn globs_and_braces() {
        for (glob, path, expected) in [
            ("**/*.ts", "a.ts", true),
            ("**/*.ts", "src/deep/a.ts", true),
            ("*.ts", "src/a.ts", false),
            ("src/**", "src/a/b", true),
            ("src/**", "lib/src/a", false),
            ("./src/*.rs", "src/a.rs", true),
            ("/src/*.rs", "src/a.rs", true),
            ("src/", "src/a/b.rs", true),
            ("src/**/*.{ts,tsx}", "src/a/b.tsx", true),
            ("{src,lib}/**/*.ts", "lib/x.ts", true),
            ("{src,lib}/**/*.ts", "test/x.ts", false),
            ("src/[ab].rs", "src/b.rs", true),
        ] {
            assert_eq!(covers(glob, path), expected, "{glob} {path}");
        }
    }

    #[test]
    fn a_bomb_of_braces_is_no_bomb() {
        let bomb = "{a,b}".repeat(26);
        let started = std::time::Instant::now();
        if let Ok(set) = patterns(&[bomb]) {
            assert!(set.is_match("ab".repeat(13)));
        }
        assert!(started.elapsed() < std::time::Duration::from_secs(5));
        assert!(patterns(&["{a,b}".repeat(1000)]).is_err());
        assert!(patterns(&vec!["a".to_owned(); 100]).is_err());
        assert!(patterns(&["{a".to_owned()]).is_err());
    }

    #[test]
    fn exclusions_match_absolute_paths() {
        let home = Path::new("/home/[u]");
        let excluded =
            |glob: &str, path: &str| exclusions(&[glob.to_owned()], Some(home)).unwrap().is_match(path);
        assert!(excluded("**/vendor/CLAUDE.md", "/w/vendor/CLAUDE.md"));
        assert!(excluded("vendor/CLAUDE.md", "/w/vendor/CLAUDE.md"));
        assert!(excluded("/w/CLAUDE.md", "/w/CLAUDE.md"));
        assert!(excluded("~/x/**", "/home/[u]/x/CLAUDE.md"));
        assert!(!excluded("/w/CLAUDE.md", "/w/sub/CLAUDE.md"));
    }
}
