//! The stack of settings: all sources, strongest first, and what they say together.
//!
//! What a source may say depends on who wrote it. Keys of the administrator count in managed settings only; a
//! folder may not widen its own rights before a person trusts it; a file that changes while a session runs may
//! take rights away at once and give none until the next start. Surprising: a file that cannot be read does not
//! stop the loading. It is kept as a failure, and [`SettingsStack::permission_failure`] says that it is unknown
//! what is forbidden. The caller must not start a session then.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use lathe_protocol::control::SettingsOfSource;
use lathe_protocol::settings::HooksSettings;
use lathe_protocol::{EnabledHooks, Settings, SettingsSource};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::check::drop_misfits;
use crate::error::SettingsError;
use crate::grants::FolderGrants;
use crate::known::POLICY_ONLY;
use crate::layer::Layer;
use crate::load::{self, Loaded, PARENT, Watched};
use crate::memory::{MemoryRequest, OutsideFiles};
use crate::merge::lay_over;
use crate::problem::{SettingsProblem, Severity};
use crate::source::StackRequest;
use crate::styles::StyleRequest;
use crate::trust::FolderTrust;
use crate::withhold::withhold;

/// All settings of a session.
#[derive(Debug)]
pub struct SettingsStack {
    pub(crate) request: StackRequest,
    /// Strongest first.
    pub(crate) layers: Vec<Layer>,
    pub(crate) watched: Vec<(SettingsSource, Watched)>,
    /// What a client applied on top of the flag.
    pub(crate) overlay: Map<String, Value>,
    /// What counts of the folder's files while it is untrusted.
    pub(crate) grants: FolderGrants,
    pub(crate) trust: OnceLock<FolderTrust>,
    effective: Map<String, Value>,
}

/// What is forbidden is not known, because of these problems. `Display` is ready for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionFailure {
    /// At least one; each names its file.
    pub problems: Vec<SettingsProblem>,
    /// `startup_failure_reason` of the result that says so.
    pub reason: &'static str,
}

impl fmt::Display for PermissionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("settings that may forbid something cannot be used, so nothing is started")?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

/// The hooks of one source.
#[derive(Debug, Clone, PartialEq)]
pub struct SourcedHooks {
    /// Whose they are.
    pub source: SettingsSource,
    /// By event.
    pub hooks: HooksSettings,
}

/// When a layer was read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Moment<'a> {
    /// Before the session started.
    Start,
    /// While it runs. A project's files are held against what was in force before.
    Running {
        /// What a project's file may go on granting.
        approved: &'a Map<String, Value>,
    },
}

impl SettingsStack {
    /// Reads all sources of a request, and forgets remembered grants that the folder's files no longer contain. Fails
    /// only for settings that the caller named explicitly; other problems are collected, and
    /// [`Self::permission_failure`] must be asked before a session starts.
    pub fn load(request: StackRequest) -> Result<Self, SettingsError> {
        let grants = FolderGrants::read(request.config_dir.as_deref(), &request.cwd);
        let mut stack = Self {
            request,
            layers: Vec::new(),
            watched: Vec::new(),
            overlay: Map::new(),
            grants,
            trust: OnceLock::new(),
            effective: Map::new(),
        };
        for source in SettingsSource::ALL {
            let loaded = load::load(&stack.request, source, &stack.overlay)?;
            // Before `install`, which lets the remembered grants count.
            stack.forget_revoked(source, &loaded, Moment::Start);
            stack.install(source, loaded, Moment::Start);
        }
        Ok(stack)
    }

