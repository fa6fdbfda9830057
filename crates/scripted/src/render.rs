//! Renders a turn as the bytes of its response: the event stream or whole message of the Messages API, HTTP errors, and
//! the places where the response is cut off, falls silent or turns to garbage.
//!
//! The result is a list of [`Step`]s that the HTTP server performs on a socket and the in-process model performs on
//! itself. Faults inside a body apply to streamed and raw responses; a client that asks without `stream` gets the whole
//! message, which is how clients recover from broken streams.

mod events;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::facts::Facts;
use crate::script::{Cut, CutHow, Defaults, ErrorReply, RawReply, Turn};
use crate::template::TemplateError;

/// A response: its head, and the steps that follow.
#[derive(Debug, Clone)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Response headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// How the body is delimited.
    pub framing: Framing,
    /// What to do, in order. After the last step the response ends regularly.
    pub steps: Vec<Step>,
}

/// How the body is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// `content-length`, known beforehand.
    Length,
    /// `transfer-encoding: chunked`.
    Chunked,
}

/// One step of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send the status line and the headers.
    Head,
    /// Send these bytes of the body.
    Send(Bytes),
    /// Wait.
    Pause(Duration),
    /// Send nothing more until the client gives up.
    Hang,
    /// Close the connection in the middle.
    Fin,
    /// Reset the connection.
    Reset,
}

/// A body and the positions in it that matter.
#[derive(Debug, Default)]
struct Body {
    bytes: Vec<u8>,
    /// Where each event ends.
    event_ends: Vec<usize>,
    /// The middle of the last content block, where faults happen by default.
    middle: Option<usize>,
    /// Where a new `Send` begins without a fault.
    pieces: Vec<usize>,
    pauses: Vec<(usize, Duration)>,
}

/// Something that happens at a position in the body.
enum Mark {
    Piece,
    Pause(Duration),
    Insert(Bytes),
    /// The body ends here, regularly.
    End,
    Last(Step),
}

/// Returns the response of the turn to the request: its error, its raw bytes or its message, with faults, pauses and
/// headers added. A cut before the headers replaces everything but the delay, which always comes first. A placeholder
/// that finds nothing is an error.
pub fn render(turn: &Turn, defaults: &Defaults, facts: &Facts) -> Result<Reply, TemplateError> {
    let mut reply = match (&turn.error, &turn.raw) {
        (Some(error), _) => error_reply(error, facts)?,
        (None, Some(raw)) => raw_reply(raw, turn),
        (None, None) => message_reply(turn, defaults, facts)?,
    };
    set_headers(&mut reply.headers, &defaults.headers);
    set_headers(&mut reply.headers, &turn.headers);
    if let Some(Cut { before_headers: true, how, .. }) = &turn.cut {
        reply.steps = vec![ending(*how)];
    }
    if let Some(drip) = &turn.drip {
        reply.steps = dripped(reply.steps, drip.bytes, Duration::from_millis(drip.ms));
        reply.framing = Framing::Chunked;
    }
    let delay = turn.delay_ms.unwrap_or(defaults.delay_ms);
    if delay > 0 {
        reply.steps.insert(0, Step::Pause(Duration::from_millis(delay)));
    }
    Ok(reply)
}

/// Returns an HTTP error with an error object as the API writes it; with `number` 0 it has no request id.
pub fn api_error(number: u64, status: u16, kind: &str, message: &str) -> Reply {
    let body = json!({"type": "error", "error": {"type": kind, "message": message}});
    Reply::json(number, status, &body)
}

impl Reply {
    /// Returns a response with a JSON body; with `number` 0 it has no request id.
    pub fn json(number: u64, status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: headers("application/json", number),
            framing: Framing::Length,
            steps: vec![Step::Head, Step::Send(body.to_string().into())],
        }
    }

    /// Returns the first header of this name, which must be in lower case; `None` if the response has none.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Returns the first headers of a response: the type and, unless `number` is 0, a request id. Only responses to
/// requests for a message have a number.
fn headers(content_type: &str, number: u64) -> Vec<(String, String)> {
    let mut headers = vec![("content-type".to_owned(), content_type.to_owned())];
    if number > 0 {
        headers.push(("request-id".to_owned(), format!("req_{number}")));
    }
    headers
}

/// Sets headers in lower case, replacing those of the same name; the names that are present must be in lower case
/// already.
fn set_headers(headers: &mut Vec<(String, String)>, more: &BTreeMap<String, String>) {
    for (name, value) in more {
        let name = name.to_ascii_lowercase();
        headers.retain(|(key, _)| *key != name);
        headers.push((name, value.clone()));
    }
}

/// Returns the response of a turn that is an HTTP error, without its faults. A scripted `body` replaces the API's error
/// object and need not be JSON.
fn error_reply(error: &ErrorReply, facts: &Facts) -> Result<Reply, TemplateError> {
    let kind = error.kind.as_deref().unwrap_or_else(|| usual_type(error.status));
    let message = match &error.message {
        Some(message) => message.render(facts)?,
        None => "scripted".to_owned(),
    };
    let mut reply = api_error(facts.number, error.status, kind, &message);
    if let Some(body) = &error.body {
        reply.steps = vec![Step::Head, Step::Send(Bytes::copy_from_slice(body.as_bytes()))];
    }
    set_headers(&mut reply.headers, &error.headers);
    Ok(reply)
}

/// Returns the error type that the API uses with a status; `api_error` for one without a type of its own.
fn usual_type(status: u16) -> &'static str {
    match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        _ => "api_error",
    }
}

