//! Finds and reads the layers of one source.
//!
//! A missing file is no layer. A file that is there and cannot be used is a layer with an error in it, so that
//! nobody takes it for a missing one. Managed files are only believed where nobody but their owner can write.

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

/// No settings file is larger.
pub const MAX_SETTINGS_BYTES: u64 = 4 << 20;

/// A path that is looked at between turns.
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

/// Reads one source. `overlay` is what a client has applied on top of the flag.
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

/// In the home folder the project's file *is* the user's; it counts once, as the user's.
fn is_users_own(request: &StackRequest, source: SettingsSource, path: &Path) -> bool {
    source == SettingsSource::Project
        && request.sources.user
        && request.file_of(SettingsSource::User).is_some_and(|user| same_file(&user, path))
}

fn same_file(left: &Path, right: &Path) -> bool {
    left == right
        || matches!((left.canonicalize(), right.canonicalize()), (Ok(left), Ok(right)) if left == right)
}

impl Loaded {
    fn watch(&mut self, path: &Path) {
        self.watched.push(Watched { path: path.to_owned(), stamp: Stamp::at(path) });
    }

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
        self.watched.push(Watched { path: path.to_owned(), stamp });
        self.layers.extend(document.map(|document| Layer::new(source, origin, document)));
    }

    /// `managed-settings.json`, over it the files of `managed-settings.d` by name, below all of them what the
    /// parent program says.
    fn policy(&mut self, request: &StackRequest) -> Result<(), SettingsError> {
        let dir = &request.managed.dir;
        let mut files = vec![dir.join("managed-settings.json")];
        let drop_ins = dir.join("managed-settings.d");
        self.watch(&drop_ins);
        match names(&drop_ins) {
            Ok(names) => files.extend(names),
            Err(error) => {
                let origin = Origin::File(drop_ins);
                let problem = SettingsProblem::error(&origin, None, format!("it cannot be read: {error}"));
                self.layers.push(Layer::new(SettingsSource::Policy, origin, failed(problem)));
            }
        }
        for file in files.iter().rev() {
            let before = self.layers.len();
            self.file(SettingsSource::Policy, file, Strictness::Policy);
            if self.layers.len() > before
                && let Some(problem) = writable_by_others(file, request.managed.owner)
            {
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
/// Settings of the program that started us.
pub(crate) const PARENT: Origin = Origin::Given("--managed-settings");
/// Settings that a client applied.
pub(crate) const APPLIED: Origin = Origin::Given("apply_flag_settings");

/// A document of which nothing is known but that it cannot be used.
fn failed(problem: SettingsProblem) -> Document {
    Document { problems: vec![problem], ..Document::default() }
}

/// Settings that somebody handed over: what would be an error in a file is one at once.
fn explicit(text: &str, origin: &Origin, strictness: Strictness) -> Result<Document, SettingsError> {
    let document = Document::read(text, origin, strictness);
    match document.problems.iter().find(|problem| problem.severity == Severity::Error) {
        Some(problem) => Err(SettingsError::Unusable(Box::new(problem.clone()))),
        None => Ok(document),
    }
}

/// Whole top-level keys replace each other; null takes a key away.
pub(crate) fn lay_shallow(below: &mut Map<String, Value>, above: &Map<String, Value>) {
    for (key, value) in above {
        if value.is_null() {
            below.shift_remove(key);
        } else {
            below.insert(key.clone(), value.clone());
        }
    }
}

/// The JSON files of a folder, by name.
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
        let path = entry?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.extension().is_some_and(|extension| extension == "json") && !is_hidden {
            names.push(path);
        }
    }
    names.sort();
    Ok(names)
}

/// A problem if a managed file, or the folder it lies in, can be written by somebody else than its owner.
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
