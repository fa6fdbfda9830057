//! One settings text with its source: what it says, what of that is in force, and where each thing stands.
//!
//! How a layer is found is the business of [`crate::load`]; what a source may say about itself is decided in
//! [`crate::stack`].

use std::path::{Path, PathBuf};

use lathe_permissions::SourcedRule;
use lathe_protocol::settings::PermissionSettings;
use lathe_protocol::{PermissionBehavior, Settings, SettingsSource};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::check::{Document, drop_misfits};
use crate::problem::{Origin, Position, SettingsProblem};
use crate::trust::ContentItem;

/// One settings text in the stack.
#[derive(Debug, Clone)]
pub struct Layer {
    /// Whose it is.
    pub source: SettingsSource,
    /// Where it was read.
    pub origin: Origin,
    /// What is wrong with it, and what of it does not count.
    pub problems: Vec<SettingsProblem>,
    /// What of it needs a trust that was not given, as a sentence.
    pub withheld: Option<String>,
    /// The same, one by one.
    pub(crate) withheld_items: Vec<ContentItem>,
    pub(crate) document: Document,
    pub(crate) honoured: Map<String, Value>,
    settings: Settings,
}

/// A directory that settings add, and where they say so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcedDirectory {
    /// Whose settings.
    pub source: SettingsSource,
    /// Absolute; it need not exist.
    pub path: PathBuf,
    /// As it was written, with file and line.
    pub written: SourcedRule,
}

impl Layer {
    /// Makes a layer of a checked document. At first all its valid settings are in force; [`Self::honour`] limits
    /// them.
    pub(crate) fn new(source: SettingsSource, origin: Origin, mut document: Document) -> Self {
        let problems = std::mem::take(&mut document.problems);
        let honoured = document.clean.clone();
        let settings = Settings::deserialize(&honoured).unwrap_or_default();
        Self {
            source,
            origin,
            problems,
            withheld: None,
            withheld_items: Vec::new(),
            document,
            honoured,
            settings,
        }
    }

    /// Returns the settings as they were written, wrong values included.
    pub fn raw(&self) -> &Map<String, Value> {
        &self.document.raw
    }

    /// Returns the settings in force: without wrong values, without what the source may not set and without what is
    /// withheld.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Replaces the settings in force; the text as it was written stays. Values that do not fit are dropped first,
    /// because one of them would reset all settings to the default, which forbids nothing.
    pub(crate) fn honour(&mut self, mut honoured: Map<String, Value>) {
        // One value of the wrong type would fail the whole text, and the default in its place forbids nothing.
        drop_misfits(&mut honoured);
        self.settings = Settings::deserialize(&honoured).unwrap_or_default();
        self.honoured = honoured;
    }

    /// Adds a warning at the position of a key in this layer; without a position if the key is not in the text.
    pub(crate) fn warn(&mut self, path: &[&str], message: String) {
        let at = self.document.positions.get(path);
        self.problems.push(SettingsProblem::warning(&self.origin, at, message));
    }

    /// Returns `permissions` of the settings in force; `None` if they have none.
    pub(crate) fn permissions(&self) -> Option<&PermissionSettings> {
        self.settings.permissions.as_ref()
    }

    /// Returns the rules of one behavior that are in force, with their lines.
    pub(crate) fn rules(&self, behavior: PermissionBehavior) -> impl Iterator<Item = SourcedRule> {
        let lists = self.permissions().map(|permissions| match behavior {
            PermissionBehavior::Allow => &permissions.allow,
            PermissionBehavior::Ask => &permissions.ask,
            PermissionBehavior::Deny => &permissions.deny,
        });
        let rules = lists.and_then(Option::as_ref).into_iter().flatten();
        rules.map(move |text| self.sourced(behavior.as_str(), text))
    }

    /// Returns the directories that the layer adds and that are in force; relative ones start at `cwd`. They need not
    /// exist.
    pub(crate) fn directories(&self, cwd: &Path, home: Option<&Path>) -> Vec<SourcedDirectory> {
        let list = self.permissions().and_then(|permissions| permissions.additional_directories.as_ref());
        list.into_iter()
            .flatten()
            .map(|text| SourcedDirectory {
                source: self.source,
                path: expand(text, cwd, home),
                written: self.sourced("additionalDirectories", text),
            })
            .collect()
    }

    /// Returns an entry of a list in `permissions` with the file and the line where it stands, as far as they are
    /// known.
    fn sourced(&self, list: &str, text: &str) -> SourcedRule {
        SourcedRule {
            text: text.to_owned(),
            file: self.origin.file().map(Path::to_owned),
            line: self.position(list, text).map(|at| at.line),
        }
    }

    /// Returns where an entry of a list in `permissions` was written, or `None`. The first entry with this text is
    /// meant, because the settings in force have no positions.
    fn position(&self, list: &str, text: &str) -> Option<Position> {
        let written = self.document.raw.get("permissions")?.get(list)?.as_array()?;
        let index = written.iter().position(|entry| entry == text)?;
        self.document.positions.get(&["permissions", list, &index.to_string()])
    }
}

/// Returns the path that a text means as people write it: `~` is the home folder, a relative path starts at `base`.
/// Without a known home, `~` is an ordinary name. Nothing is looked up on the disk.
pub(crate) fn expand(text: &str, base: &Path, home: Option<&Path>) -> PathBuf {
    match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        (None, Some(home)) if text == "~" => home.to_owned(),
        (Some(_) | None, _) => base.join(text),
    }
}
