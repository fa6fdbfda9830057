//! CronCreate, CronList and CronDelete: prompts that start turns by the clock while the session lives.

use std::sync::{Arc, LazyLock};

use futures_util::future::BoxFuture;
use lathe_protocol::{CallSubject, SessionAccess};
use serde_json::{Map, Value, json};

use super::expression::{CronExpression, shown};
use crate::{
    Content, CronJob, CronRecurrence, CronStanding, CronStorage, Loading, NewCronJob, Offered,
    ScheduleFailure, Tool, ToolContext, ToolDeclaration, ToolFailure, ToolOutput,
};

/// Characters of the prompt of a job: all jobs together fit into one list.
const MAX_PROMPT_CHARS: usize = 2000;

/// The CronCreate tool.
#[derive(Debug, Default)]
pub struct CronCreate;

/// The CronList tool.
#[derive(Debug, Default)]
pub struct CronList;

/// The CronDelete tool.
#[derive(Debug, Default)]
pub struct CronDelete;

/// Who has the tools. Background agents do not: a job outlives them.
const DECLARATION: ToolDeclaration = ToolDeclaration {
    current: Offered::WithSchedule,
    sdk_0_2: Offered::Never,
    cli_1_0: Offered::Never,
    loading: Loading::Deferred,
    bare: false,
    for_subagents: true,
    for_background_agents: false,
};

static CREATE_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "cron": { "type": "string", "description": "Minute, hour, day of month, month, day of week (0 is Sunday), in local time: \"*/5 * * * *\"" },
            "prompt": { "type": "string", "description": "What the session is asked then" },
            "recurring": { "type": "boolean", "description": "false: only the next time; default true" },
            "durable": { "type": "boolean", "description": "true: kept in a file of the folder, for later sessions too; default false" },
        },
        "required": ["cron", "prompt"],
        "additionalProperties": false,
    })
});

static LIST_SCHEMA: LazyLock<Value> =
    LazyLock::new(|| json!({"type": "object", "properties": {}, "additionalProperties": false}));

static DELETE_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": { "id": { "type": "string", "description": "The id that CronCreate returned" } },
        "required": ["id"],
        "additionalProperties": false,
    })
});

impl CronCreate {
    /// The name of the tool.
    pub const NAME: &'static str = "CronCreate";
}

impl Tool for CronCreate {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn declaration(&self) -> ToolDeclaration {
        DECLARATION
    }

    fn description(&self) -> &str {
        "Schedules a prompt by a cron expression, for reminders and regular checks. It starts a turn of its own while \
         the session is open and idle; a recurring job comes somewhat late, so that not all jobs come at once, and ends \
         after 7 days. Choose an odd minute unless the user names a time."
    }

    fn input_schema(&self) -> &Value {
        &CREATE_SCHEMA
    }

    fn main_input(&self) -> Option<&str> {
        Some("prompt")
    }

    fn subject(&self, _: &Value) -> CallSubject {
        CallSubject::Session(SessionAccess::Changes)
    }

    fn check(&self, input: &Value) -> Result<(), ToolFailure> {
        let rejected = |why: String| Err(ToolFailure::Rejected(why));
        if let Err(invalid) = CronExpression::parse(input["cron"].as_str().unwrap_or_default()) {
            return rejected(invalid.to_string());
        }
        let prompt = input["prompt"].as_str().unwrap_or_default();
        match prompt.chars().count() {
            0 => rejected("The prompt is empty.".to_owned()),
            count if count > MAX_PROMPT_CHARS => {
                rejected(format!("The prompt has {count} characters; {MAX_PROMPT_CHARS} are the most."))
            }
            _ => Ok(()),
        }
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            let cron = CronExpression::parse(input["cron"].as_str().unwrap_or_default());
            let cron = cron.map_err(|invalid| ToolFailure::Rejected(invalid.to_string()))?;
            let job = NewCronJob {
                cron,
                prompt: input["prompt"].as_str().unwrap_or_default().to_owned(),
                recurrence: match input["recurring"].as_bool() {
                    Some(false) => CronRecurrence::Once,
                    Some(true) | None => CronRecurrence::Recurring,
                },
                storage: match input["durable"].as_bool() {
                    Some(true) => CronStorage::Folder,
                    Some(false) | None => CronStorage::Session,
                },
            };
            let created = Arc::clone(&context.session).create_job(job).await.map_err(failure)?;
            Ok(ToolOutput::new(Content::Text(created_text(&created)), created_result(&created)))
        })
    }
}

impl Tool for CronList {
    fn name(&self) -> &str {
        "CronList"
    }

    fn declaration(&self) -> ToolDeclaration {
        DECLARATION
    }

    fn description(&self) -> &str {
        "Lists the scheduled prompts of the session and of its folder."
    }

    fn input_schema(&self) -> &Value {
        &LIST_SCHEMA
    }

    fn subject(&self, _: &Value) -> CallSubject {
        CallSubject::Session(SessionAccess::Reads)
    }

    fn call<'a>(
        &'a self,
        _input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        let jobs = context.session.jobs().map_err(failure);
        let output = jobs.map(|jobs| {
            let lines: Vec<String> = jobs.iter().map(list_line).collect();
            let text = if lines.is_empty() { "Nothing is scheduled.".to_owned() } else { lines.join("\n") };
            let entries: Vec<Value> = jobs.iter().map(list_entry).collect();
            ToolOutput::new(Content::Text(text), json!({ "jobs": entries }))
        });
        Box::pin(std::future::ready(output))
    }
}

