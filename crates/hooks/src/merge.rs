//! Adds one hook's result to the outcome of its event. The engine calls it in registration order; if two hooks set the
//! same field, the first one counts. Fields that do not belong to the event are ignored.

use lathe_protocol::HookEvent;
use lathe_protocol::hooks::{
    HookDecision, HookPermissionDecision, HookSpecificOutput, PermissionRequestDecision,
};
use lathe_protocol::text::first_chars;

use crate::answer::Answer;
use crate::event::{Blocking, Facts};
use crate::outcome::{
    ContextKind, ContextText, ElicitationAnswer, HookBlock, Outcome, PermissionRequestVerdict,
    PermissionVerdict, StopRequest, SystemText, ToolOutputChange, ToolOutputKind,
};
use crate::source::HookSource;
use crate::text::Cutter;
use crate::{HookProblem, ProblemKind};

/// The length to which a classifier context is cut.
const MAX_CLASSIFIER_CHARS: usize = 2000;

const NO_REASON: &str = "blocked by a hook that gave no reason";

/// The identity of a hook in results and problems.
#[derive(Debug, Clone)]
pub(crate) struct Speaker {
    pub event: HookEvent,
    pub hook_name: String,
    /// The command, address, question or `callback`.
    pub label: String,
    pub source: HookSource,
    /// The call the event is about.
    pub tool_use_id: Option<String>,
}

impl Speaker {
    /// Returns a problem with the identity of the hook that has it.
    pub fn problem(&self, kind: ProblemKind) -> HookProblem {
        HookProblem {
            hook_name: self.hook_name.clone(),
            event: self.event.clone(),
            handler: self.label.clone(),
            tool_use_id: self.tool_use_id.clone(),
            kind,
        }
    }
}

/// Adds the result of one hook to the outcome of the event. Must be called in the order of the hooks' sources, the
/// strongest first, because some values keep the first one. `facts` decide what a refusal means; texts that are too
/// long are cut by `texts`.
pub(crate) fn add(
    outcome: &mut Outcome,
    speaker: &Speaker,
    facts: &Facts,
    mut answer: Answer,
    texts: &mut Cutter,
) {
    outcome.ran += 1;
    outcome.cancelled |= answer.cancelled;
    let problems = std::mem::take(&mut answer.problems);
    outcome.problems.extend(problems.into_iter().map(|kind| speaker.problem(kind)));
    let mut merger = Merger { outcome, speaker, facts, texts };
    let specific = answer.output.hook_specific_output.take().unwrap_or_default();
    merger.add_common_output(&mut answer, &specific);
    let no = merger.refusal_reason(&answer, &specific);
    match facts.blocking {
        Blocking::Never => {}
        Blocking::Blocks | Blocking::AnyFailure => merger.block(no),
        Blocking::Denies => merger.permission(no, &answer, &specific),
        Blocking::AnswersRequest => merger.permission_request(no, &specific),
    }
    merger.effects(&answer, specific);
}

struct Merger<'a> {
    outcome: &'a mut Outcome,
    speaker: &'a Speaker,
    facts: &'a Facts,
    texts: &'a mut Cutter,
}

