//! The recorder between a client and an upstream that is itself a script: what is replayed is what the
//! upstream said, and nothing secret is written.

mod common;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use common::{End, Heard, body, post, server};
use lathe_scripted::{RecordOptions, RecorderHandle, Script, ServeOptions, record, serve};

async fn recorder(upstream: &str, out: &Path) -> RecorderHandle {
    let options = RecordOptions {
        addr: SocketAddr::from(([127, 0, 0, 1], 0)),
        upstream: upstream.to_owned(),
        out: out.to_owned(),
    };
    record(options).await.unwrap()
}

async fn ask(addr: SocketAddr, request: String) -> Heard {
    tokio::task::spawn_blocking(move || common::talk(addr, request.as_bytes(), Duration::from_secs(2)))
        .await
        .unwrap()
}

/// Status and body, chunks joined.
fn answer(heard: &Heard) -> (u16, String) {
    let text = heard.text();
    let (head, mut rest) = text.split_once("\r\n\r\n").unwrap();
    if !head.contains("transfer-encoding: chunked") {
        return (heard.status(), rest.to_owned());
    }
    let mut body = String::new();
    while let Some((size, tail)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        body.push_str(&tail[..size]);
        rest = tail[size..].trim_start_matches("\r\n");
    }
    (heard.status(), body)
}

fn message(stream: bool) -> String {
    post("/v1/messages", &body(stream).to_string()).replacen(
        "host: x\r\n",
        "host: x\r\nconnection: close\r\ncookie: sid=cookie-value-1\r\n",
        1,
    )
}

#[tokio::test]
async fn a_replay_says_what_the_upstream_said() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("talk.jsonl");
    let upstream = server(
        "defaults: {headers: {set-cookie: sid=server-cookie-1, anthropic-organization-id: org-12345678, anthropic-ratelimit-unified-status: allowed}}\n\
         turns:\n  - {thinking: hm, text: \"héllo ☃ \u{1F600}\", tools: [{name: Bash, input: {command: ls}}], pace_ms: 2}\n  \
         - {error: {status: 429, message: 'org-12345678 is over its limit, secret-key-1 was used', headers: {retry-after: '3'}}}\n  \
         - {text: plain}\n  - {text: broken off, cut: {}}\n",
    )
    .await;
    let recorder = recorder(&upstream.url(), &out).await;
    let mut said = Vec::new();
    for stream in [true, true, false, true] {
        said.push(ask(recorder.addr(), message(stream)).await);
    }
    ask(recorder.addr(), "GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned()).await;
    assert_eq!((recorder.recorded(), recorder.problems()), (4, vec![]));
    recorder.shutdown().await;
    assert_eq!(upstream.requests()[0].header("cookie"), Some("(removed)"), "passed on, hidden in the log");

    let written = std::fs::read_to_string(&out).unwrap();
    for secret in ["secret-key-1", "cookie-value-1", "server-cookie-1", "org-12345678"] {
        assert!(!written.contains(secret), "{secret} in {written}");
    }
    let replay = serve(Script::load(&out).unwrap(), ServeOptions::default()).await.unwrap();
    for (index, stream) in [true, true, false, true].into_iter().enumerate() {
        let again = ask(replay.addr(), message(stream)).await;
        let (status, mut body) = answer(&said[index]);
        if index == 1 {
            body = body.replace("org-12345678", "(removed)").replace("secret-key-1", "(removed)");
            assert!(again.text().contains("retry-after: 3\r\n"));
        }
        assert_eq!(answer(&again), (status, body), "turn {index}");
        assert_eq!(again.end, said[index].end);
        assert!(again.text().contains("anthropic-ratelimit-unified-status: allowed\r\n"));
    }
    assert!(!said[3].text().ends_with("0\r\n\r\n") && said[3].end == End::Closed, "the cut is passed on");
    assert_eq!(ask(replay.addr(), message(true)).await.status(), 500, "nothing behind the end");
}

#[tokio::test]
async fn a_client_that_leaves_is_recorded_as_a_silence() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("talk.jsonl");
    let upstream = server("turns: [{text: abc, stall: {after_events: 2}}]").await;
    let recorder = recorder(&upstream.url(), &out).await;
    let addr = recorder.addr();
    let heard = tokio::task::spawn_blocking(move || {
        common::talk(addr, message(true).as_bytes(), Duration::from_millis(200))
    });
    assert_eq!(heard.await.unwrap().end, End::Open);
    recorder.shutdown().await;
    let script = Script::load(&out).unwrap();
    assert!(script.turns[0].stall.is_some() && script.turns[0].cut.is_none());
}

#[tokio::test]
async fn a_recording_loads_whatever_is_cut_off_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("talk.jsonl");
    let upstream = server("turns: [{text: one}, {text: two}]").await;
    let recorder = recorder(&upstream.url(), &out).await;
    for _ in 0..2 {
        ask(recorder.addr(), message(false)).await;
    }
    recorder.shutdown().await;
    let text = std::fs::read_to_string(&out).unwrap();
    let header = text.find('\n').unwrap() + 1;
    for end in header..=text.len() {
        let script =
            Script::parse("talk.jsonl", &text[..end]).unwrap_or_else(|error| panic!("cut at {end}: {error}"));
        assert!(script.turns.len() <= 2);
    }
}

#[tokio::test]
async fn nothing_is_overwritten_and_bad_upstreams_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("talk.jsonl");
    std::fs::write(&out, "mine").unwrap();
    let options = |upstream: &str| RecordOptions {
        addr: SocketAddr::from(([127, 0, 0, 1], 0)),
        upstream: upstream.to_owned(),
        out: out.clone(),
    };
    let error = record(options("http://127.0.0.1:1")).await.unwrap_err().to_string();
    assert!(error.contains("talk.jsonl"), "{error}");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "mine");
    assert!(record(options("ftp://example.com")).await.unwrap_err().to_string().contains("http://"));

    std::fs::remove_file(&out).unwrap();
    let recorder = record(options("http://127.0.0.1:1")).await.unwrap();
    assert_eq!(ask(recorder.addr(), message(true)).await.status(), 502);
    assert_eq!(recorder.recorded(), 0);
    assert!(recorder.problems()[0].contains("request 1"));
}
