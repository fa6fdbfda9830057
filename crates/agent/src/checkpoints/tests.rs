//! The checkpoints alone, on real files.

use std::fs;

use super::*;

struct World {
    _folder: tempfile::TempDir,
    root: PathBuf,
    checkpoints: Checkpoints,
    /// The records, as a transcript has them.
    records: Vec<SideRecord>,
}

const AT: Moment<'_> = Moment { session: "s", now: "T" };

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("work");
        fs::create_dir(&root).unwrap();
        let checkpoints = Checkpoints::new(Self::config(&root, None));
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

    fn rewind(&self, id: &str) -> Result<Rewound, NoRewind> {
        self.checkpoints.rewind(id, DryRun::No, AT)
    }

    /// The same session in a new process.
    fn again(&mut self) {
        let transcript = self.root.with_file_name("s.jsonl");
        let lines: Vec<String> = self.records.iter().map(|record| json!(record).to_string() + "\n").collect();
        fs::write(&transcript, lines.concat()).unwrap();
        self.checkpoints = Checkpoints::new(Self::config(&self.root, Some(transcript)));
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
    assert_eq!(world.rewind("p1").unwrap(), Rewound::default(), "nothing is left to do");
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
    let other = Moment { session: "other", now: "T" };
    assert_eq!(world.checkpoints.rewind("p1", DryRun::No, other), Err(NoRewind::NoCheckpoint));
    assert_eq!(world.read("f").as_deref(), Some("1"));
}
