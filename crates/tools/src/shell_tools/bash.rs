//! Bash: one shell command in a fresh, non-interactive shell.
//!
//! Starting, killing and bounding are `lathe_exec`'s; here a call becomes a command line, and an ending
//! becomes words. Stdout and stderr share one pipe, so that the model sees them in the order in which they
//! were written. The one thing that lives on after a call is the working directory: an exit trap sends it
//! through a pipe of its own, apart from the output and without a word to the exit code.

mod background;
mod git;
mod meaning;
mod output;
mod picture;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use futures_util::future::BoxFuture;
use lathe_exec::{
    Capture, CommandJob, Ended, ExecError, Exit, Finished, Leftovers, OutputLimit, OutputMode, RunLimits,
    Spec, SpillFile,
};
use lathe_protocol::CallSubject;
use serde_json::{Map, Value, json};

use crate::file_tools::read::image::SentImage;
use crate::shell_tools::startup::{ShellKind, quoted};
use crate::{
    CallEffects, Content, InvalidInput, Limits, ResultLimits, ShellFolder, Shown, Tool, ToolContext,
    ToolDeclaration, ToolFailure, ToolOutput, Workspace,
};
use background::{BashCall, Waited};
use output::Printed;

/// The descriptor on which the shell says where it ended, or the highest there is where there are fewer. Two
/// digits would meet those of scripts.
const CWD_FD: i32 = 199;

/// Time for a command to clean up between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// Output that no command has a use for; it is killed there.
const OUTPUT_KILL_BYTES: u64 = 5 << 30;

/// Bytes kept from the end of an output, for failures.
const TAIL_BYTES: usize = 64 << 10;

/// Characters that the value of a call may have: a picture that is sent has less.
const PICTURE_CHARS: usize = 1 << 20;

/// The Bash tool.
#[derive(Debug, Default)]
pub struct Bash;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "command": { "type": "string", "description": "The command line" },
            "timeout": { "type": "number", "description": "Milliseconds, at most 600000, default 120000; then the command goes on in the background" },
            "description": { "type": "string", "description": "What it is for, in a few words, for the person who is asked" },
            "run_in_background": { "type": "boolean", "description": "Returns at once; a notice follows when the command ends" },
            "dangerouslyDisableSandbox": { "type": "boolean", "description": "No effect: commands run without a sandbox" },
        },
        "required": ["command"],
        "additionalProperties": false,
    })
});

impl Tool for Bash {
    fn name(&self) -> &str {
        "Bash"
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration { bare: true, ..ToolDeclaration::EVERYWHERE }
    }

    fn description(&self) -> &str {
        "Runs a shell command and returns what it prints, stdout and stderr together. Every call is a new \
         shell without a terminal and without input: the working directory carries over to the next call, \
         variables do not. To read, search or change files prefer the tools made for it. Long output is kept \
         in a file."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn subject(&self, input: &Value) -> CallSubject {
        match input["command"].as_str() {
            Some(command) => CallSubject::Shell { command: command.to_owned() },
            None => CallSubject::Unknown,
        }
    }

    fn check(&self, input: &Value) -> Result<(), ToolFailure> {
        check_command(input["command"].as_str().unwrap_or_default())
    }

    fn result_limits(&self, limits: &Limits) -> ResultLimits {
        // `output.rs` cuts at this length; a note about the folder or the file may follow. A picture is in the value,
        // too.
        let cut = ResultLimits::of_cut_text(limits.bash_output_chars);
        ResultLimits { value_chars: cut.value_chars.max(PICTURE_CHARS), ..cut }
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            let workspace = &*context.workspace;
            let command = input["command"].as_str().unwrap_or_default();
            let call = BashCall { command, input, context };
            if call.starts_in_background() {
                workspace.shell_startup.prepare(context).await;
                return call.start_in_background().await;
            }
            let timeout = timeout(input["timeout"].as_f64(), workspace);
            let (place, time_left) =
                context.wait_for_place(&workspace.process_limits.commands, timeout).await?;
            // Behind the wait for a place, which bounds how many shells do this at once; its time is not the command's.
            workspace.shell_startup.prepare(context).await;
            let spill = output::unused_file(&workspace.output_dir, &context.tool_use_id);
            let started_in = workspace.cwd();
            let limits = RunLimits {
                timeout: (!call.continues_after_timeout()).then_some(time_left),
                place: Some(place),
                stdout: capture(workspace.limits.bash_output_chars, &spill),
                ..RunLimits::default()
            };
            let running = workspace
                .ledger
                .start(spec(command, &started_in, context), limits)
                .map_err(|error| not_started(&error, workspace))?;
            let finished = match call.wait(&running, time_left, timeout).await {
                Waited::Finished(finished) => *finished,
                Waited::Moved(place, by) => return Ok(call.moved(&running, &place, by)),
            };
            let moved = match finished.ended {
                Ended::ByItself => follow(&finished.note, &started_in, workspace),
                // Where a shell stood when it was killed is chance.
                Ended::TimedOut | Ended::Cancelled | Ended::OutputLimit | Ended::Stopped => Moved::Within,
            };
            let picture = match finished.exit {
                Exit::Code(0) => picture::printed(&finished.stdout, context).await,
                Exit::Code(_) | Exit::Signal(_) | Exit::Lost => None,
            };
            Ending { command, finished, timeout, moved, picture, job: &running, workspace }.tell()
        })
    }
}

