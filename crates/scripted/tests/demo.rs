//! The demo's files and script fit together: the test fails before the edit, passes after it, and every
//! expectation of the script is met by what the tools would answer.

#![allow(
    clippy::disallowed_methods,
    reason = "the test runs the demo's shell script itself, there is no tool here"
)]

use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use lathe_scripted::render::Step;
use lathe_scripted::{Facts, ScriptEngine, builtin};
use serde_json::{Value, json};

struct Tools<'a> {
    folder: &'a Path,
}

impl Tools<'_> {
    fn run(&self, name: &str, input: &Value) -> (String, bool) {
        let path = || {
            let path = Path::new(input["file_path"].as_str().unwrap());
            assert!(path.is_absolute(), "{path:?}");
            path
        };
        match name {
            "Bash" => {
                let command = input["command"].as_str().unwrap();
                let output =
                    Command::new("sh").arg("-c").arg(command).current_dir(self.folder).output().unwrap();
                (String::from_utf8(output.stdout).unwrap().trim_end().to_owned(), !output.status.success())
            }
            "Read" => (std::fs::read_to_string(path()).unwrap(), false),
            "Edit" => {
                let text = std::fs::read_to_string(path()).unwrap();
                let (old, new) =
                    (input["old_string"].as_str().unwrap(), input["new_string"].as_str().unwrap());
                assert_eq!(text.matches(old).count(), 1);
                std::fs::write(path(), text.replace(old, new)).unwrap();
                ("edited".to_owned(), false)
            }
            other => panic!("the demo calls {other}"),
        }
    }
}

fn answer(engine: &ScriptEngine, messages: &[Value]) -> Value {
    let body = json!({"model": "m", "max_tokens": 9, "messages": messages});
    let served = engine.respond(Facts::from_http(Bytes::from(body.to_string()), vec![]).unwrap());
    let bytes = served
        .reply
        .steps
        .iter()
        .find_map(|step| if let Step::Send(bytes) = step { Some(bytes) } else { None });
    serde_json::from_slice(bytes.unwrap()).unwrap()
}

#[test]
fn the_demo_repairs_its_program() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    for (name, content) in builtin::demo_files() {
        std::fs::write(folder.join(name), content).unwrap();
    }
    let tools = Tools { folder: &folder };
    assert!(tools.run("Bash", &json!({"command": "sh test.sh"})).1, "the test must fail at first");
    let engine = ScriptEngine::new(builtin::script("demo").unwrap()).unwrap();
    let mut messages = vec![json!({"role": "user", "content": builtin::DEMO_PROMPT})];
    for _ in 0..10 {
        let message = answer(&engine, &messages);
        assert_eq!(message["type"], "message", "{message}");
        messages.push(json!({"role": "assistant", "content": message["content"]}));
        if message["stop_reason"] == "end_turn" {
            assert!(!tools.run("Bash", &json!({"command": "sh test.sh"})).1, "the test must pass at the end");
            return;
        }
        let calls = message["content"].as_array().unwrap().iter().filter(|block| block["type"] == "tool_use");
        let results: Vec<Value> = calls
            .map(|call| {
                let (text, is_error) = tools.run(call["name"].as_str().unwrap(), &call["input"]);
                json!({"type": "tool_result", "tool_use_id": call["id"], "content": text, "is_error": is_error})
            })
            .collect();
        messages.push(json!({"role": "user", "content": results}));
    }
    panic!("the demo does not end");
}

#[test]
fn every_built_in_name_has_a_script() {
    assert!(builtin::NAMES.iter().all(|name| builtin::script(name).is_some()));
    assert!(builtin::script("other").is_none());
}
