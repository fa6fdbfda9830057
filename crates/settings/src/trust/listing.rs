//! Lists what a folder brings besides its settings files: servers, agents, skills, commands, scheduled tasks, plugins,
//! styles and memory files. Nothing is loaded or run; features that use such a file read it themselves.
//!
//! A plain start pays a few `stat` calls ([`has_files`]). Files are opened only where there are some and the folder is
//! not trusted as a whole. Surprising: a link is followed. Its target is read to make a hash of it, and nothing of it
//! is shown but the commands of servers.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::items::{ContentItem, text_of};
use super::kinds::ContentKind;
use super::scheduled;
use crate::file::read_start;

/// More files of one kind are not listed one by one.
const MAX_FILES: usize = 200;
/// How many folders lie between a folder of agents or commands and a file of it.
const MAX_DEPTH: usize = 4;
/// Entries of a folder that are looked at.
const MAX_ENTRIES: usize = 2000;
/// No file of servers, no agent, skill or command is larger.
const MAX_BYTES: u64 = 1 << 20;

/// What is looked for in the folder's `.claude`.
const IN_DOT: [&str; 4] = ["agents", "skills", "commands", "scheduled_tasks.json"];

/// Where to look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub folder: &'a Path,
    /// `.claude` of the folder, unless that is the user's own configuration folder.
    pub dot: Option<&'a Path>,
}

/// Returns whether the folder has files that may need trust. Costs a few `stat` calls and opens nothing, unlike
/// [`items`].
pub(crate) fn has_files(place: Place<'_>) -> bool {
    let is_there = |path: PathBuf| path.symlink_metadata().is_ok();
    let in_dot = |dot: &Path| IN_DOT.into_iter().any(|name| is_there(dot.join(name)));
    [".mcp.json", ".lsp.json"].into_iter().any(|name| is_there(place.folder.join(name)))
        || place.dot.is_some_and(in_dot)
}

/// Returns the items in files other than settings that need trust, or of which only the text counts without it. Opens
/// and hashes these files; their number is bounded, and those above the bound are left out.
pub(crate) fn items(place: Place<'_>) -> Vec<ContentItem> {
    let mut found = servers(place.folder, ".mcp.json", ContentKind::McpServers);
    found.extend(servers(place.folder, ".lsp.json", ContentKind::LanguageServers));
    let Some(dot) = place.dot else { return found };
    found.extend(files(place.folder, &dot.join("agents"), ContentKind::Agents));
    found.extend(files(place.folder, &dot.join("commands"), ContentKind::Commands));
    found.extend(scheduled::items(place.folder));
    for skill in entries(&dot.join("skills")) {
        let manifest = skill.join(".claude-plugin/plugin.json");
        if manifest.is_file() {
            found.push(item_of_file(place.folder, &manifest, ContentKind::Plugins));
        }
        let text = skill.join("SKILL.md");
        if text.is_file() {
            found.push(item_of_file(place.folder, &text, ContentKind::Skills));
        }
        if found.len() >= MAX_FILES * 4 {
            break;
        }
    }
    found
}

/// Returns one kind for each memory file and output style, which count without trust because they are only text. No
/// file is opened.
pub(crate) fn texts(place: Place<'_>) -> Vec<ContentKind> {
    let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
    let in_folder = ["CLAUDE.md", "AGENTS.md", "CLAUDE.local.md"].map(|name| place.folder.join(name));
    let mut kinds = vec![ContentKind::MemoryFiles; in_folder.iter().filter(|path| is_there(path)).count()];
    let Some(dot) = place.dot else { return kinds };
    let memory = usize::from(is_there(&dot.join("CLAUDE.md"))) + markdown(&dot.join("rules")).len();
    kinds.extend(vec![ContentKind::MemoryFiles; memory]);
    kinds.extend(vec![ContentKind::OutputStyles; markdown(&dot.join("output-styles")).len()]);
    kinds
}

