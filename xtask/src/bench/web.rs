//! The cost of a large page: fetched, converted and handed to the model that reads it, with `curl` as the floor.
//!
//! The time is that from the response that asks for the page to the request that quotes it. The page comes from the
//! server of the benchmark, which the settings of the run name. Peers do not fetch from this machine.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::figures::{Budget, Row, Unit};
use super::measure::{Bench, median, median_ms, megabytes, row};
use super::process;
use super::server::{PAGE_BYTES, PAGE_PATH, Plan};

/// How much longer than `curl` it may take, in milliseconds.
const BESIDES: f64 = 300.0;
/// The peak, as a multiple of the page.
const PEAK: f64 = 12.0;
/// Megabytes that a session may have more than before when the page has been read; the cache has its text.
const KEPT: f64 = 8.0;

impl Bench<'_> {
    /// Measures the time of a page, the peak of memory, and what is kept of it. Only Lathe is measured.
    pub(super) fn large_page(&self) -> Result<[Row; 3]> {
        let page = format!("{}{PAGE_PATH}", self.place.base_url());
        let settings = self.place.path("web-settings.json");
        let rules = json!({ "permissions": { "allow": ["WebFetch(domain:127.0.0.1)"] } });
        fs::write(&settings, rules.to_string()).context("failed to write settings")?;
        let command = || {
            let mut command = self.lathe().denied(&self.place);
            command.arg("--settings").arg(&settings);
            command
        };
        let turns = self.effort.runs;
        let plan = |turns| Plan::Fetches { turns, page: page.clone() };
        let mut floor = vec![];
        for _ in 0..turns {
            let mut curl: Command = self.place.command("curl");
            curl.args(["-q", "-sS", "-o", "/dev/null", &page]);
            floor.push(self.run("curl", curl, Plan::Text)?.total());
        }
        let run = self.run("lathe", command(), plan(turns))?;
        let arrivals = &run.seen.arrivals;
        if arrivals.len() != 2 * turns + 1 {
            bail!("lathe sent {} requests, and the plan has {}", arrivals.len(), 2 * turns + 1);
        }
        let times: Vec<Duration> =
            arrivals.chunks_exact(2).map(|pair| pair[1].duration_since(pair[0])).collect();
        self.server.begin(plan(1));
        let peak = process::peak_memory(&mut command())?.map(megabytes);
        self.server.end();
        let kept = self.kept(command(), plan(1))?;
        let size = megabytes(PAGE_BYTES as u64);
        let milliseconds = Unit::Milliseconds;
        let figures = |figure| [vec![figure], vec![None; self.subjects().count() - 1]].concat();
        Ok([
            row(
                &format!("a page of {size:.0} MB → its reader is asked (floor: curl)"),
                milliseconds,
                figures(median_ms(times)),
                median_ms(floor),
                Budget::AboveFloor(BESIDES),
            ),
            row("peak memory, that page", Unit::Megabytes, figures(peak), None, Budget::AtMost(PEAK * size)),
            row("memory kept of that page", Unit::Megabytes, figures(kept), None, Budget::AtMost(KEPT)),
        ])
    }

    /// Returns how many megabytes larger the session is at its last request than at its first; `None` if `/proc` does
    /// not have it.
    fn kept(&self, mut command: Command, plan: Plan) -> Result<Option<f64>> {
        self.server.begin(plan);
        process::run_watched(&mut command, |pid| self.server.watch(pid))?.must_be_good("lathe")?;
        let memory = self.server.end().memory;
        let grown = memory.first().zip(memory.last()).map(|(first, last)| last.saturating_sub(*first));
        Ok(median(grown.map(megabytes).into_iter().collect()))
    }
}
