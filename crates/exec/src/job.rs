//! A command as an owned job: its task runs, reads and ends it whether or not a caller waits.
//!
//! [`Ledger::start`](crate::Ledger::start) returns a [`ForegroundCommand`], whose drop kills the tree. Through any
//! [`CommandJob`], a handle that can be cloned, the command can be *detached*: then it continues without its caller,
//! until it ends, its new time limit is over, or its scope ends. Reading the pipes is `pump.rs`; keeping what was read
//! is `capture.rs`.
//!
//! The surprising thing: a detached command is still on the ledger. It outlives its call, never its scope.

mod events;

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use events::{JobEvent, JobEvents};

use crate::capture::{Captured, Collector, Flow, Spilled};
use crate::ledger::{Entry, KILL_WAIT};
use crate::reading::{OutputPart, OutputStream};
use crate::{Ended, Exit, Finished, Leftovers, OutputMode, Place, RunLimits, SpillFile};

/// The longest time limit of a command: an instant this far away can still be computed.
const LONGEST_LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A handle to a command that runs or has ended. Clones are the same command; dropping one does nothing.
#[derive(Clone)]
pub struct CommandJob {
    shared: Arc<JobShared>,
}

/// A command that belongs to the caller that started it. Dropping it kills the whole tree, unless the command has ended
/// or was detached; see also [`Leftovers`].
pub struct ForegroundCommand {
    job: CommandJob,
}

/// Why the wait for a foreground command ended.
#[derive(Debug, Clone)]
pub enum ForegroundEnd {
    /// The command has ended, with this result.
    Finished(Box<Finished>),
    /// The command was detached and continues.
    Detached,
}

/// The effect of [`CommandJob::detach`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetachOutcome {
    /// The command continues without its caller.
    Detached,
    /// The command had already ended.
    AlreadyEnded,
}

/// The state that the pump and the handles share.
pub(crate) struct JobShared {
    pub entry: Arc<Entry>,
    pub leftovers: Leftovers,
    output: Mutex<JobOutput>,
    /// When the tree is killed. Written by [`CommandJob::detach`], read by the pump.
    deadline: Mutex<Option<Instant>>,
    /// The place of the command in the limit of its kind. Released by the pump when the main process has ended, and by
    /// [`CommandJob::detach`].
    place: Mutex<Option<Place>>,
    /// Written by the pump, and by `detach`; read by all waits and event readers.
    state: watch::Sender<JobState>,
    /// Set before `state` says that the command has ended.
    end: OnceLock<EndFacts>,
}

/// The collectors of a command, one for each output that it has.
struct JobOutput {
    stdout: Collector,
    stderr: Option<Collector>,
    both: Option<Collector>,
}

/// The state that changes while a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JobState {
    pub phase: JobPhase,
    pub held: Held,
    /// Bytes of stdout and stderr together.
    pub total_bytes: u64,
    /// An output file has reached its cap.
    pub file_full: bool,
}

/// The phases of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum JobPhase {
    Running,
    /// The main process has ended and its output has been read.
    Ended,
    /// No process of the tree is left, and nothing more is read.
    Gone,
}

/// Whether a call still waits for the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    InForeground,
    Detached,
}

/// How a command ended.
#[derive(Debug, Clone)]
pub(crate) struct EndFacts {
    pub exit: Exit,
    pub ended: Ended,
    pub note: Vec<u8>,
    pub duration: Duration,
}

impl ForegroundCommand {
    /// Creates the handle that kills the command when it is dropped. There must be only one of it for a command.
    pub(crate) fn new(shared: Arc<JobShared>) -> Self {
        Self { job: CommandJob { shared } }
    }

    /// Waits for the end, or until the command is detached through one of its handles. If the token fires first, the
    /// tree is killed and its end is awaited, which takes at most the grace period and two seconds.
    pub async fn wait_unless_detached(&self, cancel: &CancellationToken) -> ForegroundEnd {
        let shared = &self.job.shared;
        let mut state = shared.state.subscribe();
        let over = |state: &JobState| state.phase != JobPhase::Running || state.held == Held::Detached;
        tokio::select! {
            biased;
            _ = state.wait_for(over) => {}
            () = cancel.cancelled() => shared.entry.cut(Ended::Cancelled),
        }
        let held = state.borrow_and_update().held;
        match held {
            Held::Detached => ForegroundEnd::Detached,
            Held::InForeground => ForegroundEnd::Finished(Box::new(self.job.wait().await)),
        }
    }

