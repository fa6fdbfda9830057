//! Rules about files: patterns in the manner of gitignore, compiled into look-up tables.
//!
//! A deny or ask rule is read broadly and an allow rule narrowly: a forbidding rule compares names without case and
//! without invisible characters, covers the directory itself, and takes `/x` also as the absolute path that its author
//! may have meant.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::glob;
use crate::paths::normal;

/// The most `**` in one pattern: each of them multiplies the work.
const MAX_ANY: usize = 4;

/// Whether rules permit or forbid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sense {
    Permit,
    Forbid,
}

/// The folders that patterns are relative to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bases {
    /// The project root: as written, and with links resolved.
    pub roots: Vec<PathBuf>,
    pub home: Option<PathBuf>,
    /// The folders that `/x` is relative to.
    pub anchors: Vec<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    /// A name, or a pattern for one.
    Name(String),
    /// `**`
    Any,
}

#[derive(Debug, Clone)]
struct Pattern {
    /// The folder below which an any-depth pattern counts; `None` is everywhere.
    under: Option<String>,
    segments: Vec<Segment>,
    rule: usize,
}

/// All file rules of one kind.
#[derive(Debug, Clone)]
pub(crate) struct PathRules {
    sense: Sense,
    patterns: Vec<Pattern>,
    /// Patterns by the fixed directory they start in.
    by_directory: HashMap<String, Vec<usize>>,
    /// Any-depth patterns by their first name.
    by_name: HashMap<String, Vec<usize>>,
    /// Any-depth patterns `*suffix`, by the suffix.
    by_suffix: HashMap<String, Vec<usize>>,
    suffix_lengths: Vec<usize>,
    /// Any-depth patterns that fit into none of the tables.
    others: Vec<usize>,
}

