//! `lathe permissions explain`: what would become of a call, which rule decides, and what the command was
//! taken apart into.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use lathe_launch::{LaunchEnvironment, permission_engine};
use lathe_permissions::{Call, Engine};
use lathe_protocol::PermissionMode;
use serde_json::{Value, json};

use crate::args::Args;
use crate::refusal::{StartError, warnings_to_stderr};
use crate::{plan, print};

const USAGE: &str = "\
usage: lathe permissions explain [OPTIONS] TOOL INPUT
INPUT is the tool's input as JSON, or its main part as text: the command of Bash, the path of a file tool,
the pattern of Glob, the address of WebFetch, the name of a skill or of a kind of agent.
  --mode MODE              as if the session were in this mode
  --settings FILE-OR-JSON  with these settings
  --setting-sources LIST   with the settings files of these sources only
  --add-dir DIRECTORY      with a further working directory
  --allow RULE, --deny RULE
  --time                   also say how long the decision takes";

/// Decisions that are timed.
const TIMED: usize = 501;

/// Runs the command.
pub fn run(words: &[String], env: &LaunchEnvironment) -> anyhow::Result<ExitCode> {
    let [explain, rest @ ..] = words else { bail!("a command is missing\n{USAGE}") };
    if explain != "explain" {
        bail!("unknown command 'permissions {explain}'\n{USAGE}");
    }
    let Asked { flags, tool, input, timed } = read(rest)?;
    let args = Args::parse(flags)?;
    let plan = plan::make(&args, env).map_err(|error| anyhow::anyhow!(error.message))?;
    let engine = permission_engine(&plan.session, env, &warnings_to_stderr())
        .map_err(|error| anyhow::anyhow!(StartError::from(error).message))?;
    let cwd = env.cwd.clone().context("the working directory is gone")?;
    let call = Call { tool: &tool, input: &input, cwd: &cwd, ..Call::default() };
    print::line(format!("call:     {tool} {input}"));
    print::line(engine.explain(&call).to_string().trim_end());
    if timed {
        print::line(format!("time:     {:.1} µs (median of {TIMED})", median_micros(&engine, &call)));
    }
    Ok(ExitCode::SUCCESS)
}

fn median_micros(engine: &Engine, call: &Call<'_>) -> f64 {
    let mut times: Vec<Duration> = (0..TIMED)
        .map(|_| {
            let began = Instant::now();
            std::hint::black_box(engine.decide(call));
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[TIMED / 2].as_secs_f64() * 1e6
}

/// What is to be explained.
struct Asked {
    /// The flags of the run that is imagined.
    flags: Vec<String>,
    tool: String,
    input: Value,
    timed: bool,
}

fn read(words: &[String]) -> anyhow::Result<Asked> {
    let mut flags = Vec::new();
    let mut rest = Vec::new();
    let mut timed = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let flag = match word.as_str() {
            "--mode" => "--permission-mode",
            "--settings" => "--settings",
            "--setting-sources" => "--setting-sources",
            "--add-dir" => "--add-dir",
            "--allow" => "--allowedTools",
            "--deny" => "--disallowedTools",
            "--time" => {
                timed = true;
                continue;
            }
            "--" => {
                rest.extend(words.by_ref().cloned());
                break;
            }
            other if other.starts_with("--") && rest.len() != 1 => bail!("unknown option '{other}'\n{USAGE}"),
            other => {
                rest.push(other.to_owned());
                continue;
            }
        };
        let value = words.next().with_context(|| format!("{word} needs a value\n{USAGE}"))?;
        if flag == "--permission-mode" {
            PermissionMode::parse(value)?;
        }
        flags.extend([flag.to_owned(), value.clone()]);
    }
    let [tool, input] = rest.as_slice() else { bail!("TOOL and INPUT are needed\n{USAGE}") };
    let input = match serde_json::from_str(input) {
        Ok(object @ Value::Object(_)) => object,
        Ok(_) | Err(_) => json!({main_input(tool): input}),
    };
    Ok(Asked { flags, tool: tool.clone(), input, timed })
}

/// The input that a call of the tool is mostly about.
fn main_input(tool: &str) -> &'static str {
    match tool {
        "Bash" | "Monitor" => "command",
        "Glob" => "pattern",
        "Grep" => "path",
        "NotebookEdit" => "notebook_path",
        "WebFetch" => "url",
        "WebSearch" => "query",
        "Agent" | "Task" => "subagent_type",
        "Skill" => "skill",
        _ => "file_path",
    }
}
