//! The connection between the loop and the hooks: builds the input of an event, lets the engine run it, and shows what
//! the host should see. The code that fires an event decides what the outcome means for it.
//!
//! [`lifecycle`] begins and ends a conversation, [`submit`] precedes a turn (`turn/stop_hooks.rs` ends it), [`tools`]
//! surrounds each call; [`services`] and [`prompt_model`] are what the engine needs of a session, [`async_output`]
//! keeps what hooks said after their event.

pub(crate) mod async_output;
pub(crate) mod lifecycle;
pub(crate) mod prompt_model;
pub(crate) mod services;
pub(crate) mod submit;
pub(crate) mod tools;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use lathe_hooks::{HookEvents, HookFrame, Outcome, RunContext, StopRequest};
use lathe_models::catalog;
use lathe_permissions::DescribedCall;
use lathe_protocol::hooks::{HookBase, HookEffort, HookEventInput};
use lathe_protocol::system::Informational;
use lathe_protocol::{HookEvent, HookInput, Outbound};
use tokio_util::sync::CancellationToken;

use crate::hooks::services::CallRules;
use crate::state::agent::{AgentHandle, AgentIdentity};
use crate::state::services::SessionServices;

/// The call that an event is about.
#[derive(Clone, Copy)]
pub(crate) struct AboutCall<'a> {
    /// Id of the `tool_use` block.
    pub id: &'a str,
    /// The description of a call with the input that the hooks see.
    pub description: &'a DescribedCall,
}

/// Sends the frames of command hooks.
struct Frames {
    agent: Arc<AgentHandle>,
}

impl HookEvents for Frames {
    fn emit(&self, frame: HookFrame) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if frame.is_always_shown() || self.agent.session.options.hook_events {
                let uuid = self.agent.frames.uuid();
                self.agent.session.emit(Outbound::System(frame.into_message(uuid))).await;
            }
        })
    }
}

impl AgentHandle {
    /// Runs the hooks of an event and shows the host their notices. Returns what all hooks together want, on which the
    /// caller has to act; after a cancellation nothing in it is a verdict, so guards have to check the token. An event
    /// without hooks has the empty outcome; `about` is the call that the event concerns, if any.
    pub(crate) async fn fire(
        self: &Arc<Self>,
        event: impl Into<HookEventInput>,
        about: Option<AboutCall<'_>>,
        cancel: &CancellationToken,
    ) -> Outcome {
        let outcome = self.fire_without_notices(event, about, cancel).await;
        for notice in outcome.notices() {
            self.session.show(notice).await;
        }
        outcome
    }

    /// Runs the hooks of an event without showing their notices, which the caller shows at the place where they belong.
    /// Files to watch and exported variables take effect here, because every event may bring them. An event without
    /// hooks has the empty outcome, and nothing is built for it.
    pub(crate) async fn fire_without_notices(
        self: &Arc<Self>,
        event: impl Into<HookEventInput>,
        about: Option<AboutCall<'_>>,
        cancel: &CancellationToken,
    ) -> Outcome {
        let event = event.into();
        let name = HookEvent::from(event.tag());
        // Most events have no hooks, so nothing is built before this.
        if !self.session.listens(&name) {
            return Outcome::default();
        }
        let input = HookInput { base: self.hook_base(&name), event };
        // Taken once: paths that the hooks name are relative to the folder they ran in.
        let cwd = self.workspace.cwd();
        let view = self.view();
        let worktree = view.worktree.as_ref().map(|inside| inside.tree.folder.as_path());
        let env = self.session.hook_env();
        let env_file = self.session.env_files.prepare(&name);
        let context = RunContext {
            cwd: &cwd,
            project_dir: self.session.hook_project.as_deref().unwrap_or(&self.workspace.root),
            env: &env,
            env_file: env_file.as_deref(),
            spill_dir: Some(&self.workspace.output_dir),
            tool_use_id: about.map(|about| about.id),
            cancel,
            events: Arc::new(Frames { agent: self.clone() }),
            rules: &CallRules {
                rules: &self.session.if_rules,
                worktree,
                call: about.map(|about| about.description),
            },
        };
        // On the heap: events are fired from many places, and the future of each would contain all of this.
        let outcome = Box::pin(self.session.hooks.run(&input, context)).await;
        if env_file.is_some() {
            self.take_env_files().await;
        }
        self.session.watch.add_paths(&outcome.watch_paths, &cwd);
        outcome
    }

