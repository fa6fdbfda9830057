//! Results of tools are held to their limits: what the host, the model and the session file get of them is small, and
//! what is left out is in a file of the session, or said to be nowhere.
#![allow(clippy::disallowed_methods, reason = "one test starts itself again below a limit of the shell")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use common::hooked::{command, on};
use common::{Heard, Setup, Talk, line, of_type, prompt};
use futures_util::future::BoxFuture;
use lathe_agent::AgentJournal;
use lathe_agent::{PromptSurface, SessionConfig};
use lathe_protocol::{CallSubject, PermissionMode};
use lathe_tools::{Content, Limits, ResultLimits, TextLimit, Tool, ToolContext, ToolFailure, ToolOutput};
use lathe_transcript::record::Envelope;
use lathe_transcript::{Durability, TranscriptWriter};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

/// Bytes that a bounded result may have on its way out: the default limit of a value, and what is around it.
const SMALL: usize = 128 << 10;

const MIB: usize = 1 << 20;

type Made = Result<ToolOutput, ToolFailure>;

/// Returns what it was made with.
struct Big {
    made: Made,
    limits: ResultLimits,
}

impl Tool for Big {
    fn name(&self) -> &str {
        "Big"
    }

    fn description(&self) -> &str {
        "returns much"
    }

    fn input_schema(&self) -> &Value {
        static SCHEMA: LazyLock<Value> = LazyLock::new(|| json!({"type": "object"}));
        &SCHEMA
    }

    fn subject(&self, _input: &Value) -> CallSubject {
        CallSubject::Unknown
    }

    fn result_limits(&self, _limits: &Limits) -> ResultLimits {
        self.limits
    }

    fn call<'a>(&'a self, _input: &'a Value, _context: &'a ToolContext) -> BoxFuture<'a, Made> {
        Box::pin(async { self.made.clone() })
    }
}

/// A session that calls Big as often as there are ids, once an answer.
struct World {
    folder: TempDir,
    ids: Vec<&'static str>,
    big: Big,
    hooks: Value,
}

/// What went out of a session.
struct Out {
    world: World,
    /// The frame with each result.
    frames: Vec<Value>,
    /// The conversation as the last request sent it.
    request: String,
    /// The session file.
    transcript: String,
}

fn text(text: String) -> Made {
    let result = json!(text);
    Ok(ToolOutput::new(Content::Text(text), result))
}

fn blocks(blocks: Vec<Value>) -> Made {
    let result = json!(blocks);
    Ok(ToolOutput::new(Content::Blocks(blocks), result))
}

fn image(bytes: usize) -> Value {
    let data = "A".repeat(bytes);
    json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}})
}

impl World {
    fn new(made: Made) -> Self {
        let big = Big { made, limits: ResultLimits::default() };
        Self { folder: tempdir().unwrap(), ids: vec!["toolu_big"], big, hooks: json!({}) }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    fn outputs(&self) -> PathBuf {
        self.root().join(".outputs")
    }

    fn config(&mut self, heard: &Heard, change: impl FnOnce(&mut Setup)) -> SessionConfig {
        let call = |id: &&str| json!({"tools": [{"name": "Big", "id": id, "input": {}}]});
        let mut turns: Vec<Value> = self.ids.iter().map(call).collect();
        turns.push(json!({"text": "done"}));
        // Ids that no API would give, and pictures that are none.
        let mut setup = Setup::new(json!({"turns": turns, "lax": true}), self.folder.path());
        setup.heard = heard.clone();
        setup.hooks = self.hooks.clone();
        let writer =
            TranscriptWriter::create(&self.root().join("s.jsonl"), Durability::ProcessCrash).unwrap();
        setup.journal = Some(AgentJournal::new(writer, Envelope::default()));
        change(&mut setup);
        let mut config = setup.config();
        let unused = Big { made: Err(ToolFailure::Interrupted), limits: ResultLimits::default() };
        config.main.tools = config.main.tools.with(Arc::new(std::mem::replace(&mut self.big, unused)));
        config
    }

    async fn run(mut self) -> Out {
        let heard = Heard::default();
        let config = self.config(&heard, |_| {});
        let (frames, end) = common::run_config(config, &["go"]).await;
        assert!(!end.last_was_error, "{}", json!(frames.last()));
        let frames: Vec<Value> =
            of_type(&frames, "user").into_iter().filter(|frame| !block(frame).is_null()).cloned().collect();
        assert_eq!(frames.len(), self.ids.len());
        let request = heard.lock().unwrap().last().unwrap().clone();
        let transcript = fs::read_to_string(self.root().join("s.jsonl")).unwrap();
        Out { frames, request, transcript, world: self }
    }
}

/// The `tool_result` block of a frame.
fn block(frame: &Value) -> &Value {
    let block = &frame["message"]["content"][0];
    if block["type"] == "tool_result" { block } else { &Value::Null }
}

impl Out {
    fn assert_small(&self) -> &Self {
        let sizes = [json!(self.frames).to_string().len(), self.request.len(), self.transcript.len()];
        assert!(sizes.iter().all(|size| *size < SMALL * self.frames.len()), "{sizes:?}");
        self
    }

