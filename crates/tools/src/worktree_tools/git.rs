//! Runs git so that it starts no program that an untrusted repository names.
//!
//! Git runs what it finds in the configuration and the hooks of a repository: a checkout alone runs `post-checkout`,
//! `core.fsmonitor` and the smudge filters. Without trust, every command gets a configuration over that of the
//! repository in which hooks, the file monitor, submodules and all filters are off, no protocol may be spoken, and
//! variables that direct git (`GIT_*`) do not reach it. What cannot be switched off this way is looked for before
//! (`facts.rs`).

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use lathe_exec::{Capture, Ended, Exit, Ledger, NoPlace, OutputLimit, PlaceLimit, RunLimits, Spec};
use tokio_util::sync::CancellationToken;

use super::refusal::WorktreeRefusal;
use crate::{CommandEnvironment, Workspace};

/// The time of a command that only looks something up.
pub(super) const LOOK: Duration = Duration::from_secs(60);

/// The time of a command that writes a work tree, which may be large.
pub(super) const WRITE: Duration = Duration::from_secs(600);

/// How much of an answer is kept; a longer one is not used.
const ANSWER_BYTES: usize = 1 << 20;

/// How much of the reason for a failure is shown.
const REASON_CHARS: usize = 500;

/// Whether the programs that a repository names may run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RepositoryTrust {
    /// They may: a person trusts the folder, or the caller vouches for it.
    Trusted,
    /// They may not.
    #[default]
    Untrusted,
}

/// The configuration for repositories without trust.
const OFF: [(&str, &str); 6] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.alternateRefsCommand", "false"),
    ("protocol.allow", "never"),
    ("safe.bareRepository", "explicit"),
    ("submodule.recurse", "false"),
];

/// Runs git for one agent.
#[derive(Clone)]
pub struct GitRunner {
    ledger: Ledger,
    places: PlaceLimit,
    /// The environment, without what directs git.
    variables: Vec<(String, String)>,
    /// Configuration over that of the repository and the user.
    overrides: Vec<(String, String)>,
    trust: RepositoryTrust,
}

/// What a command printed.
pub(super) struct GitAnswer {
    pub code: i32,
    pub stdout: Vec<u8>,
    stderr: String,
}

impl GitAnswer {
    /// Returns the first line of the output; empty if there is none.
    pub fn line(&self) -> String {
        String::from_utf8_lossy(&self.stdout).lines().next().unwrap_or_default().to_owned()
    }

    /// Returns what git says about a failure, cut to [`REASON_CHARS`] characters; the exit code if it says nothing.
    pub fn reason(&self) -> String {
        let text = self.stderr.trim();
        let text = text.strip_prefix("fatal: ").unwrap_or(text);
        if text.is_empty() {
            return format!("exit code {}", self.code);
        }
        text.chars().take(REASON_CHARS).collect()
    }
}

