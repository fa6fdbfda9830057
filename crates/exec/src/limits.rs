//! Limits how many commands, searches and hooks a process runs at the same time, in all of its sessions together.
//!
//! [`ProcessLimits`] is a value that the program creates once and passes to every session; clones share the places.
//! This module counts and waits. Where the work is done decides who takes a place and when it is released: a job
//! releases its place when its main process has ended or when it is detached (`job.rs`).
//!
//! Surprising: the limits are independent on purpose. A command may have to wait for a hook, so a hook that
//! waited for a command's place could wait for its own caller.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The limits of one process. Cheap to clone; clones are the same limits.
#[derive(Debug, Clone)]
pub struct ProcessLimits {
    /// Commands that a tool waits for: Bash calls and the programs that other tools start.
    pub commands: PlaceLimit,
    /// Searches through files. Each uses several threads.
    pub searches: PlaceLimit,
    /// Processes of hooks.
    pub hooks: PlaceLimit,
    /// Commands in the background, for which no call waits.
    pub tasks: PlaceLimit,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self {
            commands: PlaceLimit::new(PlaceKind::Command, 64),
            searches: PlaceLimit::new(PlaceKind::Search, 4),
            hooks: PlaceLimit::new(PlaceKind::Hook, 32),
            tasks: PlaceLimit::new(PlaceKind::Task, 256),
        }
    }
}

/// What a place is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceKind {
    /// A command of a tool.
    Command,
    /// A search through files.
    Search,
    /// The process of a hook.
    Hook,
    /// A command in the background.
    Task,
}

impl PlaceKind {
    /// Returns the noun in singular and plural, for the text of [`NoPlace`].
    fn nouns(self) -> (&'static str, &'static str) {
        match self {
            Self::Command => ("command", "commands"),
            Self::Search => ("search", "searches"),
            Self::Hook => ("hook", "hooks"),
            Self::Task => ("background command", "background commands"),
        }
    }
}

/// A number of places of one kind. Clones share the places.
#[derive(Debug, Clone)]
pub struct PlaceLimit {
    places: Arc<Semaphore>,
    kind: PlaceKind,
    size: usize,
}

impl PlaceLimit {
    /// Returns a limit of this many places, at least one.
    pub fn new(kind: PlaceKind, size: usize) -> Self {
        let size = size.max(1);
        Self { places: Arc::new(Semaphore::new(size)), kind, size }
    }

    /// Takes a place, or waits for one: first come, first served. Fails when `cancel` fires, even if a place is free,
    /// or after `at_most`. Dropping the [`Place`] releases it. Taking a free place needs no timer.
    pub async fn place(&self, at_most: Duration, cancel: &CancellationToken) -> Result<Place, NoPlace> {
        if cancel.is_cancelled() {
            return Err(NoPlace::Cancelled);
        }
        // A place is not free while others wait: a released place goes to the first of them.
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(Place { _permit: permit });
        }
        let free = Arc::clone(&self.places).acquire_owned();
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(NoPlace::Cancelled),
            permit = free => Ok(Place { _permit: permit.expect("the semaphore is never closed") }),
            () = tokio::time::sleep(at_most) => {
                Err(NoPlace::NoneFree { kind: self.kind, size: self.size, waited: at_most })
            }
        }
    }

    /// Takes a place if one is free, without waiting; `None` if all are taken. Dropping the [`Place`] releases it.
    pub fn free_place(&self) -> Option<Place> {
        Arc::clone(&self.places).try_acquire_owned().ok().map(|permit| Place { _permit: permit })
    }

    /// Returns how many places are free now.
    pub fn free(&self) -> usize {
        self.places.available_permits()
    }
}

/// A place; dropping it releases it.
#[derive(Debug)]
pub struct Place {
    _permit: OwnedSemaphorePermit,
}

/// Why no place was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoPlace {
    /// The caller was cancelled.
    Cancelled,
    /// The waiting time of the caller was over.
    NoneFree {
        /// What the place was for.
        kind: PlaceKind,
        /// How many places there are.
        size: usize,
        /// How long the wait was.
        waited: Duration,
    },
}

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("the wait for a place was cancelled"),
            Self::NoneFree { kind, size, waited } => {
                let ((one, many), seconds) = (kind.nouns(), waited.as_secs_f64());
                let running = if *size == 1 { format!("1 {one} is") } else { format!("{size} {many} are") };
                write!(
                    f,
                    "no place for a {one} became free within {seconds} s: {running} running in this process"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_place_is_taken_waited_for_and_given_back() {
        let (limit, cancel) = (PlaceLimit::new(PlaceKind::Command, 2), CancellationToken::new());
        let first = limit.place(MINUTE, &cancel).await.unwrap();
        let _second = limit.clone().place(MINUTE, &cancel).await.unwrap();
        assert_eq!(limit.free(), 0);
        let none = limit.place(Duration::from_millis(15), &cancel).await.unwrap_err();
        let text =
            "no place for a command became free within 0.015 s: 2 commands are running in this process";
        assert_eq!(none.to_string(), text);
        drop(first);
        limit.place(MINUTE, &cancel).await.unwrap();
    }

    #[tokio::test]
    async fn a_wait_ends_with_its_caller() {
        let (limit, cancel) = (PlaceLimit::new(PlaceKind::Search, 0), CancellationToken::new());
        let _only = limit.place(MINUTE, &cancel).await.unwrap();
        let wait = limit.place(MINUTE, &cancel);
        let (outcome, ()) = tokio::join!(wait, async { cancel.cancel() });
        assert_eq!(outcome.unwrap_err(), NoPlace::Cancelled);
        assert_eq!(limit.place(MINUTE, &cancel).await.unwrap_err(), NoPlace::Cancelled);
    }
}
