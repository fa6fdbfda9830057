//! What of a request follows from the tools of an agent: their descriptions, the part of the system prompt that names
//! deferred ones, and whether results in the conversation may refer to them.

use std::sync::Arc;

use lathe_models::catalog;
use lathe_models::references::without_references;
use lathe_models::{SystemPart, WireMessage};
use lathe_tools::ToolDescriptions;

use crate::state::agent::{AgentHandle, ToldTools};

/// The system prompt and the tools of a request.
pub struct ToolOffer {
    pub system: Vec<SystemPart>,
    /// The `tools` array.
    pub tools: Arc<str>,
    /// Whether it holds deferred entries, which results may refer to.
    pub defers_tools: bool,
}

impl ToolOffer {
    /// Returns messages as the request may hold them: without references to tools if the model does not get them.
    pub fn readable(&self, mut messages: Vec<WireMessage>) -> Vec<WireMessage> {
        if !self.defers_tools {
            without_references(&mut messages);
        }
        messages
    }
}

/// Returns which tools requests to a model describe: only those that are loaded if the model understands references to
/// tools, otherwise all.
pub fn descriptions(model_id: &str) -> ToolDescriptions {
    if catalog::capabilities(model_id).tool_references {
        ToolDescriptions::Loaded
    } else {
        ToolDescriptions::All
    }
}

impl AgentHandle {
    /// Returns the system prompt and the tools for a request to this model. If the tools include deferred ones, the
    /// system prompt names them, in the words in which this conversation was first told of them.
    pub(crate) fn offer(&self, model_id: &str) -> ToolOffer {
        let view = self.view();
        let descriptions = descriptions(model_id);
        let defers_tools = view.tools.marks_deferred(descriptions);
        let mut system = view.system.parts();
        if defers_tools {
            let told = view.told_tools.clone().or_else(|| view.tools.listing().map(ToldTools::at_beginning));
            // Behind the first part, which never changes, and before the breakpoint of the cache that follows the last.
            if let Some(text) = told.and_then(|told| told.beginning) {
                system.insert(system.len().min(1), SystemPart { text: text.to_string(), cached: false });
            }
        }
        ToolOffer { system, tools: view.tools.api_json(descriptions), defers_tools }
    }

    /// Loads the tools in `referenced` that are not loaded yet, which happens after a resume. The `tools` array must
    /// hold each tool that the conversation refers to, or the API would refuse every request, so a tool that is gone
    /// gets an entry that says so.
    pub(crate) fn load_referenced(&self, referenced: &[String]) {
        let view = self.view();
        let missing = view.tools.lacking(referenced);
        if !missing.is_empty() {
            self.change(|view| view.tools = Arc::new(view.tools.loading(&missing)));
        }
    }

    /// Notes what the model is told of deferred tools by the first request of a conversation, so that later requests
    /// repeat the same words. Does nothing if it is noted already.
    pub(crate) fn begin_telling_of_tools(&self) {
        if self.view().told_tools.is_none() {
            self.change(|view| view.told_tools = view.tools.listing().map(ToldTools::at_beginning));
        }
    }
}
