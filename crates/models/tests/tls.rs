//! `https://`: whom the client trusts, and that it says so when it does not.
//!
//! The certificates in `tests/tls` were made for this test and are worth nothing else.
#![allow(
    clippy::disallowed_methods,
    reason = "the server of the test is a thread, and its end is waited for"
)]

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use lathe_models::{AnthropicClient, ErrorKind, Model};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use support::*;

fn pem(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
}

/// A server that answers one connection, and says whether a request came through.
fn serve_once() -> (String, JoinHandle<bool>) {
    let chain = vec![CertificateDer::from_pem_file(pem("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(pem("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut stream = StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), stream);
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        while !seen.ends_with(b"]}") {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => return false,
                Ok(count) => seen.extend_from_slice(&buffer[..count]),
            }
        }
        stream.write_all(&whole_answer()).unwrap();
        seen.starts_with(b"POST /v1/messages")
    });
    (url, serving)
}

#[tokio::test]
async fn a_company_certificate_is_trusted_when_it_is_named() {
    let (url, serving) = serve_once();
    let mut config = config(&url);
    config.extra_ca_file = Some(pem("ca.pem"));
    let client = AnthropicClient::new(config).unwrap();
    let outcome = read_all(client.stream(Arc::new(request())).await).await;
    assert!(outcome.error.is_none(), "{outcome:?}");
    assert_eq!(outcome.types, ANSWER_TYPES);
    assert!(serving.join().unwrap());
}

#[tokio::test]
async fn a_stranger_gets_no_request_and_no_retry() {
    let (url, serving) = serve_once();
    let mut config = config(&url);
    // A root that did not sign the server; it also keeps the test apart from what the machine trusts.
    config.extra_ca_file = Some(pem("server.pem"));
    let outcome = read_all(AnthropicClient::new(config).unwrap().stream(Arc::new(request())).await).await;
    let error = outcome.error.unwrap();
    assert_eq!(error.kind, ErrorKind::InvalidRequest, "{error:?}");
    assert!(error.message.contains("not trusted"), "{}", error.message);
    assert!(!serving.join().unwrap(), "the key was sent");
}

#[tokio::test]
async fn a_certificate_file_that_cannot_be_used_is_named() {
    for (file, reason) in [("none.pem", "none.pem cannot be used"), ("server.key", "holds no certificate")] {
        let mut config = config("https://127.0.0.1:9");
        config.extra_ca_file = Some(pem(file));
        let client = AnthropicClient::new(config).unwrap();
        let error = client.stream(Arc::new(request())).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::InvalidRequest);
        assert!(error.message.contains(reason), "{}", error.message);
    }
}
