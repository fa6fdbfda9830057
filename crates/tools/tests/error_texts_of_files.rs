//! Each error of the tools besides Bash and Read that programs and models know by its text, as a case with a name. The
//! texts are as far as they are fixed; what only a session can bring about is named where its test is.

#![allow(clippy::disallowed_methods, reason = "tests work on real files")]

mod support;

use std::sync::Arc;

use lathe_tools::{ReadBeforeEdit, WebLimits, WebState};
use serde_json::{Value, json};
use support::Folder;
use support::table::{case, check, failed, invalid, missing, rejected, unexpected};

const NOT_READ: &str = "File has not been read yet.";
const MODIFIED: &str = "File has been modified since it was read";
const NOT_THERE: &str = "File does not exist. Note: your current working directory is ROOT.";

/// A folder in which files must be read before they are changed.
fn strict() -> Folder {
    Folder::with(|workspace| workspace.limits.read_before_edit = ReadBeforeEdit::Required)
}

/// How the issue about a size begins.
fn size(origin: &str, code: &str) -> String {
    format!("[\n  {{\n    \"origin\": \"{origin}\",\n    \"code\": \"{code}\"")
}

async fn read(folder: &Folder, path: &str) {
    folder.call("Read", json!({ "file_path": path })).await.ok();
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({ "file_path": path, "old_string": old, "new_string": new })
}

/// The errors of Edit that do not depend on what has been read. The test
/// `headless_verdicts_and_reasons_are_those_of_the_reference` of `lathe-permissions` covers a path that a rule closes for reading.
#[tokio::test]
async fn edit_of_what_cannot_be_edited() {
    let prepare = async |folder: &Folder| {
        folder.write("a.txt", "one two two\n");
        folder.write("a.ipynb", "{}");
        folder.write("sub/file", "");
    };
    let cases = vec![
        rejected(
            "same strings",
            edit("a.txt", "one", "one"),
            "No changes to make: old_string and new_string are exactly the same.",
        ),
        rejected("same strings in a missing notebook", edit("no.ipynb", "x", "x"), "No changes to make"),
        rejected(
            "notebook",
            edit("a.ipynb", "x", "y"),
            "File is a Jupyter Notebook. Use the NotebookEdit to edit this file.",
        ),
        rejected("missing notebook", edit("no.IPYNB", "x", "y"), "File is a Jupyter Notebook."),
        rejected("missing file", edit("nope", "x", "y"), NOT_THERE),
        rejected("missing folder", edit("no/nope", "x", "y"), NOT_THERE),
        rejected(
            "new file that exists",
            edit("a.txt", "", "x"),
            "Cannot create new file - file already exists.",
        ),
        case(
            "directory",
            edit("sub", "x", "y"),
            "<tool_use_error>Error calling tool (Edit): EISDIR",
            "Error calling tool (Edit): EISDIR",
        ),
        rejected("not found", edit("a.txt", "zzz", "y"), "String to replace not found in file.\nString: zzz"),
        rejected(
            "several matches",
            edit("a.txt", "two", "2"),
            "Found 2 matches of the string to replace, but replace_all is false.",
        )
        .ending("String: two"),
        invalid("no path", json!({ "old_string": "a", "new_string": "b" }), &missing("Edit", "file_path")),
        invalid(
            "an unknown parameter",
            json!({ "file_path": "a.txt", "old_string": "a", "new_string": "b", "all": true }),
            &unexpected("Edit", "all"),
        ),
    ];
    check("Edit", Folder::new, prepare, cases).await;
}

#[tokio::test]
async fn edit_of_what_was_not_read() {
    let unread = async |folder: &Folder| drop(folder.write("a.txt", "one\n"));
    check("Edit", strict, unread, vec![rejected("unread", edit("a.txt", "one", "1"), NOT_READ)]).await;
    let changed = async |folder: &Folder| {
        folder.write("a.txt", "one\n");
        read(folder, "a.txt").await;
        folder.write("a.txt", "two two\n");
    };
    let all = json!({ "file_path": "a.txt", "old_string": "two", "new_string": "2", "replace_all": true });
    let cases = vec![
        rejected("changed, and the string is gone", edit("a.txt", "one", "1"), MODIFIED),
        rejected("changed, and the string is there twice", edit("a.txt", "two", "2"), MODIFIED),
        rejected("changed, and all are to be replaced", all, MODIFIED),
    ];
    check("Edit", strict, changed, cases).await;
}

