//! Trees of processes: whatever a command started is gone when its owner lets go, in every way in which an
//! owner can let go.

#![allow(
    clippy::disallowed_methods,
    reason = "the owner that is killed with signal 9 is this test binary, started as a plain child"
)]

mod support;

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lathe_exec::{Ended, Exit, Ledger, Leftovers, RunLimits, Running, Spec, StdinSource};
use support::{
    eventually, eventually_async, new_cookie, nobody_left, own_children, run, sh, survivors, text,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

/// A plain background child, one in a session of its own, and a double-forked daemon that also ignores
/// SIGTERM; four processes with the shell that stays. Says `ready` when all are there.
const TREE: &str = "
    sleep 1000 &
    setsid sleep 1000 &
    (setsid sh -c 'trap \"\" TERM; sleep 1000 & wait; sleep 1000' &)
    sleep 0.05; echo ready; wait
";

/// Starts [`TREE`] and returns once it stands.
async fn standing_tree(ledger: &Ledger, cookie: &str, grace: Duration) -> Running {
    let mut spec = sh(TREE, cookie);
    spec.grace = grace;
    let mut running = ledger.spawn(spec).unwrap();
    let mut line = String::new();
    tokio::io::BufReader::new(running.stdout.as_mut().unwrap()).read_line(&mut line).await.unwrap();
    assert_eq!(line, "ready\n");
    assert!(survivors(cookie).len() >= 4, "{:?}", survivors(cookie));
    running
}

#[tokio::test]
async fn kill_ends_the_whole_tree() {
    let cookie = new_cookie();
    let ledger = Ledger::default();
    let running = standing_tree(&ledger, &cookie, Duration::ZERO).await;
    assert_eq!(running.kill().await, Exit::Signal(9));
    // Nothing to wait for: `kill` returns when the tree is gone.
    assert_eq!(survivors(&cookie), []);
    assert!(ledger.live().is_empty());
}

#[tokio::test]
async fn dropping_the_owner_ends_the_whole_tree() {
    let cookie = new_cookie();
    let ledger = Ledger::default();
    drop(standing_tree(&ledger, &cookie, Duration::ZERO).await);
    nobody_left(&cookie).await;
    eventually_async("the ledger is empty", Duration::from_secs(2), || ledger.live().is_empty()).await;
}

#[tokio::test]
async fn dropping_the_last_ledger_ends_the_whole_tree() {
    let cookie = new_cookie();
    let ledger = Ledger::default();
    let running = standing_tree(&ledger, &cookie, Duration::ZERO).await;
    let clone = ledger.clone();
    drop(ledger);
    assert!(survivors(&cookie).len() >= 4, "a clone is still there");
    drop(clone);
    nobody_left(&cookie).await;
    assert_eq!(running.wait().await, Exit::Signal(9));
}

#[tokio::test]
async fn a_panicking_owner_ends_the_whole_tree() {
    let cookie = new_cookie();
    let ledger = Ledger::default();
    let owner = tokio::spawn({
        let (ledger, cookie) = (ledger.clone(), cookie.clone());
        async move {
            let _running = standing_tree(&ledger, &cookie, Duration::ZERO).await;
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    });
    assert!(owner.await.unwrap_err().is_panic());
    nobody_left(&cookie).await;
}

#[tokio::test]
async fn kill_all_ends_every_tree() {
    let cookie = new_cookie();
    let ledger = Ledger::default();
    let mut owners = Vec::new();
    for _ in 0..5 {
        owners.push(standing_tree(&ledger, &cookie, Duration::from_millis(50)).await);
    }
    let live = ledger.live();
    assert_eq!(live.len(), 5);
    assert_eq!(live[0].label, TREE);
    assert_eq!(live[0].pid, owners[0].pid());
    ledger.kill_all().await;
    assert_eq!(survivors(&cookie), []);
    assert!(ledger.live().is_empty());
}

#[tokio::test]
async fn timeout_and_cancel_end_the_whole_tree() {
    for cancelled in [false, true] {
        let cookie = new_cookie();
        let cancel = CancellationToken::new();
        let limits =
            RunLimits { timeout: (!cancelled).then_some(Duration::from_millis(300)), ..RunLimits::default() };
        let mut spec = sh(TREE, &cookie);
        spec.grace = Duration::from_millis(100);
        // With the most lenient choice for leftovers: an end by force leaves none.
        spec.leftovers = Leftovers::KeepForSession;
        let ledger = Ledger::default();
        let cancel_when_ready = async {
            eventually_async("the tree stands", Duration::from_secs(5), || survivors(&cookie).len() >= 4)
                .await;
            if cancelled {
                cancel.cancel();
            }
        };
        let (finished, ()) = tokio::join!(ledger.run(spec, limits, &cancel), cancel_when_ready);
        let finished = finished.unwrap();
        let expected = if cancelled { Ended::Cancelled } else { Ended::TimedOut };
        assert_eq!(finished.ended, expected);
        assert_eq!(finished.exit, Exit::Signal(15));
        assert_eq!(survivors(&cookie), [], "gone when `run` returns");
        assert!(finished.duration < Duration::from_secs(4));
    }
}

#[tokio::test]
async fn a_cancelled_token_stops_a_command_at_once() {
    let cookie = new_cookie();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let finished =
        Ledger::default().run(sh("sleep 1000", &cookie), RunLimits::default(), &cancel).await.unwrap();
    assert_eq!(finished.ended, Ended::Cancelled);
    assert!(finished.duration < Duration::from_secs(1));
    nobody_left(&cookie).await;
}

#[tokio::test]
async fn dropping_the_run_future_ends_the_tree() {
    let cookie = new_cookie();
    let ledger = Ledger::default();
    {
        let cancel = CancellationToken::new();
        let run = ledger.run(sh(TREE, &cookie), RunLimits::default(), &cancel);
        let standing =
            eventually_async("the tree stands", Duration::from_secs(5), || survivors(&cookie).len() >= 4);
        tokio::select! {
            _ = run => panic!("it ended by itself"),
            () = standing => {}
        }
    }
    // The default grace of two seconds is for the one that ignores SIGTERM.
    eventually_async("nobody is left", Duration::from_secs(4), || survivors(&cookie).is_empty()).await;
}

#[tokio::test]
async fn sigterm_comes_first_and_may_be_used() {
    let cookie = new_cookie();
    let script = "trap 'echo cleaned up; exit 5' TERM; echo ready; while :; do sleep 0.01; done";
    let mut spec = sh(script, &cookie);
    spec.grace = Duration::from_secs(20);
    let ledger = Ledger::default();
    let mut running = ledger.spawn(spec).unwrap();
    let mut lines = tokio::io::BufReader::new(running.stdout.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "ready");
    let started = Instant::now();
    assert_eq!(running.kill().await, Exit::Code(5));
    assert!(started.elapsed() < Duration::from_secs(10), "no full grace period");
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "cleaned up");
}

#[tokio::test]
async fn who_ignores_sigterm_is_killed_after_the_grace_period() {
    let cookie = new_cookie();
    let mut spec = sh("trap '' TERM; sleep 1000; sleep 1000", &cookie);
    spec.grace = Duration::from_millis(200);
    let limits = RunLimits { timeout: Some(Duration::from_millis(200)), ..RunLimits::default() };
    let finished = Ledger::default().run(spec, limits, &CancellationToken::new()).await.unwrap();
    assert_eq!(finished.ended, Ended::TimedOut);
    assert_eq!(finished.exit, Exit::Signal(9));
    assert!(finished.duration >= Duration::from_millis(400));
    assert!(finished.duration < Duration::from_secs(3));
    nobody_left(&cookie).await;
}

#[tokio::test]
async fn a_stopped_command_can_be_ended() {
    let cookie = new_cookie();
    let limits = RunLimits { timeout: Some(Duration::from_millis(100)), ..RunLimits::default() };
    let finished = Ledger::default()
        .run(sh("kill -STOP $$; sleep 1000", &cookie), limits, &CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(finished.exit, Exit::Signal(15));
    nobody_left(&cookie).await;
}

#[tokio::test]
async fn a_chain_that_forks_faster_than_one_looks_is_caught() {
    // Each process forks and exits, so that no pid stays valid for long.
    let cookie = new_cookie();
    let mut spec = Spec::new("perl", "/");
    spec.args = vec!["-e".into(), "$| = 1; print qq(ready\\n); while (1) { fork and exit }".into()];
    spec.env = sh("", &cookie).env;
    spec.grace = Duration::ZERO;
    spec.leftovers = Leftovers::KeepForSession;
    let ledger = Ledger::default();
    let mut running = ledger.spawn(spec).unwrap();
    let mut ready = [0; 6];
    running.stdout.as_mut().unwrap().read_exact(&mut ready).await.unwrap();
    running.wait().await;
    running.kill().await;
    assert_eq!(survivors(&cookie), []);
}

#[tokio::test]
async fn a_grandchild_that_holds_the_pipe_does_not_hold_the_result() {
    for leftovers in [Leftovers::KillNow, Leftovers::UntilDropped, Leftovers::KeepForSession] {
        let cookie = new_cookie();
        let ledger = Ledger::default();
        let mut spec = sh("sleep 1000 & echo done", &cookie);
        spec.leftovers = leftovers;
        let finished = run(&ledger, spec).await;
        assert_eq!(finished.exit, support::SUCCESS);
        assert_eq!(finished.ended, Ended::ByItself);
        assert_eq!(text(&finished.stdout.head), "done\n");
        assert!(finished.duration < Duration::from_secs(1), "{leftovers:?}");
        match leftovers {
            Leftovers::KillNow | Leftovers::UntilDropped => nobody_left(&cookie).await,
            Leftovers::KeepForSession => {
                let live = ledger.live();
                assert_eq!(live.len(), 1);
                assert!(live[0].leftover);
                assert_eq!(survivors(&cookie).len(), 1);
                drop(ledger);
                nobody_left(&cookie).await;
            }
        }
    }
}

#[tokio::test]
async fn kept_leftovers_can_go_on_printing() {
    let directory = tempfile::tempdir().unwrap();
    let proof = directory.path().join("proof");
    // More than any pipe holds, after the command has ended.
    let script = format!(
        "(sleep 0.3; head -c 3000000 /dev/zero && touch {}; sleep 1000) & echo done",
        proof.display()
    );
    let cookie = new_cookie();
    let ledger = Ledger::default();
    let mut spec = sh(&script, &cookie);
    spec.leftovers = Leftovers::KeepForSession;
    let finished = run(&ledger, spec).await;
    assert_eq!(text(&finished.stdout.head), "done\n");
    assert!(!proof.exists());
    eventually_async("it printed everything", Duration::from_secs(5), || proof.exists()).await;
    ledger.kill_all().await;
    assert_eq!(survivors(&cookie), []);
    assert!(ledger.live().is_empty());
}

#[tokio::test]
async fn leftovers_that_end_by_themselves_leave_the_ledger() {
    let ledger = Ledger::default();
    let mut spec = sh("sleep 0.2 & echo done", &new_cookie());
    spec.leftovers = Leftovers::KeepForSession;
    run(&ledger, spec).await;
    eventually_async("the ledger is empty", Duration::from_secs(5), || ledger.live().is_empty()).await;
}

#[tokio::test]
async fn the_number_of_kept_leftovers_is_bounded() {
    let cookie = new_cookie();
    let ledger = Ledger::default();
    let mut pids = Vec::new();
    for _ in 0..70 {
        let mut spec = sh("sleep 1000 >/dev/null 2>&1 & echo $!", &cookie);
        spec.leftovers = Leftovers::KeepForSession;
        spec.grace = Duration::ZERO;
        let finished = run(&ledger, spec).await;
        pids.push(text(&finished.stdout.head).trim().parse::<i32>().unwrap());
    }
    eventually_async("64 are left", Duration::from_secs(5), || ledger.live().len() == 64).await;
    let mut left = survivors(&cookie);
    left.sort_unstable();
    assert!(!left.contains(&pids[0]), "the oldest made room");
    assert!(left.contains(&pids[69]));
    ledger.kill_all().await;
    assert_eq!(survivors(&cookie), []);
}

#[tokio::test]
async fn a_killed_supervisor_is_noticed_and_its_group_dies() {
    let cookie = new_cookie();
    let ledger = Ledger::default();
    let spec = sh("sleep 1000 & kill -9 $PPID; sleep 1000", &cookie);
    let finished = run(&ledger, spec).await;
    assert_eq!(finished.exit, Exit::Lost);
    assert!(finished.duration < Duration::from_secs(1));
    nobody_left(&cookie).await;
}

#[tokio::test]
async fn the_kernel_ends_the_command_of_a_killed_supervisor() {
    let cookie = new_cookie();
    let ledger = Ledger::default();
    let mut spec = Spec::new("sleep", "/");
    spec.args = vec!["1000".into()];
    spec.env = sh("", &cookie).env;
    let running = ledger.spawn(spec).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap();
    let supervisor = status.lines().find_map(|line| line.strip_prefix("PPid:\t")).unwrap();
    let supervisor = rustix::process::Pid::from_raw(supervisor.parse().unwrap()).unwrap();
    rustix::process::kill_process(supervisor, rustix::process::Signal::KILL).unwrap();
    // Without a turn for the runtime, so that nobody here can help.
    eventually("the command is gone", Duration::from_secs(2), || survivors(&cookie).is_empty());
    assert_eq!(running.wait().await, Exit::Lost);
}

#[tokio::test]
async fn supervisors_shrug_off_signals_meant_for_others() {
    let cookie = new_cookie();
    let script = "for s in HUP INT QUIT TERM USR1 USR2 PIPE ALRM; do kill -$s $PPID; done; echo on";
    let finished = run(&Ledger::default(), sh(script, &cookie)).await;
    assert_eq!(finished.exit, support::SUCCESS);
    assert_eq!(text(&finished.stdout.head), "on\n");
}

#[tokio::test]
async fn talking_to_a_spawned_command() {
    let cookie = new_cookie();
    let mut spec = sh("while read line; do echo \"got $line\"; done; echo bye >&2; exit 4", &cookie);
    spec.stdin = StdinSource::Piped;
    let ledger = Ledger::default();
    let mut running = ledger.spawn(spec).unwrap();
    let mut lines = tokio::io::BufReader::new(running.stdout.take().unwrap()).lines();
    let stdin = running.stdin.as_mut().unwrap();
    for word in ["one", "two"] {
        stdin.write_all(format!("{word}\n").as_bytes()).await.unwrap();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), format!("got {word}"));
    }
    running.stdin = None;
    assert_eq!(running.wait().await, Exit::Code(4));
    assert_eq!(running.wait().await, Exit::Code(4), "can be asked again");
    let mut stderr = String::new();
    running.stderr.take().unwrap().read_to_string(&mut stderr).await.unwrap();
    assert_eq!(stderr, "bye\n");
}

