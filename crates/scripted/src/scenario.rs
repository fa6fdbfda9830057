//! The short form: a bare list of turns, or a map from a key to a list. It is quick to write in JSON and is the form of
//! existing corpora; times are seconds here, and a few keys have other names than in the full form. The loader turns it
//! into a [`Script`] at once; no other code knows it.
//!
//! Its peculiarities: an empty text makes no block, a probe with `max_tokens: 1` does not use a turn, and in the keyed
//! form a key in capitals is searched in the user texts while any other key applies to prompts that contain `RUN<key>`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use crate::error::ScriptError;
use crate::matcher::Conditions;
use crate::script::{
    Cut, CutHow, ErrorReply, Route, Script, ScriptedUsage, Stall, ToolCall, Turn, error_reply,
};
use crate::template::Template;

pub(crate) enum Scenario {
    List(Vec<ShortTurn>),
    Keyed(Lines),
}

/// The keyed form in the order of the file, because the first key that matches wins.
pub(crate) struct Lines(Vec<(String, Vec<ShortTurn>)>);

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ShortTurn {
    thinking: Option<Template>,
    #[serde(deserialize_with = "non_empty")]
    text: Option<Template>,
    tools: Vec<ToolCall>,
    stop: Option<String>,
    usage: ScriptedUsage,
    /// Input tokens.
    r#in: Option<u64>,
    /// Output tokens.
    out: Option<u64>,
    #[serde(deserialize_with = "error_reply")]
    error: Option<ErrorReply>,
    /// The error's type.
    etype: Option<String>,
    headers: BTreeMap<String, String>,
    /// How often in a row.
    times: Option<u32>,
    /// Seconds of silence before the response, under three names.
    wait: Option<f64>,
    hang: Option<f64>,
    stall: Option<f64>,
    /// Seconds between deltas.
    delay: Option<f64>,
    /// The stream falls silent in the last block and the connection stays open.
    cut: bool,
    /// The connection is reset in the last block.
    reset: bool,
}

impl Scenario {
    /// Converts to the full form; an empty list of turns is an error. The probe is the first turn of the main line. In
    /// the keyed form `*` gives the rest of that line (one turn `no script` without it), and each other key is a route,
    /// in the order of the file.
    pub(crate) fn into_script(self, file: &str) -> Result<Script, ScriptError> {
        let turns =
            |turns: Vec<ShortTurn>| turns.into_iter().map(ShortTurn::into_turn).collect::<Vec<Turn>>();
        Ok(match self {
            Self::List(list) if list.is_empty() => return Err(no_turns(file)),
            Self::List(list) => Script::new([probe()].into_iter().chain(turns(list))),
            Self::Keyed(lines) => {
                let mut script = Script::new([probe()]);
                let mut rest = vec![Turn::text("no script")];
                for (key, line) in lines.0 {
                    if line.is_empty() {
                        return Err(no_turns(file));
                    }
                    if key == "*" {
                        rest = turns(line);
                    } else {
                        script.routes.push(route(key, turns(line)));
                    }
                }
                script.turns.extend(rest);
                script
            }
        })
    }
}

/// Returns the error for an empty list of turns, which would otherwise fail only at the first request.
fn no_turns(file: &str) -> ScriptError {
    ScriptError::Invalid {
        file: file.to_owned(),
        place: "turns".to_owned(),
        message: "a list of turns is empty".to_owned(),
    }
}

/// Returns the turn that responds to a request with `max_tokens: 1`. Clients test a model with one, and that must
/// not use a turn of the script.
fn probe() -> Turn {
    Turn { when: Some(Conditions { max_tokens: Some(1), ..Conditions::default() }), ..Turn::text("ok") }
}

/// Returns the route of a key: one with capitals and no small letters is searched in all user texts, any other is the
/// name of a `RUN<…>` marker.
fn route(key: String, turns: Vec<Turn>) -> Route {
    let capitals =
        key.chars().any(|c| c.is_ascii_uppercase()) && !key.chars().any(|c| c.is_ascii_lowercase());
    let when = if capitals {
        Conditions::any_user(key.clone())
    } else {
        Conditions { marker: Some(key.clone()), ..Conditions::default() }
    };
    Route { name: Some(key), when: Some(when), turns, at_end: None }
}

impl ShortTurn {
    /// Converts a turn. The three waits are added up and come before the response; `delay` is the pace inside it. `cut`
    /// becomes a stall that does not end, and `reset` the cut of the connection.
    fn into_turn(self) -> Turn {
        let seconds = self.wait.unwrap_or(0.0) + self.hang.unwrap_or(0.0) + self.stall.unwrap_or(0.0);
        let error = self.error.map(|error| ErrorReply { kind: error.kind.or(self.etype), ..error });
        let usage = ScriptedUsage {
            input_tokens: self.r#in.or(self.usage.input_tokens),
            output_tokens: self.out.or(self.usage.output_tokens),
            ..self.usage
        };
        Turn {
            thinking: self.thinking,
            text: self.text,
            tools: self.tools,
            stop: self.stop,
            usage,
            error,
            headers: self.headers,
            times: self.times,
            delay_ms: (seconds > 0.0).then(|| milliseconds(seconds)),
            pace_ms: self.delay.map(milliseconds),
            stall: self.cut.then(Stall::default),
            cut: self.reset.then(|| Cut { how: CutHow::Rst, ..Cut::default() }),
            ..Turn::default()
        }
    }
}

/// Converts seconds to milliseconds; a negative, infinite or too large number becomes 0.
fn milliseconds(seconds: f64) -> u64 {
    let duration = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Reads a template. An empty text becomes `None`, so that it makes no block; a template that does not compile is an
/// error.
fn non_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Template>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.filter(|text| !text.is_empty());
    text.map(|text| Template::parse(&text).map_err(serde::de::Error::custom)).transpose()
}

impl<'de> Deserialize<'de> for Lines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Lines;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a map from a key to a list of turns")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Lines, A::Error> {
                let mut lines = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    lines.push(entry);
                }
                Ok(Lines(lines))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}
