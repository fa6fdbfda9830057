use std::time::{Duration, Instant};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::support::{Folder, Seen, names};

fn folder() -> Folder {
    Folder::with(|workspace| {
        workspace.env =
            std::sync::Arc::new(crate::ChildEnvironment::new(crate::ChildVariables::unrestricted(vec![
                ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
                ("HOME".into(), "/nonexistent".into()),
            ])));
    })
}

async fn bash(folder: &Folder, command: &str) -> Seen {
    folder.call("Bash", json!({ "command": command })).await
}

#[tokio::test]
async fn both_outputs_come_in_their_order() {
    let seen = bash(&folder(), "echo 1; echo 2 >&2; echo 3").await.ok();
    assert_eq!(seen.text(), "1\n2\n3");
    let expected = json!({ "stdout": "1\n2\n3", "stderr": "", "interrupted": false, "isImage": false,
        "noOutputExpected": false });
    assert_eq!(seen.result.to_string(), expected.to_string(), "fields and their order");
}

#[tokio::test]
async fn failures_carry_the_code_and_the_output() {
    let seen = bash(&folder(), "echo out; echo err >&2; exit 3").await.err();
    assert_eq!(seen.text(), "Exit code 3\nout\nerr");
    assert_eq!(seen.result, "Error: Exit code 3\nout\nerr");
}

#[tokio::test]
async fn syntax_errors_show_the_command_and_nothing_of_ours() {
    let seen = bash(&folder(), "echo hi; echo )").await.err();
    assert!(seen.text().starts_with("Exit code 2\n") || seen.text().starts_with("Exit code 1\n"), "{seen:?}");
    assert!(seen.text().contains("line 1: syntax error"), "{seen:?}");
    assert!(!seen.text().contains("trap"), "{seen:?}");
    let seen = bash(&folder(), "echo 'it'\"'\"'s'; echo \"\n\nunclosed").await.err();
    assert!(seen.text().contains("unexpected EOF"), "{seen:?}");
}

#[tokio::test]
async fn quotes_and_dashes_reach_the_shell_as_they_are() {
    let folder = folder();
    let command = r#"printf '%s\n' "it's" 'a"b' $'c\'d' \$HOME "$(echo '(x)')""#;
    assert_eq!(bash(&folder, command).await.ok().text(), "it's\na\"b\nc'd\n$HOME\n(x)");
    let seen = bash(&folder, "-n").await.err();
    assert!(seen.text().contains("-n: command not found"), "{seen:?}");
    assert_eq!(bash(&folder, "cat <<'E'\na 'quoted' line\nE\n").await.ok().text(), "a 'quoted' line");
    assert_eq!(bash(&folder, "# only a comment").await.ok().text(), "(Bash completed with no output)");
}

#[tokio::test]
async fn cwd_is_kept_inside_and_reset_outside() {
    let folder = folder();
    let root = folder.context.workspace.root.clone();
    let sub = folder.write("sub/deep/file", "").parent().unwrap().to_owned();
    for way in [
        "cd sub/deep",
        "cd ../..; cd sub/deep; exit 0",
        "cd . ; set -e; cd .; pwd >/dev/null",
        "set -x; builtin cd .",
    ] {
        let seen = bash(&folder, way).await.ok();
        assert!(!seen.text().contains("pwd"), "{seen:?}");
        assert_eq!(folder.context.workspace.cwd(), sub, "{way}");
    }
    assert_eq!(bash(&folder, "pwd").await.ok().text(), sub.to_str().unwrap());
    bash(&folder, "cd ..; exit 7").await.err();
    assert_eq!(folder.context.workspace.cwd(), root.join("sub"), "also after a failure");

    let notice = format!("Shell cwd was reset to {}", root.display());
    let seen = bash(&folder, "cd /usr").await.ok();
    assert_eq!(seen.text(), notice);
    assert_eq!(seen.result["stderr"], format!("\n{notice}"));
    assert_eq!(folder.context.workspace.cwd(), root);
    let seen = bash(&folder, "cd /; echo x; false").await.err();
    assert_eq!(seen.text(), format!("Exit code 1\nx\n{notice}"));

    let other = tempfile::tempdir().unwrap();
    folder.context.workspace.change_dirs(&[], &[other.path().to_owned()]);
    let seen = bash(&folder, &format!("cd {}; pwd -P", other.path().display())).await.ok();
    assert!(!seen.text().contains("reset"), "{seen:?}");
    assert_eq!(folder.context.workspace.cwd(), other.path().canonicalize().unwrap());
}

