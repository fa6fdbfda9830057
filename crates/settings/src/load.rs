//! Finds and reads the layers of one source.
//!
//! A missing file gives no layer. A file that exists and cannot be used gives a layer with an error in it, so that it
//! is not mistaken for a missing one. Managed files count only if no other user than their owner can write them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::check::{Document, Strictness};
use crate::error::SettingsError;
use crate::file::{Stamp, read_text};
use crate::layer::Layer;
use crate::problem::{Origin, SettingsProblem, Severity};
use crate::source::{FlagValue, StackRequest};
use lathe_protocol::SettingsSource;

/// The largest settings file that is read.
pub const MAX_SETTINGS_BYTES: u64 = 4 << 20;

/// A path that is checked for changes between turns.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    pub path: PathBuf,
    pub stamp: Option<Stamp>,
}

/// The layers of one source, strongest first.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub layers: Vec<Layer>,
    pub watched: Vec<Watched>,
}

/// Reads one source; without layers if `--setting-sources` leaves it out, or if the project's file is the user's, which
/// is then not watched either. `overlay` holds the settings that a client has applied on top of the flag. Fails only
/// for settings that the caller named explicitly; a file that cannot be used becomes a layer with an error.
pub(crate) fn load(
    request: &StackRequest,
    source: SettingsSource,
    overlay: &Map<String, Value>,
) -> Result<Loaded, SettingsError> {
    let mut loaded = Loaded::default();
    if !request.wants(source) {
        return Ok(loaded);
    }
    match source {
        SettingsSource::Policy => loaded.policy(request)?,
        SettingsSource::Flag => loaded.flag(request, overlay)?,
        SettingsSource::Local | SettingsSource::Project | SettingsSource::User => {
            if let Some(path) = request.file_of(source)
                && !is_users_own(request, source, &path)
            {
                loaded.file(source, &path, Strictness::Usual);
            }
        }
    }
    Ok(loaded)
}

/// Returns whether the project's file is the user's file, as in the home folder. It then counts once, as the user's.
fn is_users_own(request: &StackRequest, source: SettingsSource, path: &Path) -> bool {
    source == SettingsSource::Project
        && request.sources.user
        && request.file_of(SettingsSource::User).is_some_and(|user| same_file(&user, path))
}

/// Returns whether both paths lead to one file. Equal paths do so even if nothing is there.
fn same_file(left: &Path, right: &Path) -> bool {
    left == right
        || matches!((left.canonicalize(), right.canonicalize()), (Ok(left), Ok(right)) if left == right)
}

impl Loaded {
    /// Notes the current state of a path, so that a later change of it is noticed. Reads nothing.
    fn watch(&mut self, path: &Path) {
        self.watched.push(Watched { path: path.to_owned(), stamp: Stamp::at(path) });
    }

    /// Reads a settings file into a layer and watches it; a missing file is watched without a layer. The stamp is that
    /// of the content that was read, so a change in between is noticed.
    fn file(&mut self, source: SettingsSource, path: &Path, strictness: Strictness) {
        let origin = Origin::File(path.to_owned());
        let (document, stamp) = match read_text(path, MAX_SETTINGS_BYTES) {
            Ok(None) => (None, None),
            Ok(Some(text)) => (Some(Document::read(&text.text, &origin, strictness)), Some(text.stamp)),
            Err(failure) => {
                let problem = SettingsProblem::error(&origin, failure.position(), failure.to_string());
                (Some(failed(problem)), Stamp::at(path))
            }
        };
        // A missing or unreadable file is watched too, so that its creation or repair is noticed.
        self.watched.push(Watched { path: path.to_owned(), stamp });
        self.layers.extend(document.map(|document| Layer::new(source, origin, document)));
    }

    /// Loads the managed settings. The files of `managed-settings.d` are stronger than `managed-settings.json`, and a
    /// later name is stronger than an earlier one; the settings of the parent program are the weakest. Of a file that
    /// others can write only an error is kept.
    fn policy(&mut self, request: &StackRequest) -> Result<(), SettingsError> {
        let dir = &request.managed.dir;
        let mut files = vec![dir.join("managed-settings.json")];
        let drop_ins = dir.join("managed-settings.d");
        // A file that is added or removed changes the stamp of the folder.
        self.watch(&drop_ins);
        match names(&drop_ins) {
            Ok(names) => files.extend(names),
            // Unlike a missing folder, one that cannot be listed may hold limits.
            Err(error) => {
                let origin = Origin::File(drop_ins);
                let problem = SettingsProblem::error(&origin, None, format!("it cannot be read: {error}"));
                self.layers.push(Layer::new(SettingsSource::Policy, origin, failed(problem)));
            }
        }
        // Layers go from the strongest to the weakest.
        for file in files.iter().rev() {
            let before = self.layers.len();
            self.file(SettingsSource::Policy, file, Strictness::Policy);
            if self.layers.len() > before
                && let Some(problem) = writable_by_others(file, request.managed.owner)
            {
                // The content may come from any user, so only the error is kept.
                self.layers[before] =
                    Layer::new(SettingsSource::Policy, problem.origin.clone(), failed(problem));
            }
        }
        if let Some(json) = &request.managed_json {
            let document = explicit(json, &PARENT, Strictness::Policy)?;
            self.layers.push(Layer::new(SettingsSource::Policy, PARENT, document));
        }
        Ok(())
    }

