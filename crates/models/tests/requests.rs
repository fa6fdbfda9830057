//! What a client sends, seen from the other end of the wire.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use lathe_models::anthropic::{CustomHeaders, HelperCredential, USER_AGENT};
use lathe_models::request::{CacheTtl, SystemPart};
use lathe_models::{AnthropicClient, Credential, ErrorKind, Model, Secret};
use lathe_protocol::Role;
use serde_json::json;
use support::*;

#[tokio::test]
async fn a_request_says_who_it_is_and_how_long() {
    let server = Server::start(vec![vec![Step::Send(whole_answer())]]).await;
    let outcome = read_all(client(&server).stream(Arc::new(request())).await).await;
    assert_eq!(outcome.types, ANSWER_TYPES);
    let seen = &server.seen()[0];
    assert!(seen.head.starts_with("POST /v1/messages?beta=true HTTP/1.1\r\n"), "{}", seen.head);
    assert_eq!(seen.header("user-agent"), Some(USER_AGENT));
    assert_eq!(seen.header("x-api-key"), Some("sk-ant-test"));
    assert_eq!(seen.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.header("accept"), Some("text/event-stream"));
    assert_eq!(seen.header("content-length"), Some(seen.body.len().to_string().as_str()));
    for absent in ["x-app", "anthropic-beta", "authorization", "transfer-encoding", "accept-encoding"] {
        assert_eq!(seen.header(absent), None, "{absent}");
    }
    assert!(!seen.head.to_ascii_lowercase().contains("claude-c"), "{}", seen.head);
    assert_eq!(seen.json()["stream"], true);
}

#[tokio::test]
async fn long_conversations_arrive_byte_for_byte() {
    let server = Server::start(vec![vec![Step::Send(whole_answer())]]).await;
    let mut asked = request();
    asked.system = vec![SystemPart { text: "be brief".into(), cached: true }];
    asked.tools = r#"[{"name":"Bash","input_schema":{"type":"object"}}]"#.into();
    asked.cache = CacheTtl::OneHour;
    asked.effort = Some("high".into());
    asked.betas = vec!["mine-2026".into()];
    let role = |n| if n % 2 == 0 { Role::User } else { Role::Assistant };
    asked.messages = (0..1001).map(|n| message(role(n), &format!("{n} ü {}", "x".repeat(n)))).collect();
    read_all(client(&server).stream(Arc::new(asked.clone())).await).await;
    let seen = &server.seen()[0];
    assert_eq!(seen.header("content-length"), Some(seen.body.len().to_string().as_str()));
    assert_eq!(
        seen.header("anthropic-beta"),
        Some("mine-2026,effort-2025-11-24,extended-cache-ttl-2025-04-11")
    );
    let body = seen.json();
    assert_eq!(body["messages"].as_array().unwrap().len(), 1001);
    let text = String::from_utf8(seen.body.clone()).unwrap();
    for message in &asked.messages[..1000] {
        assert!(text.contains(std::str::from_utf8(message.bytes()).unwrap()));
    }
    let marker = json!({"type": "ephemeral", "ttl": "1h"});
    assert_eq!(body["messages"][1000]["content"][0]["cache_control"], marker);
    assert_eq!(body["system"][0]["cache_control"], marker);
    assert_eq!(text.matches("cache_control").count(), 2);
}

#[tokio::test]
async fn tokens_and_custom_headers_are_sent_as_asked() {
    let server = Server::start(vec![vec![Step::Send(whole_answer())]]).await;
    let mut config = config(&format!("{}/gate/", server.url));
    config.credential = Credential::Bearer(Secret::new("tok\n"));
    config.custom_headers = CustomHeaders::parse("X-Foo: bar\nAnthropic-Version: 2099-01-01");
    let client = AnthropicClient::new(config).unwrap();
    read_all(client.stream(Arc::new(request())).await).await;
    let seen = &server.seen()[0];
    assert!(seen.head.starts_with("POST /gate/v1/messages?beta=true "), "{}", seen.head);
    assert_eq!(seen.header("authorization"), Some("Bearer tok"));
    assert_eq!(seen.header("x-api-key"), None);
    assert_eq!(seen.header("x-foo"), Some("bar"));
    assert_eq!(seen.header("anthropic-version"), Some("2099-01-01"));
}

#[tokio::test]
async fn turns_share_a_connection() {
    let server = Server::start(vec![vec![Step::Send(whole_answer())]]).await;
    let client = client(&server);
    for _ in 0..5 {
        assert_eq!(read_all(client.stream(Arc::new(request())).await).await.types, ANSWER_TYPES);
    }
    let connections: Vec<_> = server.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [0; 5]);
}

#[tokio::test]
async fn without_a_credential_nothing_is_sent() {
    let server = Server::start(vec![vec![Step::Send(whole_answer())]]).await;
    let mut config = config(&server.url);
    config.credential = Credential::None;
    let client = AnthropicClient::new(config).unwrap();
    let outcome = read_all(client.stream(Arc::new(request())).await).await;
    assert_eq!(outcome.kind(), Some(ErrorKind::NoCredentials));
    assert!(server.seen().is_empty());
}

fn helper(runs: &Arc<AtomicU32>) -> Credential {
    let runs = Arc::clone(runs);
    let source = move || {
        let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
        async move { Ok(Secret::new(&format!("key-{run}"))) }.boxed()
    };
    Credential::Helper(HelperCredential { source: Arc::new(source), ttl: Duration::from_secs(300) })
}

