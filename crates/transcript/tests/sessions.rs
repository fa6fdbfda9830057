//! Finding, listing, renaming, forking, deleting and exporting sessions.

mod common;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use common::{SESSION, Session};
use lathe_transcript::record::{Envelope, Link, UserBody};
use lathe_transcript::sessions::{delete, rename};
use lathe_transcript::{
    AgentMeta, Durability, ExportFormat, ForkIds, ForkPlan, Page, Record, ResumeAt, SessionPaths,
    SessionScope, Sessions, SideRecord, TranscriptError, TranscriptWriter, export, fork, list_subagents,
    load_for_resume, read_agent_meta, records_of, session_messages, subagent_messages, sweep, verify,
    write_agent_meta,
};
use serde_json::{Value, json};

const OTHER: &str = "5e551011-0000-4000-8000-000000000002";

struct Place {
    _dir: tempfile::TempDir,
    config: PathBuf,
    sessions: Sessions,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config");
    Place { sessions: Sessions::new(&config), config, _dir: dir }
}

impl Place {
    /// Writes a session of these lines that was changed at `time`.
    fn session(&self, cwd: &str, id: &str, time: u64, lines: &[Value]) -> PathBuf {
        let path = self.sessions.paths(Path::new(cwd), id).unwrap().transcript();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, text).unwrap();
        File::options()
            .append(true)
            .open(&path)
            .unwrap()
            .set_modified(UNIX_EPOCH + Duration::from_secs(time))
            .unwrap();
        path
    }

    fn ids(&self, scope: SessionScope<'_>, page: Page) -> Vec<String> {
        self.sessions.list(scope, page).into_iter().map(|session| session.session_id).collect()
    }
}

fn id(nth: u32) -> String {
    format!("{nth:08}-0000-4000-8000-000000000000")
}

fn prompt(text: &str) -> Value {
    json!({ "type": "user", "uuid": "u", "parentUuid": null, "cwd": "/p", "timestamp": "2026-01-02T03:04:05.678Z",
        "sessionId": "S", "message": { "role": "user", "content": text } })
}

#[test]
fn lists_are_sorted_by_change_and_cut_to_a_page() {
    let place = place();
    for nth in 1..6 {
        place.session("/p", &id(nth), 1000 + u64::from(nth * 7 % 5), &[prompt("hi")]);
    }
    place.session("/q", &id(9), 5000, &[prompt("elsewhere")]);
    let project = [Path::new("/p")];
    let all = place.ids(SessionScope::Projects(&project), Page::default());
    assert_eq!(all, [id(2), id(4), id(1), id(3), id(5)]);
    let page = place.ids(SessionScope::Projects(&project), Page { offset: 1, limit: Some(2) });
    assert_eq!(page, [id(4), id(1)]);
    assert_eq!(place.ids(SessionScope::Everywhere, Page { offset: 0, limit: Some(1) }), [id(9)]);
    assert_eq!(
        place.ids(SessionScope::Projects(&[Path::new("/p"), Path::new("/q")]), Page::default()).len(),
        6
    );
    assert_eq!(place.sessions.newest_for_cwd(Path::new("/p")).unwrap().session_id, id(2));
    assert!(place.sessions.newest_for_cwd(Path::new("/none")).is_none());
}

#[test]
fn what_is_not_a_session_is_not_listed() {
    let place = place();
    let path = place.session("/p", &id(1), 1, &[prompt("hi")]);
    std::fs::write(path.with_file_name("notes.jsonl"), "{}\n").unwrap();
    std::fs::write(path.with_file_name(format!("{}.json", id(2))), "{}\n").unwrap();
    place.session(
        "/p",
        &id(3),
        1,
        &[json!({ "type": "user", "isSidechain": true, "message": { "content": "x" } })],
    );
    place.session("/p", &id(4), 1, &[json!({ "type": "mode", "mode": "normal" })]);
    place.session("/p", &id(5), 1, &[]);
    assert_eq!(place.ids(SessionScope::Everywhere, Page::default()), [id(1)]);
    assert!(place.sessions.info(Path::new("/p"), &id(4)).unwrap().is_none());
}

