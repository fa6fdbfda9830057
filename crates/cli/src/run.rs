//! A headless run: connects the session with stdin, stdout and signals, and turns its end into an exit code.

use std::future::pending;
use std::process::ExitCode;
use std::time::Duration;

use lathe_agent::{SessionEnd, SessionSignals, SetupTrigger};
use lathe_launch::LaunchEnvironment;
use lathe_launch::host::{fresh_uuid, now_ms};
use lathe_launch::options::ResumeOption;
use lathe_protocol::{Outbound, ResultMessage, Usage};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::plan::{InputFormat, OutputFormat, RunPlan};
use crate::print;
use crate::progress::Progress;
use crate::refusal::StartError;
use crate::session;
use crate::stdin::{FatalInput, FirstLine, prompt_line, read_lines, read_text, swallow_first_lines};
use crate::stdout::{Written, write_frames};

/// The number of frames that may wait for a slow reader before the session itself waits.
const FRAME_QUEUE: usize = 256;

/// The number of lines that may wait for a busy session before reading stops.
const LINE_QUEUE: usize = 64;

/// How long a stopped run may take to end: meanwhile its tools are killed, which takes up to two seconds where they
/// refuse to end, their results and ends are written, and hooks run. Hosts wait five seconds before they kill.
const STOP_GRACE: Duration = Duration::from_secs(4);

/// The signal for a write beyond the file size limit of the process (Linux).
const SIGXFSZ: i32 = 25;

/// How a run ended.
enum RunEnd {
    Session(SessionEnd),
    ReaderGone,
    OutputFailed(std::io::Error),
    FatalInput(FatalInput),
    Killed(u8),
}

