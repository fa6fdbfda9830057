//! Gets one response of the model, with whatever that takes: events are folded into blocks, finished blocks are shown,
//! and the tools they call start at once and run while the rest streams in.
//!
//! A broken stream is requested again only while nothing of the response was shown or acted on; after that, what
//! arrived is kept and the loop goes on from there, so that no tool ever runs twice.

use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use lathe_models::{ModelError, ModelEvent, ModelRequest, StreamEvent};
use lathe_protocol::ContentBlock;
use serde_json::{Value, json};

use crate::call::toolrun::{self, FinishedBlock, PreparedCall};
use crate::hooks;
use crate::model::attempts::FailedAttempts;
use crate::model::cut_short;
use crate::model::request;
use crate::record::response::ModelResponse;
use crate::record::tool_call::CallEnd;
use crate::state::agent::AgentIdentity;
use crate::turn::calls::ResponseCalls;
use crate::turn::decide::{RoundEnd, StopReason, TurnEnding};
use crate::turn::outcome::{TurnOutcome, TurnPhase};
use crate::turn::retry::{GaveUp, NextAttempt};
use crate::turn::schedule::CallAccess;
use crate::turn::{Turn, answered};

/// How one attempt at a response ended.
enum Attempt {
    Complete,
    Interrupted,
    Broken(ModelError),
}

