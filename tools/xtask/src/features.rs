//! Tests, program, benchmarks, Python package and the build without simulation share their compiled dependencies: each has them with the
//! features that the whole workspace gives them.

use std::collections::{BTreeMap, BTreeSet};

use crate::process::cargo;
use crate::production::WITHOUT;

/// Dependencies that may differ: features that proptest needs for tests, with few crates above them, are left out of the program.
const TESTS_ALONE: [&str; 2] = ["regex-automata", "regex-syntax"];

/// The sets of features that each dependency has in a build of these packages, by name and version.
fn features(packages: &[&str], edges: &str) -> BTreeMap<String, BTreeSet<String>> {
    let fixed = ["tree", "--prefix", "none", "--format", "{p} with {f}", "--edges", edges];
    let output = cargo(fixed).args(packages).output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut found = BTreeMap::<String, BTreeSet<String>>::new();
    let printed = String::from_utf8_lossy(&output.stdout);
    for line in printed.lines().filter(|line| !line.is_empty()) {
        let (package, features) = line.split_once(" with").expect("a package and its features");
        let package = package.trim_end_matches(" (proc-macro)");
        // Ours have features of their own.
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
    let selections: [&[&str]; 5] = [
        &program,
        &["--package", "fedbo-cli", "--no-default-features"],
        &["--package", "fedbo-bench"],
        &["--package", "fedbo-python"],
        &WITHOUT,
    ];
    for packages in selections {
        for (package, sets) in features(packages, "normal,build") {
            let name = package.split(' ').next().unwrap_or_default();
            if TESTS_ALONE.contains(&name) {
                continue;
            }
            let known = &all[&package];
            assert!(
                sets.is_subset(known),
                "{package} has the features {sets:?} in {packages:?}, and {known:?} in the workspace: name what is missing in \
                 tools/features/Cargo.toml"
            );
        }
    }
}
