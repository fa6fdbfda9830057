//! Changes while a session runs: what a client applies, what a permission answer grants, and files that
//! a person edits.
//!
//! Everything is checked before anything changes. Files are written first; the stack follows what was written. A write
//! is planned on the stack, carried out without it ([`SettingsWrite`]) and taken over by it, because it waits for the
//! disk and for other writers.

use std::path::PathBuf;

use lathe_permissions::rule_text;
use lathe_protocol::permission::{DirectoriesUpdate, RulesUpdate};
use lathe_protocol::{PermissionUpdate, SettingsSource};
use serde_json::{Map, Value};

use crate::check::{Document, Strictness, kind};
use crate::error::SettingsError;
use crate::file::Stamp;
use crate::grants::FolderGrants;
use crate::known::CLIENT_MAY_WRITE;
use crate::layer::Layer;
use crate::load::{self, APPLIED, Loaded, lay_shallow};
use crate::problem::{Origin, SettingsProblem, Severity};
use crate::stack::{Moment, SettingsStack};
use crate::write::{Outcome, Owner, edit};

/// A change to the settings of a file. Made twice, it changes nothing the second time.
type Change = dyn Fn(&mut Map<String, Value>) + Send + Sync;

/// A change to a settings file that is decided on. It is made apart from the stack, on a thread that may block, so that
/// those who look at the stack meanwhile do not wait for the disk; [`SettingsStack::finish`] takes over what it did.
pub struct SettingsWrite {
    source: SettingsSource,
    path: PathBuf,
    change: Box<Change>,
    /// Remembers what the change grants.
    grants: FolderGrants,
    /// What became of the file, once it is written.
    outcome: Option<Outcome>,
}

impl SettingsWrite {
    /// Writes the file, then the grants. After [`SettingsError::Busy`] it can be called again and continues where it
    /// stopped. Does not change the stack: the caller must pass the result to [`SettingsStack::finish`].
    pub fn carry_out(&mut self) -> Result<(), SettingsError> {
        if self.outcome.is_none() {
            let owner = if self.source == SettingsSource::User { Owner::User } else { Owner::Project };
            self.outcome = Some(edit(&self.path, owner, &*self.change)?);
        }
        // After the file: `record` keeps only the grants that the settings file says by then.
        self.grants.record(self.source, &self.path, &*self.change)
    }
}

/// What became of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// It is in this file now.
    Written(PathBuf),
    /// The file already said so.
    Unchanged(PathBuf),
    /// It is not meant for a file, or its meaning is not known.
    NotInAFile,
}

/// A file that is not what it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Whose it is.
    pub source: SettingsSource,
    /// Which one.
    pub path: PathBuf,
}

impl SettingsStack {
    /// Merges settings into the layer of `--settings`, key by key; null removes a key. Returns the warnings about
    /// values that are ignored. Writes no file; after an error nothing has changed.
    pub fn apply_flag(&mut self, settings: Value) -> Result<Vec<SettingsProblem>, SettingsError> {
        let settings = object(settings)?;
        let problems = Document::of_value(settings.clone(), &APPLIED, Strictness::Usual).problems;
        if let Some(error) = problems.iter().find(|problem| problem.severity == Severity::Error) {
            return Err(SettingsError::Unusable(Box::new(error.clone())));
        }
        // A null is kept: it must hide the key in a file that is read again.
        let mut overlay = self.overlay.clone();
        overlay.extend(settings);
        let loaded = load::load(&self.request, SettingsSource::Flag, &overlay)?;
        // Only after the load has succeeded, so that a change that was refused does not come back with the next one.
        self.overlay = overlay;
        self.install(SettingsSource::Flag, loaded, Moment::Start);
        Ok(problems)
    }

    /// Writes settings to the user's file or the local one; null removes a key. Accepts only keys that a person would
    /// change in a menu, and fails even for a value that would only cause a warning. Blocks while it writes;
    /// [`SettingsStack::plan_update`] does the same in steps.
    pub fn update(&mut self, source: SettingsSource, settings: Value) -> Result<Kept, SettingsError> {
        let mut write = self.plan_update(source, settings)?;
        let made = write.carry_out();
        self.finish(write, made)
    }

