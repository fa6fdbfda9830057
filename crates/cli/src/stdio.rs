//! The standard streams without threads. Reading and writing wait in the event loop, so that a slow or silent peer
//! never delays signals, tools or timers, and a run that lasts milliseconds needs no worker thread.
//!
//! The descriptors stay in blocking mode, because other processes share them. Instead each step calls `poll` first, and
//! writes no more than a pipe accepts without blocking.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};

/// The number of bytes that a pipe accepts without blocking if it polls as writable.
const SAFE_WRITE: usize = 4096;

/// One standard stream.
pub struct Stream {
    fd: Waiting,
}

enum Waiting {
    /// A pipe, socket or terminal: the event loop reports when it is ready.
    Polled(AsyncFd<BorrowedFd<'static>>),
    /// A regular file: always ready.
    File(BorrowedFd<'static>),
}

impl Stream {
    /// Opens standard input. Must be called inside the runtime.
    pub fn stdin() -> io::Result<Self> {
        Self::new(rustix::stdio::stdin(), Interest::READABLE)
    }

    /// Opens standard output. Must be called inside the runtime.
    pub fn stdout() -> io::Result<Self> {
        Self::new(rustix::stdio::stdout(), Interest::WRITABLE)
    }

    /// Registers the descriptor with the event loop; one that cannot be polled counts as always ready. Must be called
    /// inside the runtime.
    fn new(fd: BorrowedFd<'static>, interest: Interest) -> io::Result<Self> {
        #[allow(deprecated, reason = "sound here: a standard stream is never closed while we run")]
        let registered = AsyncFd::with_interest(fd, interest);
        let fd = match registered {
            Ok(polled) => Waiting::Polled(polled),
            // epoll rejects regular files and some devices, none of which block for long.
            Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => Waiting::File(fd),
            Err(error) => return Err(error),
        };
        Ok(Self { fd })
    }

    /// Waits until there is something to read and reads what is available, up to the length of `buffer`; 0 means the
    /// end. With an empty buffer it only waits.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.ready(Interest::READABLE, PollFlags::IN).await?;
        Ok(rustix::io::retry_on_intr(|| rustix::io::read(self.fd.as_fd(), &mut *buffer))?)
    }

    /// Returns whether a read would return at once, with data or at the end.
    pub fn is_readable_now(&self) -> bool {
        is_ready(self.fd.as_fd(), PollFlags::IN)
    }

    /// Writes all bytes, waiting for a slow reader without blocking the thread. If the future is dropped, a part may
    /// have been written.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.ready(Interest::WRITABLE, PollFlags::OUT).await?;
            let chunk = match self.fd {
                Waiting::Polled(_) => &bytes[..bytes.len().min(SAFE_WRITE)],
                Waiting::File(_) => bytes,
            };
            let written = rustix::io::retry_on_intr(|| rustix::io::write(self.fd.as_fd(), chunk))?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Waits until the reader has closed the other end. Never returns for a file, whose reader cannot be known.
    pub async fn reader_gone(&self) {
        let Waiting::Polled(fd) = &self.fd else { return std::future::pending().await };
        // Without flags, `poll` reports only errors and a closed other end.
        while !is_ready(*fd.get_ref(), PollFlags::empty()) {
            match fd.ready(Interest::WRITABLE).await {
                // The event loop reports each change once, and the loop polls after each, so no change is missed.
                Ok(mut guard) => guard.clear_ready_matching(Ready::ALL),
                Err(_) => return std::future::pending().await,
            }
        }
    }

    /// Waits until the descriptor is ready; a file always is. Asks `poll` before it waits and again before it clears
    /// the readiness, because the event loop reports only changes and the descriptor may be ready from before.
    async fn ready(&self, interest: Interest, flags: PollFlags) -> io::Result<()> {
        let Waiting::Polled(fd) = &self.fd else { return Ok(()) };
        while !is_ready(fd.get_ref().as_fd(), flags) {
            let mut guard = fd.ready(interest).await?;
            if !is_ready(fd.get_ref().as_fd(), flags) {
                guard.clear_ready_matching(Ready::ALL);
            }
        }
        Ok(())
    }
}

impl Waiting {
    /// Returns the descriptor itself, for the calls that read, write and poll.
    fn as_fd(&self) -> BorrowedFd<'static> {
        match self {
            Self::Polled(fd) => *fd.get_ref(),
            Self::File(fd) => *fd,
        }
    }
}

/// Returns whether the descriptor is ready now. A closed or broken one is ready, and the next call reports the error.
fn is_ready(fd: BorrowedFd<'_>, flags: PollFlags) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut fds, Some(&now)), Ok(count) if count > 0)
}
