//! The walk over folders, rules and imports. For every file that the walk finds, [`Memory::add`] checks whether it may
//! be loaded and how far it may reach; everything else only says where to look. Managed text and automatic memory do
//! not come from the walk and bypass that check.

mod rules;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use globset::GlobSet;

use super::markdown::{imports, visible, without_comments};
use super::scope::exclusions;
use super::{
    Limit, LoadReason, MAX_AUTO_BYTES, MAX_AUTO_LINES, MAX_FILE_BYTES, MAX_FILES, MAX_IMPORT_HOPS,
    MAX_TOTAL_BYTES, MemoryFile, MemoryKind, MemoryRequest, OutsideFiles, PathRule, ReadCheck,
};
use crate::file::{Stamp, read_start};
use crate::frontmatter;
use crate::layer::expand;
use crate::problem::{Origin, SettingsProblem};
use crate::trust::{look_up, tree_root};

/// The number of warnings that are kept; more would not be read.
const MAX_PROBLEMS: usize = 100;
/// Folders of installed packages, and git's own. Instructions of a package are for work on that package.
const FOREIGN: &[&str] = &[".git", "node_modules", "site-packages"];

/// The memory of a session: the files that are loaded, and the rules that wait for a path.
#[derive(Debug)]
pub struct Memory {
    request: MemoryRequest,
    /// Real paths of the working directory and of the project around it.
    cwd: PathBuf,
    root: PathBuf,
    excludes: GlobSet,
    files: Vec<MemoryFile>,
    /// How many of `files` were loaded at the start.
    at_start: usize,
    rules: Vec<PathRule>,
    /// Real paths of the files and rule folders that were read.
    seen: HashSet<PathBuf>,
    bytes: usize,
    rule_entries: usize,
    pub(super) problems: Vec<SettingsProblem>,
}

/// A file that the walk has found.
struct Find {
    path: PathBuf,
    kind: MemoryKind,
    reason: LoadReason,
    limit: Limit,
    globs: Vec<String>,
    trigger: Option<PathBuf>,
    parent: Option<PathBuf>,
    hops: usize,
    form: Form,
}

impl Find {
    /// Describes a file without patterns, a trigger or a parent, and without frontmatter.
    fn new(path: PathBuf, kind: MemoryKind, reason: LoadReason, limit: Limit) -> Self {
        Self {
            path,
            kind,
            reason,
            limit,
            globs: Vec::new(),
            trigger: None,
            parent: None,
            hops: 0,
            form: Form::Plain,
        }
    }
}

/// How the frontmatter of a file is treated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The file has no frontmatter; the whole text is content.
    Plain,
    /// A rule: with `paths` it waits until a matching file is read.
    Rule,
    /// A rule that has waited, and a matching file was read.
    DueRule,
}

impl Memory {
    /// Collects the files that apply from the start. The order is the order in which the model reads them: the
    /// machine's, the user's, the folders from the root down, and automatic memory last.
    pub(super) fn load(request: MemoryRequest) -> Self {
        let cwd = request.cwd.canonicalize().unwrap_or_else(|_| request.cwd.clone());
        let root = tree_root(&cwd).unwrap_or(&cwd).to_owned();
        let mut problems = Vec::new();
        let excludes = exclusions(&request.excludes, request.home.as_deref()).unwrap_or_else(|error| {
            let origin = Origin::Given("claudeMdExcludes");
            problems.push(SettingsProblem::warning(&origin, None, format!("nothing is excluded: {error}")));
            GlobSet::empty()
        });
        let mut memory = Self {
            cwd,
            root,
            excludes,
            files: Vec::new(),
            at_start: 0,
            rules: Vec::new(),
            seen: HashSet::new(),
            bytes: 0,
            rule_entries: 0,
            problems,
            request,
        };
        memory.managed();
        memory.user();
        // From the root down, so that the model reads the closest folder last.
        for folder in memory.request.cwd.clone().ancestors().collect::<Vec<_>>().into_iter().rev() {
            memory.folder(folder, memory.request.reason, None);
        }
        memory.automatic();
        memory.at_start = memory.files.len();
        memory
    }

    /// Returns the memory of a conversation that begins now: all files are read again, and those further down are
    /// loaded again when a file next to them is read. `may_read` stands for the current deny rules. This memory does
    /// not change.
    pub fn read_again(&self, reason: LoadReason, may_read: ReadCheck) -> Self {
        Self::load(MemoryRequest { reason, may_read, ..self.request.clone() })
    }

