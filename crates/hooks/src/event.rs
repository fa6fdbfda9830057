//! What each event allows: the subject its matchers look at, whether a hook can block it, and which output has an
//! effect. It is one table, so that other modules do not compare events themselves.
//!
//! The surprising thing: three events send no frames even if frames are wanted, and `SubagentStop` has a subject for
//! matchers that is not part of its hook name. Clients know both from compatible programs.

use std::path::Path;
use std::time::Duration;

use lathe_protocol::hooks::HookEventInput;
use lathe_protocol::{HookEvent, HookInput};
use serde_json::Value;

/// What a hook's "no" does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocking {
    /// Nothing: it is only reported.
    Never,
    /// It blocks the action, or is fed back to the model, depending on the event.
    Blocks,
    /// It is the permission verdict "deny".
    Denies,
    /// It answers the permission request with "deny".
    AnswersRequest,
    /// It blocks, and so does any failure of the hook.
    AnyFailure,
}

/// What follows if a hook could not be asked: the machine had no resources left to start it, or it was killed from
/// outside before it gave a result. Other failures (a missing program, an exit code, a timeout) are not meant; they
/// refuse only with [`Blocking::AnyFailure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnaskedHook {
    /// The event goes on without it. This includes events where a "no" would keep the model working.
    GoesOn,
    /// The start is tried again; after that the hook has no opinion, and the host decides, which gets the same
    /// question.
    NoOpinion,
    /// The start is tried again; after that it counts as a "no": a guard must not depend on how busy the machine is.
    Refuses,
}

/// Whether a command hook sends `hook_*` frames.
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
    /// Whether prompt and agent handlers may run.
    pub judged_by_models: bool,
    /// Whether handlers other than commands and MCP tools may run.
    pub commands_only: bool,
    pub shown: Shown,
    /// The timeout of command and HTTP hooks that configure none.
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

/// Returns what holds for an event: what its hooks may do, which kinds of them run, and what follows if one cannot be
/// asked.
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
        HookEvent::WorktreeCreate | HookEvent::WorktreeRemove => {
            Facts { blocking: Blocking::AnyFailure, ..PLAIN }
        }
        HookEvent::MessageDisplay => Facts { default_timeout: Duration::from_secs(10), ..PLAIN },
        HookEvent::SessionEnd | HookEvent::InstructionsLoaded | HookEvent::CwdChanged => {
            Facts { shown: Shown::Nothing, ..PLAIN }
        }
        HookEvent::PostCompact
        | HookEvent::StopFailure
        | HookEvent::FileChanged
        | HookEvent::DirectoryAdded
        | HookEvent::Unknown(_) => PLAIN,
    }
}

/// Returns what holds for one input. It differs from [`facts`] in one case: a change of managed settings cannot be
/// blocked.
pub(crate) fn facts_for(input: &HookInput) -> Facts {
    let facts = facts(&input.event_name());
    if let HookEventInput::ConfigChange(change) = &input.event
        && change.source == "policy_settings"
    {
        return facts.without_veto();
    }
    facts
}

impl Facts {
    /// Returns the same facts for a hook that cannot refuse: it runs in the background, or the input cannot be
    /// blocked.
    pub fn without_veto(self) -> Self {
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

/// What an event is about, for the selection of hooks.
enum About<'a> {
    Call(ToolCall<'a>),
    Named(&'a str),
    Nothing,
}

/// Returns what matchers and conditions of the event are compared with. Decides for each event which field that is; for
/// FileChanged it is the name of the file without its folder. `Nothing` means that every matcher accepts it.
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
        // Matchers of this event hold file names without a folder.
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

/// Returns the call, for the five events of [`is_about_a_call`], and `None` for all others. The `if` of a handler is
/// tested against it.
pub(crate) fn tool_call(input: &HookInput) -> Option<ToolCall<'_>> {
    match about(input) {
        About::Call(call) => Some(call),
        About::Named(_) | About::Nothing => None,
    }
}

/// Returns the text that matchers are tested against; `None` if every matcher matches.
pub(crate) fn subject(input: &HookInput) -> Option<&str> {
    match about(input) {
        About::Call(call) => Some(call.name),
        About::Named(name) => Some(name),
        About::Nothing => None,
    }
}

/// Returns whether the event is about a tool call, so that the `if` of a handler can hold. Must list the events for
/// which [`tool_call`] returns one.
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

/// Returns the name of the hook in frames and texts: `Event:subject`, or `Event` if the event has no subject, or an
/// empty one, or is `SubagentStop`.
pub(crate) fn hook_name(input: &HookInput) -> String {
    let event = input.event_name();
    match subject(input) {
        Some(subject) if event != HookEvent::SubagentStop && !subject.is_empty() => {
            format!("{event}:{subject}")
        }
        Some(_) | None => event.to_string(),
    }
}

/// Returns the name of a host's callback in texts: [`hook_name`], or `Event:Callback` if that has no subject.
pub(crate) fn callback_name(input: &HookInput) -> String {
    let name = hook_name(input);
    if name.contains(':') { name } else { format!("{name}:Callback") }
}
