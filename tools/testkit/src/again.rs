//! Tests that start their own binary again: under a limit, on a small disk, as another user, or to be killed.
//!
//! What is started is an ignored test, which is given a place to work at; in an ordinary run it is given none, and does nothing.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure is the test's")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const GIVEN: &str = "FEDBO_TEST_GIVEN";

/// The text that a test was given by the one that started it; `None` in an ordinary run.
pub fn given() -> Option<String> {
    std::env::var(GIVEN).ok()
}

/// The same of a test that works in a folder.
pub fn given_folder() -> Option<PathBuf> {
    given().map(PathBuf::from)
}

/// Says a line to the test that started this one: in one write, so that whoever is killed leaves whole lines.
pub fn say(line: &str) {
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// The binary of the tests that run now.
fn binary() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// Has a command, which ends with the binary, run this test of it.
fn command(mut by: Command, test: &str, given: &str) -> Command {
    by.args(["--exact", test, "--ignored", "--nocapture"]).env(GIVEN, given).stdin(Stdio::null());
    by
}

/// Starts a test, whose errors are not shown.
pub fn start(test: &str, given: &str) -> Child {
    let mut command = command(Command::new(binary()), test, given);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// The lines that a test that was started says behind this word, up to its end.
pub fn said<'a>(child: &mut Child, word: &'a str) -> impl Iterator<Item = String> + use<'a> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.filter_map(move |line| Some(line.unwrap().split_once(word)?.1.to_owned()))
}

/// Runs a test that must pass.
fn run(by: Command, test: &str, folder: &Path) {
    let output = command(by, test, folder.to_str().unwrap()).output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success() && out.contains("1 passed"), "{out}{err}");
}

/// Runs a test in a folder where no file may have more than 1,200 blocks of a shell, and where what exceeds it fails as on a full disk.
pub fn run_under_a_limit(test: &str, folder: &Path) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 1200; exec \"$0\" \"$@\""]).arg(binary());
    run(shell, test, folder);
}

/// Runs a test in a folder that is a file system of two megabytes, in a namespace, where the system allows that without privileges.
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

/// Runs a test in a folder as another user, if this one may do everything.
#[cfg(unix)]
pub fn run_without_privileges(test: &str, folder: &Path) {
    use std::os::unix::process::CommandExt as _;
    let place = tempfile::tempdir().unwrap();
    allow(place.path(), 0o755);
    let copy = place.path().join("tests");
    // By a process of its own: a file that this one has open for writing cannot be run while others are being started.
    assert!(Command::new("cp").arg(binary()).arg(&copy).status().unwrap().success());
    allow(&copy, 0o755);
    let mut command = Command::new(copy);
    command.current_dir("/");
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    run(command, test, folder);
}

/// Gives a file or a folder this mode.
#[cfg(unix)]
pub fn allow(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
