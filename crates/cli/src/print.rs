//! Printing for people who may stop reading: `lathe models | head -1` is no failure.

#![allow(clippy::disallowed_methods, reason = "whoever stops reading ends the program")]

use std::fmt::Display;
use std::io::{ErrorKind, Write, stdout};

/// Prints a line; ends the program quietly when nobody reads any more.
pub fn line(text: impl Display) {
    let mut out = stdout().lock();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush()) {
        let code = if error.kind() == ErrorKind::BrokenPipe { 0 } else { 1 };
        std::process::exit(code);
    }
}
