//! Decisions about calls that are neither about files nor about shells: the web, agents, skills, MCP, questions, the
//! session itself, and calls without a known subject.

use lathe_protocol::permission::{PermissionMode, PermissionUpdateDestination};
use lathe_protocol::{CallSubject, McpAccess};

use crate::decision::{Allowed, AskedDecision, Decision, Denied, Reason, ShownAs};
use crate::domain;
use crate::engine::PermissionEngine;
use crate::message;
use crate::question::PermissionQuestion;
use crate::suggest;

/// Decides about a call that is neither a shell command nor about a file: by deny rules for its specifier, ask rules,
/// checks that no rule lifts, the mode, allow rules, and last the default of its subject. Deny rules for the whole tool
/// and its inputs must have been checked before.
pub(crate) fn decide(engine: &PermissionEngine, question: &PermissionQuestion<'_>, tool: &str) -> Decision {
    let subject = question.call.subject();
    let named = RuleTarget::of(subject);
    if let Some(rule) = named.find(&engine.deny) {
        return denied(engine, tool, &named, rule);
    }
    let asks = engine.ask.tool(tool, question.mcp_server()).or_else(|| named.find(&engine.ask));
    let asks = asks.or_else(|| engine.ask.parameter(tool, question.input).map(|(_, rule)| rule));
    if let Some(rule) = asks {
        return Decision::Ask(AskedDecision {
            reason: Reason::Rule(engine.ask.matched(rule)),
            suggestions: Vec::new(),
            ..unanswered(tool, &named)
        });
    }
    if matches!(subject, CallSubject::Question(_)) {
        return Decision::Ask(AskedDecision {
            suggestions: Vec::new(),
            requires_user_interaction: true,
            ..unanswered(tool, &named)
        });
    }
    if matches!(named, RuleTarget::Host(None)) && !engine.deny.domains.is_empty() {
        let text = "The host of this address cannot be told, so the rules about hosts cannot be checked";
        return Decision::Ask(AskedDecision {
            reason: Reason::SafetyCheck(text.to_owned()),
            ..unanswered(tool, &named)
        });
    }
    if question.mode() == PermissionMode::BypassPermissions {
        return Decision::Allow(Allowed::granted(Reason::Mode(PermissionMode::BypassPermissions)));
    }
    if let Some(rule) = permitting(engine, question, tool, &named) {
        return Decision::Allow(Allowed::granted(Reason::Rule(engine.allow.matched(rule))));
    }
    by_default(question, unanswered(tool, &named))
}

/// Returns the decision for a call about which no rule and no mode says anything: calls that touch only the session are
/// allowed, and for all others `asked` is returned. It gets its own reason for an unknown subject, and in plan mode for
/// an MCP tool that may change something.
fn by_default(question: &PermissionQuestion<'_>, asked: AskedDecision) -> Decision {
    match question.call.subject() {
        // They touch nothing but the session: what an agent or a skill then does is asked about on its own.
        CallSubject::Agent { .. }
        | CallSubject::Skill { .. }
        | CallSubject::StructuredOutput
        | CallSubject::Session(_) => Decision::Allow(Allowed::granted(Reason::Default)),
        // Without the hint that it only reads, plan mode is the reason; with it, that no rule allows the tool.
        CallSubject::McpTool { access: McpAccess::MayChange, .. }
            if question.mode() == PermissionMode::Plan =>
        {
            Decision::Ask(AskedDecision { reason: Reason::Mode(PermissionMode::Plan), ..asked })
        }
        CallSubject::Unknown => Decision::Ask(AskedDecision {
            reason: Reason::SafetyCheck(message::UNKNOWN_SUBJECT.to_owned()),
            ..asked
        }),
        CallSubject::McpTool { .. }
        | CallSubject::Host { .. }
        | CallSubject::WebSearch { .. }
        | CallSubject::Question(_)
        | CallSubject::Shell { .. }
        | CallSubject::File { .. } => Decision::Ask(asked),
    }
}

