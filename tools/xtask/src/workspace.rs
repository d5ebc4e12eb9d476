//! Packages of the product and of `research`, as listed in the manifests of the two workspaces.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::process::root;

/// The folders of the two workspaces.
pub(crate) const WORKSPACES: [&str; 2] = ["", RESEARCH];
/// The folder of the workspace `research`.
pub(crate) const RESEARCH: &str = "research";

/// A package of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Path of the package, relative to the project.
    pub(crate) folder: String,
}

impl Package {
    /// Returns the folder of the package's workspace, relative to the project.
    pub(crate) fn workspace(&self) -> &'static str {
        if self.folder.starts_with(RESEARCH) { RESEARCH } else { "" }
    }
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

/// Lists all packages except xtask, whose own sources contain the strings that it searches for.
pub(crate) fn packages() -> Result<Vec<Package>> {
    let mut all = Vec::new();
    for of in WORKSPACES {
        let Workspace { workspace } = read(&root().join(of).join("Cargo.toml"))?;
        for member in workspace.members {
            let folder = if of.is_empty() { member } else { format!("{of}/{member}") };
            let manifest: Manifest = read(&root().join(&folder).join("Cargo.toml"))?;
            all.push(Package { name: manifest.package.name, folder });
        }
    }
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
    use crate::language::sources;

    /// Rooms of `crates` from bottom to top, as in ARCHITECTURE.md. Rooms in the same line are
    /// independent.
    const ROOMS: [&[&str]; 13] = [
        &["core"],
        &["gp"],
        &["strategies", "privacy"],
        &["store"],
        &["study"],
        &["report"],
        &["federated"],
        &["net", "fedbo"],
        &["console"],
        &["documents"],
        &["web"],
        &["cli"],
        &["python"],
    ];

    /// Permitted dependencies of rooms on packages outside `crates`.
    const EXCEPTIONS: [(&str, &str); 4] = [
        // Failpoints, which are no-ops in normal builds.
        ("store", "tools"),
        ("net", "tools"),
        // The optional feature `games`.
        ("cli", "games"),
        // The crate without code that unifies the features of dependencies.
        ("cli", "tools"),
    ];

    /// Independent programs in one room. Not even their tests may use each other.
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

    /// Returns a package's room and its line; `None` for a package outside `crates`.
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

    #[derive(Deserialize)]
    struct Profiles {
        profile: BTreeMap<String, toml::Table>,
    }

    /// Equal labels would give equal draws to streams with different purposes.
    #[test]
    fn purposes_of_random_streams_have_different_labels() {
        let mut files = Vec::new();
        for folder in ["crates", "games", "research"] {
            sources(&root().join(folder), &mut files);
        }
        let mut labels: BTreeMap<String, String> = BTreeMap::new();
        for path in files {
            let text = fs::read_to_string(&path).expect("a source");
            let constants = ["Purpose = Purpose::new(\"", "Self = Self::new(\""];
            for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
                let found = constants.iter().find_map(|constant| line.split_once(constant));
                let Some((_, rest)) = found else { continue };
                let label = rest.split('"').next().unwrap_or_default().to_owned();
                let place = format!("{}: {line}", path.display());
                if let Some(other) = labels.insert(label, place.clone()) {
                    panic!("one label for two purposes:\n{other}\n{place}");
                }
            }
        }
        assert!(labels.len() >= 19, "{labels:?}");
    }

    /// Both workspaces share build artifacts, so a package has the same settings in both.
    #[test]
    fn profiles_are_the_same_in_both_workspaces() {
        let [ours, theirs]: [Profiles; 2] =
            WORKSPACES.map(|of| read(&root().join(of).join("Cargo.toml")).unwrap());
        for name in ["dev", "release"] {
            let (ours, theirs) = (&ours.profile[name], &theirs.profile[name]);
            let packages = |profile: &toml::Table| profile["package"].as_table().unwrap().clone();
            let (of_ours, of_theirs) = (packages(ours), packages(theirs));
            for (package, setting) in &of_ours {
                if let Some(other) = of_theirs.get(package) {
                    assert_eq!(setting, other, "{name}: {package}");
                }
            }
            let general = |profile: &toml::Table| {
                let mut rest = profile.clone();
                rest.remove("package");
                rest
            };
            assert_eq!(general(ours), general(theirs), "{name}");
        }
    }
}
