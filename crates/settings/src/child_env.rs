//! What settings say about the environment of children, apart from its values: which variables the user named, which
//! credentials are passed on, and whose key helper it is. What becomes of it is for the starter of the session.
//!
//! The user's own settings are those of the user, of `--settings` and of the administrator. A project may be someone
//! else's work, also where it is trusted to run.

use std::collections::BTreeMap;

use lathe_protocol::SettingsSource;

use crate::layer::Layer;
use crate::stack::SettingsStack;

/// Who wrote a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// The user or the administrator.
    User,
    /// The project.
    Project,
}

impl Writer {
    /// Returns who wrote the settings of a source. Policy and `--settings` count as the user's; both files in the
    /// project count as the project's.
    fn of(source: SettingsSource) -> Self {
        match source {
            SettingsSource::Policy | SettingsSource::Flag | SettingsSource::User => Self::User,
            SettingsSource::Local | SettingsSource::Project => Self::Project,
        }
    }
}

impl SettingsStack {
    /// Returns the layers that the user or the administrator wrote, strongest first.
    fn layers_of_user(&self) -> impl DoubleEndedIterator<Item = &Layer> {
        self.layers().iter().filter(|layer| Writer::of(layer.source) == Writer::User)
    }

    /// Returns the variables that the user's or the administrator's settings set, without those of a project. Where
    /// several set the same one, the strongest layer wins.
    pub fn env_of_user(&self) -> BTreeMap<String, String> {
        // Weakest first: a later value replaces an earlier one, so the strongest layer wins.
        let layers = self.layers_of_user().rev();
        layers.filter_map(|layer| layer.settings().env.clone()).flatten().collect()
    }

    /// Returns the names in `toolEnv` of the user's and the administrator's settings: credentials that commands of
    /// tools and hooks of projects get although they are withheld otherwise.
    pub fn tool_env(&self) -> Vec<String> {
        self.layers_of_user().filter_map(|layer| layer.settings().tool_env.clone()).flatten().collect()
    }

    /// Returns who wrote the `apiKeyHelper` in force; `None` without a helper. A project's helper does not get
    /// the credentials.
    pub fn key_helper_writer(&self) -> Option<Writer> {
        // Strongest first, so that this is the layer whose helper the merged settings name.
        let mut layers = self.layers().iter();
        let layer = layers.find(|layer| layer.settings().api_key_helper.is_some())?;
        Some(Writer::of(layer.source))
    }
}
