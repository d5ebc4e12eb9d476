//! Runs of `cargo test` that count passed tests, and the table of stages at the end of `cargo xtask
//! test`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::process::{shown, target};

/// Number of passed tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tests {
    pub(crate) passed: usize,
}

/// Runs a `cargo test` command, forwards its output, and counts passed tests.
pub(crate) fn run(command: &mut Command) -> Result<Tests> {
    counted(command, passed_in)
}

/// Runs any test command. `count` extracts the number of passed tests from a line of output.
pub(crate) fn counted(command: &mut Command, count: impl Fn(&str) -> usize) -> Result<Tests> {
    eprintln!("xtask: {}", shown(command));
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    let mut tests = Tests::default();
    let output = child.stdout.take().context("standard output is piped")?;
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        tests.passed += count(&text);
        line.clear();
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("{} failed ({status})", shown(command));
    }
    Ok(tests)
}

/// Parses the count in a line like `test result: ok. 12 passed; 0 failed; 1 ignored; ...`.
pub(crate) fn passed_in(line: &str) -> usize {
    let count = || {
        let rest = line.split_once("test result: ok. ")?.1;
        rest.split_once(" passed;")?.0.parse().ok()
    };
    count().unwrap_or(0)
}

/// A stage of `cargo xtask test`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Stage {
    name: String,
    seconds: f64,
    /// Number of passed tests, if the stage runs tests.
    passed: Option<usize>,
}

/// The stages that have passed so far.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Stages(Vec<Stage>);

impl Stages {
    /// Reads the stages of the last successful `cargo xtask test`, after which `--rest` continues.
    pub(crate) fn recorded() -> Result<Self> {
        let missing = "--rest continues after a successful `cargo xtask test`, and none is recorded: run it first, or use --all";
        let text = fs::read_to_string(record()).context(missing)?;
        serde_json::from_str(&text).context(missing)
    }

    /// Deletes the record at the start of a run, since the run may fail.
    pub(crate) fn forget() {
        // The record may not exist.
        drop(fs::remove_file(record()));
    }

    pub(crate) fn keep(&self) -> Result<()> {
        let path = record();
        fs::write(&path, serde_json::to_string(self)?).with_context(|| path.display().to_string())
    }

    /// Runs a stage without tests.
    pub(crate) fn step(&mut self, name: &str, stage: impl FnOnce() -> Result<()>) -> Result<()> {
        self.timed(name, || stage().map(|()| None))
    }

    /// Runs a stage of tests.
    pub(crate) fn tests(
        &mut self,
        name: &str,
        stage: impl FnOnce() -> Result<Tests>,
    ) -> Result<()> {
        self.timed(name, || stage().map(|tests| Some(tests.passed)))
    }

    fn timed(&mut self, name: &str, stage: impl FnOnce() -> Result<Option<usize>>) -> Result<()> {
        let begun = Instant::now();
        let passed = stage().with_context(|| format!("stage \"{name}\""))?;
        let stage = Stage { name: name.to_owned(), seconds: begun.elapsed().as_secs_f64(), passed };
        eprintln!("xtask: {name} passed in {:.0} s", stage.seconds);
        self.0.push(stage);
        Ok(())
    }

    /// Prints the table. Its last line contains the total numbers of tests and seconds.
    pub(crate) fn print(&self) {
        for line in self.table() {
            eprintln!("{line}");
        }
    }

    fn table(&self) -> Vec<String> {
        let mut lines = vec![format!("{:<36} {:>8} {:>8}", "stage", "seconds", "tests")];
        for stage in &self.0 {
            let passed = stage.passed.map(|n| n.to_string()).unwrap_or_default();
            let line = format!("{:<36} {:>8.0} {passed:>8}", stage.name, stage.seconds);
            lines.push(line.trim_end().to_owned());
        }
        let passed: usize = self.0.iter().filter_map(|stage| stage.passed).sum();
        let seconds: f64 = self.0.iter().map(|stage| stage.seconds).sum();
        lines.push(format!(
            "xtask: everything passed: {passed} tests in {} stages, {seconds:.0} seconds",
            self.0.len()
        ));
        lines
    }
}

fn record() -> PathBuf {
    target().join("xtask-test.json")
}

#[cfg(test)]
mod tests_of_stages {
    use super::*;

    #[test]
    fn passed_tests_are_counted_and_failed_programs_are_not() {
        let line = "test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out";
        assert_eq!(passed_in(line), 12);
        let line = "test result: FAILED. 11 passed; 1 failed; 3 ignored; 0 measured";
        assert_eq!(passed_in(line), 0);
        assert_eq!(passed_in("test a_test ... ok"), 0);
    }

    #[test]
    fn the_last_line_has_the_sums() {
        let mut stages = Stages::default();
        stages.step("lints", || Ok(())).unwrap();
        for passed in [40, 2] {
            stages.tests("some", || Ok(Tests { passed })).unwrap();
        }
        assert!(stages.tests("bad", || bail!("no")).is_err());
        let table = stages.table();
        assert_eq!(table.len(), 5);
        assert!(table[1].starts_with("lints ") && table[1].ends_with('0'), "{}", table[1]);
        let last = "xtask: everything passed: 42 tests in 3 stages, 0 seconds";
        assert_eq!(table[4], last);
        let text = serde_json::to_string(&stages).unwrap();
        let read: Stages = serde_json::from_str(&text).unwrap();
        assert_eq!(read.0, stages.0);
    }

    #[test]
    #[cfg(unix)]
    fn a_run_that_fails_is_an_error_whatever_it_printed() {
        let said = "echo 'test result: ok. 5 passed; 0 failed'";
        let mut good = Command::new("sh");
        assert_eq!(run(good.args(["-c", said])).unwrap().passed, 5);
        let mut bad = Command::new("sh");
        assert!(run(bad.args(["-c", &format!("{said}; exit 3")])).is_err());
    }
}
