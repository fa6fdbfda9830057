//! Pages: the connection goes where the caller says, nothing is followed, and the body has a bound.
#![allow(
    clippy::disallowed_methods,
    reason = "the server of the test is a thread, and its end is waited for"
)]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::thread::JoinHandle;

use lathe_models::anthropic::ProxyConfig;
use lathe_models::web::WebClient;
use lathe_protocol::web::{PageGet, PageReply, PageRoute, WebError};

/// Answers one connection with these bytes, and returns the request.
fn serve_once(answer: &'static [u8]) -> (u16, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        while !request.ends_with(b"\r\n\r\n") {
            let count = stream.read(&mut buffer).unwrap();
            request.extend_from_slice(&buffer[..count]);
        }
        stream.write_all(answer).unwrap();
        String::from_utf8(request).unwrap()
    });
    (port, serving)
}

fn here() -> PageRoute {
    PageRoute::Direct(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])
}

async fn get(client: &WebClient, url: &str, route: &PageRoute) -> Result<PageReply, WebError> {
    client.get_page(PageGet { url, route, headers: &[("accept", "text/html")], max_bytes: 8 }).await
}

#[tokio::test]
async fn the_connection_goes_to_the_given_address_whatever_the_name() {
    let (port, serving) =
        serve_once(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\npage");
    // No such name exists: it is not looked up.
    let url = format!("http://nowhere.invalid:{port}/a?b");
    let reply = get(&WebClient::default(), &url, &here()).await.unwrap();
    assert_eq!((reply.status, reply.status_text.as_str(), reply.is_cut), (200, "OK", false));
    assert_eq!((reply.body.as_slice(), reply.content_type.as_deref()), (&b"page"[..], Some("text/html")));
    let request = serving.join().unwrap().to_lowercase();
    assert!(request.starts_with("get /a?b http/1.1\r\n"), "{request}");
    for header in
        [format!("host: nowhere.invalid:{port}"), "accept: text/html".into(), "user-agent: lathe/".into()]
    {
        assert!(request.contains(&header), "{request}");
    }
    assert!(!request.contains("accept-encoding"), "{request}");
}

#[tokio::test]
async fn redirects_and_errors_have_no_body() {
    let (port, serving) = serve_once(b"HTTP/1.1 302 Found\r\nlocation: /b\r\ncontent-length: 4\r\n\r\nmore");
    let reply = get(&WebClient::default(), &format!("http://a.invalid:{port}/"), &here()).await.unwrap();
    assert_eq!((reply.status, reply.location.as_deref(), reply.body.len()), (302, Some("/b"), 0));
    serving.join().unwrap();
}

#[tokio::test]
async fn a_long_body_is_cut() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n123456789"[..],
        &b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\n123456789\r\n0\r\n\r\n"[..],
    ] {
        let (port, serving) = serve_once(answer);
        let reply = get(&WebClient::default(), &format!("http://a.invalid:{port}/"), &here()).await.unwrap();
        assert!(reply.is_cut && reply.body.len() <= 8, "{reply:?}");
        serving.join().unwrap();
    }
}

#[tokio::test]
async fn a_proxy_is_asked_for_the_name() {
    let (port, serving) = serve_once(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npage");
    let proxy = ProxyConfig { http: Some(format!("http://127.0.0.1:{port}")), ..ProxyConfig::default() };
    let client = WebClient::new(proxy, None);
    assert!(client.uses_proxy("http://nowhere.invalid/a"));
    let reply = get(&client, "http://nowhere.invalid/a", &PageRoute::Proxy).await.unwrap();
    assert_eq!(reply.body, b"page");
    let request = serving.join().unwrap();
    assert!(request.starts_with("GET http://nowhere.invalid/a HTTP/1.1\r\n"), "{request}");
    let refused = get(&WebClient::default(), "http://nowhere.invalid/a", &PageRoute::Proxy).await;
    assert!(matches!(refused, Err(WebError::Unusable(_))), "{refused:?}");
}
