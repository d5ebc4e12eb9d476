//! Compares the landmine objective with scikit-learn's, and the archive with the statements in its
//! README.
//!
//! Run by `cargo xtask test --all`, where the published data is available.

use fedbo_research_problems::{
    DataError, LandmineGrid, LandmineSvm, N_FIELDS, Problem, landmine_archive, read_fields,
};
use fedbo_testkit::published_data;

/// All 29×8×11 points of the reference, computed with scikit-learn 1.9.1, agree within 0.002.
#[test]
#[ignore = "data: run by cargo xtask test --all"]
fn the_objective_is_scikit_learns() {
    let folder = published_data("landmine");
    let fields = read_fields(&folder).unwrap();
    let machines: Vec<LandmineSvm> =
        (0..N_FIELDS).map(|field| LandmineSvm::new(&fields, field).unwrap()).collect();
    let mut reference =
        csv::Reader::from_path(folder.join("landmine/svm_auc_reference.csv")).unwrap();
    let (mut n_points, mut worst, mut n_equal) = (0, (0.0, String::new()), 0);
    for record in reference.records() {
        let record = record.unwrap();
        let number = |column: usize| record[column].parse::<f64>().unwrap();
        let field: usize = record[0].parse().unwrap();
        // C and gamma are computed from x1 and x2 by the papers' definitions, not read from the
        // reference's own columns.
        let (x1, x2) = (number(1), number(2));
        let c = 1e-4 + x1 * (10.0 - 1e-4);
        let gamma = 0.01 + x2 * (10.0 - 0.01);
        let difference = (machines[field].auc(c, gamma).unwrap() - number(5)).abs();
        n_points += 1;
        n_equal += u32::from(difference < 1e-6);
        if difference > worst.0 {
            worst = (difference, format!("{record:?}"));
        }
    }
    assert_eq!(n_points, N_FIELDS * 8 * 11);
    assert!(worst.0 <= 0.002, "{worst:?}, {n_equal} of {n_points} equal");
}

#[test]
#[ignore = "data: run by cargo xtask test --all"]
fn the_objective_through_its_space_is_the_same() {
    use fedbo_objective::{Objective, Outcome, TrialId};
    use fedbo_research_problems::{ProblemSpec, problem};

    let folder = published_data("landmine");
    let fields = read_fields(&folder).unwrap();
    let machine = LandmineSvm::new(&fields, 7).unwrap();
    let spec = ProblemSpec {
        name: "landmine-svm".into(),
        field: Some(7),
        data: Some(folder),
        ..ProblemSpec::default()
    };
    let named = problem(&spec).unwrap();
    assert_eq!(named.name(), "landmine-svm field 7");
    let trial = TrialId { agent: 7, trial: 0 };
    for unit in [[0.0, 0.0], [0.25, 0.75], [1.0, 1.0]] {
        let point = named.space().decode(&unit);
        let expected =
            machine.auc(1e-4 + unit[0] * (10.0 - 1e-4), 0.01 + unit[1] * (10.0 - 0.01)).unwrap();
        assert_eq!(named.evaluate(&point, trial), Outcome::Value(expected));
        assert_eq!(machine.evaluate(&point, trial), Outcome::Value(expected));
    }
}

/// The tables have 29×88 points, and the mean of their best values is the one stated in the README.
#[test]
#[ignore = "data: run by cargo xtask test --all"]
fn the_grids_are_what_their_readme_says() {
    let grids = fedbo_research_problems::read_landmine_grids(&published_data("landmine")).unwrap();
    assert_eq!(grids.len(), N_FIELDS);
    assert!(grids.iter().all(|grid| grid.points().len() == 88));
    let best = |grids: &[LandmineGrid]| {
        let optima: Vec<f64> = grids.iter().filter_map(Problem::optimum).collect();
        optima.iter().sum::<f64>() / optima.len() as f64
    };
    assert!((best(&grids) - 0.7983).abs() < 5e-5);
    assert!((best(&grids[..6]) - 0.8495).abs() < 5e-5);
}

