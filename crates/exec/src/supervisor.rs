//! The supervisor: a forked process between us and each command, which makes sure that the command's whole
//! tree ends when we let go of it.
//!
//! It leaves to `ledger.rs` to decide when that is. The surprising thing: it is not a program. In the
//! `pre_exec` hook the forked child forks once more; the new child goes on to become the command, and the
//! forked copy of the host stays behind as the supervisor and never returns.
//!
//! How it works. The supervisor is a *child subreaper*: descendants that lose their parent, `setsid` and
//! double-forked daemons included, become its direct children, so killing direct children until none is
//! left kills the tree. It holds two pipes. The *lifeline*'s write end is ours alone, and its end of file,
//! however it came about, is the order to kill; a byte before that skips the grace period. On the *status*
//! pipe the command's pid is written before its `exec`, and by the supervisor one end record (wait status,
//! anything left).
//! If the supervisor itself is killed, the command's main process gets SIGKILL from the kernel
//! (parent-death signal) and the status pipe ends without a record.
//!
//! Direct children are found in `/proc`; where that is not mounted, a process that left the command's group is waited
//! for instead of killed. Only Linux has subreapers: on other unixes the supervisor looks after the
//! command's process group instead, and a process that leaves the group is lost.
//!
//! # Rules of the unsafe code below
//!
//! Everything between the two forks, and all of the supervisor, runs in a forked copy of a process that may
//! have had other threads. So: only raw system calls that POSIX calls async-signal-safe (or that Linux
//! implements without a lock, such as `prctl`, `close_range` and `setrlimit`); no allocation, no lock, no
//! `Drop` that matters, nothing that panics (no indexing, wrapping arithmetic). Pointers passed to the kernel point to
//! locals of the calling function, which outlive the call. Descriptors are the plain numbers that the hook
//! owns, alive because the hook owns them until the host drops it. Pids that are signalled are either the
//! command's group while its leader is unreaped, or proven children (`waitid` says so), and neither number
//! can be given to another process before we reap it.
#![allow(unsafe_code, reason = "fork, prctl and signal masks have no safe form; the rules are stated above")]

mod life;
#[cfg(target_os = "linux")]
mod memory;

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use libc::{c_int, pid_t, sigset_t};
use tokio::process::Command;

use crate::{ChildLimits, CommandWall, Leftovers};

/// How the C library calls a resource that has a limit.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
type LimitedResource = libc::__rlimit_resource_t;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
type LimitedResource = c_int;

/// What a supervisor is told once, before it exists.
pub(crate) struct Orders {
    pub grace: Duration,
    pub leftovers: Leftovers,
    /// An open descriptor, and the number the command gets it under.
    pub note: Option<(OwnedFd, RawFd)>,
    /// The command's soft limits.
    pub limits: ChildLimits,
    /// Confines the command.
    pub wall: Option<Arc<dyn CommandWall>>,
}

/// Our ends of the two pipes.
pub(crate) struct Reins {
    /// Closing it, in whatever way, kills the tree.
    pub lifeline: OwnedFd,
    /// Where the records arrive.
    pub status: OwnedFd,
}

/// The end record, as it comes through the status pipe: wait status and "anything left" as two `i32`s.
pub(crate) const END_RECORD_BYTES: usize = 8;

/// Written to the lifeline before it is closed: the tree gets SIGKILL at once.
pub(crate) const NO_GRACE: &[u8] = b"K";

/// Makes `command` run under a supervisor. `command` owns the far ends of the pipes: it has to be dropped
/// right after it was spawned, or the end of the status pipe is never seen.
pub(crate) fn install(command: &mut Command, orders: Orders) -> io::Result<Reins> {
    let (lifeline_far, lifeline) = pipe()?;
    let (status, status_far) = pipe()?;
    let plan = Plan { lifeline: lifeline_far, status: status_far, orders };
    // SAFETY: `split` keeps the rules stated at the top of this file.
    unsafe {
        command.pre_exec(move || split(&plan));
    }
    Ok(Reins { lifeline, status })
}

/// Returns a close-on-exec pipe (read end, write end) whose descriptors are not 0, 1 or 2, so that setting up the
/// child's standard streams cannot overwrite them.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = io::pipe()?;
    Ok((above_stdio(read.into())?, above_stdio(write.into())?))
}

/// Returns `fd`, or a close-on-exec copy of it with a number above 2 if it is 0, 1 or 2.
fn above_stdio(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(fd);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&fd, 3)?)
}

/// Reads the start record from the status pipe and returns the pid of the command, or `None` if the supervisor ended
/// without one. Does not wait: the record is written before `spawn` returns. Must be the first read of the pipe.
pub(crate) fn read_started(status: &OwnedFd) -> Option<pid_t> {
    let mut record = [0; mem::size_of::<pid_t>()];
    match rustix::io::read(status, &mut record) {
        Ok(count) if count == record.len() => Some(pid_t::from_ne_bytes(record)),
        Ok(_) | Err(_) => None,
    }
}

/// Sends SIGKILL to the process group of `leader`. Only for a tree whose supervisor was killed: what left the group is
/// not found.
pub(crate) fn kill_group(leader: pid_t) {
    // SAFETY: no memory is involved. The group is one that we made moments or minutes ago.
    unsafe {
        libc::kill(-leader, libc::SIGKILL);
    }
}

