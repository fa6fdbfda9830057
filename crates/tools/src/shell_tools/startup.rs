//! What the shell of a command begins with: the user's functions, aliases and shell options, and the files in which
//! hooks and the user leave variables (`CLAUDE_ENV_FILE`).
//!
//! A shell that reads the user's file for interactive shells takes up to seconds, so it runs once a session: at the
//! first command, in the user's home and not in the project. What it defines is written to a file, the snapshot, which
//! every later shell reads instead. Variables are not part of it. Whatever goes wrong is told once, and commands then
//! run without.
//!
//! A command that was permitted for its text alone ([`CommandEnvironment::OnlyPlain`]) gets none of this: an alias or
//! function would give the words that were judged another meaning.

mod snapshot;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lathe_exec::{Capture, Ended, Finished, OutputLimit, RunLimits, Spec};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use snapshot::Snapshot;

use crate::{CommandEnvironment, SessionRemarks, ToolContext, Workspace, stoppable};

/// How long the user's file may take.
const SNAPSHOT_TIME: Duration = Duration::from_secs(2);

/// Bytes of a snapshot. Functions for completion come to about a tenth of it.
const SNAPSHOT_BYTES: usize = 1 << 20;

/// How long the files with variables may take when they are tried.
const ENV_FILE_TIME: Duration = Duration::from_secs(10);

/// The last line of a whole snapshot.
const SNAPSHOT_END: &[u8] = b"# end of snapshot\n";

/// The snapshot of a bash in which nothing is defined.
const EMPTY_OF_BASH: &[u8] = b"[[ -n ${lathe_functions-} ]] || return 0\n# end of snapshot\n";

/// Sources files as a command would, and says so at the end. `$0` is the shell.
const TRY_FILES: &str = r#"for lathe_file do "$0" -n "$lathe_file" || exit; . "$lathe_file" >&2; done"#;

/// What a shell prints after that, unless a file made it exit.
const TRIED: &str = "sourced";

/// What the shells of a session's commands begin with. All agents of the session share it.
#[derive(Debug, Default)]
pub struct ShellStartup {
    /// Where the snapshot is written; none is taken without it.
    snapshot_file: Option<PathBuf>,
    /// The file that the user named in `CLAUDE_ENV_FILE`.
    user_file: Option<PathBuf>,
    /// Filled by the first command; those that come meanwhile wait for it.
    prepared: OnceCell<Prepared>,
    /// The files of hooks that are sourced. Written when hooks have ended; read for every command.
    hook_files: Mutex<Vec<PathBuf>>,
}

/// The files that turned out to be usable.
#[derive(Debug)]
struct Prepared {
    snapshot: Option<Snapshot>,
    user_file: Option<PathBuf>,
}

/// The shells that differ in how they are spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShellKind {
    Bash,
    Zsh,
    /// `sh` and its like: no snapshot, and the folder in which it ended is not known.
    Posix,
    /// Nothing but the command is said to it.
    Other,
}

impl ShellKind {
    /// Returns the kind of a shell by the name of its program; [`ShellKind::Other`] for a name that is not known.
    pub fn of(shell: &Path) -> Self {
        match shell.file_name().and_then(|name| name.to_str()) {
            Some("bash") => Self::Bash,
            Some("zsh") => Self::Zsh,
            Some("sh" | "dash" | "ash" | "ksh") => Self::Posix,
            Some(_) | None => Self::Other,
        }
    }

    /// Returns the word that makes the shell run a builtin, whatever functions there are.
    fn builtin(self) -> &'static str {
        match self {
            Self::Bash | Self::Zsh => "builtin",
            Self::Posix | Self::Other => "command",
        }
    }

    /// Returns the script that takes a snapshot, the options of the shell that runs it, and the user's file that it
    /// reads; `None` for shells of which no snapshot is taken. The shell is interactive, because many such files do
    /// nothing otherwise.
    fn snapshot(
        self,
        home: &Path,
        zdotdir: Option<&Path>,
    ) -> Option<(&'static str, &'static [&'static str], PathBuf)> {
        match self {
            Self::Bash => {
                let options: &[&str] = &["--norc", "--noprofile", "-i"];
                Some((include_str!("startup/take.bash"), options, home.join(".bashrc")))
            }
            Self::Zsh => {
                let options: &[&str] = &["-f", "-i"];
                Some((include_str!("startup/take.zsh"), options, zdotdir.unwrap_or(home).join(".zshrc")))
            }
            Self::Posix | Self::Other => None,
        }
    }
}

impl ShellStartup {
    /// Returns this startup with a snapshot, which is written to `file` when the first command needs it.
    #[must_use]
    pub fn with_snapshot_in(self, file: PathBuf) -> Self {
        Self { snapshot_file: Some(file), ..self }
    }

    /// Returns this startup with a file of the user that each shell sources.
    #[must_use]
    pub fn with_user_file(self, file: PathBuf) -> Self {
        Self { user_file: Some(file), ..self }
    }

