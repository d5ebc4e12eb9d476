//! Tests with special requirements, which plain `cargo test` ignores. The reason in `#[ignore]`
//! specifies the requirement. This module finds the tests by the reason and runs them.
//!
//! A test in this module rejects all other reasons except "started by another test", so no test is
//! ignored permanently.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};

use crate::process::{cargo_in, root};
use crate::tests::{self, Tests};
use crate::workspace::{WORKSPACES, packages};

/// Requirement of a test that plain `cargo xtask test` does not provide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// Data published by the papers' authors.
    Data,
    /// Programs of PostgreSQL.
    PostgreSql,
    /// Python, for training scripts.
    Python,
    /// Several minutes and an optimized build.
    Long,
}

impl Need {
    pub(crate) const ALL: [Self; 4] = [Self::Data, Self::PostgreSql, Self::Python, Self::Long];

    /// Returns the attribute that marks such tests, which directly follows `#[test]`.
    const fn attribute(self) -> &'static str {
        match self {
            Self::Data => "#[ignore = \"data: run by cargo xtask test --all\"]",
            Self::PostgreSql => "#[ignore = \"postgresql: run by cargo xtask test --all\"]",
            Self::Python => "#[ignore = \"python: run by cargo xtask test --all\"]",
            Self::Long => "#[ignore = \"long: run by cargo xtask test --long\"]",
        }
    }

    /// Returns the description of the requirement for the list of tests that were not run.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Data => "need the published data (--all)",
            Self::PostgreSql => "need PostgreSQL (--all)",
            Self::Python => "need Python (--all)",
            Self::Long => "are long forms (--long)",
        }
    }
}

/// Names of tests by workspace and package. A name that occurs in two modules is listed twice.
#[derive(Debug, Default)]
pub(crate) struct Marked(BTreeMap<(&'static str, String), Vec<String>>);

impl Marked {
    /// Finds the tests with the attribute of this requirement in all packages.
    pub(crate) fn find(need: Need) -> Result<Self> {
        let mut found = BTreeMap::new();
        for package in packages()? {
            let folder = root().join(&package.folder);
            let mut names = Vec::new();
            each_source(&folder, &mut |source| names.extend(names_in(source, need)))?;
            if !names.is_empty() {
                names.sort();
                found.insert((package.workspace(), package.name), names);
            }
        }
        let marked = Self(found);
        ensure!(marked.len() > 0, "no test has {}", need.attribute());
        Ok(marked)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Lists the tests as not run, with the reason.
    pub(crate) fn report_not_run(&self, need: Need) {
        eprintln!("xtask: not run: {} tests that {}", self.len(), need.description());
        for ((_, package), names) in &self.0 {
            for name in names {
                eprintln!("    {package} {name}");
            }
        }
    }

    /// Runs exactly these tests and fails unless all of them pass.
    ///
    /// Builds the whole workspace, so that nothing is recompiled with other features.
    pub(crate) fn run(&self) -> Result<Tests> {
        self.run_by(|_| vec!["test", "--no-fail-fast", "--tests", "--workspace"])
    }

    /// Runs these tests in an optimized build of their packages only.
    pub(crate) fn run_optimised(&self) -> Result<Tests> {
        self.run_by(|packages| {
            let mut command = vec!["test", "--no-fail-fast", "--tests", "--release"];
            for package in packages {
                command.extend(["--package", package]);
            }
            command
        })
    }

    fn run_by(&self, command: impl for<'a> Fn(&[&'a str]) -> Vec<&'a str>) -> Result<Tests> {
        let mut tests = Tests::default();
        for workspace in WORKSPACES {
            let in_it: Vec<_> = self.0.iter().filter(|((of, _), _)| *of == workspace).collect();
            if in_it.is_empty() {
                continue;
            }
            let packages: Vec<&str> = in_it.iter().map(|((_, name), _)| name.as_str()).collect();
            let names = in_it.iter().flat_map(|(_, names)| *names).map(String::as_str).collect();
            let command = command(&packages);
            let mut test = cargo_in(workspace, &command);
            test.args(["--", "--ignored", "--exact", "--nocapture"]);
            test.args(paths(workspace, &command, &names)?);
            tests.passed += tests::run(&mut test)?.passed;
        }
        ensure!(
            tests.passed == self.len(),
            "{} tests passed, but {} are marked",
            tests.passed,
            self.len()
        );
        Ok(tests)
    }
}

/// Returns the paths of these tests as test programs list them, such as `module::name`.
fn paths(workspace: &str, command: &[&str], names: &BTreeSet<&str>) -> Result<BTreeSet<String>> {
    let listed = cargo_in(workspace, command)
        .args(["--", "--ignored", "--list", "--format=terse"])
        .stderr(Stdio::inherit())
        .output()?;
    if !listed.status.success() {
        bail!("the tests cannot be listed ({})", listed.status);
    }
    let text = String::from_utf8(listed.stdout)?;
    let paths = text.lines().filter_map(|line| line.strip_suffix(": test"));
    let wanted = |path: &&str| names.contains(path.rsplit("::").next().unwrap_or(path));
    Ok(paths.filter(wanted).map(str::to_owned).collect())
}

/// Calls `show` with every Rust source below a folder.
pub(crate) fn each_source(folder: &Path, show: &mut dyn FnMut(&str)) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            each_source(&path, show)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            show(&source);
        }
    }
    Ok(())
}

