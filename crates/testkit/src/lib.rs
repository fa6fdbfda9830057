//! Support for the tests of several crates: a scripted model in the background, a temporary home, the built `lathe`
//! over pipes, and functions to compare its output.
//!
//! The functions panic with as much context as they have instead of returning errors. Apart from `exec`, this is the
//! only crate that starts processes, because a test drives the program from the outside. Every wait has a deadline, and
//! dropping the context of a test kills the processes that it started.

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