    /// Replaces the files of hooks that each shell sources from now on, in this order.
    pub fn set_hook_files(&self, files: Vec<PathBuf>) {
        *self.hook_files.lock().unwrap_or_else(PoisonError::into_inner) = files;
    }

    /// Deletes the snapshot, if there is one; to be called when no command will need it any more. A snapshot that a
    /// killed process leaves behind is deleted with old sessions.
    pub fn remove_snapshot(&self) {
        if let Some(file) = &self.snapshot_file {
            // Most sessions have none: their user has no file for interactive shells, or they ran no command.
            let _ = std::fs::remove_file(file);
        }
    }

    /// Takes the snapshot and tries the user's file, unless an earlier call has; does nothing for a command that gets
    /// only plain variables. A call that is cancelled leaves it to the next one. Must come before [`Self::prelude`].
    pub(crate) async fn prepare(&self, context: &ToolContext) {
        let has_nothing = self.snapshot_file.is_none() && self.user_file.is_none();
        if has_nothing || context.environment == CommandEnvironment::OnlyPlain {
            return;
        }
        tokio::select! {
            biased;
            () = context.cancel.cancelled() => {}
            () = self.prepare_telling(&context.workspace, &*context.session) => {}
        }
    }

    /// Prepares what shells begin with, once per session; later calls wait for the first one and do nothing. Problems
    /// are told to `session`.
    async fn prepare_telling(&self, workspace: &Workspace, session: &dyn SessionRemarks) {
        self.prepared.get_or_init(|| self.try_all(workspace, session)).await;
    }

    /// Takes the snapshot and tries the user's file. What does not work is reported to `session` and left out, so that
    /// commands run without it.
    async fn try_all(&self, workspace: &Workspace, session: &dyn SessionRemarks) -> Prepared {
        let snapshot = match self.take_snapshot(workspace).await {
            Ok(snapshot) => snapshot,
            Err(why) => {
                let text = format!("commands run without the user's aliases and functions: {why}");
                session.remark("shell_snapshot", &text).await;
                None
            }
        };
        let mut user_file = self.user_file.clone();
        if let Some(file) = &user_file
            && let Err(why) =
                try_env_files(workspace, &[file], RunLimits::default(), &CancellationToken::new()).await
        {
            let text = format!("the file in CLAUDE_ENV_FILE is not used: {why}");
            session.remark("env_file", &text).await;
            user_file = None;
        }
        Prepared { snapshot, user_file }
    }

    /// Runs the shell that reads the user's file, and writes the snapshot. `None` if none is wanted or possible (no
    /// file for it, no home, another shell), or if the user's file is empty or defines nothing; an error says why there
    /// is no snapshot although there should be one.
    async fn take_snapshot(&self, workspace: &Workspace) -> Result<Option<Snapshot>, String> {
        let env = workspace.env.of_child(CommandEnvironment::Whole);
        let folder = |name: &str| {
            let value = env.iter().find(|(set, _)| set == name).map(|(_, value)| value);
            value.filter(|value| !value.is_empty()).map(Path::new)
        };
        let kind = ShellKind::of(&workspace.shell);
        let recipe = folder("HOME").and_then(|home| Some((home, kind.snapshot(home, folder("ZDOTDIR"))?)));
        let (Some(file), Some((home, (script, options, rc)))) = (&self.snapshot_file, recipe) else {
            return Ok(None);
        };
        if !std::fs::metadata(&rc).is_ok_and(|found| found.is_file() && found.len() > 0) {
            return Ok(None);
        }
        let mut spec = Spec::new(&workspace.shell, home);
        spec.args = options.iter().map(OsString::from).collect();
        spec.args.extend(["-c".into(), script.into(), workspace.shell.clone().into(), rc.clone().into()]);
        spec.label = format!("snapshot of {}", rc.display());
        spec.grace = Duration::ZERO;
        spec.env.clone_from(&env);
        let stdout = Capture {
            head_bytes: SNAPSHOT_BYTES,
            tail_bytes: 0,
            spill: None,
            limit: OutputLimit::KillAt(SNAPSHOT_BYTES as u64),
        };
        let limits = RunLimits { timeout: Some(SNAPSHOT_TIME), stdout, ..RunLimits::default() };
        // The call's own token is not used: dropping this future kills the shell, too, and leaves no half result.
        let never = CancellationToken::new();
        let finished = workspace.ledger.run(spec, limits, &never).await.map_err(|error| error.to_string())?;
        let text = snapshot_text(finished).map_err(|why| format!("{}: {why}", rc.display()))?;
        if text == SNAPSHOT_END || text == EMPTY_OF_BASH {
            return Ok(None);
        }
        let snapshot = Snapshot::new(file.clone(), &String::from_utf8_lossy(&text));
        let target = file.clone();
        let written = stoppable::run(&never, SNAPSHOT_TIME, move |_| write(&target, &text)).await;
        match written {
            Ok(Ok(())) => Ok(Some(snapshot)),
            Ok(Err(error)) => Err(format!("{}: {error}", file.display())),
            Err(failure) => Err(failure.content().unwrap_or_default()),
        }
    }

