//! The world that a session is launched into, as a value: variables, folders and the process. The program that launches
//! it fills it in, from its own process or by hand; an empty one is fine, and leaves out what it does not know.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lathe_exec::ChildLimits;

/// Where temporary files go by default.
const DEFAULT_TEMP_DIR: &str = "/tmp";

/// What a session may know of the world. A copy costs little: the variables are shared until one is set.
#[derive(Debug, Clone, Default)]
pub struct LaunchEnvironment {
    /// What children inherit, and what many settings can be made with.
    pub variables: Arc<BTreeMap<String, String>>,
    /// The folder to work in, unless the options name one; none when it is gone.
    pub cwd: Option<PathBuf>,
    /// Where temporary files go.
    pub temp_dir: Option<PathBuf>,
    /// The process that hosts and children are told of.
    pub pid: Option<u32>,
    /// Whether the process has all the rights of the machine, with which permissions may not be skipped.
    pub is_root: bool,
    /// Limits that the program raised for itself, as children get them.
    pub child_limits: ChildLimits,
}

impl LaunchEnvironment {
    /// Creates an environment with these variables and nothing else: no folder, no process id, not root.
    pub fn with_variables(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { variables: Arc::new(variables.into_iter().collect()), ..Self::default() }
    }

    /// Returns the value of a variable; `None` if it is not set or empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        // `NAME= lathe` is a common way to switch a variable off for one command, so empty means not set.
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns whether a switch is on: set, not empty, and not exactly `0`, `false`, `no` or `off`. Any other word
    /// means on, also `FALSE` or one with a space, so a variable that gives a right needs a stricter check.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !matches!(value, "0" | "false" | "no" | "off"))
    }

    /// Returns the variable as a number; `None` if it is not set, negative, too large or unreadable.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.trim().parse().ok()
    }

    /// Sets a variable in this copy only. The environment of the process and other copies do not change.
    pub fn set(&mut self, name: &str, value: &str) {
        Arc::make_mut(&mut self.variables).insert(name.to_owned(), value.to_owned());
    }

    /// Returns a copy without the variables that `names` lists.
    pub fn without(&self, names: &[String]) -> Self {
        let mut copy = self.clone();
        Arc::make_mut(&mut copy.variables).retain(|name, _| !names.contains(name));
        copy
    }

    /// Returns all variables, also those with an empty value, in the order of their names.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the user's home, from `HOME`; `None` if it is not set.
    pub fn home(&self) -> Option<&Path> {
        self.get("HOME").map(Path::new)
    }

    /// Returns the folder of settings and sessions: `$CLAUDE_CONFIG_DIR`, resolved against the working directory, or
    /// `.claude` in the home. `None` if neither variable is set.
    pub fn config_dir(&self) -> Option<PathBuf> {
        match self.get("CLAUDE_CONFIG_DIR") {
            // A hook or host that is told of a file in it may have another working directory.
            Some(dir) => Some(self.cwd.as_deref().unwrap_or(Path::new("")).join(dir)),
            None => Some(self.home()?.join(".claude")),
        }
    }

    /// Returns the folder for temporary files; `/tmp` if none is known.
    pub fn temp_dir(&self) -> &Path {
        self.temp_dir.as_deref().unwrap_or(Path::new(DEFAULT_TEMP_DIR))
    }

    /// Returns whether permissions may not be skipped: the process is root and `IS_SANDBOX` is not on. Ask the
    /// environment of the process, because settings could set the variable in another copy.
    pub fn refuses_bypass(&self) -> bool {
        self.is_root && !self.is_on("IS_SANDBOX")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_environment_knows_no_place_but_the_usual_one_for_temporary_files() {
        let nothing = LaunchEnvironment::default();
        assert_eq!((nothing.home(), nothing.config_dir()), (None, None));
        assert_eq!(nothing.temp_dir(), Path::new("/tmp"));
    }

    #[test]
    fn setting_a_variable_leaves_other_copies_alone() {
        let first = LaunchEnvironment::with_variables([("A".to_owned(), "1".to_owned())]);
        let mut second = first.clone();
        second.set("A", "2");
        assert_eq!((first.get("A"), second.get("A")), (Some("1"), Some("2")));
    }

    #[test]
    fn root_skips_permissions_only_in_a_sandbox() {
        let mut root = LaunchEnvironment { is_root: true, ..LaunchEnvironment::default() };
        assert!(root.refuses_bypass());
        root.set("IS_SANDBOX", "1");
        assert!(!root.refuses_bypass());
        assert!(!LaunchEnvironment::default().refuses_bypass());
    }
}
