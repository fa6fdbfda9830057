//! AskUserQuestion: up to four multiple-choice questions for the person who uses the host. The host answers by allowing
//! the call with `answers` in its input; this tool then only tells the model what was chosen.

use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use lathe_protocol::{CallSubject, UserQuestion};
use serde_json::{Map, Value, json};

use crate::{Content, Offered, Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput, Workspace};

/// The AskUserQuestion tool.
#[derive(Debug, Default)]
pub struct AskUserQuestion;

/// Fields that only the host may fill in.
const HOST_FIELDS: [&str; 3] = ["answers", "annotations", "response"];

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let option = json!({
        "type": "object",
        "properties": {
            "label": { "type": "string", "description": "One to five words" },
            "description": { "type": "string", "description": "What choosing it means" },
            "preview": { "type": "string", "description": "Something to look at, such as a sketch or code" },
        },
        "required": ["label", "description"],
        "additionalProperties": false,
    });
    let question = json!({
        "type": "object",
        "properties": {
            "question": { "type": "string", "description": "The whole question" },
            "header": { "type": "string", "description": "A word or two, at most 12 characters" },
            "options": { "type": "array", "items": option, "minItems": 2, "maxItems": 4 },
            "multiSelect": { "type": "boolean", "default": false, "description": "Whether several may be chosen" },
        },
        "required": ["question", "header", "options", "multiSelect"],
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "properties": {
            "questions": { "type": "array", "items": question, "minItems": 1, "maxItems": 4 },
            "answers": { "type": "object", "description": "Filled in by the user" },
            "annotations": { "type": "object", "description": "Filled in by the user" },
            "response": { "type": "string", "description": "Filled in by the user" },
            "metadata": { "type": "object" },
        },
        "required": ["questions"],
        "additionalProperties": false,
    })
});

impl Tool for AskUserQuestion {
    fn name(&self) -> &str {
        "AskUserQuestion"
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            current: Offered::WithHost,
            for_subagents: false,
            for_background_agents: false,
            ..ToolDeclaration::EVERYWHERE
        }
    }

    fn description(&self) -> &str {
        "Asks the user to choose, when the work depends on a decision that is theirs and cannot be looked up. \
         Put the option you recommend first. The user can always answer in their own words instead."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn subject(&self, input: &Value) -> CallSubject {
        let answered = input["answers"].as_object().is_some_and(|answers| !answers.is_empty());
        CallSubject::Question(if answered { UserQuestion::Answered } else { UserQuestion::Open })
    }

    fn complete_input(&self, mut input: Value, _workspace: &Workspace) -> Value {
        if let Some(fields) = input.as_object_mut() {
            HOST_FIELDS.iter().for_each(|field| {
                fields.remove(*field);
            });
        }
        input
    }

    fn check(&self, input: &Value) -> Result<(), ToolFailure> {
        let questions = input["questions"].as_array().map_or(&[][..], Vec::as_slice);
        if has_twins(questions, "question") {
            return Err(ToolFailure::Rejected("two questions have the same text".to_owned()));
        }
        let twins = questions.iter().any(|question| {
            has_twins(question["options"].as_array().map_or(&[][..], Vec::as_slice), "label")
        });
        if twins {
            return Err(ToolFailure::Rejected("two options of one question have the same label".to_owned()));
        }
        Ok(())
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        _context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move { Ok(told(input)) })
    }
}

/// Returns whether two entries have the same text under `key`; two entries without it count as equal, too. Answers are
/// found by that text, so it must be unique.
fn has_twins(entries: &[Value], key: &str) -> bool {
    let texts: Vec<&Value> = entries.iter().map(|entry| &entry[key]).collect();
    texts.iter().enumerate().any(|(at, text)| texts[..at].contains(text))
}

/// Returns the user's answers as the output of the call, in words for the model and as data for programs. Without any
/// answer the model is told to choose what is safest.
fn told(input: &Value) -> ToolOutput {
    let given = input["answers"].as_object().cloned().unwrap_or_default();
    let answers: Map<String, Value> = given.iter().map(|(q, answer)| (q.clone(), plain(answer))).collect();
    let mut parts = Vec::new();
    if !answers.is_empty() {
        let pairs: Vec<String> =
            answers.iter().map(|(question, answer)| format!("\"{question}\"={answer}")).collect();
        parts.push(format!("Your questions have been answered: {}.", pairs.join(", ")));
    }
    for (question, notes) in input["annotations"].as_object().into_iter().flatten() {
        if let Some(text) = notes["notes"].as_str().filter(|text| !text.trim().is_empty()) {
            parts.push(format!("To \"{question}\" the user adds: {text}"));
        }
    }
    if let Some(text) = input["response"].as_str().filter(|text| !text.trim().is_empty()) {
        parts.push(format!("The user says: {text}"));
    }
    if parts.is_empty() {
        parts.push(
            "The user gave no answer. Choose what is safest, or go on with what does not depend on it."
                .to_owned(),
        );
    }
    let mut result = json!({"questions": input["questions"], "answers": answers});
    for key in ["annotations", "response"] {
        if let Some(value) = input.get(key) {
            result[key] = value.clone();
        }
    }
    ToolOutput::new(Content::Text(parts.join(" ")), result)
}

/// Returns the answer to one question as a single text; several choices are joined by commas, and a value that is not a
/// string is written as JSON.
fn plain(answer: &Value) -> Value {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match answer {
        Value::Array(several) => json!(several.iter().map(text).collect::<Vec<_>>().join(", ")),
        one => json!(text(one)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate;

    fn question(text: &str, labels: &[&str]) -> Value {
        let options: Vec<Value> =
            labels.iter().map(|label| json!({"label": label, "description": "d"})).collect();
        json!({"question": text, "header": "H", "options": options, "multiSelect": false})
    }

    fn text(input: &Value) -> String {
        match told(input).content {
            Content::Text(text) => text,
            Content::Blocks(blocks) => panic!("{blocks:?}"),
        }
    }

    #[test]
    fn answers_notes_and_silence_are_told() {
        let questions = json!([question("Which?", &["A", "B"])]);
        let answered = json!({"questions": questions, "answers": {"Which?": "B"}});
        assert!(text(&answered).starts_with("Your questions have been answered: \"Which?\"=\"B\"."));
        assert_eq!(told(&answered).result, json!({"questions": questions, "answers": {"Which?": "B"}}));
        let several = json!({"questions": questions, "answers": {"Which?": ["A", "B"]},
            "annotations": {"Which?": {"notes": "both"}}, "response": "quickly"});
        assert!(text(&several).contains("\"A, B\"") && text(&several).contains("both"));
        assert!(text(&several).ends_with("The user says: quickly"));
        let silent = json!({"questions": questions});
        assert!(text(&silent).contains("no answer"));
        assert_eq!(told(&silent).result["answers"], json!({}));
    }

    #[test]
    fn questions_are_checked() {
        let valid = |input: Value| validate("AskUserQuestion", &SCHEMA, input);
        assert!(valid(json!({"questions": [question("Q", &["A", "B"])]})).is_ok());
        assert!(valid(json!({"questions": []})).is_err());
        assert!(valid(json!({"questions": [question("Q", &["A"])]})).is_err());
        let tool = AskUserQuestion;
        assert!(tool.check(&json!({"questions": [question("Q", &["A", "A"])]})).is_err());
        assert!(
            tool.check(&json!({"questions": [question("Q", &["A", "B"]), question("Q", &["A", "B"])]}))
                .is_err()
        );
    }
}
