//! Compares the weight posterior with the authors' stored posterior means (landmine-fts).
//!
//! Run by `cargo xtask test --all`, which has the published data.

#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

use fedbo_gp::{FeatureMap, Form, WeightPosterior};
use fedbo_optim::Points;
use fedbo_research_problems::landmine_archive::{
    ArchivedPoint, read_agent_observations, read_features, read_posterior_means,
};
use fedbo_testkit::published_data;

/// The authors' noise variance σ².
const NOISE: f64 = 1e-6;

/// Returns ‖ν − stored‖/‖stored‖ for observations paired by `pair`.
fn error(map: &FeatureMap, form: Form, (x, y): &(Points, Vec<f64>), stored: &[f64]) -> f64 {
    let posterior = WeightPosterior::in_form(form, map, NOISE, x, y).unwrap();
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>().sqrt();
    let difference = norm(&mut posterior.mean().iter().zip(stored).map(|(a, b)| a - b));
    difference / norm(&mut stored.iter().copied())
}

/// Pairs every query with its own value.
fn paired(queries: &[&ArchivedPoint]) -> (Points, Vec<f64>) {
    let x = Points::from_rows(2, queries.iter().map(|q| q.x));
    (x, queries.iter().map(|q| q.auc).collect())
}

/// Pairs the first 25 queries, each twice, with all 50 values, as in the authors' script.
fn mispaired(queries: &[&ArchivedPoint]) -> (Points, Vec<f64>) {
    let x = Points::from_rows(2, (0..50).map(|i| queries[i / 2].x));
    (x, queries.iter().map(|q| q.auc).collect())
}

/// With the pairing of the authors' script, ν equals theirs to 3e-7 for 25 of the 29 fields (to
/// 1e-8 for most: they invert Σ, which has a condition number near 1e7). With the correct pairing,
/// ν is entirely different. ν also differs for fields 6 to 9, whose observations come from a later
/// run than their messages.
#[test]
#[ignore = "data: run by cargo xtask test --all"]
fn stored_posterior_means_are_reproduced() {
    let folder = published_data("landmine-fts");
    let observations = read_agent_observations(&folder).unwrap();
    for n_features in [50, 100] {
        let features = read_features(&folder, n_features).unwrap();
        let frequencies: Vec<f64> = features.frequencies.into_iter().flatten().collect();
        let map = FeatureMap::new(2, &frequencies, &features.phases, 1.0).unwrap();
        let stored = read_posterior_means(&folder, n_features).unwrap();
        assert_eq!(stored.len(), 29);
        for form in [Form::Primal, Form::Dual] {
            let mut n_within_1e8 = 0;
            for nu in &stored {
                let queries: Vec<&ArchivedPoint> = observations
                    .iter()
                    .filter(|o| o.field == nu.field && o.position >= 1)
                    .collect();
                assert_eq!(queries.len(), 50);
                let theirs = error(&map, form, &mispaired(&queries), &nu.weights);
                let right = error(&map, form, &paired(&queries), &nu.weights);
                let case = format!("M={n_features} {form:?} field {}", nu.field);
                assert!(right > 0.5, "{case}: {right:e} with the right pairing");
                if (6..=9).contains(&nu.field) {
                    assert!(theirs > 0.1, "{case}: {theirs:e}");
                } else {
                    assert!(theirs < 3e-7, "{case}: {theirs:e}");
                    n_within_1e8 += usize::from(theirs < 1e-8);
                }
            }
            assert!(n_within_1e8 >= 22, "{n_within_1e8} of 25 fields within 1e-8");
        }
    }
}
