//! The declared experiments at a small scale: their claims, and independence of threads and
//! repetition.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_experiments::catalogue::{Experiment, ExperimentResult, RunOptions, catalogue, find};
use fedbo_federation::Federation;
use fedbo_objective::FailuresMax;
use fedbo_report::{Difference, RESULTS_FILE, Summary, read_results};
use fedbo_runner::Ended;
use fedbo_runner::federation::{self, ExistingResults, run_federation};
use fedbo_testkit::{made_up, published_data};

fn run(name: &str, runs: u32, threads: usize, out: &Path, stop: bool) -> ExperimentResult {
    let options = RunOptions { runs: Some(runs), ..RunOptions::once(3, out) };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let experiment = find(name).unwrap();
    pool.install(|| experiment.run(&options, &(), &AtomicBool::new(stop))).unwrap()
}

/// Returns the contents of `results.csv` except for the timings.
fn results(folder: &Path) -> Vec<String> {
    let rows = read_results(&folder.join(RESULTS_FILE)).unwrap();
    rows.into_iter()
        .map(|mut row| {
            row.ask_seconds = 0.0;
            format!("{row:?}")
        })
        .collect()
}

/// Data sets that the folder of published data can lack, because they are not from the papers'
/// authors.
const OTHERS: [&str; 2] = ["pima", "spam"];

/// Covers a run that is stopped while its parties are still being prepared.
#[test]
#[ignore = "data: run by cargo xtask test --all"]
fn an_experiment_that_is_stopped_at_once_ends_as_interrupted() {
    let data = Some(published_data("landmine"));
    let has_others =
        |experiment: &Experiment| experiment.data_sets.iter().any(|set| OTHERS.contains(set));
    for experiment in catalogue().iter().filter(|experiment| !has_others(experiment)) {
        let folder = tempfile::tempdir().unwrap();
        let options = RunOptions { data: data.clone(), ..RunOptions::once(3, folder.path()) };
        let result = experiment.run(&options, &(), &AtomicBool::new(true));
        let result = result.unwrap_or_else(|error| panic!("{}: {error:#}", experiment.name));
        assert_eq!(result.ended, Ended::Interrupted, "{}", experiment.name);
        assert!(Summary::read(folder.path()).unwrap().interrupted, "{}", experiment.name);
        assert!(results(folder.path()).is_empty(), "{}", experiment.name);
    }
}

