//! `check` and `test`: the requirements for accepting a change.
//!
//! Tests use plain `cargo test` even if another runner is installed, so that a command performs the
//! same checks on every machine, including documentation tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::api;
use crate::fuzz::Fuzz;
use crate::ignored_tests::{Marked, Need};
use crate::mutants::Mutants;
use crate::process::{cargo, cargo_in, root, run, succeeds, target};
use crate::production;
use crate::python::Python;
use crate::side_by_side;
use crate::system;
use crate::tests::{self, Stages};
use crate::workspace::RESEARCH;

/// Checks format, lints, unit tests and documentation.
pub(crate) fn check() -> Result<()> {
    format_and_lints()?;
    run(&mut cargo(["test", "--workspace", "--lib", "--bins"]))?;
    documentation()?;
    eprintln!(
        "xtask: check passed; `cargo xtask test` also runs integration and documentation tests"
    );
    Ok(())
}

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Test {
    /// Also run tests with PostgreSQL and Python, comparisons with published data, mutants except
    /// those of services, and the feature otlp
    #[arg(long)]
    all: bool,
    /// Run only the additional stages of --all, to continue after `cargo xtask test`
    #[arg(long, conflicts_with = "all")]
    rest: bool,
    /// Like --all, plus the long forms of tests in a release build, such as audits with a million
    /// trials, all mutants, and fuzzing
    #[arg(long)]
    long: bool,
    /// With --all or --rest: fail if the published data are missing, instead of listing the tests
    /// that were not run
    #[arg(long)]
    require_data: bool,
    /// With --all or --rest: delete build artifacts as soon as no later stage needs them, for
    /// machines with little disk space
    #[arg(long, conflicts_with = "long")]
    discard: bool,
}

impl Test {
    pub(crate) fn run(&self) -> Result<()> {
        let continues = self.all || self.rest || self.long;
        if self.require_data && !continues {
            bail!(
                "--require-data is for --all, --rest or --long: `cargo xtask test` needs no data"
            );
        }
        if self.discard && !continues {
            bail!(
                "--discard is for --all or --rest, because they reuse the builds of `cargo xtask test`"
            );
        }
        if self.require_data && data_folder().is_none() {
            bail!(
                "no data: FEDBO_DATA is not set and {} does not exist; set FEDBO_DATA to the folder of published data",
                root().join("../shared/data").display()
            );
        }
        system::warn_if_disk_is_small(continues);
        let mut stages = match self.rest {
            true => Stages::recorded()?,
            false => Stages::default(),
        };
        if !self.rest {
            Stages::forget();
            first(&mut stages)?;
        }
        let mut run = Vec::new();
        if continues {
            run = self.more(&mut stages)?;
        } else {
            stages.keep()?;
        }
        for need in Need::ALL.into_iter().filter(|need| !run.contains(need)) {
            Marked::find(need)?.report_not_run(need);
        }
        stages.print();
        Ok(())
    }

    /// Runs the stages that need more than a Rust toolchain or take a long time. Returns the
    /// requirements that were met.
    fn more(&self, stages: &mut Stages) -> Result<Vec<Need>> {
        let mut met = vec![Need::PostgreSql, Need::Python];
        system::provide_postgresql()?;
        stages.tests("tests with PostgreSQL", || Marked::find(Need::PostgreSql)?.run())?;
        system::provide_python()?;
        stages.tests("tests with Python", || Marked::find(Need::Python)?.run())?;
        stages.step("files for operators", files_for_operators)?;
        self.discard(&target(), &["deploy-tools"])?;
        stages.tests("Python package", || Python::all(self.long).tests())?;
        self.discard(&target(), &["maturin", "python-"])?;
        if let Some(folder) = data_folder() {
            eprintln!("xtask: published data from {}", folder.display());
            stages.tests("comparisons with published data", || Marked::find(Need::Data)?.run())?;
            met.push(Need::Data);
        }
        stages.tests("feature otlp", with_otlp)?;
        stages.step("program without games", without_games)?;
        stages.tests("research", research)?;
        stages.step("packages", || packages(self.long))?;
        stages.step("public interface of the library", api::check)?;
        self.discard(&target(), &["api"])?;
        stages.step("no seeded noise in production", production::has_no_seeded_noise)?;
        self.discard(&target(), &["doc"])?;
        self.discard(&target().join("debug"), &["deps", "build", "incremental", ".fingerprint"])?;
        let mutants = if self.long { Mutants::all() } else { Mutants::quick() };
        stages.step("mutants", || mutants.run())?;
        if self.long {
            stages.step("fuzzing", || Fuzz::all(true).run())?;
            stages.tests("long forms", || Marked::find(Need::Long)?.run_optimised())?;
            met.push(Need::Long);
        }
        Ok(met)
    }