    /// Replaces the layers of a source and the files that are watched for it, decides what of them is in force, and
    /// merges all layers again.
    pub(crate) fn install(&mut self, source: SettingsSource, loaded: Loaded, moment: Moment<'_>) {
        self.watch(source, loaded.watched);
        let mut layers = loaded.layers;
        let has_admin = layers.iter().any(is_admin);
        let merges = layers
            .iter()
            .filter(|layer| is_admin(layer))
            .any(|layer| layer.settings().parent_settings_behavior.as_deref() == Some("merge"));
        for layer in &mut layers {
            // Otherwise a program could widen with `--managed-settings` what the administrator of the machine has
            // limited.
            let limit_parent = layer.origin == PARENT && has_admin && !merges;
            self.honour(layer, limit_parent, moment);
        }
        self.layers.retain(|layer| layer.source != source);
        self.layers.append(&mut layers);
        // The sort is stable: the layers of one source stay in the order of `load`, strongest first.
        self.layers.sort_by_key(|layer| layer.source);
        self.effective = Map::new();
        for layer in self.layers.iter().rev() {
            lay_over(&mut self.effective, &layer.honoured);
        }
    }

    /// Replaces the watched files of one source; those of other sources stay.
    pub(crate) fn watch(&mut self, source: SettingsSource, watched: Vec<Watched>) {
        self.watched.retain(|(owner, _)| *owner != source);
        self.watched.extend(watched.into_iter().map(|watched| (source, watched)));
    }

    /// Decides what of a layer is in force, and adds warnings about the rest: what its source may set, what trust and
    /// grants allow, and, while a session runs, the limits it had before. With `limit_parent`, the layer is cut like an
    /// untrusted one, but for its variables.
    fn honour(&self, layer: &mut Layer, limit_parent: bool, moment: Moment<'_>) {
        let mut honoured = within_its_rights(layer);
        let mut limited = honoured.clone();
        // The program that starts us chooses our whole environment anyway, so its variables stay.
        let variables = if limit_parent { limited.shift_remove("env") } else { None };
        let (granted, names) = withhold(&mut limited);
        limited.extend(variables.map(|variables| ("env".to_owned(), variables)));
        if !names.is_empty() {
            if limit_parent {
                let names = names.join(", ");
                layer.warn(&[], format!("ignoring {names}: this machine has managed settings of its own"));
                honoured = limited;
            } else if let SettingsSource::Local | SettingsSource::Project = layer.source
                && let Some(kept) = self.kept_of_folder(layer, &granted, moment)
            {
                kept.iter().for_each(|part| lay_over(&mut limited, &part.settings));
                honoured = limited;
            }
        }
        if let (SettingsSource::Local | SettingsSource::Project, Moment::Running { approved }) =
            (layer.source, moment)
            && keep_limits(&mut honoured, approved)
        {
            let message = "what this file no longer forbids stays forbidden until the next start";
            layer.warn(&[], message.to_owned());
        }
        layer.honour(honoured);
    }

    /// Forgets grants that a file of the folder no longer contains, in the file of grants too. Nothing is forgotten for
    /// other sources, because of a broken file, or, while a session runs, because of a missing or empty one, which an
    /// editor may be about to write.
    pub(crate) fn forget_revoked(&mut self, source: SettingsSource, loaded: &Loaded, moment: Moment<'_>) {
        let (SettingsSource::Local | SettingsSource::Project, [watched]) =
            (source, loaded.watched.as_slice())
        else {
            return;
        };
        let mut problems = loaded.layers.iter().flat_map(|layer| &layer.problems);
        // It is not known what a broken file still allows, so no grant is forgotten because of it.
        if problems.any(|problem| problem.severity == Severity::Error) {
            return;
        }
        let written = loaded.layers.first().map(|layer| layer.raw().clone()).unwrap_or_default();
        match moment {
            Moment::Running { .. } if written.is_empty() => {}
            Moment::Start | Moment::Running { .. } => {
                self.grants.forget_missing(source, &watched.path, &written);
            }
        }
    }

    /// Returns the layers, strongest first.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Returns all errors and warnings: those of the layers, the strongest source first, then those of stored trust and
    /// grants. Those of trust are only there once trust has been determined.
    pub fn problems(&self) -> impl Iterator<Item = &SettingsProblem> {
        let trust = self.trust.get().into_iter().flat_map(FolderTrust::problems);
        self.layers.iter().flat_map(|layer| &layer.problems).chain(trust).chain(self.grants.problem())
    }

