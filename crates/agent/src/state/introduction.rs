//! What a host brings when it introduces itself with `initialize`, as far as it outlives the request: other names for
//! tools, instructions for plan mode, and its in-process MCP servers.

use std::collections::BTreeMap;

use lathe_protocol::InitializeRequest;
use lathe_protocol::system::McpServerInfo;
use serde_json::{Value, json};

/// Why a server of the host is not connected.
pub(crate) const NO_MCP: &str = "MCP servers are not supported by lathe yet";

/// What the host said of itself; the last introduction counts.
#[derive(Debug, Default, Clone)]
pub struct HostIntroduction {
    /// Names of its in-process MCP servers.
    sdk_mcp_servers: Vec<String>,
    /// Another name for a tool → the tool.
    tool_aliases: BTreeMap<String, String>,
    /// How to work in plan mode.
    pub plan_mode_instructions: Option<String>,
    /// Whether the host has introduced itself at all.
    pub is_done: bool,
}

impl HostIntroduction {
    /// Reads what the handshake says about the host. What it leaves out counts as empty.
    pub fn of(body: &InitializeRequest) -> Self {
        Self {
            sdk_mcp_servers: body.sdk_mcp_servers.clone().unwrap_or_default(),
            tool_aliases: body.tool_aliases.clone().unwrap_or_default(),
            plan_mode_instructions: body.plan_mode_instructions.clone(),
            is_done: true,
        }
    }

    /// Returns the name of the tool that `name` stands for; a name without an alias stands for itself. Aliases are
    /// resolved once, so that they cannot form a cycle.
    pub fn tool<'a>(&'a self, name: &'a str) -> &'a str {
        self.tool_aliases.get(name).map_or(name, String::as_str)
    }

    /// Returns the MCP servers that the host offers, for `system/init`. They are listed as failed, because they
    /// cannot be used yet.
    pub fn mcp_servers(&self) -> Vec<McpServerInfo> {
        let server = |name: &String| McpServerInfo {
            name: name.clone(),
            status: "failed".to_owned(),
            source: Some("sdk".to_owned()),
            ..McpServerInfo::default()
        };
        self.sdk_mcp_servers.iter().map(server).collect()
    }

    /// Returns the MCP servers that the host offers, as the rows of `mcp_status`. They are listed as failed, because
    /// they cannot be used yet.
    pub fn mcp_status(&self) -> Vec<Value> {
        let row = |name: &String| {
            json!({
                "name": name, "status": "failed", "error": NO_MCP, "transport": "sdk", "scope": "dynamic",
                "source": "sdk", "tools": [],
            })
        };
        self.sdk_mcp_servers.iter().map(row).collect()
    }
}

/// Returns a text that names the parts of an introduction that have no effect here; `None` if it has no such parts.
pub(crate) fn without_effect(body: &InitializeRequest) -> Option<String> {
    let given = [
        ("sdkMcpServers", body.sdk_mcp_servers.as_ref().is_some_and(|list| !list.is_empty())),
        ("agents", body.agents.as_ref().is_some_and(|map| !map.is_empty())),
        ("plugins", body.plugins.as_ref().is_some_and(|list| !list.is_empty())),
        ("skills", body.skills.as_ref().is_some_and(|list| !list.is_empty())),
    ];
    let names: Vec<&str> = given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "initialize: {} was taken note of and has no effect, lathe has no such thing yet",
            names.join(", ")
        )
    })
}