    /// Returns all files loaded so far, those that were loaded later included, in the order of loading.
    pub fn files(&self) -> &[MemoryFile] {
        &self.files
    }

    /// Returns the files loaded at the start, without those that were loaded later because a file was read.
    pub fn at_start(&self) -> &[MemoryFile] {
        &self.files[..self.at_start]
    }

    /// Loads and returns the files that apply because a file was read: the instructions of the folders on the way to
    /// it below the working directory, unless it lies in a folder of packages, and the rules whose `paths` cover it.
    /// Each is returned once in the life of this memory, and a due rule is dropped even if it may not be loaded; empty
    /// if the file does not exist. `may_read` stands for the current deny rules.
    pub fn nested_for(&mut self, path_read: &Path, may_read: ReadCheck) -> Vec<MemoryFile> {
        self.request.may_read = may_read;
        let before = self.files.len();
        let Ok(real) = self.request.cwd.join(path_read).canonicalize() else { return Vec::new() };
        if let Ok(below) = real.strip_prefix(&self.cwd) {
            let is_foreign = below.iter().any(|part| FOREIGN.iter().any(|foreign| part == *foreign));
            let mut folders: Vec<&Path> =
                below.ancestors().skip(1).filter(|dir| *dir != Path::new("")).collect();
            folders.reverse();
            for folder in folders.into_iter().filter(|_| !is_foreign) {
                let folder = self.request.cwd.join(folder);
                self.folder(&folder, LoadReason::NestedTraversal, Some(path_read));
            }
        }
        let due: Vec<PathRule> = self.rules.extract_if(.., |rule| rule.covers(&real)).collect();
        for rule in due {
            self.add(Find {
                globs: rule.globs,
                trigger: Some(path_read.to_owned()),
                form: Form::DueRule,
                ..Find::new(rule.path, rule.kind, LoadReason::PathGlobMatch, rule.limit)
            });
        }
        self.files[before..].to_vec()
    }

    /// Adds the administrator's file, then the text in the managed settings. Without a managed folder neither is added.
    fn managed(&mut self) {
        let Some(dir) = self.request.managed_dir.clone() else { return };
        self.own(dir.join("CLAUDE.md"), MemoryKind::Managed);
        if let Some(content) = self.request.managed_text.clone() {
            self.tell(dir.join("managed-settings.json"), MemoryKind::Managed, content);
        }
    }

    /// Adds the user's file and rules, if `--setting-sources` lets the user's settings count. The rules' patterns are
    /// relative to the root of the project.
    fn user(&mut self) {
        let Some(dir) = self.request.config_dir.clone() else { return };
        if self.request.sources.user {
            self.own(dir.join("CLAUDE.md"), MemoryKind::User);
            let base = self.root.clone();
            self.rules_in(&dir.join("rules"), MemoryKind::User, &base, self.request.reason, None);
        }
    }

    /// Adds a file of the user or the administrator, whose links and imports may lead anywhere. A missing file is left
    /// out.
    fn own(&mut self, path: PathBuf, kind: MemoryKind) {
        self.add(Find::new(path, kind, self.request.reason, Limit::Anywhere));
    }

    /// Adds a text that does not come from the walk, such as the one in the managed settings, under the path it comes
    /// from. An empty text is left out; limits and exclusions are not checked.
    fn tell(&mut self, path: PathBuf, kind: MemoryKind, content: String) {
        if !content.trim().is_empty() {
            let reason = self.request.reason;
            let (globs, trigger, parent) = (Vec::new(), None, None);
            self.files.push(MemoryFile {
                path,
                kind,
                content,
                reason,
                globs,
                trigger,
                parent,
                is_cut: false,
            });
        }
    }

