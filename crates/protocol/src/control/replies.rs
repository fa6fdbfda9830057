//! Replies of a host that the runtime must understand: permission results, and what an MCP server or a user dialog
//! returned.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire::nullable;
use crate::{Extra, PermissionUpdate};

open_enum! {
    /// The reply to `can_use_tool`.
    pub enum PermissionResult by "behavior" {
        Allow(PermissionAllow) = "allow",
        Deny(PermissionDeny) = "deny",
    }
}

/// The call may run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionAllow {
    /// Replaces the input as a whole. If it is absent or an empty object, the input stays as it was.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub updated_input: Option<Value>,
    /// Applied before the tool runs; unknown entries are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_permissions: Option<Vec<PermissionUpdate>>,
    #[serde(rename = "toolUseID", skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    /// `user_temporary`, `user_permanent` or `user_reject`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_classification: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The call must not run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionDeny {
    /// What the model reads.
    pub message: String,
    /// Whether to end the turn as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<bool>,
    #[serde(rename = "toolUseID", skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_classification: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// What is wrong with a permission result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PermissionResultError {
    #[error("permission result is not an object")]
    NotAnObject,
    #[error("permission result has no `behavior` of `allow` or `deny`")]
    Behavior,
    #[error("permission result denies without a `message`")]
    NoMessage,
    #[error("permission result does not fit: {0}")]
    Malformed(String),
    #[error(
        "permission result holds more than {} updates, rules and directories",
        PermissionResult::MAX_UPDATES
    )]
    TooMany,
}

impl PermissionResult {
    /// The most updates, rules and directories that one reply may hold, counted together.
    pub const MAX_UPDATES: usize = 4096;

    /// Reads a permission result that the runtime is about to act on. Unlike reading the wire, which would yield
    /// `Unknown`, it says in its error what is wrong, for the host; a reply with more than [`Self::MAX_UPDATES`]
    /// updates, rules and directories is also an error.
    pub fn parse(value: &Value) -> Result<Self, PermissionResultError> {
        if !value.is_object() {
            return Err(PermissionResultError::NotAnObject);
        }
        let malformed = |error: serde_json::Error| PermissionResultError::Malformed(error.to_string());
        match value["behavior"].as_str() {
            Some("allow") => {
                let allow = PermissionAllow::deserialize(value).map_err(malformed)?;
                let updates = allow.updated_permissions.as_deref().unwrap_or_default();
                if updates.iter().map(weight).sum::<usize>() > Self::MAX_UPDATES {
                    return Err(PermissionResultError::TooMany);
                }
                Ok(Self::Allow(without_tag(allow, |allow| &mut allow.extra)))
            }
            Some("deny") if !value["message"].is_string() => Err(PermissionResultError::NoMessage),
            Some("deny") => {
                let deny = PermissionDeny::deserialize(value).map_err(malformed)?;
                Ok(Self::Deny(without_tag(deny, |deny| &mut deny.extra)))
            }
            Some(_) | None => Err(PermissionResultError::Behavior),
        }
    }
}

/// Returns how much an update adds to the rules: itself, and each rule or directory in it. Used to bound a reply.
fn weight(update: &PermissionUpdate) -> usize {
    1 + match update {
        PermissionUpdate::AddRules(update)
        | PermissionUpdate::ReplaceRules(update)
        | PermissionUpdate::RemoveRules(update) => update.rules.len(),
        PermissionUpdate::AddDirectories(update) | PermissionUpdate::RemoveDirectories(update) => {
            update.directories.len()
        }
        PermissionUpdate::SetMode(_) | PermissionUpdate::Unknown(_) => 0,
    }
}

/// Removes `behavior` from the unknown fields of a payload: the enum around it writes that field, so it would be there
/// twice.
fn without_tag<T>(mut payload: T, extra: impl Fn(&mut T) -> &mut Extra) -> T {
    extra(&mut payload).remove("behavior");
    payload
}

/// The reply to `elicitation`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ElicitationResult {
    /// `accept`, `decline` or `cancel`.
    pub action: String,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The reply to `mcp_message`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct McpMessageResponse {
    /// Some hosts leave it out; the call it belongs to has then failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_response: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_that_cannot_be_meant_says_why() {
        let error = |value: Value| PermissionResult::parse(&value).unwrap_err();
        assert_eq!(error(json!("yes")), PermissionResultError::NotAnObject);
        assert_eq!(error(json!({})), PermissionResultError::Behavior);
        assert_eq!(error(json!({ "behavior": "maybe" })), PermissionResultError::Behavior);
        assert_eq!(error(json!({ "behavior": "deny" })), PermissionResultError::NoMessage);
        assert_eq!(error(json!({ "behavior": "deny", "message": 5 })), PermissionResultError::NoMessage);
        let malformed = error(json!({ "behavior": "deny", "message": "no", "interrupt": "yes" }));
        assert!(matches!(malformed, PermissionResultError::Malformed(_)));
        let malformed = error(json!({ "behavior": "allow", "updatedPermissions": "all" }));
        assert!(matches!(malformed, PermissionResultError::Malformed(_)));
    }

    #[test]
    fn an_update_nobody_knows_does_not_spoil_an_allow() {
        let value = json!({ "behavior": "allow", "updatedPermissions": [{ "type": "nope" }], "note": 1 });
        let Ok(PermissionResult::Allow(allow)) = PermissionResult::parse(&value) else {
            panic!("not allowed")
        };
        assert!(matches!(allow.updated_permissions.as_deref(), Some([PermissionUpdate::Unknown(_)])));
        assert_eq!(serde_json::to_value(PermissionResult::Allow(allow)).unwrap(), value);
    }

    #[test]
    fn there_is_a_limit_to_updates() {
        let answer = |rules: usize| {
            let rules = vec![json!({ "toolName": "Bash" }); rules];
            let update =
                json!({ "type": "addRules", "rules": rules, "behavior": "allow", "destination": "session" });
            PermissionResult::parse(&json!({ "behavior": "allow", "updatedPermissions": [update] }))
        };
        assert!(answer(PermissionResult::MAX_UPDATES - 1).is_ok());
        assert_eq!(answer(PermissionResult::MAX_UPDATES), Err(PermissionResultError::TooMany));
    }
}
