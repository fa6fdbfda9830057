//! How many requests a second the server answers, and how many turns a second the in-process model: run
//! with `cargo run --release -p lathe-scripted --example throughput [CONNECTIONS] [REQUESTS]`. Server and
//! clients share one thread each, so `taskset -c 0` around it gives the figure for one core.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "an example takes arguments and prints what it measured"
)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use lathe_models::{CacheTtl, Model, ModelRequest, Thinking, WireMessage};
use lathe_protocol::Role;
use lathe_scripted::{Script, ScriptedModel, ServeOptions, Turn, serve};
use serde_json::json;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>().expect("a number"));
    let connections = arguments.next().unwrap_or(8);
    let requests = arguments.next().unwrap_or(40_000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let tiny = || Script::new([Turn::text("ok")]);
        let server = serve(tiny(), ServeOptions::default()).await.expect("a free port");
        for stream in [true, false] {
            let (addr, started) = (server.addr(), Instant::now());
            let clients = (0..connections)
                .map(|_| tokio::task::spawn_blocking(move || client(addr, stream, requests / connections)));
            futures_util::future::join_all(clients).await;
            report(&format!("HTTP, stream {stream}, {connections} connections"), requests, started);
        }
        in_process(&ScriptedModel::new(tiny()).expect("a valid script"), requests).await;
    });
}

fn report(what: &str, requests: usize, started: Instant) {
    let seconds = started.elapsed().as_secs_f64();
    println!("{what}: {:.0} requests/s", requests as f64 / seconds);
}

fn client(addr: SocketAddr, stream: bool, requests: usize) {
    let body = json!({"model": "m", "max_tokens": 10, "stream": stream, "messages": [{"role": "user", "content": "hi"}]});
    let body = body.to_string();
    let headers = format!("host: x\r\nanthropic-version: 2023-06-01\r\ncontent-length: {}", body.len());
    let request = format!("POST /v1/messages HTTP/1.1\r\n{headers}\r\n\r\n{body}");
    let mut connection = TcpStream::connect(addr).expect("the server listens");
    connection.set_nodelay(true).expect("a socket option");
    let end: &[u8] = if stream { b"0\r\n\r\n" } else { b"}" };
    let mut buffer = [0; 8192];
    for _ in 0..requests {
        connection.write_all(request.as_bytes()).expect("the server reads");
        let mut filled = 0;
        while !buffer[..filled].ends_with(end) {
            filled += connection.read(&mut buffer[filled..]).expect("the server answers");
        }
    }
}

async fn in_process(model: &ScriptedModel, requests: usize) {
    let request = Arc::new(ModelRequest {
        model: "m".into(),
        max_tokens: 10,
        system: Vec::new(),
        tools: "[]".into(),
        defers_tools: false,
        messages: vec![
            WireMessage::new(Role::User, &[json!({"type": "text", "text": "hi"})]).expect("plain JSON"),
        ],
        thinking: Thinking::Disabled,
        effort: None,
        task_budget: None,
        user_id: None,
        betas: Vec::new(),
        cache: CacheTtl::Off,
        extra_body: serde_json::Map::new(),
        agent: "main".into(),
    });
    let started = Instant::now();
    for _ in 0..requests {
        let mut stream = model.stream(Arc::clone(&request)).await.expect("an answer");
        while let Some(event) = stream.events.next().await {
            event.expect("a whole answer");
        }
    }
    report("in-process, streamed", requests, started);
}