    /// Waits for the end, even if the command is detached meanwhile. If the token fires first, the tree is killed, a
    /// detached one too, and its end is awaited.
    pub async fn finish(&self, cancel: &CancellationToken) -> Finished {
        tokio::select! {
            biased;
            finished = self.job.wait() => return finished,
            () = cancel.cancelled() => self.job.shared.entry.cut(Ended::Cancelled),
        }
        self.job.wait().await
    }
}

impl Deref for ForegroundCommand {
    type Target = CommandJob;

    fn deref(&self) -> &CommandJob {
        &self.job
    }
}

impl Drop for ForegroundCommand {
    fn drop(&mut self) {
        let shared = &self.job.shared;
        let JobState { phase, held, .. } = *shared.state.borrow();
        match (held, phase, shared.leftovers) {
            (Held::Detached, _, _) => {}
            (Held::InForeground, JobPhase::Running, _) => shared.entry.cut(Ended::Cancelled),
            (Held::InForeground, _, Leftovers::UntilDropped) => shared.entry.cut(Ended::Stopped),
            (Held::InForeground, _, Leftovers::KillNow | Leftovers::KeepForSession) => {}
        }
    }
}

impl CommandJob {
    /// Creates a handle that watches the command and can detach or stop it. Dropping it has no effect on the
    /// command.
    pub(crate) fn new(shared: Arc<JobShared>) -> Self {
        Self { shared }
    }

    /// Returns the number of this command on its ledger, unique among the commands and scopes of the session.
    pub fn id(&self) -> u64 {
        self.shared.entry.id
    }

    /// Returns the pid of the main process, which is also its process group and session; 0 if it was lost at once.
    pub fn pid(&self) -> i32 {
        self.shared.entry.pid
    }

    /// Returns the label from the [`Spec`](crate::Spec), by which people recognise the command.
    pub fn label(&self) -> &str {
        &self.shared.entry.label
    }

    /// Returns whether the main process is still running, or its last output is still being read. Leftovers do not
    /// count.
    pub fn is_running(&self) -> bool {
        self.shared.state.borrow().phase == JobPhase::Running
    }

    /// Waits for the end of the main process and of its output. Any number of callers may wait, repeatedly, before or
    /// after the end. The output is what is kept at the time of the call, so it includes what leftovers printed since.
    /// The wait has no time-out of its own: the command has one, in [`RunLimits`].
    pub async fn wait(&self) -> Finished {
        self.until(JobPhase::Ended).await;
        self.shared.finished()
    }

    /// Waits like [`CommandJob::wait`], but returns only how the main process ended, without a copy of the output.
    pub async fn exit(&self) -> Exit {
        self.until(JobPhase::Ended).await;
        self.shared.end().exit
    }

    /// Returns how the main process ended, or `None` while it runs.
    pub fn exit_now(&self) -> Option<Exit> {
        (!self.is_running()).then(|| self.shared.end().exit)
    }

    /// Waits until no process of the tree is left, including those that the command left running, and all output is
    /// read. It has no time-out: leftovers that are kept may run until their scope ends.
    pub async fn wait_gone(&self) {
        self.until(JobPhase::Gone).await;
    }

    /// Waits until the job has reached `phase` or a later one; returns at once if it already has. Never hangs: the
    /// pump announces [`JobPhase::Gone`] even when its runtime ends.
    async fn until(&self, phase: JobPhase) {
        // `shared` owns the sender, so it lives as long as this handle; the pump reports `Gone` even if its runtime
        // ends.
        let _ = self.shared.state.subscribe().wait_for(|state| state.phase >= phase).await;
    }

    /// Returns the events of this command, beginning with those that have already happened.
    pub fn events(&self) -> JobEvents {
        JobEvents::new(Arc::clone(&self.shared))
    }

    /// Lets the command continue without its caller, for at most `lifetime` from now on; its former time-out is
    /// dropped, and its place is released. From then on all of its output, from the first byte, is in its file, if its
    /// [`Capture`](crate::Capture) names one or [`CommandJob::keep_in_file`] was called; memory keeps the tail. A
    /// command whose main process has ended is not changed.
    pub fn detach(&self, lifetime: Duration) -> DetachOutcome {
        let shared = &self.shared;
        // Held to the end; otherwise the pump could announce the end in between, and the file would lack its last line.
        let mut output = shared.output();
        let was_running = shared.state.send_if_modified(|state| {
            let running = state.phase == JobPhase::Running;
            if running {
                state.held = Held::Detached;
            }
            running
        });
        if !was_running {
            return DetachOutcome::AlreadyEnded;
        }
        *lock(&shared.deadline) = Some(Instant::now() + lifetime.min(LONGEST_LIFETIME));
        shared.release_place();
        // Wakes the pump, which reads the new deadline.
        shared.entry.told.notify_one();
        for collector in output.each() {
            collector.file_instead_of_head();
        }
        DetachOutcome::Detached
    }

