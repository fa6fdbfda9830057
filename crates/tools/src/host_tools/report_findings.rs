//! ReportFindings: hands the findings of a review to the program behind the session, in a form that it can show.
//! Nothing is done with them here.

use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use lathe_protocol::{CallSubject, SessionAccess};
use serde_json::{Value, json};

use crate::{Content, Offered, Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput};

/// The ReportFindings tool.
#[derive(Debug, Default)]
pub struct ReportFindings;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let finding = json!({
        "type": "object",
        "properties": {
            "file": { "type": "string", "description": "Path from the root of the repository" },
            "line": { "type": "integer" },
            "summary": { "type": "string", "description": "What is wrong, in one sentence" },
            "short_summary": { "type": "string", "maxLength": 60 },
            "failure_scenario": { "type": "string", "description": "What has to happen, and what goes wrong then" },
            "category": { "type": "string", "maxLength": 40 },
            "verdict": { "type": "string", "enum": ["CONFIRMED", "PLAUSIBLE"], "description": "If it was checked again" },
            "outcome": { "type": "string", "enum": ["fixed", "skipped", "no_change_needed"], "description": "If it is reported again after fixes" },
        },
        "required": ["file", "summary", "failure_scenario"],
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "properties": {
            "level": { "type": "string", "enum": ["low", "medium", "high", "xhigh", "max"] },
            "findings": { "type": "array", "maxItems": 32, "items": finding, "description": "The worst first" },
        },
        "required": ["findings"],
        "additionalProperties": false,
    })
});

impl Tool for ReportFindings {
    fn name(&self) -> &str {
        "ReportFindings"
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            sdk_0_2: Offered::Never,
            cli_1_0: Offered::Never,
            for_background_agents: false,
            ..ToolDeclaration::EVERYWHERE
        }
    }

    fn description(&self) -> &str {
        "Hands over what a code review has found. Once, at its end, with what you are sure of; the user sees it as a list."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn subject(&self, _: &Value) -> CallSubject {
        CallSubject::Session(SessionAccess::Reads)
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        _context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(std::future::ready(Ok(reported(input))))
    }
}

/// Returns the findings as they were given for programs, and one line about each for the model.
fn reported(input: &Value) -> ToolOutput {
    let findings = input["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = match findings {
        [] => "No findings reported.".to_owned(),
        [_] => "1 finding reported:".to_owned(),
        several => format!("{} findings reported:", several.len()),
    };
    let lines = findings.iter().map(|finding| {
        let word = |key: &str| finding[key].as_str().unwrap_or_default();
        let line = finding["line"].as_i64().map(|line| format!(":{line}")).unwrap_or_default();
        format!("\n{}{line}: {}", word("file"), word("summary"))
    });
    let mut result = json!({"count": findings.len()});
    if let Some(level) = input["level"].as_str() {
        result["level"] = json!(level);
    }
    result["findings"] = json!(findings);
    ToolOutput::new(Content::Text(text + &lines.collect::<String>()), result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::Folder;

    #[tokio::test]
    async fn findings_are_counted_and_given_back() {
        let folder = Folder::new();
        let none = folder.call("ReportFindings", json!({"findings": []})).await.ok();
        assert_eq!(
            (none.text(), none.result.clone()),
            ("No findings reported.", json!({"count": 0, "findings": []}))
        );
        let finding =
            json!({"file": "a.rs", "line": 7, "summary": "Off by one.", "failure_scenario": "n = 0"});
        let other =
            json!({"file": "b.rs", "summary": "Leaks.", "failure_scenario": "x", "verdict": "CONFIRMED"});
        let input = json!({"level": "high", "findings": [finding, other]});
        let two = folder.call("ReportFindings", input.clone()).await.ok();
        assert_eq!(two.text(), "2 findings reported:\na.rs:7: Off by one.\nb.rs: Leaks.");
        assert_eq!(two.result, json!({"count": 2, "level": "high", "findings": input["findings"]}));
    }

    #[tokio::test]
    async fn a_finding_without_its_parts_and_too_many_do_not_fit() {
        let folder = Folder::new();
        let finding = json!({"file": "a.rs", "summary": "s", "failure_scenario": "f"});
        for (input, why) in [
            (json!({}), "The required parameter `findings` is missing"),
            (json!({"findings": [{"file": "a.rs"}]}), "summary"),
            (json!({"findings": vec![finding.clone(); 33]}), "too_big"),
            (json!({"findings": [finding], "level": "extreme"}), "level"),
        ] {
            let seen = folder.call("ReportFindings", input).await.err();
            assert!(
                seen.text().contains("InputValidationError") && seen.text().contains(why),
                "{why}: {seen:?}"
            );
        }
    }
}