    /// Returns the errors that make it unknown what is forbidden; `None` if there are none. If there are any, a session
    /// must not start.
    pub fn permission_failure(&self) -> Option<PermissionFailure> {
        let errors =
            |layer: &&Layer| layer.problems.iter().any(|problem| problem.severity == Severity::Error);
        let broken: Vec<&Layer> = self.layers.iter().filter(errors).collect();
        let is_policy = broken.iter().any(|layer| layer.source == SettingsSource::Policy);
        let problems = broken.iter().flat_map(|layer| &layer.problems);
        let problems: Vec<SettingsProblem> =
            problems.filter(|problem| problem.severity == Severity::Error).cloned().collect();
        let reason = if is_policy { "managed_settings_invalid" } else { "config_file_invalid" };
        (!problems.is_empty()).then_some(PermissionFailure { problems, reason })
    }

    /// Returns the merged settings of all layers. Values that do not fit their type are left out.
    pub fn effective(&self) -> Settings {
        let mut merged = self.effective.clone();
        drop_misfits(&mut merged);
        Settings::deserialize(&merged).unwrap_or_default()
    }

    /// Returns the merged settings as JSON, for `get_settings`; keys that are not known are included.
    pub fn effective_json(&self) -> Value {
        Value::Object(self.effective.clone())
    }

    /// Returns the layers as they were written, one entry per source that has settings, weakest first. They may say
    /// more than what is in force.
    pub fn sources_json(&self) -> Vec<SettingsOfSource> {
        let mut sources = Vec::new();
        for source in SettingsSource::ALL.into_iter().rev() {
            let mut settings = Map::new();
            for layer in self.layers.iter().rev().filter(|layer| layer.source == source) {
                lay_over(&mut settings, layer.raw());
            }
            if !settings.is_empty() {
                let settings = Value::Object(settings);
                sources.push(SettingsOfSource {
                    source: source.as_str().to_owned(),
                    settings,
                    ..Default::default()
                });
            }
        }
        sources
    }

    /// Returns the request for [`crate::memory::load`]. The caller adds deny rules and the folder of automatic
    /// memory.
    pub fn memory_request(&self) -> MemoryRequest {
        let (request, effective) = (&self.request, self.effective());
        MemoryRequest {
            cwd: request.cwd.clone(),
            home: request.home.clone(),
            config_dir: request.config_dir.clone(),
            managed_dir: Some(request.managed.dir.clone()),
            managed_text: effective.claude_md,
            sources: request.sources,
            excludes: effective.claude_md_excludes.unwrap_or_default(),
            outside: request.global_config.clone().map_or(OutsideFiles::LeftOut, OutsideFiles::LookUp),
            ..MemoryRequest::default()
        }
    }

    /// Returns the request for [`Styles::load`](crate::styles::Styles::load) that fits this stack: the same folders and
    /// sources.
    pub fn style_request(&self) -> StyleRequest {
        let request = &self.request;
        StyleRequest {
            cwd: request.cwd.clone(),
            config_dir: request.config_dir.clone(),
            managed_dir: Some(request.managed.dir.clone()),
            sources: request.sources,
        }
    }

    /// Returns the variables that settings set for the session and its children, without those that are withheld. Where
    /// several layers set the same one, the strongest wins.
    pub fn env(&self) -> BTreeMap<String, String> {
        let layers = self.layers.iter().rev();
        layers.filter_map(|layer| layer.settings().env.clone()).flatten().collect()
    }

