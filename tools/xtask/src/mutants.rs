//! `mutants`: seeds bugs and checks that a given test detects each of them.
//!
//! The file `mutants.toml` of a crate lists the crate's mutants, each of which is one textual
//! replacement. They are applied to a copy of the sources under `target/mutants`, never to the
//! source tree. A mutant must compile, and the text that it replaces must occur exactly once. If a
//! mutant's test passes, the mutant survives and the tests are too weak. Crates are processed one
//! after another, which avoids recompilation after changes in their dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::process::{cargo, root, target};
use crate::tests;
use crate::workspace::{Package, packages};

/// The arguments of `cargo xtask mutants`.
#[derive(clap::Args)]
pub(crate) struct Mutants {
    /// Run only mutants with this text in their name, package, file or test
    filter: Option<String>,
    /// List the mutants and stop
    #[arg(long)]
    list: bool,
    /// Skip mutants of services and agents: their tests take many minutes to build
    #[arg(long)]
    quick: bool,
}

/// The `mutants.toml` of a crate.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    mutant: Vec<Mutant>,
}

/// One seeded bug.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutant {
    pub(crate) name: String,
    /// Folder of the crate that lists the mutant.
    #[serde(skip)]
    folder: String,
    /// Name of that crate.
    #[serde(skip)]
    package: String,
    /// Description of the seeded fault.
    why: String,
    /// Path relative to the crate's folder.
    file: PathBuf,
    /// Text that occurs exactly once in the file.
    from: String,
    to: String,
    /// Program or module of integration tests that must fail, `lib` for unit tests, or `doc` for
    /// documentation tests.
    test: String,
    /// Test function that must fail, including its modules; empty for any function.
    #[serde(default)]
    case: String,
}

/// Result of testing a mutant.
enum Outcome {
    Killed,
    Survived,
    Broken(String),
}

impl Mutants {
    /// Creates the task for all mutants.
    pub(crate) fn all() -> Self {
        Self { filter: None, list: false, quick: false }
    }

    /// Creates the task for mutants with tests that build in a minute or two.
    pub(crate) fn quick() -> Self {
        Self { quick: true, ..Self::all() }
    }

    pub(crate) fn run(&self) -> Result<()> {
        let all = listed()?;
        let mutants: Vec<&Mutant> = all.iter().filter(|m| self.takes(m)).collect();
        if mutants.is_empty() {
            bail!("no mutant matches; `cargo xtask mutants --list` lists them");
        }
        if self.list {
            for mutant in mutants {
                println!("{:<36} {:<24} {}", mutant.name, mutant.test, mutant.why);
            }
            return Ok(());
        }
        let packages = mutants.iter().map(|mutant| mutant.package.clone()).collect();
        let workshop = MutationCopy::prepare(packages)?;
        let mut failures = 0;
        let mut checked = "";
        for (index, mutant) in mutants.iter().enumerate() {
            if checked != mutant.folder {
                checked = &mutant.folder;
                workshop.check_honest(mutants.iter().filter(|m| m.folder == checked))?;
            }
            let begin = Instant::now();
            let outcome = workshop.try_out(mutant)?;
            let verdict = match &outcome {
                Outcome::Killed => "killed by",
                Outcome::Survived => "SURVIVED",
                Outcome::Broken(_) => "BROKEN for",
            };
            println!(
                "{:>3}/{} {:<36} {verdict} {:<24} {:>5.1} s",
                index + 1,
                mutants.len(),
                mutant.name,
                mutant.test,
                begin.elapsed().as_secs_f64()
            );
            if let Outcome::Broken(reason) = &outcome {
                println!("{reason}");
            }
            failures += usize::from(!matches!(outcome, Outcome::Killed));
        }
        if failures > 0 {
            bail!("{failures} of {} mutants were not killed", mutants.len());
        }
        eprintln!("xtask: all {} mutants were killed", mutants.len());
        Ok(())
    }

    fn takes(&self, mutant: &Mutant) -> bool {
        if self.quick && mutant.folder.starts_with("crates/net/") {
            return false;
        }
        let filter = self.filter.as_deref().unwrap_or_default();
        let file = mutant.file.to_string_lossy();
        [&mutant.name, &mutant.folder, &mutant.test, &*file]
            .iter()
            .any(|text| text.contains(filter))
    }
}