    /// Builds the fields that the input of every hook has. [`told_about_the_turn`] decides for each event whether they
    /// include the permission mode and the effort; the effort is also absent if the model has none.
    fn hook_base(&self, event: &HookEvent) -> HookBase {
        let view = self.view();
        let (has_mode, has_effort) = told_about_the_turn(event);
        let transcript = self.session.files.path();
        let mut base = HookBase {
            session_id: self.frames.session_id(),
            transcript_path: transcript.map(|path| path.display().to_string()).unwrap_or_default(),
            cwd: self.workspace.cwd().display().to_string(),
            prompt_id: view.prompt_id.clone(),
            ..HookBase::default()
        };
        if let AgentIdentity::Child(child) = &self.identity {
            base.agent_id = Some(child.agent_id.clone());
            base.agent_type = Some(child.agent_type.clone());
        }
        base.permission_mode = has_mode.then(|| view.scope.mode().to_string());
        let wanted = has_effort.then(|| self.effort()).flatten();
        let model = catalog::capabilities(&view.choice.id);
        let level = wanted.and_then(|level| model.clamp_effort(&level).map(str::to_owned));
        base.effort = level.map(|level| HookEffort { level, ..HookEffort::default() });
        base
    }
}

impl SessionServices {
    /// Returns whether any hook that may run is registered for an event. Asked first, so that nothing is built for an
    /// event without hooks.
    pub(crate) fn listens(&self, event: &HookEvent) -> bool {
        self.hooks.listens(event)
    }

    /// Tells the host that a hook ends the turn, and why. Does not end it.
    pub(crate) async fn tell_stop(&self, stop: &StopRequest) {
        let why = stop.reason.as_deref().filter(|reason| !reason.trim().is_empty());
        let text = match why {
            Some(why) => format!("{} hook stopped the turn: {why}", stop.hook_name),
            None => format!("{} hook stopped the turn", stop.hook_name),
        };
        self.emit(self.frames.stopped_by_hook(&text)).await;
    }

    /// Sends a notice of a hook to the host, after filling in its ids.
    pub(crate) async fn show(&self, mut notice: Informational) {
        notice.uuid = self.frames.uuid();
        notice.session_id = self.frames.session_id();
        self.emit(Outbound::system(notice)).await;
    }
}

/// Returns two flags: whether the input for an event carries `permission_mode`, and whether it carries `effort`.
fn told_about_the_turn(event: &HookEvent) -> (bool, bool) {
    match event {
        HookEvent::PreToolUse
        | HookEvent::PostToolUse
        | HookEvent::PostToolUseFailure
        | HookEvent::PostToolBatch
        | HookEvent::PermissionRequest
        | HookEvent::PermissionDenied
        | HookEvent::Stop
        | HookEvent::SubagentStop => (true, true),
        HookEvent::UserPromptSubmit | HookEvent::UserPromptExpansion => (true, false),
        HookEvent::Notification
        | HookEvent::SessionStart
        | HookEvent::SessionEnd
        | HookEvent::SubagentStart
        | HookEvent::PreCompact
        | HookEvent::StopFailure
        | HookEvent::PostCompact
        | HookEvent::PreModelSwitch
        | HookEvent::PostModelSwitch
        | HookEvent::Setup
        | HookEvent::TeammateIdle
        | HookEvent::TaskCreated
        | HookEvent::TaskCompleted
        | HookEvent::Elicitation
        | HookEvent::ElicitationResult
        | HookEvent::ConfigChange
        | HookEvent::WorktreeCreate
        | HookEvent::WorktreeRemove
        | HookEvent::InstructionsLoaded
        | HookEvent::CwdChanged
        | HookEvent::FileChanged
        | HookEvent::DirectoryAdded
        | HookEvent::MessageDisplay
        | HookEvent::Unknown(_) => (false, false),
    }
}
