//! The context of one test: a home folder, a working folder, a scripted server, and an environment that takes only
//! `PATH` from the machine.

#![allow(clippy::disallowed_methods, reason = "a test finds the program under test through the environment")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lathe_scripted::Script;
use tempfile::TempDir;

use crate::background::BackgroundServer;
use crate::normalise::Normaliser;
use crate::process::{Finished, Running};
use crate::survivors::{Survivor, wait_for_no_survivors};

/// The environment variable that every process of a test has.
pub const COOKIE: &str = "LATHE_TEST_COOKIE";
/// How long a run may take, unless the test sets another limit.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// The interval of checks whether a pipe has a reader; the system has no way to wait for one with a deadline.
const POLL: Duration = Duration::from_millis(2);

/// The context of one test. Dropping it kills the remaining processes and removes the folders.
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

/// The folders of a context that is being created.
#[derive(Debug)]
pub struct TestPlaces {
    /// The home folder.
    pub home: PathBuf,
    /// The working folder.
    pub cwd: PathBuf,
}

impl TestContext {
    /// Creates a context whose model follows `script`, the text of a script in any form. Panics if it is not valid.
    pub fn new(script: &str) -> Self {
        Self::with_script(Script::parse("test script", script).unwrap_or_else(|error| panic!("{error}")))
    }

    /// Creates a context whose model follows a script built in code or loaded from a file.
    pub fn with_script(script: Script) -> Self {
        Self::with_script_for(|_places| script)
    }

    /// Creates a context whose model follows a script that names the context's folders, which exist when `script` is
    /// called.
    pub fn with_script_for(script: impl FnOnce(&TestPlaces) -> Script) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let root = temporary_folder();
        // Canonical, so that it matches the paths that the program prints.
        let base = root.path().canonicalize().expect("the folder was just made");
        let (home, cwd, temp) = (base.join("home"), base.join("work"), base.join("tmp"));
        for folder in [&home, &cwd, &temp] {
            std::fs::create_dir(folder).expect("a folder inside the temporary one");
        }
        let places = TestPlaces { home, cwd };
        let server = BackgroundServer::start(script(&places));
        let TestPlaces { home, cwd } = places;
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