    /// With `--discard`, deletes the subfolders with one of these prefixes in their names.
    fn discard(&self, below: &Path, names: &[&str]) -> Result<()> {
        if !self.discard || !below.is_dir() {
            return Ok(());
        }
        for entry in fs::read_dir(below).with_context(|| below.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && names.iter().any(|begin| name.starts_with(begin)) {
                fs::remove_dir_all(&path).with_context(|| path.display().to_string())?;
                eprintln!("xtask: deleted {}", path.display());
            }
        }
        Ok(())
    }
}

/// Runs the stages that need only a Rust toolchain.
fn first(stages: &mut Stages) -> Result<()> {
    stages.step("format and lints", format_and_lints)?;
    stages.tests("unit tests", || side_by_side::run(&["--lib", "--bins"]))?;
    stages.tests("integration tests", || side_by_side::run(&["--test", "*"]))?;
    stages.tests("documentation tests", || {
        tests::run(&mut cargo(["test", "--workspace", "--no-fail-fast", "--doc"]))
    })?;
    stages.step("documentation", documentation)
}

/// Checks the files of `deploy` (Helm chart, alerts, Grafana dashboard, scripts): lints and renders
/// them, and compares them with schemas and the existing metrics.
fn files_for_operators() -> Result<()> {
    let tools = target().join("deploy-tools");
    let mut check = Command::new("python3");
    check.arg(root().join("deploy/check.py")).arg("--tools").arg(tools);
    run(check.arg("--require-all"))
}

/// Lints the program with the feature `otlp`, and runs the tests of this feature.
fn with_otlp() -> Result<tests::Tests> {
    // Selects the whole workspace, so that only the program is recompiled.
    let with = ["--workspace", "--features", "fedbo-cli/otlp"];
    let lint = [&["clippy"], &with[..], &["--all-targets", "--", "-D", "warnings"]].concat();
    run(&mut cargo(lint))?;
    tests::run(&mut cargo([&["test"], &with[..], &["--test", "services", "otlp::"]].concat()))
}

/// Lints the program without games, as in a default build.
fn without_games() -> Result<()> {
    run(&mut cargo(["clippy", "--package", "fedbo-cli", "--bins", "--", "-D", "warnings"]))
}

/// Lints, tests and documents the workspace `research`.
fn research() -> Result<tests::Tests> {
    lint(RESEARCH)?;
    let passed = tests::run(&mut cargo_in(RESEARCH, ["test", "--workspace", "--no-fail-fast"]))?;
    let mut doc = cargo_in(RESEARCH, ["doc", "--workspace", "--no-deps"]);
    run(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(passed)
}

/// Packages the publishable crates, and checks their metadata and dependencies. With `builds`, also
/// builds each crate from its package. Nothing is uploaded.
fn packages(builds: bool) -> Result<()> {
    let mut pack = cargo(["publish", "--dry-run", "--workspace", "--allow-dirty"]);
    if !builds {
        pack.arg("--no-verify");
    }
    run(&mut pack)
}

fn format_and_lints() -> Result<()> {
    component("rustfmt", "fmt")?;
    component("clippy", "clippy")?;
    lint("")
}

fn lint(workspace: &str) -> Result<()> {
    run(&mut cargo_in(workspace, ["fmt", "--all", "--check"]))?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    run(&mut cargo_in(workspace, clippy))
}

fn documentation() -> Result<()> {
    let mut doc = cargo(["doc", "--workspace", "--no-deps"]);
    run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Installs a component of the toolchain if it is missing.
fn component(name: &str, verb: &str) -> Result<()> {
    if succeeds(&mut cargo([verb, "--version"])) {
        return Ok(());
    }
    eprintln!("xtask: {name} is not installed, adding it to the toolchain");
    run(Command::new("rustup").args(["component", "add", name]))
}

/// Returns `FEDBO_DATA`, or `../shared/data` if it exists. The folder in `FEDBO_DATA` is not
/// checked; a test fails if it does not find its data set.
pub(crate) fn data_folder() -> Option<PathBuf> {
    std::env::var_os("FEDBO_DATA")
        .map(PathBuf::from)
        .or_else(|| root().join("../shared/data").canonicalize().ok())
}
