//! Paths that need more care than others: files that make programs run, and directories whose loss cannot be undone.

use std::path::{Component, Path};

use crate::path_rules::folded;
use crate::paths::{Located, WorkingDir, normal};

/// Directories whose content is configuration that can run programs, wherever they occur below a working directory.
const DIRECTORIES: [&str; 9] =
    [".git", ".vscode", ".idea", ".husky", ".cargo", ".devcontainer", ".yarn", ".mvn", ".claude"];

/// The same, for a directory inside another one.
const NESTED: [(&str, &str); 2] = [(".config", "git"), (".github", "workflows")];

const FILES: [&str; 40] = [
    ".gitconfig",
    ".gitmodules",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_aliases",
    ".bash_logout",
    ".zshrc",
    ".zprofile",
    ".zshenv",
    ".zlogin",
    ".zlogout",
    ".profile",
    ".envrc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnp.cjs",
    ".pnp.loader.mjs",
    ".pnpmfile.cjs",
    "bunfig.toml",
    ".bunfig.toml",
    ".bazelrc",
    ".bazelversion",
    ".bazeliskrc",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    "lefthook.yaml",
    ".lefthook.yml",
    ".lefthook.yaml",
    "gradle-wrapper.properties",
    "maven-wrapper.properties",
    ".devcontainer.json",
    ".ripgreprc",
    "pyrightconfig.json",
    ".mcp.json",
    ".claude.json",
    ".kshrc",
    ".cshrc",
    ".login",
];

/// Returns whether a path is one that no rule can approve in advance: in the user's configuration folder, or with a
/// protected name. Below one of `dirs` only the rest of the path counts, because the directory itself may be anywhere.
pub(crate) fn is_protected(located: &Located, dirs: &[WorkingDir], config_dir: Option<&Path>) -> bool {
    if located.forms().any(|form| config_dir.is_some_and(|config| form.starts_with(normal(config)))) {
        return true;
    }
    located.forms().any(|form| {
        // Below a working directory only the rest of the path counts: the directory itself may be anywhere.
        let base =
            dirs.iter().flat_map(|dir| [&dir.written, &dir.real]).filter(|base| form.starts_with(base));
        let below =
            base.max_by_key(|base| base.as_os_str().len()).and_then(|base| form.strip_prefix(base).ok());
        has_protected_name(below.unwrap_or(form))
    })
}

/// Returns whether a name on the lists occurs in a path: directories anywhere, files only at the end. Names are
/// compared without case, and without trailing dots and blanks; `.claude/worktrees` is exempt.
fn has_protected_name(path: &Path) -> bool {
    let names: Vec<String> = path
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(folded(&name.to_string_lossy())),
            _ => None,
        })
        .collect();
    names.iter().enumerate().any(|(index, name)| {
        let name = name.trim_end_matches(['.', ' ']);
        let next = names.get(index + 1).map(String::as_str);
        let worktree = name == ".claude" && next == Some("worktrees");
        (DIRECTORIES.contains(&name) && !worktree)
            || NESTED.iter().any(|(outer, inner)| name == *outer && next == Some(inner))
            || (index + 1 == names.len() && FILES.contains(&name))
    })
}

/// Returns whether removing a path would remove the system, the home, or a directory the session works in: every
/// directory directly below `/`, and everything that contains the home, `cwd` or one of `dirs`.
pub(crate) fn is_critical(path: &Path, dirs: &[WorkingDir], home: Option<&Path>, cwd: &Path) -> bool {
    let keeps = |kept: &Path| kept.starts_with(path);
    path.parent().is_none_or(|parent| parent == Path::new("/"))
        || home.is_some_and(keeps)
        || keeps(cwd)
        || dirs.iter().any(|dir| keeps(&dir.written) || keeps(&dir.real))
}
