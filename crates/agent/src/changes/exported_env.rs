//! Files that hooks leave for the commands of a session: a hook appends shell commands to the file that
//! `CLAUDE_ENV_FILE` names, and the shell of every later Bash call sources it.
//!
//! The files are tried when the hooks of an event have ended; one that does not parse, ends the shell or hangs would do
//! so in every command, so it is reported and left out. What CwdChanged hooks wrote for a folder is forgotten when the
//! session leaves the folder.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lathe_exec::RunLimits;
use lathe_tools::try_env_files;

use crate::state::agent::AgentHandle;

/// How long the shell that tries a file may wait for one of the places of hooks.
const PLACE_TIME: Duration = Duration::from_secs(10);

impl AgentHandle {
    /// Decides which files of hooks the commands source from now on: those that are not empty and work behind the files
    /// before them. Each other file is reported to the host. To be called when the hooks of an event have ended.
    pub(crate) async fn take_env_files(self: &Arc<Self>) {
        let mut files = self.session.env_files.paths();
        files.retain(|file| fs::metadata(file).is_ok_and(|meta| meta.len() > 0));
        let mut usable: Vec<&PathBuf> = Vec::new();
        for file in &files {
            // Behind those before it, as in a command.
            usable.push(file);
            if let Err(why) = self.try_files(&usable).await {
                usable.pop();
                let text = format!("what hooks wrote to CLAUDE_ENV_FILE is not used: {why}");
                self.session.emit(self.frames.note("hook_env_file", &text)).await;
            }
        }
        let usable = usable.into_iter().cloned().collect();
        self.workspace.shell_startup.set_hook_files(usable);
    }

    /// Sources the files in this order in a shell of its own; the error says why they cannot be used. This is part of
    /// the hooks, so it takes one of their places and does not wait for commands.
    async fn try_files(&self, files: &[&PathBuf]) -> Result<(), String> {
        let hooks = &self.session.process.limits.hooks;
        let place = hooks.place(PLACE_TIME, &self.session.stop).await.map_err(|none| none.to_string())?;
        let limits = RunLimits { place: Some(place), ..RunLimits::default() };
        try_env_files(&self.workspace, files, limits, &self.session.stop).await
    }
}
