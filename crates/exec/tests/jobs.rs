//! Commands as jobs: detached from their caller, read while they run and later, waited for again.

mod support;

use std::path::Path;
use std::time::Duration;

use lathe_exec::{
    Capture, CommandJob, DetachOutcome, Ended, Exit, ForegroundEnd, JobEvent, JobEvents, Ledger, Leftovers,
    OutputLimit, OutputMode, OutputStream, PlaceKind, PlaceLimit, RunLimits, Spec, SpillFile, WhenFull,
};
use support::{new_cookie, nobody_left, sh, survivors, text};
use tokio_util::sync::CancellationToken;

const MINUTE: Duration = Duration::from_secs(60);

fn exit_line(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("\n[exited with code {code}]\n"),
        Exit::Signal(signal) => format!("\n[killed by signal {signal}]\n"),
        Exit::Lost => "\n[lost]\n".to_owned(),
    }
}

/// Keeps little in memory, and up to `cap_bytes` in a file.
fn limits(file: &Path, cap_bytes: u64) -> RunLimits {
    let spill = SpillFile {
        path: file.to_owned(),
        cap_bytes,
        when_full: WhenFull::KeepHead,
        exit_line: Some(exit_line),
    };
    RunLimits {
        stdout: Capture { head_bytes: 1000, tail_bytes: 1000, spill: Some(spill), limit: OutputLimit::None },
        ..RunLimits::default()
    }
}

/// A script of which `$GO` is a file that a test makes when the script is to go on.
fn waiting(script: &str, go: &Path, cookie: &str) -> Spec {
    let script = script.replace("WAIT", "while [ ! -e \"$GO\" ]; do sleep 0.01; done");
    let mut spec = sh(&script, cookie);
    spec.env.push(("GO".into(), go.display().to_string()));
    spec.output = OutputMode::Merged;
    spec
}

/// Until this much was printed. Every wait of a test has an end.
async fn printed(events: &mut JobEvents, bytes: u64) {
    let enough = async {
        while let Some(event) = events.next().await {
            if matches!(event, JobEvent::OutputGrew { total_bytes } if total_bytes >= bytes) {
                return;
            }
        }
        panic!("it ended before");
    };
    in_time(enough).await;
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("in time")
}

/// The whole output, read in pieces.
fn read_all(job: &CommandJob, piece: usize) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let part = job.read_from(OutputStream::Stdout, whole.len() as u64, piece);
        assert!(part.bytes.len() <= piece);
        assert_eq!(part.offset, whole.len() as u64, "nothing is left out");
        if part.bytes.is_empty() {
            return whole;
        }
        whole.extend(part.bytes);
    }
}