    /// Returns which kinds of hooks may run at all: a policy can switch off every one, any other source all but those
    /// of the administrator and of the host.
    pub fn enabled_hooks(&self) -> EnabledHooks {
        let policy_says = |says: fn(&Settings) -> Option<bool>| {
            let mut policy = self.layers.iter().filter(|layer| layer.source == SettingsSource::Policy);
            policy.any(|layer| says(layer.settings()) == Some(true))
        };
        if policy_says(|settings| settings.disable_all_hooks) {
            return EnabledHooks::Nothing;
        }
        // A weaker source can switch off all hooks but those of the administrator and of the host.
        let others_off = policy_says(|settings| settings.allow_managed_hooks_only)
            || self.layers.iter().any(|layer| layer.settings().disable_all_hooks == Some(true));
        if others_off { EnabledHooks::ManagedAndHost } else { EnabledHooks::All }
    }

    /// Returns the hooks that may run, one entry per source that has some, strongest first.
    pub fn hooks(&self) -> Vec<SourcedHooks> {
        let switch = self.enabled_hooks();
        let counts = |layer: &&Layer| match switch {
            EnabledHooks::All => true,
            EnabledHooks::ManagedAndHost => layer.source == SettingsSource::Policy,
            EnabledHooks::Nothing => false,
        };
        let mut found: Vec<SourcedHooks> = Vec::new();
        for layer in self.layers.iter().filter(counts) {
            let Some(hooks) = layer.settings().hooks.clone().filter(|hooks| !hooks.is_empty()) else {
                continue;
            };
            match found.last_mut().filter(|last| last.source == layer.source) {
                Some(last) => {
                    for (event, groups) in hooks {
                        last.hooks.entry(event).or_default().extend(groups);
                    }
                }
                None => found.push(SourcedHooks { source: layer.source, hooks }),
            }
        }
        found
    }
}

/// Adds deny and ask rules that were in force before and are missing in `settings`. Returns whether there were any.
/// `permissions` must be an object or absent, which the check of the file ensures; otherwise this panics.
fn keep_limits(settings: &mut Map<String, Value>, before: &Map<String, Value>) -> bool {
    let mut has_kept = false;
    for key in ["deny", "ask"] {
        let was = before.get("permissions").and_then(|permissions| permissions.get(key));
        for rule in was.and_then(Value::as_array).into_iter().flatten() {
            let permissions = settings.entry("permissions").or_insert_with(|| Value::Object(Map::new()));
            let list = &mut permissions[key];
            if !list.is_array() {
                *list = Value::Array(Vec::new());
            }
            if let Some(list) = list.as_array_mut()
                && !list.contains(rule)
            {
                list.push(rule.clone());
                has_kept = true;
            }
        }
    }
    has_kept
}

/// Returns the settings of a layer without those that its source can never set, whether it is trusted or not. Each
/// removed one causes a warning.
fn within_its_rights(layer: &mut Layer) -> Map<String, Value> {
    let mut settings = layer.document.clean.clone();
    if layer.source != SettingsSource::Policy {
        for key in POLICY_ONLY {
            if settings.shift_remove(*key).is_some() {
                layer.warn(&[key], format!("`{key}` is ignored: only managed settings can set it"));
            }
        }
    }
    if let SettingsSource::Project | SettingsSource::Local = layer.source
        && settings.shift_remove("toolEnv").is_some()
    {
        let message =
            "`toolEnv` is ignored: a project cannot ask for credentials, only user and managed settings can";
        layer.warn(&["toolEnv"], message.to_owned());
    }
    if let SettingsSource::Project | SettingsSource::Local = layer.source
        && let Some(permissions) = settings.get_mut("permissions").and_then(Value::as_object_mut)
        && permissions.get("defaultMode").is_some_and(|mode| mode == "auto")
    {
        permissions.shift_remove("defaultMode");
        let path = ["permissions", "defaultMode"];
        layer.warn(&path, "the mode `auto` is ignored: a project cannot choose it".to_owned());
    }
    settings
}

/// Returns whether a layer is the machine's own policy, and not one that the parent program passes.
fn is_admin(layer: &Layer) -> bool {
    layer.source == SettingsSource::Policy && layer.origin != PARENT
}