    /// What the model reads, as one text. The host, the request and the session file have the same.
    fn content(&self) -> String {
        let content = &block(&self.frames[0])["content"];
        let as_json = content.to_string();
        assert!(self.request.contains(&as_json) && self.transcript.contains(&as_json), "{as_json}");
        content.as_str().map_or_else(|| content[0]["text"].as_str().unwrap().to_owned(), str::to_owned)
    }

    fn value(&self) -> &Value {
        &self.frames[0]["tool_use_result"]
    }

    fn files(&self) -> Vec<String> {
        names(&self.world.outputs())
    }

    fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.world.outputs().join(name)).unwrap()
    }
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Lines of that many bytes together.
fn lines_of(bytes: usize) -> String {
    let lines: String = (1..=1000).map(|number| format!("line {number}\n")).collect();
    let mut text = lines.repeat(bytes / lines.len() + 1);
    text.truncate(bytes);
    text
}

#[tokio::test]
async fn fifty_megabytes_of_text_go_to_a_file() {
    let whole = lines_of(50 * MIB);
    let out = World::new(text(whole.clone())).run().await;
    out.assert_small();
    let content = out.content();
    let path = out.world.outputs().join("toolu_big.txt");
    assert!(content.starts_with("<persisted-output>\n") && content.ends_with("\n</persisted-output>"));
    assert!(content.contains("(50MB)") && content.contains(path.to_str().unwrap()), "{content}");
    assert!(content.contains("\nline 1\nline 2\n") && content.len() < 2500, "{content}");
    assert!(block(&out.frames[0]).get("is_error").is_none());
    assert_eq!(*out.value(), json!(content), "the value was the text, and is");
    assert_eq!(out.files(), ["toolu_big.txt"]);
    assert!(out.file("toolu_big.txt") == whole.as_bytes(), "the file has all of it");
}

#[tokio::test]
async fn a_file_takes_64_mebibytes() {
    let out = World::new(text("é".repeat(35 * MIB))).run().await;
    out.assert_small();
    assert!(out.content().contains("(70MB). Its first 64MB are in "), "{}", out.content());
    assert_eq!(out.file("toolu_big.txt").len(), 64 * MIB);
}

#[tokio::test]
async fn text_that_is_json_is_kept_as_json() {
    let whole = json!({"rows": vec!["some row"; 50_000]}).to_string();
    let out = World::new(text(whole.clone())).run().await;
    out.assert_small().content();
    assert_eq!(out.files(), ["toolu_big.json"]);
    assert_eq!(out.file("toolu_big.json"), whole.as_bytes());
}

#[tokio::test]
async fn a_thousand_blocks_count_together() {
    let mut all = vec![image(1000)];
    all.extend(
        (1..1000).map(|nth| json!({"type": "text", "text": format!("block {nth} {}", "x".repeat(1000))})),
    );
    all.push(image(1000));
    let out = World::new(blocks(all.clone())).run().await;
    out.assert_small();
    let content = &block(&out.frames[0])["content"];
    assert_eq!(content.as_array().unwrap().len(), 2, "the form, and the picture that came first");
    assert!(out.content().contains("toolu_big.json"), "{}", out.content());
    assert!(out.content().contains("\nblock 1 x"), "{}", out.content());
    assert_eq!(content[1], image(1000));
    let saved: Vec<Value> = serde_json::from_slice(&out.file("toolu_big.json")).unwrap();
    assert!(saved == all, "the file has every block");
    assert_eq!(out.value(), content, "the value was the blocks, and is");
}

#[tokio::test]
async fn blocks_without_text_count_too() {
    let out = World::new(blocks(vec![json!({"type": "text", "text": ""}); 100_000])).run().await;
    out.assert_small();
    assert!(out.content().starts_with("<persisted-output>\n"));
}

