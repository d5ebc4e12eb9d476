//! The packages of the workspace, as its manifest lists them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::process::root;

/// A package of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Its folder, from the workspace's.
    pub(crate) folder: String,
}

#[derive(Deserialize)]
struct Workspace {
    workspace: Members,
}

#[derive(Deserialize)]
struct Members {
    members: Vec<String>,
}

#[derive(Deserialize)]
struct Manifest {
    package: Named,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// All packages but this one, whose sources name what it looks for in those of the others.
pub(crate) fn packages() -> Result<Vec<Package>> {
    let Workspace { workspace } = read(&root().join("Cargo.toml"))?;
    let package = |folder: String| {
        let manifest: Manifest = read(&root().join(&folder).join("Cargo.toml"))?;
        let name = manifest.package.name;
        Ok(Package { name, folder })
    };
    let all: Result<Vec<Package>> = workspace.members.into_iter().map(package).collect();
    let mut all = all?;
    all.retain(|package| package.name != env!("CARGO_PKG_NAME"));
    Ok(all)
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    toml::from_str(&text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests_of_rooms {
    use std::collections::BTreeMap;

    use super::*;

    /// The rooms of `crates`, the lowest first, as ARCHITECTURE.md has them; those of one line know nothing of each other.
    const ROOMS: [&[&str]; 10] = [
        &["core"],
        &["gp"],
        &["strategies", "privacy"],
        &["store"],
        &["study"],
        &["games", "report"],
        &["federated"],
        &["net", "fedbo"],
        &["cli"],
        &["python"],
    ];

    /// Dependencies of rooms on what stands outside.
    const EXCEPTIONS: [(&str, &str); 4] = [
        // By a feature that is on unless it is turned off.
        ("cli", "research"),
        // Named places at which tests let the process die: nothing in every other build.
        ("store", "tools"),
        ("net", "tools"),
        // No code: one set of features of dependencies.
        ("cli", "tools"),
    ];

    /// Programs of one room that know nothing of each other, not even in their tests.
    const APART: [&str; 4] = ["fedbo-agent", "fedbo-coordinator", "fedbo-helper", "fedbo-peer"];

    #[derive(Deserialize)]
    struct Dependent {
        #[serde(default)]
        dependencies: BTreeMap<String, toml::Value>,
        #[serde(default, rename = "dev-dependencies")]
        in_tests: BTreeMap<String, toml::Value>,
    }

    fn dependent(package: &Package) -> Dependent {
        read(&root().join(&package.folder).join("Cargo.toml")).unwrap()
    }

    /// The room of a package, and its line; none outside `crates`.
    fn room(package: &Package) -> (&str, Option<usize>) {
        let mut parts = package.folder.split('/');
        match (parts.next(), parts.next()) {
            (Some("crates"), Some(room)) => {
                let line = ROOMS.iter().position(|line| line.contains(&room));
                assert!(line.is_some(), "{}: no room of ARCHITECTURE.md", package.folder);
                (room, line)
            }
            (Some(outside), _) => (outside, None),
            (None, _) => unreachable!("a text has a first part"),
        }
    }

    #[test]
    fn no_dependency_runs_up() {
        let packages = packages().unwrap();
        for package in &packages {
            let (from, line) = room(package);
            let ours = |name: &String| packages.iter().find(|other| other.name == *name);
            for other in dependent(package).dependencies.keys().filter_map(ours) {
                let (to, below) = room(other);
                let runs_down = match (line, below) {
                    (Some(line), Some(below)) => from == to || below < line,
                    (Some(_), None) => EXCEPTIONS.contains(&(from, to)),
                    (None, _) => true,
                };
                assert!(runs_down, "{} depends on {}", package.folder, other.folder);
            }
        }
    }

    #[test]
    fn agent_coordinator_and_peer_know_nothing_of_each_other() {
        let packages = packages().unwrap();
        for name in APART {
            let package = packages.iter().find(|package| package.name == name);
            let Dependent { dependencies, in_tests } = dependent(package.unwrap());
            let mut all = dependencies.keys().chain(in_tests.keys());
            let other = all.find(|other| *other != name && APART.contains(&other.as_str()));
            assert_eq!(other, None, "{name}");
        }
    }
}
