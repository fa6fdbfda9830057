//! Tests: several writers at once, links, permissions, and files that are not valid.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;

use super::*;

fn project() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(".claude/settings.local.json");
    (dir, path)
}

fn set(key: &'static str, value: Value) -> impl Fn(&mut Map<String, Value>) {
    move |file| {
        file.insert(key.to_owned(), value.clone());
    }
}

#[test]
fn a_new_file_is_made_with_its_folder() {
    let (_dir, path) = project();
    assert_eq!(edit(&path, Owner::Project, &set("model", json!("m"))).unwrap(), Outcome::Written);
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\n  \"model\": \"m\"\n}\n");
    assert_eq!(edit(&path, Owner::Project, &set("model", json!("m"))).unwrap(), Outcome::Unchanged);
    let names: Vec<_> =
        fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["settings.local.json"], "nothing else is left behind");
}

#[test]
fn what_it_does_not_understand_stays_with_its_order_style_and_mode() {
    let (_dir, path) = project();
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(
        &path,
        "\u{feff}{\r\n    \"zeta\": 1.50,\r\n    \"model\": \"a\",\r\n    \"alpha\": [1, {\"x\": null}]\r\n}",
    )
    .unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    edit(&path, Owner::Project, &set("model", json!("b"))).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let expected = "{\n    \"zeta\": 1.5,\n    \"model\": \"b\",\n    \"alpha\": [\n        1,\n        {\n            \"x\": null\n        }\n    ]\n}\n";
    assert_eq!(text, expected);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_file_that_is_not_valid_is_left_alone() {
    let (_dir, path) = project();
    fs::create_dir(path.parent().unwrap()).unwrap();
    for text in
        ["{\"permissions\": {", "[]", "{\"a\": 1, \"a\": 2}", "{\"permissions\": {\"deny\": 1}}", "\u{1}"]
    {
        fs::write(&path, text).unwrap();
        let result = edit(&path, Owner::Project, &set("model", json!("m")));
        assert!(matches!(result, Err(SettingsError::Broken(_))), "{text}: {result:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn links_out_of_the_project_are_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("settings.local.json"), "{}").unwrap();

    let (dir, path) = project();
    symlink(outside.path(), dir.path().join(".claude")).unwrap();
    assert!(matches!(edit(&path, Owner::Project, &set("a", json!(1))), Err(SettingsError::Outside { .. })));

    let (_dir, path) = project();
    fs::create_dir(path.parent().unwrap()).unwrap();
    symlink(outside.path().join("settings.local.json"), &path).unwrap();
    assert!(matches!(edit(&path, Owner::Project, &set("a", json!(1))), Err(SettingsError::Outside { .. })));

    let (dir, path) = project();
    symlink("nowhere", dir.path().join(".claude")).unwrap();
    assert!(matches!(edit(&path, Owner::Project, &set("a", json!(1))), Err(SettingsError::Io { .. })));
    assert_eq!(fs::read_to_string(outside.path().join("settings.local.json")).unwrap(), "{}");
}

#[test]
fn a_link_that_stays_inside_is_followed() {
    let (dir, path) = project();
    fs::create_dir(dir.path().join("shared")).unwrap();
    symlink("shared", dir.path().join(".claude")).unwrap();
    edit(&path, Owner::Project, &set("a", json!(1))).unwrap();
    assert!(dir.path().join("shared/settings.local.json").is_file());
}

#[test]
fn the_users_own_links_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("dotfiles")).unwrap();
    fs::write(dir.path().join("dotfiles/settings.json"), "{}").unwrap();
    fs::create_dir_all(dir.path().join("home/.claude")).unwrap();
    let path = dir.path().join("home/.claude/settings.json");
    symlink("../../dotfiles/settings.json", &path).unwrap();
    edit(&path, Owner::User, &set("a", json!(1))).unwrap();
    assert!(path.is_symlink());
    assert_eq!(fs::read_to_string(dir.path().join("dotfiles/settings.json")).unwrap(), "{\n  \"a\": 1\n}\n");
}

#[test]
fn a_new_file_of_the_user_is_private() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b/settings.json");
    edit(&path, Owner::User, &set("a", json!(1))).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(dir.path().join("a/b")).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_temporary_file_of_a_dead_writer_is_no_obstacle() {
    let (dir, path) = project();
    fs::create_dir(path.parent().unwrap()).unwrap();
    let secret = dir.path().join("secret");
    fs::write(&secret, "keep").unwrap();
    symlink(&secret, path.with_file_name(".settings.local.json.lathe-tmp")).unwrap();
    edit(&path, Owner::Project, &set("a", json!(1))).unwrap();
    assert_eq!(fs::read_to_string(&secret).unwrap(), "keep", "it is not written through");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn no_writer_loses_what_another_wrote() {
    // In memory if possible: the test is about the order of writers, not about the disk.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = dir.path().join(".claude/settings.local.json");
    std::thread::scope(|scope| {
        for writer in 0..50 {
            let path = &path;
            scope.spawn(move || {
                for round in 0..10 {
                    let key = format!("{writer}.{round}");
                    let change = |file: &mut Map<String, Value>| {
                        let env = file.entry("env").or_insert_with(|| json!({}));
                        env[&key] = Value::from(writer);
                    };
                    // `Busy` means that another writer holds the lock, so one of them always gets ahead.
                    while let Err(error) = edit(path, Owner::Project, &change) {
                        assert!(matches!(error, SettingsError::Busy { .. }), "{error}");
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    let settings: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(settings["env"].as_object().unwrap().len(), 500);
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_with_its_name() {
    let (dir, path) = project();
    fs::write(dir.path().join(".claude"), "a file where a folder should be").unwrap();
    let error = edit(&path, Owner::Project, &set("a", json!(1))).unwrap_err();
    assert!(error.to_string().contains("settings.local.json"), "{error}");
}

#[test]
fn a_lock_that_is_taken_is_not_waited_for() {
    let (_dir, path) = project();
    edit(&path, Owner::Project, &set("a", json!(1))).unwrap();
    let holder = File::open(path.parent().unwrap()).unwrap();
    holder.try_lock().unwrap();
    let error = edit(&path, Owner::Project, &set("a", json!(2))).unwrap_err();
    assert!(matches!(error, SettingsError::Busy { .. }), "{error}");
    drop(holder);
    assert_eq!(edit(&path, Owner::Project, &set("a", json!(2))).unwrap(), Outcome::Written);
}
