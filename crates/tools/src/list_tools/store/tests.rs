//! Tests: several writers at once, damage, links, modes, and the bounds.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;

use super::*;

fn list() -> (tempfile::TempDir, TaskListStore) {
    let dir = tempfile::tempdir().unwrap();
    let list = TaskListStore::new(&dir.path().join("tasks"), "5e55104e-0000-4000-8000-000000000000");
    (dir, list)
}

fn task(id: &str) -> ListedTask {
    ListedTask {
        id: id.to_owned(),
        subject: format!("s{id}"),
        status: "pending".to_owned(),
        ..ListedTask::default()
    }
}

fn add(list: &TaskListStore) -> String {
    let locked = list.lock().unwrap();
    let id = locked.new_id().unwrap();
    locked.write(&task(&id)).unwrap();
    id
}

#[test]
fn a_task_is_a_private_file_in_the_form_that_other_programs_write() {
    let (_dir, list) = list();
    assert!(list.read().unwrap().tasks.is_empty(), "a list without a folder is empty");
    let id = add(&list);
    let path = list.folder.join("1.json");
    let text = "{\n  \"id\": \"1\",\n  \"subject\": \"s1\",\n  \"description\": \"\",\n  \"status\": \"pending\",\n  \"blocks\": [],\n  \"blockedBy\": []\n}";
    assert_eq!((id.as_str(), fs::read_to_string(&path).unwrap().as_str()), ("1", text));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&list.folder), mode(list.folder.parent().unwrap())), (0o600, 0o700, 0o700));
    assert_eq!(mode(&list.folder.join(LOCK)), 0o600);
    let mut names: Vec<_> =
        fs::read_dir(&list.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [HIGHEST, LOCK, "1.json"], "nothing else is left behind");
}

#[test]
fn a_number_is_never_used_twice() {
    let (_dir, list) = list();
    assert_eq!((add(&list), add(&list)), ("1".to_owned(), "2".to_owned()));
    list.lock().unwrap().delete("2").unwrap();
    assert_eq!(add(&list), "3");
    // A program that keeps no highest number has added tasks, one of them damaged.
    fs::write(list.folder.join("7.json"), serde_json::to_vec(&task("7")).unwrap()).unwrap();
    fs::write(list.folder.join("9.json"), "{").unwrap();
    assert_eq!(add(&list), "10");
    fs::write(list.folder.join(HIGHEST), "no number").unwrap();
    assert_eq!(add(&list), "11");
}

#[test]
fn what_other_programs_write_stays() {
    let (_dir, list) = list();
    add(&list);
    let theirs = json!({"id": "1", "subject": "s", "status": "paused", "blocks": [], "colour": {"b": 1}});
    fs::write(list.folder.join("1.json"), theirs.to_string()).unwrap();
    let mut read = list.read().unwrap().get("1").unwrap().clone();
    assert_eq!(read.status, "paused");
    read.owner = Some("me".to_owned());
    list.lock().unwrap().write(&read).unwrap();
    let written: Value = serde_json::from_slice(&fs::read(list.folder.join("1.json")).unwrap()).unwrap();
    assert_eq!((&written["colour"], &written["owner"]), (&json!({"b": 1}), &json!("me")));
}

#[test]
fn a_file_that_holds_no_task_is_named_and_harms_no_other() {
    let (dir, list) = list();
    add(&list);
    let secret = dir.path().join("secret.json");
    fs::write(&secret, serde_json::to_vec(&task("4")).unwrap()).unwrap();
    symlink(&secret, list.folder.join("4.json")).unwrap();
    fs::write(list.folder.join("2.json"), "{\"id\": ").unwrap();
    fs::write(list.folder.join("3.json"), serde_json::to_vec(&task("5")).unwrap()).unwrap();
    fs::write(list.folder.join("6.json"), " ".repeat(TASK_BYTES as usize + 1)).unwrap();
    fs::create_dir(list.folder.join("8.json")).unwrap();
    fs::write(list.folder.join("notes.json"), "{}").unwrap();
    let content = list.read().unwrap();
    assert_eq!(content.tasks.keys().collect::<Vec<_>>(), [&1]);
    assert_eq!(content.damaged, ["2.json", "3.json", "4.json", "6.json", "8.json"]);
    // A name that leads to a pipe is not waited for.
    rustix::fs::mknodat(CWD, list.folder.join("7.json"), rustix::fs::FileType::Fifo, PRIVATE, 0).unwrap();
    assert!(list.read().unwrap().damaged.contains(&"7.json".to_owned()));
}

