use std::fs;

use super::*;
use crate::source::{ManagedFiles, TrustChoice};

fn tasks(folder: &Path, trust: TrustChoice) -> ScheduledTasks {
    let mut request = StackRequest::new(folder, ManagedFiles::of_platform("none"));
    request.config_dir = Some(folder.join("home/.claude"));
    request.trust = trust;
    SettingsStack::load(request).unwrap().scheduled_tasks().unwrap()
}

fn task(id: &str, recurring: bool) -> ScheduledTask {
    ScheduledTask {
        id: id.to_owned(),
        cron: "*/5 * * * *".to_owned(),
        prompt: "ping".to_owned(),
        recurring,
        created_ms: 1,
        last_fired_ms: None,
    }
}

fn ids(tasks: &ScheduledTasks) -> Vec<String> {
    tasks.read().unwrap().into_iter().map(|judged| judged.task.id).collect()
}

#[test]
fn tasks_are_added_fired_and_removed_and_what_is_not_understood_stays() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = tasks(folder.path(), TrustChoice::Given);
    assert_eq!((ids(&tasks), tasks.stamp()), (Vec::new(), None));
    for (id, recurring) in [("a", true), ("b", false), ("c", true)] {
        tasks.add(&task(id, recurring)).unwrap();
    }
    let path = folder.path().join(FILE);
    let mut document: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(
        document["tasks"][1],
        json!({"id": "b", "cron": "*/5 * * * *", "prompt": "ping", "createdAt": 1})
    );
    document["version"] = json!(7);
    document["tasks"][0]["owner"] = json!("me");
    document["tasks"].as_array_mut().unwrap().push(json!({"id": "d", "every": "hour"}));
    fs::write(&path, document.to_string()).unwrap();
    assert_eq!(ids(&tasks), ["a", "b", "c"]);
    assert!(tasks.stamp().is_some());

    assert_eq!(tasks.fire(&task("a", true), 9).unwrap(), TaskChange::Made);
    assert_eq!(tasks.fire(&task("a", true), 10).unwrap(), TaskChange::NoSuchTask, "it was fired meanwhile");
    assert_eq!(tasks.fire(&task("b", false), 9).unwrap(), TaskChange::Made);
    assert_eq!(tasks.fire(&task("b", false), 9).unwrap(), TaskChange::NoSuchTask);
    assert_eq!(tasks.remove("c").unwrap(), TaskChange::Made);
    assert_eq!(tasks.remove("c").unwrap(), TaskChange::NoSuchTask);
    let document: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(document["version"], 7);
    let left = json!([
        {"id": "a", "cron": "*/5 * * * *", "prompt": "ping", "createdAt": 1, "recurring": true, "owner": "me",
            "lastFiredAt": 9},
        {"id": "d", "every": "hour"},
    ]);
    assert_eq!(document["tasks"], left);
}

#[test]
fn a_file_that_is_not_understood_is_neither_read_nor_written() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = tasks(folder.path(), TrustChoice::Given);
    fs::create_dir(folder.path().join(".claude")).unwrap();
    for text in ["{", "[]", r#"{"tasks": 7}"#, r#"{"tasks": []} x"#] {
        fs::write(folder.path().join(FILE), text).unwrap();
        assert!(matches!(tasks.read(), Err(SettingsError::Broken(_))), "{text}");
        assert!(matches!(tasks.add(&task("a", true)), Err(SettingsError::Broken(_))), "{text}");
        assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), text);
        assert_eq!(items(folder.path())[0].hash, None, "what cannot be read cannot be trusted");
    }
    fs::write(folder.path().join(FILE), json!({"tasks": [1, {}, {"id": "a"}, {"id": 1}]}).to_string())
        .unwrap();
    assert_eq!(ids(&tasks), Vec::<String>::new());
}

#[test]
fn a_task_of_an_untrusted_folder_does_not_count_until_a_person_has_seen_it() {
    let folder = tempfile::tempdir().unwrap();
    tasks(folder.path(), TrustChoice::Given).add(&task("a", true)).unwrap();
    let counts = |trust| tasks(folder.path(), trust).read().unwrap()[0].counts;
    assert!(counts(TrustChoice::Given));
    assert!(!counts(TrustChoice::default()));
    let mut request = StackRequest::new(folder.path(), ManagedFiles::of_platform("none"));
    request.config_dir = Some(folder.path().join("home/.claude"));
    let review = SettingsStack::load(request).unwrap().review();
    assert_eq!(review.items.len(), 1);
    assert_eq!(review.items[0].item.summary(), "a: */5 * * * *: ping");
    let before = items(folder.path());
    tasks(folder.path(), TrustChoice::Given).fire(&task("a", true), 9).unwrap();
    assert_eq!(items(folder.path()), before, "a turn does not end the trust");
}

#[test]
fn a_link_out_of_the_folder_is_not_written_through() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let tasks = tasks(folder.path(), TrustChoice::Given);
    std::os::unix::fs::symlink(outside.path(), folder.path().join(".claude")).unwrap();
    assert!(matches!(tasks.add(&task("a", true)), Err(SettingsError::Outside { .. })));
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn of_many_who_fire_a_task_one_does() {
    let folder = tempfile::tempdir().unwrap();
    for recurring in [true, false] {
        let id = format!("a{recurring}");
        tasks(folder.path(), TrustChoice::Given).add(&task(&id, recurring)).unwrap();
        let fire = || loop {
            match tasks(folder.path(), TrustChoice::Given).fire(&task(&id, recurring), 9) {
                Err(SettingsError::Busy { .. }) => std::thread::yield_now(),
                other => return other.unwrap(),
            }
        };
        let made = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(fire)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(made.iter().filter(|change| **change == TaskChange::Made).count(), 1);
    }
}
