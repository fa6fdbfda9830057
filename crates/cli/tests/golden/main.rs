//! What the built program says, byte for byte: every folder of `conformance/golden` is run and compared with what
//! was recorded there. What varies from run to run is replaced by the filter of `testkit`; everything else is
//! compared, also what no client relies on, because a change that was not meant shows here first.
//!
//! `LATHE_GOLDEN=record cargo test -p lathe-cli --test golden` writes the files anew, `LATHE_GOLDEN_CASE=name`
//! picks cases by a part of their name. See `conformance/golden/README.md`.
#![allow(clippy::disallowed_methods, reason = "a test looks at the environment it runs in")]

mod case;
mod play;
mod store;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use play::PlayedCase;
use store::SharedParts;

/// Fewer cases than this mean that the folder was not found as a whole.
const AT_LEAST: usize = 60;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/golden")
}

/// The folders of the cases, in order.
fn cases(wanted: Option<&str>) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(golden()).expect("conformance/golden is part of the repository");
    let mut cases: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir() && !path.ends_with("shared"))
        .filter(|path| wanted.is_none_or(|wanted| name_of(path).contains(wanted)))
        .collect();
    cases.sort();
    cases
}

fn name_of(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Runs all cases, several at a time; the outcomes are in the order of the cases.
fn play_all(cases: &[PathBuf]) -> Vec<Result<PlayedCase, String>> {
    let workers = std::thread::available_parallelism().map_or(2, usize::from) + 1;
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((at, folder)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, cases.get(at)?)))
                {
                    let outcome = std::panic::catch_unwind(|| play::play(folder));
                    let outcome = outcome.unwrap_or_else(|panic| Err(panic_text(panic.as_ref())));
                    outcomes.lock().expect("nothing panics under the lock").push((at, outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().expect("nothing panics under the lock");
    outcomes.sort_by_key(|(at, _)| *at);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

#[test]
fn the_program_says_what_was_recorded() {
    let wanted = std::env::var("LATHE_GOLDEN_CASE").ok();
    let records = std::env::var("LATHE_GOLDEN").is_ok_and(|value| value == "record");
    assert!(!(records && std::env::var_os("CI").is_some()), "CI compares and never records");
    let cases = cases(wanted.as_deref());
    assert!(wanted.is_some() || records || cases.len() >= AT_LEAST, "only {} golden cases", cases.len());
    let whole = wanted.is_none();
    let mut shared =
        if records && whole { SharedParts::empty(&golden()) } else { SharedParts::load(&golden()) };
    let mut failures = Vec::new();
    for (folder, played) in cases.iter().zip(play_all(&cases)) {
        let differences = match played {
            Err(why) => vec![why],
            Ok(played) if records => store::record(folder, played, &mut shared).err().into_iter().collect(),
            Ok(played) => store::compare(folder, played, &mut shared),
        };
        if !differences.is_empty() {
            failures.push(format!("== {}\n{}", name_of(folder), differences.join("\n")));
        }
    }
    if records {
        shared.write().expect("the shared parts can be written");
    } else if whole && failures.is_empty() {
        let unused = shared.unused();
        assert!(unused.is_empty(), "no request names these files of shared/ any more: {unused:?}");
    }
    assert!(failures.is_empty(), "{} golden cases differ:\n{}", failures.len(), failures.join("\n\n"));
}
