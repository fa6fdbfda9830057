//! The server seen from the wire: routes, framing, keep-alive, faults, log.

mod common;

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use common::{End, ask, ask_keeping, body, listen, post, server};
use lathe_scripted::{RequestStrictness, ServeOptions, serve};
use serde_json::{Value, json};

#[tokio::test]
async fn streams_and_whole_messages() {
    let server = server("turns: [{text: one}, {text: two}]").await;
    let heard = ask(&server, post("/v1/messages?beta=true", &body(true).to_string())).await;
    let text = heard.text();
    assert!(
        text.starts_with(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nrequest-id: req_1\r\n"
        ),
        "{text}"
    );
    assert!(text.contains("transfer-encoding: chunked\r\n") && text.ends_with("\r\n0\r\n\r\n"), "{text}");
    assert_eq!(heard.end, End::Closed);

    let heard = ask(&server, post("/v1/messages", &body(false).to_string())).await;
    assert_eq!(heard.json()["content"], json!([{"type": "text", "text": "two"}]));
    assert_eq!(heard.json()["id"], "msg_0002");
}

#[tokio::test]
async fn one_connection_serves_request_after_request_also_sent_ahead() {
    let server = server("turns: [{text: one}, {error: 529}, {text: three}]").await;
    let request = post("/v1/messages", &body(false).to_string());
    let heard = ask_keeping(&server, request.repeat(3)).await;
    assert_eq!(heard.end, End::Open, "keep-alive");
    let text = heard.text();
    let statuses: Vec<&str> = text.match_indices("HTTP/1.1 ").map(|(at, _)| &text[at + 9..at + 12]).collect();
    assert_eq!(statuses, ["200", "529", "200"]);
    assert!(text.contains("three"));
}

#[tokio::test]
async fn old_clients_and_chunked_requests_are_understood() {
    let server = server("turns: [{text: hello there}]").await;
    let text = body(true).to_string();
    let old = format!(
        "POST /v1/messages HTTP/1.0\r\nanthropic-version: 2023-06-01\r\ncontent-length: {}\r\n\r\n{text}",
        text.len()
    );
    let heard = ask(&server, old).await;
    assert_eq!(heard.end, End::Closed);
    assert!(
        !heard.text().contains("transfer-encoding")
            && heard.text().ends_with("{\"type\":\"message_stop\"}\n\n")
    );

    let (first, second) = text.split_at(20);
    let chunked = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nanthropic-version: 2023-06-01\r\nexpect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\n{:x};a=b\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\nx: y\r\n\r\n",
        first.len(),
        second.len(),
    );
    let heard = ask(&server, chunked).await;
    assert!(heard.text().starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"), "{}", heard.text());
}

