//! What a golden run is made of: the form of `case.yaml`. Reading and filling in only; `play.rs` acts on it.
//!
//! The form is closed: a misspelt key is an error that names file and line. Texts may hold `<cwd>`, `<home>` and
//! the names that a `keep` step gave to values; the recorded files show the same places by the same names.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// One folder below `conformance/golden`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoldenCase {
    /// What the case shows, for people.
    #[serde(rename = "about")]
    pub _about: String,
    /// Further variables of the environment; an empty text takes one away.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Files that are there before the first step.
    #[serde(default)]
    pub files: LaidOutFiles,
    /// Pipes in the working folder, for commands that wait until a `feed` or `drain` step.
    #[serde(default)]
    pub pipes: Vec<String>,
    /// Runs of the program, one after the other, in the same folders and with the same model.
    pub steps: Vec<CaseStep>,
}

/// `work/…` or `home/…` → content; what is no text is written as JSON.
pub type LaidOutFiles = BTreeMap<String, Value>;

/// One run of the program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseStep {
    pub argv: Vec<String>,
    /// Files that are written before this run.
    #[serde(default)]
    pub files: LaidOutFiles,
    /// Everything on stdin, for runs that nobody talks with.
    pub stdin: Option<String>,
    /// A conversation; behind the last line stdin is closed.
    #[serde(default)]
    pub talk: Vec<TalkStep>,
}

/// One act of the host.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TalkStep {
    /// Writes a line of JSON.
    Send(Value),
    /// Writes a prompt.
    Prompt(String),
    /// Writes text as it is.
    Raw(String),
    /// Reads frames up to one that holds all of this.
    Wait(Value),
    /// Remembers values of the frame that was waited for: name → JSON pointer.
    Keep(BTreeMap<String, String>),
    /// Answers the control request that was waited for.
    Answer(Value),
    /// Answers it with an error.
    Refuse(String),
    /// Waits until the model has been asked this often.
    Requests(u64),
    /// Gives a waiting reader of a pipe its text: pipe → text.
    Feed(BTreeMap<String, String>),
    /// Waits for what a command or a hook writes to a pipe; it is recorded as `heard`.
    Drain(String),
    /// Writes files.
    Files(LaidOutFiles),
    Signal(HostSignal),
    /// Ends stdin.
    Close,
}

/// A signal that hosts send.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum HostSignal {
    Int,
    Term,
}

impl GoldenCase {
    /// Reads `case.yaml` of a folder; the text of the file comes along.
    pub fn load(folder: &Path) -> Result<(Self, String), String> {
        let path = folder.join("case.yaml");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("case.yaml: {error}"))?;
        let case = serde_saphyr::from_str(&text).map_err(|error| format!("case.yaml: {error}"))?;
        Ok((case, text))
    }
}

/// Names that stand for values in a case.
#[derive(Debug, Default)]
pub struct CaseNames(Vec<(String, String)>);

impl CaseNames {
    pub fn add(&mut self, name: &str, value: &str) {
        self.0.push((format!("<{name}>"), value.to_owned()));
    }

    pub fn fill(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    pub fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(key, value)| (self.fill(key), self.fill_value(value))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

/// Whether `frame` has everything that `wanted` has. Lists are compared from their beginning.
pub fn holds(frame: &Value, wanted: &Value) -> bool {
    match (frame, wanted) {
        (Value::Object(frame), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| holds(frame.get(key).unwrap_or(&Value::Null), wanted))
        }
        (Value::Array(frame), Value::Array(wanted)) => {
            frame.len() >= wanted.len()
                && frame.iter().zip(wanted).all(|(frame, wanted)| holds(frame, wanted))
        }
        (frame, wanted) => frame == wanted,
    }
}
