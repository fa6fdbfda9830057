//! WebFetch and WebSearch with the built program: pages of servers on this machine, and a scripted model that reads and
//! searches. Each error text and code of the two tools is a test of its own.

mod pages;

use lathe_testkit::{Finished, TestContext};
use pages::PageServer;
use serde_json::{Value, json};

/// The model that reads pages.
const SMALL: &str = "claude-haiku-5-5";

const FLAGS: [&str; 6] =
    ["-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions"];

fn context(turns: Value, routes: Value) -> TestContext {
    let script = json!({"turns": turns, "routes": routes, "at_end": "error"});
    let context = TestContext::new(&script.to_string()).binary(env!("CARGO_BIN_EXE_lathe"));
    // The mode in which everything is allowed is not for root elsewhere.
    context.env("IS_SANDBOX", "1")
}

/// A context whose small model answers `said` about each page.
fn reading(turns: Value, said: &str) -> TestContext {
    context(turns, json!([{"when": {"model": SMALL}, "at_end": "repeat", "turns": [{"text": said}]}]))
}

/// The same, with rules of the user that name hosts.
fn opening(context: TestContext, hosts: &[&str]) -> TestContext {
    let rules: Vec<String> = hosts.iter().map(|host| format!("WebFetch(domain:{host})")).collect();
    // The second is for a service that Lathe does not ask; it is accepted.
    let settings = json!({"permissions": {"allow": rules}, "skipWebFetchPreflight": true});
    context.write_home(".claude/settings.json", &settings.to_string());
    context
}

fn fetch(url: &str) -> Value {
    json!({"tools": [{"name": "WebFetch", "input": {"url": url, "prompt": "What is it?"}}]})
}

fn run(context: &TestContext) -> Finished {
    run_with(context, &[])
}

fn run_with(context: &TestContext, flags: &[&str]) -> Finished {
    let words: Vec<&str> = FLAGS.iter().chain(flags).chain(&["--", "go"]).copied().collect();
    context.run(&words)
}

/// The results of calls, in order: content, whether it is an error, and the value for programs.
fn results(finished: &Finished) -> Vec<(String, bool, Value)> {
    let result = |line: Value| {
        let block = &line["message"]["content"][0];
        if block["type"] != "tool_result" {
            return None;
        }
        let content = block["content"].as_str().map_or_else(|| block["content"].to_string(), str::to_owned);
        Some((content, block["is_error"] == true, line["tool_use_result"].clone()))
    };
    finished.of_type("user").into_iter().filter_map(result).collect()
}

/// The only result of a call, which must be an error.
fn error(finished: &Finished) -> String {
    let mut results = results(finished);
    assert_eq!(results.len(), 1, "{results:?}");
    let (content, is_error, _) = results.remove(0);
    assert!(is_error, "{content}");
    content
}

/// The requests of the small model.
fn asked_small(context: &TestContext) -> Vec<Value> {
    let bodies = context.server().requests().into_iter().map(|request| request.json());
    bodies.filter(|body| body["model"] == SMALL).collect()
}

#[test]
fn a_page_is_fetched_read_and_paid_for() {
    let server = PageServer::start();
    let url = server.url("/page");
    let context = reading(json!([fetch(&url), {"text": "done"}]), "It is a page.");
    let context = opening(context, &["127.0.0.1"]);
    let finished = run(&context).success();
    assert_eq!(finished.stderr, "");
    let [(content, is_error, value)] = &results(&finished)[..] else { panic!("{:?}", finished.stdout) };
    assert_eq!((content.as_str(), *is_error), ("It is a page.", false));
    assert!(value["durationMs"].is_u64(), "{value}");
    let mut shape = value.clone();
    shape["durationMs"] = json!(0);
    let expected = json!({"bytes": pages::PAGE.len(), "code": 200, "codeText": "OK", "result": "It is a page.",
        "durationMs": 0, "url": url});
    assert_eq!(shape.to_string(), expected.to_string(), "the order counts");

    let request = &server.requests()[0];
    for header in
        [concat!("user-agent: lathe/", env!("CARGO_PKG_VERSION")), "accept: text/markdown, text/html, */*"]
    {
        assert!(request.contains(header), "{request}");
    }
    let asked = asked_small(&context);
    let question = asked[0]["messages"][0]["content"][0]["text"].as_str().unwrap();
    assert!(question.contains("The title\n\nHead\n====\n\nWords") && question.ends_with("What is it?"));
    assert!(!question.contains("script") && asked[0]["tools"].is_null(), "{question}");

    let result = finished.result();
    let usage = &result["modelUsage"];
    assert_eq!(usage[SMALL]["inputTokens"], 100, "{usage}");
    let each: f64 = usage.as_object().unwrap().values().map(|one| one["costUSD"].as_f64().unwrap()).sum();
    assert!((result["total_cost_usd"].as_f64().unwrap() - each).abs() < 1e-9);
    assert_eq!(result["usage"]["input_tokens"], 200, "the usage of a turn is that of the conversation");
}

