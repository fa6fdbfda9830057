//! Starts one command: pipes, supervisor, spawn. The only place that makes a `Command`.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the place that starts children; they are on the ledger before anyone sees them"
)]

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use crate::supervisor::{self, Orders};
use crate::{ChildLimits, ExecError, InputPipe, OutputMode, OutputPipe, Spec, StdinSource};

/// A command that has just been started, before anybody looks after it.
pub(crate) struct Launched {
    /// The supervisor.
    pub child: Child,
    /// The command's own pid, unless its supervisor is gone already.
    pub pid: Option<i32>,
    pub lifeline: OwnedFd,
    pub status: pipe::Receiver,
    pub stdin: Option<InputPipe>,
    pub stdout: OutputPipe,
    pub stderr: Option<OutputPipe>,
    pub note: Option<OwnedFd>,
}

/// Room for output that has not been read yet: large enough that a flood needs few switches.
#[cfg(target_os = "linux")]
const OUTPUT_PIPE_BYTES: usize = 256 * 1024;

/// Starts the supervisor and the command with their pipes, and returns our ends. The child is not on the ledger yet:
/// dropping the result closes the lifeline, which kills the tree. Fails if a pipe cannot be made or the start fails.
pub(crate) fn launch(spec: &Spec, limits: ChildLimits) -> Result<Launched, ExecError> {
    let pipes = |source| ExecError::Pipes { program: spec.program.clone(), source };
    let (program, args) = words(spec);
    let mut command = Command::new(&program);
    command
        .args(args)
        .env_clear()
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&spec.cwd);
    let near = connect(&mut command, spec).map_err(pipes)?;
    let (note, note_far) = note_pipe(spec.note_fd).map_err(pipes)?;
    let orders = Orders {
        grace: spec.grace,
        leftovers: spec.leftovers,
        note: note_far,
        limits,
        wall: spec.confine.clone(),
    };
    let reins = supervisor::install(&mut command, orders).map_err(pipes)?;
    let child = command.spawn().map_err(|source| why_not_started(program, &spec.cwd, source))?;
    // Closes our copies of the far ends; see `supervisor::install`.
    drop(command);
    set_nonblocking(&reins.status).map_err(pipes)?;
    Ok(Launched {
        child,
        pid: supervisor::read_started(&reins.status),
        lifeline: reins.lifeline,
        status: pipe::Receiver::from_owned_fd(reins.status).map_err(pipes)?,
        stdin: near.stdin,
        stdout: near.stdout,
        stderr: near.stderr,
        note,
    })
}

/// Returns the program to execute and its arguments: those of the command, or, behind a wall with
/// [`CommandWall::argv_prefix`](crate::CommandWall::argv_prefix), the prefix followed by program and arguments.
fn words(spec: &Spec) -> (PathBuf, Vec<OsString>) {
    let prefix = spec.confine.as_ref().map(|wall| wall.argv_prefix()).unwrap_or_default();
    let mut words = prefix.into_iter();
    match words.next() {
        None => (spec.program.clone(), spec.args.clone()),
        Some(first) => {
            let program = [spec.program.clone().into_os_string()];
            (first.into(), words.chain(program).chain(spec.args.iter().cloned()).collect())
        }
    }
}

/// Our ends of the standard streams.
struct Near {
    stdin: Option<InputPipe>,
    stdout: OutputPipe,
    stderr: Option<OutputPipe>,
}

/// Connects stdin, stdout and stderr of `command` as the spec asks, and returns our ends. With merged output, stderr
/// is a copy of the descriptor of stdout and has no end of its own.
fn connect(command: &mut Command, spec: &Spec) -> io::Result<Near> {
    let stdin = match spec.stdin {
        StdinSource::Null => {
            command.stdin(Stdio::null());
            None
        }
        StdinSource::Bytes(_) | StdinSource::Piped => {
            let (read, write) = supervisor::pipe()?;
            command.stdin(read);
            Some(pipe::Sender::from_owned_fd(write)?)
        }
    };
    let (stdout, stdout_far) = output_pipe()?;
    let stderr = match spec.output {
        OutputMode::Merged => {
            command.stderr(stdout_far.try_clone()?);
            None
        }
        OutputMode::Separate => {
            let (stderr, far) = output_pipe()?;
            command.stderr(far);
            Some(stderr)
        }
    };
    command.stdout(stdout_far);
    Ok(Near { stdin, stdout, stderr })
}

/// Returns a pipe for one output, with our end ready for tokio and, on Linux, an enlarged buffer if the kernel allows
/// it.
fn output_pipe() -> io::Result<(OutputPipe, OwnedFd)> {
    let (read, write) = supervisor::pipe()?;
    // A user near the limit of pipe memory gets a smaller pipe, which is only slower.
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(&write, OUTPUT_PIPE_BYTES);
    Ok((pipe::Receiver::from_owned_fd(read)?, write))
}

/// Our end of the note pipe, and the command's end with the number it gets there.
type NotePipe = (Option<OwnedFd>, Option<(OwnedFd, i32)>);

/// Returns our end of the note pipe, and the far end with the number that the command gets it under; `(None, None)`
/// without a number. Both ends are non-blocking: nothing reads the pipe while the command runs, so a write to a full
/// one must fail instead of waiting.
fn note_pipe(number: Option<i32>) -> io::Result<NotePipe> {
    let Some(number) = number else {
        return Ok((None, None));
    };
    let (read, write) = supervisor::pipe()?;
    // It is not read while the command runs: a full pipe must fail, not block.
    set_nonblocking(&write)?;
    set_nonblocking(&read)?;
    Ok((Some(read), Some((claim(write, number), number))))
}

/// Returns a copy of `fd` with the number `number`, or `fd` as it is if that number is taken or cannot be had. It
/// reserves the number, so that no pipe made later for the same launch gets it: the child puts the note there and would
/// close that pipe.
fn claim(fd: OwnedFd, number: i32) -> OwnedFd {
    match fcntl_dupfd_cloexec(&fd, number) {
        Ok(claimed) if claimed.as_raw_fd() == number => claimed,
        Ok(_) | Err(_) => fd,
    }
}

/// Returns the number for [`Ledger::note_number`](crate::Ledger::note_number): `preferred`, lowered to what the limits
/// of open files allow both to this process, which puts the descriptor there, and to the command.
pub(crate) fn note_number(preferred: i32, limits: ChildLimits) -> i32 {
    let ours = getrlimit(Resource::Nofile).current;
    let lowest = [ours, limits.open_files].into_iter().flatten().min();
    let highest = lowest.map_or(i32::MAX, |limit| i32::try_from(limit).unwrap_or(i32::MAX).saturating_sub(1));
    preferred.min(highest)
}

/// Sets `O_NONBLOCK` on the open file behind `fd`, for every descriptor that shares it.
fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    let flags = fcntl_getfl(fd)?;
    Ok(fcntl_setfl(fd, flags | OFlags::NONBLOCK)?)
}

/// Returns the error for a failed spawn. It looks at `cwd`, because the "no such file" of the kernel does not say
/// whether the program or the directory is missing.
fn why_not_started(program: PathBuf, cwd: &Path, source: io::Error) -> ExecError {
    match std::fs::metadata(cwd) {
        Ok(metadata) if metadata.is_dir() => ExecError::Start { program, source },
        Ok(_) => {
            ExecError::WorkingDirectory { cwd: cwd.to_owned(), source: io::ErrorKind::NotADirectory.into() }
        }
        Err(source) => ExecError::WorkingDirectory { cwd: cwd.to_owned(), source },
    }
}