/// Writes a record to the status pipe and ignores errors, because the host may be gone. The record must be small
/// enough for a pipe to take whole or not at all. Async-signal-safe.
unsafe fn write_record(pipe: RawFd, record: &[u8]) {
    unsafe {
        libc::write(pipe, record.as_ptr().cast(), record.len());
    }
}

/// What the forked processes need of the host: their ends of the pipes, and the orders.
struct Plan {
    lifeline: OwnedFd,
    status: OwnedFd,
    orders: Orders,
}

/// Forks once more, as the `pre_exec` hook: the new process returns and becomes the command, this one becomes its
/// supervisor and never returns. An error reaches the host through `spawn`.
fn split(plan: &Plan) -> io::Result<()> {
    // SAFETY: see the rules at the top.
    unsafe {
        // No signal may run a handler of the host here, nor end the supervisor before it knows its work.
        let mut all: sigset_t = mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        reset_dispositions();

        let supervisor = libc::getpid();
        // Away from the host's group: a signal to that is not meant for us. A session of its own would
        // make the kernel schedule it as a stranger, which costs milliseconds on a busy machine.
        libc::setpgid(0, 0);
        #[cfg(target_os = "linux")]
        if libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        match fork_again() {
            -1 => Err(io::Error::last_os_error()),
            0 => become_command(plan, supervisor),
            main => life::supervise(plan, main),
        }
    }
}

/// Sets every signal back to its default action, because signals that the host ignores would stay ignored in the
/// command.
unsafe fn reset_dispositions() {
    unsafe {
        let mut default: libc::sigaction = mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        let mut signal = 1;
        while signal <= 64 {
            if libc::sigaction(signal, &default, std::ptr::null_mut()) != 0 {
                reset_reserved(signal);
            }
            signal += 1;
        }
    }
}

/// Sets a signal back to its default that the C library reserves for itself, by a system call. In the kernel's own
/// structure, whatever its layout, all zero is the default.
#[cfg(target_os = "linux")]
unsafe fn reset_reserved(signal: c_int) {
    let default = [0_u64; 16];
    let nothing = std::ptr::null_mut::<u64>();
    let mask_bytes = 8_usize;
    unsafe {
        libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), nothing, mask_bytes);
    }
}

/// Does nothing: only Linux is known to allow it.
#[cfg(not(target_os = "linux"))]
unsafe fn reset_reserved(_signal: c_int) {}

/// Forks without the at-fork handlers of the host, which already ran once and are not async-signal-safe. Returns 0 in
/// the new process, its pid in this one, and -1 on failure.
unsafe fn fork_again() -> pid_t {
    #[cfg(all(target_os = "linux", not(target_arch = "s390x")))]
    unsafe {
        libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as pid_t
    }
    #[cfg(not(all(target_os = "linux", not(target_arch = "s390x"))))]
    unsafe {
        libc::fork()
    }
}

/// Prepares this process for the `exec` of the command, in this order: new session, descriptors, start record, note
/// pipe, limits, wall, signal mask. The lower limit might not allow the number of the note pipe, and the wall may
/// forbid any of the steps before it. An error keeps the command from starting, even after its start record was
/// written.
unsafe fn become_command(plan: &Plan, supervisor: pid_t) -> io::Result<()> {
    unsafe {
        libc::setsid();
        #[cfg(target_os = "linux")]
        {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            // What the host forgot to mark must not reach the command. The hook's own descriptors and the
            // pipe on which a failed `exec` is reported stay open until the `exec`.
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        }
        if libc::getppid() != supervisor {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        // Written here and not by the supervisor, which a command could kill before it comes to that. The
        // host finds the record when `spawn` returns.
        write_record(plan.status.as_raw_fd(), &libc::getpid().to_ne_bytes());
        if let Some((fd, number)) = &plan.orders.note {
            let placed = if fd.as_raw_fd() == *number {
                libc::fcntl(*number, libc::F_SETFD, 0)
            } else {
                libc::dup2(fd.as_raw_fd(), *number)
            };
            if placed < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        // After the note was put in its place, which the lower limit might not allow.
        if let Some(soft) = plan.orders.limits.open_files {
            set_soft_limit(libc::RLIMIT_NOFILE, soft)?;
        }
        if let Some(soft) = plan.orders.limits.core_bytes {
            set_soft_limit(libc::RLIMIT_CORE, soft)?;
        }
        // Last, because a wall may forbid what is done before. An implementation promises to be safe here; see
        // `CommandWall`.
        if let Some(wall) = &plan.orders.wall {
            wall.before_exec()?;
        }
        let mut none: sigset_t = mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
    Ok(())
}

/// Sets the soft limit of `resource` to `soft`, or to the hard limit if that is lower. Async-signal-safe: both calls
/// are a bare system call in every C library we build for.
unsafe fn set_soft_limit(resource: LimitedResource, soft: u64) -> io::Result<()> {
    unsafe {
        let mut limit: libc::rlimit = mem::zeroed();
        if libc::getrlimit(resource, &mut limit) != 0 {
            return Err(io::Error::last_os_error());
        }
        limit.rlim_cur = limit.rlim_max.min(soft);
        if libc::setrlimit(resource, &limit) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
