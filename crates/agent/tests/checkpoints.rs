//! `rewind_files` through a session: what the file tools did is undone, whatever else happened to the files.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use common::{Setup, Talk, line};
use lathe_agent::CheckpointsConfig;
use serde_json::{Value, json};
use tempfile::tempdir;

fn setup(script: Value, folder: &Path) -> Setup {
    let root = folder.canonicalize().unwrap();
    let work = root.join("work");
    fs::create_dir(&work).unwrap();
    let mut setup = Setup::new(script, &work);
    setup.checkpoints =
        Some(CheckpointsConfig { dir: root.join("file-history"), root: work, earlier: None, lasting: true });
    setup
}

fn prompt(id: &str) -> lathe_protocol::Inbound {
    line(
        json!({"type": "user", "uuid": id, "message": {"role": "user", "content": "go"}, "parent_tool_use_id": null}),
    )
}

async fn turn(talk: &mut Talk, id: &str) {
    talk.send(prompt(id)).await;
    talk.until(|frame| frame["type"] == "result").await;
}

async fn rewind(talk: &mut Talk, id: &str, dry_run: Option<bool>) -> Value {
    let mut request = json!({"subtype": "rewind_files", "user_message_id": id});
    if let Some(dry_run) = dry_run {
        request["dry_run"] = json!(dry_run);
    }
    talk.send(line(json!({"type": "control_request", "request_id": "r", "request": request}))).await;
    talk.until(|frame| frame["type"] == "control_response").await["response"].clone()
}

const ONE: &str = "00000000-0000-4000-8000-0000000000a1";
const TWO: &str = "00000000-0000-4000-8000-0000000000a2";

#[tokio::test]
async fn edits_are_undone_created_files_removed_deleted_ones_restored_with_their_mode() {
    let folder = tempdir().unwrap();
    let work = folder.path().canonicalize().unwrap().join("work");
    let path = |name: &str| work.join(name).display().to_string();
    let script = json!([
        {"tools": [
            {"name": "Read", "input": {"file_path": path("run.sh")}},
            {"name": "Edit", "input": {"file_path": path("run.sh"), "old_string": "one", "new_string": "two"}},
            {"name": "Write", "input": {"file_path": path("sub/made.txt"), "content": "made\n"}},
        ]},
        {"text": "done"},
        {"tools": [
            {"name": "Write", "input": {"file_path": path("sub/made.txt"), "content": "again\n"}},
            {"name": "Bash", "input": {"command": "rm run.sh; echo x > by-shell"}},
        ]},
        {"text": "done"},
    ]);
    let mut talk = Talk::start(setup(script, folder.path()));
    fs::write(work.join("run.sh"), "one\n").unwrap();
    fs::set_permissions(work.join("run.sh"), fs::Permissions::from_mode(0o751)).unwrap();
    turn(&mut talk, ONE).await;
    assert_eq!(fs::read_to_string(work.join("run.sh")).unwrap(), "two\n");
    turn(&mut talk, TWO).await;
    assert!(!work.join("run.sh").exists());

    let told = rewind(&mut talk, TWO, Some(true)).await;
    assert_eq!(told["response"]["canRewind"], true);
    assert_eq!(told["response"]["filesChanged"], json!([path("run.sh"), path("sub/made.txt")]));
    assert_eq!((&told["response"]["insertions"], &told["response"]["deletions"]), (&json!(2), &json!(1)));
    assert!(told["response"].get("skippedLinks").is_none());
    assert!(!work.join("run.sh").exists(), "a dry run does nothing");

    let done = rewind(&mut talk, TWO, None).await;
    assert_eq!((&done["subtype"], &done["response"]["skippedLinks"]), (&json!("success"), &json!(0)));
    assert_eq!(fs::read_to_string(work.join("run.sh")).unwrap(), "two\n");
    assert_eq!(fs::metadata(work.join("run.sh")).unwrap().mode() & 0o7777, 0o751);
    assert_eq!(fs::read_to_string(work.join("sub/made.txt")).unwrap(), "made\n");
    assert!(work.join("by-shell").exists(), "what the shell did is not followed");

    rewind(&mut talk, ONE, None).await;
    assert_eq!(fs::read_to_string(work.join("run.sh")).unwrap(), "one\n");
    assert!(!work.join("sub/made.txt").exists());
    talk.finish().await;
}

#[tokio::test]
async fn unknown_prompts_and_sessions_without_checkpoints_are_refused_in_the_known_words() {
    let folder = tempdir().unwrap();
    for (enabled, text) in
        [(true, "No file checkpoint found for this message."), (false, "File rewinding is not enabled.")]
    {
        let folder = folder.path().join(enabled.to_string());
        fs::create_dir(&folder).unwrap();
        let mut setup = setup(json!([{"text": "hi"}]), &folder);
        if !enabled {
            setup.checkpoints = None;
        }
        let mut talk = Talk::start(setup);
        turn(&mut talk, ONE).await;
        let dry = rewind(&mut talk, TWO, Some(true)).await;
        assert_eq!(dry["response"], json!({"canRewind": false, "error": text}));
        let real = rewind(&mut talk, TWO, None).await;
        assert_eq!((&real["subtype"], &real["error"]), (&json!("error"), &json!(text)));
        talk.finish().await;
    }
}

