//! One session from its first prompt to its last, through as many lives as it takes, with all checks between them. Its
//! files are removed if it passed, and kept if it did not.

use std::fmt;
use std::fs::{self, File};
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::dice::Dice;
use super::life::{End, Kill, Life, Told};
use super::record::Transcript;
use super::script::{self, Lost, PROMPTS, Tasks};
use super::survivors;
use super::tasks::TaskRecords;

/// After this many kills a session is left alone, so that it ends.
const MOST_KILLS: u32 = 4;

/// Lines that a whole session writes, approximately.
const LINES: u64 = 140;

/// The counts of completed trials.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// How often a process was killed.
    pub kills: u32,
    lost_calls: u32,
    torn_lines: u32,
    lost_tasks: usize,
    untold_ends: usize,
    /// Whether the session started tasks.
    with_tasks: u32,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.kills += other.kills;
        self.lost_calls += other.lost_calls;
        self.torn_lines += other.torn_lines;
        self.lost_tasks += other.lost_tasks;
        self.untold_ends += other.untold_ends;
        self.with_tasks += other.with_tasks;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, lost_calls, torn_lines, lost_tasks, untold_ends, with_tasks } = self;
        write!(
            f,
            "{kills} kills, {lost_calls} with a call under way, {torn_lines} torn lines, {with_tasks} sessions with \
             tasks, {lost_tasks} of them lost, {untold_ends} ends told by the next life"
        )
    }
}

/// One session.
pub struct Trial<'a> {
    binary: &'a Path,
    dir: TempDir,
    dice: Dice,
    session: String,
    /// How long an undisturbed session takes.
    calm: Duration,
    /// Prompts that are done.
    prompt: u32,
    life: u32,
    told_uuids: Vec<String>,
    told_cost: f64,
    lost: Lost,
    tasks: Tasks,
    /// What the transcript told of tasks after the last life.
    left: TaskRecords,
    /// Prompts that were done in this life.
    prompts_of_life: u32,
    tally: Tally,
}

/// Runs a session without a kill, with all checks, and returns how long it took, from which the moments of kills are
/// chosen.
pub fn calm_session(binary: &Path) -> Result<Duration> {
    let mut trial = Trial::new(binary, Dice::new(1), Duration::ZERO, Tasks::None)?;
    let started = Instant::now();
    let outcome = trial.live(Kill::Never).and_then(|_| trial.check_end());
    trial.finish(outcome)?;
    Ok(started.elapsed())
}

impl<'a> Trial<'a> {
    /// Creates the folders of a session that has not begun. `calm` is the time that an undisturbed session takes.
    pub fn new(binary: &'a Path, mut dice: Dice, calm: Duration, tasks: Tasks) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("lathe-crashloop-").tempdir()?;
        for folder in ["work", "home/.claude"] {
            fs::create_dir_all(dir.path().join(folder))?;
        }
        Ok(Self {
            binary,
            session: dice.uuid(),
            dir,
            dice,
            calm,
            prompt: 0,
            life: 0,
            told_uuids: Vec::new(),
            told_cost: 0.0,
            lost: Lost::Nothing,
            tasks,
            left: TaskRecords::default(),
            prompts_of_life: 0,
            tally: Tally { with_tasks: u32::from(tasks == Tasks::Some), ..Tally::default() },
        })
    }

    /// Runs the session through all its lives and returns its counts. Its folder is removed if it passed, and kept if
    /// it did not.
    pub fn run(mut self) -> Result<Tally> {
        let outcome = self.lives();
        let tally = self.tally;
        self.finish(outcome).map(|()| tally)
    }

    /// Starts the session again after every kill, and checks its files each time, until all prompts are done.
    fn lives(&mut self) -> Result<()> {
        loop {
            let kill = self.next_kill();
            let end = self.live(kill).with_context(|| format!("life {}, {kill:?}", self.life))?;
            let after = format!("after life {}, {kill:?}", self.life);
            match end {
                End::Done => return self.check_end().context(after),
                End::Killed => self.check_after_kill().context(after)?,
            }
            self.life += 1;
        }
    }