    /// Writes a permission update to the file it names; one that names no file, or is of an unknown kind, is
    /// [`Kept::NotInAFile`]. Blocks while it writes; [`SettingsStack::plan_permission_update`] does the same in steps.
    pub fn apply_permission_update(&mut self, update: &PermissionUpdate) -> Result<Kept, SettingsError> {
        let Some(mut write) = self.plan_permission_update(update)? else { return Ok(Kept::NotInAFile) };
        let made = write.carry_out();
        self.finish(write, made)
    }

    /// Checks and prepares what [`SettingsStack::update`] writes, without writing. The caller calls
    /// [`SettingsWrite::carry_out`] and then [`SettingsStack::finish`].
    pub fn plan_update(
        &self,
        source: SettingsSource,
        settings: Value,
    ) -> Result<SettingsWrite, SettingsError> {
        let settings = object(settings)?;
        if let Some(key) = settings.keys().find(|key| !CLIENT_MAY_WRITE.contains(&key.as_str())) {
            return Err(SettingsError::KeyNotAllowed(key.clone()));
        }
        let origin = Origin::Given("update_settings");
        let problems = Document::of_value(settings.clone(), &origin, Strictness::Usual).problems;
        // Even a warning refuses the update: a client would believe in a value that is then ignored.
        if let Some(problem) = problems.into_iter().next() {
            return Err(SettingsError::Unusable(Box::new(problem)));
        }
        match source {
            SettingsSource::Local | SettingsSource::User => {
                self.plan(source, Box::new(move |file| lay_shallow(file, &settings)))
            }
            SettingsSource::Policy | SettingsSource::Flag | SettingsSource::Project => {
                Err(SettingsError::NoFile(source.as_str()))
            }
        }
    }

    /// Prepares the write of a permission update to the file it names. `None` if it names none, because rules of the
    /// session are kept by the engine alone, or if its kind is not known.
    pub fn plan_permission_update(
        &self,
        update: &PermissionUpdate,
    ) -> Result<Option<SettingsWrite>, SettingsError> {
        let (destination, change): (_, Box<Change>) = match update.clone() {
            PermissionUpdate::AddRules(rules) => {
                (rules.destination, Box::new(move |file| add_rules(file, &rules)))
            }
            PermissionUpdate::ReplaceRules(rules) => (
                rules.destination,
                Box::new(move |file| *list(file, rules.behavior.as_str()) = texts(&rules)),
            ),
            PermissionUpdate::RemoveRules(rules) => (
                rules.destination,
                Box::new(move |file| remove(file, rules.behavior.as_str(), &texts(&rules))),
            ),
            PermissionUpdate::SetMode(mode) => (
                mode.destination,
                Box::new(move |file| {
                    permissions(file).insert("defaultMode".to_owned(), mode.mode.as_str().into());
                }),
            ),
            PermissionUpdate::AddDirectories(dirs) => {
                (dirs.destination, Box::new(move |file| add(list(file, DIRECTORIES), directories(&dirs))))
            }
            PermissionUpdate::RemoveDirectories(dirs) => {
                (dirs.destination, Box::new(move |file| remove(file, DIRECTORIES, &directories(&dirs))))
            }
            PermissionUpdate::Unknown(_) => return Ok(None),
        };
        let Some(source) = destination.settings_source() else { return Ok(None) };
        self.plan(source, change).map(Some)
    }

    /// Prepares a write to the file of a source; nothing is written yet. Fails if the source has no file.
    fn plan(&self, source: SettingsSource, change: Box<Change>) -> Result<SettingsWrite, SettingsError> {
        let path = self.request.file_of(source).ok_or(SettingsError::NoFile(source.as_str()))?;
        Ok(SettingsWrite { source, path, change, grants: self.grants.clone(), outcome: None })
    }

