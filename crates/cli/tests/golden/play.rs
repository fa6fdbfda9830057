//! Runs a golden case with the built program and collects what came out, filtered: stdout and the end of each
//! run, the requests that the model saw, the session files, and the files that are there afterwards.
//!
//! Nothing here knows what was recorded before. The order in which outputs go through the filter is fixed,
//! because it numbers ids in the order in which it meets them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use lathe_testkit::{Finished, LoggedRequest, NumberedNormaliser, Running, Script, TestContext};
use rustix::process::Signal;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::case::{CaseNames, CaseStep, GoldenCase, HostSignal, LaidOutFiles, TalkStep, holds};

/// Files that are longer than this are listed by their size only.
const SHOWN_BYTES: usize = 16_384;
/// Headers that say nothing that the rest of the request does not.
const LEFT_OUT_HEADERS: [&str; 2] = ["host", "content-length"];

/// Everything that came out of a case, ready to be compared.
#[derive(Debug, Default)]
pub struct PlayedCase {
    /// Name of the recorded file → content.
    pub files: BTreeMap<String, String>,
    pub requests: Vec<SeenRequest>,
}

/// A request as the model saw it.
#[derive(Debug)]
pub struct SeenRequest {
    /// One line, with [`SYSTEM_MARK`] and [`TOOLS_MARK`] in the place of the two long parts.
    pub line: String,
    pub system: Option<String>,
    pub tools: Option<String>,
}

pub const SYSTEM_MARK: &str = "\"\u{1}system\"";
pub const TOOLS_MARK: &str = "\"\u{1}tools\"";

/// Runs the case in `folder`. Panics where the program does not do what a step waits for.
pub fn play(folder: &Path) -> Result<PlayedCase, String> {
    let (case, text) = GoldenCase::load(folder)?;
    let path = folder.join("script.yaml");
    let script = std::fs::read_to_string(&path).map_err(|error| format!("script.yaml: {error}"))?;
    let mut names = CaseNames::default();
    let context = TestContext::with_script_for(|places| {
        names.add("cwd", &places.cwd.display().to_string());
        names.add("home", &places.home.display().to_string());
        Script::parse("script.yaml", &names.fill(&script)).unwrap_or_else(|error| panic!("{error}"))
    });
    let mut context = context.binary(env!("CARGO_BIN_EXE_lathe"));
    for (name, value) in &case.env {
        context = match value.as_str() {
            "" => context.without_env(name),
            value => context.env(name, names.fill(value)),
        };
    }
    spread_times(&lay_out(&context, &names, &case.files));
    case.pipes.iter().for_each(|name| context.make_pipe(name));
    let mut filter = context.normaliser().numbered();
    filter.keep_ids_of(&text);
    filter.keep_ids_of(&script);
    let mut played = PlayedCase::default();
    for (at, step) in case.steps.iter().enumerate() {
        lay_out(&context, &names, &step.files);
        let mut heard = String::new();
        let finished = run(&context, &mut names, &mut heard, step);
        let number = at + 1;
        played.files.insert(format!("{number}.stdout"), filter.text(&finished.stdout));
        played.files.insert(format!("{number}.end"), filter.text(&end_of(&finished)));
        if !heard.is_empty() {
            played.files.insert(format!("{number}.heard"), filter.text(&heard));
        }
    }
    for request in context.server().requests() {
        played.requests.push(seen_request(&request, &mut filter)?);
    }
    add_sessions(&mut played, &context, &mut filter);
    let laid_out = case.files.iter().map(|(path, content)| (path.clone(), names.fill_value(content)));
    let left = files_left(&context, &laid_out.collect(), &mut filter);
    played.files.insert("files.txt".to_owned(), left);
    context.assert_no_survivors();
    match played.files.iter().find(|(_, text)| text.contains("lathe-test-")) {
        Some((name, _)) => Err(format!("{name} holds a path of this run: the filter does not know it")),
        None => Ok(played),
    }
}

/// Writes files; returns those in the working folder, in order.
fn lay_out(context: &TestContext, names: &CaseNames, files: &LaidOutFiles) -> Vec<PathBuf> {
    let mut written = Vec::new();
    for (path, content) in files {
        let content = match names.fill_value(content) {
            Value::String(text) => text,
            other => other.to_string(),
        };
        match path.split_once('/') {
            Some(("work", path)) => written.push(context.write(path, &content)),
            Some(("home", path)) => drop(context.write_home(path, &content)),
            _ => panic!("{path}: files lie in work/ or home/"),
        }
    }
    written
}