#[tokio::test]
async fn a_picture_that_no_request_can_carry_becomes_a_text() {
    let small = json!({"type": "text", "text": "a picture:"});
    let value = json!({"type": "image", "file": {"base64": "A".repeat(20 * MIB), "type": "image/png"}});
    let content = vec![small.clone(), image(20 * MIB), image(10)];
    let made = ToolOutput::new(Content::Blocks(content), value.clone());
    let out = World::new(Ok(made)).run().await;
    out.assert_small().content();
    let content = block(&out.frames[0])["content"].as_array().unwrap();
    assert_eq!((&content[0], &content[2]), (&small, &image(10)), "the others are as they were");
    let said = content[1]["text"].as_str().unwrap();
    assert!(["image/png", "20MB", "5MB"].iter().all(|fact| said.contains(fact)), "{said}");
    assert_eq!(out.value()["file"]["type"], "image/png");
    assert!(serde_json::from_slice::<Value>(&out.file("toolu_big-result.json")).unwrap() == value);
    // At the limit it is shown.
    let out = World::new(blocks(vec![image(5 * MIB)])).run().await;
    assert!(block(&out.frames[0])["content"][0] == image(5 * MIB));
    assert!(out.value()[0] == image(5 * MIB), "for programs, too");
}

#[tokio::test]
async fn pictures_and_documents_count_together() {
    let document = |bytes| {
        let data = "A".repeat(bytes);
        json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}})
    };
    let out = World::new(blocks(vec![image(4 * MIB); 8])).run().await;
    assert_eq!(block(&out.frames[0])["content"].as_array().unwrap().len(), 2, "form and one picture");
    assert!(out.request.len() < 5 * MIB);
    let out = World::new(blocks(vec![document(29 * MIB)])).run().await;
    out.assert_small();
    assert!(out.content().contains("application/pdf, 29MB"), "{}", out.content());
}

#[tokio::test]
async fn a_long_error_shows_both_its_ends() {
    for failed in [ToolFailure::Failed, ToolFailure::Rejected] {
        let whole = format!("it began{}and ended", lines_of(50 * MIB));
        let out = World::new(Err(failed(whole.clone()))).run().await;
        out.assert_small();
        let content = out.content();
        assert_eq!(block(&out.frames[0])["is_error"], true);
        assert!(content.contains("it began") && content.contains("and ended"), "{content}");
        assert!(content.contains("toolu_big.txt"), "{content}");
        assert!(content.len() < 11_000, "{}", content.len());
        assert!(out.value().as_str().unwrap().starts_with("Error: it began"));
        assert!(out.file("toolu_big.txt") == whole.as_bytes());
    }
}

#[tokio::test]
async fn a_large_value_keeps_its_shape() {
    let value = json!({
        "stdout": lines_of(30 * MIB), "code": 0, "interrupted": false,
        "rows": (0..100_000).map(|nth| json!({"nth": nth, "name": "x".repeat(50)})).collect::<Vec<_>>(),
    });
    let made =
        ToolOutput { is_error: Some(false), ..ToolOutput::new(Content::Text("short".into()), value.clone()) };
    let out = World::new(Ok(made)).run().await;
    out.assert_small();
    assert_eq!(out.content(), "short");
    let bounded = out.value();
    let keys: Vec<&String> = bounded.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["stdout", "code", "interrupted", "rows", "persistedOutputPath", "persistedOutputSize"]);
    assert_eq!((&bounded["code"], &bounded["interrupted"]), (&json!(0), &json!(false)));
    assert!(bounded["stdout"].as_str().unwrap().starts_with("line 1\n"));
    assert!(bounded["stdout"].as_str().unwrap().ends_with("left out here]"), "{bounded}");
    assert_eq!(bounded["rows"][0], value["rows"][0]);
    let saved = fs::read(bounded["persistedOutputPath"].as_str().unwrap()).unwrap();
    assert_eq!(bounded["persistedOutputSize"], saved.len());
    assert!(serde_json::from_slice::<Value>(&saved).unwrap() == value);
}

