//! A folder and a way to call tools in it, in the order in which the agent does: schema, check, call.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(missing_docs, reason = "for tests only")]

pub mod table;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lathe_exec::Ledger;
use lathe_tools::{Content, DetachedSession, ToolContext, ToolSet, Workspace, builtin_tools, validate};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// What a client sees of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub content: Value,
    pub is_error: bool,
    pub result: Value,
}

impl Seen {
    pub fn text(&self) -> &str {
        self.content.as_str().unwrap_or_else(|| panic!("content is no text: {self:?}"))
    }

    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(!self.is_error, "{self:?}");
        self
    }

    #[track_caller]
    pub fn err(self) -> Self {
        assert!(self.is_error, "{self:?}");
        self
    }
}

/// A place to work.
pub struct Folder {
    pub dir: tempfile::TempDir,
    pub context: ToolContext,
    pub tools: ToolSet,
}

impl Folder {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(prepare: impl FnOnce(&mut Workspace)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let mut workspace = Workspace::new(root, Ledger::default());
        prepare(&mut workspace);
        let context = ToolContext {
            tool_use_id: "toolu_1".to_owned(),
            cancel: CancellationToken::new(),
            workspace: Arc::new(workspace),
            session: Arc::new(DetachedSession),
            place: None,
            closed_paths: None,
            environment: lathe_tools::CommandEnvironment::Whole,
        };
        Self { dir, context, tools: ToolSet::new(builtin_tools()) }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.context.workspace.root.join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub async fn call(&self, name: &str, input: Value) -> Seen {
        let tool = self.tools.get(name).unwrap_or_else(|| panic!("no tool {name}"));
        let input = match validate(name, tool.input_schema(), input) {
            Ok(input) => input,
            Err(invalid) => {
                return Seen {
                    content: json!(invalid.content()),
                    is_error: true,
                    result: json!(invalid.result()),
                };
            }
        };
        let outcome = match tool.check(&input) {
            Ok(()) => tool.call(&input, &self.context).await,
            Err(failure) => Err(failure),
        };
        match outcome {
            Ok(output) => Seen {
                content: match output.content {
                    Content::Text(text) => json!(text),
                    Content::Blocks(blocks) => json!(blocks),
                },
                is_error: output.is_error.unwrap_or(false),
                result: output.result,
            },
            Err(failure) => {
                Seen { content: json!(failure.content()), is_error: true, result: json!(failure.result()) }
            }
        }
    }
}

/// Names in a directory, sorted.
pub fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
