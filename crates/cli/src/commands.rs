//! The commands besides a headless run, one file each.

mod auth;
mod demo;
mod doctor;
mod model;
mod models;
mod permissions;
mod sessions;
mod trust;

use std::process::ExitCode;

use lathe_launch::LaunchEnvironment;

use crate::print;

/// A command of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    Auth,
    Demo,
    Doctor,
    Model,
    Models,
    Permissions,
    Sessions,
    Trust,
}

/// Returns the command that the first word names, or `None` if the words are those of a run. A prompt that happens to
/// be such a word has to be given after `-p` or `--`.
pub fn find(words: &[String]) -> Option<Command> {
    match words.first()?.as_str() {
        "auth" => Some(Command::Auth),
        "demo" => Some(Command::Demo),
        "doctor" => Some(Command::Doctor),
        "model" => Some(Command::Model),
        "models" => Some(Command::Models),
        "permissions" => Some(Command::Permissions),
        "sessions" => Some(Command::Sessions),
        "trust" => Some(Command::Trust),
        _ => None,
    }
}

/// Runs a command with the words after its name, on an event loop of its own, and returns the exit code; an error is
/// printed on stderr. Commands never count as run by root: the one thing that root may not do is refused by the run
/// itself.
pub fn run(command: Command, words: &[String], env: LaunchEnvironment) -> ExitCode {
    let env = LaunchEnvironment { is_root: false, ..env };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            print::note(format!("error: cannot start the event loop: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(async {
        match command {
            Command::Auth => auth::run(words, &env),
            Command::Demo => demo::run(words, env).await,
            Command::Doctor => doctor::run(words, &env).await,
            Command::Model => model::run(words).await,
            Command::Models => models::run(words, &env).await,
            Command::Permissions => permissions::run(words, &env),
            Command::Sessions => sessions::run(words, &env),
            Command::Trust => trust::run(words, &env).await,
        }
    });
    runtime.shutdown_background();
    match outcome {
        Ok(code) => code,
        Err(error) => {
            print::note(format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Returns the text that `--help` prints. Flags that are known but not there yet are left out.
pub fn help() -> String {
    let mut text = String::from(
        "lathe — a coding agent as one small program\n\n\
         Usage:\n\
         \x20 lathe -p [flags] [--] PROMPT      run a prompt and print the answer\n\
         \x20 lathe demo                        watch an agent mend a failing program, no key needed\n\
         \x20 lathe doctor                      check settings, credential and model\n\
         \x20 lathe models                      the models there are\n\
         \x20 lathe auth status                 which credential would be used, and why\n\
         \x20 lathe model serve FILE            a scripted model for any Messages API client\n\
         \x20 lathe model record --upstream URL OUT\n\
         \x20                                   record a real model into a script\n\
         \x20 lathe permissions explain TOOL INPUT\n\
         \x20                                   what would become of a call, and why\n\
         \x20 lathe sessions list|show|verify|export\n\
         \x20                                   sessions that were saved\n\
         \x20 lathe trust [DIR]                 see what a folder brings, and let it count\n\n\
         Flags of a run:\n",
    );
    for flag in crate::args::FLAGS {
        let note = match flag.state {
            crate::args::State::Works => "",
            crate::args::State::Ignored => "  (accepted, no effect)",
            crate::args::State::NotYet => continue,
        };
        text.push_str(&format!("  {}{note}\n", flag.usage));
    }
    text
}
