//! The engine against real bash, on generated scripts.
//!
//! Three oracles. What the engine lets run unasked is run in a throw-away directory where every program that
//! could change something is replaced by one that leaves a mark: no mark, and nothing in the directory may
//! change. And of every script that parses, each command that bash really starts must be among those that the
//! analysis has seen, because deny rules only hold for what is seen. What accepting edits lets run may change
//! the project, but nothing that a link in it points to.
//!
//! Deterministic by default and short; `LATHE_FUZZ_ITERATIONS` and `LATHE_FUZZ_SEED` make it long and new.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a test: it starts bash, reads two variables, and says when bash is missing"
)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lathe_permissions::{Decision, EngineConfig, PermissionScopeConfig};
use lathe_protocol::permission::PermissionMode;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use serde_json::json;
use support::Rig;

/// How long one script may run: some loop for ever.
const SCRIPT_LIMIT: Duration = Duration::from_secs(2);

/// How long what a script left in the background may go on.
const LINGER: Duration = Duration::from_millis(200);

/// A small generator of random numbers, the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn one<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

const HARMLESS: [&str; 46] = [
    "ls",
    "ls -la",
    "cat keep",
    "echo hi",
    "echo a b",
    "pwd",
    "true",
    "false",
    "head -1 keep",
    "tail -n 1 keep",
    "wc -l keep",
    "grep x keep",
    "grep -rn x .",
    "sort keep",
    "sort -r",
    "cut -c1 keep",
    "tr a b",
    "sed -n 1p keep",
    "find . -name keep",
    "test -f keep",
    "[ -f keep ]",
    "printf '%s' x",
    "printf %d 1",
    "seq 1 2",
    "basename a/b",
    "uniq",
    "uniq -c keep",
    "date +%s",
    "cd sub",
    "x=1",
    "x=$(ls)",
    "y=",
    "echo *",
    "ls k*",
    "cat k?ep",
    "echo ~",
    "echo $HOME",
    "xargs echo",
    "timeout 1 ls",
    "command ls",
    "NODE_ENV=x ls",
    "sed -n '/x/p' keep",
    "find . -type f -print",
    "stat keep",
    "nl keep",
    "cat < keep",
];

const HARMFUL: [&str; 40] = [
    "touch marker",
    "rm keep",
    "mkdir marker",
    "cp keep marker",
    "mv keep marker",
    "tee marker",
    "sort -o marker keep",
    "sed -i s/x/y/ keep",
    "sed -n 'w marker' keep",
    "find . -fprint marker",
    "find . -exec touch marker ;",
    "xargs touch marker",
    "> marker",
    ">> keep",
    ">| keep",
    "1<> marker",
    "&> marker",
    ">& marker",
    "echo x > marker",
    "$(touch marker)",
    "`touch marker`",
    "<(touch marker)",
    "eval touch marker",
    "sh -c 'touch marker'",
    "ls() { touch marker; }",
    "uniq keep marker",
    "trap 'touch marker' EXIT",
    "PATH=sub ls",
    "x[$(touch marker)]=1",
    "${x:=$(touch marker)}",
    "$((y[$(touch marker)]))",
    "test -v 'x[$(touch marker)]'",
    "printf -v 'x[$(touch marker)]' y",
    "env touch marker",
    "command touch marker",
    "exec touch marker",
    "coproc touch marker",
    "tee keep",
    "sort --output=marker keep",
    "sed -n '1e touch marker' keep",
];

const FRAGMENTS: [&str; 74] = [
    "'",
    "\"",
    "\\",
    "\n",
    " ",
    "\t",
    ";",
    "&",
    "|",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "$",
    "`",
    "#",
    "<",
    ">",
    "!",
    "~",
    "*",
    "?",
    "=",
    ",",
    "$(",
    "${",
    "$((",
    "))",
    "$'",
    "$\"",
    "<(",
    ">(",
    "<<E\n",
    "\nE\n",
    "<<'E'\n",
    "<<-E\n\t",
    "<<<",
    "&&",
    "||",
    ";;",
    "|&",
    "&>",
    ">|",
    "<>",
    "2>&1",
    "2>",
    "{fd}>",
    "\\\n",
    "if ",
    "then ",
    "fi",
    "do ",
    "done",
    "for x in ",
    "while ",
    "case x in ",
    "esac",
    "[[ ",
    " ]]",
    "((",
    "time ",
    "function ",
    "coproc ",
    "in ",
    "\\'",
    "\\\"",
    "#'\n",
    "a=(",
    "$x",
    "${x@P}",
    "${!x}",
    "\u{a0}",
];

