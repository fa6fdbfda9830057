//! The rules of one behaviour (allow, ask or deny), compiled for look-up.
//!
//! Each tool gives its specifier its own meaning; this module turns the text of a rule into an entry of the table that
//! implements that meaning. The order of rules does not matter; it only decides which of several matching rules is
//! named as the reason.

use std::collections::HashMap;
use std::sync::Arc;

use lathe_protocol::permission::PermissionBehavior;
use serde_json::Value;

use crate::command_rules::CommandRules;
use crate::domain::DomainRules;
use crate::glob;
use crate::path_rules::{Bases, PathRules, Sense};
use crate::rule::{MatchedRule, Parsed, RuleSource, SourcedRule};

/// The rules of one behaviour.
#[derive(Debug, Clone)]
pub(crate) struct RuleSet {
    behavior: PermissionBehavior,
    entries: Vec<(RuleSource, SourcedRule)>,
    tools: HashMap<String, usize>,
    tool_globs: Vec<(String, usize)>,
    /// MCP rules by server: a pattern for the tool's own name, or the whole server.
    servers: HashMap<String, Vec<(Option<String>, usize)>>,
    parameters: HashMap<String, Vec<Parameter>>,
    pub commands: CommandRules,
    /// Shared with searches, which may run while rules change.
    pub reads: Arc<PathRules>,
    pub edits: PathRules,
    pub domains: DomainRules,
    agents: HashMap<String, usize>,
    skills: Vec<(String, usize)>,
}

/// `Tool(parameter:value)`
#[derive(Debug, Clone)]
struct Parameter {
    name: String,
    value: String,
    rule: usize,
}

/// Inputs that have their own kind of rule and cannot be matched as parameters.
const NOT_PARAMETERS: [&str; 6] = ["command", "file_path", "path", "notebook_path", "url", "domain"];

impl RuleSet {
    /// Creates an empty set. The behaviour decides how rules are read: allow rules narrowly, deny and ask rules
    /// broadly.
    pub(crate) fn new(behavior: PermissionBehavior) -> Self {
        let sense = match behavior {
            PermissionBehavior::Allow => Sense::Permit,
            PermissionBehavior::Deny | PermissionBehavior::Ask => Sense::Forbid,
        };
        Self {
            behavior,
            entries: Vec::new(),
            tools: HashMap::new(),
            tool_globs: Vec::new(),
            servers: HashMap::new(),
            parameters: HashMap::new(),
            commands: CommandRules::default(),
            reads: Arc::new(PathRules::new(sense)),
            edits: PathRules::new(sense),
            domains: DomainRules::default(),
            agents: HashMap::new(),
            skills: Vec::new(),
        }
    }

    /// Returns whether this set holds allow rules, which must be read narrowly.
    fn permits(&self) -> bool {
        self.behavior == PermissionBehavior::Allow
    }

    /// Returns every rule with its source, in the order in which they were added. The number of a rule is its index
    /// here.
    pub(crate) fn entries(&self) -> &[(RuleSource, SourcedRule)] {
        &self.entries
    }

    /// Returns the rule with this number, to be named as a reason. The number must come from this set; another one may
    /// panic.
    pub(crate) fn matched(&self, rule: usize) -> MatchedRule {
        let (source, written) = &self.entries[rule];
        MatchedRule { behavior: self.behavior, source: *source, rule: written.clone() }
    }

    /// Returns where the rule with this number was written. The number must come from this set; another one may panic.
    pub(crate) fn source(&self, rule: usize) -> RuleSource {
        self.entries[rule].0
    }

    /// Adds a rule, whose number is the length of [`Self::entries`] before. The error says what is wrong and, after a
    /// colon, what became of the rule; nothing has been added then, and the number goes to the next rule.
    pub(crate) fn add(
        &mut self,
        source: RuleSource,
        written: SourcedRule,
        parsed: &Parsed,
        bases: &Bases,
    ) -> Result<(), String> {
        let rule = self.entries.len();
        match &parsed.content {
            None => self.add_tool(&parsed.tool, rule)?,
            Some(content) => self.add_content(&parsed.tool, content, bases, rule)?,
        }
        self.entries.push((source, written));
        Ok(())
    }

