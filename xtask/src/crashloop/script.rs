//! The script of the model in one life of a session. A session has ten prompts of three turns each: a command and a new
//! file, a change of that file, a closing word. In a session with tasks each prompt also starts a command in the
//! background, one that never ends or one that ends at once; what such an end says is answered outside of the sequence,
//! because it is not known when it comes. Every call has a unique id over all lives, and leaves that id where the
//! checks find it, so that effects can be told apart.

use serde_json::{Value, json};

/// Prompts of a session.
pub const PROMPTS: u32 = 10;

/// Where the commands leave their ids, one per line.
pub const EFFECTS: &str = "effects.log";

/// The end of the id of a call that starts a task.
pub const TASK: &str = "task";

/// What the model must read about a call whose result was lost: the beginning of the text that stands for
/// the result. (It is written in `crates/transcript/src/history.rs`.)
const LOST_RESULT: &str = "No result was recorded";

/// What the model is told about the life before this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// Every call has its result.
    Nothing,
    /// A call was running when the life ended.
    Call,
}

/// Whether a session starts commands in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tasks {
    /// None.
    None,
    /// One with each prompt.
    Some,
}

/// Returns the model's script for the process number `life`, which begins with the prompt `first`. `lost` says whether
/// an earlier call lacks its result, which the first request then has to mention.
pub fn of_life(life: u32, first: u32, lost: Lost, tasks: Tasks) -> Value {
    let mut turns: Vec<Value> = (first..PROMPTS).flat_map(|prompt| of_prompt(life, prompt, tasks)).collect();
    if lost == Lost::Call
        && let Some(turn) = turns.first_mut()
    {
        turn["expect"] = json!({ "tool_result": LOST_RESULT });
    }
    if tasks == Tasks::Some {
        turns.push(json!({ "when": { "brings": "reminders" }, "text": "Noted." }));
    }
    json!({ "turns": turns, "at_end": "error" })
}

/// Returns the three responses to one prompt. Every call has an effect on disk by which it can be recognised, and an id
/// of the form `toolu_<life>_<prompt>_<call>`, which `record.rs` and `trial.rs` read.
fn of_prompt(life: u32, prompt: u32, tasks: Tasks) -> [Value; 3] {
    let id = |call: &str| format!("toolu_{life}_{prompt}_{call}");
    let (command, file, edit) = (id("bash"), id("write"), id("edit"));
    let path = format!("{file}.txt");
    let mut tools = vec![
        json!({ "name": "Bash", "id": command, "input": { "command": format!("echo {command} >> {EFFECTS}") } }),
        json!({ "name": "Write", "id": file, "input": { "file_path": path, "content": content(&file, "old") } }),
    ];
    if tasks == Tasks::Some {
        let endless = if prompt.is_multiple_of(2) { "exec tail -f /dev/null" } else { "true" };
        let task = json!({
            "name": "Bash",
            "id": id(TASK),
            "input": { "command": endless, "run_in_background": true },
        });
        tools.insert(0, task);
    }
    [
        json!({ "text": format!("Prompt {prompt}, life {life}."), "tools": tools }),
        json!({
            "tools": [{
                "name": "Edit",
                "id": edit,
                "input": {
                    "file_path": path,
                    "old_string": content(&file, "old"),
                    "new_string": content(&file, "new"),
                },
            }],
        }),
        json!({ "text": format!("Prompt {prompt} is done.") }),
    ]
}

/// Returns the content of the file that the call `file_call` writes, before (`old`) or after (`new`) its change.
pub fn content(file_call: &str, age: &str) -> String {
    format!("{file_call} is {age}\n").repeat(40)
}
