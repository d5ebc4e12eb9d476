//! `python`: builds the Python package, compares its stubs, and tests it on two Python versions.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::process::{last_line, root, run, target};
use crate::system;
use crate::tests::{self, Tests};

/// Oldest supported minor version of Python 3.
const OLDEST: u32 = 11;
/// Newest minor version that is searched for.
const NEWEST: u32 = 15;
/// Tests for every version.
const USUAL: &str = "not ray and not browser and not flower";
/// Type stubs of the native module.
const STUB: &str = "fedbo/_fedbo.pyi";

/// Options of `cargo xtask python`.
#[derive(clap::Args)]
pub(crate) struct Python {
    /// Write the type stubs of the native module instead of comparing them
    #[arg(long)]
    write_stubs: bool,
    /// Also run the tests inside Ray and Flower's SuperLink, which take 600 MB and some minutes
    #[arg(long)]
    ray: bool,
    /// Additional arguments for pytest
    #[arg(last = true, value_name = "PYTEST")]
    pytest: Vec<String>,
}

impl Python {
    /// Creates the task for all tests, as in `cargo xtask test --all`; with Ray, as in `--long`.
    pub(crate) fn all(ray: bool) -> Self {
        Self { write_stubs: false, ray, pytest: Vec::new() }
    }

    pub(crate) fn run(&self) -> Result<()> {
        self.tests().map(drop)
    }

    pub(crate) fn tests(&self) -> Result<Tests> {
        system::provide_python()?;
        system::provide_browser()?;
        let mut tests = Tests::default();
        let mut wheel = None;
        let interpreters = tested(interpreters())?;
        for (minor, interpreter) in &interpreters {
            let python = environment(*minor, interpreter, Kind::Usual)?;
            let wheel = match &wheel {
                Some(wheel) => wheel,
                None => wheel.insert(self.build(&python)?),
            };
            install(&python, wheel)?;
            for types in [&["mypy"][..], &["pyright", "--warnings", "fedbo"]] {
                run(in_package(&python).arg("-m").args(types))?;
            }
            tests.passed += self.pytest(&python, &["--numprocesses=2", "-m", USUAL])?;
        }
        // Flower does not depend on the Python version, and its processes are slow, so one version
        // is sufficient.
        if let Some((minor, interpreter)) = interpreters.first() {
            let python = environment(*minor, interpreter, Kind::Usual)?;
            let which = if self.ray { "flower" } else { "flower and not superlink" };
            tests.passed += self.pytest(&python, &["--numprocesses=2", "-m", which])?;
        }
        // The browser does not depend on the Python version.
        if let Some((minor, interpreter)) = interpreters.last() {
            let python = environment(*minor, interpreter, Kind::Usual)?;
            scripts(&python)?;
            tests.passed += self.pytest(&python, &["--numprocesses=2", "-m", "browser"])?;
        }
        if let (true, Some((minor, interpreter)), Some(wheel)) =
            (self.ray, interpreters.first(), &wheel)
        {
            let python = environment(*minor, interpreter, Kind::Ray)?;
            install(&python, wheel)?;
            tests.passed += self.pytest(&python, &["-m", "ray"])?;
        }
        Ok(tests)
    }

    /// Tests the installed package and returns the number of passed tests.
    fn pytest(&self, python: &Path, which: &[&str]) -> Result<usize> {
        // Do not run in the package's folder, where Python would import the sources, which have no
        // native module.
        let package = root().join("python");
        let mut pytest = in_package(&python.with_file_name("pytest"));
        pytest.current_dir(wheels()).args(["--quiet", "--timeout=300"]).args(which);
        pytest.arg("-c").arg(package.join("pyproject.toml"));
        pytest.arg(package.join("tests")).args(&self.pytest);
        Ok(tests::counted(&mut pytest, passed_in)?.passed)
    }

    /// Builds the wheel with the profile of the Rust tests, and compares its stubs.
    fn build(&self, python: &Path) -> Result<PathBuf> {
        let out = wheels();
        if out.exists() {
            fs::remove_dir_all(&out).with_context(|| out.display().to_string())?;
        }
        let options = ["--profile", "dev", "--features", "introspect", "--interpreter"];
        for verb in ["build", "generate-stubs"] {
            let mut maturin = in_package(&python.with_file_name("maturin"));
            run(maturin.arg(verb).args(options).arg(python).arg("--out").arg(&out))?;
        }
        let read =
            |path: &Path| fs::read_to_string(path).with_context(|| path.display().to_string());
        let (built, kept) = (read(&out.join(STUB))?, root().join("python").join(STUB));
        if self.write_stubs {
            fs::write(&kept, built).with_context(|| kept.display().to_string())?;
        } else {
            ensure!(
                read(&kept)? == built,
                "python/{STUB} differs from the native module: run cargo xtask python --write-stubs"
            );
        }
        let files = fs::read_dir(&out).with_context(|| out.display().to_string())?;
        let mut paths = files.flatten().map(|file| file.path());
        let wheel = paths.find(|path| path.extension().is_some_and(|ending| ending == "whl"));
        wheel.context("maturin wrote no wheel")
    }
}

