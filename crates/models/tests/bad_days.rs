//! What a client makes of servers that fail, lie, stall and vanish.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use lathe_models::{AnthropicClient, ErrorKind, Model};
use serde_json::json;
use support::*;

#[tokio::test]
async fn an_answer_is_the_same_however_it_is_framed() {
    let events = answer_events();
    let per_line: Vec<_> = events.split_inclusive('\n').collect();
    let closed = stream_head("connection: close") + &events;
    let sized = stream_head(&format!("content-length: {}", events.len())) + &events;
    let no_blank_end = chunked([events.trim_end()]);
    for (name, bytes) in [
        ("one chunk", whole_answer()),
        ("a chunk per line", chunked(per_line)),
        ("closed at the end", closed.into_bytes()),
        ("with a length", sized.into_bytes()),
        ("carriage returns", chunked([events.replace('\n', "\r").as_str()])),
        ("no blank line at the end", no_blank_end),
        ("comments between", chunked([events.replace("event:", ": note\nevent:").as_str()])),
        ("after a byte order mark", chunked([format!("\u{feff}{events}").as_str()])),
    ] {
        let outcome = one_call(vec![Step::Send(bytes.clone()), Step::Close]).await;
        assert!(outcome.error.is_none(), "{name}: {outcome:?}");
        assert_eq!(outcome.types, ANSWER_TYPES, "{name}");
    }
    let outcome = one_call(vec![Step::SendEachByte(whole_answer())]).await;
    assert_eq!(outcome.types, ANSWER_TYPES);
}

/// Cuts the answer behind every byte: whatever is missing, the call ends with an error that may be retried,
/// and what was read until then is a beginning of the answer.
async fn cut_everywhere(whole: Vec<u8>, complete_from: usize) {
    let answers = (0..whole.len()).map(|end| vec![Step::Send(whole[..end].to_vec()), Step::Close]).collect();
    let server = Server::start(answers).await;
    let client = client(&server);
    for end in 0..whole.len() {
        let outcome = read_all(client.stream(Arc::new(request())).await).await;
        assert_eq!(outcome.types[..], ANSWER_TYPES[..outcome.types.len()], "cut at {end}");
        if end >= complete_from {
            assert!(outcome.error.is_none(), "cut at {end}: {outcome:?}");
        } else {
            let kind = outcome.kind().unwrap_or_else(|| panic!("cut at {end} was not noticed"));
            assert!(
                matches!(kind, ErrorKind::StreamCut | ErrorKind::Connection),
                "cut at {end}: {outcome:?}"
            );
            assert!(outcome.types.len() < ANSWER_TYPES.len(), "cut at {end} looks complete");
        }
    }
}

#[tokio::test]
async fn a_chunked_answer_may_be_cut_anywhere() {
    let whole = whole_answer();
    // Complete with the last letter of message_stop's JSON; what follows is framing.
    let complete_from = whole.len() - "\n\n\r\n0\r\n\r\n".len();
    cut_everywhere(whole, complete_from).await;
}

#[tokio::test]
async fn an_answer_that_ends_with_the_connection_may_be_cut_anywhere() {
    let whole = (stream_head("connection: close") + &answer_events()).into_bytes();
    let complete_from = whole.len() - "\n\n".len();
    cut_everywhere(whole, complete_from).await;
}

#[tokio::test]
async fn a_reset_inside_the_answer_is_a_cut() {
    let half = &whole_answer()[..400];
    let outcome = one_call(vec![Step::Send(half.to_vec()), Step::Reset]).await;
    assert!(matches!(outcome.kind(), Some(ErrorKind::StreamCut | ErrorKind::Connection)), "{outcome:?}");
}

#[tokio::test]
async fn no_answer_at_all_is_a_failed_connection() {
    for steps in [vec![Step::Close], vec![Step::Reset], vec![Step::Send(b"SSH-2.0-x\r\n".to_vec())]] {
        let outcome = one_call(steps).await;
        assert_eq!(outcome.kind(), Some(ErrorKind::Connection), "{outcome:?}");
    }
    let vacant = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let client = AnthropicClient::new(config(&vacant)).unwrap();
    let outcome = read_all(client.stream(Arc::new(request())).await).await;
    assert_eq!(outcome.kind(), Some(ErrorKind::Connection));
    let message = outcome.error.unwrap().message;
    assert!(message.starts_with("cannot reach 127.0.0.1:"), "{message}");
    assert!(message.contains("refused"), "{message}");
}

