//! Programs of others: the folders below `conformance/`. Most are the official SDKs, which run the built `lathe`.
//!
//! A folder with a `package.json` is run by node's own test runner, one with a `requirements.txt` by Python's
//! `unittest`; both get the program from `LATHE_BIN`. A folder with a `Cargo.toml` holds programs that use the library
//! instead of the program (`embed.rs`). Their requirements are installed into the folder's `node_modules` and into a
//! venv below `target/`, and only again when the list of requirements changes. If node or Python is missing the folder
//! is skipped and named; under `CI=true` that is a failure, because a skip would not be noticed there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::embed;
use crate::Outcome;
use crate::repo::Repo;
use crate::totals::{self, Totals};

/// What happens if node or Python is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// On a developer's machine: the folder is named and skipped.
    Skips,
    /// In CI: the run fails.
    Fails,
}

/// How many files node runs side by side. Its default is one less than there are processors, although most of the time
/// the cases wait: for processes to start, and some for the times that the protocol names.
const FILES_AT_ONCE: &str = "--test-concurrency=4";

/// The kinds of folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Node,
    Python,
    Rust,
}

/// Runs the tests of every folder below `conformance/` with the program at `binary`. A folder that cannot run counts as
/// one failed test, and one whose runtime is missing as skipped, or failed in CI.
pub fn run(repo: &Repo, binary: &Path) -> Result<Totals> {
    let folders = folders(&repo.root.join("conformance"))?;
    if folders.is_empty() {
        println!("no conformance tests yet");
    }
    let missing =
        if std::env::var("CI").is_ok_and(|ci| ci == "true") { Missing::Fails } else { Missing::Skips };
    let mut sum = Totals::default();
    for (folder, kind) in folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let program = match kind {
            Kind::Node => "node",
            Kind::Python => "python3",
            Kind::Rust => "cargo",
        };
        if !starts(program) {
            sum += left_out(&name, program, missing);
            continue;
        }
        println!("-- conformance/{name}");
        let result = match kind {
            Kind::Node => node(&folder, binary),
            Kind::Python => python(&folder, binary, &repo.target_dir().join("conformance").join(&name)),
            Kind::Rust => embed::run(repo, &folder),
        };
        // A failure in one folder says nothing about the next.
        sum += result.unwrap_or_else(|error| {
            println!("error: conformance/{name}: {error:#}");
            Totals::FAILED
        });
    }
    Ok(sum)
}