#[tokio::test]
async fn a_foreground_command_is_detached_read_and_waited_for_again() {
    let directory = tempfile::tempdir().unwrap();
    let (go, file) = (directory.path().join("go"), directory.path().join("deep/out.txt"));
    let cookie = new_cookie();
    let ledger = Ledger::default();
    let spec = waiting("echo one; WAIT; echo two; exit 7", &go, &cookie);
    let command = ledger.start(spec, limits(&file, 1 << 20)).unwrap();
    let job = command.clone();

    // A watcher that sees it print something sends it to the background; the caller is told.
    let sends_away = async {
        printed(&mut job.events(), 4).await;
        assert!(!file.exists(), "as long as it is in the foreground, memory is enough");
        assert_eq!(job.detach(MINUTE), DetachOutcome::Detached);
    };
    let cancel = CancellationToken::new();
    let (end, ()) = in_time(async { tokio::join!(command.wait_unless_detached(&cancel), sends_away) }).await;
    assert!(matches!(end, ForegroundEnd::Detached));
    cancel.cancel();
    drop(command);
    assert!(job.is_running());
    assert_eq!(survivors(&cookie).first(), Some(&job.pid()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\n", "from the first byte on");
    assert_eq!(job.read_from(OutputStream::Stdout, 0, 100).bytes, b"one\n");

    // Another caller attaches to it again, from the ledger.
    drop(job);
    let [job] = &ledger.jobs()[..] else { panic!("one job") };
    std::fs::write(&go, "").unwrap();
    let (first, second) = in_time(async { tokio::join!(job.wait(), job.wait()) }).await;
    for finished in [first, second, in_time(job.wait()).await] {
        assert_eq!((finished.exit, finished.ended), (Exit::Code(7), Ended::ByItself));
        assert_eq!(text(&finished.stdout.tail), "one\ntwo\n");
    }
    assert_eq!(job.read_from(OutputStream::Stdout, 4, 100).bytes, b"two\n");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\ntwo\n\n[exited with code 7]\n");
    assert_eq!(job.detach(MINUTE), DetachOutcome::AlreadyEnded);
    in_time(job.wait_gone()).await;
    assert_eq!(survivors(&cookie), []);
    assert!(ledger.jobs().is_empty());
}

#[tokio::test]
async fn a_detached_command_ends_with_its_new_time_and_forgets_the_old_one() {
    let cookie = new_cookie();
    let ledger = Ledger::default();
    let mut spec = sh("echo on; sleep 1000", &cookie);
    spec.grace = Duration::ZERO;
    let within = |timeout| RunLimits { timeout: Some(timeout), ..RunLimits::default() };
    let command = ledger.start(spec.clone(), within(Duration::from_millis(300))).unwrap();
    printed(&mut command.events(), 3).await;
    command.detach(MINUTE);
    let old_time = tokio::time::timeout(Duration::from_millis(600), command.wait());
    assert!(old_time.await.is_err(), "it lives on");
    command.kill_now();
    assert_eq!(in_time(command.wait()).await.ended, Ended::Stopped);

    let command = ledger.start(spec, within(MINUTE)).unwrap();
    command.detach(Duration::from_millis(100));
    let finished = in_time(command.wait()).await;
    assert_eq!((finished.ended, finished.exit), (Ended::TimedOut, Exit::Signal(9)));
    nobody_left(&cookie).await;
}

#[tokio::test]
async fn dropping_a_foreground_command_ends_its_tree_and_a_handle_does_not() {
    let cookie = new_cookie();
    let ledger = Ledger::default();
    let command = ledger.start(sh("sleep 1000 & sleep 1000", &cookie), RunLimits::default()).unwrap();
    let job = command.clone();
    drop(job.clone());
    assert!(!survivors(&cookie).is_empty());
    drop(command);
    let finished = in_time(job.wait()).await;
    assert_eq!((finished.ended, finished.exit), (Ended::Cancelled, Exit::Signal(15)));
    assert_eq!(survivors(&cookie), [], "the end is told when the whole tree is gone");
}

#[tokio::test]
async fn leftovers_can_be_bound_to_the_foreground_command() {
    let cookie = new_cookie();
    let ledger = Ledger::default();
    let mut spec = sh("sleep 1000 >/dev/null 2>&1 & echo done", &cookie);
    spec.leftovers = Leftovers::UntilDropped;
    let command = ledger.start(spec, RunLimits::default()).unwrap();
    assert_eq!(in_time(command.exit()).await, Exit::Code(0));
    assert_eq!(survivors(&cookie).len(), 1);
    drop(command);
    nobody_left(&cookie).await;
}

#[tokio::test]
async fn events_tell_everything_once_and_also_to_those_who_come_late() {
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let ledger = Ledger::default();
    let spec = waiting("echo one; WAIT; echo two; kill -9 $$", &go, &new_cookie());
    let command = ledger.start(spec, RunLimits::default()).unwrap();
    let mut early = command.events();
    assert_eq!(in_time(early.next()).await, Some(JobEvent::Started { pid: command.pid() }));
    assert_eq!(in_time(early.next()).await, Some(JobEvent::OutputGrew { total_bytes: 4 }));
    std::fs::write(&go, "").unwrap();
    let exited = JobEvent::Exited { exit: Exit::Signal(9), ended: Ended::ByItself };
    assert_eq!(in_time(early.next()).await, Some(JobEvent::OutputGrew { total_bytes: 8 }));
    assert_eq!(in_time(early.next()).await, Some(exited));
    assert_eq!(in_time(early.next()).await, Some(JobEvent::Gone));
    assert_eq!(in_time(early.next()).await, None);

    let mut late = command.events();
    let mut told = Vec::new();
    while let Some(event) = in_time(late.next()).await {
        told.push(event);
    }
    let all = [JobEvent::Started { pid: command.pid() }, JobEvent::OutputGrew { total_bytes: 8 }, exited];
    assert_eq!(told[..3], all);
    assert_eq!(told[3..], [JobEvent::Gone]);
}

#[tokio::test]
async fn a_hundred_megabytes_stay_within_bounds() {
    const TOTAL: u64 = 100_000_000;
    const CAP: u64 = 1 << 20;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("out.txt");
    let ledger = Ledger::default();
    let spec = sh("head -c 99999996 /dev/zero; echo end", &new_cookie());
    let command = ledger.start(spec, limits(&file, CAP)).unwrap();
    command.detach(MINUTE);
    let mut events = command.events();
    let mut caps = 0;
    while let Some(event) = in_time(events.next()).await {
        caps += u32::from(event == JobEvent::OutputCapReached);
    }
    assert_eq!(caps, 1);
    let captured = in_time(command.wait()).await.stdout;
    assert_eq!(captured.total_bytes, TOTAL);
    assert_eq!((captured.head.len(), captured.tail.len()), (0, 1000));
    assert!(captured.tail.ends_with(b"end\n"));
    assert_eq!(captured.spill.unwrap().bytes, CAP);
    let line = exit_line(Exit::Code(0));
    assert_eq!(std::fs::metadata(&file).unwrap().len(), CAP + line.len() as u64);
    // What is neither in the file nor in the tail is left out, and the offset tells.
    let part = command.read_from(OutputStream::Stdout, CAP, 5000);
    assert!(part.offset >= TOTAL - 2000, "{}", part.offset);
    assert!(part.bytes.ends_with(b"end\n"));
    assert_eq!(part.next_offset(), TOTAL);
}

#[tokio::test]
async fn a_slow_reader_holds_up_nobody_and_misses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("out.txt");
    let ledger = Ledger::default();
    let command = ledger.start(sh("seq 1 50000", &new_cookie()), limits(&file, 1 << 20)).unwrap();
    let mut slow = command.events();
    assert!(matches!(in_time(slow.next()).await, Some(JobEvent::Started { .. })));
    let finished = in_time(command.wait()).await;
    assert_eq!(finished.exit, Exit::Code(0));
    in_time(command.wait_gone()).await;
    // All that it slept through comes as one step.
    let total_bytes = finished.stdout.total_bytes;
    assert_eq!(in_time(slow.next()).await, Some(JobEvent::OutputGrew { total_bytes }));
    let whole: String = (1..=50_000).map(|number| format!("{number}\n")).collect();
    for piece in [997, 100_000] {
        // Out of the head, the file and the tail.
        assert!(read_all(&command, piece) == whole.as_bytes(), "pieces of {piece}");
    }
    std::fs::remove_file(&file).unwrap();
    let part = command.read_from(OutputStream::Stdout, 1500, 100_000);
    assert_eq!(part.next_offset(), total_bytes, "only the tail is left");
    assert!(part.bytes.ends_with(b"\n50000\n"));
}

#[tokio::test]
async fn the_output_of_what_a_finished_command_left_running_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let (go, file) = (directory.path().join("go"), directory.path().join("out.txt"));
    let cookie = new_cookie();
    let ledger = Ledger::default();
    let mut spec = waiting("(WAIT; echo late; sleep 1000) & echo done", &go, &cookie);
    spec.leftovers = Leftovers::KeepForSession;
    let command = ledger.start(spec, limits(&file, 1 << 20)).unwrap();
    let finished = in_time(command.finish(&CancellationToken::new())).await;
    assert_eq!(text(&finished.stdout.head), "done\n");
    drop(command);
    assert!(!file.exists(), "nothing was printed yet that would be lost");

    let [job] = &ledger.jobs()[..] else { panic!("one job") };
    let mut events = job.events();
    std::fs::write(&go, "").unwrap();
    printed(&mut events, 10).await;
    assert_eq!(job.read_from(OutputStream::Stdout, 5, 100).bytes, b"late\n");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "done\nlate\n", "from the first byte on");
    assert_eq!(job.kill().await, Exit::Code(0));
    assert_eq!(survivors(&cookie), []);
}