/// Refuses a command with control characters, because a person who is asked about it could not see the whole command.
pub(super) fn check_command(command: &str) -> Result<(), ToolFailure> {
    if !has_hidden_characters(command) {
        return Ok(());
    }
    let problem = "command contains control characters, which a person who is asked would not see";
    let invalid = InvalidInput::custom("command", problem);
    Err(ToolFailure::Rejected(invalid.result()))
}

/// Returns whether a text shows less, in a terminal or a dialog, than a shell sees of it: it has control characters.
/// Line ends and tabs do not count.
fn has_hidden_characters(command: &str) -> bool {
    let mut characters = command.chars().peekable();
    while let Some(character) = characters.next() {
        let plain = match character {
            '\n' | '\t' => true,
            '\r' => characters.peek() == Some(&'\n'),
            other => !other.is_control(),
        };
        if !plain {
            return true;
        }
    }
    false
}

/// Returns how long the command may run: the time that the call asks for, at most the limit (or the default, if that is
/// longer), or the default if it asks for none or less than a millisecond.
fn timeout(asked_ms: Option<f64>, workspace: &Workspace) -> Duration {
    let limits = &workspace.limits;
    let ceiling = limits.bash_max_timeout.max(limits.bash_default_timeout);
    match asked_ms {
        Some(ms) if ms >= 1.0 => {
            Duration::try_from_secs_f64(ms / 1000.0).map_or(ceiling, |asked| asked.min(ceiling))
        }
        Some(_) | None => limits.bash_default_timeout,
    }
}

/// Returns how output is kept: enough bytes for the first `output_chars` characters and the end in memory, all of it in
/// the file `spill`, and a bound at which the command is killed.
fn capture(output_chars: usize, spill: &Path) -> Capture {
    Capture {
        // What is shown is counted in characters, each of up to four bytes.
        head_bytes: output_chars.saturating_mul(4),
        tail_bytes: TAIL_BYTES,
        spill: Some(SpillFile::new(spill)),
        limit: OutputLimit::KillAt(OUTPUT_KILL_BYTES),
    }
}

/// Describes the child process that runs the command in the user's shell. The shell reports its last directory on an
/// extra descriptor; processes that the command leaves behind run until the session ends. The startup of the shell must
/// have been prepared before, or the user's aliases and functions are missing.
pub(super) fn spec(command: &str, cwd: &Path, context: &ToolContext) -> Spec {
    let workspace = &*context.workspace;
    let mut spec = Spec::new(&workspace.shell, cwd);
    let cwd_fd = workspace.ledger.note_number(CWD_FD);
    let prelude = workspace.shell_startup.prelude(workspace, command, cwd, context.environment);
    spec.args = vec!["-c".into(), script(command, &workspace.shell, cwd_fd, &prelude).into()];
    spec.env = workspace.env.of_child(context.environment);
    spec.output = OutputMode::Merged;
    spec.label = command.to_owned();
    spec.grace = GRACE;
    spec.leftovers = Leftovers::KeepForSession;
    spec.note_fd = Some(cwd_fd);
    spec
}

