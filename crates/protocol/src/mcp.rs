//! Configurations of MCP servers, as they appear in `--mcp-config`, `.mcp.json`, `mcp_set_servers` and agents.
//!
//! `type` may be missing for a child process, so this enum is deserialised by hand and the structs carry their `type`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::Extra;
use crate::wire::{nullable, number};

/// One server.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum McpServerConfig {
    Stdio(StdioServer),
    Sse(RemoteServer),
    Http(RemoteServer),
    Ws(RemoteServer),
    Sdk(SdkServer),
    /// An unknown kind, or a known one with fields that do not fit.
    Unknown(Value),
}

impl<'de> Deserialize<'de> for McpServerConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let read = match value.get("type").map(Value::as_str) {
            None | Some(Some("stdio")) => StdioServer::deserialize(&value).map(Self::Stdio),
            Some(Some("sse")) => RemoteServer::deserialize(&value).map(Self::Sse),
            Some(Some("http")) => RemoteServer::deserialize(&value).map(Self::Http),
            Some(Some("ws")) => RemoteServer::deserialize(&value).map(Self::Ws),
            Some(Some("sdk")) => SdkServer::deserialize(&value).map(Self::Sdk),
            Some(_) => return Ok(Self::Unknown(value)),
        };
        Ok(read.unwrap_or(Self::Unknown(value)))
    }
}

/// A child process that is spoken to over its standard streams.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StdioServer {
    /// `stdio`, or absent.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    pub command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Milliseconds per call; a value below 1000 is ignored.
    #[serde(default, with = "number::option", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Keeps the tools in the prompt instead of behind the tool search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub always_load: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A server behind a URL.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteServer {
    /// `sse`, `http` or `ws`.
    #[serde(rename = "type")]
    pub kind: String,
    pub url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers_helper: Option<String>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub oauth: Option<Value>,
    #[serde(default, with = "number::option", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub always_load: Option<bool>,
    /// Policy per tool.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub tools: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A server that runs inside the host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SdkServer {
    /// `sdk`.
    #[serde(rename = "type")]
    pub kind: String,
    pub name: String,
    #[serde(default, with = "number::option", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub tools: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}
