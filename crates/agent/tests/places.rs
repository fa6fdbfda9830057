//! What is decided on is what is opened: a path whose directory is swapped for a link, over and over, between
//! and during decision and call never leads a file tool out of the project.
#![allow(clippy::disallowed_methods, reason = "tests work on real files")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lathe_exec::Ledger;
use lathe_permissions::{
    Decision, EngineConfig, PermissionEngine, PermissionQuestion, PermissionScope, PermissionScopeConfig,
};
use lathe_protocol::PermissionMode;
use lathe_tools::{DetachedSession, PathFilter, ToolContext, ToolSet, Workspace, builtin_tools};
use rustix::fs::{CWD, RenameFlags};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Calls that must have been allowed before a race counts, and tries to get there: with the link in place at the
/// moment of the decision, a call is asked about.
const ALLOWED: usize = 250;
const MOST_ROUNDS: usize = 200_000;

const NOTEBOOK: &str = r#"{"cells":[{"cell_type":"code","id":"c","metadata":{},"outputs":[],"source":"WORD"}],"metadata":{},"nbformat":4,"nbformat_minor":5}"#;

/// A project with a directory `dir`, and a folder outside with files of the same names.
struct World {
    _root: tempfile::TempDir,
    project: PathBuf,
    outside: PathBuf,
    engine: PermissionEngine,
    scope: PermissionScope,
    tools: ToolSet,
    workspace: Arc<Workspace>,
}

impl World {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().canonicalize().unwrap();
        let (project, outside) = (base.join("project"), base.join("outside"));
        fs::create_dir_all(project.join("dir")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        for (folder, word) in [(project.join("dir"), "plain"), (outside.clone(), "CANARY")] {
            fs::write(folder.join("f"), format!("{word}\n")).unwrap();
            fs::write(folder.join("n.ipynb"), NOTEBOOK.replace("WORD", word)).unwrap();
        }
        fs::write(outside.join("only-outside"), "CANARY\n").unwrap();
        let engine =
            PermissionEngine::new(EngineConfig { root: Some(project.clone()), ..EngineConfig::default() });
        let scope = PermissionScope::new(PermissionScopeConfig {
            mode: PermissionMode::AcceptEdits,
            working_dirs: vec![project.clone()],
            ..PermissionScopeConfig::default()
        });
        let workspace = Arc::new(Workspace::new(project.clone(), Ledger::default()));
        Self { _root: root, project, outside, engine, scope, tools: ToolSet::new(builtin_tools()), workspace }
    }

    /// What lies outside, to be compared.
    fn state(&self) -> Vec<(String, Vec<u8>)> {
        let mut state: Vec<(String, Vec<u8>)> = fs::read_dir(&self.outside)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
            })
            .collect();
        state.sort();
        state
    }

    /// Decides about a call and carries it out if it is allowed; what came out of it.
    async fn call(&self, tool: &str, input: &Value) -> Option<Result<String, String>> {
        let carries_out = self.tools.get(tool).unwrap();
        let call = self.engine.describe(carries_out.subject(input));
        let cwd = &self.project;
        let question = PermissionQuestion { tool, input, call: &call, cwd, scope: &self.scope };
        let judged = self.engine.judge(&question);
        if !matches!(judged.decision, Decision::Allow(_)) {
            return None;
        }
        let context = ToolContext {
            tool_use_id: "toolu_1".to_owned(),
            cancel: CancellationToken::new(),
            workspace: self.workspace.clone(),
            session: Arc::new(DetachedSession),
            place: judged.place,
            closed_paths: self.engine.read_filter().map(|filter| Arc::new(filter) as PathFilter),
            environment: lathe_tools::CommandEnvironment::Whole,
        };
        let outcome = carries_out.call(input, &context).await;
        Some(match outcome {
            Ok(output) => Ok(format!("{:?} {}", output.content, output.result)),
            Err(failure) => Err(failure.content().unwrap()),
        })
    }
}

/// Swaps a directory and a link to another one, until told to stop.
fn swap(dir: &Path, outside: &Path, stop: &AtomicBool) {
    let link = dir.with_file_name("link");
    symlink(outside, &link).unwrap();
    while !stop.load(Ordering::Relaxed) {
        rustix::fs::renameat_with(CWD, dir, CWD, &link, RenameFlags::EXCHANGE).unwrap();
        std::thread::yield_now();
    }
}

/// How often a call was allowed, and how often it then failed because its path had changed.
fn race(tool: &str, input: Value) -> (usize, usize) {
    let world = World::new();
    let before = world.state();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(world.call("Read", &json!({"file_path": "dir/n.ipynb"}))).unwrap().unwrap();
    let stop = AtomicBool::new(false);
    let dir = world.project.join("dir");
    std::thread::scope(|scope| {
        scope.spawn(|| swap(&dir, &world.outside, &stop));
        let counts = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(rounds(&world, tool, &input))
        }));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(world.state(), before, "{tool} changed what lies outside");
        counts.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

async fn rounds(world: &World, tool: &str, input: &Value) -> (usize, usize) {
    let (mut allowed, mut failed) = (0, 0);
    for _ in 0..MOST_ROUNDS {
        if allowed >= ALLOWED {
            break;
        }
        match world.call(tool, input).await {
            None => {}
            Some(Ok(text)) => {
                allowed += 1;
                assert!(!text.contains("CANARY") && !text.contains("only-outside"), "{tool}: {text}");
            }
            Some(Err(text)) => {
                allowed += 1;
                failed += 1;
                assert!(!text.contains("CANARY"), "{tool}: {text}");
            }
        }
    }
    (allowed, failed)
}

macro_rules! races {
    ($($name:ident: $tool:literal, $input:tt;)*) => {$(
        #[test]
        fn $name() {
            let (allowed, failed) = race($tool, json!($input));
            assert!(allowed >= ALLOWED, "only {allowed} calls were allowed, {failed} of them failed");
        }
    )*};
}

races! {
    a_write_stays_inside: "Write", {"file_path": "dir/new", "content": "x"};
    a_write_that_makes_directories_stays_inside: "Write", {"file_path": "dir/a/b", "content": "x"};
    an_edit_stays_inside: "Edit", {"file_path": "dir/f", "old_string": "RY", "new_string": "x"};
    a_new_file_by_edit_stays_inside: "Edit", {"file_path": "dir/made", "old_string": "", "new_string": "x"};
    a_read_stays_inside: "Read", {"file_path": "dir/f"};
    a_notebook_edit_stays_inside: "NotebookEdit", {"notebook_path": "dir/n.ipynb", "cell_id": "c", "new_source": "x"};
    a_search_for_words_stays_inside: "Grep", {"pattern": ".", "path": "dir", "output_mode": "content"};
    a_search_for_words_in_all_stays_inside: "Grep", {"pattern": "CANARY", "output_mode": "content"};
    a_search_for_names_stays_inside: "Glob", {"pattern": "dir/*"};
}
