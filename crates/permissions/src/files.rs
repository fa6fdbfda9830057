//! Decisions about tools that read or write one path.

use std::path::{Path, PathBuf};

use lathe_protocol::FileAccess;
use lathe_protocol::permission::PermissionMode;

use crate::decision::{Allowed, AskedDecision, Decision, Denied, Reason, ShownAs};
use crate::engine::PermissionEngine;
use crate::message::{self, Access};
use crate::paths::{Kind, Located, Lost};
use crate::protected::is_protected;
use crate::question::PermissionQuestion;
use crate::suggest;

/// A call about a file, located.
pub(crate) struct FileCall {
    pub access: Access,
    /// Everything below the path is meant, not the path itself.
    searches: bool,
    pub located: Located,
}

impl FileCall {
    /// Resolves where the path of a call leads now; for a search by pattern, where the search starts.
    pub(crate) fn locate(engine: &PermissionEngine, path: &str, access: &FileAccess, cwd: &Path) -> Self {
        let located = engine.locate(path, cwd);
        match access {
            FileAccess::Read => Self { access: Access::Read, searches: false, located },
            FileAccess::Write => Self { access: Access::Write, searches: false, located },
            FileAccess::Search { name_pattern } => {
                let located = match name_pattern {
                    Some(pattern) => searched(engine, located, pattern),
                    None => located,
                };
                Self { access: Access::Read, searches: true, located }
            }
        }
    }

    /// Returns the path as written, made absolute. Messages show this form.
    fn path(&self) -> &Path {
        &self.located.written
    }
}

/// Returns where a search by pattern starts: in the directories that the pattern names before its first wildcard, which
/// may lead elsewhere than the `path` of the call. A pattern that could leave that directory later on, by `..` or by
/// alternatives, gets a path that counts as unreadable, so neither a rule for paths nor a directory permits it; a rule
/// for the whole tool or the mode still does.
fn searched(engine: &PermissionEngine, located: Located, pattern: &str) -> Located {
    let wild = |name: &str| name.contains(['*', '?', '[', '{', '\\', '!']);
    let directories = pattern.rsplit_once('/').map_or("", |(directories, _)| directories);
    let fixed: Vec<&str> = directories.split('/').take_while(|name| !wild(name)).collect();
    let behind = pattern.split('/').skip(fixed.len()).any(|name| name == "..");
    // Alternatives may lead elsewhere one by one.
    let branches = pattern.contains('{') && ["..", "{/", ",/"].iter().any(|way| pattern.contains(way));
    let from = located.place().to_owned();
    let prefix = if fixed == [""] && pattern.starts_with('/') { "/".to_owned() } else { fixed.join("/") };
    let stays = prefix.is_empty() || located.real.is_err();
    let mut start = if stays { located } else { engine.locate(&prefix, &from) };
    if behind || branches {
        start.real = Err(Lost::Unreadable);
    }
    start
}

/// Returns a denial that is shown as an error of the tool, because the input itself cannot be used.
fn rejected(reason: Reason, message: String) -> Denied {
    Denied { reason, message, shown_as: ShownAs::ToolUseError, was_question: false }
}

/// Returns the denial of an input that cannot be used in any mode: a file that a `Read` rule denies, secrets of a
/// process, a NUL byte, a circle of links, an open file of a process, or a pipe, socket or device. `None` otherwise,
/// also for a file that is missing, a directory and a path that cannot be read.
pub(crate) fn input_denied(engine: &PermissionEngine, file: &FileCall) -> Option<Denied> {
    if let Some(rule) = engine.forbidden_path(&engine.deny.reads, &file.located) {
        let text = match file.access {
            Access::Read => message::READ_DENIED,
            Access::Write => message::EDIT_OF_READ_DENIED,
        };
        return Some(rejected(Reason::Rule(engine.deny.matched(rule)), text.to_owned()));
    }
    if file.located.is_process_secret() {
        let text = format!("{} holds the secrets of a process and is never read.", file.path().display());
        return Some(rejected(Reason::SafetyCheck(text.clone()), text));
    }
    if let Err(lost @ (Lost::Nul | Lost::Circle | Lost::OpenFile)) = &file.located.real {
        let text = format!(
            "The path {} cannot be used: {lost}.",
            file.path().display().to_string().escape_default()
        );
        return Some(rejected(Reason::SafetyCheck(text.clone()), text));
    }
    if file.located.kind() == Kind::Special {
        let text = format!("{} is a pipe, a socket or a device, not a file.", file.path().display());
        return Some(rejected(Reason::SafetyCheck(text.clone()), text));
    }
    None
}

