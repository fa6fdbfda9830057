//! `lathe permissions explain`: shows how a call would be decided, which rule decides, and the parts that its command
//! was parsed into.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use lathe_launch::{LaunchEnvironment, permissions_of};
use lathe_permissions::{PermissionEngine, PermissionQuestion};
use lathe_protocol::{CallSubject, PermissionMode};
use lathe_tools::{ToolSet, builtin_tools};
use serde_json::{Value, json};

use crate::args::Args;
use crate::refusal::{StartError, warnings_to_stderr};
use crate::{plan, print};

const USAGE: &str = "\
usage: lathe permissions explain [OPTIONS] TOOL INPUT
INPUT is the tool's input as JSON, or its main part as text: the command of Bash, the path of a file tool,
the pattern of Glob.
  --mode MODE              as if the session were in this mode
  --settings FILE-OR-JSON  with these settings
  --setting-sources LIST   with the settings files of these sources only
  --add-dir DIRECTORY      with a further working directory
  --allow RULE, --deny RULE
  --time                   also say how long the decision takes";

/// The number of decisions that are timed.
const TIMED: usize = 501;

/// Runs `permissions explain`: prints what would happen to a call, and why. Runs nothing and asks no question. A tool
/// that does not exist is explained by its name alone, with a note. INPUT that is not a JSON object becomes the main
/// input of the tool, and is dropped if the tool has none.
pub fn run(words: &[String], env: &LaunchEnvironment) -> anyhow::Result<ExitCode> {
    let [explain, rest @ ..] = words else { bail!("a command is missing\n{USAGE}") };
    if explain != "explain" {
        bail!("unknown command 'permissions {explain}'\n{USAGE}");
    }
    let Asked { flags, tool, input, timed } = read(rest)?;
    let args = Args::parse(flags)?;
    let plan = plan::make(&args, env).map_err(|error| anyhow::anyhow!(error.message))?;
    let (rules, scope) = permissions_of(&plan.session, env, &warnings_to_stderr())
        .map_err(|error| anyhow::anyhow!(StartError::from(error).message))?;
    let cwd = env.cwd.clone().context("the working directory is gone")?;
    let tools = known_tools();
    let known = tools.get(&tool);
    let input = match (serde_json::from_str(&input), known.and_then(|tool| tool.main_input())) {
        (Ok(object @ Value::Object(_)), _) => object,
        (_, Some(field)) => json!({field: input}),
        (_, None) => json!({}),
    };
    let by_name = || CallSubject::of_mcp_name(&tool).unwrap_or(CallSubject::Unknown);
    let call = rules.describe(known.map_or_else(by_name, |tool| tool.subject(&input)));
    let question = PermissionQuestion { tool: &tool, input: &input, call: &call, cwd: &cwd, scope: &scope };
    print::line(format!("call:     {tool} {input}"));
    print::line(rules.explain(&question).to_string().trim_end());
    if known.is_none() {
        print::line(
            "note:     there is no such tool here: only rules that name the whole tool can be checked",
        );
    }
    if timed {
        print::line(format!("time:     {:.1} µs (median of {TIMED})", median_micros(&rules, &question)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns every tool that a session may have, whatever its options are.
fn known_tools() -> ToolSet {
    ToolSet::new(builtin_tools())
}

/// Describes and decides the call [`TIMED`] times and returns the median time in microseconds. The median, because a
/// few runs are slow for reasons of the machine.
fn median_micros(rules: &PermissionEngine, question: &PermissionQuestion<'_>) -> f64 {
    let mut times: Vec<Duration> = (0..TIMED)
        .map(|_| {
            let began = Instant::now();
            // A session describes each call once and decides on it once, so both are timed.
            let call = rules.describe(question.call.subject().clone());
            std::hint::black_box(rules.decide(&PermissionQuestion { call: &call, ..*question }));
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[TIMED / 2].as_secs_f64() * 1e6
}

/// The call to explain.
struct Asked {
    /// The flags of the hypothetical run.
    flags: Vec<String>,
    tool: String,
    /// The argument as given: JSON, or the main part of the input as text.
    input: String,
    timed: bool,
}

/// Splits the words into TOOL, INPUT and the flags of a run that stand for the options. An unknown word with dashes
/// right after TOOL is the INPUT, because a command may begin with dashes; anywhere else it is an error.
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
    Ok(Asked { flags, tool: tool.clone(), input: input.clone(), timed })
}
