//! Checks that tests, program, benchmarks, Python package and the build without simulation share
//! compiled dependencies: each must resolve them with the features of the whole workspace.

use std::collections::{BTreeMap, BTreeSet};

use crate::process::cargo;
use crate::production::WITHOUT;

/// Dependencies that may differ. proptest needs these features for tests. Few crates depend on
/// them, so the program omits the features.
const TESTS_ALONE: [&str; 2] = ["regex-automata", "regex-syntax"];

/// Returns the feature sets of each dependency, by name and version, in a build of these packages.
fn features(packages: &[&str], edges: &str) -> BTreeMap<String, BTreeSet<String>> {
    let fixed = ["tree", "--prefix", "none", "--format", "{p} with {f}", "--edges", edges];
    let output = cargo(fixed).args(packages).output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut found = BTreeMap::<String, BTreeSet<String>>::new();
    let printed = String::from_utf8_lossy(&output.stdout);
    for line in printed.lines().filter(|line| !line.is_empty()) {
        let (package, features) = line.split_once(" with").expect("a package and its features");
        let package = package.trim_end_matches(" (proc-macro)");
        // Skip crates of this workspace, since their own features may differ.
        if !package.contains('(') {
            let features = features.trim_end_matches("(*)").trim();
            found.entry(package.to_owned()).or_default().insert(features.to_owned());
        }
    }
    found
}

#[test]
fn no_dependency_is_compiled_twice_for_other_features() {
    let all = features(&["--workspace"], "normal,build,dev");
    assert!(all.len() > 300, "{}", all.len());
    let program = ["--package", "fedbo-cli"];
    let selections: [&[&str]; 3] = [&program, &["--package", "fedbo-python"], &WITHOUT];
    for packages in selections {
        for (package, sets) in features(packages, "normal,build") {
            let name = package.split(' ').next().unwrap_or_default();
            if TESTS_ALONE.contains(&name) {
                continue;
            }
            let known = &all[&package];
            assert!(
                sets.is_subset(known),
                "{package} has the features {sets:?} in {packages:?}, and {known:?} in the workspace: add the missing features to \
                 tools/features/Cargo.toml"
            );
        }
    }
}