    /// Reads the file again after a write, so that the stack has what is in it now. `made` is what the last
    /// [`SettingsWrite::carry_out`] returned; if it wrote nothing, its error is returned. Exactly the written change
    /// counts as agreed to; what other writers have put into the file counts by the same rules as after
    /// [`SettingsStack::reload`]. An error does not mean that nothing was written: the file may be unreadable now, or
    /// the grant may not be remembered ([`SettingsError::NotRemembered`]).
    pub fn finish(
        &mut self,
        write: SettingsWrite,
        made: Result<(), SettingsError>,
    ) -> Result<Kept, SettingsError> {
        let SettingsWrite { source, path, change, outcome, .. } = write;
        let Some(outcome) = outcome else { return made.map(|()| Kept::NotInAFile) };
        let mut approved = self.granted(source);
        // Exactly this change was agreed to, and nothing else that another writer has put into the file since.
        change(&mut approved);
        if made.is_ok() {
            // Read again: several writes may be under way, and may be finished in another order than they were made.
            self.grants = FolderGrants::read(self.request.config_dir.as_deref(), &self.request.cwd);
        }
        let loaded = load::load(&self.request, source, &self.overlay)?;
        self.install(source, loaded, Moment::Running { approved: &approved });
        // In a folder that is trusted as a whole the file counts without a remembered grant, so nothing is lost there.
        if let Err(cause) = made
            && !self.trust().is_whole()
        {
            return Err(SettingsError::NotRemembered { path, cause: Box::new(cause) });
        }
        Ok(match outcome {
            Outcome::Written => Kept::Written(path),
            Outcome::Unchanged => Kept::Unchanged(path),
        })
    }

    /// Returns the settings in force of the first layer of a source; empty if it has none.
    fn granted(&self, source: SettingsSource) -> Map<String, Value> {
        let layer = self.layers.iter().find(|layer| layer.source == source);
        layer.map(|layer| layer.honoured.clone()).unwrap_or_default()
    }

    /// Returns, for each file of a source that asks for more than it gets, the sentence about it.
    fn withheld(&self, source: SettingsSource) -> Vec<(Origin, String)> {
        let layers = self.layers.iter().filter(|layer| layer.source == source);
        layers.filter_map(|layer| Some((layer.origin.clone(), layer.withheld.clone()?))).collect()
    }

    /// Returns the files that have changed, appeared or disappeared since they were read. Costs one `stat` per file, so
    /// it can be called between rounds; it does not mark them as seen.
    pub fn changed(&self) -> Vec<Changed> {
        self.watched
            .iter()
            .filter(|(_, watched)| Stamp::at(&watched.path) != watched.stamp)
            .map(|(source, watched)| Changed { source: *source, path: watched.path.clone() })
            .collect()
    }

    /// Marks changed files as seen without reading them, because a hook refused the change. Their old settings stay in
    /// force.
    pub fn leave(&mut self, changed: &[Changed]) {
        for (_, watched) in &mut self.watched {
            if changed.iter().any(|changed| changed.path == watched.path) {
                watched.stamp = Stamp::at(&watched.path);
            }
        }
    }

    /// Reads the sources of changed files again. Returns the problems, and what is newly withheld as warnings. A source
    /// that has errors keeps its old settings, because a file is often half written when it is read. Grants that a file
    /// of the folder no longer contains are forgotten for good; what it no longer forbids stays forbidden until the
    /// next start.
    pub fn reload(&mut self, changed: &[Changed]) -> Vec<SettingsProblem> {
        let mut found = Vec::new();
        for source in SettingsSource::ALL {
            if !changed.iter().any(|changed| changed.source == source) {
                continue;
            }
            let loaded = match load::load(&self.request, source, &self.overlay) {
                Ok(loaded) => loaded,
                Err(SettingsError::Unusable(problem)) => {
                    found.push(*problem);
                    self.look_again(source);
                    continue;
                }
                Err(error) => {
                    found.push(SettingsProblem::error(
                        &Origin::Given(source.as_str()),
                        None,
                        error.to_string(),
                    ));
                    self.look_again(source);
                    continue;
                }
            };
            let problems: Vec<SettingsProblem> =
                loaded.layers.iter().flat_map(|layer| layer.problems.clone()).collect();
            if problems.iter().any(|problem| problem.severity == Severity::Error) {
                found.extend(problems);
                // The new stamps are taken over, so that the same errors are not reported again before the next change.
                self.watch(source, loaded.watched);
            } else {
                let approved = self.granted(source);
                let moment = Moment::Running { approved: &approved };
                let withheld = self.withheld(source);
                self.forget_revoked(source, &loaded, moment);
                let loaded = self.without_losing(source, loaded);
                self.install(source, loaded, moment);
                let layers = self.layers.iter().filter(|layer| layer.source == source);
                found.extend(layers.flat_map(|layer| layer.problems.clone()));
                // What was withheld at the start has been said then.
                let news = self
                    .withheld(source)
                    .into_iter()
                    .filter(|(_, text)| withheld.iter().all(|(_, before)| before != text));
                found.extend(news.map(|(origin, text)| SettingsProblem::warning(&origin, None, text)));
            }
        }
        found
    }

