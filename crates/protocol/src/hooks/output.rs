//! The output of a hook.
//!
//! `hookSpecificOutput` is one struct for all events: each event reads the fields it knows and ignores the others.
//! [`HookOutput::parse`] is the entry point; it rejects malformed output and output for another event.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::HookEvent;
use crate::wire::{nullable, number};
use crate::{Extra, PermissionUpdate};

/// The output of a hook. Empty means that it has no opinion.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookOutput {
    /// The hook continues in the background; the action proceeds at once.
    #[serde(rename = "async", skip_serializing_if = "Option::is_none")]
    pub async_: Option<bool>,
    /// Milliseconds.
    #[serde(default, with = "number::option", skip_serializing_if = "Option::is_none")]
    pub async_timeout: Option<f64>,
    /// False ends the turn.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub continue_: Option<bool>,
    /// The text to show when `continue` is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppress_output: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<HookDecision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A text for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_sequence: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook_specific_output: Option<HookSpecificOutput>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The older form of a decision, which still works for every event that can be blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HookDecision {
    Approve,
    Block,
}

/// The decision of a hook about a call, or about a switch of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HookPermissionDecision {
    Allow,
    Deny,
    Ask,
    /// Ends the turn here; the call runs when the session is resumed.
    Defer,
}

/// The part of an output that depends on the event.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookSpecificOutput {
    pub hook_event_name: String,
    /// PreToolUse, PreModelSwitch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_decision: Option<HookPermissionDecision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_decision_reason: Option<String>,
    /// PreToolUse: replaces the input as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_input: Option<Value>,
    /// Text for the model; most events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_context: Option<String>,
    /// PostToolUse: replaces the structured output.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub updated_tool_output: Option<Value>,
    #[serde(
        rename = "updatedMCPToolOutput",
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Option::is_none"
    )]
    pub updated_mcp_tool_output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classifier_context: Option<String>,
    /// PermissionRequest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<PermissionRequestDecision>,
    /// PermissionDenied: lets the model try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<bool>,
    /// UserPromptSubmit, SessionStart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppress_original_prompt: Option<bool>,
    /// SessionStart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_user_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reload_skills: Option<bool>,
    /// SessionStart, CwdChanged, FileChanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch_paths: Option<Vec<String>>,
    /// Elicitation, ElicitationResult: `accept`, `decline` or `cancel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
    /// WorktreeCreate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree_path: Option<String>,
    /// MessageDisplay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_content: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The decision of a PermissionRequest hook in place of the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "behavior", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum PermissionRequestDecision {
    Allow {
        #[serde(skip_serializing_if = "Option::is_none")]
        updated_input: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        updated_permissions: Option<Vec<PermissionUpdate>>,
    },
    Deny {
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        interrupt: Option<bool>,
    },
}

/// Why the output of a hook cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HookOutputError {
    #[error("hook output is not an object")]
    NotAnObject,
    #[error("hook output does not fit: {0}")]
    Malformed(String),
    #[error("hook output is for `{got}`, but the event is `{expected}`")]
    OtherEvent { expected: String, got: String },
}

impl HookOutput {
    /// Reads the output of a hook for `event`; an empty object is valid. Fails if it is not an object, if a known field
    /// has the wrong type, or if its `hookSpecificOutput` names another event or none.
    pub fn parse(value: &Value, event: &HookEvent) -> Result<Self, HookOutputError> {
        if !value.is_object() {
            return Err(HookOutputError::NotAnObject);
        }
        let output =
            Self::deserialize(value).map_err(|error| HookOutputError::Malformed(error.to_string()))?;
        match &output.hook_specific_output {
            Some(specific) if specific.hook_event_name != event.as_str() => {
                Err(HookOutputError::OtherEvent {
                    expected: event.to_string(),
                    got: specific.hook_event_name.clone(),
                })
            }
            Some(_) | None => Ok(output),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_order_that_makes_no_sense_is_refused() {
        let parse = |value: Value| HookOutput::parse(&value, &HookEvent::PreToolUse);
        assert_eq!(parse(json!([])), Err(HookOutputError::NotAnObject));
        for value in [
            json!({ "decision": "wat" }),
            json!({ "continue": "no" }),
            json!({ "hookSpecificOutput": {} }),
            json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse", "permissionDecision": "perhaps" } }),
        ] {
            assert!(matches!(parse(value.clone()), Err(HookOutputError::Malformed(_))), "{value}");
        }
        let other = parse(json!({ "hookSpecificOutput": { "hookEventName": "Stop" } })).unwrap_err();
        assert_eq!(other.to_string(), "hook output is for `Stop`, but the event is `PreToolUse`");
    }

    #[test]
    fn an_empty_answer_has_no_opinion() {
        let output = HookOutput::parse(&json!({}), &HookEvent::Stop);
        assert_eq!(output, Ok(HookOutput::default()));
    }
}