#[test]
fn a_summary_is_the_best_name_there_is() {
    let place = place();
    let last = json!({ "type": "last-prompt", "lastPrompt": "newest", "sessionId": "S" });
    let title = |text: &str| json!({ "type": "custom-title", "customTitle": text, "sessionId": "S" });
    let generated = json!({ "type": "ai-title", "aiTitle": "generated", "sessionId": "S" });
    let cases = [
        (vec![prompt("first\n line ")], "first  line"),
        (vec![prompt("first"), last.clone()], "newest"),
        (vec![prompt("first"), generated.clone(), last.clone()], "generated"),
        (vec![prompt("first"), title("Old"), title("a \"new\" one"), generated, last], "a \"new\" one"),
        (vec![prompt("<command-name>/clear</command-name>"), prompt("<tick>"), prompt("real")], "real"),
        (
            vec![prompt("<command-name>/clear</command-name>"), prompt("[Request interrupted by user]")],
            "/clear",
        ),
    ];
    for (nth, (lines, expected)) in cases.into_iter().enumerate() {
        place.session("/p", &id(nth as u32), 1, &lines);
        let info = place.sessions.info(Path::new("/p"), &id(nth as u32)).unwrap().unwrap();
        assert_eq!(info.summary, expected);
        assert_eq!((info.created_at, info.cwd.as_deref()), (Some(1_767_323_045_678), Some("/p")));
    }
}

