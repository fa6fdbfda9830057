//! Commands that do not end with their call: those that the model starts in the background, and those that are moved
//! there, by the host or because their time is up.

use std::sync::Arc;
use std::time::Duration;

use lathe_exec::{
    Ended, Exit, Finished, ForegroundCommand, ForegroundEnd, OutputLimit, OutputStream, RunLimits, SpillFile,
    WhenFull,
};
use lathe_protocol::text::first_chars;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{OUTPUT_KILL_BYTES, not_started, spec};
use crate::background::{FOREGROUND_TASK_AFTER, TASK_FILE_BYTES, exit_line};
use crate::{
    BackgroundPolicy, CommandTask, Content, TaskGround, TaskKind, TaskPlace, TaskStatus, ToolContext,
    ToolFailure, ToolOutput,
};

/// Bytes of a background command's output that memory keeps beside its file, in case the file cannot be written. Little,
/// because 64 commands of a session may run at once.
const TAIL_BYTES: usize = 16 << 10;

/// The longest time that a command can ask for in the background.
const LONGEST: Duration = Duration::from_millis(7_200_000);

/// Said of a background command that changes its folder.
const CWD_HINT: &str =
    "The session stays in its folder: a change of folder counts for the background command alone.";

/// One Bash call, as far as tasks are concerned.
pub(super) struct BashCall<'a> {
    pub command: &'a str,
    pub input: &'a Value,
    pub context: &'a ToolContext,
}

/// How the wait for a foreground command ended.
pub(super) enum Waited {
    /// The command ended.
    Finished(Box<Finished>),
    /// It continues as a task.
    Moved(TaskPlace, MovedBy),
}

/// Why a foreground command continues in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MovedBy {
    /// The host asked for it.
    Host,
    /// It took longer than its call may.
    Timeout(Duration),
}

