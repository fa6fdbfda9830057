//! What the tests of several crates share: a scripted model in the background, a temporary home, the
//! built `lathe` over pipes, and the means to compare what came out.
//!
//! Everything here is test support: it panics with as much context as it has instead of returning
//! errors, and it is the one place beside `exec` that starts processes, because a test drives the program
//! from the outside. Every wait has a deadline; what a test started is gone when its context is dropped.

mod background;
mod context;
mod normalise;
mod process;
mod recordings;
mod survivors;

pub use background::BackgroundServer;
pub use context::{COOKIE, TestContext, TestPlaces};
pub use lathe_scripted::{LoggedRequest, Script, ServerHandle, Turn};
pub use normalise::{Costs, Normaliser, NumberedNormaliser, normalise, normalise_lines};
pub use process::{Finished, Running};
pub use recordings::{SKIPPED_LINE, beside_repository, recordings};
pub use survivors::{Survivor, scan_survivors, wait_for_no_survivors};
