//! What each event allows: the subject its matchers look at, whether a hook can block it, and what may be
//! said in answer. One table, so that nobody else asks which event it is.
//!
//! The surprising thing: three events leave no frames even when frames are wanted, and `SubagentStop` has a
//! subject for matchers that does not show in its hook name. Both are what clients see elsewhere.

use std::path::Path;
use std::time::Duration;

use lathe_protocol::hooks::HookEventInput;
use lathe_protocol::{HookEvent, HookInput};
use serde_json::Value;

/// What a hook's "no" does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocking {
    /// Nothing: it is reported and forgotten.
    Never,
    /// It blocks, or is fed back, as the event has it.
    Blocks,
    /// It is a permission verdict: deny.
    Denies,
    /// It answers the permission question: deny.
    AnswersRequest,
    /// Not only a "no": any failure of the hook blocks.
    AnyFailure,
}

/// What follows when a hook could not be asked: the machine had nothing left to start it with, or it was ended
/// from outside before it could answer. Other failures (a program that is missing, an exit code, a timeout) are
/// not meant; they never refuse anything but where [`Blocking::AnyFailure`] says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnaskedHook {
    /// The event goes on without it. That holds where a "no" would keep work going, too.
    GoesOn,
    /// It is tried again, and then has no opinion: the host is asked the same question and decides.
    NoOpinion,
    /// It is tried again, and then it counts as a "no": a guard must not depend on how busy the machine is.
    Refuses,
}

/// Whether a command hook leaves `hook_*` frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Frames,
    Nothing,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    pub blocking: Blocking,
    pub unasked: UnaskedHook,
    /// Whether `additionalContext` is read.
    pub takes_context: bool,
    /// Whether plain stdout is context.
    pub plain_is_context: bool,
    /// Whether prompt and agent handlers make sense here.
    pub judged_by_models: bool,
    /// Whether handlers other than commands and MCP tools may run.
    pub commands_only: bool,
    pub shown: Shown,
    /// For commands and HTTP.
    pub default_timeout: Duration,
}

const USUAL_TIMEOUT: Duration = Duration::from_secs(600);

const PLAIN: Facts = Facts {
    blocking: Blocking::Never,
    unasked: UnaskedHook::GoesOn,
    takes_context: false,
    plain_is_context: false,
    judged_by_models: false,
    commands_only: false,
    shown: Shown::Frames,
    default_timeout: USUAL_TIMEOUT,
};

const CONTEXT: Facts = Facts { takes_context: true, ..PLAIN };
const BLOCKS: Facts = Facts { blocking: Blocking::Blocks, ..PLAIN };
const JUDGED: Facts = Facts { judged_by_models: true, ..BLOCKS };
const JUDGED_CONTEXT: Facts = Facts { takes_context: true, ..JUDGED };
const PROMPT: Facts = Facts { plain_is_context: true, unasked: UnaskedHook::Refuses, ..JUDGED_CONTEXT };

/// The row of an event.
pub(crate) fn facts(event: &HookEvent) -> Facts {
    match event {
        HookEvent::PreToolUse => {
            Facts { blocking: Blocking::Denies, unasked: UnaskedHook::Refuses, ..JUDGED_CONTEXT }
        }
        HookEvent::PostToolUse | HookEvent::PostToolUseFailure | HookEvent::PostToolBatch => JUDGED_CONTEXT,
        HookEvent::Stop | HookEvent::SubagentStop => JUDGED_CONTEXT,
        HookEvent::PermissionRequest => {
            Facts { blocking: Blocking::AnswersRequest, unasked: UnaskedHook::NoOpinion, ..JUDGED }
        }
        HookEvent::PermissionDenied => Facts { judged_by_models: true, ..PLAIN },
        HookEvent::UserPromptSubmit => Facts { default_timeout: Duration::from_secs(30), ..PROMPT },
        HookEvent::UserPromptExpansion => PROMPT,
        HookEvent::TaskCreated | HookEvent::TaskCompleted | HookEvent::TeammateIdle => JUDGED,
        HookEvent::SessionStart => Facts { plain_is_context: true, commands_only: true, ..CONTEXT },
        HookEvent::Setup => Facts { commands_only: true, ..CONTEXT },
        HookEvent::Notification | HookEvent::SubagentStart | HookEvent::PostModelSwitch => CONTEXT,
        HookEvent::PreModelSwitch => {
            Facts { blocking: Blocking::Denies, unasked: UnaskedHook::Refuses, ..PLAIN }
        }
        HookEvent::ConfigChange => Facts { unasked: UnaskedHook::Refuses, ..BLOCKS },
        HookEvent::PreCompact | HookEvent::Elicitation | HookEvent::ElicitationResult => BLOCKS,
        HookEvent::WorktreeCreate => Facts { blocking: Blocking::AnyFailure, ..PLAIN },
        HookEvent::MessageDisplay => Facts { default_timeout: Duration::from_secs(10), ..PLAIN },
        HookEvent::SessionEnd | HookEvent::InstructionsLoaded | HookEvent::CwdChanged => {
            Facts { shown: Shown::Nothing, ..PLAIN }
        }
        HookEvent::PostCompact
        | HookEvent::StopFailure
        | HookEvent::WorktreeRemove
        | HookEvent::FileChanged
        | HookEvent::DirectoryAdded
        | HookEvent::Unknown(_) => PLAIN,
    }
}

