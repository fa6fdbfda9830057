//! The programs of `conformance/embed/`, which are outside of the workspace and run sessions in their own process.
//!
//! They are built with the versions of the workspace's lock file: a copy of it is put next to their manifest, because
//! cargo modifies the file that it finds there. They share the target directory, so that only the crates of the
//! workspace are compiled again (cargo distinguishes crates by the workspace they are built from), and nothing is
//! fetched.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::repo::Repo;
use crate::totals::Totals;

/// Sessions that are open at the same time.
const SESSIONS: &str = "1000";

/// Builds the programs and runs each; every one counts as a test. Writes a copy of the workspace's lock file into
/// `folder`. Programs that do not build are an error.
pub fn run(repo: &Repo, folder: &Path) -> Result<Totals> {
    fs::copy(repo.root.join("Cargo.lock"), folder.join("Cargo.lock")).context("failed to copy Cargo.lock")?;
    let target = repo.target_dir();
    let status = repo
        .cargo(&["build", "--quiet", "--offline", "--bins", "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .status()
        .context("failed to start cargo")?;
    if !status.success() {
        bail!("the programs do not build");
    }
    let programs = target.join("debug");
    let scratch = tempfile::tempdir().context("failed to make a folder for the sessions")?;
    let mut many = Command::new(programs.join("many"));
    many.arg(scratch.path()).arg(SESSIONS);
    let mut sum = one(&mut Command::new(programs.join("lathe-embed")), |said| said == "You said: hello\n")?;
    sum += one(&mut many, |_| true)?;
    Ok(sum)
}

/// Runs a program and counts it as one test, which passes if the program succeeds and prints what `is_expected`
/// accepts.
fn one(program: &mut Command, is_expected: impl Fn(&str) -> bool) -> Result<Totals> {
    let name = program.get_program().to_string_lossy().into_owned();
    let output = program
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("failed to start {name}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}");
    let holds = output.status.success() && is_expected(&said);
    if !holds {
        println!("error: {name} failed ({})", output.status);
    }
    Ok(if holds { Totals::PASSED } else { Totals::FAILED })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_must_succeed_and_say_what_is_expected() {
        let sh = |text: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", text]);
            command
        };
        let is_hi = |said: &str| said == "hi\n";
        assert_eq!(one(&mut sh("echo hi"), is_hi).unwrap(), Totals::PASSED);
        assert_eq!(one(&mut sh("echo ho"), is_hi).unwrap(), Totals::FAILED);
        assert_eq!(one(&mut sh("echo hi; exit 1"), is_hi).unwrap(), Totals::FAILED);
        assert!(one(&mut Command::new("/no/such/program"), is_hi).is_err());
    }
}
