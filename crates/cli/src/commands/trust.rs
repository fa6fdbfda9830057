//! `lathe trust`: shows what a folder brings, asks, and remembers the answer; lists and removes what was remembered.
//! What needs trust and what is remembered is decided in `lathe-settings`; here it is laid out and asked about.
//!
//! Surprising: what is remembered are the items that were shown, not the folder as it is after the answer. A file that
//! changes while a person reads is not trusted by that person's answer.
#![allow(clippy::disallowed_macros, reason = "the question has no end of line")]

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use lathe_launch::{LaunchEnvironment, SessionOptions, settings};
use lathe_settings::trust::{
    ItemState, KindCount, ReviewedItem, TrustBasis, TrustedFolder, WithoutTrust, printable,
};
use lathe_settings::{ContentItem, FolderReview, SettingsError, TrustStore};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::print;

const USAGE: &str = "\
usage: lathe trust [DIR] [--yes] [--json]
       lathe trust --list [--json]
       lathe trust --remove [DIR]

Shows everything of a folder (default: this one) that runs, allows, redirects or is sent anywhere, and asks whether it
shall take effect there. What changes later has to be trusted again, item by item.
  --yes     do not ask
  --json    print JSON; without --yes nothing is asked and nothing changes
  --list    the folders that were trusted with this command
  --remove  forget a folder";