#[test]
fn only_the_ends_of_a_large_file_are_read() {
    let place = place();
    let mut lines = vec![prompt("first")];
    lines.push(json!({ "type": "custom-title", "customTitle": "in the head", "sessionId": "S" }));
    lines.extend((0..4000).map(|nth| json!({ "type": "noise", "nth": nth, "x": "y".repeat(60) })));
    let path = place.session("/p", &id(1), 1, &lines);
    let info = || place.sessions.info(Path::new("/p"), &id(1)).unwrap().unwrap();
    assert_eq!(info().custom_title.as_deref(), Some("in the head"));
    let session = SessionPaths::of_transcript(&path);
    rename(&session, "in the tail").unwrap();
    let tagged = |tag: &str| {
        use std::io::Write as _;
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        writeln!(file, r#"{{"type":"tag","tag":"{tag}","sessionId":"S"}}"#).unwrap();
    };
    tagged("red");
    assert_eq!((info().custom_title.as_deref(), info().tag.as_deref()), (Some("in the tail"), Some("red")));
    tagged("");
    assert_eq!(info().tag, None);
}

#[test]
fn a_session_is_found_wherever_it_is() {
    let place = place();
    let path = place.session("/q", &id(1), 1, &[prompt("hi")]);
    let found = place.sessions.find_by_id_anywhere(Path::new("/p"), &id(1)).unwrap();
    assert_eq!(found.transcript(), path);
    place.session("/p", &id(1), 1, &[prompt("nearer")]);
    let found = place.sessions.find_by_id_anywhere(Path::new("/p"), &id(1)).unwrap();
    assert_ne!(found.transcript(), path);
    place.session("/p", &id(2), 1, &[]);
    let find = |id: &str| place.sessions.find_by_id_anywhere(Path::new("/p"), id);
    assert!(matches!(find(&id(2)), Err(TranscriptError::NotFound { .. })), "an empty file counts as absent");
    assert!(matches!(find("../../secret"), Err(TranscriptError::BadSessionId(_))));
}

#[test]
fn a_title_finds_the_newest_session_that_has_it_now() {
    let place = place();
    let title = |text: &str| json!({ "type": "custom-title", "customTitle": text, "sessionId": "S" });
    place.session("/p", &id(1), 10, &[prompt("a"), title("Plan")]);
    place.session("/p", &id(2), 20, &[prompt("b"), title("Plan")]);
    place.session("/p", &id(3), 30, &[prompt("c"), title("Plan"), title("Renamed")]);
    place.session("/q", &id(4), 40, &[prompt("d"), title("Far")]);
    let find =
        |title: &str| place.sessions.find_by_title(Path::new("/p"), title).map(|session| session.session_id);
    assert_eq!(find("Plan"), Some(id(2)));
    assert_eq!(find("Far"), Some(id(4)));
    assert_eq!((find("a"), find(""), find("  ")), (None, None, None));
}

#[test]
fn long_paths_are_found_under_any_hash() {
    let place = place();
    let cwd = format!("/{}", "long".repeat(80));
    let path = place.session(&cwd, &id(1), 1, &[prompt("hi")]);
    let dir = path.parent().unwrap();
    let name = dir.file_name().unwrap().to_str().unwrap();
    std::fs::rename(dir, dir.with_file_name(format!("{}-otherhash", &name[..200]))).unwrap();
    assert_eq!(place.ids(SessionScope::Projects(&[Path::new(&cwd)]), Page::default()), [id(1)]);
}

#[test]
fn a_running_session_can_be_renamed_but_not_deleted() {
    let place = place();
    let paths = place.sessions.paths(Path::new("/p"), SESSION).unwrap();
    std::fs::create_dir_all(paths.subagents()).unwrap();
    let mut session = Session::create(paths.transcript().parent().unwrap());
    session.turn("x");
    rename(&paths, " Named ").unwrap();
    assert!(matches!(rename(&paths, " \n"), Err(TranscriptError::EmptyTitle)));
    session.turn("y");
    assert!(matches!(delete(&paths), Err(TranscriptError::Locked { .. })));
    assert_eq!(load_for_resume(&session.path, ResumeAt::Latest).unwrap().title.as_deref(), Some("Named"));
    assert!(verify(&session.path).unwrap().is_sound());
    drop(session);
    delete(&paths).unwrap();
    assert!(!paths.transcript().exists() && !paths.dir().exists());
    assert!(matches!(delete(&paths), Err(TranscriptError::NotFound { .. })));
    assert!(matches!(rename(&paths, "x"), Err(TranscriptError::NotFound { .. })));
    assert!(!paths.transcript().exists(), "a rename creates nothing");
    assert!(place.config.exists());
}

fn fresh(
    session: &Session,
    up_to: Option<&str>,
    title: Option<&str>,
) -> Result<SessionPaths, TranscriptError> {
    let mut count = 0;
    let mut new_uuid = || {
        count += 1;
        format!("{count:08x}-aaaa-4aaa-8aaa-aaaaaaaaaaaa")
    };
    let ids = ForkIds::Fresh { new_uuid: &mut new_uuid, now: "2027-01-01T00:00:00.000Z", title };
    fork(&session.path, ForkPlan { session_id: OTHER, dir: None, up_to, ids })
}

#[test]
fn a_fork_has_ids_of_its_own_and_says_where_it_came_from() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    session.grow(30, "x");
    let before = std::fs::read(&session.path).unwrap();
    let forked = fresh(&session, None, None).unwrap();
    assert_eq!(std::fs::read(&session.path).unwrap(), before, "the source is only read");
    let records: Vec<Value> = std::fs::read_to_string(forked.transcript())
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (title, chain) = records.split_last().unwrap();
    assert_eq!(
        title,
        &json!({ "type": "custom-title", "customTitle": "prompt 0 x (fork)", "sessionId": OTHER })
    );
    assert_eq!(chain.len(), session.uuids.len());
    for (record, old) in chain.iter().zip(&session.uuids) {
        assert_eq!(record["forkedFrom"], json!({ "sessionId": SESSION, "messageUuid": old }));
        assert_eq!((&record["sessionId"], &record["isSidechain"]), (&json!(OTHER), &json!(false)));
        assert_ne!(record["uuid"], json!(old));
        assert_eq!(record.get("sourceToolAssistantUUID"), None);
    }
    assert_eq!(chain.last().unwrap()["timestamp"], "2027-01-01T00:00:00.000Z");
    let ours = load_for_resume(&forked.transcript(), ResumeAt::Latest).unwrap();
    let theirs = load_for_resume(&session.path, ResumeAt::Latest).unwrap();
    let blocks = |resumed: &lathe_transcript::Resumed| -> Vec<String> {
        resumed
            .messages
            .iter()
            .flat_map(|message| message.blocks.iter().map(|raw| raw.get().to_owned()))
            .collect()
    };
    assert_eq!(blocks(&ours), blocks(&theirs));
    assert!(verify(&forked.transcript()).unwrap().is_sound());
    assert!(matches!(fresh(&session, None, None), Err(TranscriptError::AlreadyExists { .. })));
}

