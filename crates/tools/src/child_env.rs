//! The environment of the commands that tools start, for all agents of a session: the variables that settings and the
//! process give, then those of the host. What hooks export comes later, from the files that each shell sources
//! (`shell_tools/startup.rs`).
//!
//! Which variables are credentials, and which the user passes on, is told by the starter of the session
//! ([`ChildVariables`]). Two things are decided here. Withheld names reach no command, wherever and whenever they are
//! set. And a command that was permitted for its text alone ([`CommandEnvironment::OnlyPlain`]) gets a short list of
//! variables that cannot change what its words mean: `CDPATH`, `BASHOPTS` or `RIPGREP_CONFIG_PATH` would turn a
//! harmless command into another one, and a list of such names is never complete.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Variables that every command gets; so are all whose name begins with `LC_`.
const PLAIN: [&str; 10] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TZ", "TMPDIR", "PWD"];

/// Which variables a command gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEnvironment {
    /// All that the session has for commands.
    Whole,
    /// Those that change nothing about the meaning of a command, and those that the user names. The shell sources
    /// neither the user's snapshot nor any file with variables: an alias or function would change that meaning, too.
    OnlyPlain,
}

/// What the commands of a session begin with.
#[derive(Debug, Clone, Default)]
pub struct ChildVariables {
    /// All of them.
    pub all: Vec<(String, String)>,
    /// Names that no command gets: credentials that are not passed on.
    pub withheld: Vec<String>,
    /// Further names for commands that get only plain variables: the program's own, and what the user passes on.
    pub passed: Vec<String>,
    /// What the user's own settings set. Commands that get only plain variables find these values, not those that a
    /// project sets over them.
    pub by_user: BTreeMap<String, String>,
}

impl ChildVariables {
    /// Returns variables of which every command gets all: none is withheld as a credential. A command that gets only
    /// plain variables still gets a part of them.
    pub fn unrestricted(all: Vec<(String, String)>) -> Self {
        Self { all, ..Self::default() }
    }

    /// Returns whether a variable may go to a command that was permitted for its text alone: it cannot change the
    /// meaning of a command, or the user has set or passed it on.
    fn is_plain(&self, name: &str) -> bool {
        is_plain(name) || self.by_user.contains_key(name) || self.passed.iter().any(|passed| passed == name)
    }

    /// Returns whether a command with this kind of environment gets the variable. Withheld names go to no command.
    fn goes_to(&self, name: &str, wanted: CommandEnvironment) -> bool {
        let fits = match wanted {
            CommandEnvironment::Whole => true,
            CommandEnvironment::OnlyPlain => self.is_plain(name),
        };
        fits && !self.withheld.iter().any(|withheld| withheld == name)
    }

    /// Returns the value that a command gets for the variable `name`, which is set to `set`. Where only plain variables
    /// are given, the user's own value counts instead of the one that a project set over it.
    fn value<'a>(&'a self, name: &str, set: &'a str, wanted: CommandEnvironment) -> &'a str {
        match wanted {
            CommandEnvironment::Whole => set,
            CommandEnvironment::OnlyPlain if is_plain(name) => set,
            CommandEnvironment::OnlyPlain => self.by_user.get(name).map_or(set, String::as_str),
        }
    }
}

/// Returns whether every command may get a variable of this name.
fn is_plain(name: &str) -> bool {
    PLAIN.contains(&name) || name.starts_with("LC_")
}

/// The environment of the children of a session.
#[derive(Debug, Default)]
pub struct ChildEnvironment {
    /// As the session began.
    first: ChildVariables,
    /// Written by settings and the host; read for every child.
    later: Mutex<LaterEnv>,
}

/// What changed about the environment of children while the session ran, weakest first.
#[derive(Debug, Default)]
struct LaterEnv {
    /// Takes the place of `first`: settings changed.
    base: Option<ChildVariables>,
    /// Set by the host.
    by_host: BTreeMap<String, String>,
}

