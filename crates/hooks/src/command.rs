//! Command hooks: what is started, in which environment, and what becomes of it.

use std::path::Path;
use std::time::Duration;

use lathe_exec::{ExecError, ForegroundCommand, Leftovers, NoPlace, Place, Spec, StdinSource};
use lathe_protocol::settings::CommandHook;
use lathe_protocol::text::shorten;
use lathe_protocol::{HookEvent, HookInput};
use tokio::time::Instant;

use crate::answer::{Answer, At};
use crate::background::Adopted;
use crate::event::Facts;
use crate::frames::{FrameEnd, FrameWriter};
use crate::handler::Firing;
use crate::limit::StartTries;
use crate::merge::Speaker;
use crate::process::{Pause, Printed, Process, limits};
use crate::registry::sensible_time;
use crate::source::HookSource;
use crate::{ProblemKind, RunContext};

/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(500);

/// Returns the command with its arguments, as messages show it.
pub(crate) fn label(hook: &CommandHook) -> String {
    let mut label = hook.command.clone();
    for arg in hook.args.iter().flatten() {
        label.push(' ');
        label.push_str(arg);
    }
    label
}

/// Runs a command hook until it has ended or continues in the background, and returns its result. Waits for one of the
/// places for hook processes first; a hook that gets none, or cannot be started for lack of resources, counts as not
/// asked. A hook whose start a frame reports also gets a frame at its end.
pub(crate) async fn run(
    hook: &CommandHook,
    speaker: &Speaker,
    hook_id: &str,
    timeout: Duration,
    firing: &Firing<'_>,
) -> Answer {
    let cancel = firing.context.cancel;
    let facts = facts(hook, firing);
    let place = match firing.place(timeout).await {
        Ok(place) => place,
        Err(NoPlace::Cancelled) => return Answer::cancelled(),
        Err(none @ NoPlace::NoneFree { .. }) => {
            return Answer::not_asked(none.to_string(), &speaker.label, &facts);
        }
    };
    let frames = FrameWriter {
        sink: firing.context.events.clone(),
        shown: firing.facts.shown,
        hook_id: hook_id.to_owned(),
        hook_name: speaker.hook_name.clone(),
        hook_event: speaker.event.to_string(),
        session_id: firing.input.base.session_id.clone(),
    };
    frames.started(cancel).await;
    let mut tries = StartTries::new(facts.unasked, timeout);
    let started = loop {
        match start(hook, &speaker.source, firing) {
            Err(error) if error.is_exhaustion() && tries.again(cancel).await => {}
            started => break started,
        }
    };
    let process = match started {
        Ok(running) => Process::new(running, frames, firing.options.progress_every),
        // A cancelled wait between two tries leaves the last error behind, which is not the reason then.
        Err(_) if cancel.is_cancelled() => {
            frames.ended(&Printed::default(), FrameEnd::Cancelled, cancel).await;
            return Answer::cancelled();
        }
        Err(error) => {
            frames.ended(&Printed::default(), FrameEnd::Failed, cancel).await;
            if error.is_exhaustion() {
                return Answer::not_asked(tries.describe(&error.to_string()), &speaker.label, &facts);
            }
            return Answer::failed(ProblemKind::NotStarted(error.to_string()), &facts);
        }
    };
    follow(hook, process, place, speaker, timeout, firing).await
}

/// Returns what this hook may do to the event. A hook that is configured to run in the background cannot refuse,
/// because the event goes on before it has a result.
fn facts(hook: &CommandHook, firing: &Firing<'_>) -> Facts {
    if runs_in_background(hook) { firing.facts.without_veto() } else { firing.facts }
}

/// Returns whether the settings let the event continue while the hook runs. A hook may also ask for that in its
/// first line of output.
fn runs_in_background(hook: &CommandHook) -> bool {
    hook.async_rewake == Some(true) || hook.async_ == Some(true)
}

/// Waits for the result of a started command; it is killed at the timeout and when the run is cancelled. A hook that
/// asks for the background by its first line gets the `asyncTimeout` that it names, from then on, or else `timeout`
/// anew. The place is free again when this returns, or as soon as the command moves to the background.
async fn follow(
    hook: &CommandHook,
    mut process: Process,
    place: Place,
    speaker: &Speaker,
    timeout: Duration,
    firing: &Firing<'_>,
) -> Answer {
    let cancel = firing.context.cancel;
    let wakes = hook.async_rewake == Some(true);
    if runs_in_background(hook) {
        drop(place);
        return move_to_background(process, speaker, timeout, wakes, firing).await;
    }
    match process.watch(Instant::now() + timeout, cancel).await {
        Pause::Ended(exit) => {
            let printed = process.printed();
            process.frames.ended(&printed, FrameEnd::Exited(exit), cancel).await;
            let at = At { event: &speaker.event, facts: &firing.facts };
            Answer::of_command(&printed, &printed.stdout.text(), exit, &speaker.label, at)
        }
        Pause::TimedOut => {
            process.kill().await;
            process.frames.ended(&process.printed(), FrameEnd::Cancelled, cancel).await;
            Answer::failed(ProblemKind::TimedOut(timeout), &firing.facts)
        }
        Pause::Cancelled => {
            process.kill().await;
            process.frames.ended(&process.printed(), FrameEnd::Cancelled, cancel).await;
            Answer::cancelled()
        }
        Pause::SaysAsync(output) => {
            drop(place);
            let wanted = output.async_timeout.and_then(|ms| sensible_time(ms / 1000.0));
            move_to_background(process, speaker, wanted.unwrap_or(timeout), wakes, firing).await
        }
    }
}

