//! The supervisor's life, from the second fork to its exit. The rules of the parent module hold.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use libc::{c_int, pid_t, sigset_t};

use super::{END_RECORD_BYTES, Plan, write_record};
use crate::Leftovers;

/// The descriptors of the supervisor's two pipes: nothing else is open in it.
const LIFELINE: RawFd = 0;
const STATUS: RawFd = 1;

/// Whether only the process group of a tree can be known.
const GROUP_ONLY: bool = cfg!(not(target_os = "linux"));

/// What a supervisor knows of its tree.
struct Family {
    main: pid_t,
    /// The main process was reaped, so its number may already belong to another process.
    main_reaped: bool,
}

/// Whether any child was still alive after a sweep over the ended ones.
#[derive(PartialEq)]
enum Left {
    Some,
    NoChild,
}

/// Only a command that lives this long is worth the work of giving the host's memory back.
const SETTLED_AFTER: Duration = Duration::from_millis(100);

/// Runs the supervisor: reports the end of the main process, and ends the tree when the lifeline closes or the
/// leftovers must not stay. Exits the process when no process of the tree is left. Must not touch `plan` after its
/// setup.
pub(super) unsafe fn supervise(plan: &Plan, main: pid_t) -> ! {
    unsafe {
        libc::dup2(plan.lifeline.as_raw_fd(), LIFELINE);
        libc::dup2(plan.status.as_raw_fd(), STATUS);
        close_from(STATUS + 1);
        libc::chdir(c"/".as_ptr());
        #[cfg(target_os = "linux")]
        libc::prctl(libc::PR_SET_NAME, c"lathe-keeper".as_ptr(), 0, 0, 0);
        // The handler does nothing; it exists so that the end of a child interrupts `pselect`.
        let mut wake: libc::sigaction = mem::zeroed();
        wake.sa_sigaction = do_nothing as extern "C" fn(c_int) as usize;
        libc::sigaction(libc::SIGCHLD, &wake, std::ptr::null_mut());

        // From here on `plan`, which is in the host's memory, is not touched any more.
        let (grace, leftovers) = (plan.orders.grace, plan.orders.leftovers);
        let mut family = Family { main, main_reaped: false };
        let mut look_again = Some(SETTLED_AFTER);
        loop {
            if family.sweep() == Left::NoChild {
                libc::_exit(0);
            }
            if family.main_reaped && leftovers == Leftovers::KillNow {
                family.kill();
            }
            match wait_for_news(Watch::Lifeline, look_again) {
                News::LetGo => {
                    if !wants_no_grace() {
                        family.ask_to_end(grace);
                    }
                    family.kill();
                }
                News::ChildEnded => {}
                News::TimeIsUp => {
                    #[cfg(target_os = "linux")]
                    super::memory::give_back();
                    // No signal reports the end of processes that are only in the group, so they are polled.
                    look_again = GROUP_ONLY.then_some(Duration::from_secs(1));
                }
            }
        }
    }
}

/// Handles SIGCHLD by doing nothing; a handler is needed so that the signal interrupts `pselect`.
extern "C" fn do_nothing(_signal: c_int) {}

impl Family {
    /// Reaps all ended children without waiting and returns whether any is left. If the main process is among them,
    /// writes its end record to the status pipe, once; `ledger::decode` reads it.
    unsafe fn sweep(&mut self) -> Left {
        let mut main_status = None;
        let left = loop {
            let mut status = 0;
            match unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } {
                0 => break Left::Some,
                -1 if errno() == libc::EINTR => {}
                -1 if GROUP_ONLY && unsafe { libc::kill(-self.main, 0) } == 0 => break Left::Some,
                -1 => break Left::NoChild,
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
            unsafe { write_record(STATUS, &record) };
        }
        left
    }

