//! What every tool is: a name, a description and a schema for the model, a statement of what a call is about, and
//! the call itself.
//!
//! Nothing here decides. [`Tool::subject`] is all that others know of a call: rules, scheduling, checkpoints and
//! memory files are served from it, so none of them knows a tool by its name.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use lathe_exec::{NoPlace, Place, PlaceLimit};
use lathe_protocol::CallSubject;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::files::{FileError, real, replace};
use crate::{
    AfterCall, CommandEnvironment, InvalidInput, Limits, PathFilter, SessionActions, Shown, ToolDeclaration,
    Workspace, validate,
};

/// One tool that the model can call. Inputs reach it already found to [`Tool::fit`].
pub trait Tool: Send + Sync {
    /// Returns the name by which the model calls the tool. Unique within a set.
    fn name(&self) -> &str;

    /// Returns which sessions and agents have the tool, and how the model is told of it.
    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration::EVERYWHERE
    }

    /// Returns what the model reads about the tool. Keep it short: every request pays for it.
    fn description(&self) -> &str;

    /// Returns the JSON schema of the input.
    fn input_schema(&self) -> &Value;

    /// Returns what a call with this input is about, from the input alone: no file, clock or state may matter,
    /// because permission is decided on it. Also called for inputs that do not fit; one that the tool cannot
    /// describe is [`CallSubject::Unknown`], and the user is asked about it.
    fn subject(&self, input: &Value) -> CallSubject;

    /// Returns the field that says most about a call, for people who give one text instead of a whole input. By default
    /// the first required field; `None` if the schema requires none.
    fn main_input(&self) -> Option<&str> {
        self.input_schema()["required"][0].as_str()
    }

    /// Returns the input in the form that [`Self::call`] takes, with repaired values and defaults, or why it does
    /// not fit. By default the schema decides.
    fn fit(&self, input: Value) -> Result<Value, InvalidInput> {
        validate(self.name(), self.input_schema(), input)
    }

    /// Checks what a schema cannot express, without looking at any file; accepts everything by default. Runs before
    /// hooks and permissions, so that no person is asked about a call that must fail.
    fn check(&self, _input: &Value) -> Result<(), ToolFailure> {
        Ok(())
    }

    /// Returns the input as hooks, rules and the user see it: fields that only people may fill in are removed, and what
    /// the session knows is added; by default it is unchanged. Called once, right before the hooks of the call.
    fn complete_input(&self, input: Value, _workspace: &Workspace) -> Value {
        input
    }

    /// Returns how large a result of this tool may be. What exceeds it goes to a file, and a part of it is shown.
    fn result_limits(&self, _limits: &Limits) -> ResultLimits {
        ResultLimits::default()
    }

    /// Does the work. Must return promptly once `context.cancel` fires, with nothing left running.
    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>>;
}

impl std::fmt::Debug for dyn Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tool({})", self.name())
    }
}

/// What a call gets besides its input.
#[derive(Clone)]
pub struct ToolContext {
    /// Id of the `tool_use` block.
    pub tool_use_id: String,
    /// Fires when the turn is interrupted or the session ends.
    pub cancel: CancellationToken,
    /// The folder, limits and state that all calls of one agent share.
    pub workspace: Arc<Workspace>,
    /// The session, for tools whose work is to change it.
    pub session: Arc<dyn SessionActions>,
    /// Where the path of the input leads, as it was when the call was decided on: links resolved. A file tool
    /// opens this place and follows no link on the way. Without it, the tool finds out for itself.
    pub place: Option<PathBuf>,
    /// Paths that Glob and Grep leave out of what they find, because a rule denies reading them. Whether the
    /// call may be made at all was decided before; this is for what a search comes across.
    pub closed_paths: Option<PathFilter>,
    /// Which variables a command of the call gets, by what permitted the call.
    pub environment: CommandEnvironment,
}

impl ToolContext {
    /// Returns the real path behind a path of the input. Once permission was decided, this is the place that the
    /// decision was about, wherever the path leads by now; before that, where it leads at this moment.
    pub fn real_path(&self, path: &str) -> Result<PathBuf, ToolFailure> {
        self.real(path).map_err(|error| ToolFailure::Failed(error.in_words(Path::new(path))))
    }

    /// Waits for a place in a limit of the process, for at most `time`. Returns the place, which has to be held while
    /// the work runs, and what is left of the time. Fails if none becomes free or the call is cancelled.
    pub(crate) async fn wait_for_place(
        &self,
        limit: &PlaceLimit,
        time: Duration,
    ) -> Result<(Place, Duration), ToolFailure> {
        let asked = Instant::now();
        match limit.place(time, &self.cancel).await {
            Ok(place) => Ok((place, time.saturating_sub(asked.elapsed()))),
            Err(NoPlace::Cancelled) => Err(ToolFailure::Interrupted),
            Err(none @ NoPlace::NoneFree { .. }) => Err(ToolFailure::Failed(format!("Not started: {none}"))),
        }
    }

    /// Returns whether the file of the input can be changed on the event loop; see [`replace::is_quick`]. False for a
    /// call that was cancelled, because [`change`](crate::stoppable::change) does not begin with it.
    pub(crate) fn is_quick_change(&self, path: &str, changed_bytes: usize) -> bool {
        let is_quick = |path: PathBuf| replace::is_quick(&path, changed_bytes);
        !self.cancel.is_cancelled() && self.real(path).is_ok_and(is_quick)
    }

