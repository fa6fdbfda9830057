//! `lathe permissions explain`: what would become of a call, which rule decides, and what the command was
//! taken apart into.
#![allow(clippy::disallowed_macros, reason = "commands print")]

use std::process::ExitCode;

use anyhow::{Context, bail};
use lathe_permissions::{Call, Decision};
use lathe_protocol::PermissionMode;
use serde_json::{Value, json};

use crate::args::Args;
use crate::env::Env;
use crate::{plan, print, start};

const USAGE: &str = "\
usage: lathe permissions explain [--mode MODE] [--settings FILE-OR-JSON] [--allow RULE] [--deny RULE] TOOL INPUT
INPUT is the tool's input as JSON, or for Bash the command, for file tools the path.";

/// Runs the command.
pub fn run(words: &[String], env: &Env) -> anyhow::Result<ExitCode> {
    let [explain, rest @ ..] = words else { bail!("a command is missing\n{USAGE}") };
    if explain != "explain" {
        bail!("unknown command 'permissions {explain}'\n{USAGE}");
    }
    let (flags, tool, input) = read(rest)?;
    let args = Args::parse(flags)?;
    let plan = plan::make(&args, env, false).map_err(|error| anyhow::anyhow!(error.message))?;
    let engine = start::permission_engine(&plan, env).map_err(|error| anyhow::anyhow!(error.message))?;
    let cwd = env.cwd.clone().context("the working directory is gone")?;
    let call = Call { tool: &tool, input: &input, cwd: &cwd, ..Call::default() };
    let explanation = engine.explain(&call);
    let (verdict, message) = match &explanation.decision {
        Decision::Allow(_) => ("allow", None),
        Decision::Ask(asked) => ("ask", Some(&asked.message)),
        Decision::Deny(denied) => ("deny", Some(&denied.message)),
    };
    print::line(format!("{verdict}  {tool} {input}"));
    print::line(format!("mode:   {}", explanation.mode));
    let reason = explanation.decision.reason();
    print::line(format!("reason: {}", reason.wire_type().unwrap_or("the tool's own default")));
    if let Some(text) = reason.text() {
        print::line(format!("        {text}"));
    }
    if let Some(rule) = reason.rule() {
        print::line(format!("rule:   {rule}"));
    }
    if let Some(message) = message {
        print::line(format!("says:   {message}"));
    }
    for part in &explanation.parts {
        print::line(format!("part:   {}  ({})", part.text, part.taken_for));
    }
    for note in &explanation.notes {
        print::line(format!("note:   {note}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The flags of the run that is imagined, the tool and its input.
fn read(words: &[String]) -> anyhow::Result<(Vec<String>, String, Value)> {
    let mut flags = Vec::new();
    let mut rest = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let flag = match word.as_str() {
            "--mode" => "--permission-mode",
            "--settings" => "--settings",
            "--allow" => "--allowedTools",
            "--deny" => "--disallowedTools",
            other if other.starts_with("--") => bail!("unknown option '{other}'\n{USAGE}"),
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
        Ok(_) | Err(_) if tool == "Bash" => json!({"command": input}),
        Ok(_) | Err(_) => json!({"file_path": input}),
    };
    Ok((flags, tool.clone(), input))
}
