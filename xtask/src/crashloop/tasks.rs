//! Background tasks across the lives of a session. From the transcript alone: which tasks have a start and no end, and
//! which ends the model was not told. What the next life must do with them: tell the host of each of the former exactly
//! once, before its first init frame and of no other, and tell the model of all of them with the first prompt.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use serde_json::Value;

/// The ends that a transcript tells of, and the tasks that it does not tell the end of.
#[derive(Debug, Clone, Default)]
pub struct TaskRecords {
    started: BTreeSet<String>,
    ended: BTreeSet<String>,
    /// The task of each run whose end was queued for the model.
    queued: BTreeMap<String, String>,
    /// The runs whose ends were told.
    told: BTreeSet<String>,
}

impl TaskRecords {
    /// Adds what a record tells of tasks. Fails if a start or an end is recorded twice, or an end is told twice or
    /// before it was recorded.
    pub fn add(&mut self, record: &Value) -> Result<()> {
        if let Some(task) = record["toolUseResult"]["backgroundTaskId"].as_str() {
            ensure!(self.started.insert(task.to_owned()), "the task {task} started twice");
        }
        if record["type"] == "queue-operation"
            && let (Some(text), Some(run)) = (record["content"].as_str(), record["runId"].as_str())
        {
            let task = task_of(text).unwrap_or_default();
            ensure!(self.ended.insert(task.to_owned()), "the end of {task} is recorded twice");
            self.queued.insert(run.to_owned(), task.to_owned());
        }
        for place in [&record["origin"], &record["attachment"]] {
            let all: Vec<&str> = match place["runIds"].as_array() {
                Some(runs) => runs.iter().filter_map(Value::as_str).collect(),
                None => place["runId"].as_str().into_iter().collect(),
            };
            for run in all {
                ensure!(self.queued.contains_key(run), "the end {run} was told before it was recorded");
                ensure!(self.told.insert(run.to_owned()), "the end {run} was told twice");
            }
        }
        Ok(())
    }

    /// Returns the tasks that have a start and no end. After a process has ended these are the lost ones.
    pub fn lost(&self) -> BTreeSet<String> {
        self.started.difference(&self.ended).cloned().collect()
    }

    /// Returns the tasks whose ends are queued and not told, so that the model is still to be told of them.
    pub fn untold(&self) -> BTreeSet<String> {
        let untold = self.queued.iter().filter(|(run, _)| !self.told.contains(*run));
        untold.map(|(_, task)| task.clone()).collect()
    }

    /// Returns how many tasks have started.
    pub fn count(&self) -> usize {
        self.started.len()
    }
}

/// What a life told its host of tasks of earlier lives.
#[derive(Debug, Default)]
pub struct ToldOfTasks {
    /// The tasks named before the first init frame, in order.
    before: Vec<String>,
    has_begun: bool,
    /// The tasks whose end was told, at any time.
    ended: BTreeSet<String>,
}

impl ToldOfTasks {
    /// Adds what a frame tells of tasks. Fails if an end is told twice, or a lost task is not told as stopped.
    pub fn add(&mut self, frame: &Value) -> Result<()> {
        match frame["subtype"].as_str() {
            Some("init") => self.has_begun = true,
            Some("task_notification") => {
                let task = frame["task_id"].as_str().unwrap_or_default();
                ensure!(self.ended.insert(task.to_owned()), "the host was told of the end of {task} twice");
                if !self.has_begun {
                    ensure!(
                        frame["status"] == "stopped" && frame["output_file"] == "",
                        "a lost task is told as {frame}"
                    );
                    self.before.push(task.to_owned());
                }
            }
            Some(_) | None => {}
        }
        Ok(())
    }

    /// Checks what a life told its host against `left`, what the life before it had left behind: every lost task
    /// exactly once and before the first init frame, and no other end again. A life that was killed before that frame
    /// may have told fewer.
    pub fn check(&self, left: &TaskRecords) -> Result<()> {
        let (lost, told) = (left.lost(), self.before.iter().cloned().collect::<BTreeSet<_>>());
        // A life that was killed before its first init frame may not have come so far.
        ensure!(told.is_subset(&lost), "told as lost: {told:?}, lost: {lost:?}");
        ensure!(!self.has_begun || told == lost, "told as lost: {told:?}, lost: {lost:?}");
        let again: Vec<_> = self.ended.intersection(&left.ended).collect();
        ensure!(again.is_empty(), "ended before, and told again: {again:?}");
        Ok(())
    }
}

/// Returns the id of the task that a notice is about; `None` if the notice names none.
fn task_of(notice: &str) -> Option<&str> {
    let (_, rest) = notice.split_once("<task-id>")?;
    Some(rest.split_once("</task-id>")?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn records(records: &[Value]) -> Result<TaskRecords> {
        let mut all = TaskRecords::default();
        records.iter().try_for_each(|record| all.add(record))?;
        Ok(all)
    }

    fn start(task: &str) -> Value {
        json!({"toolUseResult": {"backgroundTaskId": task}})
    }

    fn end(task: &str, run: &str) -> Value {
        json!({"type": "queue-operation", "operation": "enqueue", "runId": run,
            "content": format!("<task-notification><task-id>{task}</task-id></task-notification>")})
    }

    fn told(frames: &[Value]) -> Result<ToldOfTasks> {
        let mut all = ToldOfTasks::default();
        frames.iter().try_for_each(|frame| all.add(frame))?;
        Ok(all)
    }

    #[test]
    fn broken_promises_are_seen() {
        let left = records(&[start("a"), start("b"), end("a", "r")]).unwrap();
        let notice = |task: &str| json!({"subtype": "task_notification", "task_id": task, "status": "stopped", "output_file": ""});
        let init = json!({"subtype": "init"});
        told(&[notice("b"), init.clone()]).unwrap().check(&left).unwrap();
        told(&[]).unwrap().check(&left).unwrap();
        assert!(told(std::slice::from_ref(&init)).unwrap().check(&left).is_err(), "not told");
        assert!(told(&[notice("a")]).unwrap().check(&left).is_err(), "it had ended");
        assert!(told(&[notice("b"), notice("b")]).is_err(), "twice");
        assert!(told(&[notice("b"), init, notice("a")]).unwrap().check(&left).is_err(), "again");
        assert!(records(&[end("a", "r"), end("a", "s")]).is_err(), "two ends");
        let tells = json!({"origin": {"runId": "r"}});
        assert!(records(std::slice::from_ref(&tells)).is_err(), "told before it is recorded");
        assert!(records(&[end("a", "r"), tells.clone(), tells]).is_err(), "told twice");
        assert_eq!(left.untold().into_iter().collect::<Vec<_>>(), ["a"]);
    }
}
