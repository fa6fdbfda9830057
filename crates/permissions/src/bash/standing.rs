//! The directories in which the commands of a script may run.
//!
//! `cd` may fail, or be in a branch that is not taken, so every command is judged in every directory it could be in.
//! Once the directory is unknown, relative paths cannot be located.

use std::path::{Path, PathBuf};

use crate::paths::{FEW_ENTRIES, Located, MANY_ENTRIES, expand};
use crate::shell::commands::{Effect, Touch, TouchAccess, Touched, effect};
use crate::shell::unwrap::program_name;
use crate::shell::value::Arg;
use crate::shell::walk::{Analysis, Invocation, Step};

/// More possible directories than this, and the current directory counts as unknown.
const MAX_DIRECTORIES: usize = 8;

/// Programs that may change the directory to any other, unless their arguments were understood.
const MOVERS: [&str; 8] = ["cd", "pushd", "popd", "chdir", "eval", "source", ".", "autoload"];

/// The directories in which a command may run.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    /// The first is the directory in which the script starts.
    pub directories: Vec<PathBuf>,
    /// There may be directories that are not listed.
    pub lost: bool,
}

impl Standing {
    /// Returns whether nothing before the command can have changed the directory.
    pub(crate) fn is_still(&self) -> bool {
        self.directories.len() == 1 && !self.lost
    }
}

/// The possible directories at each step of a script.
#[derive(Debug)]
pub(crate) struct Standings {
    all: Vec<Standing>,
    by_step: Vec<usize>,
}

/// A path that cannot be located before the command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unlocated;

impl Standings {
    /// Computes the possible directories before each step of a script that starts in `cwd`. They only grow from step to
    /// step: a `cd` may fail, so the directories before it stay possible.
    pub(crate) fn new(analysis: &Analysis, cwd: &Path) -> Self {
        let real = Located::new("", cwd).real.unwrap_or_else(|_| cwd.to_owned());
        let mut all = vec![Standing { directories: vec![real], lost: false }];
        let mut by_step = Vec::with_capacity(analysis.steps.len());
        for step in &analysis.steps {
            by_step.push(all.len() - 1);
            if let Step::Run(run) = step
                && let Some(next) = moved(run, &all[all.len() - 1])
            {
                all.push(next);
            }
        }
        Self { all, by_step }
    }

    /// Returns the directories in which a step may run; `step` must be its index in [`Analysis::steps`].
    pub(crate) fn at(&self, step: usize) -> &Standing {
        &self.all[self.by_step[step]]
    }
}

/// Returns the directories that are possible after a command; `None` if it adds none. If it is not known where the
/// command leads, the directory counts as lost.
fn moved(run: &Invocation, standing: &Standing) -> Option<Standing> {
    let name = run.args.first().and_then(Arg::fixed).map(program_name)?;
    if !MOVERS.contains(&name) && !matches!(name, "command" | "builtin") {
        return None;
    }
    let target = match effect(run) {
        Effect::ReadOnly(touches) => match touches.as_slice() {
            [Touch { path: Touched::Path(target), access: TouchAccess::Enter }] => Some(target.clone()),
            _ if MOVERS.contains(&name) => None,
            _ => return None,
        },
        Effect::Changes(_) | Effect::Unknown => None,
    };
    let lost = Standing { lost: true, ..standing.clone() };
    let Some(target) = target.filter(|_| !run.place.repeated) else { return Some(lost) };
    let mut next = standing.clone();
    for directory in &standing.directories {
        let located = Located::new(&target, directory);
        // After a link, the shell resolves `..` as text and programs resolve it on disk.
        if located.real.as_ref().ok() != Some(&located.written) {
            return Some(lost);
        }
        if !next.directories.contains(&located.written) {
            next.directories.push(located.written);
        }
    }
    if next.directories.len() > MAX_DIRECTORIES {
        return Some(lost);
    }
    (next.directories.len() > standing.directories.len()).then_some(next)
}

/// Returns every place a path of a command may lead to, to see whether all of them are permitted. Fails if the path is
/// not known, or if a pattern has too many matches or one that looks like an option.
pub(crate) fn locate(touch: &Touch, standing: &Standing) -> Result<Vec<Located>, Unlocated> {
    located(touch, standing, FEW_ENTRIES)
}

/// Returns the places a path of a command may lead to, to see whether one of them is forbidden. Empty if the path
/// cannot be located.
pub(crate) fn locate_any(touch: &Touch, standing: &Standing) -> Vec<Located> {
    located(touch, standing, MANY_ENTRIES).unwrap_or_default()
}

/// Resolves a touched path in every possible directory, and expands a pattern, reading at most `most` entries in each.
/// `most` also tells the purpose: with [`FEW_ENTRIES`] (to permit) a match that looks like an option is refused. Fails
/// for a relative path once the directory is lost, and for most patterns with `..`; the fixed directory of a pattern is
/// always among the places.
fn located(touch: &Touch, standing: &Standing, most: usize) -> Result<Vec<Located>, Unlocated> {
    let absolute = |text: &str| text.starts_with('/');
    match &touch.path {
        Touched::Unknown => Err(Unlocated),
        Touched::Path(text) | Touched::Pattern(text) if standing.lost && !absolute(text) => Err(Unlocated),
        Touched::Path(text) => {
            Ok(standing.directories.iter().map(|directory| Located::new(text, directory)).collect())
        }
        Touched::Pattern(pattern) => {
            if pattern.split('/').any(|segment| segment == "..") && !pattern.starts_with("..") {
                return Err(Unlocated);
            }
            let mut found = Vec::new();
            for directory in &standing.directories {
                // The fixed directory counts too: listing it says whether anything in it matches.
                let fixed = pattern.split('/').take_while(|segment| !segment.contains(['*', '?', '[']));
                let prefix = fixed.collect::<Vec<_>>().join("/");
                let prefix = if prefix.is_empty() && absolute(pattern) { "/" } else { &prefix };
                found.push(Located::new(prefix, directory));
                for path in expand(pattern, directory, most).map_err(|_| Unlocated)? {
                    // A file whose name starts with a dash would be read as an option by the command.
                    if most == FEW_ENTRIES
                        && path
                            .strip_prefix(directory)
                            .is_ok_and(|name| name.to_string_lossy().starts_with('-'))
                    {
                        return Err(Unlocated);
                    }
                    found.push(Located::of(&path, directory));
                }
            }
            Ok(found)
        }
    }
}
