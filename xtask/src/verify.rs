//! `check` and `test`: what must hold before a change is taken.
//!
//! Plain `cargo test` runs the tests even where another runner is installed, so that one command means one check on
//! every machine, and documentation tests are part of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::fuzz::Fuzz;
use crate::mutants::Mutants;
use crate::process::{cargo, root, run, succeeds};
use crate::production;
use crate::system;

/// Format, lints, unit tests, documentation.
pub(crate) fn check() -> Result<()> {
    format_and_lints()?;
    run(&mut with_data(cargo([
        "test",
        "--workspace",
        "--lib",
        "--bins",
    ])))?;
    documentation()?;
    eprintln!(
        "xtask: check passed; `cargo xtask test` also runs integration and documentation tests"
    );
    Ok(())
}

/// What `cargo xtask test` is told.
#[derive(clap::Args)]
pub(crate) struct Test {
    /// Also the long forms of tests, such as audits with a million trials, in a release build, and ten times as much fuzzing
    #[arg(long)]
    long: bool,
}

impl Test {
    /// Format, lints, all tests, fuzzing, mutants, documentation.
    pub(crate) fn run(&self) -> Result<()> {
        system::look_at_disk();
        system::provide_postgresql()?;
        format_and_lints()?;
        run(&mut with_data(cargo([
            "test",
            "--workspace",
            "--no-fail-fast",
        ])))?;
        with_otlp()?;
        production::has_no_seeded_noise()?;
        if self.long {
            long_forms()?;
        }
        Fuzz::all(self.long).run()?;
        Mutants::all().run()?;
        documentation()?;
        eprintln!("xtask: everything passed");
        Ok(())
    }
}

/// What the program does only when it is built with it.
fn with_otlp() -> Result<()> {
    let with = ["--package", "fedbo", "--features", "otlp"];
    let lint = [&["clippy"], &with[..], &["--", "-D", "warnings"]].concat();
    run(&mut cargo(lint))?;
    run(&mut cargo(
        [&["test"], &with[..], &["--test", "otlp"]].concat(),
    ))
}

/// Beside each long form of a test, as its reason to be ignored.
const LONG_FORM: &str = "#[ignore = \"long: run by cargo xtask test --long\"]";

/// Runs the tests that carry [`LONG_FORM`]; others are ignored because another test starts them.
fn long_forms() -> Result<()> {
    let crates = root().join("crates");
    let (mut packages, mut names) = (BTreeSet::new(), BTreeSet::new());
    for folder in folders(&crates)? {
        let found = long_forms_below(&folder)?;
        if !found.is_empty() {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            packages.insert(match name.as_ref() {
                "cli" => "fedbo".to_owned(),
                name => format!("fedbo-{name}"),
            });
        }
        names.extend(found);
    }
    if names.is_empty() {
        bail!("no test below {} carries {LONG_FORM}", crates.display());
    }
    let mut command = cargo(["test", "--release", "--tests", "--no-fail-fast"]);
    for package in packages {
        command.args(["--package", &package]);
    }
    command.args(["--", "--ignored", "--nocapture"]).args(names);
    run(&mut with_data(command))
}

/// The names of the long forms in the sources below a folder.
fn long_forms_below(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            names.extend(long_forms_below(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            names.extend(long_forms_in(&source));
        }
    }
    Ok(names)
}

/// The names of the tests after each [`LONG_FORM`] of a source.
fn long_forms_in(source: &str) -> Vec<String> {
    let name = |text: &str| {
        let signature = text.split_once("fn ")?.1;
        Some(signature.split_once('(')?.0.to_owned())
    };
    source.split(LONG_FORM).skip(1).filter_map(name).collect()
}

fn folders(parent: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(parent).with_context(|| parent.display().to_string())?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|e| e.path())).collect();
    Ok(paths?.into_iter().filter(|path| path.is_dir()).collect())
}

fn format_and_lints() -> Result<()> {
    component("rustfmt", "fmt")?;
    component("clippy", "clippy")?;
    run(&mut cargo(["fmt", "--all", "--check"]))?;
    run(&mut cargo([
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))
}

fn documentation() -> Result<()> {
    let mut doc = cargo(["doc", "--workspace", "--no-deps"]);
    run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Adds a component of the toolchain that is not there yet.
fn component(name: &str, verb: &str) -> Result<()> {
    if succeeds(&mut cargo([verb, "--version"])) {
        return Ok(());
    }
    eprintln!("xtask: {name} is not installed, adding it to the toolchain");
    run(Command::new("rustup").args(["component", "add", name]))
}

/// Tells the tests where the published data are, and the user where they are looked for.
fn with_data(command: Command) -> Command {
    match data_folder() {
        Some(folder) => eprintln!("xtask: data from {}", folder.display()),
        None => eprintln!(
            "xtask: no data: FEDBO_DATA is not set and ../shared/data does not exist; the tests that compare with \
             published data will fail"
        ),
    }
    with_data_quietly(command)
}

/// The same without a word.
pub(crate) fn with_data_quietly(mut command: Command) -> Command {
    if let Some(folder) = data_folder() {
        command.env("FEDBO_DATA", folder);
    }
    command
}

/// FEDBO_DATA, or ../shared/data where that exists.
fn data_folder() -> Option<PathBuf> {
    std::env::var_os("FEDBO_DATA")
        .map(PathBuf::from)
        .or_else(|| root().join("../shared/data").canonicalize().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_forms_are_found_and_tests_that_others_start_are_not() {
        let source = format!(
            "#[test]\n#[ignore = \"started by another test\"]\nfn held() {{}}\n\
             #[test]\n{LONG_FORM}\nfn audited() {{}}\n{LONG_FORM}\nfn tossed() -> R {{}}\n#[test]\nfn plain() {{}}"
        );
        assert_eq!(long_forms_in(&source), ["audited", "tossed"]);
        let privacy = long_forms_below(&root().join("crates/privacy")).unwrap();
        let audit = "the_audited_mu_is_the_declared_one_in_a_million_trials";
        assert!(privacy.iter().any(|name| name == audit), "{privacy:?}");
    }
}
