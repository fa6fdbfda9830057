//! The memory files of a session while it runs: hooks are told which files were loaded, and when a call touches a file,
//! memory files that apply to it and are not known yet follow the result of that call as a note.

use std::path::PathBuf;
use std::sync::Arc;

use lathe_protocol::HookEvent;
use lathe_protocol::hooks::HookEventInput;
use lathe_settings::memory::{self, LoadReason, Memory, MemoryFile, ReadCheck};
use tokio_util::sync::CancellationToken;

use crate::record::tool_call::ToolCall;
use crate::state::agent::Agent;
use crate::state::services::SessionServices;

impl SessionServices {
    /// Returns a check whether a memory file may be read. It holds the deny rules in force now, so it has to be made
    /// anew for each reading.
    pub(crate) fn read_check(&self) -> ReadCheck {
        match self.permissions().read_filter() {
            Some(is_denied) => ReadCheck(Arc::new(move |path| !is_denied(path))),
            None => ReadCheck::default(),
        }
    }
}

impl Agent {
    /// Reads the memory files again for a new conversation; without any before, nothing is read. Files further down the
    /// tree can become due again, because the new conversation has not seen them. Hooks are told by
    /// [`Agent::announce_instructions`].
    pub(crate) fn begin_instructions_anew(&mut self) {
        let may_read = self.handle.session.read_check();
        let read = self.instructions.read_again(LoadReason::SessionStart, may_read);
        self.replace_instructions(read);
    }

    /// Replaces the memory files of a conversation that has begun anew and publishes their list; `None` leaves them as
    /// they are. Tells no hooks.
    pub(crate) fn replace_instructions(&mut self, read: Option<Memory>) {
        if read.is_some() {
            self.instructions.memory = read;
            self.publish_memory_files();
        }
    }

    /// Copies the list of memory files into the agent's view, where the context report reads it. Has to follow every
    /// change of `self.instructions`, because the view does not notice one. Tells no hooks.
    fn publish_memory_files(&self) {
        let told: Arc<[MemoryFile]> = self.instructions.told().into();
        self.handle.change(|view| view.memory_files = told);
    }

    /// Tells InstructionsLoaded hooks about the files that the conversation begins with, imported files before the
    /// files that import them. Does nothing if no hook listens.
    pub(crate) async fn announce_instructions(&self, cancel: &CancellationToken) {
        if !self.handle.session.listens(&HookEvent::InstructionsLoaded) {
            return;
        }
        let files = self.instructions.memory.as_ref().map(Memory::at_start).unwrap_or_default();
        self.announce(files, cancel).await;
    }

    /// Fires `InstructionsLoaded` for each file, one after the other, imported files first. Files without a hook input,
    /// such as automatic memory, are left out.
    async fn announce(&self, files: &[MemoryFile], cancel: &CancellationToken) {
        for file in imports_first(files) {
            if let Some(input) = file.hook_input() {
                self.handle.fire(HookEventInput::InstructionsLoaded(input), None, cancel).await;
            }
        }
    }

    /// Returns, as a note for the model, the memory files that a call makes relevant by touching a file below them;
    /// `None` if none are new or the call touches no file. Hooks are told of each file, and the host of each problem. A
    /// file is returned once per conversation, so the caller has to use the note.
    pub(crate) async fn instructions_due(
        &mut self,
        call: &ToolCall,
        cancel: &CancellationToken,
    ) -> Option<String> {
        let path = self.handle.workspace.resolve(call.description.subject().touched_file()?);
        let may_read = self.handle.session.read_check();
        let memory = self.instructions.memory.as_mut()?;
        // The list of problems only grows; those from before have been reported.
        let known = memory.problems().len();
        let files = memory.nested_for(&path, may_read);
        let troubles: Vec<String> = memory.problems()[known..].iter().map(ToString::to_string).collect();
        for trouble in troubles {
            self.handle.session.emit(self.handle.frames.warning(&trouble)).await;
        }
        if files.is_empty() {
            return None;
        }
        self.publish_memory_files();
        self.announce(&files, cancel).await;
        Some(memory::texts(&files))
    }
}

/// Returns the files in the order in which hooks are told of them: each after the files that it imports, otherwise in
/// the order of the list.
fn imports_first(files: &[MemoryFile]) -> Vec<&MemoryFile> {
    let mut ordered = Vec::new();
    for file in files.iter().filter(|file| !has_parent_in(file, files)) {
        add_with_imports(file, files, &mut ordered);
    }
    ordered
}

/// Returns whether the file that imports this one is in the list too; if so, the walk reaches this file through it.
fn has_parent_in(file: &MemoryFile, files: &[MemoryFile]) -> bool {
    file.parent.as_ref().is_some_and(|parent| files.iter().any(|other| other.path == *parent))
}

/// Adds to `ordered` what a file imports, then the file. Each file has one parent, and the walk must begin at files
/// whose parent is not in the list, so that it ends.
fn add_with_imports<'a>(file: &'a MemoryFile, files: &'a [MemoryFile], ordered: &mut Vec<&'a MemoryFile>) {
    let is_import = |other: &&MemoryFile| parent(other) == Some(&file.path) && other.path != file.path;
    for import in files.iter().filter(is_import) {
        add_with_imports(import, files, ordered);
    }
    ordered.push(file);
}

/// Returns the path of the memory file that imports this one; `None` if none does.
fn parent(file: &MemoryFile) -> Option<&PathBuf> {
    file.parent.as_ref()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lathe_settings::memory::MemoryKind;

    use super::*;

    fn file(path: &str, parent: Option<&str>) -> MemoryFile {
        MemoryFile {
            path: path.into(),
            kind: MemoryKind::Project,
            content: String::new(),
            reason: LoadReason::SessionStart,
            globs: Vec::new(),
            trigger: None,
            parent: parent.map(Into::into),
            is_cut: false,
        }
    }

    #[test]
    fn imports_are_told_before_what_imports_them() {
        let files = [
            file("a", None),
            file("b", Some("a")),
            file("c", Some("b")),
            file("d", None),
            file("e", Some("gone")),
        ];
        let order: Vec<&Path> = imports_first(&files).iter().map(|file| file.path.as_path()).collect();
        assert_eq!(order, ["c", "b", "a", "d", "e"].map(Path::new));
    }
}