/// The row for this very input: a change of managed settings cannot be blocked.
pub(crate) fn facts_for(input: &HookInput) -> Facts {
    let facts = facts(&input.event_name());
    if let HookEventInput::ConfigChange(change) = &input.event
        && change.source == "policy_settings"
    {
        return facts.without_a_say();
    }
    facts
}

impl Facts {
    /// The row for a hook that cannot refuse anything: it runs in the background, or the event allows no "no".
    pub fn without_a_say(self) -> Self {
        Self { blocking: Blocking::Never, unasked: UnaskedHook::GoesOn, ..self }
    }
}

/// The call an event is about.
#[derive(Clone, Copy)]
pub(crate) struct ToolCall<'a> {
    pub name: &'a str,
    pub input: &'a Value,
    /// Absent for a permission request.
    pub id: Option<&'a str>,
}

/// What an event is about, as far as choosing hooks goes.
enum About<'a> {
    Call(ToolCall<'a>),
    Named(&'a str),
    Nothing,
}

fn about(input: &HookInput) -> About<'_> {
    let call = |name, input, id| About::Call(ToolCall { name, input, id });
    match &input.event {
        HookEventInput::PreToolUse(tool) => call(&tool.tool_name, &tool.tool_input, Some(&tool.tool_use_id)),
        HookEventInput::PostToolUse(tool) => call(&tool.tool_name, &tool.tool_input, Some(&tool.tool_use_id)),
        HookEventInput::PostToolUseFailure(tool) => {
            call(&tool.tool_name, &tool.tool_input, Some(&tool.tool_use_id))
        }
        HookEventInput::PermissionRequest(tool) => call(&tool.tool_name, &tool.tool_input, None),
        HookEventInput::PermissionDenied(tool) => {
            call(&tool.tool_name, &tool.tool_input, Some(&tool.tool_use_id))
        }
        HookEventInput::SessionStart(start) => About::Named(&start.source),
        HookEventInput::SessionEnd(end) => About::Named(&end.reason),
        HookEventInput::Setup(setup) => About::Named(&setup.trigger),
        HookEventInput::InstructionsLoaded(loaded) => About::Named(&loaded.load_reason),
        HookEventInput::UserPromptExpansion(expansion) => About::Named(&expansion.command_name),
        HookEventInput::Notification(notification) => About::Named(&notification.notification_type),
        HookEventInput::SubagentStart(_) | HookEventInput::SubagentStop(_) => {
            input.base.agent_type.as_deref().map_or(About::Nothing, About::Named)
        }
        HookEventInput::StopFailure(failure) => About::Named(&failure.error),
        HookEventInput::ConfigChange(change) => About::Named(&change.source),
        HookEventInput::DirectoryAdded(added) => About::Named(&added.source),
        HookEventInput::FileChanged(changed) => {
            let name = Path::new(&changed.file_path).file_name().and_then(|name| name.to_str());
            name.map_or(About::Nothing, About::Named)
        }
        HookEventInput::PreCompact(compact) => About::Named(&compact.trigger),
        HookEventInput::PostCompact(compact) => About::Named(&compact.trigger),
        HookEventInput::Elicitation(asked) => About::Named(&asked.mcp_server_name),
        HookEventInput::ElicitationResult(answered) => About::Named(&answered.mcp_server_name),
        HookEventInput::UserPromptSubmit(_)
        | HookEventInput::Stop(_)
        | HookEventInput::PostToolBatch(_)
        | HookEventInput::PreModelSwitch(_)
        | HookEventInput::PostModelSwitch(_)
        | HookEventInput::TeammateIdle(_)
        | HookEventInput::TaskCreated(_)
        | HookEventInput::TaskCompleted(_)
        | HookEventInput::WorktreeCreate(_)
        | HookEventInput::WorktreeRemove(_)
        | HookEventInput::CwdChanged(_)
        | HookEventInput::MessageDisplay(_)
        | HookEventInput::Unknown(_) => About::Nothing,
    }
}

/// The call, for the five events that are about one; the `if` of a handler looks at it.
pub(crate) fn tool_call(input: &HookInput) -> Option<ToolCall<'_>> {
    match about(input) {
        About::Call(call) => Some(call),
        About::Named(_) | About::Nothing => None,
    }
}

/// What matchers of the event look at; none where every matcher matches.
pub(crate) fn subject(input: &HookInput) -> Option<&str> {
    match about(input) {
        About::Call(call) => Some(call.name),
        About::Named(name) => Some(name),
        About::Nothing => None,
    }
}

/// Whether the `if` of a handler can hold on this event.
pub(crate) fn is_about_a_call(event: &HookEvent) -> bool {
    matches!(
        event,
        HookEvent::PreToolUse
            | HookEvent::PostToolUse
            | HookEvent::PostToolUseFailure
            | HookEvent::PermissionRequest
            | HookEvent::PermissionDenied
    )
}

/// `Event` or `Event:subject`.
pub(crate) fn hook_name(input: &HookInput) -> String {
    let event = input.event_name();
    match subject(input) {
        Some(subject) if event != HookEvent::SubagentStop && !subject.is_empty() => {
            format!("{event}:{subject}")
        }
        Some(_) | None => event.to_string(),
    }
}

/// The name of a host's callback in texts, which differs where the event has no subject.
pub(crate) fn callback_name(input: &HookInput) -> String {
    let name = hook_name(input);
    if name.contains(':') { name } else { format!("{name}:Callback") }
}
