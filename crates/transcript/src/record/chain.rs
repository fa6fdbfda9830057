//! Chain records as a session writes them: an [`Envelope`] that is the same for all records of a run, a [`Link`] that
//! places the record in the conversation, and a body by type.
//!
//! The one rule that is easy to get wrong: the parent of a tool result is *its own call*, not the newest record.
//! Responses with several calls therefore fork the file; the next record follows the result that finished last, and
//! readers add the others again.

use lathe_protocol::system::CompactMetadata;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::Line;
use crate::error::Result;

/// The fields that all chain records of a run have in common.
#[derive(Debug, Clone, Default)]
pub struct Envelope {
    /// The session.
    pub session_id: String,
    /// The working directory.
    pub cwd: String,
    /// The version of the writing program.
    pub version: String,
    /// The branch, if the directory is in a repository.
    pub git_branch: Option<String>,
    /// `cli`, `sdk-cli`, `sdk-ts`, `sdk-py`, …
    pub entrypoint: String,
    /// The subagent whose file it is; its records are marked as a sidechain.
    pub agent_id: Option<String>,
    /// The team of a teammate.
    pub team_name: Option<String>,
}

/// The place of a record in the conversation.
#[derive(Debug, Clone, Copy)]
pub struct Link<'a> {
    /// Its id; the same message has the same id on stdout.
    pub uuid: &'a str,
    /// The record it follows; `None` at a root.
    pub parent: Option<&'a str>,
    /// ISO time with milliseconds, UTC.
    pub timestamp: &'a str,
}

/// The part of a chain record that depends on its type.
pub trait ChainBody: Serialize {
    /// The `type` in the file.
    const KIND: &'static str;
}

impl Envelope {
    /// Returns the line of a record: the fields of the run, the link and the body in the order that other programs
    /// write.
    pub fn line<B: ChainBody>(&self, link: Link<'_>, body: &B) -> Result<Line> {
        Line::of(&ChainLine {
            parent_uuid: link.parent,
            is_sidechain: self.agent_id.is_some(),
            agent_id: self.agent_id.as_deref(),
            kind: B::KIND,
            body,
            uuid: link.uuid,
            timestamp: link.timestamp,
            user_type: "external",
            entrypoint: &self.entrypoint,
            cwd: &self.cwd,
            session_id: &self.session_id,
            version: &self.version,
            git_branch: self.git_branch.as_deref(),
            team_name: self.team_name.as_deref(),
        })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ChainLine<'a, B> {
    parent_uuid: Option<&'a str>,
    is_sidechain: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<&'a str>,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    body: &'a B,
    uuid: &'a str,
    timestamp: &'a str,
    user_type: &'static str,
    entrypoint: &'a str,
    cwd: &'a str,
    session_id: &'a str,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    git_branch: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    team_name: Option<&'a str>,
}

/// A `user` record: a prompt, a tool result or a summary. Create it with a constructor, then set the other fields that
/// are known.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserBody<'a, M> {
    /// The API message (`{"role":"user","content":…}`), or a value that serialises to it.
    pub message: &'a M,
    /// The id of the turn, shared by all its user records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<&'a str>,
    /// The permission mode at the time of a prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<&'a str>,
    /// The source of a prompt, such as `sdk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_source: Option<&'a str>,
    /// What started the turn, such as `sdk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_origin: Option<&'a str>,
    /// Which prompt of the session it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_position: Option<TurnPosition>,
    /// Whether it is for the model and not for people.
    #[serde(skip_serializing_if = "is_false")]
    pub is_meta: bool,
    /// Whether it is the summary that replaces everything before a compaction boundary.
    #[serde(skip_serializing_if = "is_false")]
    pub is_compact_summary: bool,
    /// Whether it is not shown as the prompt of a person.
    #[serde(skip_serializing_if = "is_false")]
    pub is_visible_in_transcript_only: bool,
    /// The structured result of a tool call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_result: Option<&'a Value>,
    /// Why a call was denied, such as `user-rejected`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_denial_kind: Option<&'a str>,
    /// Whether the call ran in the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandboxed: Option<bool>,
    /// The record with the call.
    #[serde(rename = "sourceToolAssistantUUID", skip_serializing_if = "Option::is_none")]
    pub source_tool_assistant_uuid: Option<&'a str>,
    /// How the call was permitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_decision: Option<&'a Value>,
    /// The origin of a prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<&'a Value>,
}

/// `turnPosition` of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnPosition {
    /// Always 0 in the recorded runs.
    pub prompt_index: u64,
    /// The number of the prompt in the session, counted from 1.
    pub turn_index: u64,
}

impl<M: Serialize> ChainBody for UserBody<'_, M> {
    const KIND: &'static str = "user";
}