impl ChildEnvironment {
    /// Returns an environment with the variables that commands get until settings, the host or hooks change them.
    pub fn new(first: ChildVariables) -> Self {
        Self { first, later: Mutex::default() }
    }

    /// Locks the changes, also after a panic under the lock.
    fn later(&self) -> MutexGuard<'_, LaterEnv> {
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets variables for commands that start from now on; they count instead of base variables of the same names.
    /// Names and values that no process could be given are left out without an error.
    pub fn set_by_host(&self, variables: impl IntoIterator<Item = (String, String)>) {
        // A name with `=` or a zero byte cannot be told to any process.
        let sound = |(name, value): &(String, String)| {
            !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
        };
        self.later().by_host.extend(variables.into_iter().filter(sound));
    }

    /// Returns the names that no command gets, wherever they are set.
    pub fn withheld(&self) -> Vec<String> {
        let later = self.later();
        later.base.as_ref().unwrap_or(&self.first).withheld.clone()
    }

    /// Returns the environment of a command that starts now: the base variables, and those of the host over them,
    /// without withheld names. Commands must get their environment from here, because this is where credentials are
    /// withheld.
    pub fn of_child(&self, wanted: CommandEnvironment) -> Vec<(String, String)> {
        let later = self.later();
        let base = later.base.as_ref().unwrap_or(&self.first);
        let first = base.all.iter().filter(|(name, _)| !later.by_host.contains_key(name));
        let first = first.map(|(name, set)| (name.as_str(), base.value(name, set, wanted)));
        let by_host = later.by_host.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let given = first.chain(by_host).filter(|(name, _)| base.goes_to(name, wanted));
        given.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Replaces the base variables after a change of settings. What the host and hooks have set stays.
    pub fn set_base(&self, variables: ChildVariables) {
        self.later().base = Some(variables);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn sorted(mut env: Vec<(String, String)>) -> Vec<(String, String)> {
        env.sort();
        env
    }

    fn environment() -> ChildEnvironment {
        ChildEnvironment::new(ChildVariables {
            all: pairs(&[
                ("KEY", "secret"),
                ("PATH", "/project"),
                ("CDPATH", "/x"),
                ("MINE", "project's"),
                ("OWN", "1"),
            ]),
            withheld: vec!["KEY".to_owned()],
            passed: vec!["OWN".to_owned()],
            by_user: pairs(&[("MINE", "user's"), ("PATH", "/user")]).into_iter().collect(),
        })
    }

    #[test]
    fn withheld_names_reach_no_command_whoever_sets_them() {
        let env = environment();
        env.set_by_host(pairs(&[("KEY", "by host"), ("CDPATH", "/host"), ("B", "host")]));
        let expected =
            [("B", "host"), ("CDPATH", "/host"), ("MINE", "project's"), ("OWN", "1"), ("PATH", "/project")];
        assert_eq!(sorted(env.of_child(CommandEnvironment::Whole)), pairs(&expected));
        assert_eq!(env.withheld(), ["KEY"]);
    }

    #[test]
    fn a_command_that_gets_plain_variables_gets_the_users_values_and_no_others() {
        let env = environment();
        env.set_by_host(pairs(&[("GLOBIGNORE", "*"), ("LC_ALL", "C"), ("PATH", "/host")]));
        let expected = [("LC_ALL", "C"), ("MINE", "user's"), ("OWN", "1"), ("PATH", "/host")];
        assert_eq!(sorted(env.of_child(CommandEnvironment::OnlyPlain)), pairs(&expected));
    }

    #[test]
    fn changed_settings_change_what_is_withheld() {
        let env = environment();
        env.set_base(ChildVariables::unrestricted(pairs(&[("KEY", "secret")])));
        assert_eq!(env.of_child(CommandEnvironment::Whole), pairs(&[("KEY", "secret")]));
        assert!(env.of_child(CommandEnvironment::OnlyPlain).is_empty());
    }
}
