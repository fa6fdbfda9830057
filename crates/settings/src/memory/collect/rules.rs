//! Rules: the files of a `rules` folder, and the paths that some of them wait for. Whether a file may be loaded is
//! decided in `collect.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::super::scope::patterns;
use super::super::{Limit, LoadReason, MemoryKind, PathRule};
use super::{Find, Form, Memory};
use crate::frontmatter::{self, Words};

/// How deep a folder of rules is searched, and how many entries of all such folders are looked at.
const MAX_RULE_DEPTH: usize = 8;
const MAX_RULE_ENTRIES: usize = 1000;

#[derive(Deserialize, Default)]
struct RuleHead {
    #[serde(default)]
    paths: Option<Words>,
}

impl Memory {
    /// Adds the rules of a folder in the order of their names. Rules with `paths` wait until a matching file is read;
    /// their patterns are relative to `base`.
    pub(super) fn rules_in(
        &mut self,
        dir: &Path,
        kind: MemoryKind,
        base: &Path,
        reason: LoadReason,
        trigger: Option<&Path>,
    ) {
        let limit = match kind {
            MemoryKind::User | MemoryKind::Managed | MemoryKind::Auto => Limit::Anywhere,
            MemoryKind::Project | MemoryKind::Local if base.starts_with(&self.root) => {
                Limit::Below(self.root.clone())
            }
            MemoryKind::Project | MemoryKind::Local => Limit::Below(base.to_owned()),
        };
        let mut files = Vec::new();
        self.rule_files(dir, &limit, 0, &mut files);
        for path in files {
            let find = Find {
                trigger: trigger.map(Path::to_owned),
                form: Form::Rule,
                ..Find::new(path, kind, reason, limit.clone())
            };
            if let Some(rule) = self.add(find) {
                self.rules.push(PathRule { base: base.to_owned(), ..rule });
            }
        }
    }

    /// Collects the Markdown files of a rules folder and the folders in it into `files`, sorted. The depth and the
    /// number of entries of all folders together are bounded, because a project may bring any tree. Each folder is
    /// entered once in the life of the memory; one that leads outside the limit is left out with a warning.
    fn rule_files(&mut self, dir: &Path, limit: &Limit, depth: usize, files: &mut Vec<PathBuf>) {
        let Ok(entries) = fs::read_dir(dir) else { return };
        let Ok(real) = dir.canonicalize() else { return };
        let leads_out = matches!(limit, Limit::Below(base) if !real.starts_with(base));
        if leads_out && !self.outside_is_approved() {
            self.warn(dir, "it is left out: it leads outside the project".to_owned());
            return;
        }
        // `seen` stops at a link that leads back to a folder above.
        if depth > MAX_RULE_DEPTH || !self.seen.insert(real) {
            return;
        }
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        // File systems list entries in different orders, and the model must read the same text everywhere.
        paths.sort();
        for path in paths {
            self.rule_entries += 1;
            if self.rule_entries > MAX_RULE_ENTRIES {
                self.warn(dir, format!("more than {MAX_RULE_ENTRIES} entries: the rest is left out"));
                return;
            }
            if path.is_dir() {
                self.rule_files(&path, limit, depth + 1, files);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                files.push(path);
            }
        }
    }

    /// Returns the rule if its frontmatter has `paths` to wait for, otherwise `None`. A rule whose patterns cannot be
    /// parsed causes a warning and does not wait, because otherwise it would never be loaded. The caller must set its
    /// `base`.
    pub(super) fn waiting(&mut self, find: &Find, yaml: &str) -> Option<PathRule> {
        let understood = frontmatter::read::<RuleHead>(yaml).and_then(|head| {
            let globs = head.paths.map(Words::into_vec).unwrap_or_default();
            Ok((patterns(&globs)?, globs))
        });
        match understood {
            Ok((_, globs)) if globs.is_empty() => None,
            Ok((set, globs)) => {
                let (path, limit) = (find.path.clone(), find.limit.clone());
                Some(PathRule { path, kind: find.kind, base: PathBuf::new(), globs, set, limit })
            }
            Err(error) => {
                let message =
                    format!("it is always in force, because its `paths` are not understood: {error}");
                self.warn(&find.path, message);
                None
            }
        }
    }
}
