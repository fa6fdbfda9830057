//! The request for a settings stack: which sources count, and where their files are.

use std::path::{Path, PathBuf};

use lathe_protocol::SettingsSource;

use crate::error::SettingsError;

/// `--setting-sources`: which files of the user and the project count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sources {
    /// The user's settings and memory.
    pub user: bool,
    /// The project's.
    pub project: bool,
    /// The user's for this project.
    pub local: bool,
}

impl Default for Sources {
    fn default() -> Self {
        Self::ALL
    }
}

impl Sources {
    /// All sources, the default.
    pub const ALL: Self = Self { user: true, project: true, local: true };
    /// No source, as with `--setting-sources ""`.
    pub const NONE: Self = Self { user: false, project: false, local: false };

    /// Reads the names in `--setting-sources`; blanks and empty names are ignored, an unknown name is an error. Policy
    /// and flag settings count in any case, so they have no names here.
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, SettingsError> {
        let mut sources = Self::NONE;
        for name in names.into_iter().map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "user" => sources.user = true,
                "project" => sources.project = true,
                "local" => sources.local = true,
                other => return Err(SettingsError::UnknownSource(other.to_owned())),
            }
        }
        Ok(sources)
    }
}

/// The location of managed settings.
#[derive(Debug, Clone)]
pub struct ManagedFiles {
    /// The folder of `managed-settings.json`, `managed-settings.d` and `CLAUDE.md`.
    pub dir: PathBuf,
    /// The user id that must own them: a user who can write them decides what every session may do.
    pub owner: u32,
}

impl ManagedFiles {
    /// Returns the managed files of a platform (`std::env::consts::OS`), owned by the administrator, user id 0.
    pub fn of_platform(os: &str) -> Self {
        let dir = if os == "macos" { "/Library/Application Support/ClaudeCode" } else { "/etc/claude-code" };
        Self { dir: PathBuf::from(dir), owner: 0 }
    }
}

/// Whether the workspace is trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TrustChoice {
    /// Look it up in the global state file, and only when something depends on it.
    #[default]
    LookUp,
    /// The caller knows that the user trusts it.
    Given,
}

/// Everything the stack depends on.
#[derive(Debug, Clone)]
pub struct StackRequest {
    /// The working directory, absolute: the project's files are looked for here and nowhere above.
    pub cwd: PathBuf,
    /// The user's home, for `~/`.
    pub home: Option<PathBuf>,
    /// The user's configuration folder.
    pub config_dir: Option<PathBuf>,
    /// The global state file that says which workspaces are trusted (`~/.claude.json`).
    pub global_config: Option<PathBuf>,
    /// Managed settings.
    pub managed: ManagedFiles,
    /// `--managed-settings`: JSON from the program that started this process.
    pub managed_json: Option<String>,
    /// `--settings`: a path, or JSON.
    pub flag: Option<String>,
    /// `--setting-sources`.
    pub sources: Sources,
    /// Whether the workspace is trusted.
    pub trust: TrustChoice,
}

impl StackRequest {
    /// Creates a request for the managed settings and the files in `cwd`, which must be absolute. No home, no
    /// configuration folder and no flags are set; all sources count, and trust is looked up.
    pub fn new(cwd: impl Into<PathBuf>, managed: ManagedFiles) -> Self {
        Self {
            cwd: cwd.into(),
            home: None,
            config_dir: None,
            global_config: None,
            managed,
            managed_json: None,
            flag: None,
            sources: Sources::default(),
            trust: TrustChoice::default(),
        }
    }

    /// Returns the file of a source that has exactly one. `None` for policy and flag, and for the user without a
    /// configuration folder. The file need not exist.
    pub(crate) fn file_of(&self, source: SettingsSource) -> Option<PathBuf> {
        match source {
            SettingsSource::Policy | SettingsSource::Flag => None,
            SettingsSource::Local => Some(self.cwd.join(".claude/settings.local.json")),
            SettingsSource::Project => Some(self.cwd.join(".claude/settings.json")),
            SettingsSource::User => Some(self.config_dir.as_ref()?.join("settings.json")),
        }
    }

    /// Returns whether `--setting-sources` lets a source count. Policy and flag always count.
    pub(crate) fn wants(&self, source: SettingsSource) -> bool {
        match source {
            SettingsSource::Policy | SettingsSource::Flag => true,
            SettingsSource::Local => self.sources.local,
            SettingsSource::Project => self.sources.project,
            SettingsSource::User => self.sources.user,
        }
    }
}

/// The value of `--settings`: JSON if it starts like an object, otherwise a path.
pub(crate) enum FlagValue<'a> {
    Json(&'a str),
    Path(PathBuf),
}

impl<'a> FlagValue<'a> {
    /// Reads the value of `--settings`: JSON if it begins with a brace, otherwise a path relative to `cwd`.
    pub fn of(value: &'a str, cwd: &Path) -> Self {
        if value.trim_start().starts_with('{') { Self::Json(value) } else { Self::Path(cwd.join(value)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_as_the_flag_gives_them() {
        assert_eq!(Sources::parse("".split(',')).unwrap(), Sources::NONE);
        assert_eq!(Sources::parse("user, project,local".split(',')).unwrap(), Sources::ALL);
        assert_eq!(Sources::parse(["project"]).unwrap(), Sources { project: true, ..Sources::NONE });
        assert_eq!(
            Sources::parse(["user", "bogus"]).unwrap_err().to_string(),
            "Invalid setting source: bogus. Valid options are: user, project, local"
        );
    }
}
