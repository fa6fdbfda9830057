//! Commands that run to their end: results, outputs, inputs, failures to start.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lathe_exec::{
    Capture, ChildLimits, Ended, ExecError, Exit, Ledger, OutputLimit, OutputMode, RunLimits, Spec,
    SpillFile, StdinSource, WhenFull,
};
use support::{new_cookie, run, sh, text};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn exit_code_and_both_outputs_come_back() {
    let finished = run(&Ledger::default(), sh("echo out; echo err >&2; exit 3", &new_cookie())).await;
    assert_eq!(finished.exit, Exit::Code(3));
    assert_eq!(finished.ended, Ended::ByItself);
    assert_eq!(text(&finished.stdout.head), "out\n");
    assert_eq!(text(&finished.stderr.head), "err\n");
    assert!(finished.stdout.is_complete());
}

#[tokio::test]
async fn death_by_signal_is_told_apart() {
    let finished = run(&Ledger::default(), sh("kill -9 $$", &new_cookie())).await;
    assert_eq!(finished.exit, Exit::Signal(9));
    assert_eq!(finished.ended, Ended::ByItself);
}

#[tokio::test]
async fn merged_outputs_keep_their_order() {
    let mut spec = sh("echo 1; echo 2 >&2; echo 3", &new_cookie());
    spec.output = OutputMode::Merged;
    let finished = run(&Ledger::default(), spec).await;
    assert_eq!(text(&finished.stdout.head), "1\n2\n3\n");
    assert_eq!(finished.stderr.total_bytes, 0);
}

#[tokio::test]
async fn large_input_and_output_pass_at_the_same_time() {
    let bytes = Bytes::from(vec![b'x'; 3_000_000]);
    let mut spec = sh("cat", &new_cookie());
    spec.stdin = StdinSource::Bytes(bytes);
    let finished = run(&Ledger::default(), spec).await;
    assert_eq!(finished.exit, support::SUCCESS);
    assert_eq!(finished.stdout.total_bytes, 3_000_000);
}

#[tokio::test]
async fn a_command_that_reads_nothing_does_not_mind_its_input() {
    let mut spec = sh("echo done", &new_cookie());
    spec.stdin = StdinSource::Bytes(Bytes::from(vec![b'x'; 3_000_000]));
    let finished = run(&Ledger::default(), spec).await;
    assert_eq!(finished.exit, support::SUCCESS);
    assert_eq!(text(&finished.stdout.head), "done\n");
}

#[tokio::test]
async fn no_input_means_end_of_file() {
    for stdin in [StdinSource::Null, StdinSource::Piped] {
        let mut spec = sh("cat; echo end", &new_cookie());
        spec.stdin = stdin;
        let finished = run(&Ledger::default(), spec).await;
        assert_eq!(text(&finished.stdout.head), "end\n");
    }
}

#[tokio::test]
async fn environment_is_exactly_what_was_given() {
    let mut spec = Spec::new("env", "/");
    spec.env = vec![("PATH".into(), "/usr/bin:/bin".into()), ("A".into(), "1 2".into())];
    let finished = run(&Ledger::default(), spec).await;
    let mut lines: Vec<_> = text(&finished.stdout.head).lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["A=1 2", "PATH=/usr/bin:/bin"]);
}

#[tokio::test]
async fn signals_and_descriptors_are_as_in_a_fresh_shell() {
    // Rust programs ignore SIGPIPE; a command that inherited that would write for ever.
    let finished = run(&Ledger::default(), sh("cat /proc/self/status", &new_cookie())).await;
    let status = text(&finished.stdout.head);
    for field in ["SigBlk", "SigIgn", "SigCgt"] {
        let line = format!("{field}:\t0000000000000000\n");
        assert!(status.contains(&line), "{field} in {status}");
    }
    // A descriptor that the host forgot to mark.
    let leaky = std::fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&leaky, rustix::io::FdFlags::empty()).unwrap();
    let finished = run(&Ledger::default(), sh("ls /proc/self/fd", &new_cookie())).await;
    // 3 is the directory that `ls` reads.
    assert_eq!(text(&finished.stdout.head), "0\n1\n2\n3\n");
}