impl Merger<'_> {
    /// Adds the output that has an effect on every event: the first stop, texts for the user, and texts for the model,
    /// as far as the event takes these. Texts for the model that are blank are left out, long texts are cut.
    fn add_common_output(&mut self, answer: &mut Answer, specific: &HookSpecificOutput) {
        let hook_name = &self.speaker.hook_name;
        let output = &mut answer.output;
        if output.continue_ == Some(false) && self.outcome.stop.is_none() {
            let reason = output.stop_reason.take().map(|reason| self.texts.cut(reason));
            self.outcome.stop = Some(StopRequest { reason, hook_name: hook_name.clone() });
        }
        if let Some(text) = output.system_message.take() {
            let text = self.texts.cut(text);
            self.outcome.system_messages.push(SystemText { hook_name: hook_name.clone(), text });
        }
        self.outcome.terminal_sequences.extend(output.terminal_sequence.take());
        let additional = specific.additional_context.clone().filter(|_| self.facts.takes_context);
        let plain = answer.plain.clone().filter(|_| self.facts.plain_is_context);
        for (kind, text) in [(ContextKind::Additional, additional), (ContextKind::PlainOutput, plain)] {
            let Some(text) = text.filter(|text| !text.trim().is_empty()) else { continue };
            let text = self.texts.cut(text);
            self.outcome.contexts.push(ContextText { hook_name: hook_name.clone(), kind, text });
        }
    }

    /// Returns the reason of a refusal, whether it came as JSON, by exit code or by a failure; `None` if the hook does
    /// not refuse. A reason in the JSON comes before that of the exit code; a missing or blank one becomes
    /// [`NO_REASON`], so that no refusal is lost.
    fn refusal_reason(&mut self, answer: &Answer, specific: &HookSpecificOutput) -> Option<String> {
        let by_json = answer.output.decision == Some(HookDecision::Block)
            || specific.permission_decision == Some(HookPermissionDecision::Deny);
        if !by_json && answer.refusal.is_none() {
            return None;
        }
        let given = specific.permission_decision_reason.as_ref().or(answer.output.reason.as_ref());
        let reason = given.or(answer.refusal.as_ref()).filter(|reason| !reason.trim().is_empty());
        Some(self.texts.cut(reason.map_or(NO_REASON, String::as_str).to_owned()))
    }

    /// Records a refusal with its reason; does nothing without one. All reasons are kept, because the model is told
    /// each of them.
    fn block(&mut self, no: Option<String>) {
        let Some(reason) = no else { return };
        self.outcome.blocks.push(HookBlock {
            reason,
            hook_name: self.speaker.hook_name.clone(),
            event: self.speaker.event.clone(),
            command: self.speaker.label.clone(),
            source: self.speaker.source.clone(),
        });
    }

    /// Records the verdict on a call if it is stronger than the one so far; see [`strength`]. A "no" of any form counts
    /// as deny; without a verdict nothing changes.
    fn permission(&mut self, no: Option<String>, answer: &Answer, specific: &HookSpecificOutput) {
        let (behavior, reason) = if let Some(reason) = no {
            (HookPermissionDecision::Deny, Some(reason))
        } else if let Some(behavior) = specific.permission_decision {
            let given = specific.permission_decision_reason.as_ref().or(answer.output.reason.as_ref());
            (behavior, given.map(|reason| self.texts.cut(reason.clone())))
        } else if answer.output.decision == Some(HookDecision::Approve) {
            // The older form of `permissionDecision: allow`.
            let given = answer.output.reason.as_ref();
            (HookPermissionDecision::Allow, given.map(|reason| self.texts.cut(reason.clone())))
        } else {
            return;
        };
        let so_far = self.outcome.permission.as_ref().map(|verdict| strength(verdict.behavior));
        // On a tie the first hook keeps it.
        if so_far.is_some_and(|so_far| so_far >= strength(behavior)) {
            return;
        }
        self.outcome.permission = Some(PermissionVerdict {
            behavior,
            reason,
            hook_name: self.speaker.hook_name.clone(),
            event: self.speaker.event.clone(),
            source: self.speaker.source.clone(),
        });
    }

    /// Records the decision on a permission request. A deny replaces an allow; otherwise the first one stays. A refusal
    /// counts as deny, and without a decision nothing changes.
    fn permission_request(&mut self, no: Option<String>, specific: &HookSpecificOutput) {
        let decision = match (no, specific.decision.clone()) {
            // An explicit deny comes first because it has its own message and may interrupt.
            (_, Some(deny @ PermissionRequestDecision::Deny { .. })) => deny,
            (Some(reason), Some(PermissionRequestDecision::Allow { .. }) | None) => {
                PermissionRequestDecision::Deny { message: Some(reason), interrupt: None }
            }
            (None, Some(allow)) => allow,
            (None, None) => return,
        };
        let denies = |decision: &PermissionRequestDecision| match decision {
            PermissionRequestDecision::Deny { .. } => true,
            PermissionRequestDecision::Allow { .. } => false,
        };
        let so_far = self.outcome.permission_request.as_ref();
        if so_far.is_some_and(|so_far| denies(&so_far.decision) || !denies(&decision)) {
            return;
        }
        self.outcome.permission_request = Some(PermissionRequestVerdict {
            decision,
            hook_name: self.speaker.hook_name.clone(),
            source: self.speaker.source.clone(),
        });
    }

    /// Adds the output that only this event can use, such as a changed input or a title; output for other events is
    /// ignored. Where hooks disagree, the first one counts, but paths to watch are collected from all. For
    /// WorktreeCreate the last line of plain output counts as the path if the JSON names none.
    fn effects(&mut self, answer: &Answer, specific: HookSpecificOutput) {
        let outcome = &mut *self.outcome;
        match self.speaker.event {
            HookEvent::PreToolUse => first(&mut outcome.updated_input, specific.updated_input),
            HookEvent::PostToolUse => {
                let any = specific.updated_tool_output.map(|value| (value, ToolOutputKind::AnyTool));
                let mcp = specific.updated_mcp_tool_output.map(|value| (value, ToolOutputKind::McpTool));
                let change = any.or(mcp).map(|(value, kind)| ToolOutputChange { value, kind });
                first(&mut outcome.tool_output, change);
                let classifier = specific.classifier_context;
                let cut = classifier.map(|text| first_chars(&text, MAX_CLASSIFIER_CHARS).to_owned());
                first(&mut outcome.classifier_context, cut);
            }
            HookEvent::PermissionDenied => outcome.retry |= specific.retry == Some(true),
            HookEvent::UserPromptSubmit | HookEvent::UserPromptExpansion => {
                first(&mut outcome.prompt.session_title, specific.session_title);
                outcome.prompt.suppress_original |= specific.suppress_original_prompt == Some(true);
            }
            HookEvent::SessionStart => {
                let message = specific.initial_user_message.map(|text| self.texts.cut(text));
                first(&mut outcome.session_start.initial_user_message, message);
                first(&mut outcome.session_start.session_title, specific.session_title);
                outcome.session_start.reload_skills |= specific.reload_skills == Some(true);
                outcome.watch_paths.extend(specific.watch_paths.unwrap_or_default());
            }
            HookEvent::CwdChanged | HookEvent::FileChanged => {
                outcome.watch_paths.extend(specific.watch_paths.unwrap_or_default());
            }
            HookEvent::Elicitation | HookEvent::ElicitationResult => {
                let content = specific.content;
                let answer = specific.action.map(|action| ElicitationAnswer { action, content });
                first(&mut outcome.elicitation, answer);
            }
            HookEvent::WorktreeCreate => {
                // The script may print other lines before the path.
                let last_line = || answer.plain.as_deref()?.lines().last().map(|line| line.trim().to_owned());
                first(&mut outcome.worktree_path, specific.worktree_path.or_else(last_line));
            }
            HookEvent::MessageDisplay => first(&mut outcome.display_content, specific.display_content),
            HookEvent::PostToolUseFailure
            | HookEvent::Notification
            | HookEvent::SessionEnd
            | HookEvent::Stop
            | HookEvent::SubagentStart
            | HookEvent::SubagentStop
            | HookEvent::PreCompact
            | HookEvent::PermissionRequest
            | HookEvent::PostToolBatch
            | HookEvent::StopFailure
            | HookEvent::PostCompact
            | HookEvent::PreModelSwitch
            | HookEvent::PostModelSwitch
            | HookEvent::Setup
            | HookEvent::TeammateIdle
            | HookEvent::TaskCreated
            | HookEvent::TaskCompleted
            | HookEvent::ConfigChange
            | HookEvent::WorktreeRemove
            | HookEvent::InstructionsLoaded
            | HookEvent::DirectoryAdded
            | HookEvent::Unknown(_) => {}
        }
    }
}

/// Puts `value` into the slot if that is empty. Results are merged in the order of the hooks, so the strongest source
/// wins.
fn first<T>(slot: &mut Option<T>, value: Option<T>) {
    if slot.is_none() {
        *slot = value;
    }
}

/// Returns the rank of a verdict: allow, ask, defer, deny, the strongest last. The order is a security property: no
/// hook can overrule the deny of another.
fn strength(behavior: HookPermissionDecision) -> u8 {
    match behavior {
        HookPermissionDecision::Allow => 0,
        HookPermissionDecision::Ask => 1,
        HookPermissionDecision::Defer => 2,
        HookPermissionDecision::Deny => 3,
    }
}
