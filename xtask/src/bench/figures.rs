//! The figures of a run, and how they are shown: as text, as Markdown, as JSON.
//!
//! A row holds one figure of every subject and of its floor, the least that could do the same work. Whether a budget is
//! met is decided here, from the figures alone.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// All rows, in the order they are shown.
#[derive(Debug, Default, PartialEq)]
pub struct Figures {
    /// The names of the peers, in the order of [`Row::peers`].
    pub peers: Vec<String>,
    /// One row per measurement.
    pub rows: Vec<Row>,
}

/// One measurement and its figures.
#[derive(Debug, PartialEq)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// What the figures count.
    pub unit: Unit,
    /// Lathe's figure.
    pub lathe: Option<f64>,
    /// The figure of the least that could do the same.
    pub floor: Option<f64>,
    /// The peers' figures.
    pub peers: Vec<Option<f64>>,
    /// The budget of Lathe's figure.
    pub budget: Budget,
}

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Milliseconds,
    Megabytes,
    Times,
    LinesPerSecond,
}

/// The largest figure allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// Only reported.
    Open,
    /// A plain limit in the row's unit.
    AtMost(f64),
    /// A multiple of the floor.
    TimesFloor(f64),
    /// So much above the floor, in the row's unit.
    AboveFloor(f64),
}

/// Whether a budget is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    Fail,
    /// No budget, or no figure to compare.
    Unknown,
}

impl Verdict {
    /// Returns the word in the last column of the table; empty without a budget.
    fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "FAIL",
            Self::Unknown => "",
        }
    }
}

impl Unit {
    /// Formats a figure with its unit, for people.
    fn show(self, figure: f64) -> String {
        match self {
            Self::Milliseconds => format!("{figure:.1} ms"),
            Self::Megabytes => format!("{figure:.1} MB"),
            Self::Times => format!("{figure:.2} ×"),
            Self::LinesPerSecond => format!("{figure:.0} /s"),
        }
    }

    /// Returns the name of the unit for programs.
    fn name(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::Megabytes => "MB",
            Self::Times => "times",
            Self::LinesPerSecond => "lines/s",
        }
    }
}

impl Row {
    /// Returns Lathe's figure as a multiple of the floor; `None` without a figure, or with a floor that is missing or
    /// 0.
    fn ratio(&self) -> Option<f64> {
        Some(self.lathe? / self.floor.filter(|floor| *floor > 0.0)?)
    }

    /// Compares Lathe's figure with its budget; `Unknown` without a budget or without the figures that it needs.
    pub fn verdict(&self) -> Verdict {
        let within = match self.budget {
            Budget::Open => None,
            Budget::AtMost(limit) => self.lathe.map(|figure| figure <= limit),
            Budget::TimesFloor(limit) => self.ratio().map(|ratio| ratio <= limit),
            Budget::AboveFloor(more) => {
                self.lathe.zip(self.floor).map(|(figure, floor)| figure <= floor + more)
            }
        };
        match within {
            Some(true) => Verdict::Pass,
            Some(false) => Verdict::Fail,
            None => Verdict::Unknown,
        }
    }

    /// Returns the budget as it stands in the table; empty if there is none.
    fn budget_text(&self) -> String {
        match self.budget {
            Budget::Open => String::new(),
            Budget::AtMost(limit) => format!("≤ {}", self.unit.show(limit)),
            Budget::TimesFloor(limit) => format!("≤ {limit} × floor"),
            Budget::AboveFloor(more) => format!("≤ floor + {}", self.unit.show(more)),
        }
    }

    /// Returns the cells of the row in the order of [`Figures::heads`]; a missing figure is `–`.
    fn cells(&self) -> Vec<String> {
        let show =
            |figure: Option<f64>| figure.map_or_else(|| "–".to_owned(), |figure| self.unit.show(figure));
        let ratio = self.ratio().map_or_else(|| "–".to_owned(), |ratio| Unit::Times.show(ratio));
        let mut cells = vec![self.what.clone(), show(self.lathe), show(self.floor), ratio];
        cells.extend(self.peers.iter().map(|figure| show(*figure)));
        cells.push(self.budget_text());
        cells.push(self.verdict().word().to_owned());
        cells
    }
}

impl Figures {
    /// Returns the names of the rows that miss their budget.
    pub fn missed(&self) -> Vec<String> {
        self.rows.iter().filter(|row| row.verdict() == Verdict::Fail).map(|row| row.what.clone()).collect()
    }