#[test]
fn a_temporary_file_of_a_dead_writer_is_no_obstacle() {
    let (dir, list) = list();
    add(&list);
    let secret = dir.path().join("secret");
    fs::write(&secret, "keep").unwrap();
    symlink(&secret, list.folder.join(TEMPORARY)).unwrap();
    add(&list);
    assert_eq!(fs::read_to_string(&secret).unwrap(), "keep", "it is not written through");
    assert!(!list.folder.join(TEMPORARY).exists());
}

#[test]
fn names_stay_in_their_folder_and_ids_are_numbers() {
    let lists = Path::new("/lists");
    let named = |name: &str| TaskListStore::new(lists, name).folder;
    assert_eq!(named("../a/b c"), lists.join("---a-b-c"));
    assert_eq!(named("al_pha-1"), lists.join("al_pha-1"));
    for (id, wanted) in [
        ("7", Some(7)),
        ("#7", Some(7)),
        (" 007 ", Some(7)),
        ("", None),
        ("-1", None),
        ("../1", None),
        ("1e3", None),
    ] {
        assert_eq!(number(id), wanted, "{id}");
    }
}

#[test]
fn a_list_is_bounded() {
    let (_dir, list) = list();
    let locked = list.lock().unwrap();
    let large = ListedTask { description: "x".repeat(TASK_BYTES as usize), ..task("1") };
    assert!(matches!(locked.write(&large), Err(TaskListError::TooLarge { .. })));
    assert!(!list.folder.join("1.json").exists());
    for id in 1..=MOST_TASKS {
        locked.write(&task(&id.to_string())).unwrap();
    }
    assert!(matches!(locked.new_id(), Err(TaskListError::Full)));
    locked.delete("1").unwrap();
    assert_eq!(locked.new_id().unwrap(), (MOST_TASKS + 1).to_string());
}

#[test]
fn a_lock_that_is_taken_is_not_waited_for() {
    let (_dir, list) = list();
    let holder = list.lock().unwrap();
    assert!(matches!(list.lock(), Err(TaskListError::Busy { .. })));
    assert!(list.read().unwrap().tasks.is_empty(), "readers need none");
    drop(holder);
    assert_eq!(add(&list), "1");
}

#[test]
fn writers_at_once_get_numbers_of_their_own() {
    // In memory if possible: the test is about the order of writers, not about the disk.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let list = TaskListStore::new(dir.path(), "l");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let locked = loop {
                        match list.lock() {
                            Ok(locked) => break locked,
                            Err(error) => assert!(matches!(error, TaskListError::Busy { .. }), "{error}"),
                        }
                        std::thread::yield_now();
                    };
                    let id = locked.new_id().unwrap();
                    locked.write(&task(&id)).unwrap();
                }
            });
        }
    });
    let numbers: Vec<u64> = list.read().unwrap().tasks.into_keys().collect();
    assert_eq!(numbers, (1..=80).collect::<Vec<_>>());
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tasks"), "a file").unwrap();
    let list = TaskListStore::new(&dir.path().join("tasks"), "l");
    let error = list.lock().err().unwrap().to_string();
    assert!(error.contains("could not be made") && error.contains("tasks/l"), "{error}");
    assert!(list.read().is_err());
}