#[tokio::test]
async fn leftovers_of_a_detached_command_print_after_the_exit_line() {
    let directory = tempfile::tempdir().unwrap();
    let (go, file) = (directory.path().join("go"), directory.path().join("out.txt"));
    let ledger = Ledger::default();
    let mut spec = waiting("(WAIT; echo late) & echo done", &go, &new_cookie());
    spec.leftovers = Leftovers::KeepForSession;
    let job = ledger.start(spec, limits(&file, 1 << 20)).unwrap();
    job.detach(MINUTE);
    in_time(job.wait()).await;
    std::fs::write(&go, "").unwrap();
    in_time(job.wait_gone()).await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "done\n\n[exited with code 0]\nlate\n");
    assert_eq!(read_all(&job, 3), b"done\nlate\n", "the line is not output");
}

#[tokio::test]
async fn a_file_can_be_asked_for_at_any_time() {
    let directory = tempfile::tempdir().unwrap();
    let (go, file) = (directory.path().join("go"), directory.path().join("out.txt"));
    let ledger = Ledger::default();
    let spec = waiting("echo one; WAIT; echo two", &go, &new_cookie());
    let job = ledger.start(spec, RunLimits::default()).unwrap();
    printed(&mut job.events(), 4).await;
    assert!(job.keep_in_file(OutputStream::Stdout, None).is_err(), "which file?");
    let spilled = job.keep_in_file(OutputStream::Stdout, Some(SpillFile::new(&file))).unwrap();
    assert_eq!((spilled.path.as_path(), spilled.bytes), (file.as_path(), 4));
    let other = SpillFile::new(directory.path().join("other"));
    assert_eq!(job.keep_in_file(OutputStream::Stdout, Some(other)), Ok(spilled), "the first one stays");
    std::fs::write(&go, "").unwrap();
    assert_eq!(text(&in_time(job.wait()).await.stdout.head), "one\ntwo\n");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\ntwo\n");
    assert!(job.keep_in_file(OutputStream::Both, None).is_err(), "nobody asked for it at the start");
}