/// How long the file of trusted folders is waited for while another process writes it.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Runs `trust`: shows what a folder contains, asks, and remembers the answer; or lists or removes what was
/// remembered.
pub async fn run(words: &[String], env: &LaunchEnvironment) -> anyhow::Result<ExitCode> {
    let (flags, names): (Vec<&str>, Vec<&str>) =
        words.iter().map(String::as_str).partition(|word| word.starts_with('-'));
    let has = |flag: &str| flags.contains(&flag);
    if has("--help") || has("-h") {
        print::line(USAGE);
        return Ok(ExitCode::SUCCESS);
    }
    let allowed: &[&str] = match (has("--list"), has("--remove")) {
        (true, _) => &["--list", "--json"],
        (false, true) => &["--remove"],
        (false, false) => &["--yes", "--json"],
    };
    if let Some(unknown) = flags.iter().find(|flag| !allowed.contains(flag)) {
        bail!("{unknown} does not fit here\n{USAGE}");
    }
    let format = if has("--json") { Format::Json } else { Format::Text };
    let config_dir = env.config_dir().context(
        "there is no folder to remember trust in\nhint: set HOME or CLAUDE_CONFIG_DIR, or use --trust-workspace",
    )?;
    let store = TrustStore::in_config_dir(&config_dir);
    match names.as_slice() {
        [] if has("--list") => list(&store, format),
        [] | [_] if has("--remove") => remove(&store, &named(&names, env)?, env).await,
        [] | [_] => show_and_ask(&store, &named(&names, env)?, env, format, has("--yes")).await,
        _ => bail!("more than one folder is named\n{USAGE}"),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Json,
}

/// Returns the folder that was named, resolved against the working directory, or else the working directory. It is not
/// checked whether the folder exists.
fn named(names: &[&str], env: &LaunchEnvironment) -> anyhow::Result<PathBuf> {
    let cwd = env.cwd.clone().context("the working directory is gone")?;
    Ok(names.first().map_or(cwd.clone(), |name| cwd.join(name)))
}

/// Returns what the folder contains that needs trust; an error if the folder or its settings cannot be read. Ignores
/// `LATHE_TRUST_WORKSPACE`, because the question here is what a person has seen.
fn review(folder: &Path, env: &LaunchEnvironment) -> anyhow::Result<FolderReview> {
    let folder = folder.canonicalize().with_context(|| format!("failed to open {}", folder.display()))?;
    if !folder.is_dir() {
        bail!("{} is not a folder", folder.display());
    }
    let mut env = env.clone();
    env.cwd = Some(folder);
    Arc::make_mut(&mut env.variables).remove(settings::TRUST_VARIABLE);
    let stack = settings::stack(&SessionOptions::default(), &env)?;
    if let Some(failure) = stack.permission_failure() {
        bail!("{failure}");
    }
    Ok(stack.review())
}

/// Shows the review of a folder and, if it holds anything new, asks (unless `yes`) and remembers. What is remembered is
/// the review that was shown: the folder must not be read again after the answer. The exit code is 1 if something new
/// was not trusted. As JSON it never asks, remembers only with `yes`, and the exit code is 0 in either case.
async fn show_and_ask(
    store: &TrustStore,
    folder: &Path,
    env: &LaunchEnvironment,
    format: Format,
    yes: bool,
) -> anyhow::Result<ExitCode> {
    let review = review(folder, env)?;
    let is_whole = matches!(review.basis, TrustBasis::StateFile(_) | TrustBasis::Caller);
    let asks_nothing = is_whole || !review.has_news();
    match format {
        Format::Json => {
            let remembers = yes && !asks_nothing;
            if remembers {
                remember(store, &review).await?;
            }
            print::line(json_of(&review, remembers));
            return Ok(ExitCode::SUCCESS);
        }
        Format::Text => print_review(&review),
    }
    if asks_nothing {
        return Ok(ExitCode::SUCCESS);
    }
    if !yes && !is_at_terminal() {
        print::note(format!(
            "error: there is no terminal to ask at, so nothing was trusted\nhint: lathe trust --yes {}",
            review.folder.display()
        ));
        return Ok(ExitCode::FAILURE);
    }
    if !yes && !agrees()? {
        print::note("Nothing was trusted.");
        return Ok(ExitCode::FAILURE);
    }
    remember(store, &review).await?;
    print::line(format!("Trusted, as it is now. Remembered in {}.", store.path().display()));
    Ok(ExitCode::SUCCESS)
}

/// Stores the items that were shown, in place of those that were stored for the folder; items that cannot be trusted
/// are left out. Waits while another process writes the store.
async fn remember(store: &TrustStore, review: &FolderReview) -> anyhow::Result<()> {
    let items: Vec<&ContentItem> = review.items.iter().map(|reviewed| &reviewed.item).collect();
    patiently(|| store.trust(&review.folder, &items)).await
}

/// Calls `attempt`, and again for up to [`LOCK_WAIT`] while another process writes the same file. Any other error is
/// returned at once.
async fn patiently<T>(mut attempt: impl FnMut() -> Result<T, SettingsError>) -> anyhow::Result<T> {
    let started = Instant::now();
    loop {
        match attempt() {
            Err(SettingsError::Busy { .. }) if started.elapsed() < LOCK_WAIT => sleep(LOCK_PAUSE).await,
            Err(error) => bail!("failed to {error}"),
            Ok(done) => return Ok(done),
        }
    }
}

/// Returns whether a question can be asked: the answer comes from stdin and the question goes to stderr, so both must
/// be terminals.
fn is_at_terminal() -> bool {
    rustix::termios::isatty(rustix::stdio::stdin()) && rustix::termios::isatty(rustix::stdio::stderr())
}

/// Asks on stderr and reads one line from stdin. Only `y` or `yes` means yes; anything else, also the end of the input,
/// means no.
fn agrees() -> anyhow::Result<bool> {
    eprint!("Shall all of this take effect in this folder? [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Prints the items by kind, and at the end why nothing is asked, if that is so. The items of one kind must stand side
/// by side.
fn print_review(review: &FolderReview) {
    let folder = printable(&review.folder.to_string_lossy());
    if review.items.is_empty() {
        print::line(format!("{folder} brings nothing that needs trust."));
        return;
    }
    print::line(format!("{folder} brings:"));
    let kinds = review.items.chunk_by(|left, right| left.item.kind == right.item.kind);
    for items in kinds {
        let Some(first) = items.first() else { continue };
        let count = KindCount { kind: first.item.kind, count: items.len() };
        let note = match first.item.kind.without_trust() {
            WithoutTrust::TextOnly => " (the text counts in any case; the question is about the rest)",
            WithoutTrust::Nothing | WithoutTrust::Text | WithoutTrust::Limit => "",
        };
        print::line(format!("\n{count}{note}"));
        items.iter().for_each(print_item);
    }
    print::line("");
    match &review.basis {
        TrustBasis::StateFile(state) => print::line(format!(
            "All of it counts already: {} says that this folder is trusted.",
            state.display()
        )),
        TrustBasis::Items(_) if !review.has_news() => print::line("All of it is trusted already."),
        TrustBasis::Items(_) | TrustBasis::Untrusted | TrustBasis::Caller => {}
    }
}

/// Prints where an item stands and its whole content. Every text of the folder goes through `printable`, because it
/// must not steer the terminal on which a person decides.
fn print_item(reviewed: &ReviewedItem) {
    let ReviewedItem { item, state } = reviewed;
    let mark = match state {
        ItemState::Trusted => "",
        ItemState::New => "  (new)",
        ItemState::Changed => "  (changed)",
        ItemState::Unreadable => "  (cannot be trusted)",
    };
    let place = if item.name == item.file {
        printable(&item.file)
    } else {
        format!("{}  {}", printable(&item.file), printable(&item.name))
    };
    print::line(format!("  {place}{mark}"));
    for line in item.shown.split('\n').filter(|_| !item.shown.is_empty()) {
        print::line(format!("      {}", printable(line)));
    }
}

/// Returns the review as the object of `--json`. Programs read its keys and its words for states, so they are a
/// contract.
fn json_of(review: &FolderReview, remembered: bool) -> Value {
    let basis = match review.basis {
        TrustBasis::Untrusted => "untrusted",
        TrustBasis::Items(_) => "items",
        TrustBasis::Caller => "caller",
        TrustBasis::StateFile(_) => "state_file",
    };
    let items: Vec<Value> = review
        .items
        .iter()
        .map(|ReviewedItem { item, state }| {
            json!({
                "kind": item.kind.as_str(), "file": item.file, "name": item.name, "content": item.shown,
                "state": state.as_str(), "hash": item.hash,
            })
        })
        .collect();
    json!({"folder": review.folder, "trusted_by": basis, "items": items, "remembered": remembered})
}

/// Prints the folders that were trusted with this command, with the number of their items. Those that a state file
/// trusts are not in the store and not listed.
fn list(store: &TrustStore, format: Format) -> anyhow::Result<ExitCode> {
    let folders = store.folders().map_err(|problem| anyhow::anyhow!("{problem}"))?;
    if format == Format::Json {
        let listed: Vec<Value> = folders
            .into_iter()
            .map(|(folder, TrustedFolder { items })| json!({"folder": folder, "items": items}))
            .collect();
        print::line(Value::from(listed));
        return Ok(ExitCode::SUCCESS);
    }
    for (folder, TrustedFolder { items }) in folders {
        let noun = if items.len() == 1 { "item" } else { "items" };
        print::line(format!("{}  {} {noun}", printable(&folder), items.len()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Forgets a folder; the exit code is 1 if it was not remembered. Says so if a state file still trusts it, because then
/// its content keeps its effect.
async fn remove(store: &TrustStore, folder: &Path, env: &LaunchEnvironment) -> anyhow::Result<ExitCode> {
    let was_there = patiently(|| store.forget(folder)).await?;
    let shown = printable(&folder.to_string_lossy());
    if was_there {
        print::line(format!("{shown} is forgotten."));
    } else {
        print::note(format!("error: {shown} was not trusted with this command"));
    }
    let still = review(folder, env).ok().map(|review| review.basis);
    if let Some(TrustBasis::StateFile(state)) = still {
        print::note(format!("It is still trusted by {} (hasTrustDialogAccepted).", state.display()));
    }
    Ok(if was_there { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