/// Returns the folders with tests, sorted, and what runs each, by the file that lists its dependencies. Empty if
/// `parent` does not exist; a folder without such a file is left out.
fn folders(parent: &Path) -> Result<Vec<(PathBuf, Kind)>> {
    let mut found = Vec::new();
    if !parent.is_dir() {
        return Ok(found);
    }
    for entry in fs::read_dir(parent).context("failed to list conformance/")? {
        let folder = entry.context("failed to list conformance/")?.path();
        if folder.join("package.json").is_file() {
            found.push((folder, Kind::Node));
        } else if folder.join("requirements.txt").is_file() {
            found.push((folder, Kind::Python));
        } else if folder.join("Cargo.toml").is_file() {
            found.push((folder, Kind::Rust));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// Prints that a folder cannot run because a program is missing, and counts it: as skipped, or as failed in CI.
fn left_out(name: &str, program: &str, missing: Missing) -> Totals {
    match missing {
        Missing::Skips => {
            println!("left out: conformance/{name} ({program} was not found)");
            Totals::SKIPPED
        }
        Missing::Fails => {
            println!(
                "error: conformance/{name} cannot run: {program} was not found, and CI leaves nothing out"
            );
            Totals::FAILED
        }
    }
}

/// Returns whether the program can be started and its `--version` succeeds.
fn starts(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Installs what the folder requires, if that has changed, and runs its tests with node, which gets the program from
/// `LATHE_BIN`. An installation that fails is an error.
fn node(folder: &Path, binary: &Path) -> Result<Totals> {
    let lists = [folder.join("package.json"), folder.join("package-lock.json")];
    let stamp = folder.join("node_modules").join(".installed-for");
    if !is_fresh(&stamp, &lists) {
        let verb = if lists[1].is_file() { "ci" } else { "install" };
        let quiet = ["--no-audit", "--no-fund", "--loglevel=error"];
        must(Command::new("npm").arg(verb).args(quiet).current_dir(folder))?;
        write_stamp(&stamp, &lists)?;
    }
    let mut command = Command::new("node");
    command
        .args(["--test", "--test-reporter=tap", FILES_AT_ONCE])
        .current_dir(folder)
        .env("LATHE_BIN", binary);
    let (text, end) = run_and_show(&mut command)?;
    Ok(checked(totals::of_tap(&text), end))
}

/// Installs what the folder requires into `venv`, if that has changed, and runs its tests with Python, which gets the
/// program from `LATHE_BIN`. An installation that fails is an error.
fn python(folder: &Path, binary: &Path, venv: &Path) -> Result<Totals> {
    let lists = [folder.join("requirements.txt")];
    let stamp = venv.join(".installed-for");
    let interpreter = venv.join("bin").join("python");
    if !is_fresh(&stamp, &lists) {
        must(Command::new("python3").args(["-m", "venv"]).arg(venv))?;
        let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
        must(Command::new(&interpreter).args(quiet).arg(&lists[0]))?;
        write_stamp(&stamp, &lists)?;
    }
    let mut command = Command::new(&interpreter);
    command.args(["-m", "unittest", "discover"]).current_dir(folder).env("LATHE_BIN", binary);
    let (text, end) = run_and_show(&mut command)?;
    Ok(checked(totals::of_unittest(&text), end))
}

/// Returns the counts of a runner. One without a summary counts as a failed test, and so does one with a bad exit code
/// and no failed test.
fn checked(read: Option<Totals>, end: Outcome) -> Totals {
    match read {
        Some(totals) if end == Outcome::Good || totals.failed > 0 => totals,
        Some(mut totals) => {
            totals += Totals::FAILED;
            totals
        }
        None => Totals::FAILED,
    }
}

/// Runs a command that has to succeed; its output goes to the terminal.
fn must(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("failed to start {name}"))?;
    if !status.success() {
        bail!("{name} failed ({status})");
    }
    Ok(())
}

/// Runs a command to its end, prints its output and returns it (stdout, then stderr, since `unittest` reports on
/// stderr) with whether it succeeded.
fn run_and_show(command: &mut Command) -> Result<(String, Outcome)> {
    let output = command.stdin(Stdio::null()).output().context("failed to start the conformance tests")?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    println!("{}", text.trim_end());
    Ok((text, if output.status.success() { Outcome::Good } else { Outcome::Bad }))
}

/// Returns whether the last installation was made for exactly these lists of dependencies; false if there was none.
fn is_fresh(stamp: &Path, lists: &[PathBuf]) -> bool {
    fs::read(stamp).is_ok_and(|found| found == joined(lists))
}

/// Records for which lists of dependencies the installation was made. Must be called only after it succeeded.
fn write_stamp(stamp: &Path, lists: &[PathBuf]) -> Result<()> {
    // npm creates no folder if nothing is required.
    if let Some(folder) = stamp.parent() {
        fs::create_dir_all(folder).with_context(|| format!("failed to make {}", folder.display()))?;
    }
    fs::write(stamp, joined(lists)).with_context(|| format!("failed to write {}", stamp.display()))
}

/// Returns the content of the lists as one sequence of bytes; a list that cannot be read counts as empty.
fn joined(lists: &[PathBuf]) -> Vec<u8> {
    lists.iter().flat_map(|list| fs::read(list).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_known_by_what_they_hold() {
        let dir = tempfile::tempdir().unwrap();
        for (path, kind) in [
            ("c-rs", "Cargo.toml"),
            ("b-ts", "package.json"),
            ("a-py", "requirements.txt"),
            ("docs", "README.md"),
        ] {
            fs::create_dir(dir.path().join(path)).unwrap();
            fs::write(dir.path().join(path).join(kind), "").unwrap();
        }
        let found = folders(dir.path()).unwrap();
        let kinds: Vec<Kind> = found.iter().map(|(_, kind)| *kind).collect();
        assert_eq!(kinds, [Kind::Python, Kind::Node, Kind::Rust]);
        assert!(folders(&dir.path().join("nowhere")).unwrap().is_empty());
    }

    #[test]
    fn a_missing_program_is_a_skip_here_and_a_failure_in_ci() {
        assert_eq!(left_out("python", "python3", Missing::Skips), Totals::SKIPPED);
        assert_eq!(left_out("python", "python3", Missing::Fails), Totals::FAILED);
    }

    #[test]
    fn a_runner_that_broke_counts_as_failed() {
        assert_eq!(checked(None, Outcome::Good), Totals::FAILED);
        assert_eq!(checked(Some(Totals::PASSED), Outcome::Good), Totals::PASSED);
        assert_eq!(checked(Some(Totals::PASSED), Outcome::Bad), Totals { passed: 1, failed: 1, skipped: 0 });
        assert_eq!(checked(Some(Totals::FAILED), Outcome::Bad), Totals::FAILED);
    }

    #[test]
    fn an_installation_is_kept_until_the_list_changes() {
        let dir = tempfile::tempdir().unwrap();
        let (list, stamp) = (dir.path().join("requirements.txt"), dir.path().join("stamp"));
        fs::write(&list, "a==1").unwrap();
        let lists = [list.clone()];
        assert!(!is_fresh(&stamp, &lists));
        write_stamp(&stamp, &lists).unwrap();
        assert!(is_fresh(&stamp, &lists));
        fs::write(&list, "a==2").unwrap();
        assert!(!is_fresh(&stamp, &lists));
    }
}
