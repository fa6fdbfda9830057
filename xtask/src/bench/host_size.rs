//! The cost of a command in a large host: the example `host_size` of `exec` allocates memory and runs `true` in it.
//!
//! Lathe itself is small, but a program that runs many sessions is not, and each command forks. The floor is a plain
//! child of the same host, which needs no copy of its page tables. The rows have no budget: the figures say whether a
//! remedy is needed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::figures::{Budget, Row, Unit};
use super::measure::{Bench, median, row};
use super::process;
use crate::repo::Repo;

/// Sizes of the host in megabytes, with their names for people.
const SIZES: [(usize, &str); 3] = [(100, "100 MB"), (1024, "1 GB"), (4096, "4 GB")];
/// Commands behind each median.
const COMMANDS: usize = 50;

/// Builds the example `host_size` of `exec`, which holds a given amount of memory and starts commands, and returns its
/// path.
pub fn build(repo: &Repo) -> Result<PathBuf> {
    let args = ["build", "--release", "--package", "lathe-exec", "--example", "host_size"];
    let status = repo.cargo(&args).status().context("failed to start cargo")?;
    if !status.success() {
        bail!("the release build of the example host_size failed");
    }
    Ok(repo.target_dir().join("release").join("examples").join("host_size"))
}

impl Bench<'_> {
    /// Returns one row for each size. A size that does not fit into the machine's memory has no figures.
    pub(super) fn host_sizes(&self) -> Result<Vec<Row>> {
        let available = available_megabytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default());
        let mut rows = vec![];
        for (size, name) in SIZES {
            let measured = if available.is_some_and(|available| available > size * 3 / 2) {
                let mut command = Command::new(&self.host_size);
                command.args([size.to_string(), COMMANDS.to_string()]);
                let finished = process::run(&mut command)?;
                finished.must_be_good("host_size")?;
                medians(&String::from_utf8_lossy(&finished.stdout.bytes))
            } else {
                Medians::default()
            };
            let what = format!("a command of a host of {name} (floor: a plain child)");
            let mut figures = vec![measured.ledger];
            figures.resize(self.subjects().count(), None);
            rows.push(row(&what, Unit::Milliseconds, figures, measured.plain, Budget::Open));
        }
        Ok(rows)
    }
}

/// In milliseconds.
#[derive(Debug, Default, PartialEq)]
struct Medians {
    ledger: Option<f64>,
    plain: Option<f64>,
}

/// Reads the medians from the output of the program, in milliseconds. A way of starting that the output does not have
/// is `None`.
fn medians(printed: &str) -> Medians {
    let of = |way: &str| {
        let lines = printed.lines().filter_map(|line| line.strip_prefix(way)?.strip_prefix(' '));
        let micros = lines.filter_map(|rest| rest.split(' ').next()?.parse::<f64>().ok());
        median(micros.map(|micros| micros / 1000.0).collect())
    };
    Medians { ledger: of("ledger"), plain: of("plain") }
}

/// Returns how much memory new programs may use without swapping, from the text of `/proc/meminfo`; `None` if it does
/// not say so.
fn available_megabytes(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: usize = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_are_told_apart() {
        let printed = "ledger 2000 900\nplain 1000\nledger 4000 100\nplain 500\nledger 3000 1\nplain 700\n";
        assert_eq!(medians(printed), Medians { ledger: Some(3.0), plain: Some(0.7) });
        assert_eq!(medians(""), Medians::default());
    }

    #[test]
    fn free_memory_is_read() {
        assert_eq!(available_megabytes("MemTotal: 9 kB\nMemAvailable:   2048000 kB\n"), Some(2000));
        assert_eq!(available_megabytes(""), None);
    }
}
