//! The checkpoints alone, on real files.

use std::fs;

use super::rewind::RewoundFiles;
use super::*;

struct World {
    _folder: tempfile::TempDir,
    root: PathBuf,
    checkpoints: FileCheckpoints,
    /// The records, as a transcript has them.
    records: Vec<SideRecord>,
}

const AT: CheckpointMoment<'_> = CheckpointMoment { session: "s", now: "T" };

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("work");
        fs::create_dir(&root).unwrap();
        let checkpoints = FileCheckpoints::new(Self::config(&root, None));
        Self { _folder: folder, root, checkpoints, records: Vec::new() }
    }

    fn config(root: &Path, earlier: Option<PathBuf>) -> CheckpointsConfig {
        let dir = root.with_file_name("file-history");
        CheckpointsConfig { dir, root: root.to_owned(), earlier, lasting: true }
    }

    fn prompt(&mut self, id: &str) {
        self.records.push(self.checkpoints.begin(id, AT));
    }

    fn write(&mut self, name: &str, content: &str) {
        self.records.extend(self.checkpoints.before_change(&self.root.join(name), "call", AT));
        fs::write(self.root.join(name), content).unwrap();
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.root.join(name)).ok()
    }

    fn rewind(&self, id: &str) -> Result<RewoundFiles, NoRewind> {
        self.checkpoints.rewind(id, DryRun::No, AT)
    }

    /// The same session in a new process.
    fn again(&mut self) {
        let transcript = self.root.with_file_name("s.jsonl");
        let lines: Vec<String> = self.records.iter().map(|record| json!(record).to_string() + "\n").collect();
        fs::write(&transcript, lines.concat()).unwrap();
        self.checkpoints = FileCheckpoints::new(Self::config(&self.root, Some(transcript)));
    }

    fn copies(&self) -> usize {
        fs::read_dir(self.root.with_file_name("file-history").join("s")).map_or(0, Iterator::count)
    }
}

#[test]
fn every_prompt_is_a_place_to_go_back_to_in_this_run_and_the_next() {
    let mut world = World::new();
    fs::write(world.root.join("old"), "0").unwrap();
    world.prompt("p1");
    world.write("new", "a\n");
    world.prompt("p2");
    world.write("old", "1");
    world.write("new", "b\n");
    world.write("new", "c\n");
    world.prompt("p3");
    world.again();
    world.prompt("p4");
    world.write("late", "x");
    for (prompt, old, new, late) in [
        ("p4", Some("1"), Some("c\n"), None),
        ("p3", Some("1"), Some("c\n"), None),
        ("p2", Some("0"), Some("a\n"), None),
        ("p1", Some("0"), None, None),
        // And forward again: copies of later prompts are still there.
        ("p4", Some("1"), Some("c\n"), None),
    ] {
        world.rewind(prompt).unwrap();
        let files = [world.read("old"), world.read("new"), world.read("late")];
        assert_eq!(files.each_ref().map(Option::as_deref), [old, new, late], "{prompt}");
    }
    assert_eq!(world.rewind("p5"), Err(NoRewind::NoCheckpoint));
}

#[test]
fn a_dry_run_tells_and_does_nothing() {
    let mut world = World::new();
    fs::write(world.root.join("f"), "one\ntwo\n").unwrap();
    world.prompt("p1");
    world.write("f", "one\n2\nthree\n");
    world.write("g", "new\n");
    let told = world.checkpoints.rewind("p1", DryRun::Yes, AT).unwrap();
    let name = |name: &str| world.root.join(name).display().to_string();
    assert_eq!(told.files_changed, [name("f"), name("g")]);
    assert_eq!((told.insertions, told.deletions), (1, 3));
    assert_eq!(world.read("g").as_deref(), Some("new\n"));
    assert_eq!(world.rewind("p1").unwrap(), told);
    assert_eq!((world.read("f").as_deref(), world.read("g")), (Some("one\ntwo\n"), None));
    assert_eq!(world.rewind("p1").unwrap(), RewoundFiles::default(), "nothing is left to do");
}

#[test]
fn what_could_not_be_saved_is_never_deleted() {
    let mut world = World::new();
    let huge = fs::File::create(world.root.join("huge")).unwrap();
    huge.set_len(MAX_FILE_BYTES + 1).unwrap();
    world.prompt("p1");
    world.write("huge", "small now");
    assert_eq!(world.checkpoints.take_troubles().len(), 1);
    world.again();
    assert!(matches!(world.rewind("p1"), Err(NoRewind::AllFailed(_))));
    assert_eq!(world.read("huge").as_deref(), Some("small now"));
}

#[test]
fn a_lost_copy_costs_that_file_alone() {
    let mut world = World::new();
    fs::write(world.root.join("a"), "0").unwrap();
    fs::write(world.root.join("b"), "0").unwrap();
    world.prompt("p1");
    world.write("a", "1");
    world.write("b", "1");
    let copies = fs::read_dir(world.root.with_file_name("file-history").join("s")).unwrap();
    fs::remove_file(copies.flatten().next().unwrap().path()).unwrap();
    let rewound = world.rewind("p1").unwrap();
    assert_eq!((rewound.files_changed.len(), rewound.failures.len()), (1, 1));
}

#[test]
fn names_in_records_cannot_lead_elsewhere() {
    let mut world = World::new();
    let secret = world.root.with_file_name("secret");
    fs::write(&secret, "secret").unwrap();
    world.prompt("p1");
    world.write("f", "x");
    let (SideRecord::FileHistoryDelta { backup, .. }, true) = (&mut world.records[1], true) else {
        panic!("a delta")
    };
    backup["backupFileName"] = json!("../../secret");
    world.again();
    assert!(matches!(world.rewind("p1"), Err(NoRewind::AllFailed(_))));
    assert_eq!(world.read("f").as_deref(), Some("x"));
}

