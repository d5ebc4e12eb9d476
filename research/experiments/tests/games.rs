//! The game experiments at a small scale, most of them with the authors' published functions.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use fedbo_experiments::catalogue::{ExperimentResult, RunOptions, find};
use fedbo_report::{RESULTS_FILE, Row, Summary, read_results};
use fedbo_runner::Ended;
use fedbo_testkit::published_data;

fn run(runs: u32, threads: usize, out: &Path, stop: bool) -> ExperimentResult {
    let data = Some(published_data("r2b2-synthetic"));
    let options = RunOptions { runs: Some(runs), data, ..RunOptions::once(5, out) };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let experiment = find("games-synthetic").unwrap();
    pool.install(|| experiment.run(&options, &(), &AtomicBool::new(stop))).unwrap()
}

fn rows(folder: &Path) -> Vec<Row> {
    let mut rows = read_results(&folder.join(RESULTS_FILE)).unwrap();
    rows.iter_mut().for_each(|row| row.ask_seconds = 0.0);
    rows
}

/// Checks one run: its rows, the initial rounds shared by all arms, regret and its mean as defined
/// (footnote 5 of thesis chapter 8), the figures, and equal results on one thread.
#[test]
#[ignore = "data: run by cargo xtask test --all"]
fn a_game_is_played_and_written_as_defined() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let finding = run(1, 2, folders[0].path(), false);
    assert_eq!(finding.ended, Ended::Complete);
    let rows = rows(folders[0].path());
    let mut units: BTreeMap<(&str, &str), Vec<&Row>> = BTreeMap::new();
    for row in &rows {
        let unit = (row.experiment.as_str(), row.arm.as_str());
        units.entry(unit).or_default().push(row);
    }
    let mut first_values: BTreeMap<&str, f64> = BTreeMap::new();
    for ((experiment, arm), of_unit) in &units {
        let n_initial = usize::from(!experiment.contains("theorems"));
        assert_eq!(of_unit.len(), 150 + n_initial, "{experiment} {arm}");
        let values: Vec<f64> = of_unit.iter().map(|row| row.value.unwrap()).collect();
        for row in of_unit {
            let (value, regret) = (row.value.unwrap(), row.regret.unwrap());
            if n_initial == 1 {
                assert!((0.0..=1.0).contains(&value) && (value + regret - 1.0).abs() < 1e-9);
            } else {
                assert!((-0.5..=0.5).contains(&value) && (0.0..=1.0).contains(&regret));
            }
            assert_eq!(row.source == "initial", row.iteration < 1);
        }
        if n_initial == 1 {
            let shared = first_values.entry(experiment).or_insert(values[0]);
            assert!((*shared - values[0]).abs() < 1e-15, "{experiment} {arm}");
        }
        let part = finding.summary.configurations.iter();
        let part = part.filter(|part| part.experiment == *experiment);
        let summary = part.flat_map(|part| &part.arms).find(|of| of.arm == *arm);
        let regrets = of_unit.iter().filter(|row| row.iteration > 0);
        let mean = regrets.map(|row| row.regret.unwrap()).sum::<f64>() / 150.0;
        let said = summary.unwrap().last.unwrap().mean;
        assert!((said - mean).abs() < 1e-12, "{experiment} {arm}");
    }
    let n_units = |name: &str| units.keys().filter(|(of, _)| *of == name).count();
    assert_eq!((n_units("general-sum, authors' code"), n_units("constant-sum, EXP3")), (9, 5));
    assert_eq!(n_units("adversary v two, standardized"), 9);
    for name in ["curves", "levels", "wrong-beliefs", "three-agents"] {
        let png = folders[0].path().join(format!("{name}.png"));
        assert!(png.metadata().unwrap().len() > 10_000, "{name}");
    }
    let read = Summary::read(folders[0].path()).unwrap();
    assert_eq!(read, finding.summary);
    run(1, 1, folders[1].path(), false);
    assert!(rows == self::rows(folders[1].path()));
}

#[test]
#[ignore = "data: run by cargo xtask test --all"]
fn an_interrupted_experiment_keeps_whole_matches_only() {
    let folder = tempfile::tempdir().unwrap();
    let finding = run(1, 1, folder.path(), true);
    assert_eq!(finding.ended, Ended::Interrupted);
    assert!(rows(folder.path()).is_empty() && finding.notes.is_empty());
    assert!(Summary::read(folder.path()).unwrap().interrupted);
}

#[test]
fn without_data_the_message_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let options = RunOptions::once(5, folder.path());
    let experiment = find("games-synthetic").unwrap();
    let error = experiment.run(&options, &(), &AtomicBool::new(false));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("--data DIR") && error.contains("fedbo-research data check"), "{error}");
}