#[tokio::test]
async fn a_helper_is_asked_again_after_a_401_and_only_once() {
    let refused = || vec![Step::Send(api_error("401 Unauthorized", "", "authentication_error", "old"))];
    let good = vec![Step::Send(whole_answer())];
    let server = Server::start(vec![refused(), good.clone(), good, refused()]).await;
    let runs = Arc::new(AtomicU32::new(0));
    let mut config = config(&server.url);
    config.credential = helper(&runs);
    let client = AnthropicClient::new(config).unwrap();
    for _ in 0..2 {
        assert_eq!(read_all(client.stream(Arc::new(request())).await).await.types, ANSWER_TYPES);
    }
    let outcome = read_all(client.stream(Arc::new(request())).await).await;
    assert_eq!(outcome.kind(), Some(ErrorKind::Authentication));
    let keys: Vec<_> =
        server.seen().iter().map(|seen| seen.header("x-api-key").unwrap().to_owned()).collect();
    assert_eq!(keys, ["key-1", "key-2", "key-2", "key-2", "key-3"]);
    assert_eq!(server.seen()[1].header("authorization"), Some("Bearer key-2"));
    assert_eq!(server.seen()[1].body, server.seen()[0].body);
}

#[tokio::test]
async fn a_fixed_key_is_not_tried_twice() {
    let refused = Step::Send(api_error("401 Unauthorized", "", "authentication_error", "invalid x-api-key"));
    let server = Server::start(vec![vec![refused]]).await;
    let outcome = read_all(client(&server).stream(Arc::new(request())).await).await;
    assert_eq!(outcome.kind(), Some(ErrorKind::Authentication));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_proxy_gets_the_whole_address() {
    let server = Server::start(vec![vec![Step::Send(whole_answer())]]).await;
    let mut config = config("http://api.example.test");
    config.proxy.http = Some(server.url.clone());
    config.proxy.no_proxy = Some("other.example.test".into());
    let client = AnthropicClient::new(config).unwrap();
    assert_eq!(read_all(client.stream(Arc::new(request())).await).await.types, ANSWER_TYPES);
    let head = &server.seen()[0].head;
    assert!(head.starts_with("POST http://api.example.test/v1/messages?beta=true "), "{head}");
}

#[tokio::test]
async fn loopback_is_reached_without_a_proxy_and_without_certificates() {
    let server = Server::start(vec![vec![Step::Send(whole_answer())]]).await;
    let mut config = config(&server.url);
    config.proxy.http = Some("http://127.0.0.1:9".into());
    config.extra_ca_file = Some("/no/such/file.pem".into());
    let client = AnthropicClient::new(config).unwrap();
    assert_eq!(read_all(client.stream(Arc::new(request())).await).await.types, ANSWER_TYPES);
}

#[tokio::test]
async fn a_whole_message_is_asked_for_without_streaming() {
    let whole = json!({"type": "message", "id": "msg_1", "content": [], "stop_reason": "end_turn"});
    let answer = json_response("200 OK", "request-id: req_9\r\n", &whole);
    let server = Server::start(vec![vec![Step::Send(answer)]]).await;
    let mut asked = request();
    asked.max_tokens = 128_000;
    let message = client(&server).complete(Arc::new(asked)).await.unwrap();
    assert_eq!(message.message, whole);
    assert_eq!(message.request_id.as_deref(), Some("req_9"));
    let body = server.seen()[0].json();
    assert_eq!((&body["stream"], &body["max_tokens"]), (&json!(false), &json!(64_000)));
}

#[tokio::test]
async fn models_are_listed_page_by_page() {
    let page = |ids: &[&str], more: bool| {
        let data: Vec<_> =
            ids.iter().map(|id| json!({"type": "model", "id": id, "display_name": "N"})).collect();
        let body = json!({"data": data, "has_more": more, "last_id": ids.last()});
        vec![Step::Send(json_response("200 OK", "", &body))]
    };
    let server = Server::start(vec![page(&["claude-opus-5-5", "b&c"], true), page(&["d"], false)]).await;
    let models = client(&server).list_models().await.unwrap();
    let ids: Vec<_> = models.iter().map(|model| model.id.as_str()).collect();
    assert_eq!(ids, ["claude-opus-5-5", "b&c", "d"]);
    assert_eq!(models[0].context_window, Some(1_000_000));
    assert_eq!(models[2].context_window, None);
    let seen = server.seen();
    assert!(seen[0].head.starts_with("GET /v1/models?beta=true&limit=1000 HTTP"), "{}", seen[0].head);
    assert!(seen[1].head.starts_with("GET /v1/models?beta=true&limit=1000&after_id=b%26c HTTP"));
    assert_eq!(seen[0].header("x-api-key"), Some("sk-ant-test"));
}

#[tokio::test]
async fn an_endless_list_of_models_ends() {
    let body = json!({"data": [{"id": "a"}], "has_more": true, "last_id": "a"});
    let server = Server::start(vec![vec![Step::Send(json_response("200 OK", "", &body))]]).await;
    assert_eq!(client(&server).list_models().await.unwrap().len(), 2);
}

#[tokio::test]
async fn tokens_are_counted_by_the_api() {
    let answer = json_response("200 OK", "", &json!({"input_tokens": 42}));
    let server = Server::start(vec![vec![Step::Send(answer)]]).await;
    assert_eq!(client(&server).count_tokens(&request()).await.unwrap(), 42);
    let seen = &server.seen()[0];
    assert!(seen.head.starts_with("POST /v1/messages/count_tokens?beta=true "), "{}", seen.head);
    assert_eq!(seen.json()["max_tokens"], serde_json::Value::Null);
}
