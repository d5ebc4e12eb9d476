//! Runs the real binary on files in a temporary folder.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

pub struct Sandbox {
    pub folder: tempfile::TempDir,
}

pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Sandbox {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a writable folder");
        path
    }

    /// Returns the command for `fedbo` in the temporary folder.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fedbo"));
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    pub fn fedbo(&self, arguments: &[&str]) -> Ran {
        self.command(arguments).output().expect("the binary starts").into()
    }

    pub fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts")
    }

    /// Returns the command for `fedbo`, started by a shell with a limit such as `ulimit -f 0;`.
    /// Writes beyond the limit fail as on a full disk, instead of killing the program.
    pub fn limited_command(&self, limit: &str, arguments: &[&str]) -> Command {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("trap '' XFSZ; {limit} exec \"$0\" \"$@\"")])
            .arg(env!("CARGO_BIN_EXE_fedbo"))
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        shell
    }

    /// Runs [`Sandbox::limited_command`].
    pub fn limited(&self, limit: &str, arguments: &[&str]) -> Ran {
        self.limited_command(limit, arguments).output().expect("the shell starts").into()
    }

    /// Runs `fedbo` without root privileges, because root ignores file permissions.
    pub fn without_privileges(&self, arguments: &[&str]) -> Ran {
        if !rustix::process::geteuid().is_root() {
            return self.fedbo(arguments);
        }
        // Copy the program, because the build folder may be readable only by root. Use a separate
        // process for this: a file just written by this process may still be open for writing in a
        // child process of another thread, and could then not be executed.
        let place = tempfile::tempdir().expect("a folder");
        allow(place.path(), 0o755);
        let program = place.path().join("fedbo");
        let copied = Command::new("install")
            .args(["-m", "755", env!("CARGO_BIN_EXE_fedbo")])
            .arg(&program)
            .status();
        assert!(copied.expect("install starts").success());
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        let output = command.uid(65534).gid(65534).output().expect("it starts");
        output.into()
    }

    /// Returns `--resume` if results/test has a run that can be resumed.
    pub fn resume(&self) -> Option<&'static str> {
        let files = ["results.csv", "ledger.db", "ledger.db-wal", "ledger.head"];
        let folder = self.path("results/test");
        let is_begun = files.iter().any(|name| folder.join(name).exists());
        is_begun.then_some("--resume")
    }

    /// Returns the lines of a results file without the column of seconds, which differs between
    /// runs.
    pub fn results(&self, folder: &str) -> Vec<String> {
        results(&self.path(folder).join("results.csv"))
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let ran = Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        };
        assert!(
            !ran.stderr.contains("panicked at") && !ran.stderr.contains("internal error"),
            "{}",
            ran.stderr
        );
        ran
    }
}

impl Ran {
    /// Checks the exit code, and that standard error contains all `parts`.
    pub fn expect(&self, code: i32, parts: &[&str]) -> &Self {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} in {}", self.stderr);
        }
        self
    }
}

pub fn results(path: &Path) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_path(path).expect("results");
    let without_seconds = |record: Result<csv::StringRecord, csv::Error>| {
        let record = record.expect("a whole row");
        let mut fields: Vec<&str> = record.iter().collect();
        fields.remove(fields.len() - 2);
        fields.join(",")
    };
    reader.records().map(without_seconds).collect()
}

/// Returns a federation of commands over x and n. The agents' `sh -c` scripts read `$1` and `$2`.
pub fn federation(rounds: u32, extra: &str, scripts: &[(&str, &str)]) -> String {
    let mut text = format!(
        r#"[federation]
name = "test"
direction = "minimize"
algorithm = "fts"
rounds = {rounds}
initial = 2
seed = 3
[space.x]
type = "float"
low = -1.0
high = 2.0
[space.n]
type = "int"
low = 1
high = 9
{extra}
"#
    );
    for (name, script) in scripts {
        text += &format!(
            "[[agents]]\nname = {name:?}\ncommand = [\"sh\", \"-c\", '''{script}''', \"sh\", \"{{x}}\", \"{{n}}\"]\n"
        );
    }
    text
}

pub const PARABOLA: &str = r#"awk -v x="$1" -v n="$2" 'BEGIN { print (x - 0.5) ^ 2 + n / 10 }'"#;

