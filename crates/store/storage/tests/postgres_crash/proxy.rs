//! A proxy socket between a client and a server. It cuts their connection at a commit.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The point at which the connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Before the server receives the commit.
    BeforeCommit,
    /// Together with the commit: the server receives the commit and the end of the connection.
    WithCommit,
    /// After the server has committed. Its response is lost.
    BeforeAnswer,
}

/// The bytes of a client's commit: a `Q` message with its length and text.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

#[derive(Default)]
struct State {
    next: Option<Cut>,
    refuses_after_cut: bool,
    n_cuts: usize,
}

pub(crate) struct Proxy {
    folder: tempfile::TempDir,
    state: Arc<Mutex<State>>,
}

impl Proxy {
    /// Starts a proxy for the server at this socket.
    pub(crate) fn start(server: PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        // The thread ends with the process, because nothing else interrupts `accept`.
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let is_refused = {
                    let state = shared.lock().unwrap();
                    state.refuses_after_cut && state.n_cuts > 0
                };
                if !is_refused {
                    connect(client, &server, &shared);
                }
            }
        });
        Self { folder, state }
    }

    /// Returns the address of the same database through the proxy.
    pub(crate) fn url_of(&self, url: &str) -> String {
        let (_, database) = url.rsplit_once('/').unwrap();
        let folder = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgresql://fedbo@{folder}/{database}")
    }

    /// Cuts the connection once, at the next commit.
    pub(crate) fn cut_next(&self, cut: Cut) {
        self.state.lock().unwrap().next = Some(cut);
    }

    /// After a cut, closes every new connection immediately.
    pub(crate) fn refuse_after_cut(&self) {
        self.state.lock().unwrap().refuses_after_cut = true;
    }

    pub(crate) fn n_cuts(&self) -> usize {
        self.state.lock().unwrap().n_cuts
    }
}

fn connect(client: UnixStream, server: &Path, state: &Arc<Mutex<State>>) {
    let Ok(server) = UnixStream::connect(server) else {
        return;
    };
    let (from_client, from_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let back = std::thread::spawn({
        let state = Arc::clone(state);
        move || answers(from_server, client, &state)
    });
    let state = Arc::clone(state);
    std::thread::spawn(move || {
        requests(from_client, server, &state);
        drop(back);
    });
}

/// Takes the pending cut if it matches, so that no cut is pending any more.
fn take(state: &Mutex<State>, is_of_kind: impl Fn(Cut) -> bool) -> Option<Cut> {
    let mut state = state.lock().unwrap();
    let cut = state.next.take_if(|cut| is_of_kind(*cut));
    state.n_cuts += usize::from(cut.is_some());
    cut
}

fn shut(stream: &UnixStream) {
    let _ = stream.shutdown(Shutdown::Both);
}

/// Forwards requests to the server. The client waits for each response, so a commit arrives
/// separately.
fn requests(mut client: UnixStream, mut server: UnixStream, state: &Mutex<State>) {
    let mut buffer = [0; 8192];
    while let Ok(n) = client.read(&mut buffer) {
        let part = &buffer[..n];
        if part.ends_with(COMMIT)
            && let Some(cut) = take(state, |cut| cut != Cut::BeforeAnswer)
        {
            shut(&client);
            if cut == Cut::WithCommit {
                server.write_all(part).unwrap();
            }
            break;
        }
        if n == 0 || server.write_all(part).is_err() {
            break;
        }
    }
    shut(&client);
    shut(&server);
}

/// Forwards responses to the client. The response to drop is the one that confirms a commit.
fn answers(mut server: UnixStream, mut client: UnixStream, state: &Mutex<State>) {
    let mut buffer = [0; 8192];
    while let Ok(n) = server.read(&mut buffer) {
        let part = &buffer[..n];
        let is_done = part.windows(7).any(|window| window == b"COMMIT\0");
        if is_done && take(state, |cut| cut == Cut::BeforeAnswer).is_some() {
            break;
        }
        if n == 0 || client.write_all(part).is_err() {
            break;
        }
    }
    shut(&client);
    shut(&server);
}