impl PathRules {
    /// Creates an empty set. `sense` says whether it permits or forbids, which decides how patterns are read: allow
    /// rules narrowly, others broadly.
    pub(crate) fn new(sense: Sense) -> Self {
        Self {
            sense,
            patterns: Vec::new(),
            by_directory: HashMap::new(),
            by_name: HashMap::new(),
            by_suffix: HashMap::new(),
            suffix_lengths: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Returns whether there are no rules.
    pub(crate) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Adds the pattern of a rule. `rule` is the number that [`Self::find`] returns for it. The error says what is
    /// wrong with the pattern, of which nothing is added then. A pattern whose base is an empty list in `bases` is no
    /// error, but matches nothing.
    pub(crate) fn add(&mut self, content: &str, bases: &Bases, rule: usize) -> Result<(), &'static str> {
        let content = content.trim();
        if content.starts_with('!') {
            return Err("a negated pattern is not supported");
        }
        if content.matches("**").count() > MAX_ANY {
            return Err("it has too many `**`");
        }
        let relative: Vec<&Path> = bases.roots.iter().map(PathBuf::as_path).collect();
        if let Some(rest) = content.strip_prefix("//") {
            self.anchored(&[Path::new("/")], rest, rule);
        } else if content == "~" || content.starts_with("~/") {
            let home = bases.home.as_deref().ok_or("the home directory is not known")?;
            self.anchored(&[home], content[1..].trim_start_matches('/'), rule);
        } else if let Some(rest) = content.strip_prefix('/') {
            let mut anchors: Vec<&Path> = bases.anchors.iter().map(PathBuf::as_path).collect();
            if self.sense == Sense::Forbid {
                anchors.push(Path::new("/"));
            }
            self.anchored(&anchors, rest, rule);
        } else if let Some(rest) = content.strip_prefix("./") {
            self.anchored(&relative, rest, rule);
        } else {
            self.relative(&relative, content, rule);
        }
        Ok(())
    }

    /// Adds a pattern without an anchor. A single name, or one after `**`, counts at any depth: everywhere when it
    /// forbids, below the roots when it permits. So does `name/**` when it forbids; every other pattern starts at the
    /// roots.
    fn relative(&mut self, roots: &[&Path], content: &str, rule: usize) {
        let segments = split(content);
        let any_depth = match segments.as_slice() {
            [Segment::Any, _, ..] => true,
            [Segment::Name(_)] => true,
            // `src/**` means the `src` here when it permits, and every `src` when it forbids.
            [Segment::Name(_), Segment::Any] => self.sense == Sense::Forbid,
            _ => false,
        };
        if !any_depth {
            return self.anchored(roots, content, rule);
        }
        let segments: Vec<Segment> =
            segments.into_iter().skip_while(|segment| *segment == Segment::Any).collect();
        match self.sense {
            Sense::Forbid => self.anywhere(None, segments, rule),
            Sense::Permit => {
                for root in roots {
                    self.anywhere(Some(self.fold(root)), segments.clone(), rule);
                }
            }
        }
    }

    /// Adds an any-depth pattern to the table its first segment fits: by name, by suffix, or the list that is compared
    /// with every path. `under` limits it to a folder.
    fn anywhere(&mut self, under: Option<String>, segments: Vec<Segment>, rule: usize) {
        let index = self.patterns.len();
        match segments.first() {
            Some(Segment::Name(name)) if !is_wild(name) => {
                let name = self.fold_text(name);
                self.by_name.entry(name).or_default().push(index);
            }
            Some(Segment::Name(name)) if name.starts_with('*') && !is_wild(&name[1..]) => {
                let suffix = self.fold_text(&name[1..]);
                if !self.suffix_lengths.contains(&suffix.len()) {
                    self.suffix_lengths.push(suffix.len());
                }
                self.by_suffix.entry(suffix).or_default().push(index);
            }
            _ => self.others.push(index),
        }
        let segments = self.fold_segments(segments);
        self.patterns.push(Pattern { under, segments, rule });
    }

    /// Adds a pattern once for each base, so nothing without a base. Leading fixed names move into the directory
    /// that is the key of the table, where `..` goes up; the segments from the first wildcard on are compared one by
    /// one, and there `..` is an ordinary name.
    fn anchored(&mut self, bases: &[&Path], content: &str, rule: usize) {
        for base in bases {
            let mut directory = normal(base);
            let mut segments = Vec::new();
            for segment in split(content) {
                match &segment {
                    Segment::Name(name) if segments.is_empty() && name == ".." => {
                        directory.pop();
                    }
                    Segment::Name(name) if segments.is_empty() && !is_wild(name) => directory.push(name),
                    Segment::Name(_) | Segment::Any => segments.push(segment),
                }
            }
            let index = self.patterns.len();
            let directory = self.fold(&directory);
            self.by_directory.entry(directory).or_default().push(index);
            let segments = self.fold_segments(segments);
            self.patterns.push(Pattern { under: None, segments, rule });
        }
    }

    /// Returns the lowest number of the rules that match an absolute path without `.` and `..`; `None` if none does.
    /// Links are not resolved.
    pub(crate) fn find(&self, path: &Path) -> Option<usize> {
        if self.patterns.is_empty() {
            return None;
        }
        let text = self.fold(path);
        let names: Vec<&str> = text.split('/').filter(|name| !name.is_empty()).collect();
        let mut best: Option<usize> = None;
        let mut hit = |index: usize| {
            let rule = self.patterns[index].rule;
            best = Some(best.map_or(rule, |best| best.min(rule)));
        };
        // Fixed directories: every ancestor of the path, and the path itself.
        let mut end = 0;
        for depth in 0..=names.len() {
            let directory = if depth == 0 { "/" } else { &text[..end] };
            for &index in self.by_directory.get(directory).into_iter().flatten() {
                if self.matches(&self.patterns[index].segments, &names[depth..]) {
                    hit(index);
                }
            }
            if let Some(name) = names.get(depth) {
                end += 1 + name.len();
            }
        }
        let mut end = 0;
        for (depth, name) in names.iter().enumerate() {
            let above = &text[..end];
            end += 1 + name.len();
            let suffixed = self.suffix_lengths.iter().filter_map(|length| {
                let at = name.len().checked_sub(*length)?;
                name.get(at..).and_then(|suffix| self.by_suffix.get(suffix))
            });
            let candidates =
                self.by_name.get(*name).into_iter().chain(suffixed).chain(std::iter::once(&self.others));
            for &index in candidates.flatten() {
                let pattern = &self.patterns[index];
                let under = pattern.under.as_deref().is_none_or(|base| is_within(above, base));
                if under && self.matches(&pattern.segments, &names[depth..]) {
                    hit(index);
                }
            }
        }
        best
    }

    /// Returns whether a rule is about something that exists below a directory. Any-depth patterns are only looked up
    /// by a fixed first name, in the directory itself; `*suffix` and other wildcards are not looked up.
    pub(crate) fn reaches_into(&self, directory: &Path) -> bool {
        if self.patterns.is_empty() {
            return false;
        }
        let folded = self.fold(directory);
        let below = |path: &str| path != folded && is_within(path, &folded);
        self.by_directory.keys().any(|path| below(path) && self.exists_below(directory, path))
            || self.by_name.keys().any(|name| self.exists_below(directory, &format!("{folded}/{name}")))
    }

    /// Returns whether there is a file below `directory` whose path, folded, is `folded_path`. Keys are folded when the
    /// set forbids, so on a disk that tells case apart the names are looked for, one folder after the other.
    fn exists_below(&self, directory: &Path, folded_path: &str) -> bool {
        if Path::new(folded_path).exists() {
            return true;
        }
        let mut reached = vec![directory.to_path_buf()];
        loop {
            let entries = reached.iter().filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
            let leads_there = |path: &PathBuf| is_within(folded_path, &self.fold(path));
            reached = entries.map(|entry| entry.path()).filter(leads_there).collect();
            if reached.is_empty() {
                return false;
            }
            if reached.iter().any(|path| self.fold(path) == folded_path) {
                return true;
            }
        }
    }

    /// Returns whether segments match the leading names. A pattern that ends early covers everything below; a final
    /// `**` covers the directory itself only when it forbids.
    fn matches(&self, segments: &[Segment], names: &[&str]) -> bool {
        match (segments, names) {
            ([], _) => true,
            ([Segment::Any], []) => self.sense == Sense::Forbid,
            ([Segment::Any], _) => true,
            ([Segment::Any, rest @ ..], _) => {
                (0..=names.len()).any(|skip| !rest.is_empty() && self.matches(rest, &names[skip..]))
            }
            ([Segment::Name(pattern), rest @ ..], [name, names @ ..]) => {
                glob::matches(pattern, name) && self.matches(rest, names)
            }
            ([Segment::Name(_), ..], []) => false,
        }
    }

    /// Returns a path in the form that keys and patterns of this set have; see [`Self::fold_text`].
    fn fold(&self, path: &Path) -> String {
        self.fold_text(&path.to_string_lossy())
    }

    /// Returns a text as patterns and paths of this set are compared: without case and invisible characters when the
    /// set forbids, unchanged when it permits. Patterns and paths must both go through this.
    fn fold_text(&self, text: &str) -> String {
        match self.sense {
            Sense::Permit => text.to_owned(),
            Sense::Forbid => folded(text),
        }
    }

    /// Returns the segments with their names in the form of [`Self::fold_text`].
    fn fold_segments(&self, segments: Vec<Segment>) -> Vec<Segment> {
        let fold = |segment| match segment {
            Segment::Name(name) => Segment::Name(self.fold_text(&name)),
            Segment::Any => Segment::Any,
        };
        segments.into_iter().map(fold).collect()
    }
}

/// Returns a text in lower case and without invisible characters: the form in which a file system that ignores both
/// would compare names.
pub(crate) fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let invisible = |c: &char| matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    text.chars().filter(|c| !invisible(c)).flat_map(char::to_lowercase).collect()
}

/// Returns whether a name must be compared as a glob; a backslash counts, because it escapes.
fn is_wild(name: &str) -> bool {
    name.contains(['*', '?', '[', '\\'])
}

/// Returns whether a path is the folder `base` or below it, compared at name boundaries: `/ab` is not within `/a`.
fn is_within(path: &str, base: &str) -> bool {
    path.strip_prefix(base)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || base.ends_with('/'))
}

/// Splits a pattern at slashes. Empty segments and `.` are dropped, and repeated `**` become one.
fn split(content: &str) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for name in content.split('/').filter(|name| !name.is_empty() && *name != ".") {
        match name {
            "**" if segments.last() == Some(&Segment::Any) => {}
            "**" => segments.push(Segment::Any),
            name => segments.push(Segment::Name(name.to_owned())),
        }
    }
    segments
}

#[cfg(test)]
mod tests;
