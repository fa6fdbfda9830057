//! Any bytes, cut anywhere, give the same events and never a panic. The first byte is the size of the pieces.
#![no_main]

use lathe_models::sse::{SseEvent, SseParser};
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 4096;

fn parse<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<SseEvent>, bool) {
    let mut parser = SseParser::with_limit(LIMIT);
    let mut events = Vec::new();
    for piece in pieces {
        if parser.push(piece, &mut events).is_err() {
            return (events, false);
        }
    }
    events.extend(parser.finish());
    (events, true)
}

fuzz_target!(|input: &[u8]| {
    let Some((size, input)) = input.split_first() else { return };
    let whole = parse(std::iter::once(input));
    assert_eq!(whole, parse(input.chunks(usize::from(*size).max(1))));
    assert!(whole.0.iter().all(|event| event.data.len() <= 3 * LIMIT));
});
