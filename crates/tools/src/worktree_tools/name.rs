//! The name of a worktree. It becomes the name of a folder and part of the name of a branch, so it is checked before
//! git or the disk see it.

use super::refusal::WorktreeRefusal;

/// The most characters of a name.
const MAX_CHARS: usize = 64;

/// A name that is safe as a folder and as part of a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorktreeName(String);

impl WorktreeName {
    /// Checks a name: segments of letters, digits, dots, underscores and dashes with `/` between them, at most 64
    /// characters in all. Refuses anything else, and what git would misread in the name of a branch.
    pub fn parse(text: &str) -> Result<Self, WorktreeRefusal> {
        let is_fine = |segment: &str| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            !segment.is_empty()
                && segment.chars().all(is_plain)
                && !segment.starts_with(['.', '-'])
                && !segment.ends_with('.')
                && !segment.ends_with(".lock")
                && !segment.contains("..")
        };
        match text.len() <= MAX_CHARS && text.split('/').all(is_fine) {
            true => Ok(Self(text.to_owned())),
            false => Err(WorktreeRefusal::BadName { name: text.to_owned() }),
        }
    }

    /// Returns the name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of the folder. Worktrees are next to each other and never inside each other, so a `/` becomes a
    /// `+`, which no name contains.
    pub fn folder(&self) -> String {
        self.0.replace('/', "+")
    }

    /// Returns the name of the branch of a worktree with this name: `worktree-` and the name of its folder.
    pub fn branch(&self) -> String {
        format!("worktree-{}", self.folder())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside_their_folder_and_are_branches() {
        for good in ["a", "wt1", "fix-12", "a.b_c", "team/a", "A/b/c", &"x".repeat(64)] {
            assert_eq!(WorktreeName::parse(good).unwrap().as_str(), good);
        }
        let long = "x".repeat(65);
        for bad in [
            "", "/", "a/", "/a", "a//b", ".", "..", "../x", "a/../b", ".hidden", "-b", "a/-b", "a b", "a\nb",
            "a\0", "a..b", "a.", "a.lock", "ä", "a\\b", "a:b", "a~", "a^", "a@{1}", "a*", "a+b", &long,
        ] {
            assert!(WorktreeName::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn segments_lie_side_by_side() {
        let name = WorktreeName::parse("team/a").unwrap();
        assert_eq!((name.folder().as_str(), name.branch().as_str()), ("team+a", "worktree-team+a"));
    }
}