#[tokio::test]
async fn a_link_in_the_place_of_a_file_or_of_its_folder_is_left_alone() {
    let folder = tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let work = root.join("work");
    let path = |name: &str| work.join(name).display().to_string();
    let script = json!([
        {"tools": [
            {"name": "Write", "input": {"file_path": path("a"), "content": "1"}},
            {"name": "Write", "input": {"file_path": path("sub/b"), "content": "1"}},
            {"name": "Write", "input": {"file_path": path("c"), "content": "1"}},
        ]},
        {"text": "done"},
    ]);
    let mut talk = Talk::start(setup(script, folder.path()));
    turn(&mut talk, ONE).await;
    let outside = root.join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("a"), "theirs").unwrap();
    fs::write(outside.join("b"), "theirs").unwrap();
    fs::remove_file(work.join("a")).unwrap();
    symlink(outside.join("a"), work.join("a")).unwrap();
    fs::remove_dir_all(work.join("sub")).unwrap();
    symlink(&outside, work.join("sub")).unwrap();
    let done = rewind(&mut talk, ONE, None).await;
    assert_eq!(done["response"]["skippedLinks"], 2, "{done}");
    assert_eq!(done["response"]["filesChanged"], json!([path("c")]));
    assert!(!work.join("c").exists());
    assert_eq!(fs::read_to_string(outside.join("a")).unwrap(), "theirs");
    assert_eq!(fs::read_to_string(outside.join("b")).unwrap(), "theirs");
    talk.finish().await;
}

#[tokio::test]
async fn copies_of_a_session_that_is_not_kept_go_with_it() {
    let folder = tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let path = root.join("work/f").display().to_string();
    let script = json!([
        {"tools": [{"name": "Bash", "input": {"command": "echo 0 > f"}}, {"name": "Write", "input": {"file_path": path, "content": "1"}}]},
        {"text": "done"},
    ]);
    let mut setup = setup(script, folder.path());
    setup.checkpoints.as_mut().unwrap().lasting = false;
    let mut talk = Talk::start(setup);
    turn(&mut talk, ONE).await;
    let copies = || fs::read_dir(root.join("file-history")).map_or(0, Iterator::count);
    assert_eq!(copies(), 1);
    talk.finish().await;
    assert_eq!(copies(), 0);
}

/// Opens a pipe for writing when a test has blocked its own thread, so that it fails instead of hanging.
struct Rescuer {
    needed: Arc<AtomicBool>,
    _until_dropped: mpsc::Sender<()>,
}

impl Rescuer {
    #[allow(clippy::disallowed_methods, reason = "a thread of its own, which may wait")]
    fn of(pipe: &Path) -> Self {
        let (needed, pipe) = (Arc::new(AtomicBool::new(false)), pipe.to_owned());
        let (_until_dropped, dropped) = mpsc::channel();
        let tell = needed.clone();
        std::thread::spawn(move || {
            if dropped.recv_timeout(Duration::from_secs(20)) == Err(mpsc::RecvTimeoutError::Timeout) {
                tell.store(true, Ordering::SeqCst);
                drop(fs::OpenOptions::new().write(true).open(&pipe));
            }
        });
        Self { needed, _until_dropped }
    }

    fn was_needed(&self) -> bool {
        self.needed.load(Ordering::SeqCst)
    }
}

/// The records of earlier runs are read from a pipe that nobody writes to, so the first checkpoint stays in the file
/// system for as long as the test wants.
#[tokio::test]
async fn a_checkpoint_that_waits_for_the_file_system_lets_other_tasks_go_on() {
    let folder = tempdir().unwrap();
    let pipe = folder.path().join("earlier.jsonl");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let mut setup = setup(json!([{"text": "done"}]), folder.path());
    setup.checkpoints.as_mut().unwrap().earlier = Some(pipe.clone());
    let rescuer = Rescuer::of(&pipe);
    let mut talk = Talk::start(setup);
    talk.send(prompt(ONE)).await;
    // On the same thread: a checkpoint that blocked it would wait for ever for what follows. Without a reader there is
    // no writer, so the pipe can be opened as soon as the checkpoint reads it.
    let mut options = fs::OpenOptions::new();
    options.write(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    let read = async {
        loop {
            match options.open(&pipe) {
                Ok(writer) => break writer,
                Err(_nobody_reads_yet) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    };
    let writer = tokio::time::timeout(Duration::from_secs(60), read).await.expect("the checkpoint reads");
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(!rescuer.was_needed(), "the event loop was blocked");
    drop(writer);
    talk.until(|frame| frame["type"] == "result").await;
    assert_eq!(rewind(&mut talk, ONE, None).await["subtype"], "success");
    talk.finish().await;
}
