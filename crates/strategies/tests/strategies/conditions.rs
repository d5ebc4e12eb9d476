//! Spaces in which some parameters exist only with certain values of others.

use fedbo_space::{OneOf, ParameterSpec, Space, Value};
use fedbo_strategies::{
    Domain, LogEi, LogEiSettings, OutputOption, Points, Source, Strategy, StrategyError,
    SurrogateSettings,
};
use fedbo_streams::{Seed, Stream};
use fedbo_testkit::test_stream;

use crate::strategies::common::{SEED, observed};
use crate::strategies::study::{all_strategies, run};

/// Draws a space of 3 to 9 parameters in which each may depend on earlier discrete ones.
pub(crate) fn random_tree(stream: &mut Stream) -> Space {
    let mut specs: Vec<(String, ParameterSpec)> = Vec::new();
    for index in 0..3 + stream.below(7) {
        let mut spec = match stream.below(4) {
            0 => ParameterSpec::float(-1.0, 2.0),
            1 => ParameterSpec::int(1, 4),
            2 => ParameterSpec::categorical(["a", "b"]),
            _ => ParameterSpec::categorical([2, 4, 8]),
        };
        for _ in 0..stream.below(3) {
            let earlier = specs.get(stream.below(index + 1));
            let Some((parent, its)) = earlier else { continue };
            let values: Vec<Value> = match its.kind.as_str() {
                "float" => continue,
                "int" => vec![2.into(), 3.into()],
                _ => its.choices.clone().unwrap(),
            };
            let chosen = values[stream.below(values.len())].clone();
            let one_of = match stream.below(2) {
                0 => OneOf::One(chosen),
                _ => OneOf::Any(vec![values[0].clone(), values[1].clone()]),
            };
            spec.when.insert(parent.clone(), one_of);
        }
        specs.push((format!("p{index}"), spec));
    }
    Space::from_specs(specs.iter().map(|(name, spec)| (name.as_str(), spec))).unwrap()
}

/// Every proposal of every strategy is a point of the space, in its canonical coordinates.
#[test]
fn every_proposal_has_the_parameters_that_exist() {
    let mut stream = test_stream(11);
    for draw in 0..12 {
        let space = random_tree(&mut stream);
        for (name, mut strategy) in all_strategies(&space) {
            let mut pending = Points::new(space.dim());
            for trial in 0..10 {
                let proposal = match strategy.ask(&pending, &mut stream) {
                    Ok(proposal) => proposal,
                    // A space without floats can have fewer points than trials.
                    Err(StrategyError::Exhausted { .. }) => {
                        assert!(space.n_points().unwrap() <= trial, "{name} in {draw}");
                        break;
                    }
                    Err(error) => panic!("{name} in {draw}: {error}"),
                };
                let point = space.decode(&proposal.unit);
                assert_eq!(space.encode(&point).unwrap(), proposal.unit, "{name} in {draw}");
                run(strategy.as_mut(), trial, &proposal.unit, &mut pending);
            }
        }
    }
}

/// Two models have parameters of their own, and the better one needs all of its own tuned.
#[test]
fn the_better_branch_is_found_and_tuned() {
    let k = ParameterSpec::categorical(["a", "b"]);
    let of = |model: &str| ParameterSpec::float(0.0, 1.0).when("k", model);
    let (a, b) = (of("a"), of("b"));
    let specs = [("k", &k), ("a1", &a), ("a2", &a), ("b1", &b), ("b2", &b), ("b3", &b)];
    let space = Space::from_specs(specs).unwrap();
    let loss = |unit: &[f64]| {
        let point = space.decode(unit);
        let off = |name: &str, best: f64| (point.number(name) - best).powi(2);
        match point.choice("k") {
            "a" => off("a1", 0.2) + off("a2", 0.8) + 0.05,
            _ => off("b1", 0.3) + off("b2", 0.6) + off("b3", 0.9),
        }
    };
    let settings = LogEiSettings {
        surrogate: SurrogateSettings::for_space(&space, false).with_outputs(OutputOption::None),
        augmented: true,
        ..LogEiSettings::for_study(space.dim(), false)
    };
    let domain = Domain::Space(space.clone());
    let mut strategy = LogEi::new(domain, settings, Seed::new(SEED)).unwrap();
    let mut stream = test_stream(2);
    let mut best = f64::INFINITY;
    for trial in 0..40 {
        let unit = match trial {
            0..6 => space.snap(&(0..6).map(|_| stream.uniform()).collect::<Vec<_>>()),
            _ => strategy.ask(&Points::new(6), &mut stream).unwrap().unit,
        };
        let value = loss(&unit);
        best = best.min(value);
        strategy.tell(&[observed(&unit, Some(-value), Source::Own)]).unwrap();
    }
    assert!(best < 1e-3, "{best}");
}
