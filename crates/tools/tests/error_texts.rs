//! Each error of Bash and Read that programs and models know by its text, as a case with a name. The texts in full are
//! fixed; of the others, the part that is.

#![allow(clippy::disallowed_methods, reason = "tests work on real files")]

mod support;

use serde_json::{Value, json};
use support::Folder;
use support::table::{Case, case, check};

/// A folder in which commands are found.
fn folder() -> Folder {
    Folder::with(|workspace| {
        let variables = vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())];
        let variables = lathe_tools::ChildVariables::unrestricted(variables);
        workspace.env = std::sync::Arc::new(lathe_tools::ChildEnvironment::new(variables));
    })
}

fn command(command: &str) -> Value {
    json!({ "command": command })
}

#[tokio::test]
async fn bash() {
    let cases: Vec<Case> = vec![
        case(
            "non-zero exit",
            command("echo hi; echo err >&2; exit 3"),
            "Exit code 3\nhi\nerr",
            "Error: Exit code 3\nhi\nerr",
        ),
        case("no output", command("exit 4"), "Exit code 4", "Error: Exit code 4"),
        case(
            "command not found",
            command("nosuchcmd"),
            "Exit code 127\n/bin/bash: line 1: nosuchcmd: command not found",
            "Error: Exit code 127\n",
        ),
        case("killed by itself", command("kill -9 $$"), "Exit code 1", "Error: Exit code 1"),
        case(
            "a child that was killed",
            command("bash -c 'kill -9 $$'; exit $?"),
            "Exit code 137",
            "Error: Exit code 137",
        ),
        case(
            "time-out of a command that only waits",
            json!({ "command": "sleep 1000", "timeout": 100 }),
            "Exit code 143\nCommand timed out after 0.1s",
            "Error: Exit code 143\nCommand timed out after 0.1s",
        ),
        case(
            "a folder that is left",
            command("cd /; exit 2"),
            "Exit code 2\nShell cwd was reset to ROOT",
            "Error: Exit code 2\n",
        ),
        case(
            "control characters",
            command("echo \u{1b}[31m"),
            "<tool_use_error>InputValidationError: [\n  {\n    \"code\": \"custom\",\n    \"path\": [\n      \"command\"\n",
            "InputValidationError: [\n",
        ),
        case(
            "no command",
            json!({}),
            "<tool_use_error>InputValidationError: Bash failed due to the following issue:\nThe required parameter `command` is missing",
            "InputValidationError: [\n",
        ),
        case(
            "an unknown parameter",
            json!({ "command": "true", "cmd": 1 }),
            "<tool_use_error>InputValidationError: Bash failed due to the following issue:\nAn unexpected parameter `cmd` was provided",
            "InputValidationError: [\n",
        ),
        case(
            "a parameter of another type",
            json!({ "command": 5 }),
            "<tool_use_error>InputValidationError: ",
            "InputValidationError: [\n",
        ),
    ];
    check("Bash", folder, async |_| {}, cases).await;
}

/// Exit code 1 that is an answer is not an error; any other code of the same program is.
#[tokio::test]
async fn bash_codes_that_are_answers() {
    let folder = folder();
    folder.write("a", "x\n");
    folder.write("b", "y\n");
    folder.call("Bash", command("git init -q . && git add a")).await.ok();
    for (program, line, meaning) in [
        ("grep", "grep zzz a", "No matches found"),
        ("egrep", "egrep zzz a 2>/dev/null", "No matches found"),
        ("fgrep", "fgrep zzz a 2>/dev/null", "No matches found"),
        ("diff", "diff a b", "Files differ"),
        ("test", "test -f nope", "Condition is false"),
        ("[", "[ -f nope ]", "Condition is false"),
        ("git diff", "git diff --no-index a b", "Files differ"),
        ("git grep", "git grep zzz", "No matches found"),
    ] {
        let seen = folder.call("Bash", command(line)).await.ok();
        assert_eq!(seen.result["returnCodeInterpretation"], meaning, "{program}");
    }
    for line in ["grep zzz missing", "diff a missing", "grep zzz a && true; exit 1"] {
        folder.call("Bash", command(line)).await.err();
    }
}

