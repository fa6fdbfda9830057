//! The frames of a command hook: started, output so far, ended. The agent decides whether a client gets them.

use std::sync::Arc;
use std::time::Duration;

use lathe_exec::Exit;
use lathe_protocol::system::{HookProgress, HookResponse, HookStarted};
use lathe_protocol::{HookEvent, SystemMessage};
use tokio_util::sync::CancellationToken;

use crate::HookEvents;
use crate::event::Shown;
use crate::process::Printed;

/// One frame. All fields except `uuid` are filled in.
#[derive(Debug, Clone, PartialEq)]
pub enum HookFrame {
    /// A command hook began.
    Started(HookStarted),
    /// It has printed something. The frame holds all output so far.
    Progress(HookProgress),
    /// It ended.
    Response(HookResponse),
}

impl HookFrame {
    /// Returns whether clients get the frame without asking for hook events, as they do at the start of a session.
    pub fn is_always_shown(&self) -> bool {
        let event = match self {
            Self::Started(frame) => &frame.hook_event,
            Self::Progress(frame) => &frame.hook_event,
            Self::Response(frame) => &frame.hook_event,
        };
        matches!(HookEvent::from(event.as_str()), HookEvent::SessionStart | HookEvent::Setup)
    }

    /// Converts the frame into a message with the given id; without one, frames have an empty `uuid`.
    pub fn into_message(self, uuid: String) -> SystemMessage {
        match self {
            Self::Started(frame) => HookStarted { uuid, ..frame }.into(),
            Self::Progress(frame) => HookProgress { uuid, ..frame }.into(),
            Self::Response(frame) => HookResponse { uuid, ..frame }.into(),
        }
    }
}

/// How long a reader may take for one more frame after the run was cancelled.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// Writes the frames of one hook.
#[derive(Clone)]
pub(crate) struct FrameWriter {
    pub sink: Arc<dyn HookEvents>,
    pub shown: Shown,
    pub hook_id: String,
    pub hook_name: String,
    pub hook_event: String,
    pub session_id: String,
}

/// The end of a hook, as its last frame reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameEnd {
    Exited(Exit),
    /// It did not start.
    Failed,
    /// It was killed, by its timeout or because the run was cancelled.
    Cancelled,
}

impl FrameWriter {
    /// Reports the start of the hook. The end must then be reported too, with [`Self::ended`], also if the command does
    /// not start.
    pub async fn started(&self, cancel: &CancellationToken) {
        let frame = HookStarted {
            hook_id: self.hook_id.clone(),
            hook_name: self.hook_name.clone(),
            hook_event: self.hook_event.clone(),
            session_id: self.session_id.clone(),
            ..HookStarted::default()
        };
        self.send(HookFrame::Started(frame), cancel).await;
    }

    /// Reports the output so far: all of it, and not only what is new since the last report.
    pub async fn progress(&self, printed: &Printed, cancel: &CancellationToken) {
        let frame = HookProgress {
            hook_id: self.hook_id.clone(),
            hook_name: self.hook_name.clone(),
            hook_event: self.hook_event.clone(),
            stdout: printed.stdout.frame_text(),
            stderr: printed.stderr.frame_text(),
            output: printed.both.frame_text(),
            session_id: self.session_id.clone(),
            ..HookProgress::default()
        };
        self.send(HookFrame::Progress(frame), cancel).await;
    }

    /// Reports the end of the hook with its output. Must be the last frame of the hook.
    pub async fn ended(&self, printed: &Printed, end: FrameEnd, cancel: &CancellationToken) {
        let (exit_code, outcome) = match end {
            FrameEnd::Exited(Exit::Code(code)) => (Some(code), if code == 0 { "success" } else { "error" }),
            FrameEnd::Exited(Exit::Signal(_) | Exit::Lost) | FrameEnd::Failed => (None, "error"),
            FrameEnd::Cancelled => (None, "cancelled"),
        };
        let frame = HookResponse {
            hook_id: self.hook_id.clone(),
            hook_name: self.hook_name.clone(),
            hook_event: self.hook_event.clone(),
            output: printed.both.frame_text(),
            stdout: printed.stdout.frame_text(),
            stderr: printed.stderr.frame_text(),
            exit_code,
            outcome: outcome.to_owned(),
            session_id: self.session_id.clone(),
            ..HookResponse::default()
        };
        self.send(HookFrame::Response(frame), cancel).await;
    }

    /// Sends a frame, unless the hooks of this event send none. Waits for a slow reader, but not longer than
    /// [`LAST_PATIENCE`] after a cancellation.
    async fn send(&self, frame: HookFrame, cancel: &CancellationToken) {
        if self.shown == Shown::Nothing {
            return;
        }
        // A cancelled hook still sends its last frame, but a reader that is stuck must not hold up the cancellation.
        let patience = async {
            cancel.cancelled().await;
            tokio::time::sleep(LAST_PATIENCE).await;
        };
        tokio::select! {
            biased;
            () = self.sink.emit(frame) => {}
            () = patience => {}
        }
    }
}