impl BashCall<'_> {
    /// Returns whether the command is to run in the background from the start: the call asks for it and the session
    /// allows it.
    pub fn starts_in_background(&self) -> bool {
        self.input["run_in_background"].as_bool() == Some(true) && self.lifetime().is_some()
    }

    /// Returns whether the command moves to the background when its time is up, instead of being killed. A command
    /// that only waits (`sleep`) is killed, because nothing is lost.
    pub fn continues_after_timeout(&self) -> bool {
        let waits = self.command.split_whitespace().next() == Some("sleep");
        !waits && self.lifetime().is_some()
    }

    /// Returns how long a command may run in the background, or `None` if the session allows none there: the time that
    /// the call asks for, at most [`LONGEST`], or the default of the session if it asks for none or less than a
    /// millisecond.
    fn lifetime(&self) -> Option<Duration> {
        let BackgroundPolicy::For(default) = self.context.session.background_policy() else { return None };
        let asked = self.input["timeout"].as_f64().filter(|ms| *ms >= 1.0);
        let asked = asked.map(|ms| Duration::try_from_secs_f64(ms / 1000.0).unwrap_or(LONGEST));
        Some(asked.map_or(default, |asked| asked.min(LONGEST)))
    }

    /// Starts the command as a background task and returns at once with its id and output file. The task outlives the
    /// call. Fails, and leaves nothing running, if the session takes no further task or the output cannot be kept.
    pub async fn start_in_background(&self) -> Result<ToolOutput, ToolFailure> {
        let (workspace, session) = (&*self.context.workspace, &self.context.session);
        let place = session.new_task().map_err(|why| ToolFailure::Failed(format!("Not started: {why}")))?;
        let file = SpillFile {
            path: place.output_file.clone(),
            cap_bytes: TASK_FILE_BYTES,
            when_full: WhenFull::KeepTail,
            exit_line: Some(exit_line),
        };
        let limits = RunLimits {
            stdout: lathe_exec::Capture {
                head_bytes: 0,
                tail_bytes: TAIL_BYTES,
                spill: Some(file),
                limit: OutputLimit::KillAt(OUTPUT_KILL_BYTES),
            },
            ..RunLimits::default()
        };
        let running = workspace
            .ledger
            .start(spec(self.command, &workspace.cwd(), self.context), limits)
            .map_err(|error| not_started(&error, workspace))?;
        if let Err(why) = running.keep_in_file(OutputStream::Stdout, None) {
            // Dropped here, which kills the command: without the file its output would be lost.
            return Err(ToolFailure::Failed(format!("Not started: its output cannot be kept: {why}")));
        }
        running.detach(self.lifetime().unwrap_or(LONGEST));
        self.add_task(&place, &running, TaskGround::Background).await;
        let mut text = format!(
            "Command running in background with ID: {}. Output is being written to: {}. A notice follows when it \
             ends; until then, Read that file to see what it has printed.",
            place.id,
            place.output_file.display(),
        );
        let mut fields = Vec::new();
        if changes_folder(self.command) {
            text.push_str(&format!(" {CWD_HINT}"));
            fields.push(("backgroundCwdHint", CWD_HINT.into()));
        }
        Ok(self.result(text, String::new(), &place.id, fields))
    }

    /// Waits for the end of a foreground command. After a while the command becomes a task, so that the host can move
    /// it to the background; when its time is up it moves there, or is killed if it may not continue or the session
    /// takes no further task. `time` is what is left of the time it was `asked` to take.
    pub async fn wait(&self, running: &ForegroundCommand, time: Duration, asked: Duration) -> Waited {
        let cancel = &self.context.cancel;
        // One that is killed before it would become a task is not made one.
        let stays = time <= FOREGROUND_TASK_AFTER && !self.continues_after_timeout();
        if self.lifetime().is_none() || stays {
            return Waited::Finished(Box::new(running.finish(cancel).await));
        }
        let times_up = Instant::now() + time;
        let early =
            tokio::time::timeout(FOREGROUND_TASK_AFTER.min(time), running.wait_unless_detached(cancel));
        if let Ok(ForegroundEnd::Finished(finished)) = early.await {
            return Waited::Finished(finished);
        }
        let Ok(place) = self.context.session.new_task() else {
            return Waited::Finished(Box::new(finish_in_time(running, times_up, cancel).await));
        };
        self.add_task(&place, running, TaskGround::Foreground).await;
        let session = &self.context.session;
        tokio::select! {
            end = running.wait_unless_detached(cancel) => match end {
                ForegroundEnd::Finished(finished) => {
                    session.close_foreground_task(&place.id, status(&finished)).await;
                    Waited::Finished(finished)
                }
                ForegroundEnd::Detached => Waited::Moved(self.place_of(place), MovedBy::Host),
            },
            // One that does not continue is killed by `exec` when its time is up.
            () = tokio::time::sleep_until(times_up), if self.continues_after_timeout() => {
                if Arc::clone(session).move_to_background(&place.id).await {
                    return Waited::Moved(self.place_of(place), MovedBy::Timeout(asked));
                }
                let finished = finish_in_time(running, times_up, cancel).await;
                session.close_foreground_task(&place.id, status(&finished)).await;
                Waited::Finished(Box::new(finished))
            }
        }
    }

    /// Returns the result of a call whose command continues in the background.
    pub fn moved(&self, running: &ForegroundCommand, place: &TaskPlace, by: MovedBy) -> ToolOutput {
        let so_far = running.output(OutputStream::Stdout).to_text();
        let limit = self.context.workspace.limits.bash_output_chars;
        let printed = first_chars(so_far.trim_end(), limit).to_owned();
        let (why, field) = match by {
            MovedBy::Host => (
                "The user moved the command to the background".to_owned(),
                ("backgroundedByUser", Value::Bool(true)),
            ),
            MovedBy::Timeout(time) => {
                let seconds = time.as_millis() as f64 / 1000.0;
                let why = format!(
                    "Command did not complete within its {seconds}s timeout and goes on in the background"
                );
                (why, ("timedOutAfterMs", u64::try_from(time.as_millis()).unwrap_or(u64::MAX).into()))
            }
        };
        let text = format!(
            "{why} with ID: {}. Output is being written to: {}. A notice follows when it ends.",
            place.id,
            place.output_file.display(),
        );
        let content = if printed.is_empty() { text } else { format!("{printed}\n{text}") };
        self.result(content, printed, &place.id, vec![field])
    }

    /// Returns the output of a command that continues as task `id`; `further` is added to the value for programs.
    fn result(&self, content: String, stdout: String, id: &str, further: Vec<(&str, Value)>) -> ToolOutput {
        let mut result = json!({
            "stdout": stdout,
            "stderr": "",
            "interrupted": false,
            "isImage": false,
            "noOutputExpected": super::meaning::is_silent(self.command),
            "backgroundTaskId": id,
        });
        for (name, value) in further {
            result[name] = value;
        }
        ToolOutput { is_error: Some(false), ..ToolOutput::new(Content::Text(content), result) }
    }

    /// Registers the command as a task of the session, in the foreground or the background.
    async fn add_task(&self, place: &TaskPlace, running: &ForegroundCommand, ground: TaskGround) {
        let described = self.input["description"].as_str().filter(|text| !text.trim().is_empty());
        let task = CommandTask {
            place: place.clone(),
            kind: TaskKind::Shell,
            job: (**running).clone(),
            command: self.command.to_owned(),
            description: described.unwrap_or(self.command).to_owned(),
            tool_use_id: self.context.tool_use_id.clone(),
            ground,
        };
        Arc::clone(&self.context.session).add_task(task).await;
    }

    /// Returns the place with the output file that the session reports for the task, which may differ from the reserved
    /// one; without a report the reserved one stays.
    fn place_of(&self, place: TaskPlace) -> TaskPlace {
        let reported = self.context.session.task_output_file(&place.id);
        TaskPlace { output_file: reported.unwrap_or_else(|| place.output_file.clone()), ..place }
    }
}

/// Returns whether a command seems to change the folder of its shell. A word in a text may be taken for that; then the
/// hint for the model is needless.
fn changes_folder(command: &str) -> bool {
    let mut words = command.split(|c: char| c.is_whitespace() || ";|&()".contains(c));
    words.any(|word| matches!(word, "cd" | "pushd" | "popd" | "chdir"))
}

/// Waits for the end of a command, which is killed at `times_up`; then its end is reported as [`Ended::TimedOut`], as
/// if its own time limit had ended it.
async fn finish_in_time(
    running: &ForegroundCommand,
    times_up: Instant,
    cancel: &CancellationToken,
) -> Finished {
    let expired = cancel.child_token();
    tokio::select! {
        finished = running.finish(cancel) => return finished,
        () = tokio::time::sleep_until(times_up) => expired.cancel(),
    }
    let finished = running.finish(&expired).await;
    match finished.ended {
        Ended::Cancelled if !cancel.is_cancelled() => Finished { ended: Ended::TimedOut, ..finished },
        _ => finished,
    }
}

/// Returns the final status of a task whose command ended while its call waited. Only an end with exit code 0 counts as
/// completed; one that was stopped from outside counts as killed.
fn status(finished: &Finished) -> TaskStatus {
    match (finished.ended, finished.exit) {
        (Ended::ByItself, Exit::Code(0)) => TaskStatus::Completed,
        (Ended::ByItself, _) => TaskStatus::Failed,
        _ => TaskStatus::Killed,
    }
}
