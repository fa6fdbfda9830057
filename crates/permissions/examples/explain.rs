//! Prints the decision about a shell command: `cargo run -p lathe-permissions --example explain -- COMMAND`.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a maintainer's tool: it reads the environment and prints"
)]

use lathe_permissions::{Call, Engine, EngineConfig};

fn main() {
    let cwd = std::env::current_dir().expect("a working directory");
    let home = std::env::var_os("HOME").map(Into::into);
    let engine =
        Engine::new(EngineConfig { working_dirs: vec![cwd.clone()], home, ..EngineConfig::default() });
    for command in std::env::args().skip(1) {
        let input = serde_json::json!({ "command": command });
        let call = Call { tool: "Bash", input: &input, cwd: &cwd, ..Call::default() };
        println!("{}", engine.explain(&call));
    }
}
