//! The process's limit on open files. Each connection uses one file.

use std::sync::Once;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Number of files reserved for databases, logs and outgoing requests.
const RESERVE: u64 = 256;
/// Maximum soft limit. With a higher limit, programs that close every possible file descriptor
/// before they start a process become slow.
const RAISED_MAX: u64 = 1 << 20;

/// Raises the soft limit on open files, up to the hard limit, if `n_connections` connections need
/// it. Returns the number of connections that fit.
///
/// Child processes inherit the raised limit unless their own limit is set.
pub(super) fn room_for(n_connections: usize) -> usize {
    let wanted = u64::try_from(n_connections).unwrap_or(u64::MAX).saturating_add(RESERVE);
    let mut limit = getrlimit(Resource::Nofile);
    if let Some(raised) = raised(limit, wanted) {
        match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum })
        {
            Ok(()) => {
                tracing::debug!(
                    "the limit of open files is {raised}, previously {:?}",
                    limit.current
                );
                limit.current = Some(raised);
            }
            Err(error) => {
                tracing::warn!("cannot raise the limit of open files to {raised}: {error}")
            }
        }
    }
    let n_fitting = fitting(limit.current, n_connections);
    if n_fitting < n_connections {
        static WARNED: Once = Once::new();
        WARNED.call_once(|| {
            let limit = limit.current.unwrap_or(u64::MAX);
            tracing::warn!(
                "this process may open {limit} files and serves {n_fitting} connections instead of {n_connections}; raise its hard limit"
            );
        });
    }
    n_fitting
}

/// Returns the new soft limit if the current one is below `wanted` and can be raised.
fn raised(limit: Rlimit, wanted: u64) -> Option<u64> {
    let current = limit.current?;
    let possible = limit.maximum.unwrap_or(u64::MAX).min(RAISED_MAX.max(wanted));
    (current < wanted && current < possible).then_some(possible)
}

/// Returns how many of `n_connections` connections fit within a soft limit minus the reserve, which
/// takes at most a quarter of the limit.
fn fitting(limit: Option<u64>, n_connections: usize) -> usize {
    let Some(limit) = limit else {
        return n_connections;
    };
    let room = limit.saturating_sub(RESERVE.min(limit / 4)).max(1);
    usize::try_from(room).map_or(n_connections, |room| n_connections.min(room))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::{SocketAddr, TcpStream};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use tokio::sync::watch;

    use super::*;
    use crate::{ConnectionCounts, ConnectionLimits, ListenSettings, Listening};

    #[test]
    fn the_soft_limit_rises_to_the_hard_one_when_connections_need_it() {
        let limit = |current, maximum| Rlimit { current, maximum };
        assert_eq!(raised(limit(Some(1024), Some(4096)), 4352), Some(4096));
        assert_eq!(raised(limit(Some(1024), Some(524_288)), 4352), Some(524_288));
        assert_eq!(raised(limit(Some(1024), None), 4352), Some(RAISED_MAX));
        assert_eq!(raised(limit(Some(1024), Some(1024)), 4352), None);
        assert_eq!(raised(limit(Some(8192), Some(524_288)), 4352), None);
        assert_eq!(raised(limit(None, None), 4352), None);
    }

    #[test]
    fn connections_leave_files_for_the_rest_of_the_process() {
        assert_eq!(fitting(Some(524_288), 4096), 4096);
        assert_eq!(fitting(Some(1024), 4096), 768);
        assert_eq!(fitting(Some(1024), 300), 300);
        assert_eq!(fitting(Some(64), 4096), 48);
        assert_eq!(fitting(Some(0), 4096), 1);
        assert_eq!(fitting(None, 4096), 4096);
    }

    /// A server that ran out of file descriptors, mostly because of idle connections, still serves
    /// a new one.
    #[test]
    fn an_idle_connection_makes_room_when_no_file_is_left() {
        const MARK: &str = "FEDBO_TEST_NO_FILES";
        if std::env::var_os(MARK).is_some() {
            return serve_with_few_files();
        }
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "--nocapture"]);
        again.arg("server::open_files::tests::an_idle_connection_makes_room_when_no_file_is_left");
        let mut server = again.env(MARK, "1").stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let address = lines.map(Result::unwrap).find_map(|line| {
            let (_, address) = line.split_once("listening on ")?;
            address.parse::<SocketAddr>().ok()
        });
        let address = address.unwrap();
        let idle: Vec<TcpStream> = (0..90).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut last = TcpStream::connect(address).unwrap();
        last.write_all(b"GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n").unwrap();
        last.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut answer = String::new();
        let read = last.read_to_string(&mut answer);
        server.kill().unwrap();
        server.wait().unwrap();
        drop(idle);
        assert!(read.is_ok() && answer.starts_with("HTTP/1.1 200"), "{read:?}: {answer}");
    }

    /// Serves until killed, with more open files than the reserve allows for.
    fn serve_with_few_files() {
        const FILES: u64 = 100;
        let limit = Rlimit { current: Some(FILES), maximum: Some(FILES) };
        setrlimit(Resource::Nofile, limit).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let patience = Duration::from_secs(3600);
            let settings = ListenSettings {
                address: ([127, 0, 0, 1], 0).into(),
                tls: None,
                plain_http: false,
                limits: ConnectionLimits {
                    patience,
                    body_patience: patience,
                    answer_patience: patience,
                    ..ConnectionLimits::default()
                },
            };
            let listening = Listening::start(&settings).unwrap();
            let _held: Vec<File> = (0..40).map(|_| File::open("/dev/null").unwrap()).collect();
            writeln!(std::io::stdout(), "listening on {}", listening.address()).unwrap();
            let router = axum::Router::new().route("/", axum::routing::get(async || "ok"));
            let (_open, closes) = watch::channel(false);
            listening.serve(router, ConnectionCounts::default(), closes).await;
        });
    }
}
