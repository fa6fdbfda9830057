//! Every sentence that a model or a person reads about a decision.
//!
//! Openings that clients look for (`Claude requested permissions to …`, `This command requires approval`, `Permission
//! to use … has been denied`) are spelled as in the reference; the other texts are Lathe's own.

use std::path::Path;

/// A hook turned an allowed call into a question.
pub(crate) const HOOK_ASKED: &str = "A hook wants this call to be approved first.";

/// A call of a tool that does not say what it would do.
pub(crate) const UNKNOWN_SUBJECT: &str = "What this call would do cannot be told from its input";

/// A shell command that no list and no rule allows.
pub(crate) const COMMAND: &str = "This command requires approval";

/// A path outside the working directories, as a reason.
pub(crate) const OUTSIDE: &str = "Path is outside allowed working directories";

/// A file that a `Read` rule denies.
pub(crate) const READ_DENIED: &str = "File is in a directory that is denied by your permission settings.";

/// Editing a file that a `Read` rule denies.
pub(crate) const EDIT_OF_READ_DENIED: &str =
    "File is covered by a Read deny rule in your permission settings and cannot be edited.";

/// What a file tool wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Returns the question about a file tool and a path. Clients look for its beginning.
pub(crate) fn not_granted(access: Access, path: &Path) -> String {
    let verb = match access {
        Access::Read => "read from",
        Access::Write => "write to",
    };
    format!("Claude requested permissions to {verb} {}, but you haven't granted it yet.", path.display())
}

/// Returns the question about a tool whose call is not about one path. Clients look for its beginning.
pub(crate) fn tool_not_granted(tool: &str) -> String {
    format!("Claude requested permissions to use {tool}, but you haven't granted it yet.")
}

/// Returns the question about a write to a protected path, which no rule can approve in advance.
pub(crate) fn sensitive(path: &Path) -> String {
    format!("Claude requested permissions to edit {} which is a sensitive file.", path.display())
}

/// Returns the statement that a link leads outside the working directories, without a final period. It serves as a
/// reason and as a part of the question.
pub(crate) fn through_link(path: &Path, target: &Path) -> String {
    format!(
        "{} resolves through a symlink to {}, which is outside the allowed working directories",
        path.display(),
        target.display()
    )
}

/// Returns the denial of a shell command by a rule. It names Bash whatever tool runs the command, because rules do.
pub(crate) fn denied_command(command: &str) -> String {
    format!("Permission to use Bash with command {command} has been denied.")
}

/// Returns the denial of a call by a rule about the tool. Clients look for its opening.
pub(crate) fn denied_tool(tool: &str) -> String {
    format!("Permission to use {tool} has been denied.")
}

/// Returns the denial of a call by a rule about one of its inputs; `parameter` is `name:value`.
pub(crate) fn denied_parameter(tool: &str, parameter: &str) -> String {
    format!("Permission to use {tool} with {parameter} has been denied.")
}

/// Returns the denial of a type of agent, with the rule and where it was set.
pub(crate) fn denied_agent(kind: &str, rule: &str, source: &str) -> String {
    format!("Agent type '{kind}' has been denied by permission rule '{rule}' from {source}.")
}

/// Returns the question about a write in plan mode to a file that is not a plan.
pub(crate) fn plan_write(path: &Path) -> String {
    format!("Cannot write to {} while in plan mode.", path.display())
}

/// Returns the denial of a shell command in plan mode; it tells the model to continue with read-only commands.
pub(crate) fn plan_command() -> String {
    "Cannot run this command while in plan mode: it is not known to be read-only. Look around with read-only \
     commands, and leave what changes something for after the plan is approved."
        .to_owned()
}

/// Returns the denial that replaces a question in `dontAsk` mode. It tells the model not to disguise the call.
pub(crate) fn dont_ask(tool: &str) -> String {
    format!(
        "Permission to use {tool} has been denied because the session runs in don't ask mode: what would need \
         a question is refused. Another tool that is allowed and suits the same purpose may be used. Do not try \
         to get around the refusal by disguising the call. If the task cannot be done without it, stop and \
         tell the user which permission is missing."
    )
}

/// The session was started without a way to ask, as a reason.
pub(crate) const NO_SURFACE: &str = "this session was started without anybody who could approve a call";

/// Returns the denial that replaces a question when the session has no host that could reply. It tells the model that a
/// retry is pointless.
pub(crate) fn no_surface(tool: &str) -> String {
    format!(
        "Permission for this use of {tool} was denied: it needs approval, and this session was started without \
         anybody who could give it. Nothing was done. Trying again changes nothing; go on with what is allowed, \
         and say at the end what was left undone for want of permission."
    )
}

/// Returns the question about the removal of a critical directory; [`critical_reason`] is its short form.
pub(crate) fn critical_removal(program: &str, target: &str) -> String {
    format!(
        "Dangerous {program} operation detected: '{target}'\n\nThis would remove a directory that the system, the \
         user or this session depends on. It needs explicit approval; no permission rule or mode allows it."
    )
}

/// Returns the reason that accompanies [`critical_removal`], on one line.
pub(crate) fn critical_reason(program: &str, target: &str) -> String {
    format!("Dangerous {program} operation on critical path: {target}")
}

/// Returns the question about a shell command that changes a file inside the working directories. `what` says what is
/// done and begins the sentence, such as `rm in`.
pub(crate) fn change_inside(what: &str, path: &Path, root: &Path) -> String {
    format!(
        "{what} '{}' needs approval. The path is inside the working directories ('{}'), where a shell command \
         may change files only with approval.",
        path.display(),
        root.display()
    )
}

/// Returns the question about a shell command that changes a file outside the working directories. `what` says what is
/// done and begins the sentence, such as `rm in`.
pub(crate) fn change_outside(what: &str, path: &Path, root: &Path) -> String {
    format!(
        "{what} '{}' needs approval. The path is outside the working directories of this session ('{}').",
        path.display(),
        root.display()
    )
}

/// Returns the question about a shell command that reads outside the working directories. `program` may also be a
/// description such as `Input redirection`.
pub(crate) fn read_outside(program: &str, path: &Path, root: &Path) -> String {
    format!(
        "{program} in '{}' was blocked. Without approval, shell commands read only inside the working \
         directories of this session: '{}'.",
        path.display(),
        root.display()
    )
}

/// Returns the denial of a file tool by an `Edit` rule.
pub(crate) fn denied_edit(path: &Path) -> String {
    format!("Permission to edit {} has been denied.", path.display())
}
