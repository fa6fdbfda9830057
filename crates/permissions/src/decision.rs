//! What comes out of the engine: allow, ask or deny, each with the reason, the deciding rule and the texts.
//!
//! Nothing is asked here. [`Decision::Ask`] is a question that hooks or a host may answer;
//! [`resolve_without_host`] is the answer when there is neither. A decision carries two texts: `reason` is for
//! people and programs that show why, `message` is what the model reads when the call does not run.

use std::path::PathBuf;

use lathe_protocol::permission::{PermissionMode, PermissionUpdate};

use crate::message;
use crate::rule::MatchedRule;

/// The verdict on one call.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// The call may run.
    Allow(Allowed),
    /// A hook, host or person has to be asked.
    Ask(AskedDecision),
    /// The call must not run, and no answer can change that.
    Deny(Denied),
}

/// A call that may run.
#[derive(Debug, Clone, PartialEq)]
pub struct Allowed {
    /// What allowed it.
    pub reason: Reason,
    /// Whether anybody vouches for it.
    pub basis: AllowBasis,
}

/// What stands behind a call that may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowBasis {
    /// A rule, a mode in which everything runs, a hook or an answer; or what the tool is.
    Granted,
    /// Only the text of a shell command: every part of it is known to change nothing, or to be one of the edits that
    /// the mode accepts. It has to run where no environment variable gives the text another meaning.
    OnlyItsText,
}

impl Allowed {
    /// Returns an allowance whose basis is more than the text of a shell command: a rule, a mode, a hook, a reply or
    /// what the tool is.
    pub fn granted(reason: Reason) -> Self {
        Self { reason, basis: AllowBasis::Granted }
    }
}

/// A call that needs a consent.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedDecision {
    /// The tool that was called.
    pub tool: String,
    /// What made it a question.
    pub reason: Reason,
    /// What the model reads when consent is not given.
    pub message: String,
    /// Updates that would make this question unnecessary next time.
    pub suggestions: Vec<PermissionUpdate>,
    /// The path that caused the question.
    pub blocked_path: Option<PathBuf>,
    /// Whether the call *is* a question to a person: a hook or a rule cannot answer in their place.
    pub requires_user_interaction: bool,
    /// Whether a `PreToolUse` hook may answer: not for a removal that only a person may allow.
    pub hook_may_allow: bool,
}

/// A call that must not run.
#[derive(Debug, Clone, PartialEq)]
pub struct Denied {
    /// What denied it.
    pub reason: Reason,
    /// What the model reads.
    pub message: String,
    /// How the message is shown to the model.
    pub shown_as: ShownAs,
    /// Whether this was a question that could not be asked.
    pub was_question: bool,
}

/// How a denial reaches the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownAs {
    /// As a permission denial: reported to the host and listed in the result.
    Denial,
    /// As input that makes no sense: wrapped in `<tool_use_error>` and not listed, as the reference does for
    /// files that a `Read` rule denies.
    ToolUseError,
}

/// Why a decision is what it is.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// Nothing in particular: the tool's own default.
    Default,
    /// A rule.
    Rule(MatchedRule),
    /// The permission mode.
    Mode(PermissionMode),
    /// One of several shell commands decided for all of them.
    Subcommand {
        /// The sub-command that decided.
        command: String,
        /// The rule it matched.
        rule: MatchedRule,
    },
    /// Every part of a shell command may run, each for its own reason; the first rule among them.
    Parts(Option<MatchedRule>),
    /// A path lies outside the working directories.
    WorkingDir(String),
    /// A check that no allow rule lifts.
    SafetyCheck(String),
    /// A hook; never made here, but part of the vocabulary of those who resolve questions.
    Hook(String),
    /// The tool that answers permission questions; made by those who resolve them.
    PermissionPromptTool(String),
    /// A background agent that cannot ask; made by the code that resolves questions.
    AsyncAgent(String),
    /// A call that wants out of the sandbox; made by those who run it.
    SandboxOverride(String),
    /// A model judged it; made by those who resolve questions.
    Classifier(String),
    /// Anything else, in words.
    Other(String),
}