#[tokio::test]
async fn both_outputs_can_be_kept_in_their_order() {
    let limits = RunLimits { both: Some(Capture::default()), ..RunLimits::default() };
    let ledger = Ledger::default();
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let mut spec = waiting("echo 1; WAIT; echo 2 >&2", &go, &new_cookie());
    spec.output = OutputMode::Separate;
    let job = ledger.start(spec, limits).unwrap();
    printed(&mut job.events(), 2).await;
    std::fs::write(&go, "").unwrap();
    in_time(job.wait()).await;
    let seen = |stream| job.output(stream).to_text();
    assert_eq!(seen(OutputStream::Stdout), "1\n");
    assert_eq!(seen(OutputStream::Stderr), "2\n");
    assert_eq!(seen(OutputStream::Both), "1\n2\n");
}

#[test]
fn who_waits_is_told_when_the_runtime_of_a_command_ends() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cookie = new_cookie();
    let ledger = Ledger::default();
    let first = runtime();
    let command = first.block_on(async {
        let command = ledger.start(sh("echo on; sleep 1000", &cookie), RunLimits::default()).unwrap();
        printed(&mut command.events(), 3).await;
        command
    });
    drop(first);
    let finished = runtime().block_on(in_time(command.wait()));
    assert_eq!(finished.exit, Exit::Lost);
    assert_eq!(text(&finished.stdout.head), "on\n");
    drop((command, ledger));
    support::eventually("the tree is gone", Duration::from_secs(5), || survivors(&cookie).is_empty());
}

#[tokio::test]
async fn a_place_is_free_when_its_command_has_ended_or_is_detached() {
    let (ledger, cookie) = (Ledger::default(), new_cookie());
    let (limit, cancel) = (PlaceLimit::new(PlaceKind::Command, 1), CancellationToken::new());
    let start = async |script: &str| {
        let place = in_time(limit.place(MINUTE, &cancel)).await.unwrap();
        let limits = RunLimits { place: Some(place), ..RunLimits::default() };
        ledger.start(sh(script, &cookie), limits)
    };
    let detached = start("sleep 1000").await.unwrap();
    assert_eq!(limit.free(), 0);
    detached.detach(MINUTE);
    assert_eq!(limit.free(), 1, "a detached command goes on without a place");

    let ended = start("sleep 1000 &").await.unwrap();
    in_time(ended.wait()).await;
    assert_eq!(limit.free(), 1, "what a finished command left running has none");

    let dropped = start("trap '' TERM; echo on; sleep 1000 & wait").await.unwrap();
    let job = dropped.clone();
    printed(&mut job.events(), 3).await;
    drop(dropped);
    assert_eq!(limit.free(), 0, "it is being killed, which takes until the end of its grace period");
    in_time(job.wait()).await;
    assert_eq!(limit.free(), 1);

    let mut missing = Spec::new("/no/such/program", "/");
    missing.label = "missing".into();
    let place = limit.place(MINUTE, &cancel).await.unwrap();
    assert!(ledger.start(missing, RunLimits { place: Some(place), ..RunLimits::default() }).is_err());
    assert_eq!(limit.free(), 1, "one that did not start has none");
    assert!(detached.is_running());
    detached.kill_now();
    nobody_left(&cookie).await;
}
