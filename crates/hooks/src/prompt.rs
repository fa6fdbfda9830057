//! Prompt and agent hooks: a model is asked whether the event may go on, and responds with `{ok, reason}`. An agent
//! hook is run the same way, without tools; if it needs tools to decide, it gives no verdict.
//!
//! "Not ok" is a "no" with that reason. After a tool has run there is nothing left to forbid, so there it also ends the
//! turn, unless the hook has `continueOnBlock`. If the model says that the condition of a Stop hook is impossible to
//! meet, the stop is allowed: otherwise the hook would block every further stop too.

use std::sync::LazyLock;
use std::time::Duration;

use lathe_protocol::settings::PromptHook;
use lathe_protocol::{HookEvent, HookOutput};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::handler::{Firing, with_deadline};
use crate::{ProblemKind, PromptError, PromptHookKind, PromptQuestion};

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "ok": { "type": "boolean" },
            "reason": { "type": "string" },
            "impossible": { "type": "boolean" },
        },
        "required": ["ok", "reason"],
        "additionalProperties": false,
    })
});

/// The schema of agent hooks: the response may also say that tools are needed.
static AGENT_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let mut schema = SCHEMA.clone();
    schema["properties"]["needs_tools"] = json!({ "type": "boolean" });
    schema
});

const NEEDS_TOOLS: &str =
    "its question cannot be answered without looking at files, and agent hooks have no tools yet";

/// Asks the model and converts its verdict. A response without a valid verdict is a problem and not consent, and so is
/// that of an agent hook which says that it needs tools.
pub(crate) async fn run(
    hook: &PromptHook,
    asked: PromptHookKind,
    event: &HookEvent,
    timeout: Duration,
    firing: &Firing<'_>,
) -> Answer {
    let Some(prompter) = &firing.services.prompter else {
        let why = "this session has no model to ask".to_owned();
        return Answer::failed(ProblemKind::NotSupported(why), &firing.facts);
    };
    let cancel = firing.context.cancel;
    let prompt = filled(&hook.prompt, &firing.json);
    let schema = match asked {
        PromptHookKind::Model => &*SCHEMA,
        PromptHookKind::Agent => &*AGENT_SCHEMA,
    };
    let model = hook.model.as_deref();
    let question = PromptQuestion { prompt: &prompt, model, asked, schema, timeout, cancel };
    let reply = with_deadline(timeout, cancel, prompter.ask(question)).await;
    if cancel.is_cancelled() {
        return Answer::cancelled();
    }
    match reply.unwrap_or(Err(PromptError::TimedOut)) {
        Ok(text) => match read(&text) {
            // A prompt hook is not offered this field, so a model that adds it there is not believed.
            Ok(verdict) if verdict.needs_tools && asked == PromptHookKind::Agent => {
                Answer::failed(ProblemKind::NotSupported(NEEDS_TOOLS.to_owned()), &firing.facts)
            }
            Ok(verdict) => verdict.into_answer(hook, event),
            Err(why) => Answer::failed(ProblemKind::InvalidOutput(why), &firing.facts),
        },
        Err(PromptError::TimedOut) => Answer::failed(ProblemKind::TimedOut(timeout), &firing.facts),
        Err(PromptError::Failed(why)) => Answer::failed(ProblemKind::PromptFailed(why), &firing.facts),
    }
}

/// Returns the prompt with the event in place of `$ARGUMENTS`, or at the end if the prompt has no such placeholder.
fn filled(prompt: &str, json: &str) -> String {
    if prompt.contains("$ARGUMENTS") {
        prompt.replace("$ARGUMENTS", json)
    } else {
        format!("{prompt}\n\n{json}")
    }
}

struct Verdict {
    ok: bool,
    reason: String,
    impossible: bool,
    needs_tools: bool,
}

/// Parses the verdict in a response: the JSON from the first `{` to the last `}`, because models often put text or a
/// code fence around it. Only `ok` is required; the error says what is wrong.
fn read(text: &str) -> Result<Verdict, String> {
    let json = match (text.find('{'), text.rfind('}')) {
        (Some(start), Some(end)) if start < end => &text[start..=end],
        (Some(_) | None, Some(_) | None) => return Err("the model did not answer with JSON".to_owned()),
    };
    let value: Value = serde_json::from_str(json).map_err(|error| format!("not JSON: {error}"))?;
    let ok = value["ok"].as_bool().ok_or("`ok` is missing or not a boolean")?;
    // Not required here, unlike in the schema: a "no" must not be lost because its reason is missing.
    let reason = value["reason"].as_str().unwrap_or("").to_owned();
    let says = |key: &str| value[key].as_bool().unwrap_or(false);
    Ok(Verdict { ok, reason, impossible: says("impossible"), needs_tools: says("needs_tools") })
}

impl Verdict {
    /// Converts a verdict into a result; consent is an empty one. An impossible condition lets the agent stop, or it
    /// would try forever; a "no" after a call also ends the turn unless `continueOnBlock` is set.
    fn into_answer(self, hook: &PromptHook, event: &HookEvent) -> Answer {
        if self.ok {
            return Answer::default();
        }
        let is_stop = matches!(event, HookEvent::Stop | HookEvent::SubagentStop);
        if self.impossible && is_stop {
            let output = HookOutput { system_message: Some(self.reason), ..HookOutput::default() };
            return Answer { output, ..Answer::default() };
        }
        let mut answer = Answer { refusal: Some(self.reason.clone()), ..Answer::default() };
        let after_the_fact = matches!(event, HookEvent::PostToolUse | HookEvent::PostToolUseFailure);
        if after_the_fact && hook.continue_on_block != Some(true) {
            answer.output.continue_ = Some(false);
            answer.output.stop_reason = Some(self.reason);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_goes_where_the_author_wants_it() {
        assert_eq!(filled("Is $ARGUMENTS fine?", "{}"), "Is {} fine?");
        assert_eq!(filled("Fine?", "{}"), "Fine?\n\n{}");
    }

    #[test]
    fn verdicts_are_found_in_what_models_write() {
        for text in [
            r#"{"ok":false,"reason":"no"}"#,
            "```json\n{\"ok\": false, \"reason\": \"no\"}\n```",
            "Sure: {\"ok\":false,\"reason\":\"no\"} - as you asked.",
        ] {
            let verdict = read(text).map_err(|why| format!("{text}: {why}")).unwrap();
            assert!(!verdict.ok);
            assert_eq!(verdict.reason, "no");
        }
        for text in ["", "no", "}{", "{\"ok\":\"yes\"}", "{\"reason\":\"x\"}", "{ok}"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
