//! ScheduleWakeup: the model has itself woken after a while, to look at something again.

use std::sync::LazyLock;

use futures_util::future::BoxFuture;
use lathe_protocol::{CallSubject, SessionAccess};
use serde_json::{Value, json};

use crate::{
    Content, Loading, Offered, Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput, WakeUpRequest,
};

/// The shortest and the longest delay, in seconds.
const DELAYS: (f64, f64) = (60.0, 3600.0);

/// Characters of a prompt.
const MAX_PROMPT_CHARS: usize = 10_000;

/// The ScheduleWakeup tool.
#[derive(Debug, Default)]
pub struct ScheduleWakeup;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "delaySeconds": { "type": "number", "description": "From now; 60 to 3600" },
            "reason": { "type": "string", "description": "What is waited for, in a few words" },
            "prompt": { "type": "string", "description": "What the session is asked when it wakes" },
            "stop": { "type": "boolean", "description": "true: cancels the wake-up instead" },
            "noop": { "type": "boolean", "description": "Whether this turn found nothing to do; changes nothing" },
        },
        "additionalProperties": false,
    })
});

impl ScheduleWakeup {
    /// The name of the tool.
    pub const NAME: &'static str = "ScheduleWakeup";
}

impl Tool for ScheduleWakeup {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            current: Offered::WithSchedule,
            sdk_0_2: Offered::Never,
            cli_1_0: Offered::Never,
            loading: Loading::Always,
            bare: false,
            // The turn it starts is the main agent's.
            for_subagents: false,
            for_background_agents: false,
        }
    }

    fn description(&self) -> &str {
        "Wakes this session once after a delay, for work that has to be looked at again, as in /loop. There is one \
         wake-up at a time: a new one replaces it. Background commands and monitors report by themselves and need none."
    }

    fn input_schema(&self) -> &Value {
        &SCHEMA
    }

    fn main_input(&self) -> Option<&str> {
        Some("reason")
    }

    fn subject(&self, _: &Value) -> CallSubject {
        CallSubject::Session(SessionAccess::Changes)
    }

    fn check(&self, input: &Value) -> Result<(), ToolFailure> {
        let rejected = |why: &str| Err(ToolFailure::Rejected(why.to_owned()));
        if input["stop"] == true {
            return Ok(());
        }
        if !input["delaySeconds"].is_number() {
            return rejected(
                "delaySeconds is missing: say when to wake, or stop: true to cancel the wake-up.",
            );
        }
        match input["prompt"].as_str().map(|prompt| prompt.chars().count()) {
            Some(count) if count > MAX_PROMPT_CHARS => {
                rejected(&format!("The prompt has {count} characters; {MAX_PROMPT_CHARS} are the most."))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        let output = if input["stop"] == true { cancel(context) } else { schedule(input, context) };
        Box::pin(std::future::ready(Ok(output)))
    }
}

/// Cancels the wake-up, if one is set, and returns the output of the call.
fn cancel(context: &ToolContext) -> ToolOutput {
    let cancelled = context.session.cancel_wake_up();
    let text = match cancelled {
        0 => "There was no wake-up to cancel.",
        _ => "The wake-up is cancelled.",
    };
    let result = json!({
        "scheduledFor": 0,
        "clampedDelaySeconds": 0,
        "wasClamped": false,
        "stopped": true,
        "cancelledWakeups": cancelled,
    });
    ToolOutput::new(Content::Text(text.to_owned()), result)
}

/// Sets the wake-up of the session, in place of an earlier one, with the delay clamped to the permitted range. Without
/// a prompt the session is asked with a text that repeats the reason. Returns the output of the call.
fn schedule(input: &Value, context: &ToolContext) -> ToolOutput {
    let asked = input["delaySeconds"].as_f64().unwrap_or_default();
    let delay = asked.clamp(DELAYS.0, DELAYS.1);
    let was_clamped = delay != asked;
    let given = |field: &str| input[field].as_str().map(str::trim).filter(|text| !text.is_empty());
    let prompt = given("prompt").map(str::to_owned).unwrap_or_else(|| match given("reason") {
        Some(reason) => format!("This is the wake-up that was scheduled. It waits for: {reason}"),
        None => "This is the wake-up that was scheduled.".to_owned(),
    });
    let delay_seconds = delay.ceil() as u64;
    let scheduled = context.session.schedule_wake_up(WakeUpRequest { delay_seconds, prompt });
    let clamped =
        if was_clamped { format!(" (the delay was clamped to {delay_seconds}s)") } else { String::new() };
    let text = format!(
        "Next wakeup scheduled for {} (in {}s){clamped}. End the turn when its work is done: the session is woken then, \
         or earlier by a notice.",
        scheduled.at.strftime("%H:%M:%S"),
        scheduled.in_seconds,
    );
    let result = json!({
        "scheduledFor": scheduled.at.timestamp().as_millisecond(),
        "clampedDelaySeconds": delay_seconds,
        "wasClamped": was_clamped,
    });
    ToolOutput::new(Content::Text(text), result)
}
