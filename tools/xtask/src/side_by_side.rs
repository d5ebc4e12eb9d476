//! Runs the test programs of the workspace two at a time.

use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use crate::process::{cargo, root, shown};
use crate::tests::{Tests, passed_in};

/// Number of concurrent programs. Some compute, and some wait for a deadline, a lease or another
/// process, so a single program would leave half of the machine idle.
const LANES: usize = 2;

/// Maximum time for which a leftover child process of a test program may keep its output open.
const LEFT_BEHIND: Duration = Duration::from_secs(60);

/// Environment variable that sets the number of concurrent tests in a test program.
const TEST_THREADS: &str = "RUST_TEST_THREADS";

/// Returns the number of concurrent tests: one more than the number of cores, since some tests
/// wait.
fn test_threads() -> usize {
    1 + std::thread::available_parallelism().map_or(1, usize::from)
}

/// A test program built by cargo.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TestProgram {
    /// Source path, relative to the workspace.
    name: String,
    executable: PathBuf,
    /// Folder of the package, used as the working directory.
    folder: PathBuf,
}

/// A JSON line printed by cargo.
#[derive(Deserialize)]
struct Message {
    reason: String,
}

/// A JSON line about a compiled artifact.
#[derive(Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    executable: Option<PathBuf>,
    target: Target,
    profile: Profile,
}

#[derive(Deserialize)]
struct Target {
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds and runs the workspace's test programs of certain kinds, such as `--lib`. The output of
/// each program is shown after it ends.
pub(crate) fn run(kinds: &[&str]) -> Result<Tests> {
    let build = ["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"];
    let mut build = cargo(build.iter().chain(kinds));
    eprintln!("xtask: {}", shown(&build));
    let built = build.stderr(Stdio::inherit()).output().context("cargo cannot be started")?;
    if !built.status.success() {
        bail!("{} failed ({})", shown(&build), built.status);
    }
    let lines = String::from_utf8(built.stdout).context("cargo's output is not UTF-8")?;
    let programs = lines.lines().map(test_program).collect::<Result<Vec<_>>>()?;
    let mut programs: Vec<TestProgram> = programs.into_iter().flatten().collect();
    ensure!(!programs.is_empty(), "cargo built no test programs");
    // Cargo builds the packages with the most dependencies last, and their tests take longest.
    programs.reverse();
    run_all(programs)
}

/// Parses the test program in a line; `None` for any other line.
fn test_program(line: &str) -> Result<Option<TestProgram>> {
    let unread = || format!("a line of cargo: {line}");
    let message: Message = serde_json::from_str(line).with_context(unread)?;
    if message.reason != "compiler-artifact" {
        return Ok(None);
    }
    let built: Artifact = serde_json::from_str(line).with_context(unread)?;
    let (Some(executable), true) = (built.executable, built.profile.test) else {
        return Ok(None);
    };
    let source = &built.target.src_path;
    Ok(Some(TestProgram {
        name: source.strip_prefix(root()).unwrap_or(source).display().to_string(),
        executable,
        folder: built.manifest_path.parent().with_context(unread)?.to_path_buf(),
    }))
}

/// Runs all programs, even if some fail.
fn run_all(programs: Vec<TestProgram>) -> Result<Tests> {
    let queue = Mutex::new(programs.into_iter());
    let ended = Mutex::new((Tests::default(), Vec::new()));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some(program) = next() {
                    eprintln!("xtask: running {}", program.name);
                    let found = program.run();
                    let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
                    println!("\n     Ended {}", program.name);
                    let why = match found {
                        Ok((printed, status)) => {
                            println!("{printed}");
                            ended.0.passed += printed.lines().map(passed_in).sum::<usize>();
                            (!status.success()).then(|| status.to_string())
                        }
                        Err(error) => Some(format!("{error:#}")),
                    };
                    ended.1.extend(why.map(|why| format!("{} ({why})", program.name)));
                }
            });
        }
    });
    let (tests, failed) = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !failed.is_empty() {
        bail!("tests failed: {}", failed.join(", "));
    }
    Ok(tests)
}

impl TestProgram {
    /// Runs the program and returns its output and exit status. Of the variables that cargo sets,
    /// only the package's folder is set.
    ///
    /// # Errors
    /// If the program cannot be started, or a leftover child process keeps its output open.
    fn run(&self) -> Result<(String, ExitStatus)> {
        let (mut reader, writer) = io::pipe()?;
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        if std::env::var_os(TEST_THREADS).is_none() {
            command.env(TEST_THREADS, test_threads().to_string());
        }
        let mut child = command.spawn().with_context(|| shown(&command))?;
        drop(command); // closes our ends of the pipe, so that the reader reaches the end of the file
        let (sender, printed) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = reader.read_to_end(&mut bytes).map(|_| bytes);
            drop(sender.send(read)); // the receiver may be gone
        });
        let status = child.wait()?;
        let printed = printed.recv_timeout(LEFT_BEHIND);
        let printed = printed.context("a leftover child process keeps its output open")??;
        Ok((String::from_utf8_lossy(&printed).into_owned(), status))
    }
}

#[cfg(test)]
mod tests_of_programs {
    use super::*;

    #[test]
    fn lines_of_test_programs_are_told_from_others() {
        let line = |test: bool, executable: &str| {
            let source = root().join("crates/gp/tests/a.rs");
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/gp/Cargo.toml","target":{{"src_path":"{}"}},
                "profile":{{"test":{test}}},"executable":{executable}}}"#,
                source.display()
            )
        };
        let expected = TestProgram {
            name: "crates/gp/tests/a.rs".to_owned(),
            executable: "/t/a-1".into(),
            folder: "/w/crates/gp".into(),
        };
        let found = |line: &str| test_program(line).unwrap();
        assert_eq!(found(&line(true, r#""/t/a-1""#)), Some(expected));
        assert_eq!(found(&line(false, r#""/t/a""#)), None);
        assert_eq!(found(&line(true, "null")), None);
        assert_eq!(found(r#"{"reason":"build-finished","success":true}"#), None);
        assert!(test_program("running 3 tests").is_err());
        assert!(test_program(r#"{"reason":"compiler-artifact","executable":"/t/a-1"}"#).is_err());
    }

    /// Uses scripts as programs. Each runs in its folder, all run even if one fails, and the failed
    /// one is reported.
    #[test]
    #[cfg(unix)]
    fn all_programs_run_and_those_that_fail_are_named() {
        let folder = std::env::temp_dir().join(format!("xtask-programs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let script = |name: &str, text: &str| {
            let executable = folder.join(name);
            std::fs::write(&executable, format!("#!/bin/sh\n{text}\n")).unwrap();
            let made = Command::new("chmod").arg("755").arg(&executable).status();
            assert!(made.unwrap().success());
            TestProgram { name: name.to_owned(), executable, folder: folder.clone() }
        };
        let passed = "echo 'test result: ok. 5 passed; 0 failed'";
        let good = script("good", &format!("test -e ./bad && {passed}"));
        let noisy = script("noisy", &format!("echo warning >&2; {passed}"));
        let bad = script("bad", &format!("{passed}; exit 3"));
        assert_eq!(run_all(vec![good.clone(), noisy.clone(), good.clone()]).unwrap().passed, 15);
        let missing = TestProgram { executable: folder.join("none"), ..good.clone() };
        let error = run_all(vec![bad, missing, good]).unwrap_err().to_string();
        assert!(error.contains("bad (exit status: 3)") && error.contains("good ("), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