/// Returns the names of the tests that follow an attribute of this requirement.
fn names_in(source: &str, need: Need) -> Vec<String> {
    let name = |text: &str| {
        let signature = text.split_once("fn ")?.1;
        Some(signature.split_once('(')?.0.to_owned())
    };
    source.split(need.attribute()).skip(1).filter_map(name).collect()
}

#[cfg(test)]
mod tests_of_marked {
    use super::*;

    #[test]
    fn marked_tests_are_found_and_tests_that_others_start_are_not() {
        let [data, postgresql, python, long] = Need::ALL.map(Need::attribute);
        let source = format!(
            "#[test]\n#[ignore = \"started by another test\"]\nfn held() {{}}\n\
             #[test]\n{long}\nfn audited() {{}}\n{long}\nfn tossed() -> R {{}}\n#[test]\nfn plain() {{}}\n\
             {data}\nfn compared() {{}}\n{postgresql}\nfn stored() {{}}\n{python}\nfn trained() {{}}"
        );
        assert_eq!(names_in(&source, Need::Long), ["audited", "tossed"]);
        assert_eq!(names_in(&source, Need::Data), ["compared"]);
        assert_eq!(names_in(&source, Need::PostgreSql), ["stored"]);
        assert_eq!(names_in(&source, Need::Python), ["trained"]);
        let marked = Marked::find(Need::Long).unwrap();
        let audit = "the_audited_mu_is_the_declared_one_in_a_million_trials";
        let privacy = &marked.0[&("", "fedbo-privacy".to_owned())];
        assert!(privacy.iter().any(|name| name == audit), "{privacy:?}");
    }

    /// Every ignored test is run either by `cargo xtask test` with an option or by another test.
    #[test]
    fn no_test_is_ignored_for_good() {
        let known = Need::ALL.map(Need::attribute);
        let (mut n_known, opening) = (0, "#[ignore");
        for package in packages().unwrap() {
            each_source(&root().join(package.folder), &mut |source| {
                for (at, _) in source.match_indices(opening) {
                    let attribute = source[at..].lines().next().unwrap_or_default();
                    let started = attribute.starts_with("#[ignore = \"started by");
                    assert!(
                        started || known.contains(&attribute),
                        "{attribute}: cargo xtask test does not support this reason"
                    );
                    n_known += usize::from(!started);
                }
            })
            .unwrap();
        }
        let found: usize = Need::ALL.map(|need| Marked::find(need).unwrap().len()).iter().sum();
        assert_eq!(n_known, found);
    }
}