    /// Chooses the next kill: half of them after a time, half after a number of lines. After the first kill a third of
    /// the lives run to their end, and after [`MOST_KILLS`] kills all do.
    fn next_kill(&mut self) -> Kill {
        let rest = u64::from(PROMPTS - self.prompt);
        match self.tally.kills {
            MOST_KILLS.. => Kill::Never,
            1.. if self.dice.below(3) == 0 => Kill::Never,
            _ if self.dice.below(2) == 0 => {
                // A little less than the whole time, so that most kills happen before the end.
                let whole = self.calm.as_micros() as u64 * 3 / 4 * rest / u64::from(PROMPTS);
                Kill::After(Duration::from_micros(self.dice.below(whole)))
            }
            _ => {
                let lines = self.dice.below(LINES * rest / u64::from(PROMPTS));
                Kill::AfterLines(lines, Duration::from_micros(self.dice.below(3000)))
            }
        }
    }

    /// Runs one process of the session. Checks what it told of tasks, that the model was told of the ends it is owed
    /// (only if a prompt was done, because notices go with one), and that no child is left.
    fn live(&mut self, kill: Kill) -> Result<End> {
        let script = self.evidence("script.json");
        fs::write(&script, script::of_life(self.life, self.prompt, self.lost, self.tasks).to_string())?;
        let mut command = self.command(&["-p", "--input-format", "stream-json", "--replay-user-messages"])?;
        command.args(["--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits"]);
        command.args(["--allowedTools", "Bash", "--model", &format!("script:{}", script.display())]);
        // What the last prompt leaves running must not hold the end.
        command.args(["--background", "stop"]);
        // A session that died before its first record starts as a new one.
        let has_begun = fs::metadata(self.transcript()).is_ok_and(|file| file.len() > 0);
        command.args([if has_begun { "--resume" } else { "--session-id" }, &self.session]);
        let dice = &mut self.dice;
        let mut new_uuid = || dice.uuid();
        let tee = self.dir.path().join(format!("life-{}.stdout.jsonl", self.life));
        let life = Life::start(&mut command, &tee, self.prompt, &mut new_uuid)?;
        let (told, end) = life.live(kill)?;
        told.tasks.check(&self.left)?;
        self.prompts_of_life = told.prompts;
        self.note(told)?;
        if self.prompts_of_life > 0 {
            self.check_owed_ends()?;
        }
        let left = survivors::wait_until_gone(&self.session);
        ensure!(left.is_empty(), "processes are left: {}", left.join("; "));
        Ok(end)
    }

    /// Adds what a process told its host to what the session file must contain. Fails if the session has another id or
    /// its cost fell.
    fn note(&mut self, told: Told) -> Result<()> {
        if let Some(session) = &told.session {
            ensure!(*session == self.session, "the session became {session}");
        }
        if told.prompts > 0 {
            ensure!(told.cost > self.told_cost, "the cost fell from {} to {}", self.told_cost, told.cost);
            self.told_cost = told.cost;
        }
        self.told_uuids.extend(told.uuids);
        self.prompt += told.prompts;
        Ok(())
    }

    /// Checks that the model was told of the end of every task that the last kill left lost or untold. Only to be
    /// called after a prompt, because notices go with one.
    fn check_owed_ends(&self) -> Result<()> {
        let now = Transcript::read(&self.transcript())?.tasks;
        let mut owed = self.left.untold();
        owed.append(&mut self.left.lost());
        let untold: Vec<_> = now.untold().intersection(&owed).cloned().collect();
        ensure!(untold.is_empty(), "the model was not told of the ends of {untold:?}");
        Ok(())
    }

    /// Checks the files after a kill, counts it, and keeps what the next life must repair: lost calls and tasks.
    fn check_after_kill(&mut self) -> Result<()> {
        self.tally.kills += 1;
        let transcript = self.check_files()?;
        self.tally.lost_tasks += transcript.tasks.lost().len();
        self.tally.untold_ends += transcript.tasks.untold().len();
        self.left = transcript.tasks.clone();
        self.lost = if transcript.has_lost_call(self.life) { Lost::Call } else { Lost::Nothing };
        self.tally.lost_calls += u32::from(self.lost == Lost::Call);
        Ok(())
    }

