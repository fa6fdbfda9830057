//! A child agent: it has a conversation, tools, a prompt, a model and a folder of its own, and shares everything else
//! with the session. Its turn is the same as the main agent's; its frames and records say which call started it.
//!
//! When it ends, its commands are stopped and its file is closed. Nothing else of the session is affected.

use std::path::PathBuf;

use lathe_exec::ScopeEndPolicy;
use lathe_models::catalog::Phase as CatalogPhase;
use lathe_protocol::{ContentBlock, InboundUser};
use lathe_tools::{AgentEnd, AgentPlace, AgentReport, AgentRequest, ShellFolder, Workspace};
use lathe_transcript::record::Envelope;
use lathe_transcript::{AgentMeta, Durability, SessionPaths, TranscriptWriter, write_agent_meta};
use tokio_util::sync::CancellationToken;

use crate::record::journal::{AgentJournal, SessionFile};
use crate::state::agent::{Agent, AgentHandle, ChildIdentity};
use crate::state::compact_policy::CompactPolicy;
use crate::state::config::{AgentConfig, AgentModel, TurnLimits};
use crate::state::prompt::{PromptChoice, SystemPrompt};
use crate::turn::Turn;
use crate::turn::decide::TurnEnding;
use crate::turn::outcome::TurnHandle;
use crate::turn::outcome::TurnOutcome;
use crate::turn::stats::TurnStats;

impl AgentHandle {
    /// Runs a child agent until it has responded to its prompt, ends its commands and its file, and reports the
    /// outcome. `tool_use_id` is the call that asks for it; cancelling `cancel`, the token of that call, interrupts the
    /// child.
    pub(crate) async fn run_child(
        &self,
        request: AgentRequest,
        tool_use_id: &str,
        cancel: &CancellationToken,
    ) -> AgentReport {
        let prompt = request.prompt.clone();
        let mut child = self.open_child(request, tool_use_id);
        let handle = TurnHandle { cancel: cancel.child_token(), preempt: CancellationToken::new() };
        let mut turn = Turn::new(&mut child, &handle, TurnStats::new(&InboundUser::default()));
        turn.agent.history.add_user_text(&prompt);
        let frame = turn.agent.handle.frames.user(vec![ContentBlock::text(&prompt)]);
        turn.say_as_user(frame).await;
        // On the heap: a turn inside a turn would otherwise be on the stack twice.
        let outcome = Box::pin(turn.run()).await;
        let text = std::mem::take(&mut turn.stats.last_text);
        let end = match outcome {
            TurnOutcome::Ended(ending) => end_of(ending),
            TurnOutcome::Interrupted(_) => AgentEnd::Interrupted,
            TurnOutcome::Failed(error) => AgentEnd::Failed(error.to_string()),
            TurnOutcome::OutOfRoom(_) => {
                AgentEnd::Failed("its conversation filled the model's window".to_owned())
            }
            // Does not happen: a child's prompt is never taken for a command.
            TurnOutcome::Command(_) => AgentEnd::Completed,
        };
        let agent_id = child.close().await;
        AgentReport { agent_id, text, end }
    }

    /// Builds a child agent with a fresh id and opens its session file. The child starts with a copy of its parent's
    /// permissions, with the prompt and tools of the request, and without memory files.
    fn open_child(&self, request: AgentRequest, tool_use_id: &str) -> Agent {
        let identity = ChildIdentity {
            agent_id: self.session.process.host.uuid(),
            agent_type: request.agent_type.clone(),
            parent_tool_use_id: tool_use_id.to_owned(),
        };
        let journal = self.open_child_file(&identity, &request);
        let config = AgentConfig {
            choice: self.choice_of_child(request.model.as_deref()),
            workspace: self.workspace_of_child(request.folder),
            // It has its own conversation, in which nothing is loaded yet.
            tools: request.tools.unloading_all_but(&[]).0,
            // The child may do what its parent may do; later changes of one do not affect the other.
            scope: self.view().scope.clone(),
            system: SystemPrompt {
                choice: PromptChoice { replace: Some(request.system_prompt), ..PromptChoice::default() },
                ..SystemPrompt::default()
            },
            limits: TurnLimits { max_rounds: request.max_rounds, ..TurnLimits::default() },
            compaction: CompactPolicy::default(),
            journal,
            memory: None,
        };
        Agent::child(self.session.clone(), identity, config)
    }

