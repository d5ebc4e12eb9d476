//! `mutants`: seeded privacy bugs, each of which a named test must find.
//!
//! `crates/privacy/mutants.toml` lists them: one textual replacement each. They are made in a copy of the sources under
//! `target/mutants`, never in the tree. A mutant that does not compile, or whose text is not found exactly once, is an
//! error; one that its test does not notice has survived, and the tests are too weak.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::process::{cargo, root, run, target};

/// What `cargo xtask mutants` is told.
#[derive(clap::Args)]
pub(crate) struct Mutants {
    /// Only mutants whose name, file or test contains this
    filter: Option<String>,
    /// List them and stop
    #[arg(long)]
    list: bool,
}

/// The file that lists them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// The package whose sources are changed, where a mutant names none.
    package: String,
    mutant: Vec<Mutant>,
}

/// One seeded bug.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutant {
    name: String,
    package: Option<String>,
    /// What would be wrong.
    why: String,
    /// Below the package's folder.
    file: PathBuf,
    /// Text that occurs there exactly once.
    from: String,
    to: String,
    /// The integration test that must fail, or `doc` for the documentation's.
    test: String,
}

impl Mutant {
    fn package(&self) -> &str {
        self.package.as_deref().unwrap_or_default()
    }
}

/// What became of a mutant.
enum Outcome {
    Killed,
    Survived,
    Broken(String),
}

impl Mutants {
    /// All of them.
    pub(crate) fn all() -> Self {
        Self {
            filter: None,
            list: false,
        }
    }

    pub(crate) fn run(&self) -> Result<()> {
        let path = root().join("crates/privacy/mutants.toml");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let mut list: List = toml::from_str(&text).with_context(|| path.display().to_string())?;
        for mutant in &mut list.mutant {
            mutant.package.get_or_insert_with(|| list.package.clone());
        }
        check_names(&list.mutant)?;
        let mutants: Vec<&Mutant> = list.mutant.iter().filter(|m| self.takes(m)).collect();
        if mutants.is_empty() {
            bail!("no mutant is chosen; `cargo xtask mutants --list` shows them");
        }
        if self.list {
            for mutant in mutants {
                println!("{:<32} {:<24} {}", mutant.name, mutant.test, mutant.why);
            }
            return Ok(());
        }
        let workshop = Workshop::prepare()?;
        workshop.check_honest(&mutants)?;
        let mut failures = 0;
        for (index, mutant) in mutants.iter().enumerate() {
            let begin = Instant::now();
            let outcome = workshop.try_out(mutant)?;
            let verdict = match &outcome {
                Outcome::Killed => "killed by",
                Outcome::Survived => "SURVIVED",
                Outcome::Broken(_) => "BROKEN for",
            };
            println!(
                "{:>3}/{} {:<32} {verdict} {:<24} {:>5.1} s",
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
        let filter = self.filter.as_deref().unwrap_or_default();
        let file = mutant.file.to_string_lossy();
        [&mutant.name, &mutant.test, &*file]
            .iter()
            .any(|text| text.contains(filter))
    }
}

fn check_names(mutants: &[Mutant]) -> Result<()> {
    let mut names = BTreeSet::new();
    for mutant in mutants {
        if !names.insert(&mutant.name) {
            bail!("two mutants are called {}", mutant.name);
        }
    }
    Ok(())
}

/// Most of what is compiled before the first mutant is beside the point: only what draws and adds is optimised.
const CARGO_CONFIG: &str = r#"
[profile.dev.package]
"*" = { opt-level = 0 }
chacha20 = { opt-level = 3 }
ppv-lite86 = { opt-level = 3 }
rand_chacha = { opt-level = 3 }
sha2 = { opt-level = 3 }
fedbo-gp = { opt-level = 0 }
fedbo-optim = { opt-level = 0 }
fedbo-space = { opt-level = 0 }
"#;

/// A copy of the sources in which mutants are made.
struct Workshop {
    folder: PathBuf,
}

impl Workshop {
    /// Copies what differs from the last time, so that what is unchanged is not compiled again.
    fn prepare() -> Result<Self> {
        let folder = target().join("mutants").join("workspace");
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        for part in ["Cargo.toml", "Cargo.lock", "clippy.toml", "crates", "xtask"] {
            mirror(&root().join(part), &folder.join(part))
                .with_context(|| format!("copying {part} to {}", folder.display()))?;
        }
        fs::create_dir_all(folder.join(".cargo"))?;
        write_if_new(&folder.join(".cargo/config.toml"), CARGO_CONFIG.as_bytes())?;
        Ok(Self { folder })
    }

    /// The tests pass before anything is changed: else their failing would prove nothing.
    fn check_honest(&self, mutants: &[&Mutant]) -> Result<()> {
        let tests: BTreeSet<_> = mutants.iter().map(|m| (m.package(), &m.test)).collect();
        for (package, test) in tests {
            let mut command = self.test(package, test);
            run(command.arg("--quiet"))
                .with_context(|| format!("{test} fails without any mutant"))?;
        }
        Ok(())
    }

    fn try_out(&self, mutant: &Mutant) -> Result<Outcome> {
        let path = self
            .folder
            .join("crates")
            .join(mutant.package().trim_start_matches("fedbo-"))
            .join(&mutant.file);
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
        let mut build = if mutant.test == "doc" {
            self.cargo("build", mutant.package())
        } else {
            let mut build = self.test(mutant.package(), &mutant.test);
            build.arg("--no-run");
            build
        };
        let built = build.stdin(Stdio::null()).output()?;
        if !built.status.success() {
            let reason = String::from_utf8_lossy(&built.stderr).into_owned();
            return Ok(Outcome::Broken(reason));
        }
        let mut test = self.test(mutant.package(), &mutant.test);
        let passed = test.stdin(Stdio::null()).output()?.status.success();
        Ok(if passed {
            Outcome::Survived
        } else {
            Outcome::Killed
        })
    }

    fn test(&self, package: &str, test: &str) -> Command {
        let mut command = self.cargo("test", package);
        match test {
            "doc" => command.arg("--doc"),
            test => command.args(["--test", test]),
        };
        command
    }

    /// Never the tree's own target folder: there a mutant could be taken for the honest package.
    fn cargo(&self, verb: &str, package: &str) -> Command {
        let mut command = cargo([verb, "--package", package]);
        command
            .current_dir(&self.folder)
            .env("CARGO_TARGET_DIR", target().join("mutants").join("target"))
            .env("RUST_BACKTRACE", "0");
        command
    }
}

/// Makes `to` a copy of `from`; files with equal contents keep their time.
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
    if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}
