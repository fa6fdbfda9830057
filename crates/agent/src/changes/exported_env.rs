//! Variables that hooks set for the commands of a session: a hook appends `export NAME=value` to the file that
//! `CLAUDE_ENV_FILE` names, and every later Bash call sees it.
//!
//! The files are read once, by a shell, when the hooks of an event have ended, and the exports are added to the
//! environment of children. So a mistake in a file is reported once and never changes the meaning of a command. The
//! surprising thing: what CwdChanged hooks wrote for a folder is forgotten when the session leaves the folder.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lathe_exec::{RunLimits, Spec};

use crate::state::agent::AgentHandle;

/// How long the shell may take to read the files.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Sources the files that exist and prints the environment afterwards. Output of the files goes to stderr, so that it
/// does not mix with the list.
const READ_ALL: &str =
    r#"for lathe_file; do if [ -s "$lathe_file" ]; then . "$lathe_file" >&2; fi; done; env -0"#;

impl AgentHandle {
    /// Gives later shell commands the variables that hooks have exported through `CLAUDE_ENV_FILE`. If the files
    /// cannot be read, the variables stay as they were and the host gets a notice.
    pub(crate) async fn take_env_files(self: &Arc<Self>) {
        let files = self.session.env_files.paths();
        let has_any = files.iter().any(|file| fs::metadata(file).is_ok_and(|meta| meta.len() > 0));
        // Files that are empty now matter only if something was exported before, which then has to go.
        if !has_any && !self.workspace.env.has_exports() {
            return;
        }
        match self.read_exports(&files).await {
            Ok(exports) => self.workspace.env.set_exports(exports),
            Err(why) => {
                let text = format!("what hooks wrote to CLAUDE_ENV_FILE is not used: {why}");
                self.session.emit(self.frames.note("hook_env_file", &text)).await;
            }
        }
    }

    /// Runs the files in a shell and returns the exports that result. The shell starts without earlier exports, and the
    /// session's stop and [`TIMEOUT`] bound the run; a shell that does not succeed is an error.
    async fn read_exports(&self, files: &[PathBuf]) -> Result<Vec<(String, String)>, String> {
        // Without the earlier exports, so that a variable that is not exported any more disappears.
        let before = self.workspace.env.without_exports();
        let mut spec = Spec::new("/bin/bash", self.workspace.cwd());
        spec.args = vec!["-c".into(), READ_ALL.into(), "bash".into()];
        spec.args.extend(files.iter().map(|file| file.clone().into_os_string()));
        spec.env.clone_from(&before);
        spec.label = "CLAUDE_ENV_FILE".to_owned();
        // Reading the files is part of the hooks, so it takes one of their places and does not wait for commands.
        let hooks = &self.session.process.limits.hooks;
        let place = hooks.place(TIMEOUT, &self.session.stop).await.map_err(|none| none.to_string())?;
        let limits = RunLimits { timeout: Some(TIMEOUT), place: Some(place), ..RunLimits::default() };
        let finished = self
            .workspace
            .ledger
            .run(spec, limits, &self.session.stop)
            .await
            .map_err(|error| error.to_string())?;
        if !finished.exit.is_success() {
            return Err(format!("{:?}: {}", finished.exit, finished.stderr.to_text().trim()));
        }
        Ok(exports(&finished.stdout.to_text(), &before))
    }
}

/// Returns the variables that differ from before. Names that a shell would not accept, such as those of exported
/// functions, are left out, because they would change what commands mean; so are the variables that a shell sets on its
/// own.
fn exports(printed: &str, before: &[(String, String)]) -> Vec<(String, String)> {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let variables = printed.split('\0').filter_map(|line| line.split_once('='));
    variables
        .filter(|(name, _)| is_name(name) && !matches!(*name, "_" | "SHLVL" | "PWD" | "OLDPWD"))
        .filter(|(name, value)| !before.iter().any(|(had, was)| had == name && was == value))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_and_has_a_name_is_taken() {
        let before = [("PATH".to_owned(), "/bin".to_owned()), ("A".to_owned(), "1".to_owned())];
        let printed = "PATH=/bin\0A=2\0B=x=y\nz\0SHLVL=1\0_=env\0BASH_FUNC_ls%%=() { :; }\0x-y=no\0";
        let expected = [("A", "2"), ("B", "x=y\nz")];
        assert_eq!(
            exports(printed, &before),
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }
}
