//! A scripted server on its own thread, for tests that are not async and for child processes that need responses while
//! the test waits for them.
#![allow(clippy::disallowed_methods, reason = "a test waits for the server on its own thread")]

use std::ops::Deref;
use std::sync::mpsc;
use std::thread::JoinHandle;

use lathe_scripted::{Script, ServeOptions, ServerHandle, serve};
use tokio::sync::oneshot;

/// A running server; it stops when this is dropped.
#[derive(Debug)]
pub struct BackgroundServer {
    handle: Option<ServerHandle>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundServer {
    /// Starts a server for `script` on a free port of 127.0.0.1 and returns once it listens. Panics if the script is
    /// not valid.
    pub fn start(script: Script) -> Self {
        let (send_handle, handle) = mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be made").block_on(async {
                let started = serve(script, ServeOptions::default()).await;
                send_handle.send(started).expect("the starter waits for the handle");
                // Ends when the sender is dropped.
                let _ = stopped.await;
            });
        });
        let handle =
            handle.recv().expect("the server thread reports").unwrap_or_else(|error| panic!("{error}"));
        Self { handle: Some(handle), stop: Some(stop), thread: Some(thread) }
    }
}

impl Deref for BackgroundServer {
    type Target = ServerHandle;

    fn deref(&self) -> &ServerHandle {
        self.handle.as_ref().expect("the handle lives as long as the server")
    }
}

impl Drop for BackgroundServer {
    fn drop(&mut self) {
        drop(self.handle.take());
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The error is ignored: a panic of that thread was already printed.
            let _ = thread.join();
        }
    }
}
