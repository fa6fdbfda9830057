//! Settings files as types: the keys that matter to a headless session, and all others kept in `extra`.
//!
//! Only shapes: finding files, merging layers and telling a user about a wrong key is done where they are
//! read. Keys whose value several versions write differently stay JSON values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

mod source;

pub use source::{EnabledHooks, SettingsSource};

use crate::Extra;
use crate::wire::{nullable, number};

/// Hooks by event name.
pub type HooksSettings = BTreeMap<String, Vec<HookMatcher>>;

impl Settings {
    /// The keys that have a field of their own, for telling a user what was probably meant.
    pub const KEYS: &'static [&'static str] = &[
        "model",
        "availableModels",
        "fallbackModel",
        "modelOverrides",
        "effortLevel",
        "alwaysThinkingEnabled",
        "outputStyle",
        "language",
        "env",
        "toolEnv",
        "apiKeyHelper",
        "awsAuthRefresh",
        "otelHeadersHelper",
        "permissions",
        "disableAutoMode",
        "autoMode",
        "hooks",
        "disableAllHooks",
        "allowManagedHooksOnly",
        "allowManagedPermissionRulesOnly",
        "allowedHttpHookUrls",
        "httpHookAllowedEnvVars",
        "sandbox",
        "enableAllProjectMcpServers",
        "enabledMcpjsonServers",
        "disabledMcpjsonServers",
        "allowedMcpServers",
        "deniedMcpServers",
        "allowManagedMcpServersOnly",
        "enabledPlugins",
        "extraKnownMarketplaces",
        "strictKnownMarketplaces",
        "blockedMarketplaces",
        "pluginConfigs",
        "disableBundledSkills",
        "disableSkillShellExecution",
        "skillOverrides",
        "agent",
        "autoCompactEnabled",
        "autoCompactWindow",
        "autoMemoryEnabled",
        "autoMemoryDirectory",
        "claudeMd",
        "claudeMdExcludes",
        "cleanupPeriodDays",
        "plansDirectory",
        "fileCheckpointingEnabled",
        "attribution",
        "includeCoAuthoredBy",
        "includeGitInstructions",
        "askUserQuestionTimeout",
        "dialogExpiry",
        "crossSessionInbound",
        "disableWorkflows",
        "worktree",
        "requiredMinimumVersion",
        "requiredMaximumVersion",
        "forceLoginMethod",
        "forceLoginOrgUUID",
        "modelPricing",
        "parentSettingsBehavior",
    ];
}

/// One settings file, whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_models: Option<Vec<String>>,
    /// A name, or a list of names in order.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub fallback_model: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_overrides: Option<BTreeMap<String, Value>>,
    /// `low`, `medium`, `high`, `xhigh` or `max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort_level: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub always_thinking_enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_style: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Environment for the session and its children.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Names of credentials that commands of tools and hooks of projects find in their environment all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_env: Option<Vec<String>>,
    /// A command that prints an API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_helper: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws_auth_refresh: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otel_headers_helper: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<PermissionSettings>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub disable_auto_mode: Option<Value>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub auto_mode: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks: Option<HooksSettings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_all_hooks: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_managed_hooks_only: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_managed_permission_rules_only: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_http_hook_urls: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_hook_allowed_env_vars: Option<Vec<String>>,
    /// Read by the sandbox crate.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_all_project_mcp_servers: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled_mcpjson_servers: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_mcpjson_servers: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_mcp_servers: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied_mcp_servers: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_managed_mcp_servers_only: Option<bool>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub enabled_plugins: Option<Value>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub extra_known_marketplaces: Option<Value>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub strict_known_marketplaces: Option<Value>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub blocked_marketplaces: Option<Value>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub plugin_configs: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_bundled_skills: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_skill_shell_execution: Option<bool>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub skill_overrides: Option<Value>,
    /// The agent that runs the main conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_compact_enabled: Option<bool>,
    /// Tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_compact_window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_memory_enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_memory_directory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claude_md: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claude_md_excludes: Option<Vec<String>>,
    /// Days after which transcripts are deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleanup_period_days: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plans_directory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_checkpointing_enabled: Option<bool>,
    /// `{commit, pr, sessionUrl}`.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub attribution: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_co_authored_by: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_git_instructions: Option<bool>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub ask_user_question_timeout: Option<Value>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub dialog_expiry: Option<Value>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub cross_session_inbound: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_workflows: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeSettings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_minimum_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_maximum_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_login_method: Option<String>,
    #[serde(
        rename = "forceLoginOrgUUID",
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Option::is_none"
    )]
    pub force_login_org_uuid: Option<Value>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub model_pricing: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_settings_behavior: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// How worktrees are made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorktreeSettings {
    /// Directories of the checkout that a worktree links to, for example `node_modules`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symlink_directories: Option<Vec<String>>,
    /// The directories that are checked out; all if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sparse_paths: Option<Vec<String>>,
    /// What a new branch begins with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_ref: Option<WorktreeBase>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The commit that a new worktree begins with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WorktreeBase {
    /// The default branch of `origin`, as it was last fetched.
    #[default]
    Fresh,
    /// What is checked out.
    Head,
}

/// Rules and modes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_directories: Option<Vec<String>>,
    /// A [`PermissionMode`](crate::PermissionMode).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<String>,
    /// `disable` forbids the mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_bypass_permissions_mode: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Handlers for the events whose subject matches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HookMatcher {
    /// Absent, empty and `*` match everything; else names or a regular expression.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub matcher: Option<Option<String>>,
    pub hooks: Vec<HookHandler>,
    #[serde(flatten)]
    pub extra: Extra,
}
open_enum! {
    /// What runs when a hook fires.
    pub enum HookHandler by "type" {
        Command(CommandHook) = "command",
        Http(HttpHook) = "http",
        McpTool(McpToolHook) = "mcp_tool",
        Prompt(PromptHook) = "prompt",
        Agent(AgentHook) = "agent",
    }
}

/// What every kind of handler may carry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookCommon {
    /// One permission rule, e.g. `Bash(git *)`; the handler runs only for calls it matches.
    #[serde(rename = "if", skip_serializing_if = "Option::is_none")]
    pub if_: Option<String>,
    /// Seconds.
    #[serde(default, with = "number::option", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// Skills only: run once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub once: Option<bool>,
}
/// A shell command.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandHook {
    /// Run through a shell, unless `args` is there.
    pub command: String,
    /// Run `command` itself with these arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    #[serde(rename = "async", skip_serializing_if = "Option::is_none")]
    pub async_: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub async_rewake: Option<bool>,
    /// `bash` or `powershell`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    #[serde(flatten)]
    pub common: HookCommon,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A POST to an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpHook {
    pub url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_env_vars: Option<Vec<String>>,
    #[serde(flatten)]
    pub common: HookCommon,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A call of an MCP tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct McpToolHook {
    pub server: String,
    pub tool: String,
    /// May hold `${path}` templates.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    #[serde(flatten)]
    pub common: HookCommon,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A question to a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptHook {
    pub prompt: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continue_on_block: Option<bool>,
    #[serde(flatten)]
    pub common: HookCommon,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A question to an agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentHook {
    pub prompt: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(flatten)]
    pub common: HookCommon,
    #[serde(flatten)]
    pub extra: Extra,
}