/// Moves the process to the background and returns an empty result, so that the event goes on at once. If no slot is
/// free, the process is killed and the hook counts as failed.
async fn move_to_background(
    process: Process,
    speaker: &Speaker,
    timeout: Duration,
    wakes: bool,
    firing: &Firing<'_>,
) -> Answer {
    let adopted = Adopted {
        process,
        speaker: speaker.clone(),
        facts: firing.facts,
        timeout,
        wakes,
        spill_dir: firing.context.spill_dir.map(Path::to_owned),
    };
    let Err(homeless) = firing.background.adopt(adopted) else {
        return Answer::default();
    };
    let Process { frames, .. } = &homeless.process;
    // Beyond the limit no task would read its output or end it at its timeout.
    homeless.process.kill().await;
    frames.ended(&homeless.process.printed(), FrameEnd::Cancelled, firing.context.cancel).await;
    Answer::failed(ProblemKind::TooManyInBackground, &firing.facts)
}

/// Starts the command: directly if it has `args`, else in PowerShell or bash. Without bash it uses `/bin/sh`, unless
/// the hook names its shell. The input is on stdin, with a line end behind it.
fn start(
    hook: &CommandHook,
    source: &HookSource,
    firing: &Firing<'_>,
) -> Result<ForegroundCommand, ExecError> {
    let env = environment(firing.context, firing.input, source);
    let spec = |program: &str, args: Vec<String>| {
        let mut spec = Spec::new(program, firing.context.cwd);
        spec.args = args.into_iter().map(Into::into).collect();
        spec.env = env.clone();
        // `read` of a shell fails on a last line without a line end.
        spec.stdin = StdinSource::Bytes(format!("{}\n", firing.json).into_bytes().into());
        spec.label = format!("{} hook: {}", firing.hook_name, shorten(&hook.command, 80));
        spec.grace = GRACE;
        // Only its first line of output tells whether it may go on; see `process.rs`.
        spec.leftovers = Leftovers::UntilDropped;
        spec
    };
    let run = |spec| firing.services.ledger.start(spec, limits());
    if let Some(args) = &hook.args {
        let fill = |text: &str| fill_in_paths(text, &env);
        return run(spec(&fill(&hook.command), args.iter().map(|arg| fill(arg)).collect()));
    }
    let command = hook.command.clone();
    if hook.shell.as_deref() == Some("powershell") {
        let flags = ["-NoProfile", "-NonInteractive", "-Command"].map(str::to_owned);
        return run(spec("pwsh", flags.into_iter().chain([command]).collect()));
    }
    let shell_args = vec!["-c".to_owned(), command];
    match run(spec("bash", shell_args.clone())) {
        // Small systems have no bash; a hook that insists on it says so.
        Err(ExecError::Start { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound && hook.shell.is_none() =>
        {
            run(spec("/bin/sh", shell_args))
        }
        started => started,
    }
}

/// Returns the environment of a command hook, each name once: the variables that describe the event, and those of the
/// session except for exporters of telemetry and what hooks of this source must not get. `CLAUDE_ENV_FILE` is set only
/// for the events that may write to it.
fn environment(context: &RunContext<'_>, input: &HookInput, source: &HookSource) -> Vec<(String, String)> {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let mut added = vec![
        ("CLAUDECODE".to_owned(), "1".to_owned()),
        ("CLAUDE_CODE_CHILD_SESSION".to_owned(), "1".to_owned()),
        ("CLAUDE_CODE_SESSION_ID".to_owned(), input.base.session_id.clone()),
        ("CLAUDE_PROJECT_DIR".to_owned(), path(context.project_dir)),
    ];
    if let Some(effort) = &input.base.effort {
        added.push(("CLAUDE_EFFORT".to_owned(), effort.level.clone()));
    }
    if let Some(file) = context.env_file
        && matches!(
            input.event_name(),
            HookEvent::SessionStart | HookEvent::Setup | HookEvent::CwdChanged | HookEvent::FileChanged
        )
    {
        added.push(("CLAUDE_ENV_FILE".to_owned(), path(file)));
    }
    if let Some(plugin) = source.plugin() {
        added.push(("CLAUDE_PLUGIN_ROOT".to_owned(), path(&plugin.root)));
        added.push(("CLAUDE_PLUGIN_DATA".to_owned(), path(&plugin.data)));
        for (key, value) in &plugin.options {
            let key = key.to_uppercase().replace('-', "_");
            added.push((format!("CLAUDE_PLUGIN_OPTION_{key}"), value.clone()));
        }
    }
    // Each name once: it is not defined which of two equal names a program sees.
    let inherited = context.env.of(source).filter(|(name, _)| {
        !is_telemetry_exporter(name) && !added.iter().any(|(replaced, _)| replaced == name)
    });
    inherited.cloned().collect::<Vec<_>>().into_iter().chain(added).collect()
}

/// Returns whether a variable configures where telemetry is sent. Hooks must not find it, or programs that they start
/// would send theirs there.
fn is_telemetry_exporter(name: &str) -> bool {
    // A program in a hook that knows OpenTelemetry would otherwise report to the collector of the session.
    name.starts_with("OTEL_EXPORTER_")
        || matches!(name, "OTEL_METRICS_EXPORTER" | "OTEL_LOGS_EXPORTER" | "OTEL_TRACES_EXPORTER")
}

/// Replaces the placeholders for the folders of the project and of the plugin, such as `${CLAUDE_PROJECT_DIR}`, in a
/// part of a command that runs without a shell, because no shell expands them. A placeholder without a value stays.
fn fill_in_paths(text: &str, env: &[(String, String)]) -> String {
    let mut text = text.to_owned();
    for name in ["CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA"] {
        if let Some((_, value)) = env.iter().find(|(key, _)| key == name) {
            text = text.replace(&format!("${{{name}}}"), value);
        }
    }
    text
}
