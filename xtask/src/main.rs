//! The maintenance commands of this repository: `cargo xtask test`, `cargo xtask bench` and `cargo xtask crashloop`.
//!
//! Everything that CI or a maintainer runs is here as Rust code, so that it works with plain cargo and is tested
//! itself. No crate of the workspace is linked: the checks must also run while one of them does not compile, which is
//! when they are needed most.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a maintainer's tool: it starts cargo, reads the environment and prints; it is never shipped"
)]

mod bench;
mod crashloop;
mod house;
mod repo;
mod test;
mod totals;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  test [--only STEP,…]   run every check and test, and close with one line of totals
                         steps: fmt, clippy, house, test, crashloop, conformance
  bench [options]        measure the release build side by side with curl
    --quick              fewer runs and turns
    --background         the rows about background commands only
    --runs N             runs per figure (default 20)
    --peer \"CMD …\"       measure another CLI with the same arguments (may be repeated)
    --bin PATH           measure this binary instead of building one
    --json               print the figures as JSON
    --write-readme       put the table into README.md
    --check              fail when a budget is missed
  crashloop N [options]  kill N scripted sessions with -9 at random instants, resume, check what is left
    --tasks              every session has commands in the background, not only half of them
    --seed S             the same plan of kills again
    --jobs N             sessions at the same time (default: one a core)
    --bin PATH           this binary instead of a debug build
";

/// Runs the command that the first word names. The exit code is 0 if all was good, 1 if something failed, and 2 for a
/// wrong command line or a command that could not do its work.
fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next();
    let rest: Vec<String> = args.collect();
    let outcome = match command.as_deref() {
        Some("test") => test::run(&rest),
        Some("bench") => bench::run(&rest),
        Some("crashloop") => crashloop::run(&rest),
        Some("help" | "--help" | "-h") => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        other => {
            if let Some(name) = other {
                eprintln!("error: no such command: {name}");
            }
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Bad) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// The outcome of a command that ran: an `Err` instead means that it could not do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Everything passed.
    Good,
    /// Something failed, and has been printed.
    Bad,
}
