//! Things around a session that change while it runs, checked between two rounds: settings files, memory files, files
//! that hooks watch, variables that hooks export, tools of servers.

pub mod exported_env;
mod known_tools;
pub mod memory_files;
pub mod settings_files;
pub mod watched_files;
