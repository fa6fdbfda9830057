//! What all tool calls of one agent share: where they work, with which limits, and what they have read.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use lathe_exec::Ledger;

/// One agent's place of work.
pub struct Workspace {
    /// The project directory: where the session was started.
    pub root: PathBuf,
    /// Further directories the session may work in (`--add-dir`).
    pub extra_dirs: Mutex<Vec<PathBuf>>,
    /// Where the shell stands; `cd` in a Bash call moves it, inside the working directories.
    cwd: Mutex<PathBuf>,
    /// Where large outputs are kept, made when first needed.
    pub output_dir: PathBuf,
    /// Every child of the session is on it.
    pub ledger: Ledger,
    /// The whole environment of children.
    pub child_env: Vec<(String, String)>,
    /// The shell that runs Bash calls.
    pub shell: PathBuf,
    pub limits: Limits,
}

/// Bounds on what a call may take or return.
#[derive(Debug, Clone)]
pub struct Limits {
    pub bash_default_timeout: Duration,
    pub bash_max_timeout: Duration,
    /// Characters of output that go to the model directly; more is kept in a file.
    pub bash_output_chars: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bash_default_timeout: Duration::from_millis(120_000),
            bash_max_timeout: Duration::from_millis(600_000),
            bash_output_chars: 30_000,
        }
    }
}

impl Workspace {
    /// A workspace rooted (and standing) at `root`.
    pub fn new(root: PathBuf, ledger: Ledger) -> Self {
        Self {
            cwd: Mutex::new(root.clone()),
            output_dir: root.join(".lathe-output"),
            root,
            extra_dirs: Mutex::default(),
            ledger,
            child_env: Vec::new(),
            shell: PathBuf::from("/bin/bash"),
            limits: Limits::default(),
        }
    }

    /// Where the shell stands now.
    pub fn cwd(&self) -> PathBuf {
        self.cwd.lock().expect("cwd lock").clone()
    }

    /// Moves the shell.
    pub fn set_cwd(&self, cwd: PathBuf) {
        *self.cwd.lock().expect("cwd lock") = cwd;
    }

    /// A path of a tool input: relative ones are meant from where the shell stands.
    pub fn resolve(&self, path: &str) -> PathBuf {
        self.cwd().join(Path::new(path))
    }
}
