//! Background tasks as the file of a session tells of them, in the form that other programs write as well.
//!
//! A task starts with the result of its call, whose `toolUseResult` names it (`backgroundTaskId`). It ends with a
//! `queue-operation` record that holds the `<task-notification>` element for the model: `enqueue` if the model is to be
//! told, `remove` if it will not be. The model was told once a record of the conversation names the run (`runId`, and
//! `runIds` where one prompt tells of several ends); the `dequeue` record behind it is for readers only. So a process
//! that dies between any two records leaves each end either untold or told, and never both.
//!
//! The surprising thing: a task without an end is not known to be lost. The run that resumes the session says so, because
//! only one process at a time has it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use serde_json::Value;

use crate::error::{Result, TranscriptError};
use crate::head::Head;
use crate::index::{At, Index};
use crate::lines::Span;

/// The element that tells the model of an end.
pub(crate) const NOTICE_TAG: &str = "<task-notification>";

/// A task of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedTask {
    /// Its id.
    pub id: String,
    /// The call that started it.
    pub tool_use_id: String,
    /// What its call says it is for, or the command.
    pub description: String,
    /// The status that it ended with; `None` if the file tells of no end.
    pub end: Option<String>,
}

/// A notice that the model was not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UntoldEnd {
    /// The task.
    pub task_id: String,
    /// Which run of it ended.
    pub run_id: String,
    /// The `<task-notification>` element.
    pub text: String,
}

/// The tasks of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedTasks {
    /// In the order of their starts.
    pub tasks: Vec<RecordedTask>,
    /// In the order of the ends.
    pub untold: Vec<UntoldEnd>,
}

impl RecordedTasks {
    /// Returns the tasks that have a start and no end, in the order of their starts. They need not be lost; see the
    /// header of this module.
    pub fn open(&self) -> impl Iterator<Item = &RecordedTask> {
        self.tasks.iter().filter(|task| task.end.is_none())
    }
}

/// Reads the background tasks of the session at `path`. Changes nothing.
pub fn recorded_tasks(path: &Path) -> Result<RecordedTasks> {
    let index = Index::open(path)?;
    collect(&index, index.entries.len()).map_err(|error| TranscriptError::io("read", path, error))
}

/// A record that says something about a task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskMark {
    pub span: Span,
    /// The number of chain records before it.
    pub at: At,
    pub is_link: bool,
}

impl TaskMark {
    /// Returns the mark for a record; `None` if it says nothing about a task. `is_link` says whether the record is a
    /// chain record, and `at` is the number of chain records before it.
    pub(crate) fn of(head: &Head<'_>, span: Span, at: At, is_link: bool) -> Option<Self> {
        let is_mark = if is_link {
            !head.is_sidechain && (head.has_task_result || head.names_task_run)
        } else {
            head.kind.as_deref() == Some("queue-operation") && head.holds_notice
        };
        is_mark.then_some(Self { span, at, is_link })
    }
}

/// What the marks of a file say.
#[derive(Default)]
struct Findings {
    starts: Vec<RecordedTask>,
    /// Status by the id of the task.
    ends: HashMap<String, String>,
    queued: Vec<UntoldEnd>,
    /// The runs whose ends the model knows or will not be told.
    settled: HashSet<String>,
}

/// Reads the marks of an index and returns the tasks and the untold ends, of several with the same id the first. Of the
/// conversation only the records before `limit` count; of the queue all do. Marks that are not valid JSON are skipped.
pub(crate) fn collect(index: &Index, limit: At) -> io::Result<RecordedTasks> {
    let mut found = Findings::default();
    for mark in index.task_marks.iter().filter(|mark| !mark.is_link || mark.at < limit) {
        let text = index.read(mark.span)?;
        let Ok(record) = serde_json::from_str::<Value>(&text) else { continue };
        if mark.is_link { found.link(index, &record)? } else { found.queue_operation(&record) }
    }
    let Findings { starts, ends, queued, settled } = found;
    let mut tasks: Vec<RecordedTask> = Vec::new();
    for mut task in starts {
        if tasks.iter().all(|known| known.id != task.id) {
            task.end = ends.get(&task.id).cloned();
            tasks.push(task);
        }
    }
    let mut untold: Vec<UntoldEnd> = Vec::new();
    for notice in queued {
        let is_known = untold.iter().any(|known| known.run_id == notice.run_id);
        if !is_known && !settled.contains(&notice.run_id) {
            untold.push(notice);
        }
    }
    Ok(RecordedTasks { tasks, untold })
}

