//! Tests that plain `cargo test` ignores because they need something: the reason of their `#[ignore]` says what, and here they
//! are found by it and run.
//!
//! A reason that is not one of [`Need`]'s, nor "started by" another test, fails a test of this module: no test is ignored for
//! good.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};

use crate::process::{cargo, root};
use crate::tests::{self, Tests};
use crate::workspace::packages;

/// A need of a test that `cargo xtask test` does not provide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// Data that the papers' authors published.
    Data,
    /// PostgreSQL's programs.
    PostgreSql,
    /// Python, for scripts that train.
    Python,
    /// Minutes, and an optimised build.
    Long,
}

impl Need {
    pub(crate) const ALL: [Self; 4] = [Self::Data, Self::PostgreSql, Self::Python, Self::Long];

    /// The attribute that stands directly after `#[test]`.
    const fn attribute(self) -> &'static str {
        match self {
            Self::Data => "#[ignore = \"data: run by cargo xtask test --all\"]",
            Self::PostgreSql => "#[ignore = \"postgresql: run by cargo xtask test --all\"]",
            Self::Python => "#[ignore = \"python: run by cargo xtask test --all\"]",
            Self::Long => "#[ignore = \"long: run by cargo xtask test --long\"]",
        }
    }

    /// For a list of what was not run.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Data => "need the published data (--all)",
            Self::PostgreSql => "need PostgreSQL (--all)",
            Self::Python => "need Python (--all)",
            Self::Long => "are long forms (--long)",
        }
    }
}

/// Names of tests by package; a name that two modules share is there twice.
#[derive(Debug, Default)]
pub(crate) struct Marked(BTreeMap<String, Vec<String>>);

impl Marked {
    /// The tests of all packages that carry the attribute of this need.
    pub(crate) fn find(need: Need) -> Result<Self> {
        let mut found = BTreeMap::new();
        for package in packages()? {
            let folder = root().join(&package.folder);
            let mut names = Vec::new();
            each_source(&folder, &mut |source| names.extend(names_in(source, need)))?;
            if !names.is_empty() {
                names.sort();
                found.insert(package.name, names);
            }
        }
        let marked = Self(found);
        ensure!(marked.len() > 0, "no test carries {}", need.attribute());
        Ok(marked)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Lists them as not run, for this reason.
    pub(crate) fn report_not_run(&self, need: Need) {
        eprintln!("xtask: not run: {} tests that {}", self.len(), need.description());
        for (package, names) in &self.0 {
            for name in names {
                eprintln!("    {package} {name}");
            }
        }
    }

    /// Runs exactly these tests, and fails unless as many passed as there are. They are those of the whole workspace's build,
    /// so that nothing is compiled for other features.
    pub(crate) fn run(&self) -> Result<Tests> {
        self.run_by(&["test", "--no-fail-fast", "--tests", "--workspace"])
    }

    /// The same in an optimised build of their packages alone.
    pub(crate) fn run_optimised(&self) -> Result<Tests> {
        let mut command = vec!["test", "--no-fail-fast", "--tests", "--release"];
        for package in self.0.keys() {
            command.extend(["--package", package]);
        }
        self.run_by(&command)
    }

    fn run_by(&self, command: &[&str]) -> Result<Tests> {
        let paths = self.paths(command)?;
        let mut test = cargo(command);
        test.args(["--", "--ignored", "--exact", "--nocapture"]).args(paths);
        let tests = tests::run(&mut test)?;
        ensure!(
            tests.passed == self.len(),
            "{} tests passed, but {} are marked",
            tests.passed,
            self.len()
        );
        Ok(tests)
    }

    /// The paths by which test programs know these tests, such as `module::name`.
    fn paths(&self, command: &[&str]) -> Result<BTreeSet<String>> {
        let names: BTreeSet<&str> = self.0.values().flatten().map(String::as_str).collect();
        let listed = cargo(command)
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
}

/// Shows every Rust source below a folder.
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

/// The names of the tests after each attribute of this need.
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
        let privacy = &marked.0["fedbo-privacy"];
        assert!(privacy.iter().any(|name| name == audit), "{privacy:?}");
    }

    /// Whatever is ignored is run by somebody: by `cargo xtask test` with an option, or by another test.
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
                        "{attribute}: not a reason that cargo xtask test knows"
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
