//! Checks that a coordinator and an agent built without simulation cannot draw noise from a seed
//! (INV-10).
//!
//! The check builds libraries instead of a program: code that is in no object file of a crate of
//! `fedbo-coordinator` or `fedbo-agent` is in no program linked from these crates. The program
//! `fedbo` has the feature `simulation`, which `simulate = true` and experiments need. In it,
//! simulated releases have a different type (`compile_fail` tests in `source.rs`).

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use object::read::archive::ArchiveFile;
use object::{File, Object as _, ObjectSymbol as _};
use serde_json::Value;

use crate::process::cargo;

/// Packages that handle noise and vectors. They are selected individually, because a build of the
/// whole workspace would enable the feature.
///
/// `fedbo-features`, which contains no code, gives dependencies the same features as in the
/// workspace, so that they are not recompiled.
pub(crate) const WITHOUT: [&str; 6] =
    ["--package", "fedbo-coordinator", "--package", "fedbo-agent", "--package", "fedbo-features"];

/// Checks that a build without simulation has no symbol of seeded noise, and that the same search
/// finds one in a build with simulation.
pub(crate) fn has_no_seeded_noise() -> Result<()> {
    eprintln!("xtask: checking the symbols of a coordinator and an agent built without simulation");
    let without = symbols(&WITHOUT)?;
    ensure!(
        without.iter().any(|symbol| symbol.contains("SecureNoise")),
        "no symbol of SecureNoise found: this check does not inspect the code that draws noise"
    );
    if let Some(found) = without.iter().find(|symbol| symbol.contains("SimNoise")) {
        bail!("a build without simulation contains seeded noise (INV-10): {found}");
    }
    let with = symbols(&["--workspace"])?;
    ensure!(
        with.iter().any(|symbol| symbol.contains("SimNoise")),
        "no symbol of SimNoise found in a build with simulation: this check cannot fail"
    );
    Ok(())
}

/// Returns the symbols of our crates in a build of these packages.
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

/// Collects the symbols in the object files of a library. The library's metadata is skipped, since
/// it contains names from the documentation.
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