impl Reason {
    /// Returns `decision_reason_type` on the wire; `None` for the tool's own default, which has no reason.
    pub fn wire_type(&self) -> Option<&'static str> {
        match self {
            Self::Default => None,
            Self::Rule(_) => Some("rule"),
            Self::Mode(_) => Some("mode"),
            Self::Subcommand { .. } | Self::Parts(_) => Some("subcommandResults"),
            Self::WorkingDir(_) => Some("workingDir"),
            Self::SafetyCheck(_) => Some("safetyCheck"),
            Self::Hook(_) => Some("hook"),
            Self::PermissionPromptTool(_) => Some("permissionPromptTool"),
            Self::AsyncAgent(_) => Some("asyncAgent"),
            Self::SandboxOverride(_) => Some("sandboxOverride"),
            Self::Classifier(_) => Some("classifier"),
            Self::Other(_) => Some("other"),
        }
    }

    /// Returns `decision_reason` on the wire, a sentence for people. `None` for the tool's own default, rules, modes
    /// and shell commands decided by their parts, which need no sentence besides the type.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::WorkingDir(text)
            | Self::SafetyCheck(text)
            | Self::Hook(text)
            | Self::PermissionPromptTool(text)
            | Self::AsyncAgent(text)
            | Self::SandboxOverride(text)
            | Self::Classifier(text)
            | Self::Other(text) => Some(text.clone()),
            Self::Default | Self::Rule(_) | Self::Mode(_) | Self::Subcommand { .. } | Self::Parts(_) => None,
        }
    }

    /// Returns the rule that decided. `None` if something else decided, or if no part of an allowed shell command
    /// needed a rule.
    pub fn rule(&self) -> Option<&MatchedRule> {
        match self {
            Self::Rule(rule) | Self::Subcommand { rule, .. } => Some(rule),
            Self::Parts(rule) => rule.as_ref(),
            Self::Default
            | Self::Mode(_)
            | Self::WorkingDir(_)
            | Self::SafetyCheck(_)
            | Self::Hook(_)
            | Self::PermissionPromptTool(_)
            | Self::AsyncAgent(_)
            | Self::SandboxOverride(_)
            | Self::Classifier(_)
            | Self::Other(_) => None,
        }
    }
}

/// What a `PreToolUse` hook said about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookVerdict {
    /// Run it.
    Allow,
    /// Ask about it.
    Ask,
}

impl Decision {
    /// Returns why the call is allowed, asked about or denied.
    pub fn reason(&self) -> &Reason {
        match self {
            Self::Allow(allowed) => &allowed.reason,
            Self::Ask(asked) => &asked.reason,
            Self::Deny(denied) => &denied.reason,
        }
    }

    /// Returns the decision after a hook has said allow or ask. Allow grants an allowed call and answers a question,
    /// unless a rule asks, a person must answer or hooks are excluded; ask turns an allowed call of `tool` into a
    /// question; a denial stays. A hook that denies ends the call before the engine is asked.
    pub fn after_hook(self, verdict: HookVerdict, tool: &str) -> Self {
        match (self, verdict) {
            (Self::Ask(asked), HookVerdict::Allow)
                if asked.hook_may_allow
                    && asked.reason.rule().is_none()
                    && !asked.requires_user_interaction =>
            {
                Self::Allow(Allowed::granted(Reason::Hook("a hook allowed it".to_owned())))
            }
            (Self::Allow(allowed), HookVerdict::Allow) => Self::Allow(Allowed::granted(allowed.reason)),
            (Self::Allow(_), HookVerdict::Ask) => Self::Ask(AskedDecision {
                tool: tool.to_owned(),
                reason: Reason::Hook(message::HOOK_ASKED.to_owned()),
                message: message::HOOK_ASKED.to_owned(),
                suggestions: Vec::new(),
                blocked_path: None,
                requires_user_interaction: false,
                hook_may_allow: true,
            }),
            (decision, HookVerdict::Allow | HookVerdict::Ask) => decision,
        }
    }
}

/// Returns the denial that replaces a question in a session that was started with `--permission-prompts none`. It does
/// not keep the reason and message of the question.
pub fn resolve_without_surface(asked: &AskedDecision) -> Denied {
    Denied {
        reason: Reason::AsyncAgent(message::NO_SURFACE.to_owned()),
        message: message::no_surface(&asked.tool),
        shown_as: ShownAs::Denial,
        was_question: false,
    }
}

/// Returns the denial that replaces a question without a host, or in `dontAsk` mode. In that mode the mode is the
/// reason; otherwise the denial keeps the reason and message of the question and says that it was one.
pub fn resolve_without_host(asked: &AskedDecision, mode: PermissionMode) -> Denied {
    let (reason, message) = if mode == PermissionMode::DontAsk {
        (Reason::Mode(mode), message::dont_ask(&asked.tool))
    } else {
        (asked.reason.clone(), asked.message.clone())
    };
    let was_question = mode != PermissionMode::DontAsk;
    Denied { reason, message, shown_as: ShownAs::Denial, was_question }
}
