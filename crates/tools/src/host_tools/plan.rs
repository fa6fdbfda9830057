//! EnterPlanMode and ExitPlanMode: the model enters plan mode on its own, and leaves it with the user's consent. The
//! plan is a separate file, so that it survives the conversation. The permission mode belongs to the session, which
//! [`SessionActions`](crate::SessionActions) tells when it has to change.

use std::path::Path;
use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use lathe_protocol::{CallSubject, SessionAccess, UserQuestion};
use serde_json::{Value, json};

use crate::{
    Content, Loading, Offered, Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput, Workspace,
};

/// A longer plan is cut when it is shown.
const MAX_PLAN_BYTES: u64 = 1 << 20;

/// How to work in plan mode, for the model.
pub const HOW_TO_PLAN: &str = "Find out what there is before you decide: read the code the task touches and \
what is like it. Weigh the ways it could be done, and settle on one. The plan names the files to change, what \
changes in each, in which order, and how to check the result. Ask the user only what cannot be found out.";

/// The EnterPlanMode tool.
#[derive(Debug, Default)]
pub struct EnterPlanMode;

/// The ExitPlanMode tool.
#[derive(Debug, Default)]
pub struct ExitPlanMode;

static ENTER_SCHEMA: LazyLock<Value> =
    LazyLock::new(|| json!({"type": "object", "properties": {}, "additionalProperties": false}));

static EXIT_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let prompt = json!({
        "type": "object",
        "properties": {
            "tool": { "type": "string", "enum": ["Bash"] },
            "prompt": { "type": "string", "description": "What is to be run, for example: run the tests" },
        },
        "required": ["tool", "prompt"],
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "properties": {
            "allowedPrompts": {
                "type": "array", "items": prompt, "description": "Commands that the plan will need",
            },
        },
    })
});

impl Tool for EnterPlanMode {
    fn name(&self) -> &str {
        "EnterPlanMode"
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            current: Offered::WithHost,
            loading: Loading::Deferred,
            for_subagents: false,
            for_background_agents: false,
            ..ToolDeclaration::EVERYWHERE
        }
    }

    fn description(&self) -> &str {
        "Starts planning: nothing can be changed until the user has approved a plan. For work with several \
         reasonable ways to do it, or with many files; not for small or clear changes."
    }

    fn input_schema(&self) -> &Value {
        &ENTER_SCHEMA
    }

    fn subject(&self, _input: &Value) -> CallSubject {
        CallSubject::Session(SessionAccess::Changes)
    }

    fn call<'a>(
        &'a self,
        _input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            let message = format!(
                "You are planning now. {}",
                rules_of_planning(context.workspace.plan_file.as_deref())
            );
            let content = Content::Text(format!("{message}\n\n{HOW_TO_PLAN}"));
            context.session.enter_plan_mode().await;
            Ok(ToolOutput::new(content, json!({"message": message})))
        })
    }
}

/// Returns the rules of plan mode, and how it ends, for the model. Without a file the model is asked to give the plan
/// as text.
pub fn rules_of_planning(file: Option<&Path>) -> String {
    let place = match file {
        Some(file) => format!("Write the plan to {}, the one file that may be written", file.display()),
        None => "Give the plan as text".to_owned(),
    };
    format!(
        "Nothing else may be changed: read and search only. {place}; then call {} for the user's consent.",
        ExitPlanMode::NAME
    )
}

impl ExitPlanMode {
    /// The name of the tool.
    pub const NAME: &'static str = "ExitPlanMode";
}

impl Tool for ExitPlanMode {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            current: Offered::WithHost,
            cli_1_0: Offered::Never,
            loading: Loading::Deferred,
            for_subagents: false,
            for_background_agents: false,
            ..ToolDeclaration::EVERYWHERE
        }
    }

    fn description(&self) -> &str {
        "Shows the user the plan that you have written to the plan file, and asks for consent to carry it out. \
         Only for planning work that will change something; to answer a question, just answer."
    }

    fn input_schema(&self) -> &Value {
        &EXIT_SCHEMA
    }

    fn subject(&self, _input: &Value) -> CallSubject {
        CallSubject::Question(UserQuestion::PlanApproval)
    }

    /// Fills in the plan from its file, whatever the model says it is: that is what the user approves.
    fn complete_input(&self, mut input: Value, workspace: &Workspace) -> Value {
        let Some(fields) = input.as_object_mut() else { return input };
        fields.remove("plan");
        let file = workspace.plan_file.as_deref();
        if let Some((file, plan)) = file.and_then(|file| Some((file, read_plan(file)?))) {
            fields.insert("plan".to_owned(), json!(plan));
            fields.insert("planFilePath".to_owned(), json!(file.display().to_string()));
        }
        input
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            let output = approved(input, context.workspace.plan_file.as_deref())?;
            context.session.leave_plan_mode().await;
            Ok(output)
        })
    }
}

/// Returns the output of a call whose plan the user has approved, and writes the plan to its file if the user has
/// changed it. Fails only if that write fails.
fn approved(input: &Value, file: Option<&Path>) -> Result<ToolOutput, ToolFailure> {
    let written = file.and_then(read_plan);
    let shown = input["plan"].as_str().map(str::to_owned);
    let edited = shown.is_some() && shown != written;
    if let (true, Some(plan), Some(file)) = (edited, &shown, file) {
        write_plan(file, plan).map_err(|error| {
            ToolFailure::Failed(format!(
                "the changed plan could not be written to {}: {error}",
                file.display()
            ))
        })?;
    }
    let plan = shown.or(written);
    let mut text = "The user agrees: planning is over, carry the plan out.".to_owned();
    if edited {
        text.push_str(" They have changed it; what follows is what counts.");
    }
    if let Some(plan) = &plan {
        text.push_str(&format!("\n\n{plan}"));
    }
    let mut result = json!({"plan": plan, "isAgent": false});
    if let Some(file) = file {
        result["filePath"] = json!(file.display().to_string());
    }
    if edited {
        result["planWasEdited"] = json!(true);
    }
    Ok(ToolOutput::new(Content::Text(text), result))
}

/// Returns the plan in the file, at most [`MAX_PLAN_BYTES`] of it; `None` if the file is missing, blank or cannot be
/// read.
fn read_plan(file: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let opened = crate::open_file(file).ok()?;
    std::io::Read::read_to_end(&mut std::io::Read::take(opened, MAX_PLAN_BYTES), &mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (!text.trim().is_empty()).then_some(text)
}

/// Writes the plan, and creates its folder if it is missing.
fn write_plan(file: &Path, plan: &str) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(file, plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_is_what_was_written_or_what_the_user_made_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plans/p.md");
        let none = approved(&json!({}), Some(&file)).unwrap();
        assert_eq!(none.result, json!({"plan": null, "isAgent": false, "filePath": file}));
        write_plan(&file, "one").unwrap();
        let same = approved(&json!({"plan": "one"}), Some(&file)).unwrap();
        assert_eq!((&same.result["plan"], same.result.get("planWasEdited")), (&json!("one"), None));
        let changed = approved(&json!({"plan": "two"}), Some(&file)).unwrap();
        assert_eq!(changed.result["planWasEdited"], true);
        assert_eq!(read_plan(&file).as_deref(), Some("two"));
    }
}