impl Turn<'_> {
    /// Gets one response and runs its calls, with retries. Returns how the round ended, or the outcome of the turn if
    /// it cannot continue; in both cases the history is one that can be sent again. Every attempt is counted and paid
    /// for, also a broken one.
    pub(crate) async fn sample(&mut self) -> Result<RoundEnd, TurnOutcome> {
        // With a spending limit the calls wait for the whole response, because its cost is not known before.
        let mut calls = ResponseCalls::new(self.session.max_budget_usd.is_none());
        let mut failed = FailedAttempts::default();
        loop {
            // For each attempt, because the host may choose another model during a long wait.
            self.follow_model_choice();
            let request = Arc::new(request::build(self.agent, &self.model_id));
            self.agent.handle.publish_request(&request);
            let mut answer = ModelResponse::default();
            let began = Instant::now();
            let attempt = self.attempt(&request, &mut answer, &mut calls).await;
            let api_ms = began.elapsed().as_millis() as u64;
            self.stats.api_ms += api_ms;
            self.session.totals().add_api_ms(api_ms);
            self.count_usage(&answer);
            match attempt {
                Attempt::Complete => return self.complete(answer, calls).await,
                Attempt::Interrupted => return Err(self.interrupted(answer, calls).await),
                Attempt::Broken(error) => {
                    self.close_partial_events(&answer).await;
                    if self.keeps_what_arrived(&mut answer, &error).await {
                        self.stats.broken_by = Some(error);
                        return self.cut_off(answer, calls).await;
                    }
                    // A broken response is paid for too, as far as it came.
                    if self.session.over_budget() {
                        return Err(TurnOutcome::Ended(TurnEnding::Budget));
                    }
                    match self.after_failure(error, &mut failed).await {
                        Ok(NextAttempt::WithStream) => {}
                        Ok(NextAttempt::WithoutStream) => return self.without_stream(&request, calls).await,
                        Err(GaveUp::Failed(error)) => return Err(TurnOutcome::Failed(error)),
                        Err(GaveUp::Interrupted) => return Err(self.interrupted_while_waiting().await),
                    }
                }
            }
        }
    }

    /// Takes over the model that a host has chosen meanwhile, which also ends the use of a fallback model; without a
    /// new choice nothing changes. Called before each request, because a request never changes its model.
    pub(crate) fn follow_model_choice(&mut self) {
        let chosen = self.agent.handle.choice().id.clone();
        if chosen != self.chosen_id {
            self.model_id.clone_from(&chosen);
            self.chosen_id = chosen;
        }
    }

    /// Sends the request once, shows the blocks as they finish, and starts their calls if they need not wait for the
    /// whole response. Returns how the stream ended; a break after which nothing is missing
    /// ([`ModelResponse::is_whole`]) counts as complete. `answer` and `calls` keep what arrived if the stream breaks or
    /// is interrupted.
    async fn attempt(
        &mut self,
        request: &Arc<ModelRequest>,
        answer: &mut ModelResponse,
        calls: &mut ResponseCalls,
    ) -> Attempt {
        if self.session.options.partial_messages {
            let prompts = if self.stats.prompt_ids_sent { None } else { self.stats.prompt_list() };
            self.session.emit(self.agent.handle.frames.requesting(prompts)).await;
        }
        let now = self.stats.elapsed_ms();
        self.stats.first_request_ms.get_or_insert(now);
        let model = self.session.model.clone();
        let mut stream = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Attempt::Interrupted,
            stream = model.stream(request.clone()) => match stream {
                Ok(stream) => stream,
                Err(error) => return Attempt::Broken(error),
            },
        };
        answer.request_id = stream.request_id.take();
        loop {
            tokio::select! {
                biased;
                // A complete response stays complete; only its calls are cancelled afterwards.
                () = self.cancel.cancelled(), if !answer.complete => return Attempt::Interrupted,
                // What has arrived of the response is shown before the results of its tools, so that a fast tool does
                // not split a response that is already here.
                event = stream.events.next() => match event {
                    Some(Ok(event)) => self.take_event(event, answer, calls).await,
                    // The connection broke behind the stop reason, so nothing is missing.
                    Some(Err(_)) | None if answer.is_whole() => return Attempt::Complete,
                    Some(Err(error)) => return Attempt::Broken(error),
                    None => return Attempt::Broken(cut_short()),
                },
                Some(done) = calls.running.next(), if !calls.running.is_empty() => {
                    self.take_answer(done, calls).await;
                }
            }
        }
    }

    /// Handles one event of the stream: folds it, shows a finished block and starts the call in it. With partial
    /// messages the event itself follows last, after the block that it finishes.
    async fn take_event(&mut self, event: ModelEvent, answer: &mut ModelResponse, calls: &mut ResponseCalls) {
        let now = self.stats.elapsed_ms();
        let first = *self.stats.first_event_ms.get_or_insert(now);
        let partial = self.session.options.partial_messages;
        let finished = answer.fold(&event.event);
        if partial && let StreamEvent::ContentBlockDelta { delta, .. } = &event.event {
            self.estimate_thinking(delta).await;
        }
        if let Some(block) = finished {
            let finished = FinishedBlock::new(&self.agent.handle, block);
            // The history keeps the block in the form that the host sees.
            answer.replace_last(&finished.block);
            let uuid = self.say_block(answer, &finished.block, None).await;
            if let Some(call) = finished.into_call(uuid) {
                calls.add(call);
                self.start_calls(calls);
            }
        }
        if partial {
            let is_start = matches!(event.event, StreamEvent::MessageStart(_));
            let ttft = is_start.then_some(first);
            let mut frame = self.agent.handle.frames.stream_event(event.raw, &answer.id, ttft);
            if is_start && !self.stats.prompt_ids_sent {
                frame.user_message_uuid = self.stats.prompts.first().cloned();
                frame.user_message_uuids = self.stats.prompt_list();
            }
            self.session.emit(frame).await;
        }
    }

    /// Tells the host how much the model has thought in this turn, estimated at four bytes per token. A delta of
    /// another kind does nothing.
    async fn estimate_thinking(&mut self, delta: &lathe_models::ContentDelta) {
        if let lathe_models::ContentDelta::Thinking(text) = delta {
            let tokens = (text.len() as u64).div_ceil(4);
            self.stats.thinking_tokens += tokens;
            let frame = self.agent.handle.frames.thinking_tokens(self.stats.thinking_tokens, tokens);
            self.session.emit(frame).await;
        }
    }

    /// Starts every call that the schedule lets run now; none while calls wait for the whole response (`eager` is
    /// false). To be called after each new call and each finished one.
    fn start_calls(&self, calls: &mut ResponseCalls) {
        if !calls.eager {
            return;
        }
        while let Some((call, access)) = calls.schedule.start_next() {
            let siblings = calls.siblings.subscribe();
            let run = toolrun::run(self.agent.handle.clone(), call, siblings, self.cancel.child_token());
            calls.running.push(Box::pin(async move { (run.await, access) }));
        }
    }

    /// Handles the end of a call: shows and records its result, then starts the calls that waited for it. A result that
    /// counts as an interruption cancels the whole turn, so that the sibling calls end too. A deferred call has no
    /// result and is kept in `calls`.
    async fn take_answer(&mut self, (end, access): (CallEnd, CallAccess), calls: &mut ResponseCalls) {
        calls.schedule.finished(access);
        let mut answered = match end {
            CallEnd::Answered(answered) => *answered,
            CallEnd::Deferred(call) => {
                calls.deferred = Some(*call);
                return;
            }
        };
        self.add_instructions_due(&mut answered).await;
        self.say_tool_result(&answered).await;
        self.stats.structured.note(&answered);
        if answered.interrupted {
            // A call that ends the turn ends its siblings too; each still gets its result.
            self.cancel.cancel();
        }
        calls.record(answered);
        self.start_calls(calls);
    }

    /// Finishes a response: adds it to the history, runs its remaining calls to their end, and adds their results.
    /// Every call gets a result in any case except a deferred one, because the API refuses a conversation with an open
    /// call; over the budget or after a refusal, calls that have not started get an error instead of being run. Over
    /// the budget these errors go only into the history: they are neither recorded nor sent to the host.
    async fn complete(
        &mut self,
        answer: ModelResponse,
        mut calls: ResponseCalls,
    ) -> Result<RoundEnd, TurnOutcome> {
        self.stats.rounds += 1;
        // A response came, so the next request that is too long may be compacted again.
        self.stats.made_room = false;
        self.stats.stop_reason.clone_from(&answer.stop_reason);
        self.stats.request_id.clone_from(&answer.request_id);
        self.stats.answer_id = answer.id.clone();
        self.stats.visible = answer.is_visible();
        let end = answered(&answer);
        let behind_calls = stop_reason_behind_calls(&answer);
        self.agent.history.add_assistant(answer.blocks);
        self.note_answer(&answer.usage);
        if calls.is_empty() {
            return Ok(end);
        }
        if self.session.over_budget() {
            // The response that crossed the limit is the last one: its calls are not run.
            self.agent
                .history
                .add_user(calls.refuse_all("The spending limit was reached; this was not run."));
            return Ok(RoundEnd::ToolsAnswered(behind_calls));
        }
        if behind_calls == StopReason::Refusal {
            self.leave_out_waiting(&mut calls).await;
        }
        self.finish_calls(&mut calls).await;
        if let Some(call) = calls.deferred.take() {
            return Ok(self.defer_call(call));
        }
        calls.sort_batch();
        self.agent.tell_cwd(&self.cancel).await;
        let batch =
            hooks::tools::after_batch(&self.agent.handle, std::mem::take(&mut calls.batch), &self.cancel)
                .await;
        calls.stops |= batch.stops;
        calls.notes.extend(batch.notes);
        self.agent.history.add_user(calls.blocks());
        self.agent.tell_model(&calls.notes);
        // Only now that every call has its result: the conversation must be one that can be sent again.
        if calls.interrupted || self.cancel.is_cancelled() {
            self.mark_interrupted(TurnPhase::Tools).await;
            return Err(TurnOutcome::Interrupted(TurnPhase::Tools));
        }
        Ok(self.after_tools(calls.stops, behind_calls))
    }

    /// Returns how a round with calls ended: stopped by a hook, with the structured output, with too many wrong ones,
    /// or with results for the model. Clears the mark that a structured output came in this round.
    fn after_tools(&mut self, stopped_by_hook: bool, behind_calls: StopReason) -> RoundEnd {
        let structured = &mut self.stats.structured;
        let given = std::mem::take(&mut structured.fresh);
        if stopped_by_hook {
            RoundEnd::StoppedByHook
        } else if given {
            RoundEnd::StructuredOutput
        } else if structured.failures >= self.agent.limits.max_structured_attempts {
            RoundEnd::StructuredOutputExhausted
        } else {
            RoundEnd::ToolsAnswered(behind_calls)
        }
    }

    /// Gives the calls that have not started an error result instead of running them, because the provider stopped the
    /// response for safety. Running calls go on.
    async fn leave_out_waiting(&mut self, calls: &mut ResponseCalls) {
        for PreparedCall { call, .. } in calls.schedule.drain_waiting() {
            let answered =
                toolrun::left_out(call, "The provider stopped this answer for safety; the call was not run.");
            self.say_tool_result(&answered).await;
            calls.record(answered);
        }
    }

    /// Runs the remaining calls of a response that is over to their end, also the ones that were held back until then.
    /// Calls that are cancelled end too, with a result.
    async fn finish_calls(&mut self, calls: &mut ResponseCalls) {
        // The response is over, so its calls need not wait for its cost any more.
        calls.eager = true;
        calls.all_known();
        self.start_calls(calls);
        while let Some(done) = calls.running.next().await {
            self.take_answer(done, calls).await;
        }
    }

    /// Completes a response whose stream broke after something was shown: that part stays, and its calls are run.
    /// Returns [`RoundEnd::CutOff`] if it called no tool, so that the model is asked to go on; otherwise how the round
    /// with the calls ended.
    async fn cut_off(
        &mut self,
        answer: ModelResponse,
        calls: ResponseCalls,
    ) -> Result<RoundEnd, TurnOutcome> {
        let asked_for_tools = !calls.is_empty();
        let end = self.complete(answer, calls).await?;
        Ok(if asked_for_tools { end } else { RoundEnd::CutOff })
    }

    /// Returns whether a broken response has to be kept, because part of it was shown or acted on. After an error that
    /// the API itself sent, the unfinished text is shown and added to `answer` too, because the API would not send it
    /// again.
    async fn keeps_what_arrived(&mut self, answer: &mut ModelResponse, error: &ModelError) -> bool {
        let said_in_stream = error.status.is_none() && error.api_type.is_some();
        if said_in_stream && let Some(text) = answer.take_partial_text() {
            let block = ContentBlock::text(text);
            self.say_block(answer, &block, None).await;
            answer.blocks.push(block);
        }
        answer.is_committed()
    }

    /// Ends a turn that was interrupted during the response: what arrived is kept and shown, its calls are waited for
    /// and get results, and the conversation is marked. Always returns [`TurnOutcome::Interrupted`].
    async fn interrupted(&mut self, mut answer: ModelResponse, mut calls: ResponseCalls) -> TurnOutcome {
        let open = answer.open_indices();
        if let Some(text) = answer.take_partial_text() {
            let block = ContentBlock::text(text);
            let mut frame = self.agent.handle.frames.assistant_block(&answer, &block, None);
            frame.aborted = Some(true);
            self.add_prompt_ids(&mut frame);
            self.agent.journal.assistant(&frame);
            self.session.emit(frame).await;
            answer.blocks.push(block);
        }
        let phase = if calls.is_empty() { TurnPhase::Streaming } else { TurnPhase::Tools };
        if phase == TurnPhase::Tools {
            // A response with calls ends for this reason, whether or not the event that says so had come.
            self.stats.stop_reason = answer.stop_reason.clone().or_else(|| Some("tool_use".to_owned()));
        }
        // The calls are cancelled, but each still needs a result: the API refuses a call without one.
        self.finish_calls(&mut calls).await;
        self.agent.history.add_assistant(std::mem::take(&mut answer.blocks));
        self.note_answer(&answer.usage);
        self.agent.history.add_user(calls.blocks());
        self.mark_interrupted(phase).await;
        if self.session.options.partial_messages && !open.is_empty() {
            let end = json!({
                "type": "message_delta",
                "context_management": null,
                "delta": {"container": null, "stop_details": null, "stop_reason": null, "stop_sequence": null},
                "usage": answer.usage.result_shape(),
            });
            self.close_events(&answer, &open, Some(end)).await;
        }
        TurnOutcome::Interrupted(phase)
    }

    /// Closes the blocks of a broken response that were begun and will not be finished, so that a host never waits for
    /// their end. Does nothing without partial messages, or if no block is open.
    async fn close_partial_events(&mut self, answer: &ModelResponse) {
        let open = answer.open_indices();
        if self.session.options.partial_messages && !open.is_empty() {
            self.close_events(answer, &open, None).await;
        }
    }

    /// Sends the stream events that a host still waits for: the end of each open block, `end` if there is one, then
    /// `message_stop`. The order is that of the API.
    async fn close_events(&mut self, answer: &ModelResponse, open: &[usize], end: Option<Value>) {
        let stops = open.iter().map(|index| json!({"type": "content_block_stop", "index": index}));
        for event in stops.chain(end).chain([json!({"type": "message_stop"})]) {
            let frame = self.agent.handle.frames.stream_event(event, &answer.id, None);
            self.session.emit(frame).await;
        }
    }

    /// Ends a turn that was interrupted before a response began: marks the conversation and returns the outcome.
    async fn interrupted_while_waiting(&mut self) -> TurnOutcome {
        self.mark_interrupted(TurnPhase::Streaming).await;
        TurnOutcome::Interrupted(TurnPhase::Streaming)
    }

    /// Requests the response as one piece instead of a stream, because streams keep breaking; shows its blocks and
    /// completes it like a streamed one. No further attempt is made: a failure is the outcome of the turn.
    async fn without_stream(
        &mut self,
        request: &Arc<ModelRequest>,
        mut calls: ResponseCalls,
    ) -> Result<RoundEnd, TurnOutcome> {
        let began = Instant::now();
        let model = self.session.model.clone();
        let whole = tokio::select! {
            () = self.cancel.cancelled() => return Err(self.interrupted_while_waiting().await),
            whole = model.complete(request.clone()) => whole.map_err(TurnOutcome::Failed)?,
        };
        self.stats.api_ms += began.elapsed().as_millis() as u64;
        let answer = ModelResponse::from_complete(whole);
        self.count_usage(&answer);
        for block in answer.blocks.clone() {
            let finished = FinishedBlock::new(&self.agent.handle, block);
            let uuid = self.say_block(&answer, &finished.block, answer.stop_reason.clone()).await;
            if let Some(call) = finished.into_call(uuid) {
                calls.add(call);
            }
        }
        self.complete(answer, calls).await
    }

    /// Notes the API's count of the conversation's size, for the record of its last response, and publishes the size.
    /// To be called once the response is in the history.
    fn note_answer(&mut self, usage: &lathe_protocol::Usage) {
        let record = self.agent.journal.answer_record();
        self.agent.history.note_answer(usage, record);
        self.agent.handle.publish_size(self.agent.history.size());
    }

    /// Adds the usage of a response to the turn and to the session, under the model that responded. Must be called once
    /// per attempt, also for a response that broke or was cut off.
    fn count_usage(&mut self, answer: &ModelResponse) {
        self.stats.usage.add(&answer.usage);
        let model = if answer.model.is_empty() { &self.model_id } else { &answer.model };
        let mut totals = self.session.totals();
        totals.add(model, &answer.usage);
        // The last usage describes the conversation of the main agent, not that of a child.
        if self.agent.handle.identity == AgentIdentity::Main {
            totals.note_last(&answer.usage);
        }
    }
}

/// Returns the stop reason that counts for a response with calls. Usually that is `Finished`; a refusal counts, and
/// so does the output limit if it cut a call off, because the model would repeat that call without learning why it
/// fails.
fn stop_reason_behind_calls(answer: &ModelResponse) -> StopReason {
    match StopReason::read(answer.stop_reason.as_deref()) {
        StopReason::OutOfTokens if !answer.ends_in_half_a_call() => StopReason::Finished,
        reason @ (StopReason::Finished | StopReason::OutOfTokens | StopReason::Refusal) => reason,
    }
}
