//! The cost of searching: Grep and Glob on a large tree, with `rg` doing the same as the floor.
//!
//! The figure is a whole turn, from the response that asks for the search to the next request; `rg` is a whole process.
//! Both find the same files. Without `rg` on the machine the rows have no floor and no verdict.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::figures::{Budget, Row, Unit};
use super::measure::{Bench, SESSIONS, median_ms, row};
use super::server::Plan;

/// The tree: the numbers of folders, of files in each, and of lines in each file.
const FOLDERS: usize = 100;
const FILES: usize = 100;
const LINES: usize = 60;
/// One in this many files holds the line that is searched for.
const RARE: usize = 97;

/// One search, for both sides.
struct Search {
    tool: &'static str,
    input: Value,
    rg: &'static [&'static str],
}

impl Bench<'_> {
    /// Measures Grep, then Glob, in a tree of many files, which is written before and removed afterwards.
    pub(super) fn searches(&self) -> Result<Vec<Row>> {
        plant(&self.place.path("work/tree"))?;
        let grep = Search {
            tool: "Grep",
            input: json!({ "pattern": r"needle_\d+", "path": "tree" }),
            rg: &["--hidden", "-l", r"needle_\d+", "tree"],
        };
        let glob = Search {
            tool: "Glob",
            input: json!({ "pattern": "tree/**/*7.rs" }),
            rg: &["--hidden", "--no-ignore", "--files", "-g", "tree/**/*7.rs"],
        };
        let rows = [self.search(&grep), self.search(&glob)].into_iter().collect();
        fs::remove_dir_all(self.place.path("work/tree")).context("failed to remove the tree")?;
        rows
    }

    /// Measures one search as the turns that call it. The floor is `rg` with the same search, or missing if `rg` is not
    /// installed.
    fn search(&self, search: &Search) -> Result<Row> {
        let turns = self.effort.runs;
        let mut times = vec![vec![]; self.subjects().count()];
        let mut floor = vec![];
        let has_rg = self.place.command("rg").arg("--version").output().is_ok();
        for _ in 0..SESSIONS {
            for _ in 0..if has_rg { turns } else { 0 } {
                let mut command = self.place.command("rg");
                command.args(search.rg);
                floor.push(self.run("rg", command, Plan::Text)?.total());
            }
            for (subject, times) in self.subjects().zip(&mut times) {
                let plan = Plan::Calls { turns, tool: search.tool, input: search.input.clone() };
                times.extend(self.session(subject, plan)?.rounds());
            }
        }
        let figures = times.into_iter().map(median_ms).collect();
        let what = format!("{} over {} files (floor: rg)", search.tool, FOLDERS * FILES);
        Ok(row(&what, Unit::Milliseconds, figures, median_ms(floor), Budget::TimesFloor(1.2)))
    }
}

/// Writes the tree in which the searches run; one file in [`RARE`] has the line that is searched for.
fn plant(root: &Path) -> Result<()> {
    let line = "    let mut total = values.iter().map(|value| value.weight()).sum::<f64>(); // and so on\n";
    let plain = line.repeat(LINES);
    for folder in 0..FOLDERS {
        let dir = root.join(format!("module_{folder:03}/src"));
        fs::create_dir_all(&dir).context("failed to make the tree")?;
        for file in 0..FILES {
            let rare = (folder * FILES + file).is_multiple_of(RARE);
            let text = if rare { format!("{plain}let needle_{file} = 1;\n") } else { plain.clone() };
            fs::write(dir.join(format!("file_{file:03}.rs")), text).context("failed to make the tree")?;
        }
    }
    Ok(())
}
