//! What changes around a session while it runs, looked at between two rounds: settings files, memory files, files
//! that hooks wait for, variables that hooks export.

pub mod exported_env;
pub mod memory_files;
pub mod settings_files;
pub mod watched_files;