    /// Adds the memory files and rules of one folder, as far as `--setting-sources` lets them count; `AGENTS.md` only
    /// without a `CLAUDE.md`. `reason` and `trigger` (the file whose reading led here) are passed on to hooks. In a
    /// folder above the project, files of other users are left out with a warning.
    fn folder(&mut self, folder: &Path, reason: LoadReason, trigger: Option<&Path>) {
        let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let is_inside = real.starts_with(&self.root);
        let limit = Limit::Below(if is_inside { self.root.clone() } else { real.clone() });
        let find = |path: PathBuf, kind: MemoryKind| Find {
            trigger: trigger.map(Path::to_owned),
            ..Find::new(path, kind, reason, limit.clone())
        };
        let dot = folder.join(".claude");
        // In the home folder `.claude` is the user's configuration folder, which is already loaded.
        let is_users = self.request.config_dir.as_deref().is_some_and(|config| same_folder(config, &dot));
        if self.request.sources.project {
            let mut main = vec![folder.join("CLAUDE.md")];
            if !is_users {
                main.push(dot.join("CLAUDE.md"));
            }
            // A dangling link counts as present: `add` reports it, and `AGENTS.md` does not silently take its place.
            if main.iter().all(|path| path.symlink_metadata().is_err()) {
                main = vec![folder.join("AGENTS.md")];
            }
            for path in main {
                if is_inside || self.is_ours(&path) {
                    self.add(find(path, MemoryKind::Project));
                }
            }
            let rules = dot.join("rules");
            if !is_users && (is_inside || self.is_ours(&rules)) {
                self.rules_in(&rules, MemoryKind::Project, &real, reason, trigger);
            }
        }
        let local = folder.join("CLAUDE.local.md");
        if self.request.sources.local && (is_inside || self.is_ours(&local)) {
            self.add(find(local, MemoryKind::Local));
        }
    }

    /// Returns whether a file above the project belongs to the user or the administrator; `true` if it does not exist.
    /// Other users can write to some of the folders there, such as `/tmp`, so their files cause a warning.
    fn is_ours(&mut self, path: &Path) -> bool {
        let Some(stamp) = Stamp::at(path) else { return true };
        let is_ours = stamp.owner == 0 || stamp.owner == rustix::process::getuid().as_raw();
        if !is_ours {
            self.warn(
                path,
                "it is left out: it lies above the project and belongs to another user".to_owned(),
            );
        }
        is_ours
    }

    /// Adds a file and the files it imports, each file once; one that may not be loaded, is missing or empty is left
    /// out. A rule that waits for a path is returned instead, otherwise `None`.
    fn add(&mut self, find: Find) -> Option<PathRule> {
        if find.kind != MemoryKind::Managed && self.excludes.is_match(&find.path) {
            return None;
        }
        let real = match find.path.canonicalize() {
            Ok(real) => real,
            Err(_) => {
                if find.path.is_symlink() && find.parent.is_none() {
                    self.warn(&find.path, "it is a link to something that does not exist".to_owned());
                }
                return None;
            }
        };
        // A due rule is in `seen` already: its frontmatter was read when it was found.
        if (find.form != Form::DueRule && self.seen.contains(&real)) || !self.may_tell(&find, &real) {
            return None;
        }
        // Before the imports are followed, so that files which import each other are each read once.
        self.seen.insert(real.clone());
        let (text, is_cut) = self.read(&find, &real)?;
        let (yaml, body) = match find.form {
            Form::Plain => (None, text.as_str()),
            Form::Rule | Form::DueRule => frontmatter::split(&text),
        };
        if let (Form::Rule, Some(yaml)) = (find.form, yaml)
            && let Some(rule) = self.waiting(&find, yaml)
        {
            return Some(rule);
        }
        let content = self.clean(&find.path, body);
        if content.trim().is_empty() {
            return None;
        }
        self.bytes += content.len();
        let imported = if find.hops < MAX_IMPORT_HOPS { imports(&content) } else { Vec::new() };
        self.files.push(MemoryFile {
            path: find.path.clone(),
            kind: find.kind,
            content,
            reason: find.reason,
            globs: find.globs.clone(),
            trigger: find.trigger.clone(),
            parent: find.parent.clone(),
            is_cut,
        });
        for import in imported {
            self.import(&find, &import);
        }
        None
    }

    /// Adds an imported file, with the kind and the limit of the file that imports it: an import may reach no further.
    /// A missing file is left out without a warning, because `@name` is often not an import.
    fn import(&mut self, from: &Find, import: &str) {
        let folder = from.path.parent().unwrap_or(Path::new("/"));
        let path = expand(import, folder, self.request.home.as_deref());
        // `@name` in a text is often a mention of a person and not an import, so a missing file causes no warning.
        if path.is_file() {
            self.add(Find {
                trigger: from.trigger.clone(),
                parent: Some(from.path.clone()),
                hops: from.hops + 1,
                ..Find::new(path, from.kind, LoadReason::Include, from.limit.clone())
            });
        }
    }

