//! How it was decided whether a call may run, as its result reports it to hosts and session files. The wire names are
//! in one table, [`CallDecision::meta`]; the decision itself is made in `permit.rs`.

use lathe_permissions::Reason;
use lathe_protocol::ToolResultMeta;
use lathe_protocol::message::PermissionDecisionMeta;

use crate::record::tool_call::ToolCall;

/// How it was decided whether a call may run. The string that some variants carry is the [`Reason::wire_type`] of the
/// reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallDecision {
    /// Allowed by the mode, or by a rule that came with the session.
    AllowedByConfig(Option<&'static str>),
    /// Allowed by a rule that the user has put into a settings file.
    AllowedForGood(Option<&'static str>),
    /// Allowed by a hook, where a question would have been asked otherwise.
    AllowedByHook(Option<&'static str>),
    /// Allowed by the host.
    AllowedByHost(HostGrant),
    /// Denied by a rule or the mode.
    DeniedByConfig(Option<&'static str>),
    /// Denied by a hook.
    DeniedByHook,
    /// Denied by the host.
    DeniedByHost,
    /// Denied because the call needs a yes and no host can be asked. Reported as a refusal by the user.
    NobodyToAsk,
    /// Denied because the question was not settled: no reply, or one that cannot be understood.
    Unsettled,
    /// Refused like invalid input, because the call makes no sense.
    Unusable(Option<&'static str>),
    /// Cancelled before it was decided, or while it ran.
    Interrupted,
}

/// How long a grant of the host lasts.
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
    /// Returns the value of `non_execution_kind`, which says why the call did not run. Hosts compare it, so it must not
    /// change.
    fn wire_name(self) -> &'static str {
        match self {
            Self::UserRejected => "user-rejected",
            Self::PermissionRule => "permission-rule",
        }
    }
}

/// A decision with its source.
#[derive(Clone, Copy)]
enum Verdict {
    Accept(&'static str),
    Reject(&'static str),
}

/// The reason type of every decision that a hook makes.
const BY_HOOK: Option<&str> = Some("hook");

impl CallDecision {
    /// A hook was asked and allows the call.
    pub const HOOK_ALLOWS: Self = Self::AllowedByHook(BY_HOOK);

    /// Returns the decision for a call that a rule or the mode denies without a question, with the wire type of the
    /// reason if it has one.
    pub fn denied(reason: &Reason) -> Self {
        Self::DeniedByConfig(reason.wire_type())
    }

    /// Returns the metadata that goes with the result of the call: the decision, who made it, and why the call did not
    /// run, if it was not permitted. An interrupted call has no decision. Hosts compare these values with the
    /// reference, so they must not change.
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
            // Nothing was decided, so nothing is reported as the decision.
            Self::Interrupted => (Some(UserRejected), None, None),
        };
        ToolResultMeta {
            id: call.id.clone(),
            non_execution_kind: kind.map(|kind| kind.wire_name().to_owned()),
            permission_decision: verdict.map(|verdict| verdict.wire_form(reason_type)),
            ..ToolResultMeta::default()
        }
    }
}

impl Verdict {
    /// Returns the verdict in the form of the wire: `accept` or `reject`, its source, and the type of the reason if
    /// there is one.
    fn wire_form(self, reason_type: Option<&str>) -> PermissionDecisionMeta {
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
