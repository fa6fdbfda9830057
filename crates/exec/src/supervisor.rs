//! The supervisor: a forked process between us and each command, which makes sure that the command's whole
//! tree ends when we let go of it.
//!
//! It leaves to `ledger.rs` to decide when that is. The surprising thing: it is not a program. In the
//! `pre_exec` hook the forked child forks once more; the new child goes on to become the command, and the
//! forked copy of the host stays behind as the supervisor and never returns.
//!
//! How it works. The supervisor is a *child subreaper*: descendants that lose their parent, `setsid` and
//! double-forked daemons included, become its direct children, so killing direct children until none is
//! left kills the tree. It holds two pipes. The *lifeline* carries nothing; its write end is ours alone,
//! and its end of file, however it came about, is the order to kill. On the *status* pipe it writes one
//! [`STARTED`](read_started) record (the command's pid) and one end record (wait status, anything left).
//! Should somebody kill the supervisor itself, the command's main process gets SIGKILL from the kernel
//! (parent-death signal) and the status pipe ends without a record.
//!
//! On unixes other than Linux there is no subreaper ([`GROUP_ONLY`]): there the supervisor looks after the
//! command's process group instead, and a process that leaves the group is lost.
//!
//! # Rules of the unsafe code below
//!
//! Everything between the two forks, and all of the supervisor, runs in a forked copy of a process that may
//! have had other threads. So: only raw system calls that POSIX calls async-signal-safe (or that Linux
//! implements without a lock, such as `prctl` and `close_range`); no allocation, no lock, no `Drop` that
//! matters, nothing that panics (no indexing, wrapping arithmetic). Pointers passed to the kernel point to
//! locals of the calling function, which outlive the call. Descriptors are the plain numbers that the hook
//! owns, alive because the hook owns them until the host drops it. Pids that are signalled are either the
//! command's group while its leader is unreaped, or proven children (`waitid` says so), and neither number
//! can be given to another process before we reap it.
#![allow(unsafe_code, reason = "fork, prctl and signal masks have no safe form; the rules are stated above")]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use libc::{c_int, pid_t, sigset_t};
use tokio::process::Command;

use crate::Leftovers;

/// What a supervisor is told once, before it exists.
pub(crate) struct Orders {
    pub grace: Duration,
    pub leftovers: Leftovers,
    /// An open descriptor, and the number the command gets it under.
    pub note: Option<(OwnedFd, RawFd)>,
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

/// A close-on-exec pipe (read end, write end) whose descriptors are not 0, 1 or 2, so that setting up the
/// child's standard streams cannot overwrite them.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = io::pipe()?;
    Ok((above_stdio(read.into())?, above_stdio(write.into())?))
}

fn above_stdio(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(fd);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&fd, 3)?)
}

/// The command's pid out of its start record. The record is written before `spawn` returns.
pub(crate) fn read_started(status: &OwnedFd) -> Option<pid_t> {
    let mut record = [0; mem::size_of::<pid_t>()];
    match rustix::io::read(status, &mut record) {
        Ok(count) if count == record.len() => Some(pid_t::from_ne_bytes(record)),
        Ok(_) | Err(_) => None,
    }
}

/// Last resort when the supervisor was killed: what is left in the command's group.
pub(crate) fn kill_group(leader: pid_t) {
    // SAFETY: no memory is involved. The group is one that we made moments or minutes ago.
    unsafe {
        libc::kill(-leader, libc::SIGKILL);
    }
}

struct Plan {
    lifeline: OwnedFd,
    status: OwnedFd,
    orders: Orders,
}

/// The hook: returns in the process that becomes the command, never in the supervisor.
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
            main => supervise(plan, main),
        }
    }
}

/// All signals back to their default: ignored ones would stay ignored in the command.
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

/// The C library keeps a few signals to itself and will not touch them; the kernel will. In the kernel's
/// own structure, whatever its layout, all zero is the default.
#[cfg(target_os = "linux")]
unsafe fn reset_reserved(signal: c_int) {
    let default = [0_u64; 16];
    let nothing = std::ptr::null_mut::<u64>();
    let mask_bytes = 8_usize;
    unsafe {
        libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), nothing, mask_bytes);
    }
}

#[cfg(not(target_os = "linux"))]
unsafe fn reset_reserved(_signal: c_int) {}

/// `fork` without the at-fork handlers of the host, which already ran once and are nobody's safe code.
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

/// The last steps before the command's `exec`.
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
        let mut none: sigset_t = mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
    Ok(())
}