#[tokio::test]
async fn no_value_is_too_odd_to_be_bounded() {
    let mut deep = json!("x".repeat(300_000));
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let many: serde_json::Map<String, Value> =
        (0..200_000).map(|nth| (format!("{nth} {}", "k".repeat(100)), json!(nth))).collect();
    let wide: Vec<Value> = vec![json!(vec![vec![vec!["abcdefgh"; 100]; 100]; 100]); 2];
    for value in [deep, Value::Object(many), json!(wide), json!(vec![1; 500_000])] {
        let made = ToolOutput::new(Content::Text("short".into()), value);
        let out = World::new(Ok(made)).run().await;
        out.assert_small();
        assert!(out.value().to_string().contains("toolu_big-result.json"), "{}", out.value());
    }
}

#[tokio::test]
async fn a_result_within_its_limits_is_as_the_tool_made_it() {
    let exact = "é".repeat(100_000);
    let out = World::new(text(exact.clone())).run().await;
    assert!(out.content() == exact && *out.value() == json!(exact));
    assert_eq!(out.files(), [""; 0]);
    let out = World::new(text(exact + "é")).run().await;
    assert!(out.content().starts_with("<persisted-output>\n"));
}

#[tokio::test]
async fn what_bash_adds_to_an_output_at_its_limit_does_not_send_it_to_a_file() {
    let folder = tempdir().unwrap();
    let bash = json!({"name": "Bash", "input": {"command": "cd /; printf '%030000d' 0"}});
    let setup = Setup::new(json!({"turns": [{"tools": [bash]}, {"text": "done"}]}), folder.path());
    let (frames, _) = common::run(setup, &["go"]).await;
    let frame = of_type(&frames, "user").into_iter().find(|frame| !block(frame).is_null()).unwrap();
    let content = block(frame)["content"].as_str().unwrap();
    assert!(
        content.starts_with(&"0".repeat(30_000)) && content.contains("cwd was reset"),
        "{}",
        content.len()
    );
    assert_eq!(frame["tool_use_result"]["stdout"], json!("0".repeat(30_000)));
    assert_eq!(names(&folder.path().join(".outputs")), [""; 0]);
}

#[tokio::test]
async fn a_tool_may_state_its_limit_in_tokens() {
    for (bytes, whole) in [(100_000, true), (100_001, false)] {
        let mut world = World::new(text("x".repeat(bytes)));
        world.big.limits.text = TextLimit::Tokens(25_000);
        assert_eq!(world.run().await.content().len() == bytes, whole, "{bytes}");
    }
    let mut world = World::new(blocks(vec![image(10); 20]));
    world.big.limits.text = TextLimit::Tokens(25_000);
    let out = world.run().await;
    assert!(out.content().starts_with("<persisted-output>\n"), "pictures cost tokens, too");
}

#[tokio::test]
async fn an_id_names_a_file_in_the_folder_and_no_other_call_s() {
    let mut world = World::new(text(lines_of(MIB)));
    world.ids = vec!["../../x", "../../x", "/etc/x", "..", ""];
    fs::create_dir(world.outputs()).unwrap();
    fs::write(world.outputs().join("x.txt"), "of somebody else").unwrap();
    let out = world.run().await;
    out.assert_small();
    assert_eq!(out.files(), ["call-2.txt", "call.txt", "etcx.txt", "x-2.txt", "x-3.txt", "x.txt"]);
    assert_eq!(out.file("x.txt"), b"of somebody else");
    for name in ["call-2.txt", "call.txt", "etcx.txt", "x-2.txt", "x-3.txt"] {
        assert_eq!(out.file(name).len(), MIB, "{name}");
    }
    assert!(!out.world.root().parent().unwrap().join("x.txt").exists());
}

fn assert_says_it_was_not_kept(out: &Out, why: &str) {
    out.assert_small();
    let content = out.content();
    assert!(content.starts_with("line 1\n") && content.ends_with("the end"), "{content}");
    assert!(content.contains("could not be kept in a file") && content.contains(why), "{content}");
    let value = out.value();
    assert_eq!(value.get("persistedOutputPath"), None);
    assert!(value["persistedOutputError"].as_str().unwrap().contains(why), "{value}");
}