/// Checks the types of the dashboard's scripts.
fn scripts(python: &Path) -> Result<()> {
    let compiler = ["--yes", "--package", "typescript@5.9", "tsc", "--project"];
    run(in_package(&python.with_file_name("npx"))
        .args(compiler)
        .arg(root().join("crates/web/assets/dashboard/jsconfig.json")))
}

/// Installs a wheel and replaces the previous one.
fn install(python: &Path, wheel: &Path) -> Result<()> {
    let options = ["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps"];
    run(Command::new(python).args(options).arg(wheel))
}

/// Returns the folder of the built wheels.
fn wheels() -> PathBuf {
    target().join("python-wheel")
}

/// Returns a command for a program of an environment, in the package's folder. The environment
/// comes first in PATH.
fn in_package(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root().join("python"));
    let bin = program.parent().unwrap_or(program);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(bin.to_path_buf()).chain(std::env::split_paths(&path));
    if let Ok(path) = std::env::join_paths(folders) {
        command.env("PATH", path);
    }
    command
}

/// Finds this machine's supported Python versions in PATH and in pyenv, one per minor version.
fn interpreters() -> BTreeMap<u32, PathBuf> {
    let mut candidates = vec![PathBuf::from("python3")];
    candidates.extend((OLDEST..=NEWEST).map(|minor| PathBuf::from(format!("python3.{minor}"))));
    let pyenv = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let pyenv = pyenv.or_else(|| Some(std::env::home_dir()?.join(".pyenv")));
    let versions = pyenv.and_then(|folder| fs::read_dir(folder.join("versions")).ok());
    let versions = versions.into_iter().flatten().flatten();
    candidates.extend(versions.map(|version| version.path().join("bin").join("python")));
    let mut found = BTreeMap::new();
    for candidate in candidates {
        if let Some(minor) = minor_of(&candidate) {
            found.entry(minor).or_insert(candidate);
        }
    }
    found.retain(|minor, _| (OLDEST..=NEWEST).contains(minor));
    found
}

/// Returns the minor version of a Python 3 interpreter; `None` if it cannot be started.
fn minor_of(interpreter: &Path) -> Option<u32> {
    let ask = "import sys; print(sys.version_info[1] if sys.version_info[0] == 3 else 0)";
    last_line(Command::new(interpreter).args(["-c", ask])).ok()?.parse().ok()
}

/// Selects the oldest and the newest version.
fn tested(found: BTreeMap<u32, PathBuf>) -> Result<Vec<(u32, PathBuf)>> {
    let mut found: Vec<(u32, PathBuf)> = found.into_iter().collect();
    if found.is_empty() {
        bail!("the Python package needs Python 3.{OLDEST} or newer; there is none in PATH");
    }
    let newest = found.split_off(found.len() - 1);
    found.truncate(1);
    found.extend(newest);
    if let [(minor, _)] = found.as_slice() {
        eprintln!("xtask: this machine has no second Python: tests run on 3.{minor} only");
    }
    Ok(found)
}

/// Tests to run in an environment.
#[derive(Clone, Copy)]
enum Kind {
    Usual,
    Ray,
}

/// Returns the Python interpreter of an environment with the test requirements.
fn environment(minor: u32, interpreter: &Path, kind: Kind) -> Result<PathBuf> {
    let (list, folder) = match kind {
        Kind::Usual => ("requirements-dev.txt", format!("python-3.{minor}")),
        Kind::Ray => ("requirements-ray.txt", format!("python-3.{minor}-ray")),
    };
    let (list, folder) = (root().join("python").join(list), target().join(folder));
    Ok(system::python_environment(&folder, interpreter, &list)?.join("python"))
}

/// Parses the count in the last line of pytest output, such as `62 passed, 1 skipped in 9.56s`.
fn passed_in(line: &str) -> usize {
    let count = || line.split_once(" passed")?.0.rsplit(' ').next()?.parse().ok();
    count().unwrap_or(0)
}

#[cfg(test)]
mod tests_of_versions {
    use super::*;

    #[test]
    fn the_oldest_and_the_newest_are_tested() {
        let found = |minors: &[u32]| {
            minors.iter().map(|minor| (*minor, PathBuf::from(minor.to_string()))).collect()
        };
        let minors = |found| -> Vec<u32> {
            tested(found).unwrap().into_iter().map(|(minor, _)| minor).collect()
        };
        assert_eq!(minors(found(&[11, 12, 13])), [11, 13]);
        assert_eq!(minors(found(&[11, 13])), [11, 13]);
        assert_eq!(minors(found(&[12])), [12]);
        assert!(tested(found(&[])).is_err());
    }

    #[test]
    fn tests_are_counted_from_the_last_line() {
        assert_eq!(passed_in("62 passed, 1 skipped in 9.56s"), 62);
        assert_eq!(passed_in("1 failed, 61 passed in 9.56s"), 61);
        assert_eq!(passed_in("no tests ran in 0.01s"), 0);
    }
}