/// Returns the script for the shell: the prelude, the command, and a trap that reports the directory at the end. `eval`
/// keeps the prelude and the trap out of the command's syntax errors and line numbers, and lets aliases of the prelude
/// take effect. Shells other than bash and zsh get no trap, so their directory is not followed, and an unknown shell
/// gets the command alone, without the prelude.
fn script(command: &str, shell: &Path, cwd_fd: i32, prelude: &str) -> String {
    // The space keeps a leading dash from being taken for an option of `eval`.
    let space = if command.starts_with('-') { " " } else { "" };
    // The prelude may define functions with any name.
    let builtin = if prelude.is_empty() { "" } else { "builtin " };
    match ShellKind::of(shell) {
        ShellKind::Bash | ShellKind::Zsh => {
            let quoted = quoted(&format!("{space}{command}"));
            format!(
                "{prelude}{builtin}trap '{{ builtin pwd -P >&{cwd_fd}; }} 2>/dev/null' EXIT; {builtin}eval {quoted}"
            )
        }
        // These know no `builtin`, or no descriptor beyond 9.
        ShellKind::Posix if !prelude.is_empty() => {
            format!("{prelude}eval {}", quoted(&format!("{space}{command}")))
        }
        ShellKind::Posix | ShellKind::Other => command.to_owned(),
    }
}

/// Whether the shell may stay where a command left it.
enum Moved {
    /// It stands inside the working directories.
    Within,
    /// It had left them and is back in the project directory.
    Reset,
}

/// Makes the directory in which the command ended the current one of the agent. `note` is what the shell reported;
/// without a usable report the directory stays. A directory outside of the session's directories, or any but the root
/// with [`ShellFolder::StaysAtRoot`], resets it to the root, for which the result is [`Moved::Reset`].
fn follow(note: &[u8], started_in: &Path, workspace: &Workspace) -> Moved {
    let Some(ended_in) = note.strip_suffix(b"\n").filter(|path| !path.is_empty()) else {
        // The shell was replaced (`exec`), killed, or has another exit trap.
        return Moved::Within;
    };
    let ended_in = PathBuf::from(OsString::from_vec(ended_in.to_vec()));
    let Ok(ended_in) = ended_in.canonicalize() else {
        return Moved::Within;
    };
    let inside =
        |directory: &PathBuf| directory.canonicalize().is_ok_and(|directory| ended_in.starts_with(directory));
    let is_at = |directory: &Path| directory.canonicalize().ok().as_deref() == Some(&*ended_in);
    let may_stay = match workspace.limits.shell_folder {
        ShellFolder::Follows => inside(&workspace.home()) || workspace.place().directories.iter().any(inside),
        ShellFolder::StaysAtRoot => is_at(&workspace.home()),
    };
    if !may_stay {
        workspace.set_cwd(workspace.home());
        return Moved::Reset;
    }
    if !is_at(started_in) {
        workspace.set_cwd(ended_in);
    }
    Moved::Within
}

/// Returns the failure of a command that could not be started. If its directory is gone, the agent moves to the root,
/// so that the next command can start.
pub(super) fn not_started(error: &ExecError, workspace: &Workspace) -> ToolFailure {
    let mut text = format!("Failed to {error}");
    match error {
        ExecError::WorkingDirectory { .. } => {
            workspace.set_cwd(workspace.home());
            text.push_str(&format!("\n{}", reset_notice(workspace)));
        }
        ExecError::Start { source, .. } if source.kind() == std::io::ErrorKind::ArgumentListTooLong => {
            text.push_str("\nThe command is too long for a command line: put it into a file and run that.");
        }
        ExecError::Start { .. } | ExecError::Pipes { .. } | ExecError::ScopeEnded { .. } => {}
    }
    ToolFailure::Failed(text)
}

/// Returns the line that tells the model that its directory was reset to the root.
fn reset_notice(workspace: &Workspace) -> String {
    format!("Shell cwd was reset to {}", workspace.home().display())
}

/// Whether the text of a result stands for a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IsImage {
    Yes,
    No,
}

/// A command that has ended, and what is needed to tell of it.
struct Ending<'a> {
    command: &'a str,
    finished: Finished,
    timeout: Duration,
    moved: Moved,
    /// What it printed, if that is a picture and nothing else.
    picture: Option<SentImage>,
    /// Has its output, and puts it into a file if it is too large.
    job: &'a CommandJob,
    workspace: &'a Workspace,
}