#[tokio::test]
async fn read() {
    let path = |path: &str| json!({ "file_path": path });
    let prepare = async |folder: &Folder| {
        folder.write("large.txt", "x".repeat(300 << 10));
        folder.write("sub/file", "");
        folder.write("data.dat", "text");
        folder.write("nul.txt", b"a\0b");
        folder.write("empty.png", "");
        folder.write("no.png", "no picture");
        folder.write("no.pdf", "no document");
        folder.write("no.ipynb", "{");
        folder.write("eleven.pdf", format!("%PDF-1.4\n{}", "<</Type /Page>>\n".repeat(11)));
        folder.write("one.pdf", "%PDF-1.4\n<</Type /Page>>\n");
    };
    let pages = |pages: &str| json!({ "file_path": "one.pdf", "pages": pages });
    let cases: Vec<Case> = vec![
        case(
            "too large",
            path("large.txt"),
            "File content (300KB) exceeds maximum allowed size (256KB).",
            "Error: File content (300KB) exceeds maximum allowed size (256KB).",
        ),
        case(
            "lines that are too large",
            json!({ "file_path": "large.txt", "offset": 1, "limit": 2 }),
            "The lines asked for exceed maximum allowed size (256KB).",
            "Error: The lines",
        ),
        case("directory", path("sub"), "EISDIR: illegal operation on a directory, read", "Error: EISDIR"),
        case(
            "missing",
            path("nope"),
            "File does not exist. Note: your current working directory is ROOT.",
            "Error: File does not exist.",
        ),
        case("device", path("/dev/zero"), "<tool_use_error>", "Error: "),
        case("process file", path("/proc/self/environ"), "<tool_use_error>", "Error: "),
        case(
            "binary by its name",
            path("data.dat"),
            "<tool_use_error>This tool cannot read binary files. The file appears to be a binary .dat file.",
            "Error: This tool cannot read binary files.",
        ),
        case(
            "binary by its content",
            path("nul.txt"),
            "<tool_use_error>This tool cannot read binary files.",
            "Error: This tool",
        ),
        case(
            "empty picture",
            path("empty.png"),
            "Image file is empty: empty.png",
            "Error: Image file is empty",
        ),
        case("no picture", path("no.png"), "Image cannot be read", "Error: Image cannot be read"),
        case("no notebook", path("no.ipynb"), "Notebook", "Error: "),
        case("no document", path("no.pdf"), "File is not a valid PDF", "Error: File is not a valid PDF"),
        case("too many pages", path("eleven.pdf"), "PDF has 11 pages", "Error: PDF has 11 pages"),
        case(
            "pages that are no range",
            pages("x"),
            "<tool_use_error>Invalid pages parameter: \"x\"",
            "Error: Invalid pages",
        ),
        case(
            "pages out of order",
            pages("3-2"),
            "<tool_use_error>Invalid pages parameter: \"3-2\"",
            "Error: Invalid pages",
        ),
        case(
            "more pages than 20",
            pages("1-21"),
            "<tool_use_error>Invalid pages parameter: \"1-21\"",
            "Error: Invalid pages",
        ),
        case(
            "no path",
            json!({}),
            "<tool_use_error>InputValidationError: Read failed due to the following issue:\nThe required parameter `file_path` is missing",
            "InputValidationError: [\n",
        ),
    ];
    check("Read", folder, prepare, cases).await;
}

/// These are told in words, and are no errors.
#[tokio::test]
async fn read_of_nothing() {
    let folder = Folder::new();
    folder.write("empty", "");
    folder.write("short", "a\nb");
    let empty = folder.call("Read", json!({ "file_path": "empty" })).await.ok();
    assert_eq!(
        empty.text(),
        "<system-reminder>Warning: the file exists but the contents are empty.</system-reminder>"
    );
    let past = folder.call("Read", json!({ "file_path": "short", "offset": 9 })).await.ok();
    assert!(
        past.text().starts_with("<system-reminder>Warning: the file exists but is shorter than"),
        "{past:?}"
    );
    assert!(past.text().contains("The file has 2 lines."), "{past:?}");
}