/// Returns the scripted bytes as they are, one step per chunk. A response of one piece and without a fault has a
/// length, as a plain JSON response has; any other is chunked.
fn raw_reply(raw: &RawReply, turn: &Turn) -> Reply {
    let mut body = Body::default();
    for chunk in &raw.chunks {
        body.pieces.push(body.bytes.len());
        body.bytes.extend_from_slice(&chunk.0);
    }
    let ends = body.bytes.windows(2).enumerate().filter(|(_, pair)| *pair == b"\n\n");
    body.event_ends = ends.map(|(start, _)| start + 2).collect();
    let mut headers = Vec::new();
    set_headers(&mut headers, &raw.headers);
    let steps = body.into_steps(turn);
    let whole =
        steps.len() <= 2 && !steps.iter().any(|step| matches!(step, Step::Hang | Step::Fin | Step::Reset));
    let framing = if whole { Framing::Length } else { Framing::Chunked };
    Reply { status: raw.status, headers, framing, steps }
}

/// Returns the turn as a message, streamed if the client asked for it. Faults and pace only apply to the stream. A
/// placeholder that finds nothing is an error.
fn message_reply(turn: &Turn, defaults: &Defaults, facts: &Facts) -> Result<Reply, TemplateError> {
    let message = events::Message::resolve(turn, defaults, facts)?;
    if !facts.stream {
        return Ok(Reply::json(facts.number, 200, &message.whole()));
    }
    let pace = Duration::from_millis(turn.pace_ms.unwrap_or(defaults.pace_ms));
    let body = message.events(defaults, pace);
    let mut headers = headers("text/event-stream; charset=utf-8", facts.number);
    headers.push(("cache-control".to_owned(), "no-cache".to_owned()));
    Ok(Reply { status: 200, headers, framing: Framing::Chunked, steps: body.into_steps(turn) })
}

/// Returns the step that closes the connection: in order, or with a reset.
fn ending(how: CutHow) -> Step {
    match how {
        CutHow::Fin => Step::Fin,
        CutHow::Rst => Step::Reset,
    }
}

impl Body {
    /// Returns the byte at which a fault happens, at most the end of the body. Without a position it is the middle of
    /// the last content block, or the end of a body that has none.
    fn place(&self, after_events: Option<usize>, after_bytes: Option<usize>) -> usize {
        match (after_events, after_bytes) {
            (_, Some(bytes)) => bytes.min(self.bytes.len()),
            (Some(0), None) => 0,
            (Some(events), None) => self.event_ends.get(events - 1).copied().unwrap_or(self.bytes.len()),
            (None, None) => self.middle.unwrap_or(self.bytes.len()),
        }
    }

    /// Returns what happens at which byte, in order. Marks at one byte keep the order in which they are added here:
    /// pieces, pauses, garbage, stall, error event, cut.
    fn marks(&self, turn: &Turn) -> Vec<(usize, Mark)> {
        let mut marks: Vec<(usize, Mark)> = Vec::new();
        marks.extend(self.pieces.iter().map(|place| (*place, Mark::Piece)));
        marks.extend(self.pauses.iter().map(|(place, pause)| (*place, Mark::Pause(*pause))));
        if let Some(garbage) = &turn.garbage {
            let bytes = garbage.bytes.as_ref().map_or_else(events::broken_event, |chunk| chunk.0.clone());
            marks.push((self.place(garbage.after_events, garbage.after_bytes), Mark::Insert(bytes)));
        }
        if let Some(stall) = &turn.stall {
            let mark = match stall.ms {
                Some(ms) => Mark::Pause(Duration::from_millis(ms)),
                None => Mark::Last(Step::Hang),
            };
            marks.push((self.place(stall.after_events, stall.after_bytes), mark));
        }
        if let Some(error) = &turn.error_event {
            let place = self.place(error.after_events, error.after_bytes);
            marks.push((place, Mark::Insert(events::error_event(error))));
            marks.push((place, Mark::End));
        }
        if let Some(cut) = &turn.cut {
            marks.push((self.place(cut.after_events, cut.after_bytes), Mark::Last(ending(cut.how))));
        }
        // The sort is stable: marks at one position keep the order above.
        marks.sort_by_key(|(place, _)| *place);
        marks
    }

    /// Returns the steps that send the head and the bytes, divided at the marks. A mark that ends the response drops
    /// all that follows it.
    fn into_steps(self, turn: &Turn) -> Vec<Step> {
        let marks = self.marks(turn);
        let bytes = Bytes::from(self.bytes);
        let mut steps = vec![Step::Head];
        let mut sent = 0;
        let mut send_up_to = |steps: &mut Vec<Step>, place: usize| {
            if place > sent {
                steps.push(Step::Send(bytes.slice(sent..place)));
                sent = place;
            }
        };
        for (place, mark) in marks {
            send_up_to(&mut steps, place);
            match mark {
                Mark::Piece => {}
                Mark::Pause(pause) => steps.push(Step::Pause(pause)),
                Mark::Insert(bytes) => steps.push(Step::Send(bytes)),
                Mark::End => return steps,
                Mark::Last(step) => {
                    steps.push(step);
                    return steps;
                }
            }
        }
        send_up_to(&mut steps, bytes.len());
        steps
    }
}

/// Returns the steps with the bytes to be sent divided into pieces of `size`, which must not be 0, and a pause after
/// each.
fn dripped(steps: Vec<Step>, size: usize, pause: Duration) -> Vec<Step> {
    let mut slow = Vec::new();
    for step in steps {
        let Step::Send(bytes) = step else {
            slow.push(step);
            continue;
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            slow.push(Step::Send(rest.split_to(size.min(rest.len()))));
            if !pause.is_zero() {
                slow.push(Step::Pause(pause));
            }
        }
    }
    slow
}

#[cfg(test)]
mod tests;