    /// Adds a rule for a whole tool, in place of `written`, whose specifier is invalid. If the tool has a rule already,
    /// that one stays the one that is found. The name is only compared exactly: unlike in [`Self::add`], a wildcard or
    /// the name of an MCP server in it covers no tool.
    pub(crate) fn add_whole_tool(&mut self, source: RuleSource, written: SourcedRule, tool: &str) {
        self.tools.entry(tool.to_owned()).or_insert(self.entries.len());
        self.entries.push((source, written));
    }

    /// Adds a rule for a whole tool or MCP server; of two for the same tool the first stays. Wildcards in the name of a
    /// tool or server are refused in allow rules; an MCP rule may use them for the tool name after its server.
    fn add_tool(&mut self, tool: &str, rule: usize) -> Result<(), String> {
        let server = tool.strip_prefix("mcp__").filter(|rest| !rest.is_empty() && !rest.starts_with('*'));
        if let Some(rest) = server {
            let (server, name) = match rest.split_once("__") {
                Some((server, name)) => (server, Some(name).filter(|name| *name != "*" && !name.is_empty())),
                None => (rest, None),
            };
            if server.contains('*') {
                if self.permits() {
                    return Err("the server of an allow rule must be named in full: ignored".to_owned());
                }
                self.tool_globs.push((tool.to_owned(), rule));
                return Ok(());
            }
            let name = name.map(str::to_owned);
            self.servers.entry(normal_server(server)).or_default().push((name, rule));
            return Ok(());
        }
        if tool.contains('*') {
            if self.permits() {
                return Err("an allow rule must name its tool in full: ignored".to_owned());
            }
            self.tool_globs.push((tool.to_owned(), rule));
            return Ok(());
        }
        self.tools.entry(tool.to_owned()).or_insert(rule);
        Ok(())
    }

    /// Adds a rule with a specifier to the table of its tool, or says why it has none. A forbidding rule may also count
    /// as a parameter rule; allow rules about files must be written for `Read` or `Edit`.
    fn add_content(&mut self, tool: &str, content: &str, bases: &Bases, rule: usize) -> Result<(), String> {
        let parameter = self.parameter_of(content, rule);
        match tool {
            "Bash" | "Monitor" => self.commands.add(content, rule),
            "Read" => Arc::make_mut(&mut self.reads).add(content, bases, rule).map_err(ignored)?,
            "Edit" => self.edits.add(content, bases, rule).map_err(ignored)?,
            "Grep" | "Glob" | "LS" if !self.permits() => {
                Arc::make_mut(&mut self.reads).add(content, bases, rule).map_err(ignored)?
            }
            "Write" | "NotebookEdit" | "MultiEdit" if !self.permits() => {
                self.edits.add(content, bases, rule).map_err(ignored)?;
            }
            "Grep" | "Glob" | "LS" => return Err("write it as a rule for Read: ignored".to_owned()),
            "Write" | "NotebookEdit" | "MultiEdit" => {
                return Err("write it as a rule for Edit: ignored".to_owned());
            }
            // A domain is not a parameter, so this is a rule about another input.
            "WebFetch" if parameter.is_some() => {}
            "WebFetch" => self.domains.add(content, rule).map_err(ignored)?,
            "Agent" => {
                self.agents.entry(content.trim().to_owned()).or_insert(rule);
            }
            "Skill" => self.skills.push((content.trim().trim_start_matches('/').to_owned(), rule)),
            _ if parameter.is_some() => {}
            _ => return Err("this tool takes no specifier: ignored".to_owned()),
        }
        // Last, because the number of a rule that is ignored belongs to the next one.
        if let Some(parameter) = parameter {
            self.parameters.entry(tool.to_owned()).or_default().push(parameter);
        }
        Ok(())
    }

    /// Returns a forbidding rule `name:value` about one input. `None` if the set permits, the content is not of that
    /// form or the input has a kind of rule of its own.
    fn parameter_of(&self, content: &str, rule: usize) -> Option<Parameter> {
        let (name, value) = content.split_once(':')?;
        let identifier = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if self.permits()
            || name.is_empty()
            || !name.chars().all(identifier)
            || NOT_PARAMETERS.contains(&name)
        {
            return None;
        }
        Some(Parameter { name: name.to_owned(), value: value.trim().to_owned(), rule })
    }