    /// Sends SIGTERM to the group of the command and to all other direct children, then waits up to `grace` for them
    /// to end. Exits the process if all of them do; sends nothing if `grace` is zero.
    unsafe fn ask_to_end(&mut self, grace: Duration) {
        if grace.is_zero() {
            return;
        }
        unsafe {
            if !self.main_reaped {
                libc::kill(-self.main, libc::SIGTERM);
                // A stopped process would not handle the SIGTERM.
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
                if self.sweep() == Left::NoChild {
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

    /// Sends SIGKILL until no process is left, then exits the process. The children of a killed child become ours
    /// before `waitpid` reports it, so "no children" means the tree is gone.
    unsafe fn kill(&mut self) -> ! {
        unsafe {
            loop {
                if !self.main_reaped || GROUP_ONLY {
                    libc::kill(-self.main, libc::SIGKILL);
                }
                if !self.main_reaped {
                    // It may not have created its group yet.
                    libc::kill(self.main, libc::SIGKILL);
                }
                each_child(|pid| {
                    libc::kill(pid, libc::SIGKILL);
                });
                if GROUP_ONLY {
                    wait_for_news(Watch::ChildrenOnly, Some(Duration::from_millis(1)));
                }
                // Sleeps until one of them is dead, without reaping it: the sweep does that.
                let mut info: libc::siginfo_t = mem::zeroed();
                libc::waitid(libc::P_ALL, 0, &mut info, libc::WEXITED | libc::WNOWAIT);
                if self.sweep() == Left::NoChild {
                    libc::_exit(0);
                }
            }
        }
    }
}

/// What a wait watches besides the end of children.
enum Watch {
    Lifeline,
    ChildrenOnly,
}

/// Why a sleep of the supervisor ended.
enum News {
    /// The lifeline is closed.
    LetGo,
    /// Possibly: a sweep finds out.
    ChildEnded,
    TimeIsUp,
}

/// Sleeps until a child ends, the lifeline closes (if it is watched) or `at_most` is over, and returns which; a failure
/// of the sleep counts as [`News::LetGo`], so that the tree is ended and not left unwatched. SIGCHLD is unblocked only
/// here, atomically, so no end is missed between a sweep and the sleep.
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
        match ready {
            0 => News::TimeIsUp,
            -1 if errno() == libc::EINTR => News::ChildEnded,
            _ => News::LetGo,
        }
    }
}

/// Reads the lifeline after it became readable: `true` if the owner wrote `NO_GRACE` before closing it, which asks for
/// SIGKILL at once.
unsafe fn wants_no_grace() -> bool {
    let mut byte = [0_u8; 1];
    unsafe {
        // There is a byte or the end of file to read, unless `pselect` failed; the read must not block then either.
        libc::fcntl(LIFELINE, libc::F_SETFL, libc::O_NONBLOCK);
        libc::read(LIFELINE, byte.as_mut_ptr().cast(), byte.len()) == 1
    }
}

/// Calls `act` with the pid of every direct child that [`is_child`] confirms; with none if `/proc` cannot be read.
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

/// Does nothing: without a subreaper only the group is known, which the callers signal themselves.
#[cfg(not(target_os = "linux"))]
unsafe fn each_child(_act: impl Fn(pid_t)) {}

/// Returns whether `pid` is a child of this process, running or ended, without reaping it. Needed before a signal is
/// sent, because the numbers in `/proc` may be those of another pid namespace.
#[cfg(target_os = "linux")]
unsafe fn is_child(pid: pid_t) -> bool {
    unsafe {
        let mut info: libc::siginfo_t = mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        pid > 1 && libc::waitid(libc::P_PID, pid as libc::id_t, &mut info, flags) == 0
    }
}

/// Closes every descriptor from `first` on; without `close_range` only up to the limit of open files.
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

/// Returns the error number of the last system call of this thread. Reads a number only, so it is safe after `fork`.
fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Returns the monotonic time, by a system call that is safe after `fork`.
unsafe fn now() -> Duration {
    unsafe {
        let mut time: libc::timespec = mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

/// Converts a time limit for `pselect`.
fn to_timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: duration.as_secs() as libc::time_t,
        tv_nsec: duration.subsec_nanos() as libc::c_long,
    }
}