#[tokio::test]
async fn silence_ends_the_call_and_the_connection() {
    let head = stream_head("transfer-encoding: chunked").into_bytes();
    let half = whole_answer()[..400].to_vec();
    let (short, long) = (Duration::from_millis(150), Duration::from_secs(20));
    for (steps, first_byte, idle, events) in [
        (vec![Step::Hold], short, long, 0),
        (vec![Step::Send(head), Step::Hold], long, short, 0),
        (vec![Step::Send(half), Step::Hold], long, short, 2),
    ] {
        let server = Server::start(vec![steps]).await;
        let mut config = config(&server.url);
        config.timeouts.first_byte = first_byte;
        config.timeouts.idle = idle;
        let client = AnthropicClient::new(config).unwrap();
        let started = Instant::now();
        let outcome = read_all(client.stream(Arc::new(request())).await).await;
        assert!(started.elapsed() < long, "it hung");
        assert_eq!(outcome.kind(), Some(ErrorKind::Stalled), "{outcome:?}");
        assert_eq!(outcome.types.len(), events);
        server.hung_up().await;
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_complete_answer_does_not_wait_for_the_connection_to_end() {
    let open_ended = stream_head("transfer-encoding: chunked").into_bytes();
    let events = answer_events();
    let body = format!("{:x}\r\n{events}\r\n", events.len()).into_bytes();
    let started = Instant::now();
    let outcome = one_call(vec![Step::Send(open_ended), Step::Send(body), Step::Hold]).await;
    assert_eq!(outcome.types, ANSWER_TYPES);
    assert!(outcome.error.is_none());
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn dropping_the_stream_hangs_up() {
    let half = whole_answer()[..400].to_vec();
    let server = Server::start(vec![vec![Step::Send(half), Step::Hold]]).await;
    let client = client(&server);
    let mut stream = client.stream(Arc::new(request())).await.unwrap();
    assert!(stream.events.next().await.unwrap().is_ok());
    drop(stream);
    server.hung_up().await;
}

fn error_event(api_type: &str) -> String {
    event(json!({"type": "error", "error": {"type": api_type, "message": "told"}}))
}

#[tokio::test]
async fn an_error_event_ends_the_stream_after_what_came_before() {
    let begun = &answer_events()[..answer_events().find("event: content_block_stop").unwrap()];
    let bytes = chunked([begun, &error_event("overloaded_error"), &answer_events()]);
    let outcome = one_call(vec![Step::Send(bytes)]).await;
    assert_eq!(outcome.types, ANSWER_TYPES[..3]);
    let error = outcome.error.unwrap();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Overloaded, "told"));
    assert_eq!((error.status, error.request_id.as_deref()), (None, Some("req_1")));
    let bytes = chunked([begun, &error_event("api_error")]);
    assert_eq!(one_call(vec![Step::Send(bytes)]).await.kind(), Some(ErrorKind::StreamError));
}

#[tokio::test]
async fn an_error_before_the_first_event_is_the_requests_own() {
    let ping = event(json!({"type": "ping"}));
    let bytes = chunked([ping.as_str(), &error_event("overloaded_error")]);
    let server = Server::start(vec![vec![Step::Send(bytes)]]).await;
    let error = client(&server).stream(Arc::new(request())).await.err().expect("no error was returned");
    assert_eq!(error.kind, ErrorKind::Overloaded);
}

#[tokio::test]
async fn nothing_follows_the_end_of_the_message() {
    let twice = answer_events() + &answer_events();
    assert_eq!(one_call(vec![Step::Send(chunked([twice.as_str()]))]).await.types, ANSWER_TYPES);
}

#[tokio::test]
async fn events_nobody_knows_are_passed_on() {
    let odd = event(json!({"type": "from_the_future", "x": 1})) + "data: {}\n\nevent: empty\n\n";
    let bytes = chunked([odd.as_str(), &answer_events()]);
    let outcome = one_call(vec![Step::Send(bytes)]).await;
    assert_eq!(outcome.types[..3], ["from_the_future", "", "message_start"]);
    assert!(outcome.error.is_none());
}

#[tokio::test]
async fn garbage_in_the_stream_is_a_protocol_error() {
    for garbage in ["data: {\"type\":\n\n", "data: \u{0}\n\n", "data: [1]\n\n", "data: \"text\"\n\n"] {
        let begun = answer_events().split_inclusive("\n\n").next().unwrap().to_owned();
        let outcome = one_call(vec![Step::Send(chunked([begun.as_str(), garbage, &answer_events()]))]).await;
        assert_eq!(outcome.types, ["message_start"], "{garbage:?}");
        assert_eq!(outcome.kind(), Some(ErrorKind::Protocol), "{garbage:?}");
    }
}

#[tokio::test]
async fn an_event_without_end_is_refused() {
    let mut bytes = (stream_head("connection: close") + "data: ").into_bytes();
    bytes.resize(bytes.len() + lathe_models::sse::MAX_EVENT_BYTES + 1, b'x');
    let outcome = one_call(vec![Step::Send(bytes), Step::Hold]).await;
    assert_eq!(outcome.kind(), Some(ErrorKind::Protocol), "{outcome:?}");
}

#[tokio::test]
async fn what_is_not_a_stream_is_shown() {
    let page = response("200 OK", "content-type: text/html\r\n", "<html>please log in</html>");
    let outcome = one_call(vec![Step::Send(page)]).await;
    assert_eq!(outcome.kind(), Some(ErrorKind::Protocol));
    assert!(outcome.error.unwrap().message.contains("<html>please log in"));
    // An error object under a good status is still that error.
    let told = one_call(vec![Step::Send(api_error("200 OK", "", "rate_limit_error", "slow down"))]).await;
    assert_eq!(told.kind(), Some(ErrorKind::RateLimit));
}

#[tokio::test]
async fn refusals_say_all_they_know() {
    let headers = "request-id: req_7\r\nretry-after: 7\r\n";
    let bytes = api_error("429 Too Many Requests", headers, "rate_limit_error", "slow down");
    let error = one_call(vec![Step::Send(bytes)]).await.error.unwrap();
    assert_eq!(error.kind, ErrorKind::RateLimit);
    assert_eq!(error.status, Some(429));
    assert_eq!(error.api_type.as_deref(), Some("rate_limit_error"));
    assert_eq!(error.message, "slow down");
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    assert_eq!(error.request_id.as_deref(), Some("req_7"));
    let bytes = api_error("400 Bad Request", "", "invalid_request_error", "prompt is too long: 2 > 1");
    assert_eq!(one_call(vec![Step::Send(bytes)]).await.kind(), Some(ErrorKind::PromptTooLong));
}

#[tokio::test]
async fn a_refusal_with_a_huge_or_missing_body_is_still_that_refusal() {
    let head = b"HTTP/1.1 529 \r\ncontent-length: 100000000\r\n\r\n".to_vec();
    let steps = vec![Step::Send(head.clone()), Step::Send(vec![b'x'; 1_000_000]), Step::Hold];
    let error = one_call(steps).await.error.unwrap();
    assert_eq!((error.kind, error.status), (ErrorKind::Overloaded, Some(529)));
    assert!(error.message.len() < 1000);
    let error = one_call(vec![Step::Send(head), Step::Close]).await.error.unwrap();
    assert_eq!(error.kind, ErrorKind::Overloaded);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let trap = Server::start(vec![vec![Step::Send(whole_answer())]]).await;
    for status in ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let bytes = response(status, &format!("location: {}/v1/messages\r\n", trap.url), "");
        let outcome = one_call(vec![Step::Send(bytes)]).await;
        assert_eq!(outcome.kind(), Some(ErrorKind::InvalidRequest), "{status}");
        let message = outcome.error.unwrap().message;
        assert!(message.contains("redirects to 127.0.0.1:"), "{message}");
    }
    assert!(trap.seen().is_empty(), "the key travelled");
}

#[tokio::test]
async fn whole_answers_break_in_the_same_ways() {
    let complete = async |steps| {
        let server = Server::start(vec![steps]).await;
        let mut config = config(&server.url);
        config.timeouts.request = Duration::from_millis(200);
        let client = AnthropicClient::new(config).unwrap();
        client.complete(Arc::new(request())).await.map(drop).map_err(|error| error.kind)
    };
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec();
    assert_eq!(complete(vec![Step::Send(cut.clone()), Step::Close]).await, Err(ErrorKind::StreamCut));
    assert_eq!(complete(vec![Step::Send(cut), Step::Hold]).await, Err(ErrorKind::Stalled));
    assert_eq!(complete(vec![Step::Hold]).await, Err(ErrorKind::Stalled));
    let text = response("200 OK", "", "<html>");
    assert_eq!(complete(vec![Step::Send(text)]).await, Err(ErrorKind::Protocol));
    let other = json_response("200 OK", "", &json!({"type": "list"}));
    assert_eq!(complete(vec![Step::Send(other)]).await, Err(ErrorKind::Protocol));
    let error = api_error("200 OK", "", "overloaded_error", "busy");
    assert_eq!(complete(vec![Step::Send(error)]).await, Err(ErrorKind::Overloaded));
}