impl CronDelete {
    /// The name of the tool.
    pub const NAME: &'static str = "CronDelete";
}

impl Tool for CronDelete {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn declaration(&self) -> ToolDeclaration {
        DECLARATION
    }

    fn description(&self) -> &str {
        "Removes a scheduled prompt."
    }

    fn input_schema(&self) -> &Value {
        &DELETE_SCHEMA
    }

    fn subject(&self, _: &Value) -> CallSubject {
        CallSubject::Session(SessionAccess::Changes)
    }

    fn call<'a>(
        &'a self,
        input: &'a Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            let id = input["id"].as_str().unwrap_or_default();
            let deleted = Arc::clone(&context.session).delete_job(id.to_owned()).await;
            deleted.map_err(|why| match why {
                ScheduleFailure::UnknownJob => {
                    ToolFailure::Rejected(format!("No scheduled job with id '{id}'"))
                }
                failed @ ScheduleFailure::Failed(_) => failure(failed),
            })?;
            Ok(ToolOutput::new(Content::Text(format!("Cancelled job {id}.")), json!({ "id": id })))
        })
    }
}

/// Returns the failure of a call for what the session could not do. An unknown id is a mistake of the call, anything
/// else a failure.
fn failure(why: ScheduleFailure) -> ToolFailure {
    match why {
        ScheduleFailure::UnknownJob => ToolFailure::Rejected("No job has this id".to_owned()),
        ScheduleFailure::Failed(why) => ToolFailure::Failed(why),
    }
}

/// Returns when the job runs next, in words; `never` if it does not run again.
fn next_run(job: &CronJob) -> String {
    job.next_fire.as_ref().map_or_else(|| "never".to_owned(), shown)
}

/// Returns the text for the model about a new job: when it runs, where it is kept, and when it ends.
fn created_text(created: &CronJob) -> String {
    let CronJob { id, job, .. } = created;
    let human = job.cron.in_words();
    let what = match job.recurrence {
        CronRecurrence::Recurring => format!("Scheduled recurring job {id} ({human})"),
        CronRecurrence::Once => format!("Scheduled one-shot task {id} ({human})"),
    };
    let kept = match (job.storage, created.standing) {
        (CronStorage::Session, _) => "It lives in this session only and ends with it.",
        (CronStorage::Folder, CronStanding::Active) => "It is kept in .claude/scheduled_tasks.json.",
        (CronStorage::Folder, CronStanding::Untrusted) => {
            "It is kept in .claude/scheduled_tasks.json; this folder is not trusted, so later sessions list it and do \
             not run it."
        }
    };
    let end = match job.recurrence {
        CronRecurrence::Recurring => "It ends after 7 days, or with CronDelete.",
        CronRecurrence::Once => "It runs once; CronDelete cancels it.",
    };
    format!("{what}. Next run: {}. {kept} {end}", next_run(created))
}

/// Returns the value for programs about a new job.
fn created_result(created: &CronJob) -> Value {
    json!({
        "id": created.id,
        "humanSchedule": created.job.cron.in_words(),
        "recurring": created.job.recurrence == CronRecurrence::Recurring,
        "durable": created.job.storage == CronStorage::Folder,
        "nextFireAt": next_fire_ms(created),
    })
}

/// Returns when the job runs next, in milliseconds since the epoch; `None` if never.
fn next_fire_ms(job: &CronJob) -> Option<i64> {
    job.next_fire.as_ref().map(|time| time.timestamp().as_millisecond())
}

/// Returns the line about a job in the list for the model.
fn list_line(job: &CronJob) -> String {
    let often = match job.job.recurrence {
        CronRecurrence::Recurring => "recurring",
        CronRecurrence::Once => "one-shot",
    };
    let note = match (job.job.storage, job.standing) {
        (CronStorage::Session, _) => " [session-only]",
        (CronStorage::Folder, CronStanding::Untrusted) => " [not trusted: does not run]",
        (CronStorage::Folder, CronStanding::Active) => "",
    };
    let human = job.job.cron.in_words();
    format!("{} — {human} ({often}){note}, next run {}: {}", job.id, next_run(job), job.job.prompt)
}

/// Returns a job as programs get it. `recurring` is left out for a job that runs once, and `durable` for one that is
/// kept in the folder, because clients know the list in this form.
fn list_entry(job: &CronJob) -> Value {
    let mut entry = Map::new();
    entry.insert("id".to_owned(), json!(job.id));
    entry.insert("cron".to_owned(), json!(job.job.cron.as_str()));
    entry.insert("humanSchedule".to_owned(), json!(job.job.cron.in_words()));
    entry.insert("prompt".to_owned(), json!(job.job.prompt));
    if job.job.recurrence == CronRecurrence::Recurring {
        entry.insert("recurring".to_owned(), json!(true));
    }
    if job.job.storage == CronStorage::Session {
        entry.insert("durable".to_owned(), json!(false));
    }
    entry.insert("nextFireAt".to_owned(), json!(next_fire_ms(job)));
    Value::Object(entry)
}
