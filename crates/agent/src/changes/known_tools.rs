//! Deferred tools that come and go while a session runs, because a server adds or removes them. The list in the system
//! prompt stays as it is, so that what is cached stays valid; the model is told what is different now.

use crate::model::offer;
use crate::state::agent::AgentHandle;

impl AgentHandle {
    /// Returns a note on the deferred tools that came or went since the model was told of them, and remembers that it
    /// was told. `None` if nothing has changed or the model gets no list of deferred tools. The caller has to give the
    /// note to the model, because it comes once.
    pub(crate) fn tool_changes(&self) -> Option<String> {
        let view = self.view();
        let told = view.told_tools.as_ref()?;
        let now = view.tools.listing()?;
        if std::sync::Arc::ptr_eq(&told.listing, &now)
            || !view.tools.marks_deferred(offer::descriptions(&view.choice.id))
        {
            return None;
        }
        let note = told.listing.changes(&now);
        self.change(|view| {
            if let Some(told) = &mut view.told_tools {
                told.listing = now;
            }
        });
        note
    }
}