fn for_refusing_disks() -> World {
    let whole = lines_of(MIB) + "the end";
    let result = json!({"stdout": whole});
    let limits = ResultLimits::of_text(30_000);
    let made = Ok(ToolOutput::new(Content::Text(whole), result));
    World { big: Big { made, limits }, ..World::new(text(String::new())) }
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_to_costs_the_file_only() {
    let world = for_refusing_disks();
    fs::write(world.outputs(), "a file where the folder should be").unwrap();
    assert_says_it_was_not_kept(&world.run().await, ".outputs");
    let world = World {
        big: Big { made: Err(ToolFailure::Failed(lines_of(MIB))), ..for_refusing_disks().big },
        ..for_refusing_disks()
    };
    fs::write(world.outputs(), "a file where the folder should be").unwrap();
    let out = world.run().await;
    assert!(out.assert_small().content().contains("could not be kept in a file"));
}

/// The same on a disk that is full: this test again, below a limit on the size of files.
#[test]
fn a_full_disk_costs_the_file_only() {
    const BELOW_LIMIT: &str = "LATHE_TEST_FILES_ARE_LIMITED";
    if std::env::var_os(BELOW_LIMIT).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let out = runtime.block_on(for_refusing_disks().run());
        assert_says_it_was_not_kept(&out, "File too large");
        assert_eq!(out.files(), [""; 0], "half a file is taken away");
        return;
    }
    let done = std::process::Command::new("sh")
        .args(["-c", r#"trap '' XFSZ; ulimit -f 400; exec "$0" "$@""#])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "a_full_disk_costs_the_file_only"])
        .env(BELOW_LIMIT, "yes")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
async fn the_lines_of_a_large_change_are_all_counted() {
    let mut world = World::new(text(String::new()));
    let content = "a line that is not there yet\n".repeat(50_000);
    let input = json!({"file_path": world.root().join("new.txt"), "content": content});
    let script = json!({"turns": [{"tools": [{"name": "Write", "input": input}]}, {"text": "done"}]});
    let config = world.config(&Heard::default(), |setup| {
        setup.script = lathe_scripted::Script::parse("test.json", &script.to_string()).unwrap();
    });
    let (frames, _) = common::run_config(config, &["go"]).await;
    let frame = of_type(&frames, "user").into_iter().find(|frame| !block(frame).is_null()).unwrap();
    assert!(frame["tool_use_result"]["persistedOutputPath"].is_string(), "the value was cut");
    let transcript = fs::read_to_string(world.root().join("s.jsonl")).unwrap();
    assert!(transcript.contains("\"totalLinesAdded\":50000"), "{}", transcript.lines().last().unwrap());
}

#[tokio::test]
async fn hooks_are_told_the_bounded_result_and_what_they_write_is_bounded() {
    let mut world = World::new(text(lines_of(MIB)));
    world.hooks = on("PostToolUse", command("cat > told"));
    let out = world.run().await;
    let told: Value = serde_json::from_slice(&fs::read(out.world.root().join("told")).unwrap()).unwrap();
    assert_eq!(told["tool_response"], *out.value());
    assert_eq!(told["tool_response"], json!(out.content()), "hooks see what everything behind them sees");
    let mut world = World::new(text("short".to_owned()));
    let long = "y".repeat(500_000);
    let answer = json!({"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": long}});
    fs::write(world.root().join("answer"), answer.to_string()).unwrap();
    world.hooks = on("PostToolUse", command("cat answer"));
    let out = world.run().await;
    out.assert_small();
    assert!(out.content().starts_with("<persisted-output>\n"), "{}", out.content());
    assert_eq!(out.file("toolu_big.txt").len(), 500_000);
}

#[tokio::test]
async fn a_refusal_is_bounded_as_well() {
    let mut world = World::new(text("never".to_owned()));
    let heard = Heard::default();
    let config = world.config(&heard, |setup| {
        setup.mode = PermissionMode::Default;
        setup.surface = PromptSurface::Host;
    });
    let mut talk = Talk::start_config(config);
    talk.send(prompt("go")).await;
    let asked = talk.until(|frame| frame["request"]["subtype"] == "can_use_tool").await;
    let response = json!({"behavior": "deny", "message": format!("no, {}never", lines_of(MIB))});
    let answer = json!({"subtype": "success", "request_id": asked["request_id"], "response": response});
    talk.send(line(json!({"type": "control_response", "response": answer}))).await;
    let frame = talk.until(|frame| !block(frame).is_null()).await;
    let content = block(&frame)["content"].as_str().unwrap();
    assert!(content.contains("no, line 1\n") && content.contains("never"), "{content}");
    assert!(frame.to_string().len() < SMALL, "{}", frame.to_string().len());
    talk.finish().await;
    let request = heard.lock().unwrap().last().unwrap().clone();
    assert!(request.len() < SMALL && request.contains("toolu_big.txt"));
}
