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
    /// Makes a layer of a checked document. At first everything in it that is valid is in force; [`Self::honour`]
    /// limits it.
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

    /// As it was written.
    pub fn raw(&self) -> &Map<String, Value> {
        &self.document.raw
    }

    /// What of it is in force: without wrong values and without what the source may not say.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Replaces what is in force of the layer; the text as it was written stays. Values that do not fit are dropped
    /// first, because one of them would make all settings the default.
    pub(crate) fn honour(&mut self, mut honoured: Map<String, Value>) {
        // One value of the wrong type would fail the whole text, and the default in its place forbids nothing.
        drop_misfits(&mut honoured);
        self.settings = Settings::deserialize(&honoured).unwrap_or_default();
        self.honoured = honoured;
    }

    /// Adds a warning at the position of a key in this layer.
    pub(crate) fn warn(&mut self, path: &[&str], message: String) {
        let at = self.document.positions.get(path);
        self.problems.push(SettingsProblem::warning(&self.origin, at, message));
    }

    /// What is in force of `permissions`.
    pub(crate) fn permissions(&self) -> Option<&PermissionSettings> {
        self.settings.permissions.as_ref()
    }

    /// The rules of one kind, with their lines.
    pub(crate) fn rules(&self, behavior: PermissionBehavior) -> impl Iterator<Item = SourcedRule> {
        let lists = self.permissions().map(|permissions| match behavior {
            PermissionBehavior::Allow => &permissions.allow,
            PermissionBehavior::Ask => &permissions.ask,
            PermissionBehavior::Deny => &permissions.deny,
        });
        let rules = lists.and_then(Option::as_ref).into_iter().flatten();
        rules.map(move |text| self.sourced(behavior.as_str(), text))
    }

    /// The directories that it adds; relative ones start at `cwd`.
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

    /// Where an entry of a list of `permissions` stands. What is in force is part of what was written, so it
    /// is looked up by its text.
    fn position(&self, list: &str, text: &str) -> Option<Position> {
        let written = self.document.raw.get("permissions")?.get(list)?.as_array()?;
        let index = written.iter().position(|entry| entry == text)?;
        self.document.positions.get(&["permissions", list, &index.to_string()])
    }
}

/// A path as people write it.
pub(crate) fn expand(text: &str, base: &Path, home: Option<&Path>) -> PathBuf {
    match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        (None, Some(home)) if text == "~" => home.to_owned(),
        (Some(_) | None, _) => base.join(text),
    }
}
