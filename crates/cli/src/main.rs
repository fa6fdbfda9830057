//! `lathe`: a coding agent as one small program. This file only finds out what was asked for; a run is
//! `plan.rs` → `lathe_launch::prepare` → `run.rs`, every other command is a file in `commands/`.

mod args;
mod commands;
mod environment;
mod pipe;
mod plan;
mod print;
mod process_limits;
mod progress;
mod refusal;
mod run;
mod session;
mod stdin;
mod stdio;
mod stdout;

use std::process::ExitCode;

use lathe_launch::{LATHE_VERSION, LaunchEnvironment, PROTOCOL_VERSION};

use args::Args;
use refusal::StartError;

/// Chooses between a command, version, help and a run. The limits are set first, before any child or thread exists.
fn main() -> ExitCode {
    let child_limits = process_limits::set();
    let words = environment::words();
    if let Some(command) = commands::find(&words) {
        return commands::run(command, &words[1..], environment::read(child_limits));
    }
    match Args::parse(words) {
        Ok(args) if args.has("version") => {
            print::line(format!("lathe {LATHE_VERSION} (protocol {PROTOCOL_VERSION})"));
            ExitCode::SUCCESS
        }
        Ok(args) if args.has("help") => {
            print::line(commands::help().trim_end());
            ExitCode::SUCCESS
        }
        Ok(args) => headless(&args, environment::read(child_limits)),
        Err(error) => refuse(&StartError::from(error), None),
    }
}

/// Runs a prompt without a terminal and returns the exit code. Without `-p` and with a terminal on stdout it prints a
/// hint instead, and that is a failure.
fn headless(args: &Args, env: LaunchEnvironment) -> ExitCode {
    if !args.has("print") && rustix::termios::isatty(rustix::stdio::stdout()) {
        print::note(
            "lathe works without a terminal session: give it a prompt with -p, or drive it with stream-json.\n\
             hint: lathe -p \"what does this project do?\"   (lathe --help shows the rest)",
        );
        return ExitCode::FAILURE;
    }
    match plan::make(args, &env) {
        Ok(plan) => run::run(plan, env),
        Err(error) => refuse(&error, Some((args, &env))),
    }
}

/// Reports why a run cannot start: to people on stderr and, if the host asked for it and the failure has a reason, as a
/// result on stdout. `run` is `None` if the flags could not be read. Reads the first lines of a streaming host before
/// it returns, and always returns a failure.
fn refuse(error: &StartError, run: Option<(&Args, &LaunchEnvironment)>) -> ExitCode {
    print::note(&error.message);
    if let (Some(reason), Some((args, env))) = (error.reason, run)
        && env.is_on("CLAUDE_CODE_STARTUP_FAILURE_RESULTS")
        && args.value("output-format") == Some("stream-json")
    {
        print::line(run::startup_failure(&error.message, reason));
    }
    if let Some((args, _)) = run
        && args.value("input-format") == Some("stream-json")
    {
        stdin::swallow_first_lines();
    }
    ExitCode::FAILURE
}
