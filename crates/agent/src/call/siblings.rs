//! Whether a call stands alone in its answer, which decides whether it can be deferred: its siblings could not be left
//! unanswered.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Whether a call is the only one of its answer, as far as is known while the answer streams in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Siblings {
    Unknown,
    None,
    Some,
}

impl Siblings {
    /// Waits until it is known; not beyond an interrupt.
    pub async fn known(mut from: watch::Receiver<Self>, cancel: &CancellationToken) -> Self {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Self::Unknown,
            known = from.wait_for(|siblings| *siblings != Self::Unknown) => known.map_or(Self::Unknown, |known| *known),
        }
    }
}