    /// Reads `--settings`, a file or JSON text, and lays the settings that a client applied over it; adds no layer if
    /// there are neither. Errors in `--settings` fail the load, because the caller named these settings explicitly;
    /// those of the combination with `overlay`, which is checked again and has no lines, stay in the layer.
    fn flag(&mut self, request: &StackRequest, overlay: &Map<String, Value>) -> Result<(), SettingsError> {
        let base = match &request.flag {
            None => None,
            Some(value) => match FlagValue::of(value, &request.cwd) {
                FlagValue::Json(text) => Some((FLAG, explicit(text, &FLAG, Strictness::Usual)?)),
                FlagValue::Path(path) => Some(self.flag_file(path)?),
            },
        };
        let (origin, document) = match base {
            Some(base) if overlay.is_empty() => base,
            None if overlay.is_empty() => return Ok(()),
            base => {
                let (origin, mut raw) =
                    base.map_or((APPLIED, Map::new()), |(origin, base)| (origin, base.raw));
                lay_shallow(&mut raw, overlay);
                let document = Document::of_value(raw, &origin, Strictness::Usual);
                (origin, document)
            }
        };
        self.layers.push(Layer::new(SettingsSource::Flag, origin, document));
        Ok(())
    }

    /// Reads and watches the file that `--settings` names. Unlike other settings files, it must exist and be free of
    /// errors.
    fn flag_file(&mut self, path: PathBuf) -> Result<(Origin, Document), SettingsError> {
        let origin = Origin::File(path.clone());
        let text = match read_text(&path, MAX_SETTINGS_BYTES) {
            Ok(Some(text)) => text,
            Ok(None) => return Err(SettingsError::NotFound { path }),
            Err(failure) => {
                let problem = SettingsProblem::error(&origin, failure.position(), failure.to_string());
                return Err(SettingsError::Unusable(Box::new(problem)));
            }
        };
        self.watched.push(Watched { path, stamp: Some(text.stamp) });
        let document = explicit(&text.text, &origin, Strictness::Usual)?;
        Ok((origin, document))
    }
}

const FLAG: Origin = Origin::Given("--settings");
/// The origin of settings from the program that started this process.
pub(crate) const PARENT: Origin = Origin::Given("--managed-settings");
/// The origin of settings that a client applied.
pub(crate) const APPLIED: Origin = Origin::Given("apply_flag_settings");

/// Returns a document without settings that consists of one problem.
fn failed(problem: SettingsProblem) -> Document {
    Document { problems: vec![problem], ..Document::default() }
}

/// Reads settings that the caller passed explicitly: the first problem that is an error fails the whole load; warnings
/// are kept.
fn explicit(text: &str, origin: &Origin, strictness: Strictness) -> Result<Document, SettingsError> {
    let document = Document::read(text, origin, strictness);
    match document.problems.iter().find(|problem| problem.severity == Severity::Error) {
        Some(problem) => Err(SettingsError::Unusable(Box::new(problem.clone()))),
        None => Ok(document),
    }
}

/// Replaces whole top-level keys of `below` by those of `above`, without merging their values; null removes a key.
pub(crate) fn lay_shallow(below: &mut Map<String, Value>, above: &Map<String, Value>) {
    for (key, value) in above {
        if value.is_null() {
            below.shift_remove(key);
        } else {
            below.insert(key.clone(), value.clone());
        }
    }
}

/// Returns the JSON files of a folder, sorted by name, without hidden ones; none if the folder does not exist. One
/// entry that cannot be read fails the call, because it may be a file that sets limits.
fn names(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        // One unreadable entry fails the folder: it may be a file that sets limits.
        let path = entry?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.extension().is_some_and(|extension| extension == "json") && !is_hidden {
            names.push(path);
        }
    }
    names.sort();
    Ok(names)
}

/// Returns a problem if a managed file or the folder it is in does not belong to `owner` or can be written by other
/// users; `None` if neither does. What does not exist is skipped.
fn writable_by_others(file: &Path, owner: u32) -> Option<SettingsProblem> {
    for path in [Some(file), file.parent()].into_iter().flatten() {
        let Some(stamp) = Stamp::at(path) else { continue };
        if stamp.owner != owner || stamp.mode & 0o022 != 0 {
            let message = format!(
                "{} can be changed by others than the administrator, so this policy cannot be relied on",
                path.display()
            );
            let problem = SettingsProblem::error(&Origin::File(file.to_owned()), None, message);
            return Some(problem.hint("make it writable by its owner only"));
        }
    }
    None
}