    /// Returns what a shell is told before this command; nothing of it prints. Empty for an unknown shell and for a
    /// command that gets only plain variables. The files may do anything, so the folder is set again behind them, and
    /// names that no command gets are removed.
    pub(crate) fn prelude(
        &self,
        workspace: &Workspace,
        command: &str,
        cwd: &Path,
        environment: CommandEnvironment,
    ) -> String {
        let kind = ShellKind::of(&workspace.shell);
        if environment == CommandEnvironment::OnlyPlain || kind == ShellKind::Other {
            return String::new();
        }
        let prepared = self.prepared.get();
        let mut text = String::new();
        let source = |text: &mut String, file: &Path| {
            let quoted = quoted(&file.to_string_lossy());
            let _ = write!(text, "[ -r {quoted} ] && . {quoted} >/dev/null 2>&1; ");
        };
        if let Some(snapshot) = prepared.and_then(|prepared| prepared.snapshot.as_ref()) {
            let (before, after) = match snapshot.is_needed_whole(command) {
                true => ("lathe_functions=1; ", "unset lathe_functions; "),
                false => ("", ""),
            };
            text.push_str(before);
            source(&mut text, &snapshot.file);
            text.push_str(after);
        }
        let hook_files = self.hook_files.lock().unwrap_or_else(PoisonError::into_inner);
        let user_file = prepared.and_then(|prepared| prepared.user_file.as_ref());
        let files: Vec<_> = user_file.into_iter().chain(hook_files.iter()).collect();
        files.iter().for_each(|file| source(&mut text, file));
        if kind == ShellKind::Bash && !text.is_empty() {
            // Not earlier: aliases of one file would change how the next one is read.
            text.push_str("builtin shopt -s expand_aliases; ");
        }
        if !files.is_empty() {
            let (builtin, folder) = (kind.builtin(), quoted(&cwd.to_string_lossy()));
            let withheld = workspace.env.withheld().join(" ");
            let _ =
                write!(text, "{{ {builtin} cd -- {folder}; unset OLDPWD {withheld}; }} >/dev/null 2>&1; ");
        }
        text
    }
}

/// Returns the text of a snapshot, or an error that says why it is not whole.
fn snapshot_text(finished: Finished) -> Result<Vec<u8>, String> {
    match finished.ended {
        Ended::TimedOut => Err(format!("it took longer than {} s", SNAPSHOT_TIME.as_secs())),
        Ended::OutputLimit => Err(format!("what it defines is larger than {} KB", SNAPSHOT_BYTES >> 10)),
        Ended::ByItself | Ended::Cancelled | Ended::Stopped => {
            let text = finished.stdout.head;
            let is_whole = text.ends_with(SNAPSHOT_END);
            is_whole.then_some(text).ok_or_else(|| "it ends the shell, or replaces it".to_owned())
        }
    }
}

/// Writes the snapshot for the user alone. One of this session from an earlier run is replaced.
fn write(file: &Path, text: &[u8]) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    if let Err(error) = std::fs::remove_file(file)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    open.write_all(text).inspect_err(|_| {
        // Half a snapshot would be sourced.
        let _ = std::fs::remove_file(file);
    })
}

/// Sources files in a shell like that of commands, each after those before it. Fails if one does not parse, ends the
/// shell, or takes longer than ten seconds, because it would do so in every command. The error names the last file, so
/// those before it should have been tried already. `limits` may bring a place; its time-out is replaced.
pub async fn try_env_files(
    workspace: &Workspace,
    files: &[&PathBuf],
    limits: RunLimits,
    cancel: &CancellationToken,
) -> Result<(), String> {
    let mut spec = Spec::new(&workspace.shell, workspace.cwd());
    let kind = ShellKind::of(&workspace.shell);
    let script = format!("{TRY_FILES}; {} printf {TRIED}", kind.builtin());
    spec.args = vec!["-c".into(), script.into(), workspace.shell.clone().into()];
    spec.args.extend(files.iter().map(|file| file.as_os_str().to_owned()));
    spec.env = workspace.env.of_child(CommandEnvironment::Whole);
    spec.label = "CLAUDE_ENV_FILE".to_owned();
    let limits = RunLimits { timeout: Some(ENV_FILE_TIME), ..limits };
    let finished = workspace.ledger.run(spec, limits, cancel).await.map_err(|error| error.to_string())?;
    if finished.stdout.to_text() == TRIED {
        return Ok(());
    }
    let named = files.last().map(|file| file.display().to_string()).unwrap_or_default();
    let why = match finished.ended {
        Ended::TimedOut => format!("it took longer than {} s", ENV_FILE_TIME.as_secs()),
        Ended::ByItself | Ended::Cancelled | Ended::OutputLimit | Ended::Stopped => {
            format!("it ended the shell with {:?}", finished.exit)
        }
    };
    Err(format!("{named}: {why}. {}", finished.stderr.to_text().trim())
        .trim_end_matches([' ', '.'])
        .to_owned())
}

/// Returns a text as one word for the shell.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