#[test]
fn a_fork_can_end_early_and_have_a_title() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    session.prompt("a");
    let point = session.text("b");
    session.prompt("c");
    assert!(matches!(fresh(&session, Some("nope"), None), Err(TranscriptError::NoSuchMessage(_))));
    assert!(!dir.path().join(format!("{OTHER}.jsonl")).exists());
    let forked = fresh(&session, Some(&point), Some(" Named ")).unwrap();
    let resumed = load_for_resume(&forked.transcript(), ResumeAt::Latest).unwrap();
    assert_eq!((resumed.messages.len(), resumed.title.as_deref()), (2, Some("Named")));
}

#[test]
fn a_fork_that_runs_on_keeps_the_ids() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    session.turn("x");
    let plan = ForkPlan { session_id: OTHER, dir: None, up_to: None, ids: ForkIds::Keep };
    let forked = fork(&session.path, plan).unwrap().transcript();
    let uuids = |path: &Path| -> Vec<String> {
        session_messages(path).unwrap().into_iter().map(|row| row.uuid).collect()
    };
    assert_eq!(uuids(&forked), uuids(&session.path));
    assert!(session_messages(&forked).unwrap().iter().all(|row| row.session_id == OTHER));
    TranscriptWriter::open_existing(&forked, Durability::ProcessCrash).unwrap();
}

#[test]
fn a_fork_that_runs_on_has_the_saved_files_of_its_source_and_nothing_behind_the_cut() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    let snapshot = |prompt: &str| SideRecord::FileHistorySnapshot {
        message_id: prompt.to_owned(),
        snapshot: json!({ "messageId": prompt, "trackedFileBackups": {} }),
        is_snapshot_update: false,
        extra: serde_json::Map::new(),
    };
    let first = session.prompt("one");
    session.side(&snapshot(&first));
    let answer = session.text("two");
    let second = session.prompt("three");
    session.side(&snapshot(&second));
    let plan = ForkPlan { session_id: OTHER, dir: None, up_to: Some(&answer), ids: ForkIds::Keep };
    let forked = fork(&session.path, plan).unwrap().transcript();
    let uuids: Vec<String> = session_messages(&forked).unwrap().into_iter().map(|row| row.uuid).collect();
    assert_eq!(uuids, [first, answer]);
    let kinds = ["file-history-snapshot"];
    let saved = |path: &Path| -> Vec<Value> {
        records_of(path, &kinds).unwrap().iter().map(Record::to_value).collect()
    };
    assert_eq!(saved(&forked), saved(&session.path), "also of what was cut: its files are on the disk");
}