    /// Tells the supervisor to end the tree: SIGTERM, the grace period of its [`Spec`](crate::Spec), SIGKILL. Returns
    /// at once, before anything has ended; no effect on a tree that was told to end before.
    pub fn stop(&self) {
        self.shared.entry.cut(Ended::Stopped);
    }

    /// Stops the tree like [`CommandJob::stop`] and waits until no process is left, for at most the grace period and
    /// two seconds. Returns how the main process ended, or [`Exit::Lost`] if that is not known by then.
    pub async fn kill(&self) -> Exit {
        self.stop();
        let patience = self.shared.entry.grace + KILL_WAIT;
        // After a time-out the known exit is returned, or `Lost`.
        let _ = tokio::time::timeout(patience, self.wait_gone()).await;
        self.shared.end().exit
    }

    /// Kills the tree with SIGKILL at once and returns without waiting. No effect on a tree that was told to end
    /// before: it keeps its grace period.
    pub fn kill_now(&self) {
        self.shared.entry.kill_now(Ended::Stopped);
    }

    /// Returns a copy of what is kept of an output now; empty if the command does not have this output.
    pub fn output(&self, stream: OutputStream) -> Captured {
        self.shared.output().get(stream).map(|collector| collector.snapshot()).unwrap_or_default()
    }

    /// Passes the first bytes of an output to `look`, as far as memory has them, without a copy; none if the command
    /// does not have this output. No output is collected meanwhile, and `look` must not call the job, whose lock is
    /// held.
    pub fn peek<T>(&self, stream: OutputStream, look: impl FnOnce(&[u8]) -> T) -> T {
        match self.shared.output().get(stream) {
            Some(collector) => look(collector.head()),
            None => look(&[]),
        }
    }

    /// Returns how many bytes of an output were read so far, kept or not; 0 if the command does not have this output.
    pub fn total_bytes(&self, stream: OutputStream) -> u64 {
        self.shared.output().get(stream).map_or(0, |collector| collector.total_bytes())
    }

    /// Reads up to `max` bytes of an output from `offset` on, from memory or the file; fewer at the border between
    /// them. Bytes that were not kept are left out, which shows in the offset of the part. If the command does not have
    /// this output, the part is empty and its offset is 0; if the file is gone, only the tail is left. The file is read
    /// without holding the lock of the output.
    pub fn read_from(&self, stream: OutputStream, offset: u64, max: usize) -> OutputPart {
        let locate = |offset: u64| {
            let mut output = self.shared.output();
            output.get(stream).map(|collector| collector.locate(offset, max))
        };
        let tail_start = || self.shared.output().get(stream).map_or(0, |collector| collector.tail_start());
        let found = locate(offset).and_then(|place| place.fetch());
        // The file was removed, so only the tail is left.
        let found = found.or_else(|| locate(tail_start()).and_then(|place| place.fetch()));
        found.unwrap_or_default()
    }

    /// Puts an output into a file, from the first byte on and from now on, and returns what is in it. A file that was
    /// begun earlier is kept; otherwise `file` is used, or with `None` the one that the [`Capture`](crate::Capture)
    /// names. An error says why the file is missing; it is never an error of the command.
    pub fn keep_in_file(&self, stream: OutputStream, file: Option<SpillFile>) -> Result<Spilled, String> {
        match self.shared.output().get(stream) {
            Some(collector) => collector.start_file(file),
            None => Err("this output is not kept".to_owned()),
        }
    }
}

impl JobShared {
    /// Returns the state of a command that has just started. The time-out counts from this call and is at most
    /// [`LONGEST_LIFETIME`].
    pub fn new(entry: Arc<Entry>, leftovers: Leftovers, mode: OutputMode, limits: RunLimits) -> Arc<Self> {
        let RunLimits { timeout, stdout, stderr, both, place } = limits;
        let output = JobOutput {
            stdout: Collector::new(stdout),
            stderr: match mode {
                OutputMode::Separate => Some(Collector::new(stderr)),
                OutputMode::Merged => None,
            },
            both: both.map(Collector::new),
        };
        let state =
            JobState { phase: JobPhase::Running, held: Held::InForeground, total_bytes: 0, file_full: false };
        Arc::new(Self {
            entry,
            leftovers,
            output: Mutex::new(output),
            deadline: Mutex::new(timeout.map(|timeout| Instant::now() + timeout.min(LONGEST_LIFETIME))),
            place: Mutex::new(place),
            state: watch::Sender::new(state),
            end: OnceLock::new(),
        })
    }

