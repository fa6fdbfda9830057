//! What the user's file for interactive shells costs a tool turn: nothing if it is empty, and little if it is full.
//!
//! The floor of both rows is the same turn without such a file, in sessions that take turns with the measured ones. The
//! first command of a session, which takes the snapshot, is one of many in the median.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};

use super::figures::{Budget, Row, Unit};
use super::measure::{Bench, SESSIONS, median_ms, row};
use super::server::Plan;

/// How many functions the full file has.
const FUNCTIONS: usize = 200;

/// How much slower a turn may be with an empty file: as much as two runs of the same differ.
const EMPTY: f64 = 1.1;

/// How much slower a turn may be with a full file, if its command uses nothing of it: the shell opens the snapshot, and
/// reads no function.
const FULL: f64 = 1.2;

impl Bench<'_> {
    /// Measures a tool turn of Lathe with an empty and with a full `.bashrc`; the floor of both is the turn without
    /// one, and peers have no figures. Removes the file at the end.
    pub(super) fn shell_files(&self) -> Result<[Row; 2]> {
        let turns = self.effort.turns;
        let path = self.place.path("home").join(".bashrc");
        let files = [None, Some(String::new()), Some(functions())];
        let mut times = [vec![], vec![], vec![]];
        for _ in 0..SESSIONS {
            for (file, times) in files.iter().zip(&mut times) {
                match file {
                    Some(text) => fs::write(&path, text).context("failed to write .bashrc")?,
                    None => drop(fs::remove_file(&path)),
                }
                let lathe = self.subjects().next().context("there is always Lathe")?;
                times.extend(self.session(lathe, Plan::ToolTurns(turns))?.rounds());
            }
        }
        fs::remove_file(&path).context("failed to remove .bashrc")?;
        let others = vec![None; self.subjects().count() - 1];
        let [without, empty, full] = times.map(median_ms);
        let made = |what: &str, figure, budget| {
            let figures = [vec![figure], others.clone()].concat();
            row(what, Unit::Milliseconds, figures, without, Budget::TimesFloor(budget))
        };
        let of_full = format!("a tool turn, {FUNCTIONS} functions in ~/.bashrc (floor: no such file)");
        Ok([
            made("a tool turn, an empty ~/.bashrc (floor: no such file)", empty, EMPTY),
            made(&of_full, full, FULL),
        ])
    }
}

/// Returns the text of the full file: [`FUNCTIONS`] functions of a usual size, and an alias for each tenth.
fn functions() -> String {
    let mut text = String::new();
    for number in 0..FUNCTIONS {
        let _ = write!(
            text,
            "task_{number}() {{\n    local name=\"$1\" found=\n    for found in \"$HOME\"/projects/*; do\n        \
             if [ \"${{found##*/}}\" = \"$name\" ]; then\n            cd \"$found\" || return {number}\n            \
             printf '%s\\n' \"$found\" >&2\n        fi\n    done\n}}\n"
        );
        if number % 10 == 0 {
            let _ = writeln!(text, "alias t{number}='task_{number} here'");
        }
    }
    text
}
