//! Prints the decision about a shell command: `cargo run -p lathe-permissions --example explain -- COMMAND`.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a maintainer's tool: it reads the environment and prints"
)]

#[path = "../tests/support/mod.rs"]
mod support;

use lathe_permissions::{EngineConfig, PermissionScopeConfig};
use support::Rig;

fn main() {
    let cwd = std::env::current_dir().expect("a working directory");
    let home = std::env::var_os("HOME").map(Into::into);
    let scope = PermissionScopeConfig { working_dirs: vec![cwd.clone()], ..Default::default() };
    let engine = Rig::new(EngineConfig { home, ..EngineConfig::default() }, scope);
    for command in std::env::args().skip(1) {
        let input = serde_json::json!({ "command": command });
        println!("{}", engine.explain("Bash", &input, &cwd));
    }
}
