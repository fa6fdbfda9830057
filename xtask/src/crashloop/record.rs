//! The transcript and the working folder after a kill, and what must be true of them. Files are read here with only a
//! JSON parser: a fault of Lathe's own reader must not hide a fault of its writer.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::script::{self, EFFECTS};
use super::tasks::TaskRecords;

/// A session file, read line by line.
#[derive(Default)]
pub struct Transcript {
    /// The ids of its records.
    pub uuids: HashSet<String>,
    /// Calls, by id.
    pub calls: HashSet<String>,
    /// Results, by the id of their call: whether it was an error.
    pub results: HashMap<String, bool>,
    /// Lines that are not records.
    pub torn: u32,
    /// The cost of the session, by its last record of it.
    pub cost: f64,
    /// What it tells of background tasks.
    pub tasks: TaskRecords,
}

impl Transcript {
    /// Reads a file; one that is missing or cannot be read is empty. Lines that are not JSON are counted as torn. Fails
    /// if an id occurs twice or a link leads to a record that is not before it.
    pub fn read(path: &Path) -> Result<Self> {
        let mut transcript = Self::default();
        let bytes = fs::read(path).unwrap_or_default();
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Value>(line) {
                Ok(record) => transcript.add(&record)?,
                Err(_) => transcript.torn += 1,
            }
        }
        Ok(transcript)
    }

    /// Checks a record against those before it, and adds what it tells of costs, tasks, calls and results. Records must
    /// be added in the order of the file.
    fn add(&mut self, record: &Value) -> Result<()> {
        if record["type"] == "cost-state" {
            self.cost = record["totalCostUSD"].as_f64().unwrap_or(0.0);
        }
        self.tasks.add(record)?;
        let Some(uuid) = record["uuid"].as_str() else { return Ok(()) };
        ensure!(self.uuids.insert(uuid.to_owned()), "the uuid {uuid} stands twice in the transcript");
        if let Some(parent) = record["parentUuid"].as_str() {
            ensure!(self.uuids.contains(parent), "{uuid} follows {parent}, which is not in the transcript");
        }
        for block in record["message"]["content"].as_array().into_iter().flatten() {
            if let Some(call) = block["id"].as_str().filter(|_| block["type"] == "tool_use") {
                self.calls.insert(call.to_owned());
            }
            if let Some(call) = block["tool_use_id"].as_str() {
                let is_error = block["is_error"] == true;
                let is_first = self.results.insert(call.to_owned(), is_error).is_none();
                ensure!(is_first, "the call {call} has two results");
            }
        }
        Ok(())
    }

    /// Checks in the working folder that every effect of a tool belongs to a recorded call and happened once, that no
    /// call failed, and that every call with a result had its effect. What tasks leave behind is not checked here.
    pub fn check_effects(&self, folder: &Path) -> Result<()> {
        let log = fs::read_to_string(folder.join(EFFECTS)).unwrap_or_default();
        let mut done = HashSet::new();
        for call in log.lines() {
            ensure!(self.calls.contains(call), "the command of {call} ran before its call was recorded");
            ensure!(done.insert(call), "the command of {call} ran twice");
        }
        for entry in fs::read_dir(folder).context("the working folder is gone")? {
            let name = entry.context("the working folder is unreadable")?.file_name();
            let Some(call) = name.to_str().and_then(|name| name.strip_suffix(".txt")) else { continue };
            ensure!(self.calls.contains(call), "the file of {call} was written before its call was recorded");
            let text = fs::read_to_string(folder.join(&name)).unwrap_or_default();
            let is_whole = ["old", "new"].iter().any(|age| text == script::content(call, age));
            ensure!(is_whole, "the file of {call} is torn: {} bytes", text.len());
        }
        for (call, is_error) in &self.results {
            ensure!(!is_error, "the call {call} failed");
            let file = folder.join(format!("{}.txt", call.replace("_edit", "_write")));
            let is_done = match call.rsplit('_').next() {
                // What tasks leave behind is checked in `tasks.rs`.
                Some(script::TASK) => true,
                Some("bash") => done.contains(call.as_str()),
                Some("edit") => fs::read_to_string(file)
                    .is_ok_and(|text| text == script::content(&call.replace("_edit", "_write"), "new")),
                _ => file.exists(),
            };
            ensure!(is_done, "{call} has a result, but its effect is not there");
        }
        Ok(())
    }

    /// Returns whether a call of the process number `life` has no result. Calls are recognised by their ids,
    /// `toolu_<life>_…`, which `script.rs` gives them.
    pub fn has_lost_call(&self, life: u32) -> bool {
        let prefix = format!("toolu_{life}_");
        self.calls.iter().any(|call| call.starts_with(&prefix) && !self.results.contains_key(call))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(records: &[Value]) -> Result<Transcript> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let lines: Vec<String> = records.iter().map(Value::to_string).collect();
        fs::write(&path, lines.join("\n") + "\n{\"uuid\":\"t").unwrap();
        Transcript::read(&path)
    }

    fn call(uuid: &str, id: &str) -> Value {
        json!({ "uuid": uuid, "message": { "content": [{ "type": "tool_use", "id": id }] } })
    }

    fn result(uuid: &str, id: &str) -> Value {
        json!({ "uuid": uuid, "parentUuid": "a", "message": { "content": [{ "tool_use_id": id }] } })
    }

    #[test]
    fn a_lost_result_and_a_torn_line_are_seen() {
        let transcript = read(&[call("a", "toolu_2_0_bash"), call("b", "toolu_2_0_write")]).unwrap();
        assert!(transcript.has_lost_call(2) && !transcript.has_lost_call(1) && transcript.torn == 1);
        let whole = read(&[call("a", "toolu_2_0_bash"), result("b", "toolu_2_0_bash")]).unwrap();
        assert!(!whole.has_lost_call(2));
    }

    #[test]
    fn broken_promises_are_seen() {
        assert!(read(&[call("a", "x"), call("a", "y")]).is_err(), "an id twice");
        assert!(read(&[result("b", "x")]).is_err(), "a link to nowhere");
        assert!(read(&[call("a", "x"), result("b", "x"), result("c", "x")]).is_err(), "two results");
        let folder = tempfile::tempdir().unwrap();
        let transcript = read(&[call("a", "toolu_0_0_bash"), result("b", "toolu_0_0_bash")]).unwrap();
        assert!(transcript.check_effects(folder.path()).is_err(), "a result without an effect");
        fs::write(folder.path().join(EFFECTS), "toolu_0_0_bash\n").unwrap();
        transcript.check_effects(folder.path()).unwrap();
        fs::write(folder.path().join(EFFECTS), "toolu_0_0_bash\ntoolu_0_0_bash\n").unwrap();
        assert!(transcript.check_effects(folder.path()).is_err(), "an effect twice");
        fs::write(folder.path().join(EFFECTS), "toolu_0_0_bash\ntoolu_9_9_bash\n").unwrap();
        assert!(transcript.check_effects(folder.path()).is_err(), "an effect without a call");
    }
}