    /// Returns the headings of the columns; that of the verdict is empty.
    fn heads(&self) -> Vec<String> {
        let mut heads: Vec<String> = ["what", "lathe", "floor", "ratio"].map(str::to_owned).into();
        heads.extend(self.peers.iter().cloned());
        heads.extend(["budget", ""].map(str::to_owned));
        heads
    }

    /// Returns the table with aligned columns, for a terminal.
    pub fn as_text(&self) -> String {
        let mut table = vec![self.heads()];
        table.extend(self.rows.iter().map(Row::cells));
        let widths: Vec<usize> = (0..table[0].len())
            .map(|column| table.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for cells in table {
            let mut line = String::new();
            for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                let pad = " ".repeat(width - cell.chars().count());
                let aligned = if column == 0 { format!("{cell}{pad}") } else { format!("  {pad}{cell}") };
                line.push_str(&aligned);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Returns the table for README.md.
    pub fn as_markdown(&self) -> String {
        let heads = self.heads();
        let mut text = format!("| {} |\n|", heads.join(" | "));
        for column in 0..heads.len() {
            text.push_str(if column == 0 { " --- |" } else { " ---: |" });
        }
        text.push('\n');
        for row in &self.rows {
            writeln!(text, "| {} |", row.cells().join(" | ")).expect("writing to a string cannot fail");
        }
        text
    }

    /// Returns the figures for programs, each in the unit of its row. What was not measured is null, and so is `pass`
    /// of a row without a verdict.
    pub fn as_json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let peers: serde_json::Map<String, Value> =
                self.peers.iter().cloned().zip(row.peers.iter().map(|figure| json!(figure))).collect();
            json!({
                "what": row.what,
                "unit": row.unit.name(),
                "lathe": row.lathe,
                "floor": row.floor,
                "ratio": row.ratio(),
                "peers": peers,
                "budget": row.budget_text(),
                "pass": match row.verdict() {
                    Verdict::Pass => Some(true),
                    Verdict::Fail => Some(false),
                    Verdict::Unknown => None,
                },
            })
        });
        json!({ "rows": rows.collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: &str, lathe: f64, floor: Option<f64>, budget: Budget) -> Row {
        Row {
            what: what.to_owned(),
            unit: Unit::Milliseconds,
            lathe: Some(lathe),
            floor,
            peers: vec![None],
            budget,
        }
    }

    fn figures() -> Figures {
        Figures {
            peers: vec!["other".to_owned()],
            rows: vec![
                row("first request", 9.0, Some(6.0), Budget::TimesFloor(2.0)),
                row("a turn", 6.5, None, Budget::AtMost(5.0)),
                row("total", 12.0, Some(7.0), Budget::Open),
            ],
        }
    }

    #[test]
    fn budgets_are_judged_from_the_figures() {
        let verdicts: Vec<Verdict> = figures().rows.iter().map(Row::verdict).collect();
        assert_eq!(verdicts, [Verdict::Pass, Verdict::Fail, Verdict::Unknown]);
        assert_eq!(figures().missed(), ["a turn"]);
        assert_eq!(row("x", 1.0, None, Budget::TimesFloor(2.0)).verdict(), Verdict::Unknown);
        assert_eq!(row("x", 12.1, Some(6.0), Budget::TimesFloor(2.0)).verdict(), Verdict::Fail);
        assert_eq!(row("x", 9.0, Some(6.0), Budget::AboveFloor(3.0)).verdict(), Verdict::Pass);
        assert_eq!(row("x", 9.1, Some(6.0), Budget::AboveFloor(3.0)).verdict(), Verdict::Fail);
    }

    #[test]
    fn the_text_is_aligned() {
        assert_eq!(
            figures().as_text(),
            "what             lathe   floor   ratio  other       budget\n\
             first request   9.0 ms  6.0 ms  1.50 ×      –  ≤ 2 × floor  pass\n\
             a turn          6.5 ms       –       –      –     ≤ 5.0 ms  FAIL\n\
             total          12.0 ms  7.0 ms  1.71 ×      –\n"
        );
    }

    #[test]
    fn markdown_has_as_many_cells_in_every_line() {
        let text = figures().as_markdown();
        assert!(text.lines().all(|line| line.matches('|').count() == 8), "{text}");
    }

    #[test]
    fn json_names_the_peers() {
        let json = figures().as_json();
        assert_eq!(json["rows"][0]["pass"], true);
        assert_eq!(json["rows"][0]["peers"], json!({ "other": null }));
        assert_eq!(json["rows"][2]["pass"], Value::Null);
    }
}
