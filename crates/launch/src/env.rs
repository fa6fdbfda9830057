//! The environment of the process, read once, here and nowhere else.
#![allow(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lathe_exec::ChildLimits;

/// A copy of the environment as it was at the start.
#[derive(Debug, Clone, Default)]
pub struct Env {
    variables: BTreeMap<String, String>,
    /// Where the program was started; none when that folder is gone.
    pub cwd: Option<PathBuf>,
    /// Limits that the program raised for itself, as children get them.
    pub child_limits: ChildLimits,
}

impl Env {
    /// Reads the process environment. Names and values that are no UTF-8 are taken as closely as can be.
    pub fn read(child_limits: ChildLimits) -> Self {
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let variables = std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value))).collect();
        Self { variables, cwd: std::env::current_dir().ok(), child_limits }
    }

    /// A variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether a switch is on: set to anything but the usual words for off.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !matches!(value, "0" | "false" | "no" | "off"))
    }

    /// A number, where there is a readable one.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.trim().parse().ok()
    }

    /// Sets a variable in this copy (settings may do that).
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    /// Everything, for children.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The user's home.
    pub fn home(&self) -> Option<&Path> {
        self.get("HOME").map(Path::new)
    }

    /// Where settings and sessions live: `$CLAUDE_CONFIG_DIR`, or `.claude` in the home.
    pub fn config_dir(&self) -> Option<PathBuf> {
        match self.get("CLAUDE_CONFIG_DIR") {
            // Whoever is told of a file in it, a hook or a host, may stand elsewhere.
            Some(dir) => Some(self.cwd.as_deref().unwrap_or(Path::new("")).join(dir)),
            None => Some(self.home()?.join(".claude")),
        }
    }
}