/// Searches show the newest file first, and files that are written in one go may be equally new: makes each a
/// minute younger than the one before it.
fn spread_times(files: &[PathBuf]) {
    let mut time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    for path in files {
        let set = std::fs::File::options().write(true).open(path).and_then(|file| file.set_modified(time));
        set.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        time += Duration::from_secs(60);
    }
}

fn run(context: &TestContext, names: &mut CaseNames, heard: &mut String, step: &CaseStep) -> Finished {
    let argv: Vec<String> = step.argv.iter().map(|word| names.fill(word)).collect();
    if step.talk.is_empty() {
        return context.run_with_stdin(&argv, &names.fill(step.stdin.as_deref().unwrap_or_default()));
    }
    let mut host = TalkingHost { context, names, running: context.start(&argv), frame: Value::Null, heard };
    step.talk.iter().for_each(|act| host.act(act));
    if !step.talk.iter().any(|act| matches!(act, TalkStep::Close)) {
        host.running.close_stdin();
    }
    host.running.finish()
}

/// The other end of a conversation.
struct TalkingHost<'a> {
    context: &'a TestContext,
    names: &'a mut CaseNames,
    running: Running,
    /// The frame that was waited for last.
    frame: Value,
    /// What came out of pipes.
    heard: &'a mut String,
}

impl TalkingHost<'_> {
    fn act(&mut self, act: &TalkStep) {
        match act {
            TalkStep::Send(line) => self.running.send(&self.names.fill_value(line)),
            TalkStep::Prompt(text) => {
                let message = json!({"role": "user", "content": self.names.fill(text)});
                self.running.send(&json!({"type": "user", "message": message, "parent_tool_use_id": null}));
            }
            TalkStep::Raw(text) => self.running.write(&self.names.fill(text)),
            TalkStep::Wait(wanted) => {
                let wanted = self.names.fill_value(wanted);
                self.frame = self.running.wait_for(&wanted.to_string(), |frame| holds(frame, &wanted));
            }
            TalkStep::Keep(values) => {
                for (name, pointer) in values {
                    let value = self.frame.pointer(pointer).and_then(Value::as_str);
                    let value = value.unwrap_or_else(|| panic!("no text at {pointer} of {}", self.frame));
                    self.names.add(name, value);
                }
            }
            TalkStep::Answer(answer) => {
                let response = self.names.fill_value(answer);
                self.respond(json!({"subtype": "success", "response": response}));
            }
            TalkStep::Refuse(error) => self.respond(json!({"subtype": "error", "error": error})),
            TalkStep::Requests(count) => {
                let limit = Duration::from_secs(60);
                assert!(self.context.server().wait_for_requests(*count, limit), "no request {count}");
            }
            TalkStep::Feed(pipes) => {
                pipes.iter().for_each(|(name, text)| self.context.feed_pipe(name, text));
            }
            TalkStep::Drain(name) => {
                self.heard.push_str(&format!("{name}: {}\n", self.context.drain_pipe(name).trim_end()));
            }
            TalkStep::Files(files) => drop(lay_out(self.context, self.names, files)),
            TalkStep::Signal(HostSignal::Int) => self.running.signal(Signal::INT),
            TalkStep::Signal(HostSignal::Term) => self.running.signal(Signal::TERM),
            TalkStep::Close => self.running.close_stdin(),
        }
    }

    fn respond(&mut self, mut response: Value) {
        assert_eq!(self.frame["type"], "control_request", "only a control request can be answered");
        response["request_id"] = self.frame["request_id"].clone();
        self.running.send(&json!({"type": "control_response", "response": response}));
    }
}

fn end_of(finished: &Finished) -> String {
    let end = match (finished.code, finished.signal) {
        (Some(code), _) => format!("exit code {code}\n"),
        (None, signal) => format!("signal {signal:?}\n"),
    };
    if finished.stderr.is_empty() { end } else { format!("{end}--- stderr\n{}", finished.stderr) }
}

