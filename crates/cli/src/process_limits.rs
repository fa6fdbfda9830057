//! The limits of this process, set at its start. What a child is to get instead is for `lathe_exec` to set.
//!
//! Open files: each command, hook and connection takes a few descriptors, and the usual soft limit of 1024 only
//! protects programs that use `select` with high descriptor numbers. This program does not, so it takes what the hard
//! limit allows. A child may be such a program, and gets the old limit back.
//!
//! Core files: the memory of this process holds the key for the model and the conversation, so a crash writes none. The
//! core file of a child is the user's, and its limit stays as it was.

use lathe_exec::ChildLimits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files and forbids core files for this process. Returns the limits that children must get
/// back. Must be called before any child or thread exists. A limit that cannot be changed stays as it was.
pub fn set() -> ChildLimits {
    ChildLimits { open_files: raise_open_files(), core_bytes: forbid_core_files() }
}

/// Raises the soft limit of open files to the hard one. Returns the old soft limit for children; `None` if nothing was
/// changed.
fn raise_open_files() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let is_set =
        current != maximum && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    if is_set { current } else { None }
}

/// Sets the limit to 0 and returns the old one for children; `None` means that nothing was changed and children need no
/// correction.
fn forbid_core_files() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Core);
    let is_set =
        current != Some(0) && setrlimit(Resource::Core, Rlimit { current: Some(0), maximum }).is_ok();
    // No number means no limit; a soft limit above the hard one becomes the hard one.
    is_set.then_some(current.unwrap_or(u64::MAX))
}