    /// Sets the program to run, such as `env!("CARGO_BIN_EXE_lathe")`. Without it, `LATHE_BIN` and
    /// `CARGO_BIN_EXE_lathe` of the environment are used, then the target folder of the running test.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// Sets a variable for every run, in place of one of the same name.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.insert(name.to_owned(), value.into());
        self
    }

    /// Removes a variable from every run.
    pub fn without_env(mut self, name: &str) -> Self {
        self.env.remove(name);
        self
    }

    /// Sets how long a run, or a wait for a pipe, may take; a longer one panics.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Returns the server of the model.
    pub fn server(&self) -> &BackgroundServer {
        &self.server
    }

    /// Returns the home folder.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the working folder.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Writes a file in the working folder, creating folders as needed, and returns its path.
    pub fn write(&self, path: &str, content: &str) -> PathBuf {
        write_file(self.cwd.join(path), content)
    }

    /// Writes a file in the home folder, creating folders as needed, and returns its path.
    pub fn write_home(&self, path: &str, content: &str) -> PathBuf {
        write_file(self.home.join(path), content)
    }

    /// Returns the text of a file of the working folder; panics if it cannot be read.
    pub fn read(&self, path: &str) -> String {
        let path = self.cwd.join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
    }

    /// Creates a pipe in the working folder: a command that reads it waits until [`TestContext::feed_pipe`].
    pub fn make_pipe(&self, name: &str) {
        let path = self.cwd.join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU)
            .unwrap_or_else(|error| panic!("make the pipe {}: {error}", path.display()));
    }

    /// Waits until a process has opened the pipe for reading, then writes `text` to it and closes it. Panics if none
    /// does within the limit, or if `text` does not fit into the buffer of the pipe.
    pub fn feed_pipe(&self, name: &str, text: &str) {
        const NO_READER_YET: i32 = rustix::io::Errno::NXIO.raw_os_error();
        let path = self.cwd.join(name);
        let deadline = Instant::now() + self.limit;
        loop {
            match open_pipe(&path, std::fs::OpenOptions::new().write(true)) {
                Ok(mut pipe) => {
                    return pipe.write_all(text.as_bytes()).expect("a short text fits into a pipe");
                }
                Err(error) if error.raw_os_error() == Some(NO_READER_YET) && Instant::now() < deadline => {
                    std::thread::sleep(POLL);
                }
                Err(error) => panic!("feed the pipe {}: {error}", path.display()),
            }
        }
    }

    /// Waits until a process has written to the pipe and closed it; returns what was written. Panics if nothing is
    /// within the limit; a process that closes the pipe without writing is not noticed.
    pub fn drain_pipe(&self, name: &str) -> String {
        let path = self.cwd.join(name);
        let mut pipe = open_pipe(&path, std::fs::OpenOptions::new().read(true))
            .unwrap_or_else(|error| panic!("drain the pipe {}: {error}", path.display()));
        let deadline = Instant::now() + self.limit;
        let mut text = Vec::new();
        loop {
            // Without a writer, a read returns the end of the file; with one that has not written yet, `WouldBlock`.
            match pipe.read_to_end(&mut text) {
                Ok(_) if !text.is_empty() => return String::from_utf8_lossy(&text).into_owned(),
                Err(error) if error.kind() != ErrorKind::WouldBlock => {
                    panic!("drain the pipe {}: {error}", path.display())
                }
                Ok(_) | Err(_) if Instant::now() < deadline => std::thread::sleep(POLL),
                Ok(_) | Err(_) => panic!("nothing was written to the pipe {}", path.display()),
            }
        }
    }

    /// Runs the program to its end with an empty stdin and returns what it did, whatever its exit code. Panics beyond
    /// the limit.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Finished {
        self.run_with_stdin(arguments, "")
    }

    /// Runs the program to its end with `stdin`, then end of file, and returns what it did, whatever its exit code.
    /// Panics beyond the limit.
    pub fn run_with_stdin<A: AsRef<OsStr>>(&self, arguments: &[A], stdin: &str) -> Finished {
        let mut running = self.start(arguments);
        running.write(stdin);
        running.close_stdin();
        running.finish()
    }

    /// Starts the program for a test that writes and reads while it runs. The process is killed when the returned
    /// value is dropped.
    pub fn start<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Running {
        let arguments: Vec<&OsStr> = arguments.iter().map(AsRef::as_ref).collect();
        Running::start(&self.program(), &arguments, &self.cwd, &self.env, self.limit)
    }

    /// Waits up to `limit` until no process of this test is left, and returns those that are.
    pub fn survivors(&self, limit: Duration) -> Vec<Survivor> {
        wait_for_no_survivors(&self.cookie, limit)
    }

    /// Panics if a process of this test still exists after ten seconds.
    pub fn assert_no_survivors(&self) {
        let survivors = self.survivors(Duration::from_secs(10));
        assert!(survivors.is_empty(), "processes outlived the run: {survivors:#?}");
    }

    /// Returns a normaliser that replaces this test's folders and the address of its server.
    pub fn normaliser(&self) -> Normaliser {
        let cwd = self.cwd.display().to_string();
        // The folder of session files is named after the working folder.
        let project: String =
            cwd.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
        Normaliser::default()
            .replace(&cwd, "<cwd>")
            .replace(&project, "<project>")
            .replace(&self.home.display().to_string(), "<home>")
            .replace(&self.cwd.with_file_name("tmp").display().to_string(), "<tmp>")
            .replace(&self.server.url(), "<url>")
    }

    /// Returns the program under test: the one the test set, `LATHE_BIN`, the one that Cargo names, or the one built
    /// beside the test, in this order. Panics if the last is not built.
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

/// Creates a folder, which is removed with the value. Its path has the same length on every machine, because tests
/// compare the sizes of requests that contain it.
fn temporary_folder() -> TempDir {
    const PREFIX: &str = "lathe-test-";
    const WHOLE: usize = 64;
    let parent = std::env::temp_dir().canonicalize().expect("there is a folder for temporary files");
    let random = WHOLE.saturating_sub(parent.as_os_str().len() + "/".len() + PREFIX.len()).max(8);
    let folder = tempfile::Builder::new().prefix(PREFIX).rand_bytes(random).tempdir_in(parent);
    folder.expect("a temporary folder")
}

/// Opens a pipe without waiting for its other end. To open it for writing without a reader is an error.
fn open_pipe(path: &Path, options: &mut std::fs::OpenOptions) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32).open(path)
}

/// Writes a file, creates its folders, and returns its path. Panics on any error.
fn write_file(path: PathBuf, content: &str) -> PathBuf {
    let folder = path.parent().expect("a file has a folder");
    std::fs::create_dir_all(folder).unwrap_or_else(|error| panic!("create {}: {error}", folder.display()));
    std::fs::write(&path, content).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
    path
}
