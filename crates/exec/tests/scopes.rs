//! Scopes: who ends with whom, how, and what is left when the host is killed in the middle of it.

#![allow(
    clippy::disallowed_methods,
    reason = "the host that is killed with signal 9 is this test binary, started as a plain child"
)]

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lathe_exec::{
    Ended, ExecError, Exit, ForegroundCommand, JobEvent, Ledger, Leftovers, RunLimits, ScopeEndPolicy, Spec,
};
use support::{eventually, new_cookie, nobody_left, run, sh, survivors};

const MINUTE: Duration = Duration::from_secs(60);

/// Starts a script that says `ready` when it is, and waits for that.
async fn ready(ledger: &Ledger, spec: Spec) -> ForegroundCommand {
    let command = ledger.start(spec, RunLimits::default()).unwrap();
    let mut events = command.events();
    let said = async {
        while !matches!(events.next().await.expect("it says ready"), JobEvent::OutputGrew { .. }) {}
    };
    tokio::time::timeout(Duration::from_secs(20), said).await.expect("in time");
    command
}

/// A command that would run for ever, in the background.
async fn detached(ledger: &Ledger, cookie: &str) -> ForegroundCommand {
    let command = ready(ledger, sh("echo ready; sleep 1000", cookie)).await;
    command.detach(MINUTE);
    command
}

#[tokio::test]
async fn ending_a_scope_ends_its_commands_and_no_others() {
    let cookies = [new_cookie(), new_cookie(), new_cookie()];
    let session = Ledger::default();
    let (one, two) = (session.open_scope("agent one"), session.open_scope("agent two"));
    let inner = one.open_scope("call");
    let _in_session = detached(&session, &cookies[0]).await;
    let in_one = [detached(&one, &cookies[1]).await, detached(&inner, &cookies[1]).await];
    let _in_two = detached(&two, &cookies[2]).await;
    let scopes =
        |ledger: &Ledger| -> Vec<String> { ledger.live().into_iter().map(|process| process.scope).collect() };
    assert_eq!(
        scopes(&session),
        ["session", "session/agent one", "session/agent one/call", "session/agent two"]
    );
    assert_eq!(scopes(&one).len(), 2);

    one.end(ScopeEndPolicy::Stop).await;
    for command in &in_one {
        assert_eq!(command.wait().await.ended, Ended::Stopped);
    }
    assert_eq!(survivors(&cookies[1]), []);
    assert_eq!(scopes(&session), ["session", "session/agent two"]);
    assert!(!survivors(&cookies[0]).is_empty() && !survivors(&cookies[2]).is_empty());
    for ended in [&one, &inner] {
        let outcome = ended.start(sh("true", &cookies[1]), RunLimits::default());
        assert!(matches!(outcome.err(), Some(ExecError::ScopeEnded { .. })), "nothing starts in it any more");
    }

    // The other one is only dropped.
    drop(two);
    nobody_left(&cookies[2]).await;
    assert!(!survivors(&cookies[0]).is_empty());
    assert_eq!(run(&session, sh("true", &cookies[0])).await.exit, Exit::Code(0));
    drop(session);
    nobody_left(&cookies[0]).await;
}

#[tokio::test]
async fn a_scope_ends_with_the_one_around_it() {
    let cookie = new_cookie();
    let session = Ledger::default();
    let agent = session.open_scope("agent");
    let _command = detached(&agent, &cookie).await;
    drop(session);
    nobody_left(&cookie).await;
    let outcome = agent.start(sh("true", &cookie), RunLimits::default());
    assert!(matches!(outcome.err(), Some(ExecError::ScopeEnded { .. })));
}

#[test]
fn a_command_that_starts_while_its_scope_ends_is_refused_or_killed() {
    let cookie = new_cookie();
    for round in 0..40_u32 {
        let session = Ledger::default();
        let agent = session.open_scope("agent");
        // Its own runtime, because a start holds its thread; and a handle that outlives the end of the scope.
        let starter = std::thread::spawn({
            let (ledger, cookie) = (agent.clone(), cookie.clone());
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let Ok(command) = ledger.start(sh("sleep 1000", &cookie), RunLimits::default()) else {
                        return;
                    };
                    command.detach(MINUTE);
                    let ended = tokio::time::timeout(Duration::from_secs(10), command.wait()).await;
                    // Why it ended depends on who was first: the end of the scope, or the start that found it ended.
                    ended.expect("it ends with its scope");
                });
            }
        });
        // Somewhere in the middle of the start, which takes about a millisecond.
        let moment = Instant::now() + round * Duration::from_micros(50);
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(agent.end(ScopeEndPolicy::LeaveNothing));
        starter.join().unwrap();
    }
    // One that was refused after its fork may still be about to die.
    eventually("nobody is left", Duration::from_secs(4), || survivors(&cookie).is_empty());
}

/// Says so if it was asked to end, and ends then.
fn polite(said: &Path, cookie: &str) -> Spec {
    let script = format!(
        "trap 'echo asked > {}; exit 3' TERM; echo ready; while :; do sleep 0.01; done",
        said.display()
    );
    let mut spec = sh(&script, cookie);
    spec.grace = Duration::from_secs(20);
    spec
}

fn stubborn(cookie: &str, grace: Duration) -> Spec {
    let mut spec = sh("trap '' TERM; echo ready; while :; do sleep 0.01; done", cookie);
    spec.grace = grace;
    spec
}

