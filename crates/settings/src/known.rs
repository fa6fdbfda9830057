//! The names that settings files may use, beyond the fields of `lathe_protocol::Settings`, and lists of keys with a
//! special rule.
//!
//! A key that is in none of the lists causes a warning, but is still kept and passed on.

use lathe_protocol::Settings;

/// Keys of compatible programs that have no effect here. They cause no warning.
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

/// The keys inside `permissions`.
pub(crate) const PERMISSIONS: &[&str] = &[
    "allow",
    "ask",
    "deny",
    "additionalDirectories",
    "defaultMode",
    "disableBypassPermissionsMode",
    "disableAutoMode",
];

/// Words that people write for `deny` in `permissions` and that differ too much from it to be found as a typo.
pub(crate) const OTHER_WORDS_FOR_DENY: &[&str] =
    &["block", "blocked", "denied", "disallow", "disallowed", "disallowedTools", "forbid", "forbidden"];

/// Keys that have an effect in managed settings only.
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

/// Keys that a client may write while a session runs: preferences that a person would change in a menu. Keys that run
/// a program, send data somewhere or widen what a session may do are not among them.
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

/// Returns every top-level key that causes no warning: those with an effect here, and those of compatible programs
/// without one.
pub(crate) fn top_level() -> impl Iterator<Item = &'static str> {
    Settings::KEYS.iter().chain(ELSEWHERE).copied()
}
