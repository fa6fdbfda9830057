//! Many sessions in one process: each gets a prompt that takes a Read and a Bash call, all stay open until the last is
//! answered. Prints what that costs, and fails where it costs more than it may.
//!
//! usage: many FOLDER [SESSIONS]
//!
//! FOLDER is an empty one. All prompts are sent at once; the sessions share one `SharedServices` value, whose limits keep
//! all but 64 of the commands waiting. How many run at the same time is read from a log that the commands write: each
//! adds a line when it begins and one when it ends. The first ones wait until as many are there as may be, which gives
//! one too many every chance to begin.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lathe_launch::{
    LaunchEnvironment, ModelSource, SessionEnd, SessionOptions, SharedServices, SessionSignals, WarningSink,
};
use lathe_protocol::message::UserTurn;
use lathe_protocol::{Inbound, InboundUser, Outbound};
use lathe_scripted::{Script, ScriptedModel};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

type Failure = Box<dyn Error + Send + Sync>;

/// Commands of all sessions that may run at the same time.
const MAX_COMMANDS: usize = 64;

/// Threads of the process, whatever the number of sessions: the event loop and a few for blocking work.
const MAX_THREADS: usize = 24;

/// Memory that an open session may hold while nothing happens in it.
const MAX_IDLE_KB: usize = 150;

/// What every launch has in common.
struct Shop {
    folder: PathBuf,
    /// Where commands write when they begin and end.
    log: PathBuf,
    /// What commands wait for.
    gate: PathBuf,
    model: Arc<ScriptedModel>,
    options: SessionOptions,
    services: SharedServices,
}

/// A session that waits for its next prompt.
struct OpenSession {
    prompts: mpsc::Sender<Inbound>,
    frames: mpsc::Receiver<Outbound>,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = arguments.first().ok_or("usage: many FOLDER [SESSIONS]")?;
    let sessions = arguments.get(1).map_or(Ok(1000), |text| text.parse())?;
    // Every open session keeps its file open.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(8).build()?;
    runtime.block_on(run(Arc::new(Shop::open(folder.as_ref())?), sessions))
}

async fn run(shop: Arc<Shop>, count: usize) -> Result<(), Failure> {
    let mut ends = JoinSet::new();
    // One first, so that what every process needs once is not counted for the sessions.
    std::fs::write(&shop.gate, "")?;
    drop(shop.clone().answer(shop.start(&mut ends)?).await?);
    ends.join_next().await.ok_or("no session ran")??;
    std::fs::remove_file(&shop.gate)?;
    let (empty_kb, began) = (figure("VmRSS:")?, Instant::now());

    let started: Vec<OpenSession> = (0..count).map(|_| shop.start(&mut ends)).collect::<Result<_, _>>()?;
    let launched = began.elapsed();
    let mut answers = JoinSet::new();
    let commands = MAX_COMMANDS.min(count);
    let opener = tokio::spawn(shop.clone().open_gate(commands));
    started.into_iter().for_each(|session| drop(answers.spawn(shop.clone().answer(session))));
    let (mut open, mut threads) = (Vec::new(), 0);
    while let Some(session) = answers.join_next().await {
        open.push(session??);
        threads = threads.max(figure("Threads:")?);
    }
    opener.await??;
    let (answered, most_kb) = (began.elapsed(), figure("VmRSS:")?);
    give_free_memory_back();
    let left_kb = figure("VmRSS:")?;
    let (idle_kb, free_kb) =
        (left_kb.saturating_sub(empty_kb) / count, most_kb.saturating_sub(left_kb) / count);

    drop(open);
    while let Some(end) = ends.join_next().await {
        end?;
    }
    let commands = shop.commands()?.1;
    println!("sessions: {count}, launched in {launched:.1?}, all answered after {answered:.1?}");
    println!("memory of an idle session: {idle_kb} KB (at most {MAX_IDLE_KB})");
    println!("free memory that the allocator kept after all turns at once: {free_kb} KB a session");
    println!("threads: {threads} (at most {MAX_THREADS})");
    println!("commands at once: {commands} (at most {MAX_COMMANDS})");
    let holds = idle_kb <= MAX_IDLE_KB && threads <= MAX_THREADS && commands <= MAX_COMMANDS;
    if holds { Ok(()) } else { Err("more than it may be".into()) }
}

