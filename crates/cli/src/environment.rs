//! The environment of the process, read once, here and nowhere else.
#![allow(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]

use lathe_exec::ChildLimits;
use lathe_launch::LaunchEnvironment;

/// The words behind the name of the program. Those that are no UTF-8 are taken as closely as can be.
pub fn words() -> Vec<String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Reads the process environment. Names and values that are no UTF-8 are taken as closely as can be.
pub fn read(child_limits: ChildLimits) -> LaunchEnvironment {
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let variables = std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value)));
    LaunchEnvironment {
        cwd: std::env::current_dir().ok(),
        temp_dir: Some(std::env::temp_dir()),
        pid: Some(std::process::id()),
        child_limits,
        is_root: rustix::process::geteuid().is_root(),
        ..LaunchEnvironment::with_variables(variables)
    }
}