#[test]
fn conversations_are_exported_for_people_and_programs() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create(dir.path());
    session.prompt("go");
    let call = session.calls(1).remove(0);
    session.result(&call, "a ``` b\u{1b}[2J");
    session.text("done");
    let exported = |format| {
        let mut out = Vec::new();
        export(&session.path, format, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(
        exported(ExportFormat::Markdown),
        "## User\n\ngo\n\n## Assistant\n\n```\nBash {\"command\":\"echo\"}\n```\n\n\
         ## Result\n\n````\na ``` b␛[2J\n````\n\n## Assistant\n\ndone\n\n"
    );
    let lines = exported(ExportFormat::JsonLines);
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((lines.lines().count(), &first["message"]["content"]), (4, &json!("go")));
}

#[test]
fn a_subagent_has_a_file_and_a_card() {
    let dir = tempfile::tempdir().unwrap();
    let session = SessionPaths::in_project_dir(dir.path(), SESSION);
    assert!(list_subagents(&session).unwrap().is_empty());
    assert!(matches!(subagent_messages(&session, "a1"), Err(TranscriptError::NotFound { .. })));
    let meta = AgentMeta {
        agent_type: Some("general-purpose".into()),
        tool_use_id: Some("toolu_1".into()),
        ..AgentMeta::default()
    };
    write_agent_meta(&session.subagent_meta("a1"), &meta).unwrap();
    let finished = AgentMeta { extra: json!({ "finished": true }).as_object().unwrap().clone(), ..meta };
    write_agent_meta(&session.subagent_meta("a1"), &finished).unwrap();
    assert_eq!(read_agent_meta(&session.subagent_meta("a1")), finished);
    let envelope =
        Envelope { session_id: SESSION.into(), agent_id: Some("a1".into()), ..Envelope::default() };
    let link = Link { uuid: "u", parent: None, timestamp: "T" };
    let line =
        envelope.line(link, &UserBody::prompt(&json!({ "role": "user", "content": "do it" }))).unwrap();
    let mut writer = TranscriptWriter::create(&session.subagent("a1"), Durability::ProcessCrash).unwrap();
    writer.append(&line).unwrap();
    assert_eq!(list_subagents(&session).unwrap(), ["a1"]);
    let rows = subagent_messages(&session, "a1").unwrap();
    assert_eq!((rows.len(), rows[0].parent_tool_use_id.as_deref()), (1, Some("toolu_1")));
    // A subagent that is sent a further message goes on from its own file.
    let resumed = load_for_resume(&session.subagent("a1"), ResumeAt::Latest).unwrap();
    assert_eq!((resumed.messages.len(), resumed.last_uuid.as_deref()), (1, Some("u")));
}

#[test]
fn records_are_found_by_type() {
    let place = place();
    let snapshot = |nth: u32| json!({ "type": "file-history-snapshot", "messageId": nth.to_string(), "snapshot": {}, "isSnapshotUpdate": false });
    let path = place.session("/p", &id(1), 1, &[snapshot(1), prompt("x"), snapshot(2)]);
    let found: Vec<Value> =
        records_of(&path, &["file-history-snapshot"]).unwrap().iter().map(Record::to_value).collect();
    assert_eq!(found, [snapshot(1), snapshot(2)]);
}

#[test]
fn old_sessions_are_removed_and_open_or_used_ones_stay() {
    let place = place();
    let cutoff = UNIX_EPOCH + Duration::from_secs(1000);
    let old = place.session("/p", &id(1), 900, &[prompt("old")]);
    let used = place.session("/p", &id(2), 1000, &[prompt("used")]);
    let open = place.session("/q", &id(3), 900, &[prompt("open")]);
    let foreign = old.with_file_name("notes.jsonl");
    std::fs::write(&foreign, "not a session").unwrap();
    let old_time = UNIX_EPOCH + Duration::from_secs(1);
    File::options().append(true).open(&foreign).unwrap().set_modified(old_time).unwrap();
    let parts = old.with_extension("").join("subagents");
    let history = place.config.join("file-history").join(id(1));
    let tasks = place.config.join("tasks").join(id(1));
    for folder in [&parts, &history, &tasks] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let writer = TranscriptWriter::open_existing(&open, Durability::ProcessCrash).unwrap();
    let swept = sweep(&place.config, cutoff);
    assert_eq!((swept.removed, swept.kept, swept.is_complete), (1, 1, true));
    assert!(!old.exists() && !parts.exists() && !history.exists() && !tasks.exists());
    assert!(used.exists() && open.exists() && foreign.exists());
    drop(writer);
    assert_eq!(sweep(&place.config, cutoff).removed, 1);
    assert!(used.exists() && !open.exists());
    assert_eq!(sweep(Path::new("/no/such/place"), cutoff).removed, 0);
}

#[test]
fn what_is_left_of_sessions_that_are_gone_goes_too_and_links_stay() {
    let place = place();
    let cutoff = UNIX_EPOCH + Duration::from_secs(1000);
    let aged = |path: &Path| {
        let time = UNIX_EPOCH + Duration::from_secs(900);
        File::open(path).unwrap().set_modified(time).unwrap();
    };
    let there = place.session("/p", &id(1), 2000, &[prompt("there")]);
    let project = there.parent().unwrap();
    let history = place.config.join("file-history");
    let tasks = place.config.join("tasks");
    let kept = [there.with_extension(""), history.join(id(1)), project.join("memory"), history.join(id(3))];
    // A task list with a name of its own belongs to no session.
    let kept = [&kept[..], &[tasks.join("team"), tasks.join(id(1))]].concat();
    let left = [project.join(id(2)), history.join(id(2)), tasks.join(id(2))];
    for folder in kept.iter().chain(&left) {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("x"), "").unwrap();
        aged(&folder.join("x"));
        aged(folder);
    }
    // In use: what is in it is new.
    std::fs::write(history.join(id(3)).join("y"), "").unwrap();
    aged(&history.join(id(3)));
    let target = place.session("/q", &id(4), 2000, &[prompt("elsewhere")]);
    let link = project.join(format!("{}.jsonl", id(5)));
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let swept = sweep(&place.config, cutoff);
    assert_eq!((swept.removed, swept.is_complete), (3, true));
    assert!(left.iter().all(|folder| !folder.exists()));
    assert!(kept.iter().all(|folder| folder.exists()));
    // However old they are: a pipe would hold whoever opens it, and a link is somebody's wish.
    let pipe = project.join(format!("{}.jsonl", id(6)));
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    sweep(&place.config, UNIX_EPOCH + Duration::from_secs(1 << 34));
    assert!(!there.exists() && link.symlink_metadata().is_ok() && pipe.symlink_metadata().is_ok());
}