#[tokio::test]
async fn the_lifeline_does_not_leak_into_other_children() {
    // The second command is started while the first one runs; the end of the first must not wait for it.
    let (first, second) = (new_cookie(), new_cookie());
    let ledger = Ledger::default();
    let one = ledger.spawn(sh("sleep 1000", &first)).unwrap();
    let two = ledger.spawn(sh("sleep 1000", &second)).unwrap();
    drop(one);
    nobody_left(&first).await;
    assert!(!survivors(&second).is_empty());
    drop(two);
    nobody_left(&second).await;
}

// ---- an owner that is killed with signal 9 ----

const ROLE: &str = "LATHE_TEST_ROLE";

/// Not a test of its own: the process that the next test kills, run by name with the cookie as its role.
#[test]
fn owner_process() {
    let Ok(cookie) = std::env::var(ROLE) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let ledger = Ledger::default();
        let _owned = standing_tree(&ledger, &cookie, Duration::from_millis(100)).await;
        let mut spec = sh("setsid sleep 1000 & echo done", &cookie);
        spec.leftovers = Leftovers::KeepForSession;
        run(&ledger, spec).await;
        // Straight to the descriptor: the test harness swallows what is printed.
        std::fs::write("/proc/self/fd/1", "standing\n").unwrap();
        std::future::pending::<()>().await;
    });
}