/// Runs a session by this plan to its end, on an event loop of its own, and returns the exit code of the program.
pub fn run(plan: RunPlan, env: LaunchEnvironment) -> ExitCode {
    for warning in &plan.warnings {
        print::note(warning);
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            print::note(format!("Error: cannot start the event loop: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(run_plan(plan, env));
    // Blocking work that still runs (such as a search in a huge tree) must not delay the exit.
    runtime.shutdown_background();
    code
}

/// Completes the prompt, prepares the session and supervises it. Returns the exit code after everything is written; old
/// sessions are deleted only then, and only if the session came to its own end.
async fn run_plan(mut plan: RunPlan, env: LaunchEnvironment) -> ExitCode {
    if plan.input == InputFormat::Text
        && plan.session.setup != Some(SetupTrigger::InitOnly)
        && let Err(message) = complete_prompt(&mut plan).await
    {
        print::note(message);
        return ExitCode::FAILURE;
    }
    let progress = if plan.output == OutputFormat::Text { Progress::on_terminal() } else { Progress::off() };
    let (output, input, prompt) = (plan.output, plan.input, plan.prompt.clone());
    let first = if plan.await_initialize { FirstLine::Initialize } else { FirstLine::Any };
    let tells_failures = env.is_on("CLAUDE_CODE_STARTUP_FAILURE_RESULTS");
    let mut prepared = match session::prepare(&plan.session, env) {
        Ok(prepared) => prepared,
        Err(error) => {
            refuse(&error, output, input);
            return ExitCode::FAILURE;
        }
    };
    let asks_nothing =
        input == InputFormat::Text && prompt.is_none() && plan.session.setup != Some(SetupTrigger::InitOnly);
    if asks_nothing && !prepared.has_deferred_call() {
        print::note(
            "Error: No deferred tool marker found in the resumed session: there is no call to take up. Give a \
             prompt to go on with the conversation.",
        );
        return ExitCode::FAILURE;
    }
    let retention = prepared.retention.take();
    let (frames, frames_out) = mpsc::channel(FRAME_QUEUE);
    let (lines, lines_in) = mpsc::channel(LINE_QUEUE);
    let signals = SessionSignals::default();
    let session = prepared.run(lines_in, frames, signals.clone());
    let writer = write_frames(output, frames_out, progress);
    let feeder = async {
        match (input, prompt) {
            (InputFormat::Text, Some(prompt)) => {
                // The error is ignored: it means that the session has already ended.
                let _ = lines.send(prompt_line(prompt)).await;
                drop(lines);
                Ok(())
            }
            (InputFormat::Text, None) => Ok(()),
            (InputFormat::StreamJson, _) => read_lines(lines, first).await,
        }
    };
    let end = supervise(session, writer, feeder, &signals).await;
    if let RunEnd::FatalInput(FatalInput { message, reason: Some(reason) }) = &end
        && tells_failures
    {
        print::line(startup_failure(message, reason));
    }
    if let (RunEnd::Session(_), Some(retention)) = (&end, retention) {
        // All output is written, so the host no longer waits for this process.
        retention.sweep_if_due(now_ms());
    }
    exit_code(end)
}

/// Reports why the session cannot start: to people on stderr and, for a failure that names a session, to programs on
/// stdout in their format. Then reads the first lines of a streaming host.
fn refuse(error: &StartError, output: OutputFormat, input: InputFormat) {
    print::note(&error.message);
    if let Some(session) = &error.session {
        let result = refused_result(&error.message, session);
        match output {
            OutputFormat::StreamJson | OutputFormat::Json => print::line(result),
            OutputFormat::JsonList => print::line(format!("[{result}]")),
            OutputFormat::Text => {}
        }
    }
    if input == InputFormat::StreamJson {
        swallow_first_lines();
    }
}

/// Runs the session, the writer and the reader of input concurrently until the session has ended and all is written, or
/// until something ends the run. After a fatal line or a signal the session is stopped and has [`STOP_GRACE`] to end,
/// unless a second signal comes; if writing fails or the reader of stdout is gone, it is stopped and waited for without
/// a limit. The end of the input ends nothing here.
async fn supervise(
    session: impl Future<Output = SessionEnd>,
    writer: impl Future<Output = std::io::Result<Written>>,
    feeder: impl Future<Output = Result<(), FatalInput>>,
    signals: &SessionSignals,
) -> RunEnd {
    let work = async {
        let writer = async {
            let written = writer.await;
            if !matches!(written, Ok(Written::All)) {
                signals.stop.cancel();
            }
            written
        };
        match tokio::join!(session, writer) {
            (end, Ok(Written::All)) => RunEnd::Session(end),
            (_, Ok(Written::ReaderGone)) => RunEnd::ReaderGone,
            (_, Err(error)) => RunEnd::OutputFailed(error),
        }
    };
    let feeding = async {
        match feeder.await {
            Ok(()) => pending().await,
            Err(fatal) => RunEnd::FatalInput(fatal),
        }
    };
    tokio::pin!(work, feeding);
    let mut from_outside = OutsideSignals::listen();
    let ended = tokio::select! {
        end = &mut work => return end,
        end = &mut feeding => end,
        code = from_outside.ended(signals) => RunEnd::Killed(code),
    };
    signals.stop.cancel();
    tokio::select! {
        _ = tokio::time::timeout(STOP_GRACE, &mut work) => {}
        // Who asks twice does not want to wait. The supervisors of the commands see that this process is gone, and end
        // them.
        () = from_outside.again() => {}
    }
    ended
}

/// The signals that end a run from outside.
struct OutsideSignals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hangup: Option<Signal>,
    /// Without a listener, a write beyond the file size limit would kill the process; with one, the write fails and the
    /// session goes on as with a full disk.
    _size_limit: Option<Signal>,
}

impl OutsideSignals {
    /// Begins to listen for the signals that end a run; one that cannot be listened for keeps its usual effect. Must be
    /// called inside the runtime.
    fn listen() -> Self {
        let listen = |kind| signal(kind).ok();
        Self {
            interrupt: listen(SignalKind::interrupt()),
            terminate: listen(SignalKind::terminate()),
            hangup: listen(SignalKind::hangup()),
            _size_limit: listen(SignalKind::from_raw(SIGXFSZ)),
        }
    }

    /// Waits for a signal that ends the run at once (terminate or hang-up), and returns its exit code. Ctrl-C does not:
    /// it tells the session to finish early, so that the turn ends with its result.
    async fn ended(&mut self, session: &SessionSignals) -> u8 {
        loop {
            tokio::select! {
                () = next(&mut self.terminate) => return 143,
                () = next(&mut self.hangup) => return 129,
                () = next(&mut self.interrupt) => session.finish_early.cancel(),
            }
        }
    }

    /// Waits for another terminate or hang-up signal, after [`Self::ended`] has returned.
    async fn again(&mut self) {
        tokio::select! {
            () = next(&mut self.terminate) => {}
            () = next(&mut self.hangup) => {}
        }
    }
}

/// Waits for the next signal of this listener. Never returns without a listener.
async fn next(listener: &mut Option<Signal>) {
    if let Some(listener) = listener
        && listener.recv().await.is_some()
    {
        return;
    }
    pending().await
}

/// Returns the exit code for an end, and prints the message of a failed input or output. An interrupted turn and a
/// reader that closed the pipe are a success.
fn exit_code(end: RunEnd) -> ExitCode {
    match end {
        RunEnd::Session(SessionEnd { last_was_error: true, interrupted: false }) => ExitCode::FAILURE,
        RunEnd::Session(_) | RunEnd::ReaderGone => ExitCode::SUCCESS,
        RunEnd::OutputFailed(error) => {
            print::note(format!("Error: cannot write to stdout: {error}"));
            ExitCode::FAILURE
        }
        RunEnd::FatalInput(FatalInput { message, .. }) => {
            print::note(message);
            ExitCode::FAILURE
        }
        RunEnd::Killed(code) => ExitCode::from(code),
    }
}

/// Combines the prompt of a text run from the command line and standard input, and puts it into the plan. `None` there
/// means no prompt, which only a resumed session may have; otherwise that is an error with its message.
async fn complete_prompt(plan: &mut RunPlan) -> Result<(), String> {
    let piped = read_text(plan.prompt.is_some())
        .await
        .map_err(|error| format!("Error: cannot read stdin: {error}"))?;
    let prompt = match (plan.prompt.take(), piped.trim_end_matches('\n')) {
        (Some(prompt), "") => prompt,
        (Some(prompt), piped) => format!("{prompt}\n{piped}"),
        (None, piped) => piped.to_owned(),
    };
    if prompt.trim().is_empty() && plan.session.resume != ResumeOption::No {
        // The session may have a deferred call to resume.
        plan.prompt = None;
        return Ok(());
    }
    if prompt.trim().is_empty() {
        return Err(
            "Error: Input must be provided either through stdin or as a prompt argument when using --print"
                .to_owned(),
        );
    }
    plan.prompt = Some(prompt);
    Ok(())
}

/// Returns the result line of a run whose session cannot be resumed, as JSON without a line break.
fn refused_result(message: &str, session: &str) -> String {
    let result = ResultMessage {
        subtype: "error_during_execution".to_owned(),
        is_error: true,
        errors: Some(vec![message.to_owned()]),
        usage: Usage::default().result_shape(),
        session_id: session.to_owned(),
        uuid: fresh_uuid(),
        result_index: Some(0),
        ..ResultMessage::default()
    };
    serde_json::to_string(&Outbound::from(result)).unwrap_or_default()
}

/// Returns the result line of a run that could not start, for hosts that ask for one; `reason` is its
/// `startup_failure_reason`. It names a fresh session id, because no session exists.
pub fn startup_failure(message: &str, reason: &str) -> String {
    let result = ResultMessage {
        subtype: "error_during_execution".to_owned(),
        is_error: true,
        errors: Some(vec![message.to_owned()]),
        startup_failure_reason: Some(reason.to_owned()),
        usage: Usage::default().result_shape(),
        session_id: fresh_uuid(),
        uuid: fresh_uuid(),
        result_index: Some(0),
        ..ResultMessage::default()
    };
    serde_json::to_string(&Outbound::from(result)).unwrap_or_default()
}
