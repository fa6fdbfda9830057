use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use serde_json::json;

use super::*;
use crate::support::{Folder, Seen};
use crate::{Bash, ChildEnvironment, ChildVariables, Tool, ToolFailure};

/// Keeps what tools say.
#[derive(Default)]
struct Listening(Mutex<Vec<String>>);

impl SessionRemarks for Listening {
    fn remark<'a>(&'a self, tag: &'a str, text: &'a str) -> BoxFuture<'a, ()> {
        self.0.lock().unwrap().push(format!("{tag}: {text}"));
        Box::pin(std::future::ready(()))
    }
}

/// A home with a file for interactive shells, and a folder beside it.
struct Home(Folder);

impl Home {
    fn new(rc: &str) -> Self {
        Self::with(rc, |startup, _| startup)
    }

    fn with(rc: &str, set: impl FnOnce(ShellStartup, &Path) -> ShellStartup) -> Self {
        Self(Folder::with(|workspace| {
            let home = workspace.root.join("home");
            std::fs::create_dir(&home).unwrap();
            std::fs::write(home.join(".bashrc"), rc).unwrap();
            let all = vec![
                ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
                ("HOME".into(), home.display().to_string()),
            ];
            let variables =
                ChildVariables { all, withheld: vec!["KEY".to_owned()], ..ChildVariables::default() };
            workspace.env = Arc::new(ChildEnvironment::new(variables));
            let startup = ShellStartup::default().with_snapshot_in(home.join("config/snapshots/s.sh"));
            workspace.shell_startup = Arc::new(set(startup, &home));
        }))
    }

    fn in_shell(mut self, shell: &str) -> Self {
        let mut workspace = (*self.0.context.workspace).clone();
        workspace.shell = shell.into();
        self.0.context.workspace = Arc::new(workspace);
        self
    }

    fn permitted_for(&mut self, environment: CommandEnvironment) {
        self.0.context.environment = environment;
    }

    fn workspace(&self) -> &Workspace {
        &self.0.context.workspace
    }

    async fn bash(&self, command: &str) -> Seen {
        self.0.call("Bash", json!({ "command": command })).await
    }

    fn snapshot(&self) -> PathBuf {
        self.0.path("home/config/snapshots/s.sh")
    }

    /// What is said by the first two commands.
    async fn said(&self) -> Vec<String> {
        let listening = Listening::default();
        for _ in 0..2 {
            self.workspace().shell_startup.prepare_telling(self.workspace(), &listening).await;
        }
        listening.0.into_inner().unwrap()
    }

    /// A file in which hooks have left something.
    fn hook_file(&self, text: &str) -> PathBuf {
        self.0.write("hook-env/session start.sh", text)
    }
}

const RC: &str = r#"
case $- in *i*) ;; *) return ;; esac
echo from the rc file; echo and its errors >&2
touch "$HOME/rc-ran"
export FROM_RC=1
shopt -s extglob globstar
set -o noclobber; set -x
alias hello='echo "hello there"'
git() { echo "my git $*"; }
two-words.x() { [[ $1 == +(a|b) ]] && cat <<E
matched $1
E
}
"#;

#[tokio::test]
async fn functions_aliases_and_options_of_the_user_are_there_and_variables_are_not() {
    let home = Home::new(RC);
    assert_eq!(home.said().await, [""; 0]);
    let command = "hello; git status; two-words.x ab; shopt -p globstar; echo [$FROM_RC]; [ -o noclobber ]";
    let expected = "hello there\nmy git status\nmatched ab\nshopt -s globstar\n[]";
    assert_eq!(home.bash(command).await.ok().text(), expected);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home.snapshot()), 0o600);
    assert_eq!(mode(home.snapshot().parent().unwrap()), 0o700);
    home.workspace().shell_startup.remove_snapshot();
    assert!(!home.snapshot().exists());
    assert_eq!(home.bash("echo x").await.ok().text(), "x", "also if a command comes later");
}

#[tokio::test]
async fn functions_are_found_however_a_command_gets_to_them() {
    let home = Home::new(&format!("{RC}\nalias inner='two-words.x a'\nalias outer='inner'\n"));
    for (command, expected) in [
        ("git x", "my git x"),
        ("outer", "matched a"),
        ("name=git; $name x", "my git x"),
        ("eval gi''t x", "my git x"),
        ("{ \\git x; }", "my git x"),
        ("type -t git", "function"),
        ("hello", "hello there"),
        ("echo [${lathe_functions-}]", "[]"),
    ] {
        assert_eq!(home.bash(command).await.ok().text(), expected, "{command}");
    }
}