    /// Returns the number of the first rule for the whole tool: by its name, by a wildcard or by its MCP server. `None`
    /// if there is none. An allow rule for an MCP tool is only found if `server` is given or the name can be split in
    /// one way.
    pub(crate) fn tool(&self, tool: &str, server: Option<&str>) -> Option<usize> {
        let named = self.tools.get(tool).copied();
        let globbed =
            self.tool_globs.iter().find(|(pattern, _)| glob::matches(pattern, tool)).map(|(_, rule)| *rule);
        let served = tool.strip_prefix("mcp__").and_then(|rest| self.served(rest, server));
        [named, globbed, served].into_iter().flatten().min()
    }

    /// Returns the number of a rule about an MCP tool, or `None`; `rest` is its name after `mcp__`. An allow rule needs
    /// the exact server; a forbidding rule applies wherever the name of the server may end, which is at every `__`, and
    /// ignores `server`. Of several forbidding rules, those of the shortest server are returned first.
    fn served(&self, rest: &str, server: Option<&str>) -> Option<usize> {
        if self.permits() {
            let (server, name) = split_tool(rest, server)?;
            let rules = self.servers.get(&server)?;
            return rules
                .iter()
                .find(|(pattern, _)| tool_matches(pattern.as_deref(), name))
                .map(|(_, rule)| *rule);
        }
        // A forbidding rule applies wherever the name of the server may end.
        let mut found = None;
        for (at, _) in rest.match_indices("__") {
            let (server, name) = (&rest[..at], &rest[at + 2..]);
            let rules = self.servers.get(server).into_iter().flatten();
            found = found.or(rules
                .filter(|(pattern, _)| tool_matches(pattern.as_deref(), name))
                .map(|(_, rule)| *rule)
                .min());
        }
        found
    }

    /// Returns `parameter:value` and the number of the first rule that matches one of the inputs of the call; `None` if
    /// none does. Only texts, numbers and booleans can match.
    pub(crate) fn parameter(&self, tool: &str, input: &Value) -> Option<(String, usize)> {
        self.parameters.get(tool)?.iter().find_map(|parameter| {
            let value = match input.get(&parameter.name)? {
                Value::String(text) => text.clone(),
                Value::Bool(value) => value.to_string(),
                Value::Number(value) => value.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => return None,
            };
            glob::matches(&parameter.value, &value)
                .then(|| (format!("{}:{value}", parameter.name), parameter.rule))
        })
    }

    /// Returns the number of the rule for a type of agent; `None` if there is none. Names are compared exactly.
    pub(crate) fn agent(&self, kind: &str) -> Option<usize> {
        self.agents.get(kind).copied()
    }

    /// Returns the number of the first rule for a skill, or `None`. A leading slash, and `:*` or ` *` at the end of a
    /// rule, which stand for arguments, are left out of the comparison.
    pub(crate) fn skill(&self, name: &str) -> Option<usize> {
        let name = name.trim_start_matches('/');
        self.skills
            .iter()
            .find(|(pattern, _)| {
                let pattern =
                    pattern.strip_suffix(":*").or_else(|| pattern.strip_suffix(" *")).unwrap_or(pattern);
                pattern == name || (pattern.contains('*') && glob::matches(pattern, name))
            })
            .map(|(_, rule)| *rule)
    }
}

/// Returns the problem with `: ignored` after it, which says what became of the rule. `PermissionEngine::add_rule` cuts
/// this suffix off for forbidding rules, so the two must agree.
fn ignored(problem: &'static str) -> String {
    format!("{problem}: ignored")
}

/// Splits the name of an MCP tool, without `mcp__`, into server and own name. `None` if it does not begin with the
/// given server, or if no server is given and the name can be split in more than one way or not at all.
fn split_tool<'r>(rest: &'r str, server: Option<&str>) -> Option<(String, &'r str)> {
    match server {
        Some(server) => {
            let server = normal_server(server);
            let name = rest.strip_prefix(&server)?.strip_prefix("__")?;
            Some((server, name))
        }
        None => {
            let (server, name) = rest.split_once("__")?;
            (!name.contains("__")).then(|| (server.to_owned(), name))
        }
    }
}

/// Returns whether a pattern covers the name that a tool has on its server; `None` covers the whole server.
fn tool_matches(pattern: Option<&str>, name: &str) -> bool {
    pattern.is_none_or(|pattern| glob::matches(pattern, name))
}

/// Returns the name of an MCP server as it appears in tool names: every character but ASCII letters, digits, `_` and
/// `-` becomes `_`.
fn normal_server(server: &str) -> String {
    server.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect()
}
