//! `api`: compares the public interface of the library `fedbo` with the record in
//! `crates/fedbo/api.txt`.
//!
//! The library is a facade. The record contains its own items and the re-exported items of other
//! crates, with their members and implementations. The items are read from rustdoc's JSON output.
//! Its format is unstable, so the check requires a specific compiler.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use public_api::PublicItem;
use serde_json::Value;

use crate::process::{cargo, root, run, target};

/// Compiler with a JSON format that the crate `public-api` supports.
const COMPILER: &str = "rustc 1.95.";

const HEAD: &str = "\
# The public interface of the library, one item per line, without blanket and auto trait implementations (such as Send and Sync).
# `cargo xtask api` compares, `cargo xtask api --write` records. A removed or changed line may break programs: list it in CHANGELOG.md.
# Types are listed where they are defined: paths outside the crate `fedbo` are not stable.
";

/// The arguments of `cargo xtask api`.
#[derive(clap::Args)]
pub(crate) struct Api {
    /// Record the current interface
    #[arg(long)]
    write: bool,
}

impl Api {
    pub(crate) fn run(&self) -> Result<()> {
        ensure!(is_readable(), "reading the public interface needs {COMPILER}x");
        let found = interface()?;
        let record = record();
        if self.write {
            return fs::write(&record, found).with_context(|| record.display().to_string());
        }
        let kept = fs::read_to_string(&record).with_context(|| record.display().to_string())?;
        let differences = differences(&kept, &found);
        for line in &differences {
            eprintln!("{line}");
        }
        if !differences.is_empty() {
            bail!(
                "the public interface differs from {}; if this is intended, run `cargo xtask api --write`",
                record.display()
            );
        }
        Ok(())
    }
}

/// Compares the interface with the record. Prints a note and succeeds if this compiler is not
/// supported.
pub(crate) fn check() -> Result<()> {
    if !is_readable() {
        eprintln!("xtask: the public interface is not compared: the compiler is not {COMPILER}x");
        return Ok(());
    }
    Api { write: false }.run()
}

fn is_readable() -> bool {
    let version = Command::new("rustc").arg("--version").current_dir(root()).output();
    version.is_ok_and(|output| output.stdout.starts_with(COMPILER.as_bytes()))
}

fn record() -> PathBuf {
    root().join("crates/fedbo/api.txt")
}

/// Returns the current interface in the format of the record.
fn interface() -> Result<String> {
    let facade = root().join("crates/fedbo/src/lib.rs");
    let facade = fs::read_to_string(&facade).with_context(|| facade.display().to_string())?;
    let mut lines = Crate::read("fedbo")?.lines;
    let mut open = given(&facade);
    let mut crates: BTreeMap<String, (Crate, BTreeSet<String>)> = BTreeMap::new();
    // A crate may re-export an item of another crate.
    while let Some((name, paths)) = open.pop_first() {
        let (known, all) = match crates.entry(name) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let read = Crate::read(entry.key())?;
                entry.insert((read, BTreeSet::new()))
            }
        };
        for path in paths {
            let is_known = known.lines.iter().any(|line| begins_with(line, &path));
            ensure!(is_known, "the facade re-exports {path}, which does not exist");
            if known.lines.contains(&format!("pub use {path}")) {
                let source = known.source(&path)?;
                let home = source.split("::").next().unwrap_or(&source).to_owned();
                open.entry(home).or_default().insert(source);
            }
            all.insert(path);
        }
    }
    for (known, paths) in crates.into_values() {
        let of_it = |line: &String| paths.iter().any(|path| concerns(line, path));
        lines.extend(known.lines.into_iter().filter(of_it));
    }
    Ok(format!("{HEAD}{}\n", lines.join("\n")))
}

/// Public interface of a crate.
struct Crate {
    lines: Vec<String>,
    json: Value,
}

