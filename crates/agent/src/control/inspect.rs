//! Requests that only read: settings, cost, files.

use std::path::Path;
use std::sync::Arc;

use lathe_permissions::{Decision, PermissionQuestion};
use lathe_protocol::CallSubject;
use lathe_protocol::control::{GetSettingsResponse, McpSetServersRequest, ReadFileRequest, ReadFileResponse};
use lathe_tools::Read;
use serde_json::{Value, json};

use super::Reply;
use crate::state::agent::AgentHandle;
use crate::state::introduction::NO_MCP;

/// The largest number of bytes that a host may read at once.
const MAX_READ_BYTES: u64 = 16 * 1024 * 1024;

/// The largest number of files that are suggested for a part of a name.
const MAX_SUGGESTIONS: usize = 20;

/// Folder entries after which the search for them ends, because it runs on the event loop.
const MAX_LOOKED_AT: usize = 5000;

/// Replies to `get_settings`: what each source sets, the settings that result, and the model and effort in force.
pub(super) fn settings(agent: &Arc<AgentHandle>) -> Reply {
    let choice = agent.choice();
    let applied = json!({"model": choice.id, "effort": choice.effort});
    let listing = GetSettingsResponse { applied: Some(applied), ..agent.session.settings.listing() };
    Reply::Success(json!(listing))
}

/// Replies to `get_session_cost` with [`cost_text`].
pub(super) fn cost(agent: &Arc<AgentHandle>) -> Reply {
    Reply::Success(json!({"text": cost_text(agent)}))
}

/// Returns the cost of the session as text for people, for `/usage` and hosts: the total over all its runs, then a line
/// for each model.
pub(crate) fn cost_text(agent: &Arc<AgentHandle>) -> String {
    let totals = agent.session.totals();
    let mut text = format!("Total cost: ${:.4}", totals.cost_usd());
    for (model, usage) in totals.model_usage() {
        text.push_str(&format!(
            "\n{model}: {} input, {} output, {} cache read, {} cache write (${:.4})",
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_input_tokens,
            usage.cache_creation_input_tokens,
            usage.cost_usd
        ));
    }
    text
}

/// Replies to `get_usage`: what the session used and cost, for programs. Limits of a subscription are not known.
pub(super) fn usage(agent: &Arc<AgentHandle>) -> Reply {
    let totals = agent.session.totals();
    let lines = totals.changed_lines();
    Reply::Success(json!({
        "session": {
            "total_cost_usd": totals.cost_usd(),
            "total_api_duration_ms": totals.api_ms(),
            "total_duration_ms": agent.session.process.host.now_ms().saturating_sub(agent.session.started_ms),
            "total_lines_added": lines.added,
            "total_lines_removed": lines.removed,
            "model_usage": totals.model_usage(),
        },
        "subscription_type": null,
        "rate_limits_available": false,
        "rate_limits": null,
        "behaviors": null,
    }))
}

/// Replies to `get_binary_version`: the version of the reference that this program stands for, and its own.
pub(super) fn version(agent: &Arc<AgentHandle>) -> Reply {
    Reply::Success(json!({
        "version": agent.session.init.claude_code_version,
        "buildTime": null,
        "lathe_version": agent.session.init.lathe_version,
    }))
}

