//! Tests that run their own binary again: under a limit, on a small disk, as a different user, or
//! to be killed.
//!
//! The child process runs an ignored test. An environment variable passes the working folder to
//! this test. In an ordinary run, the variable is not set and the ignored test does nothing.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure is the test's")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const GIVEN: &str = "FEDBO_TEST_GIVEN";

/// Returns the value passed by the parent test, or `None` in an ordinary run.
pub fn given() -> Option<String> {
    std::env::var(GIVEN).ok()
}

/// Returns the folder passed by the parent test, or `None` in an ordinary run.
pub fn given_folder() -> Option<PathBuf> {
    given().map(PathBuf::from)
}

/// Sends a line to the parent test. A single write ensures that a killed process leaves no partial
/// line.
pub fn say(line: &str) {
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Returns the path of the running test binary.
fn binary() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// Returns the path of a test in the same module as the running test, whose path is the name of
/// this thread.
fn path_of(test: &str) -> String {
    let running = std::thread::current();
    let module = running.name().and_then(|path| path.rsplit_once("::"));
    module.map_or_else(|| test.to_owned(), |(module, _)| format!("{module}::{test}"))
}

/// Adds the arguments that run one test to a command that ends with the test binary.
fn command(mut by: Command, test: &str, given: &str) -> Command {
    by.args(["--exact", &path_of(test), "--ignored", "--nocapture"]);
    by.env(GIVEN, given).stdin(Stdio::null());
    by
}

/// Starts a test and discards its standard error.
pub fn start(test: &str, given: &str) -> Child {
    let mut command = command(Command::new(binary()), test, given);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Returns the text after `word` in each output line that contains it, until the test ends.
pub fn said<'a>(child: &mut Child, word: &'a str) -> impl Iterator<Item = String> + use<'a> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.filter_map(move |line| Some(line.unwrap().split_once(word)?.1.to_owned()))
}

/// Runs a test, which must pass.
fn run(by: Command, test: &str, folder: &Path) {
    let output = command(by, test, folder.to_str().unwrap()).output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success() && out.contains("1 passed"), "{out}{err}");
}

/// Runs a test in a folder with a file size limit of 1,200 shell blocks. Writes beyond the limit
/// fail as on a full disk.
pub fn run_under_a_limit(test: &str, folder: &Path) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 1200; exec \"$0\" \"$@\""]).arg(binary());
    run(shell, test, folder);
}

/// Runs a test on a two-megabyte file system that is mounted in a namespace. Skips the test if the
/// system does not allow this without privileges.
pub fn run_on_a_small_disk(test: &str, folder: &Path) {
    let script = format!("mount -t tmpfs -o size=2m tmpfs \"${GIVEN}\" && exec \"$0\" \"$@\"");
    let on_disk = |program: &Path| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
        command.arg(program).env(GIVEN, folder);
        command
    };
    if on_disk(Path::new("true")).output().is_ok_and(|output| output.status.success()) {
        run(on_disk(&binary()), test, folder);
    } else {
        eprintln!("skipped: this system has no small disk for us");
    }
}

/// Runs a test in a folder without root privileges: as a different user if the current user is
/// root.
#[cfg(unix)]
pub fn run_without_privileges(test: &str, folder: &Path) {
    use std::os::unix::process::CommandExt as _;
    let place = tempfile::tempdir().unwrap();
    allow(place.path(), 0o755);
    let copy = place.path().join("tests");
    // A separate process makes the copy: the kernel refuses to execute a file that is open for
    // writing, and a child process started in the meantime would inherit our descriptor.
    assert!(Command::new("cp").arg(binary()).arg(&copy).status().unwrap().success());
    allow(&copy, 0o755);
    let mut command = Command::new(copy);
    command.current_dir("/");
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    run(command, test, folder);
}

/// Sets the mode of a file or a folder.
#[cfg(unix)]
pub fn allow(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
