//! A process without a free descriptor. Alone in its file, because the limit is that of the whole process.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::Duration;

use lathe_models::web::WebClient;
use lathe_protocol::web::{JsonPost, WebError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

async fn post(url: &str) -> WebError {
    let timeout = Duration::from_secs(20);
    let post = JsonPost { url, headers: &[], body: "{}", max_reply_bytes: 10, timeout };
    WebClient::default().post(post).await.expect_err("nothing listens there")
}

#[tokio::test]
async fn a_request_without_a_socket_is_not_taken_for_an_address_without_an_answer() {
    let limit = getrlimit(Resource::Nofile);
    let next_free = File::open("/dev/null").unwrap().as_raw_fd();
    let none_free = Rlimit { current: u64::try_from(next_free).ok(), maximum: limit.maximum };
    // The second has to look up a name, the third to read certificates.
    for url in ["http://127.0.0.1:9/", "http://localhost:9/", "https://127.0.0.1:9/"] {
        setrlimit(Resource::Nofile, none_free).unwrap();
        let error = post(url).await;
        setrlimit(Resource::Nofile, limit).unwrap();
        assert!(matches!(error, WebError::Exhausted(_)), "{url}: {error:?}");
    }
    for url in ["http://127.0.0.1:9/", "http://localhost:9/"] {
        let error = post(url).await;
        assert!(matches!(error, WebError::Failed(_)), "{url}: {error:?}");
    }
}