#[tokio::test]
async fn cwd_is_always_reset_where_it_has_to_be() {
    let mut folder = folder();
    folder.write("sub/file", "");
    let mut workspace = (*folder.context.workspace).clone();
    workspace.limits.shell_folder = ShellFolder::StaysAtRoot;
    folder.context.workspace = std::sync::Arc::new(workspace);
    let root = folder.context.workspace.root.clone();
    let notice = format!("Shell cwd was reset to {}", root.display());
    assert_eq!(bash(&folder, "cd sub && pwd").await.ok().text(), format!("{}/sub\n{notice}", root.display()));
    assert_eq!(bash(&folder, "pwd").await.ok().text(), root.to_str().unwrap());
}

#[tokio::test]
async fn cwd_stays_when_the_shell_cannot_tell() {
    let folder = folder();
    folder.write("sub/file", "");
    let root = folder.context.workspace.root.clone();
    for command in [
        "cd sub; exec true",
        "cd sub; trap 'true' EXIT",
        "cd sub; exec 199>&-",
        "mkdir gone; cd gone; rmdir ../gone",
        "(cd sub)",
        "cd sub && sleep 1000 & true",
    ] {
        let seen = bash(&folder, command).await.ok();
        assert_eq!(seen.text(), "(Bash completed with no output)", "{command}");
        assert_eq!(folder.context.workspace.cwd(), root, "{command}");
    }
    let started = Instant::now();
    let seen = folder.call("Bash", json!({ "command": "cd sub; sleep 1000", "timeout": 100 })).await.err();
    assert_eq!(seen.text(), "Exit code 143\nCommand timed out after 0.1s");
    assert_eq!(folder.context.workspace.cwd(), root);
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_deleted_cwd_is_an_error_once() {
    let folder = folder();
    folder.write("sub/file", "");
    bash(&folder, "cd sub").await.ok();
    std::fs::remove_dir_all(folder.path("sub")).unwrap();
    let seen = bash(&folder, "pwd").await.err();
    assert!(seen.text().contains("/sub: No such file"), "{seen:?}");
    assert!(seen.text().contains("Shell cwd was reset to"), "{seen:?}");
    assert_eq!(bash(&folder, "pwd").await.ok().text(), folder.context.workspace.root.to_str().unwrap());
}

#[tokio::test]
async fn variables_do_not_outlive_a_call_and_only_given_ones_exist() {
    let folder = folder();
    assert_eq!(bash(&folder, "export FOO=1; echo $FOO").await.ok().text(), "1");
    assert_eq!(bash(&folder, "echo \"[$FOO][$HOME][$USER]\"").await.ok().text(), "[][/nonexistent][]");
}

#[tokio::test]
async fn output_before_a_timeout_is_not_lost() {
    let input = json!({ "command": "echo begun; sleep 1000", "timeout": 300 });
    let seen = folder().call("Bash", input).await.err();
    assert_eq!(seen.text(), "Exit code 143\nCommand timed out after 0.3s\nbegun");
}

#[test]
fn timeouts_are_clamped() {
    let folder = folder();
    let workspace = &folder.context.workspace;
    let cases = [
        (None, 120_000),
        (Some(5000.0), 5000),
        (Some(9_999_999.0), 600_000),
        (Some(f64::INFINITY), 600_000),
        (Some(1e300), 600_000),
        (Some(0.0), 120_000),
        (Some(-1.0), 120_000),
        (Some(f64::NAN), 120_000),
    ];
    for (asked, milliseconds) in cases {
        assert_eq!(timeout(asked, workspace), Duration::from_millis(milliseconds), "{asked:?}");
    }
    let folder = Folder::with(|workspace| workspace.limits.bash_default_timeout = Duration::from_secs(900));
    assert_eq!(timeout(Some(1e9), &folder.context.workspace), Duration::from_secs(900));
}

#[tokio::test]
async fn a_cancelled_call_is_interrupted_and_leaves_nothing() {
    let folder = folder();
    let ready = folder.path("ready");
    let command = format!("setsid sleep 1000 & touch {}; sleep 1000", ready.display());
    let input = json!({ "command": command });
    let cancel_when_ready = async {
        while !ready.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        folder.context.cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(Bash.call(&input, &folder.context), cancel_when_ready);
    assert_eq!(outcome.map(|output| output.result), Err(ToolFailure::Interrupted));
    assert_eq!(folder.context.workspace.ledger.live(), []);
}

#[tokio::test]
async fn background_processes_go_on_until_the_session_ends() {
    let folder = folder();
    let started = Instant::now();
    assert_eq!(bash(&folder, "sleep 1000 & echo started").await.ok().text(), "started");
    assert!(started.elapsed() < Duration::from_secs(5));
    let ledger = &folder.context.workspace.ledger;
    assert_eq!(ledger.live().len(), 1);
    ledger.kill_all().await;
    assert_eq!(ledger.live(), []);
}

#[tokio::test]
async fn large_output_is_kept_in_a_file() {
    let folder = folder();
    let whole: String = (1..=20_000).map(|number| format!("{number}\n")).collect();
    for (round, command) in ["seq 1 20000", "seq 1 20000", "seq 1 20000; seq 1 2000000"].iter().enumerate() {
        let seen = bash(&folder, command).await.ok();
        let path = seen.result["persistedOutputPath"].as_str().unwrap();
        let saved = std::fs::read_to_string(path).unwrap();
        assert!(saved.starts_with(&whole), "call {round}");
        assert_eq!(seen.result["persistedOutputSize"], saved.len());
        assert_eq!(seen.result["stdout"].as_str().unwrap(), &whole[..30_000]);
        assert!(seen.text().starts_with("<persisted-output>\n"), "{seen:?}");
        assert!(seen.text().ends_with("\n</persisted-output>"), "{seen:?}");
        assert!(seen.text().contains(path), "{seen:?}");
        assert!(seen.text().contains("\n1\n2\n3\n"), "{seen:?}");
        assert!(seen.text().len() < 2400, "{}", seen.text().len());
        if round < 2 {
            assert_eq!(saved, whole);
            assert!(seen.text().contains("106.3KB"), "{seen:?}");
        }
    }
    assert_eq!(
        names(&folder.context.workspace.output_dir),
        ["bash-toolu_1-2.txt", "bash-toolu_1-3.txt", "bash-toolu_1.txt"]
    );
}

#[tokio::test]
async fn output_is_measured_in_characters() {
    let folder = folder();
    // 30,000 characters of two bytes each, and a blank end that does not count.
    let seen = bash(&folder, "printf 'é%.0s' $(seq 30000); echo; echo").await.ok();
    assert_eq!(seen.text(), "é".repeat(30_000));
    assert!(!folder.context.workspace.output_dir.exists(), "nothing was written");
    let seen = bash(&folder, "printf 'é%.0s' $(seq 30001)").await.ok();
    assert_eq!(seen.result["persistedOutputSize"], 60_002);
}

#[tokio::test]
async fn a_disk_that_refuses_costs_the_file_only() {
    let folder = folder();
    std::fs::write(&folder.context.workspace.output_dir, "a file where the directory should be").unwrap();
    for command in ["seq 1 20000", "seq 1 2000000"] {
        let seen = bash(&folder, command).await.ok();
        assert!(seen.text().starts_with("1\n2\n"), "{seen:?}");
        assert!(seen.text().ends_with("0000"), "{seen:?}");
        assert!(seen.text().contains("could not be kept"), "{seen:?}");
        assert!(seen.result.get("persistedOutputPath").is_none());
    }
}

#[tokio::test]
async fn long_output_of_a_failure_is_cut_in_the_middle() {
    let folder = folder();
    for (command, end) in [("seq 1 20000", "20000"), ("seq 1 2000000", "2000000")] {
        let seen = bash(&folder, &format!("{command}; exit 9")).await.err();
        let text = seen.text();
        assert!(text.starts_with("Exit code 9\n1\n2\n3\n"), "{text}");
        assert!(text.ends_with(end), "{text}");
        assert!((10_000..10_400).contains(&text.chars().count()), "{}", text.len());
        let path = text.split_once("all of it is in ").unwrap().1.split_once(']').unwrap().0;
        assert!(std::fs::read_to_string(path).unwrap().ends_with(&format!("\n{end}\n")));
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_are_replaced() {
    assert_eq!(bash(&folder(), r"printf 'a\377\0b'").await.ok().text(), "a\u{fffd}\u{0}b");
}

#[tokio::test]
async fn hidden_characters_are_refused() {
    let folder = folder();
    for command in ["echo \u{1b}[31m", "echo a\rb", "echo \u{0}", "echo \u{7f}", "echo \u{9b}31m", "a\u{8}"] {
        let seen = bash(&folder, command).await.err();
        assert!(seen.text().starts_with("<tool_use_error>InputValidationError: [\n"), "{seen:?}");
        assert!(seen.text().contains("\"code\": \"custom\""), "{seen:?}");
    }
    for command in ["echo a\necho b", "echo a\tb", "echo é€😀", "echo a\r\n"] {
        assert!(!has_hidden_characters(command), "{command:?}");
    }
}

#[tokio::test]
async fn a_missing_shell_and_an_endless_command_are_explained() {
    let missing = Folder::with(|workspace| workspace.shell = "/nonexistent/bash".into());
    let seen = bash(&missing, "true").await.err();
    assert_eq!(seen.text(), "Failed to start /nonexistent/bash: No such file or directory (os error 2)");
    let seen = bash(&folder(), &format!("echo {}", "x".repeat(200_000))).await.err();
    assert!(seen.text().contains("too long"), "{seen:?}");
}

#[tokio::test]
async fn other_shells_work_without_a_cwd() {
    let folder = Folder::with(|workspace| workspace.shell = "/bin/sh".into());
    assert_eq!(bash(&folder, "echo 'a b'; exit 4").await.err().text(), "Exit code 4\na b");
}

#[tokio::test]
async fn a_command_that_kills_its_watcher_is_a_failure() {
    let seen = bash(&folder(), "kill -9 $PPID; sleep 1000").await.err();
    assert!(seen.text().starts_with("Exit code 1\nHow the command ended is unknown"), "{seen:?}");
}

#[tokio::test]
async fn calls_side_by_side_keep_to_themselves() {
    let folder = folder();
    let calls = (0..8).map(|number| {
        let folder = &folder;
        async move { (number, bash(folder, &format!("echo {number}; sleep 0.05; echo {number}")).await) }
    });
    for (number, seen) in futures_util::future::join_all(calls).await {
        assert_eq!(seen.ok().text(), format!("{number}\n{number}"));
    }
}

#[test]
fn names_of_files_come_from_ids_but_not_blindly() {
    let directory = tempfile::tempdir().unwrap();
    let file = output::unused_file(directory.path(), "../../etc/pass wd\0");
    assert_eq!(file, directory.path().join("bash-etcpasswd.txt"));
}

/// A folder whose process has one place for commands, and the holder of that place.
async fn with_the_only_place_taken() -> (Folder, lathe_exec::Place) {
    let only = lathe_exec::PlaceLimit::new(lathe_exec::PlaceKind::Command, 1);
    let held = only.place(Duration::from_secs(60), &CancellationToken::new()).await.unwrap();
    let folder = Folder::with(|workspace| workspace.process_limits.commands = only.clone());
    (folder, held)
}

#[tokio::test]
async fn a_command_waits_for_a_place_within_its_own_time() {
    let (folder, held) = with_the_only_place_taken().await;
    let seen = folder.call("Bash", json!({"command": "echo hi", "timeout": 30})).await.err();
    let text =
        "Not started: no place for a command became free within 0.03 s: 1 command is running in this process";
    assert_eq!(seen.text(), text);
    let waiting = folder.call("Bash", json!({"command": "echo hi"}));
    let (seen, ()) = tokio::join!(waiting, async { drop(held) });
    assert_eq!(seen.ok().text(), "hi");
}

#[tokio::test]
async fn the_time_of_a_wait_is_taken_from_the_time_of_the_call() {
    let (folder, held) = with_the_only_place_taken().await;
    let (minute, waited) = (Duration::from_secs(60), Duration::from_millis(30));
    let places = &folder.context.workspace.process_limits.commands;
    let (outcome, ()) = tokio::join!(folder.context.wait_for_place(places, minute), async {
        tokio::time::sleep(waited).await;
        drop(held);
    });
    let (_place, left) = outcome.unwrap();
    assert!(left <= minute - waited, "{left:?}");
}

#[tokio::test]
async fn a_wait_for_a_place_ends_when_the_call_is_cancelled() {
    let (folder, _held) = with_the_only_place_taken().await;
    let input = json!({"command": "touch ran"});
    let call = Bash.call(&input, &folder.context);
    let (outcome, ()) = tokio::join!(call, async { folder.context.cancel.cancel() });
    assert_eq!(outcome.err(), Some(ToolFailure::Interrupted));
    assert!(!folder.path("ran").exists());
}

/// A data URI of a PNG that does not compress, so that it is as large as its pixels.
fn data_uri(side: u32) -> String {
    let mut state = 1_u32;
    let pixels = image::RgbImage::from_fn(side, side, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [_, red, green, blue] = state.to_le_bytes();
        image::Rgb([red, green, blue])
    });
    let mut bytes = std::io::Cursor::new(Vec::new());
    pixels.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes.into_inner());
    format!("data:image/png;base64,{data}")
}

#[tokio::test]
async fn a_picture_that_is_all_a_command_prints_is_shown() {
    let folder = folder();
    let uri = data_uri(8);
    folder.write("uri", &uri);
    folder.write("broken-lines", uri.as_bytes().chunks(76).collect::<Vec<_>>().join(&b'\n'));
    for command in ["cat uri", "cat uri; echo", "cat broken-lines", "cd /; cat ~-/uri"] {
        let seen = bash(&folder, command).await.ok();
        let (_, data) = uri.split_once(',').unwrap();
        let source = json!({ "type": "base64", "data": data, "media_type": "image/png" });
        assert_eq!(seen.content[0], json!({ "type": "image", "source": source }), "{command}");
        assert_eq!(seen.result["stdout"], uri, "{command}");
        assert_eq!(seen.result["isImage"], true, "{command}");
        assert_eq!(seen.content.as_array().unwrap().len(), if command.contains("cd") { 2 } else { 1 });
    }
}

#[tokio::test]
async fn a_picture_that_memory_does_not_hold_is_read_from_its_file_and_scaled() {
    let folder = folder();
    folder.write("uri", data_uri(600));
    let seen = bash(&folder, "cat uri").await.ok();
    assert_eq!(seen.content[0]["type"], "image", "{}", seen.content.to_string().len());
    assert_eq!(seen.content[0]["source"]["media_type"], "image/jpeg");
    assert!(seen.result["stdout"].as_str().unwrap().starts_with("data:image/jpeg;base64,"));
    let value_chars = Bash.result_limits(&crate::Limits::default()).value_chars;
    assert!(seen.result["stdout"].as_str().unwrap().len() < value_chars);
    assert_eq!(names(&folder.context.workspace.output_dir), [""; 0], "nothing is left of the output");
}

#[tokio::test]
async fn what_only_looks_like_a_picture_is_text() {
    let folder = folder();
    folder.write("uri", data_uri(8));
    for command in
        ["cat uri uri", "echo 'data:image/png;base64,QUJD'", "cat uri; echo and more", "cat uri; exit 3"]
    {
        let seen = bash(&folder, command).await;
        assert!(seen.text().contains("data:image/png;base64,"), "{command}");
        assert_ne!(seen.result["isImage"], true);
    }
}

#[tokio::test]
async fn what_git_did_is_told_to_programs() {
    let folder = folder();
    let git = "git -c user.name=n -c user.email=e";
    let command = format!(
        "git init -q -b main . && echo x > a && git add a && {git} commit -m \"$(echo 'First; one')\""
    );
    let seen = bash(&folder, &command).await.ok();
    let commit = &seen.result["gitOperation"]["commit"];
    assert_eq!((&commit["kind"], &commit["branch"]), (&json!("committed"), &json!("main")), "{seen:?}");
    assert!(!seen.text().contains("gitOperation"));
    assert!(bash(&folder, "git status").await.ok().result.get("gitOperation").is_none());
}

#[tokio::test]
async fn values_that_change_nothing_are_accepted() {
    let folder = folder();
    for extra in [
        json!({ "run_in_background": false }),
        json!({ "dangerouslyDisableSandbox": false }),
        json!({ "dangerouslyDisableSandbox": true }),
        json!({ "timeout": "5000", "description": "" }),
    ] {
        let mut input = json!({ "command": "echo x" });
        input.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let seen = folder.call("Bash", input).await.ok();
        assert_eq!(seen.text(), "x");
        assert!(seen.result.get("dangerouslyDisableSandbox").is_none(), "there is none to disable");
    }
}