#[test]
fn one_call_removes_a_bounded_number() {
    let place = place();
    let most = lathe_transcript::retention::MOST_REMOVED as u32;
    for nth in 0..most + 3 {
        place.session("/p", &id(nth), 900, &[prompt("old")]);
    }
    let cutoff = UNIX_EPOCH + Duration::from_secs(1000);
    assert!(!sweep(&place.config, cutoff).is_complete);
    let rest = sweep(&place.config, cutoff);
    assert_eq!((rest.removed, rest.is_complete), (3, true));
}

#[test]
fn snapshots_of_shells_that_killed_sessions_left_go_when_they_are_old() {
    let place = place();
    let folder = place.config.join("shell-snapshots");
    std::fs::create_dir_all(&folder).unwrap();
    let old = lathe_transcript::shell_snapshot(&place.config, "bash", &id(1));
    let used = lathe_transcript::shell_snapshot(&place.config, "zsh", &id(2));
    let foreign = folder.join("snapshot-bash-1763404800000-x1y2z3.sh");
    for (path, seconds) in [(&old, 900), (&used, 1000), (&foreign, 900)] {
        std::fs::write(path, "").unwrap();
        let time = UNIX_EPOCH + Duration::from_secs(seconds);
        File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
    }
    let swept = sweep(&place.config, UNIX_EPOCH + Duration::from_secs(1000));
    assert_eq!((swept.removed, swept.is_complete), (0, true), "they are no sessions");
    assert!(!old.exists() && used.exists() && foreign.exists());
}
