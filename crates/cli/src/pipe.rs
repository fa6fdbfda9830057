//! Finds out which processes can still write to standard input. A command in a shell pipeline keeps its end open while
//! it works, and lathe must wait for it; a parent that left the pipe open by mistake must not be waited for. `/proc`
//! tells the two apart: in a pipeline a process that is not an ancestor has the pipe open for writing.

#![allow(clippy::disallowed_methods, reason = "the search for writers starts at this process")]

use std::os::fd::AsFd;
use std::path::Path;

/// Returns whether a process that is not an ancestor of this one has the stdin pipe open for writing. Returns false if
/// stdin is not a pipe, or if `/proc` cannot be read.
pub fn has_writer_besides_parent() -> bool {
    let Ok(stat) = rustix::fs::fstat(rustix::stdio::stdin().as_fd()) else { return false };
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::Fifo {
        return false;
    }
    let wanted = format!("pipe:[{}]", stat.st_ino);
    let ours = ancestors();
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| !ours.contains(pid))
        .any(|pid| writes_to(pid, &wanted))
}

/// Returns whether the process has the pipe, named as in the links of `/proc`, open with write access. False for a
/// process that cannot be looked at.
fn writes_to(pid: u32, pipe: &str) -> bool {
    let dir = format!("/proc/{pid}/fd");
    let Ok(fds) = std::fs::read_dir(&dir) else { return false };
    fds.flatten().any(|fd| {
        let target = std::fs::read_link(fd.path()).unwrap_or_default();
        target.to_str() == Some(pipe) && is_writable(pid, &fd.file_name())
    })
}

/// Returns whether the process opened this descriptor for writing, by the octal `flags` of its `fdinfo`. What cannot be
/// read counts as read-only.
fn is_writable(pid: u32, fd: &std::ffi::OsStr) -> bool {
    let info = Path::new("/proc").join(pid.to_string()).join("fdinfo").join(fd);
    let text = std::fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|value| u32::from_str_radix(value.trim(), 8).ok()).unwrap_or(0);
    // `O_WRONLY` or `O_RDWR`.
    flags & 0o3 != 0
}

/// Returns the ids of this process and its chain of parents, as far as `/proc` shows it.
fn ancestors() -> Vec<u32> {
    let mut pids = vec![std::process::id()];
    while let Some(parent) = pids.last().and_then(|pid| parent_of(*pid)) {
        if parent == 0 || pids.contains(&parent) {
            break;
        }
        pids.push(parent);
    }
    pids
}

/// Returns the parent of a process; `None` if it has ended meanwhile or `/proc` hides it.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain any character, so fields are counted from its end.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}
