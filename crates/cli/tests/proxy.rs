//! A TCP proxy with backends that come and go.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::spawn;

#[derive(Default)]
struct Backend {
    port: Option<u16>,
    is_away: bool,
    streams: Vec<TcpStream>,
}

/// Forwards each connection to the next available backend.
pub(crate) struct Proxy {
    port: u16,
    backends: Arc<Mutex<Vec<Backend>>>,
}

impl Proxy {
    pub(crate) fn start(n: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let backends: Arc<Mutex<Vec<Backend>>> = Arc::default();
        backends.lock().unwrap().resize_with(n, Backend::default);
        let shared = Arc::clone(&backends);
        let turn = AtomicUsize::new(0);
        spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let mut backends = shared.lock().unwrap();
                let first = turn.fetch_add(1, Ordering::Relaxed);
                for offset in 0..n {
                    let backend = &mut backends[(first + offset) % n];
                    let Some(port) = backend.port.filter(|_| !backend.is_away) else {
                        continue;
                    };
                    if let Ok(server) = TcpStream::connect(("127.0.0.1", port)) {
                        let copies = [client.try_clone().unwrap(), server.try_clone().unwrap()];
                        backend.streams.extend(copies);
                        pass(&client, &server);
                        pass(&server, &client);
                        break;
                    }
                }
            }
        });
        Self { port, backends }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Sets the port of a backend.
    pub(crate) fn lead_to(&self, backend: usize, port: u16) {
        self.backends.lock().unwrap()[backend].port = Some(port);
    }

    /// Marks a backend as away or available, and closes its connections. A backend that is away
    /// gets no new connections.
    pub(crate) fn set_away(&self, backend: usize, is_away: bool) {
        let backend = &mut self.backends.lock().unwrap()[backend];
        backend.is_away = is_away;
        for stream in backend.streams.drain(..) {
            // The connection may already be closed.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Forgets the port of a backend.
    pub(crate) fn forget(&self, backend: usize) {
        self.backends.lock().unwrap()[backend] = Backend::default();
    }
}

/// Copies data from one side to the other until its end.
fn pass(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    spawn(move || {
        let mut buffer = [0; 16 << 10];
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            if to.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write); // the connection may already be closed
    });
}