#[tokio::test]
async fn the_folder_a_command_ended_in_and_its_errors_are_as_without() {
    let home = Home::new("cd() { builtin cd \"$@\"; }\neval() { echo mine; }\ntrap() { echo mine; }\n");
    home.0.write("sub/file", "");
    assert_eq!(home.bash("cd sub").await.ok().text(), "(Bash completed with no output)");
    assert_eq!(home.workspace().cwd(), home.0.path("sub"));
    let seen = home.bash("echo hi; echo )").await.err();
    assert!(seen.text().contains("line 1: syntax error"), "{seen:?}");
    assert_eq!(home.bash("exit 7").await.err().text(), "Exit code 7");
}

#[tokio::test]
async fn first_calls_at_once_make_one_snapshot_and_later_calls_none() {
    let home = Home::new("echo ran >> \"$HOME/count\"\nhi() { echo hi; }\nsleep 0.2\n");
    let calls = (0..5).map(|_| home.bash("hi"));
    for seen in futures_util::future::join_all(calls).await {
        assert_eq!(seen.ok().text(), "hi");
    }
    home.bash("hi").await.ok();
    assert_eq!(home.0.read("home/count"), b"ran\n");
}

#[tokio::test]
async fn a_cancelled_first_call_leaves_the_snapshot_to_the_next() {
    let wait = "while [ ! -e \"$HOME/go\" ]; do sleep 0.01; done";
    let home = Home::new(&format!("echo ran >> \"$HOME/count\"\nhi() {{ echo hi; }}\n{wait}\n"));
    let mut context = home.0.context.clone();
    context.cancel = CancellationToken::new();
    let input = json!({ "command": "hi" });
    let cancel_when_begun = async {
        while !home.0.path("home/count").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        context.cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(Bash.call(&input, &context), cancel_when_begun);
    assert_eq!(outcome.map(|output| output.result), Err(ToolFailure::Interrupted));
    home.0.write("home/go", "");
    assert_eq!(home.bash("hi").await.ok().text(), "hi");
    assert_eq!(home.0.read("home/count"), b"ran\nran\n");
}

#[tokio::test]
async fn commands_permitted_for_their_text_get_nothing_of_it() {
    let rc = format!("{RC}\necho() {{ builtin echo hijacked; }}\n");
    let mut home = Home::with(&rc, |startup, home| {
        std::fs::write(home.join("env.sh"), "pwd() { builtin echo hijacked; }\nexport E=1\n").unwrap();
        startup.with_user_file(home.join("env.sh"))
    });
    let root = home.workspace().root.display().to_string();
    home.permitted_for(CommandEnvironment::OnlyPlain);
    home.workspace().shell_startup.set_hook_files(vec![home.0.path("home/env.sh")]);
    assert_eq!(home.bash("echo plain [$E]; pwd").await.ok().text(), format!("plain []\n{root}"));
    assert!(!home.0.path("home/rc-ran").exists(), "not even a shell is started for it");
    home.permitted_for(CommandEnvironment::Whole);
    assert_eq!(home.bash("echo x; pwd").await.ok().text(), "hijacked\nhijacked");
    home.permitted_for(CommandEnvironment::OnlyPlain);
    assert_eq!(home.bash("echo plain; pwd").await.ok().text(), format!("plain\n{root}"), "nor later");
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_told_once_and_commands_run_without() {
    let large = format!("f1() {{ : '{}'; }}", "x".repeat(SNAPSHOT_BYTES));
    for (rc, why) in [
        ("hi() { :; }; sleep 1000", "took longer than 2 s"),
        ("hi() { :; }; exit 3", "ends the shell"),
        ("hi() { :; }; exec true", "ends the shell"),
        (&large, "larger than 1024 KB"),
    ] {
        let home = Home::new(rc);
        let said = home.said().await;
        assert_eq!(said.len(), 1, "{rc}: {said:?}");
        let begins = format!(
            "shell_snapshot: commands run without the user's aliases and functions: {}",
            home.0.path("home/.bashrc").display()
        );
        assert!(said[0].starts_with(&begins) && said[0].contains(why), "{said:?}");
        assert_eq!(home.bash("echo x; type hi f1 2>/dev/null").await.err().text(), "Exit code 1\nx");
        assert!(!home.snapshot().exists());
        assert_eq!(home.workspace().ledger.live(), []);
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_told_once() {
    let home = Home::new("hi() { :; }");
    home.0.write("home/config", "a file where the folder should be");
    let said = home.said().await;
    assert!(said.len() == 1 && said[0].contains("snapshots/s.sh"), "{said:?}");
    assert_eq!(home.bash("echo x").await.ok().text(), "x");
}

#[tokio::test]
async fn a_snapshot_that_a_killed_run_left_is_replaced() {
    let home = Home::new("hi() { echo hi; }");
    home.0.write("home/config/snapshots/s.sh", "hi() { echo stale; }");
    assert_eq!(home.bash("hi").await.ok().text(), "hi");
}

#[tokio::test]
async fn no_shell_is_started_for_an_empty_file_or_another_shell() {
    for (rc, shell) in [("", "/bin/bash"), (RC, "/bin/sh")] {
        let home = Home::new(rc).in_shell(shell);
        assert_eq!(home.said().await, [""; 0]);
        assert_eq!(home.bash("echo x").await.ok().text(), "x");
        assert!(!home.snapshot().exists() && !home.0.path("home/rc-ran").exists());
    }
    let home = Home::new("# nothing but words\n");
    home.bash("echo x").await.ok();
    assert!(!home.snapshot().exists(), "nothing came of it");
}

#[tokio::test]
async fn files_of_hooks_are_sourced_before_each_command() {
    let text = "echo noise; export FRUIT=pear KEY=secret PWD=/nowhere; hi() { echo hi; }\n\
                alias say='echo said'\ncd /; false";
    for shell in ["/bin/bash", "/bin/sh"] {
        let home = Home::new("").in_shell(shell);
        let file = home.hook_file(text);
        let startup = &home.workspace().shell_startup;
        let never = CancellationToken::new();
        try_env_files(home.workspace(), &[&file], RunLimits::default(), &never).await.unwrap();
        startup.set_hook_files(vec![file.clone()]);
        let root = home.workspace().root.display().to_string();
        let seen = home.bash("hi; say x; echo \"$FRUIT [$KEY] $PWD [$OLDPWD]\"; pwd").await;
        assert_eq!(seen.ok().text(), format!("hi\nsaid x\npear [] {root} []\n{root}"), "{shell}");
        std::fs::write(&file, "export FRUIT=plum").unwrap();
        assert_eq!(home.bash("echo $FRUIT").await.ok().text(), "plum");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(home.bash("echo [$FRUIT]").await.ok().text(), "[]");
        startup.set_hook_files(Vec::new());
        assert_eq!(home.bash("echo [$FRUIT]").await.ok().text(), "[]");
    }
}

#[tokio::test]
async fn files_that_would_break_every_command_are_found() {
    let home = Home::new("");
    for (text, why) in [
        ("export A=1; exit 7", "ended the shell with Code(7)"),
        ("export A=1\nif then", "syntax error"),
        ("exec true", "ended the shell with Code(0)"),
    ] {
        let file = home.hook_file(text);
        let never = CancellationToken::new();
        let tried = try_env_files(home.workspace(), &[&file], RunLimits::default(), &never).await;
        let error = tried.unwrap_err();
        assert!(error.contains("session start.sh: ") && error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn the_users_own_file_is_sourced_and_a_missing_one_is_told_once() {
    let home = Home::with("alias hello='echo hello'", |startup, home| {
        std::fs::write(home.join("mine.sh"), "export MINE=1").unwrap();
        startup.with_user_file(home.join("mine.sh"))
    });
    assert_eq!(home.bash("hello $MINE").await.ok().text(), "hello 1");
    let home = Home::with("", |startup, home| startup.with_user_file(home.join("missing.sh")));
    let said = home.said().await;
    assert!(said.len() == 1 && said[0].starts_with("env_file: "), "{said:?}");
    assert!(said[0].contains("missing.sh"), "{said:?}");
    assert_eq!(home.bash("echo x").await.ok().text(), "x");
}