impl<'a, M: Serialize> UserBody<'a, M> {
    /// Creates the body of a prompt, with all optional fields unset.
    pub fn prompt(message: &'a M) -> Self {
        Self {
            message,
            prompt_id: None,
            permission_mode: None,
            prompt_source: None,
            turn_origin: None,
            turn_position: None,
            is_meta: false,
            is_compact_summary: false,
            is_visible_in_transcript_only: false,
            tool_use_result: None,
            tool_denial_kind: None,
            sandboxed: None,
            source_tool_assistant_uuid: None,
            permission_decision: None,
            origin: None,
        }
    }

    /// Creates the body of a tool result. `call_uuid` is the assistant record with the call, and must be the link's
    /// parent as well.
    pub fn tool_result(message: &'a M, call_uuid: &'a str, result: &'a Value) -> Self {
        Self {
            source_tool_assistant_uuid: Some(call_uuid),
            tool_use_result: Some(result),
            ..Self::prompt(message)
        }
    }

    /// Creates the body of the summary after a compaction boundary, which must be its parent. It is not shown as the
    /// prompt of a person.
    pub fn compact_summary(message: &'a M) -> Self {
        Self { is_compact_summary: true, is_visible_in_transcript_only: true, ..Self::prompt(message) }
    }
}

/// An `assistant` record: one content block, with the id, usage and final stop reason of its response.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AssistantBody<'a, M> {
    /// The API message with this one block as its content.
    pub message: &'a M,
    /// Which block of the response it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_block_index: Option<usize>,
    /// The request id of the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<&'a str>,
    /// The requested model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_model: Option<&'a str>,
    /// The requested effort.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<&'a str>,
    /// The kind of failure, on a message that reports a failed request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
    /// Whether it reports a failed request. The model never gets such a message.
    #[serde(skip_serializing_if = "is_false")]
    pub is_api_error_message: bool,
    /// The HTTP status of that failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_error_status: Option<u16>,
}

impl<M: Serialize> ChainBody for AssistantBody<'_, M> {
    const KIND: &'static str = "assistant";
}

impl<'a, M: Serialize> AssistantBody<'a, M> {
    /// Creates the body of one block of a response; `index` is its position in the response, and `message` has this
    /// block alone.
    pub fn block(message: &'a M, index: usize) -> Self {
        Self { api_block_index: Some(index), ..Self::made_up(message) }
    }

    /// Creates the body of a message that reports a failed request. `error` is the kind of failure, such as
    /// `rate_limit`.
    pub fn api_error(message: &'a M, error: &'a str) -> Self {
        Self { error: Some(error), is_api_error_message: true, ..Self::made_up(message) }
    }

    /// Creates the body of a message that no model wrote, such as the output of a local command.
    pub fn made_up(message: &'a M) -> Self {
        Self {
            message,
            api_block_index: None,
            request_id: None,
            requested_model: None,
            effort: None,
            error: None,
            is_api_error_message: false,
            api_error_status: None,
        }
    }
}

/// A `system` record.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SystemBody<'a> {
    /// The record that it follows in the conversation, if `parentUuid` is null on purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logical_parent_uuid: Option<&'a str>,
    /// What happened, such as `compact_boundary`.
    pub subtype: &'a str,
    /// A description for people.
    pub content: &'a str,
    /// `info`, `warning`, `error`.
    pub level: &'a str,
    /// Never true in the recorded runs; written because readers check it.
    pub is_meta: bool,
    /// The details of a compaction.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "in_camel_case")]
    pub compact_metadata: Option<&'a CompactMetadata>,
    /// Further fields of the subtype.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl ChainBody for SystemBody<'_> {
    const KIND: &'static str = "system";
}

impl<'a> SystemBody<'a> {
    /// Creates the body of any subtype; `content` is a description for people, and `level` is `info`, `warning` or
    /// `error`.
    pub fn new(subtype: &'a str, content: &'a str, level: &'a str) -> Self {
        Self {
            logical_parent_uuid: None,
            subtype,
            content,
            level,
            is_meta: false,
            compact_metadata: None,
            extra: Map::new(),
        }
    }

    /// Creates the body of a compaction boundary, the end of what a summary replaces. The link must have no parent, so
    /// that readers stop here while the records before it stay in the file.
    pub fn compact_boundary(metadata: &'a CompactMetadata, logical_parent: Option<&'a str>) -> Self {
        Self {
            logical_parent_uuid: logical_parent,
            compact_metadata: Some(metadata),
            ..Self::new("compact_boundary", "Everything before this point is summarised below", "info")
        }
    }
}

/// Serialises an object of the wire with the key names of session files: `preTokens` instead of `pre_tokens`, at every
/// depth.
fn in_camel_case<T: Serialize, S: Serializer>(value: &Option<&T>, serializer: S) -> Result<S::Ok, S::Error> {
    let value = serde_json::to_value(value).map_err(serde::ser::Error::custom)?;
    camel_case(value).serialize(serializer)
}

