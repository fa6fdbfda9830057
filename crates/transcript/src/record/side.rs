//! Side records: facts about a session that are not part of the conversation. Other programs find some of them by
//! searching the text of the file's last 64 KiB, which works only if `type` is the first key and the JSON is compact.
//! The internal tag of the enum below guarantees the former, [`Line::of`](super::Line::of) the latter.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One side record. Each keeps fields it does not know in `extra`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum SideRecord {
    /// A prompt entered or left the queue.
    QueueOperation {
        /// `enqueue`, `dequeue`, `remove`, …
        operation: String,
        /// The time.
        timestamp: String,
        /// The session.
        session_id: String,
        /// The prompt, on `enqueue`.
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Value>,
        /// Fields of other versions.
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// The newest prompt, for lists of sessions.
    LastPrompt {
        /// Its text.
        last_prompt: String,
        /// The last record of the conversation at that time.
        #[serde(skip_serializing_if = "Option::is_none")]
        leaf_uuid: Option<String>,
        /// The session.
        session_id: String,
        /// Fields of other versions.
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// A title given by a person.
    CustomTitle {
        /// The title.
        custom_title: String,
        /// The session.
        session_id: String,
        /// Fields of other versions.
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// A tag; an empty one clears it.
    Tag {
        /// The tag.
        tag: String,
        /// The session.
        session_id: String,
        /// Fields of other versions.
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// The session's display name among agents.
    AgentName {
        /// The name.
        agent_name: String,
        /// The session.
        session_id: String,
        /// Fields of other versions.
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// The session's mode (`normal` in the recorded runs; the permission mode is a field of prompts instead).
    Mode {
        /// The mode.
        mode: String,
        /// The session.
        session_id: String,
        /// Fields of other versions.
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// Every tool called so far.
    ToolsUsed {
        /// Their names.
        tools: Vec<String>,
        /// The session.
        session_id: String,
        /// Fields of other versions.
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// The cost of the session so far, from which a resumed session goes on counting.
    CostState(CostState),
    /// The files as they were before a prompt.
    FileHistorySnapshot {
        /// Uuid of the prompt.
        message_id: String,
        /// The tracked files and their backups.
        snapshot: Value,
        /// Whether it replaces an earlier snapshot of the same prompt.
        is_snapshot_update: bool,
        /// Fields of other versions.
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// One more file backed up after the snapshot.
    FileHistoryDelta {
        /// Uuid of the record that edits the file.
        message_id: String,
        /// Uuid of the prompt whose snapshot grows.
        snapshot_message_id: String,
        /// The file, relative to the project.
        tracking_path: String,
        /// Where its content was saved.
        backup: Value,
        /// The time.
        timestamp: String,
        /// Fields of other versions.
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// Contents that were replaced by something shorter.
    ContentReplacement {
        /// The session.
        session_id: String,
        /// The replacements.
        replacements: Vec<Value>,
        /// Fields of other versions.
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// A generated title of an older version.
    Summary {
        /// The title.
        summary: String,
        /// The last record of the conversation at that time.
        #[serde(skip_serializing_if = "Option::is_none")]
        leaf_uuid: Option<String>,
        /// Fields of other versions.
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// Any other record, with all its fields.
    #[serde(untagged)]
    Unknown(Map<String, Value>),
}

/// Running totals of a session. Durations are milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CostState {
    /// The session.
    pub session_id: String,
    /// The cost in dollars.
    #[serde(rename = "totalCostUSD")]
    pub total_cost_usd: f64,
    /// Time spent in requests.
    #[serde(rename = "totalAPIDuration")]
    pub total_api_duration: u64,
    /// Time spent in requests, without failed attempts.
    #[serde(rename = "totalAPIDurationWithoutRetries")]
    pub total_api_duration_without_retries: u64,
    /// Time spent in tools.
    pub total_tool_duration: u64,
    /// Lines added by edits.
    pub total_lines_added: u64,
    /// Lines removed by edits.
    pub total_lines_removed: u64,
    /// Wall time of all runs.
    pub total_duration: u64,
    /// When the session began, in ms since 1970.
    pub start_time: u64,
    /// Tokens and dollars by model.
    pub model_usage: Map<String, Value>,
    /// Whether a model without a known price was used.
    pub has_unknown_model_cost: bool,
    /// Fields of other versions.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl SideRecord {
    /// Creates a `last-prompt` record; `leaf_uuid` is the last record of the conversation at that time.
    pub fn last_prompt(session_id: &str, prompt: &str, leaf_uuid: &str) -> Self {
        Self::LastPrompt {
            last_prompt: prompt.to_owned(),
            leaf_uuid: Some(leaf_uuid.to_owned()),
            session_id: session_id.to_owned(),
            extra: Map::new(),
        }
    }

    /// Creates a record of the queue about the notice of a task's end; `operation` is `enqueue`, `dequeue` or `remove`.
    /// `run_id` names the run that ended, and `notice` is the text for the model, which `dequeue` leaves out.
    pub fn task_notice(
        operation: &str,
        session_id: &str,
        now: &str,
        run_id: &str,
        notice: Option<&str>,
    ) -> Self {
        Self::QueueOperation {
            operation: operation.to_owned(),
            timestamp: now.to_owned(),
            session_id: session_id.to_owned(),
            content: notice.map(Value::from),
            extra: Map::from_iter([("runId".to_owned(), Value::from(run_id))]),
        }
    }

    /// Creates a `custom-title` record, the title that a person gave.
    pub fn custom_title(session_id: &str, title: &str) -> Self {
        Self::CustomTitle {
            custom_title: title.to_owned(),
            session_id: session_id.to_owned(),
            extra: Map::new(),
        }
    }

    /// Creates a `tag` record; an empty text clears the tag.
    pub fn tag(session_id: &str, tag: &str) -> Self {
        Self::Tag { tag: tag.to_owned(), session_id: session_id.to_owned(), extra: Map::new() }
    }

    /// Creates an `agent-name` record, the name of the session among agents.
    pub fn agent_name(session_id: &str, name: &str) -> Self {
        Self::AgentName { agent_name: name.to_owned(), session_id: session_id.to_owned(), extra: Map::new() }
    }

    /// Creates a `mode` record, which names the mode of the session and not the permission mode.
    pub fn mode(session_id: &str, mode: &str) -> Self {
        Self::Mode { mode: mode.to_owned(), session_id: session_id.to_owned(), extra: Map::new() }
    }

    /// Parses a side record. Never fails: what does not fit becomes [`SideRecord::Unknown`] with all its fields.
    pub(super) fn from_fields(fields: Map<String, Value>) -> Self {
        // A known type whose fields do not fit is kept as an unknown record, so that nothing is lost.
        serde_json::from_value(Value::Object(fields.clone())).unwrap_or(Self::Unknown(fields))
    }

    /// Returns the record as JSON, with all its fields and its `type`.
    pub(super) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Line, Record};
    use serde_json::json;

    #[test]
    fn side_records_are_compact_with_the_type_first() {
        let cases = [
            (
                SideRecord::custom_title("S", "a \"b\""),
                r#"{"type":"custom-title","customTitle":"a \"b\"","sessionId":"S"}"#,
            ),
            (SideRecord::tag("S", ""), r#"{"type":"tag","tag":"","sessionId":"S"}"#),
            (
                SideRecord::last_prompt("S", "p", "L"),
                r#"{"type":"last-prompt","lastPrompt":"p","leafUuid":"L","sessionId":"S"}"#,
            ),
        ];
        for (record, json) in cases {
            assert_eq!(Line::of(&record).unwrap().json(), json);
            assert_eq!(Record::parse(json).unwrap(), Record::Side(record));
        }
    }

    #[test]
    fn a_cost_state_keeps_its_numbers_and_what_it_does_not_know() {
        let json = json!({
            "type": "cost-state", "sessionId": "S", "totalCostUSD": 0.0024000000000000002, "totalAPIDuration": 871,
            "modelUsage": { "m": { "inputTokens": 100 } }, "newField": [1]
        });
        let Record::Side(SideRecord::CostState(state)) = Record::parse(&json.to_string()).unwrap() else {
            panic!("a cost state")
        };
        assert_eq!(state.total_cost_usd, 0.0024000000000000002);
        assert_eq!(state.total_api_duration, 871);
        assert_eq!(state.extra["newField"], json!([1]));
        assert!(
            Line::of(&SideRecord::CostState(state)).unwrap().json().starts_with(r#"{"type":"cost-state","#)
        );
    }
}
