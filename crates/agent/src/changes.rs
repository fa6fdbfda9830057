//! Things around a session that change while it runs, checked between two rounds: settings files, memory files, files
//! that hooks watch, variables that hooks export.

pub mod exported_env;
pub mod memory_files;
pub mod settings_files;
pub mod watched_files;
