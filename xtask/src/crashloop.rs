//! `cargo xtask crashloop N`: N scripted sessions with tools, each killed with `kill -9` at random instants and resumed
//! until all its turns are done. After every kill: nothing that the host has read is missing from the transcript, no id
//! occurs twice, every effect of a tool belongs to a recorded call, a call whose result was lost is reported to the
//! model, and no process is left. Half of the sessions (all with `--tasks`) have commands in the background: each that was
//! lost is told to the host once, and each end to the model.
//!
//! Everything random comes from one seed, which is printed first; `--seed` runs the same plan again (the instants
//! differ, because they depend on the machine). A session that fails a check is kept, with the input and output of each
//! of its lives.

mod dice;
mod life;
mod record;
mod script;
mod survivors;
mod tasks;
mod trial;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::Outcome;
use crate::repo::Repo;
use dice::Dice;
use script::Tasks;
use trial::{Tally, Trial};

/// The options of the command line.
#[derive(Debug, PartialEq)]
struct Options {
    sessions: usize,
    seed: Option<u64>,
    jobs: Option<usize>,
    binary: Option<PathBuf>,
    share: TaskShare,
}

/// Which sessions have commands in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskShare {
    /// Every other one.
    Half,
    /// All of them.
    All,
}

/// The parameters of a whole loop.
pub struct Loop {
    /// How many sessions.
    pub sessions: usize,
    /// The seed of all random numbers.
    pub seed: u64,
    /// How many sessions run at the same time.
    pub jobs: usize,
    /// The program.
    pub binary: PathBuf,
    /// Which sessions have commands in the background.
    pub share: TaskShare,
}

/// Reads the options, builds the program unless `--bin` names one, runs the loop and prints its summary.
pub fn run(args: &[String]) -> Result<Outcome> {
    let options = parse(args)?;
    let binary = match options.binary {
        Some(path) => path.canonicalize().with_context(|| format!("no such binary: {}", path.display()))?,
        None => crate::test::lathe_binary(&Repo::open()?)?,
    };
    Loop {
        sessions: options.sessions,
        seed: options.seed.unwrap_or_else(fresh_seed),
        jobs: options.jobs.unwrap_or_else(cores),
        binary,
        share: options.share,
    }
    .run()
}

/// Returns a seed that differs from run to run, from the clock; 1 if the clock is before 1970.
pub fn fresh_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64 % 1_000_000_000)
}

/// Returns the number of processors, the default number of sessions that run at the same time; 2 if it is not known.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(2, usize::from)
}

/// Reads the options of the command line. The number of sessions is required, and an unknown option is an error.
fn parse(args: &[String]) -> Result<Options> {
    let mut options = Options { sessions: 0, seed: None, jobs: None, binary: None, share: TaskShare::Half };
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut value = || rest.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--seed" => options.seed = Some(value()?.parse().context("--seed takes a number")?),
            "--jobs" => options.jobs = Some(value()?.parse().context("--jobs takes a number")?),
            "--tasks" => options.share = TaskShare::All,
            "--bin" => options.binary = Some(PathBuf::from(value()?)),
            number if number.parse::<usize>().is_ok_and(|sessions| sessions > 0) => {
                options.sessions = number.parse().context("a number of sessions")?;
            }
            other => {
                bail!("crashloop takes a number of sessions, --seed, --jobs, --tasks and --bin, not {other}")
            }
        }
    }
    if options.sessions == 0 {
        bail!("crashloop takes the number of sessions to run");
    }
    Ok(options)
}

impl Loop {
    /// Runs all sessions, `jobs` at the same time, and prints a summary. After the first that fails a check no further
    /// one is started, those that run are finished, and the outcome is bad. An undisturbed session runs before them; if
    /// it fails, that is an error.
    pub fn run(&self) -> Result<Outcome> {
        println!("crashloop: {} sessions, seed {}, {} at a time", self.sessions, self.seed, self.jobs);
        let started = Instant::now();
        // Kills are planned within the time that an undisturbed session takes on this machine now.
        let calm = trial::calm_session(&self.binary)?;
        let (next, broken) = (AtomicUsize::new(0), AtomicBool::new(false));
        let sum = Mutex::new((0_usize, Tally::default()));
        thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(|| {
                    while !broken.load(Ordering::Relaxed) {
                        let nth = next.fetch_add(1, Ordering::Relaxed);
                        if nth >= self.sessions {
                            break;
                        }
                        match self.run_session(nth, calm) {
                            Ok(tally) => self.note(&sum, tally, started),
                            Err(error) => {
                                broken.store(true, Ordering::Relaxed);
                                println!("session {nth} of seed {}: {error:#}", self.seed);
                            }
                        }
                    }
                });
            }
        });
        let (done, tally) = *sum.lock().unwrap_or_else(PoisonError::into_inner);
        println!(
            "crashloop: {done} sessions, {tally}, {:.1} s, seed {}",
            started.elapsed().as_secs_f64(),
            self.seed
        );
        Ok(if broken.into_inner() { Outcome::Bad } else { Outcome::Good })
    }

    /// Runs the session number `nth` and returns its counts. A session that ended before its planned kill does not
    /// count and is repeated with other dice.
    fn run_session(&self, nth: usize, calm: Duration) -> Result<Tally> {
        let mut dice = Dice::new(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(nth as u64));
        let with_tasks = self.share == TaskShare::All || nth % 2 == 1;
        let tasks = if with_tasks { Tasks::Some } else { Tasks::None };
        loop {
            // A kill that was planned for later than the session took did not happen: that was not a trial.
            let tally = Trial::new(&self.binary, Dice::new(dice.next()), calm, tasks)?.run()?;
            if tally.kills > 0 {
                return Ok(tally);
            }
        }
    }

    /// Adds the result of a session to the sum, and prints the progress after every 500 sessions.
    fn note(&self, sum: &Mutex<(usize, Tally)>, tally: Tally, started: Instant) {
        let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
        sum.0 += 1;
        sum.1 += tally;
        if sum.0.is_multiple_of(500) && sum.0 < self.sessions {
            println!("  {} sessions, {}, {:.0} s", sum.0, sum.1, started.elapsed().as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Options> {
        parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_number_of_sessions_is_needed() {
        let options = parsed(&["200", "--seed", "7", "--jobs", "3"]).unwrap();
        assert_eq!((options.sessions, options.seed, options.jobs), (200, Some(7), Some(3)));
        for args in [&[][..], &["0"], &["x"], &["5", "--seed"], &["5", "--seed", "x"]] {
            assert!(parsed(args).is_err(), "{args:?}");
        }
    }
}
