//! The files that a script touches: whether they may be read or changed without asking.

use std::path::PathBuf;

use lathe_protocol::permission::PermissionMode;

use crate::bash::allow::{Granted, Grants, Obstacle, git_is_inert};
use crate::bash::standing::{locate, locate_any};
use crate::bash::{Shell, asked};
use crate::decision::{AskedDecision, Reason};
use crate::message;
use crate::paths::{Kind, Located};
use crate::protected::is_protected;
use crate::shell::commands::{Effect, Touch, TouchAccess, Touched, effect, possible_touches};
use crate::shell::unwrap::program_name;
use crate::shell::value::Arg;
use crate::shell::walk::{Opens, Redirection, Step};
use crate::suggest;

impl Shell<'_> {
    /// Returns the places a path leads to, or an obstacle if they are not known. A directory that the same script moves
    /// or copies into place may contain links, so nothing below it can be located.
    fn located(&self, touch: &Touch, step: usize) -> Result<Vec<Located>, Box<Obstacle>> {
        let located = locate(touch, self.standings.at(step)).map_err(|_| Obstacle::command())?;
        let arrived = |located: &Located| {
            self.arrivals.iter().any(|(other, path)| {
                *other != step && located.written != *path && located.written.starts_with(path)
            })
        };
        if located.iter().any(arrived) {
            return Err(Obstacle::contains("a path that it first moves or copies into place"));
        }
        Ok(located)
    }

    /// Returns the paths that `mv` and `cp -r` create, each with the index of its step. They may contain links that
    /// do not exist yet. A directory that exists now and a path that cannot be located are left out.
    pub(super) fn find_arrivals(&self) -> Vec<(usize, PathBuf)> {
        let mut arrivals = Vec::new();
        for (index, step) in self.analysis.steps.iter().enumerate() {
            let Step::Run(run) = step else { continue };
            if !matches!(run.args.first().and_then(Arg::fixed).map(program_name), Some("mv" | "cp")) {
                continue;
            }
            let Effect::Changes(touches) = effect(run) else { continue };
            let brings_trees = touches
                .iter()
                .any(|touch| matches!(touch.access, TouchAccess::WriteNew | TouchAccess::Remove));
            let written = touches.iter().filter(|touch| {
                brings_trees && matches!(touch.access, TouchAccess::Write | TouchAccess::WriteNew)
            });
            let located =
                written.flat_map(|touch| locate(touch, self.standings.at(index)).unwrap_or_default());
            // An existing directory keeps its own content; only what is new in it may be a link.
            let new = located.filter(|located| located.kind() != Kind::Directory);
            arrivals.extend(new.map(|located| (index, located.written)));
        }
        arrivals
    }

    /// Checks that a command may read all these paths without asking, and that git, if it reads a repository here,
    /// finds no configuration that runs programs. Returns the first obstacle as the error.
    pub(super) fn reads(&self, program: &str, touches: &[Touch], step: usize) -> Result<(), Box<Obstacle>> {
        if !git_is_inert(touches, self.standings.at(step)) {
            return Err(Obstacle::because(format!(
                "{}: the configuration of this repository can make git run programs",
                message::COMMAND
            )));
        }
        for touch in touches.iter().filter(|touch| touch.access != TouchAccess::Repository) {
            for located in self.located(touch, step)? {
                self.read(program, touch.access, &located)?;
            }
        }
        Ok(())
    }

    /// Checks one path that is read: it must be inside the readable directories or under an allow rule, and be neither
    /// a directory where a file is expected, nor a tree with denied files, nor a pipe or device below `/dev`.
    fn read(&self, program: &str, access: TouchAccess, located: &Located) -> Result<(), Box<Obstacle>> {
        let (engine, scope) = (self.engine, self.question.scope);
        if !engine.may_read(located, scope) && engine.permitted_read(located).is_none() {
            return Err(Box::new(Obstacle {
                reason: Reason::Default,
                message: message::read_outside(program, &located.written, scope.root()),
                path: Some(located.written.clone()),
                updates: vec![suggest::read_directory(&located.written)],
            }));
        }
        match access {
            TouchAccess::ReadFile if located.kind() == Kind::Directory => Err(Obstacle::command()),
            TouchAccess::ReadTree if located.forms().any(|form| engine.deny.reads.reaches_into(form)) => {
                Err(Obstacle::because(format!(
                    "{}: it would also read files that a rule denies",
                    message::COMMAND
                )))
            }
            // Reading a pipe or a device may never end.
            _ if located.kind() == Kind::Special && located.written.starts_with("/dev") => {
                Err(Obstacle::command())
            }
            _ => Ok(()),
        }
    }

    /// Checks every path of a command that changes files, those it only reads included. Returns the grant of the last
    /// changed path, [`Granted::Mode`] if none is changed, or the first obstacle. `what` begins the question, such as
    /// `rm in`.
    pub(super) fn changes(
        &self,
        what: &str,
        touches: &[Touch],
        step: usize,
        grants: Grants,
    ) -> Result<Granted, Box<Obstacle>> {
        let mut granted = Granted::Mode;
        for touch in touches {
            for located in self.located(touch, step)? {
                if touch.access.changes() {
                    granted = self.change(what, touch, &located, grants)?;
                } else {
                    self.read(what.trim_end_matches(" in"), touch.access, &located)?;
                }
            }
        }
        Ok(granted)
    }

    /// Checks one path that is written or removed. An allow rule or, in the working directories, `acceptEdits` grants
    /// it, unless `grants` is [`Grants::ReadOnly`], the path is a pattern, or what is there is a hard link, a device or
    /// a directory where none may be.
    fn change(
        &self,
        what: &str,
        touch: &Touch,
        located: &Located,
        grants: Grants,
    ) -> Result<Granted, Box<Obstacle>> {
        let (engine, scope) = (self.engine, self.question.scope);
        let inside = located.inside(scope.dirs()).is_some();
        let pattern = matches!(touch.path, Touched::Pattern(_));
        let unclear = match located.kind() {
            Kind::File { hard_links } => hard_links > 1 && touch.access != TouchAccess::Remove,
            Kind::Directory => touch.access == TouchAccess::WriteNew,
            Kind::Special => true,
            Kind::Missing => false,
        };
        if grants == Grants::All && !pattern && !unclear {
            if let Some(rule) = engine.permitted_edit(located) {
                return Ok(Granted::Rule(rule));
            }
            if inside && scope.mode() == PermissionMode::AcceptEdits {
                return Ok(Granted::Mode);
            }
        }
        let path = located.written.clone();
        let directory = path.parent().unwrap_or(&path).to_owned();
        let message = if inside {
            message::change_inside(what, &path, scope.root())
        } else {
            message::change_outside(what, &path, scope.root())
        };
        Err(Box::new(Obstacle {
            reason: Reason::Default,
            message,
            path: Some(path),
            updates: vec![suggest::add_directory(&directory), suggest::accept_edits()],
        }))
    }

    /// Checks a file that the shell opens for a redirection. `/dev/null` and copies of descriptors are harmless;
    /// `/dev/tcp` and `/dev/udp` open connections and are refused. Other files are checked like those of commands.
    pub(super) fn redirect(
        &self,
        index: usize,
        redirect: &Redirection,
        grants: Grants,
    ) -> Result<Granted, Box<Obstacle>> {
        let network = |path: &str| path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/");
        if redirect.target.fixed().is_some_and(network) {
            return Err(Obstacle::contains("a network connection"));
        }
        match redirect.kind {
            Opens::Nothing => Ok(Granted::Harmless),
            Opens::Unusual => Err(Obstacle::contains("an unusual redirection")),
            Opens::ForReading => {
                if redirect.target.fixed() == Some("/dev/null") {
                    return Ok(Granted::Harmless);
                }
                let touch = Touch::read(&redirect.target);
                self.reads("Input redirection", &[touch], index).map(|()| Granted::Harmless)
            }
            Opens::ForWriting => {
                if redirect.target.fixed() == Some("/dev/null") {
                    return Ok(Granted::Harmless);
                }
                let touch = Touch::new(&redirect.target, TouchAccess::Write);
                self.changes("Output redirection to", &[touch], index, grants)
            }
        }
    }

    /// Returns the question about a write to a path that no rule can approve in advance; `None` if the script
    /// writes to none. A path that cannot be located is not found here, so it is left to the checks of the parts.
    pub(super) fn protected_write(&self) -> Option<AskedDecision> {
        self.analysis.steps.iter().enumerate().find_map(|(index, step)| {
            let touches = match step {
                Step::Run(run) => possible_touches(&run.args),
                Step::Redirect(redirect) => match redirect.kind {
                    Opens::ForWriting | Opens::Unusual => {
                        vec![Touch::new(&redirect.target, TouchAccess::Write)]
                    }
                    Opens::ForReading | Opens::Nothing => return None,
                },
                Step::Assign(_) => return None,
            };
            let standing = self.standings.at(index);
            let mut located = touches
                .iter()
                .filter(|touch| touch.access.changes())
                .flat_map(|touch| locate_any(touch, standing));
            let dirs = self.question.scope.dirs();
            let found = located.find(|found| is_protected(found, dirs, self.engine.config_dir()))?;
            let text = message::sensitive(&found.written);
            let question = asked(self.tool, Reason::SafetyCheck(text.clone()), text);
            Some(AskedDecision { blocked_path: Some(found.written), ..question })
        })
    }
}
