//! `cargo xtask test`: everything that must pass before a commit, in one command.
//!
//! Each step runs even if an earlier one failed, so that one run shows every problem. Everything that can pass or fail
//! counts once in the totals: each test, each house check, and `fmt` and `clippy` as a whole. Programs read the closing
//! line; its form is fixed by a test in `totals.rs`.

mod conformance;
mod embed;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::repo::Repo;
use crate::totals::{self, Totals};
use crate::{Outcome, crashloop, house};

/// One part of the run, by the name that `--only` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Fmt,
    Clippy,
    House,
    Test,
    Crashloop,
    Conformance,
}

/// The number of sessions that are killed and resumed in every run.
const CRASHED_SESSIONS: usize = 200;

impl Step {
    const ALL: [Self; 6] =
        [Self::Fmt, Self::Clippy, Self::House, Self::Test, Self::Crashloop, Self::Conformance];

    /// Returns the name of the step on the command line.
    fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Clippy => "clippy",
            Self::House => "house",
            Self::Test => "test",
            Self::Crashloop => "crashloop",
            Self::Conformance => "conformance",
        }
    }

    /// Runs the step and returns what it counted. A step without tests of its own counts as one. An error means that it
    /// could not run.
    fn run(self, repo: &Repo) -> Result<Totals> {
        match self {
            Self::Fmt => one(&mut repo.cargo(&["fmt", "--all", "--check"])),
            Self::Clippy => one(&mut repo.cargo(&[
                "clippy",
                "--workspace",
                "--all-targets",
                "--quiet",
                "--",
                "-D",
                "warnings",
            ])),
            Self::House => house::run(repo),
            Self::Test => cargo_test(repo),
            Self::Crashloop => crashed_sessions(repo),
            Self::Conformance => conformance::run(repo, &lathe_binary(repo)?),
        }
    }
}

/// Runs the chosen steps in their order and prints the closing line. A step that cannot run counts as a failed test.
pub fn run(args: &[String]) -> Result<Outcome> {
    let steps = parse_args(args)?;
    let repo = Repo::open()?;
    let mut sum = Totals::default();
    for step in steps {
        println!("== {}", step.name());
        let started = Instant::now();
        let totals = step.run(&repo).unwrap_or_else(|error| {
            println!("error: {error:#}");
            Totals::FAILED
        });
        let word = if totals.failed > 0 { "failed" } else { "done" };
        println!("-- {} {word} in {:.1} s", step.name(), started.elapsed().as_secs_f64());
        sum += totals;
    }
    println!("{}", sum.closing_line());
    Ok(if sum.failed > 0 { Outcome::Bad } else { Outcome::Good })
}

/// Returns the steps to run in their fixed order; all of them without an option. An unknown step or option is an error.
fn parse_args(args: &[String]) -> Result<Vec<Step>> {
    let names = match args {
        [] => return Ok(Step::ALL.to_vec()),
        [flag, names] if flag == "--only" => names.clone(),
        [flag] if flag.starts_with("--only=") => flag["--only=".len()..].to_owned(),
        _ => bail!("test takes only `--only STEP,…`"),
    };
    let mut chosen = Vec::new();
    for name in names.split(',') {
        let step = Step::ALL.into_iter().find(|step| step.name() == name);
        chosen.push(step.with_context(|| format!("no such step: {name}"))?);
    }
    // The order is fixed, whatever the order on the command line: cheap checks come first.
    Ok(Step::ALL.into_iter().filter(|step| chosen.contains(step)).collect())
}

/// Runs a command that passes or fails as a whole, and counts it as one test. An error means that it could not be
/// started.
fn one(command: &mut Command) -> Result<Totals> {
    let status = command.status().context("failed to start cargo")?;
    Ok(if status.success() { Totals::PASSED } else { Totals::FAILED })
}

/// Builds the program, then runs the tests of every crate with `LATHE_BIN` set to it and prints their output. A failure
/// without a result line, as of a test that does not compile, counts as one failed test.
fn cargo_test(repo: &Repo) -> Result<Totals> {
    let mut command = test_command(repo, &lathe_binary(repo)?);
    let mut child = command.stdout(Stdio::piped()).spawn().context("failed to start cargo")?;
    let stdout = child.stdout.take().context("cargo has no stdout")?;
    let mut totals = Totals::default();
    let mut skipped = 0;
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.context("failed to read what cargo prints")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        totals += totals::of_libtest_line(&line).unwrap_or_default();
        skipped += usize::from(totals::says_skipped(&line));
    }
    let mut totals = totals.with_skipped(skipped);
    let status = child.wait().context("failed to wait for cargo")?;
    // A test that did not compile, or a runner that crashed, prints no result line.
    if !status.success() && totals.failed == 0 {
        totals += Totals::FAILED;
    }
    Ok(totals)
}

/// Returns the `cargo test` command for the program at `binary`. A snapshot that differs fails and is not written,
/// whatever the environment says, because a check must not change the repository.
fn test_command(repo: &Repo, binary: &Path) -> Command {
    let mut command = repo.cargo(&["test", "--workspace", "--no-fail-fast"]);
    command.env("LATHE_BIN", binary).env("INSTA_UPDATE", "no").env_remove("INSTA_FORCE_PASS");
    command
}

/// Runs the crash loop with [`CRASHED_SESSIONS`] sessions and a fresh seed; the whole loop counts as one test.
fn crashed_sessions(repo: &Repo) -> Result<Totals> {
    let all = crashloop::Loop {
        sessions: CRASHED_SESSIONS,
        seed: crashloop::fresh_seed(),
        jobs: crashloop::cores(),
        binary: lathe_binary(repo)?,
        share: crashloop::TaskShare::Half,
    };
    Ok(match all.run()? {
        Outcome::Good => Totals::PASSED,
        Outcome::Bad => Totals::FAILED,
    })
}

/// Builds the `lathe` program and returns its path.
///
/// The whole workspace is built, not only the one package: features are then chosen as `cargo test` chooses them, and
/// nothing is compiled twice.
pub fn lathe_binary(repo: &Repo) -> Result<PathBuf> {
    let status =
        repo.cargo(&["build", "--workspace", "--quiet"]).status().context("failed to start cargo")?;
    if !status.success() {
        bail!("the workspace does not build");
    }
    let binary = repo.target_dir().join("debug").join(format!("lathe{}", std::env::consts::EXE_SUFFIX));
    if !binary.is_file() {
        bail!("the build left no {}", binary.display());
    }
    Ok(binary)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(args: &[&str]) -> Result<Vec<Step>> {
        parse_args(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn without_arguments_every_step_runs() {
        assert_eq!(steps(&[]).unwrap(), Step::ALL);
    }

    #[test]
    fn chosen_steps_run_in_our_order() {
        assert_eq!(steps(&["--only", "house,fmt"]).unwrap(), [Step::Fmt, Step::House]);
        assert_eq!(steps(&["--only=test"]).unwrap(), [Step::Test]);
    }

    #[test]
    fn a_wrong_name_is_named() {
        let error = steps(&["--only", "fmt,nope"]).unwrap_err().to_string();
        assert_eq!(error, "no such step: nope");
        assert!(steps(&["--everything"]).is_err());
    }

    #[test]
    fn the_tests_write_no_snapshots() {
        let repo = Repo { root: PathBuf::from("/r"), metadata: serde_json::Value::Null };
        let command = test_command(&repo, Path::new("/r/lathe"));
        let update = command.get_envs().find(|(name, _)| *name == "INSTA_UPDATE");
        assert_eq!(update, Some(("INSTA_UPDATE".as_ref(), Some("no".as_ref()))));
    }
}