impl Crate {
    fn read(name: &str) -> Result<Self> {
        let target = target().join("api");
        let mut rustdoc = cargo(["rustdoc", "--quiet", "--lib", "--all-features", "--package"]);
        rustdoc.arg(name.replace('_', "-")).arg("--target-dir").arg(&target);
        rustdoc.args(["--", "-Zunstable-options", "--output-format", "json"]);
        run(rustdoc.env("RUSTC_BOOTSTRAP", "1"))?;
        let json = target.join("doc").join(format!("{name}.json"));
        let all = public_api::Builder::from_rustdoc_json(&json)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .build()
            .with_context(|| json.display().to_string())?;
        let text = fs::read_to_string(&json).with_context(|| json.display().to_string())?;
        let lines = all.items().map(PublicItem::to_string).collect();
        Ok(Self { lines, json: serde_json::from_str(&text)? })
    }

    /// Returns the original path of a re-exported item.
    fn source(&self, path: &str) -> Result<String> {
        let name = path.rsplit("::").next();
        let items = self.json["index"].as_object().into_iter().flat_map(|index| index.values());
        let taken = items.filter_map(|item| item["inner"].get("use"));
        let mut sources = taken.filter(|taken| taken["name"].as_str() == name);
        let source = sources.find_map(|taken| taken["source"].as_str());
        Ok(source.with_context(|| format!("no source of the re-export {path}"))?.to_owned())
    }
}

/// Returns the paths that a facade re-exports from crates of the workspace, grouped by crate.
fn given(facade: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut given: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for taken in facade.split("pub use ").skip(1) {
        let taken = taken.split(';').next().unwrap_or_default();
        let taken: String = taken.chars().filter(|c| !c.is_whitespace()).collect();
        let (module, names) = match taken.split_once("::{") {
            Some((module, names)) => (module, names.trim_end_matches('}')),
            None => taken.rsplit_once("::").unwrap_or((&taken, "")),
        };
        if module.starts_with("fedbo_") {
            let name = module.split("::").next().unwrap_or(module);
            let paths = names.split(',').filter(|name| !name.is_empty());
            let paths = paths.map(|name| format!("{module}::{name}"));
            given.entry(name.to_owned()).or_default().extend(paths);
        }
    }
    given
}

/// Returns true if a line describes an item or one of its members.
fn begins_with(line: &str, path: &str) -> bool {
    let root = path.split("::").next().unwrap_or(path);
    line.find(&format!("{root}::")).is_some_and(|at| is_at(&line[at..], path))
}

/// Returns true if a line describes an item, one of its members, or an implementation that involves
/// it.
fn concerns(line: &str, path: &str) -> bool {
    let anywhere = || line.match_indices(path).any(|(at, _)| is_at(&line[at..], path));
    begins_with(line, path) || (line.starts_with("impl") && anywhere())
}

fn is_at(text: &str, path: &str) -> bool {
    let next = text.strip_prefix(path).map(|rest| rest.chars().next());
    next.is_some_and(|next| next.is_none_or(|c| !c.is_alphanumeric() && c != '_'))
}

/// Lists removed lines, then added lines.
fn differences(kept: &str, found: &str) -> Vec<String> {
    let all = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (kept, found) = (all(kept), all(found));
    let gone = kept.difference(&found).map(|line| format!("- {line}"));
    gone.chain(found.difference(&kept).map(|line| format!("+ {line}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_facade_gives_what_it_takes_from_crates() {
        let facade = "pub use fedbo_a::B;\npub mod c {\n    pub use fedbo_a::d::{E, f};\n    pub use crate::G;\n}\n";
        let paths = ["fedbo_a::B", "fedbo_a::d::E", "fedbo_a::d::f"].map(str::to_owned);
        assert_eq!(given(facade), BTreeMap::from([("fedbo_a".to_owned(), paths.into())]));
    }

    #[test]
    fn a_line_is_of_the_item_that_it_is_about() {
        let path = "fedbo_a::Seed";
        assert!(concerns("pub fn fedbo_a::Seed::child(&self) -> Self", path));
        assert!(concerns("impl core::fmt::Debug for fedbo_a::Seed", path));
        assert!(!concerns("pub struct fedbo_a::Seeds", path));
        assert!(!concerns("pub fn fedbo_a::other(fedbo_a::Seed)", path));
    }

    #[test]
    fn lines_that_are_gone_and_new_are_named() {
        assert_eq!(differences("a\nb\n", "b\nc\n"), ["- a", "+ c"]);
    }
}
