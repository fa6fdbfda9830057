//! `lathe demo`: a complete run on the embedded scripted model. Creates a small program with a failing test in a
//! temporary folder and lets the agent fix it; it needs no key and no network, and leaves no files.

use std::process::ExitCode;

use anyhow::{Context, bail};
use lathe_agent::SessionSignals;
use lathe_launch::LaunchEnvironment;
use lathe_protocol::{Outbound, PermissionMode, ResultMessage};
use lathe_scripted::builtin::{DEMO_PROMPT, demo_files};
use tokio::sync::mpsc;

use crate::args::Args;
use crate::plan::{self, RunPlan};
use crate::print;
use crate::progress::Progress;
use crate::session;
use crate::stdin::prompt_line;

/// Runs `demo`: shows a session on the embedded script, in a temporary folder that is removed afterwards, and without a
/// key. The exit code is 1 if the result is an error.
pub async fn run(words: &[String], env: LaunchEnvironment) -> anyhow::Result<ExitCode> {
    if !words.is_empty() {
        bail!("the demo takes no arguments\nhint: lathe demo");
    }
    let folder = tempfile::tempdir().context("failed to make a temporary folder")?;
    for (name, content) in demo_files() {
        std::fs::write(folder.path().join(name), content)
            .with_context(|| format!("failed to write {name}"))?;
    }
    print::line(format!("In {} there is a small program with a failing test.", folder.path().display()));
    print::line(format!("Prompt: {DEMO_PROMPT}\n"));
    let mut plan = demo_plan(&env)?;
    plan.session.cwd = Some(folder.path().to_owned());
    let result = run_session(&plan, env).await?;
    report(&result);
    Ok(if result.is_error { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Builds the plan of the demo through the flag reader, so that it starts like any other run, and then allows edits and
/// Bash without questions. Use it only with the embedded script. An error means that the start would be refused.
fn demo_plan(env: &LaunchEnvironment) -> anyhow::Result<RunPlan> {
    let words = ["--model", "script:demo", "--no-session-persistence"].map(str::to_owned);
    let args = Args::parse(words).context("failed to read the demo's own flags")?;
    let mut plan = plan::make(&args, env).map_err(|error| anyhow::anyhow!(error.message))?;
    // Safe without questions: the folder holds only the demo, and the commands come from the built-in script.
    plan.session.permission_mode = Some(PermissionMode::AcceptEdits);
    plan.session.allowed_tools = vec!["Bash".to_owned()];
    Ok(plan)
}

/// Runs the session with the one prompt and shows its frames as progress; returns its last result, or an error if there
/// is none. Session and reader must run together, because the queue of frames is bounded.
async fn run_session(plan: &RunPlan, env: LaunchEnvironment) -> anyhow::Result<Box<ResultMessage>> {
    let prepared = session::prepare(&plan.session, env).map_err(|error| anyhow::anyhow!(error.message))?;
    let (frames, mut frames_out) = mpsc::channel(64);
    let (lines, lines_in) = mpsc::channel(1);
    lines.send(prompt_line(DEMO_PROMPT.to_owned())).await.context("failed to hand over the prompt")?;
    drop(lines);
    let watch = async {
        let mut progress = Progress::always();
        let mut result = None;
        while let Some(frame) = frames_out.recv().await {
            progress.show(&frame);
            if let Outbound::Result(message) = frame {
                result = Some(message);
            }
        }
        progress.end();
        result
    };
    let (_, result) = tokio::join!(prepared.run(lines_in, frames, SessionSignals::default()), watch);
    result.context("the session ended without a result")
}

/// Prints the text or the errors of the result, its numbers, and how to do the same with a real model.
fn report(result: &ResultMessage) {
    let said = result.result.clone().or_else(|| result.errors.as_ref().map(|errors| errors.join("\n")));
    print::line(format!("\n{}\n", said.unwrap_or_default().trim()));
    print::line(format!(
        "{} steps in {} ms; {} tokens in, {} tokens out, ${:.4} at list prices (a script, so nothing was paid)",
        result.num_turns,
        result.duration_ms,
        result.usage.input_tokens,
        result.usage.output_tokens,
        result.total_cost_usd,
    ));
    print::line("\nThe same with a real model, in a project of yours:");
    print::line("  export ANTHROPIC_API_KEY=sk-ant-…");
    print::line("  lathe -p --permission-mode acceptEdits \"make the failing test pass\"");
}