#[test]
fn an_internal_host_is_refused_in_every_mode() {
    let server = PageServer::start();
    let url = server.url("/page");
    // Neither the mode, nor a flag, nor the files of the folder name the host for good.
    let rule = "WebFetch(domain:127.0.0.1)";
    let settings = json!({"permissions": {"allow": [rule]}}).to_string();
    for file in [".claude/settings.json", ".claude/settings.local.json"] {
        let context = reading(json!([fetch(&url), {"text": "done"}]), "no");
        context.write(file, &settings);
        let folder = context.cwd().to_str().unwrap();
        let trusted = json!({"projects": {folder: {"hasTrustDialogAccepted": true}}});
        context.write_home(".claude.json", &trusted.to_string());
        let text = error(&run_with(&context, &["--allowedTools", rule]).success());
        assert!(text.contains("127.0.0.1 is not fetched") && text.contains(rule), "{text}");
        assert!(asked_small(&context).is_empty());
    }
    assert!(server.requests().is_empty(), "it was asked");
    // That of the flag does.
    let context = reading(json!([fetch(&url), {"text": "done"}]), "yes");
    let finished = run_with(&context, &["--settings", &settings]).success();
    assert_eq!(results(&finished)[0].0, "yes");
}

#[test]
fn a_host_without_a_dot_is_refused() {
    let server = PageServer::start();
    let url = server.url("/page").replace("127.0.0.1", "localhost");
    let context = reading(json!([fetch(&url), {"text": "done"}]), "no");
    let text = error(&run(&context).success());
    assert!(text.starts_with("localhost is not fetched"), "{text}");
    let context = opening(reading(json!([fetch(&url), {"text": "done"}]), "yes"), &["localhost"]);
    assert_eq!(results(&run(&context).success())[0].0, "yes");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn certificates_of_the_environment_are_trusted() {
    let server = PageServer::start_tls();
    let turns = json!([fetch(&server.url("/page")), {"text": "done"}]);
    let context = opening(reading(turns.clone(), "It is secret."), &["127.0.0.1"]);
    let context = context.env("NODE_EXTRA_CA_CERTS", pages::certificate("ca.pem"));
    assert_eq!(results(&run(&context).success())[0].0, "It is secret.");
    let context = opening(reading(turns, "no"), &["127.0.0.1"]);
    let text = error(&run(&context).success());
    assert!(text.contains("was not fetched: invalid peer certificate"), "{text}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_redirect_to_another_host_is_reported() {
    let server = PageServer::start();
    let other = server.url("/page").replace("127.0.0.1", "127.0.0.2");
    let url = server.url(&format!("/to?{other}"));
    let context = opening(reading(json!([fetch(&url), {"text": "done"}]), "no"), &["127.0.0.1", "127.0.0.2"]);
    let finished = run(&context).success();
    let (content, is_error, value) = &results(&finished)[0];
    assert!(content.starts_with("REDIRECT DETECTED: ") && content.contains(&other) && !is_error, "{content}");
    assert_eq!(
        (&value["code"], &value["codeText"], &value["url"]),
        (&json!(302), &json!("Found"), &json!(url))
    );
    assert_eq!(value["result"], json!(content));
    assert!(asked_small(&context).is_empty());
}

#[test]
fn a_redirect_inside_of_the_host_is_followed() {
    let server = PageServer::start();
    let url = server.url("/to?/page");
    let context = opening(reading(json!([fetch(&url), {"text": "done"}]), "Found."), &["127.0.0.1"]);
    let (content, _, value) = results(&run(&context).success()).remove(0);
    assert_eq!((content.as_str(), &value["code"], &value["url"]), ("Found.", &json!(200), &json!(url)));
}

#[test]
fn a_missing_page_is_no_error() {
    let server = PageServer::start();
    let context = reading(json!([fetch(&server.url("/nothing")), {"text": "done"}]), "no");
    let (content, is_error, value) = results(&run(&opening(context, &["127.0.0.1"])).success()).remove(0);
    assert!(content.starts_with("The server returned HTTP 404 Not Found.") && !is_error, "{content}");
    assert_eq!(
        (&value["bytes"], &value["code"], &value["codeText"]),
        (&json!(0), &json!(404), &json!("Not Found"))
    );
}

#[test]
fn a_page_that_is_too_large_is_refused() {
    let server = PageServer::start();
    for path in ["/large", "/bomb", "/endless"] {
        let context = reading(json!([fetch(&server.url(path)), {"text": "done"}]), "no");
        let text = error(&run(&opening(context, &["127.0.0.1"])).success());
        assert!(text.contains("larger than 10 MB"), "{path}: {text}");
    }
}

#[test]
fn content_that_is_no_text_is_named() {
    let server = PageServer::start();
    let context = reading(json!([fetch(&server.url("/picture")), {"text": "done"}]), "no");
    let text = error(&run(&opening(context, &["127.0.0.1"])).success());
    assert!(text.contains("image/png"), "{text}");
}

#[test]
fn a_server_that_does_not_answer_is_an_error() {
    let context = reading(json!([fetch("http://127.0.0.1:1/"), {"text": "done"}]), "no");
    let text = error(&run(&opening(context, &["127.0.0.1"])).success());
    assert!(text.starts_with("http://127.0.0.1:1/ was not fetched: "), "{text}");
    let server = PageServer::start();
    let context = reading(json!([fetch(&server.url("/cut")), {"text": "done"}]), "no");
    let text = error(&run(&opening(context, &["127.0.0.1"])).success());
    assert!(text.contains("was not fetched: "), "{text}");
}

#[test]
fn addresses_that_cannot_be_fetched_are_refused() {
    for (url, why) in [
        ("notaurl", "Invalid URL"),
        ("file:///etc/passwd", "neither http nor https"),
        ("https://user:word@example.com/", "a user name or a password"),
    ] {
        let text = error(&run(&reading(json!([fetch(url), {"text": "done"}]), "no")).success());
        assert!(text.contains(why), "{url}: {text}");
    }
}

#[test]
fn a_page_is_kept_for_a_while() {
    for (time, requests) in [("60000", 1), ("0", 2)] {
        let server = PageServer::start();
        let url = server.url("/page");
        let context = reading(json!([fetch(&url), fetch(&url), {"text": "done"}]), "Read.");
        let context = opening(context, &["127.0.0.1"]).env("CLAUDE_CODE_WEBFETCH_CACHE_TTL_MS", time);
        let results = results(&run(&context).success());
        assert!(results.iter().all(|(content, ..)| content == "Read."), "{results:?}");
        assert_eq!(server.requests().len(), requests, "{time} ms");
        assert_eq!(asked_small(&context).len(), 2);
    }
}

#[test]
fn an_interrupt_ends_a_fetch() {
    let server = PageServer::start();
    let context = reading(json!([fetch(&server.url("/silent"))]), "no");
    let context = opening(context, &["127.0.0.1"]);
    let words: Vec<&str> = FLAGS.iter().chain(&["--input-format", "stream-json"]).copied().collect();
    let mut running = context.start(&words);
    running.send(&json!({"type": "user", "session_id": "", "parent_tool_use_id": null,
        "message": {"role": "user", "content": "go"}}));
    server.wait_for_a_request();
    running.send(&json!({"type": "control_request", "request_id": "1", "request": {"subtype": "interrupt"}}));
    let result = running.wait_for_type("result");
    assert_eq!(result["subtype"], "error_during_execution", "{result}");
    running.close_stdin();
    running.finish();
}

#[test]
fn the_answer_about_a_page_counts_for_the_budget() {
    let server = PageServer::start();
    let answer = json!({"text": "Dear.", "usage": {"output_tokens": 4000}});
    let context = context(
        json!([fetch(&server.url("/page")), {"text": "never"}]),
        json!([{"when": {"model": SMALL}, "turns": [answer]}]),
    );
    let finished = run_with(&opening(context, &["127.0.0.1"]), &["--max-budget-usd", "0.0025"]);
    assert_eq!(finished.result()["subtype"], "error_max_budget_usd", "{}", finished.result());
}

#[test]
fn a_reader_that_fails_is_an_error_of_the_call() {
    let server = PageServer::start();
    let turns = json!([fetch(&server.url("/page")), {"text": "done"}]);
    let refusal =
        json!({"error": {"status": 400, "type": "invalid_request_error", "message": "no such thing"}});
    let context = context(turns, json!([{"when": {"model": SMALL}, "turns": [refusal]}]));
    let text = error(&run(&opening(context, &["127.0.0.1"])).success());
    assert!(text.contains("was fetched, but not read") && text.contains("no such thing"), "{text}");
}

#[test]
fn other_hosts_are_reached_through_the_proxy_with_https() {
    let proxy = PageServer::start();
    let context = reading(
        json!([fetch("http://public.example/a"), fetch("http://meta.internal/"), {"text": "done"}]),
        "no",
    );
    let context = context.env("HTTPS_PROXY", proxy.url("")).env("HTTP_PROXY", proxy.url(""));
    let results = results(&run(&context).success());
    let (first, second) = (&results[0].0, &results[1].0);
    assert!(first.contains("http://public.example/a was not fetched"), "{first}");
    assert!(second.starts_with("meta.internal is not fetched"), "{second}");
    let requests = proxy.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(requests[0].starts_with("CONNECT public.example:443 "), "{requests:?}");
}

fn search(input: Value) -> Value {
    json!({"tools": [{"name": "WebSearch", "input": input}]})
}

/// The response of an API that has searched once.
fn found() -> Value {
    json!({
        "blocks": [
            {"block": {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rust"}}},
            {"block": {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
                {"type": "web_search_result", "title": "Rust", "url": "https://rust.example/",
                    "encrypted_content": "e30=", "page_age": null},
            ]}},
            {"text": "A language."},
        ],
        "usage": {"extra": {"server_tool_use": {"web_search_requests": 1}}},
    })
}

/// A context whose model searches as the route says.
fn searching(turns: Value, searches: Value) -> TestContext {
    context(turns, json!([{"when": {"tools": ["web_search"]}, "at_end": "repeat", "turns": searches}]))
}

#[test]
fn a_search_is_a_request_of_its_own() {
    let input = json!({"query": "rust", "allowed_domains": ["rust.example"]});
    let context = searching(json!([search(input), {"text": "done"}]), json!([found()]));
    let finished = run(&context).success();
    let (content, is_error, value) = results(&finished).remove(0);
    assert!(content.contains("\"rust\"") && content.contains("- [Rust](https://rust.example/)") && !is_error);
    let mut shape = value.clone();
    assert!(value["durationSeconds"].is_f64(), "{value}");
    shape["durationSeconds"] = json!(0);
    let hits =
        json!({"tool_use_id": "srvtoolu_1", "content": [{"title": "Rust", "url": "https://rust.example/"}]});
    let expected =
        json!({"query": "rust", "results": [hits, "A language."], "durationSeconds": 0, "searchCount": 1});
    assert_eq!(shape.to_string(), expected.to_string(), "the order counts");

    let asked = context.server().requests()[1].json();
    let tool = json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 8,
        "allowed_domains": ["rust.example"]});
    assert_eq!(asked["tools"], json!([tool]));
    assert_eq!(asked["tool_choice"], json!({"type": "auto"}));
    let model = context.server().requests()[0].json()["model"].clone();
    assert_eq!((&asked["model"], asked["messages"].as_array().unwrap().len()), (&model, 1));

    let usage = &finished.result()["modelUsage"][model.as_str().unwrap()];
    assert_eq!((&usage["webSearchRequests"], &usage["inputTokens"]), (&json!(1), &json!(300)), "{usage}");
    assert!(usage["costUSD"].as_f64().unwrap() > 0.01, "a search costs a cent: {usage}");
}

#[test]
fn an_api_without_a_search_is_named() {
    let refusal = json!({"error": {"status": 400, "type": "invalid_request_error",
        "message": "tools.0: web_search_20250305 is not supported"}});
    let context = searching(json!([search(json!({"query": "rust"})), {"text": "done"}]), json!([refusal]));
    let text = error(&run(&context).success());
    assert!(text.contains("did not take the search") && text.contains("is not supported"), "{text}");
}

#[test]
fn the_searches_of_a_session_have_a_limit() {
    let again = search(json!({"query": "rust"}));
    let context = searching(json!([again, again, {"text": "done"}]), json!([found()]));
    let context = context.env("CLAUDE_CODE_MAX_WEB_SEARCHES_PER_SESSION", "1");
    let results = results(&run(&context).success());
    assert!(!results[0].1 && results[1].1, "{results:?}");
    assert!(results[1].0.contains("its 1 web searches"), "{results:?}");
    assert_eq!(context.server().requests()[1].json()["tools"][0]["max_uses"], 1);
}

#[test]
fn inputs_of_a_search_that_make_no_sense_are_refused() {
    for (input, why) in [
        (json!({"query": "x"}), "expected string to have >=2 characters"),
        (json!({"query": "xy", "allowed_domains": ["a"], "blocked_domains": ["b"]}), "not both"),
    ] {
        let text =
            error(&run(&searching(json!([search(input), {"text": "done"}]), json!([found()]))).success());
        assert!(text.contains(why), "{text}");
    }
}

#[test]
fn both_tools_are_asked_about() {
    let calls = json!({"tools": [
        {"name": "WebFetch", "input": {"url": "https://example.com/", "prompt": "p"}},
        {"name": "WebSearch", "input": {"query": "rust"}},
    ]});
    let context = context(json!([calls, {"text": "done"}]), json!([]));
    let finished = context.run(&["-p", "--output-format", "stream-json", "--verbose", "--", "go"]).success();
    for (content, is_error, _) in results(&finished) {
        assert!(is_error && content.contains("permission"), "{content}");
    }
    assert_eq!(finished.result()["permission_denials"].as_array().map(Vec::len), Some(2));
}