/// Returns the value with the keys of all objects in it renamed, at every depth; strings are not changed.
fn camel_case(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .map(|(key, value)| (camel_case_key(&key), camel_case(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.into_iter().map(camel_case).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

/// Returns a key in camel case: `pre_tokens` becomes `preTokens`.
fn camel_case_key(key: &str) -> String {
    let mut words = key.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

/// An `attachment` record: context that was added for the model.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentBody<'a> {
    /// The attachment: `{"type":…}` and further fields by type.
    pub attachment: &'a Value,
    /// The text that the model read. With the role `user` it is restored at its place by a resume; with `system` it is
    /// left out, because the new run describes its own environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered: Option<&'a str>,
    /// `user` or `system`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered_role: Option<&'a str>,
}

impl ChainBody for AttachmentBody<'_> {
    const KIND: &'static str = "attachment";
}

/// Returns whether a flag is not set. Used with `skip_serializing_if`, so that a flag is written only if it is set.
fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
mod tests {
    use lathe_protocol::system::PreservedSegment;

    use super::*;
    use serde_json::json;
    use serde_json::value::RawValue;

    fn envelope() -> Envelope {
        Envelope {
            session_id: "S".into(),
            cwd: "/w".into(),
            version: "1".into(),
            git_branch: Some("main".into()),
            entrypoint: "sdk-cli".into(),
            ..Envelope::default()
        }
    }

    fn parsed(line: &Line) -> Value {
        serde_json::from_str(line.json()).unwrap()
    }

    #[test]
    fn a_tool_result_carries_its_call() {
        let message = RawValue::from_string(r#"{"role":"user","content":[]}"#.into()).unwrap();
        let outcome = json!({ "stdout": "x" });
        let link = Link { uuid: "r", parent: Some("a"), timestamp: "T" };
        let line = envelope().line(link, &UserBody::tool_result(&message, "a", &outcome)).unwrap();
        assert_eq!(
            parsed(&line),
            json!({
                "parentUuid": "a", "isSidechain": false, "type": "user", "message": { "role": "user", "content": [] },
                "toolUseResult": { "stdout": "x" }, "sourceToolAssistantUUID": "a", "uuid": "r", "timestamp": "T",
                "userType": "external", "entrypoint": "sdk-cli", "cwd": "/w", "sessionId": "S", "version": "1",
                "gitBranch": "main"
            })
        );
    }

    #[test]
    fn a_subagent_writes_a_sidechain() {
        let envelope = Envelope { agent_id: Some("a1".into()), git_branch: None, ..envelope() };
        let link = Link { uuid: "u", parent: None, timestamp: "T" };
        let line = parsed(&envelope.line(link, &UserBody::prompt(&json!({}))).unwrap());
        assert_eq!((&line["isSidechain"], &line["agentId"]), (&json!(true), &json!("a1")));
        assert_eq!((&line["parentUuid"], line.get("gitBranch")), (&Value::Null, None));
    }

    #[test]
    fn a_boundary_names_its_logical_parent() {
        let metadata =
            CompactMetadata { trigger: "auto".into(), pre_tokens: 9, ..CompactMetadata::default() };
        let link = Link { uuid: "b", parent: None, timestamp: "T" };
        let line =
            parsed(&envelope().line(link, &SystemBody::compact_boundary(&metadata, Some("old"))).unwrap());
        assert_eq!(line["subtype"], "compact_boundary");
        assert_eq!(line["logicalParentUuid"], "old");
        assert_eq!(line["compactMetadata"], json!({ "trigger": "auto", "preTokens": 9 }));
    }

    #[test]
    fn a_boundary_spells_its_metadata_as_files_do() {
        let segment =
            PreservedSegment { head_uuid: "h".into(), tail_uuid: "t".into(), ..PreservedSegment::default() };
        let metadata = CompactMetadata {
            trigger: "auto".into(),
            cumulative_dropped_tokens: Some(3),
            preserved_segment: Some(segment),
            ..CompactMetadata::default()
        };
        let link = Link { uuid: "b", parent: None, timestamp: "T" };
        let line = envelope().line(link, &SystemBody::compact_boundary(&metadata, None)).unwrap();
        let written = concat!(
            r#""compactMetadata":{"trigger":"auto","preTokens":0,"cumulativeDroppedTokens":3,"#,
            r#""preservedSegment":{"headUuid":"h","anchorUuid":"","tailUuid":"t"}}"#
        );
        assert!(line.json().contains(written), "{}", line.json());
    }

    #[test]
    fn error_messages_are_marked() {
        let message = json!({ "model": "<synthetic>" });
        let body =
            AssistantBody { api_error_status: Some(529), ..AssistantBody::api_error(&message, "overloaded") };
        let link = Link { uuid: "e", parent: Some("u"), timestamp: "T" };
        let line = parsed(&envelope().line(link, &body).unwrap());
        assert_eq!((&line["isApiErrorMessage"], &line["apiErrorStatus"]), (&json!(true), &json!(529)));
        assert_eq!(line.get("apiBlockIndex"), None);
    }
}
