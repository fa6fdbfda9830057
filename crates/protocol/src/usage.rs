//! Token counts, as the Messages API reports them and as results add them up.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Tokens of one answer, or a sum of answers. Fields the API adds later are kept in `extra`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    #[serde(default)]
    pub input_tokens: u64,
    #[serde(default)]
    pub cache_creation_input_tokens: u64,
    #[serde(default)]
    pub cache_read_input_tokens: u64,
    #[serde(default)]
    pub output_tokens: u64,
    /// Whatever else stood beside them: `cache_creation`, `server_tool_use`, `service_tier`, …
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}