/// Starts an owner in a process group of its own and returns once its trees stand.
fn standing_owner(cookie: &str) -> std::process::Child {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owner_process", "--nocapture"])
        .env(ROLE, cookie)
        .process_group(0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("standing")));
    assert!(survivors(cookie).len() >= 5);
    owner
}

#[test]
fn an_owner_killed_with_signal_9_takes_everything_along() {
    for _ in 0..5 {
        let cookie = new_cookie();
        let mut owner = standing_owner(&cookie);
        owner.kill().unwrap();
        owner.wait().unwrap();
        eventually("nobody of the tree is left", Duration::from_secs(2), || survivors(&cookie).is_empty());
    }
}

#[test]
fn so_does_one_whose_whole_group_is_killed() {
    let cookie = new_cookie();
    let mut owner = standing_owner(&cookie);
    let group = rustix::process::Pid::from_child(&owner);
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    owner.wait().unwrap();
    eventually("nobody of the tree is left", Duration::from_secs(2), || survivors(&cookie).is_empty());
}

#[tokio::test]
async fn a_ledger_inside_a_command_of_a_ledger_goes_with_it() {
    let cookie = new_cookie();
    let ledger = Ledger::default();
    let mut spec = Spec::new(std::env::current_exe().unwrap(), "/");
    spec.args = ["--exact", "owner_process", "--nocapture"].map(Into::into).to_vec();
    spec.env = sh("", &cookie).env;
    spec.env.push((ROLE.into(), cookie.clone()));
    spec.grace = Duration::ZERO;
    let mut running = ledger.spawn(spec).unwrap();
    let mut lines = tokio::io::BufReader::new(running.stdout.take().unwrap()).lines();
    while !lines.next_line().await.unwrap().expect("the inner tree stands").contains("standing") {}
    assert!(survivors(&cookie).len() >= 6);
    running.kill().await;
    assert_eq!(survivors(&cookie), []);
}