/// Lists all mutants, grouped by crate.
pub(crate) fn listed() -> Result<Vec<Mutant>> {
    let mut all: Vec<Mutant> = Vec::new();
    for Package { name, folder } in packages()? {
        let path = root().join(&folder).join("mutants.toml");
        if !path.is_file() {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let list: List = toml::from_str(&text).with_context(|| path.display().to_string())?;
        for mut mutant in list.mutant {
            if all.iter().any(|other| other.name == mutant.name) {
                bail!("two mutants are called {}", mutant.name);
            }
            mutant.folder.clone_from(&folder);
            mutant.package.clone_from(&name);
            all.push(mutant);
        }
    }
    Ok(all)
}

/// Disables the optimization that tests enable for some crates. Mutants do not need it, and these
/// crates are compiled before the first mutant.
const CARGO_CONFIG: &str = r#"
[profile.dev.package]
fedbo-gp = { opt-level = 0 }
fedbo-optim = { opt-level = 0 }
fedbo-space = { opt-level = 0 }
"#;

/// A copy of the sources for mutations.
struct MutationCopy {
    folder: PathBuf,
    /// Packages with selected mutants.
    packages: BTreeSet<String>,
}

impl MutationCopy {
    /// Updates only changed files, so that unchanged crates are not recompiled.
    fn prepare(packages: BTreeSet<String>) -> Result<Self> {
        let folder = target().join("mutants").join("workspace");
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        for part in [
            "Cargo.toml",
            "Cargo.lock",
            "clippy.toml",
            "crates",
            "examples",
            "docs",
            "games",
            // A test about secrets reads the environment variables referenced in the sources.
            "python/fedbo",
            "tools",
        ] {
            mirror(&root().join(part), &folder.join(part))
                .with_context(|| format!("copying {part} to {}", folder.display()))?;
        }
        fs::create_dir_all(folder.join(".cargo"))?;
        write_if_new(&folder.join(".cargo/config.toml"), CARGO_CONFIG.as_bytes())?;
        Ok(Self { folder, packages })
    }

    /// Checks that the tests pass without a mutant; otherwise their failure would prove nothing.
    /// Runs all cases of a test together.
    fn check_honest<'m>(&self, mutants: impl Iterator<Item = &'m &'m Mutant>) -> Result<()> {
        let mut by_test: BTreeMap<&str, (&Mutant, BTreeSet<&str>)> = BTreeMap::new();
        for mutant in mutants {
            let (_, cases) = by_test.entry(&mutant.test).or_insert((mutant, BTreeSet::new()));
            cases.insert(&mutant.case);
        }
        for (test, (mutant, cases)) in by_test {
            let mut command = self.program("test", mutant);
            let all = cases.contains("");
            command.args(
                self.filter(mutant, &if all { vec![""] } else { cases.iter().copied().collect() }),
            );
            let passed = tests::run(&mut command)
                .with_context(|| format!("{test} fails without any mutant"))?
                .passed;
            let are_found = if all { passed > 0 } else { passed == cases.len() };
            ensure!(are_found, "{test}: {passed} tests match {cases:?}");
        }
        Ok(())
    }

    fn try_out(&self, mutant: &Mutant) -> Result<Outcome> {
        let path = self.folder.join(&mutant.folder).join(&mutant.file);
        let original = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let found = original.matches(&mutant.from).count();
        if found != 1 {
            return Ok(Outcome::Broken(format!(
                "    its text occurs {found} times in {}, not once",
                mutant.file.display()
            )));
        }
        fs::write(&path, original.replacen(&mutant.from, &mutant.to, 1))?;
        let outcome = self.judge(mutant);
        fs::write(&path, original)?;
        outcome
    }

    fn judge(&self, mutant: &Mutant) -> Result<Outcome> {
        let mut build = match mutant.test.as_str() {
            "doc" => self.cargo("build", mutant),
            _ => self.program("test", mutant),
        };
        if mutant.test != "doc" {
            build.arg("--no-run");
        }
        let built = build.stdin(Stdio::null()).output()?;
        if !built.status.success() {
            let reason = String::from_utf8_lossy(&built.stderr).into_owned();
            return Ok(Outcome::Broken(reason));
        }
        let mut test = self.test(mutant);
        let passed = test.stdin(Stdio::null()).output()?.status.success();
        Ok(if passed { Outcome::Survived } else { Outcome::Killed })
    }

    fn test(&self, mutant: &Mutant) -> Command {
        let mut command = self.program("test", mutant);
        command.args(self.filter(mutant, &[&mutant.case]));
        command
    }

    /// Returns the module of a mutant's test if all integration tests of its package form a single
    /// program.
    fn module(&self, mutant: &Mutant) -> Option<String> {
        let is_one = self.folder.join(&mutant.folder).join("tests/main.rs").is_file();
        (is_one && !matches!(mutant.test.as_str(), "doc" | "lib")).then(|| mutant.test.clone())
    }

    /// Returns the arguments that select these cases of a mutant's test, or all cases for an empty
    /// name.
    fn filter(&self, mutant: &Mutant, cases: &[&str]) -> Vec<String> {
        let module = self.module(mutant);
        let path = |case: &str| module.as_ref().map_or(case.to_owned(), |m| format!("{m}::{case}"));
        match (cases, module.is_some()) {
            ([""], false) => Vec::new(),
            ([""], true) => vec!["--".to_owned(), path("")],
            _ => ["--".to_owned(), "--exact".to_owned()]
                .into_iter()
                .chain(cases.iter().map(|case| path(case)))
                .collect(),
        }
    }

    fn program(&self, verb: &str, mutant: &Mutant) -> Command {
        let mut command = self.cargo(verb, mutant);
        match mutant.test.as_str() {
            "doc" => command.arg("--doc"),
            "lib" => command.arg("--lib"),
            test => {
                let program = match self.module(mutant) {
                    Some(_) => mutant.package.strip_prefix("fedbo-").unwrap_or(&mutant.package),
                    None => test,
                };
                // Selecting all packages together compiles their dependencies once, with the union
                // of the required features.
                for package in &self.packages {
                    command.args(["--package", package]);
                }
                command.args(["--test", program])
            }
        };
        command
    }

    /// Uses a separate target folder. In the regular one, a mutant could be mistaken for the
    /// original package.
    fn cargo(&self, verb: &str, mutant: &Mutant) -> Command {
        let mut command = cargo([verb, "--package", &mutant.package]);
        command
            .current_dir(&self.folder)
            .env("CARGO_TARGET_DIR", target().join("mutants").join("target"))
            // Each mutant recompiles one crate and a large test program.
            .env("CARGO_INCREMENTAL", "1")
            .env("RUST_BACKTRACE", "0");
        command
    }
}

