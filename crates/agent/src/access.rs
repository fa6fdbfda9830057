//! The settings of a session as far as a host may look at and change them while it runs. Whoever started
//! the session owns the files behind it.

use lathe_protocol::PermissionUpdate;
use serde_json::{Value, json};

/// Settings that can be read and changed during a session.
pub trait SettingsAccess: Send + Sync {
    /// `{effective, sources}` for `get_settings`.
    fn listing(&self) -> Value;

    /// Merges into the layer of `--settings`; null clears a key. Returns the effective settings.
    fn apply_flag(&self, settings: &Value) -> Result<Value, String>;

    /// Writes keys to a settings file.
    fn update(&self, source: &str, settings: &Value) -> Result<(), String>;

    /// Writes a permission update to the file it names. Updates for the session alone are none of its
    /// business.
    fn save_permission(&self, update: &PermissionUpdate) -> Result<(), String>;

    /// The rules of the files, for `list_permission_rules`; null where there are none.
    fn permission_rules(&self) -> Value {
        Value::Null
    }
}

/// A session without settings files.
pub struct NoSettings;

impl SettingsAccess for NoSettings {
    fn listing(&self) -> Value {
        json!({"effective": {}, "sources": []})
    }

    fn apply_flag(&self, settings: &Value) -> Result<Value, String> {
        Ok(settings.clone())
    }

    fn update(&self, _source: &str, _settings: &Value) -> Result<(), String> {
        Err("this session has no settings files".to_owned())
    }

    fn save_permission(&self, _update: &PermissionUpdate) -> Result<(), String> {
        Err("this session has no settings files".to_owned())
    }
}
