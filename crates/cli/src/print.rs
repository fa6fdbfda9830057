//! Printing: data on stdout, for readers who may stop reading (`lathe models | head -1` does not fail), and everything
//! else on stderr. Modules that print without this one say so at their top, each for itself.
#![allow(clippy::disallowed_macros, reason = "this module prints")]
#![allow(clippy::disallowed_methods, reason = "a reader that stops reading ends the program")]

use std::fmt::Display;
use std::io::{ErrorKind, Write, stdout};

use lathe_settings::trust::printable;

/// Prints a line on stdout. Ends the program at once if that fails, with success if the reader has closed the pipe.
pub fn line(text: impl Display) {
    let mut out = stdout().lock();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush()) {
        let code = if error.kind() == ErrorKind::BrokenPipe { 0 } else { 1 };
        std::process::exit(code);
    }
}

/// Prints a text for people on stderr. Characters that a terminal would act on are escaped, except for line breaks,
/// because the text may quote files of an untrusted folder.
pub fn note(text: impl Display) {
    let text = text.to_string();
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    eprintln!("{}", lines.join("\n"));
}