#[tokio::test]
async fn multi_edit() {
    let edits = |path: &str, edits: Value| json!({ "file_path": path, "edits": edits });
    let one = |old: &str, new: &str| json!({ "old_string": old, "new_string": new });
    let prepare = async |folder: &Folder| {
        folder.write("a.txt", "one two two\n");
        folder.write("sub/file", "");
    };
    let cases = vec![
        rejected("same strings", edits("a.txt", json!([one("a", "a")])), "No changes to make"),
        rejected("notebook", edits("a.ipynb", json!([one("a", "b")])), "File is a Jupyter Notebook."),
        rejected("missing file", edits("nope", json!([one("a", "b")])), NOT_THERE),
        rejected(
            "new file that exists",
            edits("a.txt", json!([one("", "x")])),
            "Cannot create new file - file already exists.",
        ),
        rejected(
            "second edit creates",
            edits("a.txt", json!([one("one", "1"), one("", "x")])),
            "Only the first",
        ),
        rejected(
            "not found",
            edits("a.txt", json!([one("zzz", "x")])),
            "String to replace not found in file.\nString: zzz",
        ),
        rejected(
            "not found any more",
            edits("a.txt", json!([one("one", "1"), one("one", "2")])),
            "Edit 2 of 2: String to replace not found in file.\nString: one",
        ),
        rejected(
            "several matches",
            edits("a.txt", json!([one("one", "1"), one("two", "2")])),
            "Edit 2 of 2: Found 2 matches of the string to replace, but replace_all is false.",
        ),
        invalid("no edits", edits("a.txt", json!([])), &size("array", "too_small")),
        invalid("edits left out", json!({ "file_path": "a.txt" }), &missing("MultiEdit", "edits")),
    ];
    check("MultiEdit", Folder::new, prepare, cases).await;
    let unread = vec![rejected("unread", edits("a.txt", json!([one("one", "1")])), NOT_READ)];
    check("MultiEdit", strict, prepare, unread).await;
}