#[tokio::test]
async fn an_end_can_wait_for_commands_and_not_for_what_they_left() {
    let directory = tempfile::tempdir().unwrap();
    let proof = directory.path().join("proof");
    let cookie = new_cookie();
    let ledger = Ledger::default();
    let script = format!("echo ready; sleep 0.3; touch {}; sleep 1000 & exit 4", proof.display());
    let mut spec = sh(&script, &cookie);
    spec.leftovers = Leftovers::KeepForSession;
    let slow = ready(&ledger, spec).await;
    slow.detach(MINUTE);
    let started = Instant::now();
    ledger.end(ScopeEndPolicy::Wait(Duration::from_secs(5))).await;
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    assert!(proof.exists());
    let finished = slow.wait().await;
    assert_eq!((finished.exit, finished.ended), (Exit::Code(4), Ended::ByItself));
    assert_eq!(survivors(&cookie), []);
}

#[tokio::test]
async fn an_end_does_not_wait_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let said = directory.path().join("said");
    let cookie = new_cookie();
    let ledger = Ledger::default();
    let command = ready(&ledger, polite(&said, &cookie)).await;
    command.detach(MINUTE);
    ledger.end(ScopeEndPolicy::Wait(Duration::from_millis(100))).await;
    let finished = command.wait().await;
    assert_eq!((finished.exit, finished.ended), (Exit::Code(3), Ended::Stopped));
    assert!(said.exists(), "it was asked first");
    assert_eq!(survivors(&cookie), []);
}

#[tokio::test]
async fn a_stop_asks_first_and_kills_who_does_not_listen() {
    let directory = tempfile::tempdir().unwrap();
    let said = directory.path().join("said");
    let cookie = new_cookie();
    let ledger = Ledger::default();
    let polite = ready(&ledger, polite(&said, &cookie)).await;
    let grace = Duration::from_millis(300);
    let stubborn = ready(&ledger, stubborn(&cookie, grace)).await;
    let started = Instant::now();
    ledger.end(ScopeEndPolicy::Stop).await;
    assert!(started.elapsed() >= grace);
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "nobody waits for the grace period of the polite one"
    );
    assert_eq!(polite.wait().await.exit, Exit::Code(3));
    assert!(said.exists());
    assert_eq!(stubborn.wait().await.exit, Exit::Signal(9));
    assert_eq!(survivors(&cookie), []);
}

#[tokio::test]
async fn leaving_nothing_asks_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let said = directory.path().join("said");
    let cookie = new_cookie();
    let ledger = Ledger::default();
    let polite = ready(&ledger, polite(&said, &cookie)).await;
    let stubborn = ready(&ledger, stubborn(&cookie, MINUTE)).await;
    let mut spec = sh("setsid sleep 1000 & echo ready", &cookie);
    spec.leftovers = Leftovers::KeepForSession;
    spec.grace = MINUTE;
    run(&ledger, spec).await;
    let started = Instant::now();
    ledger.end(ScopeEndPolicy::LeaveNothing).await;
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(survivors(&cookie), []);
    assert!(!said.exists());
    for command in [polite, stubborn] {
        let finished = command.wait().await;
        assert_eq!((finished.exit, finished.ended), (Exit::Signal(9), Ended::Stopped));
    }
}

// ---- a host that is killed with signal 9, at each stage of a job ----

const ROLE: &str = "LATHE_TEST_ROLE";
const STAGE: &str = "LATHE_TEST_STAGE";

const STAGES: [&str; 6] = ["foreground", "detached", "waited for", "leftovers", "waiting end", "stopping"];

/// Not a test of its own: the process that the next test kills, run by name.
#[test]
fn host_process() {
    let (Ok(cookie), Ok(stage)) = (std::env::var(ROLE), std::env::var(STAGE)) else {
        return;
    };
    // Straight to the descriptor: the test harness swallows what is printed.
    let standing = async { std::fs::write("/proc/self/fd/1", "standing\n").unwrap() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let session = Ledger::default();
        let ledger = session.open_scope("agent");
        let mut spec = stubborn(&cookie, Duration::from_secs(1));
        if stage == "leftovers" {
            spec = sh("(setsid sleep 1000 &) ; echo ready", &cookie);
            spec.leftovers = Leftovers::KeepForSession;
        }
        let command = ready(&ledger, spec).await;
        match stage.as_str() {
            "foreground" => drop(tokio::join!(command.wait(), standing)),
            "detached" => {
                command.detach(MINUTE);
                drop(command);
                standing.await;
                std::future::pending::<()>().await;
            }
            "waited for" => {
                command.detach(MINUTE);
                let job = ledger.jobs().remove(0);
                drop(tokio::join!(job.wait(), job.wait_gone(), standing));
            }
            "leftovers" => {
                command.wait().await;
                tokio::join!(command.wait_gone(), standing);
            }
            "waiting end" => {
                tokio::join!(session.end(ScopeEndPolicy::Wait(MINUTE)), standing);
            }
            _ => {
                tokio::join!(session.end(ScopeEndPolicy::Stop), standing);
                std::future::pending::<()>().await;
            }
        }
    });
}

#[test]
fn nothing_outlives_a_host_that_is_killed_at_any_stage() {
    for stage in STAGES {
        let cookie = new_cookie();
        let mut host = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "host_process", "--nocapture"])
            .envs([(ROLE, cookie.as_str()), (STAGE, stage)])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(host.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("standing")), "{stage}");
        assert!(!survivors(&cookie).is_empty(), "{stage}");
        host.kill().unwrap();
        host.wait().unwrap();
        // A second of grace for the one that does not listen.
        let nobody = || survivors(&cookie).is_empty();
        eventually(&format!("nobody is left after {stage}"), Duration::from_secs(4), nobody);
    }
}