/// Returns the servers in a file, each with what it would start or call; none if the file does not exist or does not
/// hold an object. A file that cannot be read whole or is not JSON is one item that can never be trusted.
fn servers(folder: &Path, file: &str, kind: ContentKind) -> Vec<ContentItem> {
    let text = match read_start(&folder.join(file), MAX_BYTES) {
        Ok(None) => return Vec::new(),
        Ok(Some(content)) if !content.is_cut => content.bytes,
        // A hash of the beginning would trust whatever follows after it.
        Ok(Some(_)) => return vec![ContentItem::unreadable(kind, file, "it is too large")],
        Err(failure) => return vec![ContentItem::unreadable(kind, file, &failure.to_string())],
    };
    let whole: Value = match serde_json::from_slice(&text) {
        Ok(whole) => whole,
        Err(error) => return vec![ContentItem::unreadable(kind, file, &error.to_string())],
    };
    let inner = whole.get("mcpServers").filter(|_| kind == ContentKind::McpServers);
    let servers: Map<String, Value> = inner.unwrap_or(&whole).as_object().cloned().unwrap_or_default();
    let items = servers.iter().map(|(name, server)| {
        let content = serde_json::to_vec(server).unwrap_or_default();
        ContentItem::new(kind, file, name.clone(), server_text(server), &content)
    });
    items.collect()
}

/// Returns the command line of a server that is nothing but a command line, and JSON for any other. A word with a
/// blank would look like two, so such a server is shown as JSON too.
fn server_text(server: &Value) -> String {
    let words = || {
        let object = server.as_object()?;
        let has_more = object.keys().any(|key| !["type", "command", "args"].contains(&key.as_str()));
        let mut words = vec![object.get("command")?.as_str()?];
        for word in object.get("args").and_then(Value::as_array).into_iter().flatten() {
            words.push(word.as_str()?);
        }
        // Joined with blanks, such a word would pass for several, and a person would be shown another command.
        let has_blank = words.iter().any(|word| word.is_empty() || word.contains(char::is_whitespace));
        (!has_more && !has_blank).then(|| words.join(" "))
    };
    words().unwrap_or_else(|| text_of(server))
}

/// Returns the Markdown files below `dir` as items, named by their paths relative to `folder`.
fn files(folder: &Path, dir: &Path, kind: ContentKind) -> Vec<ContentItem> {
    markdown(dir).iter().map(|path| item_of_file(folder, path, kind)).collect()
}

/// Returns the Markdown files of a folder and of the folders in it, sorted; none if it cannot be read. Linked folders
/// are not entered; depth and number are bounded.
fn markdown(dir: &Path) -> Vec<PathBuf> {
    let (mut found, mut waiting) = (Vec::new(), vec![(dir.to_owned(), 0)]);
    while let Some((dir, depth)) = waiting.pop() {
        for path in entries(&dir) {
            // A linked folder could lead round in a circle.
            let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
            if is_folder && depth < MAX_DEPTH {
                waiting.push((path, depth + 1));
            } else if path.extension().is_some_and(|extension| extension == "md") && found.len() < MAX_FILES {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Returns the entries of a folder, sorted; none if it cannot be read. At most [`MAX_ENTRIES`] are looked at, in the
/// order of the disk, so of more it is not defined which are returned.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().take(MAX_ENTRIES);
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

/// Returns a whole file as an item. It is named by its path relative to `folder`, and its text is not shown; a file
/// that cannot be read whole can never be trusted.
fn item_of_file(folder: &Path, path: &Path, kind: ContentKind) -> ContentItem {
    let file = path.strip_prefix(folder).unwrap_or(path).to_string_lossy().into_owned();
    match read_start(path, MAX_BYTES) {
        Ok(Some(content)) if !content.is_cut => {
            ContentItem::new(kind, &file, file.clone(), String::new(), &content.bytes)
        }
        Ok(Some(_)) => ContentItem::unreadable(kind, &file, "it is too large"),
        Ok(None) => ContentItem::unreadable(kind, &file, "it is gone"),
        Err(failure) => ContentItem::unreadable(kind, &file, &failure.to_string()),
    }
}
