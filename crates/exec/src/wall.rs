//! The interface for a sandbox: words in front of a command, and a step in the process that becomes the command.
//!
//! This crate has no sandbox of its own; it calls the one in [`Spec::confine`](crate::Spec::confine), and if that fails
//! the command does not start.
#![allow(unsafe_code, reason = "a promise about code between fork and exec can only be an unsafe trait")]

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;

/// Confines one command, and with it everything that it starts.
///
/// # Safety
///
/// [`CommandWall::before_exec`] runs in a forked copy of a process that may have had other threads, between
/// `fork` and `exec`. It may only make system calls that POSIX calls async-signal-safe, or that Linux implements
/// without a lock (`prctl`, `setrlimit`, `landlock_restrict_self`, `seccomp`): no allocation, no lock, no
/// panic, nothing that a library does behind a lock. What it needs, such as rule sets, paths with a final
/// zero and open descriptors, is made before, when the value is built.
pub unsafe trait CommandWall: Debug + Send + Sync {
    /// Returns the words that come before the program, so that another program starts it, such as `bwrap … --`; empty
    /// by default. Called in the host before the fork. The first word is looked up like
    /// [`Spec::program`](crate::Spec::program).
    fn argv_prefix(&self) -> Vec<OsString> {
        Vec::new()
    }

    /// Does the last step before `exec`, in the process that becomes the command: its streams, its folder, its session
    /// and its pipe for notes are in place, signals are still blocked. An error is made with
    /// [`io::Error::from_raw_os_error`], because only the number reaches the host, and the command does not start.
    fn before_exec(&self) -> io::Result<()> {
        Ok(())
    }
}