    /// Returns whether a file may be loaded: inside its limit, not denied, and not one too many. If not, a warning says
    /// why.
    fn may_tell(&mut self, find: &Find, real: &Path) -> bool {
        if let Limit::Below(base) = &find.limit
            && !real.starts_with(base)
            && !self.outside_is_approved()
        {
            let from = find.parent.as_ref().map(|parent| format!(" ({} imports it)", parent.display()));
            let message = format!("it is left out: it lies outside the project{}", from.unwrap_or_default());
            self.warn(&find.path, message);
            return false;
        }
        if !(self.request.may_read.0)(real) {
            self.warn(&find.path, "it is left out: a permission rule denies reading it".to_owned());
            return false;
        }
        // Checked before the file is read, so the total can exceed the limit by one file.
        if self.files.len() >= MAX_FILES || self.bytes >= MAX_TOTAL_BYTES {
            let message = format!(
                "it is left out: there are already {} memory files with {} bytes",
                self.files.len(),
                self.bytes
            );
            self.warn(&find.path, message);
            return false;
        }
        true
    }

    /// Returns whether the user approved files outside the project for this folder. The state file is read once, for
    /// the first file that lies outside.
    fn outside_is_approved(&mut self) -> bool {
        // The state file is read once; the result replaces the request to look it up.
        if let OutsideFiles::LookUp(state) = &self.request.outside {
            let is_approved = look_up(state, &self.cwd).0.outside_imports;
            self.request.outside = if is_approved { OutsideFiles::Approved } else { OutsideFiles::LeftOut };
        }
        self.request.outside == OutsideFiles::Approved
    }

    /// Returns the text of a file as it is, and whether its end was cut off, which happens at a line end and causes a
    /// warning. `None` if it is missing, or, with a warning, if it cannot be read or is not text.
    fn read(&mut self, find: &Find, real: &Path) -> Option<(String, bool)> {
        let content = match read_start(real, MAX_FILE_BYTES) {
            Ok(Some(content)) => content,
            Ok(None) => return None,
            Err(failure) => {
                self.warn(&find.path, failure.to_string());
                return None;
            }
        };
        if content.bytes.contains(&0) {
            self.warn(&find.path, "it is left out: it is not text".to_owned());
            return None;
        }
        let mut bytes = content.bytes;
        if content.is_cut {
            let end = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(bytes.len());
            bytes.truncate(end);
            self.warn(&find.path, format!("only the first {MAX_FILE_BYTES} bytes are used"));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Some((text, content.is_cut)),
            Err(_) => {
                self.warn(&find.path, "it is left out: it is not UTF-8 text".to_owned());
                None
            }
        }
    }

    /// Returns a text without what the model must not get: a byte order mark, HTML comments and invisible characters.
    /// Warns about the latter, which can hide instructions.
    fn clean(&mut self, path: &Path, text: &str) -> String {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let text = without_comments(text);
        let (text, hidden) = visible(&text);
        if hidden > 0 {
            self.warn(
                path,
                format!("{hidden} hidden characters were taken out: look at it before you trust it"),
            );
        }
        text.into_owned()
    }

    /// Adds the beginning of the index of the notes that the model made in earlier sessions, if the request names their
    /// folder. Not checked against limits, exclusions and deny rules.
    fn automatic(&mut self) {
        let Some(path) = self.request.auto_dir.as_ref().map(|dir| dir.join("MEMORY.md")) else { return };
        let bytes = match read_start(&path, MAX_AUTO_BYTES) {
            Ok(Some(content)) => content.bytes,
            Ok(None) => return,
            Err(failure) => return self.warn(&path, failure.to_string()),
        };
        // Lossy, because the limit can cut a character in half.
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().take(MAX_AUTO_LINES).collect();
        let content = self.clean(&path, &lines.join("\n"));
        self.tell(path, MemoryKind::Auto, content);
    }

    /// Adds a warning about a file, up to [`MAX_PROBLEMS`]; further ones are dropped.
    fn warn(&mut self, path: &Path, message: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(SettingsProblem::warning(&Origin::File(path.to_owned()), None, message));
        }
    }
}

/// Returns whether both paths lead to one folder. `false` if one of them does not exist.
fn same_folder(left: &Path, right: &Path) -> bool {
    matches!((left.canonicalize(), right.canonicalize()), (Ok(left), Ok(right)) if left == right)
}
