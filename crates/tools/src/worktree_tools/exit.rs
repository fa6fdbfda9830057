//! ExitWorktree: the agent goes back to the folder it came from, and the worktree stays or is removed. A worktree with
//! work in it is removed only when the call says that the work may be lost.

use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use lathe_protocol::{CallSubject, SessionAccess};
use serde_json::{Value, json};

use super::actions::{LeftWorktree, WorktreeLeave};
use crate::{Content, Loading, Offered, Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput};

/// The ExitWorktree tool.
#[derive(Debug, Default)]
pub struct ExitWorktree;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "action": {
                "type": "string", "enum": ["keep", "remove"],
                "description": "keep leaves folder and branch as they are; remove deletes both",
            },
            "discard_changes": {
                "type": "boolean",
                "description": "Whether remove may lose files that are not committed and commits that are nowhere else, \
                                and take the folder from tasks that run in it. Only after the user has agreed",
            },
        },
        "required": ["action"],
        "additionalProperties": false,
    })
});

/// Returns what an input wants of the worktree; it stays unless the input says that it is removed.
fn wanted(input: &Value) -> WorktreeLeave {
    match (input["action"].as_str(), input["discard_changes"].as_bool()) {
        (Some("remove"), Some(true)) => WorktreeLeave::Discard,
        (Some("remove"), _) => WorktreeLeave::RemoveUnchanged,
        (_, _) => WorktreeLeave::Keep,
    }
}

/// Returns the output of the call, which says what has become of the worktree and where the agent is now.
fn told(left: &LeftWorktree) -> ToolOutput {
    let mut text = match &left.lost {
        None => format!("The worktree {} stays", left.path.display()),
        Some(_) => format!("The worktree {} is removed", left.path.display()),
    };
    match (&left.branch, &left.lost) {
        (Some(branch), None) => text.push_str(&format!(", and so does its branch {branch}")),
        (Some(branch), Some(lost)) if lost.branch_stays => {
            text.push_str(&format!("; git kept its branch {branch}"));
        }
        (Some(branch), Some(_)) => text.push_str(&format!(" with its branch {branch}")),
        (None, _) => {}
    }
    if let Some(lost) = left.lost.filter(|lost| lost.files > 0 || lost.commits > 0) {
        text.push_str(&format!(", and with it {} changed files and {} commits", lost.files, lost.commits));
    }
    text.push_str(&format!(". You are back in {}", left.restored_cwd.display()));
    let missing = left.restored_cwd != left.original_cwd;
    if missing {
        text.push_str(&format!(", because {} is gone", left.original_cwd.display()));
    }
    text.push('.');
    let mut result = json!({
        "action": if left.lost.is_some() { "remove" } else { "keep" },
        "originalCwd": left.original_cwd.display().to_string(),
        "worktreePath": left.path.display().to_string(),
        "restoredCwd": left.restored_cwd.display().to_string(),
        "originalCwdMissing": missing,
        "message": text,
    });
    if let Some(branch) = &left.branch {
        result["worktreeBranch"] = json!(branch);
    }
    if let Some(lost) = &left.lost {
        result["discardedFiles"] = json!(lost.files);
        result["discardedCommits"] = json!(lost.commits);
    }
    ToolOutput::new(Content::Text(text), result)
}

impl Tool for ExitWorktree {
    fn name(&self) -> &str {
        "ExitWorktree"
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            sdk_0_2: Offered::Never,
            cli_1_0: Offered::Never,
            loading: Loading::Deferred,
            ..ToolDeclaration::EVERYWHERE
        }
    }

    fn description(&self) -> &str {
        "Leaves the worktree that EnterWorktree entered in this session, and goes back to the folder from before. A \
         worktree with work that would be lost is not removed unless discard_changes is set."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn subject(&self, _: &Value) -> CallSubject {
        CallSubject::Session(SessionAccess::Changes)
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            let left = context.session.clone().leave_worktree(wanted(input), context.cancel.clone()).await;
            left.map(|left| told(&left)).map_err(|refusal| refusal.failure())
        })
    }
}