#[test]
#[ignore = "data: run by cargo xtask test --all"]
fn the_data_are_what_their_readme_says() {
    let fields = read_fields(&published_data("landmine")).unwrap();
    let n_rows = |f: &fedbo_research_problems::LandmineField| f.train.len() + f.validation.len();
    assert_eq!(fields.iter().map(n_rows).sum::<usize>(), 14_820);
    for field in &fields {
        assert!((445..=690).contains(&n_rows(field)));
        let n_mines = field.train.n_positive() + field.validation.n_positive();
        assert!((15..=48).contains(&n_mines));
    }
}

#[test]
#[ignore = "data: run by cargo xtask test --all"]
fn the_archive_has_the_shapes_of_its_readme() {
    let folder = published_data("landmine-fts");
    for n_features in [50, 100, 150, 200] {
        let features = landmine_archive::read_features(&folder, n_features).unwrap();
        assert_eq!(features.frequencies.len(), n_features);
        assert_eq!(features.phases.len(), n_features);
        let messages = landmine_archive::read_messages(&folder, n_features).unwrap();
        let fields: Vec<usize> = messages.iter().map(|message| message.field).collect();
        assert_eq!(fields, (0..N_FIELDS).collect::<Vec<_>>());
        assert!(messages.iter().all(|message| message.weights.len() == n_features));
    }
    for n_features in [50, 100] {
        let means = landmine_archive::read_posterior_means(&folder, n_features).unwrap();
        assert_eq!(means.len(), N_FIELDS);
        assert!(means.iter().all(|mean| mean.weights.len() == n_features));
    }
    let initial = landmine_archive::read_initial_points(&folder).unwrap();
    assert_eq!(initial.len(), 53 * 3);
    assert!(initial.iter().all(|point| (0..3).contains(&point.position)));
    assert_eq!(initial.iter().filter(|p| p.field < 6 && p.run < 5).count(), 30 * 3);
    let dp = landmine_archive::read_dp_initial_points(&folder).unwrap();
    assert_eq!(dp.len(), 290 * 10);
    let observed = landmine_archive::read_agent_observations(&folder).unwrap();
    assert_eq!(observed.len(), N_FIELDS * 53);
    assert!(observed.iter().all(|point| (-2..=50).contains(&point.position)));
}

#[test]
fn a_broken_table_is_an_error_that_names_the_line() {
    let header = "field,split,label,f1,f2,f3,f4,f5,f6,f7,f8,f9,mat_row\n";
    let good = "0,train,1,1,2,3,4,5,6,7,8,9,0\n";
    for (text, line, expected) in [
        (
            format!("{header}{good}29,train,1,1,2,3,4,5,6,7,8,9,0\n"),
            3,
            "field = 29, expected 0 to 28",
        ),
        (format!("{header}0,test,1,1,2,3,4,5,6,7,8,9,0\n"), 2, "split = \"test\""),
        (format!("{header}0,train,2,1,2,3,4,5,6,7,8,9,0\n"), 2, "label = 2, expected 0 or 1"),
        (format!("{header}0,train,1,1,x,3,4,5,6,7,8,9,0\n"), 2, "f2 = \"x\", expected a number"),
        (format!("{header}0,train,1,1,NaN,3,4,5,6,7,8,9,0\n"), 2, "expected a finite number"),
        (format!("{header}{good}0,train,1\n"), 3, "record"),
        ("field,split\n0,train\n".to_owned(), 2, "there is no column label"),
        (header.to_owned(), 1, "no rows"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("landmine")).unwrap();
        std::fs::write(folder.path().join("landmine/landmine.csv"), text).unwrap();
        let found = read_fields(folder.path()).unwrap_err();
        let DataError::Malformed { line: found_line, message, path } = &found else {
            panic!("{found}");
        };
        assert_eq!(*found_line, line, "{found}");
        assert!(message.contains(expected), "{found}");
        assert!(path.ends_with("landmine/landmine.csv"));
    }
    let folder = tempfile::tempdir().unwrap();
    let absent = read_fields(folder.path()).unwrap_err();
    assert!(matches!(absent, DataError::Unreadable { .. }));
    assert!(absent.to_string().contains("--data DIR"), "{absent}");
}
