//! What ToolSearch does to the agent that calls it, and what the model reads if it calls a tool without having loaded
//! it.

use std::sync::Arc;

use lathe_tools::{InvalidInput, Tool, ToolDescriptions, ToolLoading, ToolSearch, ToolSet};

use crate::model::offer;
use crate::state::agent::AgentHandle;

impl ToolLoading for AgentHandle {
    fn agent_tools(&self) -> Arc<ToolSet> {
        self.tools()
    }

    fn load_tools(&self, names: &[String]) {
        self.change(|view| view.tools = Arc::new(view.tools.loading(names)));
    }
}

impl AgentHandle {
    /// Returns the error about an input with the schema of the tool added, if the model has called the tool without
    /// having loaded its description. Otherwise returns the error as it is.
    pub(crate) fn explained(&self, tool: &dyn Tool, invalid: InvalidInput) -> InvalidInput {
        let guessed = offer::descriptions(&self.choice().id) == ToolDescriptions::Loaded
            && self.tools().is_unloaded(tool.name());
        if !guessed {
            return invalid;
        }
        let (name, search) = (tool.name(), ToolSearch::NAME);
        invalid.with_advice(&format!(
            "{name} was called without its description, which {search} loads with the query \"select:{name}\". The \
             schema of its input is {}",
            tool.input_schema()
        ))
    }
}
