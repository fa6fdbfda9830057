//! What `doctor` can say about files that people wrote: whether they are understood, what of them is not in
//! force, and what was left behind.

use std::fs;
use std::path::{Path, PathBuf};

use crate::memory::Memory;
use crate::problem::{SettingsProblem, Severity};
use crate::stack::SettingsStack;
use crate::styles::{DEFAULT_STYLE, Styles};
use crate::trust::TrustBasis;
use crate::write::TEMPORARY;

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckStatus {
    /// Nothing to do.
    Ok,
    /// It works, but not as one may think.
    Warn,
    /// It does not work.
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What it is about, in one or two words.
    pub name: &'static str,
    /// How it went.
    pub status: CheckStatus,
    /// What was found.
    pub detail: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Check {
    /// Creates a check without a hint.
    fn new(name: &'static str, status: CheckStatus, detail: impl Into<String>) -> Self {
        Self { name, status, detail: detail.into(), hint: None }
    }

    /// Turns a problem into a check: an error fails it, a warning does not. The hint moves from the text to its own
    /// field.
    fn of_problem(name: &'static str, problem: &SettingsProblem) -> Self {
        let status = match problem.severity {
            Severity::Warning => CheckStatus::Warn,
            Severity::Error => CheckStatus::Fail,
        };
        let plain = SettingsProblem { hint: None, ..problem.clone() };
        Self { hint: problem.hint.clone(), ..Self::new(name, status, plain.to_string()) }
    }
}

/// Returns all checks of `lathe doctor` that concern settings: files, permissions, trust, memory, style and leftovers.
/// Changes nothing.
pub fn checks(stack: &SettingsStack, memory: &Memory, styles: &Styles) -> Vec<Check> {
    let mut checks = settings(stack);
    checks.push(trust(stack));
    let files = memory.files();
    let bytes: usize = files.iter().map(|file| file.content.len()).sum();
    let told = format!("{} memory files with {bytes} bytes", files.len());
    checks.push(Check::new("memory", CheckStatus::Ok, told));
    checks.extend(memory.problems().iter().map(|problem| Check::of_problem("memory", problem)));
    checks.push(style(stack, styles));
    checks.extend(styles.problems.iter().map(|problem| Check::of_problem("output style", problem)));
    checks.extend(leftovers(stack));
    checks
}

/// Returns one check for each settings file without problems, one for each problem, and one with the number of rules.
fn settings(stack: &SettingsStack) -> Vec<Check> {
    let mut checks = Vec::new();
    for layer in stack.layers() {
        let is_whole = layer.problems.is_empty();
        if is_whole {
            let detail = format!("{} ({}): {} keys", layer.origin, layer.source.as_str(), layer.raw().len());
            checks.push(Check::new("settings", CheckStatus::Ok, detail));
        }
    }
    checks.extend(stack.problems().map(|problem| Check::of_problem("settings", problem)));
    if checks.is_empty() {
        checks.push(Check::new("settings", CheckStatus::Ok, "no settings files"));
    }
    let rules = stack.permission_rules().count();
    checks.push(Check::new("permissions", CheckStatus::Ok, format!("{rules} rules from settings")));
    checks
}

/// Returns the check that tells whether the working folder is trusted and on what basis. Only content that is withheld
/// causes a warning.
fn trust(stack: &SettingsStack) -> Check {
    let cwd = stack.request.cwd.display();
    if let Some(withheld) = stack.withheld_content() {
        return Check::new("trust", CheckStatus::Warn, format!("{cwd}: {withheld}"));
    }
    let detail = match stack.trust().basis() {
        TrustBasis::Caller => format!("{cwd} is trusted by the caller: all it brings counts"),
        TrustBasis::StateFile(state) => {
            format!("{cwd} is trusted by {}: all it brings counts", state.display())
        }
        TrustBasis::Items(items) => {
            format!("{cwd} brings what was trusted with `lathe trust`: {} items", items.items.len())
        }
        TrustBasis::Untrusted => format!("{cwd} is not trusted, and brings nothing that needs trust"),
    };
    Check::new("trust", CheckStatus::Ok, detail)
}

/// Returns the check whether the output style in force exists; if not, it is a warning that lists those that do.
fn style(stack: &SettingsStack, styles: &Styles) -> Check {
    let name = stack.effective().output_style.unwrap_or_else(|| DEFAULT_STYLE.to_owned());
    if styles.find(&name).is_some() {
        return Check::new("output style", CheckStatus::Ok, name);
    }
    let detail = format!("no output style has the name `{name}`, so the default one is used");
    let hint = format!("the styles are {}", styles.names().join(", "));
    Check { hint: Some(hint), ..Check::new("output style", CheckStatus::Warn, detail) }
}

/// Returns a warning for each temporary file that a killed writer has left behind.
fn leftovers(stack: &SettingsStack) -> Vec<Check> {
    let project = stack.request.cwd.join(".claude");
    let folders = stack.request.config_dir.iter().chain([&project]);
    folders
        .flat_map(|folder| temporary_files(folder))
        .map(|path| {
            let detail = format!("{} was left behind by a process that was killed", path.display());
            let hint = Some("it can be deleted".to_owned());
            Check { hint, ..Check::new("leftovers", CheckStatus::Warn, detail) }
        })
        .collect()
}

/// Returns the temporary files that writers left in a folder when they died. A folder that cannot be read has none.
fn temporary_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.as_os_str().as_encoded_bytes().ends_with(TEMPORARY.as_bytes())).collect()
}