#[tokio::test]
async fn a_note_comes_back_apart_from_the_output() {
    let mut spec = sh("echo visible; echo hidden >/dev/fd/199", &new_cookie());
    spec.note_fd = Some(199);
    let finished = run(&Ledger::default(), spec).await;
    assert_eq!(text(&finished.stdout.head), "visible\n");
    assert_eq!(text(&finished.note), "hidden\n");
}

#[tokio::test]
async fn a_note_pipe_never_blocks_the_command() {
    let mut spec = sh("head -c 1000000 /dev/zero >&9; echo on", &new_cookie());
    spec.note_fd = Some(9);
    let finished = run(&Ledger::default(), spec).await;
    assert_eq!(text(&finished.stdout.head), "on\n");
    assert_eq!(finished.note.len(), 16 * 1024);
}

#[tokio::test]
async fn exec_failures_are_errors_with_the_kernels_word() {
    let directory = tempfile::tempdir().unwrap();
    let plain = directory.path().join("plain");
    std::fs::write(&plain, "hello").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut too_long = Spec::new("/bin/true", "/");
    too_long.args = vec!["x".repeat(1024 * 1024).into()];
    let interpreter = directory.path().join("script");
    std::fs::write(&interpreter, "#!/nonexistent/interpreter\n").unwrap();
    std::fs::set_permissions(&interpreter, std::fs::Permissions::from_mode(0o755)).unwrap();

    let cases = [
        (Spec::new("/nonexistent/program", "/"), libc::ENOENT),
        (Spec::new("surely-no-such-program", "/"), libc::ENOENT),
        (Spec::new(&interpreter, "/"), libc::ENOENT),
        (Spec::new(&plain, "/"), libc::EACCES),
        (Spec::new(directory.path(), "/"), libc::EACCES),
        (too_long, libc::E2BIG),
    ];
    let ledger = Ledger::default();
    for (spec, errno) in cases {
        let started = Instant::now();
        let program = spec.program.clone();
        let outcome = ledger.run(spec, RunLimits::default(), &CancellationToken::new()).await;
        let Err(ExecError::Start { program: named, source }) = outcome else {
            panic!("{} started", program.display());
        };
        assert_eq!(named, program);
        assert_eq!(source.raw_os_error(), Some(errno), "{}", program.display());
        assert!(started.elapsed() < Duration::from_secs(1));
    }
    assert!(ledger.live().is_empty());
}

#[tokio::test]
async fn a_file_that_is_no_program_does_not_pass_for_success() {
    // `execvp` hands files of unknown format to the shell, which refuses them.
    let directory = tempfile::tempdir().unwrap();
    let broken = directory.path().join("broken");
    std::fs::write(&broken, b"\x7fELF\0\0garbage\0").unwrap();
    std::fs::set_permissions(&broken, std::fs::Permissions::from_mode(0o755)).unwrap();
    let outcome =
        Ledger::default().run(Spec::new(&broken, "/"), RunLimits::default(), &CancellationToken::new()).await;
    match outcome {
        Ok(finished) => assert!(!finished.exit.is_success()),
        Err(error) => assert!(matches!(error, ExecError::Start { .. })),
    }
}

#[tokio::test]
async fn a_missing_working_directory_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let gone = directory.path().join("gone");
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    for cwd in [gone, file] {
        let outcome = Ledger::default().spawn(Spec::new("/bin/true", &cwd));
        match outcome.map(|running| running.pid()) {
            Err(ExecError::WorkingDirectory { cwd: named, .. }) => assert_eq!(named, cwd),
            other => panic!("{other:?}"),
        }
    }
}

fn spilling(path: &Path, cap_bytes: u64) -> RunLimits {
    RunLimits {
        stdout: Capture {
            head_bytes: 1000,
            tail_bytes: 1000,
            spill: Some(SpillFile {
                path: path.into(),
                cap_bytes,
                when_full: WhenFull::KeepHead,
                exit_line: None,
            }),
            limit: OutputLimit::None,
        },
        ..RunLimits::default()
    }
}