/// Decides about a file tool: by deny and ask rules for the path, the mode, the checks of writes, allow rules and the
/// directories. In `bypassPermissions` and `plan` the mode decides, and nothing after it is looked at. Deny rules for
/// the whole tool and [`input_denied`] must have been checked before.
pub(crate) fn decide(
    engine: &PermissionEngine,
    question: &PermissionQuestion<'_>,
    tool: &str,
    file: &FileCall,
) -> Decision {
    if file.access == Access::Write
        && let Some(rule) = engine.forbidden_path(&engine.deny.edits, &file.located)
    {
        return Decision::Deny(Denied {
            reason: Reason::Rule(engine.deny.matched(rule)),
            message: message::denied_edit(file.path()),
            shown_as: ShownAs::Denial,
            was_question: false,
        });
    }
    if let Some(rule) = asking_rule(engine, question, tool, file) {
        let asked =
            AskedDecision { reason: Reason::Rule(engine.ask.matched(rule)), ..unanswered(tool, file) };
        return Decision::Ask(AskedDecision { suggestions: Vec::new(), ..asked });
    }
    match question.mode() {
        PermissionMode::BypassPermissions => return allowed(Reason::Mode(PermissionMode::BypassPermissions)),
        PermissionMode::Plan => return in_plan_mode(engine, tool, file),
        PermissionMode::Default
        | PermissionMode::AcceptEdits
        | PermissionMode::DontAsk
        | PermissionMode::Auto => {}
    }
    match file.access {
        Access::Read => decide_read(engine, question, tool, file),
        Access::Write => decide_write(engine, question, tool, file),
    }
}

/// Returns the number of an ask rule for the whole tool or, if there is none, for the path; `None` if nothing asks.
fn asking_rule(
    engine: &PermissionEngine,
    question: &PermissionQuestion<'_>,
    tool: &str,
    file: &FileCall,
) -> Option<usize> {
    let rules = match file.access {
        Access::Read => &engine.ask.reads,
        Access::Write => &engine.ask.edits,
    };
    engine.ask.tool(tool, question.mcp_server()).or_else(|| engine.forbidden_path(rules, &file.located))
}

/// Returns an allowance that is based on more than the text of the call.
fn allowed(reason: Reason) -> Decision {
    Decision::Allow(Allowed::granted(reason))
}

/// Returns the plain question about a file, which a hook may answer, without suggestions; callers override reason and
/// message.
fn unanswered(tool: &str, file: &FileCall) -> AskedDecision {
    AskedDecision {
        tool: tool.to_owned(),
        reason: Reason::Default,
        message: message::not_granted(file.access, file.path()),
        suggestions: Vec::new(),
        blocked_path: None,
        requires_user_interaction: false,
        hook_may_allow: true,
    }
}

/// Allows reading anything and writing plans in plan mode; every other write is a question. Allow rules are not
/// considered.
fn in_plan_mode(engine: &PermissionEngine, tool: &str, file: &FileCall) -> Decision {
    let mode = Reason::Mode(PermissionMode::Plan);
    match file.access {
        Access::Read => allowed(mode),
        Access::Write if engine.is_plan_file(&file.located) => allowed(mode),
        Access::Write => Decision::Ask(AskedDecision {
            reason: mode,
            message: message::plan_write(file.path()),
            ..unanswered(tool, file)
        }),
    }
}

