//! Test programs of the workspace, built by cargo and run two at a time.

use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::process::{cargo, root, shown};
use crate::tests::{Tests, passed_in};

/// Programs that run at a time. Some compute and some wait, for a deadline, a lease or another process, so that one alone leaves half of
/// the machine idle.
const LANES: usize = 2;

/// The variable from which a test program takes the number of tests that run at a time.
pub(crate) const TEST_THREADS: &str = "RUST_TEST_THREADS";

/// Twice the number of cores, as many tests wait.
pub(crate) fn test_threads() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

/// A program that cargo has built.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TestProgram {
    /// Its source, from the package's folder.
    name: String,
    executable: PathBuf,
    /// The package's folder, in which it runs.
    folder: PathBuf,
}

/// A line that cargo prints of what it has built.
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

/// Builds the workspace's test programs of some kinds, such as `--lib`, and runs them. What one prints is shown once it has ended.
pub(crate) fn run(kinds: &[&str]) -> Result<Tests> {
    let build = ["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"];
    let mut build = cargo(build.iter().chain(kinds));
    eprintln!("xtask: {}", shown(&build));
    let built = build.stderr(Stdio::inherit()).output().context("cargo cannot be started")?;
    if !built.status.success() {
        bail!("{} failed ({})", shown(&build), built.status);
    }
    let lines = String::from_utf8(built.stdout).context("what cargo has built")?;
    // The packages that need all others come last, and their tests take longest.
    let mut programs: Vec<TestProgram> = lines.lines().filter_map(test_program).collect();
    programs.reverse();
    run_all(programs)
}

/// The test program of which a line tells; `None` of any other line.
fn test_program(line: &str) -> Option<TestProgram> {
    let built: Artifact =
        serde_json::from_str(line).ok().filter(|built: &Artifact| built.profile.test)?;
    let folder = built.manifest_path.parent()?;
    let source = &built.target.src_path;
    Some(TestProgram {
        name: source.strip_prefix(root()).unwrap_or(source).display().to_string(),
        executable: built.executable?,
        folder: folder.to_path_buf(),
    })
}

/// Runs programs, all of them whatever they return.
fn run_all(programs: Vec<TestProgram>) -> Result<Tests> {
    let queue = Mutex::new(programs.into_iter());
    let ended = Mutex::new((Tests::default(), Vec::new()));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some(program) = next() {
                    let found = program.run();
                    let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
                    println!("\n     Running {}", program.name);
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
    /// Runs it; all that it prints, and its exit status.
    fn run(&self) -> Result<(String, std::process::ExitStatus)> {
        let (mut reader, writer) = io::pipe()?;
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        if std::env::var_os(TEST_THREADS).is_none() {
            command.env(TEST_THREADS, test_threads().to_string());
        }
        let mut child = command.spawn().with_context(|| shown(&command))?;
        drop(command); // with its ends of the pipe, so that reading ends
        let mut printed = Vec::new();
        reader.read_to_end(&mut printed)?;
        Ok((String::from_utf8_lossy(&printed).into_owned(), child.wait()?))
    }
}

#[cfg(test)]
mod tests_of_programs {
    use std::fs;

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
        assert_eq!(test_program(&line(true, r#""/t/a-1""#)), Some(expected));
        assert_eq!(test_program(&line(false, r#""/t/a""#)), None);
        assert_eq!(test_program(&line(true, "null")), None);
        assert_eq!(test_program(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(test_program("running 3 tests"), None);
    }

    /// Scripts in place of programs: each runs in its folder, all run though one fails, and that one is named.
    #[test]
    #[cfg(unix)]
    fn all_programs_run_and_those_that_fail_are_named() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = std::env::temp_dir().join(format!("xtask-programs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let script = |name: &str, text: &str| {
            let executable = folder.join(name);
            fs::write(&executable, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&executable, fs::Permissions::from_mode(0o755)).unwrap();
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
        fs::remove_dir_all(&folder).unwrap();
    }
}
