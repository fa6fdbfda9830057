//! The standard streams without threads. Reading and writing wait in the event loop, so that a slow or
//! silent peer never keeps signals, tools or timers from being served, and no worker thread has to be
//! started for a run that lasts milliseconds.
//!
//! The descriptors are left in blocking mode, because other processes share them. Instead each step asks
//! `poll` first, and writes no more than a pipe takes without blocking.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};

/// What a pipe that polls as writable surely takes.
const SAFE_WRITE: usize = 4096;

/// One standard stream.
pub struct Stream {
    fd: Waiting,
}

enum Waiting {
    /// A pipe, socket or terminal: the event loop tells when it is ready.
    Polled(AsyncFd<BorrowedFd<'static>>),
    /// A regular file: always ready.
    File(BorrowedFd<'static>),
}

impl Stream {
    /// Standard input.
    pub fn stdin() -> io::Result<Self> {
        Self::new(rustix::stdio::stdin(), Interest::READABLE)
    }

    /// Standard output.
    pub fn stdout() -> io::Result<Self> {
        Self::new(rustix::stdio::stdout(), Interest::WRITABLE)
    }

    fn new(fd: BorrowedFd<'static>, interest: Interest) -> io::Result<Self> {
        #[allow(deprecated, reason = "sound here: a standard stream is never closed while we run")]
        let registered = AsyncFd::with_interest(fd, interest);
        let fd = match registered {
            Ok(polled) => Waiting::Polled(polled),
            // epoll refuses regular files and some devices, all of which never block for long.
            Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => Waiting::File(fd),
            Err(error) => return Err(error),
        };
        Ok(Self { fd })
    }

    /// Reads what is there, waiting for the first byte; 0 is the end.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.ready(Interest::READABLE, PollFlags::IN).await?;
        Ok(rustix::io::retry_on_intr(|| rustix::io::read(self.fd.as_fd(), &mut *buffer))?)
    }

    /// Whether a read would return at once, with data or with the end.
    pub fn is_readable_now(&self) -> bool {
        is_ready(self.fd.as_fd(), PollFlags::IN)
    }

    /// Writes everything.
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

    /// Waits until nobody reads what we write any more. Never for a file.
    pub async fn reader_gone(&self) {
        let Waiting::Polled(fd) = &self.fd else { return std::future::pending().await };
        // With no flags of its own, `poll` reports nothing but errors and a closed other end.
        while !is_ready(*fd.get_ref(), PollFlags::empty()) {
            match fd.ready(Interest::WRITABLE).await {
                // Readiness comes with a change, and every change is looked at: no change is missed.
                Ok(mut guard) => guard.clear_ready_matching(Ready::ALL),
                Err(_) => return std::future::pending().await,
            }
        }
    }

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
    fn as_fd(&self) -> BorrowedFd<'static> {
        match self {
            Self::Polled(fd) => *fd.get_ref(),
            Self::File(fd) => *fd,
        }
    }
}

/// Whether the descriptor is ready this instant (closed and broken ones are: the next call says so).
fn is_ready(fd: BorrowedFd<'_>, flags: PollFlags) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut fds, Some(&now)), Ok(count) if count > 0)
}
