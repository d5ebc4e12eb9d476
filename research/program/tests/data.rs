//! A data folder is made from an original, checked, and not overwritten by accident.

use crate::sandbox::{Sandbox, json};

/// 29 small fields with made-up numbers, written by scipy
/// (research/problems/tests/originals/make.py).
const ORIGINAL: &[u8] = include_bytes!("../../problems/tests/originals/small.mat");
const TABLE: &str = include_str!("../../problems/tests/originals/small.csv");

#[test]
fn a_folder_is_made_checked_and_not_overwritten() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("LandmineData.mat"), ORIGINAL).unwrap();
    let convert = ["data", "convert", "landmine", "LandmineData.mat", "--out", "made"];
    let ran = sandbox.run(&convert);
    let expected =
        format!("wrote made/landmine/landmine.csv ({} rows)\n", TABLE.lines().count() - 1);
    assert_eq!(ran.expect(0, &[]).stdout, expected);
    let table = sandbox.path("made/landmine/landmine.csv");
    assert_eq!(std::fs::read_to_string(&table).unwrap(), TABLE);

    // A clone of a repository works like the file itself. Existing files are kept.
    std::fs::write(&table, "mine").unwrap();
    let again = ["data", "convert", "landmine", ".", "--out", "made"];
    sandbox.run(&again).expect(2, &["made/landmine/landmine.csv already exists", "--overwrite"]);
    assert_eq!(std::fs::read_to_string(&table).unwrap(), "mine");
    let ran = sandbox.run(&[&again[..], &["--overwrite", "--json"]].concat());
    assert_eq!(json(ran.expect(0, &[]))["files"][0], "made/landmine/landmine.csv");
    assert_eq!(std::fs::read_to_string(&table).unwrap(), TABLE);
    let entries = std::fs::read_dir(sandbox.path("made/landmine")).unwrap().count();
    assert_eq!(entries, 1, "no temporary file is left");

    let ran = sandbox.run(&["data", "check", "made", "--json"]);
    let found = json(ran.expect(0, &[]));
    let of = |list: &str, name: &str| {
        let mut all = found[list].as_array().unwrap().iter();
        all.find(|each| each["name"] == name).unwrap().clone()
    };
    assert_eq!(found["schema_version"], 1);
    assert_eq!(of("data_sets", "landmine")["state"], "complete");
    assert_eq!(of("data_sets", "landmine")["files"][0]["rows"], TABLE.lines().count() - 1);
    assert_eq!(of("data_sets", "meta-bo")["state"], "missing");
    assert_eq!(of("experiments", "shared-prior")["runs"], true);
    assert_eq!(of("experiments", "fts-landmine")["lacks"], serde_json::json!(["landmine-fts"]));
    assert_eq!(of("experiments", "dp-landmine")["runs"], true);
    let figures = "official-results/dpftsde_privacy_utility_from_figure.csv";
    assert_eq!(of("experiments", "dp-landmine")["without_figures"], serde_json::json!([figures]));

    // A malformed file is reported with its line, and the exit code is 2 even if other data sets
    // are complete.
    let broken = TABLE.replacen("0,train,", "0,trial,", 1);
    let line = broken.lines().position(|line| line.starts_with("0,trial,")).unwrap() + 1;
    std::fs::write(&table, &broken).unwrap();
    let ran = sandbox.run(&["data", "check", "made", "--json"]);
    let found = json(ran.expect(2, &[]));
    let set = &found["data_sets"][0];
    assert_eq!((&set["state"], &set["files"][0]["line"]), (&"malformed".into(), &line.into()));
    let message = set["files"][0]["message"].as_str().unwrap();
    assert_eq!(message, "split = \"trial\", expected train or validation");

    sandbox.write("plain", "a file");
    let into_file = ["data", "convert", "landmine", "LandmineData.mat", "--out", "plain"];
    sandbox.run(&into_file).expect(4, &["cannot create the folder plain/landmine"]);
}
