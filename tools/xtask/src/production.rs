//! A coordinator and an agent as they are built without simulation: nothing in them draws noise from a seed (INV-10).
//!
//! Libraries are built, not a program: what is in no object file of a crate that `fedbo-coordinator` or `fedbo-agent` consists of is in
//! no program that is made of them either. The program `fedbo` itself is no such program: it has the feature `simulation`, as
//! `simulate = true` and experiments need it, and there a simulated release is of another type (`compile_fail` tests of `source.rs`).

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use object::read::archive::ArchiveFile;
use object::{File, Object as _, ObjectSymbol as _};
use serde_json::Value;

use crate::process::cargo;

/// The crates whose code touches noise and vectors, by themselves: of the whole workspace they would have the feature.
/// With them the crate without code that gives dependencies the features which they have in the workspace: they are compiled already.
pub(crate) const WITHOUT: [&str; 6] =
    ["--package", "fedbo-coordinator", "--package", "fedbo-agent", "--package", "fedbo-features"];

/// That no symbol of a build without simulation is of seeded noise; and that the same look finds it in a build with.
pub(crate) fn has_no_seeded_noise() -> Result<()> {
    eprintln!("xtask: symbols of a coordinator and an agent that are built without simulation");
    let without = symbols(&WITHOUT)?;
    ensure!(
        without.iter().any(|symbol| symbol.contains("SecureNoise")),
        "no symbol of SecureNoise is found: what is looked at is not what makes noise"
    );
    if let Some(found) = without.iter().find(|symbol| symbol.contains("SimNoise")) {
        bail!("noise from a seed is in a build without simulation (INV-10): {found}");
    }
    let with = symbols(&["--workspace"])?;
    ensure!(
        with.iter().any(|symbol| symbol.contains("SimNoise")),
        "no symbol of SimNoise is found in a build with simulation: this check could not fail"
    );
    Ok(())
}

/// The symbols of our crates in a build of these packages.
fn symbols(packages: &[&str]) -> Result<Vec<String>> {
    let json = ["build", "--lib", "--message-format", "json-render-diagnostics"];
    let mut build = cargo(json);
    let output = build.args(packages).stderr(Stdio::inherit()).output();
    let output = output.context("cargo cannot be started")?;
    ensure!(output.status.success(), "the build failed");
    let mut symbols = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let message: Value = serde_json::from_str(line)?;
        let name = message["target"]["name"].as_str().unwrap_or_default();
        if message["reason"] != "compiler-artifact" || !name.starts_with("fedbo_") {
            continue;
        }
        let files = message["filenames"].as_array().into_iter().flatten();
        let files = files.filter_map(Value::as_str).map(PathBuf::from);
        for rlib in files.filter(|file| file.extension().is_some_and(|kind| kind == "rlib")) {
            let bytes = fs::read(&rlib).with_context(|| rlib.display().to_string())?;
            of_archive(&bytes, &mut symbols).with_context(|| rlib.display().to_string())?;
        }
    }
    Ok(symbols)
}

/// The symbols of the object files of a library; its metadata, which hold names from the documentation, are none.
fn of_archive(bytes: &[u8], symbols: &mut Vec<String>) -> Result<()> {
    for member in ArchiveFile::parse(bytes)?.members() {
        let member = member?;
        if !member.name().ends_with(b".o") {
            continue;
        }
        let data = member.data(bytes)?;
        let object = File::parse(data)?;
        let names = object.symbols();
        symbols.extend(names.filter_map(|symbol| symbol.name().ok().map(str::to_owned)));
    }
    Ok(())
}