    /// Returns the real path behind a path of the input like [`Self::real_path`], with the error as a value that
    /// callers can tell apart. Once permission was decided, `path` is not looked at.
    pub(crate) fn real(&self, path: &str) -> Result<PathBuf, FileError> {
        match &self.place {
            Some(place) => Ok(place.clone()),
            None => real::follow(&self.workspace.resolve(path)),
        }
    }
}

/// How large a result may be before it goes to a file. The agent holds every result to this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultLimits {
    /// Of what the model reads, all blocks together.
    pub text: TextLimit,
    /// Characters in the value for programs, in all its strings and keys together.
    pub value_chars: usize,
}

/// How much text the model gets at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextLimit {
    /// Counted in characters.
    Characters(usize),
    /// Estimated in tokens.
    Tokens(u64),
}

impl ResultLimits {
    /// Characters of a text, unless a tool says otherwise; of an error, whatever it says.
    pub const DEFAULT_CHARS: usize = 100_000;

    /// Room beside the text: notes that follow it, and the other fields of the value.
    const BESIDE_CHARS: usize = 10_000;

    /// Returns limits for a tool whose value for programs is the text that the model reads, of at most `characters`.
    pub fn of_text(characters: usize) -> Self {
        let with_rest = characters.saturating_add(Self::BESIDE_CHARS);
        Self { text: TextLimit::Characters(characters), value_chars: with_rest }
    }

    /// Returns limits for a tool that cuts its text itself, to that many characters, and then adds a note to it.
    pub fn of_cut_text(characters: usize) -> Self {
        let with_rest = characters.saturating_add(Self::BESIDE_CHARS);
        Self { text: TextLimit::Characters(with_rest), value_chars: with_rest }
    }

    /// Returns limits for a tool that gives programs a file before and after its change: any file that Read shows
    /// by default must fit, several times over.
    pub(crate) fn of_changed_file(limits: &Limits) -> Self {
        let file_chars = usize::try_from(limits.read_bytes).unwrap_or(usize::MAX);
        Self { value_chars: file_chars.saturating_mul(4), ..Self::default() }
    }
}

impl Default for ResultLimits {
    fn default() -> Self {
        Self::of_text(Self::DEFAULT_CHARS)
    }
}

/// The outcome of a call that worked.
#[derive(Debug, Clone)]
pub struct ToolOutput {
    /// What the model reads.
    pub content: Content,
    /// `is_error` of the `tool_result` block: `None` leaves it out, as the reference does for most tools.
    pub is_error: Option<bool>,
    /// `tool_use_result` on the wire: the structured outcome for programs. Opaque to the session.
    pub result: Value,
    /// What of the outcome the session itself goes by.
    pub effects: CallEffects,
}

/// What a call has done, as far as the session keeps count of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEffects {
    /// The lines of files that it changed.
    pub changed_lines: ChangedLines,
    /// Whether the model reads everything that came out, or the rest is in a file.
    pub shown: Shown,
    /// Whether the turn goes on.
    pub after: AfterCall,
}

/// How many lines a change added and removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChangedLines {
    /// Lines that were not there before.
    pub added: u64,
    /// Lines that are not there any more.
    pub removed: u64,
}

impl Default for CallEffects {
    fn default() -> Self {
        Self { changed_lines: ChangedLines::default(), shown: Shown::Whole, after: AfterCall::GoesOn }
    }
}

impl ToolOutput {
    /// Returns an output of a call that changed no file and is not marked as an error.
    pub fn new(content: Content, result: Value) -> Self {
        Self { content, is_error: None, result, effects: CallEffects::default() }
    }

    /// Returns the output with the number of lines that the call has changed, which the session counts.
    pub(crate) fn with_changed_lines(self, changed_lines: ChangedLines) -> Self {
        Self { effects: CallEffects { changed_lines, ..self.effects }, ..self }
    }

    /// Returns the output with what the hooks of the call have said about the turn: whether it continues.
    pub(crate) fn then(self, after: AfterCall) -> Self {
        Self { effects: CallEffects { after, ..self.effects }, ..self }
    }
}

/// Content of a `tool_result` block.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A plain string.
    Text(String),
    /// Content blocks: text, image, document.
    Blocks(Vec<Value>),
}

/// The outcome of a call that did not work. The text is for the model, which has to act on it.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolFailure {
    /// The call made no sense and nothing was done: shown as `<tool_use_error>…</tool_use_error>`.
    Rejected(String),
    /// It was tried and failed: shown as it is.
    Failed(String),
    /// It was cancelled before it ended.
    Interrupted,
}

impl ToolFailure {
    /// Returns the text that the model reads; `None` for an interruption, whose text the turn provides.
    pub fn content(&self) -> Option<String> {
        match self {
            Self::Rejected(text) => Some(format!("<tool_use_error>{text}</tool_use_error>")),
            Self::Failed(text) => Some(text.clone()),
            Self::Interrupted => None,
        }
    }

    /// Returns the text that programs get in `tool_use_result`; `None` for an interruption. It begins with `Error: `,
    /// unless the text names itself an error already.
    pub fn result(&self) -> Option<String> {
        const NAMED: [&str; 3] = ["Error: ", "Error calling tool", "InputValidationError: "];
        match self {
            Self::Rejected(text) | Self::Failed(text) => Some(match text {
                text if NAMED.iter().any(|name| text.starts_with(name)) => text.clone(),
                text => format!("Error: {text}"),
            }),
            Self::Interrupted => None,
        }
    }
}