// ---- out of descriptors; in a process of its own ----

#[test]
fn short_of_descriptors_process() {
    if std::env::var(ROLE).is_err() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let ledger = Ledger::default();
        let cookie = new_cookie();
        run(&ledger, sh("true", &cookie)).await;
        eventually_async("reaped", Duration::from_secs(5), || own_children().is_empty()).await;
        let highest = support::open_descriptors() as u64;
        let mut started = 0;
        let mut refused = 0;
        for limit in highest..highest + 40 {
            let limit = rustix::process::Rlimit { current: Some(limit), maximum: Some(4096) };
            rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
            match ledger.spawn(sh("echo on", &cookie)) {
                Ok(running) => {
                    started += 1;
                    assert_eq!(running.wait().await, support::SUCCESS);
                }
                Err(_) => refused += 1,
            }
            let gone = || own_children().is_empty();
            eventually_async("reaped", Duration::from_secs(5), gone).await;
        }
        assert!(refused > 3, "the limit was felt");
        assert!(started > 3, "and it works again with room");
        assert!(ledger.live().is_empty());
    });
}

#[test]
fn too_few_descriptors_are_an_error_and_nothing_worse() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "short_of_descriptors_process", "--nocapture"])
        .env(ROLE, "short")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

// ---- leaks; in a process of its own, because other tests have children and descriptors too ----

