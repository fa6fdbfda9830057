//! `lathe doctor`: looks at everything a run depends on and says what to do about what is wrong. Nothing is
//! changed, and no address but the model's is contacted.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use lathe_exec::Ledger;
use lathe_launch::{LATHE_VERSION, LaunchEnvironment, PROTOCOL_VERSION, client, hooks_of, settings};
use lathe_models::ErrorKind;
use lathe_models::anthropic::DEFAULT_BASE_URL;
use lathe_models::credentials::Search;
use lathe_protocol::EnabledHooks;
use lathe_settings::memory::ReadCheck;
use lathe_settings::styles::Styles;
use lathe_settings::{CheckStatus, SettingsStack, checks};

use crate::args::Args;
use crate::refusal::StartError;
use crate::{plan, print};

/// Runs `doctor`: checks settings, shell, sessions, credential and model, and prints a line for each. The exit code is
/// 1 if one fails; warnings do not count.
pub async fn run(words: &[String], env: &LaunchEnvironment) -> anyhow::Result<ExitCode> {
    if !words.is_empty() {
        bail!("doctor takes no arguments\nhint: lathe doctor");
    }
    let plan = plan::make(&Args::default(), env).map_err(|error| anyhow::anyhow!(error.message))?;
    print::line(format!("lathe {LATHE_VERSION} (protocol {PROTOCOL_VERSION})"));
    let mut report = Report { worst: CheckStatus::Ok };
    let mut env = env.clone();
    let mut helper = client::KeyHelper::default();
    match settings::load(&plan.session, &env) {
        Ok((loaded, _)) => {
            let stack = loaded.stack();
            for (name, value) in stack.env() {
                env.set(&name, &value);
            }
            helper = client::KeyHelper::of(&stack, &env, &plan.session.tool_env);
            report.files(&stack, &env);
        }
        Err(error) => {
            let hint = "correct the file; until then every run stops, because what it forbids is not known";
            report.say("settings", CheckStatus::Fail, &StartError::from(error).message, Some(hint));
        }
    }
    report.shell(&env);
    report.sessions(&env);
    report.credential_and_model(&env, helper).await;
    Ok(if report.worst == CheckStatus::Fail { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What was said so far.
struct Report {
    worst: CheckStatus,
}

impl Report {
    /// Prints one check, with a hint if there is one, and remembers the worst status, which becomes the exit code.
    /// Every check must report through it.
    fn say(&mut self, name: &str, status: CheckStatus, detail: &str, hint: Option<&str>) {
        let mark = match status {
            CheckStatus::Ok => "ok  ",
            CheckStatus::Warn => "warn",
            CheckStatus::Fail => "FAIL",
        };
        let detail = detail.trim_start_matches("Error: ").replace('\n', "\n      ");
        print::line(format!("{mark}  {name:<12} {detail}"));
        if let Some(hint) = hint {
            print::line(format!("      hint: {hint}"));
        }
        self.worst = self.worst.max(status);
    }

    /// Reports on the files that people write (settings, memory files, styles, hooks) and on the sandbox that settings
    /// may ask for.
    fn files(&mut self, stack: &SettingsStack, env: &LaunchEnvironment) {
        let memory = settings::memory_of(env, stack, ReadCheck::default());
        for check in checks(stack, &memory, &Styles::load(&stack.style_request())) {
            self.say(check.name, check.status, &check.detail, check.hint.as_deref());
        }
        self.hooks(stack);
        self.sandbox(stack, env);
    }

    /// Reports each warning about a hook in the settings, then the number of all handlers and whether settings switch
    /// them off.
    fn hooks(&mut self, stack: &SettingsStack) {
        let mut count = 0;
        for (source, hooks) in hooks_of(stack) {
            count += hooks.values().flatten().map(|group| group.hooks.len()).sum::<usize>();
            for warning in lathe_hooks::check(&source, &hooks) {
                let hint = "the hook does nothing as it is written";
                self.say("hooks", CheckStatus::Warn, &warning.to_string(), Some(hint));
            }
        }
        let what = match stack.enabled_hooks() {
            EnabledHooks::All => "",
            EnabledHooks::ManagedAndHost => "; all others are switched off by settings",
            EnabledHooks::Nothing => "; all are switched off by managed settings",
        };
        self.say("hooks", CheckStatus::Ok, &format!("{count} handlers of settings files{what}"), None);
    }

    /// Reports what the machine offers for a sandbox, and that Lathe has none yet. A failure if settings ask for one.
    fn sandbox(&mut self, stack: &SettingsStack, env: &LaunchEnvironment) {
        let lsm = std::fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
        let namespaces = std::fs::read_to_string("/proc/sys/user/max_user_namespaces");
        let offers: Vec<&str> = [
            ("landlock", lsm.split(',').any(|name| name.trim() == "landlock")),
            ("user namespaces", namespaces.is_ok_and(|max| max.trim() != "0")),
            ("bubblewrap", in_path("bwrap", env).is_some()),
        ]
        .into_iter()
        .filter_map(|(name, is_there)| is_there.then_some(name))
        .collect();
        let offers = if offers.is_empty() { "none of what it needs".to_owned() } else { offers.join(", ") };
        let detail =
            format!("commands run without a sandbox: lathe has none yet; this machine offers {offers}");
        let wanted = stack.effective_json()["sandbox"]["enabled"] == true;
        if wanted {
            let hint =
                "settings ask for a sandbox that is not there: rely on permission rules or a container";
            self.say("sandbox", CheckStatus::Fail, &detail, Some(hint));
        } else {
            self.say("sandbox", CheckStatus::Ok, &detail, None);
        }
    }

    /// Checks that the shell for commands is a file: `CLAUDE_CODE_SHELL`, or else `/bin/bash`. It is not started.
    fn shell(&mut self, env: &LaunchEnvironment) {
        let shell = env.get("CLAUDE_CODE_SHELL").map_or_else(|| PathBuf::from("/bin/bash"), PathBuf::from);
        if shell.is_file() {
            self.say("shell", CheckStatus::Ok, &shell.display().to_string(), None);
        } else {
            let detail = format!("{} is not there, so no command can run", shell.display());
            self.say(
                "shell",
                CheckStatus::Fail,
                &detail,
                Some("install bash, or name a shell in CLAUDE_CODE_SHELL"),
            );
        }
    }

    /// Checks whether sessions can be saved: a folder for them is known, and its nearest existing parent can be
    /// written. Creates nothing; a problem is only a warning, because runs go on without it.
    fn sessions(&mut self, env: &LaunchEnvironment) {
        let Some(config) = env.config_dir() else {
            let hint = "set HOME or CLAUDE_CONFIG_DIR, or use --no-session-persistence";
            return self.say(
                "sessions",
                CheckStatus::Warn,
                "there is no home folder to keep them in",
                Some(hint),
            );
        };
        let folder = config.join("projects");
        // The nearest folder that exists is the one that must let us in.
        let nearest = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
        let may_write =
            rustix::fs::access(nearest, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
        match may_write {
            Ok(()) => self.say("sessions", CheckStatus::Ok, &format!("kept in {}", folder.display()), None),
            Err(error) => {
                let detail = format!("{} cannot be written: {error}", nearest.display());
                let hint = "make it writable, or use --no-session-persistence; runs go on, but are not kept";
                self.say("sessions", CheckStatus::Warn, &detail, Some(hint));
            }
        }
    }

    /// Checks the credential that a run would use, and then the address of the model by listing its models. This is the
    /// only check that uses the network, and it may run the command of `helper`; without a credential it sends nothing.
    async fn credential_and_model(&mut self, env: &LaunchEnvironment, helper: client::KeyHelper) {
        let found = client::credentials(env, helper.command.clone(), Search::FirstUsable);
        let Some(candidate) = found.chosen() else {
            let hint =
                format!("{}; lathe auth status lists what was looked at", client::missing_key_hint(env));
            self.say("credential", CheckStatus::Fail, "no usable credential", Some(&hint));
            return self.say("model", CheckStatus::Warn, "not asked: there is no credential", None);
        };
        let origin = candidate.origin.describe();
        self.say("credential", CheckStatus::Ok, &origin, None);
        let credential =
            client::credential(&candidate.found, &helper, &Ledger::with_limits(env.child_limits));
        let address = env.get("ANTHROPIC_BASE_URL").unwrap_or(DEFAULT_BASE_URL);
        let client = match client::api_client(env, credential) {
            Ok(client) => client,
            Err(error) => {
                let hint = "correct ANTHROPIC_BASE_URL or the proxy variables";
                return self.say("model", CheckStatus::Fail, &error.to_string(), Some(hint));
            }
        };
        match client.list_models().await {
            Ok(models) => {
                let detail = format!("{address} lists {} models", models.len());
                self.say("model", CheckStatus::Ok, &detail, None);
            }
            Err(error) => {
                let hint = what_to_do(error.kind, &origin);
                self.say("model", CheckStatus::Fail, &format!("{address}: {error}"), Some(&hint));
            }
        }
    }
}

/// Returns the advice for an error of the model; `origin` says where the refused credential came from.
fn what_to_do(kind: ErrorKind, origin: &str) -> String {
    match kind {
        ErrorKind::Authentication => format!("the API refuses the credential ({origin}): replace it"),
        ErrorKind::Connection | ErrorKind::Stalled => {
            "nothing answers there: check the network, ANTHROPIC_BASE_URL and the proxy variables".to_owned()
        }
        ErrorKind::Overloaded | ErrorKind::RateLimit | ErrorKind::Server => {
            "the API is there but busy or broken: try again later".to_owned()
        }
        ErrorKind::NoCredentials
        | ErrorKind::InvalidRequest
        | ErrorKind::PromptTooLong
        | ErrorKind::ModelNotFound
        | ErrorKind::TooLarge
        | ErrorKind::StreamCut
        | ErrorKind::StreamError
        | ErrorKind::Protocol => {
            "the address answers, but not like the Messages API: check ANTHROPIC_BASE_URL".to_owned()
        }
    }
}

/// Returns the path of the program `name` on the search path; `None` if no folder has a file with this name.
fn in_path(name: &str, env: &LaunchEnvironment) -> Option<PathBuf> {
    let path = env.get("PATH").unwrap_or("");
    path.split(':').map(|folder| Path::new(folder).join(name)).find(|program| program.is_file())
}
