//! In which directories the commands of a script may find themselves.
//!
//! `cd` may fail, or stand in a branch that is not taken, so every command is judged in every directory it
//! could be in. Where that cannot be told any more, relative paths lead nowhere.

use std::path::{Path, PathBuf};

use crate::paths::{FEW_ENTRIES, Located, MANY_ENTRIES, expand};
use crate::shell::commands::{Effect, Touch, TouchAccess, Touched, effect};
use crate::shell::unwrap::program_name;
use crate::shell::value::Arg;
use crate::shell::walk::{Analysis, Invocation, Step};

/// More directories than this are too many to judge a command in.
const MAX_DIRECTORIES: usize = 8;

/// Programs after which the shell may stand anywhere, unless they were understood.
const MOVERS: [&str; 8] = ["cd", "pushd", "popd", "chdir", "eval", "source", ".", "autoload"];

/// Where a command may find itself.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    /// The first is where the script starts.
    pub directories: Vec<PathBuf>,
    /// There may be others.
    pub lost: bool,
}

impl Standing {
    /// It is certain that nothing changed the directory.
    pub(crate) fn is_still(&self) -> bool {
        self.directories.len() == 1 && !self.lost
    }
}

/// The standing at each step of a script.
#[derive(Debug)]
pub(crate) struct Standings {
    all: Vec<Standing>,
    by_step: Vec<usize>,
}

/// A path that cannot be located before the command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unlocated;

impl Standings {
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

    pub(crate) fn at(&self, step: usize) -> &Standing {
        &self.all[self.by_step[step]]
    }
}

/// The standing after a command, if it changes it.
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
        // Behind a link, `..` means one thing to the shell and another to programs.
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

/// Where a path of a command leads, from everywhere it may be used, to see whether it is permitted.
pub(crate) fn locate(touch: &Touch, standing: &Standing) -> Result<Vec<Located>, Unlocated> {
    located(touch, standing, FEW_ENTRIES)
}

/// The same to see whether something forbidden is among it: what cannot be located is left out.
pub(crate) fn locate_any(touch: &Touch, standing: &Standing) -> Vec<Located> {
    located(touch, standing, MANY_ENTRIES).unwrap_or_default()
}

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
                // The directory itself counts: listing what is not there still says so.
                let fixed = pattern.split('/').take_while(|segment| !segment.contains(['*', '?', '[']));
                let prefix = fixed.collect::<Vec<_>>().join("/");
                let prefix = if prefix.is_empty() && absolute(pattern) { "/" } else { &prefix };
                found.push(Located::new(prefix, directory));
                for path in expand(pattern, directory, most).map_err(|_| Unlocated)? {
                    // A file whose name starts with a dash is an option to whoever gets it.
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