/// The two parts of a request that are long and nearly always the same.
#[derive(Deserialize)]
struct LongParts<'a> {
    #[serde(borrow)]
    system: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
}

fn seen_request(request: &LoggedRequest, filter: &mut NumberedNormaliser) -> Result<SeenRequest, String> {
    let body = std::str::from_utf8(&request.body).map_err(|error| format!("a request: {error}"))?;
    let mut line = json!({"request": format!("{} {}", request.method, request.target)}).to_string();
    line.truncate(line.len() - "}".len());
    let headers: BTreeMap<&str, &str> = request
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .filter(|(name, _)| !LEFT_OUT_HEADERS.contains(name))
        .collect();
    line.push_str(&format!(",\"headers\":{},\"status\":{}", json!(headers), request.status));
    if body.is_empty() {
        line.push('}');
        return Ok(SeenRequest { line: filter.text(&line), system: None, tools: None });
    }
    let parts: LongParts<'_> = serde_json::from_str(body).map_err(|error| format!("a request: {error}"))?;
    // The parts are slices of the body: everything around them stays byte for byte.
    let mut short = body.to_owned();
    let mut places = [(parts.system, SYSTEM_MARK), (parts.tools, TOOLS_MARK)].map(|(part, mark)| {
        let at = part.map(|part| part.get().as_ptr() as usize - body.as_ptr() as usize);
        at.map(|at| (at, part.map_or(0, |part| part.get().len()), mark))
    });
    places.sort();
    for (at, length, mark) in places.into_iter().flatten().rev() {
        short.replace_range(at..at + length, mark);
    }
    line.push_str(&format!(",\"body\":{}}}", short.replace('\n', " ")));
    let line = filter.text(&line);
    let part =
        |part: Option<&RawValue>, filter: &mut NumberedNormaliser| part.map(|part| filter.text(part.get()));
    Ok(SeenRequest { line, system: part(parts.system, filter), tools: part(parts.tools, filter) })
}

fn add_sessions(played: &mut PlayedCase, context: &TestContext, filter: &mut NumberedNormaliser) {
    let projects = context.home().join(".claude/projects");
    let mut sessions = Vec::new();
    for path in walk(&projects).into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "jsonl"))
    {
        let place = path.strip_prefix(&projects).expect("it was found below").display().to_string();
        sessions.push((filter.text(&place), path));
    }
    sessions.sort();
    for (place, path) in sessions {
        let name: String = place
            .trim_start_matches("<project>/")
            .replace('/', "_")
            .chars()
            .filter(|letter| !matches!(letter, '<' | '>'))
            .collect();
        let text = String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
        played.files.insert(format!("session-{name}"), filter.text(&text));
    }
}

/// What the working folder and the home hold: names, and the contents of what the case did not lay out.
fn files_left(context: &TestContext, laid_out: &LaidOutFiles, filter: &mut NumberedNormaliser) -> String {
    let mut entries = Vec::new();
    for (root, base) in [("work", context.cwd()), ("home", context.home())] {
        for path in walk(base) {
            let place = format!("{root}/{}", path.strip_prefix(base).expect("it was found below").display());
            let bytes = std::fs::read(&path).unwrap_or_default();
            let as_it_was = laid_out.get(&place).is_some_and(|content| match content {
                Value::String(text) => text.as_bytes() == bytes,
                other => other.to_string().as_bytes() == bytes,
            });
            let content = match String::from_utf8(bytes) {
                _ if as_it_was => " (as it was)\n".to_owned(),
                Ok(_) if path.extension().is_some_and(|ext| ext == "jsonl") => "\n".to_owned(),
                Ok(text) if text.len() <= SHOWN_BYTES => {
                    let lines: String = text.lines().map(|line| format!("    {line}\n")).collect();
                    format!("\n{}", filter.text(&lines))
                }
                Ok(text) => format!(" ({} bytes)\n", text.len()),
                Err(error) => format!(" ({} bytes, no text)\n", error.as_bytes().len()),
            };
            entries.push(format!("{}{content}", filter.text(&place)));
        }
    }
    entries.sort();
    entries.concat()
}

/// Every ordinary file below a folder, in a fixed order.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                Ok(_) | Err(_) => {}
            }
        }
    }
    found.sort();
    found
}