    /// Returns the parent's model choice without its task budget, with the model that `model` names in place of the
    /// parent's, if it names one.
    fn choice_of_child(&self, model: Option<&str>) -> AgentModel {
        // The budget is that of the whole task, of which the child does a part.
        let mut choice = AgentModel { task_budget: None, ..self.choice().as_ref().clone() };
        if let Some(name) = model {
            choice.id = self.session.process.catalog.resolve(name, CatalogPhase::Working);
        }
        choice
    }

    /// Returns the workspace of a child: its own place in `folder` (without one, where the parent's shell stands), and
    /// a scope of the ledger of its own, so that its commands end with it. Its shell stays in that folder; other limits
    /// and the environment are the parent's.
    fn workspace_of_child(&self, folder: Option<PathBuf>) -> Workspace {
        let place = self.workspace.place();
        let mut workspace = self.workspace.as_ref().clone();
        let root = folder.unwrap_or_else(|| place.cwd.clone());
        workspace.ledger = self.workspace.ledger.open_scope("agent");
        workspace.root.clone_from(&root);
        workspace.limits.shell_folder = ShellFolder::StaysAtRoot;
        let place = AgentPlace { cwd: root, directories: place.directories.clone(), ..AgentPlace::default() };
        workspace.with_own_place(place)
    }

    /// Opens the child's journal in a file beside the session's, and writes the sidecar file that describes the agent.
    /// If the session is not saved, nothing is written. Problems are reported to the session's files and stop nothing.
    fn open_child_file(&self, identity: &ChildIdentity, request: &AgentRequest) -> AgentJournal {
        let (files, id) = (&self.session.files, &identity.agent_id);
        if let Some(main) = files.path() {
            let paths = SessionPaths::of_transcript(&main);
            let writer = TranscriptWriter::create(&paths.subagent(id), Durability::ProcessCrash);
            let meta = AgentMeta {
                agent_type: Some(identity.agent_type.clone()),
                description: Some(request.description.clone()),
                tool_use_id: Some(identity.parent_tool_use_id.clone()),
                parent_agent_id: self.identity.child().map(|parent| parent.agent_id.clone()),
                ..AgentMeta::default()
            };
            let described = write_agent_meta(&paths.subagent_meta(id), &meta);
            files.report(described.err().map(|error| error.to_string()).into_iter());
            files.open_agent(id, writer);
        }
        let envelope = Envelope {
            session_id: self.frames.session_id(),
            agent_id: Some(id.clone()),
            ..self.session.envelope.clone()
        };
        AgentJournal::of_file(files.clone(), SessionFile::OfAgent(id.clone()), envelope)
    }
}

/// Translates the end of a child's turn for the tool that started it. A turn that hooks ended counts as completed; one
/// that was preempted or deferred as interrupted.
fn end_of(ending: TurnEnding) -> AgentEnd {
    match ending {
        TurnEnding::Completed
        | TurnEnding::HookStopped
        | TurnEnding::StopHookPrevented
        | TurnEnding::StopHookCap
        | TurnEnding::NothingAsked => AgentEnd::Completed,
        TurnEnding::MaxTurns(_) | TurnEnding::Budget => AgentEnd::LimitReached,
        TurnEnding::Preempted | TurnEnding::Deferred | TurnEnding::DeferredUnavailable => {
            AgentEnd::Interrupted
        }
        TurnEnding::OutOfTokens => {
            AgentEnd::Failed("its answers were longer than the output limit".to_owned())
        }
        TurnEnding::CutOff => AgentEnd::Failed("the stream of its answer kept breaking".to_owned()),
        TurnEnding::Refused => AgentEnd::Failed("the model refused".to_owned()),
        TurnEnding::StructuredOutputExhausted => {
            AgentEnd::Failed("its answer never had the wanted shape".to_owned())
        }
    }
}

impl Agent {
    /// Ends a child agent: stops its commands, says that its worktree is left, closes its file and returns its id.
    async fn close(self) -> String {
        self.handle.workspace.ledger.end(ScopeEndPolicy::Stop).await;
        self.handle.tell_worktree_left();
        let id = self.handle.identity.child().map(|child| child.agent_id.clone()).unwrap_or_default();
        self.handle.session.files.close_agent(&id);
        id
    }
}
