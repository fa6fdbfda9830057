//! Scripts that need no file: `script:echo` and `script:demo`, and the small project that the demo repairs.
//!
//! The demo is also a self-test. Its turns expect the results that the tools must have given, so on a machine where
//! reading, editing or running does not work it stops with the name of the step that failed.

use crate::script::Script;

/// The names after `script:`.
pub const NAMES: [&str; 2] = ["demo", "echo"];

/// The prompt of the demo.
pub const DEMO_PROMPT: &str =
    "The test in test.sh fails. Find out why, repair the program and run the test again.";

/// Returns the built-in script with this name, which is given without `script:`; `None` if the name is not one of
/// [`NAMES`]. Panics if a built-in script is not valid.
pub fn script(name: &str) -> Option<Script> {
    let text = match name {
        "demo" => include_str!("builtin/demo.yaml"),
        "echo" => include_str!("builtin/echo.yaml"),
        _ => return None,
    };
    let file = format!("script:{name}");
    Some(
        Script::parse(&file, text)
            .unwrap_or_else(|error| panic!("the built-in script is part of the program: {error}")),
    )
}

/// Returns path and content of the files that the demo works on. The caller writes them into an empty folder.
pub fn demo_files() -> [(&'static str, &'static str); 2] {
    [
        ("temperature.sh", include_str!("builtin/demo/temperature.sh")),
        ("test.sh", include_str!("builtin/demo/test.sh")),
    ]
}
