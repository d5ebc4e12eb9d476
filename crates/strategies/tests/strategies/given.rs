//! Queries with given values of some parameters.

use fedbo_space::{ParameterSpec, Point, Space, Value};
use fedbo_strategies::{
    Domain, Points, RandomSearch, Repeats, Source, Strategy, StrategyError, ThompsonSampling,
};
use fedbo_streams::{Seed, Stream};
use fedbo_testkit::test_stream;

use crate::strategies::common::{SEED, line, observed, own, unit_box};
use crate::strategies::conditions::random_tree;
use crate::strategies::rules::random_space;
use crate::strategies::study::{all_strategies, run};

fn random_point(space: &Space, stream: &mut Stream) -> Point {
    space.decode(&Domain::Space(space.clone()).random(stream))
}

/// Returns the values of some parameters of a random point, and the part of the space with them.
fn random_part(space: &Space, stream: &mut Stream) -> (Point, Space) {
    let point = random_point(space, stream);
    let mut given: Vec<(String, Value)> = Vec::new();
    let mut part = space.clone();
    for (name, value) in point.iter() {
        if stream.below(2) == 0 {
            continue;
        }
        let mut longer = given.clone();
        longer.push((name.to_owned(), value.clone()));
        // A parameter can be given only together with the ones that decide whether it exists.
        if let Ok(with) = space.with_given(&Point::new(longer.clone())) {
            (given, part) = (longer, with);
        }
    }
    (Point::new(given), part)
}

/// Every proposal of every strategy has the given values and is a point of the space, and a strategy
/// without a restriction proposes as before.
#[test]
fn every_proposal_has_the_given_values() {
    let mut stream = test_stream(31);
    for draw in 0..16 {
        let space = match draw % 2 {
            0 => random_tree(&mut stream),
            _ => random_space(&mut stream),
        };
        for (name, mut strategy) in all_strategies(&space) {
            let mut pending = Points::new(space.dim());
            for trial in 0..10 {
                let (given, part) = random_part(&space, &mut stream);
                strategy.restrict(Some(&part)).unwrap();
                let proposal = match strategy.ask(&pending, &mut stream) {
                    Ok(proposal) => proposal,
                    // A space without floats can have fewer points than trials.
                    Err(StrategyError::Exhausted { .. }) => {
                        assert!(part.n_points().unwrap() <= trial, "{name} in {draw}");
                        continue;
                    }
                    Err(error) => panic!("{name} in {draw}: {error}"),
                };
                let point = part.decode(&proposal.unit);
                for (parameter, value) in given.iter() {
                    assert_eq!(point.get(parameter), Some(value), "{name} in {draw}");
                }
                let coordinates = part.encode(&point).unwrap();
                assert_eq!(coordinates, proposal.unit, "{name} in {draw}");
                assert_eq!(space.normalize(&point).unwrap(), point, "{name} in {draw}");
                run(strategy.as_mut(), trial, &proposal.unit, &mut pending);
            }
        }
    }
}

/// The best x depends on h. The value also grows with h, so the best value of all trials is out of
/// reach with a small h.
#[test]
fn a_query_is_near_the_best_point_with_the_given_value() {
    let space = match unit_box(2) {
        Domain::Space(space) => space,
        other => panic!("{other:?}"),
    };
    for slope in [0.0, 3.0] {
        for (name, mut strategy) in all_strategies(&space).into_iter().take(3) {
            let mut stream = test_stream(32);
            let mut ask = |strategy: &mut Box<dyn Strategy>, h: f64| {
                let given = Point::new(vec![("x1".to_owned(), h.into())]);
                strategy.restrict(Some(&space.with_given(&given).unwrap())).unwrap();
                let unit = strategy.ask(&Points::new(2), &mut stream).unwrap().unit;
                assert_eq!(unit[1].to_bits(), h.to_bits());
                unit
            };
            let mut of_h = test_stream(33);
            for _ in 0..25 {
                let unit = ask(&mut strategy, of_h.uniform());
                let value = slope * unit[1] - (unit[0] - unit[1]).powi(2);
                strategy.tell(&[observed(&unit, Some(value), Source::Own)]).unwrap();
            }
            let mut missed = 0.0;
            for h in [0.15, 0.5, 0.85] {
                let unit = ask(&mut strategy, h);
                missed += (unit[0] - h).abs() / 3.0;
            }
            assert!(missed < 0.08, "{name} with slope {slope}: {missed}");
        }
    }
}