/// Returns files and folders below the working folder whose relative path contains the query, in any case: at most
/// [`MAX_SUGGESTIONS`], short paths first. Hidden ones are left out, and the search ends after the folder with which
/// [`MAX_LOOKED_AT`] entries are exceeded.
pub(super) fn file_suggestions(agent: &Arc<AgentHandle>, query: &str) -> Reply {
    let cwd = agent.workspace.cwd();
    let query = query.to_lowercase();
    let mut found = Vec::new();
    let mut folders = vec![cwd.clone()];
    let mut looked_at = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            looked_at += 1;
            let name = entry.file_name();
            // Hidden folders are left out: `.git` alone could use up the limit.
            let hidden = name.to_string_lossy().starts_with('.');
            let path = entry.path();
            let Ok(relative) = path.strip_prefix(&cwd) else { continue };
            let shown = relative.display().to_string();
            if !hidden && shown.to_lowercase().contains(&query) {
                found.push(shown);
            }
            if !hidden && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            }
        }
        // Checked between folders: one that was begun is read to its end.
        if looked_at > MAX_LOOKED_AT {
            break;
        }
    }
    // A short path is more likely to be meant.
    found.sort_by_key(|path| (path.len(), path.clone()));
    found.truncate(MAX_SUGGESTIONS);
    let suggestions: Vec<Value> = found.into_iter().map(|path| json!({"path": path})).collect();
    Reply::Success(json!({"suggestions": suggestions, "cwd": cwd.display().to_string()}))
}

/// Returns the text of a file that the session itself could read without a question; any other file is refused. No more
/// than [`MAX_READ_BYTES`], or the smaller number that the request names, are read; `truncated` says that the file is
/// longer.
pub(super) fn read_file(agent: &Arc<AgentHandle>, body: &ReadFileRequest) -> Reply {
    let cwd = agent.workspace.cwd();
    let path = cwd.join(&body.path);
    let abs_path = path.display().to_string();
    let input = json!({"file_path": abs_path});
    let view = agent.view();
    let judged = {
        let rules = agent.session.permissions();
        let call = rules.describe(CallSubject::read(Some(&abs_path)));
        rules.judge(&PermissionQuestion {
            tool: Read::NAME,
            input: &input,
            call: &call,
            cwd: &cwd,
            scope: &view.scope,
        })
    };
    let (Decision::Allow(_), Some(place)) = (judged.decision, judged.place) else {
        return Reply::Error(format!("read denied: {}", body.path));
    };
    let limit = body.max_bytes.map_or(MAX_READ_BYTES, |bytes| bytes.min(MAX_READ_BYTES));
    match read_bounded(&place, limit) {
        Ok((contents, truncated)) => {
            let truncated = truncated.then_some(true);
            Reply::Success(json!(ReadFileResponse {
                contents,
                abs_path,
                truncated,
                ..ReadFileResponse::default()
            }))
        }
        Err(error) => Reply::Error(format!("cannot read {}: {error}", body.path)),
    }
}

/// Reads at most `limit` bytes of a file as text. The flag says whether the file is longer; bytes that are not UTF-8
/// are replaced.
fn read_bounded(path: &Path, limit: u64) -> std::io::Result<(String, bool)> {
    use std::io::Read;
    let mut bytes = Vec::new();
    // One byte beyond the limit shows whether there is more.
    lathe_tools::open_file(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    let truncated = bytes.len() as u64 > limit;
    bytes.truncate(limit as usize);
    Ok((String::from_utf8_lossy(&bytes).into_owned(), truncated))
}

/// Refuses to add MCP servers, which do not exist yet; the reply says so for each.
pub(super) fn mcp_set_servers(body: &McpSetServersRequest) -> Reply {
    let errors: serde_json::Map<String, Value> =
        body.servers.keys().map(|name| (name.clone(), json!(NO_MCP))).collect();
    Reply::Success(json!({"added": [], "removed": [], "errors": errors}))
}

/// Returns the error for a call of an MCP tool. It names the server, which does not exist; a name without the prefix
/// `mcp__` is quoted whole.
pub(super) fn mcp_call(tool: &str) -> Reply {
    let server = tool.strip_prefix("mcp__").and_then(|rest| rest.split("__").next()).unwrap_or(tool);
    Reply::Error(format!("MCP server not connected: {server}"))
}

/// Returns an error for every folder: only those of the session can be registered, and there is nothing to reload in
/// them yet.
pub(super) fn register_repo_root(directory: &str) -> Reply {
    Reply::Error(format!("{directory} is not below a folder of this session"))
}
