//! The names that settings files may use beyond those with a field in `lathe_protocol::Settings`.
//!
//! The lists only serve messages: a name that is in none of them is still kept and passed on.

use lathe_protocol::Settings;

/// Keys that compatible programs know and that mean nothing here: no reason to warn.
const ELSEWHERE: &[&str] = &[
    "$schema",
    "allowedChannelPlugins",
    "autoInstallIdeExtension",
    "autoUpdates",
    "autoUpdatesChannel",
    "awsCredentialExport",
    "channelsEnabled",
    "companyAnnouncements",
    "defaultShell",
    "disableDeepLinkRegistration",
    "editorMode",
    "fastMode",
    "fastModePerSessionOptIn",
    "feedbackSurveyRate",
    "fileSuggestion",
    "gcpAuthRefresh",
    "minimumVersion",
    "pluginTrustMessage",
    "preferredNotifChannel",
    "prefersReducedMotion",
    "prUrlTemplate",
    "remote",
    "respectGitignore",
    "showClearContextOnPlanAccept",
    "showThinkingSummaries",
    "showTurnDuration",
    "skipDangerousModePermissionPrompt",
    "skipWebFetchPreflight",
    "spinnerTipsEnabled",
    "spinnerTipsOverride",
    "spinnerVerbs",
    "sshConfigs",
    "statusLine",
    "subagentStatusLine",
    "syntaxHighlightingDisabled",
    "teammateMode",
    "terminalProgressBarEnabled",
    "theme",
    "tui",
    "useAutoModeDuringPlan",
    "verbose",
    "viewMode",
    "voiceEnabled",
];

/// Keys of `permissions`.
pub(crate) const PERMISSIONS: &[&str] = &[
    "allow",
    "ask",
    "deny",
    "additionalDirectories",
    "defaultMode",
    "disableBypassPermissionsMode",
    "disableAutoMode",
];

/// Words that people write for `deny` in `permissions` and that are too far from it to look like a slip.
pub(crate) const OTHER_WORDS_FOR_DENY: &[&str] =
    &["block", "blocked", "denied", "disallow", "disallowed", "disallowedTools", "forbid", "forbidden"];

/// Keys that count in managed settings only.
pub(crate) const POLICY_ONLY: &[&str] = &[
    "allowManagedHooksOnly",
    "allowManagedMcpServersOnly",
    "allowManagedPermissionRulesOnly",
    "blockedMarketplaces",
    "claudeMd",
    "modelPricing",
    "parentSettingsBehavior",
    "requiredMaximumVersion",
    "requiredMinimumVersion",
    "strictKnownMarketplaces",
];

/// Keys that a client may write while a session runs: what a person would change in a menu. Nothing that
/// runs a program, sends something somewhere or widens what a session may do.
pub(crate) const CLIENT_MAY_WRITE: &[&str] = &[
    "alwaysThinkingEnabled",
    "autoCompactEnabled",
    "autoMemoryEnabled",
    "effortLevel",
    "fastMode",
    "includeCoAuthoredBy",
    "includeGitInstructions",
    "language",
    "model",
    "outputStyle",
    "prefersReducedMotion",
    "showThinkingSummaries",
    "spinnerTipsEnabled",
    "theme",
    "verbose",
    "viewMode",
];

/// Every top-level key that needs no warning.
pub(crate) fn top_level() -> impl Iterator<Item = &'static str> {
    Settings::KEYS.iter().chain(ELSEWHERE).copied()
}
