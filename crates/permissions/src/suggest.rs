//! Updates that would make a question unnecessary next time.

use std::path::{Path, PathBuf};

use lathe_protocol::Extra;
use lathe_protocol::permission::{
    DirectoriesUpdate, ModeUpdate, PermissionBehavior, PermissionMode, PermissionRule, PermissionUpdate,
    PermissionUpdateDestination, RulesUpdate,
};

/// The most rules that are suggested at once.
const MAX_RULES: usize = 5;

/// Returns the update that adds one allow rule; without content the rule covers the whole tool.
pub(crate) fn allow_rule(
    tool: &str,
    content: Option<String>,
    destination: PermissionUpdateDestination,
) -> PermissionUpdate {
    allow_rules(tool, content.map_or_else(|| vec![None], |content| vec![Some(content)]), destination)
}

/// Returns the update that adds allow rules for one tool; a rule without content covers the whole tool.
fn allow_rules(
    tool: &str,
    contents: Vec<Option<String>>,
    destination: PermissionUpdateDestination,
) -> PermissionUpdate {
    let rules = contents
        .into_iter()
        .map(|rule_content| PermissionRule {
            tool_name: tool.to_owned(),
            rule_content,
            ..PermissionRule::default()
        })
        .collect();
    PermissionUpdate::AddRules(RulesUpdate {
        rules,
        behavior: PermissionBehavior::Allow,
        destination,
        extra: Extra::new(),
    })
}

/// Returns the update that adds one rule for each command that needs approval, at most [`MAX_RULES`], to the local
/// settings; `None` without commands.
pub(crate) fn commands(mut contents: Vec<String>) -> Option<PermissionUpdate> {
    contents.dedup();
    contents.truncate(MAX_RULES);
    let contents: Vec<Option<String>> = contents.into_iter().map(Some).collect();
    (!contents.is_empty()).then(|| allow_rules("Bash", contents, PermissionUpdateDestination::LocalSettings))
}

/// Returns the update to the mode that allows edits inside the working directories, for this session only.
pub(crate) fn accept_edits() -> PermissionUpdate {
    PermissionUpdate::SetMode(ModeUpdate {
        mode: PermissionMode::AcceptEdits,
        destination: PermissionUpdateDestination::Session,
        extra: Extra::new(),
    })
}

/// Returns the update that adds a working directory, for this session only.
pub(crate) fn add_directory(directory: &Path) -> PermissionUpdate {
    PermissionUpdate::AddDirectories(DirectoriesUpdate {
        directories: vec![directory.display().to_string()],
        destination: PermissionUpdateDestination::Session,
        extra: Extra::new(),
    })
}

/// Returns the update that allows reading everything in the directory of a file, for this session only.
pub(crate) fn read_directory(file: &Path) -> PermissionUpdate {
    read_directories(&[file.parent().unwrap_or(file).to_owned()])
}

/// Returns the update that allows reading everything below these absolute directories, for this session only.
pub(crate) fn read_directories(directories: &[PathBuf]) -> PermissionUpdate {
    let everything =
        |directory: &PathBuf| Some(format!("/{}/**", directory.display().to_string().trim_end_matches('/')));
    let contents = directories.iter().map(everything).collect();
    allow_rules("Read", contents, PermissionUpdateDestination::Session)
}