#[tokio::test]
async fn what_is_not_a_request_gets_an_api_error() {
    let server = server("turns: [{text: one}]").await;
    let error = |heard: &common::Heard| heard.json()["error"]["type"].as_str().unwrap().to_owned();
    let cases = [
        (post("/v1/messages", "{"), 400, "invalid_request_error"),
        (
            post("/v1/messages", "{\"model\":\"m\",\"max_tokens\":1,\"messages\":[]}"),
            400,
            "invalid_request_error",
        ),
        (post("/v2/messages", "{}"), 404, "not_found_error"),
        ("GET /v1/messages HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 405, "invalid_request_error"),
        ("GET /v1/models/none HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 404, "not_found_error"),
        ("nonsense\r\n\r\n".to_owned(), 400, "invalid_request_error"),
        (
            "POST /v1/messages HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n".to_owned(),
            413,
            "request_too_large",
        ),
        (
            "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n".to_owned(),
            400,
            "invalid_request_error",
        ),
        (format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(70_000)), 431, "invalid_request_error"),
    ];
    for (request, status, kind) in cases {
        let start: String = request.chars().take(60).collect();
        let heard = ask(&server, request).await;
        assert_eq!((heard.status(), error(&heard).as_str()), (status, kind), "{start}");
    }
    let head = ask(&server, "HEAD / HTTP/1.1\r\nhost: x\r\n\r\n".to_owned()).await;
    assert!(head.text().starts_with("HTTP/1.1 404 ") && head.text().ends_with("\r\n\r\n"), "{}", head.text());
    // None of that has used up the turn.
    assert_eq!(ask(&server, post("/v1/messages", &body(false).to_string())).await.json()["id"], "msg_0001");
}

/// The same check as in-process, with its envelope, and a way to switch it off.
#[tokio::test]
async fn what_the_api_refuses_is_refused_unless_the_server_is_lax() {
    let odd = json!({"model": "m", "max_tokens": 1, "stream": true, "top": 1, "messages": [{"role": "user", "content": "a"}]});
    let strict = server("turns: [{text: one}]").await;
    let heard = ask(&strict, post("/v1/messages", &odd.to_string())).await;
    let error = json!({"type": "invalid_request_error", "message": "top: Extra inputs are not permitted"});
    assert_eq!(heard.status(), 400);
    assert_eq!(
        heard.json(),
        json!({"type": "error", "error": error, "request_id": "req_refused_1"}),
        "a plain answer although a stream was asked for"
    );
    assert!(heard.text().contains("\r\nrequest-id: req_refused_1\r\n"), "{}", heard.text());
    assert!(heard.text().contains("\r\nx-should-retry: false\r\n"), "{}", heard.text());
    let heard = ask(&strict, post("/v1/messages/count_tokens", &odd.to_string())).await;
    assert_eq!(heard.json()["error"]["message"], "max_tokens: Extra inputs are not permitted");
    assert_eq!(strict.requests()[0].turn, "refused: top: Extra inputs are not permitted");

    let options = ServeOptions { strictness: RequestStrictness::Lax, ..ServeOptions::default() };
    let lax = serve(common::script("turns: [{text: one}]"), options).await.unwrap();
    // lax: this is the switch under test.
    assert_eq!(ask(&lax, post("/v1/messages", &odd.to_string())).await.status(), 200);
    assert_eq!(ask(&lax, post("/v1/messages/count_tokens", &odd.to_string())).await.status(), 200);
}

#[tokio::test]
async fn a_body_that_is_too_large_still_gets_its_answer() {
    let server = server("turns: [{text: one}]").await;
    let heard = ask(&server, post("/v1/messages", &"x".repeat(33 * 1024 * 1024))).await;
    assert_eq!((heard.status(), heard.end), (413, End::Closed));
}

#[tokio::test]
async fn models_are_paged_and_tokens_counted() {
    let server = server("models: [a, b, c, d, e]\nturns: [{text: one}]").await;
    let get = |path: &str| ask(&server, format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
    let ids = |page: &Value| {
        page["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|model| model["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
            .join("")
    };
    let page = get("/v1/models?limit=2").await.json();
    assert_eq!((ids(&page).as_str(), &page["has_more"], &page["last_id"]), ("ab", &json!(true), &json!("b")));
    let page = get("/v1/models?limit=3&after_id=b").await.json();
    assert_eq!((ids(&page).as_str(), &page["has_more"]), ("cde", &json!(false)));
    let page = get("/v1/models?limit=2&before_id=d").await.json();
    assert_eq!((ids(&page).as_str(), &page["has_more"]), ("bc", &json!(true)));
    assert_eq!(get("/v1/models/c").await.json()["id"], "c");
    assert_eq!(get("/v1/models?limit=0").await.status(), 400);

    let counted = json!({"model": "a", "messages": [{"role": "user", "content": "abcdefgh"}]}).to_string();
    let tokens = ask(&server, post("/v1/messages/count_tokens", &counted)).await.json();
    assert_eq!(tokens, json!({"input_tokens": 10}));
    let fixed = common::server("count_tokens: 77\nturns: [{text: one}]").await;
    assert_eq!(
        ask(&fixed, post("/v1/messages/count_tokens", &counted)).await.json(),
        json!({"input_tokens": 77})
    );
}

#[tokio::test]
async fn faults_are_seen_on_the_wire() {
    let server = server(
        "turns:\n  - {text: abc, cut: {after_bytes: 5}}\n  - {text: abc, cut: {how: rst}}\n  - {text: abc, stall: {after_events: 1}}\n  \
         - {text: abc, cut: {before_headers: true}}\n  - {text: abc, cut: {before_headers: true, how: rst}}\n  - {text: abc, cut: {after_bytes: 0}}\n",
    )
    .await;
    let request = || post("/v1/messages", &body(true).to_string());
    let heard = ask(&server, request()).await;
    assert_eq!(heard.end, End::Closed);
    assert!(heard.text().ends_with("\r\n\r\n5\r\nevent\r\n"), "no last chunk: {}", heard.text());

    let heard = ask(&server, request()).await;
    assert_eq!(heard.end, End::Reset);
    assert!(heard.text().contains("text_delta") && !heard.text().contains("content_block_stop"));

    let heard = ask(&server, request()).await;
    assert_eq!(heard.end, End::Open, "silent, not closed");
    assert!(heard.text().contains("message_start") && !heard.text().contains("content_block_start"));

    let heard = ask(&server, request()).await;
    assert_eq!((heard.end, heard.bytes.len()), (End::Closed, 0));
    let heard = ask(&server, request()).await;
    assert_eq!((heard.end, heard.bytes.len()), (End::Reset, 0));
    let heard = ask(&server, request()).await;
    assert!(heard.text().ends_with("\r\n\r\n") && heard.status() == 200, "headers and nothing more");
}

#[tokio::test]
async fn a_cut_at_every_byte_gives_exactly_the_bytes_before_it() {
    let whole = {
        let server = server("turns: [{text: 'I will look.'}]").await;
        let text = ask(&server, post("/v1/messages", &body(true).to_string())).await.text();
        let start = text.find("event: ").unwrap();
        text[start..].strip_suffix("\r\n0\r\n\r\n").unwrap().to_owned()
    };
    let turns: Vec<String> = (1..whole.len())
        .map(|n| format!("  - {{text: 'I will look.', cut: {{after_bytes: {n}}}}}\n"))
        .collect();
    let server = server(&format!("turns:\n{}", turns.concat())).await;
    let addr = server.addr();
    let request = post("/v1/messages", &body(true).to_string());
    tokio::task::spawn_blocking(move || {
        for n in 1..whole.len() {
            let heard = common::talk(addr, request.as_bytes(), Duration::from_secs(5));
            let text = heard.text();
            let sent = text
                .split_once("\r\n\r\n")
                .unwrap()
                .1
                .split_once("\r\n")
                .unwrap()
                .1
                .strip_suffix("\r\n")
                .unwrap();
            assert_eq!(heard.end, End::Closed);
            let expected = whole.replace("msg_0001", &format!("msg_{n:04}"));
            assert_eq!(sent, &expected[..n], "cut at {n}");
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_client_that_leaves_frees_the_server_and_shutdown_ends_the_rest() {
    let server = server("turns: [{text: abc, stall: {}}, {text: abc, delay_ms: 3600000}]").await;
    let request = post("/v1/messages", &body(true).to_string());
    let mut leaving = TcpStream::connect(server.addr()).unwrap();
    leaving.write_all(request.as_bytes()).unwrap();
    let mut staying = TcpStream::connect(server.addr()).unwrap();
    staying.write_all(request.as_bytes()).unwrap();
    let waited = tokio::task::spawn_blocking(move || {
        assert!(server.wait_for_requests(2, Duration::from_secs(10)));
        server
    });
    let server = waited.await.unwrap();
    drop(leaving);
    tokio::time::timeout(Duration::from_secs(10), server.shutdown())
        .await
        .expect("no connection outlives the server");
    let heard =
        tokio::task::spawn_blocking(move || listen(&mut staying, Duration::from_secs(5))).await.unwrap();
    assert_ne!(heard.end, End::Open);
}

#[tokio::test]
async fn the_log_is_bounded_readable_and_without_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("requests.jsonl");
    let options = ServeOptions { keep_requests: 2, log_file: Some(file.clone()), ..ServeOptions::default() };
    let server = serve(common::script("turns: [{id: greet, text: one}]"), options).await.unwrap();
    for _ in 0..3 {
        ask(&server, post("/v1/messages", &serde_json::to_string_pretty(&body(false)).unwrap())).await;
    }
    let requests = server.requests();
    assert_eq!((requests.len(), server.request_count()), (2, 3));
    assert_eq!((requests[1].number, requests[1].turn.as_str()), (3, "turn 1 (`greet`)"));
    assert_eq!(requests[1].json(), body(false));
    assert_eq!(requests[1].header("x-api-key"), Some("(removed)"));

    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("secret-key-1"));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[2]["n"], &lines[2]["body"]), (&json!(3), &body(false)));
    assert_eq!(server.log_error(), None);
}

#[tokio::test]
async fn a_port_that_is_taken_is_an_error_that_names_it() {
    let server = server("turns: [{text: one}]").await;
    let options = ServeOptions { addr: server.addr(), ..ServeOptions::default() };
    let error = serve(common::script("turns: [{text: one}]"), options).await.unwrap_err().to_string();
    assert!(error.contains(&server.addr().to_string()), "{error}");
}