#[test]
fn prompts_and_copies_are_bounded() {
    let mut world = World::new();
    fs::write(world.root.join("f"), "start").unwrap();
    for nth in 0..MAX_SNAPSHOTS + 20 {
        world.prompt(&format!("p{nth}"));
        world.write("f", &nth.to_string());
    }
    assert!(world.copies() <= MAX_SNAPSHOTS + 1, "{} copies", world.copies());
    assert_eq!(world.rewind("p19"), Err(NoRewind::NoCheckpoint));
    world.rewind("p20").unwrap();
    assert_eq!(world.read("f").as_deref(), Some("19"));
}

#[test]
fn another_session_begins_without_checkpoints() {
    let mut world = World::new();
    world.prompt("p1");
    world.write("f", "1");
    let other = CheckpointMoment { session: "other", now: "T" };
    assert_eq!(world.checkpoints.rewind("p1", DryRun::No, other), Err(NoRewind::NoCheckpoint));
    assert_eq!(world.read("f").as_deref(), Some("1"));
}

#[test]
fn the_bytes_of_all_copies_are_bounded_and_the_newest_prompt_comes_first() {
    let mut world = World::new();
    let text = |prompt: u32| format!("{prompt:040}");
    world.prompt("p0");
    world.checkpoints.lock().store.most = 200;
    for nth in 1..6 {
        for name in ["a", "b"] {
            world.write(name, &text(nth));
        }
        world.prompt(&format!("p{nth}"));
    }
    assert!(world.checkpoints.take_troubles().is_empty());
    let dir = world.root.with_file_name("file-history").join("s");
    let bytes: u64 = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes <= 200, "{bytes}");
    for name in ["a", "b"] {
        world.write(name, "later");
    }
    assert_eq!(world.rewind("p5").unwrap().files_changed.len(), 2);
    assert_eq!((world.read("a"), world.read("b")), (Some(text(5)), Some(text(5))));
    assert_eq!(world.rewind("p1"), Err(NoRewind::NoCheckpoint), "the oldest made room");
    world.write("big", "0");
    fs::write(world.root.join("huge"), "x".repeat(201)).unwrap();
    world.write("huge", "small");
    assert_eq!(world.checkpoints.take_troubles().len(), 1, "what never fits is said");
    assert!(world.rewind("p5").unwrap().failures.len() == 1);
    assert_eq!(world.read("huge").as_deref(), Some("small"), "and not deleted");
}

#[test]
fn binary_files_and_bits_come_back_and_what_others_did_is_undone() {
    use std::os::unix::fs::PermissionsExt;
    let mut world = World::new();
    let path = world.root.join("tool");
    let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
    fs::write(&path, &bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
    world.prompt("p1");
    world.write("tool", "text");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, "changed by another program").unwrap();
    assert_eq!(world.rewind("p1").unwrap().files_changed.len(), 1);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o4755);
    // Only the bits are different: that is a change too.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(world.rewind("p1").unwrap().files_changed.len(), 1);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o4755);
}

#[test]
fn what_stands_in_the_way_is_left_alone_and_a_dry_run_says_the_same() {
    let mut world = World::new();
    world.prompt("p1");
    for name in ["folder", "linked", "hard", "plain"] {
        world.write(name, "made");
    }
    for name in ["folder", "linked"] {
        fs::remove_file(world.root.join(name)).unwrap();
    }
    fs::create_dir(world.root.join("folder")).unwrap();
    fs::write(world.root.with_file_name("theirs"), "theirs").unwrap();
    std::os::unix::fs::symlink(world.root.with_file_name("theirs"), world.root.join("linked")).unwrap();
    fs::hard_link(world.root.join("hard"), world.root.join("other name")).unwrap();
    let told = world.checkpoints.rewind("p1", DryRun::Yes, AT).unwrap();
    assert_eq!(told.files_changed, [world.root.join("plain").display().to_string()]);
    assert_eq!(world.rewind("p1").unwrap(), told);
    assert_eq!(told.skipped_links, 3);
    assert!(world.root.join("folder").is_dir() && world.read("plain").is_none());
    assert_eq!(world.read("linked").as_deref(), Some("theirs"));
}

#[test]
fn records_that_do_not_say_where_a_file_is_are_read_by_its_name() {
    let mut world = World::new();
    fs::create_dir(world.root.join("sub")).unwrap();
    fs::write(world.root.join("sub/f"), "old").unwrap();
    world.prompt("p1");
    world.write("sub/f", "new");
    let SideRecord::FileHistoryDelta { backup, .. } = &mut world.records[1] else { panic!("a delta") };
    backup.as_object_mut().unwrap().remove("realParentDir");
    world.again();
    world.rewind("p1").unwrap();
    assert_eq!(world.read("sub/f").as_deref(), Some("old"));
    let SideRecord::FileHistoryDelta { tracking_path, .. } = &mut world.records[1] else { panic!("a delta") };
    *tracking_path = "../f".to_owned();
    world.again();
    assert!(matches!(world.rewind("p1"), Err(NoRewind::AllFailed(_))), "no name leads out");
}

#[test]
fn a_session_that_is_not_kept_takes_its_copies_with_it_when_another_begins() {
    let mut world = World::new();
    let config = CheckpointsConfig { lasting: false, ..World::config(&world.root, None) };
    world.checkpoints = FileCheckpoints::new(config);
    fs::write(world.root.join("f"), "0").unwrap();
    world.prompt("p1");
    world.write("f", "1");
    assert_eq!(world.copies(), 1);
    world.checkpoints.begin("p2", CheckpointMoment { session: "other", now: "T" });
    assert_eq!(world.copies(), 0);
}