/// What the specifier of a rule may name about a call.
enum RuleTarget<'a> {
    /// None: two readers could take the address for different hosts.
    Host(Option<String>),
    AgentType(&'a str),
    SkillName(&'a str),
    /// Rules can name the tool, and nothing more.
    WholeTool,
    /// No rule can know what it would permit.
    Nothing,
}

impl<'a> RuleTarget<'a> {
    /// Returns what a rule can name about a call: the host, the type of agent, the skill, or no more than the tool.
    /// Nothing for an unknown subject. Shell and file calls have rules of their own and are decided elsewhere.
    fn of(subject: &'a CallSubject) -> Self {
        match subject {
            CallSubject::Host { url } => Self::Host(domain::host(url)),
            CallSubject::Agent { agent_type } => Self::AgentType(agent_type),
            CallSubject::Skill { name } => Self::SkillName(name),
            CallSubject::WebSearch { .. }
            | CallSubject::McpTool { .. }
            | CallSubject::Question(_)
            | CallSubject::StructuredOutput
            | CallSubject::Session(_)
            | CallSubject::Shell { .. }
            | CallSubject::File { .. } => Self::WholeTool,
            CallSubject::Unknown => Self::Nothing,
        }
    }

    /// Returns the number of a rule of this set about the target. `None` if there is none, or if rules can name no more
    /// than the tool.
    fn find(&self, rules: &crate::ruleset::RuleSet) -> Option<usize> {
        match self {
            Self::Host(Some(host)) => rules.domains.find(host).map(|found| found.rule),
            Self::Host(None) | Self::WholeTool | Self::Nothing => None,
            Self::AgentType(agent_type) => rules.agent(agent_type),
            Self::SkillName(name) => rules.skill(name),
        }
    }
}

/// Returns the number of the allow rule that covers a call, or `None`. A host on this machine or its network must be
/// named in full, because permission for the web does not include it; a host that cannot be told is covered by no rule.
fn permitting(
    engine: &PermissionEngine,
    question: &PermissionQuestion<'_>,
    tool: &str,
    named: &RuleTarget<'_>,
) -> Option<usize> {
    let whole = engine.allow.tool(tool, question.mcp_server());
    match named {
        // Permission for the web does not include this machine and its neighbours.
        RuleTarget::Host(Some(host)) if domain::is_private(host) => {
            engine.allow.domains.find(host).filter(|found| found.exact).map(|found| found.rule)
        }
        RuleTarget::Host(Some(_)) => whole.or_else(|| named.find(&engine.allow)),
        // Two readers could take the address for different hosts: no rule knows which one is meant.
        RuleTarget::Host(None) => None,
        RuleTarget::AgentType(_) | RuleTarget::SkillName(_) => whole.or_else(|| named.find(&engine.allow)),
        RuleTarget::WholeTool => whole,
        RuleTarget::Nothing => None,
    }
}

/// Returns the denial by the deny rule with this number; for a type of agent the message names the rule and its source.
fn denied(engine: &PermissionEngine, tool: &str, named: &RuleTarget<'_>, rule: usize) -> Decision {
    let matched = engine.deny.matched(rule);
    let message = match named {
        RuleTarget::AgentType(kind) => {
            message::denied_agent(kind, &matched.rule.text, matched.source.as_str())
        }
        RuleTarget::Host(_) | RuleTarget::SkillName(_) | RuleTarget::WholeTool | RuleTarget::Nothing => {
            message::denied_tool(tool)
        }
    };
    Decision::Deny(Denied {
        reason: Reason::Rule(matched),
        message,
        shown_as: ShownAs::Denial,
        was_question: false,
    })
}

/// Returns the question about a call, with the narrowest allow rule that would settle it as the suggestion. A host that
/// cannot be told and an unknown subject get no suggestion.
fn unanswered(tool: &str, named: &RuleTarget<'_>) -> AskedDecision {
    let content = match named {
        RuleTarget::Host(Some(host)) => Some(format!("domain:{host}")),
        RuleTarget::Host(None) | RuleTarget::WholeTool | RuleTarget::Nothing => None,
        RuleTarget::AgentType(kind) => Some((*kind).to_owned()),
        RuleTarget::SkillName(name) => Some((*name).to_owned()),
    };
    let suggestions = if matches!(named, RuleTarget::Host(None) | RuleTarget::Nothing) {
        Vec::new()
    } else {
        vec![suggest::allow_rule(tool, content, PermissionUpdateDestination::LocalSettings)]
    };
    AskedDecision {
        tool: tool.to_owned(),
        reason: Reason::Default,
        message: message::tool_not_granted(tool),
        suggestions,
        blocked_path: None,
        requires_user_interaction: false,
        hook_may_allow: true,
    }
}
