//! The examples of SCRIPT.md are scripts that load.

use std::path::Path;

use lathe_scripted::{Script, ScriptEngine};

fn blocks(language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("SCRIPT.md")).unwrap();
    let opening = format!("```{language}\n");
    text.split(&opening).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn every_example_loads() {
    let examples = [blocks("yaml"), blocks("json")].concat();
    assert!(examples.len() >= 6, "only {} examples", examples.len());
    for example in examples {
        // The page shows some keys without the turns that go with them.
        let whole = if example.contains("turns:") || example.starts_with('{') {
            example
        } else {
            example + "turns: [{text: a}]\n"
        };
        let script = Script::parse("SCRIPT.md", &whole).unwrap_or_else(|error| panic!("{error}\n{whole}"));
        ScriptEngine::new(script).unwrap();
    }
}

/// A key that nobody can look up might as well not exist.
#[test]
fn every_key_is_described() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("SCRIPT.md")).unwrap();
    for place in [
        "x: 1\nturns: []",
        "turns: [{x: 1}]",
        "turns: [{when: {x: 1}}]",
        "defaults: {x: 1}\nturns: []",
        "turns: [{usage: {x: 1}}]",
        "[{x: 1}]",
    ] {
        let error = Script::parse("keys", place).unwrap_err().to_string();
        let keys = error.split_once("the keys here are ").unwrap_or_else(|| panic!("{error}")).1;
        for key in keys.split(", ") {
            let described = text.contains(&format!("`{key}`")) || text.contains(&format!("{key}:"));
            assert!(described, "`{key}` of {place:?} is missing in SCRIPT.md");
        }
    }
}