    /// Reads and checks the session file: everything that was shown is in it, no more lines are torn than processes
    /// were killed, and every effect happened once. Sets the number of torn lines in the tally.
    fn check_files(&mut self) -> Result<Transcript> {
        let transcript = Transcript::read(&self.transcript())?;
        if let Some(lost) = self.told_uuids.iter().find(|uuid| !transcript.uuids.contains(*uuid)) {
            bail!("the message {lost} was shown and is not in the transcript");
        }
        ensure!(
            transcript.cost >= self.told_cost,
            "a result told a cost of {}, the transcript has {}",
            self.told_cost,
            transcript.cost
        );
        ensure!(
            transcript.torn <= self.tally.kills,
            "{} kills tore {} lines",
            self.tally.kills,
            transcript.torn
        );
        self.tally.torn_lines = transcript.torn;
        transcript.check_effects(&self.dir.path().join("work"))?;
        Ok(transcript)
    }

    /// Checks the finished session: all prompts are done, its files are whole, and `lathe sessions verify` agrees. No
    /// task may lack its end, unless the last process did no prompt, because lost tasks are told of with one.
    fn check_end(&mut self) -> Result<()> {
        ensure!(self.prompt == PROMPTS, "{} of {PROMPTS} prompts are done", self.prompt);
        let transcript = self.check_files()?;
        let wanted = if self.tasks == Tasks::Some { PROMPTS as usize } else { 0 };
        ensure!(transcript.tasks.count() >= wanted, "only {} tasks started", transcript.tasks.count());
        let lost = transcript.tasks.lost();
        // A life without a prompt tells of nothing: lost tasks are told of with the next prompt.
        ensure!(
            lost.is_empty() || self.prompts_of_life == 0,
            "a session that ended left tasks without an end: {lost:?}"
        );
        for prompt in 0..PROMPTS {
            let is_done = (0..=self.life)
                .any(|life| transcript.results.contains_key(&format!("toolu_{life}_{prompt}_edit")));
            ensure!(is_done, "prompt {prompt} was never done");
        }
        let output = self.command(&["sessions", "verify", &self.session, "--json"])?.output()?;
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("`sessions verify` says {}", String::from_utf8_lossy(&output.stdout)))?;
        let is_good = report["is_resumable"] == true
            && report["duplicate_uuids"] == 0
            && report["missing_parents"] == 0
            && report["bad_lines"] == self.tally.torn_lines;
        ensure!(is_good, "`sessions verify` says {report}");
        Ok(())
    }

    /// Returns the command for the program in the working folder with a clean environment and the cookie of the
    /// session; stderr goes to the evidence.
    fn command(&self, words: &[&str]) -> Result<Command> {
        let stderr = File::options().create(true).append(true).open(self.evidence("stderr.txt"))?;
        let mut command = Command::new(self.binary);
        command
            .args(words)
            .current_dir(self.dir.path().join("work"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path().join("home"))
            .env("CLAUDE_CODE_TMPDIR", self.dir.path().join("home"))
            .env(survivors::COOKIE, &self.session)
            .stderr(stderr);
        Ok(command)
    }

    /// Returns the path of a file with evidence about the current process; the number of its life is a part of the
    /// name.
    fn evidence(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("life-{}.{name}", self.life))
    }

    /// Returns the path of the session file, which is in the only project folder of the home; a path that does not
    /// exist if no process has made it yet.
    fn transcript(&self) -> PathBuf {
        let projects = self.dir.path().join("home/.claude/projects");
        let name = format!("{}.jsonl", self.session);
        let found = fs::read_dir(&projects).into_iter().flatten().flatten().next();
        found.map_or(projects, |project| project.path()).join(name)
    }

    /// Removes the folder of a session that passed. For one that failed keeps it, and adds its path and the last stderr
    /// to the error.
    fn finish(self, outcome: Result<()>) -> Result<()> {
        outcome.map_err(|error| {
            let last_words =
                fs::read_to_string(self.dir.path().join(format!("life-{}.stderr.txt", self.life)));
            let kept = self.dir.keep();
            error.context(format!(
                "evidence in {}{}",
                kept.display(),
                last_words.map(|text| format!(", stderr: {}", text.trim())).unwrap_or_default()
            ))
        })
    }
}