/// A script: commands put together, then disturbed.
fn script(random: &mut Random, harmful_percent: usize) -> String {
    let mut text = String::new();
    for _ in 0..=random.below(3) {
        if !text.is_empty() {
            text.push_str(random.one(&[" && ", " || ", "; ", " | ", "\n", " |& ", " & ", ";", " ", "&&\n"]));
        }
        let harmful = random.chance(harmful_percent);
        let command = if harmful { random.one(&HARMFUL) } else { random.one(&HARMLESS) };
        match random.below(12) {
            0 => text.push_str(&format!("if {command}; then ls; fi")),
            1 => text.push_str(&format!("while false; do {command}; done")),
            2 => text.push_str(&format!("! {command}")),
            3 => text.push_str(&format!("echo \"{command}\"")),
            4 => text.push_str(&format!("echo '{command}'")),
            5 => text.push_str(&format!("cat <<'E'\n{command}\nE\n")),
            6 => text.push_str(&format!("echo hi # {command}")),
            _ => text.push_str(command),
        }
        if random.chance(10) {
            text.push_str(random.one(&[
                " 2>&1",
                " >/dev/null",
                " 2>/dev/null",
                " <keep",
                " &>/dev/null",
                " >&2",
            ]));
        }
    }
    for _ in 0..random.below(4) {
        let mut at = random.below(text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        if random.chance(70) {
            text.insert_str(at, random.one(&FRAGMENTS));
        } else if at < text.len() {
            text.remove(at);
        }
    }
    text
}

/// A directory to run scripts in, with the only programs they can find.
struct Sandbox {
    root: tempfile::TempDir,
    /// Each script has a log of its own: what one leaves running must not be taken for the next.
    runs: std::cell::Cell<u32>,
}

impl Sandbox {
    /// `stubs` leave a mark; `real` are the programs of the machine, as far as it has them.
    fn new(stubs: &[&str], real: &[&str]) -> Self {
        let sandbox = Self { root: tempfile::tempdir().unwrap(), runs: std::cell::Cell::new(0) };
        fs::create_dir_all(sandbox.bin()).unwrap();
        for name in stubs {
            let path = sandbox.bin().join(name);
            fs::write(&path, format!("#!/bin/sh\necho {name} >> \"$LATHE_LOG\"\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        for name in real {
            let found =
                ["/usr/bin", "/bin"].iter().map(|dir| Path::new(dir).join(name)).find(|path| path.exists());
            if let Some(found) = found {
                symlink(found, sandbox.bin().join(name)).unwrap();
            }
        }
        sandbox.reset();
        sandbox
    }

    fn bin(&self) -> PathBuf {
        self.root.path().join("bin")
    }

    fn log(&self) -> PathBuf {
        self.root.path().join(format!("log{}", self.runs.get()))
    }

    fn work(&self) -> PathBuf {
        self.root.path().join("outer/work")
    }

    fn reset(&self) {
        let _ = fs::remove_dir_all(self.root.path().join("outer"));
        fs::create_dir_all(self.work().join("sub")).unwrap();
        fs::write(self.work().join("keep"), "x\n").unwrap();
        fs::write(self.work().join("sub/keep"), "x\n").unwrap();
    }

    /// Runs a script to its end, and what it leaves in the background for a moment longer. Nothing outlives
    /// the call: at the limit, and at the end, everything that the script started is killed.
    fn run(&self, script: &str) {
        self.runs.set(self.runs.get() + 1);
        let mut child = Command::new("/bin/bash")
            .args(["--norc", "--noprofile", "-c", script])
            .current_dir(self.work())
            .env_clear()
            .env("PATH", self.bin())
            .env("HOME", self.work())
            .env("LATHE_LOG", self.log())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let group = Pid::from_child(&child);
        let started = Instant::now();
        let mut ended = None;
        loop {
            if ended.is_none() && child.try_wait().unwrap().is_some() {
                ended = Some(Instant::now());
            }
            let alone = ended.is_some() && test_kill_process_group(group).is_err();
            let lingers = ended.is_some_and(|ended| ended.elapsed() > LINGER);
            if alone || lingers || started.elapsed() > SCRIPT_LIMIT {
                break;
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        let _nobody_may_be_left = kill_process_group(group, Signal::KILL);
        child.wait().unwrap();
    }

    /// Everything in the directory, with content.
    fn state(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        fn visit(directory: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
            for entry in fs::read_dir(directory).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    found.insert(path.clone(), Vec::new());
                    visit(&path, found);
                } else {
                    found.insert(path.clone(), fs::read(&path).unwrap_or_default());
                }
            }
        }
        let mut found = BTreeMap::new();
        visit(&self.root.path().join("outer"), &mut found);
        found
    }

    fn started(&self) -> Vec<String> {
        fs::read_to_string(self.log()).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

fn engine(work: &Path, mode: PermissionMode) -> Rig {
    let config = EngineConfig { home: Some(work.to_owned()), ..EngineConfig::default() };
    let working_dirs = vec![work.to_owned()];
    Rig::new(config, PermissionScopeConfig { mode, working_dirs, ..Default::default() })
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn has_bash() -> bool {
    let found = Path::new("/bin/bash").exists();
    if !found {
        assert!(std::env::var_os("CI").is_none(), "bash must be there in CI");
        eprintln!("there is no bash: nothing was tested");
    }
    found
}

const REAL: [&str; 26] = [
    "ls", "cat", "head", "tail", "wc", "grep", "sort", "cut", "tr", "sed", "find", "seq", "basename",
    "dirname", "uniq", "date", "xargs", "timeout", "stat", "nl", "true", "false", "printf", "test", "expr",
    "sleep",
];

#[test]
fn what_runs_unasked_changes_nothing() {
    if !has_bash() {
        return;
    }
    let stubs = [
        "touch", "rm", "mkdir", "cp", "mv", "tee", "sh", "env", "ln", "chmod", "dd", "awk", "perl", "python3",
    ];
    let sandbox = Sandbox::new(&stubs, &REAL);
    let work = sandbox.work().canonicalize().unwrap();
    let engine = engine(&work, PermissionMode::Default);
    let mut random = Random(setting("LATHE_FUZZ_SEED", 0x1a7e_5eed));
    let before = sandbox.state();
    let mut ran = 0;
    for _ in 0..setting("LATHE_FUZZ_ITERATIONS", 600) {
        let script = script(&mut random, 25);
        let input = json!({"command": script});
        let decision = engine.decide("Bash", &input, &work);
        if !matches!(decision, Decision::Allow(_)) {
            continue;
        }
        ran += 1;
        sandbox.run(&script);
        assert!(sandbox.started().is_empty(), "{script:?} started {:?}", sandbox.started());
        assert_eq!(sandbox.state(), before, "{script:?} changed the directory");
    }
    assert!(ran > 80, "only {ran} scripts were run: the generator is of no use");
}

/// A script made of commands that only leave a mark, behind everything that can hide one.
fn hiding_script(random: &mut Random) -> String {
    const NAMES: [&str; 6] = ["c1", "c2", "c3", "c4", "c5", "c6"];
    let mut text = String::new();
    for _ in 0..=random.below(3) {
        if !text.is_empty() {
            text.push_str(random.one(&[" && ", " || ", "; ", " | ", "\n", " & "]));
        }
        let name = random.one(&NAMES);
        let other = random.one(&NAMES);
        let piece = match random.below(30) {
            0 => format!("echo $({name})"),
            1 => format!("echo `{name}`"),
            2 => format!("echo \"$({name} a)\""),
            3 => format!("({name}; {other})"),
            4 => format!("{{ {name}; }}"),
            5 => format!("if {name}; then {other}; else {name}; fi"),
            6 => format!("for i in 1 2; do {name}; done"),
            7 => format!("f() {{ {name}; }}; f"),
            8 => format!("case x in x) {name};; esac"),
            9 => format!("cat <<E\n$({name})\nE\n"),
            10 => format!("cat <<'E'\n$({name})\nE\n{other}"),
            11 => format!("sh -c '{name}; {other}'"),
            12 => format!("eval '{name}'"),
            13 => format!("env A=1 {name}"),
            14 => format!("env -S '{name} x'"),
            15 => format!("timeout 5 {name}"),
            16 => format!("nice -n 1 {name}"),
            17 => format!("echo | xargs -I{{}} {name} {{}}"),
            18 => format!("find . -maxdepth 0 -exec {name} {{}} \\;"),
            19 => format!("A=$({name}) {other}"),
            20 => format!("echo ${{x:-$({name})}}"),
            21 => format!("cat <({name})"),
            22 => format!("\\{name} \"$({other})\""),
            23 => format!("'{name}' | {other} > out"),
            24 => format!("a[$({name})]=1"),
            25 => format!("[[ -n $({name}) ]]"),
            26 => format!("echo $(( $({name}) + 1 ))"),
            27 => format!("command {name}; builtin echo `{other}`"),
            28 => format!("while {name} && false; do {other}; done"),
            _ => format!("{name} {other}"),
        };
        text.push_str(&piece);
    }
    for _ in 0..random.below(3) {
        let at = random.below(text.len() + 1);
        if random.chance(75) {
            text.insert_str(at, random.one(&FRAGMENTS[..FRAGMENTS.len() - 1]));
        } else if at < text.len() {
            text.remove(at);
        }
    }
    text
}

#[test]
fn whatever_bash_starts_was_seen() {
    if !has_bash() {
        return;
    }
    let stubs = ["c1", "c2", "c3", "c4", "c5", "c6"];
    let mut real = REAL.to_vec();
    real.extend(["sh", "env", "nice"]);
    let sandbox = Sandbox::new(&stubs, &real);
    let work = sandbox.work().canonicalize().unwrap();
    let engine = engine(&work, PermissionMode::Default);
    let mut random = Random(setting("LATHE_FUZZ_SEED", 0x5eed_c0de));
    let mut ran = 0;
    for _ in 0..setting("LATHE_FUZZ_ITERATIONS", 600) / 6 {
        let script = hiding_script(&mut random);
        let input = json!({"command": script});
        let explanation = engine.explain("Bash", &input, &work);
        if !explanation.notes.iter().all(|note| note.starts_with("contains ")) {
            continue; // It cannot be analysed, or runs what is only known at run time: never allowed.
        }
        let names: Vec<&str> =
            explanation.parts.iter().filter_map(|part| part.text.split(' ').next()).collect();
        if names.iter().any(|name| name.contains(['$', '`', '*', '?', '[', '{', '~', '<'])) {
            continue; // The program itself is only known at run time.
        }
        sandbox.reset();
        sandbox.run(&script);
        ran += 1;
        for started in sandbox.started() {
            let seen = names.iter().any(|name| name.rsplit('/').next() == Some(&started));
            assert!(seen, "{script:?} started {started}, seen were {names:?}");
        }
    }
    assert!(ran > 40, "only {ran} scripts were run: the generator is of no use");
}

/// A script that changes files, with links lying around. No name leads out of the sandbox but the links.
fn editing_script(random: &mut Random) -> String {
    const PATHS: [&str; 20] = [
        "keep",
        "new",
        "sub",
        "sub/new",
        "away",
        "away/f",
        "away/new",
        "tree",
        "tree/link",
        "tree/link/f",
        "new/link/f",
        "sub/link/f",
        "sub/tree/link/f",
        "link-file",
        "hard",
        ".git/config",
        "new/tree/link/f",
        "sub/keep",
        "./away/./f",
        "tree/../away/f",
    ];
    let mut text = String::new();
    for _ in 0..=random.below(3) {
        if !text.is_empty() {
            text.push_str(random.one(&[" && ", "; ", "\n", " || ", " | "]));
        }
        let (one, two) = (random.one(&PATHS), random.one(&PATHS));
        text.push_str(&match random.below(14) {
            0 => format!("touch {one}"),
            1 => format!("echo x > {one}"),
            2 => format!("echo x >> {one}"),
            3 => format!("cp {one} {two}"),
            4 => format!("cp -r {one} {two}"),
            5 => format!("cp -a {one} {two}"),
            6 => format!("mv {one} {two}"),
            7 => format!("rm -rf {one}"),
            8 => format!("mkdir -p {one}"),
            9 => format!("sed -i s/x/y/ {one}"),
            10 => format!("cd {one}"),
            11 => format!("cp -r {one}/ {two}/"),
            12 => format!("cat {one} > {two}"),
            _ => format!("if test -e {one}; then touch {two}; fi"),
        });
    }
    text
}

#[test]
fn accepted_edits_stay_inside() {
    if !has_bash() {
        return;
    }
    let mut real = REAL.to_vec();
    real.extend(["touch", "cp", "mv", "rm", "mkdir"]);
    let sandbox = Sandbox::new(&[], &real);
    let outside = sandbox.root.path().join("outside");
    let prepare = || {
        sandbox.reset();
        let _ = fs::remove_dir_all(&outside);
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("f"), "precious\n").unwrap();
        let work = sandbox.work();
        fs::create_dir_all(work.join("tree")).unwrap();
        fs::create_dir_all(work.join(".git")).unwrap();
        fs::write(work.join(".git/config"), "[core]\n").unwrap();
        symlink(&outside, work.join("away")).unwrap();
        symlink(&outside, work.join("tree/link")).unwrap();
        symlink(outside.join("f"), work.join("link-file")).unwrap();
        fs::hard_link(outside.join("f"), work.join("hard")).unwrap();
    };
    prepare();
    let work = sandbox.work().canonicalize().unwrap();
    let engine = engine(&work, PermissionMode::AcceptEdits);
    let mut random = Random(setting("LATHE_FUZZ_SEED", 0xed17_5eed));
    let mut ran = 0;
    for _ in 0..setting("LATHE_FUZZ_ITERATIONS", 600) {
        let script = editing_script(&mut random);
        let input = json!({"command": script});
        let decision = engine.decide("Bash", &input, &work);
        if !matches!(decision, Decision::Allow(_)) {
            continue;
        }
        ran += 1;
        sandbox.run(&script);
        assert_eq!(
            fs::read(outside.join("f")).unwrap_or_default(),
            b"precious\n",
            "{script:?} changed what lies outside"
        );
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "{script:?} made something outside");
        let config = fs::read(work.join(".git/config")).unwrap_or_default();
        assert_eq!(config, b"[core]\n", "{script:?} changed the configuration of git");
        prepare();
    }
    assert!(ran > 30, "only {ran} scripts were run: the generator is of no use");
}
