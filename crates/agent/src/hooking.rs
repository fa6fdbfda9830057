//! Where the loop and the hooks meet: puts the input of an event together, lets the engine run it, and
//! shows what the host should see. What an answer means for the event is decided by whoever fired it.

use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use lathe_hooks::{
    CallbackCall, CallbackError, Callbacks, HookEvents, HookFrame, Outcome, RuleMatcher, RunContext,
};
use lathe_permissions::{Call, Decision, Engine, EngineConfig, RuleSource};
use lathe_protocol::hooks::{HookBase, HookEffort, HookEventInput};
use lathe_protocol::{HookCallbackRequest, HookEvent, HookInput, Outbound, PermissionBehavior};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::ask::AskError;
use crate::shared::Shared;

/// Asks the host for its hooks.
pub struct HostCallbacks(pub Weak<Shared>);

impl Callbacks for HostCallbacks {
    fn call<'a>(&'a self, call: CallbackCall<'a>) -> BoxFuture<'a, Result<Value, CallbackError>> {
        Box::pin(async move {
            let Some(shared) = self.0.upgrade() else { return Err(CallbackError::Closed) };
            let request = HookCallbackRequest {
                callback_id: call.callback_id.to_owned(),
                input: call.input.clone(),
                tool_use_id: Some(call.tool_use_id.to_owned()),
                ..HookCallbackRequest::default()
            };
            shared.ask(request, call.cancel, Some(call.timeout)).await.map_err(|error| match error {
                AskError::Closed => CallbackError::Closed,
                AskError::Withdrawn => CallbackError::Cancelled,
                AskError::TimedOut(_) => CallbackError::TimedOut,
                AskError::Refused(text) => CallbackError::Refused(text),
            })
        })
    }
}

/// Evaluates the `if` of a hook with the rule language of permissions: a call that an engine with this one
/// allow rule lets run is covered by it.
pub struct IfRules;

impl RuleMatcher for IfRules {
    fn matches(&self, rule: &str, tool_name: &str, tool_input: &Value) -> Option<bool> {
        let mut engine = Engine::new(EngineConfig::default());
        let warnings = engine.add_rules(PermissionBehavior::Deny, RuleSource::Session, [rule]);
        if !warnings.is_empty() {
            return None;
        }
        let cwd = std::path::Path::new("/");
        let call = Call { tool: tool_name, input: tool_input, cwd, ..Call::default() };
        Some(matches!(engine.decide(&call), Decision::Deny(denied) if denied.reason.rule().is_some()))
    }
}

/// Shows the frames of command hooks.
struct Frames {
    shared: Arc<Shared>,
}

impl HookEvents for Frames {
    fn emit(&self, frame: HookFrame) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if frame.is_always_shown() || self.shared.options.hook_events {
                let uuid = self.shared.frames.uuid();
                self.shared.emit(Outbound::System(frame.into_message(uuid))).await;
            }
        })
    }
}

impl Shared {
    /// Whether any hook waits for an event.
    pub(crate) fn listens(&self, event: &HookEvent) -> bool {
        self.hooks.listens(event)
    }

    /// Runs the hooks of an event. What they want the user to see is shown here.
    pub(crate) async fn fire(
        self: &Arc<Self>,
        event: impl Into<HookEventInput>,
        tool_use_id: Option<&str>,
        cancel: &CancellationToken,
    ) -> Outcome {
        let input = HookInput { base: self.hook_base(), event: event.into() };
        if !self.listens(&input.event_name()) {
            return Outcome::default();
        }
        let cwd = self.workspace.cwd();
        let context = RunContext {
            cwd: &cwd,
            project_dir: &self.workspace.root,
            env: &self.hook_env,
            env_file: None,
            spill_dir: Some(&self.workspace.output_dir),
            tool_use_id,
            cancel,
            events: Arc::new(Frames { shared: self.clone() }),
        };
        let outcome = self.hooks.run(&input, context).await;
        for mut notice in outcome.notices() {
            notice.uuid = self.frames.uuid();
            notice.session_id = self.frames.session_id();
            self.emit(Outbound::system(notice)).await;
        }
        outcome
    }

    /// What every hook is told.
    fn hook_base(&self) -> HookBase {
        let journal = self.journal();
        HookBase {
            session_id: self.frames.session_id(),
            transcript_path: journal.path().map(|path| path.display().to_string()).unwrap_or_default(),
            cwd: self.workspace.cwd().display().to_string(),
            prompt_id: journal.prompt_id(),
            permission_mode: Some(self.permissions().mode().to_string()),
            effort: self.effort().map(|level| HookEffort { level, ..HookEffort::default() }),
            ..HookBase::default()
        }
    }
}
