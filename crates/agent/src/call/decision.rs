//! How it was decided whether a call may run, as its result tells hosts and session files. The names that stand for it
//! on the wire are in the one table of [`CallDecision::meta`]; who decides, and how, is in `permit.rs`.

use lathe_permissions::Reason;
use lathe_protocol::ToolResultMeta;
use lathe_protocol::message::PermissionDecisionMeta;

use crate::record::tool_call::ToolCall;

/// How it was decided whether a call may run. The type of a reason is that of [`Reason::wire_type`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallDecision {
    /// It may, by the mode or by a rule that came with the session.
    AllowedByConfig(Option<&'static str>),
    /// It may, by a rule that the user has put into a settings file.
    AllowedForGood(Option<&'static str>),
    /// It may, because a hook says so where it would have been asked.
    AllowedByHook(Option<&'static str>),
    /// It may, because the host says so.
    AllowedByHost(HostGrant),
    /// It may not, by a rule or the mode.
    DeniedByConfig(Option<&'static str>),
    /// It may not, because a hook says so.
    DeniedByHook,
    /// It may not, because the host says so.
    DeniedByHost,
    /// It may not, because somebody had to be asked and there is nobody: a no of the user.
    NobodyToAsk,
    /// It may not, because the question came to nothing: no answer, or one that cannot be understood.
    Unsettled,
    /// It makes no sense and is refused like wrong input.
    Unusable(Option<&'static str>),
    /// It was broken off before it was decided, or while it ran.
    Interrupted,
}

/// How long a host's yes holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostGrant {
    Once,
    ForGood,
}

/// Why a call did not run.
#[derive(Clone, Copy)]
enum NonExecution {
    UserRejected,
    PermissionRule,
}

impl NonExecution {
    fn wire_name(self) -> &'static str {
        match self {
            Self::UserRejected => "user-rejected",
            Self::PermissionRule => "permission-rule",
        }
    }
}

/// What was decided, by whom.
#[derive(Clone, Copy)]
enum Verdict {
    Accept(&'static str),
    Reject(&'static str),
}

/// What hooks decide has no other reason.
const BY_HOOK: Option<&str> = Some("hook");

impl CallDecision {
    /// A hook has been asked and allows the call.
    pub const HOOK_ALLOWS: Self = Self::AllowedByHook(BY_HOOK);

    /// A decision that nobody was asked for.
    pub fn denied(reason: &Reason) -> Self {
        Self::DeniedByConfig(reason.wire_type())
    }

    /// The decision as the result of the call tells it.
    pub fn meta(self, call: &ToolCall) -> ToolResultMeta {
        use NonExecution::{PermissionRule, UserRejected};
        use Verdict::{Accept, Reject};
        let (kind, verdict, reason_type) = match self {
            Self::AllowedByConfig(reason) => (None, Some(Accept("config")), reason),
            Self::AllowedForGood(reason) => (None, Some(Accept("user_permanent")), reason),
            Self::AllowedByHook(reason) => (None, Some(Accept("hook")), reason),
            Self::AllowedByHost(HostGrant::Once) => (None, Some(Accept("user_temporary")), None),
            Self::AllowedByHost(HostGrant::ForGood) => (None, Some(Accept("user_permanent")), None),
            Self::DeniedByConfig(reason) => (Some(PermissionRule), Some(Reject("config")), reason),
            Self::DeniedByHook => (Some(PermissionRule), Some(Reject("hook")), BY_HOOK),
            Self::DeniedByHost => (Some(PermissionRule), Some(Reject("user_reject")), None),
            Self::NobodyToAsk => (Some(UserRejected), Some(Reject("config")), None),
            Self::Unsettled => (Some(PermissionRule), Some(Reject("config")), Some("other")),
            Self::Unusable(reason) => (None, Some(Reject("config")), reason),
            Self::Interrupted => (Some(UserRejected), None, None),
        };
        ToolResultMeta {
            id: call.id.clone(),
            non_execution_kind: kind.map(|kind| kind.wire_name().to_owned()),
            permission_decision: verdict.map(|verdict| verdict.told(reason_type)),
            ..ToolResultMeta::default()
        }
    }
}

impl Verdict {
    fn told(self, reason_type: Option<&str>) -> PermissionDecisionMeta {
        let (decision, source) = match self {
            Self::Accept(source) => ("accept", source),
            Self::Reject(source) => ("reject", source),
        };
        PermissionDecisionMeta {
            decision: decision.to_owned(),
            source: source.to_owned(),
            reason_type: reason_type.map(str::to_owned),
            ..PermissionDecisionMeta::default()
        }
    }
}