/// Uses a synthetic table with the shape of the patients' table. The table is read, and each run's
/// stages are created, before any computation.
#[test]
fn the_experiment_on_patients_reads_its_table_and_stops() {
    let data = tempfile::tempdir().unwrap();
    std::fs::create_dir(data.path().join("pima")).unwrap();
    std::fs::write(data.path().join("pima/pima.csv"), made_up::patients_csv()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let options =
        RunOptions { data: Some(data.path().to_owned()), ..RunOptions::once(3, folder.path()) };
    let result = find("meta-diabetes").unwrap().run(&options, &(), &AtomicBool::new(true)).unwrap();
    assert_eq!(result.ended, Ended::Interrupted);
    assert!(Summary::read(folder.path()).unwrap().interrupted);
    // The correlations of the stages are computed from the table's own rows.
    let likeness = result.notes.iter().find(|note| note.contains("Correlation of each stage"));
    assert!(likeness.unwrap().contains("log-likelihood"), "{:?}", result.notes);
}

/// FTS section 5.1: with similar agents (d_n = 0.02) that have many observations (t_n = 100) and
/// M = 100, FTS beats TS and the placebo by Student's 95 % interval. With d_n = 1.2, the placebo
/// does as well.
#[test]
fn synthetic_messages_help_when_they_hold_something() {
    let folder = tempfile::tempdir().unwrap();
    let finding = run("fts-synthetic", 8, 2, folder.path(), false);
    assert_eq!(finding.ended, Ended::Complete);
    let difference = |configuration: &str, arm: &str, control: &str| {
        let part =
            finding.summary.configurations.iter().find(|part| part.experiment == configuration);
        let mut all = part.unwrap().differences.iter();
        all.find(|d| d.arm == arm && d.control == control && d.iteration == Some(5))
            .unwrap()
            .clone()
    };
    // Eight runs are too few for a correction over all comparisons of the experiment, so these are
    // three separate comparisons.
    let is_ahead = |found: &Difference| {
        let found = found.estimate.unwrap();
        found.differs_from_zero(found.p_value()) && found.mean < 0.0
    };
    for control in ["ts", "placebo"] {
        let found = difference("d=0.02 t_n=100", "fts M=100", control);
        assert!(is_ahead(&found), "{found:?}");
    }
    let apart = difference("d=1.2 t_n=100", "fts fast p_t", "placebo fast p_t");
    assert!(!is_ahead(&apart), "{apart:?}");
    assert_eq!(Summary::read(folder.path()).unwrap(), finding.summary);
    for picture in ["curves.svg", "curves.png"] {
        assert!(folder.path().join(picture).metadata().unwrap().len() > 10_000, "{picture}");
    }
}

#[test]
fn results_depend_on_the_seed_and_on_nothing_else() {
    let folders: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    run("fts-wine", 1, 1, folders[0].path(), false);
    run("fts-wine", 1, 2, folders[1].path(), false);
    run("fts-wine", 1, 2, folders[2].path(), false);
    let [one, two, again] = [0, 1, 2].map(|i| results(folders[i].path()));
    assert!(one.len() > 700, "{} rows", one.len()); // 3 arms, 8 sites, 33 trials
    assert_eq!(one, two);
    assert_eq!(two, again);
}

/// The declared experiment and the runs of its federation file are equivalent: all values, and all
/// figures that both show, are equal to the last digit.
#[test]
fn the_experiment_on_wine_is_the_runs_of_its_file() {
    const N_RUNS: u32 = 3;
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let declared = run("fts-wine", N_RUNS, 2, folders[0].path(), false).summary;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/wine.toml");
    let federation =
        Federation::load_with_seed(&file, Some(3), &fedbo_research_problems::ResearchProblems)
            .unwrap();
    let options = federation::RunOptions {
        arms: federation
            .arms()
            .iter()
            .filter(|arm| **arm != fedbo_federated::Arm::LOG_EI)
            .cloned()
            .collect(),
        runs: Some(N_RUNS),
        out: folders[1].path().to_path_buf(),
        existing: ExistingResults::Refuse,
        spend_again: false,
        threads: Some(2),
        failures_max: FailuresMax::default(),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let ran = run_federation(&federation, &options, &federation::Quiet, &stop).unwrap();

    let [of_experiment, of_file] = [&folders[0], &folders[1]].map(|folder| {
        let mut rows = results(folder.path());
        for row in &mut rows {
            *row = row.replace("experiment: \"fts-wine\"", "").replace("experiment: \"wine\"", "");
        }
        rows.sort(); // one writes wave by wave, the other agent by agent
        rows
    });
    assert_eq!(of_file.len(), 3 * 8 * 33 * N_RUNS as usize);
    assert_eq!(of_experiment, of_file);

    assert_eq!(declared.arms.len(), ran.summary.arms.len());
    for (ours, theirs) in ran.summary.arms.iter().zip(&declared.arms) {
        assert_eq!((&ours.arm, ours.last), (&theirs.arm, theirs.last));
    }
    let mut n_shared = 0;
    for ours in &ran.summary.differences {
        let theirs = declared.differences.iter().find(|each| {
            (&each.arm, &each.control, each.iteration) == (&ours.arm, &ours.control, ours.iteration)
        });
        if let Some(theirs) = theirs {
            n_shared += 1;
            assert_eq!(ours.estimate, theirs.estimate);
            assert_eq!((ours.interval, ours.p_value), (theirs.interval, theirs.p_value));
        }
    }
    assert_eq!(n_shared, 6, "fts less ts and placebo, at 5, at 10 and at the end");
}

#[test]
fn an_interrupted_experiment_keeps_whole_units_only() {
    let folder = tempfile::tempdir().unwrap();
    let finding = run("fts-wine", 2, 1, folder.path(), true);
    assert_eq!(finding.ended, Ended::Interrupted);
    assert!(results(folder.path()).is_empty());
    assert!(Summary::read(folder.path()).unwrap().arms.is_empty());
}

/// Every data set and file of figures that an experiment names is in the table of data sets, every
/// data set is used by an experiment, and without its data an experiment reports the missing files.
#[test]
fn experiments_and_the_table_of_data_sets_agree() {
    use fedbo_experiments::catalogue::catalogue;
    let sets = fedbo_research_problems::data_sets::data_sets();
    let mut needed: Vec<&str> = Vec::new();
    let empty = tempfile::tempdir().unwrap();
    for experiment in catalogue() {
        for name in experiment.data_sets {
            assert!(sets.iter().any(|set| set.name == *name), "{}: {name}", experiment.name);
        }
        for path in experiment.figures {
            let mut files = sets.iter().flat_map(|set| &set.files);
            assert!(files.any(|file| file.path == *path), "{}: {path}", experiment.name);
        }
        needed.extend(experiment.data_sets.iter().copied());
        if !experiment.needs_data() {
            continue;
        }
        for data in [None, Some(empty.path().to_owned())] {
            let out = tempfile::tempdir().unwrap();
            let out = out.path().join("results");
            let options = RunOptions { data, ..RunOptions::once(3, out) };
            let error = experiment.run(&options, &(), &AtomicBool::new(false)).err().unwrap();
            let error = format!("{error:#}");
            assert!(
                error.contains("`fedbo-research data check DIR`"),
                "{}: {error}",
                experiment.name
            );
        }
    }
    let is_figures = |name: &str| name == "official-results";
    assert!(sets.iter().all(|set| needed.contains(&set.name) || is_figures(set.name)));
}
