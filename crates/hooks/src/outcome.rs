//! What all hooks of one event amount to: plain data that the agent acts on.
//!
//! Where several hooks set the same thing, the first in registration order has it (managed settings before
//! the user's, files before the host); verdicts are ranked first: deny, defer, ask, allow.

use lathe_protocol::hooks::{HookPermissionDecision, PermissionRequestDecision};
use lathe_protocol::system::Informational;
use lathe_protocol::{HookEvent, PermissionUpdate};
use serde_json::Value;

use crate::{HookProblem, HookSource};

/// The sum of all answers. The default is what an event without hooks gives.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// How many hooks ran.
    pub ran: usize,
    /// The run was broken off by its token: nothing here is a verdict.
    pub cancelled: bool,
    /// "No", for events that understand it other than as a permission verdict.
    pub blocks: Vec<HookBlock>,
    /// `continue: false`: the turn ends once the event is dealt with.
    pub stop: Option<StopRequest>,
    /// PreToolUse and PreModelSwitch.
    pub permission: Option<PermissionVerdict>,
    /// PreToolUse: the input that replaces the model's.
    pub updated_input: Option<Value>,
    /// PermissionRequest.
    pub permission_request: Option<PermissionRequestVerdict>,
    /// Texts for the model, in order. After Stop and SubagentStop they make the turn go on.
    pub contexts: Vec<ContextText>,
    /// Texts for the user.
    pub system_messages: Vec<SystemText>,
    /// Escape sequences for a terminal, which a headless session has not.
    pub terminal_sequences: Vec<String>,
    /// PostToolUse: what replaces the tool's output.
    pub tool_output: Option<ToolOutputChange>,
    /// PostToolUse: up to 2000 characters for a permission classifier.
    pub classifier_context: Option<String>,
    /// PermissionDenied: the model may try again.
    pub retry: bool,
    /// UserPromptSubmit and UserPromptExpansion.
    pub prompt: PromptEffects,
    /// SessionStart.
    pub session_start: SessionStartEffects,
    /// SessionStart, CwdChanged and FileChanged: paths to watch.
    pub watch_paths: Vec<String>,
    /// Elicitation and ElicitationResult.
    pub elicitation: Option<ElicitationAnswer>,
    /// WorktreeCreate.
    pub worktree_path: Option<String>,
    /// MessageDisplay: what is shown instead.
    pub display_content: Option<String>,
    /// What went wrong.
    pub problems: Vec<HookProblem>,
}

impl Outcome {
    /// The first "no".
    pub fn block(&self) -> Option<&HookBlock> {
        self.blocks.first()
    }

    /// What clients are told: problems as warnings, texts for the user as notices. The lines lack `uuid`
    /// and `session_id`.
    pub fn notices(&self) -> Vec<Informational> {
        let problems = self.problems.iter().filter_map(HookProblem::informational);
        problems.chain(self.system_messages.iter().map(SystemText::informational)).collect()
    }
}

/// A hook said "no".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookBlock {
    /// Why. For exit code 2 this is `[command]: stderr`.
    pub reason: String,
    /// `Event`, `Event:subject` or, for a callback without subject, `Event:Callback`.
    pub hook_name: String,
    /// The event.
    pub event: HookEvent,
    /// The command, or what stands for it.
    pub command: String,
    /// Who registered the hook.
    pub source: HookSource,
}

impl HookBlock {
    /// What the model reads as the user's message when a stop is blocked.
    pub fn feedback(&self) -> String {
        format!("{} hook feedback:\n{}", self.event, self.reason)
    }

    /// What the model reads as a system note.
    pub fn blocking_error(&self) -> String {
        format!("{} hook blocking error from command: \"{}\": {}", self.hook_name, self.command, self.reason)
    }
}

/// A hook wants the turn to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopRequest {
    /// `stopReason`.
    pub reason: Option<String>,
    /// Which hook.
    pub hook_name: String,
}

/// What hooks say about a call or a switch of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionVerdict {
    /// The strongest word that was said.
    pub behavior: HookPermissionDecision,
    /// Why; a deny always has one.
    pub reason: Option<String>,
    /// Which hook.
    pub hook_name: String,
    /// The event, for `decision_reason_hook_event`.
    pub event: HookEvent,
    /// Who registered it.
    pub source: HookSource,
}

impl PermissionVerdict {
    /// What the model reads in place of a result when the call is denied.
    pub fn tool_error(&self) -> String {
        format!("{} hook error: {}", self.hook_name, self.reason.as_deref().unwrap_or(""))
    }
}

/// What hooks answer in the user's place.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionRequestVerdict {
    /// Allow or deny.
    pub decision: PermissionRequestDecision,
    /// Which hook.
    pub hook_name: String,
    /// Who registered it.
    pub source: HookSource,
}

impl PermissionRequestVerdict {
    /// The updates that go with an allow.
    pub fn updated_permissions(&self) -> &[PermissionUpdate] {
        match &self.decision {
            PermissionRequestDecision::Allow { updated_permissions, .. } => {
                updated_permissions.as_deref().unwrap_or(&[])
            }
            PermissionRequestDecision::Deny { .. } => &[],
        }
    }
}

/// A text for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextText {
    /// Which hook.
    pub hook_name: String,
    /// How it was said.
    pub kind: ContextKind,
    /// The bare text.
    pub text: String,
}

/// How a context was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextKind {
    /// As `additionalContext`.
    Additional,
    /// As plain output of a hook that succeeded.
    PlainOutput,
}

impl ContextText {
    /// The line the model reads.
    pub fn line(&self) -> String {
        let kind = match self.kind {
            ContextKind::Additional => "additional context",
            ContextKind::PlainOutput => "success",
        };
        format!("{} hook {kind}: {}", self.hook_name, self.text)
    }
}

/// A text for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemText {
    /// Which hook.
    pub hook_name: String,
    /// The bare text.
    pub text: String,
}

impl SystemText {
    /// The line for clients, without `uuid` and `session_id`.
    pub fn informational(&self) -> Informational {
        Informational {
            content: format!("{} says: {}", self.hook_name, self.text),
            level: "notice".to_owned(),
            ..Informational::default()
        }
    }
}

/// Replaces what a tool gave.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutputChange {
    /// The structured output.
    pub value: Value,
    /// Which field it came in.
    pub kind: ToolOutputKind,
}

/// Which tools a changed output is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolOutputKind {
    /// `updatedToolOutput`: any tool; it must have the shape of that tool's output.
    AnyTool,
    /// `updatedMCPToolOutput`: MCP tools only.
    McpTool,
}

/// What hooks do to a prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptEffects {
    /// A title for the session.
    pub session_title: Option<String>,
    /// The prompt itself is kept from the model; the contexts stand for it.
    pub suppress_original: bool,
}

/// What hooks do at the start of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionStartEffects {
    /// A user message that the session starts with.
    pub initial_user_message: Option<String>,
    /// A title for the session.
    pub session_title: Option<String>,
    /// Skills are to be read again.
    pub reload_skills: bool,
}

/// What hooks answer to an MCP server's question.
#[derive(Debug, Clone, PartialEq)]
pub struct ElicitationAnswer {
    /// `accept`, `decline` or `cancel`.
    pub action: String,
    /// The form, filled in.
    pub content: Option<Value>,
}
