//! What a command costs a host of a given size: a fork copies the tables of the host's memory, so a large host
//! pays more. Run by `cargo xtask bench`.
//!
//! `cargo run --release -p lathe-exec --example host_size -- MEGABYTES COMMANDS`
//! Takes so much memory, touches every page of it, then runs `true` so many times through the ledger and, turn
//! about, as a plain child. Prints a line for each: which way, and the microseconds from start to end; for the
//! ledger also how long the start held the thread.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a program for people that starts a plain child to compare with"
)]

use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use lathe_exec::{Ledger, RunLimits, Spec};
use tokio_util::sync::CancellationToken;

/// The smallest page there is; larger ones are touched more than once.
const PAGE: usize = 4096;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<usize>().expect("a number"));
    let megabytes = args.next().expect("how many megabytes");
    let commands = args.next().expect("how many commands");
    let ballast = filled(megabytes << 20);
    let ledger = Ledger::default();
    for _ in 0..commands {
        let started = Instant::now();
        let command = ledger.start(Spec::new("/bin/true", "/"), RunLimits::default()).expect("it starts");
        let held = started.elapsed();
        let finished = command.finish(&CancellationToken::new()).await;
        let total = started.elapsed();
        assert!(finished.exit.is_success());
        command.wait_gone().await;
        println!("ledger {} {}", total.as_micros(), held.as_micros());

        let started = Instant::now();
        let status = Command::new("/bin/true").status().expect("it starts");
        println!("plain {}", started.elapsed().as_micros());
        assert!(status.success());
    }
    black_box(ballast);
}

/// Memory that is really there.
fn filled(bytes: usize) -> Vec<u8> {
    let mut memory = vec![0_u8; bytes];
    for page in memory.chunks_mut(PAGE) {
        // Not zero, or the pages could be shared.
        page[0] = 1;
    }
    black_box(memory)
}
