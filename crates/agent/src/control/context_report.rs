//! How full the model's window is: an estimate by category, for hosts that ask (`get_context_usage`) and
//! for people (`/context`).

use lathe_models::catalog;
use lathe_protocol::Usage;
use lathe_settings::memory::MemoryFile;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::record::estimate::text_tokens;
use crate::state::agent::AgentHandle;
use crate::state::compact_policy::WindowLimits;

/// Rows of the grid.
const GRID_ROWS: u64 = 10;

/// Size of the window from which the grid is twice as wide.
const WIDE_WINDOW: u64 = 1_000_000;

/// What fills the window.
pub(crate) struct ContextReport {
    model: String,
    model_window: u64,
    /// The window in force: the model's, or a smaller one that the conversation is compacted for.
    window: u64,
    limits: WindowLimits,
    automatic: bool,
    categories: Vec<Category>,
    /// Tokens of the tools that requests only name, because they were not loaded.
    deferred: u64,
    memory_files: Vec<MemoryUse>,
    /// Usage of the last response, if there was one.
    last_usage: Option<Usage>,
}

struct Category {
    id: &'static str,
    name: &'static str,
    color: &'static str,
    kind: Kind,
    tokens: u64,
}

/// A memory file that the model was given.
struct MemoryUse {
    path: String,
    /// The kind of the file, by its wire name.
    kind: &'static str,
    tokens: u64,
}

impl MemoryUse {
    /// Estimates what a memory file takes of the window. Automatic memory has no hook name and is listed as `AutoMem`.
    fn of(file: &MemoryFile) -> Self {
        Self {
            path: file.path.display().to_string(),
            kind: file.kind.hook_name().unwrap_or("AutoMem"),
            tokens: text_tokens(file.text().len()),
        }
    }

    /// Returns the entry for the list of memory files in the reply.
    fn listed(&self) -> Value {
        json!({"path": self.path, "type": self.kind, "tokens": self.tokens})
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Used,
    Buffer,
    Free,
}

impl Kind {
    /// Returns the name of the category's kind in the reply; hosts compare it.
    fn wire_name(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Buffer => "buffer",
            Self::Free => "free",
        }
    }
}

impl ContextReport {
    /// Reports how full the window of an agent is now. The conversation counts with the size that was published last,
    /// so a caller that knows a newer one has to publish it before. The parts are estimated, so their sum differs from
    /// the API's own count, which stands beside them.
    pub fn of(agent: &AgentHandle) -> Self {
        let (model, model_window) = {
            let choice = agent.choice();
            (choice.id.clone(), catalog::context_window(&choice.id, &choice.betas))
        };
        let (limits, automatic) = {
            let policy = agent.view().compact.policy;
            (policy.limits(model_window), policy.is_automatic())
        };
        // A window to compact for means nothing if nothing is compacted.
        let window = if automatic { limits.window } else { model_window };
        let offer = agent.offer(&model);
        let system: usize = offer.system.iter().map(|part| part.text.len()).sum();
        let size = agent.view().progress.size;
        let memory_files: Vec<MemoryUse> = agent.view().memory_files.iter().map(MemoryUse::of).collect();
        let memory = memory_files.iter().map(|file| file.tokens).sum();
        let used = |id, name, color, tokens| Category { id, name, color, kind: Kind::Used, tokens };
        let mut categories = vec![
            used("system_prompt", "System prompt", "promptBorder", text_tokens(system)),
            used("system_tools", "System tools", "inactive", text_tokens(offer.tools.len())),
            used("memory_files", "Memory files", "claude", memory),
            // Memory files are part of the first message and are counted above.
            used("messages", "Messages", "purple_FOR_SUBAGENTS_ONLY", size.messages.saturating_sub(memory)),
        ];
        categories.retain(|category| category.id != "memory_files" || category.tokens > 0);
        let mut free = window.saturating_sub(categories.iter().map(|category| category.tokens).sum());
        if automatic {
            let tokens = limits.window.saturating_sub(limits.threshold).min(free);
            let (id, name) = ("autocompact_buffer", "Autocompact buffer");
            categories.push(Category { id, name, color: "inactive", kind: Kind::Buffer, tokens });
            free -= tokens;
        }
        let (id, name) = ("free_space", "Free space");
        categories.push(Category { id, name, color: "promptBorder", kind: Kind::Free, tokens: free });
        let last_usage = agent.session.totals().last_usage().cloned();
        let deferred = if offer.defers_tools { text_tokens(agent.tools().unloaded_bytes()) } else { 0 };
        Self {
            model,
            model_window,
            window,
            limits,
            automatic,
            categories,
            deferred,
            memory_files,
            last_usage,
        }
    }

