//! ExitPlanMode for clients of an earlier generation: the call itself holds the plan, without a file for it. What
//! follows the approval is as in `plan.rs`.

use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use lathe_protocol::{CallSubject, UserQuestion};
use serde_json::{Value, json};

use super::plan::ExitPlanMode;
use crate::{Content, Offered, Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput};

/// The ExitPlanMode tool whose calls hold the plan.
#[derive(Debug, Default)]
pub struct ExitWithPlan;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": { "plan": { "type": "string", "description": "The plan, as Markdown" } },
        "required": ["plan"],
        "additionalProperties": false,
    })
});

impl Tool for ExitWithPlan {
    fn name(&self) -> &str {
        ExitPlanMode::NAME
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            current: Offered::Never,
            sdk_0_2: Offered::Never,
            for_subagents: false,
            for_background_agents: false,
            ..ToolDeclaration::EVERYWHERE
        }
    }

    fn description(&self) -> &str {
        "Shows the user your plan, and asks for consent to carry it out. Only for planning work that will change \
         something; to answer a question, just answer."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn subject(&self, _input: &Value) -> CallSubject {
        CallSubject::Question(UserQuestion::PlanApproval)
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            context.session.leave_plan_mode().await;
            let plan = input["plan"].as_str().unwrap_or_default();
            // The user may have changed it, so it is given back.
            let text = format!(
                "The user agrees: planning is over, carry the plan out. This is what counts:\n\n{plan}"
            );
            Ok(ToolOutput::new(Content::Text(text), json!({"plan": plan, "isAgent": false})))
        })
    }
}
