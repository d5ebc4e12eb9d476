//! Tests of the treatment of points that were evaluated or failed.

use fedbo_optim::{Direct, Function, MultiStart, Points};
use fedbo_space::{ParameterSpec, Space};
use fedbo_strategies::{
    Domain, Maximizer, Repeats, Source, Strategy, StrategyError, ThompsonSampling,
};
use fedbo_testkit::test_stream;

use crate::strategies::common::{AskAlone, line, observed, own, ts, unit_box};

fn strategy(domain: Domain, repeats: Repeats) -> ThompsonSampling {
    let mut settings = own(domain.dim());
    settings.repeats = repeats;
    ts(domain, settings)
}

/// |x − 0.495| on [0, 1]. The maximum is at 1, and the other local maximum is at 0.
struct Valley;

impl Function for Valley {
    fn dim(&self) -> usize {
        1
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        points.rows().map(|x| (x[0] - 0.495).abs()).collect()
    }

    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        gradient[0] = (point[0] - 0.495).signum();
        (point[0] - 0.495).abs()
    }
}

/// On a box, `Allow` proposes the maximizer again, `Avoid` proposes the next best local maximum and
/// then a random point, and `Randomize` immediately proposes a random point. A random point has the
/// source `Random` and is new.
#[test]
fn each_rule_treats_an_evaluated_maximizer_as_documented() {
    let propose = |repeats, evaluated: &[f64]| {
        let mut strategy = strategy(unit_box(1), repeats);
        for x in evaluated {
            strategy.tell(&[observed(&[*x], Some(0.0), Source::Own)]).unwrap();
        }
        let found = strategy
            .propose_maximum(&Valley, Source::Own, &Points::new(1), &mut test_stream(1))
            .unwrap();
        (found.unit[0], found.source)
    };
    for repeats in [Repeats::Allow, Repeats::Avoid, Repeats::Randomize] {
        assert_eq!(propose(repeats, &[]), (1.0, Source::Own));
    }
    assert_eq!(propose(Repeats::Allow, &[1.0]), (1.0, Source::Own));
    assert_eq!(propose(Repeats::Avoid, &[1.0]), (0.0, Source::Own));
    for (repeats, evaluated) in
        [(Repeats::Avoid, [1.0, 0.0].as_slice()), (Repeats::Randomize, &[1.0])]
    {
        let (x, source) = propose(repeats, evaluated);
        assert!(source == Source::Random && x > 0.0 && x < 1.0, "{x}");
    }
}

/// A random replacement keeps the sender of the replaced message.
#[test]
fn a_random_stand_in_keeps_the_sender() {
    let mut strategy = strategy(unit_box(1), Repeats::Randomize);
    strategy.tell(&[observed(&[1.0], Some(0.0), Source::Own)]).unwrap();
    let source = Source::Message { sender: 3 };
    let found =
        strategy.propose_maximum(&Valley, source, &Points::new(1), &mut test_stream(1)).unwrap();
    assert_eq!(found.source, Source::RandomInstead { sender: 3 });
}

/// A finite domain without repeats is visited point by point, without duplicates, until it is
/// exhausted.
#[test]
fn a_finite_domain_is_exhausted_after_its_last_point() {
    for repeats in [Repeats::Avoid, Repeats::Randomize] {
        let mut strategy = strategy(line(12), repeats);
        let mut visited = Vec::new();
        for trial in 0..12 {
            let found = strategy.ask_alone(&mut test_stream(trial)).unwrap();
            assert!(!visited.contains(&found.unit), "{repeats:?} repeats a point");
            let value = (trial % 4 != 0).then_some(found.unit[0]);
            strategy.tell(&[observed(&found.unit, value, found.source)]).unwrap();
            visited.push(found.unit);
        }
        assert_eq!(
            strategy.ask_alone(&mut test_stream(99)),
            Err(StrategyError::Exhausted { n_points: 12 })
        );
    }
}

/// An agent of a federation must make a query in each round. Once every point of a discrete space
/// has been tried, the agent repeats one.
#[test]
fn a_federations_agent_goes_on_when_a_discrete_space_is_used_up() {
    let spec = ParameterSpec::int(1, 4);
    let space = Space::from_specs([("n", &spec)]).unwrap();
    let mut settings = own(1);
    settings.repeats = Repeats::Avoid;
    let mut strategy = ts(Domain::Space(space), settings);
    let mut visited: Vec<Vec<f64>> = Vec::new();
    for trial in 0..9 {
        let found = strategy.ask_alone(&mut test_stream(trial)).unwrap();
        assert!(trial >= 4 || !visited.contains(&found.unit));
        strategy.tell(&[observed(&found.unit, Some(found.unit[0]), found.source)]).unwrap();
        visited.push(found.unit);
    }
}

/// If every point of a finite domain has been evaluated, `Allow` proposes points again, except
/// failed ones. If all points have failed, the domain is exhausted.
#[test]
fn allow_repeats_what_succeeded_only() {
    let mut strategy = strategy(line(6), Repeats::Allow);
    for i in 0..6_u32 {
        let value = (i >= 4).then_some(1.0);
        strategy.tell(&[observed(&[f64::from(i) / 5.0], value, Source::Own)]).unwrap();
    }
    for stream in 0..200 {
        let found = strategy.ask_alone(&mut test_stream(stream)).unwrap();
        assert!(found.unit[0] > 0.7, "{found:?} has failed");
    }
    for x in [0.8, 1.0] {
        strategy.tell(&[observed(&[x], None, Source::Own)]).unwrap();
    }
    assert_eq!(
        strategy.ask_alone(&mut test_stream(0)),
        Err(StrategyError::Exhausted { n_points: 6 })
    );
}

/// The objective fails on half of the square and is best next to the boundary (INV-23). In 30
/// trials, no point is repeated or lies within 0.01 of a failed point in both coordinates, and all
/// numbers are finite.
#[test]
fn failed_points_are_not_proposed_again_and_again() {
    for maximizer in [
        Maximizer::MultiStart(MultiStart::for_dim(2)),
        Maximizer::Direct(Direct { max_evaluations: 500, ..Direct::default() }),
    ] {
        let mut settings = own(2);
        settings.repeats = Repeats::Avoid;
        settings.maximizer = maximizer.clone();
        let mut strategy = ts(unit_box(2), settings);
        let (mut visited, mut failed): (Vec<Vec<f64>>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
        for trial in 0..30 {
            let found = strategy.ask_alone(&mut test_stream(trial)).unwrap();
            let x = found.unit.clone();
            assert!(x.iter().all(|v| (0.0..=1.0).contains(v)), "{x:?}");
            assert!(!visited.contains(&x), "{x:?} again");
            let close = |other: &Vec<f64>| other.iter().zip(&x).all(|(a, b)| (a - b).abs() < 0.01);
            assert!(!failed.iter().any(close), "{x:?} lies beside a failure");
            let value = (x[0] >= 0.5).then(|| -(x[0] - 0.6).powi(2) - (x[1] - 0.5).powi(2));
            if value.is_none() {
                failed.push(x.clone());
            }
            strategy.tell(&[observed(&x, value, found.source)]).unwrap();
            visited.push(x);
        }
        assert!(failed.len() < 30, "nothing succeeded with {maximizer:?}");
    }
}
