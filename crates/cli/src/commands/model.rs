//! `lathe model serve` and `lathe model record`: the scripted model for other programs.
#![allow(clippy::disallowed_macros, reason = "commands print")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use lathe_scripted::{RecordOptions, RequestStrictness, Script, ServeOptions, builtin, record, serve};

use crate::print;

const USAGE: &str = "\
usage: lathe model serve FILE [--port N] [--log FILE] [--lax]
       lathe model record --upstream URL [--port N] OUT
FILE is a script, or script:echo / script:demo; port 0 takes a free one (the default).
--lax answers also what the Messages API would refuse.";

/// Runs `model serve` or `model record` until a signal ends it; with `--help` it prints the usage instead.
pub async fn run(words: &[String]) -> anyhow::Result<ExitCode> {
    match words.first().map(String::as_str) {
        Some("serve") => run_server(Options::read(&words[1..])?).await,
        Some("record") => run_recorder(Options::read(&words[1..])?).await,
        Some("-h" | "--help") => {
            print::line(USAGE);
            Ok(ExitCode::SUCCESS)
        }
        Some(other) => bail!("unknown command 'model {other}'\n{USAGE}"),
        None => bail!("a command is missing\n{USAGE}"),
    }
}

#[derive(Default)]
struct Options {
    port: u16,
    log: Option<PathBuf>,
    strictness: RequestStrictness,
    upstream: Option<String>,
    file: Option<String>,
}

impl Options {
    /// Reads the words after `serve` or `record`. Both commands share the options; each one checks for those that it
    /// needs. An unknown option, a missing value or a second file is an error.
    fn read(words: &[String]) -> anyhow::Result<Self> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (name, attached) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (word.as_str(), None),
            };
            let mut value = || {
                let value = attached.clone().or_else(|| words.next().cloned());
                value.with_context(|| format!("{name} needs a value\n{USAGE}"))
            };
            match name {
                "--port" => {
                    let text = value()?;
                    options.port =
                        text.parse().with_context(|| format!("--port {text} is not a port number"))?;
                }
                "--lax" if attached.is_none() => options.strictness = RequestStrictness::Lax,
                "--log" => options.log = Some(value()?.into()),
                "--upstream" => options.upstream = Some(value()?),
                flag if flag.starts_with('-') => bail!("unknown option '{flag}'\n{USAGE}"),
                file if options.file.is_none() => options.file = Some(file.to_owned()),
                extra => bail!("'{extra}' is one file too many\n{USAGE}"),
            }
        }
        Ok(options)
    }

    /// Returns the address to listen on. It is always loopback, so that no other machine reaches the server.
    fn addr(&self) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port)
    }
}

/// Serves a script until a signal. The first line on stdout is the address, so that a program that chose port 0 can
/// read it. A name with `script:` that is not built in is taken for a path.
async fn run_server(options: Options) -> anyhow::Result<ExitCode> {
    let name = options.file.as_deref().with_context(|| format!("a script is missing\n{USAGE}"))?;
    let script = match name.strip_prefix("script:").and_then(builtin::script) {
        Some(script) => script,
        None => Script::load(Path::new(name))?,
    };
    let addr = options.addr();
    let serving = ServeOptions {
        addr,
        log_file: options.log,
        strictness: options.strictness,
        ..ServeOptions::default()
    };
    let server = serve(script, serving).await?;
    print::line(server.url());
    eprintln!("hint: ANTHROPIC_BASE_URL={} ANTHROPIC_API_KEY=any lathe -p \"hello\"", server.url());
    until_interrupted().await;
    server.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

/// Forwards requests to `--upstream` and records the responses until a signal. The first line on stdout is the address.
/// The exit code is 1 if the recorder reports a problem.
async fn run_recorder(options: Options) -> anyhow::Result<ExitCode> {
    let out = options.file.as_deref().with_context(|| format!("OUT is missing\n{USAGE}"))?;
    let upstream = options.upstream.clone().with_context(|| format!("--upstream is missing\n{USAGE}"))?;
    let recorder = record(RecordOptions { addr: options.addr(), upstream, out: out.into() }).await?;
    print::line(recorder.url());
    until_interrupted().await;
    let recorded = recorder.recorded();
    let problems = recorder.problems();
    recorder.shutdown().await;
    eprintln!("recorded {recorded} answers in {out}");
    problems.iter().for_each(|problem| eprintln!("problem: {problem}"));
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Waits for Ctrl-C or the terminate signal. Returns at once if the signals cannot be listened for.
async fn until_interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
