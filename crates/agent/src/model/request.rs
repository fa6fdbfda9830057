//! Builds requests from the session's choice and the capabilities of the model.

use lathe_models::catalog;
use lathe_models::table::{Capabilities, MIN_THINKING_BUDGET, ThinkingStyle};
use lathe_models::{CacheTtl, ModelRequest, Thinking};

use crate::state::agent::Agent;
use crate::state::config::AgentModel;

/// Builds the next request of an agent to this model. Closes the open user message, loads the tools that the
/// conversation refers to, and notes what the model is told of deferred ones; all of that has to precede the offer of
/// tools.
pub fn build(agent: &mut Agent, model_id: &str) -> ModelRequest {
    let messages = agent.history.messages();
    agent.handle.load_referenced(agent.history.referenced_tools());
    agent.handle.begin_telling_of_tools();
    let offer = agent.handle.offer(model_id);
    let choice = agent.handle.choice().as_ref().clone();
    let model = catalog::capabilities(model_id);
    let max_tokens = choice.max_output_tokens.unwrap_or(model.max_output_tokens);
    let effort = choice.effort.as_deref().or(model.default_effort);
    ModelRequest {
        model: model_id.to_owned(),
        max_tokens,
        messages: offer.readable(messages),
        system: offer.system,
        tools: offer.tools,
        defers_tools: offer.defers_tools,
        thinking: thinking(choice.thinking, &model, max_tokens),
        effort: effort.and_then(|effort| model.clamp_effort(effort)).map(str::to_owned),
        task_budget: choice.task_budget,
        user_id: choice.user_id,
        betas: choice.betas,
        cache: choice.cache,
        extra_body: choice.extra_body,
        agent: agent.handle.identity.label().into(),
    }
}

/// Builds a request outside of the conversation: no thinking, no tools, nothing cached. The caller fills in the system
/// prompt and the messages; `purpose` names the kind of request in place of an agent.
pub fn side_request(choice: &AgentModel, model_id: &str, purpose: &'static str) -> ModelRequest {
    let model = catalog::capabilities(model_id);
    ModelRequest {
        model: model_id.to_owned(),
        max_tokens: choice.max_output_tokens.unwrap_or(model.max_output_tokens),
        system: Vec::new(),
        tools: "[]".into(),
        defers_tools: false,
        messages: Vec::new(),
        thinking: Thinking::Disabled,
        effort: None,
        task_budget: None,
        user_id: choice.user_id.clone(),
        betas: choice.betas.clone(),
        cache: CacheTtl::Off,
        extra_body: choice.extra_body.clone(),
        agent: purpose.into(),
    }
}

/// Returns the thinking that the user wants, as far as the model can do it; a model that thinks adaptively takes no
/// budget. Without a wish, or with an output limit that leaves no room for a budget, it is the default of the model.
fn thinking(wanted: Option<Thinking>, model: &Capabilities, max_tokens: u32) -> Thinking {
    match (model.thinking, wanted) {
        (ThinkingStyle::None, _) | (_, Some(Thinking::Disabled)) => Thinking::Disabled,
        (ThinkingStyle::Adaptive, _) => Thinking::Adaptive,
        (ThinkingStyle::Budget, Some(Thinking::Budget(tokens))) if max_tokens > MIN_THINKING_BUDGET => {
            // The API wants the budget to be below the output limit.
            Thinking::Budget(tokens.clamp(MIN_THINKING_BUDGET, max_tokens - 1))
        }
        (ThinkingStyle::Budget, _) => model.default_thinking(max_tokens),
    }
}
