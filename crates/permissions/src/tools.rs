//! Decisions about tools that are neither files nor shells: the web, agents, skills, MCP, questions.

use lathe_protocol::permission::{PermissionMode, PermissionUpdateDestination};
use serde_json::Value;

use crate::decision::{Allowed, Asked, Decision, Denied, Reason, ShownAs};
use crate::domain;
use crate::engine::{Call, Engine};
use crate::message;
use crate::suggest;

/// Tools that only touch the session itself, and run unasked.
const FREE: [&str; 28] = [
    "Agent",
    "CronCreate",
    "CronDelete",
    "CronList",
    "EnterPlanMode",
    "EnterWorktree",
    "ExitWorktree",
    "ListAgents",
    "ListMcpResourcesTool",
    "ReadMcpResourceTool",
    "ReadMcpResourceDirTool",
    "ReportFindings",
    "ScheduleWakeup",
    "SendMessage",
    "Skill",
    "StructuredOutput",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TodoRead",
    "TodoWrite",
    "ToolSearch",
    "BashOutput",
    "TeamCreate",
    "TeamDelete",
];

/// Tools that are a question to a person: nobody else can answer.
const INTERACTIVE: [&str; 2] = ["AskUserQuestion", "ExitPlanMode"];

/// Decides about a tool. Rules for the whole tool that deny have been looked at.
pub(crate) fn decide(engine: &Engine, call: &Call<'_>, tool: &str) -> Decision {
    let subject = Subject::read(call, tool);
    if let Some(rule) = subject.find(&engine.deny) {
        return denied(engine, tool, &subject, rule);
    }
    let asks = engine.ask.tool(tool, call.mcp_server).or_else(|| subject.find(&engine.ask));
    let asks = asks.or_else(|| engine.ask.parameter(tool, call.input).map(|(_, rule)| rule));
    if let Some(rule) = asks {
        return Decision::Ask(Asked {
            reason: Reason::Rule(engine.ask.matched(rule)),
            suggestions: Vec::new(),
            ..question(tool, &subject)
        });
    }
    if INTERACTIVE.contains(&tool) {
        return Decision::Ask(Asked {
            suggestions: Vec::new(),
            requires_user_interaction: true,
            ..question(tool, &subject)
        });
    }
    if matches!(subject, Subject::Host(None)) && !engine.deny.domains.is_empty() {
        let text = "The host of this address cannot be told, so the rules about hosts cannot be checked";
        return Decision::Ask(Asked {
            reason: Reason::SafetyCheck(text.to_owned()),
            ..question(tool, &subject)
        });
    }
    if engine.mode() == PermissionMode::BypassPermissions {
        return Decision::Allow(Allowed { reason: Reason::Mode(PermissionMode::BypassPermissions) });
    }
    if let Some(rule) = permitting(engine, call, tool, &subject) {
        return Decision::Allow(Allowed { reason: Reason::Rule(engine.allow.matched(rule)) });
    }
    if FREE.contains(&tool) {
        return Decision::Allow(Allowed { reason: Reason::Default });
    }
    let asked = question(tool, &subject);
    // Without the hint that it only reads, plan mode is the reason; with it, that nobody allowed the tool.
    let planning = engine.mode() == PermissionMode::Plan && tool.starts_with("mcp__") && !call.mcp_read_only;
    let reason = if planning { Reason::Mode(PermissionMode::Plan) } else { asked.reason.clone() };
    Decision::Ask(Asked { reason, ..asked })
}

/// What content rules of a tool are about.
enum Subject {
    Host(Option<String>),
    AgentKind(String),
    SkillName(String),
    Nothing,
}

impl Subject {
    fn read(call: &Call<'_>, tool: &str) -> Self {
        let text = |name: &str| call.input.get(name).and_then(Value::as_str);
        match tool {
            "WebFetch" => Self::Host(text("url").and_then(domain::host)),
            "Agent" => Self::AgentKind(text("subagent_type").unwrap_or("general-purpose").to_owned()),
            "Skill" => Self::SkillName(text("skill").or_else(|| text("command")).unwrap_or("").to_owned()),
            _ => Self::Nothing,
        }
    }

    /// A rule about it.
    fn find(&self, rules: &crate::ruleset::RuleSet) -> Option<usize> {
        match self {
            Self::Host(Some(host)) => rules.domains.find(host).map(|found| found.rule),
            Self::Host(None) | Self::Nothing => None,
            Self::AgentKind(kind) => rules.agent(kind),
            Self::SkillName(name) => rules.skill(name),
        }
    }
}

fn permitting(engine: &Engine, call: &Call<'_>, tool: &str, subject: &Subject) -> Option<usize> {
    let whole = engine.allow.tool(tool, call.mcp_server);
    match subject {
        // Permission for the web is no permission for this machine and its neighbours.
        Subject::Host(Some(host)) if domain::is_private(host) => {
            engine.allow.domains.find(host).filter(|found| found.exact).map(|found| found.rule)
        }
        Subject::Host(Some(_)) => whole.or_else(|| subject.find(&engine.allow)),
        // Two readers could take the address for different hosts: no rule knows which one is meant.
        Subject::Host(None) => None,
        Subject::AgentKind(_) | Subject::SkillName(_) => whole.or_else(|| subject.find(&engine.allow)),
        Subject::Nothing => whole,
    }
}

fn denied(engine: &Engine, tool: &str, subject: &Subject, rule: usize) -> Decision {
    let matched = engine.deny.matched(rule);
    let message = match subject {
        Subject::AgentKind(kind) => message::denied_agent(kind, &matched.rule.text, matched.source.as_str()),
        Subject::Host(_) | Subject::SkillName(_) | Subject::Nothing => message::denied_tool(tool),
    };
    Decision::Deny(Denied {
        reason: Reason::Rule(matched),
        message,
        shown_as: ShownAs::Denial,
        was_question: false,
    })
}

fn question(tool: &str, subject: &Subject) -> Asked {
    let content = match subject {
        Subject::Host(Some(host)) => Some(format!("domain:{host}")),
        Subject::Host(None) | Subject::Nothing => None,
        Subject::AgentKind(kind) => Some(kind.clone()),
        Subject::SkillName(name) => Some(name.clone()),
    };
    let suggestions = if matches!(subject, Subject::Host(None)) {
        Vec::new()
    } else {
        vec![suggest::allow_rule(tool, content, PermissionUpdateDestination::LocalSettings)]
    };
    Asked {
        tool: tool.to_owned(),
        reason: Reason::Default,
        message: message::tool_not_granted(tool),
        suggestions,
        blocked_path: None,
        requires_user_interaction: false,
        hook_may_allow: true,
    }
}
