//! Tests that concurrent trials are spread out: a model that is certain of a minimum sends two of
//! them there, not all.

#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use fedbo_space::{ParameterSpec, Point};
use fedbo_study::{Definition, StrategySpec, Study};

/// Distance in each coordinate within which points count as neighbours: .02 of the side length,
/// which is 2.
const RADIUS: f64 = 0.04 + 1e-12;
/// Number of running neighbours beyond which no further trial is proposed.
const CROWD: usize = 2;

fn definition(strategy: StrategySpec) -> Definition {
    Definition::new("batch")
        .parameter("x", ParameterSpec::float(-1.0, 1.0))
        .parameter("y", ParameterSpec::float(-1.0, 1.0))
        .strategy(strategy)
        .minimize()
        .seed(11)
}

fn bowl(point: &Point) -> f64 {
    (point.number("x") - 0.3).powi(2) + (point.number("y") + 0.4).powi(2)
}

/// Returns the points of a batch in a study that is certain of its minimum.
fn batch(definition: &Definition, n: usize) -> Vec<Point> {
    let study = Study::in_memory(definition).unwrap();
    study.optimize(25, |point| Ok(bowl(point))).unwrap();
    assert!(study.best().unwrap().unwrap().value().unwrap() < 1e-3);
    study.ask_many(n).unwrap().into_iter().map(|trial| trial.point).collect()
}

/// Returns the maximum number of earlier neighbours that a point has.
fn most_beside(points: &[Point]) -> usize {
    let is_beside = |a: &Point, b: &Point| {
        ["x", "y"].iter().all(|name| (a.number(name) - b.number(name)).abs() <= RADIUS)
    };
    let beside =
        |last: usize| points[..last].iter().filter(|p| is_beside(p, &points[last])).count();
    (0..points.len()).map(beside).max().unwrap()
}

#[test]
fn a_certain_model_spreads_a_batch() {
    for strategy in [StrategySpec::log_ei(), StrategySpec::gp_ucb(), StrategySpec::ts()] {
        let points = batch(&definition(strategy), 40);
        let beside = most_beside(&points);
        assert!(beside < CROWD, "{strategy:?}: {beside} beside a point of {points:?}");
        let best = points.iter().map(bowl).fold(f64::INFINITY, f64::min);
        assert!(best < 1e-2, "{strategy:?}: {best}");
    }
}

/// The spreading rule does not lose queries in a discrete space: every point is proposed.
#[test]
fn a_batch_can_be_a_whole_discrete_space() {
    let definition = Definition::new("grid")
        .parameter("n", ParameterSpec::int(1, 200))
        .strategy(StrategySpec::log_ei())
        .minimize();
    let study = Study::in_memory(&definition).unwrap();
    study.optimize(12, |point| Ok((point.number("n") - 70.0).powi(2))).unwrap();
    let asked = study.ask_many(188).unwrap();
    let trials = study.trials().unwrap();
    let mut numbers: Vec<f64> = trials.iter().map(|trial| trial.point.number("n")).collect();
    numbers.sort_by(f64::total_cmp);
    assert_eq!(numbers, (1..=200).map(f64::from).collect::<Vec<f64>>());
    assert_eq!(asked.len(), 188);
}
