//! The tools that `init` lists, held against the reference's: by value and order, without the names that are not here.

use serde_json::Value;

/// Names in the reference's lists that are not in ours, each with the reason. A tool that is added takes its name out; one
/// that is there and still listed here is a difference.
const ELSEWHERE: &[(&str, &str)] = &[
    ("Task", "subagents are not there yet"),
    ("SendMessage", "subagents are not there yet"),
    ("Skill", "skills are not there yet"),
    ("ListAgents", "not offered: no messaging between sessions"),
    ("Workflow", "not offered: needs a JavaScript engine"),
];

/// Whether a tool of the reference is not among ours.
pub fn is_elsewhere(name: &str) -> bool {
    ELSEWHERE.iter().any(|(elsewhere, _)| *elsewhere == name)
}

/// Compares the lists of all init frames, in their order.
pub fn compare_tools(expected: &[Value], actual: &[Value]) -> Result<(), String> {
    let ours = lists(actual);
    for (at, theirs) in lists(expected).into_iter().enumerate() {
        let wanted: Vec<&str> = theirs.into_iter().filter(|name| !is_elsewhere(name)).collect();
        let ours = ours.get(at).map(Vec::as_slice).unwrap_or_default();
        if ours != wanted {
            return Err(format!("tools of init {at}: recorded {wanted:?}, ours {ours:?}"));
        }
    }
    Ok(())
}

/// The tools of each init frame.
fn lists(frames: &[Value]) -> Vec<Vec<&str>> {
    let inits = frames.iter().filter(|frame| frame["subtype"] == "init");
    inits
        .map(|init| init["tools"].as_array().into_iter().flatten().filter_map(Value::as_str).collect())
        .collect()
}