#[tokio::test]
async fn large_output_goes_to_a_private_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/er/out.txt");
    let finished = Ledger::default()
        .run(sh("seq 1 200000", &new_cookie()), spilling(&path, u64::MAX), &CancellationToken::new())
        .await
        .unwrap();
    let whole: String = (1..=200_000).map(|number| format!("{number}\n")).collect();
    let captured = finished.stdout;
    assert_eq!(captured.total_bytes, whole.len() as u64);
    assert_eq!(text(&captured.head), &whole[..1000]);
    assert_eq!(text(&captured.tail), &whole[whole.len() - 1000..]);
    assert_eq!(captured.spill.as_ref().unwrap().bytes, whole.len() as u64);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_spill_file_stops_at_its_cap_and_the_command_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.txt");
    let finished = Ledger::default()
        .run(
            sh("head -c 5000000 /dev/zero; echo end", &new_cookie()),
            spilling(&path, 100_000),
            &CancellationToken::new(),
        )
        .await
        .unwrap();
    assert_eq!(finished.exit, support::SUCCESS);
    assert_eq!(finished.stdout.total_bytes, 5_000_004);
    assert_eq!(finished.stdout.spill.unwrap().bytes, 100_000);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 100_000);
    assert!(finished.stdout.tail.ends_with(b"end\n"));
}

#[tokio::test]
async fn a_disk_that_refuses_does_not_cost_the_result() {
    // `/dev/full` as a directory: cannot be made. A file in the place of the directory: the same.
    for path in ["/dev/full/out.txt", "/proc/out.txt"] {
        let finished = Ledger::default()
            .run(
                sh("seq 1 10000; exit 7", &new_cookie()),
                spilling(Path::new(path), u64::MAX),
                &CancellationToken::new(),
            )
            .await
            .unwrap();
        assert_eq!(finished.exit, Exit::Code(7));
        assert!(finished.stdout.tail.ends_with(b"10000\n"));
        assert_eq!(finished.stdout.spill, None);
        assert!(finished.stdout.spill_error.unwrap().contains(path));
    }
}

#[tokio::test]
async fn too_much_output_can_end_a_command() {
    let cookie = new_cookie();
    let limits = RunLimits {
        stdout: Capture { limit: OutputLimit::KillAt(1_000_000), ..Capture::default() },
        ..RunLimits::default()
    };
    let finished =
        Ledger::default().run(sh("yes", &cookie), limits, &CancellationToken::new()).await.unwrap();
    assert_eq!(finished.ended, Ended::OutputLimit);
    assert!(finished.stdout.total_bytes >= 1_000_000);
    support::nobody_left(&cookie).await;
}

#[tokio::test]
async fn fifty_at_once_do_not_mix() {
    let ledger = Ledger::default();
    let mut runs = tokio::task::JoinSet::new();
    for number in 0..50 {
        let ledger = ledger.clone();
        runs.spawn(async move {
            let script = format!("for i in $(seq 1 200); do echo {number}; done; exit {number}");
            (number, run(&ledger, sh(&script, &new_cookie())).await)
        });
    }
    while let Some(outcome) = runs.join_next().await {
        let (number, finished) = outcome.unwrap();
        assert_eq!(finished.exit, Exit::Code(number));
        assert_eq!(text(&finished.stdout.head), format!("{number}\n").repeat(200));
    }
}

#[tokio::test]
async fn a_child_has_the_limits_that_it_is_given() {
    let ledger = Ledger::with_limits(ChildLimits { open_files: Some(77), core_bytes: Some(0) });
    let number = ledger.note_number(199);
    assert_eq!(number, 76, "one that the command may have");
    let mut spec = sh(&format!("ulimit -Sn; ulimit -Sc; echo hidden >/dev/fd/{number}"), &new_cookie());
    spec.note_fd = Some(number);
    let finished = run(&ledger, spec).await;
    assert_eq!((text(&finished.stdout.head), text(&finished.note)), ("77\n0\n", "hidden\n"));
}