/// Without a restriction, a strategy proposes as if it had never had one.
#[test]
fn a_restriction_can_be_removed() {
    let space = random_space(&mut test_stream(34));
    for ((name, plain), (_, mut strategy)) in
        all_strategies(&space).into_iter().zip(all_strategies(&space))
    {
        let (_, part) = random_part(&space, &mut test_stream(35));
        strategy.restrict(Some(&part)).unwrap();
        strategy.restrict(None).unwrap();
        let none = Points::new(space.dim());
        let ask = |strategy: &dyn Strategy| strategy.ask(&none, &mut test_stream(36)).unwrap();
        assert_eq!(ask(&*plain), ask(&*strategy), "{name}");
    }
}

/// A discrete space is exhausted only for the given values, and if all parameters are given, the
/// query is that point.
#[test]
fn only_points_with_the_given_values_are_used_up() {
    let specs = [("a", ParameterSpec::int(1, 3)), ("b", ParameterSpec::categorical(["p", "q"]))];
    let space = Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec))).unwrap();
    let part = |text: &str| space.with_given(&serde_json::from_str(text).unwrap()).unwrap();
    let mut stream = test_stream(37);
    for (name, mut strategy) in all_strategies(&space) {
        let none = Points::new(space.dim());
        strategy.restrict(Some(&part(r#"{"a":2,"b":"q"}"#))).unwrap();
        let unit = strategy.ask(&none, &mut stream).unwrap().unit;
        assert_eq!(space.decode(&unit), serde_json::from_str(r#"{"a":2,"b":"q"}"#).unwrap());
        strategy.tell(&[observed(&unit, Some(1.0), Source::Own)]).unwrap();
        strategy.restrict(Some(&part(r#"{"a":2}"#))).unwrap();
        let unit = strategy.ask(&none, &mut stream).unwrap().unit;
        assert_eq!(space.decode(&unit), serde_json::from_str(r#"{"a":2,"b":"p"}"#).unwrap());
        let running = Points::from_rows(space.dim(), [&unit]);
        let error = strategy.ask(&running, &mut stream).unwrap_err();
        assert_eq!(error, StrategyError::Exhausted { n_points: 2 }, "{name}");
        strategy.restrict(Some(&part(r#"{"b":"q"}"#))).unwrap();
        let unit = strategy.ask(&running, &mut stream).unwrap().unit;
        assert_eq!(space.decode(&unit).choice("b"), "q");
        assert_ne!(space.decode(&unit).number("a").to_bits(), 2.0_f64.to_bits());
    }
}

/// A strategy that cannot keep given values refuses them.
#[test]
fn a_finite_domain_and_the_search_of_a_federation_are_refused() {
    let refused = |mut strategy: Box<dyn Strategy>, space: &Space| {
        let error = strategy.restrict(Some(space)).unwrap_err();
        assert_eq!(error, StrategyError::NoGivenValues);
        strategy.restrict(None).unwrap();
    };
    let space = random_tree(&mut test_stream(38));
    refused(Box::new(RandomSearch::new(line(4), Repeats::Avoid).unwrap()), &space);
    let domain = Domain::Space(space.clone());
    let (dim, seed) = (space.dim(), Seed::new(SEED));
    refused(Box::new(ThompsonSampling::new(domain, own(dim), seed).unwrap()), &space);
}
