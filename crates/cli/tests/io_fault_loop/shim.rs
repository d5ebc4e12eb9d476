//! A disk that fails at a chosen call.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Failure mode of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Only this call fails, with EIO.
    Broken,
    /// Only this call fails, with ENOSPC.
    NoSpace,
    /// Half of the data is written, and every later call fails with ENOSPC.
    Full,
}

impl Mode {
    pub(crate) const ALL: [Self; 3] = [Self::Broken, Self::NoSpace, Self::Full];

    fn name(self) -> &'static str {
        match self {
            Self::Broken => "eio",
            Self::NoSpace => "enospc",
            Self::Full => "full",
        }
    }
}

/// A library that is preloaded before the C library.
pub(crate) struct Shim {
    folder: tempfile::TempDir,
}

/// A counted call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Name of the call, and name of the file.
    pub(crate) what: String,
    pub(crate) failed: bool,
}

impl Shim {
    /// Builds the shim with the C compiler that also links Rust programs.
    pub(crate) fn build() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/io_fault_loop/shim.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .arg(folder.path().join("shim.so"))
            .args([source, "-ldl"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{said}");
        Self { folder }
    }

    /// Returns the file that lists the calls of the run `name`.
    fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a command on a disk that fails at call number `at` below `folder`; 0 for no failure.
    pub(crate) fn load(
        &self,
        command: &mut Command,
        name: &str,
        folder: &Path,
        (at, mode): (usize, Mode),
    ) {
        let folder = folder.canonicalize().unwrap();
        command
            .env("LD_PRELOAD", self.folder.path().join("shim.so"))
            .env("FAULT_FOLDER", folder)
            .env("FAULT_LOG", self.log(name))
            .env("FAULT_AT", at.to_string())
            .env("FAULT_MODE", mode.name());
    }

    /// Returns the calls of the run so far.
    pub(crate) fn calls(&self, name: &str) -> Vec<Call> {
        let text = std::fs::read_to_string(self.log(name)).unwrap_or_default();
        text.lines()
            .map(|line| {
                let mut words = line.splitn(3, ' ').skip(1);
                let (call, path) = (words.next().unwrap(), words.next().unwrap());
                let file = Path::new(path).file_name().unwrap().to_string_lossy();
                let file = file.trim_end_matches(|c: char| c.is_ascii_digit()); // a process id
                Call {
                    what: format!("{} {file}", call.trim_end_matches('!')),
                    failed: call.ends_with('!'),
                }
            })
            .collect()
    }

    /// Returns the first failed call.
    pub(crate) fn failure(&self, name: &str) -> Option<String> {
        let calls = self.calls(name);
        let failed = calls.into_iter().find(|call| call.failed);
        failed.map(|call| call.what)
    }
}
