//! Reads the arguments and the environment of the process. No other module reads them.
#![allow(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]

use lathe_exec::ChildLimits;
use lathe_launch::LaunchEnvironment;

/// Returns the arguments after the name of the program. Bytes that are not UTF-8 are replaced.
pub fn words() -> Vec<String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Reads the environment, folders and identity of the process; `child_limits` are the limits that children get back.
/// Bytes of names and values that are not UTF-8 are replaced.
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