#[test]
fn leak_process() {
    if std::env::var(ROLE).is_err() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let ledger = Ledger::default();
        let cookie = new_cookie();
        run(&ledger, sh("true", &cookie)).await;
        eventually_async("first one reaped", Duration::from_secs(5), || own_children().is_empty()).await;
        let before = support::open_descriptors();
        for number in 0..200 {
            match number % 5 {
                0 => drop(ledger.spawn(sh("sleep 1000", &cookie)).unwrap()),
                1 => {
                    ledger.spawn(sh("sleep 1000", &cookie)).unwrap().kill().await;
                }
                2 => assert!(ledger.spawn(Spec::new("/nonexistent", "/")).is_err()),
                3 => {
                    let mut spec = sh("sleep 0.01 & exit 1", &cookie);
                    spec.leftovers = Leftovers::KeepForSession;
                    run(&ledger, spec).await;
                }
                _ => {
                    run(&ledger, sh("echo out; echo err >&2", &cookie)).await;
                }
            }
        }
        eventually_async("no zombie, no supervisor", Duration::from_secs(5), || own_children().is_empty())
            .await;
        eventually_async("no descriptor more than before", Duration::from_secs(5), || {
            support::open_descriptors() == before
        })
        .await;
        assert!(ledger.live().is_empty());
        assert_eq!(survivors(&cookie), []);
    });
}

#[test]
fn two_hundred_children_leave_no_zombie_and_no_descriptor() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "leak_process", "--nocapture"])
        .env(ROLE, "leak")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}