/// Copies `from` to `to`. Files with equal contents keep their modification times.
fn mirror(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            mirror(&from.join(&name), &to.join(&name))?;
            names.insert(name);
        }
        for entry in fs::read_dir(to)? {
            let entry = entry?;
            if !names.contains(&entry.file_name()) {
                remove(&entry.path())?;
            }
        }
        return Ok(());
    }
    write_if_new(to, &fs::read(from)?)
}

fn write_if_new(path: &Path, contents: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == contents) {
        return Ok(());
    }
    fs::write(path, contents)
}

fn remove(path: &Path) -> io::Result<()> {
    if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

#[cfg(test)]
mod tests_of_mutants {
    use super::*;

    /// Detects stale mutants early. Otherwise they would fail only minutes into the run.
    #[test]
    fn every_mutant_changes_a_text_that_is_there_once() {
        let mutants = listed().unwrap();
        assert!(mutants.len() > 60);
        for mutant in mutants {
            let path = root().join(&mutant.folder).join(&mutant.file);
            let source = fs::read_to_string(&path).unwrap();
            let found = source.matches(&mutant.from).count();
            assert_eq!(found, 1, "{} in {}", mutant.name, path.display());
            assert_ne!(mutant.from, mutant.to, "{}", mutant.name);
        }
    }
}