    /// Returns what was loaded; where a project's file has disappeared, an empty layer stands in for it. So what it
    /// forbade stays forbidden until the next start.
    fn without_losing(&self, source: SettingsSource, mut loaded: Loaded) -> Loaded {
        if let (SettingsSource::Local | SettingsSource::Project, true) = (source, loaded.layers.is_empty())
            && let Some(had) = self.layers.iter().find(|layer| layer.source == source)
        {
            loaded.layers.push(Layer::new(source, had.origin.clone(), Document::default()));
        }
        loaded
    }

    /// Marks the files of a source as seen in their current state, without reading them, so that the same damage is not
    /// reported before each request.
    fn look_again(&mut self, source: SettingsSource) {
        for (owner, watched) in &mut self.watched {
            if *owner == source {
                watched.stamp = Stamp::at(&watched.path);
            }
        }
    }
}

const DIRECTORIES: &str = "additionalDirectories";

/// Returns the members of a JSON object; any other value is an error that names its kind.
fn object(settings: Value) -> Result<Map<String, Value>, SettingsError> {
    match settings {
        Value::Object(settings) => Ok(settings),
        other => Err(SettingsError::NotAnObject(kind(&other))),
    }
}

/// Returns the object `permissions` of a file, and creates it if it is absent. A value of another type is replaced, so
/// the file must have been checked before.
fn permissions(file: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let value = file.entry("permissions").or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was just made one")
}

/// Returns a list in `permissions`, and creates it if it is absent. A value of another type is replaced, so the file
/// must have been checked before.
fn list<'a>(file: &'a mut Map<String, Value>, name: &str) -> &'a mut Vec<Value> {
    let value = permissions(file).entry(name).or_insert(Value::Null);
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut().expect("it was just made one")
}

/// Returns the rules of an update in the form in which a settings file holds them.
fn texts(update: &RulesUpdate) -> Vec<Value> {
    update.rules.iter().map(|rule| Value::from(rule_text(rule))).collect()
}

/// Returns the directories as entries of a list, as they were written: relative ones stay relative.
fn directories(update: &DirectoriesUpdate) -> Vec<Value> {
    update.directories.iter().cloned().map(Value::from).collect()
}

/// Adds the rules of an update to the list of its behavior, which is created if it is absent. Rules that are there
/// already are not repeated.
fn add_rules(file: &mut Map<String, Value>, update: &RulesUpdate) {
    add(list(file, update.behavior.as_str()), texts(update));
}

/// Appends entries that are not in the list yet, in their order. The order of those that are there does not change.
fn add(list: &mut Vec<Value>, entries: Vec<Value>) {
    for entry in entries {
        if !list.contains(&entry) {
            list.push(entry);
        }
    }
}

/// Removes entries from a list in `permissions`. A list that is absent is not created.
fn remove(file: &mut Map<String, Value>, name: &str, entries: &[Value]) {
    let is_there = file.get("permissions").is_some_and(|permissions| permissions.get(name).is_some());
    if is_there {
        list(file, name).retain(|entry| !entries.contains(entry));
    }
}