    /// Returns the tokens of the categories that are in use, without the buffer and the free part.
    fn used(&self) -> u64 {
        let used = self.categories.iter().filter(|category| category.kind == Kind::Used);
        used.map(|category| category.tokens).sum()
    }

    /// Returns the used part of the window in percent, rounded down, and 0 for a window of 0. It can exceed 100.
    fn percentage(&self) -> u64 {
        (self.used() * 100).checked_div(self.window).unwrap_or(0)
    }

    /// Returns the report as the reply to `get_context_usage`; its keys are those of the reference. Tools that are not
    /// loaded are listed as a category of their own and not counted as used.
    pub fn for_hosts(&self) -> HostReport {
        let category = |category: &Category| {
            json!({
                "id": category.id, "name": category.name, "tokens": category.tokens,
                "color": category.color, "kind": category.kind.wire_name(),
            })
        };
        let mut categories: Vec<Value> = self.categories.iter().map(category).collect();
        if self.deferred > 0 {
            // Right behind the tools that are part of the requests.
            let at = self.categories.iter().position(|category| category.id == "system_tools");
            categories.insert(
                at.map_or(0, |at| at + 1),
                json!({
                    "id": "system_tools_deferred", "name": "System tools (deferred)", "tokens": self.deferred,
                    "color": "inactive", "isDeferred": true, "kind": "deferred",
                }),
            );
        }
        let always = json!({
            "categories": categories,
            "totalTokens": self.used(),
            "maxTokens": self.window,
            "rawMaxTokens": self.window,
            "percentage": self.percentage(),
            "gridRows": self.grid(),
            "model": self.model,
            "memoryFiles": self.memory_list(),
            "mcpTools": [],
            "agents": [],
            "isAutoCompactEnabled": self.automatic,
            "apiUsage": self.last_usage.as_ref().map(|usage| Map::from_iter(counted(usage).map(named))),
        });
        let auto_compact_threshold = self.automatic.then_some(self.limits.threshold);
        HostReport { always, auto_compact_threshold }
    }

    /// Returns the window as rows of squares for hosts that draw it: first what is used, then what is free, then the
    /// buffer. Each used category and the buffer are rounded up to whole squares; squares beyond the end of the grid
    /// are left out.
    fn grid(&self) -> Vec<Vec<Value>> {
        let columns = if self.window >= WIDE_WINDOW { 20 } else { 10 };
        let unit = (self.window / (GRID_ROWS * columns)).max(1);
        let of_kind = |kind: Kind| self.categories.iter().filter(move |category| category.kind == kind);
        let squares = |category: &Category| category.tokens.div_ceil(unit);
        let taken: u64 = of_kind(Kind::Used).chain(of_kind(Kind::Buffer)).map(squares).sum();
        let left = (GRID_ROWS * columns).saturating_sub(taken);
        let mut cells = Vec::new();
        for category in of_kind(Kind::Used).chain(of_kind(Kind::Free)).chain(of_kind(Kind::Buffer)) {
            let count = if category.kind == Kind::Free { left } else { squares(category) };
            // The last square of a category may be filled in part.
            let fullness = |nth: u64| match category.kind {
                Kind::Free => 1.0,
                Kind::Used | Kind::Buffer => ((category.tokens - nth * unit) as f64 / unit as f64).min(1.0),
            };
            let percentage = (category.tokens as f64 * 100.0 / self.window as f64).round() as u64;
            cells.extend((0..count).map(|nth| {
                json!({
                    "color": category.color, "isFilled": true, "categoryName": category.name,
                    "tokens": category.tokens, "percentage": percentage, "squareFullness": fullness(nth),
                })
            }));
        }
        // Every category rounds up, so together they may need more squares than there are.
        cells.truncate((GRID_ROWS * columns) as usize);
        cells.chunks(columns as usize).map(<[Value]>::to_vec).collect()
    }

