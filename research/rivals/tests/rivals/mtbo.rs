//! Multi-task Bayesian optimization.

use fedbo_rivals::{Mtbo, MtboSettings};
use fedbo_space::{ParameterSpec, Space};
use fedbo_strategies::meta::MetaTask;
use fedbo_strategies::{Domain, Observation, Points, Source, Strategy};
use fedbo_streams::Seed;
use fedbo_testkit::{test_stream, uniform_points};

/// Returns a task on the unit square with its optimum at (0.3, 0).
fn task() -> MetaTask {
    let inputs = uniform_points(12, 2, &mut test_stream(20));
    MetaTask {
        name: "task 0".into(),
        outputs: inputs.rows().map(|x| -(x[0] - 0.3).powi(2) - x[1]).collect(),
        inputs,
    }
}

/// Returns the first trials of a study with its optimum at (0.35, 0). One trial failed.
fn observations(n: usize, failed: usize) -> Vec<Observation> {
    let inputs = uniform_points(n, 2, &mut test_stream(40));
    let trials = inputs.rows().enumerate();
    let observation = |(number, x): (usize, &[f64])| {
        Observation::new(
            x.to_vec(),
            (number != failed).then(|| -(x[0] - 0.35).powi(2) - x[1]),
            match number < 3 {
                true => Source::Initial,
                false => Source::Own,
            },
        )
    };
    trials.map(observation).collect()
}

/// Uses a joint model of the target, a task equal to it, and a task that is its negative. The first
/// query is at the optimum of the first task, and the correlations have the right signs.
/// Observations told in parts give the same query.
#[test]
fn multi_task_optimization_learns_from_what_is_alike() {
    let spec = ParameterSpec::float(0.0, 1.0);
    let space = Space::from_specs([("a", &spec), ("b", &spec)]).unwrap();
    let mut negative = task();
    negative.name = "negative".into();
    negative.outputs.iter_mut().for_each(|y| *y = -*y);
    let tasks = [task(), negative];
    let settings = MtboSettings::for_study(2, false);
    let fresh =
        || Mtbo::new(Domain::Space(space.clone()), &tasks, settings.clone(), Seed::new(1)).unwrap();
    let told = observations(8, 3);
    let (mut whole, mut parts) = (fresh(), fresh());
    whole.tell(&told).unwrap();
    told.chunks(3).for_each(|chunk| parts.tell(chunk).unwrap());
    let next = |s: &Mtbo| s.ask(&Points::new(2), &mut test_stream(8)).unwrap().unit;
    assert_eq!(next(&whole), next(&parts));
    let found = next(&whole);
    assert!((found[0] - 0.35).abs() < 0.1 && found[1] < 0.1, "{found:?}");
    let mut pending = Points::new(2);
    pending.push(&found);
    let other = whole.ask(&pending, &mut test_stream(8)).unwrap().unit;
    assert_ne!(found, other);
    assert!(Mtbo::new(Domain::Space(space), &[], settings, Seed::new(1)).is_err());
}