impl Findings {
    /// Adds what a record of the conversation says: the result of a call that started or stopped a task, or a record
    /// that tells the model of ends. A stop counts as the end `killed` only if no end is known yet; an end that the
    /// model was told replaces an earlier one.
    fn link(&mut self, index: &Index, record: &Value) -> io::Result<()> {
        let result = &record["toolUseResult"];
        if let Some(id) = result["backgroundTaskId"].as_str() {
            let blocks = record["message"]["content"].as_array();
            let call =
                blocks.and_then(|blocks| blocks.iter().find_map(|block| block["tool_use_id"].as_str()));
            let call = call.unwrap_or_default();
            self.starts.push(RecordedTask {
                id: id.to_owned(),
                tool_use_id: call.to_owned(),
                description: description(index, record, call)?,
                end: None,
            });
        } else if let (Some(id), Some(_)) = (result["task_id"].as_str(), result["message"].as_str()) {
            // The result of a call that stopped it.
            self.ends.entry(id.to_owned()).or_insert_with(|| "killed".to_owned());
        }
        for place in [&record["origin"], &record["attachment"]] {
            self.settled.extend(place["runId"].as_str().map(str::to_owned));
            let runs = place["runIds"].as_array().into_iter().flatten();
            self.settled.extend(runs.filter_map(Value::as_str).map(str::to_owned));
        }
        let told = [record["message"].to_string(), record["attachment"]["content"].to_string()];
        for (id, status) in told.iter().flat_map(|text| ends_in(text)) {
            self.ends.insert(id, status);
        }
        Ok(())
    }

    /// Adds a notice that entered the queue, or was kept out of it. One without a run counts as told, because other
    /// programs write none.
    fn queue_operation(&mut self, record: &Value) {
        let text = record["content"].as_str().unwrap_or_default();
        self.ends.extend(ends_in(text));
        // Other programs write no run: their notices count as told.
        let Some(run_id) = record["runId"].as_str() else { return };
        match record["operation"].as_str().unwrap_or_default() {
            "enqueue" => {
                let task_id = element(text, "task-id").unwrap_or_default();
                self.queued.push(UntoldEnd { task_id, run_id: run_id.to_owned(), text: text.to_owned() });
            }
            "remove" => drop(self.settled.insert(run_id.to_owned())),
            _ => {}
        }
    }
}

/// Returns what the call of a task says it is for, or else its command; empty if the call is not found. `result` is the
/// record with the result of the call.
fn description(index: &Index, result: &Value, call: &str) -> io::Result<String> {
    let uuid = result["sourceToolAssistantUUID"].as_str().or_else(|| result["parentUuid"].as_str());
    let Some(at) = uuid.and_then(|uuid| index.position(uuid)) else { return Ok(String::new()) };
    let text = index.read(index.entries[at].span)?;
    let Ok(record) = serde_json::from_str::<Value>(&text) else { return Ok(String::new()) };
    let blocks = record["message"]["content"].as_array();
    let input = blocks.and_then(|blocks| blocks.iter().find(|block| block["id"] == call));
    let word =
        |key: &str| input.and_then(|block| block["input"][key].as_str()).filter(|text| !text.is_empty());
    Ok(word("description").or_else(|| word("command")).unwrap_or_default().to_owned())
}

/// Returns the tasks that the elements in a text tell of, each with its status. The text may be JSON: the values hold
/// no character that is escaped there.
fn ends_in(text: &str) -> Vec<(String, String)> {
    let elements = text.split(NOTICE_TAG).skip(1);
    let end = |part: &str| Some((element(part, "task-id")?, element(part, "status")?));
    elements.filter_map(end).collect()
}

/// Returns the text of the first element with this tag; `None` if there is none. Escapes are not resolved.
fn element(text: &str, tag: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    let (value, _) = rest.split_once(&format!("</{tag}>"))?;
    Some(value.to_owned())
}
