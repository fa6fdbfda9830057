//! One test's world: a home, a working folder, a scripted server, and an environment that holds nothing
//! of the machine but `PATH`.

#![allow(clippy::disallowed_methods, reason = "a test finds the program under test through the environment")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lathe_scripted::Script;
use tempfile::TempDir;

use crate::background::BackgroundServer;
use crate::normalise::Normaliser;
use crate::process::{Finished, Running};
use crate::survivors::{Survivor, wait_for_no_survivors};

/// The environment variable that every process of a test carries.
pub const COOKIE: &str = "LATHE_TEST_COOKIE";
/// How long a run may take unless the test says otherwise.
const RUN_LIMIT: Duration = Duration::from_secs(60);

/// One test's world. Dropping it kills what is left and removes the folders.
#[derive(Debug)]
pub struct TestContext {
    // Dropped in this order: the server before the folders.
    server: BackgroundServer,
    home: PathBuf,
    cwd: PathBuf,
    env: BTreeMap<String, String>,
    cookie: String,
    binary: Option<PathBuf>,
    limit: Duration,
    _root: TempDir,
}

impl TestContext {
    /// A world whose model follows `script`, the text of a script in any form.
    pub fn new(script: &str) -> Self {
        Self::with_script(Script::parse("test script", script).unwrap_or_else(|error| panic!("{error}")))
    }

    /// A world whose model follows a script made in code or loaded from a file.
    pub fn with_script(script: Script) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let root = tempfile::Builder::new().prefix("lathe-test-").tempdir().expect("a temporary folder");
        // Canonical, so that the paths the program prints can be found again.
        let base = root.path().canonicalize().expect("the folder was just made");
        let (home, cwd, temp) = (base.join("home"), base.join("work"), base.join("tmp"));
        for folder in [&home, &cwd, &temp] {
            std::fs::create_dir(folder).expect("a folder inside the temporary one");
        }
        let server = BackgroundServer::start(script);
        let cookie = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let text = |path: &Path| path.to_str().expect("temporary folders have plain names").to_owned();
        let env = BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned())),
            ("HOME".to_owned(), text(&home)),
            ("TMPDIR".to_owned(), text(&temp)),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("ANTHROPIC_BASE_URL".to_owned(), server.url()),
            ("ANTHROPIC_API_KEY".to_owned(), "test-key-not-a-secret".to_owned()),
            (COOKIE.to_owned(), cookie.clone()),
        ]);
        Self { server, home, cwd, env, cookie, binary: None, limit: RUN_LIMIT, _root: root }
    }

    /// The program to run, e.g. `env!("CARGO_BIN_EXE_lathe")`. Without it `LATHE_BIN`, then the target
    /// folder of the running test.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// A variable for every run.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.insert(name.to_owned(), value.into());
        self
    }

    /// A variable that no run shall have.
    pub fn without_env(mut self, name: &str) -> Self {
        self.env.remove(name);
        self
    }

    /// How long a run may take.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The model.
    pub fn server(&self) -> &BackgroundServer {
        &self.server
    }

    /// The home folder.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The working folder.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Writes a file in the working folder, making folders as needed.
    pub fn write(&self, path: &str, content: &str) -> PathBuf {
        write_file(self.cwd.join(path), content)
    }

    /// Writes a file in the home folder, making folders as needed.
    pub fn write_home(&self, path: &str, content: &str) -> PathBuf {
        write_file(self.home.join(path), content)
    }

    /// Reads a file of the working folder.
    pub fn read(&self, path: &str) -> String {
        let path = self.cwd.join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
    }

    /// A run to its end with nothing on stdin.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Finished {
        self.run_with_stdin(arguments, "")
    }

    /// A run to its end with `stdin`, then end of file.
    pub fn run_with_stdin<A: AsRef<OsStr>>(&self, arguments: &[A], stdin: &str) -> Finished {
        let mut running = self.start(arguments);
        running.write(stdin);
        running.close_stdin();
        running.finish()
    }

    /// A run to talk with.
    pub fn start<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Running {
        let arguments: Vec<&OsStr> = arguments.iter().map(AsRef::as_ref).collect();
        Running::start(&self.program(), &arguments, &self.cwd, &self.env, self.limit)
    }

    /// Processes of this test that are still there after `limit`.
    pub fn survivors(&self, limit: Duration) -> Vec<Survivor> {
        wait_for_no_survivors(&self.cookie, limit)
    }

    /// Fails when a process of this test is still there after ten seconds.
    pub fn assert_no_survivors(&self) {
        let survivors = self.survivors(Duration::from_secs(10));
        assert!(survivors.is_empty(), "processes outlived the run: {survivors:#?}");
    }

    /// A normaliser that knows this test's folders and address.
    pub fn normaliser(&self) -> Normaliser {
        Normaliser::default()
            .replace(&self.cwd.display().to_string(), "<cwd>")
            .replace(&self.home.display().to_string(), "<home>")
            .replace(&self.server.url(), "<url>")
    }

    fn program(&self) -> PathBuf {
        let given = self.binary.clone().or_else(|| {
            ["LATHE_BIN", "CARGO_BIN_EXE_lathe"]
                .iter()
                .find_map(|name| std::env::var_os(name).map(PathBuf::from))
        });
        given.unwrap_or_else(|| {
            let test = std::env::current_exe().expect("the test is a file");
            // target/debug/deps/test-123 → target/debug/lathe
            let folder = test.parent().and_then(Path::parent).expect("tests lie in target/PROFILE/deps");
            let program = folder.join("lathe");
            assert!(program.exists(), "{} is not built; build it or set LATHE_BIN", program.display());
            program
        })
    }
}

impl Drop for TestContext {
    fn drop(&mut self) {
        for survivor in crate::survivors::scan_survivors(&self.cookie) {
            survivor.kill();
        }
    }
}

fn write_file(path: PathBuf, content: &str) -> PathBuf {
    let folder = path.parent().expect("a file has a folder");
    std::fs::create_dir_all(folder).unwrap_or_else(|error| panic!("create {}: {error}", folder.display()));
    std::fs::write(&path, content).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
    path
}