impl Shop {
    fn open(folder: &Path) -> Result<Self, Failure> {
        let folder = folder.canonicalize()?;
        let [note, log, gate] = ["note.txt", "commands.log", "gate"].map(|name| folder.join(name));
        std::fs::write(&note, "remember me\n")?;
        let command = format!(
            "echo + >> {0}; until [ -e {1} ]; do sleep 0.1; done; echo - >> {0}",
            log.display(),
            gate.display()
        );
        let script = format!(
            r#"{{"scope": "conversation", "at_end": "error", "turns": [
                {{"tools": [{{"name": "Read", "input": {{"file_path": "{}"}}}}]}},
                {{"expect": {{"tool_result": "remember me"}},
                  "tools": [{{"name": "Bash", "input": {{"command": "{command}"}}}}]}},
                {{"expect": {{"tool": "Bash", "tool_error": false}}, "text": "done"}}]}}"#,
            note.display()
        );
        let model = Arc::new(ScriptedModel::new(Script::parse("many.json", &script)?)?);
        let options = SessionOptions {
            cwd: Some(folder.clone()),
            allowed_tools: vec!["Bash".to_owned()],
            ..SessionOptions::default()
        };
        Ok(Self { folder, log, gate, model, options, services: SharedServices::default() })
    }

    /// A session that is saved below the folder and waits for a prompt; its end is told to `ends`.
    fn start(&self, ends: &mut JoinSet<SessionEnd>) -> Result<OpenSession, Failure> {
        let home = self.folder.join("home").display().to_string();
        let environment = LaunchEnvironment::with_variables([("HOME".to_owned(), home)]);
        let model = ModelSource::Value(self.model.clone());
        let warnings: WarningSink = Arc::new(|warning| eprintln!("{warning}"));
        let session = lathe_launch::prepare(&self.options, environment, model, &self.services, &warnings)?;
        let (prompts, inbox) = mpsc::channel(1);
        let (out, frames) = mpsc::channel(16);
        ends.spawn(session.run(inbox, out, SessionSignals::default()));
        Ok(OpenSession { prompts, frames })
    }

    /// Sends the prompt and waits for its result; the session stays open.
    async fn answer(self: Arc<Self>, mut session: OpenSession) -> Result<OpenSession, Failure> {
        let prompt = InboundUser { message: UserTurn::new("go"), ..InboundUser::default() };
        session.prompts.send(Inbound::User(prompt)).await?;
        loop {
            match session.frames.recv().await.ok_or("a session ended without a result")? {
                Outbound::Result(result) if result.result.as_deref() == Some("done") => return Ok(session),
                Outbound::Result(result) => return Err(format!("a session failed: {result:?}").into()),
                _ => {}
            }
        }
    }

    /// Lets the commands go on when as many wait as may run.
    async fn open_gate(self: Arc<Self>, commands: usize) -> Result<(), Failure> {
        while self.commands()?.0 < commands {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(std::fs::write(&self.gate, "")?)
    }

    /// How many commands are between their beginning and their end, now and at most so far.
    fn commands(&self) -> Result<(usize, usize), Failure> {
        let (mut now, mut most) = (0_usize, 0);
        for line in std::fs::read_to_string(&self.log)?.lines() {
            now = if line == "+" { now + 1 } else { now - 1 };
            most = most.max(now);
        }
        Ok((now, most))
    }
}

/// A number that the kernel tells of this process.
fn figure(name: &str) -> Result<usize, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("the kernel tells nothing")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// Lets the allocator give back what is free. All turns ran at once, so what it keeps for the next ones is much more than
/// what the sessions hold.
#[cfg(target_env = "gnu")]
fn give_free_memory_back() {
    unsafe extern "C" {
        fn malloc_trim(keep: usize) -> i32;
    }
    // SAFETY: it takes a number and touches only memory that is not in use.
    unsafe { malloc_trim(0) };
}

/// Other allocators decide alone.
#[cfg(not(target_env = "gnu"))]
fn give_free_memory_back() {}