/// Where the supervisor keeps its two pipes: nothing else is open in it.
const LIFELINE: RawFd = 0;
const STATUS: RawFd = 1;

/// Whether the process group is all that can be known of a tree.
const GROUP_ONLY: bool = cfg!(not(target_os = "linux"));

/// What a supervisor knows of its tree.
struct Family {
    main: pid_t,
    /// The main process was reaped, so that its number may be somebody else's by now.
    main_reaped: bool,
}

/// Whether a sweep over ended children left any alive.
#[derive(PartialEq)]
enum Left {
    Some,
    Nobody,
}

/// The supervisor's life.
unsafe fn supervise(plan: &Plan, main: pid_t) -> ! {
    unsafe {
        // Before anything is closed: `spawn` in the host returns when the last copy of its error pipe is
        // closed, and finds this record then.
        write_status(plan.status.as_raw_fd(), &main.to_ne_bytes());
        libc::dup2(plan.lifeline.as_raw_fd(), LIFELINE);
        libc::dup2(plan.status.as_raw_fd(), STATUS);
        close_from(STATUS + 1);
        libc::chdir(c"/".as_ptr());
        #[cfg(target_os = "linux")]
        libc::prctl(libc::PR_SET_NAME, c"lathe-keeper".as_ptr(), 0, 0, 0);
        // A handler that does nothing, so that an ended child interrupts `pselect`.
        let mut wake: libc::sigaction = mem::zeroed();
        wake.sa_sigaction = do_nothing as extern "C" fn(c_int) as usize;
        libc::sigaction(libc::SIGCHLD, &wake, std::ptr::null_mut());

        let mut family = Family { main, main_reaped: false };
        loop {
            if family.sweep() == Left::Nobody {
                libc::_exit(0);
            }
            if family.main_reaped && plan.orders.leftovers == Leftovers::KillNow {
                family.kill();
            }
            // Nobody tells us when the rest of a mere group ends.
            let look_again = (GROUP_ONLY && family.main_reaped).then_some(Duration::from_secs(1));
            if wait_for_news(Watch::Lifeline, look_again) == News::LetGo {
                family.ask_to_end(plan.orders.grace);
                family.kill();
            }
        }
    }
}

extern "C" fn do_nothing(_signal: c_int) {}

impl Family {
    /// Reaps what has ended and reports the end of the main process.
    unsafe fn sweep(&mut self) -> Left {
        let mut main_status = None;
        let left = loop {
            let mut status = 0;
            match unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } {
                0 => break Left::Some,
                -1 if errno() == libc::EINTR => {}
                -1 if GROUP_ONLY && unsafe { libc::kill(-self.main, 0) } == 0 => break Left::Some,
                -1 => break Left::Nobody,
                pid if pid == self.main => main_status = Some(status),
                _ => {}
            }
        };
        if let Some(status) = main_status {
            self.main_reaped = true;
            let anything_left = i32::from(left == Left::Some);
            let mut record = [0_u8; END_RECORD_BYTES];
            let bytes = status.to_ne_bytes().into_iter().chain(anything_left.to_ne_bytes());
            for (place, byte) in record.iter_mut().zip(bytes) {
                *place = byte;
            }
            unsafe { write_status(STATUS, &record) };
        }
        left
    }

    /// SIGTERM for everybody we can name, then up to `grace` for them to go.
    unsafe fn ask_to_end(&mut self, grace: Duration) {
        if grace.is_zero() {
            return;
        }
        unsafe {
            if !self.main_reaped {
                libc::kill(-self.main, libc::SIGTERM);
                // A stopped process would not see it.
                libc::kill(-self.main, libc::SIGCONT);
            }
            let main = self.main;
            each_child(|pid| {
                if pid != main {
                    libc::kill(pid, libc::SIGTERM);
                }
            });
            let deadline = now().saturating_add(grace);
            loop {
                if self.sweep() == Left::Nobody {
                    libc::_exit(0);
                }
                let remaining = deadline.saturating_sub(now());
                if remaining.is_zero() {
                    return;
                }
                wait_for_news(Watch::ChildrenOnly, Some(remaining));
            }
        }
    }

    /// SIGKILL until nobody is left. A killed child's own children become ours before `waitpid` reports
    /// it, so "no children" means the tree is gone.
    unsafe fn kill(&mut self) -> ! {
        unsafe {
            loop {
                if !self.main_reaped || GROUP_ONLY {
                    libc::kill(-self.main, libc::SIGKILL);
                }
                if !self.main_reaped {
                    // It may not have made its group yet.
                    libc::kill(self.main, libc::SIGKILL);
                }
                each_child(|pid| {
                    libc::kill(pid, libc::SIGKILL);
                });
                if GROUP_ONLY {
                    wait_for_news(Watch::ChildrenOnly, Some(Duration::from_millis(1)));
                }
                // Sleeps until one of them is dead, without reaping it: that is the sweep's work.
                let mut info: libc::siginfo_t = mem::zeroed();
                libc::waitid(libc::P_ALL, 0, &mut info, libc::WEXITED | libc::WNOWAIT);
                if self.sweep() == Left::Nobody {
                    libc::_exit(0);
                }
            }
        }
    }
}

