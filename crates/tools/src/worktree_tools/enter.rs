//! EnterWorktree: the agent goes on in a checkout of its own. How one is made is in `create.rs`; what changes for the
//! agent is the session's.

use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use lathe_protocol::{CallSubject, SessionAccess};
use serde_json::{Value, json};

use super::actions::WorktreeTarget;
use super::create::WorktreeOrigin;
use super::name::WorktreeName;
use super::refusal::WorktreeRefusal;
use crate::{Content, Loading, Offered, Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput};

/// The EnterWorktree tool.
#[derive(Debug, Default)]
pub struct EnterWorktree;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "name": {
                "type": "string",
                "description": "A name for a new worktree: parts of letters, digits, dots, underscores and dashes with / \
                                between them, 64 characters at most; one is made up if it is missing",
            },
            "path": {
                "type": "string",
                "description": "In place of a name: the path of a worktree of this repository that exists",
            },
        },
        "additionalProperties": false,
    })
});

/// Returns the worktree that an input asks for. A name that is not valid, or a name and a path together, is refused.
fn target(input: &Value) -> Result<WorktreeTarget, WorktreeRefusal> {
    match (input["name"].as_str(), input["path"].as_str()) {
        (Some(_), Some(_)) => Err(WorktreeRefusal::NameAndPath),
        (Some(name), None) => Ok(WorktreeTarget::Named(WorktreeName::parse(name)?)),
        (None, Some(path)) => Ok(WorktreeTarget::Existing(path.into())),
        (None, None) => Ok(WorktreeTarget::Unnamed),
    }
}

impl Tool for EnterWorktree {
    fn name(&self) -> &str {
        "EnterWorktree"
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
        "Goes on in a git worktree: a second checkout of the repository in .claude/worktrees, on a branch of its own, \
         so that the user's checkout stays as it is. Relative paths and commands mean the worktree from then on. Only \
         when the user, or the instructions of the project, speak of a worktree; for a branch, use git. Not inside a \
         worktree that was entered before."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn main_input(&self) -> Option<&str> {
        Some("name")
    }

    fn subject(&self, _: &Value) -> CallSubject {
        CallSubject::Session(SessionAccess::Changes)
    }

    fn check(&self, input: &Value) -> Result<(), ToolFailure> {
        target(input).map(drop).map_err(|refusal| refusal.failure())
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            let target = target(input).map_err(|refusal| refusal.failure())?;
            let entered = context.session.clone().enter_worktree(target, context.cancel.clone()).await;
            let entered = entered.map_err(|refusal| refusal.failure())?;
            let path = entered.path.display();
            let made = match entered.origin {
                WorktreeOrigin::Created | WorktreeOrigin::ByHook => "A new worktree",
                WorktreeOrigin::Found => "A worktree that was there already",
            };
            let branch = entered.branch.as_ref();
            let on = branch.map(|branch| format!(", on the branch {branch}")).unwrap_or_default();
            let message = format!(
                "{made}: {path}{on}. You work in it from now on; ExitWorktree goes back. It stays when the session ends."
            );
            let mut result = json!({"worktreePath": path.to_string(), "message": message});
            if let Some(branch) = branch {
                result["worktreeBranch"] = json!(branch);
            }
            Ok(ToolOutput::new(Content::Text(message), result))
        })
    }
}