impl Ending<'_> {
    /// Turns the end of the command into the result of the call. Some exit codes other than 0 are no failure,
    /// depending on the program: `grep` returns 1 when nothing matches.
    fn tell(self) -> Result<ToolOutput, ToolFailure> {
        match (self.finished.ended, self.finished.exit) {
            (Ended::Cancelled, _) => Err(ToolFailure::Interrupted),
            (Ended::TimedOut, _) => {
                let seconds = self.timeout.as_millis() as f64 / 1000.0;
                Err(self.failure(143, &format!("Command timed out after {seconds}s")))
            }
            (Ended::OutputLimit, _) => {
                Err(self.failure(137, "Command was killed: it printed more than 5 GB"))
            }
            (Ended::ByItself | Ended::Stopped, Exit::Code(0)) => Ok(self.success(None)),
            (Ended::ByItself | Ended::Stopped, Exit::Code(code)) => {
                match meaning::benign(self.command, code) {
                    Some(meaning) => Ok(self.success(Some(meaning))),
                    None => Err(self.failure(code, "")),
                }
            }
            // The shell itself was killed; the number says no more than that it failed.
            (Ended::ByItself | Ended::Stopped, Exit::Signal(_)) => Err(self.failure(1, "")),
            (Ended::ByItself | Ended::Stopped, Exit::Lost) => {
                Err(self
                    .failure(1, "How the command ended is unknown: the process that watched it was killed"))
            }
        }
    }

    /// Returns the error for the model: exit code, reason, the end of the output. Programs parse its first line.
    fn failure(self, code: i32, reason: &str) -> ToolFailure {
        let mut parts = vec![format!("Exit code {code}"), reason.to_owned()];
        parts.push(output::excerpt(&self.finished.stdout, self.job));
        match self.moved {
            Moved::Within => {}
            Moved::Reset => parts.push(reset_notice(self.workspace)),
        }
        parts.retain(|part| !part.is_empty());
        ToolFailure::Failed(parts.join("\n"))
    }

    /// Returns the output of a command that did what it was asked; `meaning` explains an exit code other than 0. A
    /// picture that the command printed replaces its text.
    fn success(mut self, meaning: Option<&str>) -> ToolOutput {
        let stderr = match self.moved {
            Moved::Within => String::new(),
            Moved::Reset => format!("\n{}", reset_notice(self.workspace)),
        };
        if let Some(picture) = self.picture.take() {
            return self.success_with_picture(&picture, stderr);
        }
        let Printed { stdout, mut content, persisted } =
            output::shown(&self.finished.stdout, self.workspace.limits.bash_output_chars, self.job);
        content.push_str(if content.is_empty() { stderr.trim_start() } else { &stderr });
        if content.is_empty() {
            content.push_str("(Bash completed with no output)");
        }
        let git = git::operations(self.command, || self.finished.stdout.to_text());
        let mut result = value(stdout, stderr, IsImage::No);
        if let Some(meaning) = meaning {
            result.insert("returnCodeInterpretation".into(), meaning.into());
        }
        result.insert("noOutputExpected".into(), meaning::is_silent(self.command).into());
        let shown = if persisted.is_some() { Shown::Part } else { Shown::Whole };
        if let Some(persisted) = persisted {
            result.insert("persistedOutputPath".into(), persisted.path.display().to_string().into());
            result.insert("persistedOutputSize".into(), persisted.bytes.into());
        }
        result.extend(git.map(|git| ("gitOperation".to_owned(), git)));
        ToolOutput {
            is_error: Some(false),
            effects: CallEffects { shown, ..CallEffects::default() },
            ..ToolOutput::new(Content::Text(content), Value::Object(result))
        }
    }

    /// Returns the output of a successful command that printed a picture: the picture as a block for the model, and as
    /// a data URL for programs.
    fn success_with_picture(self, picture: &SentImage, stderr: String) -> ToolOutput {
        let SentImage { data, media_type } = picture;
        let mut blocks = vec![json!({
            "type": "image",
            "source": { "type": "base64", "data": data, "media_type": media_type },
        })];
        if !stderr.is_empty() {
            blocks.push(json!({ "type": "text", "text": stderr.trim_start() }));
        }
        let mut result = value(format!("data:{media_type};base64,{data}"), stderr, IsImage::Yes);
        result.insert("noOutputExpected".into(), false.into());
        ToolOutput {
            is_error: Some(false),
            ..ToolOutput::new(Content::Blocks(blocks), Value::Object(result))
        }
    }
}

/// Returns the fields that the value for programs begins with, for every command that ended.
fn value(stdout: String, stderr: String, is_image: IsImage) -> Map<String, Value> {
    let fields = [
        ("stdout", stdout.into()),
        ("stderr", stderr.into()),
        ("interrupted", false.into()),
        ("isImage", (is_image == IsImage::Yes).into()),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
