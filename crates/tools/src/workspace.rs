//! What all tool calls of one agent share: where they work, with which limits, and what they have read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lathe_exec::Ledger;

use crate::files::seen::SeenFiles;

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
    /// The whole environment of children, as the session began; see [`Workspace::env_of_child`].
    pub child_env: Vec<(String, String)>,
    /// What was set since.
    later_env: Mutex<LaterEnv>,
    /// Where the plan of this session is written.
    pub plan_file: Option<PathBuf>,
    /// The shell that runs Bash calls.
    pub shell: PathBuf,
    /// Bounds and policies of the tools.
    pub limits: Limits,
    /// The files the model has read or written.
    pub seen: SeenFiles,
}

/// What changed about the environment of children while the session ran, weakest first.
#[derive(Debug, Default)]
struct LaterEnv {
    /// Takes the place of `child_env`: settings changed.
    base: Option<Vec<(String, String)>>,
    /// Set by the host.
    by_host: BTreeMap<String, String>,
    /// Exported by hooks.
    by_hooks: BTreeMap<String, String>,
}

fn lay_over(env: &mut Vec<(String, String)>, above: &BTreeMap<String, String>) {
    env.retain(|(name, _)| !above.contains_key(name));
    env.extend(above.iter().map(|(name, value)| (name.clone(), value.clone())));
}

/// Says of a path whether it belongs to some set. Asked from several threads at once, for every file a
/// search comes across.
pub type PathFilter = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

/// Bounds on what a call may take or return.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Time of a Bash call that does not say its own.
    pub bash_default_timeout: Duration,
    /// The longest time a Bash call may ask for.
    pub bash_max_timeout: Duration,
    /// Characters of output that go to the model directly; more is kept in a file.
    pub bash_output_chars: usize,
    /// Bytes of text that one Read returns.
    pub read_bytes: u64,
    /// The same with `allow_large`.
    pub read_large_bytes: u64,
    /// Bytes of a file that Edit and Write still compare with the new content.
    pub edit_bytes: u64,
    /// Whether files must be read before they are changed; a matter of the model.
    pub read_before_edit: ReadBeforeEdit,
    /// Time of one Glob or Grep call.
    pub search_timeout: Duration,
    /// Bytes that one Grep returns at most, whatever its `head_limit`.
    pub search_bytes: usize,
    /// What Glob looks at.
    pub glob_scope: GlobScope,
}

/// Whether Edit and Write insist that the file was read before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadBeforeEdit {
    /// An unread file is not changed.
    Required,
    /// It may be; the result says that the model does not know the rest of it.
    Advisory,
}

/// Files that Glob finds besides ordinary ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GlobScope {
    /// Names that begin with a dot.
    pub hidden: bool,
    /// Files that `.gitignore` and the like exclude.
    pub ignored: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bash_default_timeout: Duration::from_millis(120_000),
            bash_max_timeout: Duration::from_millis(600_000),
            bash_output_chars: 30_000,
            read_bytes: 256 << 10,
            read_large_bytes: 4 << 20,
            edit_bytes: 16 << 20,
            read_before_edit: ReadBeforeEdit::Advisory,
            search_timeout: Duration::from_secs(20),
            search_bytes: 512 << 10,
            glob_scope: GlobScope { hidden: true, ignored: true },
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
            later_env: Mutex::default(),
            plan_file: None,
            shell: PathBuf::from("/bin/bash"),
            limits: Limits::default(),
            seen: SeenFiles::default(),
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

    fn later_env(&self) -> MutexGuard<'_, LaterEnv> {
        self.later_env.lock().expect("environment lock")
    }

    /// Sets variables for the children to come.
    pub fn set_child_env(&self, variables: impl IntoIterator<Item = (String, String)>) {
        // A name with `=` or a zero byte cannot be told to any process.
        let sound = |(name, value): &(String, String)| {
            !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
        };
        self.later_env().by_host.extend(variables.into_iter().filter(sound));
    }

    /// The environment of children without what hooks export.
    pub fn base_env(&self) -> Vec<(String, String)> {
        let later = self.later_env();
        let mut env = later.base.as_ref().unwrap_or(&self.child_env).clone();
        lay_over(&mut env, &later.by_host);
        env
    }

    /// The whole environment of a child that starts now.
    pub fn env_of_child(&self) -> Vec<(String, String)> {
        let mut env = self.base_env();
        lay_over(&mut env, &self.later_env().by_hooks);
        env
    }

    /// Settings changed: children begin with this from now on.
    pub fn set_base_env(&self, env: Vec<(String, String)>) {
        self.later_env().base = Some(env);
    }

    /// What hooks export now, in the place of what they exported before.
    pub fn set_exports(&self, exports: impl IntoIterator<Item = (String, String)>) {
        self.later_env().by_hooks = exports.into_iter().collect();
    }

    /// Whether hooks export anything.
    pub fn has_exports(&self) -> bool {
        !self.later_env().by_hooks.is_empty()
    }

    /// Changes the further directories.
    pub fn change_dirs(&self, removed: &[PathBuf], added: &[PathBuf]) {
        let mut dirs = self.extra_dirs.lock().expect("extra_dirs lock");
        dirs.retain(|dir| !removed.contains(dir));
        for dir in added {
            if !dirs.contains(dir) {
                dirs.push(dir.clone());
            }
        }
    }

    /// A path of a tool input: relative ones are meant from where the shell stands.
    pub fn resolve(&self, path: &str) -> PathBuf {
        self.cwd().join(Path::new(path))
    }
}
