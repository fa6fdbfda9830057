//! `cargo xtask bench`: the cost of the release build, measured next to the least that could do the same work.
//!
//! The machines are noisy, so every figure has a floor measured in the same run: `curl` sending the same request that
//! Lathe sent, `bash` running the same command as the tool turn. Runs of all subjects take turns, and medians are
//! compared. `measure.rs` has what is sent and timed; this module has only the options.

mod background;
mod figures;
mod host_size;
mod measure;
mod permission;
mod process;
mod readme;
mod search;
mod server;
mod sessions;
mod shell;
mod sse;
mod subject;
mod web;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::Outcome;
use crate::repo::Repo;
use measure::Effort;
use subject::Subject;

/// The options of the command line.
#[derive(Debug, PartialEq)]
struct Options {
    effort: Effort,
    peers: Vec<Subject>,
    binary: Option<PathBuf>,
    print: Print,
    write_readme: bool,
    check: bool,
    rows: Rows,
}

/// Which rows are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// All of them.
    All,
    /// Those about commands in the background.
    Background,
}

/// How the figures are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Print {
    Table,
    Json,
}

/// Builds the release program unless `--bin` names one, measures it and prints the figures. `--write-readme` also
/// changes README.md, and with `--check` a missed budget makes the outcome bad.
pub fn run(args: &[String]) -> Result<Outcome> {
    let options = parse(args)?;
    let repo = Repo::open()?;
    let binary = match &options.binary {
        Some(path) => {
            fs::canonicalize(path).with_context(|| format!("no such binary: {}", path.display()))?
        }
        None => build(&repo)?,
    };
    let lathe = Subject::new("lathe", vec![binary.to_string_lossy().into_owned()]);
    let figures = match options.rows {
        Rows::All => measure::all(&lathe, &options.peers, options.effort, host_size::build(&repo)?)?,
        Rows::Background => measure::background(&lathe, options.effort)?,
    };
    match options.print {
        Print::Table => print!("{}", figures.as_text()),
        Print::Json => println!("{:#}", figures.as_json()),
    }
    if options.write_readme {
        let path = repo.root.join("README.md");
        let text = fs::read_to_string(&path).context("failed to read README.md")?;
        let table = readme::section(&figures, options.effort);
        fs::write(&path, readme::replaced(&text, &table)?).context("failed to write README.md")?;
    }
    let missed = figures.missed();
    if !missed.is_empty() {
        eprintln!("over budget: {}", missed.join("; "));
    }
    Ok(if options.check && !missed.is_empty() { Outcome::Bad } else { Outcome::Good })
}

/// Reads the options of the command line. An unknown one is an error. `--runs` counts wherever `--quick` stands.
fn parse(args: &[String]) -> Result<Options> {
    let mut options = Options {
        effort: Effort::FULL,
        peers: vec![],
        binary: None,
        print: Print::Table,
        write_readme: false,
        check: false,
        rows: Rows::All,
    };
    let mut runs = None;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut value = || rest.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--quick" => options.effort = Effort::QUICK,
            "--json" => options.print = Print::Json,
            "--write-readme" => options.write_readme = true,
            "--background" => options.rows = Rows::Background,
            "--check" => options.check = true,
            "--bin" => options.binary = Some(PathBuf::from(value()?)),
            "--peer" => options.peers.push(Subject::peer(value()?)?),
            "--runs" => {
                let text = value()?;
                runs = Some(
                    text.parse()
                        .ok()
                        .filter(|runs| *runs > 0)
                        .with_context(|| format!("--runs takes a number of at least 1, not {text}"))?,
                );
            }
            other => bail!("bench has no option {other}"),
        }
    }
    options.effort.runs = runs.unwrap_or(options.effort.runs);
    Ok(options)
}

/// Builds the release program and returns its path. A build that fails is an error.
fn build(repo: &Repo) -> Result<PathBuf> {
    let status = repo
        .cargo(&["build", "--release", "--package", "lathe-cli"])
        .status()
        .context("failed to start cargo")?;
    if !status.success() {
        bail!("the release build failed");
    }
    Ok(repo.target_dir().join("release").join("lathe"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Options> {
        parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_in_any_order() {
        let options = parsed(&["--runs", "3", "--peer", "other-cli --fast", "--quick", "--json"]).unwrap();
        assert_eq!(options.effort, Effort { runs: 3, ..Effort::QUICK });
        assert_eq!(options.print, Print::Json);
        assert_eq!(options.peers, [Subject::new("other-cli", vec!["other-cli".into(), "--fast".into()])]);
        assert_eq!(parsed(&[]).unwrap().effort, Effort::FULL);
    }

    #[test]
    fn wrong_options_are_refused() {
        for args in [&["--nope"][..], &["--runs"], &["--runs", "0"], &["--runs", "x"], &["--peer", " "]] {
            assert!(parsed(args).is_err(), "{args:?}");
        }
    }
}
