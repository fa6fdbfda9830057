//! The tool calls of one response: which wait, which run, and the result of each, in the order of the calls. Starts
//! nothing itself; `sampling.rs` drives it.

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use lathe_protocol::hooks::BatchedCall;
use lathe_protocol::{CallSubject, ContentBlock};
use tokio::sync::watch;

use crate::call::siblings::SiblingCalls;
use crate::call::toolrun::PreparedCall;
use crate::record::tool_call::{CallEnd, ToolCall, ToolCallResult};
use crate::record::tool_result::ToolResult;
use crate::state::config::MAX_PARALLEL_CALLS;
use crate::turn::schedule::{CallAccess, CallSchedule};

/// The tool calls of one response.
pub struct ResponseCalls {
    pub schedule: CallSchedule<PreparedCall>,
    pub running: FuturesUnordered<BoxFuture<'static, (CallEnd, CallAccess)>>,
    /// Tells the calls whether there are several of them. Written by the turn as the response streams in; read by calls
    /// that a hook wants to defer.
    pub siblings: watch::Sender<SiblingCalls>,
    /// The call that a hook deferred.
    pub deferred: Option<ToolCall>,
    /// In the order of the calls, with their results as they come.
    answers: Vec<(String, Option<ToolResult>)>,
    /// Whether calls may start before the response is complete.
    pub eager: bool,
    pub interrupted: bool,
    /// The calls as hooks are told about them, in the order in which they ended.
    pub batch: Vec<BatchedCall>,
    /// Notes of hooks for the model, which follow the results.
    pub notes: Vec<String>,
    /// Whether a hook wants the turn to end here.
    pub stops: bool,
}

impl ResponseCalls {
    /// Begins a response without calls. `eager` lets calls start while the response is still streaming; it is false
    /// with a spending limit, because the cost of the response is known only at its end.
    pub fn new(eager: bool) -> Self {
        Self {
            schedule: CallSchedule::new(MAX_PARALLEL_CALLS),
            running: FuturesUnordered::new(),
            siblings: watch::Sender::new(SiblingCalls::Unknown),
            deferred: None,
            answers: Vec::new(),
            eager,
            interrupted: false,
            batch: Vec::new(),
            notes: Vec::new(),
            stops: false,
        }
    }

    /// Returns whether the response has called no tool so far. Also true once [`Self::blocks`] or [`Self::refuse_all`]
    /// has taken the results.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Adds a call in the order of the response, which is the order of the results. Starts nothing; the second call
    /// tells the first that it has siblings.
    pub fn add(&mut self, prepared: PreparedCall) {
        let PreparedCall { call, tool } = &prepared;
        let access = match (tool, call.description.subject()) {
            // It gets a result without being run, so it disturbs no other call.
            (Err(_), CallSubject::Unknown) => CallAccess::Shared,
            _ => CallAccess::of(&call.description),
        };
        self.answers.push((call.id.clone(), None));
        self.schedule.add(prepared, access);
        if self.answers.len() > 1 {
            self.siblings.send_replace(SiblingCalls::Some);
        }
    }

    /// Notes that the response is complete, so that a call which is still alone learns that it stays alone and may be
    /// deferred.
    pub fn all_known(&mut self) {
        if *self.siblings.borrow() == SiblingCalls::Unknown {
            self.siblings.send_replace(SiblingCalls::None);
        }
    }

    /// Keeps the result of a call, and what it means for the turn: interruption, notes, data for the batch hook. Must
    /// be called once per call that was added, except for a deferred one.
    pub fn record(&mut self, answered: ToolCallResult) {
        self.interrupted |= answered.interrupted;
        self.stops |= answered.stops;
        self.notes.extend(answered.notes);
        self.batch.push(BatchedCall {
            tool_name: answered.call.name.clone(),
            tool_input: answered.call.input.clone(),
            tool_use_id: answered.call.id.clone(),
            tool_response: Some(answered.block.content_value()),
            ..BatchedCall::default()
        });
        // Models may repeat an id, so the first call that still lacks a result gets it.
        let slot = self.answers.iter_mut().find(|(id, block)| *id == answered.call.id && block.is_none());
        if let Some((_, block)) = slot {
            *block = Some(answered.block);
        }
    }

    /// Sorts what hooks are told about the calls into the order of the response, because the results came in the order
    /// in which the calls ended. Must come before [`Self::blocks`], which takes that order away.
    pub fn sort_batch(&mut self) {
        let order: Vec<&String> = self.answers.iter().map(|(id, _)| id).collect();
        self.batch.sort_by_key(|call| order.iter().position(|id| **id == call.tool_use_id));
    }

    /// Takes the results as blocks for the model, in the order of the calls. A call without a result is left out, so
    /// all must have ended.
    pub fn blocks(&mut self) -> Vec<ContentBlock> {
        self.answers.drain(..).filter_map(|(_, result)| result).map(ToolResult::into_sent).collect()
    }

    /// Takes the results as blocks for the model, in the order of the calls, with `why` as the error of every call that
    /// has none; nothing is recorded or sent to the host. Calls that have not started are dropped from the schedule;
    /// running ones are not stopped.
    pub fn refuse_all(&mut self, why: &str) -> Vec<ContentBlock> {
        let refusal = |id: &str| ToolResult::error(id, why.to_owned()).shown();
        self.schedule.drain_waiting();
        let block = |(id, result): (String, Option<ToolResult>)| match result {
            Some(result) => result.into_sent(),
            None => refusal(&id),
        };
        self.answers.drain(..).map(block).collect()
    }
}