    /// Locks the collectors. The lock must be held across a change of the phase wherever both have to agree; see
    /// [`CommandJob::detach`].
    fn output(&self) -> MutexGuard<'_, JobOutput> {
        lock(&self.output)
    }

    /// Returns when the command times out, or `None` without a time limit. Detaching replaces it, so the pump reads it
    /// again whenever it is told of a change.
    pub fn deadline(&self) -> Option<Instant> {
        *lock(&self.deadline)
    }

    /// Releases the place of the command in its limit, so that a waiting command can start. Later calls do nothing.
    fn release_place(&self) {
        drop(lock(&self.place).take());
    }

    /// Gives a chunk that was read from a pipe to the collector of its stream and to that of both streams, and tells
    /// the event readers that the output grew. [`Flow::OverLimit`] means that the limit of the stream is reached; the
    /// chunk is kept all the same, and a limit of the collector of both streams is ignored.
    pub fn push(&self, stream: OutputStream, chunk: &[u8]) -> Flow {
        let mut output = self.output();
        let flow = output.get(stream).map_or(Flow::GoOn, |collector| collector.push(chunk));
        if let Some(both) = &mut output.both {
            both.push(chunk);
        }
        let file_full = output.each().any(|collector| collector.is_file_full());
        drop(output);
        self.state.send_modify(|state| {
            state.total_bytes += chunk.len() as u64;
            state.file_full |= file_full;
        });
        flow
    }

    /// Announces that the main process has ended and its output has been read: writes the exit lines, releases the
    /// place and moves the phase to [`JobPhase::Ended`]. What the command left running may continue to print, to the
    /// file if there is one. Only the first announcement counts.
    pub fn announce_end(&self, facts: EndFacts) {
        if self.end.get().is_some() {
            return;
        }
        // Held to the end; see `CommandJob::detach`.
        let mut output = self.output();
        for collector in output.each() {
            collector.write_exit_line(facts.exit);
            collector.file_with_next_byte();
        }
        self.release_place();
        if self.end.set(facts).is_ok() {
            self.state.send_modify(|state| state.phase = JobPhase::Ended);
        }
    }

    /// Announces that no process of the tree is left and nothing more is read: closes the files and moves the phase to
    /// [`JobPhase::Gone`]. Must come after [`JobShared::announce_end`].
    pub fn announce_gone(&self) {
        for collector in self.output().each() {
            collector.close_file();
        }
        self.state.send_modify(|state| state.phase = JobPhase::Gone);
    }

    /// Returns how the command ended, or [`Exit::Lost`] with [`Ended::Stopped`] before that is announced.
    fn end(&self) -> EndFacts {
        let unknown = || EndFacts {
            exit: Exit::Lost,
            ended: Ended::Stopped,
            note: Vec::new(),
            duration: Duration::ZERO,
        };
        self.end.get().cloned().unwrap_or_else(unknown)
    }

    /// Returns the end of the command and a snapshot of its output. The output is that of this moment: leftovers may
    /// print more later. With merged output stderr is empty.
    fn finished(&self) -> Finished {
        let EndFacts { exit, ended, note, duration } = self.end();
        let mut output = self.output();
        let mut snapshot =
            |stream| output.get(stream).map(|collector| collector.snapshot()).unwrap_or_default();
        let (stdout, stderr) = (snapshot(OutputStream::Stdout), snapshot(OutputStream::Stderr));
        Finished { exit, ended, stdout, stderr, note, duration }
    }
}

impl JobOutput {
    /// Returns the collector of a stream, or `None` if the command has none: for stderr when it is merged into stdout,
    /// for both streams together when that was not asked for.
    fn get(&mut self, stream: OutputStream) -> Option<&mut Collector> {
        match stream {
            OutputStream::Stdout => Some(&mut self.stdout),
            OutputStream::Stderr => self.stderr.as_mut(),
            OutputStream::Both => self.both.as_mut(),
        }
    }

    /// Returns every collector, in the order stdout, stderr, both; those that the command does not have are left out.
    fn each(&mut self) -> impl Iterator<Item = &mut Collector> {
        std::iter::once(&mut self.stdout).chain(&mut self.stderr).chain(&mut self.both)
    }
}

/// Locks the mutex, even a poisoned one: no code under these locks can leave their value half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