/// Decides a read or a search: by an allow rule, then by the readable directories, otherwise with a question. A rule
/// for everything below the start counts for searches only.
fn decide_read(
    engine: &PermissionEngine,
    question: &PermissionQuestion<'_>,
    tool: &str,
    file: &FileCall,
) -> Decision {
    let rule = engine
        .allow
        .tool(tool, question.mcp_server())
        .or_else(|| engine.permitted_read(&file.located))
        .or_else(|| if file.searches { engine.permitted_tree(&file.located) } else { None });
    if let Some(rule) = rule {
        return allowed(Reason::Rule(engine.allow.matched(rule)));
    }
    if engine.may_read(&file.located, question.scope) {
        // Whatever it is called: every mode lets the session read where it works.
        return allowed(Reason::Mode(question.mode()));
    }
    // Behind a link, a rule has to cover both ends.
    let directory = |path: &Path| match path.parent() {
        Some(parent) if !file.searches => parent.to_owned(),
        Some(_) | None => path.to_owned(),
    };
    let mut directories = vec![directory(file.path())];
    directories.extend(file.located.through_link().map(directory));
    outside(tool, file, vec![suggest::read_directories(&directories)])
}

/// Decides a write. Protected paths and hard links are questions before any allow rule is looked at; after the rules,
/// `acceptEdits` allows writes inside the working directories, and everything else is a question.
fn decide_write(
    engine: &PermissionEngine,
    question: &PermissionQuestion<'_>,
    tool: &str,
    file: &FileCall,
) -> Decision {
    if is_protected(&file.located, question.scope.dirs(), engine.config_dir()) {
        let own = file.path().components().any(|name| name.as_os_str() == ".claude");
        let text = if own {
            message::not_granted(Access::Write, file.path())
        } else {
            message::sensitive(file.path())
        };
        return Decision::Ask(AskedDecision {
            reason: Reason::SafetyCheck(text.clone()),
            message: text,
            ..unanswered(tool, file)
        });
    }
    if let Kind::File { hard_links: 2.. } = file.located.kind() {
        let text = format!(
            "{} is also known by another name (a hard link), which may lie elsewhere",
            file.path().display()
        );
        return Decision::Ask(AskedDecision {
            message: format!("{} {text}.", message::not_granted(Access::Write, file.path())),
            reason: Reason::SafetyCheck(text),
            ..unanswered(tool, file)
        });
    }
    if let Some(rule) =
        engine.allow.tool(tool, question.mcp_server()).or_else(|| engine.permitted_edit(&file.located))
    {
        return allowed(Reason::Rule(engine.allow.matched(rule)));
    }
    let inside = file.located.inside(question.scope.dirs()).is_some();
    if inside && question.mode() == PermissionMode::AcceptEdits {
        return allowed(Reason::Mode(PermissionMode::AcceptEdits));
    }
    if inside {
        return Decision::Ask(AskedDecision {
            suggestions: vec![suggest::accept_edits()],
            ..unanswered(tool, file)
        });
    }
    let directory: PathBuf = file.path().parent().unwrap_or(file.path()).to_owned();
    outside(tool, file, vec![suggest::accept_edits(), suggest::add_directory(&directory)])
}

/// Returns the question about a path outside the working directories; it also names the target if a link leads there.
fn outside(
    tool: &str,
    file: &FileCall,
    suggestions: Vec<lathe_protocol::permission::PermissionUpdate>,
) -> Decision {
    let asked = unanswered(tool, file);
    let (reason, message) = match file.located.through_link() {
        Some(target) => {
            let text = message::through_link(file.path(), target);
            let message = format!("{} {text}.", asked.message);
            (text, message)
        }
        None => (message::OUTSIDE.to_owned(), asked.message.clone()),
    };
    Decision::Ask(AskedDecision { reason: Reason::WorkingDir(reason), message, suggestions, ..asked })
}
