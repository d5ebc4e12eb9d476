//! `check` and `test`: what must hold before a change is taken.
//!
//! Plain `cargo test` runs the tests even where another runner is installed, so that one command means one check on
//! every machine, and documentation tests are part of it.

use std::process::Command;

use anyhow::Result;

use crate::process::{cargo, root, run, succeeds};

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

/// Format, lints, all tests, documentation.
pub(crate) fn test() -> Result<()> {
    format_and_lints()?;
    run(&mut with_data(cargo([
        "test",
        "--workspace",
        "--no-fail-fast",
    ])))?;
    documentation()?;
    eprintln!("xtask: everything passed");
    Ok(())
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
fn with_data(mut command: Command) -> Command {
    if let Some(folder) = std::env::var_os("FEDBO_DATA") {
        eprintln!("xtask: data from FEDBO_DATA={}", folder.to_string_lossy());
        return command;
    }
    match root().join("../shared/data").canonicalize() {
        Ok(folder) => {
            eprintln!("xtask: data from {}", folder.display());
            command.env("FEDBO_DATA", folder);
        }
        Err(_) => eprintln!(
            "xtask: no data: FEDBO_DATA is not set and ../shared/data does not exist; the tests that compare with \
             published data will fail"
        ),
    }
    command
}
