//! The limit of open files, raised at the start of the program. Each command, hook and connection takes a few
//! descriptors, and the usual soft limit of 1024 only protects programs that use `select` with high descriptor
//! numbers. This program does not, so it takes what the hard limit allows. A child may be such a program, and
//! gets the old limit back; `lathe_exec` sets it.

use lathe_exec::ChildLimits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one, and says what children are to get. Where that is refused, everything
/// stays as it was.
pub fn raise_limit() -> ChildLimits {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum || setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_err() {
        return ChildLimits::default();
    }
    ChildLimits { open_files: current }
}
