//! Experiments, and `fedbo` commands with the problems of the papers.

use crate::sandbox::{Sandbox, json};

#[test]
fn experiments_are_listed() {
    let list = json(Sandbox::new().run(&["list", "--json"]).expect(0, &[]));
    assert_eq!(list[0]["name"], "fts-synthetic");
}

#[test]
fn arguments_are_checked() {
    let sandbox = Sandbox::new();
    sandbox.run(&["run", "nothing"]).expect(2, &["known are fts-synthetic"]);
    sandbox.run(&["run", "fts-landmine"]).expect(2, &["--data DIR"]);
    sandbox
        .run(&["run", "fts-landmine", "--data", "nowhere"])
        .expect(2, &["--data nowhere is not a folder"]);
}

#[test]
fn a_federation_of_wine_sites_runs() {
    let sandbox = Sandbox::new();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/wine.toml");
    let ran = sandbox.run(&["fedbo", "run", file, "--out", "out"]);
    ran.expect(0, &[]);
    assert!(!ran.stderr.contains("failed"), "{}", ran.stderr);
    let rows = std::fs::read_to_string(sandbox.path("out/results.csv")).unwrap();
    assert_eq!(rows.lines().count(), 1 + 8 * 33);
}

#[test]
fn the_data_of_a_problem_are_found_beside_the_file() {
    let sandbox = Sandbox::new();
    let agent = |name: &str, rest: &str| format!("[[agents]]\nname = {name:?}\n{rest}\n");
    let text = "[federation]\nname = \"p\"\nalgorithm = \"fts\"\nrounds = 1\n".to_owned()
        + &agent("f", "problem = \"landmine-svm\"\nfield = 0\ndata = \"nowhere\"")
        + &agent("g", "problem = \"wine-svm\"\nsilo = 1");
    sandbox.write("p.toml", &text);
    let parts = ["agent \"f\"", "there is no folder ./nowhere"];
    sandbox.run(&["fedbo", "run", "p.toml"]).expect(2, &parts);
    assert!(sandbox.path("p.toml").exists());
}
