//! Deferred tools: requests only name them, and describe one after the model has searched for it.
//!
//! On the wire, the array of tools holds those that are always described, one inert entry, and at the end, in the order
//! in which they were loaded, the others, marked with `defer_loading`. The API shows such an entry to the model where a
//! result refers to it (`tool_reference`), so what it has cached of the request stays valid. The API is not asked about
//! a reference to a tool that the array does not hold: an entry stays when its tool goes, until nothing refers to it.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::{ToolSet, description};
use crate::Tool;
use crate::search_tools::tool_search::ToolSearch;

/// The entry that is in the array before anything is loaded, so that each request of a session uses the same features
/// of the API.
const PLACEHOLDER: &str = "DeferredToolPlaceholder";

/// Which tools a request describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolDescriptions {
    /// All: the model does not understand references to tools.
    All,
    /// Those that are not deferred, and those that were loaded.
    Loaded,
}

/// What of a set was loaded, and the texts that follow from it.
#[derive(Debug, Clone, Default)]
pub(super) struct Deferral {
    /// The entries of loaded tools, in the order of loading.
    loaded: Vec<LoadedTool>,
    /// The whole array.
    array: OnceLock<Arc<str>>,
    listing: OnceLock<Arc<ToolListing>>,
}

/// A tool that was loaded.
#[derive(Debug, Clone)]
struct LoadedTool {
    name: String,
    /// Its entry in the array.
    entry: Arc<str>,
}

impl Deferral {
    /// Returns the deferral for a set with other tools: what was loaded stays, what was built from the tools is built
    /// again.
    pub(super) fn for_other_tools(&self) -> Self {
        Self { loaded: self.loaded.clone(), ..Self::default() }
    }
}

/// The names of deferred tools, and how the model is told of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ToolListing {
    /// Sorted.
    names: Vec<String>,
}

impl ToolListing {
    /// Returns the text by which the model is first told of the deferred tools; `None` if no tool is deferred.
    pub fn text(&self) -> Option<String> {
        let search = ToolSearch::NAME;
        (!self.names.is_empty()).then(|| {
            format!(
                "More tools\nThe tools below exist too; to keep requests small, only their names are given. Before the \
                 first use of one, load it with {search}: the query \"select:NAME\" (several names with commas between \
                 them), or words that describe what you need. From then on you can call it like any other.\n{}",
                self.names.join("\n")
            )
        })
    }

    /// Returns what the model is told when the listing `now` replaces this one: the names that are new and those that
    /// are gone. `None` if the listings are equal.
    pub fn changes(&self, now: &Self) -> Option<String> {
        let missing_in = |other: &Self, from: &Self| -> Vec<String> {
            let known: HashSet<&String> = other.names.iter().collect();
            from.names.iter().filter(|name| !known.contains(name)).cloned().collect()
        };
        let (added, gone) = (missing_in(self, now), missing_in(now, self));
        let mut parts = Vec::new();
        if !added.is_empty() {
            parts.push(format!("{} finds these tools, too:\n{}", ToolSearch::NAME, added.join("\n")));
        }
        if !gone.is_empty() {
            parts.push(format!("These tools are not available any more:\n{}", gone.join("\n")));
        }
        (!parts.is_empty()).then(|| parts.join("\n"))
    }
}

/// What ToolSearch does to the agent that calls it.
pub trait ToolLoading: Send + Sync {
    /// Returns the tools of the agent.
    fn agent_tools(&self) -> Arc<ToolSet>;

    /// Makes the requests of the agent describe the tools with these names from the next one on; see
    /// [`ToolSet::loading`].
    fn load_tools(&self, names: &[String]);
}

/// A tool that is called alone, as in tests, is the only one.
impl ToolLoading for crate::DetachedSession {
    fn agent_tools(&self) -> Arc<ToolSet> {
        Arc::default()
    }

    fn load_tools(&self, _: &[String]) {}
}

impl ToolSet {
    /// Returns this set with its deferred tools left out of requests until they are loaded. Without ToolSearch nothing
    /// is deferred, because the model could not search for it.
    pub fn deferring(self) -> Self {
        let has_search = self.tools.iter().any(|tool| tool.name() == ToolSearch::NAME);
        Self { deferral: has_search.then(Deferral::default), ..self }
    }

    /// Returns the tools that are deferred, loaded or not, in order; none if the set defers nothing.
    pub fn deferred(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter().filter(|tool| self.leaves_out(tool.as_ref()))
    }

    /// Returns whether the tool with this name or former name is deferred and was not loaded; false if the set has no
    /// such tool.
    pub fn is_unloaded(&self, name: &str) -> bool {
        let loaded = self.deferral.iter().flat_map(|deferral| &deferral.loaded);
        self.get(name).is_some_and(|tool| {
            self.leaves_out(tool.as_ref()) && !loaded.into_iter().any(|loaded| loaded.name == tool.name())
        })
    }

    /// Returns how many bytes the descriptions of those deferred tools would take that were not loaded.
    pub fn unloaded_bytes(&self) -> usize {
        let unloaded = self.deferred().filter(|tool| self.is_unloaded(tool.name()));
        unloaded.map(|tool| description(tool.as_ref()).to_string().len()).sum()
    }

