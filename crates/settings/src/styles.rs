//! Output styles: instructions for how the agent writes. A few are built in; people write others as Markdown files.
//!
//! A style that is named and not found causes a warning, and the default style is used.

mod builtin;

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::file::read_text;
use crate::frontmatter;
use crate::problem::{Origin, SettingsProblem};
use crate::source::Sources;
use crate::trust::tree_root;

/// The size of the largest file that is read.
pub const MAX_STYLE_BYTES: u64 = 256 << 10;
/// The number of files that are read from one folder.
const MAX_STYLES: usize = 200;

/// Where a style comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StyleOrigin {
    /// Part of Lathe.
    BuiltIn,
    /// A file.
    File(PathBuf),
}

/// One style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputStyle {
    /// The name that `outputStyle` refers to.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Whether the usual instructions about writing code stay in the system prompt.
    pub keep_coding_instructions: bool,
    /// The instructions for the model; empty for the default style.
    pub text: String,
    /// Where it comes from.
    pub origin: StyleOrigin,
}

/// The folders that styles are loaded from.
#[derive(Debug, Clone, Default)]
pub struct StyleRequest {
    /// The working directory; the folders above it count up to the root of the project.
    pub cwd: PathBuf,
    /// The user's configuration folder.
    pub config_dir: Option<PathBuf>,
    /// The folder of managed files.
    pub managed_dir: Option<PathBuf>,
    /// `--setting-sources`.
    pub sources: Sources,
}

/// All styles of a session.
#[derive(Debug)]
pub struct Styles {
    /// Built-in ones first, then files; each name once.
    pub styles: Vec<OutputStyle>,
    /// Files that could not be used.
    pub problems: Vec<SettingsProblem>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Head {
    name: Option<String>,
    description: Option<String>,
    #[serde(deserialize_with = "frontmatter::flag")]
    keep_coding_instructions: Option<bool>,
}

/// The name of the style that is used if none is chosen.
pub const DEFAULT_STYLE: &str = "default";

impl Styles {
    /// Collects the styles. Where several have the same name, the strongest is kept: managed, then the nearest folder
    /// of the project, then the user's, then built in. Files that cannot be used are among the problems.
    pub fn load(request: &StyleRequest) -> Self {
        // From weak to strong: a later style replaces an earlier one of the same name.
        let mut found = Self { styles: builtin::styles(), problems: Vec::new() };
        if let Some(config) = request.config_dir.as_ref().filter(|_| request.sources.user) {
            found.add_folder(&config.join("output-styles"), Reach::Anywhere);
        }
        if request.sources.project {
            let cwd = request.cwd.canonicalize().unwrap_or_else(|_| request.cwd.clone());
            let root = tree_root(&cwd).unwrap_or(&cwd);
            let inside: Vec<&Path> = cwd.ancestors().take_while(|folder| folder.starts_with(root)).collect();
            for folder in inside.into_iter().rev() {
                found.add_folder(&folder.join(".claude/output-styles"), Reach::Below(root));
            }
        }
        if let Some(managed) = &request.managed_dir {
            found.add_folder(&managed.join("output-styles"), Reach::Anywhere);
        }
        found
    }

    /// Returns the style with exactly this name; `None` if there is none.
    pub fn find(&self, name: &str) -> Option<&OutputStyle> {
        self.styles.iter().find(|style| style.name == name)
    }

    /// Returns the names of all styles in the order in which clients show them.
    pub fn names(&self) -> Vec<&str> {
        self.styles.iter().map(|style| style.name.as_str()).collect()
    }

    /// Adds the styles of a folder; one that cannot be read has none. Each replaces an earlier one of the same name, so
    /// the caller must go from weak to strong. Of more than [`MAX_STYLES`] files it is not defined which are read.
    fn add_folder(&mut self, folder: &Path, reach: Reach<'_>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        let mut paths: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
            .take(MAX_STYLES)
            .collect();
        paths.sort();
        for path in paths {
            match read_style(&path, reach) {
                Ok(style) => {
                    self.styles.retain(|other| other.name != style.name);
                    self.styles.push(style);
                }
                Err(message) => {
                    self.problems.push(SettingsProblem::warning(&Origin::File(path), None, message));
                }
            }
        }
    }
}

/// How far the links of a folder may lead. A project's style is sent to a model like its instructions, so a link in a
/// repository must not reach the user's other files.
#[derive(Clone, Copy)]
enum Reach<'a> {
    Anywhere,
    Below(&'a Path),
}

/// Reads a style; its name is that in the front matter, or else that of the file. The error is the text of a warning:
/// the file is gone, cannot be read, leads outside the project, has front matter that is not understood or is called
/// `default`.
fn read_style(path: &Path, reach: Reach<'_>) -> Result<OutputStyle, String> {
    if let Reach::Below(root) = reach
        && !path.canonicalize().is_ok_and(|real| real.starts_with(root))
    {
        return Err("it is left out: it leads outside the project".to_owned());
    }
    let text = match read_text(path, MAX_STYLE_BYTES) {
        Ok(Some(text)) => text.text,
        Ok(None) => return Err("it is gone".to_owned()),
        Err(failure) => return Err(failure.to_string()),
    };
    let (yaml, body) = frontmatter::split(&text);
    let head: Head = yaml.map_or_else(|| Ok(Head::default()), frontmatter::read)?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = head.name.filter(|name| !name.trim().is_empty()).unwrap_or(stem);
    if name == DEFAULT_STYLE {
        return Err("a style cannot be called `default`".to_owned());
    }
    Ok(OutputStyle {
        name,
        description: head.description.unwrap_or_default(),
        keep_coding_instructions: head.keep_coding_instructions.unwrap_or(false),
        text: body.trim().to_owned(),
        origin: StyleOrigin::File(path.to_owned()),
    })
}
