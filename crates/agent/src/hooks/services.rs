//! What the hook engine needs of a session, one small type for each of its traits: the host that runs callbacks, the
//! rule language for `if`, the client for HTTP hooks. Models are asked in `prompt_model.rs`.

use std::path::Path;
use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use lathe_hooks::{CallbackCall, CallbackError, Callbacks, HookEngine, HttpPoster, RuleMatcher, Services};
use lathe_models::web::WebClient;
use lathe_permissions::{
    Decision, DescribedCall, EngineConfig, PermissionEngine, PermissionQuestion, PermissionScope,
    PermissionScopeConfig, RuleSource,
};
use lathe_protocol::web::{JsonPost, WebError, WebReply};
use lathe_protocol::{HookCallbackRequest, PermissionBehavior};
use serde_json::Value;

use crate::hooks::prompt_model::PromptHookModel;
use crate::state::config::{AgentConfig, HooksConfig};
use crate::state::host_questions::AskError;
use crate::state::process::ProcessServices;
use crate::state::services::IfRules;
use crate::state::services::SessionServices;

/// Builds the engine with the hooks of settings files; hooks that cannot run as written are reported to the host. The
/// engine holds the session weakly, because the session owns it: once the session is gone, callbacks and prompt hooks
/// fail.
pub fn hook_engine(
    session: &Weak<SessionServices>,
    process: &ProcessServices,
    main: &AgentConfig,
    hooks: HooksConfig,
) -> HookEngine {
    let ids = process.host.clone();
    let services = Services {
        ledger: main.workspace.ledger.clone(),
        limit: process.limits.hooks.clone(),
        new_id: Arc::new(move || ids.uuid()),
        callbacks: Some(Arc::new(HostCallbacks(session.clone()))),
        prompter: Some(Arc::new(PromptHookModel(session.clone()))),
        http: Some(Arc::new(WebHooks(hooks.web))),
    };
    let engine = HookEngine::new(services, hooks.options);
    for (source, settings) in hooks.registered {
        let warnings = engine.register(source, &settings);
        main.journal.files().report(warnings.iter().map(ToString::to_string));
    }
    engine
}

/// Calls the hooks of the host.
pub struct HostCallbacks(pub Weak<SessionServices>);

impl Callbacks for HostCallbacks {
    fn call<'a>(&'a self, call: CallbackCall<'a>) -> BoxFuture<'a, Result<Value, CallbackError>> {
        Box::pin(async move {
            let Some(session) = self.0.upgrade() else { return Err(CallbackError::Closed) };
            let request = HookCallbackRequest {
                callback_id: call.callback_id.to_owned(),
                input: call.input.clone(),
                tool_use_id: Some(call.tool_use_id.to_owned()),
                ..HookCallbackRequest::default()
            };
            let event = call.event.as_str();
            let waits_for = format!("hook-{event}-{}", call.tool_use_id);
            let answer = tokio::select! {
                biased;
                answer = session.ask(request, call.cancel, Some(call.timeout)) => answer,
                never = session.beat(event, &waits_for) => match never {},
            };
            answer.map_err(|error| match error {
                AskError::Closed => CallbackError::Closed,
                AskError::Withdrawn => CallbackError::Cancelled,
                AskError::TimedOut(_) => CallbackError::TimedOut,
                AskError::Refused(text) => CallbackError::Refused(text),
            })
        })
    }
}

/// Evaluates the `if` of a hook with the rule language of permissions, for one event and the call it is about. A call
/// matches if an engine with this one deny rule refuses it, so a command is found wherever it is nested. A shell
/// command in it was parsed when the call was described.
pub struct CallRules<'a> {
    pub rules: &'a IfRules,
    /// The worktree that the agent works in: rules count there as they do in the project.
    pub worktree: Option<&'a Path>,
    pub call: Option<&'a DescribedCall>,
}

impl RuleMatcher for CallRules<'_> {
    fn matches(&self, rule: &str, tool_name: &str, tool_input: &Value) -> Option<bool> {
        let root = &self.rules.root;
        let mut engine = PermissionEngine::new(EngineConfig {
            root: Some(root.clone()),
            home: self.rules.home.clone(),
            ..EngineConfig::default()
        });
        if let Some(worktree) = self.worktree {
            engine.add_root(worktree);
        }
        // A deny rule matches a part of a compound command; an allow rule would have to cover all of it.
        let warnings = engine.add_rules(PermissionBehavior::Deny, RuleSource::Session, [rule]);
        if !warnings.is_empty() {
            return None;
        }
        let scope = PermissionScope::new(PermissionScopeConfig {
            working_dirs: vec![root.clone()],
            ..PermissionScopeConfig::default()
        });
        let unknown = DescribedCall::unknown();
        let question = PermissionQuestion {
            tool: tool_name,
            input: tool_input,
            call: self.call.unwrap_or(&unknown),
            cwd: root,
            scope: &scope,
        };
        Some(matches!(engine.decide(&question), Decision::Deny(denied) if denied.reason.rule().is_some()))
    }
}

/// Sends the requests of HTTP hooks.
pub struct WebHooks(pub Arc<WebClient>);

impl HttpPoster for WebHooks {
    fn post<'a>(&'a self, post: JsonPost<'a>) -> BoxFuture<'a, Result<WebReply, WebError>> {
        Box::pin(self.0.post(post))
    }
}