/// Waits until a program exits, and returns its output.
pub fn finished(mut child: std::process::Child) -> Ran {
    let status = child.wait().expect("it ends");
    let read = |pipe: Option<&mut dyn Read>| {
        let mut text = Vec::new();
        pipe.expect("piped").read_to_end(&mut text).expect("readable");
        text
    };
    let stdout = read(child.stdout.as_mut().map(|pipe| pipe as &mut dyn Read));
    let stderr = read(child.stderr.as_mut().map(|pipe| pipe as &mut dyn Read));
    std::process::Output { status, stdout, stderr }.into()
}

pub fn finished_code(child: &mut std::process::Child) -> Option<i32> {
    child.wait().expect("it ends").code()
}

pub fn wait_until(mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(30), "it takes too long");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sets the mode of one of the test's own files or folders.
pub fn allow(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("our own file");
}

/// Opens a terminal with `columns` columns and returns both ends.
pub fn terminal(columns: u16) -> (OwnedFd, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).expect("our own terminal");
    unlockpt(&ours).expect("our own terminal");
    let name = ptsname(&ours, Vec::new()).expect("a name");
    let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty());
    let theirs = theirs.expect("the other end");
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&theirs, size).expect("a terminal");
    (ours, theirs)
}

/// Reads all output on a terminal until the other end is closed.
pub fn written(ours: OwnedFd) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let (mut written, mut part) = (Vec::new(), [0; 4096]);
        let mut ours = std::fs::File::from(ours);
        // Reading fails once the other end is closed.
        while let Ok(n_bytes @ 1..) = ours.read(&mut part) {
            written.extend_from_slice(&part[..n_bytes]);
        }
        String::from_utf8(written).expect("UTF-8")
    })
}

pub fn interrupt(child: &std::process::Child, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).expect("alive");
}

/// Returns a study of a command over x, n and kind, stored in `study.db`. The `sh -c` script reads
/// `$1`, `$2` and `$3`.
pub fn study(trials: u64, strategy: &str, script: &str) -> String {
    let (head, rest) = (
        format!("[study]\nname = \"test\"\ndirection = \"minimize\"\ntrials = {trials}\n"),
        format!("[strategy]\nname = \"{strategy}\"\n"),
    );
    format!(
        r#"{head}seed = 3
storage = "sqlite:study.db"
[space.x]
type = "float"
low = -1.0
high = 2.0
[space.n]
type = "int"
low = 1
high = 9
[space.kind]
type = "categorical"
choices = ["a", "b", "c"]
{rest}[objective]
command = ["sh", "-c", '''{script}''', "sh", "{{x}}", "{{n}}", "{{kind}}"]
"#
    )
}

/// Script that prints a value that depends on all three parameters, with all its digits.
pub const LOSS: &str = r#"awk -v x="$1" -v n="$2" -v k="$3" 'BEGIN { printf "%.17g\n", (x - 0.5) ^ 2 + (n - 4) ^ 2 / 30 + (k != "b") * 0.3 }'"#;

/// A row of an export, with columns by name.
pub type Exported = std::collections::BTreeMap<String, String>;

impl Sandbox {
    /// Returns all trials of a study, as exported by `fedbo export`.
    pub fn export(&self, study: &str) -> Vec<Exported> {
        let ran = self.fedbo(&["export", study]);
        ran.expect(0, &[]);
        let mut reader = csv::Reader::from_reader(ran.stdout.as_bytes());
        let header = reader.headers().expect("a header").clone();
        let row = |record: Result<csv::StringRecord, csv::Error>| {
            let record = record.expect("a whole row");
            let columns = header.iter().zip(&record);
            columns.map(|(name, field)| (name.to_owned(), field.to_owned())).collect()
        };
        reader.records().map(row).collect()
    }

    /// Returns the finished trials, or nothing if the study is not stored yet.
    pub fn told(&self, study: &str) -> Vec<Exported> {
        let ran = self.fedbo(&["trials", study, "--json"]);
        if ran.code != Some(0) {
            // A different process may be creating the study at this moment.
            let none_yet = ["has no trials yet", "no study was ever stored in it"];
            let says = none_yet.iter().any(|text| ran.stderr.contains(text));
            assert!(says && ran.code == Some(2), "{:?}: {}", ran.code, ran.stderr);
            return Vec::new();
        }
        let mut told = self.export(study);
        told.retain(|row| !row["told_at"].is_empty());
        told
    }

    /// Returns the names of the files in the folder.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).expect("a folder");
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<String> =
            entries.map(|entry| name(entry).into_string().expect("UTF-8")).collect();
        names.sort();
        names
    }
}

/// Parses the JSON printed by a program.
pub fn json(ran: &Ran) -> serde_json::Value {
    serde_json::from_str(&ran.stdout).expect("JSON")
}
