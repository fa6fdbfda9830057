//! Gives the host's memory back. The rules of the parent module hold.
//!
//! A supervisor is a forked copy of its host. As long as it lives, every page that the host changes is kept twice, so
//! the supervisor of a long-lived server would cost as much memory as the host had when it was started. It needs almost
//! nothing of it: code, which is shared anyway, its stack, and the thread's own block with `errno`. So it unmaps what
//! is large, private and not backed by a file, except around those (the kernel may have joined them with other memory)
//! and except what directly follows the mapping of a file: that is the static data of some library.

use std::mem;

/// Smaller pieces are not worth the risk.
const WORTH_IT: usize = 256 * 1024;

/// How much is kept on both sides of an address that is needed: many times what the supervisor's functions use of the
/// stack (they do not recurse, and never return to those of the host) and what a thread's block has. What the host left
/// there is kept once for each command, so it is not more. A multiple of every page size.
const AROUND: usize = 64 * 1024;

/// Unmaps the large private mappings of the forked host that the supervisor does not need, mostly its heap. No value
/// of the host may be used afterwards. Does nothing without `/proc`, or with a shadow stack.
pub(super) unsafe fn give_back() {
    unsafe {
        if has_shadow_stack() {
            return;
        }
        let maps = libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if maps < 0 {
            return;
        }
        let mut buffer = [0_u8; 4096];
        // What must stay: this stack, the thread's descriptor, and its `errno`.
        let mut needed =
            [buffer.as_ptr() as usize, libc::pthread_self() as usize, libc::__errno_location() as usize];
        needed.sort_unstable();
        let mut line = Line::default();
        let mut file_ended_at = 0;
        loop {
            let count = libc::read(maps, buffer.as_mut_ptr().cast(), buffer.len());
            if count <= 0 {
                break;
            }
            for byte in buffer.iter().take(count as usize) {
                if *byte != b'\n' {
                    line.read(*byte);
                    continue;
                }
                let found = mem::take(&mut line);
                if found.has_file {
                    file_ended_at = found.end;
                } else if found.start != file_ended_at && found.private && found.writable {
                    found.unmap_around(&needed);
                }
            }
        }
        libc::close(maps);
    }
}

/// Returns whether the processor keeps a second stack to check return addresses. It looks like any other memory in the
/// list, so if it is in use nothing is unmapped.
unsafe fn has_shadow_stack() -> bool {
    /// `PR_GET_SHADOW_STACK_STATUS`, for the architectures that have it there.
    const GET_STATUS: libc::c_int = 74;
    /// `ARCH_SHSTK_STATUS`, for x86.
    #[cfg(target_arch = "x86_64")]
    const ARCH_STATUS: libc::c_int = 0x5005;
    let mut status: libc::c_ulong = 0;
    let answer: *mut libc::c_ulong = &mut status;
    unsafe {
        libc::prctl(GET_STATUS, answer, 0, 0, 0);
        #[cfg(target_arch = "x86_64")]
        libc::syscall(libc::SYS_arch_prctl, ARCH_STATUS, answer);
    }
    status & 1 != 0
}

/// One line of the list, such as `7f00-7f80 rw-p 00000000 00:00 0  [heap]`, as far as it was read.
#[derive(Default)]
struct Line {
    /// The number of the blank-separated field that is being read.
    field: u8,
    /// Characters of that field so far.
    seen: usize,
    start: usize,
    end: usize,
    /// The range's dash was seen.
    at_end: bool,
    writable: bool,
    private: bool,
    has_file: bool,
}

impl Line {
    /// Takes the next byte of a line of `/proc/self/maps`. Byte by byte, because a line may be cut by the end of the
    /// buffer and nothing may be allocated here.
    fn read(&mut self, byte: u8) {
        if byte == b' ' {
            self.field = self.field.saturating_add(1);
            self.seen = 0;
            return;
        }
        match self.field {
            0 if byte == b'-' => self.at_end = true,
            0 => {
                let digit = (byte as char).to_digit(16).unwrap_or(0) as usize;
                let number = if self.at_end { &mut self.end } else { &mut self.start };
                *number = number.wrapping_shl(4) | digit;
            }
            1 if self.seen == 1 => self.writable = byte == b'w',
            1 if self.seen == 3 => self.private = byte == b'p',
            // The inode.
            4 => self.has_file |= byte != b'0',
            _ => {}
        }
        self.seen = self.seen.wrapping_add(1);
    }

    /// Unmaps this mapping except around the addresses in `needed`, which must be sorted.
    unsafe fn unmap_around(&self, needed: &[usize]) {
        let mut from = self.start;
        for address in needed.iter().filter(|address| (self.start..self.end).contains(address)) {
            let [first, last] = kept_around(*address);
            unsafe { unmap(from, first) };
            from = from.max(last);
        }
        unsafe { unmap(from, self.end) };
    }
}

/// Returns start and end of the range around an address that stays mapped: [`AROUND`] bytes or more on both sides.
fn kept_around(address: usize) -> [usize; 2] {
    let start = address & !(AROUND - 1);
    [start.saturating_sub(AROUND), start.saturating_add(2 * AROUND)]
}

/// Unmaps a range if it has at least [`WORTH_IT`] bytes; a smaller, empty or reversed one is left alone. The caller
/// guarantees that nothing in it is used again.
unsafe fn unmap(from: usize, to: usize) {
    if to.saturating_sub(from) >= WORTH_IT {
        unsafe { libc::munmap(from as *mut libc::c_void, to - from) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        let mut line = Line::default();
        text.bytes().for_each(|byte| line.read(byte));
        line
    }

    #[test]
    fn lines_are_understood() {
        let heap = line("555555559000-5555555fa000 rw-p 00000000 00:00 0                  [heap]");
        assert_eq!((heap.start, heap.end), (0x5555_5555_9000, 0x5555_555f_a000));
        assert!(heap.private && heap.writable && !heap.has_file);
        let code = line("7ffff7c00000-7ffff7f00000 r-xp 00000000 fe:00 1234    /usr/lib/x 0.so");
        assert!(!code.writable && code.has_file);
        let shared = line("7ffff0000000-7ffff7c00000 rw-s 00000000 00:00 0");
        assert!(!shared.private && !shared.has_file);
        let data = line("7ffff0000000-7ffff0100000 rw-p 00001000 fe:00 1000 /usr/lib/x.so");
        assert!(data.private && data.has_file);
    }

    #[test]
    fn what_is_kept_is_whole_pages_on_both_sides() {
        for address in [0x7fff_1234_5678, 0x7fff_1234_0000, 0x7fff_1235_ffff] {
            let [first, last] = kept_around(address);
            assert_eq!((first % AROUND, last % AROUND), (0, 0));
            assert!(address - first >= AROUND && last - address > AROUND);
        }
    }
}