/// What a wait listens to besides the end of children.
enum Watch {
    Lifeline,
    ChildrenOnly,
}

#[derive(PartialEq)]
enum News {
    /// The lifeline is closed.
    LetGo,
    /// A child ended, or time is up.
    Other,
}

/// Sleeps until something happened. SIGCHLD is let in only here, atomically, so no end is missed between a
/// sweep and the sleep.
unsafe fn wait_for_news(watch: Watch, at_most: Option<Duration>) -> News {
    unsafe {
        let mut mask: sigset_t = mem::zeroed();
        libc::sigfillset(&mut mask);
        libc::sigdelset(&mut mask, libc::SIGCHLD);
        let mut readable: libc::fd_set = mem::zeroed();
        libc::FD_ZERO(&mut readable);
        let watched = match watch {
            Watch::Lifeline => {
                libc::FD_SET(LIFELINE, &mut readable);
                LIFELINE + 1
            }
            Watch::ChildrenOnly => 0,
        };
        let limit = at_most.map(to_timespec);
        let ready = libc::pselect(
            watched,
            &mut readable,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            limit.as_ref().map_or(std::ptr::null(), |limit| limit),
            &mask,
        );
        if ready > 0 || (ready < 0 && errno() != libc::EINTR) { News::LetGo } else { News::Other }
    }
}

/// Calls `act` with the pid of every direct child that is certainly ours.
#[cfg(target_os = "linux")]
unsafe fn each_child(act: impl Fn(pid_t)) {
    unsafe {
        let list = libc::open(c"/proc/thread-self/children".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if list < 0 {
            return;
        }
        let mut pid: pid_t = 0;
        let mut buffer = [0_u8; 4096];
        loop {
            let count = libc::read(list, buffer.as_mut_ptr().cast(), buffer.len());
            if count <= 0 {
                break;
            }
            for byte in buffer.iter().take(count as usize) {
                if byte.is_ascii_digit() {
                    pid = pid.wrapping_mul(10).wrapping_add(pid_t::from(byte.wrapping_sub(b'0')));
                } else if pid != 0 {
                    if is_child(pid) {
                        act(pid);
                    }
                    pid = 0;
                }
            }
        }
        if pid != 0 && is_child(pid) {
            act(pid);
        }
        libc::close(list);
    }
}

/// Without a subreaper all we know is the group, which the callers signal themselves.
#[cfg(not(target_os = "linux"))]
unsafe fn each_child(_act: impl Fn(pid_t)) {}

/// The numbers in `/proc` may be those of another pid namespace: only the kernel's word counts.
#[cfg(target_os = "linux")]
unsafe fn is_child(pid: pid_t) -> bool {
    unsafe {
        let mut info: libc::siginfo_t = mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        pid > 1 && libc::waitid(libc::P_PID, pid as libc::id_t, &mut info, flags) == 0
    }
}

/// Closes every descriptor from `first` on.
unsafe fn close_from(first: RawFd) {
    unsafe {
        #[cfg(target_os = "linux")]
        if libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) == 0 {
            return;
        }
        let mut limit: libc::rlimit = mem::zeroed();
        let known = libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0;
        let last = if known { limit.rlim_cur.min(1 << 20) as RawFd } else { 1024 };
        let mut fd = first;
        while fd < last {
            libc::close(fd);
            fd = fd.wrapping_add(1);
        }
    }
}

/// Small enough for a pipe to take whole or not at all; a host that is gone is not an error.
unsafe fn write_status(pipe: RawFd, record: &[u8]) {
    unsafe {
        libc::write(pipe, record.as_ptr().cast(), record.len());
    }
}

fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Monotonic time.
unsafe fn now() -> Duration {
    unsafe {
        let mut time: libc::timespec = mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

fn to_timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: duration.as_secs() as libc::time_t,
        tv_nsec: duration.subsec_nanos() as libc::c_long,
    }
}
