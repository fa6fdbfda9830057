//! Variables that hooks set for the commands of a session: a hook appends `export NAME=value` to the file that
//! `CLAUDE_ENV_FILE` names, and every later Bash call sees it.
//!
//! The files are read once, by a shell, when the hooks of an event have ended; what they export is added to the
//! environment of children. So a mistake in a file is reported once and never shifts the meaning of a command.
//! The surprising thing: what CwdChanged hooks wrote for a folder is forgotten when the folder is left.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lathe_exec::{RunLimits, Spec};
use lathe_protocol::HookEvent;

use crate::state::agent::AgentHandle;

/// How long the files may take to be read.
const TIMEOUT: Duration = Duration::from_secs(10);

/// In the order in which they are read.
const EVENTS: [(HookEvent, &str); 4] = [
    (HookEvent::Setup, "setup.sh"),
    (HookEvent::SessionStart, "session-start.sh"),
    (HookEvent::CwdChanged, "cwd-changed.sh"),
    (HookEvent::FileChanged, "file-changed.sh"),
];

/// Reads the files that are there and prints what is exported then.
const READ_ALL: &str =
    r#"for lathe_file; do if [ -s "$lathe_file" ]; then . "$lathe_file" >&2; fi; done; env -0"#;

/// Where hooks leave variables.
#[derive(Debug, Default)]
pub struct EnvFiles {
    /// A folder of this session; none where nothing can be kept.
    dir: Option<PathBuf>,
    /// Set once what an earlier run left there is gone. Written by the first event that has a file; read by the
    /// later ones.
    cleared: OnceLock<()>,
}

impl EnvFiles {
    /// Files in a folder that is made when a hook needs it.
    pub fn new(dir: Option<PathBuf>) -> Self {
        Self { dir, cleared: OnceLock::new() }
    }

    /// The file for the hooks of an event; none for events that have none.
    pub fn prepare(&self, event: &HookEvent) -> Option<PathBuf> {
        let dir = self.dir.as_deref()?;
        let (_, name) = EVENTS.iter().find(|(known, _)| known == event)?;
        let path = dir.join(name);
        self.cleared.get_or_init(|| {
            for (_, name) in EVENTS {
                // A file that is not there is what we want.
                let _ = fs::remove_file(dir.join(name));
            }
        });
        make(dir, &path, *event == HookEvent::CwdChanged).ok()?;
        Some(path)
    }

    fn paths(&self) -> Vec<PathBuf> {
        let dir = self.dir.iter();
        dir.flat_map(|dir| EVENTS.iter().map(|(_, name)| dir.join(name))).collect()
    }
}

fn make(dir: &Path, path: &Path, empty: bool) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    OpenOptions::new().write(true).create(true).truncate(empty).mode(0o600).open(path)?;
    Ok(())
}

impl AgentHandle {
    /// Takes over what hooks have exported. A file that cannot be read leaves things as they were.
    pub(crate) async fn take_env_files(self: &Arc<Self>) {
        let files = self.session.env_files.paths();
        let has_any = files.iter().any(|file| fs::metadata(file).is_ok_and(|meta| meta.len() > 0));
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

    async fn read_exports(&self, files: &[PathBuf]) -> Result<Vec<(String, String)>, String> {
        let before = self.workspace.env.without_exports();
        let mut spec = Spec::new("/bin/bash", self.workspace.cwd());
        spec.args = vec!["-c".into(), READ_ALL.into(), "bash".into()];
        spec.args.extend(files.iter().map(|file| file.clone().into_os_string()));
        spec.env.clone_from(&before);
        spec.label = "CLAUDE_ENV_FILE".to_owned();
        let limits = RunLimits { timeout: Some(TIMEOUT), ..RunLimits::default() };
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

/// What is other than before. Names that no shell would accept, such as exported functions, are left out: they
/// would change what commands mean. So is what a shell sets by itself.
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

    #[test]
    fn files_are_for_four_events_and_a_folder_is_left_with_its_variables() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("deep/er");
        let files = EnvFiles::new(Some(dir.clone()));
        assert!(!dir.exists(), "nothing is made before it is needed");
        assert_eq!(files.prepare(&HookEvent::PreToolUse), None);
        for (event, stays) in [(HookEvent::SessionStart, true), (HookEvent::CwdChanged, false)] {
            let file = files.prepare(&event).unwrap();
            fs::write(&file, "export A=1\n").unwrap();
            let again = files.prepare(&event).unwrap();
            assert_eq!(fs::read_to_string(&again).unwrap().is_empty(), !stays, "{event}");
        }
        assert_eq!(EnvFiles::default().prepare(&HookEvent::SessionStart), None);
        let next = EnvFiles::new(Some(dir)).prepare(&HookEvent::SessionStart).unwrap();
        assert_eq!(fs::read_to_string(next).unwrap(), "", "a new run starts without");
    }
}