    /// Returns those of these names that the array of requests has no entry for; none if the set defers nothing.
    pub fn lacking(&self, names: &[String]) -> Vec<String> {
        let Some(deferral) = &self.deferral else { return Vec::new() };
        let has_entry = |name: &String| {
            deferral.loaded.iter().any(|loaded| loaded.name == *name)
                || self.tools.iter().any(|tool| tool.name() == name && !self.leaves_out(tool.as_ref()))
        };
        names.iter().filter(|name| !has_entry(name)).cloned().collect()
    }

    /// Returns whether there are deferred tools, or entries of loaded ones that results may refer to.
    fn defers(&self) -> bool {
        self.deferral.as_ref().is_some_and(|deferral| !deferral.loaded.is_empty())
            || self.deferred().next().is_some()
    }

    /// Returns the `tools` array of a request: with deferred tools left out until they are loaded, or with all of them
    /// described. Its text is built when first needed, and again when tools or loaded tools change.
    pub fn api_json(&self, descriptions: ToolDescriptions) -> Arc<str> {
        match &self.deferral {
            Some(deferral) if descriptions == ToolDescriptions::Loaded && self.defers() => {
                deferral.array.get_or_init(|| self.array(deferral)).clone()
            }
            Some(_) | None => self.whole_json(),
        }
    }

    /// Returns whether the array of a request with these descriptions contains deferred entries. Only then may the
    /// request contain references to tools.
    pub fn marks_deferred(&self, descriptions: ToolDescriptions) -> bool {
        descriptions == ToolDescriptions::Loaded && self.defers()
    }

    /// Returns the text of the array of a request that describes loaded tools only: the part that stays the same, and
    /// behind it an entry for each loaded tool.
    fn array(&self, deferral: &Deferral) -> Arc<str> {
        // Built again for each load, which is rare: a copy of it would take 6 KB of every session.
        let described = self.tools.iter().filter(|tool| !self.leaves_out(tool.as_ref()));
        let entries = described.map(|tool| description(tool.as_ref())).chain([placeholder()]);
        let entries: Vec<String> = entries.map(|entry| entry.to_string()).collect();
        let mut array = format!("[{}", entries.join(","));
        for loaded in &deferral.loaded {
            // A tool that is always described now has its entry already, and names are unique.
            if self.get(&loaded.name).is_none_or(|tool| self.leaves_out(tool.as_ref())) {
                array.push(',');
                array.push_str(&loaded.entry);
            }
        }
        array.push(']');
        array.into()
    }

    /// Returns the names of deferred tools; `None` if the set defers nothing. The same value is returned until the
    /// tools change, so comparing the pointers tells whether they did.
    pub fn listing(&self) -> Option<Arc<ToolListing>> {
        let deferral = self.deferral.as_ref()?;
        let listing = deferral.listing.get_or_init(|| {
            let mut names: Vec<String> = self.deferred().map(|tool| tool.name().to_owned()).collect();
            names.sort_unstable();
            Arc::new(ToolListing { names })
        });
        Some(listing.clone())
    }

    /// Returns this set with the tools with these names loaded; an unchanged copy if the set defers nothing. A name
    /// without a tool, such as a former name, gets an entry that says so, because the conversation refers to it.
    pub fn loading(&self, names: &[String]) -> Self {
        let mut set = self.clone();
        let Some(deferral) = &mut set.deferral else { return set };
        for name in names {
            let entry: Arc<str> = self.entry_of(name).to_string().into();
            match deferral.loaded.iter_mut().find(|loaded| loaded.name == *name) {
                // Its description may be another than when it was loaded first.
                Some(known) => known.entry = entry,
                None => deferral.loaded.push(LoadedTool { name: name.clone(), entry }),
            }
        }
        deferral.array = OnceLock::new();
        set
    }

    /// Returns this set in which only tools from `names` are still loaded, and the names of those that are not loaded
    /// any more.
    pub fn unloading_all_but(&self, names: &[String]) -> (Self, Vec<String>) {
        let mut set = self.clone();
        let Some(deferral) = &mut set.deferral else { return (set, Vec::new()) };
        let (kept, dropped) =
            std::mem::take(&mut deferral.loaded).into_iter().partition(|loaded| names.contains(&loaded.name));
        deferral.loaded = kept;
        deferral.array = OnceLock::new();
        let dropped: Vec<LoadedTool> = dropped;
        (set, dropped.into_iter().map(|loaded| loaded.name).collect())
    }

    /// Returns the deferred entry of a tool, or an inert one that says so if the set has no tool with this name.
    fn entry_of(&self, name: &str) -> Value {
        let tool = self.tools.iter().find(|tool| tool.name() == name);
        match tool {
            Some(tool) => deferred_entry(description(tool.as_ref())),
            None => inert_entry(name, "This tool is not available any more."),
        }
    }
}

/// Returns the entry marked with `defer_loading`.
fn deferred_entry(mut entry: Value) -> Value {
    entry["defer_loading"] = Value::Bool(true);
    entry
}

/// Returns a deferred entry without parameters for a name that stands for no tool.
fn inert_entry(name: &str, description: &str) -> Value {
    deferred_entry(json!({
        "name": name,
        "description": description,
        "input_schema": { "type": "object", "properties": {}, "additionalProperties": false },
    }))
}

/// Returns the inert entry that every array has while tools are deferred, also before one is loaded, so that each
/// request of a session uses the same features of the API.
fn placeholder() -> Value {
    inert_entry(PLACEHOLDER, "Stands for the tools that are not loaded. Not a tool itself.")
}

#[cfg(test)]
mod tests;