    /// Returns the report as the field `context_usage` of the frame that `/context` shows. It says how much is over the
    /// limit only if more is used than the window holds.
    pub fn for_frame(&self) -> FrameReport {
        let category = |category: &Category| json!({"name": category.name, "tokens": category.tokens, "kind": category.kind.wire_name()});
        let always = json!({
            "model": self.model,
            "total_tokens": self.used(),
            "raw_max_tokens": self.window,
            "percentage": self.percentage(),
            "categories": self.categories.iter().map(category).collect::<Vec<_>>(),
            "mcp_tools": [], "memory_files": self.memory_list(), "agents": [], "skills": [],
        });
        let over = self.used().checked_sub(self.window).filter(|over| *over > 0);
        let kind = if self.window < self.model_window { "compaction_window" } else { "hard_limit" };
        FrameReport { always, over_limit: over.map(|tokens_over| OverLimit { tokens_over, kind }) }
    }

    /// Returns the entries for all memory files, in the order in which they were loaded.
    fn memory_list(&self) -> Vec<Value> {
        self.memory_files.iter().map(MemoryUse::listed).collect()
    }

    /// Returns the report as Markdown, which is the text of `/context`. It says that the figures are estimates, and
    /// adds the API's own count if there was a response.
    pub fn for_people(&self) -> String {
        let mut text = format!(
            "## Context Usage\n\n**Model:** {}  \n**Tokens:** {} / {} ({}%)\n\n\
             | Category | Tokens | Percentage |\n|----------|--------|------------|\n",
            self.model,
            short(self.used()),
            short(self.window),
            self.percentage(),
        );
        for category in &self.categories {
            let share = category.tokens as f64 * 100.0 / self.window.max(1) as f64;
            text.push_str(&format!("| {} | {} | {share:.1}% |\n", category.name, short(category.tokens)));
        }
        if !self.memory_files.is_empty() {
            text.push_str("\n### Memory Files\n\n| Type | Path | Tokens |\n|------|------|--------|\n");
        }
        for file in &self.memory_files {
            text.push_str(&format!("| {} | {} | {} |\n", file.kind, file.path, short(file.tokens)));
        }
        text.push_str("\nThese are estimates.");
        if let Some(usage) = &self.last_usage {
            let counted: u64 = counted(usage).iter().map(|(_, tokens)| tokens).sum();
            text.push_str(&format!(" The API counted {counted} tokens for the last answer."));
        }
        text.push_str(&if self.automatic {
            format!(" The conversation is compacted at {} tokens.", short(self.limits.threshold))
        } else {
            " The conversation is not compacted by itself.".to_owned()
        });
        text
    }
}

/// How full the window is, for hosts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostReport {
    #[serde(flatten)]
    always: Value,
    /// Where the conversation is compacted automatically, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_compact_threshold: Option<u64>,
}

/// The figures beside the text that people read.
#[derive(Serialize)]
pub(crate) struct FrameReport {
    #[serde(flatten)]
    always: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    over_limit: Option<OverLimit>,
}

#[derive(Serialize)]
struct OverLimit {
    tokens_over: u64,
    kind: &'static str,
}

/// Returns the token counts of a request as the API reported them, each with its name on the wire.
fn counted(usage: &Usage) -> [(&'static str, u64); 4] {
    [
        ("input_tokens", usage.input_tokens),
        ("output_tokens", usage.output_tokens),
        ("cache_creation_input_tokens", usage.cache_creation_input_tokens),
        ("cache_read_input_tokens", usage.cache_read_input_tokens),
    ]
}

/// Converts a token count into a member of a JSON object.
fn named((name, tokens): (&str, u64)) -> (String, Value) {
    (name.to_owned(), tokens.into())
}

/// Formats a token count for people, with tenths rounded down: `950`, `2.3k`, `1m`.
fn short(tokens: u64) -> String {
    let scaled = |unit: u64, name: &str| {
        let tenths = tokens * 10 / unit;
        if tenths.is_multiple_of(10) {
            format!("{}{name}", tenths / 10)
        } else {
            format!("{}.{}{name}", tenths / 10, tenths % 10)
        }
    };
    match tokens {
        0..1000 => tokens.to_string(),
        1000..1_000_000 => scaled(1000, "k"),
        _ => scaled(1_000_000, "m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short() {
        let rows =
            [(0, "0"), (999, "999"), (1000, "1k"), (2263, "2.2k"), (964_800, "964.8k"), (1_000_000, "1m")];
        for (tokens, text) in rows {
            assert_eq!(short(tokens), text);
        }
    }
}
