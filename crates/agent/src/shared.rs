//! What the parts of one session share: the immutable pieces it was made of, the few that change while
//! it runs (behind a lock that is never held across a wait), and the way out for frames.

use std::sync::{Arc, Mutex, MutexGuard};

use lathe_models::retry::RetryPolicy;
use lathe_models::{Model, SystemPart};
use lathe_permissions::Engine;
use lathe_protocol::{Init, Outbound};
use lathe_tools::{ToolSet, Workspace};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::ask::Questions;
use crate::config::{FrameOptions, ModelChoice, TurnLimits};
use crate::frames::Frames;
use crate::host::Host;
use crate::totals::Totals;

/// One session's common ground.
pub struct Shared {
    pub host: Arc<dyn Host>,
    pub model: Arc<dyn Model>,
    pub retry: RetryPolicy,
    pub tools: ToolSet,
    /// Names of tools that exist, whether this session has them or not.
    pub known_tools: Vec<String>,
    pub workspace: Arc<Workspace>,
    pub frames: Frames,
    pub options: FrameOptions,
    pub limits: TurnLimits,
    pub system: Vec<SystemPart>,
    pub init: Init,
    /// What the host has been asked and not yet answered.
    pub questions: Questions,
    /// Fires when the session has to end: its reader is gone, or it was told to.
    pub stop: CancellationToken,
    out: mpsc::Sender<Outbound>,
    permissions: Mutex<Engine>,
    choice: Mutex<ModelChoice>,
    totals: Mutex<Totals>,
}

impl Shared {
    pub(crate) fn new(config: SessionParts, out: mpsc::Sender<Outbound>, stop: CancellationToken) -> Self {
        Self {
            frames: Frames::new(config.session_id, config.host.clone()),
            host: config.host,
            model: config.model,
            retry: config.retry,
            tools: config.tools,
            known_tools: config.known_tools,
            workspace: config.workspace,
            options: config.options,
            limits: config.limits,
            system: config.system,
            init: config.init,
            questions: Questions::default(),
            stop,
            out,
            permissions: Mutex::new(config.permissions),
            choice: Mutex::new(config.choice),
            totals: Mutex::default(),
        }
    }

    /// Hands a frame to the host. A slow host slows the session here; a host that is gone ends it.
    pub async fn emit(&self, frame: impl Into<Outbound>) {
        if self.out.send(frame.into()).await.is_err() {
            self.stop.cancel();
        }
    }

    /// The permission engine.
    pub fn permissions(&self) -> MutexGuard<'_, Engine> {
        self.permissions.lock().expect("no panic while deciding")
    }

    /// The model choice, which a host may change between two requests.
    pub fn choice(&self) -> MutexGuard<'_, ModelChoice> {
        self.choice.lock().expect("no panic while choosing a model")
    }

    /// What the session has used so far.
    pub fn totals(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock().expect("no panic while adding up")
    }

    /// Whether the spending limit is reached.
    pub fn over_budget(&self) -> bool {
        self.limits.max_budget_usd.is_some_and(|limit| self.totals().cost_usd() >= limit)
    }
}

/// The pieces of a [`crate::SessionConfig`] that end up shared.
pub(crate) struct SessionParts {
    pub session_id: String,
    pub host: Arc<dyn Host>,
    pub model: Arc<dyn Model>,
    pub choice: ModelChoice,
    pub retry: RetryPolicy,
    pub tools: ToolSet,
    pub known_tools: Vec<String>,
    pub workspace: Arc<Workspace>,
    pub permissions: Engine,
    pub system: Vec<SystemPart>,
    pub limits: TurnLimits,
    pub options: FrameOptions,
    pub init: Init,
}
