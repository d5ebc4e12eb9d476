//! A scratch PostgreSQL server.
#![expect(
    clippy::unwrap_used,
    reason = "a test without its server fails, and the message gives the reason"
)]

mod host;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use rustix::process::{Pid, Signal, kill_process};

use host::{Process, User};

/// Maximum time for the server to start or stop on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The server's superuser, who needs no password.
const SUPERUSER: &str = "fedbo";

/// A private PostgreSQL server with its data and its socket in a temporary folder.
///
/// PostgreSQL refuses to run as root, so under root it runs as `postgres` or `nobody`. The server
/// is stopped and its folder removed when this value is dropped or when the process ends for any
/// reason. The user `guarded` must provide a password; all others connect without one.
#[derive(Debug)]
pub struct Server {
    folder: PathBuf,
    programs: PathBuf,
    user: Option<User>,
    settings: Vec<(String, String)>,
    postmaster: Option<Child>,
    guard: Child,
    /// Pipe that passes the server's process ID to the guard.
    told: Option<ChildStdin>,
    n_databases: AtomicU32,
}

/// Script of the guard process. It waits for the end of its input, then stops the server with the
/// last process ID and removes the folder.
///
/// The input ends when the process at the other end of the pipe ends.
const GUARD: &str = r#"
while read -r said; do pid=$said; done
if [ "${pid:-0}" -gt 0 ]; then
    kill -QUIT "$pid" 2>/dev/null
    n=0
    while kill -0 "$pid" 2>/dev/null && [ $n -lt 100 ]; do sleep 0.05; n=$((n + 1)); done
fi
rm -rf "$1"
"#;

impl Server {
    /// Starts a server with PostgreSQL's defaults, except for reduced memory.
    ///
    /// # Panics
    /// If PostgreSQL is not installed or does not start.
    pub fn start() -> Self {
        Self::with_settings(&[])
    }

