//! The permissions in settings: rules with their sources, directories, modes.
//!
//! The permissions crate decides what a rule means; this module only says which source it comes from and whether it
//! counts.

use lathe_permissions::{RuleSource, SourcedRule};
use lathe_protocol::control::{ListedRule, PermissionRulesState, WorkspaceDirectory};
use lathe_protocol::{PermissionBehavior, PermissionMode, SettingsSource};
use serde_json::Value;

use crate::layer::SourcedDirectory;
use crate::problem::Severity;
use crate::stack::SettingsStack;

const BEHAVIORS: [PermissionBehavior; 3] =
    [PermissionBehavior::Deny, PermissionBehavior::Ask, PermissionBehavior::Allow];

impl SettingsStack {
    /// Returns every rule in force with its source, strongest source first. If only managed settings may allow
    /// something, allow rules of other sources are left out.
    pub fn permission_rules(&self) -> impl Iterator<Item = (PermissionBehavior, RuleSource, SourcedRule)> {
        let managed_only = self.managed_rules_only();
        self.layers.iter().flat_map(move |layer| {
            BEHAVIORS
                .into_iter()
                // A policy restricts who may allow; deny and ask rules only make it stricter.
                .filter(move |behavior| {
                    !managed_only
                        || layer.source == SettingsSource::Policy
                        || *behavior != PermissionBehavior::Allow
                })
                .flat_map(move |behavior| {
                    layer
                        .rules(behavior)
                        .map(move |rule| (behavior, RuleSource::Settings(layer.source), rule))
                })
        })
    }

    /// Returns whether only managed settings may allow something. Flags and replies of the host then may not either.
    pub fn managed_rules_only(&self) -> bool {
        let mut policy = self.layers.iter().filter(|layer| layer.source == SettingsSource::Policy);
        policy.any(|layer| layer.settings().allow_managed_permission_rules_only == Some(true))
    }

    /// Returns the working directories that the settings in force add, strongest source first. They need not exist.
    pub fn permission_dirs(&self) -> Vec<SourcedDirectory> {
        let (cwd, home) = (&self.request.cwd, self.request.home.as_deref());
        self.layers.iter().flat_map(|layer| layer.directories(cwd, home)).collect()
    }

    /// Returns the mode a session starts in, unless a flag names one: that of the strongest source with a known mode.
    /// `None` if no source names one; `auto` in a file of the folder does not count.
    pub fn default_mode(&self) -> Option<PermissionMode> {
        // `auto` decides without asking the user, so a file that comes with the folder cannot choose it. The other
        // modes that skip questions are withheld from untrusted folders in `withhold.rs`.
        let of_folder = |source| matches!(source, SettingsSource::Project | SettingsSource::Local);
        self.layers.iter().find_map(|layer| {
            let mode = PermissionMode::parse(layer.permissions()?.default_mode.as_deref()?).ok()?;
            (mode != PermissionMode::Auto || !of_folder(layer.source)).then_some(mode)
        })
    }

    /// Returns whether `bypassPermissions` is forbidden. Any source may forbid it, an untrusted folder included.
    pub fn bypass_is_disabled(&self) -> bool {
        self.layers
            .iter()
            .filter_map(|layer| layer.permissions())
            .any(|permissions| permissions.disable_bypass_permissions_mode.as_deref() == Some("disable"))
    }

    /// Returns the state that `list_permission_rules` shows, without the rules of flags and of the session.
    pub fn rules_state(&self) -> PermissionRulesState {
        let rules = self.permission_rules().map(|(behavior, source, rule)| ListedRule {
            behavior: behavior.as_str().to_owned(),
            source: source.as_str().to_owned(),
            rule: rule.text,
            ..ListedRule::default()
        });
        let directories = self.permission_dirs().into_iter().map(|directory| WorkspaceDirectory {
            path: directory.path.display().to_string(),
            source: directory.source.as_str().to_owned(),
            ..WorkspaceDirectory::default()
        });
        let errors: Vec<Value> = self
            .problems()
            .filter(|problem| problem.severity == Severity::Error)
            .map(|problem| Value::from(problem.to_string()))
            .collect();
        PermissionRulesState {
            rules: rules.collect(),
            workspace_directories: directories.collect(),
            original_cwd: self.request.cwd.display().to_string(),
            managed_only: self.managed_rules_only(),
            errors: (!errors.is_empty()).then_some(errors),
            ..PermissionRulesState::default()
        }
    }
}
