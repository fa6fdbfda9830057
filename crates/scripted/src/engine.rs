//! Chooses the turn for a request. A pure state machine behind one lock: positions in, the chosen turn out; no I/O and
//! no clock, so many conversations can use it at once. A request is checked first ([`crate::check`]): what the API
//! would refuse does not reach a turn.
//!
//! The order: the first route whose `when` holds, otherwise the main line; in that line the first turn whose own `when`
//! holds, otherwise the next of the turns without one. A failed expectation uses its turn up: the script continues, and
//! the request gets the error.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use lathe_models::betas::BetaPolicy;
use lathe_models::{ModelRequest, OutgoingRequest, Purpose};

use crate::check::{
    ApiEndpoint, BodyFields, CheckedRequest, RequestChecker, RequestRefusal, Verdict, head_of,
};
use crate::facts::{Delivery, Facts, RequestBrief};
use crate::http::MAX_BODY;
use crate::load::{turn_name, validate};
use crate::matcher::Conditions;
use crate::render::{self, Reply};
use crate::script::{AtEnd, Route, Script, Turn, TurnScope};
use crate::{ScriptError, template::TemplateError};

/// The most conversations whose position is remembered under `scope: conversation`; the oldest is dropped first.
const MAX_CONVERSATIONS: usize = 100_000;

/// A script and its current positions.
#[derive(Debug)]
pub struct ScriptEngine {
    script: Script,
    lines: Vec<Line>,
    state: Mutex<State>,
    /// Refuses what the API refuses; `None` for a lax script.
    checker: Option<RequestChecker>,
    /// Requests that were refused.
    refused: AtomicU64,
}

/// The outcome of a request.
#[derive(Debug)]
pub struct Served {
    /// The request's number, from one.
    pub number: u64,
    /// The name of the turn that was used; if none was, why.
    pub turn: String,
    /// The response to send.
    pub reply: Reply,
}

/// One line of the script: the main one or a route.
#[derive(Debug)]
struct Line {
    name: String,
    at_end: AtEnd,
    /// Indices of the turns that are used in order.
    sequence: Vec<usize>,
    /// Indices of the turns that are used whenever their `when` holds.
    matching: Vec<usize>,
}

#[derive(Debug, Default)]
struct State {
    requests: u64,
    conversations: HashMap<u64, Progress>,
    oldest_first: VecDeque<u64>,
}

/// The positions of one conversation, or of all together.
#[derive(Debug, Default, Clone)]
struct Progress {
    /// By line and start: a line that a marker chooses may be started more than once.
    lines: HashMap<(usize, usize), LineProgress>,
}

#[derive(Debug, Default, Clone)]
struct LineProgress {
    /// Position in the line's sequence.
    position: usize,
    /// How often the turn at that position was used.
    repeats: u32,
    /// How often the turns with a `when` were used.
    used: HashMap<usize, u32>,
}

