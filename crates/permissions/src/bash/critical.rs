//! Removals that need approval in every mode, whatever the rules say: of system directories, the home, the folders the
//! session works in.

use std::path::Path;

use crate::bash::standing::Standing;
use crate::bash::{Shell, asked};
use crate::decision::{AskedDecision, Reason};
use crate::message;
use crate::paths::Located;
use crate::protected::is_critical;
use crate::shell::unwrap::program_name;
use crate::shell::value::{Arg, Value};
use crate::shell::walk::{Invocation, Step};

impl Shell<'_> {
    /// Returns the question about the first removal of a critical path, or `None`. No hook may answer it with allow,
    /// and it must be asked before the mode is looked at, so that `bypassPermissions` does not skip it.
    pub(super) fn critical_removal(&self) -> Option<AskedDecision> {
        self.analysis.steps.iter().enumerate().find_map(|(index, step)| {
            let Step::Run(run) = step else { return None };
            let program = run.args.first()?.fixed().map(program_name)?;
            let targets = removal_targets(program, run);
            let target = targets
                .into_iter()
                .find(|target| self.is_critical_target(target, self.standings.at(index)))?;
            let shown = target.text();
            let reason = Reason::SafetyCheck(message::critical_reason(program, shown));
            let question = asked(self.tool, reason, message::critical_removal(program, shown));
            Some(AskedDecision { hook_may_allow: false, ..question })
        })
    }

    /// Returns whether a removed operand may be a critical path, in any directory the command may run in. `dir/*`
    /// counts as `dir`; an unknown value counts only if an empty variable, or an unknown home, would turn it into a
    /// critical path.
    fn is_critical_target(&self, target: &Arg, standing: &Standing) -> bool {
        let engine = self.engine;
        let critical = |path: &str| {
            standing.directories.iter().any(|cwd| {
                let located = Located::new(path, cwd);
                located
                    .forms()
                    .any(|form| is_critical(form, self.question.scope.dirs(), engine.home_dir(), cwd))
            })
        };
        match &target.value {
            Value::Fixed(path) => critical(path) && !path.is_empty(),
            // `dir/*` is as bad as `dir` itself when `dir` is critical.
            Value::Pattern(pattern) => {
                let (directory, last) = match pattern.rsplit_once('/') {
                    Some(("", last)) => ("/", last),
                    Some((directory, last)) => (directory, last),
                    None => (".", pattern.as_str()),
                };
                let everything = last.chars().all(|c| "*.?".contains(c)) || last.is_empty();
                everything && !directory.contains(['*', '?', '[']) && critical(directory)
            }
            Value::Unknown => {
                empties_to_root(&target.source) || target.source.starts_with("~") && engine.home.is_none()
            }
        }
    }
}

/// Returns the operands that `rm`, `rmdir` and `find -delete` remove; none for other programs. Of `find` only the words
/// before the first option or expression count, so none if it begins with one.
fn removal_targets<'r>(program: &str, run: &'r Invocation) -> Vec<&'r Arg> {
    let words = &run.args[1..];
    match program {
        "rm" | "rmdir" => {
            let mut options = true;
            let mut targets = Vec::new();
            for word in words {
                if options && word.text() == "--" {
                    options = false;
                } else if !options || !word.text().starts_with('-') {
                    targets.push(word);
                }
            }
            targets
        }
        "find" if words.iter().any(|word| word.text() == "-delete") => {
            words.iter().take_while(|word| !word.text().starts_with(['-', '(', '!'])).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns whether a word becomes the root directory if its variable is empty: `$DIR/*`, `"$DIR"/`.
fn empties_to_root(source: &str) -> bool {
    let plain: String = source.chars().filter(|c| !matches!(c, '"' | '\'' | '{' | '}')).collect();
    let Some(name) = plain.strip_prefix('$') else { return false };
    let rest = name.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    matches!(Path::new(rest).to_str(), Some("/" | "/*" | "/." | "/.*"))
}
