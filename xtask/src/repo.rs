//! The repository: its root, its files, and what `cargo metadata` says about it.
//!
//! The file list comes from git and includes files that are not added yet, so that a check fails before the commit and
//! not after it. Ignored files are left out.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The repository that this program was built from.
pub struct Repo {
    /// The folder that holds the workspace's `Cargo.toml`.
    pub root: PathBuf,
    /// What `cargo metadata --no-deps` printed.
    pub metadata: Value,
}

impl Repo {
    /// Finds the repository that this program was built from and asks cargo for its metadata; fails if cargo does.
    pub fn open() -> Result<Self> {
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent folder")?.to_owned();
        let text = capture(Command::new(cargo()).current_dir(&root).args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
        ]))?;
        let metadata = serde_json::from_str(&text).context("cargo metadata printed no JSON")?;
        Ok(Self { root, metadata })
    }

    /// Returns the folder for cargo's build output, `target` at the root if the metadata does not name it.
    pub fn target_dir(&self) -> PathBuf {
        self.metadata["target_directory"].as_str().map_or_else(|| self.root.join("target"), PathBuf::from)
    }

    /// Returns every file that is tracked, or would be after `git add`: paths relative to the root, sorted. Files that
    /// are deleted in the working tree are left out.
    pub fn files(&self) -> Result<Vec<String>> {
        let text = capture(Command::new("git").current_dir(&self.root).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]))?;
        let mut files: Vec<String> =
            text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
        files.sort();
        files.dedup();
        // A file that is tracked but deleted in the working tree has nothing to check.
        files.retain(|path| self.root.join(path).is_file());
        Ok(files)
    }

    /// Returns a cargo command with these arguments that runs at the root; it is not started.
    pub fn cargo(&self, args: &[&str]) -> Command {
        let mut command = Command::new(cargo());
        command.current_dir(&self.root).args(args);
        command
    }
}

/// Returns the cargo that runs this program, or the one on the search path.
fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Runs a command and returns what it printed on stdout. Fails, with what it printed on stderr, if the command fails.
fn capture(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("failed to start {name}"))?;
    if !output.status.success() {
        bail!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{name} printed something that is not UTF-8"))
}
