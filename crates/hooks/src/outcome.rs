//! The merged result of all hooks of one event: plain data that the agent acts on.
//!
//! If several hooks set the same field, the first in registration order counts (managed settings before the user's,
//! files before the host). Verdicts are ranked before that: deny, defer, ask, allow.

use lathe_protocol::hooks::{HookPermissionDecision, PermissionRequestDecision};
use lathe_protocol::system::Informational;
use lathe_protocol::{HookEvent, PermissionUpdate};
use serde_json::Value;

use crate::{HookProblem, HookSource};

/// The merged result of all hooks of an event. The default is the outcome of an event without hooks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// How many hooks ran.
    pub ran: usize,
    /// The run was cancelled by its token: nothing here is a verdict.
    pub cancelled: bool,
    /// Every "no", for events where it is not a permission verdict.
    pub blocks: Vec<HookBlock>,
    /// `continue: false`: the turn ends after this event.
    pub stop: Option<StopRequest>,
    /// PreToolUse and PreModelSwitch: the permission verdict.
    pub permission: Option<PermissionVerdict>,
    /// PreToolUse: the input that replaces the model's.
    pub updated_input: Option<Value>,
    /// PermissionRequest: the decision in the user's place.
    pub permission_request: Option<PermissionRequestVerdict>,
    /// Texts for the model, in order. After Stop and SubagentStop they continue the turn.
    pub contexts: Vec<ContextText>,
    /// Texts for the user.
    pub system_messages: Vec<SystemText>,
    /// Escape sequences for a terminal. A headless session has no terminal and ignores them.
    pub terminal_sequences: Vec<String>,
    /// PostToolUse: what replaces the tool's output.
    pub tool_output: Option<ToolOutputChange>,
    /// PostToolUse: up to 2000 characters for a permission classifier.
    pub classifier_context: Option<String>,
    /// PermissionDenied: the model may try again.
    pub retry: bool,
    /// UserPromptSubmit and UserPromptExpansion: changes to the prompt.
    pub prompt: PromptEffects,
    /// SessionStart: changes to the new session.
    pub session_start: SessionStartEffects,
    /// SessionStart, CwdChanged and FileChanged: paths to watch.
    pub watch_paths: Vec<String>,
    /// Elicitation and ElicitationResult: the reply to the MCP server.
    pub elicitation: Option<ElicitationAnswer>,
    /// WorktreeCreate: the path of the new worktree.
    pub worktree_path: Option<String>,
    /// MessageDisplay: what is shown instead.
    pub display_content: Option<String>,
    /// What went wrong.
    pub problems: Vec<HookProblem>,
}

impl Outcome {
    /// Returns the first refusal; `None` if no hook refused. A refusal that is a permission verdict is not among them.
    pub fn block(&self) -> Option<&HookBlock> {
        self.blocks.first()
    }

    /// Returns the messages for clients: problems as warnings, except for plain non-zero exits, and texts for the user
    /// as notices. Their `uuid` and `session_id` are empty.
    pub fn notices(&self) -> Vec<Informational> {
        let problems = self.problems.iter().filter_map(HookProblem::informational);
        problems.chain(self.system_messages.iter().map(SystemText::informational)).collect()
    }
}

/// A hook's "no".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookBlock {
    /// The reason. For exit code 2 it is `[command]: stderr`.
    pub reason: String,
    /// `Event`, `Event:subject` or, for a callback without subject, `Event:Callback`.
    pub hook_name: String,
    /// The event.
    pub event: HookEvent,
    /// The command, address, question or `callback`.
    pub command: String,
    /// Who registered the hook.
    pub source: HookSource,
}

impl HookBlock {
    /// Returns the user message that the model reads if a stop is blocked.
    pub fn feedback(&self) -> String {
        format!("{} hook feedback:\n{}", self.event, self.reason)
    }

    /// Returns the note by which the model learns that a hook objected.
    pub fn blocking_error(&self) -> String {
        format!("{} hook blocking error from command: \"{}\": {}", self.hook_name, self.command, self.reason)
    }
}

/// A hook's request to end the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopRequest {
    /// `stopReason`.
    pub reason: Option<String>,
    /// Which hook.
    pub hook_name: String,
}

/// The verdict of hooks on a call or on a switch of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionVerdict {
    /// The strongest of their decisions.
    pub behavior: HookPermissionDecision,
    /// The reason; a deny always has one.
    pub reason: Option<String>,
    /// Which hook.
    pub hook_name: String,
    /// The event, for `decision_reason_hook_event`.
    pub event: HookEvent,
    /// Who registered it.
    pub source: HookSource,
}

impl PermissionVerdict {
    /// Returns the text that replaces the result of a denied call: the hook and its reason.
    pub fn tool_error(&self) -> String {
        format!("{} hook error: {}", self.hook_name, self.reason.as_deref().unwrap_or(""))
    }
}

/// The decision of hooks on a permission request, in the user's place.
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
    /// Returns the permission updates that come with an allow; none for a deny.
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
    /// Which kind of output it comes from.
    pub kind: ContextKind,
    /// The bare text.
    pub text: String,
}

/// The kind of output that a text for the model comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextKind {
    /// `additionalContext`.
    Additional,
    /// The plain output of a hook that succeeded.
    PlainOutput,
}

impl ContextText {
    /// Returns the text as the model reads it, with the name of the hook in front.
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
    /// Returns the message for clients that shows the text as said by the hook, with an empty `uuid` and `session_id`.
    pub fn informational(&self) -> Informational {
        Informational {
            content: format!("{} says: {}", self.hook_name, self.text),
            level: "notice".to_owned(),
            ..Informational::default()
        }
    }
}

/// A replacement for the output of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutputChange {
    /// The structured output.
    pub value: Value,
    /// The field of the hook's output it comes from.
    pub kind: ToolOutputKind,
}

/// The tools that a changed output applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolOutputKind {
    /// `updatedToolOutput`: any tool; it must have the shape of that tool's output.
    AnyTool,
    /// `updatedMCPToolOutput`: MCP tools only.
    McpTool,
}

/// Changes that hooks make to a prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptEffects {
    /// A title for the session.
    pub session_title: Option<String>,
    /// Whether the model gets only the texts of the hooks and not the prompt itself.
    pub suppress_original: bool,
}

/// Changes that hooks make at the start of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionStartEffects {
    /// A user message that the session starts with.
    pub initial_user_message: Option<String>,
    /// A title for the session.
    pub session_title: Option<String>,
    /// Whether skills are to be loaded again.
    pub reload_skills: bool,
}

/// The reply of hooks to an MCP server's question.
#[derive(Debug, Clone, PartialEq)]
pub struct ElicitationAnswer {
    /// `accept`, `decline` or `cancel`.
    pub action: String,
    /// The form, filled in.
    pub content: Option<Value>,
}