#[tokio::test]
async fn write() {
    let write = |path: &str| json!({ "file_path": path, "content": "new" });
    let prepare = async |folder: &Folder| {
        folder.write("a.txt", "one\n");
        folder.write("a.ipynb", r#"{"cells":[]}"#);
        folder.write("sub/file", "");
        folder.write("part.txt", "1\n2\n3\n");
        folder.call("Read", json!({ "file_path": "part.txt", "limit": 1 })).await.ok();
        folder.write("changed.txt", "one\n");
        read(folder, "changed.txt").await;
        folder.write("changed.txt", "two\n");
    };
    let always = || {
        vec![
            rejected("directory", write("sub"), "sub is a directory, not a file."),
            rejected("unread notebook", write("a.ipynb"), NOT_READ),
            rejected("read in part", write("part.txt"), "File has only been read in part."),
            rejected("changed", write("changed.txt"), MODIFIED),
            failed("a file in the place of a folder", write("a.txt/b"), "ENOTDIR: not a directory, "),
            invalid("no content", json!({ "file_path": "a.txt" }), &missing("Write", "content")),
            invalid(
                "an unknown parameter",
                json!({ "file_path": "a.txt", "content": "", "mode": 1 }),
                &unexpected("Write", "mode"),
            ),
        ]
    };
    check("Write", Folder::new, prepare, always()).await;
    check("Write", strict, prepare, always()).await;
    check("Write", strict, prepare, vec![rejected("unread", write("a.txt"), NOT_READ)]).await;
}

#[tokio::test]
async fn notebook_edit() {
    let cell = |path: &str, more: Value| {
        let mut input = json!({ "notebook_path": path, "new_source": "x" });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    };
    let notebook =
        r#"{"cells":[{"cell_type":"code","id":"a","source":"1"}],"nbformat":4,"nbformat_minor":5}"#;
    let prepare = async |folder: &Folder| {
        for name in ["read", "unread", "changed", "gone"] {
            folder.write(&format!("{name}.ipynb"), notebook);
        }
        for name in ["read", "changed", "gone"] {
            read(folder, &format!("{name}.ipynb")).await;
        }
        folder.write("changed.ipynb", "{}");
        std::fs::remove_file(folder.path("gone.ipynb")).unwrap();
        for (name, content) in [("no_json.ipynb", "{"), ("no_cells.ipynb", "{}")] {
            folder.call("Write", json!({ "file_path": name, "content": content })).await.ok();
        }
    };
    let a = json!({ "cell_id": "a" });
    let cases = vec![
        rejected("no notebook", cell("a.txt", a.clone()), "File must be a Jupyter notebook (.ipynb file)."),
        rejected("unread", cell("unread.ipynb", a.clone()), NOT_READ),
        rejected("missing and unread", cell("nope.ipynb", a.clone()), NOT_READ),
        rejected("removed since it was read", cell("gone.ipynb", a.clone()), NOT_THERE),
        rejected("changed", cell("changed.ipynb", a.clone()), MODIFIED),
        rejected(
            "unknown cell",
            cell("read.ipynb", json!({ "cell_id": "zz" })),
            "Cell with ID \"zz\" not found in notebook.",
        ),
        rejected(
            "insertion without a type",
            cell("read.ipynb", json!({ "edit_mode": "insert" })),
            "Cell type is required when using edit_mode=insert.",
        ),
        rejected("replacement of no cell", cell("read.ipynb", json!({})), "Cell ID must be specified"),
        rejected(
            "deletion of no cell",
            cell("read.ipynb", json!({ "edit_mode": "delete" })),
            "Cell ID must be specified",
        ),
        rejected("no JSON", cell("no_json.ipynb", a.clone()), "Notebook is not valid JSON: "),
        rejected("no cells", cell("no_cells.ipynb", a), "Notebook has no list of cells."),
        invalid(
            "unknown type",
            cell("read.ipynb", json!({ "cell_type": "raw" })),
            "[\n  {\n    \"code\": \"invalid_value\"",
        ),
        invalid("no source", json!({ "notebook_path": "a.ipynb" }), &missing("NotebookEdit", "new_source")),
    ];
    check("NotebookEdit", Folder::new, prepare, cases).await;
}

async fn search_prepared(folder: &Folder) {
    folder.write("file", "text\n");
}

#[tokio::test]
async fn glob() {
    let at = |path: &str| json!({ "pattern": "*", "path": path });
    let cases = vec![
        rejected("missing directory", at("nope"), "Directory does not exist: nope"),
        rejected("file", at("file"), "Path is not a directory: file"),
        rejected("process files", at("/proc"), "Cannot search '/proc'"),
        failed("bad pattern", json!({ "pattern": "a{b" }), "Invalid glob: "),
        invalid("no pattern", json!({}), &missing("Glob", "pattern")),
    ];
    check("Glob", Folder::new, search_prepared, cases).await;
}

#[tokio::test]
async fn grep() {
    let with = |name: &str, value: &str| {
        let mut input = json!({ "pattern": "x" });
        input[name] = json!(value);
        input
    };
    let cases = vec![
        rejected("missing path", with("path", "nope"), "Path does not exist: nope"),
        rejected("process files", with("path", "/proc"), "Cannot search '/proc'"),
        failed("bad pattern", with("pattern", "a("), "regex parse error:").ending("error: unclosed group"),
        failed("line end without multiline", with("pattern", "a\\nb"), "the literal \"\\n\" is not allowed")
            .ending("Set multiline: true to match across lines."),
        failed("unknown type", with("type", "klingon"), "unrecognized file type: klingon"),
        failed("bad glob", with("glob", "["), "error parsing glob '['"),
        invalid("unknown mode", with("output_mode", "lines"), "[\n  {\n    \"code\": \"invalid_value\""),
        invalid("no pattern", json!({}), &missing("Grep", "pattern")),
    ];
    check("Grep", Folder::new, search_prepared, cases).await;
}

/// These are told in words, and are no errors.
#[tokio::test]
async fn nothing_found() {
    let folder = Folder::new();
    search_prepared(&folder).await;
    let glob = folder.call("Glob", json!({ "pattern": "*.zzz" })).await.ok();
    assert_eq!((glob.text(), &glob.result["numFiles"]), ("No files found", &json!(0)), "Glob");
    for (mode, text) in [
        ("files_with_matches", "No files found"),
        ("content", "No matches found"),
        ("count", "No matches found\n\nFound 0 total occurrences across 0 files."),
    ] {
        let seen = folder.call("Grep", json!({ "pattern": "zzz", "output_mode": mode })).await.ok();
        assert_eq!((seen.text(), &seen.result["numFiles"]), (text, &json!(0)), "{mode}");
        assert_eq!(seen.result["mode"], mode);
    }
}

/// The test `the_model_waits_for_a_task_and_stops_another` of the program covers both in a session.
#[tokio::test]
async fn task_stop() {
    const NONE: &str = "Missing required parameter: task_id";
    let cases = vec![
        rejected("no id", json!({}), NONE),
        rejected("empty id", json!({ "task_id": "" }), NONE),
        rejected("unknown id", json!({ "task_id": "b1" }), "No task found with ID: b1"),
        rejected("unknown id by its former name", json!({ "shell_id": "b2" }), "No task found with ID: b2"),
        invalid("an unknown parameter", json!({ "id": "b1" }), &unexpected("TaskStop", "id")),
    ];
    check("TaskStop", Folder::new, async |_| {}, cases).await;
    let cases = vec![
        rejected("unknown id", json!({ "shell_id": "b1" }), "No task found with ID: b1"),
        invalid("no id", json!({}), &missing("KillShell", "shell_id")),
    ];
    check("KillShell", Folder::new, async |_| {}, cases).await;
}

/// The test `jobs_are_made_listed_removed_and_refused` of `lathe-agent` covers a job that no date fits.
#[tokio::test]
async fn cron() {
    let job = |cron: &str, prompt: &str| json!({ "cron": cron, "prompt": prompt });
    let bad = |cron: &str| format!("Invalid cron expression '{cron}'. Expected 5 fields: M H DoM Mon DoW.");
    let cases = vec![
        rejected("no expression", job("bad", "x"), &bad("bad")),
        rejected("empty expression", job("", "x"), &bad("")),
        rejected("six fields", job("0 0 1 1 * *", "x"), &bad("0 0 1 1 * *")),
        rejected("minute out of range", job("60 * * * *", "x"), &bad("60 * * * *")),
        rejected("name of a month", job("0 0 1 JAN *", "x"), &bad("0 0 1 JAN *")),
        rejected("empty prompt", job("* * * * *", ""), "The prompt is empty."),
        rejected("long prompt", job("* * * * *", &"x".repeat(2001)), "The prompt has 2001 characters"),
        invalid("no prompt", json!({ "cron": "* * * * *" }), &missing("CronCreate", "prompt")),
    ];
    check("CronCreate", Folder::new, async |_| {}, cases).await;
    let cases = vec![
        rejected("unknown job", json!({ "id": "zzz" }), "No scheduled job with id 'zzz'"),
        invalid("no id", json!({}), &missing("CronDelete", "id")),
    ];
    check("CronDelete", Folder::new, async |_| {}, cases).await;
}

/// The tests `each_way_not_to_enter_has_its_text`, `without_a_repository_or_a_commit_there_is_no_worktree` and
/// `work_is_lost_only_on_purpose` of the program cover what needs a repository.
#[tokio::test]
async fn worktrees() {
    const NONE: &str = "There is no worktree to leave";
    let cases = vec![
        rejected("kept, but there is none", json!({ "action": "keep" }), NONE),
        rejected("removed, but there is none", json!({ "action": "remove" }), NONE),
        rejected(
            "discarded, but there is none",
            json!({ "action": "remove", "discard_changes": true }),
            NONE,
        ),
        invalid("unknown action", json!({ "action": "drop" }), "[\n  {\n    \"code\": \"invalid_value\""),
        invalid("no action", json!({}), &missing("ExitWorktree", "action")),
    ];
    check("ExitWorktree", Folder::new, async |_| {}, cases).await;
    let cases = vec![
        rejected("bad name", json!({ "name": "../out" }), "\"../out\" cannot be the name of a worktree"),
        rejected(
            "name and path",
            json!({ "name": "a", "path": "b" }),
            "Give name, for a new worktree, or path",
        ),
    ];
    check("EnterWorktree", Folder::new, async |_| {}, cases).await;
}

/// The tests in `web.rs` of the program cover what a server answers.
#[tokio::test]
async fn web_fetch() {
    const INTERNAL: &str = " is not fetched: it is on this machine or in its network.";
    let page = |url: &str| json!({ "url": url, "prompt": "what" });
    let refused = |why: &str| format!("The address cannot be fetched: {why}.");
    let cases = vec![
        invalid(
            "no address",
            page("notaurl"),
            "[\n  {\n    \"code\": \"invalid_format\",\n    \"format\": \"url\"",
        ),
        rejected("another scheme", page("file:///etc/passwd"), &refused("it is neither http nor https")),
        rejected(
            "a password",
            page("https://user:word@example.com/"),
            &refused("it holds a user name or a password"),
        ),
        rejected(
            "long address",
            page(&format!("https://example.com/{}", "x".repeat(10_000))),
            &refused("it is too long"),
        ),
        failed("this machine", page("http://localhost/"), &format!("localhost{INTERNAL}")),
        failed("a host without a dot", page("https://intranet/"), &format!("intranet{INTERNAL}")),
        failed("an address of this machine", page("http://127.0.0.1/"), &format!("127.0.0.1{INTERNAL}")),
        invalid(
            "negative offset",
            json!({ "url": "https://example.com/", "prompt": "what", "offset": -1 }),
            &size("number", "too_small"),
        ),
        invalid("no prompt", json!({ "url": "https://example.com/" }), &missing("WebFetch", "prompt")),
    ];
    check("WebFetch", Folder::new, async |_| {}, cases).await;
}

/// The test `an_api_without_a_search_is_named` of the program covers an API that refuses.
#[tokio::test]
async fn web_search() {
    let both = json!({ "query": "rust", "allowed_domains": ["a.com"], "blocked_domains": ["b.com"] });
    let cases = vec![
        invalid("short query", json!({ "query": "x" }), &size("string", "too_small")),
        rejected("both lists of domains", both, "Give allowed_domains or blocked_domains, not both."),
        invalid("no query", json!({}), &missing("WebSearch", "query")),
    ];
    check("WebSearch", Folder::new, async |_| {}, cases).await;
    let used_up = || {
        let limits = WebLimits { max_searches: 0, ..WebLimits::default() };
        Folder::with(|workspace| workspace.web = Arc::new(WebState::new(limits)))
    };
    let cases = vec![failed(
        "all searches made",
        json!({ "query": "rust" }),
        "This session has made its 0 web searches",
    )];
    check("WebSearch", used_up, async |_| {}, cases).await;
}

/// The tests in `asking.rs` of `lathe-agent` cover what the host answers.
#[tokio::test]
async fn questions() {
    let question = |text: &str, labels: &[&str]| {
        let option = |label: &&str| json!({ "label": label, "description": "d" });
        let options: Vec<Value> = labels.iter().map(option).collect();
        json!({ "question": text, "header": "H", "options": options, "multiSelect": false })
    };
    let ask = |questions: Vec<Value>| json!({ "questions": questions });
    let fine = || question("Q", &["A", "B"]);
    let numbered = |count: usize| (0..count).map(|at| question(&at.to_string(), &["A", "B"])).collect();
    let cases = vec![
        rejected("twin questions", ask(vec![fine(), fine()]), "two questions have the same text"),
        rejected(
            "twin options",
            ask(vec![question("Q", &["A", "A"])]),
            "two options of one question have the same label",
        ),
        invalid("no question", ask(vec![]), &size("array", "too_small")),
        invalid("five questions", ask(numbered(5)), &size("array", "too_big")),
        invalid("one option", ask(vec![question("Q", &["A"])]), &size("array", "too_small")),
        invalid(
            "five options",
            ask(vec![question("Q", &["A", "B", "C", "D", "E"])]),
            &size("array", "too_big"),
        ),
        invalid("left out", json!({}), &missing("AskUserQuestion", "questions")),
    ];
    check("AskUserQuestion", Folder::new, async |_| {}, cases).await;
}

/// A plan that the user has changed, and that cannot be kept.
#[tokio::test]
async fn plans() {
    let folder = || Folder::with(|workspace| workspace.plan_file = Some(workspace.root.join("file/plan.md")));
    let text = "the changed plan could not be written to ROOT/file/plan.md: ";
    let cases = vec![failed("a file in the place of the folder", json!({ "plan": "new" }), text)];
    check("ExitPlanMode", folder, search_prepared, cases).await;
}