    /// Starts a server with additional settings, which may refer to files from [`Server::path`].
    ///
    /// # Panics
    /// As for [`Server::start`].
    pub fn with_settings(settings: &[(&str, &str)]) -> Self {
        let programs = host::programs();
        let user = host::ordinary_user();
        let folder =
            tempfile::Builder::new().prefix("fedbo-pg-").tempdir_in(host::place()).unwrap().keep();
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "sh"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0) // Ctrl-C must not reach the guard
            .spawn()
            .unwrap();
        let mut server = Self {
            told: guard.stdin.take(),
            guard,
            folder,
            programs,
            user,
            settings: Vec::new(),
            postmaster: None,
            n_databases: AtomicU32::new(0),
        };
        if let Some(user) = server.user {
            chown(&server.folder, Some(user.uid), Some(user.gid)).unwrap();
        }
        server.create_layout();
        server.restart_with(settings);
        server
    }

    /// Creates the data folder of a new server.
    fn create_layout(&self) {
        let output = self
            .command("initdb")
            .args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"])
            .arg(format!("--username={SUPERUSER}"))
            .arg("--pgdata")
            .arg(self.data())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "initdb failed: {said}");
        let hba = "local all guarded scram-sha-256\nhost all guarded all scram-sha-256\n\
                   local all all trust\nhost all all 127.0.0.1/32 trust\n";
        fs::write(self.data().join("pg_hba.conf"), hba).unwrap();
    }

    /// Writes a file into the server's folder, readable only by the server, and returns its path.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn path(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.folder.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        if let Some(user) = self.user {
            chown(&path, Some(user.uid), Some(user.gid)).unwrap();
        }
        path
    }

    /// Returns the URL of a database for the superuser.
    pub fn url(&self, database: &str) -> String {
        self.url_of(SUPERUSER, database)
    }

    /// Returns the URL of a database for a user, given as `user` or `user:password`.
    pub fn url_of(&self, user: &str, database: &str) -> String {
        let folder = self.folder.display().to_string().replace('/', "%2F");
        format!("postgresql://{user}@{folder}:{}/{database}", self.port())
    }

    /// Returns the URL of a database over TCP. Requires the settings `listen_addresses` and `port`.
    pub fn url_at(&self, host: &str, database: &str) -> String {
        format!("postgresql://{SUPERUSER}@{host}:{}/{database}", self.port())
    }

    fn port(&self) -> &str {
        let port = self.settings.iter().find(|(key, _)| key == "port");
        port.map_or("5432", |(_, port)| port)
    }

    /// Returns the path of the server's socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(format!(".s.PGSQL.{}", self.port()))
    }

    /// Creates an empty database and returns its URL.
    ///
    /// # Panics
    /// If the server cannot create it.
    pub fn new_database(&self) -> String {
        let n = self.n_databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("scratch_{n}");
        self.run("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// Runs statements in a database.
    ///
    /// # Panics
    /// If the server rejects them.
    pub fn run(&self, database: &str, statements: &str) {
        let mut client = self.connect(database);
        let ran = client.batch_execute(statements);
        ran.unwrap_or_else(|error| panic!("{statements}: {error:?}"));
    }

    /// Connects to a database.
    ///
    /// # Panics
    /// If the connection fails.
    pub fn connect(&self, database: &str) -> Client {
        Client::connect(&self.url(database), NoTls).unwrap()
    }

    /// Kills all processes of the server at once, as a power failure would. The processes cannot
    /// write or send anything afterwards.
    ///
    /// # Panics
    /// If the server is not running.
    pub fn kill_all(&mut self) {
        let mut postmaster = self.postmaster.take().unwrap();
        let pid = Pid::from_child(&postmaster);
        // A stopped postmaster cannot start processes while its children are listed.
        kill_process(pid, Signal::STOP).unwrap();
        let is_stopped = |process: &Process| process.id == pid && process.state == 'T';
        wait_until("stopped", || host::processes().iter().any(is_stopped));
        let mut doomed = host::processes();
        doomed.retain(|process| process.parent == Some(pid));
        for child in &doomed {
            let _ = kill_process(child.id, Signal::KILL);
        }
        kill_process(pid, Signal::KILL).unwrap();
        postmaster.wait().unwrap();
        // Shared memory of a surviving process would prevent the next server from starting.
        let lives = |process: &Process| {
            process.state != 'Z' && doomed.iter().any(|child| child.id == process.id)
        };
        wait_until("dead", || !host::processes().iter().any(lives));
        self.tell_guard(0);
    }

    /// Restarts the server with its current settings. A running server is stopped first.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn restart(&mut self) {
        let before = self.settings.clone();
        let before: Vec<(&str, &str)> = before.iter().map(|(k, v)| (&**k, &**v)).collect();
        self.restart_with(&before);
    }

    /// Restarts the server with different settings.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn restart_with(&mut self, settings: &[(&str, &str)]) {
        self.stop(Signal::INT);
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        self.settings = settings.iter().map(owned).collect();
        let log = fs::File::options().create(true).append(true).open(self.log()).unwrap();
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(&self.folder);
        let ours = [
            ("listen_addresses", ""),
            ("shared_buffers", "1MB"),
            ("max_connections", "40"),
            ("dynamic_shared_memory_type", "mmap"), // creates no files outside the server's folder
        ];
        for (key, value) in ours.iter().chain(settings) {
            command.args(["-c", &format!("{key}={value}")]);
        }
        let postmaster =
            command.stdout(log.try_clone().unwrap()).stderr(log).process_group(0).spawn().unwrap();
        self.tell_guard(postmaster.id());
        self.postmaster = Some(postmaster);
        self.await_start();
    }

    fn await_start(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = Client::connect(&self.url("postgres"), NoTls) {
            let ended = self.postmaster.as_mut().unwrap().try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "the scratch server did not start ({error:?}); its log:\n{}",
                fs::read_to_string(self.log()).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops the server with a signal if it is running.
    fn stop(&mut self, signal: Signal) {
        let Some(mut postmaster) = self.postmaster.take() else {
            return;
        };
        let _ = kill_process(Pid::from_child(&postmaster), signal);
        wait_until("stopped", || postmaster.try_wait().unwrap().is_some());
        self.tell_guard(0);
    }

    fn tell_guard(&mut self, pid: u32) {
        let told = self.told.as_mut().unwrap();
        writeln!(told, "{pid}").unwrap();
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Returns a command that runs a PostgreSQL program as the server's user.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(&self.folder).stdin(Stdio::null());
        // PostgreSQL's environment variables, if set, refer to other servers.
        for (key, _) in std::env::vars_os() {
            if key.to_string_lossy().starts_with("PG") {
                command.env_remove(key);
            }
        }
        if let Some(user) = self.user {
            command.uid(user.uid).gid(user.gid);
        }
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The guard stops the server. A failure here would hide the test's own failure.
        self.told = None;
        if let Some(mut postmaster) = self.postmaster.take() {
            let _ = postmaster.wait();
        }
        let _ = self.guard.wait();
    }
}

/// Waits until the condition holds. Panics after [`PATIENCE`].
fn wait_until(state: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < deadline, "the scratch server is not {state}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
