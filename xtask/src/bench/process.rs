//! Runs one child and reports when it started and ended, what it wrote and how much memory it used.
//!
//! Memory is read from `/proc` while the child lives: the figure of `wait4` starts with the memory of the process that
//! forked the child, which is this one. Timing and memory are measured in separate runs, because polling costs time.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long one run may take before it counts as hung.
pub const LIMIT: Duration = Duration::from_secs(300);
/// How often memory is read.
const LOOK: Duration = Duration::from_micros(300);

/// A child that has ended.
pub struct Finished {
    /// Just before it was started.
    pub started: Instant,
    /// When it was gone.
    pub ended: Instant,
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote on stdout.
    pub stdout: Output,
    /// What it wrote on stderr.
    pub stderr: Output,
}

/// What came out of a pipe.
#[derive(Debug, Default)]
pub struct Output {
    /// All of it.
    pub bytes: Vec<u8>,
    /// When the first and the last piece were read.
    pub span: Option<(Instant, Instant)>,
}

impl Finished {
    /// Checks that the child succeeded; the error has the end of its output. `name` is for the message.
    pub fn must_be_good(&self, name: &str) -> Result<()> {
        if self.status.success() {
            return Ok(());
        }
        let tail = |output: &Output| {
            let start = output.bytes.len().saturating_sub(600);
            String::from_utf8_lossy(&output.bytes[start..]).trim().to_owned()
        };
        bail!("{name} failed ({}): {} {}", self.status, tail(&self.stderr), tail(&self.stdout));
    }
}

/// Runs a child to its end, whatever its exit code. One that takes longer than [`LIMIT`] is killed, and that is an
/// error; a grandchild that keeps its pipes open is waited for without a limit.
pub fn run(command: &mut Command) -> Result<Finished> {
    run_watched(command, |_| {})
}

/// Runs a child to its end like [`run`]; `when_started` gets its process id as soon as it has one. The limit holds for
/// the child only: its pipes are then read to their end, however long a grandchild keeps them open.
pub fn run_watched(command: &mut Command, when_started: impl FnOnce(u32)) -> Result<Finished> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let mut child = command.spawn().with_context(|| format!("failed to start {name}"))?;
    let pid = rustix::process::Pid::from_child(&child);
    when_started(child.id());
    let stdout = drain(child.stdout.take().context("the child has no stdout")?);
    let stderr = drain(child.stderr.take().context("the child has no stderr")?);
    let (sender, receiver) = mpsc::channel();
    let waiter = thread::spawn(move || {
        let status = child.wait();
        // The receiver is gone only after the deadline.
        let _ = sender.send((Instant::now(), status));
    });
    let Ok((ended, status)) = receiver.recv_timeout(LIMIT) else {
        // The waiter has not reaped it, so the number still means this child.
        rustix::process::kill_process(pid, rustix::process::Signal::KILL)
            .context("failed to end a hung child")?;
        drop(waiter.join());
        bail!("{name} did not end within {} s", LIMIT.as_secs());
    };
    let status = status.with_context(|| format!("failed to wait for {name}"))?;
    let (Ok(stdout), Ok(stderr)) = (stdout.join(), stderr.join()) else { bail!("a reader panicked") };
    Ok(Finished { started, ended, status, stdout, stderr })
}

/// Reads a pipe to its end on a thread, so that the child never waits for a reader. Notes when the first and the
/// last bytes came.
fn drain(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<Output> {
    thread::spawn(move || {
        let mut output = Output::default();
        let mut buffer = vec![0; 256 * 1024];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            let now = Instant::now();
            output.bytes.extend_from_slice(&buffer[..count]);
            output.span = Some((output.span.map_or(now, |(first, _)| first), now));
        }
        output
    })
}

/// Runs a child to its successful end and returns its peak memory in bytes; `None` if `/proc` does not have it. A child
/// that fails or takes longer than [`LIMIT`] is an error.
pub fn peak_memory(command: &mut Command) -> Result<Option<u64>> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = Instant::now();
    let mut child = command.spawn().with_context(|| format!("failed to start {name}"))?;
    let mut peak = None;
    loop {
        // The mark only ever rises, so the last reading before the end is the peak.
        peak = high_water_mark(&child).or(peak);
        if let Some(status) = child.try_wait().with_context(|| format!("failed to wait for {name}"))? {
            if !status.success() {
                bail!("{name} failed ({status})");
            }
            return Ok(peak);
        }
        if started.elapsed() > LIMIT {
            child.kill().context("failed to end a hung child")?;
            child.wait().context("failed to wait for a hung child")?;
            bail!("{name} did not end within {} s", LIMIT.as_secs());
        }
        thread::sleep(LOOK);
    }
}

/// Returns the processor time that the threads of a process have used, without its children and without threads that
/// have ended; `None` if `/proc` does not have it.
pub fn processor_time(process: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let used = threads.flatten().filter_map(|thread| {
        let stat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    });
    Some(used.sum())
}

/// Returns the memory that a process has resident now, in bytes; `None` if `/proc` does not have it.
pub fn resident_memory(process: u32) -> Option<u64> {
    in_bytes(&fs::read_to_string(format!("/proc/{process}/status")).ok()?, "VmRSS:")
}

/// Returns the peak memory of a child so far in bytes; `None` if `/proc` does not have it.
fn high_water_mark(child: &Child) -> Option<u64> {
    parse_high_water_mark(&fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?)
}

/// Returns the peak memory from the text of `/proc/PID/status`, in bytes; `None` if the text does not have it.
fn parse_high_water_mark(status: &str) -> Option<u64> {
    in_bytes(status, "VmHWM:")
}

/// Returns the value of the line of `/proc/PID/status` that begins with `field`, in bytes; `None` if there is no such
/// line or it is not in kB.
fn in_bytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_a_child_writes_and_how_it_ends_is_kept() {
        let finished = run(&mut shell("echo out; echo err >&2; exit 3")).unwrap();
        assert_eq!(finished.stdout.bytes, b"out\n");
        assert_eq!(finished.stderr.bytes, b"err\n");
        assert!(finished.started < finished.ended && finished.stdout.span.is_some());
        let error = finished.must_be_good("it").unwrap_err().to_string();
        assert!(error.contains("err") && error.contains('3'), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = run(&mut Command::new("no-such-program-here")).err().unwrap();
        assert!(format!("{error:#}").contains("no-such-program-here"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_is_that_of_the_child_and_not_ours() {
        // This process holds far more memory than the child, and has written to it.
        let ballast = vec![1_u8; 64 << 20];
        let mut command = Command::new("cat");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // It has replied, so it runs, and cannot end before its stdin is closed.
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        stdin.write_all(b"x").unwrap();
        stdout.read_exact(&mut [0]).unwrap();
        let mark = high_water_mark(&child).unwrap();
        drop(stdin);
        assert!(child.wait().unwrap().success());
        assert!(mark > 100 << 10 && mark < 32 << 20, "{mark} with {}", ballast.len());
    }

    #[test]
    fn a_child_that_fails_gives_no_figure() {
        assert!(peak_memory(&mut shell("exit 3")).is_err());
        assert!(peak_memory(&mut shell("exit 0")).is_ok());
    }

    #[test]
    fn the_mark_is_read_from_the_status_of_a_process() {
        assert_eq!(
            parse_high_water_mark("Name:\tx\nVmHWM:\t    1234 kB\nVmRSS:\t 1 kB\n"),
            Some(1234 * 1024)
        );
        assert_eq!(parse_high_water_mark("Name:\tx\nState:\tZ (zombie)\n"), None);
    }
}