impl GitRunner {
    /// Returns a runner with the environment, the ledger and the limits of an agent. Variables `GIT_*` are left out in
    /// any case, because they may name another repository. Without trust it gives git only plain variables, and a
    /// configuration in which hooks and the like are off.
    pub fn new(workspace: &Workspace, trust: RepositoryTrust) -> Self {
        let wanted = match trust {
            RepositoryTrust::Trusted => CommandEnvironment::Whole,
            RepositoryTrust::Untrusted => CommandEnvironment::OnlyPlain,
        };
        let mut variables = workspace.env.of_child(wanted);
        // Where `lathe` runs below git, as in a hook, these name another repository.
        variables.retain(|(name, _)| !name.starts_with("GIT_") && !name.starts_with("LC_"));
        let mut fixed = vec![("LC_ALL", "C"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_EDITOR", "true")];
        let overrides: &[(&str, &str)] = match trust {
            RepositoryTrust::Trusted => &[],
            RepositoryTrust::Untrusted => {
                fixed.extend([("GIT_NO_LAZY_FETCH", "1"), ("GIT_ALLOW_PROTOCOL", "none")]);
                &OFF
            }
        };
        variables.extend(fixed.map_owned());
        Self {
            ledger: workspace.ledger.clone(),
            places: workspace.process_limits.commands.clone(),
            variables,
            overrides: overrides.to_vec().map_owned(),
            trust,
        }
    }

    /// Returns whether programs of the repository may run.
    pub(super) fn trust(&self) -> RepositoryTrust {
        self.trust
    }

    /// Returns the runner with these filters switched off. Filters that the user has set up for other repositories are
    /// included, because a file of the repository chooses the filter.
    pub(super) fn without_filters(mut self, names: &[String]) -> Self {
        for name in names {
            for (key, value) in [("smudge", ""), ("clean", ""), ("process", ""), ("required", "false")] {
                self.overrides.push((format!("filter.{name}.{key}"), value.to_owned()));
            }
        }
        self
    }

    /// Runs a command in a folder and returns what it says, whatever its exit code is. Fails if it cannot start, is
    /// killed, takes longer than `time` or prints too much. It first waits for a place in the limit of commands, also
    /// for up to `time`.
    pub(super) async fn ask(
        &self,
        folder: &Path,
        args: &[&OsStr],
        time: Duration,
        cancel: &CancellationToken,
    ) -> Result<GitAnswer, WorktreeRefusal> {
        let command = || name_of(args);
        let failed = |why: String| WorktreeRefusal::Git { command: command(), why };
        let place = self.places.place(time, cancel).await.map_err(|none| match none {
            NoPlace::Cancelled => WorktreeRefusal::Interrupted,
            NoPlace::NoneFree { .. } => failed(none.to_string()),
        })?;
        let limits = RunLimits {
            timeout: Some(time),
            stdout: capture(ANSWER_BYTES),
            stderr: capture(4 * REASON_CHARS),
            place: Some(place),
            ..RunLimits::default()
        };
        let finished = self.ledger.run(self.spec(folder, args), limits, cancel).await;
        let finished = finished.map_err(|error| failed(error.to_string()))?;
        match (finished.ended, finished.exit) {
            (Ended::Cancelled, _) => Err(WorktreeRefusal::Interrupted),
            (Ended::TimedOut, _) => Err(failed(format!("it took more than {} s", time.as_secs()))),
            (Ended::OutputLimit, _) => Err(failed("it printed more than 1 MB".to_owned())),
            (Ended::ByItself | Ended::Stopped, Exit::Code(code)) => {
                Ok(GitAnswer { code, stdout: finished.stdout.head, stderr: finished.stderr.to_text() })
            }
            (Ended::ByItself | Ended::Stopped, Exit::Signal(_) | Exit::Lost) => {
                Err(failed("it was killed".to_owned()))
            }
        }
    }

    /// Runs a command like [`Self::ask`]; an exit code other than 0 is an error with what git says.
    pub(super) async fn run(
        &self,
        folder: &Path,
        args: &[&OsStr],
        time: Duration,
        cancel: &CancellationToken,
    ) -> Result<GitAnswer, WorktreeRefusal> {
        let answer = self.ask(folder, args, time, cancel).await?;
        match answer.code {
            0 => Ok(answer),
            _ => Err(WorktreeRefusal::Git { command: name_of(args), why: answer.reason() }),
        }
    }

    /// Returns the process for a command: with the variables of the runner, and its overrides as configuration in them.
    fn spec(&self, folder: &Path, args: &[&OsStr]) -> Spec {
        let mut spec = Spec::new("git", folder);
        spec.args = args.iter().map(|arg| (*arg).to_owned()).collect();
        spec.env.clone_from(&self.variables);
        // In the environment and not as `-c NAME=VALUE`, because the name of a filter may contain a `=`.
        spec.env.push(("GIT_CONFIG_COUNT".to_owned(), self.overrides.len().to_string()));
        for (index, (key, value)) in self.overrides.iter().enumerate() {
            spec.env.push((format!("GIT_CONFIG_KEY_{index}"), key.clone()));
            spec.env.push((format!("GIT_CONFIG_VALUE_{index}"), value.clone()));
        }
        spec.label = format!("git {}", name_of(args));
        spec
    }
}

/// Returns the first words of a command, at most two, without its options, for people.
fn name_of(args: &[&OsStr]) -> String {
    let words = args.iter().map(|arg| arg.to_string_lossy()).take_while(|arg| !arg.starts_with('-'));
    words.take(2).collect::<Vec<_>>().join(" ")
}

/// Returns how an output is kept: up to `bytes`. A longer one ends the command, because half of an answer would be
/// wrong.
fn capture(bytes: usize) -> Capture {
    Capture { head_bytes: bytes, tail_bytes: 0, spill: None, limit: OutputLimit::KillAt(bytes as u64) }
}

/// Turns pairs of borrowed texts into owned ones.
trait MapOwned {
    /// Returns the pairs with both parts as owned strings.
    fn map_owned(self) -> Vec<(String, String)>;
}

impl MapOwned for Vec<(&str, &str)> {
    fn map_owned(self) -> Vec<(String, String)> {
        self.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}