enum Choice<'a> {
    Turn { place: String, turn: &'a Turn },
    EndText(&'a crate::Template),
    Nothing(String),
}

impl ScriptEngine {
    /// Validates the script and returns an engine at its first turn. A script that is not valid is an error.
    pub fn new(script: Script) -> Result<Self, ScriptError> {
        validate("script", &script)?;
        let main = Line::new("", &script.at_end, &script.turns);
        let route = |(index, route): (usize, &Route)| {
            let name = route.name.clone().unwrap_or_else(|| (index + 1).to_string());
            Line::new(
                &format!("route {name}, "),
                route.at_end.as_ref().unwrap_or(&script.at_end),
                &route.turns,
            )
        };
        let lines = [main].into_iter().chain(script.routes.iter().enumerate().map(route)).collect();
        let checker = RequestChecker::of(&script);
        Ok(Self { lines, script, state: Mutex::default(), checker, refused: AtomicU64::new(0) })
    }

    /// Returns the script, as it was loaded.
    pub fn script(&self) -> &Script {
        &self.script
    }

    /// Returns how many messages were parsed and checked so far; 0 for a lax script. A message that is remembered does
    /// not count again.
    pub fn messages_checked(&self) -> u64 {
        self.checker.as_ref().map_or(0, RequestChecker::messages_checked)
    }

    /// Responds to the body of a `POST /v1/messages`, or refuses it as the API would; a refused request uses no turn.
    /// Names of headers must be in lower case.
    pub fn respond_http(&self, body: Bytes, headers: Vec<(String, String)>) -> Served {
        match self.read_http(body, headers) {
            Ok(facts) => self.respond(facts),
            Err(refusal) => self.refusal(&refusal),
        }
    }

    /// Checks a request over HTTP and returns the facts by which a turn is chosen. Without a checker the body only has
    /// to be readable.
    fn read_http(&self, body: Bytes, headers: Vec<(String, String)>) -> Verdict<Facts> {
        let betas = self.checker.as_ref().map(|checker| checker.check_headers(&headers)).transpose()?;
        let fields = BodyFields::split(&body)?;
        let checked = self.check_fields(&fields, ApiEndpoint::Messages, betas.as_deref())?;
        let brief = RequestBrief::read(&fields)?;
        Ok(Facts::of_http(brief, body, headers).with_check(checked))
    }

    /// Responds to a request that never becomes HTTP, or refuses it as the API would; a refused request uses no turn.
    /// The bytes and headers that the client would send under `policy` are checked.
    pub(crate) fn respond_in_process(
        &self,
        request: &Arc<ModelRequest>,
        delivery: Delivery,
        policy: BetaPolicy,
    ) -> Served {
        let purpose = match delivery {
            Delivery::Streamed => Purpose::Stream,
            Delivery::Whole => Purpose::Complete,
        };
        let sent = OutgoingRequest::new(request, purpose, policy);
        match self.check_outgoing(&sent) {
            Ok(checked) => self.respond(Facts::of_outgoing(request, delivery, sent).with_check(checked)),
            Err(refusal) => self.refusal(&refusal),
        }
    }

    /// Checks an in-process request as the server would: size, headers, body. `None` means that the script turned
    /// checks off.
    fn check_outgoing(&self, sent: &OutgoingRequest) -> Verdict<Option<CheckedRequest>> {
        let Some(checker) = &self.checker else { return Ok(None) };
        if sent.body_len() > MAX_BODY as u64 {
            return Err(RequestRefusal::too_large());
        }
        let betas = checker.check_headers(sent.headers())?;
        let head = head_of(sent)?;
        let fields = BodyFields::of_assembled(&head, sent)?;
        checker.check_body(&fields, ApiEndpoint::Messages, &betas).map(Some)
    }

    /// Checks a request to count tokens, which may have fewer fields than one for a message. Uses no turn. Without a
    /// checker the body only has to be a JSON object.
    pub(crate) fn check_count(&self, body: &[u8], headers: &[(String, String)]) -> Verdict {
        let betas = self.checker.as_ref().map(|checker| checker.check_headers(headers)).transpose()?;
        let fields = BodyFields::split(body)?;
        self.check_fields(&fields, ApiEndpoint::CountTokens, betas.as_deref()).map(drop)
    }

    /// Checks a body; `None` if the script turned checks off. `betas` are those of its headers, which must have been
    /// checked before; without them nothing is checked.
    fn check_fields(
        &self,
        fields: &BodyFields<'_>,
        endpoint: ApiEndpoint,
        betas: Option<&[&str]>,
    ) -> Verdict<Option<CheckedRequest>> {
        match (&self.checker, betas) {
            (Some(checker), Some(betas)) => checker.check_body(fields, endpoint, betas).map(Some),
            (Some(_), None) | (None, _) => Ok(None),
        }
    }

    /// Returns the response to a refused request and counts the refusal, since its id contains the count. The request
    /// uses no turn and no number of the script.
    pub(crate) fn refusal(&self, refusal: &RequestRefusal) -> Served {
        let count = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        Served { number: 0, turn: format!("refused: {refusal}"), reply: refusal.reply(count) }
    }

    /// Responds to a request that was checked: gives it a number, chooses the turn, checks the turn's expectations and
    /// renders it. A failed expectation or placeholder gives a 400 and still uses the turn; a script without a turn
    /// left gives a 500. The checker is told of a turn that begins with thinking, so that later requests are judged by
    /// it.
    pub fn respond(&self, mut facts: Facts) -> Served {
        let (number, choice) = self.choose(&mut facts);
        let defaults = &self.script.defaults;
        let (place, rendered) = match choice {
            Choice::Nothing(why) => {
                let reply = render::api_error(number, 500, "api_error", &why);
                return Served { number, turn: why, reply };
            }
            Choice::EndText(text) => {
                let turn = Turn { text: Some(text.clone()), ..Turn::default() };
                ("the end of the script".to_owned(), render::render(&turn, defaults, &facts))
            }
            Choice::Turn { place, turn } => {
                if let Some(why) = turn.expect.as_ref().and_then(|expect| expect.check(&facts).err()) {
                    let text = format!("script assertion failed at {place}: {why}");
                    let reply = render::api_error(number, 400, "script_assertion", &text);
                    return Served { number, turn: place, reply };
                }
                if let Some(checker) = self.checker.as_ref().filter(|_| turn.begins_with_thinking()) {
                    checker.note_thinking(number);
                }
                (place, render::render(turn, defaults, &facts))
            }
        };
        let reply = rendered.unwrap_or_else(|why: TemplateError| {
            let text = format!("script assertion failed at {place}: {why}");
            render::api_error(number, 400, "script_assertion", &text)
        });
        Served { number, turn: place, reply }
    }

    /// Gives the request its number, in `facts` too, and chooses its turn. Both happen under one lock, so that
    /// concurrent requests cannot take the same use of a turn; texts are matched before, without the lock.
    fn choose(&self, facts: &mut Facts) -> (u64, Choice<'_>) {
        // Everything that parses or matches text happens before the lock, apart from the few `when`s of the line
        // itself.
        let route = |route: &Route| route.when.as_ref().is_none_or(|when| when.hold(facts));
        let line_index = self.script.routes.iter().position(route).map_or(0, |index| index + 1);
        let turns = match line_index {
            0 => &self.script.turns,
            index => &self.script.routes[index - 1].turns,
        };
        let line = &self.lines[line_index];
        let holding: Vec<usize> = line
            .matching
            .iter()
            .copied()
            .filter(|index| turns[*index].when.as_ref().is_none_or(|when| when.hold(facts)))
            .collect();
        let conversation = match self.script.scope {
            TurnScope::Global => 0,
            TurnScope::Conversation => facts.conversation(),
        };
        // Repeating a marker starts its line again.
        let by_marker = route_of(line_index, &self.script).is_some_and(|when| when.marker.is_some());
        let start = if by_marker { facts.marker_count() } else { 0 };

        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.requests += 1;
        facts.number = state.requests;
        let progress = state.progress(conversation).lines.entry((line_index, start)).or_default();
        let chosen = progress.next(line, turns, &holding);
        drop(state);
        (facts.number, line.resolve(chosen, turns, facts))
    }
}

/// Returns the conditions of the route of a line; `None` for the main line (index 0) and for a route without
/// conditions.
fn route_of(line_index: usize, script: &Script) -> Option<&Conditions> {
    let route = line_index.checked_sub(1)?;
    script.routes[route].when.as_ref()
}

impl State {
    /// Returns the positions of a conversation, at the beginning if it is new. Beyond [`MAX_CONVERSATIONS`] a new one
    /// displaces the one that was first seen longest ago, which then starts from the beginning.
    fn progress(&mut self, conversation: u64) -> &mut Progress {
        if !self.conversations.contains_key(&conversation) {
            if self.oldest_first.len() == MAX_CONVERSATIONS
                && let Some(oldest) = self.oldest_first.pop_front()
            {
                self.conversations.remove(&oldest);
            }
            self.oldest_first.push_back(conversation);
        }
        self.conversations.entry(conversation).or_default()
    }
}

/// The next turn by position, before it is rendered.
enum Next {
    Turn(usize),
    End,
}

impl LineProgress {
    /// Takes the next turn and counts its use: the first of `holding` (turns whose condition holds) with uses left,
    /// otherwise the next one in sequence; `End` if that is used up. Without `times` a conditional turn never runs out,
    /// and one in sequence is used once.
    fn next(&mut self, line: &Line, turns: &[Turn], holding: &[usize]) -> Next {
        for index in holding {
            let used = self.used.entry(*index).or_default();
            if turns[*index].times.is_none_or(|times| *used < times) {
                *used += 1;
                return Next::Turn(*index);
            }
        }
        let Some(index) = line.sequence.get(self.position).copied() else { return Next::End };
        self.repeats += 1;
        if self.repeats >= turns[index].times.unwrap_or(1) {
            self.position += 1;
            self.repeats = 0;
        }
        Next::Turn(index)
    }
}

impl Line {
    /// Creates a line and divides its turns into those with a condition and those in sequence; both keep the order of
    /// the script. `name` comes before the name of a turn in messages.
    fn new(name: &str, at_end: &AtEnd, turns: &[Turn]) -> Self {
        let (matching, sequence) = (0..turns.len()).partition(|index| turns[*index].when.is_some());
        Self { name: name.to_owned(), at_end: at_end.clone(), sequence, matching }
    }

    /// Returns the turn of a choice with its name for messages. At the end of the sequence `at_end` applies; repeating
    /// a line that has no turn in sequence is an error, as if no turn were left.
    fn resolve<'a>(&'a self, next: Next, turns: &'a [Turn], facts: &Facts) -> Choice<'a> {
        let turn = |index: usize| Choice::Turn {
            place: format!("{}{}", self.name, turn_name(index, &turns[index])),
            turn: &turns[index],
        };
        match (next, &self.at_end, self.sequence.last()) {
            (Next::Turn(index), _, _) => turn(index),
            (Next::End, AtEnd::Repeat, Some(last)) => turn(*last),
            (Next::End, AtEnd::Text(text), _) => Choice::EndText(text),
            (Next::End, AtEnd::Error | AtEnd::Repeat, _) => Choice::Nothing(format!(
                "the script has no turn left for {}request {} ({})",
                self.name,
                facts.number,
                facts.summary()
            )),
        }
    }
}

#[cfg(test)]
mod tests;
