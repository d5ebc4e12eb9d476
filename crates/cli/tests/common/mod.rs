//! Running the real binary on files in a temporary folder.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part"
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

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

    /// `fedbo` in the temporary folder.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fedbo"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    pub fn fedbo(&self, arguments: &[&str]) -> Ran {
        self.command(arguments)
            .output()
            .expect("the binary starts")
            .into()
    }

    pub fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts")
    }

    /// Lines of a results file without the column of seconds, which no two runs share.
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
    /// Checks the exit code and that standard error has all of `parts`.
    pub fn expect(&self, code: i32, parts: &[&str]) -> &Self {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} in {}", self.stderr);
        }
        self
    }
}

pub fn results(path: &Path) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_path(path)
        .expect("results");
    let without_seconds = |record: Result<csv::StringRecord, csv::Error>| {
        let record = record.expect("a whole row");
        let mut fields: Vec<&str> = record.iter().collect();
        fields.remove(fields.len() - 2);
        fields.join(",")
    };
    reader.records().map(without_seconds).collect()
}

/// A federation of commands over x and n: the agents' `sh -c` scripts read `$1` and `$2`.
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
